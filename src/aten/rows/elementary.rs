//! Exponentials and logarithms, circular and hyperbolic functions and their inverses, and functions built from them.

use super::{BACKWARD, PLAIN, moving};
use crate::aten::call::{Call, Rule::Float, Rule::FloatFormula};
use crate::aten::complex::{self, elementary as of_complex};
use crate::aten::real::{LARGE, asinh, cosh, sinh};
use crate::aten::rows::pointwise::{finite, map};
use crate::aten::{Row, row};
use crate::dtype::DType;
use crate::graph::math::V;
use crate::op::Op;
use std::f64::consts::{LN_2, PI};

pub const ROWS: &[Row] = &[
    row("exp", PLAIN, |c| c.elementwise([0], Float, |[x]| x.exp()))
        .complex_by(|c| map(c, complex::exp)),
    row("exp2", PLAIN, |c| {
        c.elementwise([0], Float, |[x]| x.math().constant(2.0, x.dtype()).pow(x))
    })
    .complex_by(|c| map(c, of_complex::exp2)),
    row("expm1", PLAIN, |c| c.elementwise([0], Float, |[x]| x.unary(Op::Expm1)))
        .complex_by(|c| map(c, of_complex::expm1)),
    row("log", PLAIN, |c| c.elementwise([0], Float, |[x]| x.log()))
        .complex_by(|c| map(c, complex::log)),
    row("log1p", PLAIN, |c| c.elementwise([0], Float, |[x]| x.unary(Op::Log1p)))
        .complex_by(|c| map(c, of_complex::log1p)),
    row("log2", PLAIN, |c| c.elementwise([0], FloatFormula, |[x]| logarithm(x, 2.0)))
        .complex_by(|c| map(c, |z| of_complex::logarithm(z, 2.0))),
    row("log10", PLAIN, |c| c.elementwise([0], FloatFormula, |[x]| logarithm(x, 10.0)))
        .complex_by(|c| map(c, |z| of_complex::logarithm(z, 10.0))),
    row("logaddexp", PLAIN, |c| c.elementwise([0, 1], FloatFormula, |[a, b]| log_add_exp(a, b))),
    row("logaddexp2", PLAIN, |c| {
        c.elementwise([0, 1], FloatFormula, |[a, b]| {
            let apart = (-(a - b).abs() * LN_2).exp().unary(Op::Log1p);
            log_of_sum(a, b, apart * (1.0 / LN_2))
        })
    }),
    // ---- circular
    row("sin", PLAIN, |c| c.elementwise([0], Float, |[x]| x.unary(Op::Sin)))
        .complex_by(|c| map(c, of_complex::sin)),
    row("cos", PLAIN, |c| c.elementwise([0], Float, |[x]| x.unary(Op::Cos)))
        .complex_by(|c| map(c, of_complex::cos)),
    row("tan", PLAIN, |c| {
        c.elementwise([0], FloatFormula, |[x]| x.unary(Op::Sin) / x.unary(Op::Cos))
    })
    .complex_by(|c| map(c, of_complex::tan)),
    row("atan", PLAIN, |c| c.elementwise([0], Float, |[x]| x.binary(Op::Atan2, 1.0)))
        .complex_by(|c| map(c, of_complex::atan)),
    row("asin", PLAIN, |c| {
        c.elementwise([0], FloatFormula, |[x]| x.binary(Op::Atan2, other_leg(c, x)))
    })
    .complex_by(|c| map(c, of_complex::asin)),
    row("acos", PLAIN, |c| {
        c.elementwise([0], FloatFormula, |[x]| other_leg(c, x).binary(Op::Atan2, x))
    })
    .complex_by(|c| map(c, of_complex::acos)),
    row("sinc", PLAIN, |c| {
        c.elementwise([0], FloatFormula, |[x]| {
            let is_some = x.ne(0.0);
            let angle = is_some.select(x, 1.0) * PI;
            is_some.select(angle.unary(Op::Sin) / angle, 1.0)
        })
    })
    .complex_by(|c| map(c, of_complex::sinc)),
    // ---- hyperbolic
    row("sinh", PLAIN, |c| c.elementwise([0], FloatFormula, |[x]| sinh(x)))
        .complex_by(|c| map(c, of_complex::sinh)),
    row("cosh", PLAIN, |c| c.elementwise([0], FloatFormula, |[x]| cosh(x)))
        .complex_by(|c| map(c, of_complex::cosh)),
    row("tanh", PLAIN, |c| c.elementwise([0], Float, |[x]| x.tanh()))
        .complex_by(|c| map(c, of_complex::tanh)),
    row("asinh", PLAIN, |c| c.elementwise([0], FloatFormula, |[x]| asinh(x)))
        .complex_by(|c| map(c, of_complex::asinh)),
    row("acosh", PLAIN, |c| {
        c.elementwise([0], FloatFormula, |[x]| {
            let is_large = x.gt(LARGE);
            let x_or_one = is_large.not().select(x, 1.0);
            let above = x_or_one - 1.0;
            let square = product(c, above * (above + 2.0), x_or_one * x_or_one);
            let near = (above + square.sqrt()).unary(Op::Log1p);
            let near = above.lt(0.0).not().select(near, f64::NAN);
            is_large.select(x.log() + LN_2, near)
        })
    })
    .complex_by(|c| map(c, of_complex::acosh)),
    row("atanh", PLAIN, |c| {
        c.elementwise([0], FloatFormula, |[x]| (x.unary(Op::Log1p) - (-x).unary(Op::Log1p)) * 0.5)
    })
    .complex_by(|c| map(c, of_complex::atanh)),
    // ---- of probabilities
    row("sigmoid", PLAIN, |c| c.elementwise([0], Float, |[x]| x.sigmoid()))
        .complex_by(|c| map(c, of_complex::sigmoid)),
    row("logit", PLAIN, |c| {
        let (result, compute) = c.plan(&[0], FloatFormula)?;
        let mut x = c.number(0, 0.0, compute)?;
        if c.has(1) {
            let ([low, high], is_given) = edges(c, 1, result, compute)?;
            let within = x.lt(low).select(low, x.gt(high).select(high, x));
            x = is_given.select(within, x);
        }
        Ok(vec![log_odds(c, x).cast(result)])
    }),
    row("logit_backward", BACKWARD, |c| {
        let (result, compute) = c.plan(&[0, 1], FloatFormula)?;
        let [dy, x] = c.numbers([0, 1], compute)?;
        let slope = dy / (x * (1.0 - x));
        let free = x.lt(0.0).or(x.gt(1.0)).not().select(slope, f64::NAN);
        if !c.has(2) {
            return Ok(vec![free.cast(result)]);
        }
        let ([low, high], is_given) = edges(c, 2, result, compute)?;
        let clamped = x.lt(low).or(x.gt(high)).not().select(slope, 0.0);
        Ok(vec![is_given.select(clamped, free).cast(result)])
    }),
    row("special_entr", PLAIN, |c| {
        c.elementwise([0], FloatFormula, |[x]| {
            let some = moving(c, x, |x| x.ne(0.0));
            let inside = x.gt(0.0).select(-some * some.log(), x.abs());
            let inside = match c.is_differentiated() {
                // A root is 0 and infinitely steep at 0, too.
                true => x.eq(0.0).select((x + 0.0).sqrt(), inside),
                false => inside,
            };
            x.lt(0.0).not().select(inside, f64::NEG_INFINITY)
        })
    }),
    row("xlogy", OF_TWO, |c| c.elementwise([0, 1], FloatFormula, |[a, b]| times(c, a, b, b.log()))),
    row(
        "special_xlog1py",
        &["", "self_scalar", "other_scalar", "out", "self_scalar_out", "other_scalar_out"],
        |c| c.elementwise([0, 1], FloatFormula, |[a, b]| times(c, a, b, b.unary(Op::Log1p))),
    ),
];

const OF_TWO: &[&str] =
    &["Tensor", "Scalar_Self", "Scalar_Other", "OutTensor", "OutScalar_Self", "OutScalar_Other"];

/// The bounds to which argument `i`, an epsilon, clamps a probability, rounded as the result is; and whether it clamps: a
/// negative epsilon stands for none.
fn edges<'a>(
    c: &Call<'a>,
    i: usize,
    result: DType,
    compute: DType,
) -> crate::error::Result<([V<'a>; 2], V<'a>)> {
    let low = c.number(i, 0.0, result)?.cast(compute);
    let high = (1.0 - low).cast(result).cast(compute);
    Ok(([low, high], low.lt(0.0).not()))
}

/// log(exp(a) + exp(b))
pub fn log_add_exp<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    log_of_sum(a, b, (-(a - b).abs()).exp().unary(Op::Log1p))
}

/// The larger one plus `apart`, except for equal infinities, which have no difference.
fn log_of_sum<'a>(a: V<'a>, b: V<'a>, apart: V<'a>) -> V<'a> {
    a.eq(b).and(finite(a).not()).select(a, a.max(b) + apart)
}

/// `a * log`, where `log` is the logarithm of `b`; 0 where `a` is, unless `b` is NaN.
fn times<'a>(c: &Call<'a>, a: V<'a>, b: V<'a>, log: V<'a>) -> V<'a> {
    let is_some = a.ne(0.0);
    let product = match c.is_differentiated() {
        true => {
            // The slope of a 0 is the logarithm where that is finite; + 0.0 removes the zero's sign.
            let product = a * is_some.or(finite(log)).select(log, 0.0);
            is_some.select(product, product + 0.0)
        }
        false => is_some.select(a * log, 0.0),
    };
    b.ne(b).select(b, product)
}

/// The logarithm to a base. It is whole for exact powers of the base: programs take its floor.
fn logarithm(x: V, base: f64) -> V {
    let log = x.log() * (1.0 / base.ln());
    let whole = log.unary(Op::Round);
    let power = x.math().constant(base, x.dtype()).broadcast(&x.sizes()).pow(whole);
    // What rounding missed is no part of the slope; it is NaN where the logarithm is infinite.
    let missed = whole - log;
    let is_power = power.binary(Op::Eq, x).and(missed.abs().lt(0.5));
    log + is_power.select(missed, 0.0).detached()
}

/// The other leg of a right triangle with hypotenuse 1.
fn other_leg<'a>(c: &Call<'a>, x: V<'a>) -> V<'a> {
    product(c, (1.0 - x) * (1.0 + x), -x * x).sqrt()
}

/// A product under a root, with the slope of a polynomial (`alike`) that differs from it by a constant: where a factor is 0
/// the root's slope is infinite, and the product rule would multiply the two.
fn product<'a>(c: &Call<'a>, product: V<'a>, alike: V<'a>) -> V<'a> {
    if c.is_differentiated() { product.detached().adding_slope_of(alike) } else { product }
}

/// log(x / (1 - x)): with the infinite slopes at its ends, where the quotient rule would multiply them by 0, and a slope of
/// NaN where `x` is not a probability.
fn log_odds<'a>(c: &Call<'a>, x: V<'a>) -> V<'a> {
    let (at_start, at_end) = (x.eq(0.0), x.eq(1.0));
    let between = moving(c, x, |_| at_start.or(at_end).not());
    let log = (between / (1.0 - between)).log();
    if !c.is_differentiated() {
        return log;
    }
    let log = at_start.select(x.log(), at_end.select(-(1.0 - x).log(), log));
    let is_none = x.lt(0.0).or(x.gt(1.0));
    is_none.select(log.moving_where(is_none) * f64::NAN, log)
}
