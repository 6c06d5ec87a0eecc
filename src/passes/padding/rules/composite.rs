//! Composites: where the length of rows varies, padding takes no part; where the number of rows varies, it adds nothing to
//! sums over rows.

use super::super::axes::{Axis, unify};
use super::super::padded::{Fill, PaddedValue, Pass};
use super::super::{Stop, refused};
use super::{anything, fixed, fixed_attrs, leaf, only, shared, sizes_of};
use crate::dtype::DType;
use crate::graph::{Node, ValueId};
use crate::op::Op;

/// Builds the node on other operands, with results of these dimensions.
fn results(
    pass: &mut Pass,
    node: &Node,
    ids: &[ValueId],
    axes: Vec<Vec<Axis>>,
) -> Result<Vec<PaddedValue>, Stop> {
    let made = pass.b.ops(node.op, ids, node.attrs.clone())?;
    Ok(made.into_iter().zip(axes).map(|(id, axes)| anything(id, axes)).collect())
}

pub fn softmax(pass: &mut Pass, n: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
    fixed_attrs(pass, n)?;
    let x = pass.value(node.inputs[0]).clone();
    let last = x.axes.len() - 1;
    let x = pass.clean_along(&x, &[last], Fill::Lowest)?;
    let mut axes = x.axes.clone();
    if node.op == Op::LogSumExp {
        axes[last] = Axis::default();
    }
    results(pass, node, &[x.id], vec![axes.clone(), axes])
}

/// The sums over a row are those of `dy` times `y`.
pub fn softmax_grad(pass: &mut Pass, n: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
    fixed_attrs(pass, n)?;
    let (dy, y) = (pass.value(node.inputs[0]).clone(), pass.value(node.inputs[1]).clone());
    let axes = shared(&[&dy.axes, &y.axes])?;
    let last = [axes.len() - 1];
    let dy = pass.clean_along(&dy, &last, Fill::Zero)?;
    let y = pass.clean_along(&y, &last, Fill::Zero)?;
    results(pass, node, &[dy.id, y.id], vec![axes])
}

pub fn norm(pass: &mut Pass, n: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
    fixed_attrs(pass, n)?;
    let operands = pass.operands(node);
    only(&operands[0], &[0])?;
    operands[1..].iter().try_for_each(fixed)?;
    let axes = operands[0].axes.clone();
    let rows = vec![axes[0].clone()];
    let ids: Vec<ValueId> = operands.iter().map(|padded_value| padded_value.id).collect();
    results(pass, node, &ids, vec![axes, rows.clone(), rows])
}

/// The first `per_row` operands belong to the rows: `dy`, `x` and their statistics; the weight's gradient sums over them.
pub fn norm_grad(
    pass: &mut Pass,
    n: usize,
    node: &Node,
    per_row: usize,
) -> Result<Vec<PaddedValue>, Stop> {
    fixed_attrs(pass, n)?;
    let operands = pass.operands(node);
    let (of_rows, weight) = operands.split_at(per_row);
    weight.iter().try_for_each(fixed)?;
    let mut rows = of_rows[0].axes[0].clone();
    let mut ids = Vec::new();
    for padded_value in of_rows {
        only(padded_value, &[0])?;
        rows = unify(&rows, &padded_value.axes[0])?;
        ids.push(pass.clean(padded_value, Fill::Zero)?.id);
    }
    ids.extend(weight.iter().map(|padded_value| padded_value.id));
    let columns = of_rows[0].axes[1].clone();
    let axes = vec![vec![rows, columns.clone()], vec![columns.clone()], vec![columns]];
    results(pass, node, &ids, axes)
}

/// Operands of attention whose dimensions agree: batch, heads, queries, and those of the keys.
struct Heads {
    q: PaddedValue,
    k: PaddedValue,
    v: PaddedValue,
    bias: Option<ValueId>,
}

/// Keys beyond the end are zeros, and hidden from all queries: by `causal` from every query that is not padding, if there
/// are as many queries as keys; else by the number of keys, or by a mask.
fn heads(
    pass: &mut Pass,
    node: &Node,
    qkv: [&PaddedValue; 3],
    bias: Option<&PaddedValue>,
) -> Result<Heads, Stop> {
    let [q, k, v] = qkv;
    for padded_value in qkv {
        only(padded_value, &[0, 2])?;
    }
    unify(&q.axes[0], &k.axes[0])?;
    unify(&q.axes[0], &v.axes[0])?;
    unify(&k.axes[2], &v.axes[2])?;
    let (causal, dropout) = (node.attrs[1].bool(), node.attrs[2].float());
    let mut scores = q.axes[..3].to_vec();
    scores.push(k.axes[2].clone());
    if dropout > 0.0 && !leaf::follows_order(&scores) {
        return refused("dropout within attention");
    }
    if let Some(bias) = bias {
        shared(&[&bias.axes, &scores])?;
    }
    let hidden = causal && q.axes[2] == k.axes[2] && k.axes[2].is_prefix();
    let bias = match bias {
        Some(bias) => {
            let is_mask = pass.b.ty(bias.id).dtype == DType::Bool;
            let fill = if is_mask { Fill::Zero } else { Fill::Lowest };
            Some(pass.clean_along(bias, &[2, 3], fill)?.id)
        }
        None if k.axes[2].varies() && !hidden => Some(unseen(pass, &scores)?),
        None => None,
    };
    let k = pass.clean_along(k, &[2], Fill::Zero)?;
    let v = pass.clean_along(v, &[2], Fill::Zero)?;
    Ok(Heads { q: q.clone(), k, v, bias })
}

/// A bias that hides the keys beyond the end from all queries: their number, for every batch, or a mask.
fn unseen(pass: &mut Pass, scores: &[Axis]) -> Result<ValueId, Stop> {
    let (keys, batch) = (&scores[3], scores[0].bucket());
    let count = keys.size(&pass.points.one());
    if keys.is_prefix() && count.here() > 0 {
        let count = pass.size(&count, DType::I32)?;
        return Ok(pass.b.broadcast(count, &[batch, 1, 1, 1])?);
    }
    let seen = pass.b.constant_int(1, DType::Bool)?;
    let mut axes = vec![Axis::default(); 3];
    axes.push(keys.clone());
    let all = anything(seen, axes);
    let id = pass.b.broadcast(seen, &sizes_of(&all))?;
    Ok(pass.clean_along(&PaddedValue { id, ..all }, &[3], Fill::Zero)?.id)
}

pub fn attention(pass: &mut Pass, n: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
    fixed_attrs(pass, n)?;
    let operands = pass.operands(node);
    let heads = heads(pass, node, [&operands[0], &operands[1], &operands[2]], operands.get(5))?;
    let mut ids = vec![heads.q.id, heads.k.id, heads.v.id, operands[3].id, operands[4].id];
    ids.extend(heads.bias);
    let statistics = heads.q.axes[..3].to_vec();
    let mut out = statistics.clone();
    out.push(heads.v.axes[3].clone());
    results(pass, node, &ids, vec![out, statistics])
}

/// Queries of padding add products with their `dout`, `q` and `out` to the gradients of keys and values: these are zeros.
pub fn attention_grad(pass: &mut Pass, n: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
    fixed_attrs(pass, n)?;
    let operands = pass.operands(node);
    let heads = heads(pass, node, [&operands[1], &operands[2], &operands[3]], operands.get(8))?;
    let (dout, out, lse) = (&operands[0], &operands[4], &operands[5]);
    let mut axes = heads.q.axes[..3].to_vec();
    shared(&[&axes, &lse.axes])?;
    axes.push(heads.v.axes[3].clone());
    shared(&[&axes, &dout.axes, &out.axes])?;
    let mut ids = Vec::new();
    for padded_value in [dout, &heads.q] {
        ids.push(pass.clean_along(padded_value, &[2], Fill::Zero)?.id);
    }
    ids.extend([heads.k.id, heads.v.id]);
    for padded_value in [out, lse] {
        ids.push(pass.clean_along(padded_value, &[2], Fill::Zero)?.id);
    }
    ids.extend([operands[6].id, operands[7].id]);
    ids.extend(heads.bias);
    let gradients = [&heads.q, &heads.k, &heads.v].map(|padded_value| padded_value.axes.clone());
    results(pass, node, &ids, gradients.to_vec())
}
