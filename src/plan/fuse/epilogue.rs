//! Nodes whose kernels go on with the pointwise region that uses their result.

use super::super::draft::{Kind, Slot, State};
use super::super::need::has_epilogue;
use super::{Fuser, may_fail};
use crate::graph::NodeId;
use crate::op::Ty;

impl Fuser<'_> {
    /// Computes a node at the head of the map that uses its result first, if its kernel can go on with that; what
    /// else uses the result reads what the map stores.
    pub(super) fn precede(&mut self, id: NodeId) -> bool {
        let (v, node) = (self.graph.node(id).first, self.graph.node(id));
        let ty = self.graph.ty(v);
        let demands = self.demands[v.0 as usize].clone();
        let Some((region, slot)) = self.highest(v, &demands) else { return false };
        let draft = &mut self.drafts[region];
        let fails = |s: &Slot| matches!(&s.state, State::Instr(i) if may_fail(i.op, i.dtype));
        // An update in place waits for all other readers of its parameter; a product that waited with it would keep
        // its operands for so long.
        let updates = draft.writes.iter().any(|&(_, b)| self.buffers[b].output.is_some());
        if updates
            || !self.has_epilogues
            || !has_epilogue(node.op, ty)
            || !has_rows(&draft.sizes, ty)
            || !draft.has_room(0, node.inputs.len() + 1)
            || draft.slots[slot as usize].dtype != ty.dtype
            || draft.slots.iter().any(fails)
        {
            return false;
        }
        draft.kind = Kind::Fused(id);
        draft.anchor = id;
        draft.slots[slot as usize].state = State::Result;
        self.operands_of(id, region);
        if self.home[v.0 as usize].is_some() || demands.len() > 1 {
            self.keep(region, slot, v);
        }
        true
    }
}

/// Whether the last dimensions of `sizes` are the last one of `ty`, cut or not.
fn has_rows(sizes: &[i64], ty: &Ty) -> bool {
    let width = ty.sizes.last().copied().unwrap_or(1);
    (0..=sizes.len()).any(|d| sizes[d..].iter().product::<i64>() == width)
}
