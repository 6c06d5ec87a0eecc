//! Which steps are collectives, and how long one may go on beside the steps that come after it.

use super::draft::{BufferId, Fused, Region, RegionId, Source};
use super::{Kernel, MemRef, Plan, Step};
use crate::graph::ValueId;
use crate::op::Op;
use crate::op::collective::{self, Kind};
use std::collections::HashMap;

impl Kernel {
    pub fn collective(&self) -> Option<Kind> {
        match self {
            Kernel::Node { op: Op::Host, attrs } => Some(collective::of(attrs)?.0),
            _ => None,
        }
    }
}

impl Step {
    /// The communicator of a collective, by its number.
    pub fn communicator(&self, scalars: &[u64]) -> Option<u64> {
        let operands = collective::operands(self.kernel.collective()?);
        match self.reads.get(operands.communicator)?.mem {
            MemRef::Scalar(slot) => scalars.get(slot as usize).copied(),
            _ => None,
        }
    }
}

impl Plan {
    /// The lane of every step that is a collective: the token with which the first of those it follows begins.
    pub fn lanes(&self) -> Vec<Option<ValueId>> {
        let mut lane_of: HashMap<ValueId, ValueId> = HashMap::new();
        let lane = |step: &Step| {
            let token = collective::operands(step.kernel.collective()?).token;
            let token = step.reads_of.get(token)?;
            let lane = lane_of.get(token).copied().unwrap_or(*token);
            lane_of.extend(step.results_of.iter().map(|&result| (result, lane)));
            Some(lane)
        };
        self.steps.iter().map(lane).collect()
    }
}

/// Collectives, and the regions before which they are done at the latest, even if these do not need them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Landings(pub Vec<(RegionId, RegionId)>);

/// For every region in order, the position of the one before which it has to be done, if it may go on beside others until
/// then: where it lands, and before the first that reads its results and does not follow it on the same lane, or may
/// overwrite its operands.
pub(super) fn done(
    fused: &Fused,
    (order, steps): (&[RegionId], &[&Region]),
    donors: &[Option<u32>],
    landings: &Landings,
) -> Vec<Option<usize>> {
    let lanes = lanes(fused, steps);
    let mut done = vec![steps.len(); steps.len()];
    let at: HashMap<RegionId, usize> = order.iter().enumerate().map(|(at, &r)| (r, at)).collect();
    landings.0.iter().for_each(|(collective, before)| done[at[collective]] = at[before]);
    // For each buffer, the collective that makes it; for each input, those that read it.
    let mut maker = vec![None; fused.buffers.len()];
    let mut readers: HashMap<u32, Vec<usize>> = HashMap::new();
    for (at, region) in steps.iter().enumerate() {
        let mut ends = |collective: usize| done[collective] = done[collective].min(at);
        for read in &region.reads {
            match read.source {
                Source::Buffer(b) => maker[b].filter(|&m| lanes[m] != lanes[at]).map(&mut ends),
                _ => None,
            };
        }
        for &b in &region.writes {
            let donor = fused.buffers[b].output.and_then(|k| donors[k as usize]);
            let readers = donor.and_then(|input| readers.get(&input));
            readers.into_iter().flatten().for_each(|&reader| ends(reader));
        }
        if lanes[at].is_some() {
            region.writes.iter().for_each(|&b| maker[b] = Some(at));
            for read in &region.reads {
                if let Source::Input(n) = read.source {
                    readers.entry(n).or_default().push(at);
                }
            }
        }
    }
    // A collective on a lane is done before those that come after it there.
    let mut after: Vec<(LaneId, usize)> = Vec::new();
    let mut result = vec![None; steps.len()];
    for at in (0..steps.len()).rev() {
        let Some(lane) = lanes[at] else { continue };
        let known = after.iter().position(|(other, _)| *other == lane);
        let until = known.map_or(done[at], |known| done[at].min(after[known].1));
        // With nothing beside it, nor another one that it might go with, a lane is a detour.
        let has_neighbour =
            at > 0 && lanes[at - 1] == lanes[at] || lanes.get(at + 1) == Some(&lanes[at]);
        result[at] = Some(until).filter(|&done| done > at + 1 || has_neighbour);
        let first = (lane, result[at].unwrap_or(at));
        match known {
            Some(known) => after[known] = first,
            None => after.push(first),
        }
    }
    result
}

/// The source of a lane's first token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneId {
    Input(u32),
    Buffer(BufferId),
}

/// The lane of every region that is a collective.
pub(super) fn lanes(fused: &Fused, steps: &[&Region]) -> Vec<Option<LaneId>> {
    let mut lane_of = vec![None; fused.buffers.len()];
    let lane = |region: &&Region| {
        let token = collective::operands(region.kernel.collective()?).token;
        let lane = match region.reads.get(token)?.source {
            Source::Input(n) => LaneId::Input(n),
            Source::Buffer(b) => lane_of[b].unwrap_or(LaneId::Buffer(b)),
            Source::Scalar(_) | Source::Index => return None,
        };
        region.writes.iter().for_each(|&b| lane_of[b] = Some(lane));
        Some(lane)
    };
    steps.iter().map(lane).collect()
}
