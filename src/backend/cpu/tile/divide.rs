//! Integer quotients and remainders, for which processors have no vector instructions: computed in f64 where its 53 bits
//! suffice, with exactly the results that the rows specify.

use super::super::isa::kernel;
use super::code::wrap;
use crate::dtype::DType;
use crate::op::Op;

/// Below this, [`toward_zero`] is exact: the quotient of two integers is further from the next whole number than f64 rounds.
const EXACT: u64 = 1 << 51;
/// Divisors below this divide 64-bit numbers in two exact steps of 32 bits.
const SHORT: u64 = 1 << 19;
/// Added to a whole number below [`EXACT`], it moves the number's bits to the low bits of the sum.
const WHOLE: f64 = (3u64 << 51) as f64;

#[inline(always)]
fn toward_zero(a: i64, b: i64) -> i64 {
    let quotient = (a as f64 / b as f64).trunc();
    (quotient + WHOLE).to_bits() as i64 - WHOLE.to_bits() as i64
}

/// The quotient of any `a` and `0 < |b| < SHORT`.
#[inline(always)]
fn in_two_steps(a: i64, b: i64) -> i64 {
    let (from, by) = (a.unsigned_abs(), b.unsigned_abs() as i64);
    let upper = (from >> 32) as i64;
    let first = toward_zero(upper, by);
    let rest = (upper - first * by) << 32 | (from & 0xffff_ffff) as i64;
    let quotient = (first << 32).wrapping_add(toward_zero(rest, by));
    if (a ^ b) < 0 { quotient.wrapping_neg() } else { quotient }
}

/// Sets `y[i]` to a quotient or a remainder.
macro_rules! divide_by {
    ($quotient:expr, $rem:ident, $dtype:ident, $x:ident, $z:ident, $y:ident) => {
        for ((y, &a), &b) in $y.iter_mut().zip($x).zip($z) {
            let quotient: i64 = $quotient(a, b);
            let value = if $rem { a.wrapping_sub(quotient.wrapping_mul(b)) } else { quotient };
            *y = wrap(value, $dtype);
        }
    };
}

kernel! {
    /// `Op::Div` or `Op::Rem`; false when a divisor is 0; the result for it is 0.
    pub fn divide(op: Op, x: &'a [i64], z: &'a [i64], y: &'a mut [i64], dtype: DType) -> bool {
        let rem = op == Op::Rem;
        let (mut bits_a, mut bits_b, mut defined) = (0, 0, true);
        for (&a, &b) in x.iter().zip(z) {
            bits_a |= a.unsigned_abs();
            bits_b |= b.unsigned_abs();
            defined &= b != 0;
        }
        if defined && (bits_a | bits_b) < EXACT {
            divide_by!(toward_zero, rem, dtype, x, z, y);
        } else if defined && bits_b < SHORT {
            divide_by!(in_two_steps, rem, dtype, x, z, y);
        } else {
            for ((y, &a), &b) in y.iter_mut().zip(x).zip(z) {
                *y = match (b, rem) {
                    (0, _) => 0,
                    (_, true) => wrap(a.wrapping_rem(b), dtype),
                    _ => wrap(a.wrapping_div(b), dtype),
                };
            }
        }
        defined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::isa::on_each_isa;

    #[test]
    fn quotients_and_remainders_are_those_of_integers() {
        let edges = |bits: u32| [(1i64 << bits) - 1, 1 << bits, (1 << bits) + 1];
        let mut numbers: Vec<i64> = (1..63).flat_map(edges).collect();
        numbers.extend([1, 3, 5, 7, 10, 1000, 524_287, i64::MAX - 1]);
        numbers.extend(numbers.clone().iter().map(|n| -n));
        numbers.extend([i64::MIN, i64::MIN + 1]);
        on_each_isa(|isa| {
            for &b in &numbers {
                // By itself and among small ones: each of the three ways.
                for most in [u64::MAX, EXACT - 1] {
                    let x: Vec<i64> =
                        numbers.iter().copied().filter(|a| a.unsigned_abs() <= most).collect();
                    let z = vec![b; x.len()];
                    let mut y = vec![0; x.len()];
                    for (op, f) in [
                        (Op::Div, i64::wrapping_div as fn(i64, i64) -> i64),
                        (Op::Rem, i64::wrapping_rem),
                    ] {
                        assert!(divide(op, &x, &z, &mut y, DType::I64));
                        let want: Vec<i64> = x.iter().map(|&a| f(a, b)).collect();
                        assert_eq!(y, want, "{op:?} by {b} with {isa:?}");
                    }
                }
            }
            let mut y = [1; 5];
            assert!(divide(
                Op::Div,
                &[0, -7, 7, -7, -128],
                &[-3, 2, -2, -2, -1],
                &mut y,
                DType::I8
            ));
            assert_eq!(y, [0, -3, -3, 3, -128]);
            let mut y = [1; 3];
            assert!(!divide(Op::Div, &[7, 300, 5], &[2, 1, 0], &mut y, DType::U8));
            assert_eq!(y, [3, 44, 0]);
        });
    }
}
