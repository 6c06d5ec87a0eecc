//! Vectors of x86-64: AVX2 with FMA, and AVX-512.
#![expect(
    unsafe_code,
    reason = "vector instructions, which the compiler cannot know the processor to have"
)]

use super::math;
use super::{Bits, Estimates, POWERS, SIDE, Square, Vector};
use std::arch::x86_64::*;
use std::ops::{Add, Div, Mul, Neg, Sub};

#[derive(Clone, Copy, Debug)]
pub struct Avx512(__m512);

#[derive(Clone, Copy, Debug)]
pub struct Avx2(__m256);

/// Vector instructions on registers.
macro_rules! vector {
    ($e:expr) => {
        // SAFETY: they touch no memory, and the processor has them: see the head of `vector`.
        unsafe { $e }
    };
}

/// Operators and methods that are one instruction.
macro_rules! operators {
    ($t:ident, $xor:ident, $set:ident: $($trait:ident $name:ident $op:ident),*) => {
        $(impl $trait for $t {
            type Output = $t;
            #[inline(always)]
            fn $name(self, other: $t) -> $t {
                $t(vector!($op(self.0, other.0)))
            }
        })*
        impl Neg for $t {
            type Output = $t;
            #[inline(always)]
            fn neg(self) -> $t {
                $t(vector!($xor(self.0, $set(-0.0))))
            }
        }
    };
}
operators!(Avx512, _mm512_xor_ps, _mm512_set1_ps:
    Add add _mm512_add_ps, Sub sub _mm512_sub_ps, Mul mul _mm512_mul_ps, Div div _mm512_div_ps);
operators!(Avx2, _mm256_xor_ps, _mm256_set1_ps:
    Add add _mm256_add_ps, Sub sub _mm256_sub_ps, Mul mul _mm256_mul_ps, Div div _mm256_div_ps);

/// Methods that differ between the two types only by the instruction.
macro_rules! common {
    ($lanes:literal, $load:ident, $store:ident, $set:ident, $and_not:ident, $fma:ident, $min:ident, $max:ident) => {
        const LANES: usize = $lanes;

        #[inline(always)]
        fn splat(v: f32) -> Self {
            Self(vector!($set(v)))
        }
        #[inline(always)]
        fn load(from: &[f32]) -> Self {
            assert!(from.len() >= $lanes);
            // SAFETY: the slice has the elements; the processor the instruction: see the head of `vector`.
            Self(unsafe { $load(from.as_ptr()) })
        }
        #[inline(always)]
        fn store(self, to: &mut [f32]) {
            assert!(to.len() >= $lanes);
            // SAFETY: as in `load`.
            unsafe { $store(to.as_mut_ptr(), self.0) }
        }
        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            Self(vector!($fma(self.0, b.0, c.0)))
        }
        #[inline(always)]
        fn abs(self) -> Self {
            Self(vector!($and_not($set(-0.0), self.0)))
        }
        // For an unordered pair these instructions return the second operand.
        #[inline(always)]
        fn max(self, bound: Self) -> Self {
            Self(vector!($max(bound.0, self.0)))
        }
        #[inline(always)]
        fn min(self, bound: Self) -> Self {
            Self(vector!($min(bound.0, self.0)))
        }
    };
}

const NO_EXCEPTIONS: i32 = _MM_FROUND_NO_EXC;

impl Vector for Avx512 {
    type Mask = __mmask16;
    common!(
        16,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_set1_ps,
        _mm512_andnot_ps,
        _mm512_fmadd_ps,
        _mm512_min_ps,
        _mm512_max_ps
    );

    #[inline(always)]
    fn load_part(from: &[f32]) -> Self {
        // SAFETY: only the elements of the slice are touched.
        Self(unsafe { _mm512_maskz_loadu_ps(first(from.len()), from.as_ptr()) })
    }
    #[inline(always)]
    fn store_part(self, to: &mut [f32]) {
        // SAFETY: as in `load_part`.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), first(to.len()), self.0) }
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(vector!(_mm512_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn rsqrt(self) -> Self {
        math::rsqrt_refined(self)
    }
    #[inline(always)]
    fn lt(self, other: Self) -> __mmask16 {
        vector!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> __mmask16 {
        vector!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, other.0))
    }
    #[inline(always)]
    fn is_nan(self) -> __mmask16 {
        vector!(_mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0))
    }
    #[inline(always)]
    fn select(mask: __mmask16, yes: Self, no: Self) -> Self {
        Self(vector!(_mm512_mask_blend_ps(mask, no.0, yes.0)))
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self(vector!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | NO_EXCEPTIONS }>(self.0)))
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        Self(vector!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_POS_INF | NO_EXCEPTIONS }>(self.0)))
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        Self(vector!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_ZERO | NO_EXCEPTIONS }>(self.0)))
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(vector!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | NO_EXCEPTIONS }>(self.0)))
    }
    #[inline(always)]
    fn scale(self, n: Self) -> Self {
        Self(vector!(_mm512_scalef_ps(self.0, n.0)))
    }
    #[inline(always)]
    fn exp_within(self) -> Self {
        math::exp_in_sixteenths(self)
    }
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let m = vector!(_mm512_getmant_ps::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_NAN>(self.0));
        // The exponent of m is -1 if m is below 1, else 0.
        let e = vector!(_mm512_sub_ps(_mm512_getexp_ps(self.0), _mm512_getexp_ps(m)));
        (Self(m), Self(e))
    }
    #[inline(always)]
    fn prefetch<T>(line: *const T) {
        // SAFETY: nothing is read; an address without memory is ignored.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
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

impl Estimates for Avx512 {
    #[inline(always)]
    fn rsqrt_14(self) -> Self {
        Self(vector!(_mm512_rsqrt14_ps(self.0)))
    }
    #[inline(always)]
    fn power_16(self) -> Self {
        let powers = Self::load(&POWERS);
        Self(vector!(_mm512_permutexvar_ps(_mm512_castps_si512(self.0), powers.0)))
    }
    #[inline(always)]
    fn scale_at_least(self, n: Self, of: Self, bound: f32) -> Self {
        let counts = vector!(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(of.0, _mm512_set1_ps(bound)));
        Self(vector!(_mm512_maskz_scalef_ps(counts, self.0, n.0)))
    }
}

/// The mask of the first `n` lanes.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    assert!(n < 16);
    (1 << n) - 1
}

impl Avx2 {
    #[inline(always)]
    fn first(n: usize) -> __m256i {
        assert!(n < 8);
        vector!(_mm256_cmpgt_epi32(
            _mm256_set1_epi32(n as i32),
            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
        ))
    }
}

impl Vector for Avx2 {
    type Mask = __m256;
    const REGISTERS: usize = 16;
    common!(
        8,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        _mm256_andnot_ps,
        _mm256_fmadd_ps,
        _mm256_min_ps,
        _mm256_max_ps
    );

    #[inline(always)]
    fn load_part(from: &[f32]) -> Self {
        // SAFETY: only the elements of the slice are touched.
        Self(unsafe { _mm256_maskload_ps(from.as_ptr(), Self::first(from.len())) })
    }
    #[inline(always)]
    fn store_part(self, to: &mut [f32]) {
        // SAFETY: as in `load_part`.
        unsafe { _mm256_maskstore_ps(to.as_mut_ptr(), Self::first(to.len()), self.0) }
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(vector!(_mm256_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn rsqrt(self) -> Self {
        Self::splat(1.0) / self.sqrt()
    }
    #[inline(always)]
    fn lt(self, other: Self) -> __m256 {
        vector!(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> __m256 {
        vector!(_mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, other.0))
    }
    #[inline(always)]
    fn is_nan(self) -> __m256 {
        vector!(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0))
    }
    #[inline(always)]
    fn select(mask: __m256, yes: Self, no: Self) -> Self {
        Self(vector!(_mm256_blendv_ps(no.0, yes.0, mask)))
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self(vector!(_mm256_floor_ps(self.0)))
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        Self(vector!(_mm256_ceil_ps(self.0)))
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        Self(vector!(_mm256_round_ps::<{ _MM_FROUND_TO_ZERO | NO_EXCEPTIONS }>(self.0)))
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(vector!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | NO_EXCEPTIONS }>(self.0)))
    }
    #[inline(always)]
    fn scale(self, n: Self) -> Self {
        math::scale_in_halves(self, n)
    }
    #[inline(always)]
    fn exp_within(self) -> Self {
        math::exp_or_zero(self)
    }
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        math::split_bits(self)
    }
    #[inline(always)]
    fn prefetch<T>(line: *const T) {
        // SAFETY: nothing is read; an address without memory is ignored.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
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
        fn $name(self $(, $arg: Self)*) -> Self {
            let this = vector!(_mm256_castps_si256(self.0));
            $(let $arg = vector!(_mm256_castps_si256($arg.0));)*
            Self(vector!(_mm256_castsi256_ps($op(this $(, $arg)*))))
        })*
    };
}

impl Bits for Avx2 {
    #[inline(always)]
    fn to_int(self) -> Self {
        Self(vector!(_mm256_castsi256_ps(_mm256_cvtps_epi32(self.0))))
    }
    #[inline(always)]
    fn int_value(self) -> Self {
        Self(vector!(_mm256_cvtepi32_ps(_mm256_castps_si256(self.0))))
    }
    bits! {
        fn add_bits(other) _mm256_add_epi32;
        fn sub_bits(other) _mm256_sub_epi32;
        fn and_bits(other) _mm256_and_si256;
        fn to_exponent() _mm256_slli_epi32::<23>;
        fn exponent_int() _mm256_srai_epi32::<23>;
        fn half_int() _mm256_srai_epi32::<1>;
    }
    #[inline(always)]
    fn not_at_least(self, other: Self) -> __m256 {
        vector!(_mm256_cmp_ps::<_CMP_NGE_UQ>(self.0, other.0))
    }
}

/// Four rows of eight from row `$j` on, interleaved in pairs. A macro, because a function inside one that is compiled for
/// a processor is not compiled for it: each instruction would be a call.
macro_rules! four {
    ($row:ident, $low:ident, $high:ident, $low_pairs:ident, $high_pairs:ident, $j:expr) => {{
        let (a, b, c, d) = ($row!($j), $row!($j + 1), $row!($j + 2), $row!($j + 3));
        vector!({
            let (ab, cd) = ($low(a, b), $low(c, d));
            let (ab_high, cd_high) = ($high(a, b), $high(c, d));
            [
                $low_pairs(ab, cd),
                $high_pairs(ab, cd),
                $low_pairs(ab_high, cd_high),
                $high_pairs(ab_high, cd_high),
            ]
        })
    }};
}

/// [`super::transpose8x8`] in AVX2: neighbouring rows are interleaved element by element, then in pairs, then in halves.
#[inline(always)]
fn transpose8x8_u32(from: &[u32], stride: usize, to: &mut Square<u32>) {
    assert!(from.len() >= (SIDE - 1) * stride + SIDE);
    macro_rules! row {
        ($j:expr) => {
            // SAFETY: the slice has the elements; the processor the instruction: see the head of `vector`.
            unsafe { _mm256_loadu_si256(from.as_ptr().add($j * stride).cast()) }
        };
    }
    macro_rules! four_rows {
        ($j:expr) => {
            four!(
                row,
                _mm256_unpacklo_epi32,
                _mm256_unpackhi_epi32,
                _mm256_unpacklo_epi64,
                _mm256_unpackhi_epi64,
                $j
            )
        };
    }
    let (low, high) = (four_rows!(0), four_rows!(4));
    for i in 0..4 {
        // SAFETY: a square has eight rows of eight elements; as above.
        unsafe {
            let to: *mut __m256i = to.as_mut_ptr().cast();
            _mm256_storeu_si256(to.add(i), _mm256_permute2x128_si256::<0x20>(low[i], high[i]));
            _mm256_storeu_si256(to.add(i + 4), _mm256_permute2x128_si256::<0x31>(low[i], high[i]));
        }
    }
}

/// As [`transpose8x8_u32`], for rows that are half as long.
#[inline(always)]
fn transpose8x8_u16(from: &[u16], stride: usize, to: &mut Square<u16>) {
    assert!(from.len() >= (SIDE - 1) * stride + SIDE);
    macro_rules! row {
        ($j:expr) => {
            // SAFETY: as in `transpose8x8_u32`.
            unsafe { _mm_loadu_si128(from.as_ptr().add($j * stride).cast()) }
        };
    }
    macro_rules! four_rows {
        ($j:expr) => {
            four!(
                row,
                _mm_unpacklo_epi16,
                _mm_unpackhi_epi16,
                _mm_unpacklo_epi32,
                _mm_unpackhi_epi32,
                $j
            )
        };
    }
    let (low, high) = (four_rows!(0), four_rows!(4));
    for i in 0..4 {
        // SAFETY: as in `transpose8x8_u32`.
        unsafe {
            let to: *mut __m128i = to.as_mut_ptr().cast();
            _mm_storeu_si128(to.add(2 * i), _mm_unpacklo_epi64(low[i], high[i]));
            _mm_storeu_si128(to.add(2 * i + 1), _mm_unpackhi_epi64(low[i], high[i]));
        }
    }
}
