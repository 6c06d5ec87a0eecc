//! Softmax and dropout.

use super::PLAIN;
use crate::aten::call::{Call, Rule, wide};
use crate::aten::facts::DROPOUT;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::graph::math::V;
use crate::op::Op;

pub const ROWS: &[Row] = &[
    row("_softmax", PLAIN, |c| softmax(c, Op::Softmax)),
    row("_log_softmax", PLAIN, |c| softmax(c, Op::LogSoftmax)),
    row("_softmax_backward_data", PLAIN, |c| softmax_backward(c, Op::SoftmaxGrad)),
    row("_log_softmax_backward_data", PLAIN, |c| softmax_backward(c, Op::LogSoftmaxGrad)),
    row("native_dropout", &[""], dropout).facts(DROPOUT),
    row("native_dropout_backward", PLAIN, |c| {
        let (dtype, compute) = c.plan(&[0], Rule::FloatFormula)?;
        let [dy, mask] = c.numbers([0, 1], compute)?;
        Ok(vec![(dy * mask * c.number(2, 1.0, compute)?).cast(dtype)])
    }),
];

/// Applies `f`, which works along the last dimension, along `dim`.
fn along<'a, const N: usize>(
    operands: [V<'a>; N],
    dim: usize,
    f: impl FnOnce([V<'a>; N]) -> V<'a>,
) -> V<'a> {
    let rank = operands[0].rank();
    if rank == 0 {
        return f(operands.map(|x| x.reshape(&[1]))).reshape(&[]);
    }
    f(operands.map(|x| x.swap(dim, rank - 1))).swap(dim, rank - 1)
}

/// `(self, dim, half_to_float)`
fn softmax<'a>(c: &Call<'a>, op: Op) -> Outs<'a> {
    let mut x = c.tensor(0)?;
    if c.bool(2, false)? {
        x = x.cast(DType::F32);
    }
    Ok(vec![along([x], c.dim(1, 0, x.rank())?, |[x]| x.unary(op))])
}

/// `(grad_output, output, dim, input_dtype)`
fn softmax_backward<'a>(c: &Call<'a>, op: Op) -> Outs<'a> {
    let y = c.tensor(1)?;
    let dy = c.tensor(0)?.cast(y.dtype());
    let dx = along([dy, y], c.dim(2, 0, y.rank())?, |[dy, y]| dy.binary(op, y));
    Ok(vec![dx.cast(c.dtype(3)?.unwrap_or(y.dtype()))])
}

/// `(input, p, train?)`, seed, offset → output, mask
fn dropout<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let sizes = x.sizes();
    if !c.bool(2, true)? {
        return Ok(vec![x, c.math.full(1.0, DType::Bool, &sizes)]);
    }
    let compute = wide(x.dtype());
    let mask = c.random(&sizes)?.ge(c.number(1, 0.5, DType::F32)?);
    let keep = 1.0 - c.number(1, 0.5, compute)?;
    let y = mask.select(x.cast(compute) / keep, 0.0);
    Ok(vec![y.cast(x.dtype()), mask])
}
