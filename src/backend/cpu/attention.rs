//! Attention and its gradient, in blocks of queries: only the scores of one block exist at a time, and keys that a
//! causal block cannot see are not looked at. Forward in parallel over blocks, backward over batches and groups, each
//! with its own sums.

use super::access::Bound;
use super::gemm::{Block, Matrix, gemm};
use super::math;
use super::matmul::convert;
use super::pool::{GRAIN, Scratch, parallel_each, with_scratch};
use super::rows::{RowMath, RowOf};
use super::tile::compute::random_run;
use super::tile::element::{Brain, Half, single, store_run};
use super::tile::run::LaneType;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Attr;

/// Queries of one block.
const QUERIES: usize = 64;

/// `[b, heads, rows, width]` with dense rows.
struct Heads<'a, S> {
    data: &'a [S],
    strides: [usize; 3],
    width: usize,
}

impl<'a, S: super::access::Plain> Heads<'a, S> {
    fn new(operand: &'a Bound) -> Heads<'a, S> {
        let l = &operand.layout;
        let stride = |d: usize| l.strides[d] as usize;
        Heads {
            data: operand.covered(),
            strides: [stride(0), stride(1), stride(2)],
            width: l.sizes[3] as usize,
        }
    }

    /// One head from row `first` on.
    fn head(&self, b: usize, h: usize, first: usize) -> Matrix<'a, S> {
        let at = b * self.strides[0] + h * self.strides[1] + first * self.strides[2];
        Matrix { data: &self.data[at..], strides: (self.strides[2], 1) }
    }
}

/// What forward and backward have in common.
struct Problem<'a> {
    heads: usize,
    groups: usize,
    queries: usize,
    keys: usize,
    scale: f64,
    causal: bool,
    dropout: f64,
    seed: u64,
    offset: u64,
    bias: Option<&'a Bound>,
}

impl<'a> Problem<'a> {
    /// `rest`: seed, offset and perhaps the bias.
    fn new(q: &Bound, k: &Bound, rest: &'a [Bound], attrs: &[Attr]) -> Problem<'a> {
        let size = |b: &Bound, d: usize| b.sizes()[d] as usize;
        Problem {
            heads: size(q, 1),
            groups: size(k, 1),
            queries: size(q, 2),
            keys: size(k, 2),
            scale: attrs[0].float(),
            causal: attrs[1].bool(),
            dropout: attrs[2].float(),
            seed: single(&rest[0]).1 as u64,
            offset: single(&rest[1]).1 as u64,
            bias: rest.get(2),
        }
    }

    /// Keys that the queries before `end` may see.
    fn visible(&self, end: usize) -> usize {
        if self.causal { self.keys.min(end) } else { self.keys }
    }

    /// The scores of query `i` that it may see, with the bias added, and the rest of its row.
    fn seen<'r, L: RowMath>(
        &self,
        [b, h, i]: [usize; 3],
        row: &'r mut [L],
        room: &mut [L],
    ) -> (&'r mut [L], &'r mut [L]) {
        let end = self.visible(i + 1).min(row.len());
        let (seen, hidden) = row.split_at_mut(end);
        if let Some(bias) = self.bias {
            bias_row(bias, [b, h, i], &mut room[..end]);
            L::add(&room[..end], seen);
        }
        (seen, hidden)
    }

    /// What dropout multiplies the probabilities of a query by.
    fn keep<L: RowMath>(&self, [b, h, i]: [usize; 3], row: &mut [L]) {
        let first = ((b * self.heads + h) * self.queries + i) * self.keys;
        let kept = L::from_f64(1.0 / (1.0 - self.dropout));
        with_scratch(2 * row.len() + 8, |room: &mut [f32]| {
            let (uniform, words) = room.split_at_mut(row.len());
            random_run(self.seed, self.offset, first as u64, words, uniform);
            for (to, &u) in row.iter_mut().zip(uniform.iter()) {
                *to = if u as f64 >= self.dropout { kept } else { L::from(0.0) };
            }
        });
    }

    /// Scores of some queries, without the bias, into rows of `seen`.
    fn scores<L: RowMath>(
        &self,
        [q, k]: [Matrix<L>; 2],
        width: usize,
        seen: usize,
        scores: &mut [L],
    ) {
        gemm(width, L::from_f64(self.scale), q, k.transposed(), 0.0, &mut Block::new(scores, seen));
    }
}

/// The bias of the first keys of one query. Bool: 0 where true, else -inf.
fn bias_row<L: RowMath>(bias: &Bound, place: [usize; 3], row: &mut [L]) {
    let sizes = bias.sizes();
    let l = &bias.layout;
    let along = |d: usize| if sizes[d] == 1 { 0 } else { place[d] as i64 * l.strides[d] };
    let start = l.offset + along(0) + along(1) + along(2);
    let stride = if sizes[3] == 1 { 0 } else { l.strides[3] as usize };
    let span = (row.len() - 1) * stride + 1;
    macro_rules! fill {
        ($t:ty, |$v:ident| $e:expr) => {{
            let from = bias.slice::<$t>(start, span);
            row.iter_mut().enumerate().for_each(|(j, to)| {
                let $v = from[j * stride];
                *to = $e;
            });
        }};
    }
    match bias.dtype {
        DType::Bool => fill!(u8, |v| L::from(if v != 0 { 0.0 } else { f32::NEG_INFINITY })),
        DType::F16 => fill!(Half, |v| L::from(math::f16_to_f32(v.0))),
        DType::BF16 => fill!(Brain, |v| L::from(math::bf16_to_f32(v.0))),
        DType::F32 => fill!(f32, |v| L::from(v)),
        _ => fill!(f64, |v| L::from_f64(v)),
    }
}

/// A matrix as numbers of type `L`: where it is, or converted into `room`.
trait Panel<L>: Sized {
    fn panel<'a>(
        from: Matrix<'a, Self>,
        rows: usize,
        width: usize,
        room: &'a mut [L],
    ) -> Matrix<'a, L>;
}

macro_rules! panel {
    ($($t:ty => $l:ty, |$from:ident, $rows:ident, $width:ident, $room:ident| $e:expr;)*) => {$(
        impl Panel<$l> for $t {
            fn panel<'a>($from: Matrix<'a, $t>, $rows: usize, $width: usize, $room: &'a mut [$l]) -> Matrix<'a, $l> {
                $e
            }
        }
    )*};
}

panel! {
    f32 => f32, |from, _rows, _width, _room| from;
    f64 => f64, |from, _rows, _width, _room| from;
    Half => f32, |from, rows, width, room| convert(from, rows, width, room);
    Brain => f32, |from, rows, width, room| convert(from, rows, width, room);
}

/// Cuts pieces of the given lengths off a buffer.
fn pieces<T, const N: usize>(mut buffer: &mut [T], lengths: [usize; N]) -> [&mut [T]; N] {
    lengths.map(|n| {
        let (piece, rest) = std::mem::take(&mut buffer).split_at_mut(n);
        buffer = rest;
        piece
    })
}

pub fn attention(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    match writes[0].dtype {
        DType::F32 => forward::<f32, f32>(attrs, reads, writes),
        DType::F16 => forward::<Half, f32>(attrs, reads, writes),
        DType::BF16 => forward::<Brain, f32>(attrs, reads, writes),
        DType::F64 => forward::<f64, f64>(attrs, reads, writes),
        other => return internal!("attention of {other}"),
    }
    Ok(())
}

fn forward<S, L>(attrs: &[Attr], reads: &[Bound], writes: &[Bound])
where
    S: RowOf<L> + Panel<L>,
    L: RowMath + LaneType + Scratch,
{
    let problem = Problem::new(&reads[0], &reads[1], &reads[3..], attrs);
    let [q, k, v] = [0, 1, 2].map(|n| Heads::<S>::new(&reads[n]));
    let (queries, width) = (problem.queries, v.width);
    let out = writes[0].result::<S>().chunks_mut(queries * width);
    let lse = writes[1].result::<L>().chunks_mut(queries);
    let blocks = out.zip(lse).enumerate().flat_map(|(n, (out, lse))| {
        let blocks = out.chunks_mut(QUERIES * width).zip(lse.chunks_mut(QUERIES));
        blocks.enumerate().map(move |(block, results)| (n, block * QUERIES, results))
    });
    parallel_each(blocks, GRAIN, |(n, first, (out, lse))| {
        let place = [n / problem.heads, n % problem.heads, first];
        forward_block(&problem, [&q, &k, &v], place, out, lse);
    });
}

fn forward_block<S, L>(
    p: &Problem,
    [q, k, v]: [&Heads<S>; 3],
    place: [usize; 3],
    out: &mut [S],
    lse: &mut [L],
) where
    S: RowOf<L> + Panel<L>,
    L: RowMath + LaneType + Scratch,
{
    let [b, h, first] = place;
    let group = h / (p.heads / p.groups);
    let (count, d, e) = (lse.len(), q.width, v.width);
    let seen = p.visible(first + count);
    let lengths = [count * seen, seen, count, count * e, count * d, seen * d, seen * e];
    with_scratch(lengths.iter().sum(), |room: &mut [L]| {
        let [scores, row_room, shares, sums, q_room, k_room, v_room] = pieces(room, lengths);
        let q = S::panel(q.head(b, h, first), count, d, q_room);
        let k = S::panel(k.head(b, group, 0), seen, d, k_room);
        let v = S::panel(v.head(b, group, 0), seen, e, v_room);
        p.scores([q, k], d, seen, scores);
        for (i, row) in scores.chunks_exact_mut(seen).enumerate() {
            let (row, hidden) = p.seen([b, h, first + i], row, row_room);
            hidden.fill(L::from(0.0));
            let top = L::max(row);
            if top.to_f64() == f64::NEG_INFINITY {
                (lse[i], shares[i]) = (top, L::from(0.0));
                row.fill(L::from(0.0));
                continue;
            }
            L::exp(row, top);
            let sum = L::sum(row);
            lse[i] = L::from_f64(top.to_f64() + sum.ln());
            if p.dropout > 0.0 {
                p.keep([b, h, first + i], &mut row_room[..row.len()]);
                L::multiply(row_room, row);
            }
            shares[i] = L::from_f64(1.0 / sum);
        }
        gemm(seen, L::from(1.0), Matrix::rows(scores, seen), v, 0.0, &mut Block::new(sums, e));
        let rows = sums.chunks_exact_mut(e).zip(out.chunks_exact_mut(e));
        for ((sums, out), &share) in rows.zip(shares.iter()) {
            L::scale(sums, share);
            store_run::<S, L>(sums, out);
        }
    });
}

pub fn attention_grad(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    match writes[0].dtype {
        DType::F32 => backward::<f32, f32>(attrs, reads, writes),
        DType::F16 => backward::<Half, f32>(attrs, reads, writes),
        DType::BF16 => backward::<Brain, f32>(attrs, reads, writes),
        DType::F64 => backward::<f64, f64>(attrs, reads, writes),
        other => return internal!("attention_grad of {other}"),
    }
    Ok(())
}

/// Operands of the gradient; `out` and `dout` are over queries like q.
struct Backward<'a, S, L> {
    problem: Problem<'a>,
    dout: Heads<'a, S>,
    q: Heads<'a, S>,
    k: Heads<'a, S>,
    v: Heads<'a, S>,
    out: Heads<'a, S>,
    lse: &'a [L],
}

/// Results for one group of one batch.
struct Slopes<'a, S> {
    dq: &'a mut [S],
    dk: &'a mut [S],
    dv: &'a mut [S],
}

fn backward<S, L>(attrs: &[Attr], reads: &[Bound], writes: &[Bound])
where
    S: RowOf<L> + Panel<L>,
    L: RowMath + LaneType + Scratch,
{
    let task = Backward {
        problem: Problem::new(&reads[1], &reads[2], &reads[6..], attrs),
        dout: Heads::<S>::new(&reads[0]),
        q: Heads::new(&reads[1]),
        k: Heads::new(&reads[2]),
        v: Heads::new(&reads[3]),
        out: Heads::new(&reads[4]),
        lse: reads[5].dense::<L>(),
    };
    let p = &task.problem;
    let share = p.heads / p.groups;
    let dq = writes[0].result::<S>().chunks_mut(share * p.queries * task.q.width);
    let dk = writes[1].result::<S>().chunks_mut(p.keys * task.k.width);
    let dv = writes[2].result::<S>().chunks_mut(p.keys * task.v.width);
    parallel_each(dq.zip(dk).zip(dv).enumerate(), GRAIN, |(n, ((dq, dk), dv))| {
        task.group(n / p.groups, n % p.groups, Slopes { dq, dk, dv });
    });
}

impl<S, L> Backward<'_, S, L>
where
    S: RowOf<L> + Panel<L>,
    L: RowMath + LaneType + Scratch,
{
    fn group(&self, b: usize, g: usize, slopes: Slopes<S>) {
        let p = &self.problem;
        let (d, e, share) = (self.q.width, self.v.width, p.heads / p.groups);
        let lengths = [p.keys * d, p.keys * e, p.keys * d, p.keys * e];
        with_scratch(lengths.iter().sum(), |room: &mut [L]| {
            let [dk, dv, k_room, v_room] = pieces(room, lengths);
            dk.fill(L::from(0.0));
            dv.fill(L::from(0.0));
            let k = S::panel(self.k.head(b, g, 0), p.keys, d, k_room);
            let v = S::panel(self.v.head(b, g, 0), p.keys, e, v_room);
            for (n, dq) in slopes.dq.chunks_exact_mut(p.queries * d).enumerate() {
                for (block, dq) in dq.chunks_mut(QUERIES * d).enumerate() {
                    self.block(
                        [b, g * share + n, block * QUERIES],
                        [k, v],
                        dq,
                        [&mut *dk, &mut *dv],
                    );
                }
            }
            store_run::<S, L>(dk, slopes.dk);
            store_run::<S, L>(dv, slopes.dv);
        });
    }

    /// Writes `dq` of one block of queries and adds to `dk` and `dv`.
    fn block(
        &self,
        place: [usize; 3],
        [k, v]: [Matrix<L>; 2],
        dq: &mut [S],
        [dk, dv]: [&mut [L]; 2],
    ) {
        let p = &self.problem;
        let ([b, h, first], one, zero) = (place, L::from(1.0), L::from(0.0));
        let (d, e) = (self.q.width, self.v.width);
        let count = dq.len() / d;
        let seen = p.visible(first + count);
        let lengths =
            [count * seen, count * seen, count * d, count * d, count * e, count * e, seen];
        with_scratch(lengths.iter().sum(), |room: &mut [L]| {
            let [scores, dscores, dq_sums, q_room, dout_room, out_room, row_room] =
                pieces(room, lengths);
            let q = S::panel(self.q.head(b, h, first), count, d, q_room);
            let dout = S::panel(self.dout.head(b, h, first), count, e, dout_room);
            let out = S::panel(self.out.head(b, h, first), count, e, out_room);
            p.scores([q, k], d, seen, scores);
            gemm(e, one, dout, v.transposed(), 0.0, &mut Block::new(dscores, seen));
            let rows = scores.chunks_exact_mut(seen).zip(dscores.chunks_exact_mut(seen));
            for (i, (row, drow)) in rows.enumerate() {
                let lse = self.lse[(b * p.heads + h) * p.queries + first + i];
                let (row, hidden) = p.seen([b, h, first + i], row, row_room);
                let (drow, dhidden) = drow.split_at_mut(row.len());
                hidden.fill(zero);
                dhidden.fill(zero);
                if lse.to_f64() == f64::NEG_INFINITY {
                    row.fill(zero);
                    drow.fill(zero);
                    continue;
                }
                let delta = L::from_f64(L::dot(row_of(dout, i, e), row_of(out, i, e)));
                let scale = L::from_f64(p.scale);
                if p.dropout > 0.0 {
                    p.keep([b, h, first + i], &mut row_room[..row.len()]);
                    L::multiply(row_room, drow);
                    L::score_grad(row, drow, lse, delta, scale);
                    L::multiply(row_room, row);
                } else {
                    L::score_grad(row, drow, lse, delta, scale);
                }
            }
            let (scores, dscores) = (Matrix::rows(scores, seen), Matrix::rows(dscores, seen));
            gemm(
                count,
                one,
                scores.transposed(),
                dout,
                1.0,
                &mut Block::new(&mut dv[..seen * e], e),
            );
            gemm(count, one, dscores.transposed(), q, 1.0, &mut Block::new(&mut dk[..seen * d], d));
            gemm(seen, one, dscores, k, 0.0, &mut Block::new(dq_sums, d));
            store_run::<S, L>(dq_sums, dq);
        });
    }
}

/// Row `i` of a matrix with dense rows.
fn row_of<'a, L>(matrix: Matrix<'a, L>, i: usize, width: usize) -> &'a [L] {
    &matrix.data[i * matrix.strides.0..][..width]
}
