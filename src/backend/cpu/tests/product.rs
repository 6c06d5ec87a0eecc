//! Matrix products, alone and with an epilogue.

use super::super::isa::{Isa, on_each_isa};
use super::super::matrix::{Block, Matrix};
use super::super::small_gemm::{Only, SmallGemm, SmallGemmElement, is_small, small_product};
use super::node::{check_close, values};
use super::*;
use crate::op::evaluate::evaluate;
use crate::plan::{Instr, LoopBody};
use smallvec::smallvec;

/// `product * scale + bias` and the product itself, of products in one block and in many.
#[test]
fn a_product_goes_through_its_epilogue() {
    let mut random = Random::new(17);
    for (batch, m, k, n) in
        [(1, 5, 7, 3), (2, 33, 40, 70), (1, 1, 9, 1), (1, 600, 12, 530), (1, 4, 0, 6)]
    {
        for dtype in FLOATS {
            let product = [batch, m, n];
            // The rows of the product as two dimensions, where they divide.
            let sizes = if m % 3 == 0 { vec![batch, 3, m / 3, n] } else { product.to_vec() };
            let along = |strides: &[i64]| Layout {
                sizes: sizes[..].into(),
                strides: strides.into(),
                offset: 0,
            };
            let mut strides = vec![0; sizes.len()];
            let scale = along(&strides);
            strides[sizes.len() - 1] = 1;
            let bias = along(&strides);
            let mut reads = Vec::new();
            for (layout, dims) in [
                (Layout::contiguous(&[batch, m, k]), [batch, m, k].to_vec()),
                (Layout::contiguous(&[batch, n, k]).transpose(&[0, 2, 1]), vec![batch, n, k]),
                (scale, vec![1]),
                (bias, vec![n]),
                (Layout::contiguous(&sizes), sizes.clone()),
            ] {
                let mem = MemRef::Input(reads.len() as u32);
                // All positive: no difference of rounding is all that is left of a result.
                let number = values(&mut random, dtype, &dims);
                let ty = [number.ty.clone()];
                let positive = evaluate(Op::Abs, &[&number], &[], &ty).unwrap().remove(0);
                reads.push((Operand { mem, dtype, layout }, positive));
            }
            let instr =
                |op, args: &[u32]| Instr { op, attrs: smallvec![], dtype, args: args.into() };
            let body = LoopBody {
                sizes: sizes[..].into(),
                reads: vec![dtype; 4],
                instrs: vec![
                    instr(Op::Mul, &[0, 1]),
                    instr(Op::Add, &[4, 2]),
                    instr(Op::Add, &[5, 3]),
                ],
                results: vec![6, 0],
            };
            let kernel = Kernel::Fused { op: Op::Matmul, attrs: smallvec![], body };
            let writes = vec![(dtype, sizes[..].into()); 2];
            let case = Case { kernel, reads, writes, scalars: vec![], in_place: false };
            check_close(&case, 8.0 * (k as f64 + 4.0));
        }
    }
}

/// Of a product of thin matrices with what of the left operand is 0, and what of the result is wanted.
#[test]
fn epilogues_without_machine_code() {
    code::without(a_product_goes_through_its_epilogue);
}

#[test]
fn small_products_of_operands_that_lie_anyhow() {
    let mut random = Random::new(23);
    let mut numbers =
        |n: usize| -> Vec<f32> { (0..n).map(|_| random.unit() as f32 - 0.5).collect() };
    for [rows, columns, k] in [[4, 1, 1], [4, 17, 128], [5, 64, 50], [7, 3, 129], [40, 16, 20]] {
        let held = |(down, across): (usize, usize), [rows, columns]: [usize; 2]| {
            (rows - 1) * down + (columns - 1) * across + 1
        };
        for along_a in [(k, 1), (1, rows), (0, 1), (1, 0)] {
            for along_b in [(columns, 1), (1, k), (0, 1), (1, 0), (columns + 3, 1)] {
                // Not an element more than they have.
                let (a, b) =
                    (numbers(held(along_a, [rows, k])), numbers(held(along_b, [k, columns])));
                let a = Matrix { data: &a[..], strides: along_a };
                let b = Matrix { data: &b[..], strides: along_b };
                on_each_isa(|isa| {
                    if !is_small(rows, columns, k) {
                        assert_eq!(isa, Isa::Baseline);
                        return;
                    }
                    let mut c = vec![f32::NAN; rows * columns];
                    small_product(k, a, b, &mut Block::new(&mut c, columns));
                    for (at, &c) in c.iter().enumerate() {
                        let element = |m: Matrix<f32>, i: usize, j: usize| {
                            m.data[i * m.strides.0 + j * m.strides.1] as f64
                        };
                        let term = |l| element(a, at / columns, l) * element(b, l, at % columns);
                        let want: f64 = (0..k).map(term).sum();
                        let size: f64 = (0..k).map(|l| term(l).abs()).sum();
                        assert!(
                            (c as f64 - want).abs() <= 1e-5 * size,
                            "{isa:?} {at}: {c}, not {want}"
                        );
                    }
                });
            }
        }
    }
    let are_small = [[3, 8, 8], [4, 65, 1], [4, 8, 0], [4, 8, 8], [32, 32, 32], [4, 1, 1 << 40]]
        .map(|[rows, columns, k]| is_small(rows, columns, k));
    assert!(!are_small[..3].contains(&true) && are_small[4..] == [false; 2]);
}

#[test]
fn small_products_with_every_instruction_set() {
    const SIZES: [[usize; 3]; 4] = [[1, 16, 1], [7, 48, 5], [64, 64, 300], [13, 80, 130]];
    let onlys: [fn(isize) -> Only; 4] = [|_| Only::All, Only::Below, Only::Left, Only::Right];
    let mut random = Random::new(19);
    let mut numbers =
        |n: usize| -> Vec<f32> { (0..n).map(|_| random.unit() as f32 - 0.5).collect() };
    for ([rows, columns, depth], n) in SIZES.into_iter().zip([0, 3, -20, 17]) {
        let (b, before) = (numbers(depth * columns), numbers(rows * columns));
        for (only, transposed) in onlys.iter().flat_map(|only| [(only(n), false), (only(n), true)])
        {
            let nothing = |i: usize, j: usize| match only {
                Only::Left(n) => j as isize >= i as isize + n,
                Only::Right(n) => i as isize >= j as isize + n,
                _ => false,
            };
            let strides = if transposed { (1, rows + 2) } else { (depth + 3, 1) };
            let mut a = numbers(rows * (depth + 3) + depth * (rows + 2));
            for (i, j) in (0..rows).flat_map(|i| (0..depth).map(move |j| (i, j))) {
                if nothing(i, j) {
                    a[i * strides.0 + j * strides.1] = 0.0;
                }
            }
            on_each_isa(|isa| {
                for add in [false, true] {
                    let mut c = before.clone();
                    let a = Matrix { data: &a, strides };
                    let (pitch, alpha) = (columns, 0.7);
                    let task =
                        SmallGemm { a, b: &b, pitch, rows, columns, depth, alpha, add, only };
                    f32::small_gemm(task, &mut c, columns);
                    for (at, &c) in c.iter().enumerate() {
                        let (i, j) = (at / columns, at % columns);
                        if matches!(only, Only::Below(n) if j as isize >= i as isize + n) {
                            continue;
                        }
                        let term = |l| {
                            a.data[i * strides.0 + l * strides.1] as f64 * b[l * columns + j] as f64
                        };
                        let before = if add { before[at] as f64 } else { 0.0 };
                        let want = before + 0.7 * (0..depth).map(term).sum::<f64>();
                        let size = before.abs() + (0..depth).map(|l| term(l).abs()).sum::<f64>();
                        let off = (c as f64 - want).abs();
                        assert!(off <= 1e-5 * size, "{isa:?} {i} {j}: {c}, not {want}");
                    }
                }
            });
        }
    }
}
