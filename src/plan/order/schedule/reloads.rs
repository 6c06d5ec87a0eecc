//! Reloads start so early that they are done when they are needed, as far as there is memory.

use super::Work;
use crate::plan::draft::RegionId;
use crate::plan::lanes::LaneId;

/// `order`, in which copies from the host's memory start as late as they may if nobody is to wait for them, one after the other on
/// their lane; later where more than `limit` bytes would be live, or what they copy is still on its way to the host.
pub(super) fn ahead(work: &Work, order: Vec<RegionId>, limit: u64) -> Vec<RegionId> {
    let is_reload = |r: RegionId| work.lanes[r] == Some(LaneId::FromHost);
    if !order.iter().any(|&r| is_reload(r)) {
        return order;
    }
    let mut position = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &r)| position[r] = at);
    // When each region begins, and each offload ends, if nobody waits.
    let (mut begins, mut on_host) = (vec![0; order.len()], vec![0; order.len()]);
    let (mut now, mut sent) = (0, 0);
    for (at, &r) in order.iter().enumerate() {
        begins[at] = now;
        match work.lanes[r] {
            None => now += work.times[r],
            Some(LaneId::ToHost) => {
                sent = now.max(sent) + work.times[r];
                on_host[r] = sent;
            }
            Some(_) => {}
        }
    }
    let mut live = work.live_bytes(&order);
    let mut starts: Vec<(usize, bool)> = (0..order.len()).map(|at| (at, true)).collect();
    let mut next_begins = u64::MAX;
    for (at, &r) in order.iter().enumerate().rev().filter(|(_, r)| is_reload(**r)) {
        let users = work.flow.users[r].iter().map(|&user| begins[position[user]]);
        let end = users.min().unwrap_or(now).min(next_begins);
        let wanted = end.saturating_sub(work.times[r]);
        let first = work.before[r].iter().map(|&b| position[b] + 1).max().unwrap_or(0);
        let is_there = work.before[r].iter().map(|&b| on_host[b]).max().unwrap_or(0);
        let bytes: u64 = work.flow.writes[r].iter().map(|&b| work.flow.bytes[b]).sum();
        let mut start = at;
        while start > first
            && begins[start] > wanted
            && begins[start - 1] >= is_there
            && live[start - 1] + bytes <= limit
        {
            start -= 1;
            live[start] += bytes;
        }
        next_begins = begins[start];
        starts[at] = (start, start == at);
    }
    let mut at: Vec<usize> = (0..order.len()).collect();
    at.sort_by_key(|&at| starts[at]);
    at.into_iter().map(|at| order[at]).collect()
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType::F32;
    use crate::op::Op;
    use crate::plan::lanes::LaneId;
    use crate::plan::tests::{NoWorkspace, WithLanes, plan_for};
    use crate::plan::training::Make;
    use smallvec::smallvec;

    const LAYERS: usize = 6;

    /// Products forward, whose results wait on the host, and two products backward for each.
    fn offloading() -> crate::graph::Graph {
        let mut m = Make::default();
        let mut h = m.input(0, F32, &[2048, 2048]);
        let w = m.input(1, F32, &[2048, 2048]);
        let mut there = Vec::new();
        for _ in 0..LAYERS {
            h = m.matmul(h, w);
            there.push(m.ops(Op::Offload, &[h], smallvec![])[0]);
            h = m.unary(Op::Tanh, h);
        }
        for x in there.into_iter().rev() {
            let before = m.matmul(h, w);
            let x = m.ops(Op::Reload, &[x], smallvec![])[0];
            h = m.matmul(before, x);
        }
        m.0.finish(vec![h])
    }

    #[test]
    fn copies_run_beside_what_is_computed() {
        let graph = offloading();
        let plan = plan_for(&WithLanes, &graph, &[None]);
        let plain = plan_for(&NoWorkspace, &graph, &[None]);
        let products = |from: usize, until: u32| {
            let steps = plan.steps[from..until as usize].iter();
            steps
                .filter(|step| step.kernel.body().is_none_or(|body| !body.instrs.is_empty()))
                .count()
        };
        let on_lanes = plan
            .lanes()
            .into_iter()
            .enumerate()
            .filter_map(|(at, lane)| Some((lane?, products(at, plan.steps[at].done?))));
        let (to_host, from_host): (Vec<_>, Vec<_>) =
            on_lanes.partition(|(lane, _)| *lane == LaneId::ToHost);
        for copies in [&to_host, &from_host] {
            let hidden = copies.iter().filter(|(_, beside)| *beside > 0).count();
            assert!(copies.len() >= LAYERS - 1 && hidden >= LAYERS - 1, "{copies:?}\n{plan}");
        }
        // One more tensor on its way each way.
        let tensor = 2048 * 2048 * 4;
        assert!(plan.arena_bytes <= plain.arena_bytes + 2 * tensor, "{plan}\n{plain}");
    }
}
