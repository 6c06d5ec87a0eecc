//! Cross entropy without a table of log probabilities.

use super::rebuild::{Item, Values, rebuild};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::wide;
use crate::graph::{Builder, Graph, Node, NodeId, ValueId};
use crate::op::{Attrs, Class, Op};
use smallvec::smallvec;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// A gradient that is 0 in all columns but one needs no sum over its row; and where log probabilities are only picked from or
/// used pointwise, the logits and two numbers a row replace them: nothing as large as the logits is stored in forward, and
/// backward is one kernel over them.
///
/// ```text
/// y = log_softmax(x)                         top, log = log_sum_exp(x)         y = x - top - log
/// p = gather(y, target)                      p = gather(x, target) - top - log
/// dy = select(column == target, d, 0.0)   →  dy = select(column == target, d, 0.0)
/// dx = log_softmax_grad(dy, y)               dx = dy - exp(y) * select(target is a column, d, 0.0)
/// ```
///
/// Half types are computed in f32; y, p and dx are rounded to them, as PyTorch's are.
pub fn cross_entropy(graph: &Graph) -> Result<Cow<'_, Graph>> {
    let concerns = |op| matches!(op, Op::LogSoftmax | Op::LogSoftmaxGrad);
    if !graph.nodes.iter().any(|node| concerns(node.op)) {
        return Ok(Cow::Borrowed(graph));
    }
    let unneeded = unneeded(graph);
    let mut logs: HashMap<ValueId, Logs> = HashMap::new();
    let mut id = 0;
    rebuild(graph, |b, item| {
        id += 1;
        match item.op {
            Op::LogSoftmax if unneeded.contains(&NodeId(id - 1)) => {
                let dtype = b.ty(item.inputs[0]).dtype;
                let x = before_widening(b.graph(), item.inputs[0]);
                let found = b.ops(Op::LogSumExp, &[x], smallvec![])?;
                let parts = Logs { dtype, x, top: found[0], log: found[1] };
                let y = parts.subtracted_from(b, x)?;
                logs.insert(y, parts);
                Ok(Some(smallvec![y]))
            }
            Op::Gather => match logs.get(&item.inputs[0]) {
                Some(parts) if picks_one_a_row(b.graph(), &item.inputs, item.attrs) => {
                    let picked =
                        b.op(Op::Gather, &[parts.x, item.inputs[1]], item.attrs.clone())?;
                    Ok(Some(smallvec![parts.subtracted_from(b, picked)?]))
                }
                _ => Ok(None),
            },
            Op::LogSoftmaxGrad => gradient(b, item),
            _ => Ok(None),
        }
    })
}

/// The parts that replace `log_softmax(x)`.
struct Logs {
    dtype: DType,
    /// The logits, before they were widened.
    x: ValueId,
    /// As `log_sum_exp` gives them.
    top: ValueId,
    log: ValueId,
}

impl Logs {
    /// `from - top - log`, where `from` is x or a part of it.
    fn subtracted_from(&self, b: &mut Builder, from: ValueId) -> Result<ValueId> {
        let sizes = b.ty(from).sizes.clone();
        let from = b.cast(from, b.ty(self.top).dtype)?;
        let top = b.broadcast(self.top, &sizes)?;
        let below = b.binary(Op::Sub, from, top)?;
        let log = b.broadcast(self.log, &sizes)?;
        let y = b.binary(Op::Sub, below, log)?;
        b.cast(y, self.dtype)
    }
}

/// `x`, or the value of a half type that it was cast from: where autocast asks for f32, the logits need not be stored
/// twice as large.
fn before_widening(graph: &Graph, x: ValueId) -> ValueId {
    let maker = graph.maker(x);
    match maker.inputs[..] {
        [from] if maker.op == Op::Cast && graph.ty(from).dtype.is_half_of(graph.ty(x).dtype) => {
            from
        }
        _ => x,
    }
}

/// `dy - exp(y) * sum(dy)`, if the sum is one of the elements.
fn gradient(b: &mut Builder, item: &Item) -> Result<Option<Values>> {
    let (dy, y) = (item.inputs[0], item.inputs[1]);
    let Some(OneHot { target, d }) = one_hot(b.graph(), dy) else { return Ok(None) };
    let own = b.ty(dy).dtype;
    let d = b.cast(d, own)?;
    let [dy, y, d] = [dy, y, d].map(|v| b.cast(v, wide(own)));
    let (dy, y, d) = (dy?, y?, d?);
    // Made before the sum: operands in order leave the next round of passes nothing to do.
    let probability = b.unary(Op::Exp, y)?;
    let mut sizes = b.ty(dy).sizes.clone();
    let columns = sizes.pop().unwrap_or(0);
    sizes.push(1);
    let dtype = b.ty(target).dtype;
    let mut bound = |n: i64| {
        let n = b.constant_int(n, dtype)?;
        b.broadcast(n, &sizes)
    };
    let (first, end) = (bound(0)?, bound(columns)?);
    let (target, d) = (b.broadcast(target, &sizes)?, b.broadcast(d, &sizes)?);
    let (above, below) = (b.binary(Op::Ge, target, first)?, b.binary(Op::Lt, target, end)?);
    let hits = b.binary(Op::And, above, below)?;
    let zero = b.constant(0.0, b.ty(d).dtype)?;
    let zero = b.broadcast(zero, &sizes)?;
    let sum = b.select(hits, d, zero)?;
    let sum = b.broadcast(sum, &b.ty(dy).sizes.clone())?;
    let share = b.binary(Op::Mul, probability, sum)?;
    let dx = b.binary(Op::Sub, dy, share)?;
    Ok(Some(smallvec![b.cast(dx, own)?]))
}

/// The log-softmax nodes whose result is only picked from or used pointwise.
fn unneeded(graph: &Graph) -> HashSet<NodeId> {
    let some = |&id: &NodeId| graph.ty(graph.node(id).first).numel() > 0;
    let candidates = graph.node_ids().filter(|&id| graph.node(id).op == Op::LogSoftmax);
    let mut found: HashSet<NodeId> = candidates.filter(some).collect();
    let mut keep = |v: ValueId| found.remove(&graph.value(v).node);
    for node in &graph.nodes {
        for (i, &v) in node.inputs.iter().enumerate() {
            if !does_without(graph, node, i) {
                keep(v);
            }
        }
    }
    for &v in &graph.outputs {
        keep(v);
    }
    found
}

/// Whether operand `i` of `node`, log probabilities, need not be in memory.
fn does_without(graph: &Graph, node: &Node, i: usize) -> bool {
    match node.op {
        Op::Gather => i == 0 && picks_one_a_row(graph, &node.inputs, &node.attrs),
        Op::LogSoftmaxGrad => i == 1 && one_hot(graph, node.inputs[0]).is_some(),
        op => op.class() == Class::Pointwise,
    }
}

/// Whether a gather takes one element of every row.
fn picks_one_a_row(graph: &Graph, inputs: &[ValueId], attrs: &Attrs) -> bool {
    let (x, index) = (&graph.ty(inputs[0]).sizes, &graph.ty(inputs[1]).sizes);
    let last = x.len() - 1;
    attrs[0].int() as usize == last && index[..last] == x[..last] && index[last] == 1
}

/// Rows that are 0 except for one element, if their target is a column; both values have one column or none.
struct OneHot {
    target: ValueId,
    /// Before it was cast to the rows' dtype.
    d: ValueId,
}

/// Recognises `select(column == target, d, 0.0)`, where target and d are the same in every column, or a cast of that.
fn one_hot(graph: &Graph, v: ValueId) -> Option<OneHot> {
    let maker = graph.maker(v);
    let choice = if maker.op == Op::Cast { graph.maker(maker.inputs[0]) } else { maker };
    let [hit, d, zero] = choice.inputs[..] else { return None };
    let equal = graph.maker(hit);
    if choice.op != Op::Select || equal.op != Op::Eq || !is_zero(graph, zero) {
        return None;
    }
    let (a, b) = (equal.inputs[0], equal.inputs[1]);
    let target = match (counts_columns(graph, a), counts_columns(graph, b)) {
        (true, false) => column_of(graph, b)?,
        (false, true) => column_of(graph, a)?,
        _ => return None,
    };
    Some(OneHot { target, d: column_of(graph, d)? })
}

/// The value that is broadcast to every column of `v`.
fn column_of(graph: &Graph, v: ValueId) -> Option<ValueId> {
    let maker = graph.maker(v);
    let x = *maker.inputs.first()?;
    let spreads = graph.ty(x).sizes.last().is_none_or(|&n| n == 1);
    (maker.op == Op::Broadcast && spreads).then_some(x)
}

/// Whether element `[…, i]` of `v` is `i`.
fn counts_columns(graph: &Graph, v: ValueId) -> bool {
    let maker = graph.maker(v);
    match maker.op {
        Op::Iota => {
            let ty = graph.ty(v);
            // Column numbers in narrower types may have wrapped.
            let counts = matches!(ty.dtype, DType::I32 | DType::I64);
            counts && maker.attrs[1].int() as usize == ty.rank() - 1
        }
        Op::Broadcast => {
            let x = maker.inputs[0];
            graph.ty(x).sizes.last() == graph.ty(v).sizes.last() && counts_columns(graph, x)
        }
        _ => false,
    }
}

fn is_zero(graph: &Graph, v: ValueId) -> bool {
    let maker = graph.maker(v);
    match maker.op {
        Op::Const => maker.attrs[0].float() == 0.0,
        Op::Broadcast => is_zero(graph, maker.inputs[0]),
        _ => false,
    }
}
