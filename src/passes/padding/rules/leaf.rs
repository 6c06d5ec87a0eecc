//! Inputs, constants, and values computed from positions alone.

use super::super::Stop;
use super::super::axes::{Axis, flattened};
use super::super::padded::{PaddedValue, Pass, dims, whole};
use super::anything;
use crate::dtype::DType;
use crate::graph::Node;
use crate::op::{Attr, Op, Ty};
use crate::shape::numel;
use smallvec::smallvec;

pub fn input(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let axes = pass.sources(n, &pass.points.sizes(node.first));
    let leaf = node.attrs[0].int() as u32;
    let dtype = pass.points.here().ty(node.first).dtype;
    let id = pass.b.input(leaf, Ty::new(dtype, &dims(&axes)))?;
    pass.note_input(leaf, &axes);
    Ok(anything(id, axes))
}

/// A number that follows from the sizes, such as the count of a mean: passed with every run.
pub fn constant(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let dtype = node.attrs[1].dtype();
    let id = match node.op {
        Op::ConstInt => pass.size(&pass.points.int(n, 0), dtype)?,
        _ => {
            let size_arg = pass.size_arg(DType::F64, pass.points.floats(n, 0))?;
            pass.b.cast(size_arg, dtype)?
        }
    };
    Ok(anything(id, Vec::new()))
}

pub fn iota(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let sizes = pass.points.sizes(node.first);
    let counts = node.attrs[1].int() as usize;
    let mut axes = pass.sources(n, &sizes);
    // The counted dimension cannot be cut: its elements would no longer be their positions.
    axes[counts] = whole(sizes[counts].clone());
    let attrs = smallvec![Attr::Ints(dims(&axes)), node.attrs[1].clone(), node.attrs[2].clone()];
    let id = pass.op(Op::Iota, &[], attrs)?;
    Ok(anything(id, axes))
}

/// The random numbers of an array depend on the positions of its elements, and these not on the padding.
pub fn random(pass: &mut Pass, n: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let inputs: Vec<_> = node.inputs.iter().map(|v| pass.value(*v).id).collect();
    let axes = pass.sources(n, &pass.points.sizes(node.first));
    let sizes = dims(&axes);
    if follows_order(&axes) {
        let id = pass.op(node.op, &inputs, smallvec![Attr::Ints(sizes)])?;
        return Ok(anything(id, axes));
    }
    let all = smallvec![Attr::Ints(smallvec![numel(&sizes)])];
    let numbers = pass.op(node.op, &inputs, all)?;
    let places = pass.places(&axes)?;
    let places = pass.b.reshape(places, &sizes)?;
    let id = pass.op(Op::Take, &[numbers, places], smallvec![Attr::Int(0)])?;
    Ok(anything(id, axes))
}

/// Whether all padding comes after all elements, so that it moves none of them.
pub fn follows_order(axes: &[Axis]) -> bool {
    flattened(axes).is_prefix()
}

/// A value of rank 0 has no padding.
pub fn expect(pass: &mut Pass, _: usize, node: &Node) -> Result<PaddedValue, Stop> {
    let x = pass.value(node.inputs[0]).id;
    Ok(anything(pass.op(node.op, &[x], node.attrs.clone())?, Vec::new()))
}

pub fn check(pass: &mut Pass, _: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
    let checked = pass.value(node.inputs[0]).id;
    pass.b.ops(node.op, &[checked], node.attrs.clone())?;
    Ok(Vec::new())
}
