//! Random bits: the counter-based generators of `rng_bit_generator`, as OpenXLA computes them.
//!
//! Source: <https://openxla.org/stablehlo/spec#rng_bit_generator>; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
//! 2011; the assignment of counters to elements, and Philox as the default, are OpenXLA's choice. Words of 32 bits are i64 here.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::Op;
use crate::shape::{Dims, numel};
use crate::stablehlo::attribute::Attribute;
use crate::stablehlo::lower::Call;
use crate::stablehlo::types::carrier;
use crate::stablehlo::value::{Value, Values};

fn int(v: V<'_>, number: i64) -> V<'_> {
    v.math().constant_int(number, DType::I64)
}

fn low(v: V) -> V {
    v.and(int(v, 0xffff_ffff))
}

fn high(v: V) -> V {
    low((v - low(v)) / int(v, 1 << 32))
}

fn xor<'m>(a: V<'m>, b: V<'m>) -> V<'m> {
    a.binary(Op::Xor, b)
}

/// The lower 32 bits, and the upper ones.
pub fn halves(v: V) -> [V; 2] {
    [low(v), high(v)]
}

/// Philox4x32-10: four random words for each counter.
pub fn philox<'m>(mut key: [V<'m>; 2], counter: [V<'m>; 4]) -> [V<'m>; 4] {
    const MULTIPLIERS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let mut words = counter;
    for _ in 0..10 {
        let [first, second] = [0, 1].map(|n| words[2 * n] * int(words[2 * n], MULTIPLIERS[n]));
        words = [
            xor(xor(high(second), words[1]), key[0]),
            low(second),
            xor(xor(high(first), words[3]), key[1]),
            low(first),
        ];
        key = [0, 1].map(|n| low(key[n] + int(key[n], WEYL[n])));
    }
    words
}

/// Threefry2x32-20: two random words for each counter.
fn threefry<'m>(key: [V<'m>; 2], counter: [V<'m>; 2]) -> [V<'m>; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let parity = int(key[0], 0x1BD1_1BDA);
    let keys = [key[0], key[1], xor(xor(parity, key[0]), key[1])];
    let [mut a, mut b] = [0, 1].map(|n| low(counter[n] + keys[n]));
    for group in 0..5 {
        for by in ROTATIONS[group % 2] {
            a = low(a + b);
            let rotated = low(b * int(b, 1 << by)) + b / int(b, 1 << (32 - by));
            b = xor(rotated, a);
        }
        a = low(a + keys[(group + 1) % 3]);
        b = low(b + keys[(group + 2) % 3] + int(b, group as i64 + 1));
    }
    [a, b]
}

/// The most numbers that are drawn at once.
const MOST: i64 = 1 << 48;

pub fn rng_bit_generator<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let state = c.x[0];
    let [_, out] = &c.op.types[..] else { return invalid!("two results are expected") };
    let n_state = match (state.dtype, &state.v.sizes()[..]) {
        (DType::U64, &[n @ 2..=3]) => n,
        _ => return invalid!("the state is two or three numbers of ui64"),
    };
    if !carrier(out.dtype).is_int() {
        return invalid!("random bits are integers, not {}", out.dtype);
    }
    if out.numel() > MOST {
        return invalid!("{} random numbers are more than a memory holds", out.numel());
    }
    let number = |n: i64| state.v.narrow(0, n, 1).reshape(&[]);
    let is_philox = match c.attr(&["rng_algorithm", "algorithm"])? {
        Attribute::Choice("DEFAULT" | "PHILOX") => true,
        Attribute::Choice("THREE_FRY") if n_state == 2 => false,
        _ => return invalid!("there are DEFAULT, PHILOX, and for a state of two THREE_FRY"),
    };
    let wide = out.dtype.size() == 8;
    let (key, counter) = (number(0), number(1));
    let (bits, rest) = match is_philox {
        true => {
            // A state of two numbers is the key and the counter's lower half; the key is the upper half, too.
            let upper = number(if n_state == 3 { 2 } else { 0 });
            let count = (out.numel() * if wide { 2 } else { 1 } + 3) / 4;
            let plus = |n: V<'m>| {
                let of = |v: V<'m>| Value::new(v, DType::U64).ordered();
                let sum = counter + n;
                (sum, upper + of(sum).lt(of(counter)).cast(DType::I64))
            };
            let (lower, upper) = plus(c.math().iota(&[count], 0, DType::I64));
            let counters = [halves(lower), halves(upper)].concat();
            let words = philox(halves(key), [counters[0], counters[1], counters[2], counters[3]]);
            let columns = words.map(|word| word.reshape(&[count, 1]));
            let words = c.math().concat(&columns, 1).reshape(&[4 * count]);
            let (lower, upper) = plus(int(counter, count));
            let rest = if n_state == 3 { vec![lower, upper] } else { vec![lower] };
            let bits = match wide {
                true => {
                    let pairs = words.reshape(&[2 * count, 2]);
                    whole([0, 1].map(|n| pairs.narrow(1, n, 1).reshape(&[2 * count])))
                }
                false => words,
            };
            (bits.narrow(0, 0, out.numel()).reshape(&out.sizes), rest)
        }
        false => {
            let (bits, count) = threefry_bits(key, counter, &out.sizes, wide);
            (bits, vec![counter + int(counter, count)])
        }
    };
    let of_width = match out.dtype.size() {
        8 => bits,
        size => bits.and(int(bits, (1 << (8 * size)) - 1)),
    };
    let carried = of_width.cast(carrier(out.dtype));
    let parts: Vec<V> = [key].into_iter().chain(rest).map(|v| v.reshape(&[1])).collect();
    let state = state.map(|_| c.math().concat(&parts, 0));
    Ok(vec![state, Value::new(carried, out.dtype)])
}

/// 64 bits of two words, the lower one first.
pub fn whole<'m>([lower, upper]: [V<'m>; 2]) -> V<'m> {
    lower + upper * int(upper, 1 << 32)
}

/// A counter gives two words, neighbours along the first even dimension, else the longest. Returns the number of counters, too.
fn threefry_bits<'m>(key: V<'m>, counter: V<'m>, sizes: &[i64], wide: bool) -> (V<'m>, i64) {
    let words = |shape: &[i64]| {
        let count = numel(shape);
        let places = counter.math().iota(&[count], 0, DType::I64).reshape(shape);
        (threefry(halves(key), halves(counter + places)), count)
    };
    if wide {
        let (words, count) = words(sizes);
        return (whole(words), count);
    }
    let longest = || (0..sizes.len()).rev().max_by_key(|&d| sizes[d]);
    let Some(split) = sizes.iter().position(|size| size % 2 == 0).or_else(longest) else {
        let (words, count) = words(&[1]);
        return (words[0].reshape(&[]), count);
    };
    let mut shape = Dims::from_slice(sizes);
    shape[split] = (sizes[split] + 1) / 2;
    shape.insert(split + 1, 1);
    let (words, count) = words(&shape);
    let mut whole = Dims::from_slice(sizes);
    whole[split] = 2 * shape[split];
    let joined = counter.math().concat(&words, split + 1).reshape(&whole);
    (joined.narrow(split, 0, sizes[split]), count)
}
