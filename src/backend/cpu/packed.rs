//! Matrix products whose right operand is first packed into the layout of oneDNN's kernels for such operands, a slab of
//! columns at a time.
//!
//! **Invariant:** whether a product is computed so, and in which pieces, depends on the plan (its sizes and layouts,
//! and the other readers of the operand) and on the machine only: so do the bits. Where there is no memory to pack into
//! it is computed as others are.

use super::factor::{Factor, Side};
use super::gemm::{are_enough, pack, packed_gemm};
use super::matrix::{Block, Matrix};
use super::onednn::{self, Element, Plain};
use super::packed_weights::{PackTarget, Room};
use super::pool::{Scratch, with_scratch};

/// Fewer columns or terms do not pay for packing.
const LEAST: usize = 64;
/// Columns of a slab: whole blocks of the kernels'.
const BLOCK: usize = 64;
const WIDEST: usize = 256;
/// Least rows of a block.
const LOWEST: usize = 64;

/// How one product is cut.
pub struct Packed<'a> {
    /// Rows and columns of a block. A slab has as many columns, whatever the number of rows.
    pub size: (usize, usize),
    slabs: &'a Room,
    /// Length of the sums.
    depth: usize,
}

/// A function that computes rows of a product.
type Multiply<'a, S> = &'a mut dyn FnMut(&mut Block<S>);

impl<'a> Packed<'a> {
    /// `None` where it is not to be packed, or there is no kernel for it.
    pub fn new<S: Factor>(
        a: &Side<S>,
        b: &Side<S>,
        (m, n, k): (usize, usize, usize),
        pack_target: PackTarget<'a>,
    ) -> Option<Packed<'a>> {
        let (slabs, pool) = (pack_target.0?, pack_target.1);
        let by_rows = a.strides.1 == 1 && a.strides.0 >= k;
        // The library gets usual layouts only: neither repeated nor overlapping rows.
        let usual = match b.strides {
            (row, 1) => row >= n,
            (1, column) => column >= k,
            _ => false,
        };
        // Terms of bf16 are multiplied in pairs; see `bf16_gemm`.
        let whole = S::CODE == f32::CODE || k.is_multiple_of(2);
        let suits = a.starts.len() == 1 && by_rows && usual && whole;
        if !suits || n < LEAST || k < LEAST {
            return None;
        }
        let (height, width) = size_for(m, n, |size| are_enough(1, (m, n, k), size));
        let packing = onednn::packing(plain::<S>(k, width.min(n), b.strides))?;
        let (_, first) = in_pieces(height.min(m)).next()?;
        onednn::product(&packing, first, a.strides.0)?;
        let slabs = slabs.room(pool, n.div_ceil(width), packing.len)?;
        Some(Packed { size: (height, width), slabs, depth: k })
    }

    /// Calls `each` for pieces of the first `rows` rows of a, which meet the first `columns` columns of b (of the
    /// whole, those from `column` on), with the first row, the number of rows, and a function that multiplies them.
    pub fn pieces<S: Factor + Scratch>(
        &self,
        a: Matrix<S>,
        b: Matrix<S>,
        column: usize,
        (rows, columns): (usize, usize),
        mut each: impl FnMut(usize, usize, Multiply<S>),
    ) {
        let k = self.depth;
        let Some(packing) = onednn::packing(plain::<S>(k, columns, b.strides)) else {
            return each(0, rows, &mut |block| S::block(k, a, b, block));
        };
        with_scratch(packing.room, |room| {
            let pack = |packed: &mut [f32]| pack(&packing, b, packed, room);
            let packed = self.slabs.slab(column / self.size.1, pack);
            for (row, count) in in_pieces(rows) {
                let a = a.from(row, 0);
                each(
                    row,
                    count,
                    &mut |block| match onednn::product(&packing, count, a.strides.0) {
                        Some(product) => {
                            packed_gemm((&product, &packing), a, packed, block, room);
                        }
                        None => S::block(k, a, b, block),
                    },
                );
            }
        });
    }
}

/// Rows and columns of a block: the most rows that leave enough blocks.
fn size_for(m: usize, n: usize, are_enough: impl Fn((usize, usize)) -> bool) -> (usize, usize) {
    let width = n.div_ceil(8).next_multiple_of(BLOCK).min(WIDEST);
    let mut height = m;
    while height > LOWEST && !are_enough((height, width)) {
        height = height.div_ceil(2).next_multiple_of(LOWEST);
    }
    (height, width)
}

fn plain<S: Factor>(rows: usize, columns: usize, strides: (usize, usize)) -> Plain {
    Plain { rows, columns, strides, element: S::CODE }
}

/// Cuts rows into pieces: first row, count. There are few different counts, because a kernel is made for each.
fn in_pieces(rows: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut row = 0;
    std::iter::from_fn(move || {
        let left = rows - row;
        // The largest power of two; fewer than 16 rows are not cut any further.
        let count = if left < 16 { left } else { 1 << left.ilog2() };
        row += count;
        (count > 0).then_some((row - count, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::tests::Random;

    #[test]
    fn blocks_have_a_size_however_many_are_enough() {
        let mut random = Random::new(2);
        let large = (0..2000).map(|_| (random.size(40), random.size(40)));
        let sizes: Vec<_> = (1..600).map(|m| (m, 64 + m)).chain(large).collect();
        for (m, n) in sizes {
            let (height, width) = size_for(m, n, |_| false);
            assert!(height <= LOWEST && 0 < width && width <= WIDEST);
            assert!(width.is_multiple_of(BLOCK), "{n}: {width}");
            assert_eq!(size_for(m, n, |_| true).0, m);
        }
    }

    #[test]
    fn pieces_cover_all_rows_once() {
        let mut random = Random::new(3);
        let large: Vec<usize> = (0..1000).map(|_| random.size(50)).collect();
        for rows in (0..5000).chain(large) {
            let mut end = 0;
            for (row, count) in in_pieces(rows) {
                assert!(row == end && count > 0);
                end += count;
            }
            assert_eq!(end, rows);
        }
    }
}
