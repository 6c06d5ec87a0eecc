//! Attention as one operator: the extension's own ones behind `scaled_dot_product_attention`.

use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::{Attr, Attrs, Op};
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("torchacc::attention", &[""], forward).fixed(&[4, 5, 6]),
    row("torchacc::attention_backward", &[""], backward).fixed(&[7, 8, 9]),
];

/// The attributes scale, causal, dropout from the arguments dropout_p, is_causal, scale.
fn attrs(c: &Call, first: usize) -> Result<Attrs> {
    Ok(smallvec![
        Attr::Float(c.float(first + 2, 1.0)?),
        Attr::Bool(c.bool(first + 1, false)?),
        Attr::Float(c.float(first, 0.0)?),
    ])
}

/// The bias, if given. Numbers of keys, which the primitive takes in its place, are for padded programs only.
fn bias<'a>(c: &Call<'a>, at: usize) -> Result<Option<V<'a>>> {
    let bias = c.optional(at)?;
    match bias.map(|bias| bias.dtype()) {
        Some(dtype) if dtype.is_int() => {
            invalid!("Expected attn_mask dtype to be bool or float, but got {dtype}")
        }
        _ => Ok(bias),
    }
}

/// `(q, k, v, bias?, dropout_p, is_causal, scale, seed, offset)` → out, logsumexp
fn forward<'a>(c: &Call<'a>) -> Outs<'a> {
    let mut operands = vec![c.tensor(0)?, c.tensor(1)?, c.tensor(2)?];
    operands.push(c.number(7, 0.0, DType::I64)?);
    operands.push(c.number(8, 0.0, DType::I64)?);
    operands.extend(bias(c, 3)?);
    c.math.ops(Op::Attention, &operands, attrs(c, 4)?)
}

/// `(grad_out, q, k, v, bias?, out, logsumexp, dropout_p, is_causal, scale, seed, offset)` → dq, dk, dv
fn backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let q = c.tensor(1)?;
    let mut operands = vec![c.tensor(0)?.cast(q.dtype()), q, c.tensor(2)?, c.tensor(3)?];
    operands.push(c.tensor(5)?);
    let statistic = if q.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    operands.push(c.tensor(6)?.cast(statistic));
    operands.push(c.number(10, 0.0, DType::I64)?);
    operands.push(c.number(11, 0.0, DType::I64)?);
    operands.extend(bias(c, 4)?);
    c.math.ops(Op::AttentionGrad, &operands, attrs(c, 7)?)
}
