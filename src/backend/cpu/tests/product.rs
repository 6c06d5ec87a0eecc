//! Matrix products, alone and with an epilogue.

use super::super::gemm::Matrix;
use super::super::isa::on_each_isa;
use super::super::small_gemm::{Only, SmallGemm, SmallGemmElement};
use super::node::{check_close, lay_out, node, values};
use super::*;
use crate::op::evaluate::evaluate;
use crate::plan::{Instr, LoopBody};
use smallvec::smallvec;

#[test]
fn matmul_of_any_layout() {
    let mut random = Random::new(1);
    let shapes = [
        (1, 1, 1, 1),
        (2, 3, 5, 7),
        (1, 17, 64, 33),
        (3, 1, 40, 9),
        (1, 0, 3, 4),
        (2, 3, 0, 4),
        (1, 70, 600, 90),
    ];
    for dtype in FLOATS.into_iter().chain(INTS) {
        for (b, m, k, n) in shapes {
            let (x, y) =
                (values(&mut random, dtype, &[b, m, k]), values(&mut random, dtype, &[b, k, n]));
            let mut case = node(Op::Matmul, smallvec![], vec![x, y]);
            let lays = if m * n * k > 9999 { &LAYS[..2] } else { &LAYS[..] };
            for (i, &lay) in lays.iter().enumerate() {
                lay_out(&mut case, 0, lay);
                lay_out(&mut case, 1, lays[(i + 1) % lays.len()]);
                check_close(&case, 4.0 * (k as f64 + 2.0));
            }
        }
    }
    let (x, y) = (
        values(&mut random, DType::F32, &[300, 200]),
        values(&mut random, DType::F32, &[200, 250]),
    );
    check_close(&node(Op::Matmul, smallvec![], vec![x, y]), 400.0);
    // Operands whose terms lie so far apart that they are copied, in more than one piece.
    for (m, n) in [(1100, 2), (2, 1100), (1030, 20)] {
        let (x, y) = (
            values(&mut random, DType::F32, &[m, 400]),
            values(&mut random, DType::F32, &[400, n]),
        );
        let mut case = node(Op::Matmul, smallvec![], vec![x, y]);
        lay_out(&mut case, 0, Lay::Reversed);
        check_close(&case, 4.0 * 402.0);
    }
}

#[test]
fn infinite_terms_stay_infinite() {
    for (dtype, k) in FLOATS.into_iter().flat_map(|dtype| [1, 2, 3, 8, 33].map(|k| (dtype, k))) {
        for operand in 0..2 {
            // Sums of ones are exact.
            let ones = |sizes: &[i64; 2]| {
                let count = sizes.iter().product::<i64>() as usize;
                Array::from_f64(dtype, sizes, &vec![1.0; count])
            };
            let mut operands = vec![ones(&[3, k]), ones(&[k, 17])];
            let last = operands[operand].len() - 1;
            operands[operand].set_f64(last, f64::NEG_INFINITY);
            node(Op::Matmul, smallvec![], operands).check_exact();
        }
    }
}

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

/// Products of rows and of sums, in several pieces and in none, dense and transposed; and how many roundings off they may be.
pub fn grouped(random: &mut Random, dtype: DType) -> Vec<(Case, f64)> {
    let all: [&[i64]; 4] = [&[70, 70, 80, 420], &[0, 5, 500, 500], &[420, 3, 3, 420], &[0; 4]];
    let mut cases = Vec::new();
    for ends in all {
        for (ends_dtype, [m, k, n]) in [(DType::I64, [420, 33, 37]), (DType::I32, [420, 5, 0])] {
            let numbers: Vec<f64> = ends.iter().map(|&end| end as f64).collect();
            let ends = Array::from_f64(ends_dtype, &[4], &numbers);
            for (a, b) in [([m, k], vec![4, k, n]), ([k, m], vec![m, n])] {
                let (a, b) = (values(random, dtype, &a), values(random, dtype, &b));
                let case = || {
                    let operands = vec![a.clone(), b.clone(), ends.clone()];
                    node(Op::GroupedMatmul, smallvec![], operands)
                };
                let mut turned = case();
                lay_out(&mut turned, 0, Lay::Reversed);
                lay_out(&mut turned, 1, Lay::Reversed);
                let steps = 4.0 * (a.ty.sizes[1] as f64 + 2.0);
                cases.extend([(case(), steps), (turned, steps)]);
            }
        }
    }
    cases
}

#[test]
fn products_of_groups() {
    let mut random = Random::new(31);
    for dtype in FLOATS {
        for (case, steps) in grouped(&mut random, dtype) {
            check_close(&case, steps);
        }
    }
}
