//! Results put together from operands: `concat` and `as_strided_scatter`.

use super::access::Bound;
use super::dense::copy;
use super::pool::parallel_chunks;
use crate::error::Result;
use crate::op::Attr;
use crate::shape::{Dims, Layout, numel};

pub fn concat(attrs: &[Attr], reads: &[Bound], write: &Bound) -> Result<()> {
    let dim = attrs[0].int() as usize;
    if join(dim, reads, write) {
        return Ok(());
    }
    let rank = write.layout.rank();
    let mut starts: Dims = Dims::from_elem(0, rank);
    let ones = Dims::from_elem(1, rank);
    for read in reads {
        let part = write.layout.slice(&starts, read.sizes(), &ones);
        copy(read, &Bound::at(write.source, write.dtype, part)?)?;
        starts[dim] += read.sizes()[dim];
    }
    Ok(())
}

/// Bytes of the result per task.
const TASK: usize = 1 << 16;

/// Average bytes of a run from which on runs are copied as bytes.
const RUN: usize = 64;

/// [`concat`] of dense operands, run by run; `false`, with nothing done, if some are not dense or runs are short.
fn join(dim: usize, reads: &[Bound], write: &Bound) -> bool {
    let is_dense = |b: &Bound| b.layout.is_contiguous();
    if !is_dense(write) || !reads.iter().all(is_dense) || write.numel() == 0 {
        return false;
    }
    let inner = numel(&write.sizes()[dim + 1..]) as usize * write.dtype.size();
    let parts: Vec<(&[u8], usize)> =
        reads.iter().map(|r| (r.bytes_of_dense(), r.sizes()[dim] as usize * inner)).collect();
    let mut row = 0;
    let starts = parts.iter().map(|(_, len)| {
        row += len;
        row - len
    });
    let starts: Vec<usize> = starts.collect();
    if row < RUN * parts.len() {
        return false;
    }
    parallel_chunks(write.result_bytes(), TASK, 2 * TASK, |task, mut to| {
        let mut at = task * TASK;
        while !to.is_empty() {
            let (n, column) = (at / row, at % row);
            // The last part that starts there: those before it are empty.
            let part = starts.partition_point(|&start| start <= column) - 1;
            let (bytes, len) = parts[part];
            let from = &bytes[n * len + column - starts[part]..(n + 1) * len];
            let (now, later) = to.split_at_mut(from.len().min(to.len()));
            now.copy_from_slice(&from[..now.len()]);
            at += now.len();
            to = later;
        }
    });
    true
}

/// The part of a result that `as_strided_scatter` overwrites.
pub fn overwritten(attrs: &[Attr], write: &Bound) -> Layout {
    Layout {
        sizes: attrs[0].ints().into(),
        strides: attrs[1].ints().into(),
        offset: write.layout.offset + attrs[2].int(),
    }
}

pub fn as_strided_scatter(attrs: &[Attr], reads: &[Bound], write: &Bound) -> Result<()> {
    let part = Bound::at(write.source, write.dtype, overwritten(attrs, write))?;
    if reads[0].source != write.source {
        copy(&reads[0], write)?;
    }
    copy(&reads[1], &part)
}
