//! Products of matrices on this thread by loops of our own: panels of b are packed into the second-level cache, rows of a
//! are read where they are or brought into the first-level cache, and [`MicroKernels`] multiply them. Halves become f32
//! on the way.
//!
//! **Invariant:** an element of the result is a chain of fused multiply-adds for each [`DEPTH`] terms at most, in order;
//! how long the pieces are depends on their number only. So bits depend on nothing else: not on blocks, layouts or caches.

use super::element::{Bf16, F16, Stored};
use super::isa::{self, Isa, Kernel};
use super::jit::{self, MicroKernels};
use super::matrix::{Block, Matrix};
use super::onednn;
use super::pool::with_scratch;
use super::vector::{SIDE, Square, Vector};

/// Terms of a sum that are one chain at most: so many columns of a tile stay in the first-level cache. As many as a
/// library takes as one.
pub const DEPTH: usize = 384;

/// Rows that are not enough to pay for packing b, where it need not be.
const FEW: usize = 16;

/// What terms are made of.
pub trait Term: Stored<f32> {
    /// A matrix of f32, as it is.
    fn as_f32(_: Matrix<'_, Self>) -> Option<Matrix<'_, f32>> {
        None
    }
}
impl Term for f32 {
    fn as_f32(matrix: Matrix<'_, f32>) -> Option<Matrix<'_, f32>> {
        Some(matrix)
    }
}
impl Term for F16 {}
impl Term for Bf16 {}

/// Whether this is faster than oneDNN, if the thread has that, where tiles are filled. With AVX2 it is where the library
/// reads rows of b, or columns of a, that are far apart (Zen 4: 1 to 2.7 times, else 0.85 to 1); with AVX-512 where few rows
/// or columns meet columns of b (0.97 to 1.5 times, else 0.9 to 1). The library would have to be given halves as f32.
fn pays<S: Term>(a: Matrix<S>, b: Matrix<S>, c: &Block<f32>) -> bool {
    let fills = c.rows >= FEW / 2 && c.columns >= FEW;
    let b_by_rows = b.strides.1 == 1;
    let suits = match isa::current() {
        Isa::Avx512 => !b_by_rows && c.rows >= FEW && c.rows.min(c.columns) <= 100,
        _ => b_by_rows && (b.strides.0 >= 512 || a.strides.1 != 1 && a.strides.1 >= 256),
    };
    !onednn::is_here() || fills && (suits || S::as_f32(b).is_none())
}

/// `c = a b`, or `c += a b`, where sums have `k` terms: true if it was done; else there are no loops for this processor, or
/// others are faster, and nothing has happened.
pub fn multiply<S: Term>(
    k: usize,
    a: Matrix<S>,
    b: Matrix<S>,
    adds: bool,
    c: &mut Block<f32>,
) -> bool {
    pays(a, b, c) && multiply_anyway(k, a, b, adds, c)
}

/// [`multiply`], whoever else is faster.
pub fn multiply_anyway<S: Term>(
    k: usize,
    a: Matrix<S>,
    b: Matrix<S>,
    adds: bool,
    c: &mut Block<f32>,
) -> bool {
    let kernels = jit::target().and_then(MicroKernels::of);
    let Some(kernels) = kernels.filter(|_| k * c.rows * c.columns > 0) else { return false };
    // Half of the cache, so that what is read meanwhile finds room.
    let most = isa::cache_bytes() / 2 / (DEPTH * size_of::<f32>());
    let columns = (most - most % kernels.columns).max(kernels.columns);
    let columns = columns.min(c.columns.next_multiple_of(kernels.columns));
    let depth = k.div_ceil(k.div_ceil(DEPTH));
    let rest = kernels.rows * (depth + kernels.columns) + SIDE;
    with_scratch(depth * columns + rest, |room| {
        let (panels, rest) = room.split_at_mut(depth * columns);
        let (edge, rows) = rest.split_at_mut(kernels.rows * kernels.columns);
        isa::run(Product { kernels, size: (k, depth, columns), a, b, adds, c, panels, rows, edge });
    });
    true
}

struct Product<'a, 'c, S> {
    kernels: &'static MicroKernels,
    /// Terms, how many of them and how many columns are multiplied at a time.
    size: (usize, usize, usize),
    a: Matrix<'a, S>,
    b: Matrix<'a, S>,
    adds: bool,
    c: &'a mut Block<'c, f32>,
    /// Memory for panels of b, for rows of a, and for a tile that is larger than what is left of the result.
    panels: &'a mut [f32],
    rows: &'a mut [f32],
    edge: &'a mut [f32],
}

impl<S: Term> Kernel for Product<'_, '_, S> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        let Product { kernels, size: (k, depth, most), a, b, adds, c, panels, rows, edge } = self;
        let (high, wide) = (kernels.rows, kernels.columns);
        let plain = S::as_f32(b).filter(|b| b.strides.1 == 1 && c.rows <= FEW);
        for column in (0..c.columns).step_by(most) {
            let columns = most.min(c.columns - column);
            // Whole vectors need not be packed.
            let as_it_is = plain.map_or(0, |_| (columns - columns % V::LANES) / wide * wide);
            for term in (0..k).step_by(depth) {
                let depth = depth.min(k - term);
                let adds = adds || term > 0;
                let from = b.from(term, column + as_it_is);
                pack::<V, S>(from, depth, columns - as_it_is, wide, panels);
                for row in (0..c.rows).step_by(high) {
                    let count = high.min(c.rows - row);
                    let a = bring::<S>(a.from(row, term), count, depth, rows);
                    for j in (0..columns).step_by(wide) {
                        let width = wide.min(columns - j);
                        let whole = width.next_multiple_of(V::LANES);
                        let b = match plain {
                            Some(b) if j < as_it_is => b.from(term, column + j),
                            _ => Matrix::rows(&panels[(j - as_it_is) * depth..], whole),
                        };
                        let mut to = c.rectangle((row, column + j), (count, width));
                        if width == whole {
                            kernels.run(depth, a, b, adds, &mut to);
                            continue;
                        }
                        kernels.run(
                            depth,
                            a,
                            b,
                            false,
                            &mut Block::within(edge, whole, count, whole),
                        );
                        for r in 0..count {
                            let sums = to.row(r).iter_mut().zip(&edge[r * whole..]);
                            sums.for_each(|(to, &sum)| *to = if adds { *to + sum } else { sum });
                        }
                    }
                }
            }
        }
    }
}

/// Some rows of a as dense rows or columns of f32: as they are or in `room`.
#[inline(always)]
fn bring<'a, S: Term>(
    from: Matrix<'a, S>,
    rows: usize,
    depth: usize,
    room: &'a mut [f32],
) -> Matrix<'a, f32> {
    let (down, along) = from.strides;
    if along == 1 {
        if let Some(from) = S::as_f32(from) {
            return from;
        }
        for (r, row) in room.chunks_exact_mut(depth).enumerate().take(rows) {
            let from = &from.data[r * down..][..depth];
            row.iter_mut().zip(from).for_each(|(to, from)| *to = from.load());
        }
        return Matrix::rows(room, depth);
    }
    if down == 1 && from.data.len() >= (depth - 1) * along + SIDE {
        for term in 0..depth {
            // What is too much is overwritten by the next column.
            let from = from.data[term * along..].first_chunk().expect("a column within the matrix");
            let to = room[term * rows..].first_chunk_mut().expect("room for a column");
            *to = loaded::<S, SIDE>(from);
        }
    } else {
        for (term, column) in room.chunks_exact_mut(rows).enumerate().take(depth) {
            for (r, to) in column.iter_mut().enumerate() {
                *to = from.data[r * down + term * along].load();
            }
        }
    }
    Matrix::rows(room, rows).transposed()
}

/// Panels of `wide` columns of b, each in dense rows; the last one filled up with zeros to whole vectors.
#[inline(always)]
fn pack<V: Vector, S: Term>(
    from: Matrix<S>,
    depth: usize,
    columns: usize,
    wide: usize,
    to: &mut [f32],
) {
    // Some rows at a time, so that reads and writes are of neighbours.
    for term in (0..depth).step_by(SIDE) {
        let terms = SIDE.min(depth - term);
        for j in (0..columns).step_by(wide) {
            let width = wide.min(columns - j);
            let whole = width.next_multiple_of(V::LANES);
            let to = &mut to[j * depth + term * whole..][..terms * whole];
            let from = from.from(term, j);
            if from.strides.1 == 1 {
                for (r, row) in to.chunks_exact_mut(whole).enumerate() {
                    copy::<S>(&from.data[r * from.strides.0..][..width], row);
                }
            } else {
                turn::<V, S>(from, terms, width, whole, to);
            }
        }
    }
}

/// `to` is `from` and zeros.
#[inline(always)]
fn copy<S: Term>(from: &[S], to: &mut [f32]) {
    let (to, end) = to.split_at_mut(from.len());
    end.fill(0.0);
    // Arrays, because runs of unknown length are moved by a call, and what may overlap one by one.
    let ((to, to_rest), (from, from_rest)) = (to.as_chunks_mut(), from.as_chunks());
    for (to, from) in to.iter_mut().zip(from) {
        *to = loaded::<S, SIDE>(from);
    }
    to_rest.iter_mut().zip(from_rest).for_each(|(to, from)| *to = from.load());
}

#[inline(always)]
fn loaded<S: Term, const N: usize>(from: &[S; N]) -> [f32; N] {
    let mut to = [0.0; N];
    (0..N).for_each(|i| to[i] = from[i].load());
    to
}

/// At most [`SIDE`] rows of a panel, from a matrix of any layout.
#[inline(always)]
fn turn<V: Vector, S: Term>(
    from: Matrix<S>,
    rows: usize,
    columns: usize,
    pitch: usize,
    to: &mut [f32],
) {
    let (down, along) = from.strides;
    let mut square: Square<S::Bits> = [S::Bits::default(); SIDE * SIDE];
    for c in (0..columns).step_by(SIDE) {
        if down == 1 && rows == SIDE && c + SIDE <= columns {
            S::transpose8x8::<V>(from.from(0, c).bits(), along, &mut square);
            for r in 0..SIDE {
                let to = &mut to[r * pitch + c..][..SIDE];
                for j in 0..SIDE {
                    to[j] = S::of_bits(square[r * SIDE + j]).load();
                }
            }
            continue;
        }
        for (r, j) in (0..rows).flat_map(|r| (c..columns.min(c + SIDE)).map(move |j| (r, j))) {
            to[r * pitch + j] = from.data[r * down + j * along].load();
        }
    }
    for row in to.chunks_exact_mut(pitch) {
        row[columns..].fill(0.0);
    }
}
