//! Matrix products of floats in memory, block by block on one thread each: small ones by loops of their own
//! ([`super::small_gemm`]), others of f32 by the multiplier that was measured to be the fastest ([`super::multiplier`]); by the
//! `matrixmultiply` crate for f64, and where there are neither loops of our own nor oneDNN.
//!
//! **Invariant:** how a product is cut into blocks depends on its sizes and on the machine only, so the bits do not depend on
//! the number of threads.
#![expect(unsafe_code, reason = "products of pointers")]

use super::access::Plain;
use super::element::Bf16;
use super::matrix::{Block, Matrix};
use super::multiplier::by_choice;
use super::onednn::{self, Element, Packing, Product, Raw};
use super::pool::{GRAIN, Scratch, parallel, parallel_each, with_scratch};
use std::sync::OnceLock;

/// A float type that matrices are multiplied in.
pub trait Real: Plain + std::ops::AddAssign + PartialEq {
    /// `c = a b`, or `c += a b`, by the multiplier chosen for such blocks ([`super::choice`]), if that is not the
    /// library. Returns whether it was done.
    fn by_choice(_: usize, _: [Matrix<Self>; 2], _adds: bool, _: &mut Block<Self>) -> bool {
        false
    }

    /// As `matrixmultiply::sgemm`: `c = alpha a b + beta c`.
    ///
    /// # Safety
    /// The matrices must be valid memory, and nobody else may access `c`.
    #[allow(clippy::too_many_arguments, reason = "the BLAS signature")]
    unsafe fn product(
        m: usize,
        k: usize,
        n: usize,
        alpha: Self,
        a: Raw<Self>,
        b: Raw<Self>,
        beta: Self,
        c: (*mut Self, isize),
    );
}

macro_rules! real {
    ($t:ty, $f:path $(, $chosen:path, $faster:path)?) => {
        impl Real for $t {
            $(fn by_choice(k: usize, [a, b]: [Matrix<$t>; 2], adds: bool, c: &mut Block<$t>) -> bool {
                $chosen(k, a, b, adds, c)
            })?
            unsafe fn product(
                m: usize,
                k: usize,
                n: usize,
                alpha: $t,
                a: Raw<$t>,
                b: Raw<$t>,
                beta: $t,
                c: (*mut $t, isize),
            ) {
                // SAFETY: the caller's promise, here and below.
                $(if unsafe { $faster(m, k, n, alpha, a, b, beta, c) } {
                    return;
                })?
                // SAFETY: as above.
                unsafe {
                    $f(m, k, n, alpha, a.0, a.1.0, a.1.1, b.0, b.1.0, b.1.1, beta, c.0, c.1, 1)
                }
            }
        }
    };
}

real!(f32, matrixmultiply::sgemm, by_choice, onednn::sgemm);
real!(f64, matrixmultiply::dgemm);

/// `c = alpha a b + beta c` on this thread; with `beta` 0 the old contents of `c` do not matter. `k` columns of `a`
/// meet `k` rows of `b`.
pub fn gemm<T: Real + From<f32>>(
    k: usize,
    alpha: T,
    a: Matrix<T>,
    b: Matrix<T>,
    beta: f32,
    c: &mut Block<T>,
) {
    let (m, n) = (c.rows, c.columns);
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        if beta == 0.0 {
            (0..m).for_each(|i| c.row(i).fill(T::default()));
        }
        return;
    }
    assert!(a.holds(m, k) && b.holds(k, n), "operands of a product are too small");
    let plain = alpha == T::from(1.0) && (beta == 0.0 || beta == 1.0);
    if plain && T::by_choice(k, [a, b], beta == 1.0, c) {
        return;
    }
    let (to, stride) = c.raw();
    // SAFETY: the operands hold these elements, and the block is ours alone.
    unsafe {
        T::product(m, k, n, alpha, a.raw(), b.raw(), T::from(beta), (to, stride as isize));
    }
}

/// `c = a b` of bf16, on this thread: true if it was done without converting the operands, as is faster on some
/// processors; else nothing has happened.
pub fn bf16_gemm(k: usize, a: Matrix<Bf16>, b: Matrix<Bf16>, c: &mut Block<f32>) -> bool {
    let (m, n) = (c.rows, c.columns);
    // Terms are multiplied in pairs. The element that completes an odd pair is 0 in one operand only, so infinite
    // values would give NaN.
    if m == 0 || n == 0 || k == 0 || !k.is_multiple_of(2) {
        return false;
    }
    assert!(a.holds(m, k) && b.holds(k, n), "operands of a product are too small");
    let (to, stride) = c.raw();
    // SAFETY: the operands hold these elements, and the block is ours alone.
    unsafe { onednn::bf16_gemm([m, k, n], a.raw(), b.raw(), (to, stride as isize)) }
}

/// Brings `b` into the layout of `packing`, on this thread.
pub fn pack<T: Element>(packing: &Packing, b: Matrix<T>, packed: &mut [f32], room: &mut [f32]) {
    let plain = &packing.plain;
    assert!(b.strides == plain.strides && b.holds(plain.rows, plain.columns));
    // SAFETY: the operand holds these elements.
    unsafe { packing.pack(b.data.as_ptr(), packed, room) };
}

/// `c = a b`, where b is `packed` as `packing` says, on this thread.
pub fn packed_gemm<T: Element + Scratch>(
    (product, packing): (&Product, &Packing),
    a: Matrix<T>,
    packed: &[f32],
    c: &mut Block<T>,
    room: &mut [f32],
) {
    assert!(product.rows() == c.rows && packing.plain.columns == c.columns);
    assert!(a.holds(c.rows, packing.plain.rows), "an operand of a product is too small");
    // SAFETY: the operand holds these elements.
    let mut run = |c: &mut [T]| unsafe { product.run(packing, a.raw(), packed, c, room) };
    if c.is_dense() {
        return run(c.dense());
    }
    with_scratch(c.rows * c.columns, |dense| {
        run(dense);
        for (r, row) in dense.chunks_exact(c.columns).enumerate() {
            c.row(r).copy_from_slice(row);
        }
    });
}

/// Cuts each of the `out.len() / (m * n)` matrices in `out` into blocks of at most `height` by `width` and calls `work` for all
/// of them, in parallel, with the number of the matrix, the first row and column, and the block. `k` is the work per element.
pub fn for_each_block<T: Plain>(
    out: &mut [T],
    (m, n, k): (usize, usize, usize),
    (height, width): (usize, usize),
    work: impl Fn(usize, usize, usize, Block<T>) + Sync,
) {
    if m * n == 0 || out.is_empty() {
        return;
    }
    let batch = out.len() / (m * n);
    let matrices = out.chunks_exact_mut(m * n).enumerate();
    let blocks = matrices.flat_map(|(i, matrix)| {
        let blocks = Block::new(matrix, n).cut(height, width);
        blocks.map(move |(r, c, block)| (i, r, c, block))
    });
    if batch * m.div_ceil(height) * n.div_ceil(width) == 1 || batch * m * n * k < SMALL {
        return blocks.for_each(|(i, r, c, block)| work(i, r, c, block));
    }
    let cost = block_cost::<T>(height.min(m) * width.min(n), k);
    parallel_each(blocks, cost, |(i, r, c, block)| work(i, r, c, block));
}

/// As [`for_each_block`], for `batch` matrices that are not in memory: the last argument is the size of a block.
pub fn for_each_part(
    batch: usize,
    (m, n, k): (usize, usize, usize),
    (height, width): (usize, usize),
    work: impl Fn(usize, usize, usize, (usize, usize)) + Sync,
) {
    if batch * m * n == 0 {
        return;
    }
    let (down, across) = (m.div_ceil(height), n.div_ceil(width));
    let part = |index: usize| {
        let (i, row, column) =
            (index / (down * across), index / across % down * height, index % across * width);
        work(i, row, column, (height.min(m - row), width.min(n - column)));
    };
    if down * across * batch == 1 || batch * m * n * k < SMALL {
        return (0..batch * down * across).for_each(part);
    }
    parallel(batch * down * across, block_cost::<f32>(height.min(m) * width.min(n), k), part);
}

/// Cost of a call for a product, however small that is.
const CALL: usize = GRAIN / 64;

/// Cost of a block of `elements` elements with sums of `k` terms, as memory traffic: many small blocks are one task.
fn block_cost<T>(elements: usize, k: usize) -> usize {
    let multiplied = elements.saturating_mul(k) / (WORK / GRAIN);
    multiplied.saturating_add(elements * size_of::<T>()).clamp(CALL, GRAIN)
}

/// Multiplications that are not worth a second thread.
const SMALL: usize = 1 << 17;

/// The size of blocks: large, because large ones reuse the operands that they pack, but leaving work for many threads.
pub fn block_size(batch: usize, shape: (usize, usize, usize)) -> (usize, usize) {
    size_for(blocks(), batch, shape)
}

/// [`block_size`] where `blocks` blocks keep all threads busy.
fn size_for(blocks: usize, batch: usize, (m, n, k): (usize, usize, usize)) -> (usize, usize) {
    let mut size = (m, n);
    if m * n == 0 {
        return size;
    }
    while size.0 * size.1 > AREA || !suffice(blocks, batch, (m, n, k), size) {
        let Some(smaller) = smaller(size) else { break };
        size = smaller;
    }
    size
}

/// About half the block, in whole [`STEP`]s; `None` if it is not cut any further.
fn smaller((height, width): (usize, usize)) -> Option<(usize, usize)> {
    let half = |side: usize| side.div_ceil(2).next_multiple_of(STEP);
    match height >= width {
        _ if height.max(width) <= STEP => None,
        true => Some((half(height), width)),
        false => Some((height, half(width))),
    }
}

/// Whether blocks of `height` by `width` keep all threads busy, or are small enough.
pub fn are_enough(batch: usize, shape: (usize, usize, usize), size: (usize, usize)) -> bool {
    suffice(blocks(), batch, shape, size)
}

fn suffice(
    blocks: usize,
    batch: usize,
    (m, n, k): (usize, usize, usize),
    (height, width): (usize, usize),
) -> bool {
    batch * m.div_ceil(height) * n.div_ceil(width) >= blocks || height * width * k <= WORK
}

/// Rows and columns that kernels compute at once.
const STEP: usize = 16;
/// Elements of the largest block.
const AREA: usize = 512 * 512;
/// Number of blocks that keep all threads busy to the end. More would pack the same operands more often, which already
/// costs 3 % with twice as many. It counts the processors of the machine, not those that this process may use: a library's
/// sums depend on the block.
fn blocks() -> usize {
    static BLOCKS: OnceLock<usize> = OnceLock::new();
    *BLOCKS.get_or_init(|| {
        // SAFETY: asks for a number.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        blocks_for(processors.max(0) as usize)
    })
}

fn blocks_for(processors: usize) -> usize {
    (2 * processors).clamp(8, 64)
}

/// Multiplications that are enough for a block: about 10 µs, in which another thread can be asked to help.
const WORK: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::tests::Random;

    #[test]
    fn a_block_gets_smaller_until_it_is_not_cut_any_more() {
        let sides = || (1..=130).chain([1000, 4097, 1 << 20, (1 << 40) + 1]);
        for size in sides().flat_map(|height| sides().map(move |width| (height, width))) {
            match smaller(size) {
                Some(next) => assert!(
                    next != size && next.0 <= size.0 && next.1 <= size.1,
                    "{size:?} to {next:?}"
                ),
                None => assert!(size.0.max(size.1) <= STEP, "{size:?} is still large"),
            }
        }
    }

    /// The numbers of the product that a linear layer's gradient is, which had no end: 32 by 32, of 8,192 terms.
    #[test]
    fn a_long_sum_for_a_small_result_is_cut_into_the_smallest_blocks() {
        assert_eq!(size_for(blocks_for(2), 1, (32, 32, 8192)), (16, 16));
        assert_eq!(size_for(blocks_for(2), 1, (3, 5, 1 << 30)), (3, 5));
    }

    #[test]
    fn blocks_have_a_size_for_every_product_and_cover_it_once() {
        let check = |processors: usize, batch: usize, (m, n, k): (usize, usize, usize)| {
            let (height, width) = size_for(blocks_for(processors), batch, (m, n, k));
            assert!(0 < height && height <= m && 0 < width && width <= n, "{m} {n} {k}");
            assert!(height * width <= AREA.max(STEP * STEP));
            if m * n > 1 << 12 {
                return;
            }
            let mut out = vec![0u8; m * n];
            for (_, _, mut block) in Block::new(&mut out, n).cut(height, width) {
                (0..block.rows).for_each(|r| block.row(r).iter_mut().for_each(|x| *x += 1));
            }
            assert!(out.iter().all(|&times| times == 1), "{m} {n} {k}: {height} by {width}");
        };
        let mut random = Random::new(1);
        for processors in 1..=256 {
            for _ in 0..200 {
                let sides = (random.size(16), random.size(16), random.size(32));
                check(processors, random.size(8), sides);
            }
        }
        for (m, n) in (1..=40).flat_map(|m| (1..=40).map(move |n| (m, n))) {
            [1, 100, 1 << 13, 1 << 20].into_iter().for_each(|k| check(2, 1, (m, n, k)));
        }
    }
}
