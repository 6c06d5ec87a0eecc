//! Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a counter-based generator,
//! so that element `i` of a random array is a function of (seed, offset, i) and of nothing else.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The golden ratio and √3 − 1: what the key grows by each round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Four random words. Key and counter are (low word, high word); the counter's upper two words are 0.
#[inline]
pub fn philox(key: u64, counter: u64) -> [u32; 4] {
    generate([key as u32, (key >> 32) as u32], [counter as u32, (counter >> 32) as u32, 0, 0])
}

/// Element `index` of `random(seed, offset)`: uniform in [0, 1), a multiple of 2^-24.
#[inline]
pub fn uniform(seed: u64, offset: u64, index: u64) -> f32 {
    unit(philox(seed, offset.wrapping_add(index / 4))[(index % 4) as usize])
}

/// A random word as a number in [0, 1): its top 24 bits.
#[inline]
pub fn unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

#[inline]
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
        let words = philox(7, (1 << 32) + 2);
        for (i, &word) in words.iter().enumerate() {
            let index = 12 + i as u64;
            assert_eq!(uniform(7, u32::MAX as u64, index), (word >> 8) as f32 / 16777216.0);
        }
        assert_eq!(unit(u32::MAX), 1.0 - 0.5f32.powi(24));
        assert_eq!(unit(255), 0.0);
    }
}
