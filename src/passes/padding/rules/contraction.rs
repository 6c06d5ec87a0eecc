//! Products: the padding of a summed dimension is 0 on both sides (0 times infinity is not 0).

use super::super::axes::unify;
use super::super::padded::{Fill, PaddedValue, Pass};
use super::super::{Stop, refused};
use super::{anything, fixed, fixed_attrs, only, shared};
use crate::dtype::DType;
use crate::graph::{Node, ValueId};
use crate::op::{Attr, Op};
use smallvec::smallvec;

pub fn matmul(pass: &mut Pass, _: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let (a, b) = (pass.value(node.inputs[0]).clone(), pass.value(node.inputs[1]).clone());
    let rank = a.axes.len();
    let mut axes = shared(&[&a.axes[..rank - 2], &b.axes[..rank - 2]])?;
    unify(&a.axes[rank - 1], &b.axes[rank - 2])?;
    axes.extend([a.axes[rank - 2].clone(), b.axes[rank - 1].clone()]);
    let a = pass.clean_along(&a, &[rank - 1], Fill::Zero)?;
    let b = pass.clean_along(&b, &[rank - 2], Fill::Zero)?;
    let id = pass.op(Op::Matmul, &[a.id, b.id], node.attrs.clone())?;
    Ok(anything(id, axes))
}

/// Groups of padding end at 0, where the others began: they are empty.
pub fn grouped(pass: &mut Pass, _: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let operands = pass.operands(node);
    let [a, b, ends] = &operands[..] else { return refused("no product") };
    let by_row = b.axes.len() == 3;
    let terms = usize::from(by_row);
    unify(&a.axes[1], &b.axes[terms])?;
    let axes = if by_row {
        unify(&b.axes[0], &ends.axes[0])?;
        vec![a.axes[0].clone(), b.axes[2].clone()]
    } else {
        vec![ends.axes[0].clone(), a.axes[0].clone(), b.axes[1].clone()]
    };
    let a = pass.clean_along(a, &[1], Fill::Zero)?;
    let b = pass.clean_along(b, &[terms], Fill::Zero)?;
    let ends = pass.clean(ends, Fill::Zero)?;
    let id = pass.op(node.op, &[a.id, b.id, ends.id], node.attrs.clone())?;
    Ok(anything(id, axes))
}

/// A product of 8-bit floats, with one scale each, or one for every row of `a` and column of `b`.
pub fn scaled(pass: &mut Pass, _: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let operands = pass.operands(node);
    let [a, b, scale_a, scale_b] = &operands[..] else { return refused("no product") };
    unify(&a.axes[1], &b.axes[0])?;
    for (scale, side, d) in [(scale_a, a, 0), (scale_b, b, 1)] {
        if scale.axes[d].varies() {
            unify(&scale.axes[d], &side.axes[d])?;
        }
    }
    let axes = vec![a.axes[0].clone(), b.axes[1].clone()];
    let (a, b) = (without_bytes(pass, a, 1)?, without_bytes(pass, b, 0)?);
    let id = pass.op(node.op, &[a, b, scale_a.id, scale_b.id], node.attrs.clone())?;
    Ok(anything(id, axes))
}

/// The value with zeros beyond the end of dimension `d`: bytes of zeros, as the dtype has no arithmetic.
fn without_bytes(pass: &mut Pass, padded_value: &PaddedValue, d: usize) -> Result<ValueId, Stop> {
    if !padded_value.axes[d].varies() {
        return Ok(padded_value.id);
    }
    let seen_as =
        |pass: &mut Pass, id, dtype| pass.op(Op::Bitcast, &[id], smallvec![Attr::DType(dtype)]);
    let dtype = pass.b.ty(padded_value.id).dtype;
    let bytes = seen_as(pass, padded_value.id, DType::U8)?;
    let bytes = anything(bytes, padded_value.axes.clone());
    let clean = pass.clean_along(&bytes, &[d], Fill::Zero)?;
    seen_as(pass, clean.id, dtype)
}

/// Convolution and pooling of `[n, c, …]`: only the number of images may vary.
pub fn windows(pass: &mut Pass, n: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
    fixed_attrs(pass, n)?;
    let mut operands = pass.operands(node);
    let per_image = if node.op == Op::MaxPoolGrad { 2 } else { 1 };
    for (i, padded_value) in operands.iter().enumerate() {
        if i < per_image { only(padded_value, &[0])? } else { fixed(padded_value)? }
    }
    let images = shared(&operands[..per_image].iter().map(|x| &x.axes[..1]).collect::<Vec<_>>())?;
    if node.op == Op::MaxPoolGrad {
        operands[1] = pass.clean(&operands[1], Fill::Zero)?;
    }
    let ids: Vec<_> = operands.iter().map(|padded_value| padded_value.id).collect();
    let made = pass.b.ops(node.op, &ids, node.attrs.clone())?;
    let axes = |v| {
        let sizes = pass.points.sizes(v).into_iter().skip(1);
        images.iter().cloned().chain(sizes.map(super::super::padded::whole)).collect()
    };
    Ok(made.iter().zip(node.outputs()).map(|(&id, v)| anything(id, axes(v))).collect())
}

/// The gradient of a convolution's weight sums over images.
pub fn weight(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    fixed_attrs(pass, n)?;
    let (dy, x) = (pass.value(node.inputs[0]).clone(), pass.value(node.inputs[1]).clone());
    only(&dy, &[0])?;
    only(&x, &[0])?;
    unify(&dy.axes[0], &x.axes[0])?;
    let (dy, x) = (pass.clean(&dy, Fill::Zero)?, pass.clean(&x, Fill::Zero)?);
    let id = pass.op(node.op, &[dy.id, x.id], node.attrs.clone())?;
    let sizes = pass.points.sizes(node.first);
    if sizes.iter().any(|size| size.fixed().is_none()) {
        return refused("a kernel varies");
    }
    Ok(anything(id, sizes.into_iter().map(super::super::padded::whole).collect()))
}
