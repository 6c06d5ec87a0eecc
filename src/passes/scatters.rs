//! What is added to a small part of an array, without an array of zeros around it.

use super::rebuild::rebuild;
use crate::error::Result;
use crate::graph::{Graph, NodeId, ValueId};
use crate::op::movement::view_of;
use crate::op::{Attr, Op};
use smallvec::smallvec;
use std::borrow::Cow;

/// A part is small if it has at most one in so many elements of the whole: else adding everything is as fast.
const SMALL: i64 = 4;

/// The gradient of `x[i]` is an array of zeros but for that part, and a loop over `x` adds up one of them for each step.
/// Only the part is added: the planner writes it in place.
///
/// ```text
/// y = as_strided_scatter(zeros, part) {…}          old = as_strided(x) {…}
/// s = add(x, y)                              →     s = as_strided_scatter(x, add(old, part)) {…}
/// ```
pub fn scatters(graph: &Graph) -> Result<Cow<'_, Graph>> {
    let uses = graph.use_counts();
    let is_lone = |v: ValueId| uses[v.0 as usize] == 1;
    let small = |v: ValueId| {
        let inner = before_reshape(graph, v);
        is_lone(v) && is_lone(inner) && is_small(graph, inner)
    };
    let add = |op: Op, inputs: &[ValueId]| op == Op::Add && inputs.iter().any(|&v| small(v));
    if !graph.nodes.iter().any(|node| add(node.op, &node.inputs)) {
        return Ok(Cow::Borrowed(graph));
    }
    let mut id = 0;
    rebuild(graph, |b, item| {
        let before = &graph.node(NodeId(id)).inputs;
        id += 1;
        if !add(item.op, before) {
            return Ok(None);
        }
        let at = usize::from(!small(before[0]));
        let (x, y) = (item.inputs[1 - at], item.inputs[at]);
        let maker = b.graph().maker(before_reshape(b.graph(), y)).clone();
        if maker.op != Op::AsStridedScatter || x == y {
            return Ok(None);
        }
        let old = b.op(Op::AsStrided, &[x], maker.attrs.clone())?;
        let sum = b.op(Op::Add, &[old, maker.inputs[1]], smallvec![])?;
        Ok(Some(smallvec![b.op(Op::AsStridedScatter, &[x, sum], maker.attrs)?]))
    })
}

/// A view of an array's elements in their order is the same of the array in other sizes.
fn before_reshape(graph: &Graph, v: ValueId) -> ValueId {
    let maker = graph.maker(v);
    if maker.op == Op::Reshape { maker.inputs[0] } else { v }
}

/// Whether a value is 0 but for a small part.
fn is_small(graph: &Graph, v: ValueId) -> bool {
    let maker = graph.maker(v);
    if maker.op != Op::AsStridedScatter {
        return false;
    }
    let view = view_of(&maker.attrs);
    view.is_injective()
        && view.numel().saturating_mul(SMALL) <= graph.ty(v).numel()
        && is_zero(graph, maker.inputs[0])
}

/// Whether every element of a value is the constant 0.
fn is_zero(graph: &Graph, v: ValueId) -> bool {
    let maker = graph.maker(v);
    match (maker.op, &maker.attrs[..]) {
        (Op::Broadcast, _) => is_zero(graph, maker.inputs[0]),
        (Op::Const, [Attr::Float(value), _]) => *value == 0.0,
        (Op::ConstInt, [Attr::Int(value), _]) => *value == 0,
        _ => false,
    }
}
