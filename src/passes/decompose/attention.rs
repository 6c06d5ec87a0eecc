//! Attention and its gradient, with the whole `[b,h,t,s]` matrix of probabilities.

use super::{along_row, number, wide, with_column};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Builder, ValueId};
use crate::op::{Attr, Op};
use crate::passes::rebuild::Values;
use crate::shape::Dims;
use smallvec::smallvec;

const SWAP: [i64; 4] = [0, 1, 3, 2];

/// The operands, in the dtype they are computed in; keys and values repeated for every query head.
struct Heads {
    q: ValueId,
    k: ValueId,
    v: ValueId,
    /// `[b,h,t,s]`
    sizes: Dims,
    /// Dropout's factors of the probabilities, `[b,h,t,s]`.
    kept: Option<ValueId>,
    scale: f64,
}

/// `[b,g,s,d]` → `[b,h,s,d]`: head `h` uses group `h / (heads / groups)`.
fn repeat_groups(b: &mut Builder, x: ValueId, heads: i64) -> Result<ValueId> {
    let [batch, groups, rows, width] = b.ty(x).sizes[..] else {
        return crate::internal!("attention over {}", b.ty(x));
    };
    let alone = b.reshape(x, &[batch, groups, 1, rows, width])?;
    let repeated = b.broadcast(alone, &[batch, groups, heads / groups.max(1), rows, width])?;
    b.reshape(repeated, &[batch, heads, rows, width])
}

/// Sums over the repetitions of [`repeat_groups`].
fn sum_groups(b: &mut Builder, x: ValueId, groups: i64) -> Result<ValueId> {
    let [batch, heads, rows, width] = b.ty(x).sizes[..] else {
        return crate::internal!("attention over {}", b.ty(x));
    };
    if heads == groups {
        return Ok(x);
    }
    let split = b.reshape(x, &[batch, groups, heads / groups.max(1), rows, width])?;
    b.reduce(Op::Sum, split, &[2], false)
}

impl Heads {
    fn new(b: &mut Builder, qkv: &[ValueId], seed: &[ValueId], attrs: &[Attr]) -> Result<Heads> {
        let q = wide(b, qkv[0])?;
        let [batch, heads, queries, _] = b.ty(q).sizes[..] else {
            return crate::internal!("attention over {}", b.ty(q));
        };
        let (k, v) = (wide(b, qkv[1])?, wide(b, qkv[2])?);
        let sizes: Dims = smallvec![batch, heads, queries, b.ty(k).sizes[2]];
        let kept = kept(b, seed, attrs[2].float(), &sizes, b.ty(q).dtype)?;
        let (k, v) = (repeat_groups(b, k, heads)?, repeat_groups(b, v, heads)?);
        Ok(Heads { q, k, v, sizes, kept, scale: attrs[0].float() })
    }

    /// scale·q·kᵀ + bias, -inf where a query must not see a key. `[b,h,t,s]`
    fn scores(&self, b: &mut Builder, bias: Option<ValueId>, causal: bool) -> Result<ValueId> {
        let turned = b.transpose(self.k, &SWAP)?;
        let products = b.matmul(self.q, turned)?;
        let scale = number(b, self.scale, products)?;
        let mut scores = b.binary(Op::Mul, products, scale)?;
        let hidden = number(b, f64::NEG_INFINITY, scores)?;
        if let Some(bias) = bias {
            let bias = b.broadcast(bias, &self.sizes)?;
            scores = match b.ty(bias).dtype {
                DType::Bool => b.select(bias, scores, hidden)?,
                DType::I32 => {
                    let key = self.places(b, 3)?;
                    let seen = b.binary(Op::Lt, key, bias)?;
                    b.select(seen, scores, hidden)?
                }
                _ => {
                    let bias = b.cast(bias, b.ty(scores).dtype)?;
                    b.binary(Op::Add, scores, bias)?
                }
            };
        }
        if causal {
            let (query, key) = (self.places(b, 2)?, self.places(b, 3)?);
            let seen = b.binary(Op::Le, key, query)?;
            scores = b.select(seen, scores, hidden)?;
        }
        Ok(scores)
    }

    /// The index of a score along a dimension. `[b,h,t,s]`
    fn places(&self, b: &mut Builder, dim: i64) -> Result<ValueId> {
        let attrs =
            smallvec![Attr::Ints(self.sizes.clone()), Attr::Int(dim), Attr::DType(DType::I32)];
        b.op(Op::Iota, &[], attrs)
    }

    fn drop_out(&self, b: &mut Builder, x: ValueId) -> Result<ValueId> {
        match self.kept {
            Some(kept) => b.binary(Op::Mul, x, kept),
            None => Ok(x),
        }
    }
}

/// 1/(1-p) where a probability is kept, 0 where it is dropped.
fn kept(
    b: &mut Builder,
    seed: &[ValueId],
    dropout: f64,
    sizes: &Dims,
    dtype: DType,
) -> Result<Option<ValueId>> {
    if dropout == 0.0 {
        return Ok(None);
    }
    let random = b.op(Op::Random, &seed[..2], smallvec![Attr::Ints(sizes.clone())])?;
    // Random numbers are multiples of 2^-24: rounding p up to one changes no comparison, and makes it an f32.
    let grid = (1u32 << 24) as f64;
    let threshold = number(b, (dropout * grid).ceil() / grid, random)?;
    let is_kept = b.binary(Op::Ge, random, threshold)?;
    let one = b.constant(1.0 / (1.0 - dropout), dtype)?;
    let zero = b.constant(0.0, dtype)?;
    let (one, zero) = (b.broadcast(one, sizes)?, b.broadcast(zero, sizes)?);
    b.select(is_kept, one, zero).map(Some)
}

/// `to` where `a` equals `from`, else `a`.
fn replace(b: &mut Builder, a: ValueId, from: f64, to: f64) -> Result<ValueId> {
    let (from, to) = (number(b, from, a)?, number(b, to, a)?);
    let equal = b.binary(Op::Eq, a, from)?;
    b.select(equal, to, a)
}

/// Zeros in the dtype and sizes of every value.
fn zeros(b: &mut Builder, like: &[ValueId]) -> Result<Values> {
    like.iter().map(|&v| number(b, 0.0, v)).collect()
}

pub fn attention(b: &mut Builder, inputs: &[ValueId], attrs: &[Attr]) -> Result<Values> {
    let dtype = b.ty(inputs[0]).dtype;
    let heads = Heads::new(b, &inputs[..3], &inputs[3..5], attrs)?;
    let of_row = heads.sizes[..3].to_vec();
    if heads.sizes[3] == 0 {
        return nothing_to_see(b, inputs, &heads);
    }
    let scores = heads.scores(b, inputs.get(5).copied(), attrs[1].bool())?;
    let top = along_row(b, Op::ReduceMax, scores)?;
    // For a row that sees no key: exp(-inf - 0) = 0 everywhere, where -inf - -inf would be NaN.
    let top = replace(b, top, f64::NEG_INFINITY, 0.0)?;
    let below = with_column(b, Op::Sub, scores, top)?;
    let exps = b.unary(Op::Exp, below)?;
    let sum = along_row(b, Op::Sum, exps)?;
    let log = b.unary(Op::Log, sum)?;
    let lse = b.binary(Op::Add, top, log)?;
    let divisor = replace(b, sum, 0.0, 1.0)?;
    let probabilities = with_column(b, Op::Div, exps, divisor)?;
    let probabilities = heads.drop_out(b, probabilities)?;
    let out = b.matmul(probabilities, heads.v)?;
    Ok(Values::from_slice(&[b.cast(out, dtype)?, b.reshape(lse, &of_row)?]))
}

/// No keys at all: out 0, lse -inf.
fn nothing_to_see(b: &mut Builder, inputs: &[ValueId], heads: &Heads) -> Result<Values> {
    let (q, v) = (b.ty(inputs[0]).clone(), b.ty(inputs[2]).clone());
    let zero = b.constant(0.0, q.dtype)?;
    let out = b.broadcast(zero, &[q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]])?;
    let nothing = b.constant(f64::NEG_INFINITY, b.ty(heads.q).dtype)?;
    Ok(Values::from_slice(&[out, b.broadcast(nothing, &q.sizes[..3])?]))
}

/// With P the probabilities (from lse), K dropout's factors and dA = dout·vᵀ: dv = (P·K)ᵀ·dout,
/// dS = P·(dA·K - Σ dout·out), dq = scale·dS·k, dk = scale·dSᵀ·q.
pub fn attention_grad(b: &mut Builder, inputs: &[ValueId], attrs: &[Attr]) -> Result<Values> {
    let &[dout, q, k, v, out, lse, seed, offset, ..] = inputs else {
        return crate::internal!("attention_grad takes at least 8 operands");
    };
    let heads = Heads::new(b, &[q, k, v], &[seed, offset], attrs)?;
    if heads.sizes[3] == 0 {
        return zeros(b, &[q, k, v]);
    }
    let column = [heads.sizes[0], heads.sizes[1], heads.sizes[2], 1];
    let (dout, out) = (wide(b, dout)?, wide(b, out)?);
    let scores = heads.scores(b, inputs.get(8).copied(), attrs[1].bool())?;
    let lse = b.reshape(lse, &column)?;
    let lse = replace(b, lse, f64::NEG_INFINITY, 0.0)?;
    let below = with_column(b, Op::Sub, scores, lse)?;
    let probabilities = b.unary(Op::Exp, below)?;

    let dropped = heads.drop_out(b, probabilities)?;
    let turned = b.transpose(dropped, &SWAP)?;
    let dv = b.matmul(turned, dout)?;

    let turned = b.transpose(heads.v, &SWAP)?;
    let along = b.matmul(dout, turned)?;
    let along = heads.drop_out(b, along)?;
    let product = b.binary(Op::Mul, dout, out)?;
    let delta = along_row(b, Op::Sum, product)?;
    let rest = with_column(b, Op::Sub, along, delta)?;
    let dscores = b.binary(Op::Mul, probabilities, rest)?;
    let scale = number(b, heads.scale, dscores)?;
    let dscores = b.binary(Op::Mul, dscores, scale)?;
    let dq = b.matmul(dscores, heads.k)?;
    let turned = b.transpose(dscores, &SWAP)?;
    let dk = b.matmul(turned, heads.q)?;

    let groups = b.ty(k).sizes[1];
    let (dk, dv) = (sum_groups(b, dk, groups)?, sum_groups(b, dv, groups)?);
    let results = [(dq, q), (dk, k), (dv, v)];
    results.into_iter().map(|(x, like)| b.cast(x, b.ty(like).dtype)).collect()
}
