//! Random numbers. Every operator draws at most one number per element of its result or its operand, at the element's logical
//! position, from the generator's seed and offset, which follow the schema's arguments.

use super::{PLAIN, always};
use crate::aten::call::{Call, wide};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Guard;
use crate::graph::math::{V, together};
use crate::invalid;
use crate::op::array::integer_range;
use crate::op::expect::Expectation;
use crate::op::{Attr, Op, Ty};
use crate::record::Arg;
use crate::shape::Dims;
use smallvec::smallvec;
use std::f64::consts::{FRAC_PI_2, SQRT_2};

pub const ROWS: &[Row] = &[
    row("bernoulli", &["p", "float", "float_out"], |c| bernoulli(c, c.number(1, 0.5, DType::F32)?)),
    row("bernoulli", &["", "out"], |c| bernoulli(c, probabilities(c.tensor(0)?))).refuses(always),
    row("bernoulli", &["Tensor", "Tensor_out"], |c| bernoulli(c, probabilities(c.tensor(1)?)))
        .refuses(always),
    row("multinomial", PLAIN, multinomial).refuses(always),
    row("uniform", PLAIN, |c| {
        shaped(c, uniform, [(1, 0.0), (2, 1.0)], |u, [low, high]| u * (high - low) + low)
    }),
    row("random", PLAIN, |c| integers(c, None, None)),
    row("random", &["to", "to_out"], |c| integers(c, None, Some(1))),
    row("random", &["from", "from_out"], |c| integers(c, Some(1), Some(2).filter(|&i| c.has(i)))),
    row("randperm", &["", "generator_out"], permutation),
    row("normal_", &[""], |c| {
        shaped(c, normal, [(1, 0.0), (2, 1.0)], |z, [mean, deviation]| z * deviation + mean)
    }),
    row("normal", NORMAL, of_moments).floats().refuses(always),
    row("log_normal", PLAIN, |c| {
        shaped(c, normal, [(1, 1.0), (2, 2.0)], |z, [mean, deviation]| (z * deviation + mean).exp())
    })
    .floats(),
    row("cauchy", PLAIN, |c| {
        shaped(c, centred, [(1, 0.0), (2, 1.0)], |u, [median, sigma]| tangent(u) * sigma + median)
    })
    .floats(),
    row("geometric", PLAIN, |c| {
        shaped(c, |c, ty| c.random(&ty.sizes), [(1, 0.5)], |u, [p]| geometric(u, p))
    })
    .numbers(),
    row("exponential", PLAIN, |c| {
        shaped(c, |c, ty| c.random(&ty.sizes), [(1, 1.0)], |u, [rate]| exponential(u) / rate)
    }),
];

const NORMAL: &[&str] = &[
    "Tensor_Tensor",
    "Tensor_float",
    "float_Tensor",
    "Tensor_Tensor_out",
    "Tensor_float_out",
    "float_Tensor_out",
];

/// A lower bound of exponential numbers, which are never 0: programs divide by them.
const SMALLEST: f64 = f32::EPSILON as f64 / 4.0;

/// A tensor as probabilities: an error if an element is not one.
fn probabilities(p: V) -> V {
    // In f64 as it is: a number slightly above 1 would be 1 in f32.
    let exact = if p.dtype() == DType::F64 { p } else { p.cast(DType::F32) };
    let holds = are_probabilities(exact).expected(Expectation::Probability);
    exact.cast(DType::F32) + holds.cast(DType::F32)
}

/// Whether all are between 0 and 1.
pub fn are_probabilities(x: V) -> V {
    all(x.ge(0.0).and(x.le(1.0)))
}

fn all(holds: V) -> V {
    let axes: Dims = (0..holds.rank() as i64).collect();
    holds.reduce(Op::All, &axes, false)
}

/// `(self, num_samples, replacement)`: columns, drawn by the weights of a row. Without replacement, the first to arrive of
/// Poisson processes with these rates (Efraimidis and Spirakis, 2006); with it, by the inverse of the running sum.
fn multinomial<'a>(c: &Call<'a>) -> Outs<'a> {
    let weights = c.tensor(0)?;
    let (sizes, k, replaces) = (weights.sizes(), c.int(1, 1)?, c.bool(2, false)?);
    if !weights.dtype().is_float() {
        return invalid!(
            "multinomial only supports floating-point dtypes for input, got: {}",
            weights.dtype()
        );
    }
    if let Some(out) = c.out(0).filter(|out| out.dtype != DType::I64) {
        return invalid!("multinomial expects Long tensor out, got: {}", out.dtype);
    }
    let Some((&n, lead)) = sizes.split_last() else {
        return invalid!("prob_dist must be 1 or 2 dim");
    };
    if k < 1 {
        return invalid!("cannot sample n_sample <= 0 samples");
    }
    if n < 1 || !replaces && k > n {
        return invalid!("cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    }
    let weights = weights.cast(wide(weights.dtype()));
    let axis = lead.len() as i64;
    let sums = weights.reduce(Op::Sum, &[axis], true);
    let valid = all(weights.ge(0.0).and(weights.lt(f64::INFINITY)));
    let some = all(sums.gt(0.0)).or(valid.not());
    let zero =
        valid.expected(Expectation::Probabilities) + some.expected(Expectation::SomeProbability);
    let weights = weights + zero.cast(weights.dtype());
    if replaces && k > 1 {
        let drawn: Dims = lead.iter().copied().chain([k]).collect();
        let weights = weights.cast(DType::F64);
        let running = c.math.op(Op::CumSum, &[weights], smallvec![Attr::Int(axis)]);
        let total = running.narrow(lead.len(), n - 1, 1);
        return Ok(vec![super::search::bound(
            running,
            c.random(&drawn)?.cast(DType::F64) * total,
            true,
        )?]);
    }
    let arrives = exponential(c.random(&sizes)?).cast(weights.dtype());
    let attrs = smallvec![Attr::Int(axis), Attr::Int(k), Attr::Bool(true)];
    let [_, places] = c.math.ops(Op::TopK, &[weights / arrives], attrs)?[..] else {
        return crate::internal!("a sort without two results");
    };
    Ok(vec![places])
}

/// An exponential number from a uniform one.
fn exponential(u: V) -> V {
    -((-u).unary(Op::Log1p).min(-SMALLEST))
}

/// The number of trials until one succeeds, each with probability `p`: the first whole number that an exponential one with
/// that rate does not exceed.
fn geometric<'a>(u: V<'a>, p: V<'a>) -> V<'a> {
    let rate = -(-p).unary(Op::Log1p);
    (exponential(u) / rate).unary(Op::Ceil).max(1.0)
}

/// tan(πu/2) of numbers between -1 and 1. Near these, u keeps few digits of its distance from them, but 1 - |u| has them all.
fn tangent<'a>(u: V<'a>) -> V<'a> {
    let sine = |v: V<'a>| (v * FRAC_PI_2).unary(Op::Sin);
    sine(u) / sine(1.0 - u.abs())
}

/// 1 with probability `p`, in the dtype of argument 0.
fn bernoulli<'a>(c: &Call<'a>, p: V<'a>) -> Outs<'a> {
    let ty = c.ty(0)?;
    Ok(vec![c.random(&ty.sizes)?.lt(p.cast(DType::F32)).cast(ty.dtype)])
}

/// Draws numbers for argument 0 and transforms them to the distribution with these parameters (position, default).
fn shaped<'a, const M: usize>(
    c: &Call<'a>,
    draw: fn(&Call<'a>, &Ty) -> Result<V<'a>>,
    parameters: [(usize, f64); M],
    shape: fn(V<'a>, [V<'a>; M]) -> V<'a>,
) -> Outs<'a> {
    let ty = c.ty(0)?;
    let compute = if wide(ty.dtype) == DType::F32 { DType::F32 } else { DType::F64 };
    let drawn = draw(c, &ty)?.cast(compute);
    Ok(vec![shape(drawn, c.parameters(parameters, compute)?).cast(ty.dtype)])
}

/// `(mean, std)`, at least one a tensor: a normal number for each pair, in the dtype of the mean if that is a tensor.
fn of_moments<'a>(c: &Call<'a>) -> Outs<'a> {
    let given = |i: usize| matches!(c.arg(i), Arg::Tensor(_));
    let dtype = c.ty(if given(0) { 0 } else { 1 })?.dtype;
    let compute = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let [mean, mut deviation] = together(c.parameters([(0, 0.0), (1, 1.0)], compute)?);
    if given(1) {
        let holds = all(c.tensor(1)?.ge(0.0)).expected(Expectation::Deviations);
        deviation = deviation + holds.cast(compute);
    }
    // A tensor given as `out=` may have more elements.
    let sizes = c.out(0).map_or_else(|| mean.sizes(), |ty| ty.sizes);
    let drawn = normal(c, &Ty::new(dtype, &sizes))?.cast(compute);
    Ok(vec![(drawn * deviation + mean).cast(dtype)])
}

/// Integers from a bound, or 0, to below another one, or to the last of the dtype of argument 0; for floats without an upper
/// bound, to where they begin to miss integers. Each is the remainder of 64 random bits: some remainders are those of one
/// 64-bit number more than others, which only shows in ranges that are a sizable part of all 64-bit numbers.
fn integers<'a>(c: &Call<'a>, from: Option<usize>, to: Option<usize>) -> Outs<'a> {
    let Ty { dtype, sizes } = c.ty(0)?;
    let int = |n: i64| c.math.constant_int(n, DType::I64);
    let last = last_integer(dtype)?;
    let bound = |i: usize| c.number(i, 0.0, DType::I64);
    let first = from.map_or(Ok(int(0)), bound)?;
    let rest = int(last.wrapping_add(1));
    let end = match (from, to) {
        (_, Some(to)) => bound(to)?,
        // From the least i64 on: all 64 bits, whatever the dtype.
        (Some(_), None) => first.eq(int(i64::MIN)).select(int(i64::MIN), rest),
        (None, None) => rest,
    };
    // As unsigned numbers, of which 0 is 2^64.
    let count = end - first;
    let bits = c.drawn(Op::RandomBits, &sizes)?;
    let unsigned = |v: V<'a>| v.binary(Op::Xor, int(i64::MIN));
    let of_many = unsigned(bits).lt(unsigned(count)).select(bits, bits - count);
    let of_few = bits.and(int(i64::MAX)).binary(Op::Rem, count.max(1.0));
    let drawn = first + count.gt(0.0).select(of_few, of_many);
    if from.is_none() && to.is_none() || !dtype.is_float() {
        return Ok(vec![drawn.cast(dtype)]);
    }
    // A number that is rounded beyond a bound becomes the float next to it.
    let x = drawn.cast(dtype).cast(wide(dtype));
    let step = x.abs() * (1.25 * 0.5f64.powi(digits(dtype)));
    let is_below = x.cast(DType::F64).lt(first.cast(DType::F64));
    let x = is_below.select(x + step, x);
    let Some(_) = to else { return Ok(vec![x.cast(dtype)]) };
    let reached = x.cast(DType::F64).ge(end.cast(DType::F64));
    Ok(vec![reached.select(x - step, x).cast(dtype)])
}

/// The last number up to which a dtype has all integers.
fn last_integer(dtype: DType) -> Result<i64> {
    match dtype {
        _ if dtype.is_float() => Ok(1 << digits(dtype)),
        _ if dtype.is_int() || dtype == DType::Bool => Ok(integer_range(dtype).1),
        _ => invalid!("there are no random integers of {dtype}"),
    }
}

/// Significant binary digits of a float.
fn digits(dtype: DType) -> i32 {
    match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F32 => 24,
        _ => 53,
    }
}

/// The numbers below argument 0 in random order: that of as many random numbers of 64 bits, no two of them equal.
fn permutation<'a>(c: &Call<'a>) -> Outs<'a> {
    let n = c.int(0, 0)?;
    let dtype = c.dtype(1)?.or(c.out(0).map(|ty| ty.dtype)).unwrap_or(DType::I64);
    let most = match dtype {
        DType::BF16 => i64::MAX,
        _ => last_integer(dtype)?.saturating_add(1),
    };
    if n < 0 {
        return invalid!("n must be non-negative, got {n}");
    }
    if n > most {
        return invalid!("n cannot be greater than {most} for a result of {dtype}, but got {n}");
    }
    c.math.guard([Guard::at_most(n, most)]);
    let attrs = smallvec![Attr::Int(0), Attr::Int(n), Attr::Bool(false)];
    let [_, places] = c.math.ops(Op::TopK, &[c.drawn(Op::RandomBits, &[n])?], attrs)?[..] else {
        return crate::internal!("a sort without two results");
    };
    Ok(vec![places.cast(dtype)])
}

/// Uniform in [0, 1): truncated to the digits of a half dtype, where rounding would make the largest ones 1.
fn uniform<'a>(c: &Call<'a>, ty: &Ty) -> Result<V<'a>> {
    let u = c.random(&ty.sizes)?;
    let steps = match ty.dtype {
        DType::F16 | DType::BF16 => f64::from(1 << digits(ty.dtype)),
        _ => return Ok(u),
    };
    Ok((u * steps).unary(Op::Floor) * (1.0 / steps))
}

/// The inverse distribution function of a uniform number, as in `jax.random.normal`: unlike the pairs of Box and Muller, which
/// differ for an odd number of elements, it is one program for all sizes. None is infinite; the largest is 5.4.
fn normal<'a>(c: &Call<'a>, ty: &Ty) -> Result<V<'a>> {
    Ok(centred(c, ty)?.unary(Op::Erfinv) * SQRT_2)
}

/// Uniform between -1 and 1, neither included: the middles of cells of 2^-23.
fn centred<'a>(c: &Call<'a>, ty: &Ty) -> Result<V<'a>> {
    Ok(c.random(&ty.sizes)? * 2.0 - (1.0 - 2f64.powi(-24)))
}
