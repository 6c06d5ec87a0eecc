//! Whole primitives.

use super::*;
use crate::backend::plan_tests;
use crate::op::Attr;
use crate::op::arg::Arg;
use crate::op::host::{self, HostArg, HostOp};
use smallvec::smallvec;

/// Dense values of a shape, finite.
pub fn values(random: &mut Random, dtype: DType, sizes: &[i64]) -> Array {
    let n = crate::shape::numel(sizes) as usize;
    Array { ty: Ty::new(dtype, sizes), ..numbers(random, dtype, n, false) }
}

pub fn node(op: Op, attrs: Attrs, reads: Vec<Array>) -> Case {
    let types: Vec<&Ty> = reads.iter().map(|a| &a.ty).collect();
    let outs = op.infer(&types, &attrs).unwrap();
    Case::node(op, attrs, reads, &outs)
}

/// The operand in the same place of a case, lying in memory as `lay` says.
pub fn lay_out(case: &mut Case, n: usize, lay: Lay) {
    let (operand, values) = &mut case.reads[n];
    let (layout, len) = layout(lay, &operand.layout.sizes);
    *values = numbers(&mut Random::new(n as u64 + 5), operand.dtype, len, false);
    operand.layout = layout;
}

/// Differences of up to `steps` roundings at the size of the largest number of a result.
pub fn check_close(case: &Case, steps: f64) {
    let (got, expected) = case.both();
    let sizes: Vec<f64> =
        expected.iter().map(|a| if a.ty.dtype.is_float() { largest(a) } else { 0.0 }).collect();
    for got in [got, case.run(portable()).unwrap()] {
        case.compare(&got, &expected, |k, i| {
            let dtype = expected[k].ty.dtype;
            steps * compute_epsilon(dtype) * sizes[k]
                + 2.0 * epsilon(dtype) * expected[k].f64(i).abs()
                + tiny(dtype)
        });
    }
}

/// q, k, v as they lie in `[b, t, 3, h, d]`.
pub fn heads_side_by_side(dtype: DType) -> Case {
    let sizes = [2i64, 9, 3, 4, 8];
    let mut random = Random::new(6);
    let all = values(&mut random, dtype, &sizes);
    let base = Layout::contiguous(&sizes).transpose(&[0, 3, 1, 4, 2]);
    let part = |n: i64| {
        let l = base.slice(&[0, 0, 0, 0, n], &[2, 4, 9, 8, 1], &[1; 5]);
        Layout { sizes: l.sizes[..4].into(), strides: l.strides[..4].into(), offset: l.offset }
    };
    let dense = values(&mut random, dtype, &[2, 4, 9, 8]);
    let number = Array::zeros(&Ty::new(DType::I64, &[]));
    let attrs = smallvec![Attr::Float(0.3), Attr::Bool(true), Attr::Float(0.0)];
    let mut case = node(
        Op::Attention,
        attrs,
        vec![dense.clone(), dense.clone(), dense, number.clone(), number],
    );
    for n in 0..3 {
        case.reads[n].0.layout = part(n as i64);
        case.reads[n].1 = all.clone();
    }
    case
}

#[test]
fn attention_reads_heads_side_by_side() {
    check_close(&heads_side_by_side(DType::F32), 300.0);
}

#[test]
fn cpu_fallbacks_run_on_the_calling_thread() {
    let caller = std::thread::current().id();
    let id = host::register(HostOp {
        name: "test::checks_the_thread".into(),
        key: "test::checks_the_thread cpu".into(),
        function: Box::new(move |args, outs| {
            let [HostArg::Tensor(x), HostArg::Int(7)] = args else {
                return crate::internal!("arguments {args:?}");
            };
            assert_eq!(std::thread::current().id(), caller);
            assert_eq!(
                (x.sizes.as_slice(), outs[0].sizes.as_slice()),
                ([2i64, 3].as_slice(), [2i64, 3].as_slice())
            );
            crate::invalid!("the host says no")
        }),
        shape: None,
        cuda: None,
        device_function: None,
    });
    let ty = Ty::new(DType::F32, &[2, 3]);
    let args = Attr::Args(vec![Arg::Tensor(()), Arg::Int(7)]);
    let attrs = [Attr::Int(id as i64), Attr::Types(vec![ty.clone()]), args].into_iter().collect();
    let case =
        Case::node(Op::Host, attrs, vec![values(&mut Random::new(12), DType::F32, &[2, 3])], &[ty]);
    assert!(case.run(cpu(2)).unwrap_err().message.contains("the host says no"));
}

#[test]
fn halves_are_rounded_for_their_readers() {
    plan_tests::halves_are_rounded_for_their_readers(portable());
    code::without(|| plan_tests::halves_are_rounded_for_their_readers(portable()));
}

#[test]
fn rows_between_maps() {
    plan_tests::rows_between_maps(portable());
    code::without(|| plan_tests::rows_between_maps(portable()));
}
