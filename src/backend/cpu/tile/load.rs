//! How the elements of a tile are read from memory.

use super::super::access::Bound;
use super::super::element::{Stored, load_run, load_turned};
use super::super::isa::{self, Kernel, kernel};
use super::super::vector::Vector;
use super::space::{Piece, Position, Space, Walk, pieces};

/// Rows of `columns` elements that begin `stride` apart, each of neighbours (`along` 1) or of one number (0).
struct LoadRows<'a, S, L> {
    from: &'a [S],
    along: usize,
    stride: usize,
    columns: usize,
    to: &'a mut [L],
}

impl<S: Stored<L>, L: Copy> Kernel for LoadRows<'_, S, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        for (r, row) in self.to.chunks_exact_mut(self.columns).enumerate() {
            let from = &self.from[r * self.stride..];
            if self.along == 0 {
                let number = from[0].load();
                row.iter_mut().for_each(|to| *to = number);
                continue;
            }
            for (to, from) in row.iter_mut().zip(from) {
                *to = from.load();
            }
        }
    }
}

/// Elements in reverse order.
struct LoadReversed<'a, S, L> {
    from: &'a [S],
    to: &'a mut [L],
}

impl<S: Stored<L>, L: Copy> Kernel for LoadReversed<'_, S, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        for (to, from) in self.to.iter_mut().zip(self.from.iter().rev()) {
            *to = from.load();
        }
    }
}

/// Reads the elements of a tile from an operand in memory.
pub fn load<S: Stored<L>, L: Copy>(
    from: &Bound,
    space: &Space,
    position: &Position,
    walk: &Walk,
    to: &mut [L],
) {
    pieces(space, position, walk, |p| {
        load_piece::<S, L>(from, p, &mut to[p.at..p.at + p.rows * p.columns])
    });
}

fn load_piece<S: Stored<L>, L: Copy>(from: &Bound, p: Piece, to: &mut [L]) {
    let rows = || (0..p.rows).map(|r| p.from + r as i64 * p.row_stride);
    match (p.column_stride, p.row_stride) {
        (along @ (0 | 1), stride) if stride >= 0 => {
            let (columns, along, stride) = (p.columns, along as usize, stride as usize);
            let span = (p.rows - 1) * stride + (columns - 1) * along + 1;
            let from = from.slice::<S>(p.from, span);
            isa::run(LoadRows { from, along, stride, columns, to });
        }
        (1, _) => {
            for (start, row) in rows().zip(to.chunks_exact_mut(p.columns)) {
                load_run::<S, L>(from.slice(start, p.columns), row);
            }
        }
        (0, _) => {
            for (start, row) in rows().zip(to.chunks_exact_mut(p.columns)) {
                row.fill(from.slice::<S>(start, 1)[0].load());
            }
        }
        (stride, 1) if stride > 0 && p.rows > 1 => {
            let stride = stride as usize;
            let from = from.slice::<S::Bits>(p.from, (p.columns - 1) * stride + p.rows);
            load_turned::<S, L>(from, stride, p.rows, to);
        }
        (stride, _) if stride > 0 => {
            let span = (p.columns - 1) * stride as usize + 1;
            for (start, row) in rows().zip(to.chunks_exact_mut(p.columns)) {
                let spaced = from.slice::<S>(start, span).iter().step_by(stride as usize);
                for (to, from) in row.iter_mut().zip(spaced) {
                    *to = from.load();
                }
            }
        }
        (-1, _) => {
            for (start, to) in rows().zip(to.chunks_exact_mut(p.columns)) {
                let from = from.slice::<S>(start + 1 - p.columns as i64, p.columns);
                isa::run(LoadReversed { from, to });
            }
        }
        (stride, _) => {
            for (start, row) in rows().zip(to.chunks_exact_mut(p.columns)) {
                for (c, to) in row.iter_mut().enumerate() {
                    *to = from.slice::<S>(start + c as i64 * stride, 1)[0].load();
                }
            }
        }
    }
}

kernel! {
    fn ramps(from: i64, row_stride: i64, columns: usize, stride: i64, to: &'a mut [i64]) {
        for (r, row) in to.chunks_exact_mut(columns).enumerate() {
            let from = from + r as i64 * row_stride;
            for (i, to) in row.iter_mut().enumerate() {
                *to = from + i as i64 * stride;
            }
        }
    }
}

/// [`load`] for an operand whose element `i` is the number `i`.
pub fn load_index(space: &Space, position: &Position, walk: &Walk, to: &mut [i64]) {
    pieces(space, position, walk, |p| {
        let to = &mut to[p.at..p.at + p.rows * p.columns];
        ramps(p.from, p.row_stride, p.columns, p.column_stride, to);
    });
}
