//! Multiplies blocks of f32 by the multiplier that was measured to be the fastest for such blocks ([`super::choice`]);
//! it is measured on matrices made for that, so that it depends on the class alone. Also decides whether products of
//! several blocks are packed for our own loops first.
#![expect(unsafe_code, reason = "products of pointers")]

use super::choice::{Class, Lie, Multiplier, unmeasured};
use super::matrix::{Block, Matrix};
use super::onednn;
use super::packed_panels::PackedPanels;
use super::panels;
use super::pool::with_scratch;
use super::thread_pool::serial;
use crate::backend::memory::Pool;
use std::sync::Arc;
use std::time::Instant;

/// Another multiplier is chosen if it takes less than this part of the time of the unmeasured choice.
const MARGIN: f64 = 0.97;
/// Number of timings of each, and the least number of multiplications in one timing; the shortest time counts, because
/// machines are shared.
const ROUNDS: usize = 7;
const LEAST: usize = 1 << 22;
/// Elements between rows, or columns, that are far apart: fewer than those from which on an operand is copied for the library.
const PITCH: usize = 768;

/// `c = a b`, or `c += a b`, by the multiplier chosen for such blocks, if that is not the library. Returns whether it
/// was done; else nothing has happened.
pub fn by_choice(k: usize, a: Matrix<f32>, b: Matrix<f32>, adds: bool, c: &mut Block<f32>) -> bool {
    let (rows, columns) = (c.rows, c.columns);
    if rows * columns * k == 0 {
        return false;
    }
    let class = Class::of([rows, k, columns], a.strides, b.strides);
    let by = onednn::with_choices(|choices| match (class, choices) {
        // No library, or one that takes no such operands.
        (_, None) | (None, _) => Multiplier::Panels,
        (Some(class), Some(Some(choices))) => choices.of(class, || fastest(class, None)),
        (Some(class), Some(None)) => unmeasured(class.a, class.b, (rows, columns)),
    });
    by != Multiplier::OneDnn && multiply_by(by, k, a, b, adds, c)
}

/// Whether a product that is cut into blocks of `height` by `width` is computed from operands that are packed first;
/// memory for trying that comes from `pool`.
pub fn packs([a, b]: [Matrix<f32>; 2], [height, k, width]: [usize; 3], pool: &Arc<Pool>) -> bool {
    let class = Class::of([height, k, width], a.strides, b.strides).map(Class::of_product);
    let by = onednn::with_choices(|choices| match (class, choices) {
        (_, None) | (None, _) => Multiplier::Panels,
        (Some(class), Some(Some(choices))) => choices.of(class, || fastest(class, Some(pool))),
        (Some(class), Some(None)) => class.unmeasured(),
    });
    by == Multiplier::Panels
}

/// The fastest multiplier; it differs from the unmeasured choice only where that gains more than the noise. With `pool`
/// it is measured on two by two blocks, whose operands are packed where our own loops multiply.
fn fastest(class: Class, pool: Option<&Arc<Pool>>) -> Multiplier {
    let [height, terms, width] = class.size();
    let parts = if pool.is_some() { 2 } else { 1 };
    let (rows, columns) = (parts * height, parts * width);
    let longest = PITCH * rows.max(columns).max(terms);
    let times = LEAST.div_ceil(rows * columns * terms);
    let seconds = with_scratch(2 * longest + rows * columns, |room| {
        let (operands, sums) = room.split_at_mut(2 * longest);
        operands.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 101) as f32 / 50.0 - 1.0);
        let (a, b) = operands.split_at(longest);
        let (a, b) = (lying(class.a, a, (rows, terms)), lying(class.b, b, (terms, columns)));
        let mut shortest = Multiplier::ALL.map(|_| f64::INFINITY);
        for _ in 0..ROUNDS {
            for (by, shortest) in Multiplier::ALL.into_iter().zip(&mut shortest) {
                let start = Instant::now();
                let multiply = |_| {
                    let c = Block::new(sums, columns);
                    match pool.filter(|_| by == Multiplier::Panels) {
                        Some(pool) => {
                            serial(|| multiply_packed(terms, [a, b], c, (height, width), pool))
                        }
                        None => c.cut(height, width).all(|(row, column, mut c)| {
                            let (a, b) = (a.from(row, 0), b.from(0, column));
                            multiply_by(by, terms, a, b, false, &mut c)
                        }),
                    }
                };
                if (0..times).all(multiply) {
                    *shortest = shortest.min(start.elapsed().as_secs_f64());
                }
            }
        }
        shortest
    });
    let unmeasured = class.unmeasured();
    let time = |by: Multiplier| match by == unmeasured {
        true => MARGIN * seconds[by as usize],
        false => seconds[by as usize],
    };
    let faster = |x, y| if time(y) < time(x) { y } else { x };
    Multiplier::ALL.into_iter().fold(unmeasured, faster)
}

/// `c = a b`, in blocks of about `size` (rows, columns), of operands that are packed once. Returns whether it was done;
/// else nothing has happened.
pub fn multiply_packed(
    k: usize,
    operands: [Matrix<f32>; 2],
    c: Block<f32>,
    size: (usize, usize),
    pool: &Arc<Pool>,
) -> bool {
    let panels = PackedPanels::new(operands, [c.rows, k, c.columns], size, pool);
    panels.is_some_and(|panels| {
        let blocks = c.cut(panels.size.0, panels.size.1);
        blocks.for_each(|(row, column, mut c)| panels.block((row, column), &mut c));
        true
    })
}

/// `numbers` as a matrix of this layout.
fn lying(lie: Lie, numbers: &[f32], (rows, columns): (usize, usize)) -> Matrix<'_, f32> {
    let pitch = |dense: usize| if lie.far { PITCH } else { dense };
    match lie.by_rows {
        true => Matrix::rows(numbers, pitch(columns)),
        false => Matrix::rows(numbers, pitch(rows)).transposed(),
    }
}

/// `c = a b`, or `c += a b`, by the given multiplier on this thread. Returns whether it was done; else nothing has
/// happened. As [`super::gemm::gemm`].
pub fn multiply_by(
    by: Multiplier,
    k: usize,
    a: Matrix<f32>,
    b: Matrix<f32>,
    adds: bool,
    c: &mut Block<f32>,
) -> bool {
    let beta = if adds { 1.0 } else { 0.0 };
    let ((to, stride), m, n) = (c.raw(), c.rows, c.columns);
    let to = (to, stride as isize);
    assert!(m * n * k > 0 && a.holds(m, k) && b.holds(k, n), "operands of a product are too small");
    let ((from_a, (ar, ac)), (from_b, (br, bc))) = (a.raw(), b.raw());
    // SAFETY: the operands hold these elements, and the block is ours alone.
    match by {
        Multiplier::Panels => panels::multiply(k, a, b, adds, c),
        Multiplier::OneDnn => unsafe { onednn::sgemm(m, k, n, 1.0, a.raw(), b.raw(), beta, to) },
        Multiplier::Portable => unsafe {
            matrixmultiply::sgemm(
                m, k, n, 1.0, from_a, ar, ac, from_b, br, bc, beta, to.0, to.1, 1,
            );
            true
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::Choices;
    use super::super::gemm::gemm;
    use super::super::onednn::OneDnn;
    use super::super::tests::onednn as search;
    use super::*;
    use crate::cache::disk::Disk;
    use std::sync::Arc;

    #[test]
    fn blocks_are_multiplied_by_who_was_chosen() {
        let Some(library) = onednn::load(&search()).unwrap() else { return };
        let folder = std::env::temp_dir().join(format!("torchacc-chosen-{}", std::process::id()));
        let numbers = |count: usize| -> Vec<f32> {
            (0..count).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect()
        };
        for by in Multiplier::ALL {
            let choices = Choices::new(Disk::new(folder.join(by.name()), 1 << 20), "chosen");
            let library = Arc::new(OneDnn::clone(&library).with_choices(choices));
            for [m, k, n] in [[3, 5, 7], [64, 100, 130], [200, 400, 300], [9, 700, 600]] {
                let (a, b) = (numbers(m * k), numbers(k * n));
                let (a, b) = (Matrix::rows(&a[..], k), Matrix::rows(&b[..], k).transposed());
                let class = Class::of([m, k, n], a.strides, b.strides).unwrap();
                library.choices().unwrap().of(class, || by);
                let (mut got, mut want) = (vec![0.0; m * n], vec![0.0; m * n]);
                let done = onednn::with(Some(library.clone()), || {
                    gemm(k, 1.0, a, b, 0.0, &mut Block::new(&mut got, n));
                    multiply_by(by, k, a, b, false, &mut Block::new(&mut want, n))
                });
                assert!(!done || got == want, "{by:?} {m} {k} {n}");
                assert!(done || by == Multiplier::Panels);
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn products_are_packed_if_that_was_chosen() {
        let Some(library) = onednn::load(&search()).unwrap() else { return };
        let folder = std::env::temp_dir().join(format!("torchacc-packs-{}", std::process::id()));
        let (pool, size) = (Pool::new(), [256, 300, 512]);
        let numbers = vec![1.0; 512 * 512];
        let operands = [Matrix::rows(&numbers[..], 300), Matrix::rows(&numbers[..], 512)];
        let class = Class::of(size, operands[0].strides, operands[1].strides).unwrap();
        for by in Multiplier::ALL {
            let choices = Choices::new(Disk::new(folder.join(by.name()), 1 << 20), "chosen");
            let library = Arc::new(OneDnn::clone(&library).with_choices(choices));
            library.choices().unwrap().of(class.of_product(), || by);
            let packed = onednn::with(Some(library.clone()), || packs(operands, size, &pool));
            assert_eq!(packed, by == Multiplier::Panels);
        }
        // Without a library, without choices, and measured.
        assert!(onednn::with(None, || packs(operands, size, &pool)));
        let packed = onednn::with(Some(library.clone()), || packs(operands, size, &pool));
        assert_eq!(packed, class.of_product().unmeasured() == Multiplier::Panels);
        let choices = Choices::new(Disk::new(folder.join("measured"), 1 << 20), "chosen");
        let library = Arc::new(OneDnn::clone(&library).with_choices(choices));
        let packed = onednn::with(Some(library.clone()), || packs(operands, size, &pool));
        let made = library.choices().unwrap().made();
        let by = if packed { Multiplier::Panels } else { Multiplier::OneDnn };
        assert!(made.len() == 1 && (made[0].1 == by.name() || !packed));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
