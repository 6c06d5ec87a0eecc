//! Plans against the graphs they were made from: a backend runs the plan, the interpreter the graph.

use super::{Backend, Call, reference::Reference};
use crate::buffer::Bytes;
use crate::dtype::DType;
use crate::graph::{Graph, interpret::interpret};
use crate::op::Ty;
use crate::op::array::Array;
use crate::plan::random::{Dice, random_program};
use crate::plan::tests::leaves;
use crate::plan::training::training_step;
use crate::plan::{self, Effort, Plan};
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
    for effort in [Effort::Search, Effort::Quick] {
        let (inputs, scalars) = leaves(graph);
        let outline = plan::outline(graph, &inputs, &scalars, donors, backend, effort).unwrap().0;
        let plan = outline.settled();
        plan::check::check(graph, &plan).unwrap();
        check_plan(backend, graph, plan, seed, tolerance)?;
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
    let mut dice = Dice(seed);
    let arrays: Vec<Array> = plan.inputs.iter().map(|ty| some_input(ty, &mut dice)).collect();
    let scalar = |d: &DType| if *d == DType::F64 { 0.37f64.to_bits() } else { 5 };
    let scalars: Vec<u64> = plan.scalars.iter().map(scalar).collect();
    let wanted = interpret(graph, &arrays, &scalars).ok()?;

    let holding = |bytes: &[u8]| {
        let mut memory = backend.allocate(bytes.len()).expect("a little memory");
        memory.write(0, bytes).expect("memory of its own");
        memory
    };
    let garbage = |nbytes: usize| holding(&vec![0xEE; nbytes]);
    let inputs: Vec<Box<dyn Bytes>> = arrays.iter().map(|a| holding(&a.bytes)).collect();
    let outputs: Vec<Box<dyn Bytes>> = plan.outputs.iter().map(|ty| garbage(ty.nbytes())).collect();
    let memory_of = |k: usize| plan.donors[k].map_or(&outputs[k], |i| &inputs[i as usize]);
    let arena = garbage(plan.arena_bytes as usize);
    let call = Call {
        inputs: &inputs.iter().map(|bytes| bytes.address()).collect::<Vec<_>>(),
        poisoned: &[],
        outputs: &(0..outputs.len()).map(|k| memory_of(k).address()).collect::<Vec<_>>(),
        arena: arena.address(),
        scalars: &scalars,
        watch: None,
    };
    let outcome = backend.compile(Arc::new(plan.clone())).unwrap().run(&call);
    assert!(outcome.failed.is_empty(), "seed {seed}: {:?}", outcome.failed);

    for (k, wanted) in wanted.iter().enumerate() {
        let mut got = Array::zeros(&wanted.ty);
        memory_of(k).read(0, &mut got.bytes).expect("the program has run");
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
