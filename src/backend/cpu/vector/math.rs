//! Elementary functions of f32, without branches, and conversions of half types. The largest error is stated in units
//! in the last place (ulp) of f32 where multiply-add is fused, half as much again where it is not, and tested against
//! f64; NaN, infinities, zeros and denormals behave as in C.
//!
//! Functions of a [`Vector`] are vector code by construction. `FMA` as in [`super::super::isa::Kernel`].

use super::{Bits, Estimates, ScalarVec, Vector};
use std::f32::consts::FRAC_2_SQRT_PI;

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the high one has few enough bits that multiplying it by an exponent is exact.
pub const LN2_HIGH: f32 = 0.693_145_75;
pub const LN2_LOW: f32 = 1.428_606_8e-6;
/// Adding and subtracting this rounds to the nearest integer, for |x| < 2^22.
const ROUND: f32 = 12_582_912.0;

#[inline(always)]
pub fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `c[0] + c[1] x + …`, by Horner's rule.
#[inline(always)]
fn polynomial<V: Vector, const N: usize>(x: V, c: [f32; N]) -> V {
    let mut y = V::splat(c[N - 1]);
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        y = y.mul_add(x, V::splat(c[i]));
    }
    y
}

/// `x = n ln 2 + r` with |r| <= ln 2 / 2: (n, r).
#[inline(always)]
fn reduce_exp<V: Vector>(x: V) -> (V, V) {
    let n = x.mul_add(V::splat(LOG2_E), V::splat(ROUND)) - V::splat(ROUND);
    let r = n.mul_add(V::splat(-LN2_HIGH), x);
    (n, n.mul_add(V::splat(-LN2_LOW), r))
}

/// Clamps without losing NaN.
#[inline(always)]
fn clamp<V: Vector>(x: V, low: f32, high: f32) -> V {
    x.max(V::splat(low)).min(V::splat(high))
}

/// See [`Vector::exp_within`].
#[inline(always)]
pub fn exp_within<V: Vector>(x: V) -> V {
    let (n, r) = reduce_exp(x);
    exp_polynomial(r).scale(n)
}

/// exp of a number below this rounds to 0.
pub const NO_EXP: f32 = -103.98;

/// [`exp_within`] as 2^(n + j/16) exp r: a shorter polynomial, and the sixteen powers are one register.
#[inline(always)]
pub fn exp_in_sixteenths<V: Estimates>(x: V) -> V {
    let sixteenths = V::splat(786_432.0);
    let t = x.mul_add(V::splat(LOG2_E), sixteenths);
    let n = t - sixteenths;
    let r = n.mul_add(V::splat(-LN2_HIGH), x);
    let r = n.mul_add(V::splat(-LN2_LOW), r);
    let power = t.power_16();
    let q = r.mul_add(V::splat(0.166_666_67), V::splat(0.5));
    let p = q.mul_add(r * r, r);
    // Scaling uses the whole part of n. Results that would be 0, as for masked scores, are not computed: an underflow
    // takes the processor thirty times as long.
    power.mul_add(p, power).scale_at_least(n, x, NO_EXP)
}

/// [`exp_within`], but 0 where the result would round to 0, as in [`exp_in_sixteenths`].
#[inline(always)]
pub fn exp_or_zero<V: Vector>(x: V) -> V {
    let (zero, nothing) = (V::splat(0.0), x.lt(V::splat(NO_EXP)));
    V::select(nothing, zero, exp_within(V::select(nothing, zero, x)))
}

/// [`Vector::scale`] by two factors, because 2^n alone may be out of range.
#[inline(always)]
pub fn scale_in_halves<V: Bits>(x: V, n: V) -> V {
    let n = n.to_int();
    let (half, bias) = (n.half_int(), V::of_bits(127));
    let low = half.add_bits(bias).to_exponent();
    let high = n.sub_bits(half).add_bits(bias).to_exponent();
    x * low * high
}

/// [`Vector::split`].
#[inline(always)]
pub fn split_bits<V: Bits>(x: V) -> (V, V) {
    let zero = V::splat(0.0);
    let tiny = x.lt(V::splat(f32::MIN_POSITIVE));
    let scaled = V::select(tiny, x * V::splat(8_388_608.0), x);
    let low = V::splat(0.75);
    let bits = scaled.sub_bits(low);
    let m = bits.and_bits(V::of_bits(0x007f_ffff)).add_bits(low);
    let e = bits.exponent_int().int_value();
    let e = e - V::select(tiny, V::splat(23.0), zero);
    let infinity = V::splat(f32::INFINITY);
    let e = V::select(x.eq(infinity), infinity, e);
    let e = V::select(x.eq(zero), -infinity, e);
    (V::select(x.not_at_least(zero), V::splat(f32::NAN), m), e)
}

/// 1 / sqrt by an estimate and a step of Newton's method. The step gives NaN for 0 and ∞, where the estimate is exact.
#[inline(always)]
pub fn rsqrt_refined<V: Estimates>(x: V) -> V {
    let y = x.rsqrt_14();
    let off = (-(x * y)).mul_add(y, V::splat(1.0));
    let better = (y * V::splat(0.5)).mul_add(off, y);
    V::select(off.is_nan(), y, better)
}

/// exp r for |r| <= ln 2 / 2.
#[inline(always)]
fn exp_polynomial<V: Vector>(r: V) -> V {
    let q =
        polynomial(r, [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_717, 0.001_381_459_9]);
    q.mul_add(r * r, r) + V::splat(1.0)
}

/// ≤ 1.1 ulp.
#[inline(always)]
pub fn exp<V: Vector>(x: V) -> V {
    clamp(x, -104.0, 89.0).exp_within()
}

/// [`exp`] of a number that is not positive.
#[inline(always)]
pub fn exp_down<V: Vector>(x: V) -> V {
    x.max(V::splat(-104.0)).exp_within()
}

/// ≤ 2 ulp.
#[inline(always)]
pub fn expm1<V: Vector>(x: V) -> V {
    let (n, r) = reduce_exp(clamp(x, -20.0, 89.0));
    let q = polynomial(
        r,
        [0.5, 0.166_666_67, 0.041_666_34, 0.008_333_271, 0.001_394_206, 0.000_199_150_32],
    );
    let p = q.mul_add(r * r, r);
    // 2^n (p + 1) - 1, computed with half of 2^n, because n may be 128.
    let half = V::splat(0.5);
    let s = half.scale(n);
    let y = s.mul_add(p, s - half) * V::splat(2.0);
    // A zero keeps its sign.
    V::select(x.eq(V::splat(0.0)), x, y)
}

/// ≤ 1 ulp.
#[inline(always)]
pub fn log<V: Vector>(x: V) -> V {
    let (m, e) = x.split();
    let f = m - V::splat(1.0);
    let q = polynomial(
        f,
        [
            0.333_334_5,
            -0.250_000_95,
            0.199_908_61,
            -0.166_473_12,
            0.144_783_96,
            -0.131_611_94,
            0.104_630_21,
            -0.045_074_783,
        ],
    );
    let f2 = f * f;
    let low = (q * f2).mul_add(f, e * V::splat(LN2_LOW));
    let rest = f2.mul_add(V::splat(-0.5), low) + f;
    e.mul_add(V::splat(LN2_HIGH), rest)
}

/// ≤ 2 ulp.
#[inline(always)]
pub fn log1p<V: Vector>(x: V) -> V {
    let u = V::splat(1.0) + x;
    let lost = x - (u - V::splat(1.0));
    let y = log(u) + lost / u;
    let (zero, infinity) = (V::splat(0.0), V::splat(f32::INFINITY));
    let y = V::select(u.eq(zero), -infinity, y);
    let y = V::select(x.eq(infinity), x, y);
    V::select(x.eq(zero), x, y)
}

/// ≤ 5 ulp; never beyond ±1.
#[inline(always)]
pub fn tanh<V: Vector>(x: V) -> V {
    // A quotient of polynomials in x², minimax in relative error (2e-8) up to where the result rounds to 1;
    // a little further it exceeds 1.
    let x = clamp(x, -9.35, 9.35);
    let t = x * x;
    let p = polynomial(t, [1.0, 0.133_797_2, 0.003_494_039_4, 2.058_354_6e-5, 1.331_914_1e-8]);
    let q = polynomial(t, [1.0, 0.467_130_33, 0.025_871_087, 0.000_328_310_04, 7.762_056_4e-7]);
    clamp(x * p / q, -1.0, 1.0)
}

/// ≤ 6 ulp. As exp(-x²) p(q) / (1 + 2 |x|) with q = (|x| - 2) / (|x| + 2), 1.4e-8, for |x|; 2 minus that for -|x|.
#[inline(always)]
pub fn erfc<V: Vector>(x: V) -> V {
    let (one, two) = (V::splat(1.0), V::splat(2.0));
    // At the upper bound the result is 0.
    let a = clamp(x.abs(), 0.0, 10.2);
    let (steep, flat) = (a.mul_add(two, one), a + two);
    let r = one / (steep * flat);
    let p = polynomial(
        (a - two) * steep * r,
        [
            1.276_978_4,
            -0.092_763_98,
            -0.166_031_47,
            0.164_055_42,
            -0.054_203_887,
            -0.008_060_145,
            0.008_630_104,
            0.001_313_314_9,
            -0.001_228_008_7,
            -0.000_399_454_7,
        ],
    );
    // The rounding error of x² would be many ulp of exp, hence Dekker's product.
    let split = a * V::splat(4097.0);
    let high = split - (split - a);
    let low = a - high;
    let square = a * a;
    let lost = (high * high - square) + two * high * low + low * low;
    let tail = exp_down(-square) * (one - lost) * p * (flat * r);
    V::select(x.lt(V::splat(0.0)), two - tail, tail)
}

/// ≤ 6 ulp. After Giles, "Approximating the erfinv function" (2010): x times a polynomial in -log(1 - x²), or its root
/// near ±1.
#[inline(always)]
pub fn erfinv<V: Vector>(x: V) -> V {
    let one = V::splat(1.0);
    let w = -log((one - x) * (one + x));
    let middle = polynomial(
        w - V::splat(2.5),
        [
            1.501_409_4,
            0.246_640_28,
            -0.004_177_387,
            -0.001_252_741_9,
            0.000_218_344_44,
            -4.963_349_5e-6,
            -3.462_704_9e-6,
            4.661_710_6e-7,
            2.323_266e-8,
            -8.791_085e-9,
        ],
    );
    let tail = polynomial(
        w.sqrt() - V::splat(3.0),
        [
            2.832_977,
            1.001_674,
            0.009_437_529,
            -0.007_622_863,
            0.005_749_189,
            -0.003_670_098,
            0.001_327_524_5,
            9.646_705e-5,
            -0.000_184_742_08,
        ],
    );
    let y = V::select(w.lt(V::splat(5.0)), middle, tail) * x;
    V::select(x.abs().eq(one), x * V::splat(f32::INFINITY), y)
}

/// ≤ 5 ulp; never beyond ±1.
#[inline(always)]
pub fn erf<V: Vector>(x: V) -> V {
    // As in [`tanh`], 1.4e-8.
    let x = clamp(x, -3.95, 3.95);
    let t = x * x;
    let p = polynomial(
        t,
        [
            FRAC_2_SQRT_PI,
            0.187_898_65,
            0.052_479_83,
            0.003_673_968_1,
            0.000_285_675_08,
            2.108_266e-6,
        ],
    );
    let q = polynomial(
        t,
        [1.0, 0.499_853_7, 0.113_129_36, 0.014_784_97, 0.001_145_508_8, 3.873_179_6e-5],
    );
    clamp(x * p / q, -1.0, 1.0)
}

/// ≤ 3 ulp.
#[inline(always)]
pub fn sigmoid<V: Vector>(x: V) -> V {
    let e = exp_down(-x.abs());
    let one = V::splat(1.0);
    V::select(x.lt(V::splat(0.0)), e, one) / (one + e)
}

/// The angle of the point `(x, y)`, as in C. ≤ 3 ulp.
#[inline(always)]
pub fn atan2<V: Vector>(y: V, x: V) -> V {
    // π in two parts.
    const PI: [f32; 2] = [std::f32::consts::PI, -8.742_278e-8];
    let (zero, one) = (V::splat(0.0), V::splat(1.0));
    let (wide, tall) = (x.abs(), y.abs());
    let is_steep = wide.lt(tall);
    let (short, long) = (V::select(is_steep, wide, tall), V::select(is_steep, tall, wide));
    // Two infinities are equal, too.
    let equal = V::select(long.eq(zero), zero, one);
    let q = V::select(short.eq(long), equal, short / long);
    // Minimax in relative error (1.7e-8) of the series without its first term.
    let t = q * q;
    let p = polynomial(
        t,
        [
            -0.333_331_53,
            0.199_937_73,
            -0.142_110_56,
            0.106_660_04,
            -0.075_522_125,
            0.043_211_844,
            -0.016_367_916,
            0.002_920_689,
        ],
    );
    let a = (p * t).mul_add(q, q);
    let less = |turn: f32, a: V| V::splat(turn * PI[1]) + (V::splat(turn * PI[0]) - a);
    let a = V::select(is_steep, less(0.5, a), a);
    // Zeros have signs.
    let is_negative = |v: V| V::select(v.eq(zero), one / v, v).lt(zero);
    let a = V::select(is_negative(x), less(1.0, a), a);
    V::select(is_negative(y), -a, a)
}

/// -1, 0 or 1; 0 for NaN.
#[inline(always)]
pub fn sign<V: Vector>(x: V) -> V {
    let zero = V::splat(0.0);
    let positive = V::select(zero.lt(x), V::splat(1.0), zero);
    V::select(x.lt(zero), V::splat(-1.0), positive)
}

/// The larger one; NaN if either is.
#[inline(always)]
pub fn larger<V: Vector>(a: V, b: V) -> V {
    V::select(a.is_nan(), a, b.max(a))
}

/// The smaller one; NaN if either is.
#[inline(always)]
pub fn smaller<V: Vector>(a: V, b: V) -> V {
    V::select(a.is_nan(), a, b.min(a))
}

/// Adding and subtracting this rounds to the nearest integer, for |x| < 2^51.
const ROUND64: f64 = 6_755_399_441_055_744.0;

/// `a` to the power of `b`, as in C. ≤ 1 ulp; the cube ≤ 1.5 ulp.
#[inline(always)]
pub fn pow<const FMA: bool>(a: f32, b: f32) -> f32 {
    let x = a.abs();
    let (ScalarVec(m), ScalarVec(e)) = ScalarVec::<FMA>(x).split();
    // log2 in f64, because the exponent multiplies its error: ln m = 2 artanh s.
    let f = m as f64 - 1.0;
    let s = f / (f + 2.0);
    let t = s * s;
    let q = (0.241_494_285_78 * t + 0.285_026_139_479) * t + 0.400_009_936_408_1;
    let q = (q * t + 0.666_666_616_631_457) * t + 2.000_000_000_040_246;
    let power = b as f64 * (e as f64 + s * q * std::f64::consts::LOG2_E);
    let power = if power < -151.0 { -151.0 } else { power };
    let power = if power > 129.0 { 129.0 } else { power };
    let n = (power + ROUND64) - ROUND64;
    let r = ScalarVec::<FMA>(((power - n) * std::f64::consts::LN_2) as f32);
    let p = exp_polynomial(r).scale(ScalarVec(n as f32)).0;
    // Odd powers of negative numbers are negative; powers of them that are not whole are not real.
    let whole = ScalarVec::<FMA>(b).trunc().0 == b;
    let half = 0.5 * b;
    let odd = whole && ScalarVec::<FMA>(half).trunc().0 != half;
    let negative = a.is_sign_negative();
    let p = if negative && odd { -p } else { p };
    let p = if a < 0.0 && !whole && x < f32::INFINITY { f32::NAN } else { p };
    let one = a == 1.0 || b == 0.0 || (x == 1.0 && b.abs() == f32::INFINITY);
    let p = if one { 1.0 } else { p };
    // The forms that `passes::simplify` has for constant exponents: a value keeps its bits when the exponent becomes an
    // input.
    let p = if b == 2.0 { a * a } else { p };
    let p = if b == 3.0 { a * a * a } else { p };
    if b == -1.0 { 1.0 / a } else { p }
}

/// Quotients beyond this are left to the C library's `fmod`.
const REM_LIMIT: f32 = 8_388_608.0;

/// The remainder of `a` divided by `b`, exact unless the quotient is beyond [`REM_LIMIT`], and whether the quotient is.
/// Requires fused multiply-add, by which the remainder is exact even if the quotient was rounded up to a whole number.
#[inline(always)]
pub fn rem_near(a: f32, b: f32) -> (f32, bool) {
    let quotient = (a / b).trunc();
    let left = (-quotient).mul_add(b, a);
    let left = if quotient == 0.0 { a } else { left };
    let is_over = (a > 0.0 && left < 0.0) || (a < 0.0 && left > 0.0);
    let left = if is_over { left + b.abs().copysign(a) } else { left };
    let left = if left == 0.0 { left.copysign(a) } else { left };
    // NaN counts as beyond it.
    let is_near = quotient.abs() < REM_LIMIT;
    (left, !is_near)
}

/// Beyond this [`sin_from`] loses digits; callers compute these few arguments otherwise.
pub const TRIG_LIMIT: f32 = 1e5;

/// Sine of `x + quarters π/2`, `quarters` 0 or 1, where multiply-add is fused. ≤ 2 ulp up to [`TRIG_LIMIT`].
#[inline(always)]
pub fn sin_from<V: Vector>(x: V, quarters: f32) -> V {
    // π/2 in three parts. The first difference is exact: both terms are multiples of the last place of a number in
    // [1, 2) (or of x), and it is below 1.
    const PARTS: [f32; 3] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8, -1.715_124_5e-15];
    let n = x.mul_add(V::splat(std::f32::consts::FRAC_2_PI), V::splat(ROUND)) - V::splat(ROUND);
    let r = n.mul_add(V::splat(-PARTS[0]), x);
    let r = n.mul_add(V::splat(-PARTS[1]), r);
    let r = n.mul_add(V::splat(-PARTS[2]), r);
    let r2 = r * r;
    let s = polynomial(r2, [-0.166_666_55, 0.008_332_161, -0.000_195_152_96]);
    let s = (s * r2).mul_add(r, r);
    let c = polynomial(r2, [0.041_666_646, -0.001_388_731_6, 2.443_315_7e-5]);
    let c = (c * r2).mul_add(r2, r2.mul_add(V::splat(-0.5), V::splat(1.0)));
    // The low two bits of the whole number n + quarters.
    let (half, two) = (V::splat(0.5), V::splat(2.0));
    let turns = ((n + V::splat(quarters)) * half).floor();
    let odd = (n + V::splat(quarters)) - turns * two;
    let y = V::select(half.lt(odd), c, s);
    let negative = turns - (turns * half).floor() * two;
    let y = V::select(half.lt(negative), -y, y);
    // The sine of a zero keeps its sign.
    if quarters == 0.0 { V::select(x.eq(V::splat(0.0)), x, y) } else { y }
}

#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// Rounds to nearest, ties to even.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    // Rounding could turn a NaN into an infinity; this keeps it, quiet.
    let nan = (bits >> 16) | 0x40;
    (if x.is_nan() { nan } else { rounded }) as u16
}

#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = ((bits & 0x8000) as u32) << 16;
    let rest = ((bits & 0x7fff) as u32) << 13;
    // Exponent bias 127 - 15; the multiplication also makes denormals right.
    let magnitude = f32::from_bits(rest) * f32::from_bits(0x7780_0000);
    let special = f32::from_bits(rest | 0x7f80_0000);
    let magnitude = if rest >= 0x0f80_0000 { special } else { magnitude };
    f32::from_bits(magnitude.to_bits() | sign)
}

/// Rounds to nearest, ties to even.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(0x3800_0000).wrapping_add(0x0fff + odd) >> 13;
    // Below 2^-14 the addition aligns and rounds the bits as a denormal needs them.
    let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let special =
        if magnitude > 0x7f80_0000 { 0x7e00 | ((magnitude >> 13) & 0x3ff) } else { 0x7c00 };
    let y = if magnitude < 0x3880_0000 { denormal } else { normal };
    // 65520 and above round to infinity.
    let y = if magnitude >= 0x477f_f000 { special } else { y };
    (y | sign) as u16
}
