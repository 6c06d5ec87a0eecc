//! Nodes with a pointwise epilogue: each block of the result goes through the loop body while it is in the second-level
//! cache, and is stored only if it is a result itself.

use super::access::{Bound, Source};
use super::map::Map;
use super::matmul::{Lent, each_block};
use super::node::by_rows;
use super::packed_weights::PackTarget;
use super::sink::Sink;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::{Attrs, Op};
use crate::plan::{LoopBody, MemRef, Operand, Step};
use crate::shape::Layout;

/// A compiled `Kernel::Fused`.
pub struct Epilogue {
    op: Op,
    attrs: Attrs,
    map: Map,
    /// Reads of the step that belong to the node.
    operands: usize,
    /// Writes of the step that belong to the loop body.
    results: usize,
    /// Dtype of the node's first result.
    dtype: DType,
    layout: Layout,
}

impl Epilogue {
    pub fn new(
        (op, attrs): (Op, &Attrs),
        body: &LoopBody,
        step: &Step,
        donors: &[Option<u32>],
    ) -> Result<Epilogue> {
        let (dtype, layout) = (body.reads[0], Layout::contiguous(&body.sizes));
        let operands = step.kernel.operands(step.reads.len());
        let results = body.results.len();
        // A reference to memory of its own, which is in no plan.
        let mem = MemRef::Input(u32::MAX);
        let mut reads = vec![Operand { mem, dtype, layout: layout.clone() }];
        reads.extend_from_slice(&step.reads[operands..]);
        let columns = &step.reads[if op == Op::Matmul { 1 } else { 0 }];
        let Some(&width) = columns.layout.sizes.last() else {
            return internal!("{} without columns", op.name());
        };
        let map = Map::in_blocks(body, &reads, &step.writes[..results], donors, width)?;
        Ok(Epilogue { op, attrs: attrs.clone(), map, operands, results, dtype, layout })
    }

    pub fn is_product(&self) -> bool {
        self.op == Op::Matmul
    }

    /// `pack_target`: as in [`each_block`].
    pub fn run(&self, reads: &[Bound], writes: &[Bound], pack_target: PackTarget) -> Result<()> {
        let (operands, others) = reads.split_at(self.operands);
        let (results, added) = writes.split_at(self.results);
        let visit = |block: Lent| {
            let memory = Source::Memory(block.address);
            let result = Bound::at(memory, self.dtype, self.layout.clone());
            let result = result.expect("scratch memory suits every type");
            self.map.run_block(&block, &result, others, results);
        };
        match self.op {
            Op::Matmul => each_block(&operands[0], &operands[1], self.dtype, pack_target, visit),
            op => by_rows(op, &self.attrs, operands, &Sink::Lent(self.dtype, &visit), added),
        }
    }
}
