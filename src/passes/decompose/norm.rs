//! Layer and RMS normalisation over the rows of a matrix `[r,c]`, and their gradients.

use super::{along_row, number, wide, with_column};
use crate::error::Result;
use crate::graph::{Builder, ValueId};
use crate::op::{Attr, Op};
use crate::passes::rebuild::Values;

/// Mean of every row, `[r,1]`.
fn mean_of_row(b: &mut Builder, x: ValueId) -> Result<ValueId> {
    let columns = b.ty(x).sizes[1] as f64;
    let sum = along_row(b, Op::Sum, x)?;
    let columns = number(b, columns, sum)?;
    b.binary(Op::Div, sum, columns)
}

/// `op(x[r,c], y[c])`.
fn with_row(b: &mut Builder, op: Op, x: ValueId, y: ValueId) -> Result<ValueId> {
    let ty = b.ty(x).clone();
    let y = b.cast(y, ty.dtype)?;
    let y = b.broadcast(y, &ty.sizes)?;
    b.binary(op, x, y)
}

/// 1/√(mean(x²) + eps) of every row, `[r,1]`.
fn inverse_deviation(b: &mut Builder, x: ValueId, eps: f64) -> Result<ValueId> {
    let square = b.binary(Op::Mul, x, x)?;
    let variance = mean_of_row(b, square)?;
    let eps = number(b, eps, variance)?;
    let above_zero = b.binary(Op::Add, variance, eps)?;
    b.unary(Op::Rsqrt, above_zero)
}

pub fn layer_norm(b: &mut Builder, inputs: &[ValueId], attrs: &[Attr]) -> Result<Values> {
    let (eps, weight, bias) = (attrs[0].float(), attrs[1].bool(), attrs[2].bool());
    let ty = b.ty(inputs[0]).clone();
    let x = wide(b, inputs[0])?;
    let mean = mean_of_row(b, x)?;
    let centred = with_column(b, Op::Sub, x, mean)?;
    let rstd = inverse_deviation(b, centred, eps)?;
    let mut y = with_column(b, Op::Mul, centred, rstd)?;
    if weight {
        y = with_row(b, Op::Mul, y, inputs[1])?;
    }
    if bias {
        y = with_row(b, Op::Add, y, inputs[inputs.len() - 1])?;
    }
    let of_row = &ty.sizes[..1];
    let (mean, rstd) = (b.reshape(mean, of_row)?, b.reshape(rstd, of_row)?);
    Ok(Values::from_slice(&[b.cast(y, ty.dtype)?, mean, rstd]))
}

/// With x̂ = (x - mean)·rstd and g = dy·weight: dx = rstd·(g - mean(g) - x̂·mean(g·x̂)), dweight = Σ dy·x̂, dbias = Σ dy.
pub fn layer_norm_grad(b: &mut Builder, inputs: &[ValueId], _: &[Attr]) -> Result<Values> {
    let weight = inputs.get(4).copied();
    let (ty, of_weight) = (b.ty(inputs[1]).clone(), b.ty(weight.unwrap_or(inputs[1])).dtype);
    let (dy, x) = (wide(b, inputs[0])?, wide(b, inputs[1])?);
    let column = [ty.sizes[0], 1];
    let (mean, rstd) = (b.reshape(inputs[2], &column)?, b.reshape(inputs[3], &column)?);
    let centred = with_column(b, Op::Sub, x, mean)?;
    let normed = with_column(b, Op::Mul, centred, rstd)?;
    let scaled = match weight {
        Some(weight) => with_row(b, Op::Mul, dy, weight)?,
        None => dy,
    };
    let average = mean_of_row(b, scaled)?;
    let product = b.binary(Op::Mul, scaled, normed)?;
    let along = mean_of_row(b, product)?;
    let less_average = with_column(b, Op::Sub, scaled, average)?;
    let projection = with_column(b, Op::Mul, normed, along)?;
    let rest = b.binary(Op::Sub, less_average, projection)?;
    let dx = with_column(b, Op::Mul, rest, rstd)?;
    let weighted = b.binary(Op::Mul, dy, normed)?;
    let dweight = b.reduce(Op::Sum, weighted, &[0], false)?;
    let dbias = b.reduce(Op::Sum, dy, &[0], false)?;
    let of_column = [b.cast(dweight, of_weight)?, b.cast(dbias, of_weight)?];
    Ok(Values::from_slice(&[b.cast(dx, ty.dtype)?, of_column[0], of_column[1]]))
}

pub fn rms_norm(b: &mut Builder, inputs: &[ValueId], attrs: &[Attr]) -> Result<Values> {
    let ty = b.ty(inputs[0]).clone();
    let x = wide(b, inputs[0])?;
    let rstd = inverse_deviation(b, x, attrs[0].float())?;
    let mut y = with_column(b, Op::Mul, x, rstd)?;
    if let Some(&weight) = inputs.get(1) {
        y = with_row(b, Op::Mul, y, weight)?;
    }
    let rstd = b.reshape(rstd, &ty.sizes[..1])?;
    Ok(Values::from_slice(&[b.cast(y, ty.dtype)?, rstd]))
}

/// With x̂ = x·rstd and g = dy·weight: dx = rstd·(g - x̂·mean(g·x̂)), dweight = Σ dy·x̂.
pub fn rms_norm_grad(b: &mut Builder, inputs: &[ValueId], _: &[Attr]) -> Result<Values> {
    let weight = inputs.get(3).copied();
    let (ty, of_weight) = (b.ty(inputs[1]).clone(), b.ty(weight.unwrap_or(inputs[1])).dtype);
    let (dy, x) = (wide(b, inputs[0])?, wide(b, inputs[1])?);
    let rstd = b.reshape(inputs[2], &[ty.sizes[0], 1])?;
    let normed = with_column(b, Op::Mul, x, rstd)?;
    let scaled = match weight {
        Some(weight) => with_row(b, Op::Mul, dy, weight)?,
        None => dy,
    };
    let product = b.binary(Op::Mul, scaled, normed)?;
    let along = mean_of_row(b, product)?;
    let projection = with_column(b, Op::Mul, normed, along)?;
    let rest = b.binary(Op::Sub, scaled, projection)?;
    let dx = with_column(b, Op::Mul, rest, rstd)?;
    let weighted = b.binary(Op::Mul, dy, normed)?;
    let dweight = b.reduce(Op::Sum, weighted, &[0], false)?;
    Ok(Values::from_slice(&[b.cast(dx, ty.dtype)?, b.cast(dweight, of_weight)?]))
}
