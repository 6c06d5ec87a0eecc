//! Products of matrices on this thread by loops of our own (as Goto and van de Geijn, Anatomy of High-Performance Matrix
//! Multiplication, 2008): tiles of rows of a are packed into the second-level cache, where one panel of columns of b after the
//! other meets them all, from the first-level cache if it fits, and [`MicroKernels`] multiply them. Halves become f32 on the
//! way.
//!
//! **Invariant:** an element of the result is a chain of fused multiply-adds for each [`DEPTH`] terms at most, in order; the
//! length of the chains depends on the number of terms only. So bits depend on nothing else: not on blocks, layouts or caches.

use super::choice::fills;
use super::element::{Bf16, F16, Stored};
use super::isa::{self, Kernel};
use super::jit::{self, MicroKernels};
use super::matrix::{Block, Matrix};
use super::onednn;
use super::pool::with_scratch;
use super::vector::{SIDE, Square, Vector};

/// Most terms of a sum in one chain: that many columns of a tile stay in the first-level cache. A library takes as many in one.
pub const DEPTH: usize = 384;

/// Rows up to which packing b does not pay, if it can be read as it is.
const FEW: usize = 16;

/// Columns up to which packing rows of a does not pay, if they can be read as they are.
const NARROW: usize = 64;

/// Columns of b that are packed at a time.
const MOST_COLUMNS: usize = 512;

/// Element types of the operands.
pub trait Term: Stored<f32> {
    /// The matrix itself, if it is of f32.
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

/// Whether a block with an operand of halves is computed here; a library would need it as f32.
pub fn pays(c: &Block<f32>) -> bool {
    !onednn::is_here() || fills(c.rows, c.columns)
}

/// `c = a b`, or `c += a b`, where sums have `k` terms: true if it was done; else there are no loops for this processor, and
/// nothing has happened.
pub fn multiply<S: Term>(
    k: usize,
    a: Matrix<S>,
    b: Matrix<S>,
    adds: bool,
    c: &mut Block<f32>,
) -> bool {
    let kernels = jit::target().and_then(MicroKernels::of);
    let Some(kernels) = kernels.filter(|_| k * c.rows * c.columns > 0) else { return false };
    let depth = chain(k);
    let columns = MOST_COLUMNS.next_multiple_of(kernels.columns);
    let columns = columns.min(c.columns.next_multiple_of(kernels.columns));
    let rows = cached_rows(kernels, depth).min(c.rows);
    let edge = kernels.rows * kernels.columns;
    with_scratch(depth * (columns + rows) + edge, |room| {
        let (panels, room) = room.split_at_mut(depth * columns);
        let (rows_of_a, edge) = room.split_at_mut(depth * rows);
        let most = Most { depth, rows, columns };
        isa::run(Product { kernels, k, most, a, b, adds, c, panels, rows_of_a, edge });
    });
    true
}

/// Terms of one chain in a sum of `k`; the last chain may have fewer.
pub fn chain(k: usize) -> usize {
    k.div_ceil(k.div_ceil(DEPTH))
}

/// Rows of a of `depth` terms that take a quarter of the second-level cache, so that panels of b and the result find room there.
pub fn cached_rows(kernels: &MicroKernels, depth: usize) -> usize {
    let most = isa::cache_bytes() / 4 / (depth * size_of::<f32>());
    (most - most % kernels.rows).max(kernels.rows)
}

/// Most terms, rows and columns that are multiplied at a time.
#[derive(Clone, Copy)]
struct Most {
    depth: usize,
    rows: usize,
    columns: usize,
}

struct Product<'a, 'c, S> {
    kernels: &'static MicroKernels,
    /// Terms of a sum.
    k: usize,
    most: Most,
    a: Matrix<'a, S>,
    b: Matrix<'a, S>,
    adds: bool,
    c: &'a mut Block<'c, f32>,
    /// Memory for panels of b, for rows of a, and for a tile that reaches beyond the result.
    panels: &'a mut [f32],
    rows_of_a: &'a mut [f32],
    edge: &'a mut [f32],
}

impl<S: Term> Kernel for Product<'_, '_, S> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        // The largest tiles of the kernels, known to the compiler.
        if V::LANES == 16 { self.tiled::<V, 8, 48>() } else { self.tiled::<V, 6, 16>() }
    }
}

impl<S: Term> Product<'_, '_, S> {
    #[inline(always)]
    fn tiled<V: Vector, const HIGH: usize, const WIDE: usize>(self) {
        let Product { kernels, k, most, a, b, adds, c, panels, rows_of_a, edge } = self;
        assert!((kernels.rows, kernels.columns) == (HIGH, WIDE));
        let plain_b = S::as_f32(b).filter(|b| b.strides.1 == 1 && c.rows <= FEW);
        let plain_a = S::as_f32(a).filter(|a| a.strides.1 == 1 && c.columns <= NARROW);
        for column in (0..c.columns).step_by(most.columns) {
            let columns = most.columns.min(c.columns - column);
            // Whole vectors need not be packed.
            let as_it_is = plain_b.map_or(0, |_| (columns - columns % V::LANES) / WIDE * WIDE);
            for term in (0..k).step_by(most.depth) {
                let depth = most.depth.min(k - term);
                let adds = adds || term > 0;
                let from = b.from(term, column + as_it_is);
                pack::<V, S, WIDE>(from, depth, columns - as_it_is, panels);
                for first in (0..c.rows).step_by(most.rows) {
                    let rows = most.rows.min(c.rows - first);
                    if plain_a.is_none() {
                        pack_rows::<V, S, HIGH>(a.from(first, term), rows, depth, rows_of_a);
                    }
                    let of_a = |row: usize, count| match plain_a {
                        Some(a) => a.from(first + row, term),
                        None => Matrix::rows(&rows_of_a[row * depth..], count).transposed(),
                    };
                    let of_b = |j: usize, whole| match plain_b {
                        Some(b) if j < as_it_is => b.from(term, column + j),
                        _ => Matrix::rows(&panels[(j - as_it_is) * depth..], whole),
                    };
                    let mut part = c.rectangle((first, column), (rows, columns));
                    tiles(kernels, depth, (of_a, of_b), adds, &mut part, edge);
                }
            }
        }
    }
}

/// `c = a b`, or `c += a b`, of `depth` terms, tile by tile: a panel of b stays in the cache while all rows meet it.
/// `of_a(row, count)` gives rows of a; `of_b(column, width)` gives columns of b, in rows of `width`.
#[inline(always)]
pub fn tiles<'m>(
    kernels: &MicroKernels,
    depth: usize,
    (of_a, of_b): (
        impl Fn(usize, usize) -> Matrix<'m, f32>,
        impl Fn(usize, usize) -> Matrix<'m, f32>,
    ),
    adds: bool,
    c: &mut Block<f32>,
    edge: &mut [f32],
) {
    for column in (0..c.columns).step_by(kernels.columns) {
        let width = kernels.columns.min(c.columns - column);
        let whole = width.next_multiple_of(kernels.lanes);
        let b = of_b(column, whole);
        for row in (0..c.rows).step_by(kernels.rows) {
            let count = kernels.rows.min(c.rows - row);
            let a = of_a(row, count);
            let mut to = c.rectangle((row, column), (count, width));
            if width == whole {
                kernels.run(depth, a, b, adds, &mut to);
                continue;
            }
            let mut tile = Block::within(edge, whole, count, whole);
            kernels.run(depth, a, b, false, &mut tile);
            for r in 0..count {
                let sums = to.row(r).iter_mut().zip(&edge[r * whole..]);
                sums.for_each(|(to, &sum)| *to = if adds { *to + sum } else { sum });
            }
        }
    }
}

/// Tiles of `HIGH` rows of a, each in dense columns; the last one may have fewer.
#[inline(always)]
pub fn pack_rows<V: Vector, S: Term, const HIGH: usize>(
    from: Matrix<S>,
    rows: usize,
    depth: usize,
    to: &mut [f32],
) {
    let (down, along) = from.strides;
    for (term, row) in in_reading_order(along == 1, (depth, rows), HIGH) {
        let (terms, count) = (SIDE.min(depth - term), HIGH.min(rows - row));
        let from = from.from(row, term);
        let to = &mut to[row * depth + term * count..][..terms * count];
        let (columns, _) = to.as_chunks_mut::<HIGH>();
        let square_is_there = from.data.len() >= (SIDE - 1) * down + SIDE;
        if count == HIGH && along == 1 && terms == SIDE && square_is_there {
            let mut square: Square<S::Bits> = [S::Bits::default(); SIDE * SIDE];
            S::transpose8x8::<V>(from.bits(), down, &mut square);
            for (to, from) in columns.iter_mut().zip(square.as_chunks::<SIDE>().0) {
                (0..HIGH).for_each(|r| to[r] = S::of_bits(from[r]).load());
            }
        } else if count == HIGH && down == 1 {
            for (n, to) in columns.iter_mut().enumerate() {
                let column = from.data[n * along..].first_chunk().expect("a column within a");
                *to = loaded::<S, HIGH>(column);
            }
        } else {
            for (at, to) in to.iter_mut().enumerate() {
                *to = from.data[at % count * down + at / count * along].load();
            }
        }
    }
}

/// The first term and the first row or column of all pieces: tile by tile where the terms of a tile are neighbours in
/// memory, else [`SIDE`] terms of all tiles at a time.
#[inline(always)]
fn in_reading_order(
    by_tile: bool,
    (terms, sides): (usize, usize),
    tile: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let (pieces, tiles) = (terms.div_ceil(SIDE), sides.div_ceil(tile));
    (0..pieces * tiles).map(move |n| {
        let (piece, at) = if by_tile { (n % pieces, n / pieces) } else { (n / tiles, n % tiles) };
        (piece * SIDE, at * tile)
    })
}

/// Panels of `WIDE` columns of b, each in dense rows; the last one filled up with zeros to whole vectors.
#[inline(always)]
pub fn pack<V: Vector, S: Term, const WIDE: usize>(
    from: Matrix<S>,
    depth: usize,
    columns: usize,
    to: &mut [f32],
) {
    let (down, along) = from.strides;
    for (term, j) in in_reading_order(down == 1, (depth, columns), WIDE) {
        let (terms, width) = (SIDE.min(depth - term), WIDE.min(columns - j));
        let whole = width.next_multiple_of(V::LANES);
        let to = &mut to[j * depth + term * whole..][..terms * whole];
        let from = from.from(term, j);
        if along == 1 && width == WIDE {
            for (r, row) in to.as_chunks_mut::<WIDE>().0.iter_mut().enumerate() {
                let from = from.data[r * down..].first_chunk().expect("a row within b");
                *row = loaded::<S, WIDE>(from);
            }
        } else if along == 1 {
            for (r, row) in to.chunks_exact_mut(whole).enumerate() {
                copy::<S>(&from.data[r * down..][..width], row);
            }
        } else {
            turn::<V, S>(from, terms, width, whole, to);
        }
    }
}

/// Copies `from` to `to` and fills the rest with zeros.
#[inline(always)]
fn copy<S: Term>(from: &[S], to: &mut [f32]) {
    let (to, end) = to.split_at_mut(from.len());
    end.fill(0.0);
    // Arrays, because runs of unknown length are moved by a call, and elements that may overlap one by one.
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
