//! Functions that are not primitives, expressed in primitives.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{LANCZOS, V, wide};
use crate::op::Op;
use crate::stablehlo::lower::Call;
use crate::stablehlo::ops::elementwise::formula;
use crate::stablehlo::value::Values;
use std::f64::consts::{LN_2, PI};

/// Computes in f32 if the operand is of a half type.
fn widened<'m>(c: &Call<'_, '_, 'm>, f: impl FnOnce(V<'m>) -> V<'m>) -> Result<Values<'m>> {
    formula(c, |v| f(v.cast(wide(v.dtype()))).cast(v.dtype()))
}

pub fn tan<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| v.unary(Op::Sin) / v.unary(Op::Cos))
}

pub fn sinh<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    // e^x / 2 as e^(x - log 2), which can be finite where e^x is infinite.
    let large = |v: V<'m>| ((v - LN_2).exp()) - ((-v - LN_2).exp());
    widened(c, |v| {
        let less = v.unary(Op::Expm1);
        let small = 0.5 * (less + less / (less + 1.0));
        v.abs().lt(1.0).select(small, large(v))
    })
}

pub fn cosh<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| (v - LN_2).exp() + (-v - LN_2).exp())
}

fn atan_of(v: V) -> V {
    v.binary(Op::Atan2, 1.0)
}

pub fn atan<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, atan_of)
}

pub fn asin<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| 2.0 * v.binary(Op::Atan2, 1.0 + ((1.0 - v) * (1.0 + v)).sqrt()))
}

pub fn acos<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| {
        let angle = 2.0 * ((1.0 - v) * (1.0 + v)).sqrt().binary(Op::Atan2, 1.0 + v);
        v.eq(-1.0).select(angle.math().constant(PI, angle.dtype()), angle)
    })
}

pub fn asinh<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| {
        let (size, sign) = (v.abs(), v.unary(Op::Sign));
        let square = size * size;
        let small = (size + square / (1.0 + (square + 1.0).sqrt())).unary(Op::Log1p);
        // Where the square is infinite, or the terms beside it are negligible.
        let large = size.log() + LN_2;
        let y = sign * size.gt(1e9).select(large, small);
        v.eq(0.0).or(v.ne(v)).select(v, y)
    })
}

pub fn acosh<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| {
        let less = v - 1.0;
        let small = (less + (less * (v + 1.0)).sqrt()).unary(Op::Log1p);
        let y = v.gt(1e9).select(v.log() + LN_2, small);
        v.lt(1.0).select(v.math().constant(f64::NAN, v.dtype()), y)
    })
}

pub fn atanh<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| 0.5 * (v.unary(Op::Log1p) - (-v).unary(Op::Log1p)))
}

pub fn cbrt<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| {
        let root = v.abs().pow(1.0 / 3.0) * v.unary(Op::Sign);
        v.eq(0.0).or(v.ne(v)).select(v, root)
    })
}

/// `z` for the series, and `z + 7.5` with its logarithm. Below 1/2 both functions are reflected.
fn shifted(v: V) -> (V, V, V) {
    let z = v.lt(0.5).select(-v, v - 1.0);
    let t = z + 7.5;
    (z, t, 7.5f64.ln() + (z / 7.5).unary(Op::Log1p))
}

pub fn lgamma<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| {
        let (z, t, log_t) = shifted(v);
        let term = |sum: V<'m>, (n, a): (usize, &f64)| sum + *a / (z + (n as f64 + 1.0));
        let sum =
            LANCZOS[1..].iter().enumerate().fold(z.math().constant(LANCZOS[0], z.dtype()), term);
        let y = (2.0 * PI).ln() / 2.0 + (z + 0.5 - t / log_t) * log_t + sum.log();
        let size = v.abs();
        let part = size - size.unary(Op::Floor);
        let part = part.gt(0.5).select(1.0 - part, part);
        let sine = (part * PI).unary(Op::Sin).log();
        let infinity = v.math().constant(f64::INFINITY, v.dtype());
        let is_pole = v.le(0.0).and(part.eq(0.0));
        let reflected = is_pole.select(infinity, PI.ln() - sine - y);
        let y = v.lt(0.5).select(reflected, y);
        size.eq(f64::INFINITY).select(infinity, y)
    })
}

pub fn digamma<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    widened(c, |v| {
        let (z, t, log_t) = shifted(v);
        let [mut sum, mut slope] =
            [LANCZOS[0], 0.0].map(|number| z.math().constant(number, z.dtype()));
        for (n, a) in LANCZOS[1..].iter().enumerate() {
            let at = z + (n as f64 + 1.0);
            slope = slope - *a / (at * at);
            sum = sum + *a / at;
        }
        let y = log_t + slope / sum - 7.0 / t;
        // The fractional part has the same cotangent, and fewer digits to lose.
        let angle = (v + (v + 0.5).unary(Op::Floor).abs()) * PI;
        let reflected = y - PI * angle.unary(Op::Cos) / angle.unary(Op::Sin);
        let y = v.lt(0.5).select(reflected, y);
        let is_pole = v.le(0.0).and(v.eq(v.unary(Op::Floor)));
        is_pole.select(v.math().constant(f64::NAN, v.dtype()), y)
    })
}

/// The next representable number towards another one.
pub fn next_after<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let to = c.x[1].v;
    formula(c, |v| {
        let int = match v.dtype().size() {
            2 => DType::I16,
            4 => DType::I32,
            _ => DType::I64,
        };
        let one = v.math().constant_int(1, int);
        let bits = v.bitcast(int);
        let least = one.bitcast(v.dtype());
        let from_zero = to.lt(0.0).select(-least, least);
        let grows = to.abs().gt(v.abs()).and((v * to).gt(0.0).or(v.eq(0.0)));
        let moved = grows.select(bits + one, bits - one).bitcast(v.dtype());
        let next = v.eq(0.0).select(from_zero, moved);
        let next = v.eq(to).select(to, next);
        v.ne(v).or(to.ne(to)).select(v + to, next)
    })
}
