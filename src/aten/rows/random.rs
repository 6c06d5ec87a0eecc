//! Random numbers. Every operator draws at most one number per element (rounded up to a pair), at the element's
//! logical position, from the generator's seed and offset that stand after the schema's arguments.

use super::PLAIN;
use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::op::{Op, Ty};
use std::f64::consts::TAU;

pub const ROWS: &[Row] = &[
    // Not of probabilities in a tensor: the host's kernel looks whether each is one.
    row("bernoulli", &["p", "float", "float_out"], |c| bernoulli(c, c.number(1, 0.5, DType::F32)?)),
    row("uniform", PLAIN, |c| {
        shaped(c, uniform, [(1, 0.0), (2, 1.0)], |u, [low, high]| u * (high - low) + low)
    }),
    row("normal_", &[""], |c| {
        shaped(c, normal, [(1, 0.0), (2, 1.0)], |z, [mean, deviation]| z * deviation + mean)
    }),
    row("exponential", PLAIN, |c| {
        shaped(
            c,
            |c, ty| c.random(&ty.sizes),
            [(1, 1.0)],
            |u, [rate]| -((-u).unary(Op::Log1p).min(-SMALLEST)) / rate,
        )
    }),
];

/// Exponential numbers are never 0: people divide by them.
const SMALLEST: f64 = f32::EPSILON as f64 / 4.0;

/// 1 with probability `p`, in the dtype of argument 0.
fn bernoulli<'a>(c: &Call<'a>, p: V<'a>) -> Outs<'a> {
    let ty = c.ty(0)?;
    Ok(vec![c.random(&ty.sizes)?.lt(p.cast(DType::F32)).cast(ty.dtype)])
}

/// Draws for argument 0, and brings them to the distribution that the parameters (position, default) describe.
fn shaped<'a, const M: usize>(
    c: &Call<'a>,
    draw: fn(&Call<'a>, &Ty) -> Result<V<'a>>,
    parameters: [(usize, f64); M],
    shape: fn(V<'a>, [V<'a>; M]) -> V<'a>,
) -> Outs<'a> {
    let ty = c.ty(0)?;
    let compute = if ty.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let drawn = draw(c, &ty)?.cast(compute);
    Ok(vec![shape(drawn, c.parameters(parameters, compute)?).cast(ty.dtype)])
}

/// In [0, 1): cut to the digits of a half dtype, which would round the largest ones up to 1.
fn uniform<'a>(c: &Call<'a>, ty: &Ty) -> Result<V<'a>> {
    let u = c.random(&ty.sizes)?;
    let steps = match ty.dtype {
        DType::F16 => 2048.0,
        DType::BF16 => 256.0,
        _ => return Ok(u),
    };
    Ok((u * steps).unary(Op::Floor) * (1.0 / steps))
}

/// Box–Muller: a pair of uniform numbers makes a pair of normal ones.
fn normal<'a>(c: &Call<'a>, ty: &Ty) -> Result<V<'a>> {
    let n = ty.numel();
    let pairs = (n + 1) / 2;
    let u = c.random(&[pairs, 2])?;
    let radius = ((1.0 - u.narrow(1, 0, 1)).log() * -2.0).sqrt();
    let angle = u.narrow(1, 1, 1) * TAU;
    let both = [radius * angle.unary(Op::Cos), radius * angle.unary(Op::Sin)];
    let z = c.math.concat(&both, 1).reshape(&[pairs * 2]);
    Ok(z.narrow(0, 0, n).reshape(&ty.sizes))
}
