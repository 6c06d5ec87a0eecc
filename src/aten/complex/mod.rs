//! Formulas of complex numbers: values of a complex dtype in terms of their real and imaginary parts.

pub mod elementary;

use crate::graph::math::V;
pub use crate::graph::math::complex;
use crate::op::Op;

/// Applies `f` to each part on its own.
pub fn by_part<'m, const N: usize>(z: [V<'m>; N], f: impl FnOnce([V<'m>; N]) -> V<'m>) -> V<'m> {
    f(z.map(V::pairs)).paired()
}

/// Whether `question` holds for either part.
pub fn any_part<'m>(z: V<'m>, question: impl FnOnce(V<'m>) -> V<'m>) -> V<'m> {
    question(z.pairs()).reduce(Op::Any, &[z.rank() as i64], false)
}

pub fn neg(z: V) -> V {
    by_part([z], |[z]| -z)
}

pub fn add<'m>(a: V<'m>, b: V<'m>) -> V<'m> {
    by_part([a, b], |[a, b]| a + b)
}

pub fn sub<'m>(a: V<'m>, b: V<'m>) -> V<'m> {
    by_part([a, b], |[a, b]| a - b)
}

pub fn conj(z: V) -> V {
    let [re, im] = z.parts();
    complex(re, -im)
}

pub fn mul<'m>(a: V<'m>, b: V<'m>) -> V<'m> {
    let ([a, b], [c, d]) = (a.parts(), b.parts());
    complex(a * c - b * d, a * d + b * c)
}

/// Smith's formula (1962), by the ratio of the divisor's parts: its square may not be representable.
pub fn div<'m>(a: V<'m>, b: V<'m>) -> V<'m> {
    let ([a, b], [c, d]) = (a.parts(), b.parts());
    let by_real = c.abs().ge(d.abs());
    let (large, small) = (by_real.select(c, d), by_real.select(d, c));
    let is_zero = large.eq(0.0);
    let ratio = small / is_zero.select(large + 1.0, large);
    let size = is_zero.select(large.abs(), large + small * ratio);
    let re = by_real.select(a + b * ratio, a * ratio + b);
    let im = by_real.select(b - a * ratio, b * ratio - a);
    complex(re / size, im / size)
}

pub fn reciprocal(z: V) -> V {
    div(z.math().constant(1.0, z.dtype()), z)
}

/// The absolute value, real. Scaled by the larger part, whose square may not be representable.
pub fn abs(z: V) -> V {
    abs_of_parts(z.parts())
}

/// [`abs`] of a number with these parts.
pub fn abs_of_parts<'m>(parts: [V<'m>; 2]) -> V<'m> {
    let parts @ [a, b] = parts.map(V::abs);
    let (large, small) = (a.max(b), a.min(b));
    let is_usual = large.gt(0.0).and(large.lt(f64::INFINITY));
    let ratio = small / is_usual.select(large, 1.0);
    let [a, b] = parts.map(|part| part.ne(f64::INFINITY));
    a.and(b).select(large * (ratio * ratio + 1.0).sqrt(), f64::INFINITY)
}

/// The angle to the positive real axis, real.
pub fn angle(z: V) -> V {
    let [re, im] = z.parts();
    im.binary(Op::Atan2, re)
}

/// `z / |z|`, and 0 at 0.
pub fn sgn(z: V) -> V {
    let size = abs(z);
    let divisor = size.eq(0.0).select(size + 1.0, size).unsqueeze(z.rank());
    by_part([z], |[z]| z / divisor)
}

pub fn polar<'m>(size: V<'m>, angle: V<'m>) -> V<'m> {
    complex(size * angle.unary(Op::Cos), size * angle.unary(Op::Sin))
}

pub fn exp(z: V) -> V {
    let [re, im] = z.parts();
    let [wide, high] = polar(re.exp(), im).parts();
    // An infinite size times NaN, or times a sine of 0, is NaN.
    let has_angle = im.abs().lt(f64::INFINITY);
    let [wide, high] =
        [wide, high].map(|part| has_angle.or(re.ne(f64::NEG_INFINITY)).select(part, 0.0));
    let wide = has_angle.or(re.ne(f64::INFINITY)).select(wide, re);
    complex(wide, im.eq(0.0).select(im, high))
}

pub fn log(z: V) -> V {
    complex(abs(z).log(), angle(z))
}

/// The root with a real part of at least 0, on the side of the imaginary part's sign, even that of a zero.
pub fn sqrt(z: V) -> V {
    let [re, im] = z.parts();
    let is_endless = im.abs().eq(f64::INFINITY);
    let long = is_endless.select(im.abs(), (abs(z) * 0.5 + re.abs() * 0.5).sqrt());
    let short = im.abs() / (long.eq(0.0).select(long + 1.0, long) * 2.0);
    let short = is_endless.select(long, short);
    let is_below = im.binary(Op::Atan2, -1.0).lt(0.0);
    let is_left = re.lt(0.0);
    let height = is_left.select(long, short);
    complex(is_left.select(short, long), is_below.select(-height, height))
}

/// `a ** b` by logarithms; 0 if `a` is 0 and the real part of the exponent is positive.
pub fn pow<'m>(a: V<'m>, b: V<'m>) -> V<'m> {
    let is_zero = any_part(a, |part| part.ne(0.0)).not().and(b.parts()[0].gt(0.0));
    is_zero.select(a, exp(mul(b, log(a))))
}

/// Product of matrices of one dtype and equal batch sizes as one product of real ones of twice the columns: the two parts of
/// a number of `a` are adjacent and meet the parts of one of `b` and, below them, those of that times i.
pub fn matmul<'m>(a: V<'m>, b: V<'m>) -> V<'m> {
    let (rows, columns) = (a.sizes(), b.sizes());
    let rank = rows.len();
    if rank < 2 || columns.len() != rank {
        return a; // after an error
    }
    let [re, im] = b.parts();
    let below = [b, complex(-im, re)].map(|b| b.pairs().unsqueeze(rank - 1));
    let mut wide = columns.clone();
    wide[rank - 2] *= 2;
    wide[rank - 1] *= 2;
    let right = a.math().concat(&below, rank - 1).reshape(&wide);
    let mut long = rows.clone();
    long[rank - 1] *= 2;
    let product = a.pairs().reshape(&long).matmul(right);
    let mut sizes = rows;
    sizes[rank - 1] = columns[rank - 1];
    sizes.push(2);
    product.reshape(&sizes).paired()
}
