//! Additions to a small part of an array, without an array of zeros around the part.

use super::rebuild::rebuild;
use crate::error::Result;
use crate::graph::{Graph, Guard, ValueId};
use crate::op::movement::view_of;
use crate::op::{Attr, Op};
use smallvec::smallvec;
use std::borrow::Cow;

/// A part is small if it has at most one in this many elements of the whole: else adding everything is as fast.
const SMALL: i64 = 4;

/// The gradient of `x[i]` is an array of zeros except for that part, and a loop over `x` adds up one of them for each step.
/// Only the part is added: the planner writes it in place.
///
/// ```text
/// y = as_strided_scatter(zeros, part) {…}          old = as_strided(x) {…}
/// s = add(x, y)                              →     s = as_strided_scatter(x, add(old, part)) {…}
/// ```
pub fn scatters(graph: &Graph) -> Result<Cow<'_, Graph>> {
    let uses = graph.use_counts();
    let is_lone = |v: ValueId| uses[v.0 as usize] == 1;
    // Other parts may be small at other sizes: then the program is another one.
    let mut guards: Vec<Guard> = Vec::new();
    let mut small_of = |op: Op, inputs: &[ValueId]| {
        let mut of = inputs.iter().filter(|_| op == Op::Add).map(|&v| {
            let inner = before_reshape(graph, v);
            let is_candidate = is_lone(v) && is_lone(inner);
            let (is_small, guard) = size(graph, inner).filter(|_| is_candidate)?;
            guards.extend(guard.filter(|guard| !graph.guards.contains(guard)));
            Some(is_small)
        });
        of.position(|is_small| is_small == Some(true))
    };
    let small: Vec<Option<usize>> =
        graph.nodes.iter().map(|node| small_of(node.op, &node.inputs)).collect();
    let mut graph = Cow::Borrowed(graph);
    if !guards.is_empty() {
        graph.to_mut().guards.extend(guards);
    }
    if small.iter().all(Option::is_none) {
        return Ok(graph);
    }
    let mut id = 0;
    let better = match rebuild(&graph, |b, item| {
        let place = small[id];
        id += 1;
        let Some(at) = place else { return Ok(None) };
        let (x, y) = (item.inputs[1 - at], item.inputs[at]);
        let maker = b.graph().maker(before_reshape(b.graph(), y)).clone();
        if maker.op != Op::AsStridedScatter || x == y {
            return Ok(None);
        }
        let old = b.op(Op::AsStrided, &[x], maker.attrs.clone())?;
        let sum = b.op(Op::Add, &[old, maker.inputs[1]], smallvec![])?;
        Ok(Some(smallvec![b.op(Op::AsStridedScatter, &[x, sum], maker.attrs)?]))
    })? {
        Cow::Owned(better) => Some(better),
        Cow::Borrowed(_) => None,
    };
    Ok(better.map_or(graph, Cow::Owned))
}

/// The value before a reshape: a view of elements in their order is the same in any sizes of the array.
fn before_reshape(graph: &Graph, v: ValueId) -> ValueId {
    let maker = graph.maker(v);
    if maker.op == Op::Reshape { maker.inputs[0] } else { v }
}

/// For a value that is 0 except for a part: whether that is small, and the guard of this.
fn size(graph: &Graph, v: ValueId) -> Option<(bool, Option<Guard>)> {
    let maker = graph.maker(v);
    if maker.op != Op::AsStridedScatter || !is_zero(graph, maker.inputs[0]) {
        return None;
    }
    let view = view_of(&maker.attrs);
    let (part, whole) = (view.numel().saturating_mul(SMALL), graph.ty(v).numel());
    let (is_small, at_most) = (part <= whole, Guard::at_most(part, whole));
    let guard = if is_small { Some(at_most) } else { Guard::order(whole, part) };
    view.is_injective().then_some((is_small, guard))
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
