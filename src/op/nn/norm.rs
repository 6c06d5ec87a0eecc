//! Layer and RMS normalisation over the rows of a matrix, and their gradients.

use super::statistic;
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use crate::op::array::{Array, filled};
use crate::op::{Attr, Eval, Ty, Tys, check};
use smallvec::smallvec;

pub const LAYER_NORM: Eval = Eval::Whole(layer_norm);
pub const LAYER_NORM_GRAD: Eval = Eval::Whole(layer_norm_grad);
pub const RMS_NORM: Eval = Eval::Whole(rms_norm);
pub const RMS_NORM_GRAD: Eval = Eval::Whole(rms_norm_grad);

/// A weight or bias: one number per column, in x's dtype or f32.
fn check_column(ty: &Ty, x: &Ty, what: &str) -> Result<()> {
    check::sizes(ty, &x.sizes[1..], what)?;
    if ty.dtype != x.dtype && ty.dtype != DType::F32 {
        return invalid!("expected {what} to have dtype {} or f32, but got {}", x.dtype, ty.dtype);
    }
    Ok(())
}

fn check_matrix(x: &Ty) -> Result<()> {
    check::float(x.dtype)?;
    check::rank(x, 2, "x")
}

pub fn layer_norm_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [Attr::Float(_), Attr::Bool(weight), Attr::Bool(bias)] = attrs else {
        return check::wrong_attrs("eps: float, weight: bool, bias: bool", attrs);
    };
    if inputs.len() != 1 + *weight as usize + *bias as usize {
        return check::wrong_operands("x, and weight and bias as the attributes say", inputs);
    }
    let x = inputs[0];
    check_matrix(x)?;
    for ty in &inputs[1..] {
        check_column(ty, x, "weight and bias")?;
    }
    let of_row = check::ty(statistic(x.dtype), &x.sizes[..1])?;
    Ok(smallvec![x.clone(), of_row.clone(), of_row])
}

pub fn layer_norm_grad_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    check::no_attrs(attrs)?;
    let [dy, x, mean, rstd, weight @ ..] = inputs else {
        return check::wrong_operands("dy, x, mean, rstd, weight?", inputs);
    };
    let of_column = check_grad(dy, x, &[(mean, "mean"), (rstd, "rstd")], weight)?;
    Ok(smallvec![(*x).clone(), of_column.clone(), of_column])
}

pub fn rms_norm_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [Attr::Float(_)] = attrs else {
        return check::wrong_attrs("eps: float", attrs);
    };
    let (x, weight) = match inputs {
        [x] => (x, None),
        [x, weight] => (x, Some(weight)),
        _ => return check::wrong_operands("x, weight?", inputs),
    };
    check_matrix(x)?;
    weight.map_or(Ok(()), |weight| check_column(weight, x, "weight"))?;
    Ok(smallvec![(*x).clone(), check::ty(statistic(x.dtype), &x.sizes[..1])?])
}

pub fn rms_norm_grad_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    check::no_attrs(attrs)?;
    let [dy, x, rstd, weight @ ..] = inputs else {
        return check::wrong_operands("dy, x, rstd, weight?", inputs);
    };
    let of_column = check_grad(dy, x, &[(rstd, "rstd")], weight)?;
    Ok(smallvec![(*x).clone(), of_column])
}

/// Checks the operands of a gradient; returns the type of the sums over rows.
fn check_grad(dy: &Ty, x: &Ty, statistics: &[(&Ty, &str)], weight: &[&Ty]) -> Result<Ty> {
    check_matrix(x)?;
    check::same_dtype(dy, x)?;
    check::same_sizes(&dy.sizes, &x.sizes)?;
    for (ty, what) in statistics {
        check::dtype(ty, statistic(x.dtype), what)?;
        check::sizes(ty, &x.sizes[..1], what)?;
    }
    let dtype = match weight {
        [] => x.dtype,
        [weight] => {
            check_column(weight, x, "weight")?;
            weight.dtype
        }
        _ => return check::wrong_operands("at most one weight", weight),
    };
    check::ty(dtype, &x.sizes[1..])
}

fn shape(x: &Array) -> (usize, usize) {
    (x.ty.sizes[0] as usize, x.ty.sizes[1] as usize)
}

fn layer_norm(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let (eps, has_weight, has_bias) = (attrs[0].float(), attrs[1].bool(), attrs[2].bool());
    let weight = has_weight.then(|| x[1]);
    let bias = has_bias.then(|| x[x.len() - 1]);
    let x = x[0];
    let (r, c) = shape(x);
    let mut results: Vec<Array> = outs.iter().map(Array::zeros).collect();
    for row in 0..r {
        let values: Vec<f64> = (0..c).map(|i| x.f64(row * c + i)).collect();
        let mean = values.iter().sum::<f64>() / c as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / c as f64;
        let rstd = 1.0 / (variance + eps).sqrt();
        for (i, v) in values.iter().enumerate() {
            let scale = weight.map_or(1.0, |w| w.f64(i));
            let shift = bias.map_or(0.0, |b| b.f64(i));
            results[0].set_f64(row * c + i, (v - mean) * rstd * scale + shift);
        }
        results[1].set_f64(row, mean);
        results[2].set_f64(row, rstd);
    }
    Ok(results)
}

fn layer_norm_grad(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let weight = x.get(4);
    let (dy, x, mean, rstd) = (x[0], x[1], x[2], x[3]);
    let (r, c) = shape(x);
    let mut dx = Array::zeros(&outs[0]);
    let (mut dweight, mut dbias) = (filled(0.0, c), filled(0.0, c));
    for row in 0..r {
        let normed = |i: usize| (x.f64(row * c + i) - mean.f64(row)) * rstd.f64(row);
        let scaled = |i: usize| dy.f64(row * c + i) * weight.map_or(1.0, |w| w.f64(i));
        let average = (0..c).map(scaled).sum::<f64>() / c as f64;
        let along = (0..c).map(|i| scaled(i) * normed(i)).sum::<f64>() / c as f64;
        for i in 0..c {
            dx.set_f64(row * c + i, rstd.f64(row) * (scaled(i) - average - normed(i) * along));
            dweight[i] += dy.f64(row * c + i) * normed(i);
            dbias[i] += dy.f64(row * c + i);
        }
    }
    let column = |ty: &Ty, values: &[f64]| Array::from_f64(ty.dtype, &ty.sizes, values);
    Ok(vec![dx, column(&outs[1], &dweight), column(&outs[2], &dbias)])
}

fn rms_norm(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let (eps, weight, x) = (attrs[0].float(), x.get(1), x[0]);
    let (r, c) = shape(x);
    let mut results: Vec<Array> = outs.iter().map(Array::zeros).collect();
    for row in 0..r {
        let values: Vec<f64> = (0..c).map(|i| x.f64(row * c + i)).collect();
        let square = values.iter().map(|v| v * v).sum::<f64>() / c as f64;
        let rstd = 1.0 / (square + eps).sqrt();
        for (i, v) in values.iter().enumerate() {
            results[0].set_f64(row * c + i, v * rstd * weight.map_or(1.0, |w| w.f64(i)));
        }
        results[1].set_f64(row, rstd);
    }
    Ok(results)
}

fn rms_norm_grad(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let weight = x.get(3);
    let (dy, x, rstd) = (x[0], x[1], x[2]);
    let (r, c) = shape(x);
    let mut dx = Array::zeros(&outs[0]);
    let mut dweight = filled(0.0, c);
    for row in 0..r {
        let normed = |i: usize| x.f64(row * c + i) * rstd.f64(row);
        let scaled = |i: usize| dy.f64(row * c + i) * weight.map_or(1.0, |w| w.f64(i));
        let along = (0..c).map(|i| scaled(i) * normed(i)).sum::<f64>() / c as f64;
        for (i, dweight) in dweight.iter_mut().enumerate() {
            dx.set_f64(row * c + i, rstd.f64(row) * (scaled(i) - normed(i) * along));
            *dweight += dy.f64(row * c + i) * normed(i);
        }
    }
    Ok(vec![dx, Array::from_f64(outs[1].dtype, &outs[1].sizes, &dweight)])
}
