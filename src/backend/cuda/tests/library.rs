//! What a library is asked for in place of our kernels, computed by what the description of it means.

use super::super::actions::Action;
use super::super::emulated::Emulated;
use super::super::lower;
use super::super::{Cuda, cudnn_graph};
use crate::backend::cpu::tests::cases::kernel_of;
use crate::backend::cpu::tests::node::{heads_side_by_side, node, values};
use crate::backend::cpu::tests::{Case, Random, compute_epsilon, epsilon, largest, tiny};
use crate::backend::memory::Pool;
use crate::backend::plan_tests;
use crate::backend::reference::Reference;
use crate::backend::{Backend, Call};
use crate::dtype::DType;
use crate::graph::text::parse;
use crate::op::cases::attention::{self, HEADS, Heads, rounded};
use crate::op::cases::convolution::{SHAPES, conv_attrs};
use crate::op::{Op, Ty};
use crate::plan::{Kernel, plan};
use std::sync::{Arc, LazyLock};

/// A backend whose device has a library: of the host, or as [`super::cuda`] a GPU, whose sums may be in any order.
fn with_library() -> &'static Cuda {
    static BACKEND: LazyLock<Cuda> = LazyLock::new(|| match super::gpu(false) {
        Some(backend) => backend,
        None => Cuda::new(Arc::new(Emulated::with_library()), Pool::new(), true),
    });
    &BACKEND
}

/// Attention with such heads, and its gradient.
fn attention_of(dtype: DType, heads: Heads) -> [Case; 2] {
    attention::of(dtype, heads, 0).each_ref().map(kernel_of)
}

/// Whether a library is asked.
fn is_asked(case: &Case) -> bool {
    let plan = case.plan();
    let Kernel::Node { op, attrs } = &case.kernel else { return false };
    cudnn_graph::request(*op, attrs, &plan.steps[0]).is_some()
}

/// Computed by the library alone, with so many roundings at the size of the largest number of a result.
fn check(case: &Case, steps: f64) {
    let backend = with_library();
    let actions = lower::step(&case.plan(), 0, &*backend.device).unwrap().actions;
    assert!(matches!(actions[..], [Action::CudnnGraph { .. }]), "{:?}", case.kernel);
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
    let cases: [(DType, Heads); 5] = [
        (DType::BF16, ([2, 3, 3, 7, 11, 8, 16], false, 0.0, None)),
        (DType::F16, ([2, 4, 2, 9, 9, 8, 8], true, 0.0, None)),
        (DType::BF16, ([1, 4, 1, 13, 5, 16, 8], true, 0.0, None)),
        (DType::F16, ([1, 6, 3, 5, 13, 8, 24], true, 0.0, None)),
        (DType::BF16, ([1, 1, 1, 2, 3, 8, 8], false, 0.0, None)),
    ];
    for (dtype, heads) in cases {
        let [forward, backward] = attention_of(dtype, heads);
        check(&forward, rounded(dtype, 300.0));
        check(&backward, rounded(dtype, 2000.0));
    }
    check(&heads_side_by_side(DType::BF16), rounded(DType::BF16, 300.0));
}

/// Masks, numbers of keys, dropout (whose numbers are ours), single queries or keys, widths of other than 16 bytes, f32, more heads than a grid
/// has blocks: kernels of our own.
#[test]
fn what_the_library_would_compute_otherwise_is_not_asked_for() {
    let mut asked = Vec::new();
    for heads in HEADS {
        for dtype in [DType::F32, DType::BF16] {
            let of_heads = attention_of(dtype, heads);
            asked.extend(of_heads.iter().map(|case| (dtype, heads.0, is_asked(case))));
        }
    }
    let taken: Vec<_> = asked.iter().filter(|(.., asked)| *asked).collect();
    assert_eq!(taken, [&(DType::BF16, [2, 4, 2, 9, 9, 8, 8], true); 2]);
    let eight = |dtype, bias| ([1, 2, 2, 5, 6, 8, 8], false, dtype, bias);
    let mask = Some((DType::F32, [1, 1, 5, 6]));
    let ends = Some((DType::I32, [1, 1, 1, 1]));
    for heads in [eight(0.1, None), eight(0.0, mask), eight(0.0, ends)] {
        assert!(attention_of(DType::BF16, heads).iter().all(|case| !is_asked(case)));
    }
    for sizes in [[1, 2, 2, 1, 6, 8, 8], [1, 2, 2, 6, 1, 8, 8], [65536, 1, 1, 2, 2, 8, 8]] {
        let cases = attention_of(DType::BF16, (sizes, false, 0.0, None));
        assert!(cases.iter().all(|case| !is_asked(case)));
    }
}

/// Gradients of keys and queries that end within the library's tiles.
#[test]
fn ends_of_tiles_are_hidden_or_ours() {
    for ([t, s], causal, taken) in [
        ([64, 64], false, false),
        ([64, 64], true, true),
        ([128, 192], true, true),
        ([256, 192], true, false),
        ([128, 128], false, true),
        ([100, 128], false, false),
        ([70, 130], false, true),
    ] {
        let heads = ([1, 1, 1, t, s, 8, 8], causal, 0.0, None);
        let [forward, backward] = attention_of(DType::BF16, heads);
        assert!(is_asked(&forward));
        assert_eq!(is_asked(&backward), taken, "{t} {s} {causal}");
    }
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
            let forward =
                node(Op::Conv, conv_attrs(None, lists, groups), vec![x.clone(), w.clone()]);
            let sizes = forward.writes[0].1.clone();
            let dy = values(&mut random, dtype, &sizes);
            let of_input = conv_attrs(Some(&x.ty.sizes[2..]), lists, groups);
            let of_input = node(Op::ConvGradInput, of_input, vec![dy.clone(), w.clone()]);
            let of_weight = conv_attrs(Some(&w.ty.sizes[2..]), lists, groups);
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
    let attrs = conv_attrs(Some(&[8, 8]), [&[1, 1], &[0, 0], &[1, 1]], 1);
    assert!(!is_asked(&node(Op::ConvGradInput, attrs, vec![dy, w])));
}

/// y of x and w, in one program's third and later runs too, which are captured.
#[test]
fn a_network_is_captured_with_the_rest() {
    let text = "\
%0: f32[1,1,4] = input() {index=0, type=(f32[1,1,4])}
%1: f32[1,1,2] = input() {index=1, type=(f32[1,1,2])}
%2: f32[1,1,3] = conv(%0, %1) {stride=[1], padding=[0], dilation=[1], groups=1}
%3: f32[1,1,3] = neg(%2)
return %3";
    let backend = with_library();
    let inputs = [4, 2].map(|n| Ty::new(DType::F32, &[1, 1, n]));
    let plan = plan(&parse(text).unwrap(), &inputs, &[], &[None], backend).unwrap();
    let plan = Arc::new(plan);
    let program = backend.compile(plan.clone()).unwrap();
    let mut memory = [16, 8, 12, plan.arena_bytes as usize].map(|n| backend.allocate(n).unwrap());
    let addresses = [0, 1, 2, 3].map(|n: usize| memory[n].address());
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
    memory[1].write(0, &bytes(&[2.0, -1.0])).unwrap();
    for run in 0..5u8 {
        let first = f32::from(run);
        memory[0].write(0, &bytes(&[first, 3.0, 5.0, 9.0])).unwrap();
        let outcome = program.run(&Call {
            inputs: &addresses[..2],
            poisoned: &[],
            derived: &[],
            outputs: &addresses[2..3],
            arena: addresses[3],
            host: 0,
            results: 0,
            scalars: &[],
            watch: None,
        });
        assert!(outcome.failed.is_empty());
        let mut y = [0; 12];
        memory[2].read(0, &mut y).unwrap();
        assert_eq!(y.to_vec(), bytes(&[3.0 - 2.0 * first, -1.0, -1.0]), "{run}");
    }
}

/// Heads side by side, as one product makes them, and the way back.
#[test]
fn a_program_with_attention() {
    let text = "\
%0: bf16[2,9,3,4,8] = input() {index=0, type=(bf16[2,9,3,4,8])}
%1: bf16[2,9,4,8] = input() {index=1, type=(bf16[2,9,4,8])}
%2: i64[] = input() {index=2, type=(i64[])}
%3: bf16[3,2,4,9,8] = transpose(%0) {perm=[2,0,3,1,4]}
%4: bf16[1,2,4,9,8] = slice(%3) {starts=[0,0,0,0,0], sizes=[1,2,4,9,8], steps=[1,1,1,1,1]}
%5: bf16[1,2,4,9,8] = slice(%3) {starts=[1,0,0,0,0], sizes=[1,2,4,9,8], steps=[1,1,1,1,1]}
%6: bf16[1,2,4,9,8] = slice(%3) {starts=[2,0,0,0,0], sizes=[1,2,4,9,8], steps=[1,1,1,1,1]}
%7: bf16[2,4,9,8] = reshape(%4) {sizes=[2,4,9,8]}
%8: bf16[2,4,9,8] = reshape(%5) {sizes=[2,4,9,8]}
%9: bf16[2,4,9,8] = reshape(%6) {sizes=[2,4,9,8]}
%10: bf16[2,4,9,8], %11: f32[2,4,9] = attention(%7, %8, %9, %2, %2) {scale=0.35, causal=true, dropout=0.0}
%12: bf16[2,4,9,8] = transpose(%1) {perm=[0,2,1,3]}
%13: bf16[2,4,9,8], %14: bf16[2,4,9,8], %15: bf16[2,4,9,8] = attention_grad(%12, %7, %8, %9, %10, %11, %2, %2) {scale=0.35, causal=true, dropout=0.0}
%16: bf16[2,9,4,8] = transpose(%10) {perm=[0,2,1,3]}
return %16, %13, %14, %15";
    let graph = parse(text).unwrap();
    assert!(plan_tests::check(with_library(), &graph, &[None; 4], 3, 0.03).is_some());
}
