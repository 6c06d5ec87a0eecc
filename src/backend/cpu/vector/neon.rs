//! Vectors of AArch64: NEON.
#![expect(unsafe_code, reason = "vector instructions, some of which take addresses")]

use super::math;
use super::{Bits, SIDE, Square, Vector};
use std::arch::aarch64::*;
use std::ops::{Add, Div, Mul, Neg, Sub};

#[derive(Clone, Copy, Debug)]
pub struct Neon(float32x4_t);

const LANES: usize = 4;

/// Vector instructions on registers.
macro_rules! vector {
    ($e:expr) => {
        // SAFETY: they touch no memory, and every processor of the architecture has them.
        unsafe { $e }
    };
}

/// Operators that are one instruction.
macro_rules! operators {
    ($($trait:ident $name:ident $op:ident),*) => {$(
        impl $trait for Neon {
            type Output = Neon;
            #[inline(always)]
            fn $name(self, other: Neon) -> Neon {
                Neon(vector!($op(self.0, other.0)))
            }
        }
    )*};
}
operators!(Add add vaddq_f32, Sub sub vsubq_f32, Mul mul vmulq_f32, Div div vdivq_f32);

impl Neg for Neon {
    type Output = Neon;
    #[inline(always)]
    fn neg(self) -> Neon {
        Neon(vector!(vnegq_f32(self.0)))
    }
}

/// Methods that are one instruction.
macro_rules! methods {
    ($(fn $name:ident $op:ident;)*) => {
        $(#[inline(always)]
        fn $name(self) -> Neon {
            Neon(vector!($op(self.0)))
        })*
    };
}

impl Vector for Neon {
    type Mask = uint32x4_t;
    const LANES: usize = LANES;

    #[inline(always)]
    fn splat(v: f32) -> Neon {
        Neon(vector!(vdupq_n_f32(v)))
    }
    #[inline(always)]
    fn load(from: &[f32]) -> Neon {
        assert!(from.len() >= LANES);
        // SAFETY: the slice has the elements.
        Neon(unsafe { vld1q_f32(from.as_ptr()) })
    }
    // Number by number: a copy would be a call, before which every loop would spill its constants to memory.
    #[inline(always)]
    fn load_part(from: &[f32]) -> Neon {
        assert!(from.len() < LANES);
        let lane = |i: usize| from.get(i).copied().unwrap_or(0.0);
        Neon::load(&[lane(0), lane(1), lane(2), 0.0])
    }
    #[inline(always)]
    fn store(self, to: &mut [f32]) {
        assert!(to.len() >= LANES);
        // SAFETY: as in `load`.
        unsafe { vst1q_f32(to.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    fn store_part(self, to: &mut [f32]) {
        assert!(to.len() < LANES);
        let mut lanes = [0.0; LANES];
        self.store(&mut lanes);
        for (i, lane) in lanes.into_iter().enumerate() {
            if let Some(to) = to.get_mut(i) {
                *to = lane;
            }
        }
    }
    #[inline(always)]
    fn mul_add(self, b: Neon, c: Neon) -> Neon {
        Neon(vector!(vfmaq_f32(c.0, self.0, b.0)))
    }
    #[inline(always)]
    fn rsqrt(self) -> Neon {
        Neon::splat(1.0) / self.sqrt()
    }
    // The instructions for maxima and minima order zeros and prefer NaN of either operand.
    #[inline(always)]
    fn max(self, bound: Neon) -> Neon {
        Neon::select(self.lt(bound), bound, self)
    }
    #[inline(always)]
    fn min(self, bound: Neon) -> Neon {
        Neon::select(bound.lt(self), bound, self)
    }
    #[inline(always)]
    fn lt(self, other: Neon) -> uint32x4_t {
        vector!(vcltq_f32(self.0, other.0))
    }
    #[inline(always)]
    fn eq(self, other: Neon) -> uint32x4_t {
        vector!(vceqq_f32(self.0, other.0))
    }
    #[inline(always)]
    fn is_nan(self) -> uint32x4_t {
        vector!(vmvnq_u32(vceqq_f32(self.0, self.0)))
    }
    #[inline(always)]
    fn select(mask: uint32x4_t, yes: Neon, no: Neon) -> Neon {
        Neon(vector!(vbslq_f32(mask, yes.0, no.0)))
    }
    methods! {
        fn sqrt vsqrtq_f32;
        fn abs vabsq_f32;
        fn floor vrndmq_f32;
        fn ceil vrndpq_f32;
        fn trunc vrndq_f32;
        fn round vrndnq_f32;
    }
    #[inline(always)]
    fn scale(self, n: Neon) -> Neon {
        math::scale_in_halves(self, n)
    }
    #[inline(always)]
    fn split(self) -> (Neon, Neon) {
        math::split_bits(self)
    }
    #[inline(always)]
    fn transpose8x8_u32(from: &[u32], stride: usize, to: &mut Square<u32>) {
        transpose8x8_u32(from, stride, to);
    }
    #[inline(always)]
    fn transpose8x8_u16(from: &[u16], stride: usize, to: &mut Square<u16>) {
        transpose8x8_u16(from, stride, to);
    }
}

/// Methods that are one instruction on integers.
macro_rules! bits {
    ($(fn $name:ident($($arg:ident),*) $op:expr;)*) => {
        $(#[inline(always)]
        fn $name(self $(, $arg: Neon)*) -> Neon {
            let this = vector!(vreinterpretq_s32_f32(self.0));
            $(let $arg = vector!(vreinterpretq_s32_f32($arg.0));)*
            Neon(vector!(vreinterpretq_f32_s32($op(this $(, $arg)*))))
        })*
    };
}

impl Bits for Neon {
    #[inline(always)]
    fn to_int(self) -> Neon {
        Neon(vector!(vreinterpretq_f32_s32(vcvtnq_s32_f32(self.0))))
    }
    #[inline(always)]
    fn int_value(self) -> Neon {
        Neon(vector!(vcvtq_f32_s32(vreinterpretq_s32_f32(self.0))))
    }
    bits! {
        fn add_bits(other) vaddq_s32;
        fn sub_bits(other) vsubq_s32;
        fn and_bits(other) vandq_s32;
        fn to_exponent() vshlq_n_s32::<23>;
        fn exponent_int() vshrq_n_s32::<23>;
        fn half_int() vshrq_n_s32::<1>;
    }
    #[inline(always)]
    fn not_at_least(self, other: Neon) -> uint32x4_t {
        vector!(vmvnq_u32(vcgeq_f32(self.0, other.0)))
    }
}

/// [`super::transpose8x8`]: interleaving the first half of the elements with the second moves the highest bit of every index to
/// its end. After three rounds the three bits of the column precede those of the row.
macro_rules! transpose8x8 {
    ($name:ident, $t:ty, $lanes:literal, $load:ident, $store:ident, $low:ident, $high:ident) => {
        #[inline(always)]
        fn $name(from: &[$t], stride: usize, to: &mut Square<$t>) {
            const VECTORS: usize = SIDE * SIDE / $lanes;
            assert!(from.len() >= (SIDE - 1) * stride + SIDE);
            let row = |at: usize| at * $lanes / SIDE * stride + at * $lanes % SIDE;
            // SAFETY: the slice has the elements.
            let mut x: [_; VECTORS] =
                std::array::from_fn(|i| unsafe { $load(from.as_ptr().add(row(i))) });
            for _ in 0..SIDE.ilog2() {
                x = std::array::from_fn(|i| {
                    let (a, b) = (x[i / 2], x[i / 2 + VECTORS / 2]);
                    if i % 2 == 0 { vector!($low(a, b)) } else { vector!($high(a, b)) }
                });
            }
            for (to, x) in to.chunks_exact_mut($lanes).zip(x) {
                // SAFETY: as above.
                unsafe { $store(to.as_mut_ptr(), x) }
            }
        }
    };
}
transpose8x8!(transpose8x8_u32, u32, 4, vld1q_u32, vst1q_u32, vzip1q_u32, vzip2q_u32);
transpose8x8!(transpose8x8_u16, u16, 8, vld1q_u16, vst1q_u16, vzip1q_u16, vzip2q_u16);
