//! Reductions, arguments of extremes and running sums, with and without a program before them.

use super::{both, prepare};
use crate::backend::cpu::tests::reduce::{case, magnitudes};
use crate::backend::cpu::tests::{Case, Lay, compute_epsilon, epsilon, tiny};
use crate::dtype::DType;
use crate::op::{Attr, Op, Ty};

const OPS: [Op; 6] = [Op::Sum, Op::Prod, Op::ReduceMax, Op::ReduceMin, Op::Any, Op::All];

/// Whether a reduction takes such an operand at all.
fn is_defined(op: Op, dtype: DType, sizes: &[i64], axes: &[i64]) -> bool {
    let axes = match op.row().attrs {
        ["axis"] => Attr::Int(axes[0]),
        _ => Attr::Ints(axes.into()),
    };
    op.infer(&[&Ty::new(dtype, sizes)], &[axes]).is_ok()
}

/// Sums within the rounding errors of some hundred additions one after the other, everything else exactly.
fn check(cases: &[(Case, Op)]) {
    prepare(cases.iter().map(|(case, _)| case));
    for (case, op) in cases {
        let (got, expected) = both(case);
        let adds = matches!(op, Op::Sum | Op::Prod | Op::CumSum);
        if !adds || !expected[0].ty.dtype.is_float() {
            case.compare(&got, &expected, |_, _| 0.0);
            continue;
        }
        let sizes = magnitudes(case);
        let dtype = expected[0].ty.dtype;
        case.compare(&got, &expected, |_, i| {
            128.0 * compute_epsilon(dtype) * sizes[i]
                + 2.0 * epsilon(dtype) * expected[0].f64(i).abs()
                + tiny(dtype)
        });
    }
}

#[test]
fn folds_of_every_type() {
    let mut cases = Vec::new();
    let types =
        [DType::Bool, DType::U8, DType::I32, DType::I64, DType::BF16, DType::F32, DType::F64];
    for (op, dtype) in OPS.into_iter().flat_map(|op| types.map(|dtype| (op, dtype))) {
        for (sizes, axes) in [(&[37][..], &[0][..]), (&[6, 35], &[0]), (&[6, 35], &[1])] {
            if is_defined(op, dtype, sizes, axes) {
                let prologue = dtype != DType::Bool && sizes.len() == 1;
                cases.push((case(op, dtype, sizes, axes, Lay::Dense, prologue, false), op));
            }
        }
    }
    check(&cases);
}

#[test]
fn folds_over_any_axes_and_layouts() {
    let mut cases = Vec::new();
    let shapes: [(&[i64], &[i64]); 9] = [
        (&[3, 4, 5, 6], &[1]),
        (&[3, 4, 5, 6], &[0, 2]),
        (&[3, 4, 5, 6], &[1, 3]),
        (&[3, 4, 5, 6], &[0, 1, 2, 3]),
        (&[9, 64], &[0]),
        (&[4, 0, 3], &[1]),
        (&[0, 3], &[1]),
        (&[2, 70_001], &[1]),
        (&[9_001, 8], &[0]),
    ];
    for (sizes, axes) in shapes {
        for lay in [Lay::Dense, Lay::Reversed, Lay::Spaced, Lay::Repeated, Lay::Row] {
            for op in [Op::Sum, Op::ReduceMax] {
                let small = sizes.iter().product::<i64>() < 10_000;
                if is_defined(op, DType::F32, sizes, axes) && (small || op == Op::Sum) {
                    cases.push((case(op, DType::F32, sizes, axes, lay, small, false), op));
                }
            }
        }
    }
    check(&cases);
}

#[test]
fn numbers_that_are_none_and_first_extremes() {
    let mut cases = Vec::new();
    for op in [Op::ReduceMax, Op::ReduceMin, Op::ArgMax, Op::ArgMin] {
        for dtype in [DType::F32, DType::BF16, DType::I32, DType::U8] {
            for (sizes, axes) in [(&[300][..], &[0][..]), (&[40, 6], &[0]), (&[6, 40], &[1])] {
                cases.push((case(op, dtype, sizes, axes, Lay::Dense, false, true), op));
            }
        }
    }
    check(&cases);
}

#[test]
fn running_sums() {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::I64, DType::U8] {
        for (sizes, axis) in [(&[1][..], 0), (&[2_500], 0), (&[3, 70, 4], 1), (&[5, 9], 0)] {
            for lay in [Lay::Dense, Lay::Reversed] {
                let op = Op::CumSum;
                cases.push((case(op, dtype, sizes, &[axis], lay, sizes.len() > 1, false), op));
            }
        }
    }
    check(&cases);
}
