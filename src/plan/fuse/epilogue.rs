//! Nodes whose kernels continue with the pointwise region that uses their result.

use super::super::draft::{Kind, RegionId, Slot, SlotId, State};
use super::super::layout_requirement::has_epilogue;
use super::{Fuser, may_fail};
use crate::graph::NodeId;
use crate::op::Ty;

impl Fuser<'_> {
    /// Computes a node at the head of the map that uses its first result first, if its kernel can continue with the map; all
    /// other users of the result read it where the map stores it.
    pub(super) fn precede(&mut self, id: NodeId) -> bool {
        let (v, node) = (self.graph.node(id).first, self.graph.node(id));
        let ty = self.graph.ty(v);
        let demands = self.demands[v.0 as usize].clone();
        let Some((region, slot)) = self.highest(v, &demands) else { return false };
        let height = self.drafts[region].height;
        // The map must not wait for users of another result.
        let waits = |&(r, _): &(RegionId, SlotId)| r == region || self.drafts[r].height > height;
        if node.outputs().skip(1).any(|v| self.demands[v.0 as usize].iter().any(waits)) {
            return false;
        }
        let draft = &mut self.drafts[region];
        let fails = |s: &Slot| matches!(&s.state, State::Instr(i) if may_fail(i.op, i.dtype));
        // An update in place waits for all other readers of its parameter; a product that waited with it would keep
        // its operands for that long.
        let updates = draft.writes.iter().any(|&(_, b)| self.buffers[b].output.is_some());
        if updates
            || !(self.has_epilogue)(node.op)
            || !has_epilogue(node.op, ty)
            || !has_rows(&draft.sizes, ty)
            || !draft.has_room(0, node.inputs.len() + node.n_outputs as usize)
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
        node.outputs().skip(1).for_each(|v| self.add(region, v));
        true
    }
}

/// Whether the last dimensions of `sizes` are the last one of `ty`, split or not.
fn has_rows(sizes: &[i64], ty: &Ty) -> bool {
    let width = ty.sizes.last().copied().unwrap_or(1);
    (0..=sizes.len()).any(|d| sizes[d..].iter().product::<i64>() == width)
}

#[cfg(test)]
mod tests {
    use crate::graph::text::parse;
    use crate::plan::tests::plan_of;
    use expect_test::{Expect, expect};

    fn check(middle: &str, expected: Expect) {
        let text = format!(
            "%0: bf16[4,6] = input() {{index=0, type=(bf16[4,6])}}\n\
            %1: f32[4,6] = cast(%0) {{dtype=f32}}\n\
            %2: f32[4,6], %3: f32[4], %4: f32[4] = layer_norm(%1) {{eps=1e-5, weight=false, bias=false}}\n\
            {middle}\n\
            %6: f32[4,1] = reshape(%5) {{sizes=[4,1]}}\n\
            %7: f32[4,6] = broadcast(%6) {{sizes=[4,6]}}\n\
            %8: f32[4,6] = add(%2, %7)\n\
            %9: f32[8,6] = concat(%8, %8) {{dim=0}}\n\
            return %9"
        );
        expected.assert_eq(&plan_of(&parse(&text).unwrap(), &[None]).to_string());
    }

    #[test]
    fn rows_go_on_and_their_other_results_are_stored() {
        check(
            "%5: f32[4] = input() {index=1, type=(f32[4])}",
            expect![[r#"
                arena 256 (bound 256)
                out0: f32[8,6]
                0: @0:f32[4,6], @128:f32[4], @192:f32[4] = layer_norm<1e-5, false, false>(in0:bf16[4,6], in1:f32[4,6]{1,0}) { r2 = add r0 r1; r2 }
                1: out0:f32[8,6] = concat<0>(@0:f32[4,6], @0:f32[4,6])
            "#]],
        );
    }

    #[test]
    fn what_waits_for_another_result_stays_apart() {
        check(
            "%5: f32[4] = softmax(%3)",
            expect![[r#"
                arena 256 (bound 256)
                out0: f32[8,6]
                0: @0:f32[4,6], @128:f32[4], @192:f32[4] = layer_norm<1e-5, false, false>(in0:bf16[4,6])
                1: @192:f32[4] = softmax(@128:f32[4])
                2: @0:f32[4,6] = map(@0:f32[4,6], @192:f32[4,6]{1,0}) { r2 = add r0 r1; r2 }
                3: out0:f32[8,6] = concat<0>(@0:f32[4,6], @0:f32[4,6])
            "#]],
        );
    }
}
