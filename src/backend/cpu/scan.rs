//! Along one axis: `argmax`, `argmin` and `cumsum`.

use super::access::Bound;
use super::element::{Bf16, F16, Stored, store_run};
use super::pool::parallel_chunks;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::{Attr, Op};
use crate::shape::numel;

/// Elements before, along and after the axis.
type Shape = (usize, usize, usize);

/// Calls a function that is generic over an element and its lane.
macro_rules! by_lane {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $f::<f32, f32>($($arg),*),
            DType::F64 => $f::<f64, f64>($($arg),*),
            DType::F16 => $f::<F16, f32>($($arg),*),
            DType::BF16 => $f::<Bf16, f32>($($arg),*),
            DType::U8 => $f::<u8, i64>($($arg),*),
            DType::I8 => $f::<i8, i64>($($arg),*),
            DType::I16 => $f::<i16, i64>($($arg),*),
            DType::I32 => $f::<i32, i64>($($arg),*),
            DType::I64 => $f::<i64, i64>($($arg),*),
            other => return internal!("no order on {other}"),
        }
    };
}

fn shape(x: &Bound, attrs: &[Attr]) -> Shape {
    let (sizes, axis) = (x.sizes(), attrs[0].int() as usize);
    (numel(&sizes[..axis]) as usize, sizes[axis] as usize, numel(&sizes[axis + 1..]) as usize)
}

/// Result: i64, the first of the best; the first NaN is the best of all.
pub fn arg(op: Op, attrs: &[Attr], reads: &[Bound], write: &Bound) -> Result<()> {
    by_lane!(reads[0].dtype, arg_as(op == Op::ArgMax, &reads[0], shape(&reads[0], attrs), write));
    Ok(())
}

fn arg_as<S: Stored<L>, L: PartialOrd + Copy>(
    largest: bool,
    x: &Bound,
    (_, n, inner): Shape,
    write: &Bound,
) {
    let x = x.dense::<S>();
    let beats = |new: L, old: L| {
        let is_nan = |v: L| v.partial_cmp(&v).is_none();
        !is_nan(old) && (is_nan(new) || if largest { new > old } else { new < old })
    };
    parallel_chunks(write.result::<i64>(), inner, 16 * n * inner, |outer, out| {
        for (i, out) in out.iter_mut().enumerate() {
            let at = |j: usize| x[(outer * n + j) * inner + i].load();
            let best = (1..n).fold((0, at(0)), |(best, old), j| match at(j) {
                new if beats(new, old) => (j, new),
                _ => (best, old),
            });
            *out = best.0 as i64;
        }
    });
}

/// A lane in which running sums are kept, in `Acc`.
trait Running: Copy + Default {
    type Acc: Copy + Default;
    fn step(sum: Self::Acc, v: Self) -> Self::Acc;
    fn round(sum: Self::Acc) -> Self;
}

macro_rules! running {
    ($($t:ty: $acc:ty, |$s:ident, $v:ident| $e:expr;)*) => {$(
        impl Running for $t {
            type Acc = $acc;
            fn step($s: $acc, $v: $t) -> $acc { $e }
            fn round(sum: $acc) -> $t { sum as $t }
        }
    )*};
}
running! {
    f32: f64, |s, v| s + v as f64;
    f64: f64, |s, v| s + v;
    i64: i64, |s, v| s.wrapping_add(v);
}

pub fn cumsum(attrs: &[Attr], reads: &[Bound], write: &Bound) -> Result<()> {
    if reads[0].dtype != write.dtype {
        return internal!("cumsum of {} as {}", reads[0].dtype, write.dtype);
    }
    by_lane!(write.dtype, cumsum_as(&reads[0], shape(&reads[0], attrs), write));
    Ok(())
}

fn cumsum_as<S: Stored<L>, L: Running>(x: &Bound, (_, n, inner): Shape, write: &Bound) {
    let x = x.dense::<S>();
    parallel_chunks(write.result::<S>(), n * inner, 16 * n * inner, |outer, out| {
        let mut sums = vec![L::Acc::default(); inner];
        let mut row = vec![L::default(); inner];
        for (j, out) in out.chunks_exact_mut(inner).enumerate() {
            let from = &x[(outer * n + j) * inner..][..inner];
            for ((sum, to), v) in sums.iter_mut().zip(&mut row).zip(from) {
                *sum = L::step(*sum, v.load());
                *to = L::round(*sum);
            }
            store_run::<S, L>(&row, out);
        }
    });
}
