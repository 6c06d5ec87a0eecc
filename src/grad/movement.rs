//! Rules of the movements: the cotangent goes back to where the elements came from.

use super::{Flow, Step, refused};
use crate::dtype::DType;
use crate::graph::Guard;
use crate::graph::math::{V, wide};
use crate::op::movement::{view_attrs, view_of};
use crate::op::{Attr, Op};
use crate::shape::{Dims, Layout, contiguous_strides, numel};
use smallvec::smallvec;

pub fn transpose<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let mut back = Dims::from_elem(0, s.ints(0).len());
    s.ints(0).iter().enumerate().for_each(|(i, &p)| back[p as usize] = i as i64);
    Ok(vec![Some(s.dy().transpose(&back))])
}

/// A complex number has the derivatives of its parts, as a pair; other bitcasts have no gradient.
pub fn bitcast<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (from, to) = (s.x[0].dtype(), s.y[0].dtype());
    if from.part() == Some(to) || to.part() == Some(from) {
        return Ok(vec![Some(s.dy().bitcast(from))]);
    }
    Err(s.math.graph(|graph| refused(graph, s.id)))
}

/// Sums over the repeated dimensions.
pub fn broadcast<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let from = s.x[0].sizes();
    let to = s.ints(0);
    let lead = to.len() - from.len();
    let repeated = |d: usize| d < lead || from[d - lead] != to[d];
    let axes: Dims = (0..to.len()).filter(|&d| repeated(d)).map(|d| d as i64).collect();
    let sum = |dy: V<'m>| dy.reduce(Op::Sum, &axes, false);
    let dy = s.dy();
    let sums = if dy.dtype().is_complex() { sum(dy.pairs()).paired() } else { sum(dy) };
    Ok(vec![Some(sums.reshape(&from))])
}

/// The cotangent with zeros around it. That of a dense slice is concatenated with them, which costs nothing where the result
/// is sliced again.
pub fn slice<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let full = s.x[0].sizes();
    let (starts, sizes, steps) = (s.ints(0), s.ints(1), s.ints(2));
    let cut: Vec<usize> = (0..full.len()).filter(|&d| sizes[d] != full[d]).collect();
    if let [dim] = cut[..]
        && steps[dim] == 1
    {
        let nothing = |size: i64| {
            let mut sizes = full.clone();
            sizes[dim] = size;
            s.math.zeros(s.x[0].dtype(), &sizes)
        };
        let before = (starts[dim] > 0).then(|| nothing(starts[dim]));
        let rest = full[dim] - starts[dim] - sizes[dim];
        s.math.guard([Guard::at_most(starts[dim] + sizes[dim], full[dim])]);
        let after = (rest > 0).then(|| nothing(rest));
        let parts: Vec<V> = [before, Some(s.dy()), after].into_iter().flatten().collect();
        return Ok(vec![Some(s.math.concat(&parts, dim))]);
    }
    let strides = contiguous_strides(&full);
    let layout = Layout {
        sizes: sizes.into(),
        strides: strides.iter().zip(steps).map(|(stride, step)| stride * step).collect(),
        offset: strides.iter().zip(starts).map(|(stride, start)| stride * start).sum(),
    };
    Ok(vec![Some(placed(s.math.zeros(s.x[0].dtype(), &full), s.dy(), &layout))])
}

/// `x` written over the view `layout` of `base`.
fn placed<'m>(base: V<'m>, x: V<'m>, layout: &Layout) -> V<'m> {
    if x.numel() == 0 {
        return base;
    }
    base.math().op(Op::AsStridedScatter, &[base, x], view_attrs(layout))
}

/// Whether a layout may name an element twice. It names none twice if each stride is beyond the reach of all smaller ones.
fn may_overlap(layout: &Layout) -> bool {
    let dims = layout.sizes.iter().zip(&layout.strides).filter(|dim| *dim.0 != 1);
    let mut dims: Vec<(i64, i64)> = dims.map(|(&size, &stride)| (stride, size)).collect();
    dims.sort_unstable();
    let mut reach = 0;
    for (stride, size) in dims {
        if stride <= reach {
            return true;
        }
        reach += stride * (size - 1);
    }
    false
}

/// An element that the view shows several times gets the sum of their cotangents.
pub fn as_strided<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (x, dy, layout) = (s.x[0], s.dy(), view_of(&s.attrs));
    let full = x.sizes();
    if !may_overlap(&layout) || dy.numel() == 0 {
        return Ok(vec![Some(placed(s.math.zeros(x.dtype(), &full), dy, &layout))]);
    }
    let mut places = s.math.full(layout.offset as f64, DType::I64, &layout.sizes);
    for (dim, &stride) in layout.strides.iter().enumerate() {
        places = places + s.math.iota(&layout.sizes, dim, DType::I64) * stride as f64;
    }
    let n = numel(&layout.sizes);
    let compute = wide(x.dtype());
    let base = s.math.zeros(compute, &[x.numel()]);
    let (places, dy) = (places.reshape(&[n]), dy.cast(compute).reshape(&[n]));
    let added = s.math.op(Op::IndexAdd, &[base, places, dy], smallvec![Attr::Int(0)]);
    Ok(vec![Some(added.cast(x.dtype()).reshape(&full))])
}

/// Overwritten elements have no cotangent.
pub fn as_strided_scatter<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (x, dy, layout) = (s.x[1], s.dy(), view_of(&s.attrs));
    if may_overlap(&layout) {
        return crate::invalid!("no gradient of a write to a view that overlaps itself");
    }
    let base = s.of(0, || placed(dy, s.math.zeros(x.dtype(), &x.sizes()), &layout));
    let x = s.of(1, || s.math.op(Op::AsStrided, &[dy], view_attrs(&layout)));
    Ok(vec![base, x])
}

pub fn concat<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (dim, dy) = (s.int(0) as usize, s.dy());
    let mut start = 0;
    let part = |(n, x): (usize, &V<'m>)| {
        let size = x.sizes()[dim];
        start += size;
        s.of(n, || dy.narrow(dim, start - size, size))
    };
    Ok(s.x.iter().enumerate().map(part).collect())
}
