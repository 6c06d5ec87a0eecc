//! Products of floats of 8 bits, those that a library has and the others.

use super::super::actions::Action;
use super::super::lower;
use super::{check_kernels, cuda, on_a_gpu};
use crate::backend::cpu::tests::node::{lay_out, node};
use crate::backend::cpu::tests::{Case, Lay};
use crate::dtype::DType::{self, *};
use crate::op::array::Array;
use crate::op::{Attr, Op, Ty};
use smallvec::smallvec;

/// A product of small numbers.
fn product([a, b, to]: [DType; 3], [m, n, k]: [i64; 3], scales: [[i64; 2]; 2]) -> Case {
    let codes = |dtype, sizes: &[i64], step: usize| {
        let mut array = Array::zeros(&Ty::new(dtype, sizes));
        for i in 0..array.len() {
            array.set_f64(i, (i * step % 17) as f64 / 4.0 - 2.0);
        }
        array
    };
    let scale = |sizes: [i64; 2]| {
        let values: Vec<f64> = (0..sizes[0] * sizes[1]).map(|i| 0.3 + i as f64 / 8.0).collect();
        Array::from_f64(F32, &sizes, &values)
    };
    let reads =
        vec![codes(a, &[m, k], 5), codes(b, &[k, n], 7), scale(scales[0]), scale(scales[1])];
    node(Op::ScaledMatmul, smallvec![Attr::DType(to)], reads)
}

/// The types of the operands of what the library is asked for.
fn multiplied(case: &Case) -> [DType; 3] {
    let actions = lower::step(&case.plan(), 0, &*cuda().device).unwrap().actions;
    let product = actions.iter().find_map(|action| match action {
        Action::Multiply { product, scales, .. } => {
            assert_eq!(scales.is_some(), product.dtypes[0].size() == 1);
            Some(product.dtypes)
        }
        _ => None,
    });
    product.unwrap()
}

#[test]
fn scaled_products() {
    let (one, sizes) = ([[1, 1]; 2], [5, 32, 48]);
    let mut cases = Vec::new();
    let wide = [BF16, BF16, F32];
    let mut push = |case: Case, asked: [DType; 3]| {
        if cuda().device.multiplies_float8() {
            assert_eq!(multiplied(&case), asked);
        }
        // The tensor cores of an H100 add such products with 14 bits (DeepSeek-V3's report, section 3.3.2).
        let by_tensor_cores = asked[0].size() == 1 && on_a_gpu();
        cases.push((case, if by_tensor_cores { 1024.0 } else { 8.0 }));
    };
    for (a, b) in [(F8E4M3FN, F8E4M3FN), (F8E5M2, F8E4M3FN), (F8E4M3FN, F8E5M2)] {
        for to in [F32, BF16, F16] {
            push(product([a, b, to], sizes, one), [a, b, to]);
        }
    }
    // As PyTorch lays them out, and the other way round.
    for (n, lay) in [(1, Lay::Reversed), (0, Lay::Reversed), (0, Lay::Spaced)] {
        let mut case = product([F8E5M2, F8E4M3FN, BF16], sizes, one);
        lay_out(&mut case, n, lay);
        case.reads[n].1.bytes.iter_mut().for_each(|code| *code %= 0x40);
        push(case, [F8E5M2, F8E4M3FN, BF16]);
    }
    // What the library has not.
    push(product([F8E5M2, F8E5M2, BF16], sizes, one), wide);
    push(product([F8E4M3FNUZ, F8E5M2FNUZ, F32], sizes, one), wide);
    push(product([F8E4M3FN, F8E4M3FN, F64], sizes, one), wide);
    for sizes in [[5, 32, 40], [5, 24, 48]] {
        push(product([F8E4M3FN, F8E4M3FN, BF16], sizes, one), wide);
    }
    for scales in [[[5, 1], [1, 32]], [[1, 1], [1, 32]], [[5, 1], [1, 1]]] {
        push(product([F8E4M3FN, F8E4M3FN, BF16], sizes, scales), wide);
    }
    cases.push((product([F8E4M3FN, F8E4M3FN, BF16], [5, 16, 0], one), 0.0));
    check_kernels(&cases);
}
