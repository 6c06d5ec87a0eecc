//! Reads and writes at given indices: those of padding are 0, and add nothing.

use super::super::axes::{Axis, unify};
use super::super::padded::{Fill, PaddedValue, Pass};
use super::super::{Stop, refused};
use super::{anything, fixed_attrs, only, shared, sizes_of};
use crate::graph::{Node, ValueId};
use crate::op::Op;
use crate::op::index::Reduction;

/// Indices into a dimension: 0 in padding. One beyond the dimension must fail even if it is within its padding.
fn indices(pass: &mut Pass, index: &PaddedValue, into: &Axis) -> Result<ValueId, Stop> {
    let index = pass.clean(index, Fill::Zero)?;
    if !into.varies() {
        return Ok(index.id);
    }
    if !into.is_prefix() {
        return refused("indices into a merged dimension");
    }
    let (dtype, sizes) = (pass.b.ty(index.id).dtype, sizes_of(&index));
    let end = into.size(&pass.points.one());
    let end = pass.size(&end, dtype)?;
    let end = pass.b.broadcast(end, &sizes)?;
    let inside = pass.b.binary(Op::Lt, index.id, end)?;
    let beyond = pass.b.constant_int(into.bucket(), dtype)?;
    let beyond = pass.b.broadcast(beyond, &sizes)?;
    Ok(pass.b.select(inside, index.id, beyond)?)
}

pub fn take(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let (x, index) = (pass.value(node.inputs[0]).clone(), pass.value(node.inputs[1]).clone());
    let along = node.attrs[0].int() as usize;
    let places = indices(pass, &index, &x.axes[along])?;
    let mut axes = x.axes.clone();
    axes.splice(along..along + 1, index.axes);
    Ok(anything(pass.op(Op::Take, &[x.id, places], node.attrs.clone())?, axes))
}

pub fn index_add(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let operands = pass.operands(node);
    let [base, index, x] = &operands[..] else { return refused("three operands") };
    let along = node.attrs[0].int() as usize;
    let mut rows = base.axes.clone();
    rows[along] = index.axes[0].clone();
    let merged = shared(&[&rows, &x.axes])?;
    let mut axes = merged;
    axes[along] = base.axes[along].clone();
    let places = indices(pass, index, &base.axes[along])?;
    let x = pass.clean_along(x, &[along], Fill::Zero)?;
    let id = pass.op(Op::IndexAdd, &[base.id, places, x.id], node.attrs.clone())?;
    Ok(anything(id, axes))
}

/// Requires that the index's dimensions but `along` lie where the other value's do: with as many elements, or with none of
/// them moved by padding.
fn beside(index: &PaddedValue, x: &PaddedValue, along: usize) -> Result<(), Stop> {
    for d in (0..x.axes.len()).filter(|&d| d != along) {
        if index.axes[d] != x.axes[d] && !(index.axes[d].is_prefix() && x.axes[d].is_prefix()) {
            unify(&index.axes[d], &x.axes[d])?;
        }
    }
    Ok(())
}

pub fn gather(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let (x, index) = (pass.value(node.inputs[0]).clone(), pass.value(node.inputs[1]).clone());
    let along = node.attrs[0].int() as usize;
    beside(&index, &x, along)?;
    let places = indices(pass, &index, &x.axes[along])?;
    Ok(anything(pass.op(Op::Gather, &[x.id, places], node.attrs.clone())?, index.axes))
}

pub fn scatter(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let operands = pass.operands(node);
    let [base, index, x] = &operands[..] else { return refused("three operands") };
    let along = node.attrs[0].int() as usize;
    shared(&[&index.axes, &x.axes])?;
    beside(index, base, along)?;
    let neutral = match Reduction::of(&node.attrs) {
        Reduction::Last => None,
        Reduction::Sum => Some(Fill::Zero),
        Reduction::Product => Some(Fill::One),
        Reduction::Max => Some(Fill::Lowest),
        Reduction::Min => Some(Fill::Highest),
    };
    let mut x = x.clone();
    if let Some(fill) = neutral {
        x = pass.clean(&x, fill)?;
    } else {
        // Values written from padding must land in padding: only dimensions that the base has as well may vary.
        let others: Vec<usize> =
            (0..x.axes.len()).filter(|&d| d != along && base.axes[d] == index.axes[d]).collect();
        only(index, &others)?;
    }
    let places = indices(pass, index, &base.axes[along])?;
    let id = pass.op(Op::Scatter, &[base.id, places, x.id], node.attrs.clone())?;
    Ok(anything(id, base.axes.clone()))
}
