//! The order of regions: that of the program, or one whose memory peaks low; whichever peaks lower.
//!
//! **Invariant:** the result is a topological order of reads and writes, and everything that reads an input runs before
//! the region that may overwrite it, unless a dependence forbids that.

mod alike;
mod late;
mod schedule;

pub(super) use schedule::{Attempts, Scheduled};

use super::draft::{Fused, Region, RegionId, Source};
use super::lanes::{self, Landings};
use crate::graph::Graph;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which regions must run before which, and which memory they touch.
struct Flow {
    users: Vec<Vec<RegionId>>,
    n_before: Vec<u32>,
    /// Buffers in the arena that each region reads, without repetition.
    reads: Vec<Vec<usize>>,
    writes: Vec<Vec<usize>>,
    readers: Vec<Vec<RegionId>>,
    /// Arena bytes; 0 for memory outside of it.
    bytes: Vec<u64>,
}

/// Orders the regions of `fused`. `donors` are the offers: the memory of an input to an output.
pub(super) fn order(graph: &Graph, fused: &Fused, donors: &[Option<u32>]) -> Vec<RegionId> {
    let flow = strict_flow(graph, fused, donors);
    let plain = program_order(fused, &flow);
    let frugal = frugal_order(fused, &flow);
    let chosen =
        if peak(fused, &flow, &frugal) < peak(fused, &flow, &plain) { frugal } else { plain };
    late::late(fused, &flow, donors, chosen)
}

/// Both orders that [`order`] chooses from.
pub(super) fn orders(graph: &Graph, fused: &Fused, donors: &[Option<u32>]) -> [Vec<RegionId>; 2] {
    let flow = strict_flow(graph, fused, donors);
    [program_order(fused, &flow), frugal_order(fused, &flow)]
        .map(|order| late::late(fused, &flow, donors, order))
}

/// `order` for a backend that runs similar regions together: these are adjacent where that costs no memory, and where nothing
/// on a lane starts or lands between them.
pub(super) fn gathered(
    graph: &Graph,
    fused: &Fused,
    donors: &[Option<u32>],
    order: &[RegionId],
    landings: Option<&Landings>,
) -> Vec<RegionId> {
    let mut stays = vec![false; order.len()];
    let flow = match landings {
        None => strict_flow(graph, fused, donors),
        Some(Landings(landings)) => {
            let regions: Vec<&Region> = fused.regions.iter().collect();
            let lanes = lanes::lanes(graph, fused, &regions);
            stays = lanes.iter().map(Option::is_some).collect();
            landings.iter().for_each(|&(_, next)| stays[next] = true);
            flow_for_lanes(graph, fused, donors, order)
        }
    };
    alike::gathered(fused, &flow, order, &stays)
}

/// An order for a backend with lanes, and when the regions there are done: they start early and their users run late. That may take
/// `beyond` bytes more than the peak of `order`, though never many.
pub(super) fn scheduled(
    graph: &Graph,
    fused: &Fused,
    donors: &[Option<u32>],
    order: Vec<RegionId>,
    beyond: u64,
    attempts: Attempts,
) -> Scheduled {
    let plain = program_order(fused, &strict_flow(graph, fused, donors));
    let flow = flow_for_lanes(graph, fused, donors, &order);
    schedule::scheduled(graph, fused, &flow, donors, [order, plain], beyond, attempts)
}

/// All that an order without lanes has to keep.
fn strict_flow(graph: &Graph, fused: &Fused, donors: &[Option<u32>]) -> Flow {
    let mut flow = flow(graph, fused);
    wait_for_readers(fused, donors, &mut flow);
    flow
}

/// Where collectives of several lanes may pass one another: less than [`strict_flow`], so that its orders are orders of this, too.
fn flow_for_lanes(
    graph: &Graph,
    fused: &Fused,
    donors: &[Option<u32>],
    order: &[RegionId],
) -> Flow {
    let waits = wait_for_readers(fused, donors, &mut flow(graph, fused));
    let mut flow = flow_of_values(graph, fused);
    schedule::keep_effects(graph, fused, order, &mut flow);
    waits.into_iter().for_each(|(reader, writer)| flow.before(reader, writer));
    flow
}

fn flow(graph: &Graph, fused: &Fused) -> Flow {
    let mut flow = flow_of_values(graph, fused);
    for (r, region) in fused.regions.iter().enumerate() {
        region.after.iter().for_each(|&a| flow.before(a, r));
    }
    flow
}

/// The flow without the dependences that regions have for effects alone ([`Region::after`](super::draft::Region::after)).
fn flow_of_values(graph: &Graph, fused: &Fused) -> Flow {
    let n = fused.regions.len();
    let mut flow = Flow {
        users: vec![Vec::new(); n],
        n_before: vec![0; n],
        reads: vec![Vec::new(); n],
        writes: fused.regions.iter().map(|r| r.writes.clone()).collect(),
        readers: vec![Vec::new(); fused.buffers.len()],
        bytes: (0..fused.buffers.len()).map(|b| fused.arena_bytes(graph, b)).collect(),
    };
    let writers = fused.writers();
    for (r, region) in fused.regions.iter().enumerate() {
        for read in &region.reads {
            if let Source::Buffer(b) = read.source
                && !flow.reads[r].contains(&b)
            {
                flow.reads[r].push(b);
                flow.readers[b].push(r);
                flow.before(writers[b], r);
            }
        }
    }
    flow
}

impl Flow {
    fn before(&mut self, first: RegionId, second: RegionId) {
        if !self.users[first].contains(&second) {
            self.users[first].push(second);
            self.n_before[second] += 1;
        }
    }

    /// All regions that have to wait for `from`, itself included.
    fn reach(&self, from: RegionId) -> Vec<bool> {
        let mut seen = vec![false; self.users.len()];
        let mut stack = vec![from];
        while let Some(r) = stack.pop() {
            if !std::mem::replace(&mut seen[r], true) {
                stack.extend(&self.users[r]);
            }
        }
        seen
    }
}

/// Makes the writer of an output wait for all other readers of the input it may overwrite, where that is possible. Returns all such
/// readers, with the writer.
fn wait_for_readers(
    fused: &Fused,
    donors: &[Option<u32>],
    flow: &mut Flow,
) -> Vec<(RegionId, RegionId)> {
    let mut waits = Vec::new();
    let inputs = donors.iter().flatten().max().map_or(0, |&i| i as usize + 1);
    let mut readers = vec![Vec::new(); inputs];
    for (r, region) in fused.regions.iter().enumerate() {
        for read in &region.reads {
            if let Source::Input(i) = read.source
                && (i as usize) < inputs
                && readers[i as usize].last() != Some(&r)
            {
                readers[i as usize].push(r);
            }
        }
    }
    let writers = fused.writers();
    for (b, buffer) in fused.buffers.iter().enumerate() {
        let donor = buffer.output.and_then(|k| donors[k as usize]);
        let Some(donor) = donor else { continue };
        let writer = writers[b];
        let others: Vec<RegionId> =
            readers[donor as usize].iter().copied().filter(|&r| r != writer).collect();
        let after = if others.is_empty() { Vec::new() } else { flow.reach(writer) };
        if !others.iter().any(|&r| after[r]) {
            others.iter().for_each(|&r| flow.before(r, writer));
            waits.extend(others.into_iter().map(|r| (r, writer)));
        }
    }
    waits
}

/// As near to the order of the program as dependences allow.
fn program_order(fused: &Fused, flow: &Flow) -> Vec<RegionId> {
    let mut waiting = flow.n_before.clone();
    let rank = |r: RegionId| Reverse((fused.regions[r].anchor, r));
    let mut ready: BinaryHeap<_> =
        (0..waiting.len()).filter(|&r| waiting[r] == 0).map(rank).collect();
    let mut order = Vec::with_capacity(waiting.len());
    while let Some(Reverse((_, r))) = ready.pop() {
        order.push(r);
        for &u in &flow.users[r] {
            waiting[u] -= 1;
            if waiting[u] == 0 {
                ready.push(rank(u));
            }
        }
    }
    order
}

/// Of the ready regions, the one after which least is live; but first those that do not raise the peak.
fn frugal_order(fused: &Fused, flow: &Flow) -> Vec<RegionId> {
    let n = fused.regions.len();
    let mut waiting = flow.n_before.clone();
    let mut uses: Vec<usize> = flow.readers.iter().map(Vec::len).collect();
    let takes: Vec<u64> =
        flow.writes.iter().map(|w| w.iter().map(|&b| flow.bytes[b]).sum()).collect();
    // Bytes that running a region frees: results nobody reads, and operands of which it is the last reader.
    let dead = |w: &Vec<usize>| w.iter().filter(|&&b| uses[b] == 0).map(|&b| flow.bytes[b]).sum();
    let mut gives: Vec<u64> = flow.writes.iter().map(dead).collect();
    for (b, readers) in flow.readers.iter().enumerate() {
        if let [only] = readers[..] {
            gives[only] += flow.bytes[b];
        }
    }
    let mut done = vec![false; n];
    let mut ready: Vec<RegionId> = (0..n).filter(|&r| waiting[r] == 0).collect();
    let (mut live, mut peak) = (0u64, 0u64);
    let mut order = Vec::with_capacity(n);
    while !ready.is_empty() {
        let cost = |&r: &RegionId| {
            let during = live + takes[r] + fused.regions[r].workspace;
            let after = live + takes[r] - gives[r];
            let key = if during <= peak { (0, after) } else { (1, during) };
            (key, fused.regions[r].anchor, r)
        };
        let (at, &r) = ready.iter().enumerate().min_by_key(|(_, r)| cost(r)).expect("not empty");
        ready.swap_remove(at);
        peak = peak.max(live + takes[r] + fused.regions[r].workspace);
        live = live + takes[r] - gives[r];
        done[r] = true;
        order.push(r);
        for &b in &flow.reads[r] {
            uses[b] -= 1;
            if uses[b] == 1
                && let Some(&last) = flow.readers[b].iter().find(|&&x| !done[x])
            {
                gives[last] += flow.bytes[b];
            }
        }
        for &u in &flow.users[r] {
            waiting[u] -= 1;
            if waiting[u] == 0 {
                ready.push(u);
            }
        }
    }
    order
}

/// Maximum number of arena bytes live at once.
fn peak(fused: &Fused, flow: &Flow, order: &[RegionId]) -> u64 {
    let mut peak = 0;
    live_bytes(fused, flow, order, |_, live| peak = peak.max(live));
    peak
}

/// Calls `note` at every position with the arena bytes that are live there.
fn live_bytes(fused: &Fused, flow: &Flow, order: &[RegionId], mut note: impl FnMut(usize, u64)) {
    let mut uses: Vec<usize> = flow.readers.iter().map(Vec::len).collect();
    let mut live = 0u64;
    for (position, &r) in order.iter().enumerate() {
        live += flow.writes[r].iter().map(|&b| flow.bytes[b]).sum::<u64>();
        note(position, live + fused.regions[r].workspace);
        flow.reads[r].iter().for_each(|&b| uses[b] -= 1);
        let touched = flow.reads[r].iter().chain(&flow.writes[r]);
        live -= touched.filter(|&&b| uses[b] == 0).map(|&b| flow.bytes[b]).sum::<u64>();
    }
}

/// The lifetime of each buffer in an order.
pub(super) struct Liveness {
    /// Position of each region.
    pub at: Vec<usize>,
    pub writer: Vec<RegionId>,
    pub readers: Vec<Vec<RegionId>>,
    /// Position of the last reader of each buffer, or of its writer.
    pub last: Vec<usize>,
    /// Arena bytes of each buffer; 0 for memory outside of it.
    pub bytes: Vec<u64>,
    /// Maximum number of arena bytes live at once, and the first position with that many.
    pub peak: u64,
    pub peak_at: usize,
}

impl Liveness {
    pub fn new(graph: &Graph, fused: &Fused, order: &[RegionId]) -> Liveness {
        let flow = flow(graph, fused);
        let mut at = vec![usize::MAX; order.len()];
        order.iter().enumerate().for_each(|(i, &r)| at[r] = i);
        let writer = fused.writers();
        let end = |b: usize| {
            let readers = flow.readers[b].iter().map(|&r| at[r]);
            readers.max().unwrap_or(at[writer[b]])
        };
        let last = (0..fused.buffers.len()).map(end).collect();
        let (mut peak, mut peak_at) = (0, 0);
        live_bytes(fused, &flow, order, |position, live| {
            if live > peak {
                (peak, peak_at) = (live, position);
            }
        });
        Liveness { at, writer, readers: flow.readers, last, bytes: flow.bytes, peak, peak_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fuse::fuse;
    use crate::plan::training::training_step;

    #[test]
    fn both_orders_are_topological_and_the_lower_peak_wins() {
        let (graph, donors) = training_step(3, 2, 8, 16, 32);
        let fused = fuse(&graph, &donors, None, &|_| true).0;
        let flow = strict_flow(&graph, &fused, &donors);
        let orders = [program_order(&fused, &flow), frugal_order(&fused, &flow)];
        for order in &orders {
            let mut at = vec![usize::MAX; order.len()];
            order.iter().enumerate().for_each(|(i, &r)| at[r] = i);
            for (r, users) in flow.users.iter().enumerate() {
                assert!(users.iter().all(|&u| at[r] < at[u]));
            }
        }
        let chosen = peak(&fused, &flow, &super::order(&graph, &fused, &donors));
        assert_eq!(chosen, orders.iter().map(|o| peak(&fused, &flow, o)).min().unwrap());
    }
}
