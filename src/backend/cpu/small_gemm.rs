//! Products of matrices so small that a library spends more time on packing and calling than on multiplying, alone or those
//! of attention: one operand stays where it is, the other lies in dense rows of whole vectors. Parts that a triangle
//! leaves empty are not multiplied.

use super::gemm::{Real, gemm};
use super::isa::{Isa, current, kernel};
use super::matrix::{Block, Matrix};
use super::pool::with_scratch;
use super::vector::{MAX_LANES, Vector};

/// Columns of the operands that products are fast with; they fit into the first-level cache with [`DEPTH`] rows.
pub const PANEL: usize = 64;

/// Terms of a sum that are added up before the next rows are.
const DEPTH: usize = 128;

/// `n` elements and as many more as fill up whole vectors of any processor.
pub fn whole(n: usize) -> usize {
    n.next_multiple_of(MAX_LANES)
}

/// Elements from row to row for rows of `n`: an odd number of cache lines, so that a column is not all in one set of
/// the cache.
pub fn pitch(n: usize) -> usize {
    whole(n) | MAX_LANES
}

/// The elements of a product that are wanted, or those of its left operand that are not 0. The rest may be taken to be 0.
#[derive(Clone, Copy)]
pub enum Only {
    All,
    /// Results (i, j) with `j < i + n`.
    Below(isize),
    /// Elements (i, j) of the left operand with `j < i + n`.
    Left(isize),
    /// Elements (i, j) of the left operand with `i < j + n`.
    Right(isize),
}

/// `alpha a b`, or `c + alpha a b`.
#[derive(Clone, Copy)]
pub struct SmallGemm<'a, T> {
    pub a: Matrix<'a, T>,
    /// Rows that are `pitch` apart.
    pub b: &'a [T],
    pub pitch: usize,
    /// Size of the result. `columns` is a multiple of [`MAX_LANES`].
    pub rows: usize,
    pub columns: usize,
    /// Columns of `a`, rows of `b`.
    pub depth: usize,
    pub alpha: T,
    pub add: bool,
    pub only: Only,
}

/// Element types of such products.
pub trait SmallGemmElement: Real {
    /// Writes the product into rows that are `pitch` apart.
    fn small_gemm(task: SmallGemm<Self>, c: &mut [Self], pitch: usize);
}

impl SmallGemmElement for f64 {
    fn small_gemm(task: SmallGemm<f64>, c: &mut [f64], pitch: usize) {
        portable(task, c, pitch);
    }
}

impl SmallGemmElement for f32 {
    fn small_gemm(task: SmallGemm<f32>, c: &mut [f32], pitch: usize) {
        assert!(task.columns.is_multiple_of(MAX_LANES));
        in_vectors(task, c, pitch);
    }
}

/// Multiplications up to which calling a library takes longer than doing them.
const MOST: usize = 1 << 14;

/// Whether such a product is one for [`small_product`]. With fewer rows, bringing b into place takes as long as multiplying.
pub fn is_small(rows: usize, columns: usize, k: usize) -> bool {
    let work = rows.saturating_mul(whole(columns)).saturating_mul(k);
    rows >= 4 && 0 < work && work <= MOST && columns <= PANEL && current() != Isa::Baseline
}

/// `c = a b`, where sums have `k` terms: b is brought into whole vectors, and so is the result.
pub fn small_product(k: usize, a: Matrix<f32>, b: Matrix<f32>, c: &mut Block<f32>) {
    let (rows, columns) = (c.rows, c.columns);
    let width = whole(columns);
    let (along, across) = b.strides;
    with_scratch((k + rows) * width, |room| {
        let (lines, sums) = room.split_at_mut(k * width);
        for p in 0..k {
            let line = &mut lines[p * width..][..columns];
            let from = &b.data[p * along..];
            match across {
                1 => line.copy_from_slice(&from[..columns]),
                _ => line.iter_mut().enumerate().for_each(|(j, to)| *to = from[j * across]),
            }
        }
        let (alpha, add, only) = (1.0, false, Only::All);
        let (b, pitch, columns, depth) = (&*lines, width, width, k);
        f32::small_gemm(
            SmallGemm { a, b, pitch, rows, columns, depth, alpha, add, only },
            sums,
            width,
        );
        for (i, sums) in sums.chunks_exact(width).enumerate() {
            let row = c.row(i);
            row.copy_from_slice(&sums[..row.len()]);
        }
    });
}

fn portable<T: Real + From<f32>>(task: SmallGemm<T>, c: &mut [T], pitch: usize) {
    let b = Matrix { data: task.b, strides: (task.pitch, 1) };
    let beta = if task.add { 1.0 } else { 0.0 };
    let mut c = Block::within(c, pitch, task.rows, task.columns);
    gemm(task.depth, task.alpha, task.a, b, beta, &mut c);
}

kernel! {
    fn in_vectors(task: SmallGemm<'a, f32>, c: &'a mut [f32], pitch: usize) {
        if V::LANES == 1 {
            return portable(task, c, pitch);
        }
        for column in (0..task.columns).step_by(width::<V>() * V::LANES) {
            // At least once: a sum without terms is 0.
            for start in (0..task.depth.max(1)).step_by(DEPTH) {
                for row in (0..task.rows).step_by(ROWS) {
                    part::<V>(task, row, column, start, c, pitch);
                }
            }
        }
    }
}

/// Rows of a tile that is computed in registers.
const ROWS: usize = 6;

/// Vectors of a row of such a tile: with those of `b` they take almost all registers.
#[inline(always)]
const fn width<V: Vector>() -> usize {
    if V::REGISTERS == 32 { 4 } else { 2 }
}

/// The part of the result at (row, column), sums from term `start` on.
#[inline(always)]
fn part<V: Vector>(
    task: SmallGemm<f32>,
    row: usize,
    column: usize,
    start: usize,
    c: &mut [f32],
    pitch: usize,
) {
    let height = ROWS.min(task.rows - row);
    let (mut columns, mut first, mut end) =
        (task.columns - column, start, task.depth.min(start + DEPTH));
    let below = |n: isize| (row + height).saturating_add_signed(n);
    match task.only {
        Only::All => {}
        Only::Below(n) => columns = columns.min(below(n - 1).saturating_sub(column)),
        Only::Left(n) => end = end.min(below(n - 1)),
        Only::Right(n) => first = first.max((row + 1).saturating_add_signed(-n)),
    }
    let width = width::<V>().min(columns.div_ceil(V::LANES));
    let add = task.add || start > 0;
    if width == 0 || add && first >= end {
        return;
    }
    let depth = end.saturating_sub(first);
    let a = task.a.from(row, first);
    let b = &task.b[(first * task.pitch + column).min(task.b.len())..];
    let c = &mut c[row * pitch + column..];
    let terms = Terms { a, b, pitch: task.pitch, depth, alpha: task.alpha, add };
    macro_rules! sizes {
        ($($rows:literal by $width:literal),*) => {
            match (height, width) {
                $(($rows, $width) => tile::<V, $rows, $width>(terms, c, pitch),)*
                _ => unreachable!("a tile of {height} by {width}"),
            }
        };
    }
    if V::REGISTERS == 32 {
        sizes!(
            6 by 4, 5 by 4, 4 by 4, 3 by 4, 2 by 4, 1 by 4, 6 by 3, 5 by 3, 4 by 3, 3 by 3, 2 by 3, 1 by 3,
            6 by 2, 5 by 2, 4 by 2, 3 by 2, 2 by 2, 1 by 2, 6 by 1, 5 by 1, 4 by 1, 3 by 1, 2 by 1, 1 by 1
        );
    } else {
        sizes!(
            6 by 2, 5 by 2, 4 by 2, 3 by 2, 2 by 2, 1 by 2, 6 by 1, 5 by 1, 4 by 1, 3 by 1, 2 by 1, 1 by 1
        );
    }
}

/// The operands of one tile.
struct Terms<'a> {
    a: Matrix<'a, f32>,
    b: &'a [f32],
    pitch: usize,
    depth: usize,
    alpha: f32,
    add: bool,
}

/// `R` rows of `C` vectors, with the sums in registers.
#[inline(always)]
fn tile<V: Vector, const R: usize, const C: usize>(terms: Terms, c: &mut [f32], pitch: usize) {
    let mut sums = [[V::splat(0.0); C]; R];
    let (down, along) = terms.a.strides;
    for p in 0..terms.depth {
        let line = &terms.b[p * terms.pitch..][..C * V::LANES];
        let mut vectors = [V::splat(0.0); C];
        for j in 0..C {
            vectors[j] = V::load(&line[j * V::LANES..]);
        }
        let column = &terms.a.data[p * along..][..(R - 1) * down + 1];
        for r in 0..R {
            let factor = V::splat(column[r * down]);
            for j in 0..C {
                sums[r][j] = factor.mul_add(vectors[j], sums[r][j]);
            }
        }
    }
    let alpha = V::splat(terms.alpha);
    for r in 0..R {
        let row = &mut c[r * pitch..][..C * V::LANES];
        for j in 0..C {
            let to = &mut row[j * V::LANES..];
            let sum = sums[r][j] * alpha;
            (if terms.add { V::load(to) + sum } else { sum }).store(to);
        }
    }
}
