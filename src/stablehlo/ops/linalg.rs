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
use crate::stablehlo::lower::Call;
use crate::stablehlo::value::{Value, Values};

/// Operand `n` as matrices `[batch, rows, columns]`, in f32 at least, and their sizes.
fn matrices<'m>(c: &Call<'_, '_, 'm>, n: usize) -> Result<(V<'m>, [i64; 3])> {
    let Some(x) = c.x.get(n) else { return invalid!("operand {n} is missing") };
    let sizes = x.v.sizes();
    let [lead @ .., rows, columns] = &sizes[..] else {
        return invalid!("matrices have two dimensions at least, not {}", sizes.len());
    };
    if !x.dtype.is_float() {
        return invalid!("matrices of {} are not supported", x.dtype);
    }
    let all = [numel(lead), *rows, *columns];
    let flat = x.v.cast(wide(x.v.dtype())).reshape(&all);
    c.math().check()?;
    Ok((flat, all))
}

/// Errors: too many rows, as the program of a factor in blocks grows with them.
fn check_rows(rows: i64) -> Result<()> {
    match rows <= MOST_ROWS {
        true => Ok(()),
        false => invalid!("a factor of {rows} rows, but {MOST_ROWS} are the most"),
    }
}

fn square<'m>(c: &Call<'_, '_, 'm>, n: usize) -> Result<V<'m>> {
    match matrices(c, n)? {
        (a, [_, rows, columns]) if rows == columns => check_rows(rows).map(|()| a),
        (_, [_, rows, columns]) => invalid!("a matrix of {rows} by {columns} is not square"),
    }
}

/// Whether operand `n` has the batch dimensions and the type of operand 0.
fn is_batch_of(c: &Call, n: usize) -> bool {
    let sizes = c.x[n].v.sizes();
    sizes[..sizes.len() - 2] == lead(c, &[])[..] && c.x[n].dtype == c.x[0].dtype
}

/// `v` in the dtype and sizes of operand `n`.
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
    let is = |name: &str| Ok(c.int(&[name])? != 0);
    solve(c, is("left_side")?, is("lower")?, transposed, is("unit_diagonal")?)
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
    if a.sizes()[..] != [batch, rows, rows] || !is_batch_of(c, 1) {
        return invalid!("{} and {} are no system of equations", c.x[0].ty(), c.x[1].ty());
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

/// A function of LAPACK as `jaxlib` names it, such as `lapack_spotrf_ffi`. `None`: it is not supported.
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

/// Whether a choice is the first of LAPACK's two letters, and not the second.
fn is_first(c: &Call, choice: &str, [first, second]: [u8; 2]) -> Result<bool> {
    match config(c)?.entry(choice) {
        Some(Attribute::Int(code)) if *code == first as i64 => Ok(true),
        Some(Attribute::Int(code)) if *code == second as i64 => Ok(false),
        _ => invalid!("`{choice}` is {} or {}", first as char, second as char),
    }
}

fn config<'c, 'a>(c: &Call<'c, 'a, '_>) -> Result<&'c Attribute<'a>> {
    c.attr(&["mhlo.backend_config", "backend_config"])
}

/// The batch sizes of operand 0, then `more`.
fn lead(c: &Call, more: &[i64]) -> Dims {
    let sizes = c.x[0].v.sizes();
    sizes[..sizes.len() - 2].iter().chain(more).copied().collect()
}

fn potrf<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let a = square(c, 0)?;
    let factor = factor(a, is_first(c, "uplo", [b'L', b'U'])?)?;
    let info = first_on_diagonal(c, factor.gt(0.0).not());
    Ok(vec![like(c, 0, factor), info])
}

/// The number, from 1, of the first diagonal element of matrices `[batch, m, n]` where `holds` is true, 0 if there is none: i32
/// with the sizes of the batch.
fn first_on_diagonal<'m>(c: &Call<'_, '_, 'm>, holds: V<'m>) -> Value<'m> {
    let sizes = holds.sizes();
    let none = sizes[1].min(sizes[2]) + 1;
    if holds.numel() == 0 {
        return Value::of(c.math().zeros(DType::I32, &lead(c, &[])));
    }
    let index = |dim| c.math().iota(&sizes, dim, DType::I64);
    let is_there = holds.and(index(1).eq(index(2)));
    let numbers = is_there.select(index(1) + 1.0, none as f64);
    let first = numbers.reduce(Op::ReduceMin, &[1, 2], false);
    let first = first.lt(none as f64).select(first, 0.0).cast(DType::I32);
    Value::of(first.reshape(&lead(c, &[])))
}

fn trsm<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let is = |choice, letters: &[u8; 2]| is_first(c, choice, *letters);
    // `C`: a real matrix is its own conjugate.
    let transposed = !is("trans_x", b"NT").or_else(|_| is("trans_x", b"NC"))?;
    solve(c, is("side", b"LR")?, is("uplo", b"LU")?, transposed, is("diag", b"UN")?)
}

/// As XLA's `LuDecomposition`: the factors, the row that each row was exchanged with, from 0, and the resulting order of rows.
pub fn lu<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    Ok(factors_of_lu(c)?.to_vec())
}

fn factors_of_lu<'m>(c: &Call<'_, '_, 'm>) -> Result<[Value<'m>; 3]> {
    let (a, [batch, m, n]) = matrices(c, 0)?;
    check_rows(m.min(n))?;
    let [factors, pivots, places] = match a.numel() {
        0 => {
            let places = c.math().iota(&[batch, m], 1, DType::I32);
            [a, c.math().zeros(DType::I32, &[batch, m.min(n)]), places]
        }
        _ => linalg::lu(a)?,
    };
    let numbers = |v: V<'m>, count| Value::of(v.cast(DType::I32).reshape(&lead(c, &[count])));
    Ok([like(c, 0, factors), numbers(pivots, m.min(n)), numbers(places, m)])
}

fn getrf<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [factors, pivots, _] = factors_of_lu(c)?;
    let (_, sizes) = matrices(c, 0)?;
    let info = first_on_diagonal(c, factors.v.reshape(&sizes).eq(0.0));
    Ok(vec![factors, pivots.map(|v| v + 1.0), info])
}

/// As XLA's `Qr`: R and below it the reflectors, and their factors.
pub fn geqrf<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (a, [_, m, n]) = matrices(c, 0)?;
    let [packed, factors] = match a.numel() {
        0 => [a, a.reshape(&[0, m.min(n)])],
        _ => linalg::qr(a)?,
    };
    let factors = factors.cast(c.x[0].v.dtype()).reshape(&lead(c, &[m.min(n)]));
    Ok(vec![like(c, 0, packed), Value::of(factors)])
}

/// As XLA's `ProductOfElementaryHouseholderReflectors`: the first columns of Q.
pub fn orgqr<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (reflectors, factors) = reflectors(c)?;
    match reflectors.numel() {
        0 => Ok(vec![c.x[0]]),
        _ => Ok(vec![like(c, 0, linalg::q_of(reflectors, factors)?)]),
    }
}

/// The results of `geqrf`: operands 0 and 1.
fn reflectors<'m>(c: &Call<'_, '_, 'm>) -> Result<(V<'m>, V<'m>)> {
    let (reflectors, [batch, m, n]) = matrices(c, 0)?;
    let [_, factors, ..] = c.x[..] else {
        return invalid!("reflectors and their factors are expected");
    };
    let count = factors.v.sizes().last().copied().unwrap_or(0);
    if count > m.min(n) || factors.ty().sizes != lead(c, &[count]) || factors.dtype != c.x[0].dtype
    {
        return invalid!("{} are no factors of {}", factors.ty(), c.x[0].ty());
    }
    Ok((reflectors, factors.v.cast(wide(factors.v.dtype())).reshape(&[batch, count])))
}

fn ormqr<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (reflectors, factors) = reflectors(c)?;
    let (onto, [_, m, n]) = matrices(c, 2)?;
    let is = |name: &str| match config(c)?.entry(name) {
        Some(Attribute::Bool(is)) => Ok(*is),
        _ => invalid!("`{name}` is true or false"),
    };
    let (left, transposed) = (is("left")?, is("transpose")?);
    if reflectors.sizes()[1] != if left { m } else { n } || !is_batch_of(c, 2) {
        return invalid!("{} and {} are no product", c.x[0].ty(), c.x[2].ty());
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
    // Its fields: whether the lower triangle is read, whether to sort, rounds, tolerance.
    let Attribute::Text(config) = c.attr(&["backend_config"])? else {
        return invalid!("`backend_config` is no text");
    };
    match config.split(',').next() {
        Some("1") => symmetric(c, true),
        Some("0") => symmetric(c, false),
        _ => invalid!("`backend_config` begins with 0 or 1, but is {config:?}"),
    }
}

fn syevd<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let mut results = symmetric(c, is_first(c, "uplo", [b'L', b'U'])?)?;
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
