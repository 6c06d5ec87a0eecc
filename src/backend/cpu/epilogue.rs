//! Matrix products that go on through a pointwise program: each block of the product is put through it while it is in
//! the second-level cache, and is stored only if it is a result itself.

use super::access::{Bound, Source};
use super::map::{Map, Part};
use super::matmul::{Lent, each_block};
use crate::dtype::DType;
use crate::error::Result;
use crate::plan::{Operand, Place, Program, Step};
use crate::shape::Layout;

/// A compiled `Kernel::Fused`.
pub struct Epilogue {
    map: Map,
    /// Reads of the step that belong to the product.
    operands: usize,
    /// Of the product.
    dtype: DType,
    layout: Layout,
}

impl Epilogue {
    pub fn new(program: &Program, step: &Step, donors: &[Option<u32>]) -> Result<Epilogue> {
        let (dtype, layout) = (program.reads[0], Layout::contiguous(&program.sizes));
        let operands = step.kernel.operands(step.reads.len());
        // Memory of its own: no place of the plan.
        let place = Place::Input(u32::MAX);
        let mut reads = vec![Operand { place, dtype, layout: layout.clone() }];
        reads.extend_from_slice(&step.reads[operands..]);
        let map = Map::in_order(program, &reads, &step.writes, donors)?;
        Ok(Epilogue { map, operands, dtype, layout })
    }

    pub fn run(&self, reads: &[Bound], writes: &[Bound]) -> Result<()> {
        let (operands, others) = reads.split_at(self.operands);
        each_block(&operands[0], &operands[1], self.dtype, |block| {
            let parts: Result<Vec<Part>> = self.parts(&block);
            // A block has an address that suits its type.
            self.map.run_part(&parts.expect("a block in memory"), others, writes);
        })
    }

    /// The runs of a block: its rows, or all of it at once when they are whole rows of the product.
    fn parts(&self, block: &Lent) -> Result<Vec<Part>> {
        let (len, count) = match block.columns == block.pitch {
            true => (block.rows * block.columns, 1),
            false => (block.columns, block.rows),
        };
        let part = |n: usize| {
            let start = block.start + n * block.pitch;
            // Element `start` of the product is element `n * len` of the block.
            let ahead = (start * self.dtype.size()).wrapping_sub(n * len * self.dtype.size());
            let memory = Source::Memory(block.address.wrapping_sub(ahead));
            let result = Bound::at(memory, self.dtype, self.layout.clone())?;
            Ok(Part { result, start: start as i64, len })
        };
        (0..count).map(part).collect()
    }
}
