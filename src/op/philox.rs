//! Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a counter-based generator,
//! so that element `i` of a random array is a function of (seed, offset, i) only. Always inlined, into loops that are
//! compiled for the processor.

use super::array::Array;
use crate::dtype::DType;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The golden ratio and √3 − 1: the increments of the key each round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Four random words. Key and counter are (low word, high word); of the counter's upper two words the lower one is `above`, the
/// other 0.
#[inline(always)]
fn philox(key: u64, counter: u64, above: u32) -> [u32; 4] {
    let counter = [counter as u32, (counter >> 32) as u32, above, 0];
    generate([key as u32, (key >> 32) as u32], counter)
}

/// An element type that random words are turned into, four elements for each counter.
pub trait Drawn: Copy {
    fn four(seed: u64, counter: u64) -> [Self; 4];
}

/// Uniform in [0, 1), multiples of 2^-24.
impl Drawn for f32 {
    #[inline(always)]
    fn four(seed: u64, counter: u64) -> [f32; 4] {
        philox(seed, counter, 0).map(unit)
    }
}

/// All 64 bits: the upper words are those of another counter, so that counters make equally many elements of both types.
impl Drawn for i64 {
    #[inline(always)]
    fn four(seed: u64, counter: u64) -> [i64; 4] {
        // Not by a closure: it would not always be part of the loop.
        let [a, b, c, d] = philox(seed, counter, 0);
        let [e, f, g, h] = philox(seed, counter, 1);
        let both = |lower: u32, upper: u32| (u64::from(upper) << 32 | u64::from(lower)) as i64;
        [both(a, e), both(b, f), both(c, g), both(d, h)]
    }
}

/// Element `index` of the numbers drawn by (seed, offset).
#[inline]
pub fn drawn<T: Drawn>(seed: u64, offset: u64, index: u64) -> T {
    T::four(seed, offset.wrapping_add(index / 4))[(index % 4) as usize]
}

/// Sets element `i` of an array of either type to the number that is drawn by `[seed, offset, index]`.
pub fn set(y: &mut Array, i: usize, [seed, offset, index]: [u64; 3]) {
    match y.ty.dtype {
        DType::I64 => y.set_i64(i, drawn(seed, offset, index)),
        _ => y.set_f64(i, f64::from(drawn::<f32>(seed, offset, index))),
    }
}

/// A random word as a number in [0, 1): its top 24 bits.
#[inline(always)]
fn unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

#[inline(always)]
fn generate(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let first = MULTIPLIERS[0] as u64 * counter[0] as u64;
        let second = MULTIPLIERS[1] as u64 * counter[2] as u64;
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known-answer vectors of Random123 (kat_vectors, philox4x32 10).
    #[test]
    fn known_answers() {
        let all = 0xffff_ffff;
        let check = |counter, key, want: [u32; 4]| assert_eq!(generate(key, counter), want);
        check([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        check([all; 4], [all; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        check(
            [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
            [0xa4093822, 0x299f31d0],
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
        );
    }

    #[test]
    fn words_are_used_in_order_and_the_counter_carries() {
        let generate = |above| generate([7, 0], [2, 1, above, 0]);
        let [lower, upper] = [0, 1].map(generate);
        for i in 0..4 {
            let (offset, index) = (u32::MAX as u64, 12 + i as u64);
            let number = (lower[i] >> 8) as f32 / 16777216.0;
            assert_eq!(drawn::<f32>(7, offset, index), number);
            let bits = drawn::<i64>(7, offset, index) as u64;
            assert_eq!([bits as u32, (bits >> 32) as u32], [lower[i], upper[i]]);
        }
        assert_eq!(unit(u32::MAX), 1.0 - 0.5f32.powi(24));
        assert_eq!(unit(255), 0.0);
    }
}
