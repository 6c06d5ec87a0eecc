//! Elements that are reduced where an index says: `scatter_reduce`, `index_reduce`, and `scatter` with a reduction.

use super::always;
use super::index::{at_least_1d, scattered, sum_dtype};
use super::order::first;
use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::{Attr, Op};
use crate::record::Arg;
use crate::shape::Dims;
use smallvec::smallvec;

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

#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    Sum,
    Mean,
    Product,
    Largest,
    Smallest,
}

impl Reduction {
    fn named(name: &str) -> Result<Reduction> {
        Ok(match name {
            "sum" | "add" => Reduction::Sum,
            "mean" => Reduction::Mean,
            "prod" | "multiply" => Reduction::Product,
            "amax" => Reduction::Largest,
            "amin" => Reduction::Smallest,
            other => {
                return invalid!(
                    "reduce argument must be either sum, prod, mean, amax or amin, got {other}"
                );
            }
        })
    }
}

/// `(self, dim, index, src, reduce, include_self)`; src may be larger than index.
fn scatter_reduce<'a>(c: &Call<'a>) -> Outs<'a> {
    let index = at_least_1d(c.tensor(2)?);
    let source = beginning(at_least_1d(c.tensor(3)?), &index.sizes());
    reduced(c, (index, source), Reduction::named(c.text(4)?)?, c.bool(5, true)?)
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
    let mut column = Dims::from_elem(1, sizes.len());
    column[dim] = index.numel();
    let index = index.reshape(&column).broadcast(&sizes);
    reduced(c, (index, source), Reduction::named(c.text(4)?)?, c.bool(5, true)?)
}

/// `(self, dim, index, src or value, reduce)`
fn scatter_with_reduction<'a>(c: &Call<'a>) -> Outs<'a> {
    let (index, dtype) = (at_least_1d(c.tensor(2)?), c.ty(0)?.dtype);
    let source = match c.arg(3) {
        Arg::Tensor(_) => beginning(at_least_1d(c.tensor(3)?), &index.sizes()),
        _ => c.number(3, 0.0, dtype)?.broadcast(&index.sizes()),
    };
    reduced(c, (index, source), Reduction::named(c.text(4)?)?, true)
}

fn beginning<'a>(x: V<'a>, sizes: &[i64]) -> V<'a> {
    let rank = x.rank();
    x.slice(&Dims::from_elem(0, rank), sizes, &Dims::from_elem(1, rank))
}

/// Argument 0 with the elements of `source`, reduced where `index`, of their sizes, names one place along argument 1; with
/// what was there, or in its stead.
fn reduced<'a>(
    c: &Call<'a>,
    (index, source): (V<'a>, V<'a>),
    how: Reduction,
    include_self: bool,
) -> Outs<'a> {
    let x = c.tensor(0)?;
    let dim = c.dim(1, 0, x.rank())?;
    if index.numel() == 0 {
        return Ok(vec![x]);
    }
    let compute = sum_dtype(x.dtype());
    let (base, source) = (at_least_1d(x).cast(compute), source.cast(compute));
    if index.rank() != base.rank() || source.sizes() != index.sizes() {
        return invalid!(
            "Index tensor must have the same number of dimensions as self tensor and be no larger than src: {:?}, {:?} and {:?}",
            index.sizes(),
            base.sizes(),
            source.sizes()
        );
    }
    let y = match how {
        Reduction::Sum => summed(base, index, source, dim, include_self),
        Reduction::Mean => {
            let sum = summed(base, index, source, dim, include_self);
            let ones = |v: V<'a>| c.math.full(1.0, compute, &v.sizes());
            // Where nothing came, one divides.
            let count = summed(ones(base), index, ones(source), dim, include_self);
            let mean = sum / count;
            if compute.is_float() { mean } else { floored(mean, sum, count) }
        }
        Reduction::Product => in_turn(base, index, source, dim, include_self, |a, b| a * b)?,
        Reduction::Largest => in_turn(base, index, source, dim, include_self, |a, b| a.max(b))?,
        Reduction::Smallest => in_turn(base, index, source, dim, include_self, |a, b| a.min(b))?,
    };
    Ok(vec![y.cast(x.dtype()).reshape(&x.sizes())])
}

fn summed<'a>(base: V<'a>, index: V<'a>, x: V<'a>, dim: usize, include_self: bool) -> V<'a> {
    let nothing = || base.math().zeros(x.dtype(), &x.sizes());
    let base = if include_self { base } else { scattered(base, index, nothing(), dim, false) };
    scattered(base, index, x, dim, true)
}

/// A quotient that was rounded towards zero, rounded down. The divisor is positive.
fn floored<'a>(quotient: V<'a>, dividend: V<'a>, divisor: V<'a>) -> V<'a> {
    let is_above = (quotient * divisor).gt(dividend);
    quotient - is_above.cast(quotient.dtype())
}

/// With what has the same index side by side, every element is combined with all before it that have its index, in steps of
/// 1, 2, 4, …; the last of them, which stays where several are written, is the whole.
fn in_turn<'a>(
    base: V<'a>,
    index: V<'a>,
    x: V<'a>,
    dim: usize,
    include_self: bool,
    combine: impl Fn(V<'a>, V<'a>) -> V<'a>,
) -> Result<V<'a>> {
    let (math, n) = (base.math(), index.sizes()[dim]);
    let gather =
        |from: V<'a>, at: V<'a>| math.op(Op::Gather, &[from, at], smallvec![Attr::Int(dim as i64)]);
    let [index, from] = first(index.cast(DType::I64), dim, n, false)?;
    let mut y = gather(x, from);
    let mut step = 1;
    while step < n {
        let [last, before] = [step, 0]
            .map(|start| (y.narrow(dim, start, n - step), index.narrow(dim, start, n - step)));
        let joined = last.1.eq(before.1).select(combine(before.0, last.0), last.0);
        y = math.concat(&[y.narrow(dim, 0, step), joined], dim);
        step = step.saturating_mul(2);
    }
    if include_self {
        y = combine(gather(base, index), y);
    }
    Ok(scattered(base, index, y, dim, false))
}
