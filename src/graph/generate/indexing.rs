//! Primitives that read, write and order by indices.

use super::{Generator, any, is_any};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::expect::Expectation;
use crate::op::index::Reduction;
use crate::op::{Attr, Op, Ty};
use crate::shape::Dims;
use smallvec::smallvec;

fn index_dtype(g: &mut Generator) -> DType {
    *g.rng.pick(&[DType::I32, DType::I64])
}

pub fn take(g: &mut Generator) -> Result<()> {
    let x = any(g, 1, is_any)?;
    let ty = g.builder.ty(x).clone();
    let axis = g.rng.below(ty.rank());
    let (dtype, mut sizes) = (index_dtype(g), g.sizes(0));
    sizes.truncate(2);
    let index = g.fresh_indices(dtype, &sizes, ty.sizes[axis], None)?;
    g.node(Op::Take, &[x, index], smallvec![Attr::Int(axis as i64)])?;
    Ok(())
}

pub fn index_add(g: &mut Generator) -> Result<()> {
    let base = any(g, 1, |d| d != DType::Bool)?;
    let mut ty = g.builder.ty(base).clone();
    let axis = g.rng.below(ty.rank());
    let (dtype, count) = (index_dtype(g), g.size());
    let index = g.fresh_indices(dtype, &[count], ty.sizes[axis], None)?;
    ty.sizes[axis] = count;
    let x = g.of_type(&ty)?;
    g.node(Op::IndexAdd, &[base, index, x], smallvec![Attr::Int(axis as i64)])?;
    Ok(())
}

/// Sizes of an index into `ty`: nowhere larger apart from `axis`.
fn index_sizes(g: &mut Generator, ty: &Ty, axis: usize, along: i64) -> Dims {
    let mut sizes = ty.sizes.clone();
    for s in sizes.iter_mut() {
        *s = if g.rng.chance(0.6) { *s } else { g.rng.below(*s as usize + 1) as i64 };
    }
    sizes[axis] = along;
    sizes
}

pub fn gather(g: &mut Generator) -> Result<()> {
    let x = any(g, 1, is_any)?;
    let ty = g.builder.ty(x).clone();
    let axis = g.rng.below(ty.rank());
    let along = g.size();
    let (dtype, sizes) = (index_dtype(g), index_sizes(g, &ty, axis, along));
    let index = g.fresh_indices(dtype, &sizes, ty.sizes[axis], None)?;
    g.node(Op::Gather, &[x, index], smallvec![Attr::Int(axis as i64)])?;
    Ok(())
}

pub fn top_k(g: &mut Generator) -> Result<()> {
    let x = any(g, 1, |d| d != DType::Bool)?;
    let sizes = g.builder.ty(x).sizes.clone();
    let axis = g.rng.below(sizes.len());
    let k = g.rng.below(sizes[axis] as usize + 1) as i64;
    let attrs = smallvec![Attr::Int(axis as i64), Attr::Int(k), Attr::Bool(g.rng.chance(0.5))];
    g.node(Op::TopK, &[x], attrs)?;
    Ok(())
}

/// An expectation that holds for the numbers of the case.
pub fn expect(g: &mut Generator) -> Result<()> {
    let holds = g.of_type(&Ty::new(DType::Bool, &[]))?;
    let what = *g.rng.pick(&Expectation::ALL);
    g.node(Op::Expect, &[holds], smallvec![what.attr()])?;
    Ok(())
}

/// Without a reduction, indices are distinct: a repeated one would leave open which element is written.
pub fn scatter(g: &mut Generator) -> Result<()> {
    let how = if g.rng.chance(0.5) { Reduction::Last } else { *g.rng.pick(&Reduction::ALL) };
    let repeats = how != Reduction::Last;
    let base = any(g, 1, is_any)?;
    let ty = g.builder.ty(base).clone();
    let axis = g.rng.below(ty.rank());
    let full = ty.sizes[axis];
    let along = if repeats { g.size() } else { g.rng.below(full as usize + 1) as i64 };
    let (dtype, sizes) = (index_dtype(g), index_sizes(g, &ty, axis, along));
    let index = g.fresh_indices(dtype, &sizes, full, (!repeats).then_some(axis))?;
    let x = g.of_type(&Ty { dtype: ty.dtype, sizes })?;
    g.node(Op::Scatter, &[base, index, x], smallvec![Attr::Int(axis as i64), how.attr()])?;
    Ok(())
}
