//! Results put together from operands: `concat` and `as_strided_scatter`.

use super::access::Bound;
use super::dense::copy;
use crate::error::Result;
use crate::op::Attr;
use crate::shape::{Dims, Layout};

pub fn concat(attrs: &[Attr], reads: &[Bound], write: &Bound) -> Result<()> {
    let dim = attrs[0].int() as usize;
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
