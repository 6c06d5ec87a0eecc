//! Which steps run on lanes, collectives and copies between a device's memory and the host's, and how long one may go on beside
//! the steps that come after it.

use super::draft::{BufferId, Fused, Region, RegionId, Source};
use super::{Kernel, LoopBody, MemRef, Operand, Plan, Step};
use crate::graph::{Graph, ValueId};
use crate::op::Op;
use crate::op::collective::{self, Kind};
use std::collections::HashMap;

/// What does the work of a step beside the others, in the order in which it is started: a communicator, which `C` names, or an
/// engine that copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneId<C> {
    Communicator(C),
    ToHost,
    FromHost,
}

impl Kernel {
    /// Whether it only copies elements.
    pub fn is_copy(&self) -> bool {
        match self {
            Kernel::Map(LoopBody { instrs, reads, results, .. }) => {
                instrs.is_empty() && reads.len() == 1 && results.len() == 1
            }
            _ => false,
        }
    }

    pub fn collective(&self) -> Option<Kind> {
        match self {
            Kernel::Node { op: Op::Host, attrs } => Some(collective::of(attrs)?.0),
            _ => None,
        }
    }
}

impl Step {
    /// Whether it only copies a value, which is the same value there.
    pub fn is_move(&self) -> bool {
        self.kernel.is_copy() && self.reads_of == self.results_of
    }

    /// Whether it copies a value that is to wait on the host to stay within a limit.
    pub fn is_chosen_offload(&self) -> bool {
        let on_host = |write: &Operand| matches!(write.mem, MemRef::Host(_));
        self.is_move() && self.writes.iter().any(on_host)
    }

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
    /// The lane of every step that is a collective, named by the token with which the first of those it follows begins, and of
    /// every copy that is done later.
    pub fn lanes(&self) -> Vec<Option<LaneId<ValueId>>> {
        let mut lane_of: HashMap<ValueId, ValueId> = HashMap::new();
        let lane = |step: &Step| {
            let Some(kind) = step.kernel.collective() else { return self.copy_lane(step) };
            let token = step.reads_of.get(collective::operands(kind).token)?;
            let lane = lane_of.get(token).copied().unwrap_or(*token);
            lane_of.extend(step.results_of.iter().map(|&result| (result, lane)));
            Some(LaneId::Communicator(lane))
        };
        self.steps.iter().map(lane).collect()
    }

    /// The lane of a step, with the communicator's number.
    pub fn lane(&self, step: &Step, scalars: &[u64]) -> Option<LaneId<u64>> {
        match step.communicator(scalars) {
            Some(communicator) => Some(LaneId::Communicator(communicator)),
            None => self.copy_lane(step),
        }
    }

    /// Number of copies to the host and back that run beside other steps.
    pub fn copies_on_lanes(&self) -> u64 {
        self.steps.iter().filter_map(|step| self.copy_lane::<()>(step)).count() as u64
    }

    fn copy_lane<C>(&self, step: &Step) -> Option<LaneId<C>> {
        let over_donor = |write: &Operand| match write.mem {
            MemRef::Output(k) => self.donors[k as usize].is_some(),
            _ => false,
        };
        // A copy does not check whether the run was stopped before it overwrites a value of an earlier run.
        let is_on_lane = step.done.is_some() && step.kernel.is_copy();
        let is_on_lane = is_on_lane && !step.writes.iter().any(over_donor);
        let on_host = |operand: &Operand| match operand.mem {
            MemRef::Host(_) => true,
            MemRef::Output(k) => self.is_on_host(k as usize),
            _ => false,
        };
        let is_to_host = step.writes.iter().any(on_host);
        is_on_lane.then_some(if is_to_host { LaneId::ToHost } else { LaneId::FromHost })
    }
}

/// Steps on lanes, and the regions before which they are done at the latest, even if these do not need them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Landings(pub Vec<(RegionId, RegionId)>);

/// For every region in order, the position of the one before which it has to be done, if it may go on beside others until
/// then: where it lands, and before the first that reads its results and does not follow it on the same lane, or may
/// overwrite its operands.
pub(super) fn done(
    graph: &Graph,
    fused: &Fused,
    (order, steps): (&[RegionId], &[&Region]),
    donors: &[Option<u32>],
    landings: &Landings,
) -> Vec<Option<usize>> {
    let lanes = lanes(graph, fused, steps);
    let mut done = vec![steps.len(); steps.len()];
    let at: HashMap<RegionId, usize> = order.iter().enumerate().map(|(at, &r)| (r, at)).collect();
    landings.0.iter().for_each(|(started, before)| done[at[started]] = at[before]);
    // For each buffer, the step on a lane that makes it; for each input, those that read it.
    let mut maker = vec![None; fused.buffers.len()];
    let mut readers: HashMap<u32, Vec<usize>> = HashMap::new();
    for (at, region) in steps.iter().enumerate() {
        let mut ends = |started: usize| done[started] = done[started].min(at);
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
    // A step on a lane is done before those that come after it there.
    let mut after: Vec<(LaneId<Token>, usize)> = Vec::new();
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
pub(super) enum Token {
    Input(u32),
    Buffer(BufferId),
}

/// The lane of every region that has one.
pub(super) fn lanes(graph: &Graph, fused: &Fused, steps: &[&Region]) -> Vec<Option<LaneId<Token>>> {
    let mut lane_of = vec![None; fused.buffers.len()];
    let lane = |region: &&Region| {
        let Some(kind) = region.kernel.collective() else { return copy_lane(graph, fused, region) };
        let token = match region.reads.get(collective::operands(kind).token)?.source {
            Source::Input(n) => Token::Input(n),
            Source::Buffer(b) => lane_of[b].unwrap_or(Token::Buffer(b)),
            Source::Scalar(_) | Source::Index => return None,
        };
        region.writes.iter().for_each(|&b| lane_of[b] = Some(token));
        Some(LaneId::Communicator(token))
    };
    steps.iter().map(lane).collect()
}

/// Whether any region has a lane.
pub(super) fn has_some(graph: &Graph, fused: &Fused) -> bool {
    let steps: Vec<&Region> = fused.regions.iter().collect();
    lanes(graph, fused, &steps).iter().any(Option::is_some)
}

/// The lane of a region that copies all of a tensor to the host's memory or from it, where these have lanes.
fn copy_lane<C>(graph: &Graph, fused: &Fused, region: &Region) -> Option<LaneId<C>> {
    fused.host_link_slowdown.filter(|_| region.kernel.is_copy())?;
    let ([read], [write]) = (&region.reads[..], &region.writes[..]) else { return None };
    let to = &fused.buffers[*write];
    let from_host = match read.source {
        Source::Input(_) => graph.maker(to.value).op == Op::Reload,
        Source::Buffer(b) => fused.buffers[b].on_host,
        Source::Scalar(_) | Source::Index => return None,
    };
    let is_same = read.layout.is_contiguous() && read.dtype == graph.ty(to.value).dtype;
    match (from_host, to.on_host) {
        (true, false) if is_same => Some(LaneId::FromHost),
        (false, true) if is_same => Some(LaneId::ToHost),
        _ => None,
    }
}
