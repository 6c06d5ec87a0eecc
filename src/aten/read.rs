//! A strided view of a dense value, expressed in movement primitives.
//!
//! A reshape may cut a dense array into any sizes. So the flat elements are cut into dimensions such that each dimension
//! of the view is a (stepped) run in one of them; slice → transpose → reshape → broadcast then give the view. Only views
//! that overlap themselves, or that no cut fits, become `as_strided`.

use crate::dtype::DType;
use crate::graph::math::V;
use crate::op::Op;
use crate::op::movement::view_attrs;
use crate::record::View;
use crate::shape::{Dims, Layout, contiguous_strides, numel};

/// The elements of `base`, an array of any dtype, that `view` shows.
pub fn read<'m>(base: V<'m>, view: &View) -> V<'m> {
    let layout = &view.layout;
    if layout.numel() == 0 {
        return base.math().zeros(view.dtype, &layout.sizes);
    }
    let base = as_dtype(base, view.dtype);
    if layout.offset == 0 && layout.is_contiguous() && layout.numel() == base.numel() {
        return base.reshape(&layout.sizes);
    }
    let (dims, order) = moving(layout);
    let split: Vec<Dim> = order.iter().map(|&d| dims[d]).collect();
    let merged = merge(&split);
    for run in [&split, &merged] {
        if let Some(dense) = dense(base, run, layout.offset) {
            return arrange(dense, &dims, &order, layout);
        }
    }
    base.math().op(Op::AsStrided, &[base], view_attrs(layout))
}

/// The same bytes as elements of `dtype`; trailing bytes that fill no element are dropped.
pub fn as_dtype(base: V, dtype: DType) -> V {
    let (from, to) = (base.dtype().size() as i64, dtype.size() as i64);
    let inner = base.sizes().last().copied().unwrap_or(1);
    if from == to || (from > to && base.rank() > 0) || (from < to && inner % (to / from) == 0) {
        return base.bitcast(dtype);
    }
    let flat = base.reshape(&[base.numel()]);
    let ratio = (to / from).max(1);
    flat.narrow(0, 0, base.numel() / ratio * ratio).bitcast(dtype)
}

/// Size and stride of a dimension.
type Dim = (i64, i64);

/// The view's dimensions that advance through memory (size not 1, stride not 0), and their order by decreasing stride.
fn moving(layout: &Layout) -> (Vec<Dim>, Vec<usize>) {
    let all = layout.sizes.iter().copied().zip(layout.strides.iter().copied());
    let dims: Vec<Dim> = all.filter(|&(size, stride)| size != 1 && stride != 0).collect();
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(dims[d].1));
    (dims, order)
}

/// Merges adjacent dimensions that form one run.
fn merge(sorted: &[Dim]) -> Vec<Dim> {
    let mut merged: Vec<Dim> = Vec::new();
    for &(size, stride) in sorted {
        match merged.last_mut() {
            Some(outer) if outer.1 == size * stride => *outer = (outer.0 * size, stride),
            _ => merged.push((size, stride)),
        }
    }
    merged
}

/// The elements of `run` (dimensions by decreasing stride), in that order; `None` if no cut fits.
fn dense<'m>(base: V<'m>, run: &[Dim], offset: i64) -> Option<V<'m>> {
    if run.iter().any(|&(_, stride)| stride < 0) {
        return None;
    }
    let n = base.numel();
    for hints in [&base.sizes()[..], &[n]] {
        if let Some(split) = Split::find(run, hints, offset) {
            return Some(split.apply(base));
        }
    }
    // The view starts in the middle of one of its own rows: leading flat elements are dropped, so that its rows fit into
    // the rest.
    let &(size, stride) = run.first()?;
    let used = size.checked_mul(stride).filter(|&used| 0 < used && used <= n)?;
    let start = offset.min(n - used);
    let split = Split::find(run, &[used], offset - start)?;
    Some(split.apply(base.reshape(&[n]).narrow(0, start, used)))
}

/// Brings the dimensions from memory order to the view's order and sizes.
fn arrange<'m>(dense: V<'m>, dims: &[Dim], order: &[usize], layout: &Layout) -> V<'m> {
    let standing = |(&size, &stride)| if stride == 0 { 1 } else { size };
    let kept: Dims = layout.sizes.iter().zip(&layout.strides).map(standing).collect();
    if order.is_sorted() {
        return dense.reshape(&kept).broadcast(&layout.sizes);
    }
    let in_memory: Dims = order.iter().map(|&d| dims[d].0).collect();
    let mut perm = Dims::from_elem(0, order.len());
    order.iter().enumerate().for_each(|(at, &d)| perm[d] = at as i64);
    dense.reshape(&in_memory).transpose(&perm).reshape(&kept).broadcast(&layout.sizes)
}

/// A cut of the first `product(sizes)` flat elements into dimensions, and the slice to take of each.
#[derive(Default)]
struct Split {
    sizes: Dims,
    starts: Dims,
    taken: Dims,
    steps: Dims,
}

impl Split {
    /// Finds a cut of a dense array of sizes `hints` for dimensions with decreasing strides.
    fn find(run: &[Dim], hints: &[i64], offset: i64) -> Option<Split> {
        let n = numel(hints);
        let mut units = Vec::new();
        if !choose(run, hints, n, offset, &mut units) {
            return None;
        }
        let mut split = Split::default();
        let (mut block, mut rest) = (n, offset);
        for (&(size, stride), &unit) in run.iter().zip(&units) {
            split.push(block / unit, rest / unit, size, stride / unit);
            (block, rest) = (unit, rest % unit);
        }
        if block != 1 || run.is_empty() {
            split.push(block, rest, 1, 1);
        }
        Some(split)
    }

    fn push(&mut self, size: i64, start: i64, taken: i64, step: i64) {
        self.sizes.push(size);
        self.starts.push(start);
        self.taken.push(taken);
        self.steps.push(step);
    }

    fn apply<'m>(&self, base: V<'m>) -> V<'m> {
        let (used, n) = (numel(&self.sizes), base.numel());
        let whole = if used == n { base } else { base.reshape(&[n]).narrow(0, 0, used) };
        whole.reshape(&self.sizes).slice(&self.starts, &self.taken, &self.steps)
    }
}

/// Picks for every dimension the number `unit` of flat elements below it: it becomes a dimension of `block / unit`
/// elements of which every `stride / unit`-th is taken. Backtracks over a few choices each.
fn choose(run: &[Dim], hints: &[i64], block: i64, offset: i64, units: &mut Vec<i64>) -> bool {
    let Some(&(size, stride)) = run.first() else {
        return offset < block;
    };
    let nested = gcd(stride, block);
    // Only the first dimension may leave a remainder at the end of the array.
    let loose = if units.is_empty() { stride } else { nested };
    // A boundary that the array already has changes the least.
    let boundary = contiguous_strides(hints).into_iter().filter(|t| loose % t.max(&1) == 0).max();
    for unit in boundary.into_iter().chain([loose, nested]) {
        let last = offset / unit + (size - 1) * (stride / unit);
        if last < block / unit {
            units.push(unit);
            if choose(&run[1..], hints, unit, offset % unit, units) {
                return true;
            }
            units.pop();
        }
    }
    false
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
