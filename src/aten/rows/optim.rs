//! Whole optimizer steps over lists of tensors, and the scaling of mixed precision. Results are the mutated lists in
//! schema order, element by element. Only the in-place forms are served: the functional ones return copies as well.
//! `torchacc::adamw` and `torchacc::sgd` are the same steps with fewer arguments, for callers without PyTorch.

use crate::aten::call::{Call, wide};
use crate::aten::rows::pointwise::finite;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::Op;
use crate::shape::{Dims, numel};

pub const ROWS: &[Row] = &[
    row("_fused_adam_", &["", "tensor_lr"], |c| adam(c, Decay::Gradient))
        .fixed(&[11, 12])
        .updates(),
    row("_fused_adamw_", &["", "tensor_lr"], |c| adam(c, Decay::Weight)).fixed(&[11, 12]).updates(),
    row("_fused_sgd_", &["", "tensor_lr"], sgd).fixed(&[7, 8, 9]).updates(),
    row("torchacc::adamw", &[""], plain_adamw).updates(),
    row("torchacc::sgd", &[""], plain_sgd).fixed(&[6]).updates(),
    row("_amp_foreach_non_finite_check_and_unscale_", &[""], unscale),
    row("_amp_update_scale_", &[""], update_scale),
];

/// Where weight decay goes: into the gradient (Adam) or straight to the weights (AdamW).
#[derive(Clone, Copy, PartialEq)]
enum Decay {
    Gradient,
    Weight,
}

/// The gradient scaler's part in an optimizer step: arguments `grad_scale?` and `found_inf?`.
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

    /// The new value, or the old one if the step is skipped.
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
    of_one_length([&params, &grads, &means, &squares, &steps])?;
    if amsgrad {
        of_one_length([&params, &tops])?;
    }
    let [grads, means, squares, tops] =
        [grads, means, squares, tops].map(|list| in_sizes_of(&params, list));
    let (grads, means, squares, tops) = (grads?, means?, squares?, tops?);
    let scaler = Scaler::of(c, 13, 14)?;
    let number = |i: usize, default: f64| c.number(i, default, DType::F64);
    let rates = Rates {
        lr: number(6, 1e-3)?.reshape(&[]),
        beta1: number(7, 0.9)?,
        beta2: number(8, 0.999)?,
        weight_decay: number(9, 0.0)?,
        eps: number(10, 1e-8)?,
    };
    let mut results: [Vec<V>; 5] = Default::default();
    for (i, &param) in params.iter().enumerate() {
        let compute = wide(param.dtype());
        let grad = scaler.unscaled(grads[i], compute);
        let unscaled = if scaler.scale.is_some() { grad } else { grads[i] };
        let direction = if maximize { -grad } else { grad };
        let top = amsgrad.then(|| tops[i]);
        let new = Moments { mean: means[i], square: squares[i], top }
            .step(&rates, steps[i], param, direction, decay);
        results[0].push(scaler.commit(param, new.weight));
        results[1].push(scaler.commit(grads[i], unscaled));
        results[2].push(scaler.commit(means[i], new.moments.mean));
        results[3].push(scaler.commit(squares[i], new.moments.square));
        results[4].extend(new.moments.top.map(|top| scaler.commit(tops[i], top)));
    }
    if !amsgrad {
        results[4] = tops;
    }
    written_back(c, results)
}

/// `(params, grads, means, squares, step, lr, beta1, beta2, weight_decay, eps)` → params, means, squares.
fn plain_adamw<'a>(c: &Call<'a>) -> Outs<'a> {
    let (params, grads, means, squares) = (c.list(0)?, c.list(1)?, c.list(2)?, c.list(3)?);
    of_one_length([&params, &grads, &means, &squares])?;
    let number = |i: usize, default: f64| Ok(c.number(i, default, DType::F64)?.reshape(&[]));
    let step = number(4, 1.0)?;
    let rates = Rates {
        lr: number(5, 1e-3)?,
        beta1: number(6, 0.9)?,
        beta2: number(7, 0.999)?,
        weight_decay: number(8, 0.01)?,
        eps: number(9, 1e-8)?,
    };
    let mut results: [Vec<V>; 3] = Default::default();
    for (i, &param) in params.iter().enumerate() {
        let old = Moments { mean: means[i], square: squares[i], top: None };
        let grad = grads[i].cast(wide(param.dtype()));
        let new = old.step(&rates, step, param, grad, Decay::Weight);
        results[0].push(new.weight.cast(param.dtype()));
        results[1].push(new.moments.mean.cast(means[i].dtype()));
        results[2].push(new.moments.square.cast(squares[i].dtype()));
    }
    Ok(results.concat())
}

/// Errors: lists that belong together element by element differ in length.
fn of_one_length<const N: usize>(lists: [&[V]; N]) -> Result<()> {
    match lists.iter().all(|list| list.len() == lists[0].len()) {
        true => Ok(()),
        false => {
            let lengths: Vec<usize> = lists.iter().map(|list| list.len()).collect();
            invalid!("expected lists of one length, but got {lengths:?}")
        }
    }
}

/// `list` in the sizes of `params`. PyTorch's kernels go over elements in memory: a parameter whose sizes changed keeps its
/// state as long as its number of elements is the same.
fn in_sizes_of<'a>(params: &[V<'a>], list: Vec<V<'a>>) -> Result<Vec<V<'a>>> {
    let reshaped = params.iter().zip(list).map(|(param, v)| {
        let (wanted, sizes) = (param.sizes(), v.sizes());
        match numel(&wanted) == numel(&sizes) {
            true => Ok(v.reshape(&wanted)),
            false => {
                invalid!("a parameter of sizes {wanted:?} has a gradient or state of {sizes:?}")
            }
        }
    });
    reshaped.collect()
}

/// Lists of results, each in the sizes of the tensors of the argument that it updates.
fn written_back<'a, const N: usize>(c: &Call<'a>, results: [Vec<V<'a>>; N]) -> Outs<'a> {
    let mut outs = Vec::new();
    for (i, list) in results.into_iter().enumerate() {
        outs.extend(list.into_iter().zip(c.list(i)?).map(|(new, old)| new.reshape(&old.sizes())));
    }
    Ok(outs)
}

/// As [`of_one_length`]; without momentum there are no buffers.
fn with_momentum(params: &[V], grads: &[V], buffers: &[V]) -> Result<()> {
    match buffers {
        [] => of_one_length([params, grads]),
        _ => of_one_length([params, grads, buffers]),
    }
}

/// Hyperparameters of Adam, in f64: 1 - beta2 ^ step cancels. Each is rounded once.
struct Rates<'a> {
    lr: V<'a>,
    beta1: V<'a>,
    beta2: V<'a>,
    weight_decay: V<'a>,
    eps: V<'a>,
}

/// Adam's state of a parameter: running averages of its gradients and of their squares, and the largest of the latter.
struct Moments<'a> {
    mean: V<'a>,
    square: V<'a>,
    top: Option<V<'a>>,
}

/// The result of a step, in the dtype of computation.
struct Stepped<'a> {
    weight: V<'a>,
    moments: Moments<'a>,
}

impl<'a> Moments<'a> {
    /// `direction` is the gradient in the dtype of computation.
    fn step(
        &self,
        rates: &Rates<'a>,
        step: V<'a>,
        param: V<'a>,
        mut direction: V<'a>,
        decay: Decay,
    ) -> Stepped<'a> {
        let compute = wide(param.dtype());
        let rounded = |v: V<'a>| v.cast(compute);
        let Rates { lr, beta1, beta2, weight_decay, eps } = *rates;
        let step = step.cast(DType::F64).reshape(&[]);
        let mut weight = param.cast(compute);
        match decay {
            Decay::Gradient => direction = direction + weight * rounded(weight_decay),
            // An infinite weight stays infinite.
            Decay::Weight => weight = weight * rounded(1.0 - lr * weight_decay),
        }
        let mean = self.mean.cast(compute);
        let mean = mean + (direction - mean) * rounded(1.0 - beta1);
        let square = self.square.cast(compute) * rounded(beta2)
            + direction * direction * rounded(1.0 - beta2);
        let top = self.top.map(|top| top.cast(compute).max(square));
        // Multiplying by the root's reciprocal is faster than dividing.
        let scale_of_root = rounded(1.0 / (1.0 - beta2.pow(step)).sqrt());
        let spread = top.unwrap_or(square).sqrt() * scale_of_root + rounded(eps);
        weight = weight - rounded(lr / (1.0 - beta1.pow(step))) * mean / spread;
        Stepped { weight, moments: Moments { mean, square, top } }
    }
}

/// `(self, grads, momentum_buffers, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
/// grad_scale?, found_inf?)` → the three lists. Without momentum the list of buffers is empty.
fn sgd<'a>(c: &Call<'a>) -> Outs<'a> {
    let (params, grads, buffers) = (c.list(0)?, c.list(1)?, c.list(2)?);
    let (nesterov, maximize, first) = (c.bool(7, false)?, c.bool(8, false)?, c.bool(9, false)?);
    with_momentum(&params, &grads, &buffers)?;
    let (grads, buffers) = (in_sizes_of(&params, grads)?, in_sizes_of(&params, buffers)?);
    let scaler = Scaler::of(c, 10, 11)?;
    let mut results: [Vec<V>; 3] = Default::default();
    for (i, &param) in params.iter().enumerate() {
        let compute = wide(param.dtype());
        let number = |at: usize| Ok(c.number(at, 0.0, compute)?.reshape(&[]));
        let grad = scaler.unscaled(grads[i], compute);
        let unscaled = if scaler.scale.is_some() { grad } else { grads[i] };
        let slide = Slide {
            lr: number(5)?,
            momentum: number(4)?,
            fresh: 1.0 - number(6)?,
            weight_decay: number(3)?,
            nesterov,
        };
        let buffer = buffers.get(i).map(|&buffer| (buffer, first));
        let direction = if maximize { -grad } else { grad };
        let (weight, velocity) = slide.step(param, direction, buffer);
        if let (Some(velocity), Some(&buffer)) = (velocity, buffers.get(i)) {
            results[2].push(scaler.commit(buffer, velocity));
        }
        results[0].push(scaler.commit(param, weight));
        results[1].push(scaler.commit(grads[i], unscaled));
    }
    written_back(c, results)
}

/// `(params, grads, momentum_buffers, lr, momentum, weight_decay, nesterov)` → params, momentum_buffers. Without momentum
/// the list of buffers is empty.
fn plain_sgd<'a>(c: &Call<'a>) -> Outs<'a> {
    let (params, grads, buffers) = (c.list(0)?, c.list(1)?, c.list(2)?);
    with_momentum(&params, &grads, &buffers)?;
    let nesterov = c.bool(6, false)?;
    let mut results: [Vec<V>; 2] = Default::default();
    for (i, &param) in params.iter().enumerate() {
        let compute = wide(param.dtype());
        let number = |at: usize, default: f64| Ok(c.number(at, default, compute)?.reshape(&[]));
        let slide = Slide {
            lr: number(3, 1e-3)?,
            momentum: number(4, 0.0)?,
            fresh: c.math.constant(1.0, compute),
            weight_decay: number(5, 0.0)?,
            nesterov,
        };
        let buffer = buffers.get(i).map(|&buffer| (buffer, false));
        let (weight, velocity) = slide.step(param, grads[i].cast(compute), buffer);
        results[0].push(weight.cast(param.dtype()));
        results[1].extend(velocity.zip(buffer).map(|(new, (old, _))| new.cast(old.dtype())));
    }
    Ok(results.concat())
}

/// Hyperparameters of a gradient descent step.
struct Slide<'a> {
    lr: V<'a>,
    momentum: V<'a>,
    /// Share of the gradient that enters the momentum.
    fresh: V<'a>,
    weight_decay: V<'a>,
    nesterov: bool,
}

impl<'a> Slide<'a> {
    /// The weight and the velocity after a step; `buffer` is the old velocity and whether this is the first step.
    fn step(
        &self,
        param: V<'a>,
        grad: V<'a>,
        buffer: Option<(V<'a>, bool)>,
    ) -> (V<'a>, Option<V<'a>>) {
        let weight = param.cast(grad.dtype());
        let direction = grad + weight * self.weight_decay;
        let velocity = buffer.map(|(old, first)| match first {
            true => direction,
            false => old.cast(grad.dtype()) * self.momentum + direction * self.fresh,
        });
        let way = match velocity {
            Some(velocity) if self.nesterov => direction + velocity * self.momentum,
            Some(velocity) => velocity,
            None => direction,
        };
        (weight - way * self.lr, velocity)
    }
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
