//! All-gathers of the same tensor by the same communicator: sharded parameters are gathered before the forward pass and again before
//! the backward pass. Where memory is short, what reads the first result may read the second one instead, if that is there.

use super::draft::{BufferId, Fused, Region};
use super::lanes;
use crate::graph::{Graph, Node};
use crate::op::collective::{self, Kind};

/// For every buffer, the first one with the same value: itself, but for results of such all-gathers.
pub(super) fn same_values(graph: &Graph, fused: &Fused) -> Vec<BufferId> {
    let mut same: Vec<BufferId> = (0..fused.buffers.len()).collect();
    let is_gather = |region: &Region| {
        region.kernel.collective() == Some(Kind::AllGather) && fused.is_in_arena(region.writes[0])
    };
    if !fused.regions.iter().any(is_gather) {
        return same;
    }
    let mut regions: Vec<&Region> = fused.regions.iter().collect();
    regions.sort_by_key(|region| region.anchor);
    let lanes = lanes::lanes(graph, fused, &regions);
    let mut seen: Vec<(&Node, _, BufferId)> = Vec::new();
    for (region, lane) in regions.iter().zip(lanes).filter(|(region, _)| is_gather(region)) {
        let (node, gathered) = (graph.node(region.anchor), region.writes[0]);
        let is_same = |(other, on, _): &&(&Node, _, _)| *on == lane && gathers_same(other, node);
        match seen.iter().find(is_same) {
            Some((_, _, first)) => same[gathered] = *first,
            None if lane.is_some() => seen.push((node, lane, gathered)),
            None => {}
        }
    }
    same
}

/// Whether two all-gathers of one communicator gather the same.
fn gathers_same(a: &Node, b: &Node) -> bool {
    let given =
        |node: &Node| node.inputs.get(collective::operands(Kind::AllGather).given?).copied();
    a.attrs == b.attrs && given(a) == given(b)
}
