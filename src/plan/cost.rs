//! Costs of kernels, collectives and copies to the host and back, and which values are cheaper to recompute than to store and load.

use super::Kernel;
use super::draft::{Fused, Read, Region, Source};
use super::lanes::LaneId;
use super::views::{View, is_view};
use crate::graph::{Graph, ValueId};
use crate::op::collective;
use crate::op::module::body;
use crate::op::{Class, FLOPS_PER_BYTE, Op, Ty};
use smallvec::SmallVec;

/// Maximum work that is repeated: an erf and the operations around it.
pub(super) const MAX_REPEATED: u32 = 16;
/// Up to this many points, computing a few simple instructions takes no longer than a kernel for them.
pub(super) const FEW_POINTS: i64 = 4096;
const MAX_ROOTS: usize = 4;
/// Time of a collective beside its transfer, in bytes that could be moved in memory meanwhile.
const COLLECTIVE_LATENCY: u64 = 1 << 20;

/// The work and the reads that it takes to compute a value from memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Cone {
    /// 1 for a simple instruction.
    pub work: u32,
    /// The values to be read; none for a value made of scalars, constants and indices.
    pub roots: SmallVec<[ValueId; MAX_ROOTS]>,
}

/// Whether reading `bytes` instead of `instead` is no great loss.
pub(super) fn is_no_more(bytes: usize, instead: usize) -> bool {
    bytes <= instead + instead / 4
}

/// The cone of every value. It stops where going on would cost too much.
pub(super) fn cones(graph: &Graph, views: &[View]) -> Vec<Cone> {
    let mut cones: Vec<Cone> = Vec::with_capacity(graph.values.len());
    let bytes = |roots: &[ValueId]| roots.iter().map(|&r| graph.ty(r).nbytes()).sum();
    for node in &graph.nodes {
        let itself = |v| Cone { work: 0, roots: SmallVec::from_slice(&[v]) };
        if node.n_outputs != 1 || !is_computed(node.op) {
            cones.extend(node.outputs().map(itself));
            continue;
        }
        let mut cone = Cone { work: node.op.row().work, ..Cone::default() };
        if node.op.class() == Class::Leaf && !node.op.draws() || is_view(node.op) {
            cone.work = 0;
        }
        for &v in &node.inputs {
            let root = views[v.0 as usize].root;
            let below = &cones[root.0 as usize];
            let whole = below.work <= MAX_REPEATED
                && below.roots.len() <= MAX_ROOTS
                && is_no_more(bytes(&below.roots), graph.ty(root).nbytes());
            let below = if whole { below.clone() } else { itself(root) };
            cone.work += below.work;
            let new = below.roots.into_iter().filter(|r| !cone.roots.contains(r));
            let new: SmallVec<[ValueId; MAX_ROOTS]> = new.collect();
            cone.roots.extend(new);
        }
        cones.push(cone);
    }
    cones
}

fn is_computed(op: Op) -> bool {
    let leaf = op.class() == Class::Leaf && op != Op::Input;
    leaf || op.class() == Class::Pointwise || is_view(op)
}

/// No region takes longer, as far as plans care: so times of programs that are too large for any memory can be added up, too.
const LONGEST: u64 = 1 << 44;

fn added(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// Estimated time of a region, in bytes that could be moved meanwhile.
pub(super) fn region_time(graph: &Graph, fused: &Fused, region: &Region) -> u64 {
    let reads =
        region.reads.iter().filter(|r| !matches!(r.source, Source::Scalar(_) | Source::Index));
    let nbytes = |r: &Read| (r.layout.numel() as u64).saturating_mul(r.dtype.size() as u64);
    let read = added(reads.map(nbytes));
    let written = added(region.writes.iter().map(|&b| fused.ty(graph, b).nbytes() as u64));
    let node = match &region.kernel {
        Kernel::Node { .. } => region.writes.first().map(|&b| graph.maker(fused.buffers[b].value)),
        // A rematerialized region is named after its reader.
        Kernel::Fused { body, .. } => Some(match region.writes.get(body.results.len()) {
            Some(&added) => graph.maker(fused.buffers[added].value),
            None => graph.node(region.anchor),
        }),
        Kernel::Map(_) | Kernel::Reduce { .. } => None,
    };
    // Halves and 8-bit floats.
    let is_short = |ty: &&Ty| ty.dtype.size() <= 2 && !ty.dtype.is_int();
    let whole = node.map_or(0, |node| {
        if let Some(body) = body(&node.attrs) {
            return body.flops() / FLOPS_PER_BYTE;
        }
        let inputs: Vec<_> = node.inputs.iter().map(|&v| graph.ty(v)).collect();
        let outputs: Vec<_> = node.outputs().map(|v| graph.ty(v).clone()).collect();
        let row = node.op.row();
        let rate = match row.multiplies && inputs.first().is_some_and(is_short) {
            true => fused.half_flops_per_byte,
            false => FLOPS_PER_BYTE,
        };
        (row.flops)(&inputs, &outputs) / rate
    });
    let pointwise = region.kernel.body().map_or(0, |body| {
        (body.instrs.len() as u64).saturating_mul(crate::shape::numel(&body.sizes) as u64)
    });
    added([read, written, whole, pointwise / FLOPS_PER_BYTE].into_iter()).min(LONGEST)
}

/// The same for a region on a lane.
pub(super) fn lane_time<C>(graph: &Graph, fused: &Fused, region: &Region, lane: &LaneId<C>) -> u64 {
    match lane {
        LaneId::Communicator(_) => {
            COLLECTIVE_LATENCY + region_time(graph, fused, region) * collective::SLOWDOWN
        }
        LaneId::ToHost | LaneId::FromHost => {
            let bytes = region.writes.iter().map(|&b| fused.ty(graph, b).nbytes() as u64);
            transfer_time(fused, added(bytes))
        }
    }
}

/// The same for a copy of so many bytes to the host's memory or from it.
pub(super) fn transfer_time(fused: &Fused, bytes: u64) -> u64 {
    bytes.saturating_mul(fused.host_link_slowdown.unwrap_or(1)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType::{self, BF16, F32};
    use crate::plan::fuse::fuse;
    use crate::plan::training::Make;

    #[test]
    fn products_of_halves_take_as_long_as_the_target_says() {
        let times = |dtype: DType| {
            let mut m = Make::default();
            let (a, b) = (m.input(0, dtype, &[512, 512]), m.input(1, dtype, &[512, 512]));
            let y = m.matmul(a, b);
            let graph = m.0.finish(vec![y]);
            let (mut fused, _) = fuse(&graph, &[None], None, &|_| true);
            [FLOPS_PER_BYTE, 128].map(|rate| {
                fused.half_flops_per_byte = rate;
                region_time(&graph, &fused, &fused.regions[0])
            })
        };
        let (flops, bytes) = (2 * 512 * 512 * 512, 3 * 512 * 512);
        assert_eq!(times(BF16), [flops / 16 + 2 * bytes, flops / 128 + 2 * bytes]);
        assert_eq!(times(F32), [flops / 16 + 4 * bytes; 2]);
    }
}
