//! The operands of a product, and how a block of it is computed for each type of floats.

use super::access::{Bound, Plain};
use super::element::{Bf16, F16, Stored, load_run, store_run};
use super::gemm::{bf16_gemm, gemm};
use super::matrix::{Block, Matrix};
use super::multiplier::{by_choice, packs};
use super::onednn::{self, Element};
use super::packed_panels::PackedPanels;
use super::panels::{self, DEPTH, Term};
use super::pool::with_scratch;
use super::small_gemm::{is_small, small_product};
use crate::backend::memory::Pool;
use crate::shape::Layout;
use std::sync::Arc;

/// An operand: the elements it covers, where each matrix of the batch starts, and the strides within one.
pub struct Side<'a, T> {
    data: &'a [T],
    pub starts: Vec<usize>,
    pub strides: (usize, usize),
}

impl<'a, T: Plain> Side<'a, T> {
    pub fn new(operand: &'a Bound) -> Side<'a, T> {
        let l = &operand.layout;
        let split = l.rank() - 2;
        let batch = Layout {
            sizes: l.sizes[..split].into(),
            strides: l.strides[..split].into(),
            offset: 0,
        };
        Side {
            data: operand.covered(),
            starts: batch.indices().map(|i| i as usize).collect(),
            strides: (l.strides[split] as usize, l.strides[split + 1] as usize),
        }
    }

    pub fn matrix(&self, n: usize) -> Matrix<'a, T> {
        Matrix { data: self.data.get(self.starts[n]..).unwrap_or_default(), strides: self.strides }
    }
}

/// A float type as stored in memory, and how a block of a product is computed in it.
pub trait Factor: Element {
    /// `c = a b`, where sums have `k` terms.
    fn block(k: usize, a: Matrix<Self>, b: Matrix<Self>, c: &mut Block<Self>);

    /// A function that computes blocks of the product of both operands, of `shape` (rows, columns, terms), from
    /// operands packed once for all blocks, if that pays.
    fn packed<'a>(
        _: [Matrix<'a, Self>; 2],
        _shape: (usize, usize, usize),
        _size: (usize, usize),
        _: &Arc<Pool>,
    ) -> Option<Blocks<'a, Self>> {
        None
    }
}

/// Whether a product of several blocks is worth packing for all of them.
fn is_large((m, n, k): (usize, usize, usize), (height, width): (usize, usize)) -> bool {
    (m > height || n > width) && height.min(width) > 100 && k >= 64
}

/// The size of a block, and a function that computes the one from (row, column) on.
pub type Blocks<'a, S> = ((usize, usize), Box<dyn Fn((usize, usize), &mut Block<S>) + Sync + 'a>);

impl Factor for f64 {
    fn block(k: usize, a: Matrix<f64>, b: Matrix<f64>, c: &mut Block<f64>) {
        gemm(k, 1.0, a, b, 0.0, c);
    }
}

impl Factor for f32 {
    fn block(k: usize, a: Matrix<f32>, b: Matrix<f32>, c: &mut Block<f32>) {
        if is_small(c.rows, c.columns, k) {
            return small_product(k, a, b, c);
        }
        if by_choice(k, a, b, false, c) {
            return;
        }
        let depth = DEPTH.min(k.max(1));
        with_scratch((c.rows + c.columns) * depth, |panels| {
            in_pieces([a, b], (k, depth), near, panels, c);
        });
    }

    fn packed<'a>(
        operands: [Matrix<'a, f32>; 2],
        (m, n, k): (usize, usize, usize),
        size: (usize, usize),
        pool: &Arc<Pool>,
    ) -> Option<Blocks<'a, f32>> {
        if !is_large((m, n, k), size) || !packs(operands, [size.0, k, size.1], pool) {
            return None;
        }
        let panels = PackedPanels::new(operands, [m, k, n], size, pool)?;
        Some((panels.size, Box::new(move |at, c| panels.block(at, c))))
    }
}

impl Factor for F16 {
    fn block(k: usize, a: Matrix<F16>, b: Matrix<F16>, c: &mut Block<F16>) {
        half(k, a, b, |_| false, c);
    }

    fn packed<'a>(
        operands: [Matrix<'a, F16>; 2],
        shape: (usize, usize, usize),
        size: (usize, usize),
        pool: &Arc<Pool>,
    ) -> Option<Blocks<'a, F16>> {
        packed_half(operands, shape, size, pool)
    }
}

impl Factor for Bf16 {
    fn block(k: usize, a: Matrix<Bf16>, b: Matrix<Bf16>, c: &mut Block<Bf16>) {
        half(k, a, b, |sums| bf16_gemm(k, a, b, sums), c);
    }

    fn packed<'a>(
        operands: [Matrix<'a, Bf16>; 2],
        shape: (usize, usize, usize),
        size: (usize, usize),
        pool: &Arc<Pool>,
    ) -> Option<Blocks<'a, Bf16>> {
        let native = onednn::packed(Bf16::CODE) == Bf16::CODE;
        if native { None } else { packed_half(operands, shape, size, pool) }
    }
}

/// Halves become f32 once, while they are packed.
fn packed_half<'a, S: Factor + Term>(
    operands: [Matrix<'a, S>; 2],
    (m, n, k): (usize, usize, usize),
    size: (usize, usize),
    pool: &Arc<Pool>,
) -> Option<Blocks<'a, S>> {
    if !is_large((m, n, k), size) {
        return None;
    }
    let panels = PackedPanels::new(operands, [m, k, n], size, pool)?;
    let size = panels.size;
    let block = move |at, c: &mut Block<S>| {
        let (rows, columns) = (c.rows, c.columns);
        with_scratch(rows * columns, |all| {
            panels.block(at, &mut Block::new(all, columns));
            store(all, c);
        });
    };
    Some((size, Box::new(block)))
}

/// Rounds dense sums.
fn store<S: Stored<f32>>(sums: &[f32], c: &mut Block<S>) {
    for (r, sums) in sums.chunks_exact(c.columns).enumerate() {
        store_run::<S, f32>(sums, c.row(r));
    }
}

/// Stride between the terms of a sum, in elements, from which on an operand is copied first: 4 KiB apart, each term is
/// on a page of its own, and a product takes up to half as long again.
const FAR: usize = 1024;

/// `from`, [rows, depth], as it is or in `room`.
fn near<'a>(
    from: Matrix<'a, f32>,
    rows: usize,
    depth: usize,
    room: &'a mut [f32],
) -> Matrix<'a, f32> {
    if from.strides.1 >= FAR { convert(from, rows, depth, room) } else { from }
}

/// Brings a panel of an operand: as it is, or in the memory given for it.
type Bring<S> = for<'a> fn(Matrix<'a, S>, usize, usize, &'a mut [f32]) -> Matrix<'a, f32>;

/// Computes a block whose sums are taken in f32. `native` takes them without converting the operands, or returns `false`.
fn half<S: Term>(
    k: usize,
    a: Matrix<S>,
    b: Matrix<S>,
    native: impl FnOnce(&mut Block<f32>) -> bool,
    c: &mut Block<S>,
) {
    let (rows, columns) = (c.rows, c.columns);
    with_scratch(rows * columns, |all| {
        let mut sums = Block::new(all, columns);
        if is_small(rows, columns, k) {
            with_scratch((rows + columns) * k, |room| {
                let (room_a, room_b) = room.split_at_mut(rows * k);
                let b = convert(b.transposed(), columns, k, room_b).transposed();
                small_product(k, convert(a, rows, k, room_a), b, &mut sums);
            });
        } else if !(native(&mut sums)
            || panels::pays(&sums) && panels::multiply(k, a, b, false, &mut sums))
        {
            let depth = DEPTH.min(k.max(1));
            with_scratch((rows + columns) * depth, |panels| {
                in_pieces([a, b], (k, depth), convert, panels, &mut sums);
            });
        }
        store(all, c);
    });
}

/// `sums = a b`, bringing `depth` columns of a and as many rows of b at a time, into `panels` if need be.
fn in_pieces<S: Stored<f32>>(
    [a, b]: [Matrix<S>; 2],
    (k, depth): (usize, usize),
    bring: Bring<S>,
    panels: &mut [f32],
    sums: &mut Block<f32>,
) {
    let (rows, columns) = (sums.rows, sums.columns);
    let (panel_a, panel_b) = panels.split_at_mut(rows * depth);
    if k == 0 {
        gemm(0, 1.0, Matrix::rows(panel_a, 1), Matrix::rows(panel_b, 1), 0.0, sums);
    }
    for at in (0..k).step_by(depth) {
        let depth = depth.min(k - at);
        let a = bring(a.from(0, at), rows, depth, panel_a);
        let b = bring(b.from(at, 0).transposed(), columns, depth, panel_b).transposed();
        let beta = if at == 0 { 0.0 } else { 1.0 };
        gemm(depth, 1.0, a, b, beta, sums);
    }
}

/// A dense f32 copy of a matrix, dense along the dimension along which `from` is.
pub fn convert<'a, S: Stored<f32>>(
    from: Matrix<S>,
    rows: usize,
    columns: usize,
    to: &'a mut [f32],
) -> Matrix<'a, f32> {
    if from.strides.1 != 1 && from.strides.0 == 1 {
        return convert(from.transposed(), columns, rows, to).transposed();
    }
    let (row_stride, stride) = from.strides;
    for (r, row) in to[..rows * columns].chunks_exact_mut(columns).enumerate() {
        let from = &from.data[r * row_stride..];
        if stride == 1 {
            load_run(&from[..columns], row);
        } else {
            row.iter_mut().enumerate().for_each(|(c, to)| *to = from[c * stride].load());
        }
    }
    Matrix::rows(to, columns)
}
