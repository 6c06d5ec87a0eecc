//! Normalisation: layer, RMS, group and batch norm. Statistics are kept in the dtype of computation (f32 for halves).

use super::PLAIN;
use super::channel::{asked, channel_sum, per_channel};
use crate::aten::call::{Call, wide};
use crate::aten::facts::{F32_STATISTICS, UPDATES_STATISTICS};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::{Attr, Op};
use crate::shape::{Dims, numel};
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("native_layer_norm", &[""], layer_norm).fixed(&[4]),
    row("native_layer_norm_backward", &[""], layer_norm_backward).facts(F32_STATISTICS),
    row("_fused_rms_norm", &[""], rms_norm).fixed(&[3]),
    row("_fused_rms_norm_backward", &[""], rms_norm_backward).facts(F32_STATISTICS),
    row("native_group_norm", &[""], group_norm).fixed(&[7]),
    row("native_group_norm_backward", &[""], group_norm_backward).facts(F32_STATISTICS),
    row("native_batch_norm", &[""], |c| batch_norm(c, true)).facts(UPDATES_STATISTICS),
    row("_native_batch_norm_legit", &[""], |c| batch_norm(c, true)),
    row("_native_batch_norm_legit", &["no_stats"], |c| batch_norm(c, false)),
    row("_weight_norm_interface", PLAIN, weight_norm).floats(),
    row("_weight_norm_interface_backward", PLAIN, weight_norm_backward).floats(),
    row("native_batch_norm_backward", &[""], batch_norm_backward).facts(F32_STATISTICS),
];

/// The sizes in front of the normalised dimensions (argument `shape`), and the number of elements in those.
fn split(c: &Call, sizes: &[i64], shape: usize) -> Result<(Dims, i64)> {
    let normalized = c.ints(shape)?.unwrap_or_default();
    match sizes.len().checked_sub(normalized.len()) {
        Some(outer) if sizes[outer..] == normalized[..] => {
            Ok((sizes[..outer].into(), numel(&normalized)))
        }
        _ => invalid!(
            "Given normalized_shape={normalized:?}, expected input with shape [*, {normalized:?}], but got input of size {sizes:?}"
        ),
    }
}

/// A weight or bias, which has the sizes of argument `shape`, as one row in a dtype that is valid beside `x`.
fn affine<'a>(c: &Call<'a>, i: usize, shape: usize, x: DType) -> Result<Option<V<'a>>> {
    let Some(w) = c.optional(i)? else { return Ok(None) };
    let normalized = c.ints(shape)?.unwrap_or_default();
    if w.sizes()[..] != normalized[..] {
        return invalid!(
            "Expected weight and bias to be of same shape as normalized_shape, but got shape {:?} and normalized_shape={normalized:?}",
            w.sizes()
        );
    }
    let dtype = if w.dtype() == DType::F32 { DType::F32 } else { x };
    Ok(Some(w.cast(dtype).reshape(&[w.numel()])))
}

/// `(input, normalized_shape, weight?, bias?, eps)` → output, mean, rstd (of the sizes in front, then ones).
fn layer_norm<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let (outer, inner) = split(c, &x.sizes(), 1)?;
    let (weight, bias) = (affine(c, 2, 1, x.dtype())?, affine(c, 3, 1, x.dtype())?);
    let attrs = smallvec![
        Attr::Float(c.float(4, 1e-5)?),
        Attr::Bool(weight.is_some()),
        Attr::Bool(bias.is_some()),
    ];
    let rows = x.reshape(&[numel(&outer), inner]);
    let operands: Vec<V> = [Some(rows), weight, bias].into_iter().flatten().collect();
    let results = c.math.ops(Op::LayerNorm, &operands, attrs)?;
    let mut statistic = outer;
    statistic.resize(x.rank(), 1);
    Ok(vec![
        results[0].reshape(&x.sizes()),
        results[1].reshape(&statistic),
        results[2].reshape(&statistic),
    ])
}

/// `(grad_out, input, normalized_shape, mean, rstd, weight?, bias?, output_mask)` → those of dx, dweight, dbias that
/// the mask asks for.
fn layer_norm_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(1)?;
    let (outer, inner) = split(c, &x.sizes(), 2)?;
    let rows = numel(&outer);
    let matrix = |v: V<'a>| v.cast(x.dtype()).reshape(&[rows, inner]);
    let statistic = |v: V<'a>| v.cast(wide(x.dtype())).reshape(&[rows]);
    let weight = affine(c, 5, 2, x.dtype())?;
    let mut operands =
        vec![matrix(c.tensor(0)?), matrix(x), statistic(c.tensor(3)?), statistic(c.tensor(4)?)];
    operands.extend(weight);
    let grads = c.math.ops(Op::LayerNormGrad, &operands, smallvec![])?;
    let normalized = c.ints(2)?.unwrap_or_default();
    let shaped = [
        grads[0].reshape(&x.sizes()),
        grads[1].reshape(&normalized),
        grads[2].reshape(&normalized),
    ];
    asked(c, 7, shaped)
}

/// `(input, normalized_shape, weight?, eps?)` → output, rstd (of the sizes in front, then ones). Without eps it is the
/// distance from 1 to the next number of the dtype of computation.
fn rms_norm<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let (outer, inner) = split(c, &x.sizes(), 1)?;
    let smallest = if x.dtype() == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let rows = x.reshape(&[numel(&outer), inner]);
    let operands: Vec<V> =
        [Some(rows), affine(c, 2, 1, x.dtype())?].into_iter().flatten().collect();
    let eps = Attr::Float(c.float(3, smallest)?);
    let results = c.math.ops(Op::RmsNorm, &operands, smallvec![eps])?;
    let mut statistic = outer;
    statistic.resize(x.rank(), 1);
    Ok(vec![results[0].reshape(&x.sizes()), results[1].reshape(&statistic)])
}

/// `(grad_out, input, normalized_shape, rstd, weight?, output_mask)` → those of dx, dweight that the mask asks for.
fn rms_norm_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(1)?;
    let (outer, inner) = split(c, &x.sizes(), 2)?;
    let matrix = |v: V<'a>| v.cast(x.dtype()).reshape(&[numel(&outer), inner]);
    let rstd = c.tensor(3)?.cast(wide(x.dtype())).reshape(&[numel(&outer)]);
    let mut operands = vec![matrix(c.tensor(0)?), matrix(x), rstd];
    operands.extend(affine(c, 4, 2, x.dtype())?);
    let grads = c.math.ops(Op::RmsNormGrad, &operands, smallvec![])?;
    let normalized = c.ints(2)?.unwrap_or_default();
    asked(c, 5, [grads[0].reshape(&x.sizes()), grads[1].reshape(&normalized)])
}

/// The sizes of the input as [N, groups, the rest of the group]; `shape` is the position of N, C, HxW, groups.
fn grouped(c: &Call, shape: usize) -> Result<[i64; 3]> {
    let (n, groups) = (c.int(shape, 1)?, c.int(shape + 3, 1)?);
    let inner = c.int(shape + 1, 1)?.checked_mul(c.int(shape + 2, 1)?);
    let (Some(inner), Some(_)) = (inner, n.checked_mul(groups)) else {
        return invalid!("Expected the sizes of the input, but got larger ones");
    };
    if groups <= 0 || inner % groups != 0 {
        return invalid!(
            "Expected number of channels in input to be divisible by num_groups, but got {groups} groups"
        );
    }
    Ok([n, groups, inner / groups])
}

/// `(input, weight?, bias?, N, C, HxW, groups, eps)` → output, mean[N, groups], rstd[N, groups]
fn group_norm<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let compute = wide(x.dtype());
    let [n, groups, inner] = grouped(c, 3)?;
    let attrs = smallvec![Attr::Float(c.float(7, 1e-5)?), Attr::Bool(false), Attr::Bool(false)];
    let rows = x.cast(compute).reshape(&[n * groups, inner]);
    let results = c.math.ops(Op::LayerNorm, &[rows], attrs)?;
    let mut y = results[0].reshape(&x.sizes());
    if let Some(weight) = c.optional(1)? {
        y = y * per_channel(weight.cast(compute), x.rank());
    }
    if let Some(bias) = c.optional(2)? {
        y = y + per_channel(bias.cast(compute), x.rank());
    }
    let statistic = [n, groups];
    Ok(vec![y.cast(x.dtype()), results[1].reshape(&statistic), results[2].reshape(&statistic)])
}

/// `(grad_out, input, mean, rstd, weight?, N, C, HxW, groups, output_mask)` → those of dx, dweight, dbias that the mask
/// asks for.
fn group_norm_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (dy, x) = (c.tensor(0)?, c.tensor(1)?);
    let compute = wide(x.dtype());
    let [n, groups, inner] = grouped(c, 5)?;
    let (mean, rstd) = (c.tensor(2)?.cast(compute), c.tensor(3)?.cast(compute));
    let weight = c.optional(4)?;
    let parameter = weight.map_or(x.dtype(), |w| w.dtype());
    let dy = dy.cast(compute);
    let wide_x = x.cast(compute);
    let scaled = weight.map_or(dy, |w| dy * per_channel(w.cast(compute), x.rank()));
    let rows = |v: V<'a>| v.reshape(&[n * groups, inner]);
    let flat = |v: V<'a>| v.reshape(&[n * groups]);
    let operands = [rows(scaled), rows(wide_x), flat(mean), flat(rstd)];
    let dx = c.math.ops(Op::LayerNormGrad, &operands, smallvec![])?[0].reshape(&x.sizes());
    let column = |v: V<'a>| v.reshape(&[n * groups, 1]);
    let normal = ((rows(wide_x) - column(mean)) * column(rstd)).reshape(&x.sizes());
    let grads = [
        dx.cast(x.dtype()),
        channel_sum(dy * normal).cast(parameter),
        channel_sum(dy).cast(parameter),
    ];
    asked(c, 9, grads)
}

/// `(input, weight?, bias?, [running_mean?, running_var?,] training, momentum, eps)` → output, mean, 1/deviation, and the
/// running statistics if there are any.
fn batch_norm<'a>(c: &Call<'a>, with_running: bool) -> Outs<'a> {
    let dtype = c.ty(0)?.dtype;
    let compute = wide(dtype);
    let x = c.tensor(0)?.cast(compute);
    let (running, rest) =
        if with_running { ([c.optional(3)?, c.optional(4)?], 5) } else { ([None; 2], 3) };
    let (training, eps) = (c.bool(rest, true)?, c.number(rest + 2, 1e-5, compute)?);
    let momentum = c.number(rest + 1, 0.1, compute)?;
    if x.rank() < 2 {
        return invalid!("batch norm expects a batch and channels, got sizes {:?}", x.sizes());
    }
    let n = x.numel() as f64 / x.sizes()[1].max(1) as f64;
    let (mean, variance, news) = match running {
        [Some(mean), Some(variance)] if !training => {
            (mean.cast(compute), variance.cast(compute), vec![mean, variance])
        }
        _ => {
            let mean = channel_sum(x) / n;
            let away = x - per_channel(mean, x.rank());
            let variance = channel_sum(away * away) / n;
            let unbiased = variance * (n / (n - 1.0).max(1.0));
            let follow = |(old, new): (Option<V<'a>>, V<'a>)| {
                let old = old?;
                let before = old.cast(compute);
                Some((before + (new - before) * momentum).cast(old.dtype()))
            };
            let news = running.into_iter().zip([mean, unbiased]).filter_map(follow).collect();
            (mean, variance, news)
        }
    };
    let scale = (variance + eps).unary(Op::Rsqrt);
    let mut y = (x - per_channel(mean, x.rank())) * per_channel(scale, x.rank());
    if let Some(weight) = c.optional(1)? {
        y = y * per_channel(weight.cast(compute), x.rank());
    }
    if let Some(bias) = c.optional(2)? {
        y = y + per_channel(bias.cast(compute), x.rank());
    }
    // PyTorch's CPU kernel saves nothing in evaluation.
    let nothing = c.out(1).is_some_and(|ty| ty.numel() == 0 && mean.numel() != 0);
    let saved = |v: V<'a>| if nothing { c.math.zeros(compute, &[0]) } else { v };
    let mut results = vec![y.cast(dtype), saved(mean), saved(scale)];
    // In evaluation the running statistics stay as they are and need not be written.
    if training || c.record.outs.len() != results.len() {
        results.extend(news);
    }
    Ok(results)
}

/// `(grad_out, input, weight?, running_mean?, running_var?, save_mean?, save_invstd?, train, eps, output_mask)` → those of
/// dx, dweight, dbias that the mask asks for.
fn batch_norm_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (dtype, compute) = (c.ty(1)?.dtype, wide(c.ty(1)?.dtype));
    let (dy, x) = (c.tensor(0)?.cast(compute), c.tensor(1)?.cast(compute));
    let weight = c.optional(2)?;
    let parameter = weight.map_or(dtype, |w| w.dtype());
    let training = c.bool(7, true)?;
    let (mean, scale) = if training {
        (c.tensor(5)?.cast(compute), c.tensor(6)?.cast(compute))
    } else {
        let variance = c.tensor(4)?.cast(compute) + c.number(8, 1e-5, compute)?;
        (c.tensor(3)?.cast(compute), variance.unary(Op::Rsqrt))
    };
    let beside = |v: V<'a>| per_channel(v, x.rank());
    let normal = (x - beside(mean)) * beside(scale);
    let (dweight, dbias) = (channel_sum(dy * normal), channel_sum(dy));
    let n = x.numel() as f64 / mean.numel().max(1) as f64;
    let centered =
        if training { dy - beside(dbias / n) - normal * beside(dweight / n) } else { dy };
    let gain = weight.map_or(scale, |w| scale * w.cast(compute));
    let dx = centered * beside(gain);
    asked(c, 9, [dx.cast(dtype), dweight.cast(parameter), dbias.cast(parameter)])
}

/// All dimensions but `dim`.
fn others(rank: usize, dim: usize) -> Dims {
    (0..rank as i64).filter(|&d| d != dim as i64).collect()
}

/// `(v, g, dim)` → v · g / ‖v‖ with a norm for every index of `dim`, and these norms.
fn weight_norm<'a>(c: &Call<'a>) -> Outs<'a> {
    let (v, g) = (c.tensor(0)?, c.tensor(1)?);
    let compute = wide(v.dtype());
    let wide_v = v.cast(compute);
    let axes = others(v.rank(), c.dim(2, 0, v.rank())?);
    let norms = (wide_v * wide_v).reduce(Op::Sum, &axes, true).sqrt();
    let w = wide_v * (g.cast(compute) / norms);
    // PyTorch's CPU keeps the norms of halves in f32.
    let kept = if v.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    Ok(vec![w.cast(v.dtype()), norms.cast(c.out(1).map_or(kept, |ty| ty.dtype))])
}

/// `(grad_w, saved_v, saved_g, saved_norms, dim)` → the gradients of v and g.
fn weight_norm_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let compute = wide(c.ty(1)?.dtype);
    let [dw, v, g, norms] = c.numbers([0, 1, 2, 3], compute)?;
    let sums = (dw * v).reduce(Op::Sum, &others(v.rank(), c.dim(4, 0, v.rank())?), true);
    let dv = g / norms * (dw - v * (sums / (norms * norms)));
    Ok(vec![dv.cast(c.ty(1)?.dtype), (sums / norms).cast(c.ty(2)?.dtype)])
}
