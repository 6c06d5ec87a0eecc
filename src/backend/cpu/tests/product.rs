//! Matrix products, alone and with an epilogue.

use super::node::{check_close, lay_out, node, values};
use super::*;
use crate::op::evaluate::evaluate;
use crate::plan::{Instr, Program};
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
                let place = Place::Input(reads.len() as u32);
                // All positive: no difference of rounding is all that is left of a result.
                let number = values(&mut random, dtype, &dims);
                let ty = [number.ty.clone()];
                let positive = evaluate(Op::Abs, &[&number], &[], &ty).unwrap().remove(0);
                reads.push((Operand { place, dtype, layout }, positive));
            }
            let instr =
                |op, args: &[u32]| Instr { op, attrs: smallvec![], dtype, args: args.into() };
            let program = Program {
                sizes: sizes[..].into(),
                reads: vec![dtype; 4],
                instrs: vec![
                    instr(Op::Mul, &[0, 1]),
                    instr(Op::Add, &[4, 2]),
                    instr(Op::Add, &[5, 3]),
                ],
                results: vec![6, 0],
            };
            let kernel = Kernel::Fused { op: Op::Matmul, attrs: smallvec![], program };
            let writes = vec![(dtype, sizes[..].into()); 2];
            let case = Case { kernel, reads, writes, scalars: vec![], in_place: false };
            check_close(&case, 8.0 * (k as f64 + 4.0));
        }
    }
}
