//! Exponentials and logarithms, circular and hyperbolic functions and their inverses, of complex numbers. Inverses by W. Kahan,
//! "Branch Cuts for Complex Elementary Functions" (1987): continuous up to the cuts, whose sides signed zeros tell.

use super::{add, complex, div, exp, log, mul, reciprocal, sqrt};
use crate::aten::real;
use crate::dtype::DType;
use crate::graph::math::V;
use crate::op::Op;
use std::f64::consts::{FRAC_PI_2, LN_2, PI};

/// `size * wave`, where a zero times what is endless is that zero.
fn stretched<'m>(size: V<'m>, wave: V<'m>) -> V<'m> {
    let product = wave.eq(0.0).select(wave, size * wave);
    size.eq(0.0).select(size, product)
}

/// Both factors of a real number's parts.
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

/// By the angle's half, whose cosine is not subtracted from 1.
pub fn expm1(z: V) -> V {
    let [re, im] = z.parts();
    let half = (im * 0.5).unary(Op::Sin);
    let wide = re.unary(Op::Expm1) * im.unary(Op::Cos) - half * half * 2.0;
    complex(wide, stretched(re.exp(), im.unary(Op::Sin)))
}

pub fn logarithm(z: V, base: f64) -> V {
    scaled(log(z), 1.0 / base.ln())
}

/// Near 0 by what the square of the absolute value of `1 + z` is more than 1.
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
    let wide = stretched(real::sinh(re), im.unary(Op::Cos));
    complex(wide, stretched(real::cosh(re), im.unary(Op::Sin)))
}

pub fn cosh(z: V) -> V {
    let [re, im] = z.parts();
    let high = stretched(real::sinh(re), im.unary(Op::Sin));
    complex(stretched(real::cosh(re), im.unary(Op::Cos)), high)
}

pub fn sin(z: V) -> V {
    turned_back(sinh(turned(z)))
}

pub fn cos(z: V) -> V {
    cosh(turned(z))
}

/// Of a long real part the tangent's own size does not matter, whose square may be no number of the type.
pub fn tanh(z: V) -> V {
    const LONG: f64 = 20.0;
    let [re, im] = z.parts();
    let is_long = re.abs().gt(LONG);
    let short = is_long.not().select(re, 0.0);
    let (tangent, wide) = (im.unary(Op::Sin) / im.unary(Op::Cos), real::sinh(short));
    let slope = tangent * tangent + 1.0;
    let divisor = slope * wide * wide + 1.0;
    let along = slope * wide * (wide * wide + 1.0).sqrt() / divisor;
    let beside = (im * 2.0).unary(Op::Sin) * (re.abs() * -2.0).exp() * 2.0;
    // Of an endless real part the angle does not matter.
    let beside = re.abs().ne(f64::INFINITY).select(beside, 0.0);
    complex(is_long.select(re.unary(Op::Sign), along), is_long.select(beside, tangent / divisor))
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
    let [below, above] = roots(z);
    let [beside, _] = mul(below, above).parts();
    complex(z.parts()[0].binary(Op::Atan2, beside), real::asinh(crossed(below, above)))
}

pub fn acos(z: V) -> V {
    let [below, above] = roots(z);
    let angle = below.parts()[0].binary(Op::Atan2, above.parts()[0]);
    complex(angle * 2.0, real::asinh(crossed(above, below)))
}

pub fn acosh(z: V) -> V {
    let [re, im] = z.parts();
    let [below, above] = [re - 1.0, re + 1.0].map(|re| sqrt(complex(re, im)));
    let ([a, b], [c, d]) = (below.parts(), above.parts());
    complex(real::asinh(a * c + b * d), b.binary(Op::Atan2, c) * 2.0)
}

pub fn asinh(z: V) -> V {
    turned_back(asin(turned(z)))
}

/// Half of the logarithm of `(1 + z) / (1 - z)`, whose absolute value is taken as far as it is from 1.
pub fn atanh(z: V) -> V {
    let [re, im] = z.parts();
    let away = 1.0 - re.abs();
    let ratio = re.abs() * 4.0 / (away * away + im * im);
    let wide = ratio.unary(Op::Log1p) * 0.25 * re.unary(Op::Sign);
    let angle = (im * 2.0).binary(Op::Atan2, away * (re.abs() + 1.0) - im * im) * 0.5;
    // So far away that four times as much is no number of the type, there is a right angle left.
    let far = if re.dtype() == DType::F64 { 1e307 } else { 1e37 };
    let is_far = re.abs().gt(far).or(im.abs().gt(far));
    let is_below = im.binary(Op::Atan2, -1.0).lt(0.0);
    let right = is_below.select(im.math().constant(-FRAC_PI_2, im.dtype()), FRAC_PI_2);
    let right = im.ne(im).select(im, right);
    complex(is_far.not().select(wide, 0.0), is_far.select(right, angle))
}

pub fn atan(z: V) -> V {
    turned_back(atanh(turned(z)))
}

pub fn sigmoid(z: V) -> V {
    let one = z.math().constant(1.0, z.dtype());
    reciprocal(add(one, exp(super::neg(z))))
}

/// `sin(π z) / (π z)`, and 1 of 0.
pub fn sinc(z: V) -> V {
    let angle = scaled(z, PI);
    let is_zero = super::any_part(z, |part| part.ne(0.0)).not();
    let one = z.math().constant(1.0, z.dtype());
    is_zero.select(one, div(sin(angle), is_zero.select(one, angle)))
}
