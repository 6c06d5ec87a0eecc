//! The checker has to catch what planners get wrong: good plans are spoiled in every way a table below knows, at every
//! step, and each spoiled plan must be refused. Random programs then show that good plans are accepted.

use super::check;
use crate::dtype::DType::{BF16, F32, I64};
use crate::graph::ValueId;
use crate::op::Op;
use crate::op::collective::{Kind, TOKEN, gathered};
use crate::plan::random::{random_lanes_program, random_program, random_ranks_program};
use crate::plan::tests::{NoWorkspace, WithLanes, plan_for, plan_of, plan_sharing};
use crate::plan::training::{Make, training_step};
use crate::plan::{ALIGN, Kernel, LoopBody, MemRef, Operand, Plan, Step};
use smallvec::smallvec;

/// Spoils step `at` (and maybe a later one) or says that it has nothing to spoil there.
type Spoil = fn(plan: &mut Plan, at: usize) -> Option<()>;

const SPOILS: [(&str, Spoil); 19] = [
    ("drop a step", |plan, at| {
        plan.steps.remove(at);
        Some(())
    }),
    ("swap with the next user", |plan, at| {
        let writes = places(&plan.steps[at].writes);
        let uses = |r: &Operand| writes.contains(&r.mem);
        let user = (at + 1..plan.steps.len()).find(|&i| plan.steps[i].reads.iter().any(uses))?;
        plan.steps.swap(at, user);
        Some(())
    }),
    ("shift a result", |plan, at| {
        let write = plan.steps[at].writes.first_mut()?;
        let MemRef::Arena(offset) = write.mem else { return None };
        write.mem = MemRef::Arena(offset + ALIGN);
        plan.arena_bytes += ALIGN;
        Some(())
    }),
    ("shift a read", |plan, at| {
        let read = arena_read(plan, at)?;
        let MemRef::Arena(offset) = read.mem else { return None };
        read.mem = MemRef::Arena(offset + ALIGN);
        Some(())
    }),
    ("misalign a result", |plan, at| {
        let write = plan.steps[at].writes.first_mut()?;
        let MemRef::Arena(offset) = write.mem else { return None };
        write.mem = MemRef::Arena(offset + 8);
        plan.arena_bytes += ALIGN;
        Some(())
    }),
    ("shrink the arena", |plan, _| {
        plan.arena_bytes = plan.arena_bytes.checked_sub(ALIGN)?;
        Some(())
    }),
    ("write results over one another", |plan, at| {
        let [first, second, ..] = &mut plan.steps[at].writes[..] else { return None };
        second.mem = first.mem;
        Some(())
    }),
    ("write over something that is still needed", |plan, at| {
        let later = plan.steps[at + 1..].iter().flat_map(|s| &s.reads).map(|r| r.mem);
        let before = plan.steps[..at].iter().flat_map(|s| &s.writes).map(|w| w.mem);
        let before: Vec<MemRef> = before.filter(|p| matches!(p, MemRef::Arena(_))).collect();
        let live = later.filter(|p| before.contains(p)).find(|&p| {
            // Read as what was written there before, not as what a step in between writes.
            let users = plan.steps[at..].iter();
            let next = users.clone().position(|s| places(&s.reads).contains(&p));
            let over = users.clone().position(|s| places(&s.writes).contains(&p));
            next > Some(0) && (over.is_none() || next <= over)
        })?;
        let write = plan.steps[at].writes.first_mut()?;
        plan.arena_bytes += u64::MAX / 4;
        write.mem = live;
        Some(())
    }),
    ("write to an input", |plan, at| {
        plan.steps[at].writes.first_mut()?.mem = MemRef::Input(0);
        Some(())
    }),
    ("extend a read", |plan, at| {
        let read = arena_read(plan, at)?;
        let stride = read.layout.strides.iter_mut().zip(&read.layout.sizes);
        *stride.filter(|(_, n)| **n > 1).map(|(s, _)| s).next()? += 1_000_000;
        Some(())
    }),
    ("read from the next element on", |plan, at| {
        let read = arena_read(plan, at)?;
        (read.layout.numel() > 0).then(|| read.layout.offset += 1)
    }),
    ("transpose a read", |plan, at| {
        let read = arena_read(plan, at)?;
        let n = read.layout.rank();
        let uneven = n > 1 && read.layout.strides[n - 1] != read.layout.strides[n - 2];
        let (a, b) = (*read.layout.sizes.get(n.wrapping_sub(2))?, read.layout.sizes[n - 1]);
        (uneven && a > 1 && b > 1).then(|| read.layout.strides.swap(n - 2, n - 1))
    }),
    ("exchange an instruction", |plan, at| {
        let body = body(plan, at)?;
        let instr = body.instrs.last_mut()?;
        instr.op = if instr.op == Op::Add { Op::Sub } else { Op::Add };
        Some(())
    }),
    ("exchange results", |plan, at| {
        let body = body(plan, at)?;
        let result = body.results.first_mut()?;
        (*result > 0).then(|| *result -= 1)
    }),
    ("exchange operands", |plan, at| {
        let Kernel::Fused { .. } = plan.steps[at].kernel else { return None };
        plan.steps[at].reads.swap(0, 1);
        plan.steps[at].reads_of.swap(0, 1);
        Some(())
    }),
    ("read an operand as the program's", |plan, at| {
        let step = &mut plan.steps[at];
        let Kernel::Fused { body, .. } = &mut step.kernel else { return None };
        let dtype = body.reads[0];
        body.reads.push(dtype);
        Some(())
    }),
    ("exchange other results of a node", |plan, at| {
        let step = &mut plan.steps[at];
        let Kernel::Fused { body, .. } = &step.kernel else { return None };
        let others = &mut step.results_of[body.results.len()..];
        (others.len() > 1).then(|| others.swap(0, 1))
    }),
    ("read half of a number", |plan, at| {
        let read = arena_read(plan, at)?;
        (read.dtype == F32).then(|| read.dtype = BF16)
    }),
    ("scratch memory over an operand", |plan, at| {
        let MemRef::Arena(offset) = arena_read(plan, at)?.mem else { return None };
        plan.steps[at].workspace = Some((offset, ALIGN));
        Some(())
    }),
];

fn places(operands: &[Operand]) -> Vec<MemRef> {
    operands.iter().map(|o| o.mem).collect()
}

fn body(plan: &mut Plan, at: usize) -> Option<&mut LoopBody> {
    match &mut plan.steps[at].kernel {
        Kernel::Map(body) | Kernel::Reduce { body, .. } | Kernel::Fused { body, .. } => Some(body),
        Kernel::Node { .. } => None,
    }
}

fn arena_read(plan: &mut Plan, at: usize) -> Option<&mut Operand> {
    plan.steps[at].reads.iter_mut().find(|r| matches!(r.mem, MemRef::Arena(_)))
}

#[test]
fn spoiled_plans_are_refused() {
    let (graph, donors) = training_step(1, 2, 8, 16, 32);
    let plan = plan_of(&graph, &donors);
    for (name, spoil) in SPOILS {
        let mut tried = 0;
        for at in 0..plan.steps.len() {
            let mut bad = plan.clone();
            if spoil(&mut bad, at).is_some() {
                tried += 1;
                assert!(check(&graph, &bad).is_err(), "{name}, step {at}: {}", plan.steps[at]);
            }
        }
        assert!(tried > 0, "{name} was never tried");
    }
}

#[test]
fn what_waits_on_the_host_is_guarded() {
    let mut m = Make::default();
    let nbytes = 4 * 16 * 4;
    let x = m.input(0, F32, &[4, 16]);
    let move_ = |m: &mut Make, op, x| m.ops(op, &[x], smallvec![])[0];
    let first = move_(&mut m, Op::Offload, x);
    let y = m.unary(Op::Exp, x);
    let second = move_(&mut m, Op::Offload, y);
    let again = [second, first].map(|there| move_(&mut m, Op::Reload, there));
    // Which needs both at once.
    let sum = m.ops(Op::Add, &again, smallvec![])[0];
    let graph = m.0.finish(vec![sum]);
    let good = plan_of(&graph, &[None]);
    assert_eq!(good.host_bytes, 2 * nbytes);
    let is_host = |step: &Step| matches!(step.writes[0].mem, MemRef::Host(_));
    let last = good.steps.iter().rposition(is_host).unwrap();
    type Spoil<'a> = (&'a str, &'a dyn Fn(&mut Plan));
    let spoils: [Spoil; 5] = [
        ("over another", &|plan| {
            let MemRef::Host(start) = plan.steps[last].writes[0].mem else { unreachable!() };
            plan.steps[last].writes[0].mem = MemRef::Host(nbytes - start);
        }),
        ("beyond the block", &|plan| plan.host_bytes -= ALIGN),
        ("not aligned", &|plan| {
            plan.host_bytes += ALIGN;
            plan.steps[last].writes[0].mem = MemRef::Host(8);
        }),
        ("in the arena's place", &|plan| {
            plan.arena_bytes = plan.host_bytes;
            let MemRef::Host(start) = plan.steps[last].writes[0].mem else { unreachable!() };
            plan.steps[last].writes[0].mem = MemRef::Arena(start);
        }),
        ("what is not offloaded", &|plan| {
            let step = plan.steps.len() - 1;
            plan.steps[step].writes[0].mem = MemRef::Host(0);
        }),
    ];
    for (name, spoil) in spoils {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert!(check(&graph, &bad).is_err(), "{name}");
    }
}

#[test]
fn donated_memory_is_guarded() {
    let mut m = Make::default();
    let x = m.input(0, F32, &[4, 4]);
    let y = m.unary(Op::Neg, x);
    let s = m.ops(Op::Softmax, &[x], smallvec![])[0];
    let graph = m.0.finish(vec![y, s]);
    let good = plan_of(&graph, &[Some(0), None]);
    assert_eq!(good.donors, [Some(0), None]);
    // The input would be overwritten before the softmax reads it.
    let mut bad = good.clone();
    bad.steps.swap(0, 1);
    assert!(check(&graph, &bad).is_err());
    // A softmax may not write over what it reads.
    let mut bad = good.clone();
    bad.donors = vec![None, Some(0)];
    assert!(check(&graph, &bad).is_err());
    // Nobody gives twice.
    let mut bad = good;
    bad.donors = vec![Some(0), Some(0)];
    assert!(check(&graph, &bad).is_err());
}

#[test]
fn plans_of_random_programs_hold() {
    for seed in 0..400 {
        let (graph, donors) = random_program(seed);
        plan_of(&graph, &donors);
    }
}

/// Numbers by which the communicators of a plan can be told apart.
fn numbers(plan: &Plan) -> Vec<u64> {
    (0..plan.scalars.len() as u64).collect()
}

/// What lanes add: the ways in which a step's time on its lane can be wrong.
const LANE_SPOILS: [(&str, Spoil); 4] = [
    ("wait for it too late", |plan, at| {
        let done = plan.steps[at].done?;
        let results = places(&plan.steps[at].writes);
        // On its own lane a reader comes after it.
        let lane_of = |s: &Step| plan.lane(s, &numbers(plan));
        let lane = lane_of(&plan.steps[at]);
        let is_result = |r: &Operand| results.contains(&r.mem) && r.layout.numel() > 0;
        let reads = |s: &Step| s.reads.iter().any(is_result);
        let reader = plan.steps.get(done as usize);
        let is_read = reader.is_none_or(|s| lane_of(s) != lane && reads(s));
        is_read.then(|| plan.steps[at].done = Some(done + 1))
    }),
    ("wait for it before it begins", |plan, at| {
        plan.steps[at].done = Some(plan.steps[at].done.map(|_| at as u32)?);
        Some(())
    }),
    ("put a kernel on a lane", |plan, at| {
        let is_on_host = |operand: &Operand| match operand.mem {
            MemRef::Host(_) => true,
            MemRef::Output(k) => plan.outputs_on_host.contains(&k),
            _ => false,
        };
        let step = &plan.steps[at];
        let has_lane = step.kernel.collective().is_some()
            || step.reads.iter().chain(&step.writes).any(is_on_host);
        (!has_lane).then(|| plan.steps[at].done = Some(at as u32 + 1))
    }),
    ("write over what is in use", |plan, at| {
        let done = plan.steps[at].done? as usize;
        let mut used = plan.steps[at].reads.iter().chain(&plan.steps[at].writes);
        let is_used = |o: &&Operand| matches!(o.mem, MemRef::Arena(_)) && o.layout.numel() > 0;
        let used = used.find(is_used)?.mem;
        let others = plan.steps[at + 1..done].iter_mut().flat_map(|step| step.writes.first_mut());
        let other = others.into_iter().find(|other| other.layout.numel() > 0)?;
        other.mem = used;
        plan.arena_bytes += 1 << 20;
        Some(())
    }),
];

#[test]
fn what_is_in_flight_is_guarded() {
    let mut tried = [0; LANE_SPOILS.len()];
    let (mut passed, mut waited_for, mut copies) = (0, 0, 0);
    let programs =
        (0..60).flat_map(|seed| [random_ranks_program(seed), random_lanes_program(seed)]);
    for (seed, (graph, donors)) in programs.enumerate() {
        let plan = plan_for(&WithLanes, &graph, &donors);
        let is_copy = |s: &&Step| s.done.is_some() && s.kernel.collective().is_none();
        copies += plan.steps.iter().filter(is_copy).count();
        for (n, (name, spoil)) in LANE_SPOILS.iter().enumerate() {
            for at in 0..plan.steps.len() {
                let mut bad = plan.clone();
                if spoil(&mut bad, at).is_some() {
                    tried[n] += 1;
                    let checked = check(&graph, &bad);
                    assert!(checked.is_err(), "seed {seed}, {name}, step {at}:\n{plan}");
                }
            }
        }
        let collectives: Vec<usize> = (0..plan.steps.len())
            .filter(|&at| plan.steps[at].kernel.collective().is_some())
            .collect();
        let numbers = numbers(&plan);
        for pair in collectives.windows(2) {
            let mut bad = plan.clone();
            bad.steps.swap(pair[0], pair[1]);
            let is_refused = check(&graph, &bad).is_err();
            // Of two lanes, one may pass the other that nobody waits for yet.
            let [first, second] = [0, 1].map(|n| plan.steps[pair[n]].communicator(&numbers));
            assert!(is_refused || first != second, "seed {seed}, swapped {pair:?}:\n{plan}");
            passed += usize::from(!is_refused);
            waited_for += usize::from(is_refused && first != second);
        }
    }
    assert!(tried.iter().all(|&count| count > 20), "{tried:?}");
    assert!(passed > 5 && waited_for > 20 && copies > 20, "{passed} {waited_for} {copies}");
}

#[test]
fn plans_of_random_ranks_hold() {
    for seed in 0..400 {
        let (graph, donors) = random_ranks_program(seed);
        plan_for(&WithLanes, &graph, &donors);
    }
}

/// A step that holds its gradients: they are written where activations were.
#[test]
fn results_in_their_block_are_guarded() {
    let (graph, donors) = training_step(3, 8, 32, 16, 32);
    let fresh = vec![None; donors.len()];
    let (apart, good) = (plan_of(&graph, &fresh), plan_sharing(&NoWorkspace, &graph, &fresh));
    assert!((apart.results_bytes, apart.results.len()) == (0, 0) && good.results_bytes > 0);
    assert!(good.arena_bytes + good.results_bytes / 2 <= apart.arena_bytes, "{good}");
    let is_before = |step: &Step| matches!(step.writes[0].mem, MemRef::Results(_));
    let before = good.steps.iter().position(is_before).unwrap();
    let (first, start) = good.results[0];
    type Spoil<'a> = (&'a str, &'a dyn Fn(&mut Plan));
    let spoils: [Spoil; 7] = [
        ("two in one place", &|plan| plan.results[1].1 = start),
        ("beyond the block", &|plan| plan.results_bytes = plan.results[plan.results.len() - 1].1),
        ("not aligned", &|plan| plan.results[0].1 += 8),
        ("twice", &|plan| plan.results.push((first, start))),
        ("no output", &|plan| plan.results.push((plan.outputs.len() as u32, 0))),
        ("donated", &|plan| plan.donors[first as usize] = Some(0)),
        ("used again", &|plan| {
            // What lay there comes once more, after the result.
            let again = plan.steps[before].clone();
            plan.steps.push(again);
        }),
    ];
    for (name, spoil) in spoils {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert!(check(&graph, &bad).is_err(), "{name}");
    }
}

/// They may lie elsewhere: what is there before is another thing.
#[test]
fn a_result_is_not_read_as_what_lay_there_before() {
    let mut m = Make::default();
    let x = m.input(0, F32, &[16, 16]);
    let y = m.unary(Op::Exp, x);
    let z = m.matmul(y, y);
    let graph = m.0.finish(vec![y, z]);
    let plan = plan_of(&graph, &[None, None]);
    let mut good = Plan { results: vec![(0, 0), (1, 1024)], results_bytes: 2048, ..plan };
    check(&graph, &good).unwrap();
    let read = good.steps.last_mut().unwrap().reads.first_mut().unwrap();
    assert_eq!(read.mem, MemRef::Output(0));
    read.mem = MemRef::Results(0);
    assert!(check(&graph, &good).is_err());
}

/// Of all-gathers only those are read for one another that gather parameters, and for the last time again.
#[test]
fn only_equal_gathers_are_read_for_one_another() {
    use gathered::{ANYTHING, PARAMETERS, PARAMETERS_AGAIN};
    // Tensor and communicator of each, and what is gathered; the first one is read for each of them.
    let accepted = |all: [(usize, usize, i64); 4]| {
        let mut m = Make::default();
        let rank = m.0.scalar(2, I64).unwrap();
        let mut communicators = [0, 1].map(|n| {
            let communicator = m.0.scalar(n, I64).unwrap();
            [communicator, m.input(n, TOKEN.0, &TOKEN.1), rank]
        });
        let tensors = [2, 3].map(|n| m.input(n, F32, &[8, 16]));
        let results = all.map(|(tensor, communicator, what)| {
            let of = &mut communicators[communicator];
            let [y, token] = m.collective((Kind::AllGather, what), tensors[tensor], 2, *of);
            of[1] = token;
            y
        });
        let mut outputs: Vec<ValueId> = communicators.iter().map(|of| of[1]).collect();
        outputs.extend(results);
        outputs.push(m.ops(Op::Softmax, &[results[0]], smallvec![])[0]);
        let donors = vec![None; outputs.len()];
        let graph = m.0.finish(outputs);
        let plan = plan_for(&NoWorkspace, &graph, &donors);
        let last = plan.steps.len() - 1;
        results.map(|other| {
            let mut writers = plan.steps.iter().filter(|step| step.results_of[0] == other);
            let mut changed = plan.clone();
            changed.steps[last].reads[0].mem = writers.next().unwrap().writes[0].mem;
            changed.steps[last].reads_of[0] = other;
            check(&graph, &changed).is_ok()
        })
    };
    let [first, again, anything] =
        [PARAMETERS, PARAMETERS_AGAIN, ANYTHING].map(|what| (0, 0, what));
    let by_other = (0, 1, PARAMETERS_AGAIN);
    let of_other = (1, 0, PARAMETERS_AGAIN);
    assert_eq!(accepted([first, again, by_other, of_other]), [true, true, false, false]);
    assert_eq!(accepted([first, again, first, again]), [true, true, false, false]);
    assert_eq!(accepted([first, anything, again, anything]), [true, false, true, false]);
    let none = [true, false, false, false];
    assert_eq!(accepted([again, again, again, first]), none);
    assert_eq!(accepted([first, first, again, again]), none);
    assert_eq!(accepted([anything, anything, again, again]), none);
}
