//! Computing again instead of keeping: a result that waits over the moment of highest memory, although what it is cheaply
//! made of waits as well, is made a second time for those who read it after.

use super::budget::{Cost, Limited};
use super::cost::region_time;
use super::draft::{Buffer, BufferId, Fused, Read, Region, RegionId, Source};
use super::lanes::Landings;
use super::order::{self, Liveness};
use super::{Kernel, LoopBody, Reg};
use crate::graph::Graph;
use crate::shape::Layout;

/// Most time spent on computing again, as a part of that of the whole program.
const MOST_TIME: f64 = 0.03;
/// What memory a copy must save at least, as a part of the peak.
const LEAST_SAVED: f64 = 0.004;
/// How many copies that save nothing may be looked at.
const MISSES: usize = 8;

/// What was decided by memory and time: where values are computed, which are computed again and for whom, and the order of
/// everything. Holds for other sizes of the same program, as long as they give the same regions.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanDecisions {
    /// Of [`super::fuse`].
    pub(super) absorbed: Vec<bool>,
    /// Before anything was added.
    regions: usize,
    buffers: usize,
    copies: Vec<Choice>,
    pub(super) limited: Option<Limited>,
    pub(super) order: Vec<RegionId>,
    /// With lanes, when what is on them is done.
    pub(super) landings: Option<Landings>,
}

#[derive(Clone, Debug, PartialEq)]
struct Choice {
    of: BufferId,
    readers: Vec<RegionId>,
    /// The one of the readers that runs first.
    first: RegionId,
}

impl PlanDecisions {
    /// The same regions, of which so much runs, in order.
    pub(super) fn limited(self, limited: Limited, order: Vec<RegionId>) -> PlanDecisions {
        PlanDecisions { copies: Vec::new(), limited: Some(limited), order, ..self }
    }

    /// What a limit of memory cost, if it cost something.
    pub fn cost(&self) -> Option<Cost> {
        self.limited.as_ref().map(|limited| limited.cost)
    }

    /// The regions with the additions of the guide; `None` if they are not those of the guide.
    pub(super) fn applied(&self, mut fused: Fused) -> Option<Fused> {
        if (fused.regions.len(), fused.buffers.len()) != (self.regions, self.buffers) {
            return None;
        }
        for choice in &self.copies {
            let writer = &fused.regions[fused.writers()[choice.of]];
            let region = only(&fused, writer, choice.of)?;
            fused = choice.applied(region, &fused);
        }
        match &self.limited {
            Some(limited) => limited.runs.applied(&fused),
            None => Some(fused),
        }
    }
}

/// Adds kernels that compute again, as long as each lowers the peak of the order that [`order::order`] finds.
pub(super) fn remat(
    graph: &Graph,
    (mut fused, absorbed): (Fused, Vec<bool>),
    donors: &[Option<u32>],
) -> (Fused, PlanDecisions) {
    let (regions, buffers, mut copies) = (fused.regions.len(), fused.buffers.len(), Vec::new());
    let mut order = order::order(graph, &fused, donors);
    let all: u64 = fused.regions.iter().map(|r| region_time(graph, &fused, r)).sum();
    let mut left = (all as f64 * MOST_TIME) as u64;
    let mut missed: Vec<BufferId> = Vec::new();
    while missed.len() < MISSES {
        let liveness = Liveness::new(graph, &fused, &order);
        // At least one byte, or copies that save nothing would never end.
        let least = ((liveness.peak as f64 * LEAST_SAVED) as u64).max(1);
        let candidates =
            (0..fused.buffers.len()).filter(|&b| liveness.bytes[b] > least && !missed.contains(&b));
        let best = candidates
            .filter_map(|b| again(graph, &fused, &liveness, b))
            .filter(|copy| copy.time <= left)
            .max_by_key(|copy| (liveness.bytes[copy.choice.of], std::cmp::Reverse(copy.choice.of)));
        let Some(copy) = best else { break };
        let more = copy.choice.applied(copy.region, &fused);
        let new_order = order::order(graph, &more, donors);
        let peak = Liveness::new(graph, &more, &new_order).peak;
        if peak + least > liveness.peak {
            missed.push(copy.choice.of);
            continue;
        }
        left -= copy.time;
        (fused, order) = (more, new_order);
        copies.push(copy.choice);
    }
    let landings = None;
    (fused, PlanDecisions { absorbed, regions, buffers, copies, limited: None, order, landings })
}

/// Adds nothing.
pub(super) fn keep(
    graph: &Graph,
    (fused, absorbed): (Fused, Vec<bool>),
    donors: &[Option<u32>],
) -> (Fused, PlanDecisions) {
    let order = order::order(graph, &fused, donors);
    let (regions, buffers) = (fused.regions.len(), fused.buffers.len());
    let copies = Vec::new();
    let landings = None;
    (fused, PlanDecisions { absorbed, regions, buffers, copies, limited: None, order, landings })
}

/// A region to be added.
struct Copy {
    choice: Choice,
    region: Region,
    time: u64,
}

/// How buffer `b` can be computed again after the peak of what is kept over it as well.
fn again(graph: &Graph, fused: &Fused, liveness: &Liveness, b: BufferId) -> Option<Copy> {
    let (writer, peak) = (liveness.writer[b], liveness.peak_at);
    let written = liveness.at[writer];
    if fused.buffers[b].output.is_some() || written >= peak {
        return None;
    }
    let mut readers = liveness.readers[b].clone();
    if readers.iter().any(|&r| liveness.at[r] == peak) {
        return None;
    }
    readers.retain(|&r| liveness.at[r] > peak);
    let first = *readers.iter().min_by_key(|&&r| liveness.at[r])?;
    let region = only(fused, &fused.regions[writer], b)?;
    let stays = |read: &Read| match read.source {
        Source::Buffer(x) => liveness.last[x] > peak,
        Source::Input(_) | Source::Scalar(_) | Source::Index => true,
    };
    if !region.reads.iter().all(stays) {
        return None;
    }
    let time = region_time(graph, fused, &region);
    Some(Copy { choice: Choice { of: b, readers, first }, region, time })
}

/// The part of a cheap region that writes `b`, or `None` for one that is not cheap.
pub(super) fn only(fused: &Fused, region: &Region, b: BufferId) -> Option<Region> {
    let whole = match &region.kernel {
        Kernel::Map(body) | Kernel::Fused { body, .. } => body,
        Kernel::Node { op, .. } => return op.row().repeatable.then(|| region.clone()),
        Kernel::Reduce { .. } => return None,
    };
    let k = region.writes.iter().position(|&w| w == b)?;
    let (body, kept) = pruned(whole, *whole.results.get(k)?);
    let before = region.reads.len() - whole.reads.len();
    let read = |&r: &usize| region.reads[before + r].clone();
    let part = |kernel, reads, writes| Some(Region { kernel, reads, writes, ..region.clone() });
    match &region.kernel {
        Kernel::Fused { op, attrs, .. } if kept.first() == Some(&0) => {
            let others = kept[1..].iter().map(read);
            if let Some(result) = stored_result(fused, region, whole, b) {
                let reads = std::iter::once(result).chain(others).collect();
                return part(Kernel::Map(body), reads, vec![b]);
            }
            let reads = region.reads[..=before].iter().cloned().chain(others).collect();
            let writes = [&[b], &region.writes[whole.results.len()..]].concat();
            let kernel = Kernel::Fused { op: *op, attrs: attrs.clone(), body };
            if op.row().repeatable { part(kernel, reads, writes) } else { None }
        }
        _ => part(Kernel::Map(body), kept.iter().map(read).collect(), vec![b]),
    }
}

/// The result of the node of a fused region as a read from memory, where the region stores it other than in `b`.
fn stored_result(fused: &Fused, region: &Region, body: &LoopBody, b: BufferId) -> Option<Read> {
    let mut stored = region.writes.iter().zip(&body.results);
    let (&at, _) = stored.find(|&(&w, &reg)| reg == 0 && w != b)?;
    Some(Read {
        source: Source::Buffer(at),
        value: fused.buffers[at].value,
        dtype: body.reads[0],
        layout: Layout::contiguous(&body.sizes),
    })
}

/// The loop body that computes one register only, and which reads that leaves.
fn pruned(body: &LoopBody, result: Reg) -> (LoopBody, Vec<usize>) {
    let reads = body.reads.len();
    let mut needed = vec![false; reads + body.instrs.len()];
    needed[result as usize] = true;
    for (n, instr) in body.instrs.iter().enumerate().rev() {
        if needed[reads + n] {
            instr.args.iter().for_each(|&a| needed[a as usize] = true);
        }
    }
    let kept: Vec<usize> = (0..reads).filter(|&r| needed[r]).collect();
    let mut number = vec![Reg::MAX; needed.len()];
    (0..needed.len()).filter(|&r| needed[r]).enumerate().for_each(|(n, r)| number[r] = n as Reg);
    let instrs = body.instrs.iter().enumerate().filter(|(n, _)| needed[reads + n]);
    let instrs = instrs.map(|(_, instr)| {
        let mut instr = instr.clone();
        instr.args.iter_mut().for_each(|a| *a = number[*a as usize]);
        instr
    });
    let body = LoopBody {
        sizes: body.sizes.clone(),
        reads: kept.iter().map(|&r| body.reads[r]).collect(),
        instrs: instrs.collect(),
        results: vec![number[result as usize]],
    };
    (body, kept)
}

impl Choice {
    /// `fused` with the region, which writes buffers of its own, and is read instead.
    fn applied(&self, mut region: Region, fused: &Fused) -> Fused {
        let mut fused = Fused { regions: fused.regions.clone(), buffers: fused.buffers.clone() };
        region.anchor = fused.regions[self.first].anchor;
        for write in &mut region.writes {
            let value = fused.buffers[*write].value;
            fused.buffers.push(Buffer { value, output: None });
            let new = fused.buffers.len() - 1;
            if *write == self.of {
                for &reader in &self.readers {
                    let reads = &mut fused.regions[reader].reads;
                    let old = Source::Buffer(self.of);
                    reads
                        .iter_mut()
                        .filter(|r| r.source == old)
                        .for_each(|r| r.source = Source::Buffer(new));
                }
            }
            *write = new;
        }
        fused.regions.push(region);
        fused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType::F32;
    use crate::op::Op;
    use crate::plan::fuse::fuse;
    use crate::plan::training::{Make, training_step};

    #[test]
    fn a_training_step_keeps_less() {
        let (graph, donors) = training_step(6, 2, 32, 64, 128);
        let (before, absorbed) = fuse(&graph, &donors, None, &|_| true);
        let order = order::order(&graph, &before, &donors);
        let peak = Liveness::new(&graph, &before, &order).peak;
        let total = |fused: &Fused| -> u64 {
            fused.regions.iter().map(|r| region_time(&graph, fused, r)).sum()
        };
        let work = total(&before);
        let (after, decisions) = remat(&graph, (before, absorbed), &donors);
        let lower = Liveness::new(&graph, &after, &decisions.order).peak;
        assert!(lower < peak - peak / 8, "{peak} bytes became {lower}");
        assert!(total(&after) as f64 <= work as f64 * (1.0 + MOST_TIME));
    }

    /// An activation that is read first, and what it is made of last: that waits a little longer instead.
    #[test]
    fn what_it_is_made_of_may_have_to_wait_a_little_longer() {
        let mut m = Make::default();
        let x = m.input(0, F32, &[2048, 2048]);
        let weights: Vec<_> = (1..9).map(|n| m.input(n, F32, &[2048, 2048])).collect();
        let mut kept = Vec::new();
        let mut h = x;
        for &w in &weights {
            let before = m.matmul(h, w);
            h = m.unary(Op::Tanh, before);
            kept.push((before, h));
        }
        // Read backwards, each twice: the activation by one product, then what it is made of by the next.
        let mut sums = Vec::new();
        for (before, after) in kept.into_iter().rev() {
            let turned = m.transpose(after, &[1, 0]);
            sums.push(m.matmul(turned, h));
            h = m.matmul(h, before);
        }
        sums.push(h);
        let graph = m.0.finish(sums);
        let donors = vec![None; graph.outputs.len()];
        let (before, absorbed) = fuse(&graph, &donors, None, &|_| true);
        let order = order::order(&graph, &before, &donors);
        let peak = Liveness::new(&graph, &before, &order).peak;
        let (after, decisions) = remat(&graph, (before, absorbed), &donors);
        let lower = Liveness::new(&graph, &after, &decisions.order).peak;
        assert!(lower < peak - peak / 4, "{peak} bytes became {lower}");
    }
}
