//! Operands of node kernels as dense memory: as they are if they are dense, else copied.

use super::access::{Bound, Source};
use super::map::{Map, as_pairs};
use crate::backend::memory::{Memory, Pool};
use crate::error::Result;
use crate::plan::{LoopBody, MemRef, Operand};
use crate::shape::Layout;
use smallvec::smallvec;
use std::sync::Arc;

/// A dense row-major operand, and the memory it was copied to if it had to be.
pub struct Dense {
    bound: Bound,
    memory: Option<Memory>,
}

impl std::ops::Deref for Dense {
    type Target = Bound;
    fn deref(&self) -> &Bound {
        &self.bound
    }
}

/// `operand` where it is, whatever its layout.
pub fn as_it_is(operand: &Bound) -> Dense {
    Dense { bound: operand.clone(), memory: None }
}

/// `operand` as dense memory. Error: `OutOfMemory`.
pub fn dense(operand: &Bound, pool: &Arc<Pool>) -> Result<Dense> {
    if operand.layout.is_contiguous() && matches!(operand.source, Source::Memory(_)) {
        return Ok(Dense { bound: operand.clone(), memory: None });
    }
    let copied = fresh(operand, pool)?;
    copy(operand, &copied)?;
    Ok(copied)
}

/// Dense memory for the result `write`: that operand itself if it is dense, else memory to be copied back.
pub fn to_write(write: &Bound, pool: &Arc<Pool>) -> Result<Dense> {
    if write.layout.is_contiguous() {
        return Ok(Dense { bound: write.clone(), memory: None });
    }
    fresh(write, pool)
}

/// Dense memory like `operand`, contents undefined.
pub fn fresh(operand: &Bound, pool: &Arc<Pool>) -> Result<Dense> {
    let layout = Layout::contiguous(operand.sizes());
    let memory = pool.allocate(operand.numel() * operand.dtype.size())?;
    let bound = Bound::at(Source::Memory(memory.addr()), operand.dtype, layout)?;
    Ok(Dense { bound, memory: Some(memory) })
}

impl Dense {
    /// Copies the elements to `write`, if [`to_write`] gave other memory.
    pub fn copy_back(&self, write: &Bound) -> Result<()> {
        if self.memory.is_some() { copy(&self.bound, write) } else { Ok(()) }
    }
}

/// Copies the elements of `from` to `to`, of equal sizes and dtype.
pub fn copy(from: &Bound, to: &Bound) -> Result<()> {
    let mem = match from.source {
        Source::Memory(_) => MemRef::Input(0),
        Source::Slot(_) => MemRef::Scalar(0),
        Source::Index => MemRef::Index,
    };
    let wide = from.dtype.size() == 16;
    let operand = |mem, b: &Bound| Operand { mem, dtype: b.dtype, layout: b.layout.clone() };
    let (read, write) = (operand(mem, from), operand(MemRef::Output(0), to));
    let body = LoopBody {
        sizes: from.sizes().into(),
        reads: vec![from.dtype],
        instrs: Vec::new(),
        results: vec![0],
    };
    let map = Map::new(&body, std::slice::from_ref(&read), std::slice::from_ref(&write), &[None])?;
    let narrow = |o: &Operand, b: &Bound| {
        let o = if wide { as_pairs(o) } else { o.clone() };
        Bound::at(b.source, o.dtype, o.layout)
    };
    let (from, to): (smallvec::SmallVec<[Bound; 1]>, smallvec::SmallVec<[Bound; 1]>) =
        (smallvec![narrow(&read, from)?], smallvec![narrow(&write, to)?]);
    map.run(&from, &to)
}
