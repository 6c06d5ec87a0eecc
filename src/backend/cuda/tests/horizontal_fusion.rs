//! Launches that are one, against the same kernels launched apart.

use super::super::Cuda;
use super::super::actions::Actions;
use super::super::emulated::{self, Emulated};
use super::super::horizontal_fusion::{LaunchGroup, fuse_horizontally};
use super::super::lower;
use crate::backend::memory::Pool;
use crate::backend::{Backend, Call, Outcome, Watch};
use crate::buffer::Bytes;
use crate::dtype::DType::{F32, F64, I64};
use crate::error::{Code, Error};
use crate::graph::{Graph, ValueId};
use crate::op::array::Array;
use crate::op::{Attr, Attrs, Op, Ty};
use crate::plan::tests::leaves;
use crate::plan::training::{Make, adamw, training_step};
use crate::plan::{Plan, Target, plan};
use expect_test::expect;
use smallvec::smallvec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Sizes of parameters. Norms of two are sums of parts.
const SIZES: [i64; 6] = [768, 20_000, 3072, 9_004, 2304, 768];

struct Nobody;

impl Watch for Nobody {
    fn begin(&self, _: usize) {}
    fn was_copied(&self) {}
    fn end(&self, _: usize, _: bool) {}
}

/// How a program is run.
#[derive(Clone, Copy, Default)]
struct Way<'a> {
    /// Somebody watches, so it runs step by step.
    apart: bool,
    poisoned: &'a [(u32, Error)],
}

/// Launches of a run, the outputs, and what failed. Runs thrice, at other addresses each, and compares.
fn run(
    graph: &Graph,
    donors: &[Option<u32>],
    arrays: &[Array],
    way: Way,
) -> (u64, Vec<Vec<u8>>, Outcome) {
    let device = Emulated::default();
    let launches = device.launches.clone();
    let backend = Cuda::new(Arc::new(device), Pool::new(), true);
    let (inputs, scalars) = leaves(graph);
    let plan = Arc::new(plan(graph, &inputs, &scalars, donors, &backend).unwrap());
    assert_eq!(plan.donors, donors, "all that is offered is taken");
    let program = backend.compile(plan.clone()).unwrap();
    let holding = |bytes: &[u8]| {
        let mut memory = backend.allocate(bytes.len()).unwrap();
        memory.write(0, bytes).unwrap();
        memory
    };
    // All of it stays, so that nothing comes to lie where something else was.
    let mut kept: Vec<Vec<Box<dyn Bytes>>> = Vec::new();
    let mut once = || {
        let inputs: Vec<_> = arrays.iter().map(|array| holding(&array.bytes)).collect();
        let outputs: Vec<_> =
            plan.outputs.iter().map(|ty| holding(&vec![0xEE; ty.nbytes()])).collect();
        let arena = holding(&vec![0xEE; plan.arena_bytes as usize]);
        let memory_of = |k: usize| donors[k].map_or(&outputs[k], |i| &inputs[i as usize]);
        let call = Call {
            inputs: &inputs.iter().map(|bytes| bytes.address()).collect::<Vec<_>>(),
            poisoned: way.poisoned,
            derived: &[],
            outputs: &(0..donors.len()).map(|k| memory_of(k).address()).collect::<Vec<_>>(),
            arena: arena.address(),
            host: 0,
            results: 0,
            scalars: &[0.1f64, 0.7, 0.9].map(f64::to_bits)[..scalars.len()],
            watch: way.apart.then_some(&Nobody),
        };
        let before = launches.load(Ordering::Relaxed);
        let outcome = program.run(&call);
        let results = plan.outputs.iter().enumerate().map(|(k, ty)| {
            let mut bytes = vec![0; ty.nbytes()];
            memory_of(k).read(0, &mut bytes).unwrap();
            bytes
        });
        let results: Vec<Vec<u8>> = results.collect();
        kept.extend([inputs, outputs, vec![arena]]);
        (launches.load(Ordering::Relaxed) - before, results, outcome)
    };
    let (first, second, third) = (once(), once(), once());
    assert!([&second, &third].iter().all(|other| (&other.0, &other.1) == (&first.0, &first.1)));
    third
}

/// A parameter's value, gradient, mean and mean square.
fn state(size: i64, n: usize) -> Vec<Array> {
    let number = |i: i64, k: usize| ((i * 37 + (n * 4 + k) as i64 * 101) % 211) as f64 / 200.0;
    let array =
        |k| Array::from_f64(F32, &[size], &(0..size).map(|i| number(i, k)).collect::<Vec<_>>());
    (0..4).map(array).collect()
}

fn scalars(m: &mut Make) -> [ValueId; 3] {
    [0, 1, 2].map(|slot| {
        let scalar = m.0.scalar(slot, F64).unwrap();
        m.cast(scalar, F32)
    })
}

/// A step of AdamW for parameters of `sizes` by gradients that `scale` may change; inputs as [`state`] gives them.
fn updates(sizes: &[i64], scale: impl Fn(&mut Make, &mut [ValueId])) -> (Graph, Vec<Option<u32>>) {
    let mut m = Make::default();
    let leaves: Vec<[ValueId; 4]> = (0..)
        .zip(sizes)
        .map(|(n, &size)| [0, 1, 2, 3].map(|k| m.input(4 * n + k, F32, &[size])))
        .collect();
    let mut gradients: Vec<ValueId> = leaves.iter().map(|leaf| leaf[1]).collect();
    scale(&mut m, &mut gradients);
    let rates = scalars(&mut m);
    let (mut outputs, mut donors) = (Vec::new(), Vec::new());
    for ((n, leaf), g) in (0..).zip(leaves).zip(gradients) {
        outputs.extend(adamw(&mut m, leaf[0], g, leaf[2], leaf[3], rates));
        donors.extend([0, 2, 3].map(|k| Some(4 * n + k)));
    }
    (m.0.finish(outputs), donors)
}

/// Scales gradients so that the norm of all is 1.
fn clip(m: &mut Make, gradients: &mut [ValueId]) {
    let mut total = m.0.constant(0.0, F32).unwrap();
    for &g in &*gradients {
        let square = m.binary(Op::Mul, g, g);
        let sum = m.sum(square, &[0]);
        total = m.binary(Op::Add, total, sum);
    }
    let scale = m.unary(Op::Rsqrt, total);
    gradients.iter_mut().for_each(|g| *g = m.binary(Op::Mul, *g, scale));
}

fn arrays(sizes: &[i64]) -> Vec<Array> {
    sizes.iter().enumerate().flat_map(|(n, &size)| state(size, n)).collect()
}

#[test]
fn updates_of_all_parameters_are_one_launch() {
    let (graph, donors) = updates(&SIZES, |_, _| {});
    let (launches, together, outcome) = run(&graph, &donors, &arrays(&SIZES), Way::default());
    assert_eq!(
        (launches, outcome.failed.len()),
        (2, 0),
        "what depends on the scalars only, and all else"
    );
    // By a program for each parameter.
    for (n, &size) in SIZES.iter().enumerate() {
        let (graph, donors) = updates(&[size], |_, _| {});
        let alone = run(&graph, &donors, &state(size, n), Way::default()).1;
        assert!(together[3 * n..3 * n + 3] == alone, "{size}");
    }
    let apart = run(&graph, &donors, &arrays(&SIZES), Way { apart: true, ..Way::default() });
    assert!((apart.0, apart.1) == (1 + SIZES.len() as u64, together));
}

/// Sizes that divide by nothing, and one number.
#[test]
fn odd_sizes_are_together_as_well() {
    let sizes = [3, 5, 1, 257, 9_001, 1];
    let (graph, donors) = updates(&sizes, |_, _| {});
    let (launches, together, _) = run(&graph, &donors, &arrays(&sizes), Way::default());
    assert_eq!(launches, 3, "one number has a kernel of its own");
    for (n, &size) in sizes.iter().enumerate() {
        let (graph, donors) = updates(&[size], |_, _| {});
        let alone = run(&graph, &donors, &state(size, n), Way::default()).1;
        assert!(together[3 * n..3 * n + 3] == alone, "{size}");
    }
}

/// The squares of gradients, summed.
fn norms(sizes: &[i64]) -> Graph {
    let mut m = Make::default();
    let norm = |(n, &size): (u32, &i64)| {
        let g = m.input(n, F32, &[size]);
        let square = m.binary(Op::Mul, g, g);
        m.sum(square, &[0])
    };
    let outputs = (0..).zip(sizes).map(norm).collect();
    m.0.finish(outputs)
}

#[test]
fn norms_of_all_gradients_are_a_launch_for_each_kernel() {
    let gradient = |(n, &size): (usize, &i64)| state(size, n).swap_remove(1);
    let gradients: Vec<Array> = SIZES.iter().enumerate().map(gradient).collect();
    let none = [None; SIZES.len()];
    let (launches, together, _) = run(&norms(&SIZES), &none, &gradients, Way::default());
    assert_eq!(launches, 3, "whole sums, parts, and what joins these");
    for (n, size) in SIZES.into_iter().enumerate() {
        let alone = run(&norms(&[size]), &[None], &gradients[n..=n], Way::default()).1;
        assert!(together[n] == alone[0], "{size}");
    }
    // The same norms, their total, and the updates.
    let (graph, donors) = updates(&SIZES, clip);
    let (launches, together, _) = run(&graph, &donors, &arrays(&SIZES), Way::default());
    let way = Way { apart: true, ..Way::default() };
    let (steps, apart, _) = run(&graph, &donors, &arrays(&SIZES), way);
    assert_eq!((launches, steps), (6, 15));
    assert!(together == apart);
}

#[test]
fn a_failure_before_leaves_all_of_them_as_they_were() {
    let sizes = [5, 700, 64];
    let bad = |m: &mut Make, gradients: &mut [ValueId]| {
        let places = m.input(12, I64, &[1]);
        let factor = m.ops(Op::Take, &[gradients[0], places], smallvec![Attr::Int(0)])[0];
        gradients.iter_mut().for_each(|g| *g = m.binary(Op::Mul, *g, factor));
    };
    let (graph, donors) = updates(&sizes, bad);
    for (place, failed) in [(4.0, 0), (5.0, 9)] {
        let mut arrays = arrays(&sizes);
        arrays.push(Array::from_f64(I64, &[1], &[place]));
        let (_, results, outcome) = run(&graph, &donors, &arrays, Way::default());
        assert_eq!(outcome.failed.len(), failed);
        let same = |(result, donor): (&Vec<u8>, &Option<u32>)| {
            *result == arrays[donor.unwrap() as usize].bytes
        };
        assert_eq!(results.iter().zip(&donors).all(same), failed > 0);
    }
}

#[test]
fn what_does_not_depend_on_a_failed_input_is_updated() {
    let (graph, donors) = updates(&SIZES, |_, _| {});
    let arrays = arrays(&SIZES);
    let whole = run(&graph, &donors, &arrays, Way::default()).1;
    let poisoned = [(4 + 1, Error::new(Code::OperatorError, "no gradient"))];
    let way = Way { poisoned: &poisoned, ..Way::default() };
    let (_, results, outcome) = run(&graph, &donors, &arrays, way);
    let failed: Vec<u32> = outcome.failed.iter().map(|failure| failure.output).collect();
    assert_eq!(failed, [3, 4, 5]);
    for (k, result) in results.iter().enumerate() {
        let unchanged = &arrays[donors[k].unwrap() as usize].bytes;
        assert!(result == if (3..6).contains(&k) { unchanged } else { &whole[k] });
    }
}

/// Same kernels in a row, of which each but the first needs the one before.
#[test]
fn what_waits_for_another_is_not_launched_with_it() {
    let mut m = Make::default();
    let mut x = m.input(0, F32, &[300]);
    let mut outputs = Vec::new();
    for _ in 0..3 {
        let sum = m.sum(x, &[0]);
        x = m.binary(Op::Div, x, sum);
        outputs.push(x);
    }
    let graph = m.0.finish(outputs);
    let array = Array::from_f64(F32, &[300], &(0..300).map(f64::from).collect::<Vec<_>>());
    let together = run(&graph, &[None; 3], std::slice::from_ref(&array), Way::default());
    let apart = run(&graph, &[None; 3], &[array], Way { apart: true, ..Way::default() });
    assert!((together.0, together.1) == (apart.0, apart.1) && apart.0 == 6);
}

/// Launches of all steps, of all launch groups, and the plan of a training step for `target`.
fn launches(target: &dyn Target) -> (usize, usize, Plan) {
    let (graph, donors) = training_step(4, 2, 16, 32, 64);
    let (inputs, scalars) = leaves(&graph);
    let plan = plan(&graph, &inputs, &scalars, &donors, target).unwrap();
    let lowered = |index| lower::step(&plan, index, &Emulated::default()).unwrap();
    let mut steps: Vec<Actions> = (0..plan.steps.len()).map(lowered).collect();
    let of = |index: usize, steps: &[Actions]| steps[index].tasks().count();
    let apart = (0..steps.len()).map(|index| of(index, &steps)).sum();
    let groups = fuse_horizontally(&plan, &mut steps).0;
    let together = groups.iter().map(|group| match group {
        LaunchGroup::Step(index) => of(*index, &steps),
        LaunchGroup::Fused(_, tasks) => tasks.len(),
    });
    (apart, together.sum(), plan)
}

/// Where the order of steps does not look at who computes alike.
struct AsTheyCome;

impl Target for AsTheyCome {
    fn workspace(&self, _: Op, _: &Attrs, _: &[Ty], _: &[Ty]) -> u64 {
        0
    }

    fn has_epilogue(&self, op: Op) -> bool {
        emulated::backend().has_epilogue(op)
    }

    fn half_flops_per_byte(&self) -> u64 {
        emulated::backend().half_flops_per_byte()
    }
}

#[test]
fn a_training_step_takes_few_launches_and_no_more_memory() {
    let ordered = launches(&emulated::backend());
    let others = launches(&AsTheyCome);
    assert!(ordered.2.lower_bound <= others.2.lower_bound);
    // How well blocks fit into the arena is a matter of luck.
    assert!(ordered.2.arena_bytes <= others.2.arena_bytes + others.2.arena_bytes / 100);
    let text = format!("{} launches, {} as they come, {} in order", others.0, others.1, ordered.1);
    expect!["194 launches, 140 as they come, 130 in order"].assert_eq(&text);
}
