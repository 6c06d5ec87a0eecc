//! Reading between elements and beyond edges: padding by reflection or replication, interpolation to other sizes. Each is
//! a weighted sum of elements.

use super::adjoint::pullback;
use super::index::take;
use super::{BACKWARD, PLAIN};
use crate::aten::call::{Call, wide};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Guard;
use crate::graph::math::{Math, V};
use crate::invalid;
use crate::op::Op;
use crate::shape::Dims;

pub const ROWS: &[Row] = &[
    row("reflection_pad1d", PLAIN, |c| pad(c, 1, Edge::Reflected)).floats(),
    row("reflection_pad2d", PLAIN, |c| pad(c, 2, Edge::Reflected)).floats(),
    row("reflection_pad3d", PLAIN, |c| pad(c, 3, Edge::Reflected)).floats(),
    row("replication_pad1d", PLAIN, |c| pad(c, 1, Edge::Replicated)).floats(),
    row("replication_pad2d", PLAIN, |c| pad(c, 2, Edge::Replicated)).floats(),
    row("replication_pad3d", PLAIN, |c| pad(c, 3, Edge::Replicated)).floats(),
    row("reflection_pad1d_backward", BACKWARD, |c| pad_backward(c, 1, Edge::Reflected)).floats(),
    row("reflection_pad2d_backward", BACKWARD, |c| pad_backward(c, 2, Edge::Reflected)).floats(),
    row("reflection_pad3d_backward", BACKWARD, |c| pad_backward(c, 3, Edge::Reflected)).floats(),
    row("replication_pad1d_backward", BACKWARD, |c| pad_backward(c, 1, Edge::Replicated)).floats(),
    row("replication_pad2d_backward", BACKWARD, |c| pad_backward(c, 2, Edge::Replicated)).floats(),
    row("replication_pad3d_backward", BACKWARD, |c| pad_backward(c, 3, Edge::Replicated)).floats(),
    row("upsample_nearest1d", PLAIN, |c| upsample(c, 1, Kind::Nearest)).fixed(&[2]).floats(),
    row("upsample_nearest2d", PLAIN, |c| upsample(c, 2, Kind::Nearest)).fixed(&[2, 3]).floats(),
    row("upsample_nearest3d", PLAIN, |c| upsample(c, 3, Kind::Nearest)).fixed(&[2, 3, 4]).floats(),
    row("_upsample_nearest_exact1d", PLAIN, |c| upsample(c, 1, Kind::Exact)).fixed(&[2]).floats(),
    row("_upsample_nearest_exact2d", PLAIN, |c| upsample(c, 2, Kind::Exact))
        .fixed(&[2, 3])
        .floats(),
    row("_upsample_nearest_exact3d", PLAIN, |c| upsample(c, 3, Kind::Exact))
        .fixed(&[2, 3, 4])
        .floats(),
    row("upsample_linear1d", PLAIN, |c| upsample(c, 1, Kind::Linear)).fixed(&[2, 3]).floats(),
    row("upsample_bilinear2d", PLAIN, |c| upsample(c, 2, Kind::Linear)).fixed(&[2, 3, 4]).floats(),
    row("upsample_trilinear3d", PLAIN, |c| upsample(c, 3, Kind::Linear))
        .fixed(&[2, 3, 4, 5])
        .floats(),
    row("upsample_bicubic2d", PLAIN, |c| upsample(c, 2, Kind::Cubic)).fixed(&[2, 3, 4]).floats(),
    row("upsample_nearest1d_backward", BACKWARD, |c| upsample_backward(c, 1, Kind::Nearest))
        .fixed(&[3])
        .floats(),
    row("upsample_nearest2d_backward", BACKWARD, |c| upsample_backward(c, 2, Kind::Nearest))
        .fixed(&[3, 4])
        .floats(),
    row("upsample_nearest3d_backward", BACKWARD, |c| upsample_backward(c, 3, Kind::Nearest))
        .fixed(&[3, 4, 5])
        .floats(),
    row("_upsample_nearest_exact1d_backward", BACKWARD, |c| upsample_backward(c, 1, Kind::Exact))
        .fixed(&[3])
        .floats(),
    row("_upsample_nearest_exact2d_backward", BACKWARD, |c| upsample_backward(c, 2, Kind::Exact))
        .fixed(&[3, 4])
        .floats(),
    row("_upsample_nearest_exact3d_backward", BACKWARD, |c| upsample_backward(c, 3, Kind::Exact))
        .fixed(&[3, 4, 5])
        .floats(),
    row("upsample_linear1d_backward", BACKWARD, |c| upsample_backward(c, 1, Kind::Linear))
        .fixed(&[3, 4])
        .floats(),
    row("upsample_bilinear2d_backward", BACKWARD, |c| upsample_backward(c, 2, Kind::Linear))
        .fixed(&[3, 4, 5])
        .floats(),
    row("upsample_trilinear3d_backward", BACKWARD, |c| upsample_backward(c, 3, Kind::Linear))
        .fixed(&[3, 4, 5, 6])
        .floats(),
    row("upsample_bicubic2d_backward", BACKWARD, |c| upsample_backward(c, 2, Kind::Cubic))
        .fixed(&[3, 4, 5])
        .floats(),
];

// ---- padding

/// The elements beyond an edge: the inside mirrored at the last element, or that element again.
#[derive(Clone, Copy, PartialEq)]
enum Edge {
    Reflected,
    Replicated,
}

/// `x` with its last dimension padded by the first two numbers, the one before it by the next two, and so on; negative
/// ones crop.
fn padded<'a>(x: V<'a>, padding: &[i64], edge: Edge) -> Result<V<'a>> {
    let sizes = x.sizes();
    let mut y = x;
    for (i, pair) in padding.chunks_exact(2).enumerate() {
        let d = sizes.len() - 1 - i;
        let (size, before, after) = (sizes[d], pair[0], pair[1]);
        if edge == Edge::Reflected && before.max(after) >= size {
            return invalid!(
                "Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at dimension {d} of input {sizes:?}"
            );
        }
        let total = size.saturating_add(before).saturating_add(after);
        if size < 1 || total < 1 {
            return invalid!(
                "input of sizes {sizes:?} is too small for padding {padding:?}: dimension {d} would have {total} elements"
            );
        }
        if (before, after) == (0, 0) {
            continue;
        }
        let (at, last) =
            (x.math().iota(&[total], 0, DType::I64) - before as f64, (size - 1) as f64);
        let at = match edge {
            Edge::Reflected => last - (last - at.abs()).abs(),
            Edge::Replicated => at.max(0.0).min(last),
        };
        y = take(y, at, d);
    }
    Ok(y)
}

/// Argument `i`, two numbers for each of `n` dimensions of a tensor of `rank`.
fn padding(c: &Call, i: usize, n: usize, rank: usize) -> Result<Dims> {
    match c.ints(i)? {
        Some(list) if list.len() == 2 * n && rank >= n => Ok(list),
        list => invalid!(
            "padding of {n} dimensions takes {} numbers and a tensor of {} or {} dimensions, got {list:?} and {rank} dimensions",
            2 * n,
            n + 1,
            n + 2
        ),
    }
}

/// `(self, padding)`
fn pad<'a>(c: &Call<'a>, n: usize, edge: Edge) -> Outs<'a> {
    let x = c.tensor(0)?;
    Ok(vec![padded(x, &padding(c, 1, n, x.rank())?, edge)?])
}

/// `(grad_output, self, padding)`
fn pad_backward<'a>(c: &Call<'a>, n: usize, edge: Edge) -> Outs<'a> {
    let (dy, sizes) = (c.tensor(0)?, c.ty(1)?.sizes);
    let padding = padding(c, 2, n, sizes.len())?;
    adjoint(c, dy, &sizes, |x| padded(x, &padding, edge))
}

/// The gradient of a linear formula of a tensor of `sizes`, in the dtype of `dy`.
pub fn adjoint<'a>(
    c: &Call<'a>,
    dy: V<'a>,
    sizes: &[i64],
    formula: impl FnOnce(V<'a>) -> Result<V<'a>>,
) -> Outs<'a> {
    let compute = wide(dy.dtype());
    let x = c.math.zeros(compute, sizes);
    let [dx] = pullback(c.math, dy.cast(compute), [x], |[x]| {
        let y = formula(x)?;
        match y.sizes() == dy.sizes() {
            true => Ok(y),
            false => invalid!("expected a gradient of sizes {:?}, got {:?}", y.sizes(), dy.sizes()),
        }
    })?;
    Ok(vec![dx.cast(dy.dtype())])
}

// ---- interpolation

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Nearest,
    /// Nearest to the centre of an element of the result.
    Exact,
    Linear,
    Cubic,
}

/// The elements that contribute to a result, and their weights, in the sizes of the places asked for.
pub struct Tap<'a> {
    pub index: V<'a>,
    /// 1 if there is none.
    pub weight: Option<V<'a>>,
}

/// One dimension, from `from` elements to `to`. Unless `align` is set, `scale` (result per input), if given, determines the
/// distance of neighbours.
pub struct Axis {
    pub from: i64,
    pub to: i64,
    scale: Option<f64>,
    /// Whether the centres of the first and last elements are aligned, rather than their edges.
    align: bool,
}

impl Axis {
    /// The distance of neighbours in the result, in elements of the input.
    pub fn spacing<'a>(&self, math: &'a Math, dtype: DType) -> V<'a> {
        let number = |n: i64| math.constant(n as f64, dtype);
        math.guard(Guard::order(self.to, 1).filter(|_| self.align));
        match self.scale.filter(|&scale| scale > 0.0) {
            _ if self.align && self.to > 1 => number(self.from - 1) / number(self.to - 1),
            _ if self.align => number(0),
            Some(scale) => math.constant(1.0 / scale, dtype),
            None => number(self.from) / number(self.to),
        }
    }

    fn has_scale(&self) -> bool {
        self.scale.is_some_and(|scale| scale != 1.0)
    }

    /// Whether the sizes differ. Where they do not, elements may stay, whatever the scale: no template covers both cases.
    pub fn changes(&self, math: &Math) -> bool {
        math.guard(Guard::order(self.from, self.to).filter(|_| self.has_scale()));
        self.from != self.to
    }

    /// `reach` times the distance of the result's neighbours, rounded up, or `reach` elements of the input if these lie farther
    /// apart.
    pub fn most_reached(&self, math: &Math, reach: i64) -> i64 {
        let scale = self.scale.filter(|&scale| scale > 0.0 && !self.align);
        if let Some(scale) = scale {
            return (reach as f64 * (1.0 / scale).max(1.0)).ceil() as i64;
        }
        let edge = i64::from(self.align);
        let (from, to) = (self.from - edge, self.to - edge);
        if from <= to || to < 1 {
            math.guard((from <= to).then(|| Guard::at_most(from, to)));
            return reach;
        }
        let all = reach.saturating_mul(from);
        let most = all / to + i64::from(all % to != 0);
        let least = (most - 1).saturating_mul(to).saturating_add(1);
        math.guard(Guard::between(least, all, most.saturating_mul(to)));
        most
    }

    /// The places of the result's elements, `[to]`, as PyTorch rounds them in `dtype`.
    fn taps<'a>(&self, math: &'a Math, kind: Kind, dtype: DType) -> Vec<Tap<'a>> {
        let (i, spacing) = (math.iota(&[self.to], 0, dtype), self.spacing(math, dtype));
        let last = (self.from - 1) as f64;
        let place = if self.align { i * spacing } else { (i + 0.5) * spacing - 0.5 };
        let whole = |at: V<'a>| at.unary(Op::Floor).cast(DType::I64).min(last);
        match kind {
            Kind::Nearest => vec![Tap { index: whole(i * spacing), weight: None }],
            Kind::Exact => vec![Tap { index: whole((i + 0.5) * spacing), weight: None }],
            Kind::Linear => {
                let place = place.max(0.0);
                let index = whole(place);
                let rest = (place - index.cast(dtype)).max(0.0).min(1.0);
                let next = (index + 1.0).min(last);
                vec![
                    Tap { index, weight: Some(1.0 - rest) },
                    Tap { index: next, weight: Some(rest) },
                ]
            }
            Kind::Cubic => {
                let floor = place.unary(Op::Floor);
                let index = floor.cast(DType::I64);
                let tap = |(k, weight)| {
                    let index = (index + (k as f64 - 1.0)).max(0.0).min(last);
                    Tap { index, weight: Some(weight) }
                };
                cubic_weights(place - floor).into_iter().enumerate().map(tap).collect()
            }
        }
    }

    /// `x` with this as its dimension `d`.
    fn apply<'a>(&self, x: V<'a>, d: usize, kind: Kind, dtype: DType) -> V<'a> {
        let mut column = Dims::from_elem(1, x.rank());
        column[d] = self.to;
        let element = |tap: &Tap<'a>| {
            let taken = take(x, tap.index, d);
            tap.weight.map_or(taken, |w| taken * w.cast(x.dtype()).reshape(&column))
        };
        let parts = self.taps(x.math(), kind, dtype);
        parts.iter().map(element).reduce(|sum, part| sum + part).unwrap_or(x)
    }
}

/// Weights of the two elements before and the two after a place at distance `t` after the second: Keys' cubic convolution
/// (1981) with a = -0.75.
pub fn cubic_weights(t: V) -> [V; 4] {
    const A: f64 = -0.75;
    let within = |u| ((A + 2.0) * u - (A + 3.0)) * u * u + 1.0;
    let beyond = |u| ((A * u - 5.0 * A) * u + 8.0 * A) * u - 4.0 * A;
    [beyond(t + 1.0), within(t), within(1.0 - t), beyond(2.0 - t)]
}

/// The dimensions after the first two of a tensor of `sizes` that is resized to `to`. Arguments from `first` on: the
/// scales.
pub fn axes(c: &Call, sizes: &[i64], to: &[i64], align: bool, first: usize) -> Result<Vec<Axis>> {
    if sizes.len() != to.len() + 2 || sizes[1..].iter().chain(to).any(|&size| size < 1) {
        return invalid!(
            "Input and output sizes should be greater than 0, but got input of sizes {sizes:?} and output sizes {to:?}"
        );
    }
    let axis = |d: usize| {
        let scale = if c.has(first + d) { Some(c.float(first + d, 0.0)?) } else { None };
        Ok(Axis { from: sizes[d + 2], to: to[d], scale, align })
    };
    (0..to.len()).map(axis).collect()
}

/// `x[n,c,s…]` with dimensions `s` resized to `to`, the last one first. Arguments from `first` on: `align_corners` for kinds
/// that have it, then the scales.
fn interpolated<'a>(
    c: &Call<'a>,
    x: V<'a>,
    to: &[i64],
    first: usize,
    (kind, dtype): (Kind, DType),
) -> Result<V<'a>> {
    let aligns = matches!(kind, Kind::Linear | Kind::Cubic);
    let align = aligns && c.bool(first, false)?;
    let mut y = x;
    for (d, axis) in
        axes(c, &x.sizes(), to, align, first + aligns as usize)?.iter().enumerate().rev()
    {
        if axis.changes(c.math) || axis.has_scale() && kind != Kind::Linear {
            y = axis.apply(y, d + 2, kind, dtype);
            y.math().check()?;
        }
    }
    Ok(y)
}

/// Argument `i`, a list of `n` sizes.
pub fn sizes(c: &Call, i: usize, n: usize) -> Result<Dims> {
    match c.ints(i)? {
        Some(list) if list.len() == n => Ok(list),
        list => invalid!("It is expected that argument {i} has {n} elements, but got {list:?}"),
    }
}

/// `(self, output_size, align_corners if it has them, scales…)`
fn upsample<'a>(c: &Call<'a>, n: usize, kind: Kind) -> Outs<'a> {
    let x = c.tensor(0)?;
    let compute = wide(x.dtype());
    let y = interpolated(c, x.cast(compute), &sizes(c, 1, n)?, 2, (kind, compute))?;
    Ok(vec![y.cast(x.dtype())])
}

/// `(grad_output, output_size, input_size, align_corners if it has them, scales…)`
fn upsample_backward<'a>(c: &Call<'a>, n: usize, kind: Kind) -> Outs<'a> {
    let (dy, to, from) = (c.tensor(0)?, sizes(c, 1, n)?, sizes(c, 2, n + 2)?);
    let compute = wide(dy.dtype());
    adjoint(c, dy, &from, |x| interpolated(c, x, &to, 3, (kind, compute)))
}
