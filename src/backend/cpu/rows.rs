//! Arithmetic on rows of floats, of which softmax and normalisations are made. f32 (half types are converted to it)
//! with vector code, f64 by the same source with the standard library's functions.

use super::access::{Bound, Plain};
use super::element::{Bf16, F16, Stored, load_run, store_run};
use super::gemm::Real;
use super::isa::kernel;
use super::pool::Scratch;
use super::vector::math;
use super::vector::{MAX_LANES, Wide, chains, each, get, put, total};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use std::ops::Range;

/// Rows in memory of a type that is computed as `L`.
pub trait RowOf<L: Plain>: Stored<L> {
    /// Elements of room needed to read or write a row of `n` elements: none where it is used as it is.
    fn room(n: usize) -> usize;
    /// The row as `L`: itself, or converted into `room`.
    fn read<'a>(row: &'a [Self], room: &'a mut [L]) -> &'a [L];
    /// Lets `fill` write the row: itself, or in `room` to be converted.
    fn write(row: &mut [Self], room: &mut [L], fill: impl FnOnce(&mut [L]));
}

macro_rules! row_of {
    (itself $($t:ty),*) => {$(
        impl RowOf<$t> for $t {
            fn room(_: usize) -> usize { 0 }
            fn read<'a>(row: &'a [$t], _: &'a mut [$t]) -> &'a [$t] { row }
            fn write(row: &mut [$t], _: &mut [$t], fill: impl FnOnce(&mut [$t])) { fill(row) }
        }
    )*};
    (converted $($t:ty),*) => {$(
        impl RowOf<f32> for $t {
            fn room(n: usize) -> usize { n }
            fn read<'a>(row: &'a [$t], room: &'a mut [f32]) -> &'a [f32] {
                let room = &mut room[..row.len()];
                load_run(row, room);
                room
            }
            fn write(row: &mut [$t], room: &mut [f32], fill: impl FnOnce(&mut [f32])) {
                let room = &mut room[..row.len()];
                fill(room);
                store_run(room, row);
            }
        }
    )*};
}
row_of!(itself f32, f64);
row_of!(converted F16, Bf16);

/// The elements of a dense operand that are computed as `L`, whatever type they have in memory.
pub trait Rows<L>: Sync {
    /// As [`RowOf::room`].
    fn room(&self, n: usize) -> usize;
    /// The elements `at`: themselves, or converted into `room`.
    fn read<'a>(&'a self, at: Range<usize>, room: &'a mut [L]) -> &'a [L];
}

impl<L: Plain, S: RowOf<L>> Rows<L> for &[S] {
    fn room(&self, n: usize) -> usize {
        S::room(n)
    }
    fn read<'a>(&'a self, at: Range<usize>, room: &'a mut [L]) -> &'a [L] {
        S::read(&self[at], room)
    }
}

/// Operations on rows.
pub trait RowMath: Real + Scratch + From<f32> {
    /// Error for an operand of a type that is not computed as this.
    fn rows(operand: &Bound) -> Result<Box<dyn Rows<Self> + '_>>;
    fn from_f64(v: f64) -> Self;
    fn to_f64(self) -> f64;
    /// The largest number; NaN if there is one.
    fn max(x: &[Self]) -> Self;
    fn sum(x: &[Self]) -> f64;
    fn dot(x: &[Self], y: &[Self]) -> f64;
    /// `y = exp(x - shift)`; returns the sum.
    fn exp_sum(x: &[Self], shift: Self, y: &mut [Self]) -> f64;
    /// The sum of `exp(x - shift)`.
    fn sum_exp(x: &[Self], shift: Self) -> f64;
    /// `x = exp(x - max)` of whole vectors, unless all are -inf; returns the maximum and the sum.
    fn soften(x: &mut [Self]) -> (Self, f64);
    /// `y *= scale`.
    fn scale(y: &mut [Self], scale: Self);
    /// `y = (x - first) - second`.
    fn subtract(x: &[Self], first: Self, second: Self, y: &mut [Self]);
    /// `out = (dy - dot) * y`.
    fn softmax_grad(dy: &[Self], y: &[Self], dot: Self, out: &mut [Self]);
    /// `out = dy - exp(y) * sum`.
    fn log_softmax_grad(dy: &[Self], y: &[Self], sum: Self, out: &mut [Self]);
    /// The sum of `(x - mean)²`.
    fn squares(x: &[Self], mean: Self) -> f64;
    /// `y = (x - mean) * rstd * weight + bias`.
    fn normalise(
        x: &[Self],
        mean: Self,
        rstd: Self,
        weight: &[Self],
        bias: &[Self],
        y: &mut [Self],
    );
    /// Sums of `dy * weight` and of `dy * weight * (x - mean) * rstd`.
    fn norm_sums(dy: &[Self], x: &[Self], mean: Self, rstd: Self, weight: &[Self]) -> (f64, f64);
    /// `dx = rstd * (dy * weight - average - normed * along)`; adds `dy * normed` to `dweight` and `dy` to `dbias`.
    fn norm_grad(terms: NormGrad<Self>, dx: &mut [Self], dweight: &mut [Self], dbias: &mut [Self]);
    /// Scores become `p = exp(scores - shift)`, and `dp` becomes `p * (dp - delta) * scale`.
    fn score_grad(scores: &mut [Self], dp: &mut [Self], shift: Self, delta: Self, scale: Self);
    /// `y += x`.
    fn add(x: &[Self], y: &mut [Self]);
    /// `y += x`.
    fn add_to_wide(x: &[Self], y: &mut [f64]);
    /// `y *= x`.
    fn multiply(x: &[Self], y: &mut [Self]);
}

/// Operands of [`RowMath::norm_grad`].
#[derive(Clone, Copy)]
pub struct NormGrad<'a, T> {
    pub dy: &'a [T],
    pub x: &'a [T],
    pub weight: &'a [T],
    pub mean: T,
    pub rstd: T,
    pub average: T,
    pub along: T,
}

/// Declares the kernels for numbers of type `$t` in vectors of `$v` and implements [`RowMath`] by them.
macro_rules! row_math {
    ($module:ident, $t:ty, $v:ident, $larger:path, $exp:path, $($dtype:ident as $stored:ty),*) => {
        mod $module {
            use super::*;
            kernel! {
                pub fn max(x: &'a [$t]) -> $t {
                    const NONE: $t = <$t>::NEG_INFINITY;
                    let mut tops = chains!($v, $t, NONE, |a in x| a, |top, a| $larger(top, a));
                    let mut half = tops.len() / 2;
                    while half > 0 {
                        for i in 0..half {
                            let (a, b) = (tops[i], tops[i + half]);
                            tops[i] = if a > b || a.is_nan() { a } else { b };
                        }
                        half /= 2;
                    }
                    tops[0]
                }
            }
            kernel! {
                pub fn sum(x: &'a [$t]) -> f64 {
                    total!($v, $t, |a in x| a)
                }
            }
            kernel! {
                pub fn dot(x: &'a [$t], y: &'a [$t]) -> f64 {
                    total!($v, $t, |a in x, b in y| a * b)
                }
            }
            kernel! {
                pub fn exp_to(x: &'a [$t], shift: $t, y: &'a mut [$t]) -> f64 {
                    let shift = $v::splat(shift);
                    total!($v, $t, |a in x| $exp(a - shift), to y)
                }
            }
            kernel! {
                pub fn sum_exp(x: &'a [$t], shift: $t) -> f64 {
                    let shift = $v::splat(shift);
                    total!($v, $t, |a in x| $exp(a - shift))
                }
            }
            kernel! {
                pub fn soften(x: &'a mut [$t]) -> ($t, f64) {
                    let mut tops = [$v::splat(<$t>::NEG_INFINITY); 4];
                    let mut fours = x.chunks_exact(4 * $v::LANES);
                    for four in &mut fours {
                        for i in 0..4 {
                            tops[i] = $larger(tops[i], $v::load(&four[i * $v::LANES..]));
                        }
                    }
                    for one in fours.remainder().chunks_exact($v::LANES) {
                        tops[0] = $larger(tops[0], $v::load(one));
                    }
                    let top = $larger($larger(tops[0], tops[1]), $larger(tops[2], tops[3]));
                    let mut lanes: [$t; MAX_LANES] = [<$t>::NEG_INFINITY; MAX_LANES];
                    top.store(&mut lanes);
                    let mut half = MAX_LANES / 2;
                    while half > 0 {
                        for i in 0..half {
                            let (a, b) = (lanes[i], lanes[i + half]);
                            lanes[i] = if a > b || a.is_nan() { a } else { b };
                        }
                        half /= 2;
                    }
                    let top = lanes[0];
                    if top == <$t>::NEG_INFINITY {
                        return (top, 0.0);
                    }
                    let shift = $v::splat(top);
                    let mut sums = [$v::splat(0.0); 4];
                    let mut fours = x.chunks_exact_mut(4 * $v::LANES);
                    for four in &mut fours {
                        for i in 0..4 {
                            let to = &mut four[i * $v::LANES..];
                            let p: $v = $exp($v::load(to) - shift);
                            p.store(to);
                            sums[i] = sums[i] + p;
                        }
                    }
                    for one in fours.into_remainder().chunks_exact_mut($v::LANES) {
                        let p: $v = $exp($v::load(one) - shift);
                        p.store(one);
                        sums[0] = sums[0] + p;
                    }
                    let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
                    let mut lanes: [$t; MAX_LANES] = [0.0; MAX_LANES];
                    sum.store(&mut lanes);
                    for i in 0..MAX_LANES / 2 {
                        lanes[i] += lanes[i + MAX_LANES / 2];
                    }
                    (top, lanes[..MAX_LANES / 2].iter().fold(0.0f64, |sum, &p| sum + p as f64))
                }
            }
            kernel! {
                pub fn scale(y: &'a mut [$t], scale: $t) {
                    y.iter_mut().for_each(|y| *y *= scale);
                }
            }
            kernel! {
                pub fn subtract(x: &'a [$t], first: $t, second: $t, y: &'a mut [$t]) {
                    let (first, second) = ($v::splat(first), $v::splat(second));
                    each!($v, y, |a in x| (a - first) - second);
                }
            }
            kernel! {
                pub fn softmax_grad(dy: &'a [$t], y: &'a [$t], dot: $t, out: &'a mut [$t]) {
                    let dot = $v::splat(dot);
                    each!($v, out, |dy in dy, y in y| (dy - dot) * y);
                }
            }
            kernel! {
                pub fn log_softmax_grad(dy: &'a [$t], y: &'a [$t], sum: $t, out: &'a mut [$t]) {
                    let sum = $v::splat(sum);
                    each!($v, out, |dy in dy, y in y| dy - $exp(y) * sum);
                }
            }
            kernel! {
                pub fn squares(x: &'a [$t], mean: $t) -> f64 {
                    let mean = $v::splat(mean);
                    total!($v, $t, |a in x| (a - mean) * (a - mean))
                }
            }
            kernel! {
                pub fn normalise(x: &'a [$t], mean: $t, rstd: $t, weight: &'a [$t], bias: &'a [$t], y: &'a mut [$t]) {
                    let (mean, rstd) = ($v::splat(mean), $v::splat(rstd));
                    each!($v, y, |x in x, w in weight, b in bias| (x - mean) * rstd * w + b);
                }
            }
            kernel! {
                pub fn norm_sums(dy: &'a [$t], x: &'a [$t], mean: $t, rstd: $t, weight: &'a [$t]) -> (f64, f64) {
                    let (mean, rstd) = ($v::splat(mean), $v::splat(rstd));
                    let along = total!($v, $t, |d in dy, a in x, w in weight| d * w * ((a - mean) * rstd));
                    (total!($v, $t, |d in dy, w in weight| d * w), along)
                }
            }
            kernel! {
                pub fn norm_grad(terms: NormGrad<'a, $t>, dx: &'a mut [$t], dweight: &'a mut [$t], dbias: &'a mut [$t]) {
                    let NormGrad { dy, x, weight, mean, rstd, average, along } = terms;
                    let (mean, rstd) = ($v::splat(mean), $v::splat(rstd));
                    let (average, along) = ($v::splat(average), $v::splat(along));
                    let n = dx.len();
                    let (dy, x, weight) = (&dy[..n], &x[..n], &weight[..n]);
                    let (dweight, dbias) = (&mut dweight[..n], &mut dbias[..n]);
                    for at in (0..n).step_by($v::LANES) {
                        let (dy, x) = (get!($v, dy, at), get!($v, x, at));
                        let normed = (x - mean) * rstd;
                        let y = rstd * (dy * get!($v, weight, at) - average - normed * along);
                        put!(y, $v, dx, at);
                        put!(get!($v, dweight, at) + dy * normed, $v, dweight, at);
                        put!(get!($v, dbias, at) + dy, $v, dbias, at);
                    }
                }
            }
            kernel! {
                pub fn score_grad(scores: &'a mut [$t], dp: &'a mut [$t], shift: $t, delta: $t, scale: $t) {
                    let (shift, delta, scale) = ($v::splat(shift), $v::splat(delta), $v::splat(scale));
                    let n = dp.len();
                    let scores = &mut scores[..n];
                    let mut at = 0;
                    while at + $v::LANES <= n {
                        let p: $v = $exp($v::load(&scores[at..]) - shift);
                        p.store(&mut scores[at..]);
                        (p * ($v::load(&dp[at..]) - delta) * scale).store(&mut dp[at..]);
                        at += $v::LANES;
                    }
                    if at < n {
                        let p: $v = $exp($v::load_part(&scores[at..]) - shift);
                        p.store_part(&mut scores[at..]);
                        (p * ($v::load_part(&dp[at..]) - delta) * scale).store_part(&mut dp[at..]);
                    }
                }
            }
            kernel! {
                pub fn add(x: &'a [$t], y: &'a mut [$t]) {
                    y.iter_mut().zip(x).for_each(|(y, &x)| *y += x);
                }
            }
            kernel! {
                pub fn add_to_wide(x: &'a [$t], y: &'a mut [f64]) {
                    y.iter_mut().zip(x).for_each(|(y, &x)| *y += x as f64);
                }
            }
            kernel! {
                pub fn multiply(x: &'a [$t], y: &'a mut [$t]) {
                    y.iter_mut().zip(x).for_each(|(y, &x)| *y *= x);
                }
            }
        }

        impl RowMath for $t {
            fn rows(operand: &Bound) -> Result<Box<dyn Rows<$t> + '_>> {
                Ok(match operand.dtype {
                    $(DType::$dtype => Box::new(operand.dense::<$stored>()),)*
                    other => return internal!("rows of {other} as {}", stringify!($t)),
                })
            }
            fn from_f64(v: f64) -> $t {
                v as $t
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn max(x: &[$t]) -> $t {
                $module::max(x)
            }
            fn sum(x: &[$t]) -> f64 {
                $module::sum(x)
            }
            fn dot(x: &[$t], y: &[$t]) -> f64 {
                $module::dot(x, y)
            }
            fn exp_sum(x: &[$t], shift: $t, y: &mut [$t]) -> f64 {
                $module::exp_to(x, shift, y)
            }
            fn sum_exp(x: &[$t], shift: $t) -> f64 {
                $module::sum_exp(x, shift)
            }
            fn soften(x: &mut [$t]) -> ($t, f64) {
                $module::soften(x)
            }
            fn scale(y: &mut [$t], scale: $t) {
                $module::scale(y, scale);
            }
            fn subtract(x: &[$t], first: $t, second: $t, y: &mut [$t]) {
                $module::subtract(x, first, second, y);
            }
            fn softmax_grad(dy: &[$t], y: &[$t], dot: $t, out: &mut [$t]) {
                $module::softmax_grad(dy, y, dot, out);
            }
            fn log_softmax_grad(dy: &[$t], y: &[$t], sum: $t, out: &mut [$t]) {
                $module::log_softmax_grad(dy, y, sum, out);
            }
            fn squares(x: &[$t], mean: $t) -> f64 {
                $module::squares(x, mean)
            }
            fn normalise(x: &[$t], mean: $t, rstd: $t, weight: &[$t], bias: &[$t], y: &mut [$t]) {
                $module::normalise(x, mean, rstd, weight, bias, y);
            }
            fn norm_sums(dy: &[$t], x: &[$t], mean: $t, rstd: $t, weight: &[$t]) -> (f64, f64) {
                $module::norm_sums(dy, x, mean, rstd, weight)
            }
            fn norm_grad(terms: NormGrad<$t>, dx: &mut [$t], dweight: &mut [$t], dbias: &mut [$t]) {
                $module::norm_grad(terms, dx, dweight, dbias);
            }
            fn score_grad(scores: &mut [$t], dp: &mut [$t], shift: $t, delta: $t, scale: $t) {
                $module::score_grad(scores, dp, shift, delta, scale);
            }
            fn add(x: &[$t], y: &mut [$t]) {
                $module::add(x, y);
            }
            fn add_to_wide(x: &[$t], y: &mut [f64]) {
                $module::add_to_wide(x, y);
            }
            fn multiply(x: &[$t], y: &mut [$t]) {
                $module::multiply(x, y);
            }
        }
    };
}

row_math!(in_f32, f32, V, math::larger, math::exp, F32 as f32, F16 as F16, BF16 as Bf16);
row_math!(in_f64, f64, Wide, Wide::larger, Wide::exp, F64 as f64);
