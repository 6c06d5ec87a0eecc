//! Matrix products that go on through a pointwise program: each block of the product is put through it while it is in
//! the second-level cache, and is stored only if it is a result itself.

use super::access::{Bound, Source};
use super::map::Map;
use super::matmul::each_block;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
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
        let Some(&width) = step.reads[1].layout.sizes.last() else {
            return internal!("a product without columns");
        };
        let map = Map::in_blocks(program, &reads, &step.writes, donors, width)?;
        Ok(Epilogue { map, operands, dtype, layout })
    }

    pub fn run(&self, reads: &[Bound], writes: &[Bound]) -> Result<()> {
        let (operands, others) = reads.split_at(self.operands);
        each_block(&operands[0], &operands[1], self.dtype, |block| {
            let memory = Source::Memory(block.address);
            let result = Bound::at(memory, self.dtype, self.layout.clone());
            let result = result.expect("scratch memory suits every type");
            self.map.run_block(&block, &result, others, writes);
        })
    }
}
