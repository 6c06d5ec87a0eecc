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
/// Elements from row to row, or from column to column, of operands whose are far apart.
const PITCH: usize = 1024;

/// `c = a b`, or `c += a b`, by who was chosen for such blocks: whether it was done; else the library is to do it, and nothing
/// has happened.
pub fn by_choice(k: usize, a: Matrix<f32>, b: Matrix<f32>, adds: bool, c: &mut Block<f32>) -> bool {
    let (rows, columns) = (c.rows, c.columns);
    if rows * columns * k == 0 {
        return false;
    }
    let class = Class::of([rows, k, columns], a.strides, b.strides);
    let by = onednn::with_choices(|choices| match (class, choices) {
        (_, None) => Multiplier::Panels,
        (None, _) => Multiplier::OneDnn,
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

/// `c = a b`, or `c += a b`, by one of them on this thread: whether it was done; else nothing has happened. As [`gemm`].
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
    use super::super::onednn::OneDnn;
    use super::super::tests::{Random, epsilon, onednn as search};
    use super::*;
    use crate::cache::disk::Disk;
    use crate::dtype::DType;
    use std::sync::Arc;

    /// Who is chosen computes what the others do, whatever was measured.
    #[test]
    fn blocks_are_multiplied_by_who_was_chosen() {
        let Some(library) = onednn::load(&search()).unwrap() else { return };
        let folder = std::env::temp_dir().join(format!("torchacc-chosen-{}", std::process::id()));
        let choices = Choices::new(Disk::new(folder.clone(), 1 << 20), "chosen");
        let library = Arc::new(OneDnn::clone(&library).with_choices(choices));
        let mut random = Random::new(7);
        for [m, k, n] in [[3, 5, 7], [64, 100, 130], [200, 400, 300], [9, 700, 600]] {
            let mut numbers =
                |count: usize| -> Vec<f32> { (0..count).map(|_| random.unit() as f32).collect() };
            let (a, b) = (numbers(m * k), numbers(k * n));
            let (a, b) = (Matrix::rows(&a[..], k), Matrix::rows(&b[..], k).transposed());
            let mut c = vec![0.0; m * n];
            onednn::with(Some(library.clone()), || {
                super::super::gemm::gemm(k, 1.0, a, b, 0.0, &mut Block::new(&mut c, n));
            });
            for (at, &got) in c.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let term = |l: usize| a.data[i * k + l] as f64 * b.data[j * k + l] as f64;
                let want: f64 = (0..k).map(term).sum();
                let bound = (k + 2) as f64 * epsilon(DType::F32) * k as f64;
                assert!((got as f64 - want).abs() <= bound, "{m} {k} {n}: {got}, not {want}");
            }
        }
        assert_eq!(library.choices().unwrap().made().len(), 4);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
