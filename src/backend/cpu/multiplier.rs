//! Blocks of f32 by one multiplier or another: the one that was measured to be the fastest for such blocks ([`super::choice`]), on
//! matrices that are made for it, so that it depends on the class alone.
#![expect(unsafe_code, reason = "products of pointers")]

use super::choice::{Class, Lie, Multiplier, unmeasured};
use super::matrix::{Block, Matrix};
use super::onednn;
use super::panels;
use super::pool::with_scratch;
use std::time::Instant;

/// Of the time of the one that would be chosen unmeasured, for another one to be chosen.
const MARGIN: f64 = 0.97;
/// Each is timed so often, for so many multiplications at least; the shortest time counts, because machines are shared.
const ROUNDS: usize = 7;
const LEAST: usize = 1 << 22;
/// Elements between rows, or columns, that are far apart: fewer than those from which on an operand is copied for the library.
const PITCH: usize = 768;

/// `c = a b`, or `c += a b`, by who was chosen for such blocks, if that is not the library: whether it was done; else nothing has
/// happened.
pub fn by_choice(k: usize, a: Matrix<f32>, b: Matrix<f32>, adds: bool, c: &mut Block<f32>) -> bool {
    let (rows, columns) = (c.rows, c.columns);
    if rows * columns * k == 0 {
        return false;
    }
    let class = Class::of([rows, k, columns], a.strides, b.strides);
    let by = onednn::with_choices(|choices| match (class, choices) {
        // No library, or one that takes no such operands.
        (_, None) | (None, _) => Multiplier::Panels,
        (Some(class), Some(Some(choices))) => choices.of(class, || fastest(class)),
        (Some(class), Some(None)) => unmeasured(class.a, class.b, (rows, columns)),
    });
    by != Multiplier::OneDnn && multiply_by(by, k, a, b, adds, c)
}

/// The fastest one; another one than without measuring only where that gains more than the noise.
fn fastest(class: Class) -> Multiplier {
    let [rows, terms, columns] = class.size();
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
                let multiply =
                    |_| multiply_by(by, terms, a, b, false, &mut Block::new(sums, columns));
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

/// `numbers` as a matrix that lies so.
fn lying(lie: Lie, numbers: &[f32], (rows, columns): (usize, usize)) -> Matrix<'_, f32> {
    let pitch = |dense: usize| if lie.far { PITCH } else { dense };
    match lie.by_rows {
        true => Matrix::rows(numbers, pitch(columns)),
        false => Matrix::rows(numbers, pitch(rows)).transposed(),
    }
}

/// `c = a b`, or `c += a b`, by one of them on this thread: whether it was done; else nothing has happened. As [`super::gemm::gemm`].
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
}
