//! Vectors of f32: one type for each instruction set, so that a function is written once and is vector code
//! everywhere. [`ScalarVec`] is the type for all other processors: a single number; the compiler vectorises loops over it
//! by itself.
//!
//! Only code that [`super::isa::run`] has chosen for a processor may use the type of that processor.

pub mod math;
pub mod math64;
mod scalar;
#[cfg(target_arch = "aarch64")]
mod neon;
mod wide;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub use neon::Neon;
pub use scalar::ScalarVec;
pub use wide::Wide;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

use std::ops::{Add, Div, Mul, Neg, Sub};

/// All methods are `#[inline(always)]`: a call would leave the function that was compiled for the processor.
pub trait Vector:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    type Mask: Copy;
    const LANES: usize;
    /// Number of the processor's vector registers.
    const REGISTERS: usize = 32;

    fn splat(v: f32) -> Self;
    /// The first `LANES` numbers of a slice with at least as many.
    fn load(from: &[f32]) -> Self;
    /// All numbers of a slice with fewer than `LANES`; 0 for the rest.
    fn load_part(from: &[f32]) -> Self;
    fn store(self, to: &mut [f32]);
    fn store_part(self, to: &mut [f32]);

    /// `self * b + c`, fused where that is one instruction.
    fn mul_add(self, b: Self, c: Self) -> Self;
    fn sqrt(self) -> Self;
    /// ≤ 1 ulp.
    fn rsqrt(self) -> Self;
    fn abs(self) -> Self;
    /// `self < bound ? bound : self`: a NaN in `self` stays.
    fn max(self, bound: Self) -> Self;
    /// `self > bound ? bound : self`: a NaN in `self` stays.
    fn min(self, bound: Self) -> Self;
    fn lt(self, other: Self) -> Self::Mask;
    fn eq(self, other: Self) -> Self::Mask;
    fn is_nan(self) -> Self::Mask;
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    /// Ties to even.
    fn round(self) -> Self;
    /// `self * 2^n` for `self` in [0.5, 4] and a whole number `n` in -160..=130, with one rounding where the result
    /// is a normal number.
    fn scale(self, n: Self) -> Self;
    /// exp of a number in -104..=89. ≤ 1.1 ulp.
    #[inline(always)]
    fn exp_within(self) -> Self {
        math::exp_within(self)
    }
    /// `self = m 2^e` with m in [0.75, 1.5): (m, e). For 0 e is -∞, for ∞ it is ∞; m is NaN for NaN and negative
    /// numbers.
    fn split(self) -> (Self, Self);

    /// Prefetches the cache line at an arbitrary address into the second-level cache.
    #[inline(always)]
    fn prefetch<T>(_: *const T) {}
    /// [`transpose8x8`] of 32-bit elements.
    #[inline(always)]
    fn transpose8x8_u32(from: &[u32], stride: usize, to: &mut Square<u32>) {
        transpose8x8(from, stride, to);
    }
    /// [`transpose8x8`] of 16-bit elements.
    #[inline(always)]
    fn transpose8x8_u16(from: &[u16], stride: usize, to: &mut Square<u16>) {
        transpose8x8(from, stride, to);
    }
}

/// Operations that AVX-512 has instructions for.
pub trait Estimates: Vector {
    /// 1 / sqrt with 14 bits.
    fn rsqrt_14(self) -> Self;
    /// 2^(j/16), where j is the low four bits: one of [`POWERS`].
    fn power_16(self) -> Self;
    /// `self * 2^n` where `of` is not less than `bound`, else 0.
    fn scale_at_least(self, n: Self, of: Self, bound: f32) -> Self;
}

/// Operations on the bits of numbers, for processors without the instructions of [`Estimates`].
pub trait Bits: Vector {
    /// The nearest integer, as bits.
    fn to_int(self) -> Self;
    /// The value of the integer in the bits.
    fn int_value(self) -> Self;
    #[inline(always)]
    fn of_bits(bits: u32) -> Self {
        Self::splat(f32::from_bits(bits))
    }
    /// Adds the bits as integers; `sub_bits` subtracts them.
    fn add_bits(self, other: Self) -> Self;
    fn sub_bits(self, other: Self) -> Self;
    /// The bits shifted up to the exponent's place.
    fn to_exponent(self) -> Self;
    /// The bits shifted down from the exponent's place, with the sign.
    fn exponent_int(self) -> Self;
    /// Half of an integer, rounded down.
    fn half_int(self) -> Self;
    fn and_bits(self, other: Self) -> Self;
    /// `!(self >= other)`: true for an unordered pair.
    fn not_at_least(self, other: Self) -> Self::Mask;
}

/// 2^(j/16).
pub const POWERS: [f32; 16] = [
    1.0,
    1.044_273_7,
    1.090_507_7,
    1.138_788_6,
    1.189_207_1,
    1.241_857_8,
    1.296_839_6,
    1.354_255_6,
    std::f32::consts::SQRT_2,
    1.476_826_2,
    1.542_210_8,
    1.610_490_3,
    1.681_792_9,
    1.756_252_2,
    1.834_008_1,
    1.915_206_6,
];

/// Rows and columns that are transposed at a time.
pub const SIDE: usize = 8;
pub type Square<T> = [T; SIDE * SIDE];

/// `to[i, j] = from[j, i]`, where the rows of `from` are `stride` apart.
#[inline(always)]
pub fn transpose8x8<T: Copy>(from: &[T], stride: usize, to: &mut Square<T>) {
    for (i, row) in to.chunks_exact_mut(SIDE).enumerate() {
        row.iter_mut().zip(from[i..].iter().step_by(stride)).for_each(|(to, from)| *to = *from);
    }
}

/// `y[i] = expression of x[i]` in vectors of `$v`.
macro_rules! each {
    ($v:ident, $y:ident, |$($a:ident in $x:ident),+| $e:expr) => {{
        let n = $y.len();
        $(let $x = &$x[..n];)+
        let mut at = 0;
        while at < n {
            let whole = n - at >= $v::LANES;
            $(let $a = if whole { $v::load(&$x[at..]) } else { $v::load_part(&$x[at..]) };)+
            let result: $v = $e;
            if whole { result.store(&mut $y[at..]) } else { result.store_part(&mut $y[at..]) }
            at += $v::LANES;
        }
    }};
}
pub(crate) use each;

/// The vector of `$v` at `$at` of a slice; 0 past its end.
macro_rules! get {
    ($v:ident, $x:expr, $at:expr) => {{
        let x = &$x[$at..];
        if x.len() >= $v::LANES { $v::load(x) } else { $v::load_part(x) }
    }};
}
pub(crate) use get;

/// Stores a vector at `$at` of a slice: the opposite of [`get`].
macro_rules! put {
    ($value:expr, $v:ident, $x:expr, $at:expr) => {{
        let (value, x) = ($value, &mut $x[$at..]);
        if x.len() >= $v::LANES { value.store(x) } else { value.store_part(x) }
    }};
}
pub(crate) use put;

/// Numbers in the accumulators of [`chains`]: several vectors of every type, so that their latency is hidden.
pub const CHAINS: usize = 64;
pub const MAX_LANES: usize = 16;

/// Combines an expression over the elements of some slices in many accumulators of type `$v` (of elements `$t`) and
/// returns their [`CHAINS`] numbers. With `to y`, the values of the expression are stored to `y`.
macro_rules! chains {
    ($v:ident, $t:ty, $neutral:expr, |$($a:ident in $x:ident),+| $value:expr,
     |$acc:ident, $item:ident| $combine:expr $(, to $y:ident)?) => {{
        use $crate::backend::cpu::vector::{CHAINS, MAX_LANES};
        let n = [$($x.len()),+][0];
        $(let $x = &$x[..n];)+
        $(let $y = &mut $y[..n];)?
        let mut ends = [$v::splat($neutral); CHAINS];
        let mut at = 0;
        while at + CHAINS <= n {
            for i in 0..CHAINS / $v::LANES {
                let at = at + i * $v::LANES;
                $(let $a = $v::load(&$x[at..]);)+
                let $item: $v = $value;
                $($item.store(&mut $y[at..]);)?
                let $acc = ends[i];
                ends[i] = $combine;
            }
            at += CHAINS;
        }
        let mut last = $v::splat($neutral);
        while at < n {
            let whole = n - at >= $v::LANES;
            $(let $a = if whole { $v::load(&$x[at..]) } else { $v::load_part(&$x[at..]) };)+
            let mut $item: $v = $value;
            $(if whole { $item.store(&mut $y[at..]) } else { $item.store_part(&mut $y[at..]) })?
            if !whole {
                let mut lanes: [$t; MAX_LANES] = [$neutral; MAX_LANES];
                $item.store_part(&mut lanes[..n - at]);
                $item = $v::load(&lanes);
            }
            let $acc = last;
            last = $combine;
            at += $v::LANES;
        }
        let ($acc, $item) = (ends[0], last);
        ends[0] = $combine;
        let mut numbers: [$t; CHAINS] = [$neutral; CHAINS];
        for i in 0..CHAINS / $v::LANES {
            ends[i].store(&mut numbers[i * $v::LANES..]);
        }
        numbers
    }};
}
pub(crate) use chains;

/// Maximum number of terms that are summed in their own type: rounding errors grow with it.
pub const SUMMANDS: usize = 1 << 14;

/// The sum of the numbers of [`chains`]: halves are added up in vectors, down to eight numbers; these are added in f64, as
/// are the sums of every [`SUMMANDS`] terms.
macro_rules! total {
    ($v:ident, $t:ty, |$($a:ident in $x:ident),+| $value:expr $(, to $y:ident)?) => {{
        use $crate::backend::cpu::vector::SUMMANDS;
        let n = [$($x.len()),+][0];
        let (mut total, mut first) = (0.0f64, 0);
        while first < n {
            let end = n.min(first + SUMMANDS);
            $(let $x = &$x[first..end];)+
            $(let $y = &mut $y[first..end];)?
            let mut sums = $crate::backend::cpu::vector::chains!(
                $v, $t, 0.0, |$($a in $x),+| $value, |sum, item| sum + item $(, to $y)?
            );
            let mut half = sums.len() / 2;
            while half >= 8 {
                for i in 0..half {
                    sums[i] += sums[i + half];
                }
                half /= 2;
            }
            total = sums[..8].iter().fold(total, |sum, &s| sum + s as f64);
            first = end;
        }
        total
    }};
}
pub(crate) use total;
