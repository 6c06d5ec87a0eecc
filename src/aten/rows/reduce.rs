//! Reductions, and scans along one dimension.

use super::elementary::log_add_exp;
use super::index::at_least_1d;
use super::{PLAIN, always, moving};
use crate::aten::call::{Call, wide, wrap_dim};
use crate::aten::{Outs, Row, complex, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::grad::{of_cumprod, of_prod, places_of_cummax};
use crate::graph::Guard;
use crate::graph::math::V;
use crate::invalid;
use crate::op::expect::Expectation;
use crate::op::{Attr, Op};
use crate::shape::Dims;
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("sum", PLAIN, |c| sum(c, c.tensor(0)?, Op::Sum, None, false, c.dtype(1)?)).complex(),
    row("sum", &["dim_IntList", "IntList_out"], |c| {
        sum(c, c.tensor(0)?, Op::Sum, Some(1), c.bool(2, false)?, c.dtype(3)?)
    })
    .complex(),
    row("nansum", PLAIN, |c| {
        let x = c.tensor(0)?;
        sum(c, x.eq(x).select(x, 0.0), Op::Sum, Some(1), c.bool(2, false)?, c.dtype(3)?)
    }),
    row("count_nonzero", &["dim_IntList", "dim_IntList_out"], |c| {
        let x = c.tensor(0)?;
        let is_some = match x.dtype().is_complex() {
            true => complex::any_part(x, |part| part.ne(0.0)),
            false => x.cast(DType::Bool),
        };
        Ok(vec![is_some.cast(DType::I64).reduce(Op::Sum, &axes(c, Some(1), x.rank())?, false)])
    })
    .complex(),
    row("trace", PLAIN, trace).complex(),
    row("histc", PLAIN, histc).fixed(&[2, 3]).refuses(always).numbers(),
    row("prod", PLAIN, |c| sum(c, c.tensor(0)?, Op::Prod, None, false, c.dtype(1)?)),
    row("prod", &["dim_int", "int_out"], |c| {
        sum(c, c.tensor(0)?, Op::Prod, Some(1), c.bool(2, false)?, c.dtype(3)?)
    }),
    row("mean", &["", "dtype_out"], |c| mean(c, None, false, c.dtype(1)?)).complex(),
    row("mean", &["dim", "out"], |c| mean(c, Some(1), c.bool(2, false)?, c.dtype(3)?)).complex(),
    row("amax", PLAIN, |c| extreme(c, Op::ReduceMax, Some(1), c.bool(2, false)?)),
    row("amin", PLAIN, |c| extreme(c, Op::ReduceMin, Some(1), c.bool(2, false)?)),
    row("aminmax", PLAIN, |c| {
        let x = c.tensor(0)?;
        let axes = match c.has(1) {
            true => wrap_dims(&[c.int(1, 0)?], x.rank())?,
            false => axes(c, None, x.rank())?,
        };
        let keep = c.bool(2, false)?;
        Ok([Op::ReduceMin, Op::ReduceMax].map(|op| x.reduce(op, &axes, keep)).to_vec())
    }),
    row("max", &["", "unary_out"], |c| extreme(c, Op::ReduceMax, None, false)),
    row("min", &["", "unary_out"], |c| extreme(c, Op::ReduceMin, None, false)),
    row("max", &["dim", "dim_max"], |c| extreme_and_place(c, Op::ReduceMax, Op::ArgMax)),
    row("min", &["dim", "dim_min"], |c| extreme_and_place(c, Op::ReduceMin, Op::ArgMin)),
    row("argmax", PLAIN, |c| place_of(c, Op::ArgMax)),
    row("argmin", PLAIN, |c| place_of(c, Op::ArgMin)),
    row("any", &["", "all_out"], |c| logical(c, Op::Any, Axes::All)).complex(),
    row("any", &["dim", "out"], |c| logical(c, Op::Any, Axes::Argument)).complex(),
    row("any", &["dims", "dims_out"], |c| logical(c, Op::Any, Axes::Argument)).complex(),
    row("all", &["", "all_out"], |c| logical(c, Op::All, Axes::All)).complex(),
    row("all", &["dim", "out"], |c| logical(c, Op::All, Axes::Argument)).complex(),
    row("all", &["dims", "dims_out"], |c| logical(c, Op::All, Axes::Argument)).complex(),
    row("var", &["correction", "correction_out"], |c| Ok(vec![variance(c)?.0]))
        .fixed(&[2])
        .complex(),
    row("std", &["correction", "correction_out"], |c| Ok(vec![deviation(c)?.0]))
        .fixed(&[2])
        .complex(),
    row("var_mean", &["correction", "correction_out"], |c| {
        let (variance, mean) = variance(c)?;
        Ok(vec![variance, mean])
    })
    .fixed(&[2])
    .complex(),
    row("std_mean", &["correction", "correction_out"], |c| {
        let (deviation, mean) = deviation(c)?;
        Ok(vec![deviation, mean])
    })
    .fixed(&[2])
    .complex(),
    row("linalg_vector_norm", PLAIN, |c| norm(c, c.float(1, 2.0)?, c.dtype(4)?))
        .fixed(&[1])
        .complex(),
    row("renorm", PLAIN, renorm).fixed(&[1, 3]),
    row("norm", &["ScalarOpt_dim", "out"], |c| norm(c, c.float(1, 2.0)?, None))
        .fixed(&[1])
        .complex(),
    row("norm", &["ScalarOpt_dim_dtype", "dtype_out"], |c| norm(c, c.float(1, 2.0)?, c.dtype(4)?))
        .fixed(&[1])
        .complex(),
    row("cumsum", PLAIN, |c| running(c, Op::CumSum)).complex(),
    row("cumprod", PLAIN, |c| running(c, Op::CumProd)),
    row("torchacc::prod_backward", &[""], prod_backward).floats(),
    // `(grad, input, dim, output)`
    row("cumprod_backward", &[""], |c| {
        let (dy, x) = (c.tensor(0)?, c.tensor(1)?);
        let dim = c.dim(2, 0, x.rank())? as i64;
        if dy.sizes() != x.sizes() || ![dy, x].iter().all(|v| v.dtype().is_float()) {
            return invalid!(
                "cumprod_backward: expected floats of equal sizes, {:?} and {:?}",
                dy.ty(),
                x.ty()
            );
        }
        let dx = of_cumprod(at_least_1d(x), at_least_1d(dy), dim);
        Ok(vec![dx.reshape(&x.sizes())])
    })
    .floats(),
    row("cummax", PLAIN, |c| running_extreme(c, |x| x)),
    row("cummin", PLAIN, |c| running_extreme(c, reversed)),
    row("logcumsumexp", PLAIN, logcumsumexp).floats(),
    row("logsumexp", PLAIN, logsumexp),
];

/// The dimensions listed in argument `i`; all when it is absent or empty (or `i` is `None`).
fn axes(c: &Call, i: Option<usize>, rank: usize) -> Result<Dims> {
    let listed = i.map_or(Ok(None), |i| c.ints(i))?.unwrap_or_default();
    if listed.is_empty() { Ok((0..rank as i64).collect()) } else { wrap_dims(&listed, rank) }
}

fn wrap_dims(listed: &[i64], rank: usize) -> Result<Dims> {
    let mut found = Dims::new();
    for &dim in listed {
        let dim = wrap_dim(dim, rank)? as i64;
        if found.contains(&dim) {
            return invalid!("dim {dim} appears multiple times in the list of dims");
        }
        found.push(dim);
    }
    // The one dimension of a scalar is not a real one.
    Ok(if rank == 0 { Dims::new() } else { found })
}

/// Number of elements of `x` that go into one of the result.
fn count(x: V, axes: &[i64]) -> f64 {
    let sizes = x.sizes();
    axes.iter().map(|&a| sizes[a as usize] as f64).product()
}

/// Sums over `axes` of numbers, or of each part of complex ones.
fn total<'a>(x: V<'a>, axes: &[i64], keep: bool) -> V<'a> {
    match x.dtype().is_complex() {
        true => complex::by_part([x], |[x]| x.reduce(Op::Sum, axes, keep)),
        false => x.reduce(Op::Sum, axes, keep),
    }
}

/// Integers and bools are summed in i64, unless the caller names a dtype or an `out=` of one.
fn sum_dtype(c: &Call, x: DType, asked: Option<DType>) -> DType {
    let natural = if x.is_float() || x.is_complex() { x } else { DType::I64 };
    let given = c.out(0).map(|ty| ty.dtype);
    asked.or(given).unwrap_or(natural)
}

fn sum<'a>(
    c: &Call<'a>,
    x: V<'a>,
    op: Op,
    dims: Option<usize>,
    keep: bool,
    dtype: Option<DType>,
) -> Outs<'a> {
    let dtype = sum_dtype(c, x.dtype(), dtype);
    let axes = axes(c, dims, x.rank())?;
    if dtype == DType::Bool {
        let logical = if op == Op::Sum { Op::Any } else { Op::All };
        return Ok(vec![x.cast(dtype).reduce(logical, &axes, keep)]);
    }
    if op == Op::Sum {
        return Ok(vec![total(x.cast(dtype), &axes, keep)]);
    }
    Ok(vec![x.cast(dtype).reduce(op, &axes, keep)])
}

fn mean<'a>(c: &Call<'a>, dims: Option<usize>, keep: bool, dtype: Option<DType>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let dtype = dtype.or(c.out(0).map(|ty| ty.dtype)).unwrap_or(x.dtype());
    if !dtype.is_float() && !dtype.is_complex() {
        return invalid!("mean(): the dtype should be floating point or complex, got {dtype}");
    }
    let axes = axes(c, dims, x.rank())?;
    let n = count(x, &axes);
    let sum = total(x.cast(dtype).cast(wide(dtype)), &axes, keep);
    Ok(vec![match dtype.is_complex() {
        true => complex::by_part([sum], |[sum]| sum / n),
        false => (sum / n).cast(dtype),
    }])
}

fn extreme<'a>(c: &Call<'a>, op: Op, dims: Option<usize>, keep: bool) -> Outs<'a> {
    let x = c.tensor(0)?;
    Ok(vec![x.reduce(op, &axes(c, dims, x.rank())?, keep)])
}

/// Index of the extreme element along `dim`.
fn place<'a>(x: V<'a>, op: Op, dim: usize, keep: bool) -> V<'a> {
    let x = if x.dtype() == DType::Bool { x.cast(DType::U8) } else { x };
    let found = x.math().op(op, &[at_least_1d(x)], smallvec![Attr::Int(dim as i64)]);
    if keep && x.rank() > 0 { found.unsqueeze(dim) } else { found }
}

fn extreme_and_place<'a>(c: &Call<'a>, value: Op, index: Op) -> Outs<'a> {
    let x = c.tensor(0)?;
    let (dim, keep) = (c.dim(1, 0, x.rank())?, c.bool(2, false)?);
    let axes: &[i64] = if x.rank() == 0 { &[] } else { &[dim as i64] };
    let place = place(x, index, dim, keep);
    if c.is_differentiated() && x.rank() > 0 {
        // The gradient goes to the element that is named, not to all that are equal.
        let at = if keep { place } else { place.unsqueeze(dim) };
        let chosen = c.math.op(Op::Gather, &[x, at], smallvec![Attr::Int(dim as i64)]);
        return Ok(vec![chosen.reshape(&place.sizes()), place]);
    }
    Ok(vec![x.reduce(value, axes, keep), place])
}

fn place_of<'a>(c: &Call<'a>, op: Op) -> Outs<'a> {
    let x = c.tensor(0)?;
    let keep = c.bool(2, false)?;
    if c.has(1) {
        return Ok(vec![place(x, op, c.dim(1, 0, x.rank())?, keep)]);
    }
    let found = place(x.reshape(&[x.numel()]), op, 0, false);
    let kept = Dims::from_elem(1, if keep { x.rank() } else { 0 });
    Ok(vec![found.reshape(&kept)])
}

enum Axes {
    All,
    /// Argument 1: absent means all, an empty list none.
    Argument,
}

fn logical<'a>(c: &Call<'a>, op: Op, which: Axes) -> Outs<'a> {
    let x = c.tensor(0)?;
    let axes = match which {
        Axes::Argument if c.has(1) => wrap_dims(&c.ints(1)?.unwrap_or_default(), x.rank())?,
        _ => (0..x.rank() as i64).collect(),
    };
    let keep = matches!(which, Axes::Argument) && c.bool(2, false)?;
    if let Some(out) = c.out(0).filter(|out| !matches!(out.dtype, DType::Bool | DType::U8)) {
        let name = if op == Op::All { "all" } else { "any" };
        return invalid!("{name} only supports bool tensor for result, got: {}", out.dtype);
    }
    // PyTorch returns u8 for u8.
    let dtype = if x.dtype() == DType::U8 { DType::U8 } else { DType::Bool };
    Ok(vec![x.cast(DType::Bool).reduce(op, &axes, keep).cast(dtype)])
}

/// Variance over the dimensions of argument 1 with the correction of argument 2, and the mean.
fn variance<'a>(c: &Call<'a>) -> Result<(V<'a>, V<'a>)> {
    let (variance, mean, dtype) = moments(c)?;
    Ok((variance.cast(dtype), mean))
}

fn deviation<'a>(c: &Call<'a>) -> Result<(V<'a>, V<'a>)> {
    let (variance, mean, dtype) = moments(c)?;
    Ok((still_at_zero(c, variance).sqrt().cast(dtype), mean))
}

/// `x`, without a slope at 0: the slope of a root is infinite there, and PyTorch's norms and deviations
/// have none.
pub fn still_at_zero<'a>(c: &Call<'a>, x: V<'a>) -> V<'a> {
    moving(c, x, |x| x.ne(0.0))
}

/// Variance in the dtype of computation, the mean, and the dtype of the variance: real even for complex numbers, whose
/// distance from the mean counts.
fn moments<'a>(c: &Call<'a>) -> Result<(V<'a>, V<'a>, DType)> {
    let x = c.tensor(0)?;
    let dtype = x.dtype();
    let (correction, keep) = (c.float(2, 1.0)?, c.bool(3, false)?);
    let axes = axes(c, Some(1), x.rank())?;
    let n = count(x, &axes);
    let is_complex = dtype.is_complex();
    // The parts are a further, last dimension.
    let x = if is_complex { x.pairs() } else { x.cast(wide(dtype)) };
    let mean = x.reduce(Op::Sum, &axes, true) / n;
    let away = x - mean;
    let mut squares = away * away;
    if is_complex {
        squares = squares.reduce(Op::Sum, &[squares.rank() as i64 - 1], false);
    }
    if correction.fract() == 0.0 {
        x.math().guard(Guard::order(n as i64, correction as i64));
    }
    let variance = squares.reduce(Op::Sum, &axes, keep) / (n - correction).max(0.0);
    let mean = if is_complex { mean.paired() } else { mean.cast(dtype) };
    let mean = if keep { mean } else { mean.reshape(&variance.sizes()) };
    Ok((variance, mean, dtype.part().unwrap_or(dtype)))
}

/// The sum of a matrix's diagonal.
fn trace<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let sizes = x.sizes();
    let &[rows, columns] = &sizes[..] else {
        return invalid!("trace: expected a matrix, but got tensor with dim {}", sizes.len());
    };
    let line = x.reshape(&[rows.saturating_mul(columns)]);
    let diagonal = line.slice(&[0], &[rows.min(columns)], &[columns.saturating_add(1)]);
    let diagonal = diagonal.cast(sum_dtype(c, x.dtype(), None));
    Ok(vec![total(diagonal, &[0], false)])
}

/// The `order`-norm over the dimensions of argument 2; argument 3 is keepdim.
fn norm<'a>(c: &Call<'a>, order: f64, dtype: Option<DType>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let x = x.cast(dtype.unwrap_or(c.floating(x.dtype())));
    let x = if x.dtype().is_complex() { complex::abs(x) } else { x };
    let dtype = x.dtype();
    let x = x.cast(wide(dtype));
    let (axes, keep) = (axes(c, Some(2), x.rank())?, c.bool(3, false)?);
    Ok(vec![norm_over(c, x, order, &axes, keep).cast(dtype)])
}

fn norm_over<'a>(c: &Call<'a>, x: V<'a>, order: f64, axes: &[i64], keep: bool) -> V<'a> {
    let total = |terms: V<'a>| terms.reduce(Op::Sum, axes, keep);
    // The norm of one number is its size, even if its power is not representable.
    if order != 0.0 && count(x, axes) == 1.0 {
        total(x.abs())
    } else if order == 2.0 {
        still_at_zero(c, total(x * x)).sqrt()
    } else if order == 1.0 {
        total(x.abs())
    } else if order == 0.0 {
        total(x.ne(0.0).cast(x.dtype()))
    } else if order == f64::INFINITY {
        x.abs().reduce(Op::ReduceMax, axes, keep)
    } else if order == f64::NEG_INFINITY {
        x.abs().reduce(Op::ReduceMin, axes, keep)
    } else {
        let size = x.abs();
        let size = if order < 1.0 { still_at_zero(c, size) } else { size };
        still_at_zero(c, total(size.pow(order))).pow(1.0 / order)
    }
}

/// `(self, p, dim, maxnorm)`: scales the slice at each place of a dimension down to that norm if its own is larger.
fn renorm<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let (order, dim) = (c.float(1, 2.0)?, c.dim(2, 0, x.rank())? as i64);
    if x.rank() < 2 {
        return invalid!("renorm: input needs at least 2 dimensions, got {} dimensions", x.rank());
    }
    if order <= 0.0 {
        return invalid!("renorm: non-positive norm not supported");
    }
    let most = c.float(3, 0.0)?;
    if most < 0.0 {
        return invalid!("renorm: expected maxnorm to be >= 0 but got {most}");
    }
    let others: Dims = (0..x.rank() as i64).filter(|&axis| axis != dim).collect();
    let compute = wide(x.dtype());
    let norm = norm_over(c, x.cast(compute), order, &others, true);
    let factor =
        norm.gt(most).select(c.math.constant(most, compute) / (norm + 1e-7), 1.0).cast(x.dtype());
    Ok(vec![x * factor])
}

/// `(grad, self, dim?)`: the derivative of the product over `dim`, or all dimensions, where `grad` has no `dim`.
fn prod_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (dy, x) = (c.tensor(0)?, c.tensor(1)?);
    let axes = match c.has(2) {
        true => wrap_dims(&[c.int(2, 0)?], x.rank())?,
        false => axes(c, None, x.rank())?,
    };
    let mut kept = x.sizes();
    axes.iter().rev().for_each(|&axis| {
        kept.remove(axis as usize);
    });
    if dy.sizes() != kept || ![dy, x].iter().all(|v| v.dtype().is_float()) {
        return invalid!(
            "torchacc::prod_backward: expected floats, grad of sizes {kept:?}, got {:?} and {:?}",
            dy.ty(),
            x.ty()
        );
    }
    Ok(vec![of_prod(x.cast(dy.dtype()), dy, &axes, !c.has(2)).cast(x.dtype())])
}

/// Running sums or products.
fn running<'a>(c: &Call<'a>, op: Op) -> Outs<'a> {
    let x = c.tensor(0)?;
    let dtype = sum_dtype(c, x.dtype(), c.dtype(2)?);
    let dim = c.dim(1, 0, x.rank())?;
    let terms = at_least_1d(x).cast(dtype);
    // Whether any element so far is true, or all are: whether the sum is not 0, or the product is 1.
    let terms = if dtype == DType::Bool { terms.cast(DType::I64) } else { terms };
    let along = |terms: V<'a>| c.math.op(op, &[terms], smallvec![Attr::Int(dim as i64)]);
    let y = match dtype.is_complex() {
        true => complex::by_part([terms], |[terms]| along(terms)),
        false => along(terms),
    };
    Ok(vec![y.reshape(&x.sizes()).cast(dtype)])
}

/// A key that reverses the order.
fn reversed(x: V) -> V {
    if x.dtype().is_float() { -x } else { x.not() }
}

/// The first element so far in an order, and its place: the last of equals and of NaN, which precedes all. `key` turns the
/// order into that of descending numbers.
fn running_extreme<'a>(c: &Call<'a>, key: fn(V<'a>) -> V<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let axis = c.dim(1, 0, x.rank())? as i64;
    let line = at_least_1d(x);
    let key = key(if line.dtype() == DType::Bool { line.cast(DType::U8) } else { line });
    let attrs = smallvec![Attr::Int(axis)];
    let largest = c.math.op(Op::CumMax, &[key], attrs.clone());
    let places = places_of_cummax(key, largest, axis);
    let values = c.math.op(Op::Gather, &[line, places], attrs);
    Ok([values, places].map(|v| v.reshape(&x.sizes())).to_vec())
}

/// Running log(sum(exp(x))), over the last 1, 2, 4, … elements in turn.
fn logcumsumexp<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let dim = c.dim(1, 0, x.rank())?;
    let mut y = at_least_1d(x).cast(wide(x.dtype()));
    let (sizes, mut step) = (y.sizes(), 1);
    while step < sizes[dim] {
        let mut missing = sizes.clone();
        missing[dim] = step;
        let nothing = c.math.full(f64::NEG_INFINITY, y.dtype(), &missing);
        let before = c.math.concat(&[nothing, y.narrow(dim, 0, sizes[dim] - step)], dim);
        y = log_add_exp(before, y);
        step *= 2;
    }
    // The number of rounds depends on the size.
    let least = (step / 2 + 1).min(sizes[dim]);
    c.math.guard(Guard::between(least, sizes[dim], step));
    Ok(vec![y.reshape(&x.sizes()).cast(x.dtype())])
}

/// log(sum(exp(x))), shifted by the maximum where that is finite.
fn logsumexp<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let dtype = c.floating(x.dtype());
    let x = x.cast(dtype).cast(wide(dtype));
    let (axes, keep) = (axes(c, Some(1), x.rank())?, c.bool(2, false)?);
    if count(x, &axes) == 0.0 {
        return Ok(vec![x.reduce(Op::Sum, &axes, keep).log().cast(dtype)]);
    }
    let top = x.reduce(Op::ReduceMax, &axes, true);
    let top = super::pointwise::finite(top).select(top, 0.0);
    let log = (x - top).exp().reduce(Op::Sum, &axes, keep).log();
    Ok(vec![(log + top.reshape(&log.sizes())).cast(dtype)])
}

/// `(self, bins, min, max)`: the number of elements in each of `bins` equal parts of [min, max], both included, or of the
/// elements' own range if that is empty. Integers are counted as PyTorch's CUDA kernel counts them: a part is found by a
/// division of integers. A range that is not finite is refused.
fn histc<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let (bins, min, max) = (c.int(1, 100)?, c.float(2, 0.0)?, c.float(3, 0.0)?);
    if bins < 1 {
        return invalid!("torch.histc: bins must be > 0, but got {bins}");
    }
    if min > max || !(max - min).is_finite() {
        return invalid!(
            "torch.histc: max must be larger than min, and both finite, but got [{min}, {max}]"
        );
    }
    let (dtype, n) = (x.dtype(), x.numel());
    let compute = if dtype.is_float() { wide(dtype) } else { DType::I64 };
    let x = x.cast(compute).reshape(&[n]);
    let counts = c.math.zeros(DType::I64, &[bins]);
    if n == 0 {
        return Ok(vec![counts.cast(dtype)]);
    }
    let number = |x: f64| c.math.constant(x, DType::F64).cast(compute);
    let (mut low, mut high) = (number(min), number(max));
    let mut missed = c.math.constant_int(0, DType::I64);
    if min == max {
        (low, high) = (x.reduce(Op::ReduceMin, &[0], false), x.reduce(Op::ReduceMax, &[0], false));
        let (is_point, spread) = (low.eq(high), high - low);
        (low, high) = (is_point.select(low - 1.0, low), is_point.select(high + 1.0, high));
        missed = (spread * 0.0).eq(0.0).expected(Expectation::FiniteRange);
    }
    let part = ((x - low) * bins as f64 / (high - low)).cast(DType::I64).min((bins - 1) as f64);
    let within = x.ge(low).and(x.le(high));
    let operands = [counts, within.select(part, missed), within.cast(DType::I64)];
    Ok(vec![c.math.op(Op::IndexAdd, &operands, smallvec![Attr::Int(0)]).cast(dtype)])
}
