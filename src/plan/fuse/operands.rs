//! The operands of nodes' kernels, and how they are read.

use super::super::draft::{Kind, RegionId, Slot, SlotId, State};
use super::super::layout_requirement::{accepts_half_input, layout_requirement};
use super::super::views::View;
use super::Fuser;
use crate::dtype::DType;
use crate::graph::{NodeId, ValueId};
use crate::op::LayoutRequirement;
use crate::op::fallback::scalar_operands;
use crate::op::{Attr, Op};

impl Fuser<'_> {
    /// Makes slots of `region` for the operands of its node.
    pub(super) fn operands_of(&mut self, id: NodeId, region: RegionId) {
        let graph = self.graph;
        let node = graph.node(id);
        let numbers: Vec<usize> = match &node.attrs[..] {
            [_, _, Attr::Args(args)] if node.op == Op::Host => {
                scalar_operands(args).enumerate().filter(|(_, is)| *is).map(|(i, _)| i).collect()
            }
            _ => Vec::new(),
        };
        for (i, &v) in node.inputs.iter().enumerate() {
            let view = self.views[v.0 as usize].clone();
            let root = graph.maker(view.root);
            let need = if numbers.contains(&i) {
                LayoutRequirement::Number
            } else {
                layout_requirement(node.op, i)
            };
            // Only host operators take a bool of eight bytes.
            let is_read = need == LayoutRequirement::Number
                && (node.op == Op::Host || view.dtype != DType::Bool);
            let is_slot = root.op == Op::Scalar && view.dtype == graph.ty(view.root).dtype;
            let view = if is_read && is_slot {
                let slot = root.attrs[0].int() as u32;
                self.drafts[region].push(Slot::new(view, State::Scalar(slot)));
                continue;
            } else if need.accepts(&view.layout) {
                view
            } else {
                View::itself(graph, v)
            };
            let root = view.root;
            let slot = self.drafts[region].push(Slot::new(view, State::Operand));
            self.demands[root.0 as usize].push((region, slot));
        }
    }

    /// Whether the kernel of region `r` can read its operand in slot `s` as it is before the cast `v`.
    pub(super) fn can_widen(&self, v: ValueId, r: RegionId, s: SlotId) -> bool {
        let (Kind::Node(id) | Kind::Fused(id)) = self.drafts[r].kind else { return false };
        let (op, node, slot) = (self.graph.node(id).op, self.node_of(v), self.slot(r, s));
        let before = self.drafts[r].slots[..s as usize].iter();
        let operand = before.filter(|s| s.state == State::Operand).count();
        let half = |from: &ValueId| self.graph.ty(*from).dtype.is_half_of(slot.dtype);
        node.op == Op::Cast
            && accepts_half_input(op, operand)
            && slot.dtype == self.graph.ty(v).dtype
            && node.inputs.iter().all(half)
            && self.operands(node, slot).is_some_and(|views| {
                views.iter().all(|view| layout_requirement(op, operand).accepts(&view.layout))
            })
    }

    /// Makes the kernel of region `r` read `view` in slot `s`, from before a cast.
    pub(super) fn widen(&mut self, r: RegionId, s: SlotId, view: View) {
        self.demands[view.root.0 as usize].push((r, s));
        self.drafts[r].slots[s as usize] = Slot::new(view, State::Operand);
    }
}
