//! Elementary functions of f64, without branches, in loops that the compiler vectorises: the counterparts of [`super::math`],
//! with errors in units in the last place of f64, tested against the C library's.

/// ln 2 in two parts; multiplying the high one by an exponent is exact.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Adding and subtracting this rounds to the nearest integer, for |x| < 2^51; the sum has the integer's bits in its low ones.
const ROUND: f64 = 6_755_399_441_055_744.0;

#[inline(always)]
fn fma<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `c[0] + c[1] x + …`, by Horner's rule.
#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut y = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        y = fma::<FMA>(y, x, c[i]);
    }
    y
}

/// A whole number as an integer.
#[inline(always)]
fn whole(n: f64) -> i64 {
    (n + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i64
}

/// 2^n for n in -1022..=1023.
#[inline(always)]
fn power_of_two(n: i64) -> f64 {
    f64::from_bits((n + 1023).cast_unsigned() << 52)
}

/// `x 2^n`, by two factors, because 2^n alone may be out of range.
#[inline(always)]
fn scale(x: f64, n: f64) -> f64 {
    let n = whole(n);
    let half = n >> 1;
    x * power_of_two(half) * power_of_two(n - half)
}

/// Clamps without losing NaN.
#[inline(always)]
fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `x = n ln 2 + r` with |r| <= ln 2 / 2, and exp r - 1: (n, exp r - 1).
#[inline(always)]
fn exp_of_rest<const FMA: bool>(x: f64) -> (f64, f64) {
    let n = (x * std::f64::consts::LOG2_E + ROUND) - ROUND;
    let high = fma::<FMA>(-n, LN2_HIGH, x);
    let r = fma::<FMA>(-n, LN2_LOW, high);
    // 1 / k!.
    let q = polynomial::<FMA, 12>(
        r,
        [
            1.0 / 2.0,
            1.0 / 6.0,
            1.0 / 24.0,
            1.0 / 120.0,
            1.0 / 720.0,
            1.0 / 5_040.0,
            1.0 / 40_320.0,
            1.0 / 362_880.0,
            1.0 / 3_628_800.0,
            1.0 / 39_916_800.0,
            1.0 / 479_001_600.0,
            1.0 / 6_227_020_800.0,
        ],
    );
    (n, fma::<FMA>(q, r * r, r))
}

/// ≤ 1.1 ulp.
#[inline(always)]
pub fn exp<const FMA: bool>(x: f64) -> f64 {
    let (n, p) = exp_of_rest::<FMA>(clamp(x, -746.0, 710.0));
    scale(p + 1.0, n)
}

/// ≤ 2 ulp.
#[inline(always)]
pub fn expm1<const FMA: bool>(x: f64) -> f64 {
    let (n, p) = exp_of_rest::<FMA>(clamp(x, -40.0, 710.0));
    // 2^n (p + 1) - 1, computed with half of 2^n, because n may be 1024.
    let s = scale(0.5, n);
    let y = fma::<FMA>(s, p, s - 0.5) * 2.0;
    // Half of the smallest number rounds to 0, and a zero keeps its sign.
    if x.abs() < 1e-17 { x } else { y }
}

/// ≤ 1 ulp.
#[inline(always)]
pub fn log<const FMA: bool>(x: f64) -> f64 {
    /// The bits of √½, the lower bound of m.
    const LEAST: i64 = 0x3fe6_a09e_667f_3bcd;
    let is_tiny = x < f64::MIN_POSITIVE;
    let scaled = if is_tiny { x * 18_014_398_509_481_984.0 } else { x };
    let bits = scaled.to_bits().cast_signed().wrapping_sub(LEAST);
    let m = f64::from_bits(((bits & 0x000f_ffff_ffff_ffff) + LEAST).cast_unsigned());
    let e = f64::from_bits(ROUND.to_bits().wrapping_add((bits >> 52).cast_unsigned())) - ROUND;
    let e = if is_tiny { e - 54.0 } else { e };
    // 2 artanh s, of which the first term is f - f²/2 + s f²/2.
    let f = m - 1.0;
    let s = f / (f + 2.0);
    let z = s * s;
    let r = z * polynomial::<FMA, 9>(
        z,
        [
            2.0 / 3.0,
            2.0 / 5.0,
            2.0 / 7.0,
            2.0 / 9.0,
            2.0 / 11.0,
            2.0 / 13.0,
            2.0 / 15.0,
            2.0 / 17.0,
            2.0 / 19.0,
        ],
    );
    let half = 0.5 * f * f;
    let low = fma::<FMA>(s, half + r, e * LN2_LOW);
    let y = fma::<FMA>(e, LN2_HIGH, f - (half - low));
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    let y = if x == f64::INFINITY { x } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}

/// ≤ 2 ulp.
#[inline(always)]
pub fn log1p<const FMA: bool>(x: f64) -> f64 {
    let u = 1.0 + x;
    let lost = x - (u - 1.0);
    let y = log::<FMA>(u) + lost / u;
    let y = if u == 0.0 { f64::NEG_INFINITY } else { y };
    let y = if x == f64::INFINITY { x } else { y };
    if x == 0.0 { x } else { y }
}

/// ≤ 3 ulp.
#[inline(always)]
pub fn tanh<const FMA: bool>(x: f64) -> f64 {
    let t = expm1::<FMA>(-2.0 * x.abs());
    (-t / (t + 2.0)).copysign(x)
}

/// ≤ 3 ulp.
#[inline(always)]
pub fn sigmoid<const FMA: bool>(x: f64) -> f64 {
    let e = exp::<FMA>(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// Beyond this [`sin_from`] loses digits; callers compute these few arguments otherwise.
pub const TRIG_LIMIT: f64 = 1e5;

/// Sine of `x + quarters π/2`, `quarters` 0 or 1, where multiply-add is fused. ≤ 2 ulp up to [`TRIG_LIMIT`].
#[inline(always)]
pub fn sin_from(x: f64, quarters: i64) -> f64 {
    // π/2 in three parts.
    const PARTS: [f64; 3] =
        [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_17e-33];
    let turned = x.mul_add(std::f64::consts::FRAC_2_PI, ROUND);
    let n = turned - ROUND;
    let r = (-n).mul_add(PARTS[0], x);
    let r = (-n).mul_add(PARTS[1], r);
    let r = (-n).mul_add(PARTS[2], r);
    let t = r * r;
    // ± 1 / k!.
    let s = polynomial::<true, 8>(
        t,
        [
            -1.0 / 6.0,
            1.0 / 120.0,
            -1.0 / 5_040.0,
            1.0 / 362_880.0,
            -1.0 / 39_916_800.0,
            1.0 / 6_227_020_800.0,
            -1.0 / 1_307_674_368_000.0,
            1.0 / 355_687_428_096_000.0,
        ],
    );
    let s = (s * t).mul_add(r, r);
    let c = polynomial::<true, 8>(
        t,
        [
            1.0 / 24.0,
            -1.0 / 720.0,
            1.0 / 40_320.0,
            -1.0 / 3_628_800.0,
            1.0 / 479_001_600.0,
            -1.0 / 87_178_291_200.0,
            1.0 / 20_922_789_888_000.0,
            -1.0 / 6_402_373_705_728_000.0,
        ],
    );
    let c = (c * t).mul_add(t, t.mul_add(-0.5, 1.0));
    let turns = turned.to_bits().cast_signed().wrapping_add(quarters);
    let y = if turns & 1 == 0 { s } else { c };
    let y = if turns & 2 == 0 { y } else { -y };
    // The sine of a zero keeps its sign.
    if quarters == 0 && x == 0.0 { x } else { y }
}
