//! The steps of a plan that can run before everything that it reads is known, in the order of the plan except for those that have
//! to wait.

use super::{MemRef, Operand, Plan, Step};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of waiting steps after which no later ones are looked at.
const MOST_WAITING: usize = 16;

/// The memory that every step of a plan reads, and that it writes.
pub struct Touched(Vec<[Vec<Extent>; 2]>);

impl Touched {
    pub fn by(plan: &Plan) -> Touched {
        Touched(plan.steps.iter().map(|step| Extent::of_step(plan, step)).collect())
    }
}

/// The steps that have run early.
#[derive(Default)]
pub struct EarlySteps {
    ran: Vec<bool>,
    /// All steps before this one have run.
    first: usize,
}

impl EarlySteps {
    pub fn new(plan: &Plan) -> EarlySteps {
        EarlySteps { ran: vec![false; plan.steps.len()], first: 0 }
    }

    /// The steps that can run now: `is_known` says that everything they need from outside is there, and they neither write memory
    /// that waiting steps read or write, nor read memory that these write.
    pub fn ready(
        &self,
        plan: &Plan,
        touched: &Touched,
        is_known: &dyn Fn(&Step) -> bool,
    ) -> Vec<usize> {
        let (mut ready, mut waiting) = (Vec::new(), 0);
        let [mut read, mut written] = [Covered::default(), Covered::default()];
        for index in (self.first..plan.steps.len()).filter(|&index| !self.ran[index]) {
            let (step, [reads, writes]) = (&plan.steps[index], &touched.0[index]);
            if is_known(step)
                && !reads.iter().any(|extent| written.meets(extent))
                && !writes.iter().any(|extent| written.meets(extent) || read.meets(extent))
            {
                ready.push(index);
                continue;
            }
            waiting += 1;
            // What comes behind a collective on a lane is to run beside it, not before it.
            if waiting == MOST_WAITING || step.done.is_some() {
                break;
            }
            reads.iter().for_each(|extent| read.add(extent.clone()));
            writes.iter().for_each(|extent| written.add(extent.clone()));
        }
        ready
    }

    pub fn have_run(&mut self, steps: &[usize]) {
        steps.iter().for_each(|&step| self.ran[step] = true);
        self.first += self.ran[self.first..].iter().take_while(|&&ran| ran).count();
    }

    /// Number of steps that have run.
    pub fn count(&self) -> usize {
        self.ran.iter().filter(|&&ran| ran).count()
    }

    /// The steps of a plan that have not run; all if none was begun.
    pub fn rest<'a>(&'a self, plan: &Plan) -> impl Iterator<Item = usize> + 'a {
        (0..plan.steps.len()).filter(|&step| !self.ran.get(step).is_some_and(|&ran| ran))
    }
}

/// Memory that steps write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Arena,
    Host,
    Results,
    Output(u32),
}

/// The bytes from the first to the last one of an operand.
#[derive(Clone)]
struct Extent {
    space: Space,
    bytes: Range<u64>,
}

impl Extent {
    /// The extents that a step reads, and those that it writes.
    fn of_step(plan: &Plan, step: &Step) -> [Vec<Extent>; 2] {
        let of = |operand| Extent::of(plan, operand);
        let [reads, mut writes] = [&step.reads, &step.writes]
            .map(|operands| operands.iter().filter_map(of).collect::<Vec<_>>());
        let scratch = step.workspace.map(|(start, nbytes)| start..start + nbytes);
        writes.extend(scratch.map(|bytes| Extent { space: Space::Arena, bytes }));
        [reads, writes]
    }

    /// `None` for memory that no step writes, and for an empty extent.
    fn of(plan: &Plan, operand: &Operand) -> Option<Extent> {
        let (space, start) = match operand.mem {
            MemRef::Arena(offset) => (Space::Arena, offset),
            MemRef::Host(offset) => (Space::Host, offset),
            MemRef::Results(offset) => (Space::Results, offset),
            MemRef::Output(k) => match plan.place_of_result(k) {
                Some(start) => (Space::Results, start),
                None => (Space::Output(k), 0),
            },
            MemRef::Input(_) | MemRef::Scalar(_) | MemRef::Index => return None,
        };
        let end = start + operand.layout.end() as u64 * operand.dtype.size() as u64;
        (start < end).then_some(Extent { space, bytes: start..end })
    }
}

/// The bytes of many extents, without repetition: the start of each range, and its end.
#[derive(Default)]
struct Covered(BTreeMap<(Space, u64), u64>);

impl Covered {
    fn meets(&self, Extent { space, bytes }: &Extent) -> bool {
        let before = self.0.range((*space, 0)..(*space, bytes.end)).next_back();
        before.is_some_and(|(_, &end)| end > bytes.start)
    }

    fn add(&mut self, Extent { space, mut bytes }: Extent) {
        // Ranges that it meets become part of it.
        while let Some((&(space, start), &end)) =
            self.0.range((space, 0)..(space, bytes.end)).next_back()
            && end > bytes.start
        {
            self.0.remove(&(space, start));
            bytes = start.min(bytes.start)..end.max(bytes.end);
        }
        self.0.insert((space, bytes.start), bytes.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::random::random_ranks_program;
    use crate::plan::tests::{WithLanes, plan_for};

    #[test]
    fn what_hides_a_collective_stays_behind_it() {
        let mut held = 0;
        for seed in 0..60 {
            let (graph, donors) = random_ranks_program(seed);
            let plan = plan_for(&WithLanes, &graph, &donors);
            let is_known = |step: &Step| step.kernel.collective().is_none();
            let ready = EarlySteps::new(&plan).ready(&plan, &Touched::by(&plan), &is_known);
            let on_lane = |step: &Step| step.done.is_some() && !is_known(step);
            let first = plan.steps.iter().position(on_lane);
            let Some(first) = first else { continue };
            assert!(ready.iter().all(|&step| step < first), "{ready:?} of\n{plan}");
            held += usize::from(plan.steps[first..].iter().any(is_known));
        }
        assert!(held > 20, "{held}");
    }

    #[test]
    fn covered_bytes_are_those_of_all_extents() {
        let mut seed = 1u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..300 {
            let (mut covered, mut bytes) = (Covered::default(), [[false; 64]; 2]);
            for _ in 0..12 {
                let output = below(2) as usize;
                let start = below(60);
                let end = start + 1 + below(64 - start - 1).min(9);
                let extent = Extent { space: Space::Output(output as u32), bytes: start..end };
                let range = start as usize..end as usize;
                assert_eq!(covered.meets(&extent), bytes[output][range.clone()].contains(&true));
                if below(2) == 0 {
                    covered.add(extent);
                    bytes[output][range].fill(true);
                }
            }
        }
    }
}
