//! One list schedule: whenever the next collective is ready and there is memory for it, it starts; else a region runs
//! that need not wait, first those that the next collectives need.

use super::{Clock, Work};
use crate::plan::draft::RegionId;
use std::collections::BTreeSet;

/// Maximum number of regions that are run early for the sake of a collective.
const MOST_PREPARED: usize = 64;

/// An order under construction, within a limit on live bytes.
pub(super) struct Line<'a> {
    work: &'a Work<'a>,
    limit: u64,
    order: Vec<RegionId>,
    /// The given order, the position of each region in it, and that of the first one that has not run.
    turns: &'a [RegionId],
    turn: Vec<usize>,
    first: usize,
    /// Live bytes at every position of that order, with those of results made early.
    forecast: Vec<u64>,
    /// The regions that are ready, by the first collective that needs them, then by turn.
    ready: BTreeSet<(usize, usize, RegionId)>,
    /// The number of the first collective that needs each region.
    feeds: Vec<usize>,
    waiting: Vec<u32>,
    has_run: Vec<bool>,
    clock: Clock,
    live: u64,
    /// Number of readers of each buffer that are not done with it.
    uses: Vec<usize>,
    /// Regions on lanes that nobody has waited for yet, in the order of their starts.
    in_flight: Vec<RegionId>,
    /// The number of the first collective that has not started.
    unstarted: usize,
}

impl<'a> Line<'a> {
    pub fn new(work: &'a Work, order: &'a [RegionId], limit: u64) -> Line<'a> {
        let n = order.len();
        let mut turn = vec![0; n];
        order.iter().enumerate().for_each(|(at, &r)| turn[r] = at);
        let waiting = work.flow.n_before.clone();
        let feeds = work.feeds();
        Line {
            work,
            limit,
            order: Vec::with_capacity(n),
            turns: order,
            first: 0,
            forecast: work.live_bytes(order),
            ready: (0..n).filter(|&r| waiting[r] == 0).map(|r| (feeds[r], turn[r], r)).collect(),
            feeds,
            turn,
            waiting,
            has_run: vec![false; n],
            clock: Clock::new(n),
            live: 0,
            uses: work.flow.readers.iter().map(Vec::len).collect(),
            in_flight: Vec::new(),
            unstarted: 0,
        }
    }

    /// The order: no region is farther from its turn than `reach`, and no collective starts before more than `passed` others that
    /// come before it in the program.
    pub fn run(mut self, reach: usize, passed: usize) -> Vec<RegionId> {
        while self.first < self.turns.len() {
            if !self.start_next(passed) {
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

    /// Starts the next collective, or one soon after it on another lane, after running the little that it still needs, if
    /// nothing prevents that. Returns whether it did.
    fn start_next(&mut self, passed: usize) -> bool {
        let collectives = &self.work.collectives[self.unstarted..];
        let next = collectives.iter().copied().filter(|&r| !self.has_run[r]);
        let chosen = next.take(passed + 1).find_map(|collective| {
            let mut needed = self.unprepared(collective)?;
            needed.sort_unstable_by_key(|&r| self.turn[r]);
            let bytes: u64 = needed.iter().map(|&r| self.takes(r)).sum();
            let until = self.turn[collective].max(self.first);
            let highest = self.forecast[self.first..=until].iter().max().map_or(0, |&most| most);
            let is_early = self.turn[collective] > self.first;
            let fits = !is_early || highest.max(self.live) + bytes <= self.limit;
            fits.then_some((needed, bytes, until))
        });
        let Some((needed, bytes, until)) = chosen else { return false };
        self.forecast[self.first..until].iter_mut().for_each(|live| *live += bytes);
        needed.into_iter().for_each(|r| self.take(r));
        true
    }

    /// Whether a region waits for a collective before which another one has not started.
    fn is_held(&self, r: RegionId) -> bool {
        let mut awaited = self.work.awaits[r].iter().filter(|&&c| !self.work.is_host_copy(c));
        awaited.any(|&c| self.work.numbers[c] > self.unstarted)
    }

    /// A collective and everything that has to run before it; `None` if that is much, or has to wait itself.
    fn unprepared(&self, collective: RegionId) -> Option<Vec<RegionId>> {
        let (mut found, mut at, mut time) = (vec![collective], 0, 0);
        while let Some(&r) = found.get(at) {
            time += if r == collective { 0 } else { self.work.times[r] };
            let is_small = found.len() <= MOST_PREPARED && time <= self.work.times[collective];
            let is_other = r != collective && self.work.lanes[r].is_some();
            let waits = self.clock.wait(self.work, r) > 0 || self.is_held(r);
            if !is_small || is_other || waits {
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

    /// Of the ready regions not far from their turn, the first that need not wait and for which there is memory; else the one
    /// that comes nearest to that.
    fn next(&self, reach: usize) -> RegionId {
        let cost = |r: RegionId| {
            let during = self.live + self.takes(r) + self.work.fused.regions[r].workspace;
            (during.saturating_sub(self.limit), self.clock.wait(self.work, r))
        };
        let last = self.first.saturating_add(reach);
        let mut best = None;
        let may_run = |&&(_, turn, r): &&(usize, usize, RegionId)| {
            let is_collective = self.work.lanes[r].is_some() && !self.work.is_host_copy(r);
            let in_turn = !is_collective || self.work.numbers[r] == self.unstarted;
            turn <= last && in_turn && !self.is_held(r)
        };
        for &(_, turn, r) in self.ready.iter().filter(may_run) {
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
        let over = |&&c: &&RegionId| {
            let may_end = work.is_host_copy(c) || work.numbers[c] < self.unstarted;
            self.clock.done[c] <= self.clock.now && may_end
        };
        let over: Vec<RegionId> = self.in_flight.iter().filter(over).copied().collect();
        over.into_iter().for_each(|collective| self.land(collective));
        self.live += self.takes(r);
        self.has_run[r] = true;
        self.ready.remove(&(self.feeds[r], self.turn[r], r));
        self.order.push(r);
        if work.lanes[r].is_some() {
            let has_run = |&&c: &&RegionId| self.has_run[c];
            self.unstarted += work.collectives[self.unstarted..].iter().take_while(has_run).count();
            self.in_flight.push(r);
        } else {
            self.leave(r);
        }
        for &user in &work.flow.users[r] {
            self.waiting[user] -= 1;
            if self.waiting[user] == 0 {
                self.ready.insert((self.feeds[user], self.turn[user], user));
            }
        }
    }

    /// Marks a region on a lane as done, with those before it there.
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

    /// Frees the buffers that a region was the last to touch.
    fn leave(&mut self, r: RegionId) {
        let flow = self.work.flow;
        flow.reads[r].iter().for_each(|&b| self.uses[b] -= 1);
        let free = self.work.touched(r).filter(|&b| self.uses[b] == 0).map(|b| flow.bytes[b]);
        self.live -= free.sum::<u64>();
    }
}
