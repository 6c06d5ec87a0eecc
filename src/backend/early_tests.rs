//! Steps that run before all inputs are known: the same bits.

use super::cpu::{Cpu, onednn::Search};
use super::plan_tests::{run, run_by, some_inputs};
use crate::plan::early::{EarlySteps, Touched};
use crate::plan::random::{Dice, random_program};
use crate::plan::tests::plan_sharing;
use crate::plan::{MemRef, Operand, Step};

#[test]
fn random_programs_have_the_same_bits_whatever_runs_early() {
    let backend = Cpu::new(2, Search::Off);
    let (mut early, mut out_of_turn) = (0, 0);
    for seed in 0..300 {
        let (graph, donors) = random_program(seed);
        let plan = plan_sharing(&backend, &graph, &donors);
        let (arrays, scalars) = some_inputs(&plan, seed);
        let mut dice = Dice(seed);
        let found = run_by(&backend, &plan, (&arrays, &scalars), |executable, call| {
            let stepwise = executable.stepwise().expect("the CPU runs step by step");
            let (mut steps, touched) = (EarlySteps::new(&plan), Touched::by(&plan));
            let mut known = vec![false; plan.inputs.len()];
            for _ in 0..3 {
                known.iter_mut().for_each(|known| *known |= dice.below(3) == 0);
                let is_there = |operand: &Operand| match operand.mem {
                    MemRef::Input(n) => known[n as usize],
                    MemRef::Output(k) => plan.donors[k as usize].is_none(),
                    _ => true,
                };
                let is_known = |step: &Step| step.reads.iter().chain(&step.writes).all(is_there);
                let ready = steps.ready(&plan, &touched, &is_known);
                let first = steps.rest(&plan).next();
                out_of_turn += usize::from(ready.first().is_some_and(|step| Some(*step) != first));
                let mut now = ready.iter().copied();
                let outcome = stepwise.run_steps(call, &mut |_| now.next());
                assert!(outcome.failed.is_empty() && outcome.unseen.is_empty(), "seed {seed}");
                steps.have_run(&ready);
            }
            early += steps.count();
            let mut rest = steps.rest(&plan);
            stepwise.run_steps(call, &mut |_| rest.next())
        });
        assert!(found == run(&backend, &plan, &arrays, &scalars), "seed {seed}\n{plan}");
    }
    assert!(early > 300 && out_of_turn > 50, "{early} steps ran early, {out_of_turn} out of turn");
}
