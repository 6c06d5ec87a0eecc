//! Reducing runs of elements to one, and rows of elements to one row. Floats are added in many short chains and then
//! in f64, so that the error does not grow with the length; integers wrap.

use super::access::Plain;
use super::isa::kernel;
use super::tile::run::TileElement;
use super::vector::math;
use super::vector::{Wide, chains, total};
use crate::op::Op;

/// A lane that can be reduced.
pub trait Reducible: TileElement {
    /// The type of partial results.
    type Acc: Plain;

    fn neutral(op: Op) -> Self::Acc;
    /// Reduces a run of at most a tile.
    fn fold(op: Op, run: &[Self]) -> Self::Acc;
    /// Reduces rows of `acc.len()` elements into `acc`.
    fn fold_rows(op: Op, rows: &[Self], acc: &mut [Self::Acc]);
    fn combine(op: Op, a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Partial results of floats.
    ///
    /// # Panics
    /// When they are integers.
    fn in_f64(_: &mut [Self::Acc]) -> &mut [f64] {
        unreachable!("integers are not added up as floats")
    }
    fn finish(acc: Self::Acc) -> Self;
}

#[inline(always)]
fn max64(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

#[inline(always)]
fn min64(a: f64, b: f64) -> f64 {
    if a < b || a.is_nan() { a } else { b }
}

kernel! {
    fn sum_f32(x: &'a [f32]) -> f64 {
        total!(V, f32, |a in x| a)
    }
}

kernel! {
    fn max_f32(x: &'a [f32]) -> f64 {
        let tops = chains!(V, f32, f32::NEG_INFINITY, |a in x| a, |top, a| math::larger(top, a));
        tops.iter().fold(f64::NEG_INFINITY, |a, &b| max64(a, b as f64))
    }
}

kernel! {
    fn min_f32(x: &'a [f32]) -> f64 {
        let lows = chains!(V, f32, f32::INFINITY, |a in x| a, |low, a| math::smaller(low, a));
        lows.iter().fold(f64::INFINITY, |a, &b| min64(a, b as f64))
    }
}

kernel! {
    fn sum_f64(x: &'a [f64]) -> f64 {
        total!(Wide, f64, |a in x| a)
    }
}

kernel! {
    fn sum_i64(x: &'a [i64]) -> i64 {
        x.iter().fold(0, |a, &b| a.wrapping_add(b))
    }
}

kernel! {
    fn rows_f32(op: Op, rows: &'a [f32], acc: &'a mut [f64]) {
        for row in rows.chunks_exact(acc.len()) {
            let pairs = acc.iter_mut().zip(row);
            match op {
                Op::Sum => pairs.for_each(|(a, &v)| *a += v as f64),
                Op::Prod => pairs.for_each(|(a, &v)| *a *= v as f64),
                Op::ReduceMax => pairs.for_each(|(a, &v)| *a = max64(*a, v as f64)),
                _ => pairs.for_each(|(a, &v)| *a = min64(*a, v as f64)),
            }
        }
    }
}

fn neutral_f64(op: Op) -> f64 {
    op.row().neutral.unwrap_or(0.0)
}

fn combine_f64(op: Op, a: f64, b: f64) -> f64 {
    match op {
        Op::Sum => a + b,
        Op::Prod => a * b,
        Op::ReduceMax => max64(a, b),
        _ => min64(a, b),
    }
}

fn neutral_i64(op: Op) -> i64 {
    match op {
        Op::ReduceMax => i64::MIN,
        Op::ReduceMin => i64::MAX,
        _ => op.row().neutral.unwrap_or(0.0) as i64,
    }
}

fn combine_i64(op: Op, a: i64, b: i64) -> i64 {
    match op {
        Op::Sum => a.wrapping_add(b),
        Op::Prod => a.wrapping_mul(b),
        Op::ReduceMax => a.max(b),
        Op::ReduceMin => a.min(b),
        Op::Any => a | b,
        _ => a & b,
    }
}

impl Reducible for f32 {
    type Acc = f64;

    fn neutral(op: Op) -> f64 {
        neutral_f64(op)
    }

    fn fold(op: Op, run: &[f32]) -> f64 {
        match op {
            Op::Sum => sum_f32(run),
            Op::ReduceMax => max_f32(run),
            Op::ReduceMin => min_f32(run),
            _ => run.iter().fold(1.0, |a, &v| a * v as f64),
        }
    }

    fn fold_rows(op: Op, rows: &[f32], acc: &mut [f64]) {
        rows_f32(op, rows, acc);
    }

    fn in_f64(acc: &mut [f64]) -> &mut [f64] {
        acc
    }

    fn combine(op: Op, a: f64, b: f64) -> f64 {
        combine_f64(op, a, b)
    }

    fn finish(acc: f64) -> f32 {
        acc as f32
    }
}

impl Reducible for f64 {
    type Acc = f64;

    fn neutral(op: Op) -> f64 {
        neutral_f64(op)
    }

    fn fold(op: Op, run: &[f64]) -> f64 {
        match op {
            Op::Sum => sum_f64(run),
            _ => run.iter().fold(neutral_f64(op), |a, &v| combine_f64(op, a, v)),
        }
    }

    fn fold_rows(op: Op, rows: &[f64], acc: &mut [f64]) {
        for row in rows.chunks_exact(acc.len()) {
            acc.iter_mut().zip(row).for_each(|(a, &v)| *a = combine_f64(op, *a, v));
        }
    }

    fn combine(op: Op, a: f64, b: f64) -> f64 {
        combine_f64(op, a, b)
    }

    fn finish(acc: f64) -> f64 {
        acc
    }
}

/// Integers, and bools as integers.
macro_rules! reducible_as_i64 {
    ($t:ty, |$run:ident| $sum:expr) => {
        impl Reducible for $t {
            type Acc = i64;

            fn neutral(op: Op) -> i64 {
                neutral_i64(op)
            }

            fn fold(op: Op, $run: &[$t]) -> i64 {
                match op {
                    Op::Sum => $sum,
                    _ => $run.iter().fold(neutral_i64(op), |a, &v| combine_i64(op, a, v as i64)),
                }
            }

            fn fold_rows(op: Op, rows: &[$t], acc: &mut [i64]) {
                for row in rows.chunks_exact(acc.len()) {
                    acc.iter_mut().zip(row).for_each(|(a, &v)| *a = combine_i64(op, *a, v as i64));
                }
            }

            fn combine(op: Op, a: i64, b: i64) -> i64 {
                combine_i64(op, a, b)
            }

            fn finish(acc: i64) -> $t {
                acc as $t
            }
        }
    };
}

reducible_as_i64!(i64, |run| sum_i64(run));
reducible_as_i64!(u8, |run| run.iter().map(|&v| v as i64).sum());
