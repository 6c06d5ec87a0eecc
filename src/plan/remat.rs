//! Recomputing instead of keeping: a result that is kept across the peak of memory, although the operands of which it is
//! cheaply made are kept as well, is made a second time for the readers after it.

use super::cost::region_time;
use super::decisions::{Choice, PlanDecisions};
use super::draft::{BufferId, Fused, Read, Region, Source};
use super::order::{self, Liveness};
use super::partial::only;
use crate::graph::Graph;

/// Maximum time spent on recomputation, as a part of that of the whole program.
const MOST_TIME: f64 = 0.03;
/// Minimum memory that a copy must save, as a part of the peak.
const LEAST_SAVED: f64 = 0.004;
/// Maximum number of copies that are tried without saving anything.
const MISSES: usize = 8;

/// Adds kernels that recompute results, as long as each lowers the peak of the order that [`order::order`] finds.
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

/// The copy that recomputes buffer `b` after the peak from values that are kept across it as well.
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
