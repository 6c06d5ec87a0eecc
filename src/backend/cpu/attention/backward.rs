//! The gradient of attention: in parallel over groups of heads, each with its own sums.

use super::super::access::Bound;
use super::super::element::{Bf16, F16, store_run};
use super::super::matrix::Matrix;
use super::super::pool::{GRAIN, Scratch, parallel_each, with_scratch};
use super::super::rows::{RowMath, RowOf};
use super::super::small_gemm::{Only, SmallGemm, SmallGemmElement, pitch, whole};
use super::super::tile::run::TileElement;
use super::{Heads, Problem, QUERIES, pieces};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Attr;

pub fn attention_grad(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    match writes[0].dtype {
        DType::F32 => backward::<f32, f32>(attrs, reads, writes),
        DType::F16 => backward::<F16, f32>(attrs, reads, writes),
        DType::BF16 => backward::<Bf16, f32>(attrs, reads, writes),
        DType::F64 => backward::<f64, f64>(attrs, reads, writes),
        other => return internal!("attention_grad of {other}"),
    }
    Ok(())
}

/// Operands of the gradient; `out` and `dout` are over queries like q.
struct Backward<'a, S: RowOf<L>, L: RowMath> {
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

/// Shared by the blocks of queries of a group: keys as rows and transposed, values transposed.
#[derive(Clone, Copy)]
struct Group<'a, L> {
    keys: &'a [L],
    keys_turned: &'a [L],
    values_turned: &'a [L],
}

fn backward<S, L>(attrs: &[Attr], reads: &[Bound], writes: &[Bound])
where
    S: RowOf<L>,
    L: RowMath + SmallGemmElement + TileElement + Scratch,
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
    S: RowOf<L>,
    L: RowMath + SmallGemmElement + TileElement + Scratch,
{
    fn group(&self, b: usize, g: usize, slopes: Slopes<S>) {
        let (p, k, v) = (&self.problem, &self.k, &self.v);
        let share = p.heads / p.groups;
        let rows = [k.rows_len(p.keys), v.rows_len(p.keys)];
        let lengths = [rows[0], rows[1], rows[0], k.turned_len(p.keys), v.turned_len(p.keys)];
        with_scratch(lengths.iter().sum(), |room: &mut [L]| {
            let [dk, dv, keys, keys_turned, values_turned] = pieces(room, lengths);
            dk.fill(L::from(0.0));
            dv.fill(L::from(0.0));
            k.rows([b, g, 0], keys);
            k.transposed([b, g], p.keys, keys_turned);
            v.transposed([b, g], p.keys, values_turned);
            let group = Group { keys, keys_turned, values_turned };
            for (n, dq) in slopes.dq.chunks_exact_mut(p.queries * k.width).enumerate() {
                for (block, dq) in dq.chunks_mut(QUERIES * k.width).enumerate() {
                    let position = [b, g * share + n, block * QUERIES];
                    self.block(position, group, dq, [&mut *dk, &mut *dv]);
                }
            }
            store_rows(dk, k.width, slopes.dk);
            store_rows(dv, v.width, slopes.dv);
        });
    }

    /// Writes `dq` of one block of queries and adds to `dk` and `dv`.
    fn block(&self, position: [usize; 3], group: Group<L>, dq: &mut [S], [dk, dv]: [&mut [L]; 2]) {
        let (p, [_, _, first], one) = (&self.problem, position, L::from(1.0));
        let (d, e) = (self.q.width, self.v.width);
        let count = dq.len() / d;
        let seen = p.visible(first + count);
        let pitch = pitch(seen);
        let q_len = self.q.rows_len(count);
        let dout_len = self.dout.rows_len(count);
        // Scores and their gradients are read and written together, so the 512 elements keep them at different places of a page.
        let lengths = [count * pitch, q_len, q_len, dout_len, pitch, whole(e), 512, count * pitch];
        with_scratch(lengths.iter().sum(), |room: &mut [L]| {
            let [scores, dq_sums, q, dout, row_room, out_room, _, dscores] = pieces(room, lengths);
            self.q.rows(position, q);
            self.dout.rows(position, dout);
            let scale = L::from_f64(p.scale);
            p.against_keys(scale, [q, group.keys_turned], d, (first, seen), scores);
            p.against_keys(one, [dout, group.values_turned], e, (first, seen), dscores);
            self.slopes(position, [scores, dscores], dout, [row_room, out_room]);
            let of_keys = |a, b, width: usize| SmallGemm {
                a: Matrix { data: a, strides: (1, pitch) },
                b,
                pitch: whole(width),
                rows: seen,
                columns: whole(width),
                depth: count,
                alpha: one,
                add: true,
                only: p.only(Only::Right, first, 0),
            };
            L::small_gemm(of_keys(scores, dout, e), dv, whole(e));
            L::small_gemm(of_keys(dscores, q, d), dk, whole(d));
            let of_queries = SmallGemm {
                a: Matrix::rows(dscores, pitch),
                b: group.keys,
                pitch: whole(d),
                rows: count,
                columns: whole(d),
                depth: seen,
                alpha: one,
                add: false,
                only: p.only(Only::Left, first, 0),
            };
            L::small_gemm(of_queries, dq_sums, whole(d));
            store_rows(dq_sums, d, dq);
        });
    }

    /// Turns the scores into probabilities, and the gradients of the probabilities into those of the scores.
    fn slopes(
        &self,
        [b, h, first]: [usize; 3],
        [scores, dscores]: [&mut [L]; 2],
        dout: &[L],
        [room, out_room]: [&mut [L]; 2],
    ) {
        let (p, zero, scale) = (&self.problem, L::from(0.0), L::from_f64(self.problem.scale));
        let pitch = room.len();
        let count = scores.len() / pitch;
        let seen = p.visible(first + count);
        let rows = scores.chunks_exact_mut(pitch).zip(dscores.chunks_exact_mut(pitch));
        for (i, (row, drow)) in rows.enumerate() {
            let position = [b, h, first + i];
            let lse = self.lse[(b * p.heads + h) * p.queries + first + i];
            p.add_bias(position, i == 0, &mut row[..seen], room);
            let end = p.seen_by(first + i, seen);
            let (row, hidden) = row.split_at_mut(end);
            let (drow, dhidden) = drow.split_at_mut(end);
            hidden.fill(zero);
            dhidden.fill(zero);
            if lse.to_f64() == f64::NEG_INFINITY {
                row.fill(zero);
                drow.fill(zero);
                continue;
            }
            let out = S::read(self.out.row(position), out_room);
            let delta = L::from_f64(L::dot(&dout[i * whole(out.len())..][..out.len()], out));
            if p.dropout > 0.0 {
                p.keep(position, &mut room[..end]);
                L::multiply(&room[..end], drow);
                L::score_grad(row, drow, lse, delta, scale);
                L::multiply(&room[..end], row);
            } else {
                L::score_grad(row, drow, lse, delta, scale);
            }
        }
    }
}

/// Converts rows of `width` elements, which are padded to whole vectors in `from`, and stores them densely.
fn store_rows<S: RowOf<L>, L: RowMath>(from: &[L], width: usize, to: &mut [S]) {
    for (from, to) in from.chunks_exact(whole(width)).zip(to.chunks_exact_mut(width)) {
        store_run::<S, L>(&from[..width], to);
    }
}
