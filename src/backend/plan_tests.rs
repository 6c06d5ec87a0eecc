//! Plans against the graphs they were made from: a backend runs the plan, the interpreter the graph.

use super::cpu::{Cpu, onednn::Search};
use super::{Backend, Call, Executable, Outcome, reference::Reference};
use crate::buffer::Bytes;
use crate::dtype::DType;
use crate::graph::{Graph, ValueId, interpret::interpret};
use crate::op::array::Array;
use crate::op::{Attr, Attrs, Op, Ty};
use crate::plan::random::{Dice, random_program};
use crate::plan::tests::leaves;
use crate::plan::training::{Make, training_step};
use crate::plan::{self, Kernel, Limit, Plan, PlanMode, Step, Target};
use smallvec::smallvec;
use std::sync::Arc;

/// Some numbers; indices stay below 16.
fn some_input(ty: &Ty, dice: &mut Dice) -> Array {
    let number = |_| match ty.dtype {
        DType::I64 => dice.below(16) as f64,
        _ => dice.below(1000) as f64 / 500.0 - 0.9,
    };
    let numbers: Vec<f64> = (0..ty.numel()).map(number).collect();
    Array::from_f64(ty.dtype, &ty.sizes, &numbers)
}

/// Runs the plan in memory full of garbage. `None` when the graph itself fails on these inputs.
pub fn check(
    backend: &dyn Backend,
    graph: &Graph,
    donors: &[Option<u32>],
    seed: u64,
    tolerance: f64,
) -> Option<()> {
    for mode in [PlanMode::Search, PlanMode::Quick] {
        let (inputs, scalars) = leaves(graph);
        let unplaced =
            plan::plan_unplaced(graph, &inputs, &scalars, donors, backend, mode).unwrap().0;
        for plan in [unplaced.clone().placed(), unplaced.placed_sharing(1)] {
            plan::check::check(graph, &plan).unwrap();
            check_plan(backend, graph, plan, seed, tolerance)?;
        }
    }
    Some(())
}

fn check_plan(
    backend: &dyn Backend,
    graph: &Graph,
    plan: Plan,
    seed: u64,
    tolerance: f64,
) -> Option<()> {
    let (arrays, scalars) = some_inputs(&plan, seed);
    let wanted = interpret(graph, &arrays, &scalars).ok()?;
    let found = run(backend, &plan, &arrays, &scalars);
    for (k, (got, wanted)) in found.iter().zip(&wanted).enumerate() {
        for (a, b) in got.to_f64s().into_iter().zip(wanted.to_f64s()) {
            let near = (a - b).abs() <= tolerance * (1.0 + b.abs());
            assert!(
                near || a == b || a.is_nan() && b.is_nan(),
                "seed {seed}, {k}: {a} {b}\n{plan}"
            );
        }
    }
    Some(())
}

/// Inputs and scalars.
pub fn some_inputs(plan: &Plan, seed: u64) -> (Vec<Array>, Vec<u64>) {
    let mut dice = Dice(seed);
    let arrays = plan.inputs.iter().map(|ty| some_input(ty, &mut dice)).collect();
    let scalar = |d: &DType| if *d == DType::F64 { 0.37f64.to_bits() } else { 5 };
    (arrays, plan.scalars.iter().map(scalar).collect())
}

/// The outputs of a plan that runs in memory full of garbage.
pub fn run(backend: &dyn Backend, plan: &Plan, arrays: &[Array], scalars: &[u64]) -> Vec<Array> {
    run_by(backend, plan, (arrays, scalars), |executable, call| executable.run(call))
}

/// As [`run`], run by `way`.
pub fn run_by(
    backend: &dyn Backend,
    plan: &Plan,
    (arrays, scalars): (&[Array], &[u64]),
    way: impl FnOnce(&dyn Executable, &Call) -> Outcome,
) -> Vec<Array> {
    let holding = |bytes: &[u8]| {
        let mut memory = backend.allocate(bytes.len()).expect("a little memory");
        memory.write(0, bytes).expect("memory of its own");
        memory
    };
    let garbage = |nbytes: usize| holding(&vec![0xEE; nbytes]);
    let inputs: Vec<Box<dyn Bytes>> = arrays.iter().map(|a| holding(&a.bytes)).collect();
    let outputs: Vec<Box<dyn Bytes>> = plan.outputs.iter().map(|ty| garbage(ty.nbytes())).collect();
    let results = garbage(plan.results_bytes as usize);
    // Results may lie in their block or not.
    let is_apart = plan.steps.len() % 2 == 1;
    let memory_of = |k: usize| match (plan.donors[k], plan.place_of_result(k as u32)) {
        (Some(i), _) => (&inputs[i as usize], 0),
        (None, Some(start)) if !is_apart => (&results, start as usize),
        (None, _) => (&outputs[k], 0),
    };
    let address = |k: usize| memory_of(k).0.address() + memory_of(k).1;
    let arena = garbage(plan.arena_bytes as usize);
    let host = backend.allocate_on_host(plan.host_bytes as usize).expect("a little memory");
    let call = Call {
        inputs: &inputs.iter().map(|bytes| bytes.address()).collect::<Vec<_>>(),
        poisoned: &[],
        derived: &[],
        outputs: &(0..outputs.len()).map(address).collect::<Vec<_>>(),
        arena: arena.address(),
        host: host.address(),
        results: results.address(),
        scalars,
        watch: None,
    };
    let executable = backend.compile(Arc::new(plan.clone())).unwrap();
    let outcome = way(&*executable, &call);
    assert!(outcome.failed.is_empty(), "{:?}\n{plan}", outcome.failed);
    let read = |(k, ty): (usize, &Ty)| {
        let mut array = Array::zeros(ty);
        let (memory, start) = memory_of(k);
        memory.read(start, &mut array.bytes).expect("the program has run");
        array
    };
    plan.outputs.iter().enumerate().map(read).collect()
}

/// A backend whose kernels of nodes go on with nothing.
struct Apart<'a>(&'a dyn Backend);

impl Target for Apart<'_> {
    fn workspace(&self, op: Op, attrs: &Attrs, inputs: &[Ty], outputs: &[Ty]) -> u64 {
        self.0.workspace(op, attrs, inputs, outputs)
    }

    fn has_epilogue(&self, _: Op) -> bool {
        false
    }
}

/// A kernel over rows between casts of its operands and an epilogue on its first result: one number a row scales it,
/// and another tensor is added. With `stored`, the casts are outputs.
fn between_maps(op: Op, half: DType, rows: [i64; 2], stored: bool) -> Graph {
    let mut m = Make::default();
    let [r, c] = rows;
    let halves = [0, 1].map(|i| m.input(i, half, &[r, c]));
    let columns = [2, 3].map(|i| m.input(i, DType::F32, &[c]));
    let [rstd, mean] = [4, 5].map(|i| m.input(i, DType::F32, &[r]));
    // In f16 it lies across the rows' parts of three.
    let residual =
        m.input(6, half, &if half == DType::F16 { [r, 3, c / 3] } else { [r, c / 3, 3] });
    let residual = if half == DType::F16 { m.transpose(residual, &[0, 2, 1]) } else { residual };
    let scale = m.input(7, DType::F32, &[r, 1, 1]);
    let along = m.input(8, DType::F32, &[1, c / 3, 3]);
    let [dy, x] = halves.map(|x| m.cast(x, DType::F32));
    let eps = Attr::Float(1e-5);
    let (inputs, attrs): (Vec<ValueId>, Attrs) = match op {
        Op::LayerNorm => {
            (vec![x, columns[0], columns[1]], smallvec![eps, Attr::Bool(true), Attr::Bool(true)])
        }
        Op::RmsNorm => (vec![x, columns[0]], smallvec![eps]),
        Op::LayerNormGrad => (vec![dy, x, mean, rstd, columns[0]], smallvec![]),
        Op::RmsNormGrad => (vec![dy, x, rstd, columns[0]], smallvec![]),
        Op::SoftmaxGrad | Op::LogSoftmaxGrad => (vec![dy, x], smallvec![]),
        _ => (vec![x], smallvec![]),
    };
    let results = m.ops(op, &inputs, attrs);
    let first = m.reshape(results[0], &[r, c / 3, 3]);
    let scaled = m.binary(Op::Mul, first, scale);
    let scaled = m.binary(Op::Mul, scaled, along);
    let residual = m.cast(residual, DType::F32);
    let sum = m.binary(Op::Add, scaled, residual);
    let rounded = m.cast(sum, half);
    // Results that nothing else could store.
    let twice = [sum, rounded].map(|v| m.ops(Op::Concat, &[v, v], smallvec![Attr::Int(0)])[0]);
    let mut outputs = [&twice[..], &results[1..]].concat();
    if stored {
        outputs.extend(inputs.iter().filter(|v| [dy, x].contains(v)));
    }
    m.0.finish(outputs)
}

/// Kernels over rows read operands of half types and have epilogues: with the bits that they have when every value is
/// stored, and close to the results of the graph.
pub fn rows_between_maps(backend: &dyn Backend) {
    let ops = [
        Op::LayerNorm,
        Op::LayerNormGrad,
        Op::RmsNorm,
        Op::RmsNormGrad,
        Op::Softmax,
        Op::SoftmaxGrad,
        Op::LogSoftmax,
        Op::LogSoftmaxGrad,
    ];
    for (seed, op) in ops.into_iter().enumerate() {
        for (half, rows) in [
            (DType::BF16, [37, 48]),
            (DType::F16, [3, 12]),
            (DType::BF16, [2, 9012]),
            (DType::BF16, [2, 9003]),
        ] {
            let graph = between_maps(op, half, rows, false);
            let plan = plan_for(&graph, backend);
            let fused =
                |step: &&Step| matches!(&step.kernel, Kernel::Fused { op: o, .. } if *o == op);
            let step = plan.steps.iter().find(fused).expect("the program follows the rows");
            assert_eq!(step.reads[0].dtype, half, "{plan}");
            let (arrays, scalars) = some_inputs(&plan, seed as u64);
            let found = run(backend, &plan, &arrays, &scalars);
            let stored = plan_for(&between_maps(op, half, rows, true), &Apart(backend));
            assert!(!stored.steps.iter().any(|step| fused(&step)), "{stored}");
            let expected = run(backend, &stored, &arrays, &scalars);
            assert!(found == expected[..found.len()], "other bits:\n{plan}\n{stored}");
            // Half types are rounded at the end.
            check_plan(backend, &graph, plan, seed as u64, 0.01)
                .expect("the graph can be computed");
        }
    }
}

/// Operations one after the other in one region, each of a record of its own: a square, and readers that use it as it
/// is and as other types. `kept`: the square itself is a result.
fn readers_of_a_square(half: DType, kept: bool) -> Graph {
    let mut m = Make::default();
    let [x, big] = [0, 1].map(|i| m.input(i, half, &[5, 67]));
    let mut op = |op, inputs: &[ValueId], attrs: Attrs| {
        m.0.record += 1;
        m.ops(op, inputs, attrs)[0]
    };
    let square = op(Op::Mul, &[x, big], smallvec![]);
    let wide = op(Op::Cast, &[square], smallvec![Attr::DType(DType::F32)]);
    let is_more = op(Op::Gt, &[square, big], smallvec![]);
    let sum = op(Op::Sum, &[square], smallvec![Attr::Ints(smallvec![1])]);
    let half_again = op(Op::Div, &[square, big], smallvec![]);
    let mut outputs = vec![wide, is_more, sum];
    if kept {
        outputs.extend([half_again, square]);
    }
    m.0.finish(outputs)
}

/// Values that a half type cannot hold are rounded for every reader that can tell, exactly as in the graph.
pub fn halves_are_rounded_for_their_readers(backend: &dyn Backend) {
    for half in [DType::F16, DType::BF16] {
        for kept in [false, true] {
            let graph = readers_of_a_square(half, kept);
            let plan = plan_for(&graph, backend);
            let (mut arrays, scalars) = some_inputs(&plan, 5);
            let large = if half == DType::F16 { 60000.0 } else { 3e38 };
            let numbers: Vec<f64> = (0..5 * 67).map(|i| large / (i + 1) as f64).collect();
            arrays[1] = Array::from_f64(half, &[5, 67], &numbers);
            arrays[0].set_f64(0, 1.7);
            let expected = interpret(&graph, &arrays, &scalars).expect("it can be computed");
            let found = run(backend, &plan, &arrays, &scalars);
            for (k, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // The order of sums is the backend's own.
                let tolerance = if k == 2 { 0.02 } else { 0.0 };
                for (a, b) in found.to_f64s().into_iter().zip(expected.to_f64s()) {
                    let near = (a - b).abs() <= tolerance * b.abs();
                    assert!(near || a == b || a.is_nan() && b.is_nan(), "{k}: {a} {b}\n{plan}");
                }
            }
        }
    }
}

fn plan_for(graph: &Graph, target: &dyn Target) -> Plan {
    let (inputs, scalars) = leaves(graph);
    let donors = vec![None; graph.outputs.len()];
    let plan = plan::plan(graph, &inputs, &scalars, &donors, target).unwrap();
    plan::check::check(graph, &plan).unwrap();
    plan
}

#[test]
fn halves_on_the_reference() {
    halves_are_rounded_for_their_readers(&Reference::default());
}

#[test]
fn rows_on_the_reference() {
    rows_between_maps(&Reference::default());
}

#[test]
fn plans_of_random_programs_compute_what_the_graph_says() {
    let ran = (0..400).filter_map(|seed| {
        let (graph, donors) = random_program(seed);
        check(&Reference::default(), &graph, &donors, seed, 1e-4)
    });
    assert!(ran.count() > 300);
}

#[test]
fn a_planned_training_step_computes_what_the_graph_says() {
    let (graph, donors) = training_step(1, 2, 8, 16, 32);
    // Fused regions keep bf16 intermediates in f32.
    assert!(check(&Reference::default(), &graph, &donors, 0, 0.03).is_some());
}

/// A backend as if the host had a memory of its own.
struct WithHost<'a>(&'a dyn Backend);

impl Target for WithHost<'_> {
    fn workspace(&self, op: Op, attrs: &Attrs, inputs: &[Ty], outputs: &[Ty]) -> u64 {
        self.0.workspace(op, attrs, inputs, outputs)
    }

    fn has_epilogue(&self, op: Op) -> bool {
        self.0.has_epilogue(op)
    }

    fn host_link_slowdown(&self) -> Option<u64> {
        Some(2)
    }
}

/// Within half and a third of its memory a program computes the same bits. Returns the number of values that wait on the host.
fn less_memory_gives_the_same_bits(
    (backend, target): (&dyn Backend, &dyn Target),
    (graph, donors): (Graph, Vec<Option<u32>>),
    seed: u64,
) -> usize {
    let (inputs, scalars) = leaves(&graph);
    let planned = |mode| {
        let unplaced = plan::plan_unplaced(&graph, &inputs, &scalars, &donors, target, mode);
        let plan = unplaced.unwrap().0.placed_sharing(1);
        plan::check::check(&graph, &plan).unwrap();
        plan
    };
    let all = planned(PlanMode::Search);
    let (arrays, scalars) = some_inputs(&all, seed);
    if interpret(&graph, &arrays, &scalars).is_err() {
        return 0;
    }
    let wanted = run(backend, &all, &arrays, &scalars);
    let mut offloads = 0;
    for part in [2, 3] {
        let plan = planned(PlanMode::Within(Limit::of(all.memory() / part)));
        let found = run(backend, &plan, &arrays, &scalars);
        assert!(found.iter().zip(&wanted).all(|(a, b)| a.bytes == b.bytes), "seed {seed}\n{plan}");
        offloads += plan.steps.iter().filter(|step| step.is_chosen_offload()).count();
    }
    offloads
}

#[test]
fn programs_in_less_memory_give_the_same_bits() {
    let both: [&dyn Backend; 2] = [&Reference::default(), &Cpu::new(2, Search::Off)];
    for backend in both {
        let offloads = |target: &dyn Target| -> usize {
            let of =
                |program, seed| less_memory_gives_the_same_bits((backend, target), program, seed);
            let random: usize = (0..200).map(|seed| of(random_program(seed), seed)).sum();
            random + of(training_step(2, 2, 8, 16, 32), 0)
        };
        let (plain, with_host) = (offloads(backend), offloads(&WithHost(backend)));
        assert!(plain == 0 && with_host > 50, "{plain} and {with_host} values wait on the host");
    }
}
