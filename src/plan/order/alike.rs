//! Puts small regions that compute alike side by side, for a backend that runs them as one: updates of small parameters and
//! norms of gradients, which otherwise run one by one as soon as that frees a little memory.

use super::{Flow, peak};
use crate::dtype::DType;
use crate::op::Op;
use crate::plan::draft::{Fused, Region, RegionId};
use crate::plan::{Instr, Kernel, Reg};
use std::collections::HashMap;

/// Maximum number of bytes that are kept for a region which waits for others.
const MOST_KEPT: u64 = 256 << 10;

/// The common part of regions that compute alike: the reduction, if it is one; dtypes read, instructions and results.
type Kind<'a> = (Option<Op>, &'a [DType], &'a [Instr], &'a [Reg]);

fn kind(region: &Region) -> Option<Kind<'_>> {
    let (op, body) = match &region.kernel {
        Kernel::Map(body) => (None, body),
        Kernel::Reduce { body, op, .. } => (Some(*op), body),
        Kernel::Fused { .. } | Kernel::Node { .. } => return None,
    };
    Some((op, &body.reads, &body.instrs, &body.results))
}

/// `order`, in which regions wait for others that compute alike as long as that keeps little memory, until a region that
/// needs their results has its turn, or one that `stays` where it is. The peak is no higher.
pub(super) fn gathered(
    fused: &Fused,
    flow: &Flow,
    order: &[RegionId],
    stays: &[bool],
) -> Vec<RegionId> {
    let mut before = vec![Vec::new(); order.len()];
    for (r, users) in flow.users.iter().enumerate() {
        users.iter().for_each(|&u| before[u].push(r));
    }
    let limit = peak(fused, flow, order);
    let mut line = Line::new(fused, flow);
    for &r in order {
        for &b in &before[r] {
            if let Some(kind) = line.waits[b] {
                line.release(kind);
            }
        }
        if stays[r] || line.live + line.takes(r) + fused.regions[r].workspace > limit {
            (0..line.waiting.len()).for_each(|kind| line.release(kind));
        }
        match line.kinds[r] {
            Some(kind) if !stays[r] && line.kept_for(r) <= MOST_KEPT => {
                line.waits[r] = Some(kind);
                line.waiting[kind].push(r);
            }
            _ => line.run(r),
        }
    }
    (0..line.waiting.len()).for_each(|kind| line.release(kind));
    if peak(fused, flow, &line.order) <= limit { line.order } else { order.to_vec() }
}

/// An order under construction.
struct Line<'a> {
    flow: &'a Flow,
    order: Vec<RegionId>,
    /// The kind of each region, by number; none for the only region of its kind.
    kinds: Vec<Option<usize>>,
    /// Regions of each kind that wait for others. Everything that they need has run.
    waiting: Vec<Vec<RegionId>>,
    /// The kind of each region that waits.
    waits: Vec<Option<usize>>,
    /// Number of readers of each buffer that have not run.
    uses: Vec<usize>,
    live: u64,
}

impl<'a> Line<'a> {
    fn new(fused: &Fused, flow: &'a Flow) -> Line<'a> {
        let mut known: HashMap<Kind, (usize, usize)> = HashMap::new();
        for kind in fused.regions.iter().filter_map(kind) {
            let number = known.len();
            known.entry(kind).or_insert((number, 0)).1 += 1;
        }
        let number = |region| match known.get(&kind(region)?) {
            Some(&(number, count)) if count > 1 => Some(number),
            _ => None,
        };
        Line {
            flow,
            order: Vec::with_capacity(fused.regions.len()),
            kinds: fused.regions.iter().map(number).collect(),
            waiting: vec![Vec::new(); known.len()],
            waits: vec![None; fused.regions.len()],
            uses: flow.readers.iter().map(Vec::len).collect(),
            live: 0,
        }
    }

    fn takes(&self, r: RegionId) -> u64 {
        self.flow.writes[r].iter().map(|&b| self.flow.bytes[b]).sum()
    }

    /// Bytes that only waiting regions would read, if `r` were one.
    fn kept_for(&self, r: RegionId) -> u64 {
        let waiting =
            |b: usize| self.flow.readers[b].iter().filter(|&&x| self.waits[x].is_some()).count();
        let last = self.flow.reads[r].iter().filter(|&&b| self.uses[b] == waiting(b) + 1);
        last.map(|&b| self.flow.bytes[b]).sum()
    }

    fn release(&mut self, kind: usize) {
        for r in std::mem::take(&mut self.waiting[kind]) {
            self.waits[r] = None;
            self.run(r);
        }
    }

    fn run(&mut self, r: RegionId) {
        self.order.push(r);
        self.live += self.takes(r);
        self.flow.reads[r].iter().for_each(|&b| self.uses[b] -= 1);
        let touched = self.flow.reads[r].iter().chain(&self.flow.writes[r]);
        let dead = touched.filter(|&&b| self.uses[b] == 0).map(|&b| self.flow.bytes[b]);
        self.live -= dead.sum::<u64>();
    }
}
