//! Collectives and copies to the host and back start early and their users run late, so that other work runs meanwhile; within a
//! memory limit.
//!
//! A list schedule over estimated times, as the latency-hiding schedulers of OpenXLA and Inductor make: one engine that
//! computes, and lanes beside it. Each rank schedules for itself, by any estimates, and none waits forever:
//!
//! **Invariant:** a lane's collectives start in the order of the program; and before a rank waits for a collective, it has
//! started all that come before it in the program. (Of all collectives that are waited for, take the first: every waiting rank
//! has started it, and everything that its lane has to do before. So it ends.)

mod line;
mod reloads;

use super::Flow;
use crate::graph::Graph;
use crate::plan::cost::{lane_time, region_time};
use crate::plan::draft::{BufferId, Fused, Region, RegionId};
use crate::plan::lanes::{self, Landings, LaneId, Token};
use line::Line;
use std::collections::{HashMap, HashSet};

/// Beyond the peak of the order without lanes, one in this many of its bytes may be in use, or those of the largest step on a lane,
/// or the tokens of a thousand collectives, which are next to nothing: whichever are most.
const MOST_BEYOND: u64 = 20;
const TOKENS: u64 = 1 << 16;
/// How far from its turn a region may run, in regions, and how many collectives of other lanes that precede it in the program a
/// collective may overtake. All pairs are tried; the order with the least waiting is taken.
const WAYS: [(usize, usize); 5] = [(32, 1), (usize::MAX, 1), (8, 1), (usize::MAX, 0), (32, 0)];

/// How many of these are tried, and from how many orders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Attempts {
    /// One, which mostly stays within the limit: for an estimate.
    First,
    All,
}

/// Number of attempts to find such an order within the limit.
const TRIES: usize = 3;
/// A step on a lane may hold its operands and results for this many times its estimated duration, since estimates may be wrong.
const PATIENCE: u64 = 16;
/// An order is chosen for lanes that take as long as estimated, and for lanes this many times slower.
const SPEEDS: [u64; 2] = [1, 4];

/// An order for a backend with lanes.
pub struct Scheduled {
    pub order: Vec<RegionId>,
    /// When the regions on lanes are done.
    pub landings: Landings,
    /// Estimated time for which the others wait for them.
    pub exposed: u64,
    /// Bytes that this was allowed to take beyond the peak of the order without lanes.
    pub beyond: u64,
}

/// One of `orders`, changed so that less time is spent waiting for lanes, and when the steps there are done. The peak may rise by
/// `beyond` bytes, but by no more than [`MOST_BEYOND`] says. The second order is the program's; in both, everything with effects is
/// in the order of the program.
pub(super) fn scheduled(
    graph: &Graph,
    fused: &Fused,
    flow: &Flow,
    donors: &[Option<u32>],
    orders: [Vec<RegionId>; 2],
    beyond: u64,
    attempts: Attempts,
) -> Scheduled {
    let work = Work::new(graph, fused, flow, donors, &orders[0]);
    let peak = |order: &[RegionId]| work.live_bytes(order).into_iter().max().unwrap_or(0);
    let most = peak(&orders[0]);
    let beyond = (most / MOST_BEYOND).max(work.largest_on_lanes()).max(TOKENS).min(beyond);
    let limit = most + beyond;
    let timed = |order: Vec<RegionId>| {
        let order = reloads::ahead(&work, order, limit);
        let landings = work.landings(&order, limit)?;
        let waits = |slower| work.exposed(&order, &landings, slower) / slower;
        let waits = SPEEDS.map(waits);
        let exposed = waits[0];
        Some((waits.iter().sum::<u64>(), Scheduled { order, landings, exposed, beyond }))
    };
    let orders = orders.map(|order| reloads::ahead(&work, order, limit));
    // An order that is better for memory may leave all gradients for the end.
    let better = |base: &Vec<RegionId>| {
        let line = |&(reach, passed): &(usize, usize)| {
            // Regions that run early may be in the way of later ones: then fewer of them are to run early.
            let mut aim = limit;
            for _ in 0..TRIES {
                let order = Line::new(&work, base, aim).run(reach, passed);
                match peak(&order).saturating_sub(limit) {
                    0 => return timed(order),
                    over => aim = aim.saturating_sub(over.max(limit / 64)),
                }
            }
            None
        };
        let ways = match attempts {
            Attempts::First => &WAYS[..1],
            Attempts::All => &WAYS[..],
        };
        let ways =
            ways.iter().filter(|(_, passed)| *passed == 1 || work.has_several_communicators());
        ways.filter_map(line).min_by_key(|(waits, _)| *waits)
    };
    let has_other = attempts == Attempts::All && orders[1] != orders[0];
    let other = has_other.then(|| better(&orders[1])).flatten();
    let all = [better(&orders[0]), other, timed(orders[0].clone())];
    let best = all.into_iter().flatten().min_by_key(|(waits, _)| *waits);
    let [order, _] = orders;
    best.map_or_else(
        || {
            let landings = Landings::default();
            let exposed = work.exposed(&order, &landings, 1);
            Scheduled { order, landings, exposed, beyond }
        },
        |(_, found)| found,
    )
}

/// Adds to `flow` that regions with effects run in the order of the program, which `order` has, except for collectives of several
/// lanes with nothing else between them.
pub(super) fn keep_effects(graph: &Graph, fused: &Fused, order: &[RegionId], flow: &mut Flow) {
    let steps: Vec<&Region> = order.iter().map(|&r| &fused.regions[r]).collect();
    let lanes = lanes::lanes(graph, fused, &steps);
    let (mut last, mut since): (_, Vec<RegionId>) = (None, Vec::new());
    let follows: HashSet<RegionId> = steps.iter().flat_map(|r| r.after.iter().copied()).collect();
    for ((&r, region), lane) in order.iter().zip(&steps).zip(lanes) {
        if region.after.is_empty() && !follows.contains(&r) {
            continue;
        }
        last.into_iter().for_each(|last| flow.before(last, r));
        if lane.is_some() {
            since.push(r);
        } else {
            since.drain(..).for_each(|collective| flow.before(collective, r));
            last = Some(r);
        }
    }
}

/// How late a step on a lane is waited for.
enum Lateness {
    /// Where it may be at all.
    Allowed,
    /// Where nobody waits if it takes as long as estimated.
    Done,
    /// Later, since estimates may be wrong.
    Patient,
}

/// The regions to be put in order, and the facts that decide it.
struct Work<'a> {
    graph: &'a Graph,
    fused: &'a Fused,
    flow: &'a Flow,
    donors: &'a [Option<u32>],
    /// Time of every region, in bytes that could be moved meanwhile.
    times: Vec<u64>,
    lanes: Vec<Option<LaneId<Token>>>,
    /// The regions on lanes whose results each region needs, without those before it on its own lane.
    awaits: Vec<Vec<RegionId>>,
    /// The regions that must run before each region.
    before: Vec<Vec<RegionId>>,
    /// All collectives in the order of the program, and the number of each.
    collectives: Vec<RegionId>,
    numbers: Vec<usize>,
}

impl<'a> Work<'a> {
    fn new(
        graph: &'a Graph,
        fused: &'a Fused,
        flow: &'a Flow,
        donors: &'a [Option<u32>],
        order: &[RegionId],
    ) -> Work<'a> {
        let n = order.len();
        let steps: Vec<&Region> = order.iter().map(|&r| &fused.regions[r]).collect();
        let mut lanes = vec![None; n];
        order.iter().zip(lanes::lanes(graph, fused, &steps)).for_each(|(&r, lane)| lanes[r] = lane);
        let writers = fused.writers();
        let awaited = |r: RegionId| {
            let makers = flow.reads[r].iter().map(|&b| writers[b]);
            let mut awaited: Vec<RegionId> =
                makers.filter(|&w| lanes[w].is_some() && lanes[w] != lanes[r]).collect();
            awaited.sort_unstable();
            awaited.dedup();
            awaited
        };
        let awaits = (0..n).map(awaited).collect();
        let time = |r: RegionId| match lanes[r] {
            Some(lane) => lane_time(graph, fused, &fused.regions[r], &lane),
            None => region_time(graph, fused, &fused.regions[r]),
        };
        let times = (0..n).map(time).collect();
        let mut before = vec![Vec::new(); n];
        for (r, users) in flow.users.iter().enumerate() {
            users.iter().for_each(|&u| before[u].push(r));
        }
        let is_collective = |&r: &RegionId| matches!(lanes[r], Some(LaneId::Communicator(_)));
        let collectives: Vec<RegionId> = order.iter().copied().filter(is_collective).collect();
        let mut numbers = vec![usize::MAX; n];
        collectives.iter().enumerate().for_each(|(number, &r)| numbers[r] = number);
        Work { graph, fused, flow, donors, times, lanes, awaits, before, collectives, numbers }
    }

    /// The buffers that a region reads and writes.
    fn touched(&self, r: RegionId) -> impl Iterator<Item = BufferId> {
        self.flow.reads[r].iter().chain(&self.flow.writes[r]).copied()
    }

    /// Bytes in the arena that the largest step on a lane reads and writes.
    fn largest_on_lanes(&self) -> u64 {
        let on_lanes = (0..self.lanes.len()).filter(|&r| self.lanes[r].is_some());
        let bytes = |r: RegionId| self.touched(r).map(|b| self.flow.bytes[b]).sum();
        on_lanes.map(bytes).max().unwrap_or(0)
    }

    /// Whether a collective could overtake another one.
    fn has_several_communicators(&self) -> bool {
        self.collectives.windows(2).any(|pair| self.lanes[pair[0]] != self.lanes[pair[1]])
    }

    /// Whether a region copies to the host or from it on a lane: that may start and be waited for at any time.
    fn is_host_copy(&self, r: RegionId) -> bool {
        matches!(self.lanes[r], Some(LaneId::ToHost | LaneId::FromHost))
    }

    /// The number of the first collective that needs each region, directly or not; that of all collectives if none does.
    fn feeds(&self) -> Vec<usize> {
        let none = self.collectives.len();
        let mut feeds = vec![none; self.before.len()];
        for (number, &collective) in self.collectives.iter().enumerate() {
            let mut stack = vec![collective];
            while let Some(r) = stack.pop() {
                if feeds[r] == none {
                    feeds[r] = number;
                    stack.extend(&self.before[r]);
                }
            }
        }
        feeds
    }

    /// For each collective, by number, the first position at which it may be waited for: all before it have started.
    fn earliest(&self, order: &[RegionId]) -> Vec<usize> {
        let mut at = vec![0; self.collectives.len()];
        let started = order.iter().enumerate().filter(|(_, r)| self.numbers[**r] != usize::MAX);
        started.for_each(|(position, &r)| at[self.numbers[r]] = position);
        let mut last = 0;
        let passed = at.into_iter().map(|position| {
            let before = last;
            last = last.max(position + 1);
            before
        });
        passed.collect()
    }

    /// The position at which each buffer is touched last, without lanes.
    fn last_touches(&self, order: &[RegionId]) -> Vec<usize> {
        let mut last = vec![0; self.flow.bytes.len()];
        for (at, &r) in order.iter().enumerate() {
            self.touched(r).for_each(|b| last[b] = at);
        }
        last
    }

    /// Arena bytes that are live at every position, without lanes.
    fn live_bytes(&self, order: &[RegionId]) -> Vec<u64> {
        let mut live = vec![0i64; order.len() + 1];
        let last = self.last_touches(order);
        for (at, &r) in order.iter().enumerate() {
            let workspace = self.fused.regions[r].workspace as i64;
            live[at] += workspace;
            live[at + 1] -= workspace;
            for &b in &self.flow.writes[r] {
                live[at] += self.flow.bytes[b] as i64;
                live[last[b] + 1] -= self.flow.bytes[b] as i64;
            }
        }
        live.pop();
        let sums = live.iter().scan(0, |sum, change| {
            *sum += change;
            Some(*sum as u64)
        });
        sums.collect()
    }

    /// When each step on a lane is done: as late as its users and the limit allow. `None` if more than the limit is live in any
    /// case, or a collective would be waited for before all that come before it have started.
    fn landings(&self, order: &[RegionId], limit: u64) -> Option<Landings> {
        let mut live = self.live_bytes(order);
        if live.iter().any(|&bytes| bytes > limit) {
            return None;
        }
        let steps: Vec<&Region> = order.iter().map(|&r| &self.fused.regions[r]).collect();
        let wanted =
            lanes::done(self.graph, self.fused, (order, &steps), self.donors, &Landings::default());
        let last = self.last_touches(order);
        let earliest = self.earliest(order);
        let mut clock = Clock::new(self.lanes.len());
        let mut passed = |&r: &RegionId| {
            clock.run(self, r);
            clock.now
        };
        // Time since the start at which the region at each position ends.
        let times: Vec<u64> = order.iter().map(&mut passed).collect();
        let at_places = order.iter().copied().enumerate();
        let on_lanes = at_places.filter(|&(_, r)| self.lanes[r].is_some());
        // First where they may be waited for at all; then so late that nobody waits; then as late as memory allows.
        let mut landings: Vec<usize> = (1..=order.len()).collect();
        for lateness in [Lateness::Allowed, Lateness::Done, Lateness::Patient] {
            for (at, r) in on_lanes.clone() {
                let earliest = earliest.get(self.numbers[r]).copied().unwrap_or(at);
                let wanted = wanted[at].unwrap_or(at + 1).min(order.len());
                let (mut until, done) = (landings[at], clock.done[r]);
                let over = done + PATIENCE * self.times[r];
                let goes_on = |until: usize| match lateness {
                    Lateness::Allowed => until < earliest,
                    Lateness::Done => until < wanted && times[until - 1] < done,
                    Lateness::Patient => until < wanted && times[until] + self.times[r] <= over,
                };
                while until < order.len() && goes_on(until) {
                    let held = self.touched(r).filter(|&b| last[b] < until);
                    let more = live[until] + held.map(|b| self.flow.bytes[b]).sum::<u64>();
                    if more > limit {
                        break;
                    }
                    live[until] = more;
                    until += 1;
                }
                if until < earliest || wanted < until {
                    return None;
                }
                landings[at] = until;
            }
        }
        let done = on_lanes.filter_map(|(at, r)| Some((r, *order.get(landings[at])?)));
        Some(Landings(done.collect()))
    }

    /// Time for which the engine waits for lanes that are this many times slower.
    fn exposed(&self, order: &[RegionId], landings: &Landings, slower: u64) -> u64 {
        let mut before: HashMap<RegionId, Vec<RegionId>> = HashMap::new();
        landings.0.iter().for_each(|&(c, r)| before.entry(r).or_default().push(c));
        let mut clock = Clock { slower, ..Clock::new(self.lanes.len()) };
        let mut waits = 0;
        for r in order {
            let done = before.get(r).into_iter().flatten().map(|&c| clock.done[c]).max();
            let wait = done.unwrap_or(0).saturating_sub(clock.now);
            clock.now += wait;
            waits += wait + clock.run(self, *r);
        }
        waits + clock.rest()
    }
}

/// The estimated time in an order.
struct Clock {
    now: u64,
    /// The time at which each region on a lane is done.
    done: Vec<u64>,
    /// The lanes that were used, each with the time at which everything on it is done.
    lanes: Vec<(LaneId<Token>, u64)>,
    /// Factor on the estimated times of what is on lanes.
    slower: u64,
}

impl Clock {
    fn new(regions: usize) -> Clock {
        Clock { now: 0, done: vec![0; regions], lanes: Vec::new(), slower: 1 }
    }

    /// Time for which a region would have to wait.
    fn wait(&self, work: &Work, r: RegionId) -> u64 {
        let done = work.awaits[r].iter().map(|&c| self.done[c]).max();
        done.unwrap_or(0).saturating_sub(self.now)
    }

    /// Runs a region; returns for how long it waits.
    fn run(&mut self, work: &Work, r: RegionId) -> u64 {
        let wait = self.wait(work, r);
        self.now += wait;
        match work.lanes[r] {
            None => self.now += work.times[r],
            Some(lane) => {
                let at = self.lanes.iter().position(|(other, _)| *other == lane);
                let at = at.unwrap_or_else(|| {
                    self.lanes.push((lane, 0));
                    self.lanes.len() - 1
                });
                let end = &mut self.lanes[at].1;
                *end = self.now.max(*end) + self.slower * work.times[r];
                self.done[r] = *end;
            }
        }
        wait
    }

    /// Time until all lanes are empty.
    fn rest(&self) -> u64 {
        let last = self.lanes.iter().map(|(_, end)| *end).max();
        last.unwrap_or(0).saturating_sub(self.now)
    }
}
