//! A scalar in place of a vector.

use super::Vector;
use super::math;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// `FMA`: fused multiply-add is one instruction (elsewhere it would be a slow library call).
#[derive(Clone, Copy, Debug)]
pub struct ScalarVec<const FMA: bool>(pub f32);

macro_rules! operator {
    ($($trait:ident $name:ident $op:tt),*) => {$(
        impl<const FMA: bool> $trait for ScalarVec<FMA> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                ScalarVec(self.0 $op other.0)
            }
        }
    )*};
}
operator!(Add add +, Sub sub -, Mul mul *, Div div /);

impl<const FMA: bool> Neg for ScalarVec<FMA> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        ScalarVec(-self.0)
    }
}

/// Rounds to a whole number: Rust's own methods are library calls on some processors, and not vectorised. Adding and
/// subtracting 2^23 rounds to even; larger numbers are whole.
#[inline(always)]
fn round(x: f32) -> f32 {
    const WHOLE: f32 = 8_388_608.0;
    let y = (x.abs() + WHOLE) - WHOLE;
    if x.abs() < WHOLE { y.copysign(x) } else { x }
}

impl<const FMA: bool> Vector for ScalarVec<FMA> {
    type Mask = bool;
    const LANES: usize = 1;

    #[inline(always)]
    fn splat(v: f32) -> Self {
        ScalarVec(v)
    }
    #[inline(always)]
    fn load(from: &[f32]) -> Self {
        ScalarVec(from[0])
    }
    #[inline(always)]
    fn load_part(_: &[f32]) -> Self {
        ScalarVec(0.0)
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        to[0] = self.0;
    }
    #[inline(always)]
    fn store_part(self, _: &mut [f32]) {}
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        ScalarVec(math::fma::<FMA>(self.0, b.0, c.0))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        ScalarVec(self.0.sqrt())
    }
    #[inline(always)]
    fn rsqrt(self) -> Self {
        ScalarVec(1.0 / self.0.sqrt())
    }
    #[inline(always)]
    fn abs(self) -> Self {
        ScalarVec(self.0.abs())
    }
    #[inline(always)]
    fn max(self, bound: Self) -> Self {
        ScalarVec(if self.0 < bound.0 { bound.0 } else { self.0 })
    }
    #[inline(always)]
    fn min(self, bound: Self) -> Self {
        ScalarVec(if self.0 > bound.0 { bound.0 } else { self.0 })
    }
    #[inline(always)]
    fn lt(self, other: Self) -> bool {
        self.0 < other.0
    }
    #[inline(always)]
    fn eq(self, other: Self) -> bool {
        self.0 == other.0
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.0.is_nan()
    }
    #[inline(always)]
    fn select(mask: bool, yes: Self, no: Self) -> Self {
        if mask { yes } else { no }
    }
    #[inline(always)]
    fn floor(self) -> Self {
        let y = round(self.0);
        ScalarVec((y - (y > self.0) as u8 as f32).copysign(self.0))
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        let y = round(self.0);
        ScalarVec((y + (y < self.0) as u8 as f32).copysign(self.0))
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        let y = round(self.0.abs());
        ScalarVec((y - (y > self.0.abs()) as u8 as f32).copysign(self.0))
    }
    #[inline(always)]
    fn round(self) -> Self {
        ScalarVec(round(self.0))
    }
    #[inline(always)]
    fn scale(self, n: Self) -> Self {
        // Adding this puts a small whole number into the low bits.
        const SHIFT: f32 = 12_582_912.0;
        let n = ((n.0 + SHIFT).to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
        // In two factors, because 2^n alone may be out of range.
        let half = n >> 1;
        let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
        ScalarVec(self.0 * power(half) * power(n.wrapping_sub(half)))
    }
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let x = self.0;
        let tiny = x < f32::MIN_POSITIVE;
        let scaled = if tiny { x * 8_388_608.0 } else { x };
        const LOW: i32 = 0.75f32.to_bits() as i32;
        let bits = (scaled.to_bits() as i32).wrapping_sub(LOW);
        let e = (bits >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
        let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(LOW) as u32);
        let e = if x == f32::INFINITY { f32::INFINITY } else { e };
        let e = if x == 0.0 { f32::NEG_INFINITY } else { e };
        (ScalarVec(if x >= 0.0 { m } else { f32::NAN }), ScalarVec(e))
    }
}
