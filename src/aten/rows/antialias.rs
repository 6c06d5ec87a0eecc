//! Interpolation to smaller sizes without aliasing: the filter is as wide as the elements of the result lie apart. Each
//! dimension is a product with a matrix of weights.

use super::resample::{Axis, adjoint, axes, sizes};
use super::{BACKWARD, PLAIN};
use crate::aten::call::{Call, wide};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{Math, V};
use crate::op::Op;

pub const ROWS: &[Row] = &[
    row("_upsample_bilinear2d_aa", PLAIN, |c| upsample(c, tent)).fixed(&[2, 3, 4]).floats(),
    row("_upsample_bicubic2d_aa", PLAIN, |c| upsample(c, cubic)).fixed(&[2, 3, 4]).floats(),
    row("_upsample_bilinear2d_aa_backward", BACKWARD, |c| upsample_backward(c, tent))
        .fixed(&[3, 4, 5])
        .floats(),
    row("_upsample_bicubic2d_aa_backward", BACKWARD, |c| upsample_backward(c, cubic))
        .fixed(&[3, 4, 5])
        .floats(),
];

/// What an element weighs at a distance, in units of the filter's width.
type Filter = for<'a> fn(V<'a>) -> V<'a>;

fn tent(far: V) -> V {
    (1.0 - far).max(0.0)
}

/// Keys' cubic convolution (1981) with a = -0.5.
fn cubic(far: V) -> V {
    const A: f64 = -0.5;
    let within = ((A + 2.0) * far - (A + 3.0)) * far * far + 1.0;
    let beyond = ((A * far - 5.0 * A) * far + 8.0 * A) * far - 4.0 * A;
    far.lt(1.0).select(within, far.lt(2.0).select(beyond, 0.0))
}

/// How much of each element of the input is in each of the result's: `[to, from]`.
fn weights<'a>(axis: &Axis, math: &'a Math, filter: Filter, dtype: DType) -> V<'a> {
    let (rows, columns) = (&[axis.to, 1], &[1, axis.from]);
    let spacing = axis.spacing(math, dtype);
    let centre = (math.iota(rows, 0, dtype) + 0.5) * spacing;
    let far = (math.iota(columns, 1, dtype) + 0.5 - centre) / spacing.max(1.0);
    let weights = filter(far.abs());
    weights / weights.reduce(Op::Sum, &[1], true)
}

/// `x[n,c,h,w]` of the sizes `to`. Arguments from `first` on: `align_corners`, then the scales.
fn resized<'a>(c: &Call<'a>, x: V<'a>, to: &[i64], first: usize, filter: Filter) -> Result<V<'a>> {
    let mut y = x;
    let align = c.bool(first, false)?;
    for (d, axis) in axes(c, &x.sizes(), to, align, first + 1)?.iter().enumerate().rev() {
        let last = x.rank() - 1;
        let weights = weights(axis, x.math(), filter, x.dtype()).swap(0, 1);
        y = y.swap(d + 2, last);
        y.math().check()?;
        let mut sizes = y.sizes();
        y = y.reshape(&[y.numel() / axis.from, axis.from]).matmul(weights);
        sizes[last] = axis.to;
        y = y.reshape(&sizes).swap(d + 2, last);
        y.math().check()?;
    }
    Ok(y)
}

/// `(self, output_size, align_corners, scales_h, scales_w)`
fn upsample<'a>(c: &Call<'a>, filter: Filter) -> Outs<'a> {
    let x = c.tensor(0)?;
    let y = resized(c, x.cast(wide(x.dtype())), &sizes(c, 1, 2)?, 2, filter)?;
    Ok(vec![y.cast(x.dtype())])
}

/// `(grad_output, output_size, input_size, align_corners, scales_h, scales_w)`
fn upsample_backward<'a>(c: &Call<'a>, filter: Filter) -> Outs<'a> {
    let (dy, to, from) = (c.tensor(0)?, sizes(c, 1, 2)?, sizes(c, 2, 4)?);
    adjoint(c, dy, &from, |x| resized(c, x, &to, 3, filter))
}
