//! `matmul`: batches of matrix products with operands of any strides. Half types are converted to f32 while they are
//! packed, or block by block for a library or for loops of our own, multiplied there and rounded once; for a library operands
//! in f32 that lie far apart are brought together in the same way; integers are multiplied by a plain loop.

use super::access::Bound;
use super::element::{Bf16, F16, Stored, store_run};
use super::factor::{Blocks, Factor, Side};
use super::gemm::{block_size, for_each_block, for_each_part};
use super::matrix::Block;
use super::packed::Packed;
use super::packed_weights::PackTarget;
use super::pool::{Scratch, parallel_chunks, with_scratch};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;

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
    let panels = panels(&packed, [&left, &right], (m, n, k), size, pack_target);
    let size = panels.as_ref().map_or(size, |panels| panels.0);
    for_each_block(c.result::<S>(), (m, n, k), size, |i, row, column, mut block| {
        if let Some((_, compute)) = &panels {
            return compute((row, column), &mut block);
        }
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
    let panels = panels(&packed, [&left, &right], (m, n, k), size, pack_target);
    let size = panels.as_ref().map_or(size, |panels| panels.0);
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
        match (&packed, &panels) {
            (Some(packed), _) => packed.pieces(a, b, column, (rows, columns), lend),
            (_, Some((_, compute))) => lend(0, rows, &mut |block| compute((row, column), block)),
            _ => lend(0, rows, &mut |block| S::block(k, a, b, block)),
        }
    });
}

/// [`Factor::packed`], for a single product whose right operand is not packed.
fn panels<'a, S: Factor>(
    packed: &Option<Packed>,
    [left, right]: [&Side<'a, S>; 2],
    shape: (usize, usize, usize),
    size: (usize, usize),
    pack_target: PackTarget,
) -> Option<Blocks<'a, S>> {
    let alone = packed.is_none() && left.starts.len() == 1;
    alone.then(|| S::packed([left.matrix(0), right.matrix(0)], shape, size, pack_target.1))?
}

/// The size of the blocks that a product is cut into: rows, columns.
fn size(packed: &Option<Packed>, batch: usize, shape: (usize, usize, usize)) -> (usize, usize) {
    packed.as_ref().map_or_else(|| block_size(batch, shape), |packed| packed.size)
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
