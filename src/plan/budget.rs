//! Plans within a memory limit: values that are not read for long are dropped, and the regions that made them run once more
//! before they are read again; or they wait in the host's memory, where a device has one of its own.
//!
//! **Invariant:** a region that runs again is the same kernel on the same operands, so the results have the same bits; regions
//! with side effects, or that may fail, run once.

mod simulation;
#[cfg(test)]
mod tests;

use super::cost::{lane_time, region_time};
use super::decisions::{Cost, Limited, PlanDecisions, Runs};
use super::draft::{Fused, Region, RegionId};
use super::lanes::{self, Landings};
use super::order::Scheduled;
use super::remat::remat;
use super::{ALIGN, Limit, UnplacedPlan, order};
use crate::buffer::size_class::largest_within;
use crate::graph::Graph;
use simulation::{OnLanes, Sequence, Taste};

/// Number of times that the search aims lower because offsets in the arena took more than the live bytes.
const CORRECTIONS: usize = 6;
/// Number of steps of the search for the least memory with which a program can run.
const BISECTIONS: usize = 10;

/// Part of a program's time that is worth the search.
const LEAST_GAIN: u64 = 64;
/// Numbers of values that lanes may have ready before they are read: all are tried.
const AHEAD: [u64; 3] = [0, 1, 2];

/// What becomes of regions in an order.
pub(super) struct Planner<'a> {
    pub unplaced: &'a Unplaced<'a>,
    /// The order for lanes, with at most so many bytes; `None` if it has no lanes, or that does not suffice for any.
    pub scheduled: &'a Schedule<'a>,
}

type Unplaced<'a> = dyn Fn(&Fused, &[RegionId], Option<&Landings>) -> UnplacedPlan + 'a;
type Schedule<'a> = dyn Fn(&Fused, &[RegionId], u64) -> Option<Scheduled> + 'a;

/// The result of [`remat`]; if that takes more than `limit`, or leaves so little memory for lanes that the program waits for them,
/// the fastest program found that does not, else the one that takes the least.
pub(super) fn within(
    graph: &Graph,
    (fused, absorbed): (Fused, Vec<bool>),
    donors: &[Option<u32>],
    planner: &Planner,
    limit: Limit,
) -> (Fused, PlanDecisions) {
    let all = fused.clone();
    let (fused, decisions) = remat(graph, (fused, absorbed), donors);
    let order = &decisions.order;
    let mut plan = (planner.unplaced)(&fused, order, None).placed();
    let outside = plan.memory_of_results();
    let shared = plan.results_bytes;
    let fits = plan.memory() <= limit.bytes;
    let timed = |limit| {
        let found = (planner.scheduled)(&fused, order, limit);
        (computed_time(graph, &fused) + exposed_time(graph, &fused, found.as_ref()), found)
    };
    let (time, unlimited) = timed(u64::MAX);
    if let Some(found) = unlimited {
        plan = (planner.unplaced)(&fused, &found.order, Some(&found.landings)).placed();
    }
    let within = if fits { timed(limit.bytes).0 } else { u64::MAX };
    if within <= time + time / LEAST_GAIN {
        return (fused, decisions);
    }
    let most = Most { limit, outside, shared, before: plan.memory() };
    let found = Search::new(graph, &all, donors, planner).within(most);
    match found.filter(|found| found.time < within) {
        Some(found) => {
            let cost = Cost { before: most.before, time: found.time as f64 / time.max(1) as f64 };
            let order = in_order(&found.fused);
            (found.fused, decisions.limited(Limited { runs: found.runs, cost }, order))
        }
        None => (fused, decisions),
    }
}

/// Time of all regions that do not run on lanes.
fn computed_time(graph: &Graph, fused: &Fused) -> u64 {
    let regions: Vec<&Region> = fused.regions.iter().collect();
    let lanes = lanes::lanes(graph, fused, &regions);
    let computed = regions.iter().zip(lanes).filter(|(_, lane)| lane.is_none());
    computed.map(|(region, _)| region_time(graph, fused, region)).sum()
}

/// Time for which they wait for those on lanes, in an order that was found; all of it if none was.
fn exposed_time(graph: &Graph, fused: &Fused, found: Option<&Scheduled>) -> u64 {
    found.map(|found| found.exposed).unwrap_or_else(|| {
        let regions: Vec<&Region> = fused.regions.iter().collect();
        let lanes = lanes::lanes(graph, fused, &regions);
        let on_lanes = regions.iter().zip(&lanes).filter_map(|(r, lane)| Some((r, lane.as_ref()?)));
        on_lanes.map(|(region, lane)| lane_time(graph, fused, region, lane)).sum()
    })
}

fn in_order(fused: &Fused) -> Vec<RegionId> {
    (0..fused.regions.len()).collect()
}

/// The memory that there is.
#[derive(Clone, Copy)]
struct Most {
    limit: Limit,
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
    planner: &'a Planner<'a>,
}

struct Found {
    fused: Fused,
    runs: Runs,
    /// Bytes by which the arena is too large; 0 within the limit.
    over: u64,
    /// Time of what is computed, and, once it is known, of waiting for lanes.
    time: u64,
}

impl<'a> Search<'a> {
    fn new(
        graph: &'a Graph,
        fused: &'a Fused,
        donors: &[Option<u32>],
        planner: &'a Planner<'a>,
    ) -> Search<'a> {
        let orders = order::orders(graph, fused, donors);
        let sequences = orders.map(|order| Sequence::new(graph, fused, donors, order)).into();
        Search { graph, fused, sequences, planner }
    }

    /// The fastest program found within the limit, or the one that takes the least; `None` if that is more than before.
    fn within(&self, most: Most) -> Option<Found> {
        self.fitting(most.limit.bytes, most).or_else(|| self.least(most))
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
        let on_host = self.fused.host_link_slowdown.map(|_| most.limit.on_host);
        let on_host = on_host.filter(|&bytes| bytes > 0);
        let has_lanes = on_host.is_some() || lanes::has_some(self.graph, self.fused);
        let ahead = AHEAD.into_iter().filter(|&ahead| ahead == 0 || has_lanes);
        let ways = ahead.flat_map(|ahead| {
            let bytes = [0].into_iter().chain(on_host);
            bytes.map(move |host_bytes| OnLanes { host_bytes, ahead })
        });
        let found = ways.filter_map(|lanes| {
            let shared = Some(most.shared).filter(|&shared| shared > 0);
            let both = shared.and_then(|shared| self.aiming(arena + shared, limit, lanes));
            both.or_else(|| self.aiming(arena, limit, lanes))
        });
        found.min_by_key(|found| found.time)
    }

    /// Within the limit, at first with `aim` bytes in the arena.
    fn aiming(&self, mut aim: u64, limit: u64, lanes: OnLanes) -> Option<Found> {
        for _ in 0..CORRECTIONS {
            let tastes = |sequence| Taste::ALL.map(|taste| (sequence, taste));
            let simulated = self.sequences.iter().flat_map(tastes);
            let simulated =
                simulated.filter_map(|(sequence, taste)| sequence.within(aim, taste, lanes));
            let mut found: Vec<Found> =
                simulated.filter_map(|runs| self.found(runs, limit)).collect();
            let over = found.iter().map(|found| found.over).min()?;
            if over == 0 {
                found.retain(|found| found.over == 0);
                return self.fastest(found, limit);
            }
            aim = aim.checked_sub(over.max(ALIGN))?;
        }
        None
    }

    fn found(&self, runs: Runs, limit: u64) -> Option<Found> {
        let fused = runs.applied(self.graph, self.fused)?;
        let plan = (self.planner.unplaced)(&fused, &in_order(&fused), None).placed();
        let room = largest_within(limit.saturating_sub(plan.memory_of_results()));
        let is_within = plan.memory() <= limit;
        let over = if is_within { 0 } else { plan.arena_bytes.saturating_sub(room).max(1) };
        let time = computed_time(self.graph, &fused);
        Some(Found { fused, runs, over, time })
    }

    fn fastest(&self, mut found: Vec<Found>, limit: u64) -> Option<Found> {
        found.sort_by_key(|found| found.time);
        let mut fastest: Option<Found> = None;
        for mut one in found {
            // Waiting only adds to its time.
            if fastest.as_ref().is_some_and(|fastest| fastest.time <= one.time) {
                break;
            }
            let found = (self.planner.scheduled)(&one.fused, &in_order(&one.fused), limit);
            one.time += exposed_time(self.graph, &one.fused, found.as_ref());
            if fastest.as_ref().is_none_or(|fastest| one.time < fastest.time) {
                fastest = Some(one);
            }
        }
        fastest
    }
}
