//! Plans within a memory limit: values that are not read for long are dropped, and the regions that made them run once more
//! before they are read again.
//!
//! **Invariant:** a region that runs again is the same kernel on the same operands, so the results have the same bits; regions
//! with side effects, or that may fail, run once.

mod simulation;
#[cfg(test)]
mod tests;

use super::cost::region_time;
use super::decisions::{Cost, Limited, PlanDecisions, Runs};
use super::draft::{Fused, RegionId};
use super::remat::remat;
use super::{ALIGN, UnplacedPlan, order};
use crate::buffer::size_class::largest_within;
use crate::graph::Graph;
use simulation::{Sequence, Taste};

/// Number of times that the search aims lower because offsets in the arena took more than the live bytes.
const CORRECTIONS: usize = 6;
/// Number of steps of the search for the least memory with which a program can run.
const BISECTIONS: usize = 10;

type Planner<'a> = &'a dyn Fn(&Fused, &[RegionId]) -> UnplacedPlan;

/// The result of [`remat`]; if that takes more than `limit`, the fastest program found that does not, else the one that takes the
/// least. `unplaced` plans regions in an order.
pub(super) fn within(
    graph: &Graph,
    (fused, absorbed): (Fused, Vec<bool>),
    donors: &[Option<u32>],
    unplaced: Planner,
    limit: u64,
) -> (Fused, PlanDecisions) {
    let all = fused.clone();
    let (fused, decisions) = remat(graph, (fused, absorbed), donors);
    let plan = unplaced(&fused, &decisions.order).placed();
    if plan.memory() <= limit {
        return (fused, decisions);
    }
    let outside = plan.memory_of_results();
    let most = Most { limit, outside, shared: plan.results_bytes, before: plan.memory() };
    match Search::new(graph, &all, donors, unplaced).within(most) {
        Some(Found { fused: found, runs, time, .. }) => {
            let cost = Cost {
                before: most.before,
                time: time as f64 / whole_time(graph, &fused).max(1) as f64,
            };
            let order = in_order(&found);
            (found, decisions.limited(Limited { runs, cost }, order))
        }
        None => (fused, decisions),
    }
}

fn whole_time(graph: &Graph, fused: &Fused) -> u64 {
    fused.regions.iter().map(|region| region_time(graph, fused, region)).sum()
}

fn in_order(fused: &Fused) -> Vec<RegionId> {
    (0..fused.regions.len()).collect()
}

/// The memory that there is.
#[derive(Clone, Copy)]
struct Most {
    limit: u64,
    /// The part of it that is not in the arena.
    outside: u64,
    /// The part of that which serves the arena, too, before results are written.
    shared: u64,
    /// The bytes taken without a limit.
    before: u64,
}

/// A search for plans of one program.
struct Search<'a> {
    graph: &'a Graph,
    fused: &'a Fused,
    sequences: Vec<Sequence<'a>>,
    unplaced: Planner<'a>,
}

struct Found {
    fused: Fused,
    runs: Runs,
    /// Bytes by which the arena is too large; 0 within the limit.
    over: u64,
    time: u64,
}

impl<'a> Search<'a> {
    fn new(
        graph: &'a Graph,
        fused: &'a Fused,
        donors: &[Option<u32>],
        unplaced: Planner<'a>,
    ) -> Search<'a> {
        let orders = order::orders(graph, fused, donors);
        let sequences = orders.map(|order| Sequence::new(graph, fused, donors, order)).into();
        Search { graph, fused, sequences, unplaced }
    }

    /// The fastest program found within the limit, or the one that takes the least; `None` if that is more than before.
    fn within(&self, most: Most) -> Option<Found> {
        self.fitting(most.limit, most).or_else(|| self.least(most))
    }

    /// The program that takes the least, whatever the limit: so a limit equal to the reported minimum can be met.
    fn least(&self, most: Most) -> Option<Found> {
        let (mut low, mut high, mut least) = (most.outside, most.before, None);
        for _ in 0..BISECTIONS {
            let middle = low.midpoint(high);
            match self.fitting(middle, most) {
                Some(found) => {
                    high = middle;
                    least = Some(found);
                }
                None => low = middle,
            }
        }
        least
    }

    fn fitting(&self, limit: u64, most: Most) -> Option<Found> {
        let arena = largest_within(limit.checked_sub(most.outside)?);
        let shared = Some(most.shared).filter(|&shared| shared > 0);
        let both = shared.and_then(|shared| self.aiming(arena + shared, limit));
        both.or_else(|| self.aiming(arena, limit))
    }

    /// Within the limit, at first with `aim` bytes in the arena.
    fn aiming(&self, mut aim: u64, limit: u64) -> Option<Found> {
        for _ in 0..CORRECTIONS {
            let tastes = |sequence| Taste::ALL.map(|taste| (sequence, taste));
            let simulated = self.sequences.iter().flat_map(tastes);
            let simulated = simulated.filter_map(|(sequence, taste)| sequence.within(aim, taste));
            let mut found: Vec<Found> =
                simulated.filter_map(|runs| self.found(runs, limit)).collect();
            let over = found.iter().map(|found| found.over).min()?;
            if over == 0 {
                found.retain(|found| found.over == 0);
                return found.into_iter().min_by_key(|found| found.time);
            }
            aim = aim.checked_sub(over.max(ALIGN))?;
        }
        None
    }

    fn found(&self, runs: Runs, limit: u64) -> Option<Found> {
        let fused = runs.applied(self.fused)?;
        let plan = (self.unplaced)(&fused, &in_order(&fused)).placed();
        let room = largest_within(limit.saturating_sub(plan.memory_of_results()));
        let is_within = plan.memory() <= limit;
        let over = if is_within { 0 } else { plan.arena_bytes.saturating_sub(room).max(1) };
        let time = whole_time(self.graph, &fused);
        Some(Found { fused, runs, over, time })
    }
}
