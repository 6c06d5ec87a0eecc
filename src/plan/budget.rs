//! Plans within a memory limit: values that are not read for long are dropped, and the regions that made them run once more
//! before they are read again; or they wait in the host's memory, where a device has one of its own.
//!
//! **Invariant:** a region that runs again is the same kernel on the same operands, so the results have the same bits; regions
//! with side effects, or that may fail, run once.

mod sequence;
mod simulation;
#[cfg(test)]
mod tests;

use super::cost::{lane_time, region_time};
use super::decisions::{Cost, Limited, PlanDecisions, Runs};
use super::draft::{Fused, Region, RegionId};
use super::lanes::{self, Landings};
use super::order::{Attempts, Scheduled};
use super::remat::remat;
use super::{ALIGN, Limit, UnplacedPlan, order};
use crate::buffer::size_class::largest_within;
use crate::graph::Graph;
use sequence::Sequence;
use simulation::{OnLanes, Taste, simulate};

/// Number of times that the search aims lower because offsets in the arena took more than the live bytes.
const CORRECTIONS: usize = 6;
/// Number of steps of the search for the least memory with which a program can run.
const BISECTIONS: usize = 10;

/// Part of a program's time that is worth the search.
const LEAST_GAIN: u64 = 64;
/// Number of programs that fit, of each way to drop values, for which an order for lanes is sought.
const TIMED: usize = 3;
/// Numbers of values that lanes may have ready before they are read, in the order in which they are tried.
const AHEAD: [u64; 3] = [1, 2, 0];

/// What becomes of regions in an order.
pub(super) struct Planner<'a> {
    pub unplaced: &'a Unplaced<'a>,
    /// The order for lanes, with at most so many bytes; `None` if it has no lanes, or that does not suffice for any.
    pub scheduled: &'a Schedule<'a>,
}

type Unplaced<'a> = dyn Fn(&Fused, &[RegionId], Option<&Landings>) -> UnplacedPlan + 'a;
type Schedule<'a> = dyn Fn(&Fused, &[RegionId], u64, Attempts) -> Option<Scheduled> + 'a;

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
    let timed = |fused: &Fused, order: &[RegionId], limit| {
        let found = (planner.scheduled)(fused, order, limit, Attempts::All);
        (computed_time(graph, fused) + exposed_time(graph, fused, found.as_ref()), found)
    };
    let (time, unlimited) = timed(&fused, order, u64::MAX);
    if let Some(found) = unlimited {
        plan = (planner.unplaced)(&fused, &found.order, Some(&found.landings)).placed();
    }
    let (within, found_within) = match fits {
        true => timed(&fused, order, limit.bytes),
        false => (u64::MAX, None),
    };
    if within <= time + time / LEAST_GAIN {
        return (fused, decisions.scheduled(found_within));
    }
    let most = Most { limit, outside, shared, before: plan.memory() };
    let found = Search::new(graph, &all, donors, planner).within(most);
    match found.filter(|found| found.time < within) {
        Some(found) => {
            let order = in_order(&found.fused);
            let (takes, scheduled) = timed(&found.fused, &order, limit.bytes);
            let cost = Cost { before: most.before, time: takes as f64 / time.max(1) as f64 };
            let limited = Limited { runs: found.runs, cost };
            (found.fused, decisions.limited(limited, order).scheduled(scheduled))
        }
        None => (fused, decisions.scheduled(found_within)),
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
        let one_by_one =
            computed_time(self.graph, self.fused) + exposed_time(self.graph, self.fused, None);
        let ahead = AHEAD.into_iter().filter(|&ahead| ahead == 0 || has_lanes);
        let ways = ahead.flat_map(|ahead| {
            let bytes = [0].into_iter().chain(on_host);
            bytes.map(move |host_bytes| OnLanes { host_bytes, ahead })
        });
        ways.fold(None, |fastest: Option<Found>, lanes| {
            let before = fastest.as_ref().map_or(u64::MAX, |fastest| fastest.time);
            // With nothing ahead, the program waits for everything on lanes, and for what is dropped.
            if lanes.ahead == 0 && before <= one_by_one {
                return fastest;
            }
            let shared = Some(most.shared).filter(|&shared| shared > 0);
            let both = shared.and_then(|shared| self.aiming(arena + shared, limit, lanes, before));
            both.or_else(|| self.aiming(arena, limit, lanes, before)).or(fastest)
        })
    }

    /// Within the limit, at first with `aim` bytes in the arena, and in less time than one that was found before.
    fn aiming(&self, mut aim: u64, limit: u64, lanes: OnLanes, before: u64) -> Option<Found> {
        for _ in 0..CORRECTIONS {
            let mut simulated: Vec<Runs> = Vec::new();
            for sequence in &self.sequences {
                for taste in Taste::ALL {
                    let runs = simulate(sequence, aim, taste, lanes);
                    simulated.extend(runs.filter(|runs| !simulated.contains(runs)));
                }
            }
            // If what is computed takes as long as a program that was found before, waiting only adds to that.
            let found = simulated.into_iter().filter_map(|runs| self.found(runs));
            let mut found: Vec<Found> = found.filter(|found| found.time < before).collect();
            found.sort_by_key(|found| found.time);
            let mut least = None;
            let mut fits = |found: &Found| {
                let order = in_order(&found.fused);
                let over = (self.planner.unplaced)(&found.fused, &order, None).excess(limit);
                least = Some(least.map_or(over, |least: u64| least.min(over)));
                over == 0
            };
            let fitting: Vec<Found> =
                found.into_iter().filter(|found| fits(found)).take(TIMED).collect();
            let over = least?;
            if over == 0 {
                return self.fastest(fitting, limit, before);
            }
            aim = aim.checked_sub(over.max(ALIGN))?;
        }
        None
    }

    fn found(&self, runs: Runs) -> Option<Found> {
        let fused = runs.applied(self.graph, self.fused)?;
        let time = computed_time(self.graph, &fused);
        Some(Found { fused, runs, time })
    }

    /// The fastest of those that are sorted by the time of what is computed.
    fn fastest(&self, found: Vec<Found>, limit: u64, mut before: u64) -> Option<Found> {
        let mut fastest = None;
        for mut one in found {
            // Waiting only adds to its time.
            if before <= one.time {
                break;
            }
            let order = in_order(&one.fused);
            let found = (self.planner.scheduled)(&one.fused, &order, limit, Attempts::First);
            one.time += exposed_time(self.graph, &one.fused, found.as_ref());
            if one.time < before {
                before = one.time;
                fastest = Some(one);
            }
        }
        fastest
    }
}
