//! Fused kernels whose tiles end with their row.

use super::*;
use crate::plan::{Instr, LoopBody};
use smallvec::smallvec;

fn instr(op: Op, dtype: DType, args: &[u32]) -> Instr {
    Instr { op, attrs: smallvec![], dtype, args: args.into() }
}

/// `(x + bias) * part`, where part is the right half of wider rows; both sum and product are stored, or one in place.
#[test]
fn operands_that_are_dense_along_rows_only() {
    for columns in [1, 255, 257, 1031, 2048, 5000] {
        for dtype in [DType::F32, DType::BF16, DType::I32, DType::F64] {
            for in_place in [false, true] {
                let sizes = [7i64, columns];
                let mut random = Random::new(columns as u64);
                let mut read = |mem, strides: [i64; 2], offset| {
                    let strides = strides[..].into();
                    let layout = Layout { sizes: sizes[..].into(), strides, offset };
                    let values = numbers(&mut random, dtype, layout.end() as usize, true);
                    (Operand { mem, dtype, layout }, values)
                };
                let reads = vec![
                    read(MemRef::Input(0), [columns, 1], 0),
                    read(MemRef::Input(1), [0, 1], 0),
                    read(MemRef::Input(2), [2 * columns, 1], columns),
                ];
                let body = LoopBody {
                    sizes: sizes[..].into(),
                    reads: vec![dtype; 3],
                    instrs: vec![instr(Op::Add, dtype, &[0, 1]), instr(Op::Mul, dtype, &[3, 2])],
                    results: vec![4, 3],
                };
                let writes = vec![(dtype, sizes[..].into()); 2];
                let kernel = Kernel::Map(body);
                Case { kernel, reads, writes, scalars: vec![], in_place }.check_exact();
            }
        }
    }
}

/// `select(column == target, x * d, y)`, where target and d are one number a row, or one for all.
#[test]
fn rows_that_differ_in_one_place() {
    for (columns, target_strides) in [(513, [1, 0]), (2048, [1, 0]), (4100, [1, 0]), (600, [0, 0])]
    {
        for (dtype, yes) in [(DType::F32, true), (DType::BF16, false), (DType::I32, true)] {
            let sizes = [5i64, columns];
            let mut random = Random::new(columns as u64);
            let row = |strides: [i64; 2]| Layout {
                sizes: sizes[..].into(),
                strides: strides[..].into(),
                offset: 0,
            };
            let mut read = |mem, dtype, strides: [i64; 2]| {
                let layout = row(strides);
                let values = numbers(&mut random, dtype, layout.end() as usize, true);
                (Operand { mem, dtype, layout }, values)
            };
            let index = Operand { mem: MemRef::Index, dtype: DType::I64, layout: row([0, 1]) };
            let mut reads = vec![
                (index, Array::zeros(&Ty::new(DType::I64, &[0]))),
                read(MemRef::Input(1), DType::I64, target_strides),
                read(MemRef::Input(2), dtype, [columns, 1]),
                read(MemRef::Input(3), dtype, [1, 0]),
                read(MemRef::Input(4), dtype, [1, 0]),
            ];
            // In rows: the first column, a middle one, the last, and two that are no column.
            for (i, target) in
                [0, columns / 2 + 7, columns - 1, columns, i64::MIN].iter().enumerate()
            {
                if (i as i64) < reads[1].0.layout.end() {
                    reads[1].1.set_i64(i, *target);
                }
            }
            let chosen = if yes { [5, 6, 4] } else { [5, 4, 6] };
            let body = LoopBody {
                sizes: sizes[..].into(),
                reads: vec![DType::I64, DType::I64, dtype, dtype, dtype],
                instrs: vec![
                    instr(Op::Eq, DType::Bool, &[0, 1]),
                    instr(Op::Mul, dtype, &[2, 3]),
                    instr(Op::Select, dtype, &chosen),
                ],
                results: vec![7, 3],
            };
            let writes = vec![(dtype, sizes[..].into()); 2];
            let kernel = Kernel::Map(body);
            Case { kernel, reads, writes, scalars: vec![], in_place: false }.check_exact();
        }
    }
}
