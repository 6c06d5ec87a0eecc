//! Scans along one axis: places of extremes, and running sums, products and maxima.

use super::access::Bound;
use super::element::{Bf16, F16, Stored, store_run};
use super::index::around;
use super::pool::parallel_chunks;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::array::filled;
use crate::op::{Attr, Op};

/// Elements before, along and after the axis.
type Shape = (usize, usize, usize);

/// Calls a function that is generic over an element and its lane, and perhaps over an operation on them.
macro_rules! by_lane {
    ($dtype:expr, $f:ident $(<$of:ty>)? ($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $f::<f32, f32 $(, $of)?>($($arg),*),
            DType::F64 => $f::<f64, f64 $(, $of)?>($($arg),*),
            DType::F16 => $f::<F16, f32 $(, $of)?>($($arg),*),
            DType::BF16 => $f::<Bf16, f32 $(, $of)?>($($arg),*),
            DType::U8 => $f::<u8, i64 $(, $of)?>($($arg),*),
            DType::I8 => $f::<i8, i64 $(, $of)?>($($arg),*),
            DType::I16 => $f::<i16, i64 $(, $of)?>($($arg),*),
            DType::I32 => $f::<i32, i64 $(, $of)?>($($arg),*),
            DType::I64 => $f::<i64, i64 $(, $of)?>($($arg),*),
            other => return internal!("no order on {other}"),
        }
    };
}

fn shape(x: &Bound, attrs: &[Attr]) -> Shape {
    around(x.sizes(), attrs[0].int() as usize)
}

/// Writes, as i64, the first place of the extreme; the first NaN counts as the extreme.
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

/// A running value over a lane. The types that implement this have no values and name the operation.
trait Running<L> {
    type Kept: Copy;
    const NEUTRAL: Self::Kept;
    fn step(kept: Self::Kept, v: L) -> Self::Kept;
    fn round(kept: Self::Kept) -> L;
}

enum Sum {}
enum Product {}
enum Largest {}

macro_rules! running {
    ($($op:ident $t:ty: $kept:ty, $neutral:expr, |$s:ident, $v:ident| $e:expr;)*) => {$(
        impl Running<$t> for $op {
            type Kept = $kept;
            const NEUTRAL: $kept = $neutral;
            fn step($s: $kept, $v: $t) -> $kept { $e }
            fn round(kept: $kept) -> $t { kept as $t }
        }
    )*};
}
running! {
    Sum f32: f64, 0.0, |s, v| s + v as f64;
    Sum f64: f64, 0.0, |s, v| s + v;
    Sum i64: i64, 0, |s, v| s.wrapping_add(v);
    Product f32: f64, 1.0, |p, v| p * v as f64;
    Product f64: f64, 1.0, |p, v| p * v;
    Product i64: i64, 1, |p, v| p.wrapping_mul(v);
    Largest f32: f32, f32::NEG_INFINITY, |m, v| if m >= v || m.is_nan() { m } else { v };
    Largest f64: f64, f64::NEG_INFINITY, |m, v| if m >= v || m.is_nan() { m } else { v };
    Largest i64: i64, i64::MIN, |m, v| m.max(v);
}

/// `cumsum`, `cumprod` or `cummax`.
pub fn running(op: Op, attrs: &[Attr], reads: &[Bound], write: &Bound) -> Result<()> {
    if reads[0].dtype != write.dtype {
        return internal!("{} of {} as {}", op.name(), reads[0].dtype, write.dtype);
    }
    let (x, shape) = (&reads[0], shape(&reads[0], attrs));
    match op {
        Op::CumSum => by_lane!(write.dtype, running_as<Sum>(x, shape, write)),
        Op::CumProd => by_lane!(write.dtype, running_as<Product>(x, shape, write)),
        _ => by_lane!(write.dtype, running_as<Largest>(x, shape, write)),
    }
    Ok(())
}

fn running_as<S: Stored<L>, L: Copy + Default, R: Running<L>>(
    x: &Bound,
    (_, n, inner): Shape,
    write: &Bound,
) {
    let x = x.dense::<S>();
    parallel_chunks(write.result::<S>(), n * inner, 16 * n * inner, |outer, out| {
        if inner == 1 {
            return run_along::<S, L, R>(&x[outer * n..][..n], out);
        }
        let mut kept = filled(R::NEUTRAL, inner);
        let mut row = filled(L::default(), inner);
        for (j, out) in out.chunks_exact_mut(inner).enumerate() {
            let from = &x[(outer * n + j) * inner..][..inner];
            for ((kept, to), v) in kept.iter_mut().zip(&mut row).zip(from) {
                *kept = R::step(*kept, v.load());
                *to = R::round(*kept);
            }
            store_run::<S, L>(&row, out);
        }
    });
}

/// Along the last axis: the running value stays in a register, and results are stored in runs.
fn run_along<S: Stored<L>, L: Copy + Default, R: Running<L>>(x: &[S], out: &mut [S]) {
    let mut kept = R::NEUTRAL;
    let mut run = [L::default(); 64];
    for (from, out) in x.chunks(run.len()).zip(out.chunks_mut(run.len())) {
        for (to, v) in run.iter_mut().zip(from) {
            kept = R::step(kept, v.load());
            *to = R::round(kept);
        }
        store_run::<S, L>(&run[..out.len()], out);
    }
}
