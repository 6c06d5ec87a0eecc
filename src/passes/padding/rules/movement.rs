//! Layouts: parts move as wholes. Elements at places that vary are picked by computed indices.

use super::super::axes::{Axis, Size, flattened, regrouped};
use super::super::padded::{Pad, PaddedValue, Pass, dims, whole};
use super::super::{Stop, refused};
use super::{anything, fixed_attrs, shared, sizes_of};
use crate::dtype::DType;
use crate::graph::{Node, ValueId};
use crate::op::{Attr, Op};
use crate::shape::Dims;
use smallvec::smallvec;

pub fn reshape(pass: &mut Pass, _: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let x = pass.value(node.inputs[0]).clone();
    let axes = regrouped(flattened(&x.axes), &pass.points.sizes(node.first))?;
    Ok(PaddedValue { id: pass.b.reshape(x.id, &dims(&axes))?, axes, pad: x.pad })
}

/// For operations that move a value as it is.
pub fn same(pass: &mut Pass, _: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let x = pass.value(node.inputs[0]).clone();
    Ok(PaddedValue { id: pass.op(node.op, &[x.id], node.attrs.clone())?, ..x })
}

pub fn transpose(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let x = pass.value(node.inputs[0]).clone();
    let perm = node.attrs[0].ints();
    let axes = perm.iter().map(|&d| x.axes[d as usize].clone()).collect();
    Ok(PaddedValue { id: pass.b.transpose(x.id, perm)?, axes, pad: x.pad })
}

pub fn broadcast(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let x = pass.value(node.inputs[0]).clone();
    let sizes = pass.points.sizes(node.first);
    let lead = sizes.len() - x.axes.len();
    let one = pass.points.one();
    let mut axes = Vec::new();
    let mut repeats = false;
    for (d, size) in sizes.iter().enumerate() {
        let same = d.checked_sub(lead).map(|at| &x.axes[at]).filter(|a| a.size(&one) == *size);
        axes.push(match same {
            Some(axis) => axis.clone(),
            None => pass.source(n, d, size),
        });
        repeats |= same.is_none() && axes[d].varies();
        let from = d.checked_sub(lead).map_or(1, |at| x.axes[at].bucket());
        if same.is_none() && from != 1 {
            return refused("a size that is 1 for some sizes only");
        }
    }
    let pad = match x.pad {
        // Its elements are repeated into the padding.
        Pad::Const(_) if repeats => Pad::Any,
        pad => pad,
    };
    Ok(PaddedValue { id: pass.b.broadcast(x.id, &dims(&axes))?, axes, pad })
}

pub fn slice(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let x = pass.value(node.inputs[0]).clone();
    let [starts, sizes, steps] = [0, 1, 2].map(|i| pass.points.ints(n, i));
    let one = pass.points.one();
    let mut axes = x.axes.clone();
    let mut picked = Vec::new();
    let full = sizes_of(&x);
    let (mut from, mut count) = (Dims::from_elem(0, full.len()), full.clone());
    let mut by = Dims::from_elem(1, full.len());
    for d in 0..axes.len() {
        if starts[d].fixed() == Some(0)
            && steps[d].fixed() == Some(1)
            && axes[d].size(&one) == sizes[d]
        {
            continue;
        }
        if !axes[d].is_prefix() {
            return refused("a part of a merged dimension");
        }
        axes[d] = whole(sizes[d].clone());
        let (Some(start), Some(step)) = (starts[d].fixed(), steps[d].fixed()) else {
            picked.push(d);
            continue;
        };
        if start + (sizes[d].bucket() - 1).max(0) * step >= full[d].max(1) {
            picked.push(d);
            continue;
        }
        (from[d], count[d], by[d]) = (start, sizes[d].bucket(), step);
    }
    let mut id = pass.b.slice(x.id, &from, &count, &by)?;
    for d in picked {
        let line = stepped(pass, &starts[d], &steps[d], &sizes[d])?;
        id = pick(pass, id, d, line)?;
    }
    let pad = if let Pad::Uniform(_) = x.pad { x.pad } else { Pad::Any };
    Ok(PaddedValue { id, axes, pad })
}

/// `start + i * step` for every `i` of a padded size.
fn stepped(pass: &mut Pass, start: &Size, step: &Size, size: &Size) -> Result<ValueId, Stop> {
    let line = pass.along(&[size.bucket()], 0)?;
    let step = pass.size(step, DType::I64)?;
    let step = pass.b.broadcast(step, &[size.bucket()])?;
    let way = pass.b.binary(Op::Mul, line, step)?;
    let start = pass.size(start, DType::I64)?;
    let start = pass.b.broadcast(start, &[size.bucket()])?;
    Ok(pass.b.binary(Op::Add, way, start)?)
}

/// The elements of `x` along `dim` at a line of indices; an index of padding may be too large.
fn pick(pass: &mut Pass, x: ValueId, dim: usize, line: ValueId) -> Result<ValueId, Stop> {
    let last = pass.b.ty(x).sizes[dim] - 1;
    let count = pass.b.ty(line).sizes.clone();
    let last = pass.b.constant_int(last, DType::I64)?;
    let last = pass.b.broadcast(last, &count)?;
    let line = pass.b.binary(Op::Min, line, last)?;
    pass.op(Op::Take, &[x, line], smallvec![Attr::Int(dim as i64)])
}

pub fn concat(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let dim = node.attrs[0].int() as usize;
    let operands = pass.operands(node);
    let ids: Vec<ValueId> = operands.iter().map(|padded_value| padded_value.id).collect();
    let others: Vec<Vec<Axis>> = operands
        .iter()
        .map(|padded_value| {
            padded_value.axes.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, a)| a.clone())
        })
        .map(Iterator::collect)
        .collect();
    let mut axes = shared(&others.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    let mut id = pass.op(Op::Concat, &ids, node.attrs.clone())?;
    let parts: Vec<&Axis> = operands.iter().map(|padded_value| &padded_value.axes[dim]).collect();
    let one = pass.points.one();
    let before = &parts[..parts.len() - 1];
    if !parts.iter().all(|axis| axis.is_prefix()) {
        return refused("a merged dimension is joined");
    }
    let total = parts.iter().fold(one.minus(&one), |sum, axis| sum.plus(&axis.size(&one)));
    if before.iter().any(|axis| axis.varies()) {
        // Behind the first operand that varies, elements come later by the padding of the operands before them.
        let mut line = pass.along(&[total.bucket()], 0)?;
        let places = line;
        let mut end = one.minus(&one);
        for axis in before {
            let size = axis.size(&one);
            end = end.plus(&size);
            let gap = Size::constant(axis.bucket(), &one).minus(&size);
            line = shifted(pass, line, places, &end, &gap)?;
        }
        id = pick(pass, id, dim, line)?;
    }
    axes.insert(dim, whole(total));
    Ok(anything(id, axes))
}

/// `line + gap` where the place is at `end` or behind it.
fn shifted(
    pass: &mut Pass,
    line: ValueId,
    places: ValueId,
    end: &Size,
    gap: &Size,
) -> Result<ValueId, Stop> {
    let sizes = pass.b.ty(line).sizes.clone();
    let end = pass.size(end, DType::I64)?;
    let end = pass.b.broadcast(end, &sizes)?;
    let gap = pass.size(gap, DType::I64)?;
    let gap = pass.b.broadcast(gap, &sizes)?;
    let behind = pass.b.binary(Op::Ge, places, end)?;
    let moved = pass.b.binary(Op::Add, line, gap)?;
    Ok(pass.b.select(behind, moved, line)?)
}

pub fn bitcast(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let x = pass.value(node.inputs[0]).clone();
    let (from, to) = (pass.b.ty(x.id).dtype.size(), node.attrs[0].dtype().size());
    let mut axes = x.axes.clone();
    if from != to {
        match (axes.last_mut(), pass.points.sizes(node.first).pop()) {
            (Some(last), Some(size)) if !last.varies() => *last = whole(size),
            _ => return refused("the bytes of a dimension that varies"),
        }
    }
    Ok(anything(pass.op(Op::Bitcast, &[x.id], node.attrs.clone())?, axes))
}
