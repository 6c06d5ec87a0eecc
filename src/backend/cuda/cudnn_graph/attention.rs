//! Attention and its gradient in the form that cuDNN accepts
//! (<https://docs.nvidia.com/deeplearning/cudnn/backend/latest/developer/graph-api.html>, fused flash attention): scores and
//! probabilities are virtual, so no matrix of them exists.

use super::{Fold, Id, Mode, Node, Request, column};
use crate::dtype::DType;
use crate::op::Attr;
use crate::plan::{MemRef, Operand};
use crate::shape::Layout;

/// Supported numbers of batches and heads: a grid has no more.
const MOST: std::ops::RangeInclusive<i64> = 1..=65535;
/// The widest supported heads.
const WIDEST: i64 = 256;

/// Parameters that forward and backward have in common.
struct Heads {
    dtype: DType,
    /// Sizes of the scores: `[b, h, t, s]`.
    scores: [i64; 4],
    /// Number of heads of keys and values.
    groups: i64,
    scale: f32,
    causal: bool,
}

/// `reads`: q, k, v, seed, offset and perhaps the bias; `writes`: out and lse. `None`: our own kernels compute it.
pub fn attention(attrs: &[Attr], reads: &[Operand], writes: &[Operand]) -> Option<Request> {
    let heads = Heads::new(attrs, &reads[..3], reads.get(5))?;
    lie_well(reads[..3].iter().chain(&writes[..1])).then_some(())?;
    let mut r = Request::default();
    let (q, k, v) = (r.operand(&reads[0]), r.turned(&reads[1]), r.operand(&reads[2]));
    let out = r.operand(&writes[0]);
    let lse = r.seen(&writes[1], &column(&writes[1]));
    let scale = r.number(heads.scale);
    let scores = r.matmul(q, k, &heads.scores);
    let scores = r.map(Mode::Mul, &[scores, scale]);
    let scores = heads.seen(&mut r, scores);
    let max = r.reduce(Fold::Max, scores);
    let shifted = r.map(Mode::Sub, &[scores, max]);
    let exp = r.map(Mode::Exp, &[shifted]);
    let sum = r.reduce(Fold::Sum, exp);
    let log = r.map(Mode::Log, &[sum]);
    r.map_to(Mode::Add, &[max, log], lse);
    let probabilities = r.map_as(heads.dtype, Mode::Div, &[exp, sum]);
    r.matmul_to(probabilities, v, out);
    Some(r)
}

/// `reads`: dout, q, k, v, out, lse, seed, offset and perhaps the bias; `writes`: dq, dk, dv. Sums over keys are added in
/// any order. `None`: our own kernels compute it.
pub fn attention_grad(attrs: &[Attr], reads: &[Operand], writes: &[Operand]) -> Option<Request> {
    let heads = Heads::new(attrs, &reads[1..4], reads.get(8))?;
    let Layout { offset, .. } = reads[5].layout;
    let is_packed = reads[5].layout.is_contiguous() && offset % 4 == 0;
    let lies = is_packed && lie_well(reads[..5].iter().chain(writes));
    (lies && heads.have_whole_tiles()).then_some(())?;
    let (dtype, [b, h, t, s]) = (heads.dtype, heads.scores);
    let (d, e) = (reads[1].layout.sizes[3], reads[3].layout.sizes[3]);
    let mut r = Request::default();
    r.cudnn_graph.any_order = true;
    let (dout, q) = (r.operand(&reads[0]), r.operand(&reads[1]));
    let (k, v) = (r.turned(&reads[2]), r.turned(&reads[3]));
    let out = r.operand(&reads[4]);
    let lse = r.seen(&reads[5], &column(&reads[5]));
    let [dq, dk, dv] = [0, 1, 2].map(|n: usize| r.operand(&writes[n]));
    let (scale, one) = (r.number(heads.scale), r.number(1.0));
    // The term subtracted from each row of dp: dout · out.
    let terms = r.map(Mode::Mul, &[dout, out]);
    let sum = r.reduce(Fold::Sum, terms);
    let delta = r.scratch(&[b, h, t, 1]);
    r.map_to(Mode::Mul, &[sum, one], delta);
    // Recomputes the probabilities.
    let scores = r.matmul(q, k, &heads.scores);
    let scores = r.map(Mode::Mul, &[scores, scale]);
    let shifted = r.map(Mode::Sub, &[scores, lse]);
    let shifted = heads.seen(&mut r, shifted);
    let p = r.map(Mode::Exp, &[shifted]);
    let turned = r.transpose(dtype, p);
    heads.of_groups(&mut r, turned, dout, [b, h, s, e], dv);
    let dp = r.matmul(dout, v, &heads.scores);
    let dp = r.map(Mode::Sub, &[dp, delta]);
    let ds = r.map(Mode::Mul, &[dp, p]);
    let ds = r.map(Mode::Mul, &[ds, scale]);
    let turned = r.transpose(dtype, ds);
    heads.of_groups(&mut r, turned, q, [b, h, s, d], dk);
    let keys = r.transpose(dtype, k);
    let sums = r.scratch(&[b, h, t, d]);
    r.matmul_to(ds, keys, sums);
    r.map_to(Mode::Same, &[sums], dq);
    Some(r)
}

impl Heads {
    /// `None` also with a bias: a bias may be a number of keys, and where that ends the keys, the library (9.19) ends the
    /// queries, too.
    fn new(attrs: &[Attr], qkv: &[Operand], bias: Option<&Operand>) -> Option<Heads> {
        let [q, k, v] = [0, 1, 2].map(|n: usize| &qkv[n].layout.sizes);
        let heads = Heads {
            dtype: qkv[0].dtype,
            scores: [q[0], q[1], q[2], k[2]],
            groups: k[1],
            scale: attrs[0].float() as f32,
            causal: attrs[1].bool(),
        };
        let is_taken = matches!(heads.dtype, DType::F16 | DType::BF16)
            && [q[3], v[3]].iter().all(|&width| width % 8 == 0 && width <= WIDEST)
            && heads.scores[..2].iter().all(|size| MOST.contains(size))
            // A single query has been computed wrongly by some versions (cudnn-frontend issue 1072), and a single key is
            // not supported (cuDNN 9.18's release notes).
            && q[2].min(k[2]) > 1
            && bias.is_none()
            && attrs[2].float() == 0.0;
        is_taken.then_some(heads)
    }

    /// Whether the gradient reads nothing between the last rows and the ends of the kernels' tiles, of 128 keys and 64
    /// queries: versions before 9.26 take the elements there for scores of 0, so that a query whose scores are all far below
    /// gets NaN gradients (PyTorch issue 196678, cudnn-frontend issue 1072).
    fn have_whole_tiles(&self) -> bool {
        let [_, _, t, s] = self.scores;
        let hides_end = self.causal && t <= s;
        (hides_end || s % 128 != 64) && (s % 64 != 0 || t % 64 == 0)
    }

    /// Masks the scores of keys after the query if `causal`.
    fn seen(&self, r: &mut Request, scores: Id) -> Id {
        if !self.causal {
            return scores;
        }
        // Less than any score, but finite: an infinity minus itself would be NaN.
        let nothing = r.number(f32::MIN);
        let (row, key) = (r.index(2, scores), r.index(3, scores));
        let seen = r.map_as(DType::Bool, Mode::AtLeast, &[row, key]);
        r.map(Mode::Select, &[scores, nothing, seen])
    }

    /// `to = a · b` of every head, summed over the heads that share a key.
    fn of_groups(&self, r: &mut Request, a: Id, b: Id, sizes: [i64; 4], to: Id) {
        if self.groups == sizes[1] {
            return r.matmul_to(a, b, to);
        }
        let each = r.made(self.dtype, &sizes);
        r.matmul_to(a, b, each);
        r.add(Node::Reduce { mode: Fold::Sum, x: each, y: to });
    }
}

/// Whether all are in memory, in distinct rows of 16-byte pieces.
fn lie_well<'a>(mut operands: impl Iterator<Item = &'a Operand>) -> bool {
    operands.all(|o| {
        let Layout { sizes, strides, offset } = &o.layout;
        let is_own = |d: usize| sizes[d] == 1 || strides[d] >= 8 && strides[d] % 8 == 0;
        let lies = !matches!(o.mem, MemRef::Scalar(_) | MemRef::Index);
        lies && offset % 8 == 0 && strides[3] == 1 && (0..3).all(is_own)
    })
}
