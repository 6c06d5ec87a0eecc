//! Softmax and its kin, normalisation, and their gradients.

use super::check_kernels;
use crate::backend::cpu::tests::node::{node, values};
use crate::backend::cpu::tests::{FLOATS, Random};
use crate::dtype::DType;
use crate::op::array::Array;
use crate::op::{Attr, Op};
use smallvec::smallvec;

const SOFTMAXES: [Op; 2] = [Op::Softmax, Op::LogSoftmax];
const GRADIENTS: [Op; 2] = [Op::SoftmaxGrad, Op::LogSoftmaxGrad];

fn statistic(dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { DType::F32 }
}

/// Types whose kernels differ from those of another in the type alone: few of their texts are compiled.
fn is_like_others(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::F64)
}

#[test]
fn softmax_and_its_kin() {
    let (mut random, mut cases) = (Random::new(2), Vec::new());
    // One number; rows of warps in packs and one by one; rows of blocks; rows too long to keep, where packs begin
    // at another place in each.
    let sizes: [&[i64]; 8] =
        [&[1], &[7, 33], &[2, 3, 64], &[3, 1040], &[3, 20_000], &[3, 9001], &[4, 0], &[0, 4]];
    for dtype in FLOATS {
        for &sizes in &sizes[if is_like_others(dtype) { 2..5 } else { 0..8 }] {
            let (x, dy) = (values(&mut random, dtype, sizes), values(&mut random, dtype, sizes));
            let width = sizes[sizes.len() - 1] as f64;
            for op in SOFTMAXES {
                cases.push((node(op, smallvec![], vec![x.clone()]), 64.0));
            }
            if width > 0.0 {
                cases.push((node(Op::LogSumExp, smallvec![], vec![x.clone()]), 64.0));
            }
            for op in GRADIENTS {
                let case = node(op, smallvec![], vec![dy.clone(), x.clone()]);
                cases.push((case, 64.0 + 8.0 * width));
            }
        }
    }
    check_kernels(&cases);
}

#[test]
fn rows_with_infinities_and_nan() {
    let inf = f64::INFINITY;
    let mut cases = Vec::new();
    let ends = [[1.0, -inf, 2.0], [-inf, -inf, -inf], [1.0, inf, 2.0], [f64::NAN, 1.0, 2.0]];
    for op in [Op::Softmax, Op::LogSoftmax, Op::LogSumExp] {
        for n in [3, 9000] {
            let row = |ends: &[f64; 3]| {
                let filled = if ends[0] == -inf { -inf } else { 0.5 };
                let mut row = vec![filled; n];
                (row[0], row[n / 2], row[n - 1]) = (ends[0], ends[1], ends[2]);
                row
            };
            let numbers: Vec<f64> = ends.iter().flat_map(row).collect();
            let x = Array::from_f64(DType::F32, &[4, n as i64], &numbers);
            cases.push((node(op, smallvec![], vec![x]), 64.0));
        }
    }
    check_kernels(&cases);
}

#[test]
fn operands_anywhere_in_memory() {
    let (mut random, mut cases) = (Random::new(12), Vec::new());
    for (n, offset) in [(64, 1), (64, 4), (9001, 2)] {
        let x = values(&mut random, DType::BF16, &[3, n]);
        let mut case = node(Op::Softmax, smallvec![], vec![x]);
        case.reads[0].0.layout.offset = offset;
        case.reads[0].1 = values(&mut random, DType::BF16, &[3 * n + offset]);
        cases.push((case, 64.0));
    }
    check_kernels(&cases);
}

/// Rows and columns as for softmax.
fn matrices(dtype: DType) -> &'static [(i64, i64)] {
    let all = &[(3, 9000), (40, 96), (2200, 8), (1, 1), (9, 5), (3, 1040), (0, 4), (3, 0)];
    if is_like_others(dtype) { &all[..2] } else { all }
}

#[test]
fn layer_norm_with_and_without_weight_and_bias() {
    let (mut random, mut cases) = (Random::new(3), Vec::new());
    for dtype in FLOATS {
        for &(r, c) in matrices(dtype) {
            for (weight, bias, column) in [
                (false, false, dtype),
                (true, true, dtype),
                (true, false, DType::F32),
                (false, true, DType::F32),
            ] {
                let mut reads = vec![values(&mut random, dtype, &[r, c])];
                (0..weight as u8 + bias as u8)
                    .for_each(|_| reads.push(values(&mut random, column, &[c])));
                let attrs = smallvec![Attr::Float(1e-5), Attr::Bool(weight), Attr::Bool(bias)];
                cases.push((node(Op::LayerNorm, attrs, reads), 200.0));
            }
        }
    }
    check_kernels(&cases);
}

#[test]
fn rows_far_from_zero() {
    let mut cases = Vec::new();
    for c in [96, 9000] {
        let numbers: Vec<f64> = (0..3 * c).map(|i| 1000.0 + (i % 7) as f64 / 8.0).collect();
        let x = Array::from_f64(DType::F32, &[3, c], &numbers);
        let attrs = smallvec![Attr::Float(1e-5), Attr::Bool(false), Attr::Bool(false)];
        // The mean is rounded to f32.
        cases.push((node(Op::LayerNorm, attrs, vec![x]), 2e3));
    }
    check_kernels(&cases);
}

/// A thread has thousands of a row, and every rounding of its sum goes the same way.
#[test]
fn rows_of_a_million() {
    let n = 1 << 20;
    let numbers: Vec<f64> = (0..n).map(|i| if i % 2 == 0 { 1.1 } else { -1.1 }).collect();
    let x = Array::from_f64(DType::F32, &[1, n], &numbers);
    let attrs = smallvec![Attr::Float(1e-5), Attr::Bool(false), Attr::Bool(false)];
    check_kernels(&[(node(Op::LayerNorm, attrs, vec![x]), 8.0)]);
}

/// Their mean is infinite, too, and what they are normed to is no number.
#[test]
fn rows_with_infinities() {
    let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
    let rows = [[1.0, high, 2.0], [low, -1.0, 3.0], [high, low, 0.0], [f64::NAN, 1.0, 2.0]];
    let x = Array::from_f64(DType::F32, &[4, 3], rows.as_flattened());
    let attrs = smallvec![Attr::Float(1e-5), Attr::Bool(false), Attr::Bool(false)];
    check_kernels(&[(node(Op::LayerNorm, attrs, vec![x]), 64.0)]);
}

#[test]
fn gradients_of_normalisation() {
    let (mut random, mut cases) = (Random::new(4), Vec::new());
    for dtype in FLOATS {
        for &(r, c) in matrices(dtype) {
            for weight in [None, Some(dtype), Some(DType::F32)] {
                let mut of = |dtype, sizes: &[i64]| values(&mut random, dtype, sizes);
                let matrices = vec![of(dtype, &[r, c]), of(dtype, &[r, c])];
                let (mean, rstd) = (of(statistic(dtype), &[r]), of(statistic(dtype), &[r]));
                let weight = weight.map(|w| of(w, &[c]));
                let mut reads = [matrices.clone(), vec![mean, rstd.clone()]].concat();
                reads.extend(weight.clone());
                cases.push((node(Op::LayerNormGrad, smallvec![], reads), 400.0));
                let mut reads = [matrices, vec![rstd]].concat();
                reads.extend(weight);
                cases.push((node(Op::RmsNormGrad, smallvec![], reads), 400.0));
            }
        }
    }
    check_kernels(&cases);
}

#[test]
fn rms_norm() {
    let (mut random, mut cases) = (Random::new(5), Vec::new());
    for dtype in FLOATS {
        for &(r, c) in matrices(dtype) {
            for weight in [None, Some(dtype), Some(DType::F32)] {
                let x = values(&mut random, dtype, &[r, c]);
                let weight = weight.map(|w| values(&mut random, w, &[c]));
                let reads = [x].into_iter().chain(weight).collect();
                cases.push((node(Op::RmsNorm, smallvec![Attr::Float(1e-5)], reads), 200.0));
            }
        }
    }
    check_kernels(&cases);
}
