//! Interpolation to smaller sizes without aliasing: the filter is as wide as the distance between elements of the result.
//! Each dimension is summed in windows.

use super::index::take;
use super::resample::{Axis, adjoint, axes, sizes};
use super::{BACKWARD, PLAIN};
use crate::aten::call::{Call, wide};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::op::{Attr, Op};
use crate::shape::Dims;
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("_upsample_bilinear2d_aa", PLAIN, |c| upsample(c, TENT)).fixed(&[2, 3, 4]).floats(),
    row("_upsample_bicubic2d_aa", PLAIN, |c| upsample(c, CUBIC)).fixed(&[2, 3, 4]).floats(),
    row("_upsample_bilinear2d_aa_backward", BACKWARD, |c| upsample_backward(c, TENT))
        .fixed(&[3, 4, 5])
        .floats(),
    row("_upsample_bicubic2d_aa_backward", BACKWARD, |c| upsample_backward(c, CUBIC))
        .fixed(&[3, 4, 5])
        .floats(),
];

/// Weight of an element by its distance in units of the filter's width, and the distance from which on it is 0.
#[derive(Clone, Copy)]
struct Filter {
    weight: for<'a> fn(V<'a>) -> V<'a>,
    reach: i64,
}

const TENT: Filter = Filter { weight: |far| (1.0 - far).max(0.0), reach: 1 };
/// Keys' cubic convolution (1981) with a = -0.5.
const CUBIC: Filter = Filter { weight: cubic, reach: 2 };

fn cubic(far: V) -> V {
    const A: f64 = -0.5;
    let within = ((A + 2.0) * far - (A + 3.0)) * far * far + 1.0;
    let beyond = ((A * far - 5.0 * A) * far + 8.0 * A) * far - 4.0 * A;
    far.lt(1.0).select(within, far.lt(2.0).select(beyond, 0.0))
}

/// Windows of at most this many elements are unrolled, so that their sums are one loop and no window is stored.
const FEW: i64 = 64;

/// Weighted sums over dimension `d` of `x`, in a window for each element of the result. Elements outside of it are left out,
/// not multiplied by 0: 0 times infinity would be NaN.
fn filtered<'a>(x: V<'a>, d: usize, axis: &Axis, filter: Filter) -> Result<V<'a>> {
    let (math, dtype) = (x.math(), x.dtype());
    math.check()?;
    let longest = axis.most_reached(math, filter.reach).saturating_mul(2).saturating_add(1);
    let spacing = axis.spacing(math, dtype);
    let width = spacing.max(1.0);
    let reach = width * filter.reach as f64;
    let centre = (math.iota(&[axis.to, 1], 0, dtype) + 0.5) * spacing;
    let whole = |place: V<'a>| place.max(0.0).unary(Op::Floor).cast(DType::I64);
    let end = whole(centre + reach + 0.5).min(axis.from as f64);
    let at = whole(centre - reach + 0.5) + math.iota(&[axis.to, longest], 1, DType::I64);
    let is_within = at.lt(end);
    let far = (at.cast(dtype) + 0.5 - centre) / width;
    let weights = is_within.select((filter.weight)(far.abs()), 0.0);
    let weights = weights / weights.reduce(Op::Sum, &[1], true);
    let index = at.min((axis.from - 1) as f64);
    let sums = if longest <= FEW {
        let mut column = Dims::from_elem(1, x.rank());
        column[d] = axis.to;
        let part = |k: i64| {
            let of = |all: V<'a>| all.narrow(1, k, 1);
            let element = take(x, of(index).reshape(&[axis.to]), d) * of(weights).reshape(&column);
            of(is_within).reshape(&column).select(element, 0.0)
        };
        (1..longest).fold(part(0), |sum, k| sum + part(k))
    } else {
        let mut sizes: Dims = smallvec![1; x.rank() + 1];
        (sizes[d], sizes[d + 1]) = (axis.to, longest);
        let elements = math.op(Op::Take, &[x, index], smallvec![Attr::Int(d as i64)]);
        let parts = elements * weights.reshape(&sizes);
        is_within.reshape(&sizes).select(parts, 0.0).reduce(Op::Sum, &[d as i64 + 1], false)
    };
    math.check().map(|()| sums)
}

/// `x[n,c,h,w]` in the sizes `to`. Arguments from `first` on: `align_corners`, then the scales. A dimension whose size stays is
/// left as it is, whatever the scale, but, as in PyTorch, not for the gradient.
fn resized<'a>(
    c: &Call<'a>,
    x: V<'a>,
    to: &[i64],
    first: usize,
    (filter, leaves_sizes): (Filter, bool),
) -> Result<V<'a>> {
    let mut y = x;
    let align = c.bool(first, false)?;
    for (d, axis) in axes(c, &x.sizes(), to, align, first + 1)?.iter().enumerate().rev() {
        if !leaves_sizes || axis.changes(c.math) {
            y = filtered(y, d + 2, axis, filter)?;
        }
    }
    Ok(y)
}

/// `(self, output_size, align_corners, scales_h, scales_w)`
fn upsample<'a>(c: &Call<'a>, filter: Filter) -> Outs<'a> {
    let x = c.tensor(0)?;
    let y = resized(c, x.cast(wide(x.dtype())), &sizes(c, 1, 2)?, 2, (filter, true))?;
    Ok(vec![y.cast(x.dtype())])
}

/// `(grad_output, output_size, input_size, align_corners, scales_h, scales_w)`
fn upsample_backward<'a>(c: &Call<'a>, filter: Filter) -> Outs<'a> {
    let (dy, to, from) = (c.tensor(0)?, sizes(c, 1, 2)?, sizes(c, 2, 4)?);
    adjoint(c, dy, &from, |x| resized(c, x, &to, 3, (filter, false)))
}
