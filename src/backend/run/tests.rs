//! The run loop: what is skipped, what fails with what, and which pieces of memory are distinguished.

use super::*;
use crate::dtype::DType;
use crate::op::Ty;
use crate::plan::LoopBody;
use MemRef::{Arena, Input, Output};

/// `size` numbers from `offset`, every `stride`-th, of i16.
fn part(mem: MemRef, offset: i64, size: i64, stride: i64) -> Operand {
    let layout = Layout { sizes: [size][..].into(), strides: [stride][..].into(), offset };
    Operand { mem, dtype: DType::I16, layout }
}

fn whole(mem: MemRef) -> Operand {
    part(mem, 0, 8, 1)
}

fn step(reads: &[Operand], write: Operand) -> Step {
    Step {
        kernel: Kernel::Map(LoopBody {
            sizes: [8][..].into(),
            reads: vec![],
            instrs: vec![],
            results: vec![],
        }),
        reads: reads.into(),
        writes: vec![write],
        reads_of: vec![],
        results_of: vec![],
        workspace: None,
        done: None,
        site: 40,
        record: 0,
    }
}

fn plan(steps: Vec<Step>, donors: &[Option<u32>]) -> Plan {
    let eight = Ty::new(DType::I16, &[8]);
    Plan {
        steps,
        inputs: vec![eight.clone(); 2],
        outputs: vec![eight; donors.len()],
        donors: donors.into(),
        ..Plan::default()
    }
}

/// With `bad` steps failing and `poisoned` inputs: the steps that ran, and the failed outputs with whom they blame.
fn check(
    plan: &Plan,
    bad: &[usize],
    poisoned: &[u32],
    ran: &[usize],
    failed: &[(u32, Option<u32>)],
) {
    let error = |text: String| Error::new(Code::OperatorError, text);
    let poisoned: Vec<(u32, Error)> =
        poisoned.iter().map(|&n| (n, error(format!("input {n}")))).collect();
    let outputs = vec![64; plan.outputs.len()];
    let call = Call {
        inputs: &[],
        outputs: &outputs,
        arena: 64,
        host: 0,
        results: 0,
        scalars: &[],
        poisoned: &poisoned,
        derived: &[],
        watch: None,
    };
    let mut seen = Vec::new();
    let outcome = run_steps(plan, &call, |index| {
        if bad.contains(&index) {
            return Err(error(format!("step {index}")));
        }
        seen.push(index);
        Ok(())
    });
    assert_eq!(seen, ran);
    let got: Vec<_> = outcome.failed.iter().map(|f| (f.output, f.step)).collect();
    assert_eq!(got, failed);
    for failure in outcome.failed {
        match failure.step {
            Some(step) => {
                assert_eq!(failure.error.message, format!("copy: step {step}"));
                assert_eq!(failure.error.site, 40);
            }
            None => assert!(failure.error.message.starts_with("input")),
        }
    }
}

#[test]
fn what_does_not_depend_on_a_failure_runs() {
    let steps = vec![
        step(&[whole(Input(0))], whole(Arena(0))),
        step(&[whole(Arena(0))], whole(Output(0))),
        step(&[whole(Input(1))], whole(Output(1))),
        step(&[whole(Output(1)), whole(Output(0))], whole(Output(2))),
    ];
    let plan = plan(steps, &[None, None, None]);
    check(&plan, &[], &[], &[0, 1, 2, 3], &[]);
    check(&plan, &[0], &[], &[2], &[(0, Some(0)), (2, Some(0))]);
    check(&plan, &[0, 2], &[], &[], &[(0, Some(0)), (1, Some(2)), (2, Some(2))]);
    check(&plan, &[3], &[], &[0, 1, 2], &[(2, Some(3))]);
    check(&plan, &[], &[0], &[2], &[(0, None), (2, None)]);
    check(&plan, &[], &[1], &[0, 1], &[(1, None), (2, None)]);
}

#[test]
fn what_no_output_shows_is_distinguished_and_inputs_reach_what_is_computed_from_them() {
    let alone = |reads: &[Operand]| Step { writes: vec![], ..step(reads, whole(Arena(0))) };
    let steps = vec![
        step(&[whole(Input(0))], whole(Arena(0))),
        alone(&[whole(Arena(0))]),
        step(&[whole(Input(1))], whole(Output(0))),
        step(&[whole(Arena(0))], whole(Arena(16))),
        step(&[whole(Output(0))], whole(Output(1))),
    ];
    let plan = plan(steps, &[None, None]);
    let outputs = [64, 64];
    let call = Call {
        inputs: &[],
        outputs: &outputs,
        arena: 64,
        host: 0,
        results: 0,
        scalars: &[],
        poisoned: &[],
        derived: &[],
        watch: None,
    };
    let unseen = |bad: &[usize]| {
        let fails = |index| Err(Error::new(Code::OperatorError, format!("step {index}")));
        let outcome =
            run_steps(
                &plan,
                &call,
                |index| if bad.contains(&index) { fails(index) } else { Ok(()) },
            );
        outcome.unseen.iter().map(|(step, _)| step.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((unseen(&[]), unseen(&[0]), unseen(&[1, 3])), (vec![], vec![0], vec![1, 3]));
    assert_eq!((unseen(&[2]), unseen(&[4]), unseen(&[1, 4])), (vec![], vec![], vec![1]));
    assert_eq!((reached(&plan, &[0]), reached(&plan, &[1])), (vec![], vec![0, 1]));
}

#[test]
fn memory_that_is_used_again_heals() {
    let steps = vec![
        step(&[], whole(Arena(64))),
        step(&[], part(Arena(64), 0, 4, 1)),
        step(&[part(Arena(64), 0, 4, 1)], whole(Output(0))),
        step(&[part(Arena(64), 3, 2, 1)], whole(Output(1))),
        step(&[], whole(Arena(64))),
        step(&[whole(Arena(64))], whole(Output(2))),
    ];
    check(&plan(steps, &[None, None, None]), &[0], &[], &[1, 2, 4, 5], &[(1, Some(0))]);
}

#[test]
fn every_second_element_is_half_of_the_memory() {
    let steps = vec![
        step(&[], part(Output(0), 0, 4, 2)),
        step(&[], part(Output(0), 1, 4, 2)),
        step(&[part(Output(0), 1, 4, 2)], whole(Output(1))),
        step(&[part(Output(0), 2, 9, 0)], whole(Output(2))),
    ];
    let failed = [(0, Some(0)), (2, Some(0))];
    check(&plan(steps, &[None, None, None]), &[0], &[], &[1, 2], &failed);
}

#[test]
fn an_output_shares_the_memory_of_its_donor() {
    let steps = vec![
        step(&[whole(Input(0))], whole(Output(0))),
        step(&[whole(Input(1))], part(Output(1), 0, 2, 1)),
    ];
    let plan = plan(steps, &[Some(0), Some(1)]);
    check(&plan, &[0], &[], &[1], &[(0, Some(0))]);
    check(&plan, &[], &[1], &[0], &[(1, None)]);
    // Nothing wrote the rest of output 1, which is input 1.
    check(&plan, &[1], &[1], &[0], &[(1, None)]);
    // Nobody writes an output that is its donor.
    check(&self::plan(vec![], &[Some(0), Some(1)]), &[], &[1], &[], &[(1, None)]);
}

#[test]
fn an_output_without_memory_is_the_failure_of_its_step() {
    let steps = vec![
        step(&[whole(Input(0))], whole(Output(0))),
        step(&[whole(Input(1))], whole(Output(1))),
        step(&[whole(Output(0))], whole(Output(2))),
    ];
    let plan = plan(steps, &[None, None, None]);
    let call = Call {
        inputs: &[],
        outputs: &[0, 64, 64],
        arena: 0,
        host: 0,
        results: 0,
        scalars: &[],
        poisoned: &[],
        derived: &[],
        watch: None,
    };
    let mut ran = Vec::new();
    let outcome = run_steps(&plan, &call, |index| {
        ran.push(index);
        Ok(())
    });
    assert_eq!(ran, [1]);
    let failed: Vec<_> = outcome.failed.iter().map(|f| (f.output, f.error.code)).collect();
    assert_eq!(failed, [(0, Code::OutOfMemory), (2, Code::OutOfMemory)]);
}

#[test]
fn what_a_step_without_memory_was_writing_is_torn() {
    let steps = vec![
        step(&[whole(Input(0))], whole(Output(0))),
        step(&[whole(Output(0))], whole(Output(1))),
    ];
    let plan = plan(steps, &[Some(0), Some(1)]);
    let call = Call {
        inputs: &[],
        outputs: &[64, 64],
        arena: 64,
        host: 0,
        results: 0,
        scalars: &[],
        poisoned: &[],
        derived: &[],
        watch: None,
    };
    for (code, torn) in [(Code::OutOfMemory, [true, false]), (Code::OperatorError, [false; 2])] {
        let outcome = run_steps(&plan, &call, |_| Err(Error::new(code, "no")));
        let got: Vec<_> = outcome.failed.iter().map(|failure| failure.torn).collect();
        assert_eq!(got, torn);
    }
}

#[test]
fn an_output_without_bytes_can_fail() {
    let mut plan = plan(vec![step(&[whole(Input(0))], part(Output(0), 0, 0, 1))], &[None]);
    plan.outputs[0] = Ty::new(DType::I16, &[0]);
    check(&plan, &[0], &[], &[], &[(0, Some(0))]);
}

#[test]
fn runs_of_a_layout() {
    let check = |layout: &Layout, expected: &[(i64, i64)]| {
        let found: Vec<_> = runs(layout).unwrap().iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(found, expected, "{layout:?}");
    };
    let dense = Layout::contiguous(&[3, 4]);
    let rows = dense.slice(&[0, 1], &[3, 2], &[1, 1]);
    check(&rows, &[(1, 3), (5, 7), (9, 11)]);
    check(&rows.transpose(&[1, 0]), &[(1, 3), (5, 7), (9, 11)]);
    check(&dense.transpose(&[1, 0]), &[(0, 12)]);
    check(&Layout::contiguous(&[1, 4]).broadcast(&[5, 4]), &[(0, 4)]);
    check(&Layout::contiguous(&[]), &[(0, 1)]);
    check(&Layout::contiguous(&[2, 0]), &[]);
    let large = Layout::contiguous(&[1 << 20, 1 << 20]);
    check(&large.transpose(&[1, 0]), &[(0, 1 << 40)]);
    assert_eq!(runs(&large.slice(&[0, 0], &[1 << 20, 1], &[1, 1])), None);
}

/// Of what is written in too many pieces to tell them apart, all between is taken for written by nobody.
#[test]
fn very_many_pieces_are_one_and_heal_nothing() {
    let pieces = part(Output(0), 3, 1 << 17, 2);
    let reader = step(&[part(Output(0), 1000, 1, 1)], whole(Output(1)));
    let other = step(&[part(Output(0), 1, 1, 1)], whole(Output(2)));
    let mut plan = plan(vec![step(&[], pieces), reader, other], &[None; 3]);
    plan.outputs[0] = Ty::new(DType::I16, &[1 << 19]);
    check(&plan, &[0], &[], &[2], &[(0, Some(0)), (1, Some(0))]);
    // Poisoned before: the second step writes every other element.
    let again = step(&[], part(Output(0), 3, 1 << 17, 2));
    let first = step(&[], part(Output(0), 0, 1 << 19, 1));
    let reader = step(&[part(Output(0), 3, 1, 1)], whole(Output(1)));
    plan.steps = vec![first, again, reader];
    check(&plan, &[0], &[], &[1], &[(0, Some(0)), (1, Some(0))]);
}

#[test]
fn what_lay_where_a_result_is_written_later_fails_for_itself() {
    let steps = vec![
        step(&[whole(Input(0))], whole(MemRef::Results(0))),
        step(&[whole(MemRef::Results(0))], whole(Output(1))),
        step(&[whole(Input(1))], whole(Output(0))),
        step(&[whole(Input(1))], whole(Output(2))),
    ];
    let results = vec![(0, 0), (2, 512)];
    let plan = Plan { results, results_bytes: 1024, ..plan(steps, &[None, None, None]) };
    // With memory for them, and without.
    let failing = |bad: &[usize], results: usize| {
        let call = Call {
            inputs: &[],
            outputs: &[64, 64, 64],
            arena: 64,
            host: 0,
            results,
            scalars: &[],
            poisoned: &[],
            derived: &[],
            watch: None,
        };
        let outcome = run_steps(&plan, &call, |index| match bad.contains(&index) {
            true => Err(Error::new(Code::OperatorError, "no")),
            false => Ok(()),
        });
        outcome.failed.iter().map(|f| (f.output, f.step)).collect::<Vec<_>>()
    };
    assert_eq!(failing(&[], 64), []);
    assert_eq!(failing(&[0], 64), [(1, Some(0))]);
    assert_eq!(failing(&[2], 64), [(0, Some(2))]);
    assert_eq!(failing(&[3], 64), [(2, Some(3))]);
    assert_eq!(failing(&[], 0), [(1, Some(0))]);
}
