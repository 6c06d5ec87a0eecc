//! All-gathers that give the same: sharded parameters are gathered before the forward pass and again before the backward pass. Where
//! memory is short, what reads the first result may read the second one instead, if that is there.
//!
//! **Invariant:** only those that are said to be the same. A rank that gives the same tensor twice cannot know what others give.

use super::draft::{BufferId, Fused, Region};
use super::lanes::{self, LaneId, Token};
use crate::graph::{Graph, ValueId};
use crate::op::collective::{self, Kind, gathered};

/// The gathers of one tensor of parameters by one communicator, in their order.
struct Gathers {
    lane: LaneId<Token>,
    given: ValueId,
    /// What each gathers, and its result.
    all: Vec<(i64, BufferId)>,
}

/// For every buffer, the first one with the same value: itself, but for results of parameters that are gathered again. Where
/// a tensor is gathered twice in a row for the first time, nothing tells which one comes again: it may stand for two parameters.
pub(super) fn same_values(graph: &Graph, fused: &Fused) -> Vec<BufferId> {
    let mut same: Vec<BufferId> = (0..fused.buffers.len()).collect();
    let again = [gathered::PARAMETERS, gathered::PARAMETERS_AGAIN];
    for Gathers { all, .. } in of_parameters(graph, fused) {
        let is_again =
            |pair: &[(i64, BufferId)]| pair.iter().map(|(what, _)| what).eq(&again[..pair.len()]);
        if all.chunks(2).all(is_again) {
            for pair in all.chunks_exact(2) {
                let [(_, first), (_, second)] = [pair[0], pair[1]];
                if fused.is_in_arena(first) && fused.is_in_arena(second) {
                    same[second] = first;
                }
            }
        }
    }
    same
}

fn of_parameters(graph: &Graph, fused: &Fused) -> Vec<Gathers> {
    let what = |region: &Region| {
        let node = graph.node(region.anchor);
        let (kind, numbers) = collective::of(&node.attrs)?;
        let what = *numbers.first().filter(|&&what| what != gathered::ANYTHING)?;
        let given = *node.inputs.get(collective::operands(kind).given?)?;
        (kind == Kind::AllGather && region.kernel.collective() == Some(kind))
            .then_some((given, what))
    };
    let mut found: Vec<Gathers> = Vec::new();
    if !fused.regions.iter().any(|region| what(region).is_some()) {
        return found;
    }
    let mut regions: Vec<&Region> = fused.regions.iter().collect();
    regions.sort_by_key(|region| region.anchor);
    for (region, lane) in regions.iter().zip(lanes::lanes(graph, fused, &regions)) {
        let (Some((given, what)), Some(lane)) = (what(region), lane) else { continue };
        let one = (what, region.writes[0]);
        match found.iter_mut().find(|of| of.lane == lane && of.given == given) {
            Some(of) => of.all.push(one),
            None => found.push(Gathers { lane, given, all: vec![one] }),
        }
    }
    found
}
