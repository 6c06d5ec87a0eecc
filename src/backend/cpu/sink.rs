//! Destinations of the rows that a kernel computes.

use super::access::{Bound, Plain};
use super::matmul::Lent;
use super::pool::{Scratch, with_scratch};
use crate::dtype::DType;
use crate::op::array::collected;

/// The destination of the rows that a kernel computes.
pub enum Sink<'a> {
    Memory(&'a Bound),
    /// Rows are lent in blocks, as elements of that type.
    Lent(DType, &'a (dyn Fn(Lent) + Sync)),
}

impl Sink<'_> {
    pub fn dtype(&self) -> DType {
        match self {
            Sink::Memory(result) => result.dtype,
            Sink::Lent(dtype, _) => *dtype,
        }
    }

    /// Memory for `n` elements at a time of the `total`; `None` for each piece if they are lent.
    pub fn pieces<S: Plain>(&self, total: usize, n: usize) -> Vec<Option<&mut [S]>> {
        match self {
            Sink::Memory(result) => collected(result.result::<S>().chunks_mut(n).map(Some)),
            Sink::Lent(..) => collected((0..total.div_ceil(n)).map(|_| None)),
        }
    }

    /// Lets `fill` compute `rows` rows of `columns` elements from row `row` on, where they are stored or to be lent.
    pub fn fill<S: Scratch>(
        &self,
        piece: Option<&mut [S]>,
        (row, rows, columns): (usize, usize, usize),
        fill: impl FnOnce(&mut [S]),
    ) {
        match (self, piece) {
            (Sink::Lent(_, visit), _) => with_scratch(rows * columns, |block: &mut [S]| {
                fill(block);
                let address = block.as_mut_ptr().expose_provenance();
                visit(Lent { address, row, column: 0, rows, columns, pitch: columns });
            }),
            (Sink::Memory(_), piece) => fill(piece.expect("a result in memory")),
        }
    }
}
