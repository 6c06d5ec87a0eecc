//! Live ranges of the values in a plan's arena, and in its block of results before these are written.

use crate::op::Ty;
use crate::plan::{MemRef, Plan};
use std::collections::BTreeMap;

/// A value in memory while steps `first..=last` run. Step `first` makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRange {
    pub first: usize,
    pub last: usize,
    pub nbytes: u64,
    /// `None` is scratch memory.
    pub ty: Option<Ty>,
}

/// Bytes of live intermediates while each step runs.
pub fn wanted(plan: &Plan, live_ranges: &[LiveRange]) -> Vec<u64> {
    let mut change = vec![0i64; plan.steps.len() + 1];
    for range in live_ranges {
        change[range.first] += range.nbytes as i64;
        change[range.last + 1] -= range.nbytes as i64;
    }
    let mut live = 0;
    let wanted = change.iter().take(plan.steps.len()).map(|change| {
        live += change;
        live as u64
    });
    wanted.collect()
}

/// The step with the most live bytes, and the ranges that are live there.
pub fn fullest(plan: &Plan) -> Option<(usize, Vec<LiveRange>)> {
    let live_ranges = live_ranges(plan);
    let wanted = wanted(plan, &live_ranges).into_iter().enumerate();
    let (step, most) = wanted.max_by_key(|&(step, live)| (live, std::cmp::Reverse(step)))?;
    let there = |range: &LiveRange| (range.first..=range.last).contains(&step);
    (most > 0).then(|| (step, live_ranges.into_iter().filter(there).collect()))
}

/// Whether the memory is in the block of results, and its offset there or in the arena.
fn place(mem: MemRef) -> Option<(bool, u64)> {
    match mem {
        MemRef::Arena(start) => Some((false, start)),
        MemRef::Results(start) => Some((true, start)),
        _ => None,
    }
}

/// All live ranges in the arena, or in the block of results before these are written.
pub fn live_ranges(plan: &Plan) -> Vec<LiveRange> {
    let mut gone = Vec::new();
    let mut live: BTreeMap<(bool, u64), LiveRange> = BTreeMap::new();
    for (index, step) in plan.steps.iter().enumerate() {
        for read in &step.reads {
            let Some(start) = place(read.mem) else { continue };
            if let Some((_, range)) = live.range_mut((start.0, 0)..=start).next_back() {
                range.last = index;
            }
        }
        if let Some((_, nbytes)) = step.workspace {
            gone.push(LiveRange { first: index, last: index, nbytes, ty: None });
        }
        for write in &step.writes {
            let Some(start) = place(write.mem) else { continue };
            let ty = Ty::new(write.dtype, &write.layout.sizes);
            let nbytes = ty.nbytes() as u64;
            if nbytes == 0 {
                continue;
            }
            let (block, first) = start;
            let overlaps = |(&at, range): (&(bool, u64), &LiveRange)| {
                (first < at.1 + range.nbytes).then_some(at)
            };
            let below = live.range((block, 0)..(block, first + nbytes));
            let over: Vec<(bool, u64)> = below.filter_map(overlaps).collect();
            // A value that its reader overwrites ends before the reader.
            let leave = |range: LiveRange| LiveRange { last: range.last.min(index - 1), ..range };
            gone.extend(over.into_iter().filter_map(|at| live.remove(&at).map(leave)));
            live.insert(start, LiveRange { first: index, last: index, nbytes, ty: Some(ty) });
        }
    }
    gone.extend(live.into_values());
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::null::Null;
    use crate::plan::plan;
    use crate::plan::tests::leaves;
    use crate::plan::training::training_step;

    /// As the planner counts it.
    #[test]
    fn the_fullest_step_holds_what_no_placement_can_beat() {
        for layers in 1..4 {
            let (graph, donors) = training_step(layers, 2, 8, 16, 32);
            let (inputs, scalars) = leaves(&graph);
            let plan = plan(&graph, &inputs, &scalars, &donors, &Null::default()).unwrap();
            let (_, live_ranges) = fullest(&plan).unwrap();
            let aligned = |range: &LiveRange| range.nbytes.next_multiple_of(crate::plan::ALIGN);
            assert_eq!(live_ranges.iter().map(aligned).sum::<u64>(), plan.lower_bound);
        }
    }
}
