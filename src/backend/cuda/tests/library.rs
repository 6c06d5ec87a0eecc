//! What a library is asked for in place of our kernels, computed by what the description of it means.

use super::super::emulated::Emulated;
use super::super::lower::{self, Action};
use super::super::{Cuda, network};
use super::attention::rounded;
use crate::backend::cpu::tests::conv::{SHAPES, attrs_of};
use crate::backend::cpu::tests::node::{
    Heads, attention_cases, attention_of, heads_side_by_side, largest, node, values,
};
use crate::backend::cpu::tests::{Case, Random, compute_epsilon, epsilon, tiny};
use crate::backend::memory::Pool;
use crate::backend::reference::Reference;
use crate::dtype::DType;
use crate::op::Op;
use crate::plan::Kernel;
use std::sync::{Arc, LazyLock};

/// A backend whose device has a library: of the host, or as [`super::cuda`] a GPU, whose sums may be in any order.
fn with_library() -> &'static Cuda {
    static BACKEND: LazyLock<Cuda> = LazyLock::new(|| match super::gpu(false) {
        Some(backend) => backend,
        None => Cuda::new(Arc::new(Emulated::with_library()), Pool::new(), true),
    });
    &BACKEND
}

/// Whether a library is asked.
fn is_asked(case: &Case) -> bool {
    let plan = case.plan();
    let Kernel::Node { op, attrs } = &case.kernel else { return false };
    network::request(*op, attrs, &plan.steps[0]).is_some()
}

/// Computed by the library alone, with so many roundings at the size of the largest number of a result.
fn check(case: &Case, steps: f64) {
    let backend = with_library();
    let actions = lower::step(&case.plan(), 0, &*backend.device).unwrap().actions;
    assert!(matches!(actions[..], [Action::Network { .. }]), "{:?}", case.kernel);
    let got = case.run(backend).expect("the backend computes it");
    let expected = case.run(&Reference::default()).expect("the reference computes it");
    case.compare(&got, &expected, |k, i| {
        let dtype = expected[k].ty.dtype;
        steps * compute_epsilon(dtype) * largest(&expected[k])
            + 2.0 * epsilon(dtype) * expected[k].f64(i).abs()
            + tiny(dtype)
    });
}

#[test]
fn attention_means_what_the_library_is_told() {
    let mut random = Random::new(30);
    let cases: [(DType, Heads); 5] = [
        (DType::BF16, ([2, 3, 3, 7, 11, 8, 16], false, 0.0, None)),
        (DType::F16, ([2, 4, 2, 9, 9, 8, 8], true, 0.0, None)),
        (DType::BF16, ([1, 4, 1, 13, 5, 16, 8], true, 0.0, None)),
        (DType::F16, ([1, 6, 3, 5, 13, 8, 24], true, 0.0, None)),
        (DType::BF16, ([1, 1, 1, 2, 1, 8, 8], false, 0.0, None)),
    ];
    for (dtype, heads) in cases {
        let [forward, backward] = attention_of(&mut random, dtype, heads);
        check(&forward, rounded(dtype, 300.0));
        check(&backward, rounded(dtype, 2000.0));
    }
    check(&heads_side_by_side(DType::BF16), rounded(DType::BF16, 300.0));
}

/// Masks, dropout (whose numbers are ours), single queries, widths of other than 16 bytes, f32: kernels of our own.
#[test]
fn what_the_library_would_compute_otherwise_is_not_asked_for() {
    let mut random = Random::new(31);
    let mut asked = Vec::new();
    for heads in attention_cases() {
        for dtype in [DType::F32, DType::BF16] {
            let of_heads = attention_of(&mut random, dtype, heads);
            asked.extend(of_heads.iter().map(|case| (dtype, heads.0, is_asked(case))));
        }
    }
    let taken: Vec<_> = asked.iter().filter(|(.., asked)| *asked).collect();
    assert_eq!(taken, [&(DType::BF16, [2, 4, 2, 9, 9, 8, 8], true); 2]);
    let eight = |dtype, bias| ([1, 2, 2, 5, 6, 8, 8], false, dtype, bias);
    for heads in [eight(0.1, None), eight(0.0, Some((DType::F32, [1, 1, 5, 6])))] {
        assert!(attention_of(&mut random, DType::BF16, heads).iter().all(|case| !is_asked(case)));
    }
    let single = ([1, 2, 2, 1, 6, 8, 8], false, 0.0, None);
    assert!(attention_of(&mut random, DType::BF16, single).iter().all(|case| !is_asked(case)));
}

#[test]
fn convolution_means_what_the_library_is_told() {
    let mut random = Random::new(32);
    for &(x, w, lists, groups) in SHAPES {
        let elements = x.iter().chain(w).product::<i64>();
        if elements > 1_000_000 {
            continue;
        }
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            let taken = elements > 0 && dtype != DType::F64;
            let (x, w) = (values(&mut random, dtype, x), values(&mut random, dtype, w));
            let forward = node(Op::Conv, attrs_of(None, lists, groups), vec![x.clone(), w.clone()]);
            let sizes = forward.writes[0].1.clone();
            let dy = values(&mut random, dtype, &sizes);
            let of_input = attrs_of(Some(&x.ty.sizes[2..]), lists, groups);
            let of_input = node(Op::ConvGradInput, of_input, vec![dy.clone(), w.clone()]);
            let of_weight = attrs_of(Some(&w.ty.sizes[2..]), lists, groups);
            let of_weight = node(Op::ConvGradWeight, of_weight, vec![dy, x]);
            for case in [forward, of_input, of_weight] {
                assert_eq!(is_asked(&case), taken, "{:?}", case.kernel);
                if taken {
                    check(&case, 2000.0);
                }
            }
        }
    }
}

/// A gradient that stops short of the last windows.
#[test]
fn a_short_gradient_is_not_asked_for() {
    let mut random = Random::new(33);
    let (dy, w) = (
        values(&mut random, DType::F32, &[1, 2, 3, 3]),
        values(&mut random, DType::F32, &[2, 2, 3, 3]),
    );
    let attrs = attrs_of(Some(&[8, 8]), [&[1, 1], &[0, 0], &[1, 1]], 1);
    assert!(!is_asked(&node(Op::ConvGradInput, attrs, vec![dy, w])));
}
