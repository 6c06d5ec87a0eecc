//! Products whose right operand is packed: for one step, for several, from run to run.

use super::super::onednn::{self, Element, Plain};
use super::node::{check_close, lay_out, node, values};
use super::*;
use crate::backend::plan_tests::check;
use crate::buffer::{DerivedCache, Storage};
use crate::graph::Graph;
use crate::plan::training::Make;
use smallvec::smallvec;

/// Sizes that fill slabs and pieces of rows, and such that do not.
#[test]
fn packed_products_of_any_size() {
    let mut random = Random::new(41);
    for dtype in FLOATS {
        for (m, k, n) in [(16, 64, 64), (33, 66, 130), (47, 65, 600), (250, 128, 513)] {
            let (x, y) = (values(&mut random, dtype, &[m, k]), values(&mut random, dtype, &[k, n]));
            let mut case = node(Op::Matmul, smallvec![], vec![x, y]);
            check_close(&case, 4.0 * (k as f64 + 2.0));
            for lay in LAYS {
                lay_out(&mut case, 1, lay);
                check_close(&case, 4.0 * (k as f64 + 2.0));
            }
            lay_out(&mut case, 0, Lay::Spaced);
            check_close(&case, 4.0 * (k as f64 + 2.0));
        }
    }
}

/// Products with two weights, one after the other in the same memory, each read by several steps in two ways.
#[test]
fn several_steps_with_one_operand() {
    let graph = |dtype| -> Graph {
        let mut m = Make::default();
        let [mut h, w] = [(0, [32, 96]), (1, [96, 96])].map(|(i, sizes)| m.input(i, dtype, &sizes));
        for factor in [0.05, -0.03] {
            let weight = m.with(Op::Mul, w, factor);
            let transposed = m.transpose(weight, &[1, 0]);
            for _ in 0..3 {
                for weight in [transposed, weight] {
                    let product = m.matmul(h, weight);
                    h = m.unary(Op::Tanh, product);
                }
            }
        }
        m.0.finish(vec![h])
    };
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::BF16, 0.05)] {
        for threads in [1, 2] {
            check(cpu(threads), &graph(dtype), &[None], 3, tolerance).unwrap();
        }
    }
}

/// `x @ w`, compiled once.
struct Product {
    program: Box<dyn Executable>,
    x: Vec<f32>,
    sizes: [usize; 3],
}

impl Product {
    fn new([m, k, n]: [usize; 3]) -> Product {
        let array = |rows: usize, columns: usize| {
            Array::zeros(&Ty::new(DType::F32, &[rows as i64, columns as i64]))
        };
        let plan = node(Op::Matmul, smallvec![], vec![array(m, k), array(k, n)]).plan();
        let program = cpu(2).compile(Arc::new(plan)).unwrap();
        Product { program, x: vec![1.0; m * k], sizes: [m, k, n] }
    }

    /// One of the results, which are all the sum of a column of `w`.
    fn run(&self, w: &[f32], derived: Option<&DerivedCache>) -> f32 {
        let [m, _, n] = self.sizes;
        let out = vec![0f32; m * n];
        let address = |memory: &[f32]| memory.as_ptr().expose_provenance();
        let call = Call {
            inputs: &[address(&self.x), address(w)],
            poisoned: &[],
            derived: &[None, derived],
            outputs: &[address(&out)],
            arena: 0,
            host: 0,
            results: 0,
            scalars: &[],
            watch: None,
        };
        assert!(self.program.run(&call).failed.is_empty());
        std::hint::black_box(&out)[m * n - 1]
    }
}

/// Whether the library packs operands on this processor.
fn packs([_, rows, columns]: [usize; 3]) -> bool {
    let plain = Plain { rows, columns, strides: (columns, 1), element: f32::CODE };
    cpu(1).inside(|| onednn::packing(plain).is_some()).unwrap()
}

/// That it is kept shows in results of old numbers, where somebody writes behind the back of the storage.
#[test]
fn what_a_second_run_packed_is_kept_until_the_memory_is_taken() {
    const SIZES: [usize; 3] = [32, 64, 64];
    let product = Product::new(SIZES);
    let numbers = |each: f32| vec![each; SIZES[1] * SIZES[2]];
    let bytes = cpu(1).allocate(4 * SIZES[1] * SIZES[2]).unwrap();
    let storage = Storage::ready(bytes);
    let derived = || storage.derived();
    assert_eq!(product.run(&numbers(1.0), derived()), 64.0);
    assert_eq!(product.run(&numbers(2.0), derived()), 128.0);
    let kept = if packs(SIZES) { 128.0 } else { 192.0 };
    assert_eq!(product.run(&numbers(3.0), derived()), kept);
    // Another program with the same numbers of rows of weights finds it, too.
    assert_eq!(Product::new([16, 64, 64]).run(&numbers(3.0), derived()), kept);
    assert_eq!(product.run(&numbers(4.0), None), 256.0);
    storage.take(|_| unreachable!("nobody reads it")).unwrap();
    assert_eq!(product.run(&numbers(5.0), derived()), 320.0);
    assert_eq!(product.run(&numbers(6.0), derived()), 384.0);
    storage.share();
    assert!(derived().is_none());
}
