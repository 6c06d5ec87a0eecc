//! Products by loops of our own, for every instruction set, against sums in f64.

use super::super::choice::Multiplier;
use super::super::element::{Bf16, F16};
use super::super::isa::{self, Isa, on_each_isa};
use super::super::matrix::{Block, Matrix};
use super::super::multiplier::multiply_by;
use super::super::onednn::is_here;
use super::super::packed_panels::PackedPanels;
use super::super::panels::{Term, multiply};
use super::node::{check_close, lay_out, node, values};
use super::*;
use crate::backend::memory::{Pool, Supply};
use crate::error::{Code, Result};
use smallvec::smallvec;

/// A matrix in memory: its elements, and the strides of rows and columns.
struct Stripes<S> {
    data: Vec<S>,
    strides: (usize, usize),
}

impl<S: Term> Stripes<S> {
    /// `rows` by `columns` in dense rows, dense columns, either with gaps behind each, or with gaps everywhere.
    fn new(numbers: &[f32], (rows, columns): (usize, usize), way: usize) -> Stripes<S> {
        let strides =
            [(columns, 1), (1, rows), (columns + 5, 1), (1, rows + 3), (2 * columns, 2)][way];
        let len = (rows - 1) * strides.0 + (columns - 1) * strides.1 + 1;
        // What is read though it is not part of the matrix shows.
        let mut data = vec![S::store(f32::NAN); len];
        for (at, &number) in numbers.iter().enumerate() {
            data[at / columns * strides.0 + at % columns * strides.1] = S::store(number);
        }
        Stripes { data, strides }
    }

    fn matrix(&self) -> Matrix<'_, S> {
        Matrix { data: &self.data, strides: self.strides }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.strides.0 + j * self.strides.1].load() as f64
    }
}

const WAYS: usize = 5;

/// With infinities, NaN and zeros among them if they are to be `special`.
fn numbers(random: &mut Random, count: usize, special: bool) -> Vec<f32> {
    let odd = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0];
    let number = |_| match special && random.below(20) == 0 {
        true => *random.pick(&odd),
        false => random.unit() as f32 - 0.3,
    };
    (0..count).map(number).collect()
}

fn check<S: Term>(random: &mut Random, [m, k, n]: [usize; 3], special: bool) {
    let mut numbers = |count| numbers(random, count, special);
    let (a, b, before) = (numbers(m * k), numbers(k * n), numbers(m * n));
    let mut bits: Option<[Vec<u32>; 2]> = None;
    for (way_a, way_b) in (0..WAYS).flat_map(|a| (0..WAYS).map(move |b| (a, b))) {
        // Large products in a few layouts only.
        if m * k * n > 40_000 && (way_a + way_b) % WAYS != k % WAYS {
            continue;
        }
        let a = Stripes::<S>::new(&a, (m, k), way_a);
        let b = Stripes::<S>::new(&b, (k, n), way_b);
        on_each_isa(|isa| {
            let made = [false, true].map(|adds| {
                let pitch = n + 2;
                let mut c = vec![7.0; m * pitch];
                for (row, before) in c.chunks_exact_mut(pitch).zip(before.chunks_exact(n)) {
                    row[..n].copy_from_slice(before);
                }
                let (a, b) = (a.matrix(), b.matrix());
                let done = multiply(k, a, b, adds, &mut Block::within(&mut c, pitch, m, n));
                assert_eq!(done, isa >= Isa::Avx2);
                assert!(c.chunks_exact(pitch).all(|row| row[n..] == [7.0; 2]), "outside of c");
                // In blocks, of sizes that are no tiles'.
                let mut blocks = vec![f32::NAN; m * n];
                blocks.copy_from_slice(&before);
                for (r, j, mut block) in Block::new(&mut blocks, n).cut(5, 21) {
                    multiply(k, a.from(r, 0), b.from(0, j), adds, &mut block);
                }
                let whole: Vec<f32> =
                    c.chunks_exact(pitch).flat_map(|r| &r[..n]).copied().collect();
                let same =
                    |(x, y): (&f32, &f32)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
                assert!(whole.iter().zip(&blocks).all(same), "{isa:?}: bits depend on blocks");
                whole
            });
            if isa < Isa::Avx2 {
                return;
            }
            for (at, &before) in before.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let terms = || (0..k).map(|l| a.at(i, l) * b.at(l, j));
                for (adds, made) in made.iter().enumerate() {
                    let first = if adds == 1 { before as f64 } else { 0.0 };
                    let want = first + terms().sum::<f64>();
                    let got = made[at] as f64;
                    let size = first.abs() + terms().map(f64::abs).sum::<f64>();
                    let bound = (k + 2) as f64 * epsilon(DType::F32) * size;
                    let is_it = match want.is_finite() {
                        true => (got - want).abs() <= bound,
                        false => got == want || got.is_nan() && want.is_nan(),
                    };
                    assert!(is_it, "{isa:?} {m} {k} {n} {way_a} {way_b}: {got}, not {want}");
                }
            }
            let made = made.map(|c| {
                c.iter()
                    .map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() })
                    .collect()
            });
            assert_eq!(bits.get_or_insert(made.clone()), &made, "{isa:?}: bits depend on layouts");
        });
    }
}

#[test]
fn products_in_panels_of_any_size_and_layout() {
    let mut random = Random::new(41);
    let rows = [1, 2, 5, 6, 7, 8, 9, 13, 16, 17, 25];
    let columns = [1, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 97];
    let terms = [1, 2, 3, 4, 5, 8, 9, 31];
    for (n, &m) in rows.iter().cycle().take(60).enumerate() {
        let sizes = [m, terms[n % terms.len()], columns[n % columns.len()]];
        check::<f32>(&mut random, sizes, n % 4 == 3);
        check::<Bf16>(&mut random, sizes, n % 4 == 2);
        check::<F16>(&mut random, sizes, n % 4 == 1);
    }
    // Several pieces of the sums, and more rows and columns than are packed at a time.
    let pieces = [[3, 384, 20], [9, 385, 50], [20, 1000, 35], [2, 800, 700], [30, 3, 1100]];
    let many = [[700, 400, 20], [700, 390, 67], [20, 400, 600]];
    for sizes in pieces.into_iter().chain(many) {
        check::<f32>(&mut random, sizes, false);
        check::<Bf16>(&mut random, sizes, false);
    }
}

/// Has none.
struct NoMemory;

impl Supply for NoMemory {
    fn allocate(&self, nbytes: usize) -> Result<usize> {
        Err(Error::new(Code::OutOfMemory, format!("no {nbytes} bytes")))
    }

    fn release(&self, _: usize, _: usize) {}

    fn coarsest(&self) -> usize {
        1 << 20
    }
}

/// Strips that are filled, and such that are not; also without memory for them.
#[test]
fn packed_operands_give_the_bits_of_blocks_that_pack_for_themselves() {
    fn check<S: Term + Sync>(random: &mut Random, [m, k, n]: [usize; 3], size: (usize, usize)) {
        let [a, b] = [m * k, k * n].map(|count| numbers(random, count, false));
        for (way_a, way_b) in (0..WAYS).map(|way| (way, (way + k) % WAYS)) {
            let a = Stripes::<S>::new(&a, (m, k), way_a);
            let b = Stripes::<S>::new(&b, (k, n), way_b);
            let operands = [a.matrix(), b.matrix()];
            on_each_isa(|isa| {
                for pool in [Pool::new(), Pool::of(Box::new(NoMemory))] {
                    let Some(panels) = PackedPanels::new(operands, [m, k, n], size, &pool) else {
                        assert!(isa < Isa::Avx2);
                        continue;
                    };
                    let pitch = n + 2;
                    let (mut got, mut want) = (vec![7.0; m * pitch], vec![7.0; m * pitch]);
                    let block = |c| Block::within(c, pitch, m, n);
                    for (row, column, mut c) in block(&mut got).cut(panels.size.0, panels.size.1) {
                        panels.block((row, column), &mut c);
                    }
                    multiply(k, operands[0], operands[1], false, &mut block(&mut want));
                    assert_eq!(got, want, "{isa:?} {m} {k} {n} {way_a} {way_b}");
                }
            });
        }
    }
    let mut random = Random::new(47);
    for sizes in [[1, 1, 1], [20, 31, 100], [130, 400, 97], [300, 64, 260], [257, 800, 130]] {
        for size in [(1, 1), (16, 48), (100, 70), (400, 300)] {
            check::<f32>(&mut random, sizes, size);
            check::<Bf16>(&mut random, sizes, size);
            check::<F16>(&mut random, sizes, size);
        }
    }
}

/// Products that are large enough, as programs compute them, of all floats.
#[test]
fn large_products_of_any_layout() {
    let mut random = Random::new(48);
    for dtype in FLOATS {
        for (m, k, n) in [(300, 70, 520), (521, 400, 260)] {
            let (x, y) = (values(&mut random, dtype, &[m, k]), values(&mut random, dtype, &[k, n]));
            let mut case = node(Op::Matmul, smallvec![], vec![x, y]);
            for lay in LAYS {
                lay_out(&mut case, 1, lay);
                check_close(&case, 4.0 * (k as f64 + 2.0));
            }
            lay_out(&mut case, 0, Lay::Spaced);
            check_close(&case, 4.0 * (k as f64 + 2.0));
        }
    }
}

#[test]
fn products_in_panels_of_nothing_are_left_to_others() {
    for [m, k, n] in [[0, 3, 4], [3, 0, 4], [3, 4, 0]] {
        let (a, b) = (vec![1.0f32; m * k], vec![1.0f32; k * n]);
        let mut c = vec![5.0; m * n];
        let (a, b) = (Matrix::rows(&a, k), Matrix::rows(&b, n));
        assert!(!multiply(k, a, b, false, &mut Block::within(&mut c, n, m, n)));
        assert!(c.iter().all(|&c| c == 5.0));
    }
}

/// Of layouts that the library does not take, nothing is computed.
#[test]
fn whoever_multiplies_is_right() {
    let mut random = Random::new(43);
    let mut computed = [0; Multiplier::ALL.len()];
    for _ in 0..300 {
        let [m, k, n] = [30, 500, 60].map(|most| 1 + random.below(most));
        let special = random.below(4) == 0;
        let mut numbers = |count| numbers(&mut random, count, special);
        let (a, b, before) = (numbers(m * k), numbers(k * n), numbers(m * n));
        let [way_a, way_b] = [0, 1].map(|_| random.below(WAYS));
        let a = Stripes::<f32>::new(&a, (m, k), way_a);
        let b = Stripes::<f32>::new(&b, (k, n), way_b);
        for (adds, by) in
            [false, true].into_iter().flat_map(|adds| Multiplier::ALL.map(|by| (adds, by)))
        {
            let mut c = before.clone();
            let to = &mut Block::new(&mut c, n);
            let run = || multiply_by(by, k, a.matrix(), b.matrix(), adds, to);
            if !cpu(1).inside(run).unwrap() {
                let bits = |c: &[f32]| c.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert!(bits(&c) == bits(&before) && by != Multiplier::Portable);
                continue;
            }
            computed[by as usize] += 1;
            for (at, (&got, &before)) in c.iter().zip(&before).enumerate() {
                let (i, j) = (at / n, at % n);
                let terms = || (0..k).map(|l| a.at(i, l) * b.at(l, j));
                let first = if adds { before as f64 } else { 0.0 };
                let (want, got) = (first + terms().sum::<f64>(), got as f64);
                let size = first.abs() + terms().map(f64::abs).sum::<f64>();
                let is_it = match want.is_finite() {
                    true => (got - want).abs() <= (k + 2) as f64 * epsilon(DType::F32) * size,
                    false => got == want || got.is_nan() && want.is_nan(),
                };
                assert!(is_it, "{by:?} {m} {k} {n} {way_a} {way_b}: {got}, not {want}");
            }
        }
    }
    assert_eq!(computed[Multiplier::Portable as usize], 600);
    let library = cpu(1).inside(is_here).unwrap();
    assert!(!library || computed[Multiplier::OneDnn as usize] > 100);
    assert!(isa::chosen() < Isa::Avx2 || computed[Multiplier::Panels as usize] == 600);
}
