//! Primitives that compute element `i` of the result from element `i` of each operand.

use super::array::Array;
use super::{Attr, Eval, FloatFn, IntFn, Ty, Tys, check};
use crate::dtype::{DType, Float8};
use crate::error::Result;
use smallvec::SmallVec;

/// Meaning of a primitive on floats and on integers (and bools).
pub const fn both(float: FloatFn, int: IntFn) -> Eval {
    Eval::Pointwise { float: Some(float), int: Some(int) }
}

pub const fn float(float: FloatFn) -> Eval {
    Eval::Pointwise { float: Some(float), int: None }
}

pub const fn int(int: IntFn) -> Eval {
    Eval::Pointwise { float: None, int: Some(int) }
}

pub const NOT: Eval = Eval::Whole(not);
pub const CAST: Eval = Eval::Whole(cast);
pub const SELECT: Eval = Eval::Whole(select);

// ---- types

/// All operands alike: same sizes, same dtype, and that dtype accepted by `accepts`.
fn alike(inputs: &[&Ty], attrs: &[Attr], accepts: fn(DType) -> Result<()>) -> Result<DType> {
    check::no_attrs(attrs)?;
    let Some((first, rest)) = inputs.split_first() else {
        return check::wrong_operands("at least one", inputs);
    };
    for other in rest {
        check::same_dtype(first, other)?;
        check::same_sizes(&first.sizes, &other.sizes)?;
    }
    accepts(first.dtype)?;
    Ok(first.dtype)
}

pub fn same_number(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    check::one(alike(inputs, attrs, check::number)?, &inputs[0].sizes)
}

pub fn same_float(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    check::one(alike(inputs, attrs, check::float)?, &inputs[0].sizes)
}

/// Integers and bool.
pub fn same_bits(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    check::one(alike(inputs, attrs, check::bits)?, &inputs[0].sizes)
}

/// Numbers and bool.
pub fn same_any(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    check::one(alike(inputs, attrs, check::arithmetic)?, &inputs[0].sizes)
}

pub fn comparison(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    alike(inputs, attrs, check::arithmetic)?;
    check::one(DType::Bool, &inputs[0].sizes)
}

pub fn cast_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    let [Attr::DType(dtype)] = attrs else {
        return check::wrong_attrs("dtype: dtype", attrs);
    };
    match (x.dtype, *dtype) {
        (f8, DType::F32) | (DType::F32, f8) if Float8::of(f8).is_some() => {}
        (from, to) => {
            check::arithmetic(from)?;
            check::arithmetic(to)?;
        }
    }
    check::one(*dtype, &x.sizes)
}

/// a and b may be of any dtype: elements are moved, not computed.
pub fn select_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [condition, a, b] = inputs else {
        return check::wrong_operands("condition, a, b", inputs);
    };
    check::no_attrs(attrs)?;
    check::dtype(condition, DType::Bool, "condition")?;
    check::same_dtype(a, b)?;
    check::same_sizes(&a.sizes, &b.sizes)?;
    check::same_sizes(&condition.sizes, &a.sizes)?;
    check::one(a.dtype, &a.sizes)
}

// ---- cost

pub fn no_flops(_: &[&Ty], _: &[Ty]) -> u64 {
    0
}

/// One per element of the result.
pub fn each(_: &[&Ty], outputs: &[Ty]) -> u64 {
    outputs.iter().fold(0, |n: u64, t| n.saturating_add(t.numel() as u64))
}

// ---- meanings

pub fn truth(b: bool) -> f64 {
    b as u8 as f64
}

pub fn sign(x: &[f64]) -> f64 {
    truth(x[0] > 0.0) - truth(x[0] < 0.0)
}

/// By Halley's method on erf, or on erfc where erf is next to 1.
pub fn erfinv(x: &[f64]) -> f64 {
    let size = x[0].abs();
    if !(0.0 < size && size < 1.0) {
        return if size == 1.0 {
            x[0] * f64::INFINITY
        } else if size == 0.0 {
            x[0]
        } else {
            f64::NAN
        };
    }
    // Winitzki's approximation.
    let (log, a) = ((-size * size).ln_1p(), 0.147);
    let middle = 2.0 / (std::f64::consts::PI * a) + log / 2.0;
    let mut y = ((middle * middle - log / a).sqrt() - middle).sqrt();
    for _ in 0..3 {
        let off = if size < 0.5 { libm::erf(y) - size } else { (1.0 - size) - libm::erfc(y) };
        let step = off / (std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp());
        y -= step / (1.0 + y * step);
    }
    y.copysign(x[0])
}

pub fn max(x: &[f64]) -> f64 {
    if x[0] >= x[1] || x[0].is_nan() { x[0] } else { x[1] }
}

pub fn min(x: &[f64]) -> f64 {
    if x[0] <= x[1] || x[0].is_nan() { x[0] } else { x[1] }
}

/// `f(x[0], x[1])`, or `None` (a division by zero) when `x[1]` is 0.
pub fn nonzero(x: &[i64], f: fn(i64, i64) -> i64) -> Option<i64> {
    (x[1] != 0).then(|| f(x[0], x[1]))
}

pub fn int_pow(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => [1, -1][(exponent & 1) as usize],
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1i64, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}

fn not(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let mut y = Array::zeros(&outs[0]);
    let logical = outs[0].dtype == DType::Bool;
    for i in 0..y.len() {
        let v = x[0].i64(i);
        y.set_i64(i, if logical { (v == 0) as i64 } else { !v });
    }
    Ok(vec![y])
}

fn cast(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let mut y = Array::zeros(&outs[0]);
    for i in 0..y.len() {
        if x[0].ty.dtype.is_float() || Float8::of(x[0].ty.dtype).is_some() {
            y.set_f64(i, x[0].f64(i));
        } else {
            y.set_i64(i, x[0].i64(i));
        }
    }
    Ok(vec![y])
}

fn select(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let mut y = Array::zeros(&outs[0]);
    for i in 0..y.len() {
        let from = if x[0].i64(i) != 0 { x[1] } else { x[2] };
        y.set_raw(i, from.raw(i));
    }
    Ok(vec![y])
}

/// Evaluates a row's pointwise functions element by element.
pub fn apply(
    float: Option<FloatFn>,
    int: Option<IntFn>,
    inputs: &[&Array],
    out: &Ty,
) -> Result<Array> {
    let mut y = Array::zeros(out);
    let is_float = inputs[0].ty.dtype.is_float();
    for i in 0..y.len() {
        match (float, int) {
            (Some(f), _) if is_float => {
                let x: SmallVec<[f64; 3]> = inputs.iter().map(|a| a.f64(i)).collect();
                y.set_f64(i, f(&x));
            }
            (_, Some(f)) if !is_float => {
                let x: SmallVec<[i64; 3]> = inputs.iter().map(|a| a.i64(i)).collect();
                match f(&x) {
                    Some(v) => y.set_i64(i, v),
                    None => return crate::invalid!("ZeroDivisionError: integer division by zero"),
                }
            }
            _ => return crate::internal!("no meaning for {}", inputs[0].ty.dtype),
        }
    }
    Ok(y)
}
