//! Tensors from nothing, and copies.

use super::PLAIN;
use super::index::{rows_added, take};
use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Guard;
use crate::graph::math::V;
use crate::invalid;
use crate::op::arg::ScalarKind;
use crate::op::{Attr, Op, Ty};
use crate::record::Arg;
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("torchacc::copy", &[""], |c| {
        let x = c.tensor(0)?;
        Ok(vec![c.out(0).map_or(x, |ty| x.broadcast(&ty.sizes))])
    })
    .moves()
    .float8()
    .complex(),
    row("clone", PLAIN, |c| Ok(vec![c.tensor(0)?])).moves(),
    // `(self, src, non_blocking)`
    row("copy", PLAIN, |c| {
        let ty = c.ty(0)?;
        Ok(vec![c.tensor(1)?.cast(ty.dtype).broadcast(&ty.sizes)])
    })
    .moves()
    .float8()
    .complex(),
    row("_to_copy", PLAIN, |c| {
        let x = c.tensor(0)?;
        Ok(vec![x.cast(dtype(c, 1, x.dtype())?)])
    })
    .float8()
    .complex(),
    row("fill", &["Scalar", "Tensor", "Scalar_out", "Tensor_out"], |c| filled(c, 1))
        .special(is_neutral)
        .complex(),
    row("zero", PLAIN, |c| Ok(vec![like(c, 0.0)?])).complex(),
    row("zeros_like", PLAIN, |c| Ok(vec![like(c, 0.0)?])).complex(),
    row("ones_like", PLAIN, |c| Ok(vec![like(c, 1.0)?])).complex(),
    row("full_like", PLAIN, |c| filled(c, 1)).special(is_neutral).complex(),
    row("zeros", PLAIN, |c| Ok(vec![sized(c, 0.0)?])).complex(),
    row("ones", PLAIN, |c| Ok(vec![sized(c, 1.0)?])).complex(),
    row("full", PLAIN, |c| {
        let sizes = c.ints(0)?.unwrap_or_default();
        let dtype = dtype(c, 2, number_dtype(c, &[1]))?;
        Ok(vec![c.number(1, 0.0, dtype)?.broadcast(&sizes)])
    })
    .special(is_neutral)
    .complex(),
    row("scalar_tensor", PLAIN, |c| Ok(vec![c.number(0, 0.0, dtype(c, 1, DType::F32)?)?]))
        .complex(),
    row("arange", PLAIN, |c| arange(c, None, 0, None, 1)).fixed(&[0]),
    row("arange", &["start"], |c| arange(c, Some(0), 1, None, 2)).fixed(&[0, 1]),
    row("arange", &["start_step", "start_out"], |c| arange(c, Some(0), 1, Some(2), 3))
        .fixed(&[0, 1, 2]),
    row("range", &["step", "out"], range).fixed(&[0, 1, 2]).numbers(),
    row("linspace", PLAIN, |c| {
        let dtype = dtype(c, 3, DType::F32)?;
        Ok(vec![evenly_spaced(c, dtype)?.cast(dtype)])
    })
    .fixed(&[2]),
    // `(start, end, steps, base)`
    row("logspace", PLAIN, |c| {
        let dtype = dtype(c, 4, DType::F32)?;
        let exponent = evenly_spaced(c, dtype)?;
        let base = c.number(3, 10.0, DType::F64)?;
        Ok(vec![base.broadcast(&exponent.sizes()).pow(exponent).cast(dtype)])
    })
    .fixed(&[2])
    .numbers(),
    of_places(row("tril_indices", PLAIN, |c| triangle(c, false)).fixed(&[0, 1, 2])),
    of_places(row("triu_indices", PLAIN, |c| triangle(c, true)).fixed(&[0, 1, 2])),
    row("eye", PLAIN, |c| eye(c, 0, 1)).fixed(&[0]).complex(),
    row("eye", &["m", "m_out"], |c| eye(c, 1, 2)).fixed(&[0, 1]).complex(),
];

/// Values that later simplifications make use of.
fn is_neutral(arg: usize, value: f64) -> bool {
    arg == 1 && (value == 0.0 || value == 1.0)
}

/// The dtype that the result is written as; else that in argument `i`; else `default`.
fn dtype(c: &Call, i: usize, default: DType) -> Result<DType> {
    let asked = if matches!(c.arg(i), Arg::DType(_)) { c.dtype(i)? } else { None };
    Ok(c.out(0).map(|ty| ty.dtype).or(asked).unwrap_or(default))
}

/// The dtype of plain numbers: i64 or bool if all are, else f32.
fn number_dtype(c: &Call, at: &[usize]) -> DType {
    let kinds = at.iter().map(|&i| match c.arg(i) {
        Arg::Int(_) | Arg::Scalar { kind: ScalarKind::Int, .. } | Arg::None => DType::I64,
        Arg::Bool(_) | Arg::Scalar { kind: ScalarKind::Bool, .. } => DType::Bool,
        _ => DType::F32,
    });
    kinds.max().unwrap_or(DType::F32)
}

/// The type of the result if known, else of argument 0.
fn target(c: &Call) -> Result<Ty> {
    c.out(0).map_or_else(|| c.ty(0), Ok)
}

fn like<'a>(c: &Call<'a>, value: f64) -> Result<V<'a>> {
    let ty = target(c)?;
    let dtype = dtype(c, 1, ty.dtype)?;
    Ok(c.math.full(value, dtype, &ty.sizes))
}

fn filled<'a>(c: &Call<'a>, value: usize) -> Outs<'a> {
    let ty = target(c)?;
    let dtype = dtype(c, value + 1, ty.dtype)?;
    Ok(vec![c.number(value, 0.0, dtype)?.broadcast(&ty.sizes)])
}

fn sized<'a>(c: &Call<'a>, value: f64) -> Result<V<'a>> {
    let sizes = c.ints(0)?.unwrap_or_default();
    Ok(c.math.full(value, dtype(c, 1, DType::F32)?, &sizes))
}

/// Integers in i64, floats in f64: start + i * step.
fn arange<'a>(
    c: &Call<'a>,
    start: Option<usize>,
    end: usize,
    step: Option<usize>,
    dtype_at: usize,
) -> Outs<'a> {
    let at: Vec<usize> = [start, Some(end), step].into_iter().flatten().collect();
    let dtype = dtype(c, dtype_at, number_dtype(c, &at))?;
    let first = start.map_or(Ok(0.0), |i| c.float(i, 0.0))?;
    let each = step.map_or(Ok(1.0), |i| c.float(i, 1.0))?;
    let last = c.float(end, 0.0)?;
    if each == 0.0 || (last - first) / each < 0.0 {
        return invalid!("upper bound and larger bound inconsistent with step sign");
    }
    let n = match c.out(0) {
        Some(ty) => ty.numel(),
        None => ((last - first) / each).ceil() as i64,
    };
    let compute = if dtype.is_float() { DType::F64 } else { DType::I64 };
    let index = c.math.iota(&[n], 0, compute);
    let step = step.map_or(Ok(c.math.constant(1.0, compute)), |i| c.number(i, 1.0, compute))?;
    let start = start.map_or(Ok(c.math.constant(0.0, compute)), |i| c.number(i, 0.0, compute))?;
    Ok(vec![(index * step + start).cast(dtype)])
}

/// `(start, end, step)`, the end included.
fn range<'a>(c: &Call<'a>) -> Outs<'a> {
    let [first, last, each] = [c.float(0, 0.0)?, c.float(1, 0.0)?, c.float(2, 1.0)?];
    if each == 0.0 || (last - first) / each < 0.0 {
        return invalid!("upper bound and lower bound inconsistent with step sign");
    }
    let dtype = dtype(c, 3, DType::F32)?;
    let n = c.out(0).map_or((((last - first) / each) as i64).saturating_add(1), |ty| ty.numel());
    let compute = if dtype.is_float() { DType::F64 } else { DType::I64 };
    let [start, step] = c.parameters([(0, 0.0), (2, 1.0)], compute)?;
    Ok(vec![(c.math.iota(&[n], 0, compute) * step + start).cast(dtype)])
}

/// `(start, end, steps)` in f64, from both ends so that both are exact.
fn evenly_spaced<'a>(c: &Call<'a>, dtype: DType) -> Result<V<'a>> {
    let n = c.int(2, 100)?;
    if n < 0 {
        return invalid!("number of steps must be non-negative, but got {n}");
    }
    let (start, end) = (c.number(0, 0.0, DType::F64)?, c.number(1, 0.0, DType::F64)?);
    // For integers the ends are truncated first, unless there is only one element.
    c.math.guard(Guard::order(n, 1));
    let is_whole = dtype.is_int() && n != 1;
    let end_of = |x: V<'a>| if is_whole { x.cast(dtype).cast(DType::F64) } else { x };
    let (start, end) = (end_of(start), end_of(end));
    let index = c.math.iota(&[n], 0, DType::F64);
    let step = (end - start) / (n - 1).max(1) as f64;
    let upper = end - ((n - 1) as f64 - index) * step;
    let from_start = start + index * step;
    let half = (c.math.constant_int(n, DType::I64) / 2.0).max(1.0).cast(DType::F64);
    Ok(index.lt(half).select(from_start, upper))
}

/// PyTorch has kernels for i32 and i64 only, and refuses others.
const fn of_places(row: Row) -> Row {
    Row { takes: |dtype| matches!(dtype, DType::I32 | DType::I64), ..row }
}

/// `(row, col, offset)`: the places of a matrix's elements on one side of a diagonal, row after row.
fn triangle<'a>(c: &Call<'a>, upper: bool) -> Outs<'a> {
    let [rows, columns] = [c.int(0, 0)?, c.int(1, 0)?];
    for (name, n) in [("row", rows), ("col", columns)] {
        if n < 0 {
            return invalid!("{name} must be non-negative, got{n}");
        }
    }
    let dtype = dtype(c, 3, DType::I64)?;
    // Row r is split before column r + diagonal.
    let diagonal = c.int(2, 0)?.saturating_add(!upper as i64);
    c.math.guard(Guard::order(diagonal, -rows));
    c.math.guard(Guard::order(diagonal, columns));
    let diagonal = diagonal.clamp(-rows, columns);
    c.math.guard(Guard::order(diagonal, 0));
    c.math.guard(Guard::order(columns.saturating_sub(diagonal), rows));
    // Rows before `first` have no element below the diagonal, and rows from `last` on have all of theirs there.
    let first = (-diagonal).max(0);
    let last = rows.min(columns.saturating_sub(diagonal));
    let [height, wide] = [i128::from(last - first), i128::from(rows - last)];
    let between =
        height * (i128::from(first) + i128::from(last) - 1 + 2 * i128::from(diagonal)) / 2;
    let below = between + wide * i128::from(columns);
    let n = if upper { i128::from(rows) * i128::from(columns) - below } else { below };
    let Ok(n) = i64::try_from(n) else {
        return invalid!("a triangle of {rows} by {columns} elements has too many");
    };
    if n == 0 {
        return Ok(vec![c.math.zeros(dtype, &[2, 0])]);
    }
    let int = |n: i64| c.math.constant_int(n, DType::I64);
    let border = (c.math.iota(&[rows], 0, DType::I64) + int(diagonal)).max(0.0).min(int(columns));
    let (count, end) = match upper {
        true => (int(columns) - border, int(columns).broadcast(&[rows])),
        false => (border, border),
    };
    let sums = |v: V<'a>| c.math.op(Op::CumSum, &[v], smallvec![Attr::Int(0)]);
    let until = sums(count);
    // An element's row is the last one that begins at or before it; trailing rows without elements begin behind all.
    let ones = int(1).broadcast(&[rows]);
    let none = c.math.zeros(DType::I64, &[n.saturating_add(1)]);
    let row = sums(rows_added(none, until - count, ones, 0)).narrow(0, 0, n) - 1.0;
    let column = c.math.iota(&[n], 0, DType::I64) - take(until, row, 0) + take(end, row, 0);
    let places = [row, column].map(|place| place.cast(dtype).unsqueeze(0));
    Ok(vec![c.math.concat(&places, 0)])
}

fn eye<'a>(c: &Call<'a>, columns: usize, dtype_at: usize) -> Outs<'a> {
    let sizes = [c.int(0, 0)?, c.int(columns, 0)?];
    let dtype = dtype(c, dtype_at, DType::F32)?;
    let row = c.math.iota(&sizes, 0, DType::I64);
    Ok(vec![row.eq(c.math.iota(&sizes, 1, DType::I64)).cast(dtype)])
}
