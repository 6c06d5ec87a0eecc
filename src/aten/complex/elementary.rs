//! Exponentials and logarithms, circular and hyperbolic functions and their inverses, of complex numbers. Inverses follow
//! W. Kahan, "Branch Cuts for Complex Elementary Functions" (1987): continuous up to the cuts; signed zeros tell the side.

use super::{add, complex, div, exp, log, mul, reciprocal, sqrt};
use crate::aten::real;
use crate::graph::math::V;
use crate::op::Op;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

/// `size * wave`, where zero times infinity is that zero.
fn stretched<'m>(size: V<'m>, wave: V<'m>) -> V<'m> {
    let product = wave.eq(0.0).select(wave, size * wave);
    size.eq(0.0).select(size, product)
}

/// `|size| * wave` for the value `size` of a hyperbolic function at `x`, which may overflow even if the product does not.
fn grown<'m>(x: V<'m>, size: V<'m>, wave: V<'m>) -> V<'m> {
    const LONG: f64 = 80.0;
    let root = (x.abs() * 0.5).exp();
    let far = wave.eq(0.0).select(wave, root * wave * (root * 0.5));
    x.abs().gt(LONG).select(far, stretched(size.abs(), wave))
}

fn is_endless(x: V) -> V {
    x.abs().eq(f64::INFINITY)
}

fn finite(x: V) -> V {
    x.abs().lt(f64::INFINITY)
}

/// Both parts times a real factor.
fn scaled(z: V, factor: f64) -> V {
    super::by_part([z], |[z]| z * factor)
}

/// `i z`.
fn turned(z: V) -> V {
    let [re, im] = z.parts();
    complex(-im, re)
}

/// `-i z`.
fn turned_back(z: V) -> V {
    let [re, im] = z.parts();
    complex(im, -re)
}

pub fn exp2(z: V) -> V {
    exp(scaled(z, LN_2))
}

/// By the sine of half the angle, so that no cosine is subtracted from 1.
pub fn expm1(z: V) -> V {
    let [re, im] = z.parts();
    let half = (im * 0.5).unary(Op::Sin);
    let wide = re.unary(Op::Expm1) * im.unary(Op::Cos) - half * half * 2.0;
    complex(wide, stretched(re.exp(), im.unary(Op::Sin)))
}

pub fn logarithm(z: V, base: f64) -> V {
    scaled(log(z), 1.0 / base.ln())
}

/// Near 0 by log1p of `|1 + z|² - 1`.
pub fn log1p(z: V) -> V {
    let [re, im] = z.parts();
    let near = ((re + 2.0) * re + im * im).unary(Op::Log1p) * 0.5;
    let moved = complex(re + 1.0, im);
    let [far, angle] = log(moved).parts();
    let is_near = re.abs().lt(0.5).and(im.abs().lt(0.5));
    complex(is_near.select(near, far), angle)
}

pub fn sinh(z: V) -> V {
    let [re, im] = z.parts();
    let wide = grown(re, real::sinh(re), im.unary(Op::Cos));
    let wide =
        is_endless(re).and(finite(im).not()).select(re.abs(), re.lt(0.0).select(-wide, wide));
    complex(wide, grown(re, real::cosh(re), im.unary(Op::Sin)))
}

pub fn cosh(z: V) -> V {
    let [re, im] = z.parts();
    let high = grown(re, real::sinh(re), im.unary(Op::Sin));
    let wide = grown(re, real::cosh(re), im.unary(Op::Cos));
    let wide = is_endless(re).and(finite(im).not()).select(re.abs(), wide);
    complex(wide, re.lt(0.0).select(-high, high))
}

pub fn sin(z: V) -> V {
    turned_back(sinh(turned(z)))
}

pub fn cos(z: V) -> V {
    cosh(turned(z))
}

/// For a large real part its sign and an asymptote, without the tangent of the angle: the square of `sinh` may overflow.
pub fn tanh(z: V) -> V {
    const LONG: f64 = 20.0;
    let [re, im] = z.parts();
    let is_long = re.abs().gt(LONG);
    let short = is_long.not().select(re, 0.0);
    let (tangent, wide) = (im.unary(Op::Sin) / im.unary(Op::Cos), real::sinh(short));
    let slope = tangent * tangent + 1.0;
    let divisor = slope * wide * wide + 1.0;
    let along = slope * wide * (wide * wide + 1.0).sqrt() / divisor;
    let beside = im.unary(Op::Sin) * im.unary(Op::Cos) * ((re.abs() * -2.0).exp() * 4.0);
    // With an infinite real part the angle does not matter.
    let beside = is_endless(re).not().select(beside, 0.0);
    let long = finite(im).or(is_endless(re)).select(re.unary(Op::Sign), f64::NAN);
    let along = re.eq(0.0).select(re, is_long.select(long, along));
    let beside = is_long.select(beside, tangent / divisor);
    complex(along, im.eq(0.0).select(im, beside))
}

pub fn tan(z: V) -> V {
    turned_back(tanh(turned(z)))
}

/// The square roots of `1 - z` and `1 + z`.
fn roots<'m>(z: V<'m>) -> [V<'m>; 2] {
    let [re, im] = z.parts();
    [sqrt(complex(1.0 - re, -im)), sqrt(complex(re + 1.0, im))]
}

/// The imaginary part of the conjugate of `a` times `b`.
fn crossed<'m>(a: V<'m>, b: V<'m>) -> V<'m> {
    let ([a, b], [c, d]) = (a.parts(), b.parts());
    a * d - b * c
}

pub fn asin(z: V) -> V {
    let ([below, above], [re, im]) = (roots(z), z.parts());
    let [beside, _] = mul(below, above).parts();
    // For infinite numbers the directions alone decide.
    let beside = is_endless(re).and(finite(im)).not().select(beside, 0.0);
    let beside = is_endless(im).not().select(beside, f64::INFINITY);
    complex(re.binary(Op::Atan2, beside), real::asinh(crossed(below, above)))
}

/// `angle`, or that of `z` if both of its parts are infinite.
fn diagonal<'m>(z: V<'m>, angle: V<'m>) -> V<'m> {
    let [re, im] = z.parts();
    let left = re.math().constant(3.0 * FRAC_PI_4, re.dtype());
    is_endless(re).and(is_endless(im)).select(re.lt(0.0).select(left, FRAC_PI_4), angle)
}

pub fn acos(z: V) -> V {
    let [below, above] = roots(z);
    let angle = below.parts()[0].binary(Op::Atan2, above.parts()[0]) * 2.0;
    complex(diagonal(z, angle), real::asinh(crossed(above, below)))
}

pub fn acosh(z: V) -> V {
    let [re, im] = z.parts();
    let [below, above] = [re - 1.0, re + 1.0].map(|re| sqrt(complex(re, im)));
    let ([a, b], [c, d]) = (below.parts(), above.parts());
    let angle = b.binary(Op::Atan2, c) * 2.0;
    let side = im.lt(0.0).select(im.math().constant(-1.0, im.dtype()), 1.0);
    complex(real::asinh(a * c + b * d).abs(), diagonal(z, angle * side) * side)
}

pub fn asinh(z: V) -> V {
    turned_back(asin(turned(z)))
}

/// Half of the logarithm of `(1 + z) / (1 - z)`, whose absolute value enters as its difference from 1.
pub fn atanh(z: V) -> V {
    /// From here on the result is `1 / z` and a right angle, and squares may overflow.
    const FAR: f64 = 1e9;
    let ([re, im], size) = (z.parts(), super::abs(z));
    let away = 1.0 - re.abs();
    let near = (re.abs() * 4.0 / (away * away + im * im)).unary(Op::Log1p) * 0.25;
    // The square of a small imaginary part at the pole may underflow.
    let pole =
        (super::abs_of_parts([im.math().constant(2.0, im.dtype()), im]) / im.abs()).log() * 0.5;
    let near = away.eq(0.0).and(im.abs().lt(1e-3)).select(pole, near) * re.unary(Op::Sign);
    let far = size.lt(f64::INFINITY).select(re / size / size, 0.0);
    let wide = size.gt(FAR).select(far, near);
    let angle = (im * 2.0).binary(Op::Atan2, away * (re.abs() + 1.0) - im * im) * 0.5;
    let is_below = im.binary(Op::Atan2, -1.0).lt(0.0);
    let right = is_below.select(im.math().constant(-FRAC_PI_2, im.dtype()), FRAC_PI_2);
    let right = im.ne(im).select(im, right);
    complex(re.eq(0.0).select(re, wide), size.gt(FAR * FAR).select(right, angle))
}

pub fn atan(z: V) -> V {
    turned_back(atanh(turned(z)))
}

/// By the one of `exp(z)` and `exp(-z)` whose size is at most 1.
pub fn sigmoid(z: V) -> V {
    let one = z.math().constant(1.0, z.dtype());
    let is_left = z.parts()[0].lt(0.0);
    let small = exp(is_left.select(z, super::neg(z)));
    let share = reciprocal(add(one, small));
    is_left.select(mul(small, share), share)
}

/// `sin(π z) / (π z)`, and 1 at 0.
pub fn sinc(z: V) -> V {
    let angle = scaled(z, PI);
    let is_zero = super::any_part(z, |part| part.ne(0.0)).not();
    let one = z.math().constant(1.0, z.dtype());
    is_zero.select(one, div(sin(angle), is_zero.select(one, angle)))
}
