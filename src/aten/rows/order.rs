//! Sorting, and elements by their rank. Equal elements stay in the order of their indices; NaN is the largest of all.

use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::{Attr, Op};
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("sort", &["", "values"], |c| sorted(c, 1)),
    row("sort", &["stable", "values_stable"], |c| sorted(c, 2)),
    row("argsort", &["stable", "stable_out"], |c| Ok(vec![sorted(c, 2)?[1]])),
    row("topk", &["", "values"], |c| {
        let x = c.tensor(0)?;
        let (k, dim) = (c.int(1, 1)?, c.dim(2, -1, x.rank())?);
        Ok(first(x, dim, k, c.bool(3, true)?)?.into())
    })
    .numbers(),
    row("kthvalue", &["", "values"], |c| {
        let x = c.tensor(0)?;
        Ok(of_rank(x, c.int(1, 1)?, c.dim(2, -1, x.rank())?, c.bool(3, false)?)?.into())
    })
    .numbers(),
    row("median", &["", "out"], |c| of_all(c, median)),
    row("median", &["dim", "dim_values"], |c| along(c, median)),
    row("nanmedian", &["", "out"], |c| of_all(c, median_of_numbers)).numbers(),
    row("nanmedian", &["dim", "dim_values"], |c| along(c, median_of_numbers)).numbers(),
];

/// The first `k` elements along `dim` and their places; for a scalar, that one whatever `k`, as in PyTorch.
fn first(x: V, dim: usize, k: i64, largest: bool) -> Result<[V; 2]> {
    let (math, dtype, is_number) = (x.math(), x.dtype(), x.rank() == 0);
    let (line, k) = if is_number { (x.reshape(&[1]), 1) } else { (x, k) };
    let computed = if dtype == DType::Bool { line.cast(DType::U8) } else { line };
    let attrs = smallvec![Attr::Int(dim as i64), Attr::Int(k), Attr::Bool(largest)];
    let [values, places] = math.ops(Op::TopK, &[computed], attrs)?[..] else {
        return crate::internal!("a sort without two results");
    };
    let shaped = |v: V<'_>| if is_number { v.reshape(&[]).id } else { v.id };
    Ok([shaped(values.cast(dtype)), shaped(places)].map(|id| math.wrap(id)))
}

/// Arguments from `at` on: `dim, descending`.
fn sorted<'a>(c: &Call<'a>, at: usize) -> Outs<'a> {
    let x = c.tensor(0)?;
    let dim = c.dim(at, -1, x.rank())?;
    let size = x.sizes().get(dim).copied().unwrap_or(1);
    Ok(first(x, dim, size, c.bool(at + 1, false)?)?.into())
}

/// The `k`-th smallest element, from 1, and its place; the dimension is dropped unless `keep` is set.
fn of_rank(x: V, k: i64, dim: usize, keep: bool) -> Result<[V; 2]> {
    let size = x.sizes().get(dim).copied().unwrap_or(1);
    if !(1..=size).contains(&k) {
        return invalid!(
            "kthvalue(): selected number k out of range for dimension {dim}: {k} of {size}"
        );
    }
    if x.rank() == 0 {
        return first(x, dim, 1, false);
    }
    let last = |v: V<'_>| {
        let one = v.narrow(dim, k - 1, 1);
        let mut sizes = one.sizes();
        sizes.remove(dim);
        if keep { one.id } else { one.reshape(&sizes).id }
    };
    let found = first(x, dim, k, false)?.map(last);
    Ok(found.map(|id| x.math().wrap(id)))
}

fn int(x: V<'_>, number: i64) -> V<'_> {
    x.math().constant_int(number, DType::I64)
}

/// A median and its place, of a tensor along a dimension, which is dropped unless the flag says to keep it.
type Median<'a> = fn(V<'a>, usize, bool) -> Result<[V<'a>; 2]>;

fn of_all<'a>(c: &Call<'a>, median: Median<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    if x.numel() == 0 {
        return Ok(vec![c.math.constant(f64::NAN, DType::F32).cast(x.dtype())]);
    }
    Ok(vec![median(x.reshape(&[x.numel()]), 0, false)?[0]])
}

/// `(self, dim, keepdim)`
fn along<'a>(c: &Call<'a>, median: Median<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    Ok(median(x, c.dim(1, 0, x.rank())?, c.bool(2, false)?)?.into())
}

/// The lower of the two middle elements; the first NaN if there is one.
fn median(x: V, dim: usize, keep: bool) -> Result<[V; 2]> {
    let size = x.sizes().get(dim).copied().unwrap_or(1);
    if size == 0 {
        return invalid!("median(): Expected reduction dim {dim} to have non-zero size.");
    }
    if x.rank() == 0 {
        return first(x, dim, 1, false);
    }
    // Half of the size is computed at run time: as an attribute it would not be a polynomial of the size, and each size would
    // need a program of its own.
    let middle = (x.math().iota(&[1], 0, DType::I64) + int(x, size - 1)) / int(x, 2);
    let at_middle = |v: V<'_>| {
        let one = x.math().op(Op::Take, &[v, middle], smallvec![Attr::Int(dim as i64)]);
        let mut sizes = one.sizes();
        sizes.remove(dim);
        if keep { one.id } else { one.reshape(&sizes).id }
    };
    let [value, place] = first(x, dim, size, false)?.map(at_middle).map(|id| x.math().wrap(id));
    if !x.dtype().is_float() {
        return Ok([value, place]);
    }
    let first_nan = x.math().op(Op::ArgMax, &[x], smallvec![Attr::Int(dim as i64)]);
    let first_nan = if keep { first_nan.unsqueeze(dim) } else { first_nan };
    let has_nan = x.ne(x).reduce(Op::Any, &[dim as i64], keep);
    let nan = x.math().constant(f64::NAN, x.dtype());
    Ok([has_nan.select(nan, value), has_nan.select(first_nan, place)])
}

/// As [`median`], ignoring NaN; NaN if there is nothing else.
fn median_of_numbers(x: V, dim: usize, keep: bool) -> Result<[V; 2]> {
    let size = x.sizes().get(dim).copied().unwrap_or(1);
    if !x.dtype().is_float() || x.rank() == 0 || size == 0 {
        return median(x, dim, keep);
    }
    let math = x.math();
    let count = x.eq(x).cast(DType::I64).reduce(Op::Sum, &[dim as i64], true);
    let middle = (count - 1.0).max(0.0) / int(x, 2);
    let at_middle = |v: V<'_>| {
        let one = math.op(Op::Gather, &[v, middle], smallvec![Attr::Int(dim as i64)]);
        let mut sizes = one.sizes();
        sizes.remove(dim);
        if keep { one.id } else { one.reshape(&sizes).id }
    };
    Ok(first(x, dim, size, false)?.map(at_middle).map(|id| math.wrap(id)))
}
