//! Products whose operands are packed for loops of our own ([`super::panels`]) once for all blocks, and so for all
//! threads. Blocks that pack for themselves repeat the packing of other blocks.
//!
//! **Invariant:** whether a product is computed so depends on its sizes and layouts and on the machine only, and its
//! bits are those of [`super::panels::multiply`], which computes it where there is no memory to pack into.

use super::isa::{self, Kernel};
use super::jit::{self, MicroKernels};
use super::matrix::{Block, Matrix};
use super::packed_weights::Room;
use super::panels::{self, Term, cached_rows, chain, pack, pack_rows, tiles};
use super::pool::{parallel, with_scratch};
use super::vector::Vector;
use crate::backend::memory::Pool;
use std::sync::Arc;

/// Most elements of both operands that are packed.
const MOST: usize = 16 << 20;

/// One product.
pub struct PackedPanels<'a, S> {
    kernels: &'static MicroKernels,
    a: Matrix<'a, S>,
    b: Matrix<'a, S>,
    /// Rows, terms, columns.
    shape: [usize; 3],
    /// Rows and columns of a block, in whole tiles.
    pub size: (usize, usize),
    /// Strips of rows of a and of columns of b, as high and as wide as blocks.
    strips: Option<(Room, Room)>,
}

impl<'a, S: Term + Sync> PackedPanels<'a, S> {
    /// Packs the operands, on all threads; a block is about `height` by `width`. `None` if there are no loops for this
    /// processor, or the operands are empty or too large.
    pub fn new(
        [a, b]: [Matrix<'a, S>; 2],
        shape: [usize; 3],
        (height, width): (usize, usize),
        pool: &Arc<Pool>,
    ) -> Option<PackedPanels<'a, S>> {
        let kernels = MicroKernels::of(jit::target()?)?;
        let [m, k, n] = shape;
        if m * n * k == 0 || (m + n) * k > MOST {
            return None;
        }
        let size = (height.next_multiple_of(kernels.rows), width.next_multiple_of(kernels.columns));
        let (down, across) = (m.div_ceil(size.0), n.div_ceil(size.1));
        let strips = Room::new(pool, down, size.0 * k).zip(Room::new(pool, across, size.1 * k));
        let packed = PackedPanels { kernels, a, b, shape, size, strips };
        if let Some(strips) = &packed.strips {
            parallel(down + across, size.0.max(size.1) * k * size_of::<S>(), |n| {
                match n.checked_sub(down) {
                    None => packed.rows(&strips.0, n),
                    Some(n) => packed.columns(&strips.1, n),
                };
            });
        }
        Some(packed)
    }

    fn rows<'r>(&self, strips: &'r Room, n: usize) -> &'r [f32] {
        let row = n * self.size.0;
        strips.slab(n, |to| {
            let (from, sides) = (self.a.from(row, 0), self.size.0.min(self.shape[0] - row));
            isa::run(Strip { from, terms: self.shape[1], sides, of_rows: true, to });
        })
    }

    fn columns<'r>(&self, strips: &'r Room, n: usize) -> &'r [f32] {
        let column = n * self.size.1;
        strips.slab(n, |to| {
            let (from, sides) = (self.b.from(0, column), self.size.1.min(self.shape[2] - column));
            isa::run(Strip { from, terms: self.shape[1], sides, of_rows: false, to });
        })
    }

    /// `c` is the block from (row, column) on.
    pub fn block(&self, (row, column): (usize, usize), c: &mut Block<f32>) {
        let (kernels, k) = (self.kernels, self.shape[1]);
        let Some(strips) = &self.strips else {
            panels::multiply(k, self.a.from(row, 0), self.b.from(0, column), false, c);
            return;
        };
        let (rows, columns) = (c.rows, c.columns);
        let whole = (self.size.0.min(self.shape[0] - row), self.size.1.min(self.shape[2] - column));
        let begins = row.is_multiple_of(self.size.0) && column.is_multiple_of(self.size.1);
        assert!(begins && (rows, columns) == whole, "no block of a packed product");
        let of_a = self.rows(&strips.0, row / self.size.0);
        let of_b = self.columns(&strips.1, column / self.size.1);
        let (whole, depth) = (columns.next_multiple_of(kernels.lanes), chain(k));
        with_scratch(kernels.rows * kernels.columns, |edge| {
            for term in (0..k).step_by(depth) {
                let (depth, adds) = (depth.min(k - term), term > 0);
                let cached = cached_rows(kernels, depth);
                for first in (0..rows).step_by(cached) {
                    let tile = |row: usize, count| {
                        let at = term * rows + (first + row) * depth;
                        Matrix::rows(&of_a[at..], count).transposed()
                    };
                    let panel = |column: usize, width| {
                        Matrix::rows(&of_b[term * whole + column * depth..], width)
                    };
                    let mut part = c.part(first, cached.min(rows - first));
                    tiles(kernels, depth, (tile, panel), adds, &mut part, edge);
                }
            }
        });
    }
}

/// Rows of a, or columns of b, to be packed, the terms of one chain after the other.
struct Strip<'a, 't, S> {
    from: Matrix<'a, S>,
    terms: usize,
    /// Rows or columns.
    sides: usize,
    of_rows: bool,
    to: &'t mut [f32],
}

impl<S: Term> Kernel for Strip<'_, '_, S> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        if V::LANES == 16 { self.pack::<V, 8, 48>() } else { self.pack::<V, 6, 16>() }
    }
}

impl<S: Term> Strip<'_, '_, S> {
    #[inline(always)]
    fn pack<V: Vector, const HIGH: usize, const WIDE: usize>(self) {
        let depth = chain(self.terms);
        for term in (0..self.terms).step_by(depth) {
            let depth = depth.min(self.terms - term);
            if self.of_rows {
                let to = &mut self.to[term * self.sides..];
                pack_rows::<V, S, HIGH>(self.from.from(0, term), self.sides, depth, to);
            } else {
                let to = &mut self.to[term * self.sides.next_multiple_of(V::LANES)..];
                pack::<V, S, WIDE>(self.from.from(term, 0), depth, self.sides, to);
            }
        }
    }
}
