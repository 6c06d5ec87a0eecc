//! Computing again instead of keeping: a result that waits over the moment of highest memory, although what it is cheaply
//! made of waits as well, is made a second time for those who read it after.

use super::draft::{Buffer, BufferId, Fused, Read, Region, RegionId, Source};
use super::order::{self, Lives};
use super::{Kernel, Program, Reg};
use crate::graph::Graph;
use crate::op::Op;
use crate::shape::Layout;

/// Most time spent on computing again, as a part of that of the whole program.
const MOST_TIME: f64 = 0.03;
/// What memory a copy must save at least, as a part of the peak.
const LEAST_SAVED: f64 = 0.004;
/// Operations of arithmetic that take as long as moving a byte.
const FLOPS_PER_BYTE: u64 = 16;

/// Adds kernels that compute again, as long as each lowers the peak of the order that [`order::order`] finds.
pub(super) fn remat(
    graph: &Graph,
    mut fused: Fused,
    donors: &[Option<u32>],
) -> (Fused, Vec<RegionId>) {
    let mut order = order::order(graph, &fused, donors);
    let all: u64 = fused.regions.iter().map(|r| time(graph, &fused, r)).sum();
    let mut left = (all as f64 * MOST_TIME) as u64;
    loop {
        let lives = Lives::new(graph, &fused, &order);
        // At least one byte, or copies that save nothing would never end.
        let least = ((lives.peak as f64 * LEAST_SAVED) as u64).max(1);
        let candidates = (0..fused.buffers.len()).filter(|&b| lives.bytes[b] > least);
        let best = candidates
            .filter_map(|b| again(graph, &fused, &lives, b))
            .filter(|copy| copy.time <= left)
            .max_by_key(|copy| (lives.bytes[copy.of], std::cmp::Reverse(copy.of)));
        let Some(copy) = best else { return (fused, order) };
        left -= copy.time;
        let more = copy.applied(&fused);
        let new_order = order::order(graph, &more, donors);
        let peak = Lives::new(graph, &more, &new_order).peak;
        if peak + least > lives.peak {
            return (fused, order);
        }
        (fused, order) = (more, new_order);
    }
}

/// How long a region takes, in bytes that could be moved meanwhile.
fn time(graph: &Graph, fused: &Fused, region: &Region) -> u64 {
    let reads =
        region.reads.iter().filter(|r| !matches!(r.source, Source::Scalar(_) | Source::Index));
    let read: u64 = reads.map(|r| (r.layout.numel() as usize * r.dtype.size()) as u64).sum();
    let written: u64 = region.writes.iter().map(|&b| fused.ty(graph, b).nbytes() as u64).sum();
    let node = match &region.kernel {
        Kernel::Node { .. } => region.writes.first().map(|&b| graph.maker(fused.buffers[b].value)),
        Kernel::Fused { .. } => Some(graph.node(region.anchor)),
        Kernel::Map(_) | Kernel::Reduce { .. } => None,
    };
    let whole = node.map_or(0, |node| {
        let inputs: Vec<_> = node.inputs.iter().map(|&v| graph.ty(v)).collect();
        let outputs: Vec<_> = node.outputs().map(|v| graph.ty(v).clone()).collect();
        (node.op.row().flops)(&inputs, &outputs)
    });
    let pointwise = region.kernel.program().map_or(0, |program| {
        program.instrs.len() as u64 * crate::shape::numel(&program.sizes) as u64
    });
    read + written + (whole + pointwise) / FLOPS_PER_BYTE
}

/// A region to be added.
struct Copy {
    of: BufferId,
    region: Region,
    /// Who reads the copy instead.
    readers: Vec<RegionId>,
    time: u64,
}

/// How buffer `b` can be computed again after the peak without keeping anything longer for it.
fn again(graph: &Graph, fused: &Fused, lives: &Lives, b: BufferId) -> Option<Copy> {
    let (writer, peak) = (lives.writer[b], lives.peak_at);
    let written = lives.at[writer];
    if fused.buffers[b].output.is_some() || written >= peak {
        return None;
    }
    let mut readers = lives.readers[b].clone();
    if readers.iter().any(|&r| lives.at[r] == peak) {
        return None;
    }
    readers.retain(|&r| lives.at[r] > peak);
    let first = *readers.iter().min_by_key(|&&r| lives.at[r])?;
    let region = only(fused, &fused.regions[writer], b)?;
    let stays = |read: &Read| match read.source {
        Source::Buffer(x) => lives.last[x] >= lives.at[first],
        Source::Input(_) | Source::Scalar(_) | Source::Index => true,
    };
    if !region.reads.iter().all(stays) {
        return None;
    }
    let time = time(graph, fused, &region);
    let anchor = fused.regions[first].anchor;
    Some(Copy { of: b, region: Region { anchor, ..region }, readers, time })
}

/// The part of a cheap region that writes `b`, or `None` for one that is not cheap.
fn only(fused: &Fused, region: &Region, b: BufferId) -> Option<Region> {
    let reads = match &region.kernel {
        Kernel::Map(_) => region.reads.clone(),
        Kernel::Fused { program, .. } => {
            let result = stored_result(fused, region, program, b)?;
            let operands = region.kernel.operands(region.reads.len());
            std::iter::once(result).chain(region.reads[operands..].iter().cloned()).collect()
        }
        Kernel::Node { op: Op::LayerNorm | Op::RmsNorm, .. } => return Some(region.clone()),
        _ => return None,
    };
    let program = region.kernel.program()?;
    let k = region.writes.iter().position(|&w| w == b)?;
    let (program, kept) = pruned(program, program.results[k]);
    Some(Region {
        kernel: Kernel::Map(program),
        reads: kept.iter().map(|&r| reads[r].clone()).collect(),
        writes: vec![b],
        ..region.clone()
    })
}

/// The result of the node of a fused region as a read from memory, where the region stores it other than in `b`.
fn stored_result(fused: &Fused, region: &Region, program: &Program, b: BufferId) -> Option<Read> {
    let mut stored = region.writes.iter().zip(&program.results);
    let (&at, _) = stored.find(|&(&w, &reg)| reg == 0 && w != b)?;
    Some(Read {
        source: Source::Buffer(at),
        value: fused.buffers[at].value,
        dtype: program.reads[0],
        layout: Layout::contiguous(&program.sizes),
    })
}

/// The program that computes one register only, and which reads that leaves.
fn pruned(program: &Program, result: Reg) -> (Program, Vec<usize>) {
    let reads = program.reads.len();
    let mut needed = vec![false; reads + program.instrs.len()];
    needed[result as usize] = true;
    for (n, instr) in program.instrs.iter().enumerate().rev() {
        if needed[reads + n] {
            instr.args.iter().for_each(|&a| needed[a as usize] = true);
        }
    }
    let kept: Vec<usize> = (0..reads).filter(|&r| needed[r]).collect();
    let mut number = vec![Reg::MAX; needed.len()];
    (0..needed.len()).filter(|&r| needed[r]).enumerate().for_each(|(n, r)| number[r] = n as Reg);
    let instrs = program.instrs.iter().enumerate().filter(|(n, _)| needed[reads + n]);
    let instrs = instrs.map(|(_, instr)| {
        let mut instr = instr.clone();
        instr.args.iter_mut().for_each(|a| *a = number[*a as usize]);
        instr
    });
    let program = Program {
        sizes: program.sizes.clone(),
        reads: kept.iter().map(|&r| program.reads[r]).collect(),
        instrs: instrs.collect(),
        results: vec![number[result as usize]],
    };
    (program, kept)
}

impl Copy {
    /// `fused` with the region, which writes buffers of its own.
    fn applied(mut self, fused: &Fused) -> Fused {
        let mut fused = Fused { regions: fused.regions.clone(), buffers: fused.buffers.clone() };
        for write in &mut self.region.writes {
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
        fused.regions.push(self.region);
        fused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fuse::fuse;
    use crate::plan::training::training_step;

    #[test]
    fn a_training_step_keeps_less() {
        let (graph, donors) = training_step(6, 2, 32, 64, 128);
        let before = fuse(&graph);
        let order = order::order(&graph, &before, &donors);
        let peak = Lives::new(&graph, &before, &order).peak;
        let total =
            |fused: &Fused| -> u64 { fused.regions.iter().map(|r| time(&graph, fused, r)).sum() };
        let work = total(&before);
        let (after, order) = remat(&graph, before, &donors);
        let lower = Lives::new(&graph, &after, &order).peak;
        assert!(lower < peak - peak / 8, "{peak} bytes became {lower}");
        assert!(total(&after) as f64 <= work as f64 * (1.0 + MOST_TIME));
    }
}
