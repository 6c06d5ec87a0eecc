//! Attention and its gradient, in blocks of queries: only the scores of one block exist at a time, and keys that a
//! causal block cannot see are skipped. The keys and values that a group of heads shares are brought into the order that
//! products need once for all of its blocks.

mod backward;
mod forward;

pub use backward::attention_grad;
pub use forward::attention;

use super::access::Bound;
use super::element::{Bf16, F16, Stored, Transposable, load_turned, single};
use super::isa::{Kernel, run};
use super::matrix::Matrix;
use super::pool::{Scratch, with_scratch};
use super::rows::RowMath;
use super::small_gemm::{Only, PANEL, SmallGemm, SmallGemmElement, pitch, whole};
use super::tile::compute::random_run;
use super::vector::Vector;
use super::vector::math;
use crate::dtype::DType;
use crate::op::Attr;

/// Queries of one block.
const QUERIES: usize = 64;

/// `[b, heads, rows, width]` with dense rows.
struct Heads<'a, S: Transposable> {
    data: &'a [S],
    bits: &'a [S::Bits],
    strides: [usize; 3],
    width: usize,
}

impl<'a, S: Transposable> Heads<'a, S> {
    fn new(operand: &'a Bound) -> Heads<'a, S> {
        let l = &operand.layout;
        let stride = |d: usize| l.strides[d] as usize;
        Heads {
            data: operand.covered(),
            bits: operand.covered(),
            strides: [stride(0), stride(1), stride(2)],
            width: l.sizes[3] as usize,
        }
    }

    /// The offset of row `i` of a head.
    fn position(&self, [b, h, i]: [usize; 3]) -> usize {
        b * self.strides[0] + h * self.strides[1] + i * self.strides[2]
    }

    /// A head from row `i` on.
    fn matrix(&self, position: [usize; 3]) -> Matrix<'a, S> {
        Matrix { data: &self.data[self.position(position)..], strides: (self.strides[2], 1) }
    }

    fn row(&self, position: [usize; 3]) -> &'a [S] {
        &self.data[self.position(position)..][..self.width]
    }

    /// Number of elements of `n` rows in the order of [`Heads::rows`].
    fn rows_len(&self, n: usize) -> usize {
        n * whole(self.width)
    }

    /// Loads as many rows of a head from `position` on as fit into `to`, `whole(width)` apart; 0 between them.
    fn rows<L: Copy + Default>(&self, position: [usize; 3], to: &mut [L])
    where
        S: Stored<L>,
    {
        let [_, next, stride] = self.strides;
        let from = &self.data[self.position(position)..];
        run(LoadRows { from, stride, width: self.width, next, to });
    }

    /// Number of elements of `n` rows in the order of [`Heads::transposed`].
    fn turned_len(&self, n: usize) -> usize {
        n.next_multiple_of(PANEL) * self.width
    }

    /// Loads the first `n` rows of a head as columns, in panels of [`PANEL`] dense ones; the last panel is padded with 0.
    fn transposed<L: Scratch>(&self, [b, h]: [usize; 2], n: usize, to: &mut [L])
    where
        S: Stored<L>,
    {
        let stride = self.strides[2];
        for (panel, to) in to.chunks_exact_mut(PANEL * self.width).enumerate() {
            let first = panel * PANEL;
            if first + PANEL <= n {
                load_turned::<S, L>(
                    &self.bits[self.position([b, h, first])..],
                    stride,
                    self.width,
                    to,
                );
                continue;
            }
            let columns = n - first;
            with_scratch(columns * self.width, |dense: &mut [L]| {
                let from = &self.bits[self.position([b, h, first])..];
                load_turned::<S, L>(from, stride, self.width, dense);
                for (to, from) in to.chunks_exact_mut(PANEL).zip(dense.chunks_exact(columns)) {
                    to[..columns].copy_from_slice(from);
                    to[columns..].fill(L::default());
                }
            });
        }
    }
}

/// See [`Heads::rows`]. Also prefetches the same rows of the next head: this thread most likely needs them next, and they
/// are too far apart for the processor to predict.
struct LoadRows<'a, S, L> {
    from: &'a [S],
    stride: usize,
    width: usize,
    next: usize,
    to: &'a mut [L],
}

impl<S: Stored<L>, L: Copy + Default> Kernel for LoadRows<'_, S, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        let LoadRows { from, stride, width, next, to } = self;
        for (i, to) in to.chunks_exact_mut(whole(width)).enumerate() {
            let from = &from[i * stride..][..width];
            for at in (0..width).step_by(LINE / size_of::<S>()) {
                V::prefetch(from.as_ptr().wrapping_add(next + at));
            }
            let (to, between) = to.split_at_mut(width);
            for (to, from) in to.iter_mut().zip(from) {
                *to = from.load();
            }
            between.fill(L::default());
        }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// The state that forward and backward share.
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
    /// `rest`: seed, offset and optionally the bias.
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

    /// Number of keys that the queries before `end` may see.
    fn visible(&self, end: usize) -> usize {
        if self.causal { self.keys.min(end) } else { self.keys }
    }

    /// Number of keys that a query may see, of those before `seen`.
    fn seen_by(&self, query: usize, seen: usize) -> usize {
        self.visible(query + 1).min(seen)
    }

    /// Causality as the [`Only`] of products whose rows are the queries from `first` on, and whose columns are the keys from
    /// `key` on.
    fn only(&self, only: fn(isize) -> Only, first: usize, key: usize) -> Only {
        if self.causal { only(first as isize + 1 - key as isize) } else { Only::All }
    }

    /// `c = alpha a b`, [queries, keys], where `a` has the rows of the queries from `first` on and `b` is [`Heads::transposed`].
    fn against_keys<L: SmallGemmElement>(
        &self,
        alpha: L,
        [a, b]: [&[L]; 2],
        width: usize,
        (first, seen): (usize, usize),
        c: &mut [L],
    ) {
        let rows = c.len() / pitch(seen);
        for key in (0..seen).step_by(PANEL) {
            let task = SmallGemm {
                a: Matrix::rows(a, whole(width)),
                b: &b[key * width..],
                pitch: PANEL,
                rows,
                columns: PANEL.min(whole(seen) - key),
                depth: width,
                alpha,
                add: false,
                only: self.only(Only::Below, first, key),
            };
            L::small_gemm(task, &mut c[key..], pitch(seen));
        }
    }

    /// Adds the bias to the scores of a query. `room` is for the bias; unless this is the `first` query, it holds the bias of
    /// the previous one.
    fn add_bias<L: RowMath>(
        &self,
        position: [usize; 3],
        first: bool,
        row: &mut [L],
        room: &mut [L],
    ) {
        let Some(bias) = self.bias else { return };
        let room = &mut room[..row.len()];
        // Dropout also overwrites `room`.
        let varies = bias.sizes()[2] != 1 && bias.layout.strides[2] != 0;
        if first || varies || self.dropout > 0.0 {
            bias_row(bias, position, room);
        }
        L::add(room, row);
    }

    /// The factors by which dropout multiplies the probabilities of a query.
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
}

/// The bias of a query for the first keys. A count of visible keys or a mask means 0 for visible keys and -inf for others.
fn bias_row<L: RowMath>(bias: &Bound, position: [usize; 3], row: &mut [L]) {
    let sizes = bias.sizes();
    let l = &bias.layout;
    let along = |d: usize| if sizes[d] == 1 { 0 } else { position[d] as i64 * l.strides[d] };
    let start = l.offset + along(0) + along(1) + along(2);
    let stride = if sizes[3] == 1 { 0 } else { l.strides[3] as usize };
    let span = (row.len() - 1) * stride + 1;
    macro_rules! fill {
        ($t:ty, |$v:ident| $e:expr) => {{
            let from = bias.slice::<$t>(start, span);
            if stride == 1 {
                row.iter_mut().zip(from).for_each(|(to, &$v)| *to = $e);
            } else {
                row.iter_mut().enumerate().for_each(|(j, to)| {
                    let $v = from[j * stride];
                    *to = $e;
                });
            }
        }};
    }
    match bias.dtype {
        DType::I32 => {
            let end = bias.slice::<i32>(start, 1)[0].max(0) as usize;
            let (seen, hidden) = row.split_at_mut(end.min(row.len()));
            seen.fill(L::from(0.0));
            hidden.fill(L::from(f32::NEG_INFINITY));
        }
        DType::Bool => fill!(u8, |v| L::from(if v != 0 { 0.0 } else { f32::NEG_INFINITY })),
        DType::F16 => fill!(F16, |v| L::from(math::f16_to_f32(v.0))),
        DType::BF16 => fill!(Bf16, |v| L::from(math::bf16_to_f32(v.0))),
        DType::F32 => fill!(f32, |v| L::from(v)),
        _ => fill!(f64, |v| L::from_f64(v)),
    }
}

/// Splits pieces of the given lengths off a buffer.
fn pieces<T, const N: usize>(mut buffer: &mut [T], lengths: [usize; N]) -> [&mut [T]; N] {
    lengths.map(|n| {
        let (piece, rest) = std::mem::take(&mut buffer).split_at_mut(n);
        buffer = rest;
        piece
    })
}
