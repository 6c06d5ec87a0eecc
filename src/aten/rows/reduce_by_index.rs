//! Reductions of elements into the places that an index names: `scatter_reduce`, `index_reduce`, `scatter` with a reduction.

use super::always;
use super::index::{are_rows_of, at_least_1d, beginning, scattered, sum_dtype};
use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::array::integer_range;
use crate::op::index::Reduction;
use crate::record::Arg;
use crate::shape::Dims;

pub const ROWS: &[Row] = &[
    row("scatter_reduce", &["two", "two_out"], scatter_reduce).refuses(always),
    row("index_reduce", &["", "out"], index_reduce).refuses(always),
    row(
        "scatter",
        &["reduce", "reduce_out", "value_reduce", "value_reduce_out"],
        scatter_with_reduction,
    )
    .refuses(always),
];

/// The reduction with this name; `None` for the mean.
fn named(name: &str) -> Result<Option<Reduction>> {
    Ok(Some(match name {
        "sum" | "add" => Reduction::Sum,
        "mean" => return Ok(None),
        "prod" | "multiply" => Reduction::Product,
        "amax" => Reduction::Max,
        "amin" => Reduction::Min,
        other => {
            return invalid!(
                "reduce argument must be either sum, prod, mean, amax or amin, got {other}"
            );
        }
    }))
}

/// `(self, dim, index, src, reduce, include_self)`; src may be larger than index.
fn scatter_reduce<'a>(c: &Call<'a>) -> Outs<'a> {
    let index = at_least_1d(c.tensor(2)?);
    let source = beginning(at_least_1d(c.tensor(3)?), &index.sizes());
    reduced(c, (index, source), c.bool(5, true)?)
}

/// `(self, dim, index, source, reduce, include_self)`, where index has one dimension.
fn index_reduce<'a>(c: &Call<'a>) -> Outs<'a> {
    let (index, source) = (c.tensor(2)?, at_least_1d(c.tensor(3)?));
    let (dim, sizes) = (c.dim(1, 0, source.rank())?, source.sizes());
    if sizes[dim] != index.numel() {
        return invalid!(
            "index_reduce(): Number of indices ({}) should be equal to self.size(dim), but source has sizes {sizes:?}",
            index.numel()
        );
    }
    are_rows_of(at_least_1d(c.tensor(0)?), dim, &sizes)?;
    let mut column = Dims::from_elem(1, sizes.len());
    column[dim] = index.numel();
    let index = index.reshape(&column).broadcast(&sizes);
    reduced(c, (index, source), c.bool(5, true)?)
}

/// `(self, dim, index, src or value, reduce)`
fn scatter_with_reduction<'a>(c: &Call<'a>) -> Outs<'a> {
    let (index, dtype) = (at_least_1d(c.tensor(2)?), c.ty(0)?.dtype);
    let source = match c.arg(3) {
        Arg::Tensor(_) => beginning(at_least_1d(c.tensor(3)?), &index.sizes()),
        _ => c.number(3, 0.0, dtype)?.broadcast(&index.sizes()),
    };
    reduced(c, (index, source), true)
}

/// Argument 0 with the elements of `source` reduced, as argument 4 says, at the places along dimension argument 1 that
/// `index`, of their sizes, names; with the old elements there, or in their stead.
fn reduced<'a>(c: &Call<'a>, (index, source): (V<'a>, V<'a>), include_self: bool) -> Outs<'a> {
    let (x, how) = (c.tensor(0)?, named(c.text(4)?)?);
    let dim = c.dim(1, 0, x.rank())?;
    if index.numel() == 0 {
        return Ok(vec![x]);
    }
    let compute = sum_dtype(x.dtype());
    let (base, source) = (at_least_1d(x).cast(compute), source.cast(compute));
    let onto = |base: V<'a>, source: V<'a>, how: Reduction| {
        let base = match include_self {
            true => base,
            false => scattered(base, index, neutral(source, how), dim, Reduction::Last),
        };
        scattered(base, index, source, dim, how)
    };
    let y = match how {
        Some(how) => onto(base, source, how),
        None => {
            let ones = |v: V<'a>| c.math.full(1.0, compute, &v.sizes());
            let sum = onto(base, source, Reduction::Sum);
            // Where no element came, the divisor is 1.
            let count = onto(ones(base), ones(source), Reduction::Sum);
            let mean = sum / count;
            if compute.is_float() { mean } else { floored(mean, sum, count) }
        }
    };
    Ok(vec![y.cast(x.dtype()).reshape(&x.sizes())])
}

/// The neutral element of a reduction, in the type of `x`.
fn neutral<'a>(x: V<'a>, how: Reduction) -> V<'a> {
    let (math, dtype) = (x.math(), x.dtype());
    let (least, greatest) = match dtype.is_float() {
        true => (math.constant(f64::NEG_INFINITY, dtype), math.constant(f64::INFINITY, dtype)),
        false => {
            let (least, greatest) = integer_range(dtype);
            (math.constant_int(least, dtype), math.constant_int(greatest, dtype))
        }
    };
    let number = match how {
        Reduction::Last | Reduction::Sum => math.constant(0.0, dtype),
        Reduction::Product => math.constant(1.0, dtype),
        Reduction::Max => least,
        Reduction::Min => greatest,
    };
    number.broadcast(&x.sizes())
}

/// A quotient that was rounded towards zero, rounded down. The divisor is positive.
fn floored<'a>(quotient: V<'a>, dividend: V<'a>, divisor: V<'a>) -> V<'a> {
    let is_above = (quotient * divisor).gt(dividend);
    quotient - is_above.cast(quotient.dtype())
}
