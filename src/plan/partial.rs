//! The part of a region that computes one of its results, and no more.

use super::draft::{BufferId, Fused, Read, Region, Source};
use super::{Kernel, LoopBody, Reg};
use crate::shape::Layout;

/// The part of a cheap region that writes `b`, or `None` for a region that is not cheap.
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

/// The result of the node of a fused region as a read from memory, if the region stores it elsewhere than in `b`.
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

/// The loop body that computes one register only, and the reads that remain.
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
