//! `matmul`: batches of matrix products with operands of any strides. Half types are converted to f32 while they are
//! packed, or block by block for a library, multiplied there and rounded once; for it operands in f32 that lie far apart
//! are brought together in the same way; integers are multiplied by a plain loop.

use super::access::Bound;
use super::gemm::{Block, Matrix, bf16_gemm, block_size, for_each_block, for_each_part, gemm};
use super::onednn::Element;
use super::packed::Packed;
use super::packed_weights::PackTarget;
use super::panels::{self, DEPTH, Term};
use super::pool::{Scratch, parallel_chunks, with_scratch};
use super::tile::element::{Bf16, F16, Stored, load_run, store_run};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::shape::Layout;

/// An operand: the elements it covers, where each matrix of the batch starts, and the strides within one.
pub struct Side<'a, T> {
    data: &'a [T],
    pub starts: Vec<usize>,
    pub strides: (usize, usize),
}

impl<'a, T: super::access::Plain> Side<'a, T> {
    fn new(operand: &'a Bound) -> Side<'a, T> {
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

    fn matrix(&self, n: usize) -> Matrix<'a, T> {
        Matrix { data: self.data.get(self.starts[n]..).unwrap_or_default(), strides: self.strides }
    }
}

/// Sizes of one product: rows, columns, length of the sums.
fn shape(a: &Bound, b: &Bound) -> (usize, usize, usize) {
    let last = |b: &Bound, d: usize| b.sizes()[b.layout.rank() - d] as usize;
    (last(a, 2), last(b, 1), last(a, 1))
}

/// `reads` are a and b, `writes[0]` is dense.
pub fn matmul(reads: &[Bound], writes: &[Bound], pack_target: PackTarget) -> Result<()> {
    let (a, b, c) = (&reads[0], &reads[1], &writes[0]);
    match c.dtype {
        DType::F32 => floats::<f32>(a, b, c, pack_target),
        DType::F64 => floats::<f64>(a, b, c, pack_target),
        DType::F16 => floats::<F16>(a, b, c, pack_target),
        DType::BF16 => floats::<Bf16>(a, b, c, pack_target),
        DType::U8 => integers::<u8>(a, b, c),
        DType::I8 => integers::<i8>(a, b, c),
        DType::I16 => integers::<i16>(a, b, c),
        DType::I32 => integers::<i32>(a, b, c),
        DType::I64 => integers::<i64>(a, b, c),
        other => return internal!("matmul of {other}"),
    }
    Ok(())
}

/// A block of a product in dense memory of its own.
pub struct Lent {
    pub address: usize,
    /// Place of its first element in the whole; rows are counted through the batch.
    pub row: usize,
    pub column: usize,
    pub rows: usize,
    pub columns: usize,
    /// Elements from row to row of the whole.
    pub pitch: usize,
}

/// Computes the product of a and b, rounded to the float type `dtype`, and lends each block to `visit`, in parallel.
pub fn each_block(
    a: &Bound,
    b: &Bound,
    dtype: DType,
    pack_target: PackTarget,
    visit: impl Fn(Lent) + Sync,
) -> Result<()> {
    match dtype {
        DType::F32 => lend::<f32>(a, b, pack_target, visit),
        DType::F64 => lend::<f64>(a, b, pack_target, visit),
        DType::F16 => lend::<F16>(a, b, pack_target, visit),
        DType::BF16 => lend::<Bf16>(a, b, pack_target, visit),
        other => return internal!("matmul of {other} with an epilogue"),
    }
    Ok(())
}

fn floats<S: Factor + Scratch>(a: &Bound, b: &Bound, c: &Bound, pack_target: PackTarget) {
    let (m, n, k) = shape(a, b);
    let (left, right) = (Side::<S>::new(a), Side::<S>::new(b));
    let packed = Packed::new(&left, &right, (m, n, k), pack_target);
    let size = size(&packed, left.starts.len(), (m, n, k));
    for_each_block(c.result::<S>(), (m, n, k), size, |i, row, column, mut block| {
        let (a, b) = (left.matrix(i).from(row, 0), right.matrix(i).from(0, column));
        let Some(packed) = &packed else { return S::block(k, a, b, &mut block) };
        packed.pieces(a, b, column, (block.rows, block.columns), |row, rows, multiply| {
            multiply(&mut block.part(row, rows));
        });
    });
}

fn lend<S: Factor + Scratch>(
    a: &Bound,
    b: &Bound,
    pack_target: PackTarget,
    visit: impl Fn(Lent) + Sync,
) {
    let (m, n, k) = shape(a, b);
    let (left, right) = (Side::<S>::new(a), Side::<S>::new(b));
    let packed = Packed::new(&left, &right, (m, n, k), pack_target);
    let size = size(&packed, left.starts.len(), (m, n, k));
    for_each_part(left.starts.len(), (m, n, k), size, |i, row, column, (rows, columns)| {
        let (a, b) = (left.matrix(i).from(row, 0), right.matrix(i).from(0, column));
        let lend = |first: usize, rows: usize, multiply: &mut dyn FnMut(&mut Block<S>)| {
            with_scratch(rows * columns, |block: &mut [S]| {
                multiply(&mut Block::new(block, columns));
                let address = block.as_mut_ptr().expose_provenance();
                let row = i * m + row + first;
                visit(Lent { address, row, column, rows, columns, pitch: n });
            });
        };
        match &packed {
            Some(packed) => packed.pieces(a, b, column, (rows, columns), lend),
            None => lend(0, rows, &mut |block| S::block(k, a, b, block)),
        }
    });
}

/// Of the blocks that a product is cut into: rows, columns.
fn size(packed: &Option<Packed>, batch: usize, shape: (usize, usize, usize)) -> (usize, usize) {
    packed.as_ref().map_or_else(|| block_size(batch, shape), |packed| packed.size)
}

/// Floats as they are in memory: how a block of a product is computed.
pub trait Factor: Element {
    /// `c = a b`, where sums have `k` terms.
    fn block(k: usize, a: Matrix<Self>, b: Matrix<Self>, c: &mut Block<Self>);
}

impl Factor for f64 {
    fn block(k: usize, a: Matrix<f64>, b: Matrix<f64>, c: &mut Block<f64>) {
        gemm(k, 1.0, a, b, 0.0, c);
    }
}

impl Factor for f32 {
    fn block(k: usize, a: Matrix<f32>, b: Matrix<f32>, c: &mut Block<f32>) {
        if panels::multiply(k, a, b, false, c) {
            return;
        }
        let depth = DEPTH.min(k.max(1));
        with_scratch((c.rows + c.columns) * depth, |panels| {
            in_pieces([a, b], (k, depth), near, panels, c);
        });
    }
}

impl Factor for F16 {
    fn block(k: usize, a: Matrix<F16>, b: Matrix<F16>, c: &mut Block<F16>) {
        half(k, a, b, |_| false, c);
    }
}

impl Factor for Bf16 {
    fn block(k: usize, a: Matrix<Bf16>, b: Matrix<Bf16>, c: &mut Block<Bf16>) {
        half(k, a, b, |sums| bf16_gemm(k, a, b, sums), c);
    }
}

/// Elements from one term of a sum to the next from which on an operand is copied first: 4 KiB apart, each term is on
/// a page of its own, and a product takes up to half as long again.
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

/// A panel of an operand, as it is or in memory for it.
type Bring<S> = for<'a> fn(Matrix<'a, S>, usize, usize, &'a mut [f32]) -> Matrix<'a, f32>;

/// A block whose sums are taken in f32. `native` takes them without converting, or says that it cannot.
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
        if !native(&mut sums) && !panels::multiply(k, a, b, false, &mut sums) {
            let depth = DEPTH.min(k.max(1));
            with_scratch((rows + columns) * depth, |panels| {
                in_pieces([a, b], (k, depth), convert, panels, &mut sums);
            });
        }
        for (r, sums) in all.chunks_exact(columns).enumerate() {
            store_run::<S, f32>(sums, c.row(r));
        }
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

fn integers<S: Stored<i64>>(a: &Bound, b: &Bound, c: &Bound) {
    let (m, n, k) = shape(a, b);
    let (left, right) = (Side::<S>::new(a), Side::<S>::new(b));
    if m * n == 0 {
        return;
    }
    parallel_chunks(c.result::<S>(), n, 8 * n * k, |row, out| {
        let (a, b) = (left.matrix(row / m).from(row % m, 0), right.matrix(row / m));
        let mut sums = vec![0i64; n];
        for j in 0..k {
            let x: i64 = a.data[j * a.strides.1].load();
            for (c, sum) in sums.iter_mut().enumerate() {
                let y: i64 = b.data[j * b.strides.0 + c * b.strides.1].load();
                *sum = sum.wrapping_add(x.wrapping_mul(y));
            }
        }
        store_run::<S, i64>(&sums, out);
    });
}
