//! Checks for unused results: values that an operator refuses are an error even then, since PyTorch would have run it.

use super::refuses;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{Math, V};
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Attr, Op};
use crate::record::{Operator, Record};
use crate::shape::Dims;
use smallvec::smallvec;

/// Adds a check for each dead node that refuses some values. Only indices and divisors are checked: the node's result is
/// not computed. Adds nothing where every node is live.
pub fn add(math: &Math, records: &[Record], outputs: &[ValueId]) -> Result<()> {
    let dropped = math.graph(|graph| dropped(graph, records, outputs));
    for node in dropped {
        math.set_origin(node.site, node.record);
        if let Some(checked) = checked(math, &node) {
            math.ops(Op::Check, &[checked], smallvec![])?;
        }
    }
    math.set_origin(0, 0);
    Ok(())
}

/// Dead nodes whose values must still be checked.
fn dropped(graph: &Graph, records: &[Record], outputs: &[ValueId]) -> Vec<Node> {
    let looks = |node: &Node| {
        let record = (node.record as usize).checked_sub(1).and_then(|n| records.get(n));
        let refuses = node.outputs().any(|v| node.op.refuses(graph.ty(v).dtype));
        refuses && record.is_some_and(may_be_refused)
    };
    let candidates: Vec<&Node> = graph.nodes.iter().filter(|node| looks(node)).collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    let live = graph.live(outputs);
    let is_dropped = |node: &&Node| !live[graph.value(node.first).node.0 as usize];
    candidates.into_iter().filter(is_dropped).cloned().collect()
}

/// Whether a record may fail because of the values of its operands.
pub fn may_be_refused(record: &Record) -> bool {
    let Operator::Native(row) = record.op else { return false };
    record.outs.first().is_some_and(|out| refuses(row, out.view.dtype))
}

/// A small computation that fails exactly if the node would, with the same message. `None` if the node never fails.
fn checked<'a>(math: &'a Math, node: &Node) -> Option<V<'a>> {
    let operand = |n: usize| math.wrap(node.inputs[n]);
    let touched = match node.op {
        Op::IndexAdd => node.inputs[2],
        Op::Scatter => node.inputs[1],
        _ => node.first,
    };
    if math.graph(|graph| graph.ty(touched).numel() == 0) {
        return None;
    }
    if node.op == Op::Expect {
        return Some(math.wrap(node.first));
    }
    if matches!(node.op, Op::Div | Op::Rem) {
        let divisor = math.graph(|graph| before_broadcast(graph, node.inputs[1]));
        return Some(math.wrap(divisor).binary(node.op, math.wrap(divisor)));
    }
    let (axis, index) = (node.attrs[0].int() as usize, operand(1));
    let size = operand(0).sizes()[axis];
    if math.graph(|graph| is_clamped(graph, node.inputs[1], size)) {
        return None;
    }
    let along = |n: i64| {
        let mut sizes = Dims::from_elem(1, axis);
        sizes.push(n);
        sizes
    };
    let (places, x) = (index.reshape(&along(index.numel())), math.zeros(DType::Bool, &along(size)));
    let at = smallvec![Attr::Int(axis as i64)];
    Some(match node.op {
        Op::Gather | Op::Scatter => math.op(Op::Gather, &[x, places], at),
        _ => math.op(Op::Take, &[x, index], at),
    })
}

/// Whether an index was clamped to `0..size` where it was made: `min(max(index, 0), size - 1)`.
fn is_clamped(graph: &Graph, index: ValueId, size: i64) -> bool {
    let operand = |v: ValueId, op: Op, holds: &dyn Fn(i64) -> bool| {
        let node = graph.maker(v);
        let is_bound = |&bound: &ValueId| {
            let bound = graph.maker(before_broadcast(graph, bound));
            bound.op == Op::ConstInt && holds(bound.attrs[0].int())
        };
        let at = (node.op == op).then(|| node.inputs.iter().position(is_bound))??;
        Some(node.inputs[1 - at])
    };
    let below =
        operand(before_broadcast(graph, index), Op::Min, &|bound| (0..size).contains(&bound));
    below.and_then(|v| operand(v, Op::Max, &|bound| bound >= 0)).is_some()
}

/// The value before broadcasts and reshapes.
fn before_broadcast(graph: &Graph, mut v: ValueId) -> ValueId {
    while matches!(graph.maker(v).op, Op::Broadcast | Op::Reshape) {
        v = graph.maker(v).inputs[0];
    }
    v
}
