//! Whole optimizer steps over lists of tensors, and the scaling of mixed precision. Results are the mutated lists in
//! schema order, element by element. Only the in-place forms are served: the functional ones return copies as well.

use crate::aten::call::{Call, wide};
use crate::aten::rows::pointwise::finite;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::op::Op;
use crate::shape::Dims;

pub const ROWS: &[Row] = &[
    row("_fused_adam_", &["", "tensor_lr"], |c| adam(c, Decay::Gradient)).fixed(&[11, 12]),
    row("_fused_adamw_", &["", "tensor_lr"], |c| adam(c, Decay::Weight)).fixed(&[11, 12]),
    row("_fused_sgd_", &["", "tensor_lr"], sgd).fixed(&[7, 8, 9]),
    row("_amp_foreach_non_finite_check_and_unscale_", &[""], unscale),
    row("_amp_update_scale_", &[""], update_scale),
];

/// Where weight decay goes: into the gradient (Adam) or straight to the weights (AdamW).
#[derive(Clone, Copy, PartialEq)]
enum Decay {
    Gradient,
    Weight,
}

/// What a gradient scaler adds to an optimizer step: arguments `grad_scale?` and `found_inf?`.
struct Scaler<'a> {
    scale: Option<V<'a>>,
    skip: Option<V<'a>>,
}

impl<'a> Scaler<'a> {
    fn of(c: &Call<'a>, scale: usize, found_inf: usize) -> Result<Scaler<'a>> {
        let one = |v: V<'a>| v.reshape(&[]);
        Ok(Scaler {
            scale: c.optional(scale)?.map(one),
            skip: c.optional(found_inf)?.map(|v| one(v).ne(0.0)),
        })
    }

    /// The gradient in `compute`, unscaled.
    fn unscaled(&self, grad: V<'a>, compute: DType) -> V<'a> {
        let grad = grad.cast(compute);
        self.scale.map_or(grad, |scale| grad / scale.cast(compute))
    }

    /// The old value if the step is skipped.
    fn commit(&self, old: V<'a>, new: V<'a>) -> V<'a> {
        let new = new.cast(old.dtype());
        self.skip.map_or(new, |skip| skip.select(old, new))
    }
}

/// `(self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2, weight_decay, eps, amsgrad,
/// maximize, grad_scale?, found_inf?)` → the first five lists.
fn adam<'a>(c: &Call<'a>, decay: Decay) -> Outs<'a> {
    let (params, grads) = (c.list(0)?, c.list(1)?);
    let (means, squares, tops, steps) = (c.list(2)?, c.list(3)?, c.list(4)?, c.list(5)?);
    let (amsgrad, maximize) = (c.bool(11, false)?, c.bool(12, false)?);
    let scaler = Scaler::of(c, 13, 14)?;
    let mut results: [Vec<V>; 5] = Default::default();
    for (i, &param) in params.iter().enumerate() {
        let compute = wide(param.dtype());
        let rates = Rates::of(c, steps[i], compute)?;
        let grad = scaler.unscaled(grads[i], compute);
        let unscaled = if scaler.scale.is_some() { grad } else { grads[i] };
        let mut direction = if maximize { -grad } else { grad };
        let mut weight = param.cast(compute);
        match decay {
            Decay::Gradient => direction = direction + weight * rates.weight_decay,
            Decay::Weight => weight = weight - weight * rates.decay_step,
        }
        let mean = means[i].cast(compute);
        let mean = mean + (direction - mean) * rates.one_minus_beta1;
        let square =
            squares[i].cast(compute) * rates.beta2 + direction * direction * rates.one_minus_beta2;
        let mut second = square;
        if amsgrad {
            second = tops[i].cast(compute).max(square);
            results[4].push(scaler.commit(tops[i], second));
        }
        let spread = second.sqrt() * rates.scale_of_root + rates.eps;
        weight = weight - rates.step_size * mean / spread;
        results[0].push(scaler.commit(param, weight));
        results[1].push(scaler.commit(grads[i], unscaled));
        results[2].push(scaler.commit(means[i], mean));
        results[3].push(scaler.commit(squares[i], square));
    }
    if !amsgrad {
        results[4] = tops;
    }
    Ok(results.concat())
}

/// Numbers of an Adam step, computed in f64 (1 - beta2 ^ step cancels) and rounded once.
struct Rates<'a> {
    weight_decay: V<'a>,
    /// lr * weight_decay
    decay_step: V<'a>,
    one_minus_beta1: V<'a>,
    beta2: V<'a>,
    one_minus_beta2: V<'a>,
    eps: V<'a>,
    /// lr / (1 - beta1 ^ step)
    step_size: V<'a>,
    /// 1 / sqrt(1 - beta2 ^ step): multiplying takes less time than dividing.
    scale_of_root: V<'a>,
}

impl<'a> Rates<'a> {
    fn of(c: &Call<'a>, step: V<'a>, compute: DType) -> Result<Rates<'a>> {
        let number = |i: usize, default: f64| c.number(i, default, DType::F64);
        let lr = number(6, 1e-3)?.reshape(&[]);
        let (beta1, beta2) = (number(7, 0.9)?, number(8, 0.999)?);
        let weight_decay = number(9, 0.0)?;
        let step = step.cast(DType::F64).reshape(&[]);
        let rounded = |v: V<'a>| v.cast(compute);
        Ok(Rates {
            weight_decay: rounded(weight_decay),
            decay_step: rounded(lr * weight_decay),
            one_minus_beta1: rounded(1.0 - beta1),
            beta2: rounded(beta2),
            one_minus_beta2: rounded(1.0 - beta2),
            eps: rounded(number(10, 1e-8)?),
            step_size: rounded(lr / (1.0 - beta1.pow(step))),
            scale_of_root: rounded(1.0 / (1.0 - beta2.pow(step)).sqrt()),
        })
    }
}

/// `(self, grads, momentum_buffers, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
/// grad_scale?, found_inf?)` → the three lists. Without momentum the list of buffers is empty.
fn sgd<'a>(c: &Call<'a>) -> Outs<'a> {
    let (params, grads, buffers) = (c.list(0)?, c.list(1)?, c.list(2)?);
    let (nesterov, maximize, first) = (c.bool(7, false)?, c.bool(8, false)?, c.bool(9, false)?);
    let scaler = Scaler::of(c, 10, 11)?;
    let mut results: [Vec<V>; 3] = Default::default();
    for (i, &param) in params.iter().enumerate() {
        let compute = wide(param.dtype());
        let number = |at: usize| Ok(c.number(at, 0.0, compute)?.reshape(&[]));
        let (decay, momentum, lr, damping) = (number(3)?, number(4)?, number(5)?, number(6)?);
        let grad = scaler.unscaled(grads[i], compute);
        let unscaled = if scaler.scale.is_some() { grad } else { grads[i] };
        let weight = param.cast(compute);
        let mut direction = (if maximize { -grad } else { grad }) + weight * decay;
        if let Some(&buffer) = buffers.get(i) {
            let old = buffer.cast(compute);
            let new = if first { direction } else { old * momentum + direction * (1.0 - damping) };
            direction = if nesterov { direction + new * momentum } else { new };
            results[2].push(scaler.commit(buffer, new));
        }
        results[0].push(scaler.commit(param, weight - direction * lr));
        results[1].push(scaler.commit(grads[i], unscaled));
    }
    Ok(results.concat())
}

/// `(tensors, found_inf, inv_scale)` → tensors times inv_scale, found_inf set to 1 if one was not finite.
fn unscale<'a>(c: &Call<'a>) -> Outs<'a> {
    let (tensors, found, factor) = (c.list(0)?, c.tensor(1)?, c.tensor(2)?.reshape(&[]));
    let mut bad = found.ne(0.0).reshape(&[]);
    let mut results = Vec::new();
    for x in tensors {
        let axes: Dims = (0..x.rank() as i64).collect();
        bad = bad.or(finite(x).not().reduce(Op::Any, &axes, false));
        let compute = wide(x.dtype());
        results.push((x.cast(compute) * factor.cast(compute)).cast(x.dtype()));
    }
    results.push(bad.cast(found.dtype()).reshape(&found.sizes()));
    Ok(results)
}

/// `(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval)` → scale, growth_tracker
fn update_scale<'a>(c: &Call<'a>) -> Outs<'a> {
    let (scale, tracker) = (c.tensor(0)?, c.tensor(1)?);
    let bad = c.tensor(2)?.ne(0.0).reshape(&scale.sizes());
    let steps = tracker + 1.0;
    let grow = steps.eq(c.number(5, 2000.0, tracker.dtype())?);
    // In f64: PyTorch multiplies by a double.
    let wide = scale.cast(DType::F64);
    let grown = (wide * c.number(3, 2.0, DType::F64)?).cast(scale.dtype());
    let shrunk = (wide * c.number(4, 0.5, DType::F64)?).cast(scale.dtype());
    let healthy = grow.reshape(&scale.sizes()).and(finite(grown)).select(grown, scale);
    let stays = bad.reshape(&tracker.sizes()).or(grow).not();
    Ok(vec![bad.select(shrunk, healthy), stays.select(steps, 0.0)])
}
