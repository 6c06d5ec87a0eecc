//! Collectives start early and what needs them runs late, so that other work runs meanwhile; within a limit on memory.
//!
//! A list schedule over estimated times, as the latency-hiding schedulers of OpenXLA and Inductor make: one engine that
//! computes, and lanes for collectives. All collectives start in the order of the program, whatever the estimates are; so each
//! rank may schedule for itself, and none waits for one that another starts only after something recorded later.

use super::Flow;
use crate::graph::Graph;
use crate::plan::cost::{collective_time, region_time};
use crate::plan::draft::{Fused, Region, RegionId};
use crate::plan::lanes::{self, Landings, LaneId};
use std::collections::{BTreeSet, HashMap};

/// Memory that may be in use at once, as a part of what the order needs as it is without lanes.
const MOST_PEAK: f64 = 1.05;
/// How far from its turn a region may run, in regions; the next one if memory would peak too high.
const REACHES: [usize; 3] = [usize::MAX, 256, 32];
/// Most regions that are run early for the sake of a collective.
const MOST_PREPARED: usize = 64;
/// How many times what it is thought to take a collective may hold what it reads and writes. Estimates may be wrong.
const PATIENCE: u64 = 16;

/// `order`, changed so that less time is spent waiting for collectives, and when these are done. The peak is at most a little
/// higher.
pub(super) fn scheduled(
    graph: &Graph,
    fused: &Fused,
    flow: &Flow,
    donors: &[Option<u32>],
    order: Vec<RegionId>,
) -> (Vec<RegionId>, Landings) {
    if !fused.regions.iter().any(|region| region.kernel.collective().is_some()) {
        return (order, Landings::default());
    }
    let work = Work::new(graph, fused, flow, donors, &order);
    let live = work.live_bytes(&order);
    let limit = (live.iter().max().map_or(0, |&peak| peak) as f64 * MOST_PEAK) as u64;
    let timed = |order: Vec<RegionId>| {
        let landings = work.landings(&order, limit)?;
        Some((work.exposed(&order, &landings), order, landings))
    };
    let better = REACHES
        .iter()
        .find_map(|&reach| timed(Line::new(&work, &order, live.clone(), limit).run(reach)));
    let all = [timed(order.clone()), better];
    let best = all.into_iter().flatten().min_by_key(|(exposed, ..)| *exposed);
    best.map_or((order, Landings::default()), |(_, order, landings)| (order, landings))
}

/// What is to be put in order.
struct Work<'a> {
    fused: &'a Fused,
    flow: &'a Flow,
    donors: &'a [Option<u32>],
    /// Of every region, in bytes that could be moved meanwhile.
    times: Vec<u64>,
    lanes: Vec<Option<LaneId>>,
    /// The collectives whose results each region needs, without those before it on its own lane.
    awaits: Vec<Vec<RegionId>>,
    /// What must run before each region.
    before: Vec<Vec<RegionId>>,
}

impl<'a> Work<'a> {
    fn new(
        graph: &Graph,
        fused: &'a Fused,
        flow: &'a Flow,
        donors: &'a [Option<u32>],
        order: &[RegionId],
    ) -> Work<'a> {
        let n = order.len();
        let steps: Vec<&Region> = order.iter().map(|&r| &fused.regions[r]).collect();
        let mut lanes = vec![None; n];
        order.iter().zip(lanes::lanes(fused, &steps)).for_each(|(&r, lane)| lanes[r] = lane);
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
            Some(_) => collective_time(graph, fused, &fused.regions[r]),
            None => region_time(graph, fused, &fused.regions[r]),
        };
        let times = (0..n).map(time).collect();
        let mut before = vec![Vec::new(); n];
        for (r, users) in flow.users.iter().enumerate() {
            users.iter().for_each(|&u| before[u].push(r));
        }
        Work { fused, flow, donors, times, lanes, awaits, before }
    }

    /// The position at which each buffer is touched last, without lanes.
    fn last_touches(&self, order: &[RegionId]) -> Vec<usize> {
        let mut last = vec![0; self.flow.bytes.len()];
        for (at, &r) in order.iter().enumerate() {
            let touched = self.flow.reads[r].iter().chain(&self.flow.writes[r]);
            touched.for_each(|&b| last[b] = at);
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

    /// When each collective is done: as late as those allow that need it, and the limit. `None` if more than that is live
    /// whatever is done.
    fn landings(&self, order: &[RegionId], limit: u64) -> Option<Landings> {
        let mut live = self.live_bytes(order);
        if live.iter().any(|&bytes| bytes > limit) {
            return None;
        }
        let steps: Vec<&Region> = order.iter().map(|&r| &self.fused.regions[r]).collect();
        let wanted = lanes::done(self.fused, (order, &steps), self.donors, &Landings::default());
        let last = self.last_touches(order);
        let mut clock = Clock::new(self.lanes.len());
        let mut passed = |&r: &RegionId| {
            clock.run(self, r);
            clock.now
        };
        // Since the start, when the region at each position is over.
        let times: Vec<u64> = order.iter().map(&mut passed).collect();
        let mut landings = Landings::default();
        for (at, &r) in order.iter().enumerate().filter(|(_, r)| self.lanes[**r].is_some()) {
            let over = clock.done[r] + (PATIENCE - 1) * self.times[r];
            let mut until = at + 1;
            while until < wanted[at].unwrap_or(at + 1).min(order.len()) && times[until] <= over {
                let touched = self.flow.reads[r].iter().chain(&self.flow.writes[r]);
                let held = touched.filter(|&&b| last[b] < until).map(|&b| self.flow.bytes[b]);
                let more = live[until] + held.sum::<u64>();
                if more > limit {
                    break;
                }
                live[until] = more;
                until += 1;
            }
            landings.0.extend(order.get(until).map(|&before| (r, before)));
        }
        Some(landings)
    }

    /// How long the engine waits for collectives.
    fn exposed(&self, order: &[RegionId], landings: &Landings) -> u64 {
        let mut before: HashMap<RegionId, Vec<RegionId>> = HashMap::new();
        landings.0.iter().for_each(|&(c, r)| before.entry(r).or_default().push(c));
        let mut clock = Clock::new(self.lanes.len());
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

/// The time at which things happen in an order.
struct Clock {
    now: u64,
    /// When each collective is done.
    done: Vec<u64>,
    /// Lanes that were used, and when all on them is done.
    lanes: Vec<(LaneId, u64)>,
}

impl Clock {
    fn new(regions: usize) -> Clock {
        Clock { now: 0, done: vec![0; regions], lanes: Vec::new() }
    }

    /// How long a region would have to wait.
    fn wait(&self, work: &Work, r: RegionId) -> u64 {
        let done = work.awaits[r].iter().map(|&c| self.done[c]).max();
        done.unwrap_or(0).saturating_sub(self.now)
    }

    /// Returns how long it waits.
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
                *end = self.now.max(*end) + work.times[r];
                self.done[r] = *end;
            }
        }
        wait
    }

    /// Until all lanes are empty.
    fn rest(&self) -> u64 {
        let last = self.lanes.iter().map(|(_, end)| *end).max();
        last.unwrap_or(0).saturating_sub(self.now)
    }
}

/// An order under construction.
struct Line<'a> {
    work: &'a Work<'a>,
    limit: u64,
    order: Vec<RegionId>,
    /// Everything by the order as it was, the positions of regions in it, and where the first one is that has not run.
    turns: &'a [RegionId],
    turn: Vec<usize>,
    first: usize,
    /// Bytes at every position of that order, with what was made early.
    forecast: Vec<u64>,
    /// By turn.
    ready: BTreeSet<(usize, RegionId)>,
    waiting: Vec<u32>,
    has_run: Vec<bool>,
    clock: Clock,
    live: u64,
    /// Readers of each buffer that are not done with it.
    uses: Vec<usize>,
    /// Collectives that nobody has waited for yet, in the order of their starts.
    in_flight: Vec<RegionId>,
    /// All of them in order, and how many have started.
    collectives: Vec<RegionId>,
    started: usize,
}

impl<'a> Line<'a> {
    fn new(work: &'a Work, order: &'a [RegionId], forecast: Vec<u64>, limit: u64) -> Line<'a> {
        let n = order.len();
        let mut turn = vec![0; n];
        order.iter().enumerate().for_each(|(at, &r)| turn[r] = at);
        let waiting = work.flow.n_before.clone();
        Line {
            work,
            limit,
            order: Vec::with_capacity(n),
            turns: order,
            first: 0,
            forecast,
            ready: (0..n).filter(|&r| waiting[r] == 0).map(|r| (turn[r], r)).collect(),
            turn,
            waiting,
            has_run: vec![false; n],
            clock: Clock::new(n),
            live: 0,
            uses: work.flow.readers.iter().map(Vec::len).collect(),
            in_flight: Vec::new(),
            collectives: order.iter().copied().filter(|&r| work.lanes[r].is_some()).collect(),
            started: 0,
        }
    }

    fn run(mut self, reach: usize) -> Vec<RegionId> {
        while self.first < self.turns.len() {
            if !self.start_next() {
                let next = self.next(reach);
                self.take(next);
            }
            while self.turns.get(self.first).is_some_and(|&r| self.has_run[r]) {
                self.first += 1;
            }
        }
        self.order
    }

    fn takes(&self, r: RegionId) -> u64 {
        self.work.flow.writes[r].iter().map(|&b| self.work.flow.bytes[b]).sum()
    }

    /// Starts the next collective, and runs before it what little it still needs, if nothing speaks against that.
    fn start_next(&mut self) -> bool {
        let Some(&collective) = self.collectives.get(self.started) else { return false };
        let Some(mut needed) = self.unprepared(collective) else { return false };
        needed.sort_unstable_by_key(|&r| self.turn[r]);
        let bytes: u64 = needed.iter().map(|&r| self.takes(r)).sum();
        let until = self.turn[collective].max(self.first);
        let highest = self.forecast[self.first..=until].iter().max().map_or(0, |&most| most);
        let is_early = self.turn[collective] > self.first;
        if is_early && highest.max(self.live) + bytes > self.limit {
            return false;
        }
        self.forecast[self.first..until].iter_mut().for_each(|live| *live += bytes);
        needed.into_iter().for_each(|r| self.take(r));
        true
    }

    /// A collective and all that has to run before it; `None` if that is much, or has to wait itself.
    fn unprepared(&self, collective: RegionId) -> Option<Vec<RegionId>> {
        let (mut found, mut at, mut time) = (vec![collective], 0, 0);
        while let Some(&r) = found.get(at) {
            time += if r == collective { 0 } else { self.work.times[r] };
            let is_small = found.len() <= MOST_PREPARED && time <= self.work.times[collective];
            if !is_small || self.clock.wait(self.work, r) > 0 {
                return None;
            }
            let before = self.work.before[r].iter();
            for &other in before.filter(|&&other| !self.has_run[other]) {
                if !found.contains(&other) {
                    found.push(other);
                }
            }
            at += 1;
        }
        Some(found)
    }

    /// Of what is ready and not far from its turn, the first that need not wait and for which there is memory; else what comes
    /// nearest to that.
    fn next(&self, reach: usize) -> RegionId {
        let cost = |r: RegionId| {
            let during = self.live + self.takes(r) + self.work.fused.regions[r].workspace;
            (during.saturating_sub(self.limit), self.clock.wait(self.work, r))
        };
        let last = self.first.saturating_add(reach);
        let mut best = None;
        for &(turn, r) in self.ready.iter().take_while(|(turn, _)| *turn <= last) {
            let cost = cost(r);
            if cost == (0, 0) {
                return r;
            }
            if best.is_none_or(|(least, _, _)| cost < least) {
                best = Some((cost, turn, r));
            }
        }
        best.map_or(self.turns[self.first], |(_, _, r)| r)
    }

    fn take(&mut self, r: RegionId) {
        let work = self.work;
        for &collective in &work.awaits[r] {
            self.land(collective);
        }
        self.clock.run(work, r);
        let over = |&&c: &&RegionId| self.clock.done[c] <= self.clock.now;
        let over: Vec<RegionId> = self.in_flight.iter().filter(over).copied().collect();
        over.into_iter().for_each(|collective| self.land(collective));
        self.live += self.takes(r);
        self.has_run[r] = true;
        self.ready.remove(&(self.turn[r], r));
        self.order.push(r);
        if work.lanes[r].is_some() {
            self.started += 1;
            self.in_flight.push(r);
        } else {
            self.leave(r);
        }
        for &user in &work.flow.users[r] {
            self.waiting[user] -= 1;
            if self.waiting[user] == 0 {
                self.ready.insert((self.turn[user], user));
            }
        }
    }

    /// A collective is done, and so are those before it on its lane.
    fn land(&mut self, collective: RegionId) {
        let Some(last) = self.in_flight.iter().position(|&r| r == collective) else { return };
        let (lanes, mut at) = (&self.work.lanes, 0);
        let of_lane = |&r: &RegionId| {
            at += 1;
            at <= last + 1 && lanes[r] == lanes[collective]
        };
        let (landed, rest) = std::mem::take(&mut self.in_flight).into_iter().partition(of_lane);
        self.in_flight = rest;
        let landed: Vec<RegionId> = landed;
        landed.into_iter().for_each(|r| self.leave(r));
    }

    /// Gives back what a region was the last to touch.
    fn leave(&mut self, r: RegionId) {
        let flow = self.work.flow;
        flow.reads[r].iter().for_each(|&b| self.uses[b] -= 1);
        let touched = flow.reads[r].iter().chain(&flow.writes[r]);
        let free = touched.filter(|&&b| self.uses[b] == 0).map(|&b| flow.bytes[b]);
        self.live -= free.sum::<u64>();
    }
}
