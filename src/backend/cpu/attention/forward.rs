//! Attention: in parallel over groups of heads, and over blocks of queries where there are few groups.

use super::super::access::Bound;
use super::super::element::{Bf16, F16, store_run};
use super::super::factor::convert;
use super::super::gemm::gemm;
use super::super::matrix::{Block, Matrix};
use super::super::pool::{GRAIN, Scratch, parallel_each, with_scratch};
use super::super::rows::{RowMath, RowOf};
use super::super::small_gemm::{Only, SmallGemm, SmallGemmElement, pitch, whole};
use super::super::thread_pool;
use super::super::tile::run::TileElement;
use super::{Heads, Problem, QUERIES, pieces};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Attr;

pub fn attention(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    match writes[0].dtype {
        DType::F32 => forward::<f32, f32>(attrs, reads, writes),
        DType::F16 => forward::<F16, f32>(attrs, reads, writes),
        DType::BF16 => forward::<Bf16, f32>(attrs, reads, writes),
        DType::F64 => forward::<f64, f64>(attrs, reads, writes),
        other => return internal!("attention of {other}"),
    }
    Ok(())
}

/// A matrix with elements of type `L`: in place, or converted into `room`.
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
    F16 => f32, |from, rows, width, room| convert(from, rows, width, room);
    Bf16 => f32, |from, rows, width, room| convert(from, rows, width, room);
}

/// Number of queries from which it pays to reorder keys and values.
const MANY: usize = 8;

/// Groups per thread that keep all threads busy to the end.
const GROUPS: usize = 4;

fn forward<S, L>(attrs: &[Attr], reads: &[Bound], writes: &[Bound])
where
    S: RowOf<L> + Panel<L>,
    L: RowMath + SmallGemmElement + TileElement + Scratch,
{
    let p = &Problem::new(&reads[0], &reads[1], &reads[3..], attrs);
    let [q, k, v] = [0, 1, 2].map(|n| Heads::<S>::new(&reads[n]));
    let (share, width) = (p.heads / p.groups, v.width);
    let out = writes[0].result::<S>().chunks_mut(share * p.queries * width);
    let lse = writes[1].result::<L>().chunks_mut(share * p.queries);
    let groups = out.zip(lse).enumerate();
    let many = groups.len() >= GROUPS * thread_pool::size();
    let of_group = |(n, (out, lse)): (usize, (&mut [S], &mut [L]))| {
        let (b, g) = (n / p.groups, n % p.groups);
        let lengths = [k.turned_len(p.keys), v.rows_len(p.keys)];
        with_scratch(lengths.iter().sum(), |room: &mut [L]| {
            let rooms = pieces(room, lengths);
            let memory = match share * p.queries < MANY {
                true => Memory::as_it_is([&k, &v], [b, g], p.keys, rooms),
                false => Memory::in_order([&k, &v], [b, g], p.keys, rooms),
            };
            let group = Group { problem: p, q: &q, width, memory };
            let heads = out.chunks_mut(p.queries * width).zip(lse.chunks_mut(p.queries));
            let blocks = heads.enumerate().flat_map(|(n, (out, lse))| {
                let blocks = out.chunks_mut(QUERIES * width).zip(lse.chunks_mut(QUERIES));
                let position = move |block: usize| [b, g * share + n, block * QUERIES];
                blocks.enumerate().map(move |(block, results)| (position(block), results))
            });
            let run = |(position, (out, lse))| group.block(position, out, lse);
            if many {
                blocks.for_each(run);
            } else {
                parallel_each(blocks, GRAIN, run);
            }
        });
    };
    if many {
        parallel_each(groups, GRAIN, of_group);
    } else {
        groups.for_each(of_group);
    }
}

/// One head of keys and values.
enum Memory<'a, L> {
    AsItIs {
        keys: Matrix<'a, L>,
        values: Matrix<'a, L>,
    },
    /// See [`Heads::transposed`] and [`Heads::rows`].
    InOrder {
        keys: &'a [L],
        values: &'a [L],
    },
}

impl<'a, L: RowMath> Memory<'a, L> {
    fn as_it_is<S: RowOf<L> + Panel<L>>(
        [k, v]: [&Heads<'a, S>; 2],
        [b, g]: [usize; 2],
        n: usize,
        [keys, values]: [&'a mut [L]; 2],
    ) -> Memory<'a, L> {
        let keys = S::panel(k.matrix([b, g, 0]), n, k.width, keys);
        Memory::AsItIs { keys, values: S::panel(v.matrix([b, g, 0]), n, v.width, values) }
    }

    fn in_order<S: RowOf<L>>(
        [k, v]: [&Heads<'a, S>; 2],
        [b, g]: [usize; 2],
        n: usize,
        [keys, values]: [&'a mut [L]; 2],
    ) -> Memory<'a, L> {
        k.transposed([b, g], n, keys);
        v.rows([b, g, 0], values);
        Memory::InOrder { keys, values }
    }
}

/// The queries that attend to one head of keys and values.
struct Group<'a, S: RowOf<L>, L: RowMath> {
    problem: &'a Problem<'a>,
    q: &'a Heads<'a, S>,
    /// Width of a value.
    width: usize,
    memory: Memory<'a, L>,
}

impl<S, L> Group<'_, S, L>
where
    S: RowOf<L>,
    L: RowMath + SmallGemmElement + TileElement + Scratch,
{
    /// Computes the results for the queries from `position` on.
    fn block(&self, position: [usize; 3], out: &mut [S], lse: &mut [L]) {
        let (p, [b, h, first], count) = (self.problem, position, lse.len());
        let (seen, width) = (p.visible(first + count), whole(self.width));
        let pitch = pitch(seen);
        let lengths = [count * pitch, pitch, count * width, self.q.rows_len(count), count];
        with_scratch(lengths.iter().sum(), |room: &mut [L]| {
            let [scores, row_room, sums, q, shares] = pieces(room, lengths);
            self.q.rows(position, q);
            let (scale, d) = (L::from_f64(p.scale), self.q.width);
            match self.memory {
                Memory::AsItIs { keys, .. } => {
                    let mut scores = Block::within(scores, pitch, count, seen);
                    let q = Matrix::rows(q, whole(d));
                    gemm(d, scale, q, keys.transposed(), 0.0, &mut scores);
                }
                Memory::InOrder { keys, .. } => {
                    p.against_keys(scale, [q, keys], d, (first, seen), scores);
                }
            }
            for (i, row) in scores.chunks_exact_mut(pitch).enumerate() {
                let position = [b, h, first + i];
                p.add_bias(position, i == 0, &mut row[..seen], row_room);
                let end = p.seen_by(first + i, seen);
                (lse[i], shares[i]) = self.soften(position, end, row, row_room);
            }
            self.average(Matrix::rows(scores, pitch), (first, seen), sums);
            let rows = sums.chunks_exact_mut(width).zip(out.chunks_exact_mut(self.width));
            for ((sums, out), &share) in rows.zip(shares.iter()) {
                let sums = &mut sums[..self.width];
                L::scale(sums, share);
                store_run::<S, L>(sums, out);
            }
        });
    }

    /// Sets rows of `sums` to the values weighted by the probabilities of the queries from `first` on.
    fn average(&self, shares: Matrix<L>, (first, seen): (usize, usize), sums: &mut [L]) {
        let width = whole(self.width);
        let (rows, one) = (sums.len() / width, L::from(1.0));
        match self.memory {
            Memory::AsItIs { values, .. } => {
                gemm(
                    seen,
                    one,
                    shares,
                    values,
                    0.0,
                    &mut Block::within(sums, width, rows, self.width),
                );
            }
            Memory::InOrder { values, .. } => {
                let task = SmallGemm {
                    a: shares,
                    b: values,
                    pitch: width,
                    rows,
                    columns: width,
                    depth: seen,
                    alpha: one,
                    add: false,
                    only: self.problem.only(Only::Left, first, 0),
                };
                L::small_gemm(task, sums, width);
            }
        }
    }

    /// Turns the first `end` scores of a query into its probabilities up to a factor, and the others into 0. Returns the
    /// logarithm of the sum of their exponentials, and the factor.
    fn soften(&self, position: [usize; 3], end: usize, row: &mut [L], room: &mut [L]) -> (L, L) {
        let (seen, hidden) = row.split_at_mut(whole(end));
        hidden.fill(L::from(0.0));
        seen[end..].fill(L::from(f32::NEG_INFINITY));
        let (top, sum) = L::soften(seen);
        if top.to_f64() == f64::NEG_INFINITY {
            seen.fill(L::from(0.0));
            return (top, L::from(0.0));
        }
        if self.problem.dropout > 0.0 {
            self.problem.keep(position, &mut room[..end]);
            L::multiply(&room[..end], &mut seen[..end]);
        }
        (L::from_f64(top.to_f64() + sum.ln()), L::from_f64(1.0 / sum))
    }
}
