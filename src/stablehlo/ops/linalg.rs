//! Linear algebra: the operations of StableHLO, and the functions of LAPACK that JAX calls instead on a CPU.
//!
//! Source: <https://openxla.org/stablehlo/spec>; LAPACK's `potrf`, `trsm`, `getrf`, `geqrf`, `orgqr`, `ormqr` and `syevd`.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::linalg::{self, MOST_ROWS};
use crate::graph::math::{V, wide};
use crate::invalid;
use crate::op::Op;
use crate::shape::{Dims, numel};
use crate::stablehlo::attribute::Attribute;
use crate::stablehlo::lower::{Call, Value, Values};

/// Operand `n` as matrices `[batch, rows, columns]`, in f32 at least, and their sizes.
fn matrices<'m>(c: &Call<'_, '_, 'm>, n: usize) -> Result<(V<'m>, [i64; 3])> {
    let Some(x) = c.x.get(n) else { return invalid!("operand {n} is missing") };
    let sizes = x.v.sizes();
    let [lead @ .., rows, columns] = &sizes[..] else {
        return invalid!("matrices have two dimensions at least, not {}", sizes.len());
    };
    if !x.dtype.is_float() || x.dtype.is_complex() {
        return invalid!("matrices of {} are not supported", x.dtype);
    }
    if *rows.max(columns) > MOST_ROWS {
        return invalid!(
            "{rows} by {columns} numbers, but {MOST_ROWS} rows or columns are the most"
        );
    }
    let all = [numel(lead), *rows, *columns];
    Ok((x.v.cast(wide(x.v.dtype())).reshape(&all), all))
}

fn square<'m>(c: &Call<'_, '_, 'm>, n: usize) -> Result<V<'m>> {
    match matrices(c, n)? {
        (a, [_, rows, columns]) if rows == columns => Ok(a),
        (_, [_, rows, columns]) => invalid!("a matrix of {rows} by {columns} is not square"),
    }
}

/// Matrices as operand `n` was.
fn like<'m>(c: &Call<'_, '_, 'm>, n: usize, v: V<'m>) -> Value<'m> {
    c.x[n].map(|x| v.cast(x.dtype()).reshape(&x.sizes()))
}

pub fn cholesky<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let a = square(c, 0)?;
    let lower = c.flag("lower")?;
    Ok(vec![like(c, 0, factor(a, lower)?)])
}

fn factor(a: V<'_>, lower: bool) -> Result<V<'_>> {
    match (a.numel(), lower) {
        (0, _) => Ok(a),
        (_, true) => linalg::cholesky(a),
        (_, false) => Ok(linalg::cholesky(a.swap(1, 2))?.swap(1, 2)),
    }
}

pub fn triangular_solve<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let transposed = match c.attr(&["transpose_a"])? {
        Attribute::Choice("NO_TRANSPOSE") => false,
        Attribute::Choice("TRANSPOSE" | "ADJOINT") => true,
        _ => return invalid!("`transpose_a` is NO_TRANSPOSE, TRANSPOSE or ADJOINT"),
    };
    let [left, lower, unit] = [c.flag("left_side")?, c.flag("lower")?, c.flag("unit_diagonal")?];
    solve(c, left, lower, transposed, unit)
}

fn solve<'m>(
    c: &Call<'_, '_, 'm>,
    left: bool,
    lower: bool,
    transposed: bool,
    unit: bool,
) -> Result<Values<'m>> {
    let (a, (b, [batch, m, n])) = (square(c, 0)?, matrices(c, 1)?);
    let rows = if left { m } else { n };
    if a.sizes()[..] != [batch, rows, rows] || c.x[0].dtype != c.x[1].dtype {
        return invalid!("{:?} and {:?} are no system of equations", c.x[0].ty(), c.x[1].ty());
    }
    if b.numel() == 0 {
        return Ok(vec![c.x[1]]);
    }
    // X A = B is A' X' = B'.
    let (a, lower) = if transposed == left { (a.swap(1, 2), !lower) } else { (a, lower) };
    let x = match left {
        true => linalg::solve_triangular(a, b, !lower, unit),
        false => linalg::solve_triangular(a, b.swap(1, 2), !lower, unit).swap(1, 2),
    };
    Ok(vec![like(c, 1, x)])
}

/// A function of LAPACK as `jaxlib` names it, such as `lapack_spotrf_ffi`. `None`: it is none that is known here.
pub fn lapack<'m>(c: &Call<'_, '_, 'm>, target: &str) -> Option<Result<Values<'m>>> {
    let name = target.strip_prefix("lapack_")?.strip_suffix("_ffi")?;
    let routine = name.strip_prefix(['s', 'd'])?;
    match routine {
        "potrf" => Some(potrf(c)),
        "trsm" => Some(trsm(c)),
        "getrf" => Some(getrf(c)),
        "geqrf" => Some(geqrf(c)),
        "orgqr" => Some(orgqr(c)),
        "ormqr" => Some(ormqr(c)),
        "syevd" => Some(syevd(c)),
        _ => None,
    }
}

/// Whether LAPACK's letter of a choice is this one.
fn is_letter(c: &Call, choice: &str, letter: u8) -> Result<bool> {
    let config = c.attr(&["mhlo.backend_config", "backend_config"])?;
    match config.entry(choice) {
        Some(Attribute::Int(code)) => Ok(*code == letter as i64),
        _ => invalid!("`{choice}` is missing"),
    }
}

/// The sizes of the batch of operand 0, and more.
fn lead(c: &Call, more: &[i64]) -> Dims {
    let sizes = c.x[0].v.sizes();
    sizes[..sizes.len() - 2].iter().chain(more).copied().collect()
}

fn potrf<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let a = square(c, 0)?;
    let factor = factor(a, is_letter(c, "uplo", b'L')?)?;
    // The number, from 1, of the first column that is not positive definite.
    let n = a.sizes()[1];
    let diagonal = |dim| c.math().iota(&[1, n, n], dim, DType::I64);
    let numbers = diagonal(1) + 1.0;
    let is_wrong = factor.gt(0.0).not().and(diagonal(1).eq(diagonal(2)));
    let first = is_wrong.select(numbers, (n + 1) as f64).reduce(Op::ReduceMin, &[1, 2], false);
    let info = first.le(n as f64).select(first, 0.0).cast(DType::I32);
    Ok(vec![like(c, 0, factor), Value::of(info.reshape(&lead(c, &[])))])
}

fn trsm<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let is = |choice, letter| is_letter(c, choice, letter);
    let transposed = !is("trans_x", b'N')?;
    solve(c, is("side", b'L')?, is("uplo", b'L')?, transposed, is("diag", b'U')?)
}

/// As XLA's `LuDecomposition`: the factors, the row that each was exchanged with, from 0, and which row each row is then.
pub fn lu<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (a, [batch, m, n]) = matrices(c, 0)?;
    let numbers = |v: V<'m>, count| Value::of(v.cast(DType::I32).reshape(&lead(c, &[count])));
    let [factors, pivots, places] = match a.numel() {
        0 => [
            a,
            c.math().zeros(DType::I32, &[batch, m.min(n)]),
            c.math().iota(&[batch, m], 1, DType::I32),
        ],
        _ => linalg::lu(a)?,
    };
    Ok(vec![like(c, 0, factors), numbers(pivots, m.min(n)), numbers(places, m)])
}

fn getrf<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (_, [batch, m, n]) = matrices(c, 0)?;
    let count = m.min(n);
    let [factors, pivots, _] = lu(c)?[..] else { return invalid!("three results are expected") };
    let info = c.math().zeros(DType::I32, &lead(c, &[]));
    if factors.v.numel() == 0 {
        return Ok(vec![factors, pivots, Value::of(info)]);
    }
    // The number, from 1, of the first pivot that is 0.
    let at = |dim| c.math().iota(&[1, m, n], dim, DType::I64);
    let flat = factors.v.reshape(&[batch, m, n]);
    let is_zero = flat.eq(0.0).and(at(1).eq(at(2)));
    let first = is_zero.select(at(1) + 1.0, (count + 1) as f64);
    let first = first.broadcast(&[batch, m, n]).reduce(Op::ReduceMin, &[1, 2], false);
    let info = first.le(count as f64).select(first, 0.0).cast(DType::I32).reshape(&info.sizes());
    Ok(vec![factors, pivots.map(|v| v + 1.0), Value::of(info)])
}

pub fn geqrf<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (a, [_, m, n]) = matrices(c, 0)?;
    let [packed, factors] = match a.numel() {
        0 => [a, a.reshape(&[0, m.min(n)])],
        _ => linalg::qr(a)?,
    };
    let factors = factors.reshape(&lead(c, &[m.min(n)]));
    Ok(vec![like(c, 0, packed), Value::of(factors)])
}

pub fn orgqr<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (reflectors, factors) = reflectors(c)?;
    match reflectors.numel() {
        0 => Ok(vec![c.x[0]]),
        _ => Ok(vec![like(c, 0, linalg::q_of(reflectors, factors)?)]),
    }
}

/// What `geqrf` gives: operands 0 and 1.
fn reflectors<'m>(c: &Call<'_, '_, 'm>) -> Result<(V<'m>, V<'m>)> {
    let (reflectors, [batch, m, n]) = matrices(c, 0)?;
    let [_, factors, ..] = c.x[..] else {
        return invalid!("reflectors and their factors are expected");
    };
    let count = factors.v.sizes().last().copied().unwrap_or(0);
    if count > m.min(n) || factors.v.numel() != batch * count || factors.dtype != c.x[0].dtype {
        return invalid!("{:?} are no factors of {:?}", factors.ty(), c.x[0].ty());
    }
    Ok((reflectors, factors.v.reshape(&[batch, count])))
}

fn ormqr<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (reflectors, factors) = reflectors(c)?;
    let (onto, [batch, m, n]) = matrices(c, 2)?;
    let config = c.attr(&["mhlo.backend_config"])?;
    let [left, transposed] =
        ["left", "transpose"].map(|name| matches!(config.entry(name), Some(Attribute::Bool(true))));
    let rows = if left { m } else { n };
    if reflectors.sizes()[..2] != [batch, rows] || c.x[2].dtype != c.x[0].dtype {
        return invalid!("{:?} and {:?} are no product", c.x[0].ty(), c.x[2].ty());
    }
    let product = match (onto.numel(), left) {
        (0, _) => onto,
        (_, true) => linalg::q_times(reflectors, factors, onto, transposed)?,
        // C Q is the transpose of Q' C'.
        _ => linalg::q_times(reflectors, factors, onto.swap(1, 2), !transposed)?.swap(1, 2),
    };
    Ok(vec![like(c, 2, product)])
}

/// As XLA's `Eigh`: eigenvectors, and eigenvalues in ascending order.
pub fn eigh<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    // Whether the lower triangle is read, whether to sort, rounds, tolerance.
    let Attribute::Text(config) = c.attr(&["backend_config"])? else {
        return invalid!("`backend_config` is no text");
    };
    symmetric(c, config.starts_with('1'))
}

fn syevd<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let mut results = symmetric(c, is_letter(c, "uplo", b'L')?)?;
    results.push(Value::of(c.math().zeros(DType::I32, &lead(c, &[]))));
    Ok(results)
}

fn symmetric<'m>(c: &Call<'_, '_, 'm>, lower: bool) -> Result<Values<'m>> {
    let a = square(c, 0)?;
    let sizes = a.sizes();
    let [values, vectors] = match a.numel() {
        0 => [a.reshape(&sizes[..2]), a],
        _ => {
            let index = |dim| c.math().iota(&sizes, dim, DType::I64);
            let is_read = if lower { index(1).ge(index(2)) } else { index(1).le(index(2)) };
            linalg::eigh(is_read.select(a, a.swap(1, 2)))?
        }
    };
    let dtype = c.x[0].v.dtype();
    let values = values.cast(dtype).reshape(&lead(c, &[sizes[1]]));
    Ok(vec![like(c, 0, vectors), Value::of(values)])
}
