//! Attention and its gradient.

use super::check_kernels;
use crate::backend::cpu::tests::node::{attention_cases, attention_of, heads_side_by_side};
use crate::backend::cpu::tests::{FLOATS, Random, compute_epsilon, epsilon};
use crate::dtype::DType;

/// Tensor cores take probabilities and gradients of scores as half types.
pub fn rounded(dtype: DType, steps: f64) -> f64 {
    steps + 4.0 * epsilon(dtype) / compute_epsilon(dtype)
}

#[test]
fn attention_and_its_gradient() {
    let (mut random, mut cases) = (Random::new(5), Vec::new());
    for dtype in FLOATS {
        for heads in attention_cases() {
            let [forward, backward] = attention_of(&mut random, dtype, heads);
            cases.push((forward, rounded(dtype, 300.0)));
            cases.push((backward, rounded(dtype, 2000.0)));
        }
    }
    check_kernels(&cases);
}

#[test]
fn heads_of_all_widths() {
    let (mut random, mut cases) = (Random::new(6), Vec::new());
    for (dtype, d, e) in
        [(DType::F32, 40, 48), (DType::F32, 200, 256), (DType::F64, 129, 30), (DType::BF16, 100, 9)]
    {
        let heads = ([1, 1, 1, 35, 37, d, e], true, 0.0, None);
        let [forward, backward] = attention_of(&mut random, dtype, heads);
        cases.push((forward, 300.0));
        cases.push((backward, 2000.0));
    }
    check_kernels(&cases);
}

#[test]
fn tiles_of_tensor_cores() {
    let (mut random, mut cases) = (Random::new(7), Vec::new());
    let some = |dtype, sizes| Some((dtype, sizes));
    for (dtype, heads) in [
        (DType::BF16, ([1, 2, 1, 70, 130, 64, 64], true, 0.0, None)),
        (DType::F16, ([2, 1, 1, 130, 70, 40, 56], true, 0.3, some(DType::Bool, [2, 1, 1, 70]))),
        (DType::BF16, ([3, 2, 2, 70, 130, 64, 64], false, 0.0, some(DType::I32, [3, 1, 1, 1]))),
        (DType::F16, ([2, 2, 1, 70, 70, 128, 128], true, 0.0, some(DType::I32, [1, 1, 1, 1]))),
        (DType::BF16, ([1, 1, 1, 70, 40, 128, 120], false, 0.2, some(DType::F32, [1, 1, 70, 40]))),
    ] {
        let [forward, backward] = attention_of(&mut random, dtype, heads);
        cases.push((forward, rounded(dtype, 300.0)));
        cases.push((backward, rounded(dtype, 2000.0)));
    }
    check_kernels(&cases);
}

#[test]
fn heads_that_lie_side_by_side() {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::BF16] {
        cases.push((heads_side_by_side(dtype), rounded(dtype, 300.0)));
    }
    check_kernels(&cases);
}
