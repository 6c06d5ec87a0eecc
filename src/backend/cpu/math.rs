//! Elementary functions of one f32, without branches, so that loops over them become vector code. The tests state
//! and check the largest error in units in the last place (ulp) against f64; NaN, infinities, zeros and denormals
//! behave as in C.
//!
//! `FMA` as in [`super::isa::Kernel`].

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts; the high one has few enough bits that multiplying it by an exponent is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Adding and subtracting it rounds to the nearest integer, for |x| < 2^22.
const ROUND: f32 = 12_582_912.0;

#[inline(always)]
pub fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `c[0] + c[1] x + …`, by Horner's rule.
#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut y = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        y = fma::<FMA>(y, x, c[i]);
    }
    y
}

/// `2^n` for n in -126..=127.
#[inline(always)]
fn exp2i(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `x = n ln 2 + r` with |r| <= ln 2 / 2: (n, r).
#[inline(always)]
fn reduce_exp<const FMA: bool>(x: f32) -> (i32, f32) {
    let t = fma::<FMA>(x, LOG2_E, ROUND);
    let n = t - ROUND;
    let r = fma::<FMA>(n, -LN2_HIGH, x);
    let r = fma::<FMA>(n, -LN2_LOW, r);
    ((t.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32), r)
}

/// Clamps without losing NaN.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// ≤ 1 ulp.
#[inline(always)]
pub fn exp<const FMA: bool>(x: f32) -> f32 {
    let (n, r) = reduce_exp::<FMA>(clamp(x, -104.0, 89.0));
    let q = polynomial::<FMA, 5>(
        r,
        [0.499_999_94, 0.166_665_15, 0.041_668_456, 0.008_369_419, 0.001_381_314_2],
    );
    let p = fma::<FMA>(q, r * r, r) + 1.0;
    // In two factors, because 2^n alone may be out of range.
    let half = n >> 1;
    p * exp2i(half) * exp2i(n.wrapping_sub(half))
}

/// ≤ 2 ulp.
#[inline(always)]
pub fn expm1<const FMA: bool>(x: f32) -> f32 {
    let (n, r) = reduce_exp::<FMA>(clamp(x, -20.0, 89.0));
    let q = polynomial::<FMA, 6>(
        r,
        [0.5, 0.166_666_67, 0.041_666_34, 0.008_333_271, 0.001_394_206, 0.000_199_150_32],
    );
    let p = fma::<FMA>(q, r * r, r);
    // 2^n (p + 1) - 1, computed with half of 2^n, because n may be 128.
    let s = exp2i(n.wrapping_sub(1));
    let y = fma::<FMA>(s, p, s - 0.5) * 2.0;
    // A zero keeps its sign.
    if x == 0.0 { x } else { y }
}

/// ≤ 1 ulp.
#[inline(always)]
pub fn log<const FMA: bool>(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    // The mantissa in [sqrt(1/2), sqrt(2)).
    const SQRT_HALF: i32 = 0x3f35_04f3;
    let bits = (scaled.to_bits() as i32).wrapping_sub(SQRT_HALF);
    let e = (bits >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    let m = f32::from_bits(((bits & 0x007f_ffff).wrapping_add(SQRT_HALF)) as u32);
    let f = m - 1.0;
    let q = polynomial::<FMA, 9>(
        f,
        [
            0.333_333_1,
            -0.249_999_87,
            0.200_022_43,
            -0.166_692_7,
            0.142_183_26,
            -0.123_838,
            0.118_750_76,
            -0.117_940_92,
            0.069_155_954,
        ],
    );
    let f2 = f * f;
    let low = fma::<FMA>(q * f2, f, e * LN2_LOW);
    let y = fma::<FMA>(e, LN2_HIGH, fma::<FMA>(-0.5, f2, low) + f);
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    // Negative or NaN.
    if x >= 0.0 { y } else { f32::NAN }
}

/// ≤ 2 ulp.
#[inline(always)]
pub fn log1p<const FMA: bool>(x: f32) -> f32 {
    let u = 1.0 + x;
    let lost = x - (u - 1.0);
    let y = log::<FMA>(u) + lost / u;
    let y = if u == 0.0 { f32::NEG_INFINITY } else { y };
    let y = if x == f32::INFINITY { x } else { y };
    if x == 0.0 { x } else { y }
}

/// ≤ 3 ulp.
#[inline(always)]
pub fn tanh<const FMA: bool>(x: f32) -> f32 {
    let e = expm1::<FMA>(2.0 * clamp(x.abs(), 0.0, 10.0));
    (e / (e + 2.0)).copysign(x)
}

/// ≤ 3 ulp.
#[inline(always)]
pub fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    let e = exp::<FMA>(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// ≤ 2 ulp.
#[inline(always)]
pub fn erf<const FMA: bool>(x: f32) -> f32 {
    let t = clamp(x.abs(), 0.0, 4.0);
    // ln erfc(t)
    let l = polynomial::<FMA, 7>(
        t,
        [
            -0.000_166_439_09,
            -1.127_797_2,
            -0.636_976,
            -0.104_113_74,
            0.022_315_249,
            -0.003_065_5,
            0.000_198_220_7,
        ],
    );
    let large = (1.0 - exp::<FMA>(l)).copysign(x);
    let p = polynomial::<FMA, 6>(
        t * t,
        [0.128_379_15, -0.376_124_8, 0.112_816_825, -0.026_761_72, 0.004_985_94, -0.000_595_373_9],
    );
    let small = fma::<FMA>(p, x, x);
    if t > 0.92 { large } else { small }
}

/// Beyond it [`sin`] and [`cos`] lose digits; callers compute these few arguments otherwise.
pub const TRIG_LIMIT: f32 = 1e9;

/// Sine of `x + quarters π/2`. ≤ 1 ulp up to [`TRIG_LIMIT`].
#[inline(always)]
fn sin_from<const FMA: bool>(x: f32, quarters: f64) -> f32 {
    use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};
    const ROUND64: f64 = 6_755_399_441_055_744.0;
    /// π/2 - its f64.
    const FRAC_PI_2_LOW: f64 = 6.123_233_995_736_766e-17;
    let x = x as f64;
    let n = (x * FRAC_2_PI + ROUND64) - ROUND64;
    let r = (-n).mul_add(FRAC_PI_2, x);
    let r = (-n).mul_add(FRAC_PI_2_LOW, r);
    let turn = (n + quarters + ROUND64).to_bits() as u32;
    let r2 = r * r;
    // Taylor series: on |r| <= π/4 their error is below 1e-9.
    let s =
        (2.755_731_922_398_589e-6 * r2 - 1.984_126_984_126_984e-4) * r2 + 8.333_333_333_333_333e-3;
    let s = ((s * r2 - 1.666_666_666_666_666_6e-1) * r2) * r + r;
    let c =
        (2.480_158_730_158_73e-5 * r2 - 1.388_888_888_888_889e-3) * r2 + 4.166_666_666_666_666_4e-2;
    let c = (c * r2 - 0.5) * r2 + 1.0;
    let y = (if turn & 1 == 0 { s } else { c }) as f32;
    if turn & 2 == 0 { y } else { -y }
}

#[inline(always)]
pub fn sin<const FMA: bool>(x: f32) -> f32 {
    if !FMA {
        return x.sin();
    }
    let y = sin_from::<FMA>(x, 0.0);
    // A zero keeps its sign.
    if x == 0.0 { x } else { y }
}

#[inline(always)]
pub fn cos<const FMA: bool>(x: f32) -> f32 {
    if FMA { sin_from::<FMA>(x, 1.0) } else { x.cos() }
}

/// -1, 0 or 1; 0 for NaN.
#[inline(always)]
pub fn sign(x: f32) -> f32 {
    (x > 0.0) as u8 as f32 - (x < 0.0) as u8 as f32
}

/// The larger one; NaN if either is.
#[inline(always)]
pub fn max(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller one; NaN if either is.
#[inline(always)]
pub fn min(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// To nearest, ties to even.
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

/// To nearest, ties to even.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance of `got` from the exact value in units of the last place of f32 at that value.
    fn ulps(got: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        if got.to_bits() == rounded.to_bits() || (got.is_nan() && rounded.is_nan()) {
            return 0.0;
        }
        if !got.is_finite() || !rounded.is_finite() {
            return f64::INFINITY;
        }
        let exponent = (exact.abs().max(f32::MIN_POSITIVE as f64).log2().floor() as i32).max(-126);
        (got as f64 - exact).abs() / 2f64.powi(exponent - 23)
    }

    const SPECIAL: [f32; 17] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        1e-40,
        -1e-40,
        88.72,
        88.73,
        -103.9,
        0.92,
        1e-9,
    ];

    /// Largest error over all the special values and every `step`-th bit pattern within ±`limit`.
    fn worst(f: fn(f32) -> f32, exact: fn(f64) -> f64, limit: f32) -> (f64, f32) {
        let swept =
            (0..=u32::MAX / 4801).map(|i| f32::from_bits(i * 4801)).filter(|x| x.abs() <= limit);
        let dense = (-60_000..60_000).map(|i| i as f32 * 3.37e-4);
        let (mut error, mut at) = (0.0, 0.0);
        for x in
            swept.chain(dense).chain(SPECIAL.into_iter().filter(|x| x.is_nan() || x.abs() <= limit))
        {
            let e = ulps(f(x), exact(x as f64));
            if e > error {
                (error, at) = (e, x);
            }
        }
        (error, at)
    }

    /// Name, function, exact function, largest argument, largest error in ulp.
    type Case = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f32, f64);

    #[test]
    fn errors_are_within_the_stated_ulps() {
        let erf = libm::erf;
        let all = f32::INFINITY;
        #[rustfmt::skip]
        let cases: [Case; 16] = [
            ("exp", exp::<true>, f64::exp, all, 1.0), ("exp", exp::<false>, f64::exp, all, 1.5),
            ("expm1", expm1::<true>, f64::exp_m1, all, 2.0), ("expm1", expm1::<false>, f64::exp_m1, all, 2.5),
            ("log", log::<true>, f64::ln, all, 1.0), ("log", log::<false>, f64::ln, all, 1.5),
            ("log1p", log1p::<true>, f64::ln_1p, all, 2.0), ("log1p", log1p::<false>, f64::ln_1p, all, 2.5),
            ("tanh", tanh::<true>, f64::tanh, all, 3.0), ("tanh", tanh::<false>, f64::tanh, all, 3.5),
            ("sigmoid", sigmoid::<true>, |x| 1.0 / (1.0 + (-x).exp()), all, 3.0),
            ("sigmoid", sigmoid::<false>, |x| 1.0 / (1.0 + (-x).exp()), all, 3.5),
            ("erf", erf_true, erf, all, 2.0), ("erf", erf_false, erf, all, 2.5),
            ("sin", sin::<true>, f64::sin, TRIG_LIMIT, 1.0), ("cos", cos::<true>, f64::cos, TRIG_LIMIT, 1.0),
        ];
        for (name, f, exact, limit, bound) in cases {
            let (error, at) = worst(f, exact, limit);
            assert!(error <= bound, "{name}({at:e}) is off by {error} ulp");
        }
    }

    fn erf_true(x: f32) -> f32 {
        super::erf::<true>(x)
    }

    fn erf_false(x: f32) -> f32 {
        super::erf::<false>(x)
    }

    #[test]
    fn half_types_convert_as_the_half_crate_does() {
        for bits in 0..=u16::MAX {
            let (h, b) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
            let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(
                same(f16_to_f32(bits), h.to_f32()) && same(bf16_to_f32(bits), b.to_f32()),
                "{bits:#x}"
            );
        }
        for i in 0..=u32::MAX / 1201 {
            let x = f32::from_bits(i * 1201);
            assert_eq!(f32_to_bf16(x), half::bf16::from_f32(x).to_bits(), "{x:e}");
            let (got, expected) = (f32_to_f16(x), half::f16::from_f32(x));
            assert!(
                got == expected.to_bits() || x.is_nan() && half::f16::from_bits(got).is_nan(),
                "{x:e}"
            );
        }
    }
}
