//! Effects run, in order, whether or not somebody wants a result; their errors are told once, to whom they concern.

use super::tests::{context, floats, scale, stored, view};
use super::{BufferId, Context};
use crate::error::{Code, Error};
use crate::op::host::{HostArg, HostOp, HostTensor, register};
use crate::record::{Operator, ScalarKind};
use crate::trace::{Call, Given, Located};
use parking_lot::Mutex;
use std::sync::Arc;

const BACKENDS: [&str; 2] = ["cpu", "reference"];

/// A host operator that notes its number, and refuses negative ones.
fn noting(key: &str) -> (Operator, Arc<Mutex<Vec<f64>>>) {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let ours = noted.clone();
    let function = move |args: &[HostArg], _: &[HostTensor]| {
        let [HostArg::Tensor(_), HostArg::Scalar { bits, .. }] = args else { panic!("{args:?}") };
        let number = f64::from_bits(*bits);
        ours.lock().push(number);
        match number < 0.0 {
            true => Err(Error::new(Code::ValueError, format!("{number} is negative"))),
            false => Ok(()),
        }
    };
    let op = register(HostOp {
        name: "tests::note".into(),
        key: format!("failures tests, {key}"),
        function: Box::new(function),
        shape: None,
        cuda: None,
        device_function: None,
    });
    (Operator::Host(op), noted)
}

fn note(context: &Context, op: Operator, x: BufferId, number: f64, outs: &[BufferId]) {
    let view = view(4);
    let outs: Vec<Located> = outs.iter().map(|&out| Located::new(out, &view)).collect();
    let scalar = Given::Scalar { kind: ScalarKind::Float, bits: number.to_bits() };
    let args = [Given::Tensor(Located::new(x, &view)), scalar];
    context.record(&Call { op, args: &args, outs: &outs }).unwrap();
}

fn said(result: crate::error::Result<()>) -> String {
    result.map_or_else(|error| error.message, |()| "nothing".into())
}

#[test]
fn effects_run_in_order_alone_and_again() {
    for backend in BACKENDS {
        let context = context(backend, 0, 0);
        let (op, noted) = noting(&format!("order {backend}"));
        let x = stored(&context, 4, 1.0);
        for full in [false, true, true] {
            let y = context.new_buffer(16);
            note(&context, op, x, 1.0, &[]);
            scale(&context, x, 3.0, y, 4);
            note(&context, op, y, 3.0, &[]);
            note(&context, op, y, 3.0, &[]);
            context.drop_buffer(y);
            if full {
                context.cut().unwrap()
            } else {
                context.request(x).unwrap()
            }
            context.sync().unwrap();
            assert_eq!(std::mem::take(&mut *noted.lock()), [1.0, 3.0, 3.0]);
        }
        assert!(context.shared.stats.replayed_ops.get() >= 4);
    }
}

#[test]
fn an_effect_that_fails_is_told_to_the_next_who_looks() {
    for backend in BACKENDS {
        let context = context(backend, 0, 0);
        let (op, noted) = noting(&format!("fails {backend}"));
        let x = stored(&context, 4, 2.0);
        note(&context, op, x, -1.0, &[]);
        note(&context, op, x, 2.0, &[]);
        let y = context.new_buffer(16);
        scale(&context, x, 2.0, y, 4);
        let error = context.read(y, 0, &mut [0; 16]).unwrap_err();
        assert_eq!(error.code, Code::ValueError);
        assert_eq!(error.message, "tests::note: -1 is negative");
        assert_eq!((floats(&context, y, 4), noted.lock().len()), (vec![4.0; 4], 2));
        assert_eq!(said(context.sync()), "nothing");
    }
}

#[test]
fn results_that_nobody_kept_are_computed_and_their_errors_told_by_a_sync() {
    for backend in BACKENDS {
        let context = context(backend, 0, 0);
        let (op, noted) = noting(&format!("dropped {backend}"));
        let x = stored(&context, 4, 2.0);
        for _ in 0..2 {
            let gone = context.new_buffer(16);
            note(&context, op, x, -1.0, &[gone]);
            context.drop_buffer(gone);
        }
        let y = context.new_buffer(16);
        scale(&context, x, 2.0, y, 4);
        assert_eq!(floats(&context, y, 4), [4.0; 4]);
        // Alike, and recorded nowhere: said once.
        assert_eq!(said(context.sync()), "tests::note: -1 is negative");
        assert_eq!(noted.lock().len(), 2);
        assert_eq!(said(context.sync()), "nothing");
    }
}

#[test]
fn a_failed_update_is_told_where_its_old_value_is_read_or_used() {
    for backend in BACKENDS {
        let context = context(backend, 0, 0);
        let (op, _) = noting(&format!("update {backend}"));
        let (x, other) = (stored(&context, 4, 5.0), stored(&context, 4, 2.0));
        let (y, z) = (context.new_buffer(16), context.new_buffer(16));
        note(&context, op, x, -1.0, &[x]);
        context.cut().unwrap();
        scale(&context, x, 2.0, y, 4);
        scale(&context, other, 2.0, z, 4);
        context.cut().unwrap();
        assert_eq!(floats(&context, z, 4), [4.0; 4]);
        assert_eq!(said(context.read_after_cut(y, 0, &mut [0; 16])), "tests::note: -1 is negative");
        assert_eq!(said(context.read(y, 0, &mut [0; 16])), "tests::note: -1 is negative");
        assert_eq!((floats(&context, x, 4), floats(&context, y, 4)), (vec![5.0; 4], vec![10.0; 4]));
        assert_eq!(said(context.sync()), "nothing");
    }
}

#[test]
fn one_message_has_all_errors_and_more_of_them_than_are_kept_concern_everybody_they_must() {
    let context = context("cpu", 0, 0);
    let (op, _) = noting("many");
    let tensors: Vec<BufferId> = (0..20).map(|_| stored(&context, 4, 1.0)).collect();
    for (n, &x) in tensors.iter().enumerate() {
        note(&context, op, x, -1.0 - n as f64, &[x]);
        context.cut().unwrap();
    }
    context.launcher.wait().unwrap();
    // The last ones have no place of their own, but their old values are not read without a word.
    let error = said(context.read(tensors[19], 0, &mut [0; 16]));
    assert_eq!(error, "tests::note: -16 is negative");
    let all = said(context.sync());
    assert!(
        all.starts_with("tests::note: -1 is negative\nand later:\ntests::note: -2 is"),
        "{all}"
    );
    assert_eq!(all.lines().count(), 16);
    assert_eq!(said(context.sync()), "nothing");
}
