//! Real formulas that complex ones are built from, too.

use crate::graph::math::V;
use crate::op::Op;
use std::f64::consts::LN_2;

/// Beyond this, `x² + 1` is `x²`.
pub const LARGE: f64 = 1e9;

/// An odd function (`f(-x) = -f(x)`) with a slope of 1 at 0, from its formula for non-negative numbers.
fn odd<'m>(x: V<'m>, f: impl FnOnce(V<'m>) -> V<'m>) -> V<'m> {
    let side = x.lt(0.0).select(x.math().constant(-1.0, x.dtype()), 1.0);
    // A zero keeps its sign.
    x.eq(0.0).select(x, f(x * side) * side)
}

pub fn sinh(x: V) -> V {
    odd(x, |x| {
        // (u + u / (u + 1)) / 2 with u = exp(x) - 1: exact near 0.
        let u = x.unary(Op::Expm1);
        let is_small = u.lt(1e10);
        let small = u.moving_where(is_small);
        is_small.select((small + small / (small + 1.0)) * 0.5, half_exp(x))
    })
}

pub fn cosh(x: V) -> V {
    let half = half_exp(x.abs());
    half + 0.25 / half
}

/// exp(x) / 2, even where exp(x) would overflow. Halving x is exact, subtracting ln 2 from it is not.
fn half_exp(x: V) -> V {
    let root = (x * 0.5).exp();
    root * (root * 0.5)
}

pub fn asinh(x: V) -> V {
    odd(x, |x| {
        let is_large = x.gt(LARGE);
        // The square of a large number may overflow.
        let small = is_large.not().select(x, 1.0);
        let near = (small + small * small / ((small * small + 1.0).sqrt() + 1.0)).unary(Op::Log1p);
        is_large.select(x.moving_where(is_large).log() + LN_2, near)
    })
}
