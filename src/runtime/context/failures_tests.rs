//! Effects run, in order, whether or not somebody wants a result; their errors are reported once, to whom they concern.

use super::tests::{context, floats, scale, stored, view};
use super::{BufferId, Context};
use crate::dtype::DType;
use crate::error::{Code, Error};
use crate::op::arg::ScalarKind;
use crate::op::host::{HostArg, HostOp, HostTensor, register};
use crate::record::{Operator, View};
use crate::shape::Layout;
use crate::trace::{ArgRef, Call, TensorRef};
use parking_lot::Mutex;
use std::sync::Arc;

const BACKENDS: [&str; 2] = ["cpu", "reference"];

/// A host operator that notes its number, and refuses negative ones.
fn noting(key: &str) -> (Operator, Arc<Mutex<Vec<f64>>>) {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let ours = noted.clone();
    let function = move |args: &[HostArg], _: &[HostTensor]| {
        let [HostArg::Tensor(_), HostArg::Scalar { number: bits, .. }] = args else {
            panic!("{args:?}")
        };
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
    let outs: Vec<TensorRef> = outs.iter().map(|&out| TensorRef::new(out, &view)).collect();
    let scalar = ArgRef::Scalar { kind: ScalarKind::Float, bits: number.to_bits() };
    let args = [ArgRef::Tensor(TensorRef::new(x, &view)), scalar];
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
        assert!(context.shared.observed.stats.replayed_ops.get() >= 4);
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
    // The last ones have no call site of their own, but their old values are not read without a word.
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

fn line(dtype: DType, n: i64) -> View {
    View { dtype, layout: Layout::contiguous(&[n]) }
}

/// A buffer of numbers of i64.
fn integers(context: &Context, numbers: &[i64]) -> BufferId {
    let id = context.new_buffer(8 * numbers.len());
    let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    context.write(id, &bytes).unwrap();
    id
}

/// `name(x[4], 0, index[2])`, or with the first two of x as a source too; the result of `n` numbers.
fn indexed(context: &Context, name: &str, x: BufferId, index: BufferId, n: i64) -> BufferId {
    let op = Operator::Native(crate::aten::find(name).unwrap());
    let (of_x, of_index, of_out, half) = (view(4), line(DType::I64, 2), view(n), view(2));
    let source = (n == 4).then(|| ArgRef::Tensor(TensorRef::new(x, &half)));
    let tensors = [TensorRef::new(x, &of_x), TensorRef::new(index, &of_index)].map(ArgRef::Tensor);
    let [x, index] = tensors;
    let args: Vec<ArgRef> = [x, ArgRef::Int(0), index].into_iter().chain(source).collect();
    let out = context.new_buffer(4 * n as usize);
    context.record(&Call { op, args: &args, outs: &[TensorRef::new(out, &of_out)] }).unwrap();
    out
}

/// The same, whose result nobody keeps.
fn drop_indexed(context: &Context, name: &str, x: BufferId, index: BufferId, n: i64) {
    let out = indexed(context, name, x, index, n);
    context.drop_buffer(out);
}

const IN_SELF: &str =
    "index out of range in self: index 4 is out of bounds for dimension 0 with size 4";
const IN_DIMENSION: &str = "index 4 is out of bounds for dimension 0 with size 4";

#[test]
fn numbers_are_refused_though_nobody_wants_what_comes_of_them() {
    for backend in BACKENDS {
        let context = context(backend, 0, 0);
        let x = stored(&context, 4, 2.0);
        let (good, bad) = (integers(&context, &[3, 0]), integers(&context, &[3, 4]));
        let cases = [
            ("aten::index_select", 2, IN_SELF),
            ("aten::gather", 2, IN_DIMENSION),
            ("aten::scatter.src", 4, IN_DIMENSION),
            ("aten::index_add", 4, IN_SELF),
        ];
        for (name, n, words) in cases {
            // Of a trace that is nothing else, and when it comes again.
            for _ in 0..2 {
                drop_indexed(&context, name, x, good, n);
                assert_eq!(said(context.sync()), "nothing", "{name}");
                drop_indexed(&context, name, x, bad, n);
                let error = context.sync().unwrap_err();
                assert_eq!(error.code, Code::IndexError);
                let plain = name.split('.').next().unwrap();
                assert_eq!(error.message, format!("{plain}: {words}"));
                assert_eq!(said(context.sync()), "nothing", "{name}");
            }
            // Beside what somebody wants, which is there.
            let y = context.new_buffer(16);
            drop_indexed(&context, name, x, bad, n);
            scale(&context, x, 2.0, y, 4);
            assert_eq!(floats(&context, y, 4), [4.0; 4]);
            assert_eq!(context.sync().unwrap_err().code, Code::IndexError);
        }
    }
}

/// `name(a[2], b[2])`, whose result nobody keeps.
fn drop_divided(context: &Context, name: &str, a: BufferId, divisor: ArgRef) {
    let op = Operator::Native(crate::aten::find(name).unwrap());
    let (view, out) = (line(DType::I64, 2), context.new_buffer(16));
    let args = [ArgRef::Tensor(TensorRef::new(a, &view)), divisor];
    context.record(&Call { op, args: &args, outs: &[TensorRef::new(out, &view)] }).unwrap();
    context.drop_buffer(out);
}

#[test]
fn a_division_by_zero_is_refused_though_nobody_wants_the_quotient() {
    for backend in BACKENDS {
        let context = context(backend, 0, 0);
        let (a, zero) = (integers(&context, &[7, 8]), integers(&context, &[1, 0]));
        let of_zero = line(DType::I64, 2);
        let number = |n: u64| ArgRef::Scalar { kind: ScalarKind::Int, bits: n };
        for name in ["floor_divide", "remainder", "fmod"] {
            let (by_tensor, by_number) =
                (format!("aten::{name}.Tensor"), format!("aten::{name}.Scalar"));
            drop_divided(&context, &by_number, a, number(2));
            assert_eq!(said(context.sync()), "nothing", "{name}");
            let words = format!("aten::{name}: ZeroDivisionError: integer division by zero");
            drop_divided(&context, &by_number, a, number(0));
            assert_eq!(said(context.sync()), words);
            drop_divided(&context, &by_tensor, a, ArgRef::Tensor(TensorRef::new(zero, &of_zero)));
            assert_eq!(said(context.sync()), words);
        }
    }
}

/// A check costs nothing where results are wanted, and little where they are not.
#[test]
fn checks_are_made_only_of_what_is_dropped() {
    let context = context("cpu", 0, 0);
    let x = stored(&context, 4, 2.0);
    let index = integers(&context, &[3, 0]);
    let (stats, of_x) = (&context.shared.observed.stats, view(4));
    let kept = indexed(&context, "aten::index_select", x, index, 2);
    assert_eq!(floats(&context, kept, 2), [2.0; 2]);
    assert_eq!(stats.kernels.get(), 1);
    // Nothing that cannot fail runs for nobody, though there are indices in it.
    let gone = context.new_buffer(16);
    scale(&context, x, 2.0, gone, 4);
    let flip = Operator::Native(crate::aten::find("aten::flip").unwrap());
    let args = [ArgRef::Tensor(TensorRef::new(gone, &of_x)), ArgRef::Ints(&[0])];
    context.record(&Call { op: flip, args: &args, outs: &[TensorRef::new(gone, &of_x)] }).unwrap();
    context.drop_buffer(gone);
    context.sync().unwrap();
    assert_eq!((stats.kernels.get(), stats.compiles.get()), (1, 1));
    // Nor do the gathers of a search, whose places are in range whatever the numbers are.
    let gone = context.new_buffer(32);
    let search = Operator::Native(crate::aten::find("aten::bucketize.Tensor").unwrap());
    let args = [ArgRef::Tensor(TensorRef::new(x, &of_x)), ArgRef::Tensor(TensorRef::new(x, &of_x))];
    let out = line(DType::I64, 4);
    context.record(&Call { op: search, args: &args, outs: &[TensorRef::new(gone, &out)] }).unwrap();
    context.drop_buffer(gone);
    context.sync().unwrap();
    assert_eq!((stats.kernels.get(), stats.compiles.get()), (1, 1));
}

/// A trace that comes again asks for no places.
#[test]
fn an_error_says_whether_its_place_is_that_of_an_earlier_trace() {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    for backend in BACKENDS {
        let context = context(backend, 0, 0);
        let places = AtomicU64::new(0);
        context.set_locator(Box::new(move || places.fetch_add(1, SeqCst) + 1));
        let (op, _) = noting(&format!("places {backend}"));
        let x = stored(&context, 4, 2.0);
        let failed = |numbers: &[f64]| {
            numbers.iter().for_each(|&number| note(&context, op, x, number, &[]));
            let error = context.sync().unwrap_err();
            (error.site, error.message)
        };
        let words = |number: i64| format!("tests::note: {number} is negative");
        let earlier =
            "\n  (an earlier step recorded the same; the place is that of its first time)";
        let (first, message) = failed(&[1.0, -1.0]);
        assert_eq!((first, message), (2, words(-1)));
        assert_eq!(failed(&[1.0, -1.0]), (first, words(-1) + earlier));
        // One that goes on has places of its own, from there on only.
        let (own, message) = failed(&[1.0, 2.0, -3.0]);
        assert!(own > first);
        assert_eq!(message, words(-3));
        assert_eq!(failed(&[1.0, -2.0, 3.0]), (first, words(-2) + earlier));
        assert_eq!(failed(&[1.0, 2.0, -3.0]), (own, words(-3) + earlier));
    }
}
