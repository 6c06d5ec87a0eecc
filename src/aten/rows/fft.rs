//! Fourier transforms.

use super::PLAIN;
use super::index::take;
use crate::aten::call::{Call, wrap_dim};
use crate::aten::{Row, complex, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::{Attr, Op};
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    // `(self, dim, normalization, forward)`
    row("_fft_c2c", PLAIN, |c| {
        let x = c.tensor(0)?;
        let dims = dims(c, x)?;
        let y = transformed(x, &dims, !c.bool(3, true)?);
        Ok(vec![scaled(c, y, y, &dims)?])
    })
    .complex(),
    // `(self, dim, normalization, onesided)`: the second half of the last dimension mirrors the first, conjugate.
    row("_fft_r2c", PLAIN, |c| {
        let x = c.tensor(0)?;
        let dims = dims(c, x)?;
        let y = transformed(x.cast(x.dtype().to_complex()), &dims, false);
        let y = scaled(c, y, x, &dims)?;
        let last = dims[dims.len() - 1];
        let half = x.sizes()[last] / 2 + 1;
        Ok(vec![if c.bool(3, true)? { y.narrow(last, 0, half) } else { y }])
    })
    .wide_floats()
    .complex(),
    // `(self, dim, normalization, last_dim_size)`
    row("_fft_c2r", PLAIN, |c| {
        let x = c.tensor(0)?;
        let dims = dims(c, x)?;
        let (last, others) = (dims[dims.len() - 1], &dims[..dims.len() - 1]);
        let lines = whole(transformed(x, others, true), last, c.int(3, 0)?)?;
        let y = transformed(lines, &[last], true);
        Ok(vec![scaled(c, y, y, &dims)?.parts()[0]])
    })
    .floats()
    .complex(),
];

fn dims<'a>(c: &Call<'a>, x: V<'a>) -> Result<Vec<usize>> {
    let dims = c.ints(1)?.unwrap_or_default();
    if dims.is_empty() || x.rank() == 0 {
        return invalid!("a transform needs a dimension");
    }
    dims.iter().map(|&dim| wrap_dim(dim, x.rank())).collect()
}

/// Transforms of complex numbers over dimensions, not normalized.
fn transformed<'a>(x: V<'a>, dims: &[usize], inverse: bool) -> V<'a> {
    let last = x.rank().saturating_sub(1);
    let along = |x: V<'a>, &dim: &usize| {
        let lines = x.swap(dim, last);
        let line = |x: V<'a>| x.math().op(Op::Fft, &[x], smallvec![Attr::Bool(inverse)]);
        complex::by_part([lines], |[pairs]| line(pairs)).swap(dim, last)
    };
    dims.iter().fold(x, along)
}

/// Divides `y` as argument 2 says: 0 not at all, 1 by the root of the number of elements of `signal` over `dims`, 2 by it.
fn scaled<'a>(c: &Call<'a>, y: V<'a>, signal: V<'a>, dims: &[usize]) -> Result<V<'a>> {
    let sizes = signal.sizes();
    // After an error there are no dimensions.
    let n: f64 = dims.iter().filter_map(|&dim| sizes.get(dim)).map(|&n| n as f64).product();
    let factor = match c.int(2, 0)? {
        0 => return Ok(y),
        1 => 1.0 / n.sqrt(),
        2 => 1.0 / n,
        other => return invalid!("Unsupported normalization mode: {other}"),
    };
    Ok(complex::by_part([y], |[y]| y * factor))
}

/// A line of `n` elements whose first half is `x`: the rest is the conjugate of that in reverse.
fn whole<'a>(x: V<'a>, dim: usize, n: i64) -> Result<V<'a>> {
    if n < 1 || x.sizes().get(dim) != Some(&(n / 2 + 1)) {
        return invalid!("Invalid number of data points ({n}) specified");
    }
    let rest = (n - 1) / 2;
    let places = rest as f64 - x.math().iota(&[rest], 0, DType::I64);
    Ok(x.math().concat(&[x, complex::conj(take(x, places, dim))], dim))
}
