//! Scaled dot product attention and its gradient. Query head `h` reads key and value head `h / (heads / groups)`.
//! A bias of floats is added to the scores; with one of bools, queries see the keys where it is true; and one i32 a batch,
//! or one for all, is the number of keys that they see, at least one.

use super::{maximum, statistic};
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use crate::op::array::{Array, filled};
use crate::op::{Attr, Eval, Ty, Tys, check, leaf, philox};
use smallvec::smallvec;

pub const ATTENTION: Eval = Eval::Whole(attention);
pub const ATTENTION_GRAD: Eval = Eval::Whole(attention_grad);

// ---- types

fn check_attrs(attrs: &[Attr]) -> Result<()> {
    let [Attr::Float(_), Attr::Bool(_), Attr::Float(dropout)] = attrs else {
        return check::wrong_attrs("scale: float, causal: bool, dropout: float", attrs);
    };
    if !(0.0..=1.0).contains(dropout) {
        return invalid!("dropout probability has to be between 0 and 1, but got {dropout}");
    }
    Ok(())
}

/// `q[b,h,t,d]`, `k[b,g,s,d]`, `v[b,g,s,e]`, and the bias, whose dimensions are those of `[b,h,t,s]` or 1.
fn check_heads(q: &Ty, k: &Ty, v: &Ty, bias: Option<&&Ty>) -> Result<()> {
    check::float(q.dtype)?;
    for (ty, what) in [(q, "query"), (k, "key"), (v, "value")] {
        check::rank(ty, 4, what)?;
        check::same_dtype(q, ty)?;
    }
    let (batch, heads, groups) = (q.sizes[0], q.sizes[1], k.sizes[1]);
    check::sizes(k, &[batch, groups, k.sizes[2], q.sizes[3]], "key")?;
    check::sizes(v, &[batch, groups, k.sizes[2], v.sizes[3]], "value")?;
    if heads != groups && (groups == 0 || heads % groups != 0) {
        return invalid!(
            "Number of heads in key and value must divide the number of heads in query, but got {groups} and {heads}"
        );
    }
    let Some(bias) = bias else {
        return Ok(());
    };
    let full = [batch, heads, q.sizes[2], k.sizes[2]];
    check::rank(bias, 4, "attn_mask")?;
    if bias.sizes.iter().zip(full).any(|(&b, f)| b != f && b != 1) {
        return invalid!("attn_mask of sizes {:?} cannot be broadcast to {full:?}", bias.sizes);
    }
    match bias.dtype {
        DType::I32 => check::sizes(bias, &[bias.sizes[0], 1, 1, 1], "the number of keys"),
        DType::Bool => Ok(()),
        dtype if dtype.is_float() => Ok(()),
        other => invalid!("Expected attn_mask dtype to be bool or float, but got {other}"),
    }
}

pub fn attention_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    check_attrs(attrs)?;
    let [q, k, v, seed, offset, bias @ ..] = inputs else {
        return check::wrong_operands("q, k, v, seed, offset, bias?", inputs);
    };
    if bias.len() > 1 {
        return check::wrong_operands("q, k, v, seed, offset, bias?", inputs);
    }
    check_heads(q, k, v, bias.first())?;
    leaf::check_seed(seed, offset)?;
    let out = check::ty(q.dtype, &[q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]])?;
    Ok(smallvec![out, check::ty(statistic(q.dtype), &q.sizes[..3])?])
}

pub fn attention_grad_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [dout, q, k, v, out, lse, rest @ ..] = inputs else {
        return check::wrong_operands("dout, q, k, v, out, lse, seed, offset, bias?", inputs);
    };
    let mut forward = vec![*q, *k, *v];
    forward.extend_from_slice(rest);
    let results = attention_type(&forward, attrs)?;
    for (ty, want, what) in [(dout, 0, "dout"), (out, 0, "out"), (lse, 1, "lse")] {
        check::dtype(ty, results[want].dtype, what)?;
        check::sizes(ty, &results[want].sizes, what)?;
    }
    Ok(smallvec![(*q).clone(), (*k).clone(), (*v).clone()])
}

// ---- cost

/// Operations of `of_d` products of `[t, d]` matrices and `of_e` ones of `[t, e]` matrices with `[s, …]` ones, for all heads.
fn products(q: &Ty, k: &Ty, v: &Ty, of_d: u64, of_e: u64) -> u64 {
    let points = q.sizes[..3].iter().fold(k.sizes[2] as u64, |n, &s| n.saturating_mul(s as u64));
    let width = |count: u64, ty: &Ty| count.saturating_mul(ty.sizes[3] as u64);
    2u64.saturating_mul(points).saturating_mul(width(of_d, q).saturating_add(width(of_e, v)))
}

pub fn attention_flops(inputs: &[&Ty], _: &[Ty]) -> u64 {
    products(inputs[0], inputs[1], inputs[2], 1, 1)
}

/// The scores again, dq and dk; dv and the gradient of the probabilities.
pub fn attention_grad_flops(inputs: &[&Ty], _: &[Ty]) -> u64 {
    products(inputs[1], inputs[2], inputs[3], 3, 2)
}

// ---- meanings

/// The operands of the forward node and how a query reads them.
struct View<'a> {
    q: &'a Array,
    k: &'a Array,
    v: &'a Array,
    seed: u64,
    offset: u64,
    bias: Option<&'a Array>,
    scale: f64,
    causal: bool,
    dropout: f64,
    heads: usize,
    queries: usize,
    keys: usize,
    width: usize,
    value_width: usize,
    share: usize,
}

/// A query: batch, head, row.
type Query = (usize, usize, usize);

impl<'a> View<'a> {
    fn new(qkv: &[&'a Array], rest: &[&'a Array], attrs: &[Attr]) -> View<'a> {
        let (q, k, v) = (qkv[0], qkv[1], qkv[2]);
        let size = |a: &Array, d: usize| a.ty.sizes[d] as usize;
        View {
            q,
            k,
            v,
            seed: rest[0].i64(0) as u64,
            offset: rest[1].i64(0) as u64,
            bias: rest.get(2).copied(),
            scale: attrs[0].float(),
            causal: attrs[1].bool(),
            dropout: attrs[2].float(),
            heads: size(q, 1),
            queries: size(q, 2),
            keys: size(k, 2),
            width: size(q, 3),
            value_width: size(v, 3),
            share: size(q, 1) / size(k, 1).max(1),
        }
    }

    fn all_queries(&self) -> impl Iterator<Item = Query> + use<> {
        let (heads, queries) = (self.heads, self.queries);
        let n = self.q.ty.sizes[0] as usize * heads * queries;
        (0..n).map(move |i| (i / queries / heads, i / queries % heads, i % queries))
    }

    /// Number of a query among all of them.
    fn row(&self, (b, h, i): Query) -> usize {
        (b * self.heads + h) * self.queries + i
    }

    /// Number of key (and value) row `j` that a query reads.
    fn key_row(&self, (b, h, _): Query, j: usize) -> usize {
        let groups = self.k.ty.sizes[1] as usize;
        (b * groups + h / self.share) * self.keys + j
    }

    /// The term added to the score; `-inf` where the query must not see the key.
    fn bias(&self, (b, h, i): Query, j: usize) -> f64 {
        if self.causal && j > i {
            return f64::NEG_INFINITY;
        }
        let Some(bias) = self.bias else {
            return 0.0;
        };
        let place = [b, h, i, j]
            .iter()
            .zip(&bias.ty.sizes)
            .fold(0, |flat, (&at, &size)| flat * size as usize + if size == 1 { 0 } else { at });
        match bias.ty.dtype {
            DType::Bool if bias.i64(place) != 0 => 0.0,
            DType::I32 if (j as i64) < bias.i64(place) => 0.0,
            DType::Bool | DType::I32 => f64::NEG_INFINITY,
            _ => bias.f64(place),
        }
    }

    fn scores(&self, query: Query) -> Vec<f64> {
        let from = self.row(query) * self.width;
        let score = |j: usize| {
            let bias = self.bias(query, j);
            if bias == f64::NEG_INFINITY {
                return bias;
            }
            let to = self.key_row(query, j) * self.width;
            let dot: f64 = (0..self.width).map(|c| self.q.f64(from + c) * self.k.f64(to + c)).sum();
            self.scale * dot + bias
        };
        (0..self.keys).map(score).collect()
    }

    /// Dropout's factor of a probability.
    fn keep(&self, query: Query, j: usize) -> f64 {
        let index = self.row(query) * self.keys + j;
        if self.dropout == 0.0 {
            return 1.0;
        }
        let kept =
            f64::from(philox::drawn::<f32>(self.seed, self.offset, index as u64)) >= self.dropout;
        if kept { 1.0 / (1.0 - self.dropout) } else { 0.0 }
    }
}

fn attention(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let view = View::new(&x[..3], &x[3..], attrs);
    let (mut out, mut lse) = (Array::zeros(&outs[0]), Array::zeros(&outs[1]));
    for query in view.all_queries() {
        let row = view.row(query);
        let scores = view.scores(query);
        let top = maximum(&scores);
        if top == f64::NEG_INFINITY {
            lse.set_f64(row, top);
            continue;
        }
        let exps: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let sum: f64 = exps.iter().sum();
        lse.set_f64(row, top + sum.ln());
        for e in 0..view.value_width {
            let term = |j: usize| match exps[j] {
                0.0 => 0.0,
                p => {
                    p / sum
                        * view.keep(query, j)
                        * view.v.f64(view.key_row(query, j) * view.value_width + e)
                }
            };
            out.set_f64(row * view.value_width + e, (0..view.keys).map(term).sum());
        }
    }
    Ok(vec![out, lse])
}

fn attention_grad(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let view = View::new(&x[1..4], &x[6..], attrs);
    let (dout, out, lse) = (x[0], x[4], x[5]);
    let (d, e) = (view.width, view.value_width);
    let mut dq = filled(0.0, view.q.len());
    let (mut dk, mut dv) = (filled(0.0, view.k.len()), filled(0.0, view.v.len()));
    for query in view.all_queries() {
        let row = view.row(query);
        let delta: f64 = (0..e).map(|c| dout.f64(row * e + c) * out.f64(row * e + c)).sum();
        for (j, score) in view.scores(query).into_iter().enumerate() {
            if score == f64::NEG_INFINITY {
                continue;
            }
            let key = view.key_row(query, j);
            let (p, keep) = ((score - lse.f64(row)).exp(), view.keep(query, j));
            let along: f64 = (0..e).map(|c| dout.f64(row * e + c) * view.v.f64(key * e + c)).sum();
            let dscore = p * (along * keep - delta) * view.scale;
            (0..e).for_each(|c| dv[key * e + c] += p * keep * dout.f64(row * e + c));
            (0..d).for_each(|c| dq[row * d + c] += dscore * view.k.f64(key * d + c));
            (0..d).for_each(|c| dk[key * d + c] += dscore * view.q.f64(row * d + c));
        }
    }
    let arrays = outs.iter().zip([dq, dk, dv]);
    Ok(arrays.map(|(ty, values)| Array::from_f64(ty.dtype, &ty.sizes, &values)).collect())
}
