//! Composites: the building blocks of neural networks, kept whole because backends compute them better than their parts.
//! The meanings are the textbook formulas in f64.

mod attention;
mod conv;
mod norm;
mod pool;
mod recurrent;
pub mod window;

use super::array::Array;
use super::reduce::nonempty;
use super::{Attr, Eval, Ty, Tys, check};
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
pub use attention::*;
pub use conv::*;
pub use norm::*;
pub use pool::*;
pub use recurrent::*;
use smallvec::smallvec;

pub const SOFTMAX: Eval = Eval::Whole(|x, _, o| rows(x, o, softmax));
pub const LOG_SOFTMAX: Eval = Eval::Whole(|x, _, o| rows(x, o, log_softmax));
pub const LOG_SUM_EXP: Eval = Eval::Whole(log_sum_exp);
pub const SOFTMAX_GRAD: Eval = Eval::Whole(|x, _, o| rows(x, o, softmax_grad));
pub const LOG_SOFTMAX_GRAD: Eval = Eval::Whole(|x, _, o| rows(x, o, log_softmax_grad));

/// Dtype of statistics over values of `dtype`.
fn statistic(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// One or two equal float types of at least one dimension.
pub fn softmax_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    check::no_attrs(attrs)?;
    let Some((first, rest)) = inputs.split_first() else {
        return check::wrong_operands("at least one", inputs);
    };
    for other in rest {
        check::same_dtype(first, other)?;
        check::same_sizes(&first.sizes, &other.sizes)?;
    }
    check::float(first.dtype)?;
    if first.rank() == 0 {
        return invalid!("expected a tensor of at least one dimension");
    }
    check::one(first.dtype, &first.sizes)
}

/// One float type of at least one dimension → two of statistics.
pub fn log_sum_exp_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let mut ty = softmax_type(inputs, attrs)?.remove(0);
    let last = ty.rank() - 1;
    nonempty(&ty, last as i64)?;
    ty.sizes[last] = 1;
    ty.dtype = statistic(ty.dtype);
    Ok(smallvec![ty.clone(), ty])
}

pub fn flops_5(inputs: &[&Ty], _: &[Ty]) -> u64 {
    5u64.saturating_mul(inputs[0].numel() as u64)
}

pub fn flops_8(inputs: &[&Ty], _: &[Ty]) -> u64 {
    8u64.saturating_mul(inputs[0].numel() as u64)
}

pub fn flops_12(inputs: &[&Ty], _: &[Ty]) -> u64 {
    12u64.saturating_mul(inputs[0].numel() as u64)
}

/// Applies `f` to each row along the last axis; it gets the row of each operand.
fn rows(x: &[&Array], outs: &[Ty], f: fn(&[Vec<f64>]) -> Vec<f64>) -> Result<Vec<Array>> {
    let mut y = Array::zeros(&outs[0]);
    let width = outs[0].sizes[outs[0].rank() - 1] as usize;
    for start in (0..y.len()).step_by(width.max(1)) {
        let row = |a: &&Array| (start..start + width).map(|i| a.f64(i)).collect();
        let operands: Vec<Vec<f64>> = x.iter().map(row).collect();
        f(&operands).into_iter().enumerate().for_each(|(i, v)| y.set_f64(start + i, v));
    }
    Ok(vec![y])
}

/// The largest number; NaN when there is one.
fn maximum(x: &[f64]) -> f64 {
    x.iter().fold(f64::NEG_INFINITY, |a, &b| if a > b || a.is_nan() { a } else { b })
}

fn softmax(x: &[Vec<f64>]) -> Vec<f64> {
    let top = maximum(&x[0]);
    let exps: Vec<f64> = x[0].iter().map(|v| (v - top).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

fn log_softmax(x: &[Vec<f64>]) -> Vec<f64> {
    let top = maximum(&x[0]);
    let sum: f64 = x[0].iter().map(|v| (v - top).exp()).sum();
    x[0].iter().map(|v| v - top - sum.ln()).collect()
}

fn log_sum_exp(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let (mut tops, mut logs) = (Array::zeros(&outs[0]), Array::zeros(&outs[1]));
    let width = *x[0].ty.sizes.last().unwrap_or(&1) as usize;
    for row in 0..tops.len() {
        let values: Vec<f64> = (row * width..(row + 1) * width).map(|i| x[0].f64(i)).collect();
        let top = maximum(&values);
        tops.set_f64(row, top);
        logs.set_f64(row, values.iter().map(|v| (v - top).exp()).sum::<f64>().ln());
    }
    Ok(vec![tops, logs])
}

fn softmax_grad(x: &[Vec<f64>]) -> Vec<f64> {
    let (dy, y) = (&x[0], &x[1]);
    let sum: f64 = dy.iter().zip(y).map(|(d, y)| d * y).sum();
    dy.iter().zip(y).map(|(d, y)| (d - sum) * y).collect()
}

fn log_softmax_grad(x: &[Vec<f64>]) -> Vec<f64> {
    let (dy, y) = (&x[0], &x[1]);
    let sum: f64 = dy.iter().sum();
    dy.iter().zip(y).map(|(d, y)| d - y.exp() * sum).collect()
}
