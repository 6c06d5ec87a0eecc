//! Reductions with a fused prologue.

use super::*;
use crate::op::Attr;
use crate::plan::{Instr, LoopBody};
use smallvec::smallvec;

const OPS: [Op; 6] = [Op::Sum, Op::Prod, Op::ReduceMax, Op::ReduceMin, Op::Any, Op::All];

/// `op` over `axes` of x, or of x + x with a `prologue`.
pub fn case(
    op: Op,
    dtype: DType,
    sizes: &[i64],
    axes: &[i64],
    lay: Lay,
    prologue: bool,
    special: bool,
) -> Case {
    let (layout, len) = layout(lay, sizes);
    let values = numbers(&mut Random::new(sizes.len() as u64 + 7), dtype, len, special);
    let double = Instr { op: Op::Add, attrs: smallvec![], dtype, args: smallvec![0, 0] };
    let body = LoopBody {
        sizes: sizes.into(),
        reads: vec![dtype],
        instrs: if prologue { vec![double] } else { vec![] },
        results: vec![prologue as u32],
    };
    let kept =
        (0..sizes.len()).filter(|d| !axes.contains(&(*d as i64))).map(|d| sizes[d]).collect();
    let to = if matches!(op, Op::ArgMax | Op::ArgMin) { DType::I64 } else { dtype };
    Case {
        kernel: Kernel::Reduce { body, op, axes: axes.into() },
        reads: vec![(Operand { mem: MemRef::Input(0), dtype, layout }, values)],
        writes: vec![(to, if op == Op::CumSum { sizes.into() } else { kept })],
        scalars: vec![],
        in_place: false,
    }
}

/// Sums of absolute values: what errors are measured by.
pub fn magnitudes(case: &Case) -> Vec<f64> {
    let (operand, values) = &case.reads[0];
    let dtype = values.ty.dtype;
    let absolute: Vec<f64> = values.to_f64s().iter().map(|v| v.abs()).collect();
    let absolute = Array::from_f64(dtype, &values.ty.sizes, &absolute);
    let kernel = case.kernel.clone();
    let reads = vec![(operand.clone(), absolute)];
    let again =
        Case { kernel, reads, writes: case.writes.clone(), scalars: vec![], in_place: false };
    again.run(&Reference::default()).unwrap()[0].to_f64s()
}

fn check(op: Op, dtype: DType, sizes: &[i64], axes: &[i64], lay: Lay, special: bool) {
    let ty = Ty::new(dtype, sizes);
    if op.infer(&[&ty], &[Attr::Ints(axes.into())]).is_err() {
        return;
    }
    for prologue in [false, true] {
        let case = case(op, dtype, sizes, axes, lay, prologue && dtype != DType::Bool, special);
        let (got, expected) = case.both();
        if !dtype.is_float() || special || matches!(op, Op::ReduceMax | Op::ReduceMin) {
            let exact = !special || !matches!(op, Op::Sum | Op::Prod);
            // With infinities about, compare only what is not finite or exact.
            case.compare(&got, &expected, |k, i| {
                if exact || !expected[k].f64(i).is_finite() { 0.0 } else { f64::INFINITY }
            });
            continue;
        }
        let size = magnitudes(&case);
        let n: i64 = axes.iter().map(|&a| sizes[a as usize]).product();
        let steps = if op == Op::Prod { n as f64 + 2.0 } else { 40.0 };
        case.compare(&got, &expected, |_, i| {
            steps * compute_epsilon(dtype) * size[i]
                + epsilon(dtype) * 2.0 * expected[0].f64(i).abs()
                + tiny(dtype)
        });
    }
}

#[test]
fn folds_over_any_axes_of_any_layout() {
    let shapes: [(&[i64], &[&[i64]]); 7] = [
        (&[], &[&[]]),
        (&[7], &[&[], &[0]]),
        (&[5, 9], &[&[0], &[1], &[0, 1], &[]]),
        (&[3, 4, 5], &[&[0], &[1], &[2], &[0, 2], &[0, 1], &[1, 2], &[0, 1, 2]]),
        (&[2, 3, 1, 4, 5], &[&[1, 3], &[0, 2, 4], &[4], &[0]]),
        (&[4, 0], &[&[0], &[1], &[0, 1]]),
        (&[0, 4], &[&[0], &[1]]),
    ];
    for (sizes, all_axes) in shapes {
        for axes in all_axes {
            for lay in LAYS {
                for op in OPS {
                    for dtype in
                        [DType::F32, DType::BF16, DType::F64, DType::I32, DType::U8, DType::Bool]
                    {
                        check(op, dtype, sizes, axes, lay, false);
                    }
                }
            }
        }
    }
}

#[test]
fn long_rows_and_tall_columns_are_cut_into_blocks() {
    for (sizes, axes) in [
        (&[2, 70_001][..], &[1][..]),
        (&[3001, 37], &[0]),
        (&[37, 1500], &[0]),
        (&[200_003], &[0]),
        (&[300, 7, 4, 4], &[0, 2, 3]),
        (&[5, 3, 2500], &[0, 2]),
        (&[3, 6, 2, 5, 30], &[0, 2, 4]),
    ] {
        for dtype in [DType::F32, DType::F64, DType::I64] {
            check(Op::Sum, dtype, sizes, axes, Lay::Dense, false);
            check(Op::ReduceMax, dtype, sizes, axes, Lay::Dense, false);
        }
    }
}

/// Also after a cast, and of columns of a part of the rows.
#[test]
fn sums_of_columns_as_they_lie() {
    for sizes in [[1, 5000], [17, 1025], [3000, 130], [75, 4100]] {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            check(Op::Sum, dtype, &sizes, &[0], Lay::Dense, false);
            let mut case = case(Op::Sum, dtype, &sizes, &[0], Lay::Dense, false, false);
            let Kernel::Reduce { body, .. } = &mut case.kernel else { unreachable!() };
            let attrs = smallvec![Attr::DType(DType::F32)];
            let args = smallvec![0];
            body.instrs.push(Instr { op: Op::Cast, attrs, dtype: DType::F32, args });
            body.results = vec![1];
            body.sizes[1] -= 3;
            let layout = case.reads[0].0.layout.slice(&[0, 2], &body.sizes, &[1, 1]);
            case.reads[0].0.layout = layout;
            case.writes = vec![(DType::F32, body.sizes[1..].into())];
            let (got, expected) = case.both();
            let bound = 40.0 * 4.0 * sizes[0] as f64 * compute_epsilon(DType::F32);
            case.compare(&got, &expected, |_, _| bound);
        }
    }
}

#[test]
fn folds_without_machine_code() {
    code::without(folds_over_any_axes_of_any_layout);
    code::without(long_rows_and_tall_columns_are_cut_into_blocks);
}

#[test]
fn nan_and_infinity_propagate() {
    for op in [Op::Sum, Op::Prod, Op::ReduceMax, Op::ReduceMin] {
        for dtype in FLOATS {
            for axes in [[0], [1]] {
                check(op, dtype, &[41, 43], &axes, Lay::Dense, true);
            }
        }
    }
}

#[test]
fn what_is_no_fold_runs_apart() {
    for op in [Op::ArgMax, Op::ArgMin, Op::CumSum] {
        for dtype in [DType::F32, DType::I32, DType::F64] {
            for axis in [0, 1] {
                let case = case(op, dtype, &[11, 13], &[axis], Lay::Reversed, true, false);
                let (got, expected) = case.both();
                case.compare(&got, &expected, |_, _| 13.0 * 8.0 * 13.0 * compute_epsilon(dtype));
            }
        }
    }
}
