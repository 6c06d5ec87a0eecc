//! Simulates a program on bytes instead of numbers: values that do not fit are dropped, and recomputed where they are read, or
//! copied back from the host's memory, to which they were copied when they were made. The next read of each value is known, so
//! values are dropped that are there again in little time, are large, and are not read for long.

use super::sequence::{NEVER, Sequence};
use crate::plan::Kernel;
use crate::plan::decisions::{Run, Runs};
use crate::plan::draft::{BufferId, RegionId, Source};

/// Maximum number of regions that run again to recompute one value.
const CHAIN: usize = 256;
/// Maximum number of runs, as a multiple of the regions.
const MOST_RUNS: usize = 6;

/// Weight of the time until a value is read again: no order of dropping is best for all programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Taste {
    Cheap,
    Between,
    Far,
}

impl Taste {
    pub const ALL: [Taste; 3] = [Taste::Cheap, Taste::Between, Taste::Far];

    /// Cost of dropping `bytes` that take `time` to recompute and are read in `steps` steps.
    fn cost(self, time: u64, bytes: u64, steps: usize) -> f64 {
        let far = match self {
            Taste::Cheap => 1.0,
            Taste::Between => (steps as f64).sqrt(),
            Taste::Far => steps as f64,
        };
        (time + 1) as f64 / (bytes as f64 * far)
    }
}

/// What lanes may do.
#[derive(Clone, Copy, Debug)]
pub struct OnLanes {
    /// Bytes of the host's memory for values that wait there.
    pub host_bytes: u64,
    /// Number of values for which memory is left, so that they can be there before they are read: copied back from the host, or
    /// results of collectives. With none, the program waits for every copy.
    pub ahead: u64,
}

/// The runs that need at most `budget` bytes in the arena, before offsets are given; `None` if none are found.
pub fn simulate(sequence: &Sequence, budget: u64, taste: Taste, lanes: OnLanes) -> Option<Runs> {
    let n = sequence.fused.buffers.len();
    let mut state = State {
        sequence,
        taste,
        budget,
        lanes,
        now: 0,
        elapsed: 0,
        made_at: vec![0; n],
        sent: 0,
        is_made: vec![false; n],
        is_there: vec![false; n],
        is_on_host: vec![false; n],
        bytes_on_host: 0,
        largest_on_lanes: sequence.largest_on_lanes,
        pins: vec![0; n],
        live: 0,
        next: vec![NEVER; n],
        seen: vec![0; sequence.order.len()],
        search: 0,
        runs: Vec::new(),
    };
    for (now, &region) in sequence.order.iter().enumerate() {
        state.now = now;
        state.run(region)?;
        if state.runs.len() > MOST_RUNS * sequence.order.len() {
            return None;
        }
    }
    let runs = sequence.with_offloads(&state.runs, &state.is_on_host);
    Some(Runs(sequence.wanted(runs)))
}

struct State<'a> {
    sequence: &'a Sequence<'a>,
    taste: Taste,
    budget: u64,
    lanes: OnLanes,
    /// Position of the region that is to run for the first time.
    now: usize,
    /// Time since the start, and at which each buffer was written first.
    elapsed: u64,
    made_at: Vec<u64>,
    /// The time at which all copies to the host are done.
    sent: u64,
    is_made: Vec<bool>,
    is_there: Vec<bool>,
    is_on_host: Vec<bool>,
    bytes_on_host: u64,
    /// Bytes that the largest region on a lane needs.
    largest_on_lanes: u64,
    /// Number of regions about to run that read each buffer: as long as there are any, it stays.
    pins: Vec<u32>,
    live: u64,
    /// Position after `now` at which each buffer is needed next, by a first run or to recompute others.
    next: Vec<usize>,
    /// The last search in which each region was seen.
    seen: Vec<u32>,
    search: u32,
    runs: Vec<Run>,
}

/// How a value that is dropped comes back.
enum Return {
    Recomputed,
    Reloaded,
}

/// The regions and the time that it takes to recompute a value.
struct Again {
    regions: Vec<RegionId>,
    time: u64,
    until: usize,
}

impl State<'_> {
    fn is_in_arena(&self, b: BufferId) -> bool {
        self.sequence.fused.is_in_arena(b)
    }

    /// Runs a region for the first time, after running those again that made the missing operands.
    fn run(&mut self, region: RegionId) -> Option<()> {
        let sequence = self.sequence;
        let missing: Vec<RegionId> =
            self.missing(region).map(|b| sequence.liveness.writer[b]).collect();
        let again = match missing.is_empty() {
            true => Vec::new(),
            false => self.again(&missing, usize::MAX, self.now)?.regions,
        };
        for r in again.iter().chain([&region]) {
            sequence.reads[*r].iter().for_each(|&b| self.pins[b] += 1);
        }
        for r in again {
            self.run_again(r)?;
        }
        self.reload_for(region)?;
        let writes = &sequence.writes[region];
        // From now on its new place is read.
        let is_there = |&&b: &&BufferId| self.is_there[b];
        let gathered_again: Vec<BufferId> = writes.iter().filter(is_there).copied().collect();
        gathered_again.into_iter().for_each(|b| self.drop(b));
        self.make_room(Some(region), writes.iter().map(|&b| sequence.liveness.bytes[b]).sum())?;
        for &b in writes {
            (self.is_made[b], self.is_there[b]) = (true, true);
            self.live += sequence.liveness.bytes[b];
        }
        self.has_run(region, None);
        writes.iter().for_each(|&b| self.made_at[b] = self.elapsed);
        Some(())
    }

    /// The operands of a region that are neither there nor on the host.
    fn missing(&self, region: RegionId) -> impl Iterator<Item = BufferId> {
        let reads = self.sequence.reads[region].iter().copied();
        reads.filter(|&b| !self.is_there[b] && !self.is_on_host[b])
    }

    /// Copies the operands of a region back that are on the host.
    fn reload_for(&mut self, region: RegionId) -> Option<()> {
        let sequence = self.sequence;
        for &b in &sequence.reads[region] {
            if !self.is_there[b] && self.is_on_host[b] {
                self.make_room(None, sequence.sizes[b])?;
                self.is_there[b] = true;
                self.live += sequence.sizes[b];
                self.runs.push(Run::Reload(b));
            }
        }
        Some(())
    }

    fn run_again(&mut self, region: RegionId) -> Option<()> {
        self.reload_for(region)?;
        let sequence = self.sequence;
        let writes = &sequence.writes[region];
        let is_read = |b: BufferId| self.pins[b] > 0 || self.read_after(b) != NEVER;
        let wanted = writes.iter().copied().filter(|&b| !self.is_there[b] && is_read(b));
        let wanted: Vec<BufferId> = wanted.collect();
        let only = match (&sequence.fused.regions[region].kernel, &wanted[..]) {
            (Kernel::Map(_), [b]) if writes.len() > 1 => Some(*b),
            _ => None,
        };
        let made = only.as_ref().map_or(&writes[..], std::slice::from_ref);
        self.make_room(Some(region), made.iter().map(|&b| sequence.sizes[b]).sum())?;
        for b in wanted {
            self.is_there[b] = true;
            self.live += sequence.sizes[b];
        }
        self.has_run(region, only);
        Some(())
    }

    fn has_run(&mut self, region: RegionId, only: Option<BufferId>) {
        self.sequence.reads[region].iter().for_each(|&b| self.pins[b] -= 1);
        self.elapsed += self.sequence.times[region];
        self.runs.push(Run::Region { region, only });
    }

    /// Time until the region at a later position runs.
    fn until(&self, position: usize) -> u64 {
        let begins = &self.sequence.begins;
        begins.get(position).map_or(0, |begin| begin.saturating_sub(begins[self.now]))
    }

    /// Position of the first read of `b` after `now`.
    fn read_after(&self, b: BufferId) -> usize {
        let read_at = &self.sequence.read_at[b];
        read_at.get(read_at.partition_point(|&at| at <= self.now)).copied().unwrap_or(NEVER)
    }

    /// Whether `b` is gathered again after `now`, and before the region at a later position.
    fn is_gathered_until(&self, b: BufferId, position: usize) -> bool {
        let written = &self.sequence.written_at[b];
        written.len() > 1 && written.iter().any(|&at| self.now < at && at < position)
    }

    /// Computes [`State::next`], and drops values that are not needed any more, or not before they are gathered again.
    fn look_ahead(&mut self) {
        let sequence = self.sequence;
        for at in (0..=self.now).rev() {
            for &b in &sequence.writes[sequence.order[at]] {
                if !self.is_made[b] || sequence.written_at[b][0] < at {
                    continue;
                }
                let mut next = self.read_after(b);
                for &reader in &sequence.readers[b] {
                    let writes = &sequence.writes[reader];
                    let is_gone = |&&c: &&BufferId| {
                        self.is_made[c] && !self.is_there[c] && !self.is_on_host[c]
                    };
                    let wanted = writes.iter().filter(is_gone).map(|&c| self.next[c]);
                    next = next.min(wanted.min().unwrap_or(NEVER));
                }
                next = if self.is_gathered_until(b, next) { NEVER } else { next };
                self.next[b] = next;
                if next == NEVER && self.pins[b] == 0 && self.is_there[b] && self.is_in_arena(b) {
                    self.drop(b);
                }
            }
        }
    }

    fn drop(&mut self, b: BufferId) {
        self.is_there[b] = false;
        self.live -= self.sequence.sizes[b];
    }

    /// Bytes that may be live, without those that are left for lanes.
    fn most(&self) -> u64 {
        self.budget.saturating_sub(self.lanes.ahead * self.largest_on_lanes)
    }

    /// Drops values until there is room for `bytes` and the scratch memory of a region that is to run, if one is.
    fn make_room(&mut self, region: Option<RegionId>, bytes: u64) -> Option<()> {
        let wanted = bytes + region.map_or(0, |r| self.sequence.fused.regions[r].workspace);
        if self.live + wanted <= self.most() {
            return Some(());
        }
        self.look_ahead();
        let wanted = wanted - region.map_or(0, |r| self.taken_over(r)).min(wanted);
        while self.live + wanted > self.most() {
            match self.least()? {
                (b, Return::Reloaded) if !self.is_on_host[b] => self.offload(b),
                (b, _) => self.drop(b),
            }
            self.look_ahead();
        }
        Some(())
    }

    fn offload(&mut self, b: BufferId) {
        let bytes = self.sequence.sizes[b];
        self.sent = self.sent.max(self.made_at[b]) + self.sequence.transfers[b];
        self.is_on_host[b] = true;
        self.bytes_on_host += bytes;
        self.largest_on_lanes = self.largest_on_lanes.max(bytes);
        self.drop(b);
    }

    /// Bytes of results that overwrite operands which nobody reads afterwards.
    fn taken_over(&self, region: RegionId) -> u64 {
        let (fused, graph) = (self.sequence.fused, self.sequence.graph);
        let mut taken: Vec<BufferId> = Vec::new();
        let it = &fused.regions[region];
        for (k, &write) in it.writes.iter().enumerate().filter(|(_, b)| self.is_in_arena(**b)) {
            let result = fused.ty(graph, write);
            let gives = |&b: &BufferId| {
                let of = Source::Buffer(b);
                self.pins[b] == 1
                    && self.next[b] == NEVER
                    && self.is_in_arena(b)
                    && self.sequence.written_at[b].len() == 1
                    && !taken.contains(&b)
                    && it.may_overwrite(k, |read| read.source == of, fused.ty(graph, b), result)
            };
            let found = self.sequence.reads[region].iter().copied().find(gives);
            taken.extend(found);
        }
        taken.into_iter().map(|b| self.sequence.sizes[b]).sum()
    }

    /// The value that is best dropped.
    fn least(&mut self) -> Option<(BufferId, Return)> {
        let sequence = self.sequence;
        let returning = (self.lanes.host_bytes > 0).then(|| Returning::new(self));
        let mut best: Option<(f64, BufferId, Return)> = None;
        for b in 0..self.is_there.len() {
            let writer = sequence.liveness.writer[b];
            let bytes = sequence.liveness.bytes[b];
            if !self.is_there[b] || self.pins[b] > 0 || bytes == 0 {
                continue;
            }
            let taste = self.taste;
            let steps = self.next[b].saturating_sub(self.now).max(1);
            let cost = |time| taste.cost(time, bytes, steps);
            let mut most = best.as_ref().map_or(f64::INFINITY, |(cost, ..)| *cost);
            let returning = returning.as_ref().filter(|_| sequence.written_at[b].len() == 1);
            let on_host = returning.and_then(|it| self.time_on_host(b, it)).map(cost);
            if let Some(cost) = on_host.filter(|&cost| cost < most) {
                best = Some((cost, b, Return::Reloaded));
                most = cost;
            }
            // As if nothing else had to be recomputed.
            let is_worse = cost(sequence.times[writer]) >= most;
            if is_worse || !sequence.repeats[writer] || self.is_on_host[b] {
                continue;
            }
            let Some(again) = self.again(&[writer], CHAIN, self.next[b]) else { continue };
            let cost = cost(again.time);
            if cost < most && self.next[b] <= again.until {
                best = Some((cost, b, Return::Recomputed));
            }
        }
        best.map(|(_, b, how)| (b, how))
    }

    /// Time that it takes to have `b` on the host until it is read again; `None` if there is no room.
    fn time_on_host(&self, b: BufferId, returning: &Returning) -> Option<u64> {
        let (bytes, time) = (self.sequence.sizes[b], self.sequence.transfers[b]);
        // The copies take some of the speed of the device's memory, even if nobody waits for them.
        if self.is_on_host[b] {
            return Some(bytes + returning.wait(self, b));
        }
        let fits = self.bytes_on_host + bytes <= self.lanes.host_bytes;
        let sent = self.sent.max(self.made_at[b]) + time;
        let wait = sent.saturating_sub(self.elapsed) + returning.wait(self, b);
        fits.then_some(2 * bytes + wait)
    }

    /// The regions that have to run again before these can, right before the one at `position`, themselves included, in order; `None`
    /// if these are more than `most`, or one must run only once.
    fn again(&mut self, regions: &[RegionId], most: usize, position: usize) -> Option<Again> {
        let sequence = self.sequence;
        self.search += 1;
        let mut stack = regions.to_vec();
        let mut again = Again { regions: Vec::new(), time: 0, until: NEVER };
        while let Some(r) = stack.pop() {
            if std::mem::replace(&mut self.seen[r], self.search) == self.search {
                continue;
            }
            if !sequence.repeats[r] || again.regions.len() == most {
                return None;
            }
            again.regions.push(r);
            again.time += sequence.times[r];
            again.until = again.until.min(sequence.until[r]);
            let reloaded = sequence.reads[r].iter().filter(|&&b| !self.is_there[b]);
            let reloaded = reloaded.filter(|&&b| self.is_on_host[b]);
            again.time += reloaded.map(|&b| sequence.transfers[b]).sum::<u64>();
            let missing = self.missing(r).filter(|&b| !self.is_gathered_until(b, position));
            stack.extend(missing.map(|b| sequence.liveness.writer[b]));
        }
        again.regions.sort_by_key(|&r| sequence.liveness.at[r]);
        Some(again)
    }
}

/// The values that will be copied back from the host, in the order of their next reads.
struct Returning {
    /// The position of the read.
    next: Vec<usize>,
    /// Time that all copies before each one take; and that of all.
    before: Vec<u64>,
    /// How much longer all copies take, up to any that comes at this place or later, than there is time until its read.
    late: Vec<i64>,
}

impl Returning {
    fn new(state: &State) -> Returning {
        let waits = |&b: &BufferId| state.is_on_host[b] && !state.is_there[b];
        let waiting = (0..state.is_there.len()).filter(waits);
        let reads = waiting.map(|b| (state.read_after(b), state.sequence.transfers[b]));
        let mut reads: Vec<(usize, u64)> = reads.filter(|&(next, _)| next != NEVER).collect();
        reads.sort_unstable();
        let sums = reads.iter().scan(0, |sum, &(_, time)| {
            *sum += time;
            Some(*sum)
        });
        let before: Vec<u64> = std::iter::once(0).chain(sums).collect();
        let mut late = vec![i64::MIN / 2; reads.len() + 1];
        for (at, &(next, _)) in reads.iter().enumerate().rev() {
            late[at] = late[at + 1].max(before[at + 1] as i64 - state.until(next) as i64);
        }
        Returning { next: reads.into_iter().map(|(next, _)| next).collect(), before, late }
    }

    /// For how much longer the program waits for copies from the host if `b` is copied, too.
    fn wait(&self, state: &State, b: BufferId) -> u64 {
        let time = state.sequence.transfers[b];
        if state.lanes.ahead == 0 {
            return time;
        }
        let next = state.next[b];
        let at = self.next.partition_point(|&other| other <= next);
        let own = (self.before[at] + time) as i64 - state.until(next) as i64;
        let wait = own.max(self.late[at].saturating_add(time as i64)).max(0);
        (wait - self.late[at].max(0)) as u64
    }
}
