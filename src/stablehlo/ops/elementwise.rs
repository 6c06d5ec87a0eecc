//! Elementwise operations. None looks at the declared sizes of its result, since regions of reductions are run on whole
//! arrays.

use super::integers;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{V, complex};
use crate::invalid;
use crate::op::Op;
use crate::stablehlo::lower::Call;
use crate::stablehlo::types::{is_carried, is_unsigned};
use crate::stablehlo::value::{Value, Values};

fn one(v: Value) -> Result<Values> {
    Ok(vec![v])
}

/// A primitive of one operand.
pub fn unary<'m>(c: &Call<'_, '_, 'm>, op: Op) -> Result<Values<'m>> {
    one(c.x[0].map(|v| v.unary(op)))
}

/// Applies a formula to an operand of floats.
pub fn formula<'m>(c: &Call<'_, '_, 'm>, f: impl FnOnce(V<'m>) -> V<'m>) -> Result<Values<'m>> {
    let x = c.x[0];
    if !x.dtype.is_float() {
        return invalid!("floats are expected, not {}", x.dtype);
    }
    one(x.map(f))
}

fn pair<'m>(c: &Call<'_, '_, 'm>) -> Result<[Value<'m>; 2]> {
    let [a, b] = [c.x[0], c.x[1]];
    match a.dtype == b.dtype {
        true => Ok([a, b]),
        false => invalid!("operands of different types, {} and {}", a.dtype, b.dtype),
    }
}

/// A primitive of two operands; for bools `of_bools`, since these have no arithmetic.
pub fn binary<'m>(c: &Call<'_, '_, 'm>, op: Op, of_bools: Option<Op>) -> Result<Values<'m>> {
    let [a, b] = pair(c)?;
    if a.dtype.is_complex() {
        return of_complex(op, a, b);
    }
    let op = if a.dtype == DType::Bool { of_bools.unwrap_or(op) } else { op };
    one(a.map(|v| v.binary(op, b.v)))
}

fn of_complex<'m>(op: Op, a: Value<'m>, b: Value<'m>) -> Result<Values<'m>> {
    let ([ar, ai], [br, bi]) = (a.v.parts(), b.v.parts());
    let product = |br: V<'m>, bi: V<'m>| (ar * br - ai * bi, ar * bi + ai * br);
    let (re, im) = match op {
        Op::Add => (ar + br, ai + bi),
        Op::Sub => (ar - br, ai - bi),
        Op::Mul => product(br, bi),
        Op::Div => {
            let (size, (re, im)) = (br * br + bi * bi, product(br, -bi));
            (re / size, im / size)
        }
        _ => return invalid!("not supported of complex numbers"),
    };
    one(Value::of(complex(re, im)))
}

pub fn negate<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = c.x[0];
    if !x.dtype.is_complex() {
        return unary(c, Op::Neg);
    }
    let [re, im] = x.v.parts();
    one(Value::of(complex(-re, -im)))
}

pub fn abs<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = c.x[0];
    if x.dtype.is_complex() {
        let [re, im] = x.v.parts();
        return one(Value::of((re * re + im * im).sqrt()));
    }
    if is_unsigned(x.dtype) { one(x) } else { unary(c, Op::Abs) }
}

/// -1, 0 or 1; NaN and the sign of a zero are kept.
pub fn sign<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = c.x[0];
    if is_unsigned(x.dtype) {
        let zero = c.math().constant_int(0, x.v.dtype());
        return one(x.map(|v| v.ne(zero).cast(v.dtype())));
    }
    if !x.dtype.is_float() {
        return unary(c, Op::Sign);
    }
    formula(c, |v| v.eq(0.0).or(v.ne(v)).select(v, v.unary(Op::Sign)))
}

pub fn maximum<'m>(c: &Call<'_, '_, 'm>, op: Op) -> Result<Values<'m>> {
    let [a, b] = pair(c)?;
    one(a.extreme(op, b))
}

pub fn clamp<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [low, x, high] = [c.x[0], c.x[1], c.x[2]];
    if low.dtype != x.dtype || high.dtype != x.dtype {
        return invalid!("bounds of another type");
    }
    one(x.extreme(Op::Max, low).extreme(Op::Min, high))
}

/// For integers, a division by 0 gives -1, as in XLA; the remainder is the dividend.
pub fn divide<'m>(c: &Call<'_, '_, 'm>, op: Op) -> Result<Values<'m>> {
    let [a, b] = pair(c)?;
    if a.dtype.is_complex() {
        return of_complex(op, a, b);
    }
    if a.dtype.is_float() {
        return one(a.map(|v| v.binary(op, b.v)));
    }
    if a.dtype == DType::Bool {
        return invalid!("bools are not divided");
    }
    one(integers::divide(c, op, a, b))
}

pub fn power<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [a, b] = pair(c)?;
    one(a.map(|v| v.pow(b.v)))
}

pub fn select<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [holds, yes, no] = [c.x[0], c.x[1], c.x[2]];
    if yes.dtype != no.dtype || holds.dtype != DType::Bool {
        return invalid!("expected a bool and two values of one type");
    }
    one(yes.map(|v| holds.v.select(v, no.v)))
}

pub fn compare<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [a, b] = pair(c)?;
    let op = match c.choice(&["comparison_direction"]) {
        Some("EQ") => Op::Eq,
        Some("NE") => Op::Ne,
        Some("LT") => Op::Lt,
        Some("LE") => Op::Le,
        Some("GT") => Op::Gt,
        Some("GE") => Op::Ge,
        _ => return invalid!("how to compare is missing: EQ, NE, LT, LE, GT or GE"),
    };
    let is_total = c.op.attrs.iter().any(|(_, value)| {
        matches!(value, crate::stablehlo::attribute::Attribute::Choice("TOTALORDER"))
    });
    one(Value::of(compared(op, a, b, is_total)?))
}

fn compared<'m>(op: Op, a: Value<'m>, b: Value<'m>, is_total: bool) -> Result<V<'m>> {
    if a.dtype.is_complex() {
        let ([ar, ai], [br, bi]) = (a.v.parts(), b.v.parts());
        return match op {
            Op::Eq => Ok(ar.eq(br).and(ai.eq(bi))),
            Op::Ne => Ok(ar.ne(br).or(ai.ne(bi))),
            _ => invalid!("complex numbers have no order"),
        };
    }
    if is_total && a.dtype.is_float() {
        return Ok(total_order(a.v).binary(op, total_order(b.v)));
    }
    if matches!(op, Op::Eq | Op::Ne) || !is_carried(a.dtype) {
        return Ok(a.v.binary(op, b.v));
    }
    Ok(a.ordered().binary(op, b.ordered()))
}

/// An integer for each float, in IEEE 754's total order: -NaN, -inf, …, -0, 0, …, inf, NaN.
pub fn total_order(v: V) -> V {
    let (int, last) = match v.dtype().size() {
        2 => (DType::I16, i16::MAX as i64),
        4 => (DType::I32, i32::MAX as i64),
        _ => (DType::I64, i64::MAX),
    };
    let bits = v.bitcast(int);
    let zero = v.math().constant_int(0, int);
    let all_but_sign = v.math().constant_int(last, int);
    bits.lt(zero).select(bits.binary(Op::Xor, all_but_sign), bits)
}

pub fn convert<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let to = c.said()?.dtype;
    one(integers::convert(c, c.x[0], to)?)
}

/// Rounds to nearest, ties away from zero.
pub fn round_afz<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    formula(c, |v| {
        let whole = v.unary(Op::Trunc);
        let away = (v - whole).abs().ge(0.5);
        let rounded = away.select(whole + v.unary(Op::Sign), whole);
        // Zeros keep their sign, and infinities are unchanged.
        rounded.eq(whole).select(whole, rounded)
    })
}

/// Applies a test to an operand of floats; the result is of bools.
pub fn test<'m>(c: &Call<'_, '_, 'm>, f: impl FnOnce(V<'m>) -> V<'m>) -> Result<Values<'m>> {
    let x = c.x[0];
    match x.dtype.is_float() {
        true => one(Value::of(f(x.v))),
        false => invalid!("floats are expected, not {}", x.dtype),
    }
}

pub fn is_finite<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    test(c, |v| v.abs().lt(f64::INFINITY))
}

pub fn complex_of<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [re, im] = pair(c)?;
    match re.dtype {
        DType::F32 | DType::F64 => one(Value::of(complex(re.v, im.v))),
        other => invalid!("complex numbers of {other} are not supported"),
    }
}

pub fn part<'m>(c: &Call<'_, '_, 'm>, which: usize) -> Result<Values<'m>> {
    let x = c.x[0];
    if x.dtype.is_complex() {
        return one(Value::of(x.v.parts()[which]));
    }
    one(if which == 0 { x } else { x.map(|v| c.math().zeros(v.dtype(), &v.sizes())) })
}

/// Rounds to fewer bits; only formats of dtypes are supported.
pub fn reduce_precision<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let format = match c.choice(&["format"]) {
        Some(word) => word.to_string(),
        None => format!("e{}m{}", c.int(&["exponent_bits"])?, c.int(&["mantissa_bits"])?),
    };
    let x = c.x[0];
    let through = match &format[..] {
        "e5m10" => DType::F16,
        "e8m7" => DType::BF16,
        "e8m23" => DType::F32,
        "e11m52" => DType::F64,
        _ => return invalid!("numbers of the format {format} are not supported"),
    };
    formula(c, |v| v.cast(through).cast(x.dtype))
}

/// The operands, unchanged.
pub fn identity<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    Ok(c.x.clone())
}
