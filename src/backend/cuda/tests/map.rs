//! Pointwise kernels: every primitive on every type, every layout.

use super::{both, check_close, check_kernels, failure, prepare};
use crate::backend::cpu::tests::{
    Case, LAYS, Lay, Random, compute_epsilon, epsilon, layout, numbers, tiny,
};
use crate::dtype::{DType, Float8};
use crate::op::{Attr, Attrs, Class, Op, Ty, table};
use crate::plan::{Instr, Kernel, LoopBody, MemRef, Operand};
use smallvec::smallvec;

const TYPES: [DType; 10] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

fn operand(
    n: usize,
    dtype: DType,
    lay: Lay,
    sizes: &[i64],
    special: bool,
) -> (Operand, crate::op::array::Array) {
    let (layout, len) = layout(lay, sizes);
    let values = numbers(&mut Random::new(n as u64 + 3), dtype, len, special);
    (Operand { mem: MemRef::Input(n as u32), dtype, layout }, values)
}

/// Every pointwise primitive that is defined on operands of a type, in one kernel: reads x, y, a condition
/// and small numbers.
fn everything(dtype: DType) -> (Case, Vec<Op>) {
    let sizes = [7, 9];
    let ty = |dtype| Ty::new(dtype, &sizes);
    let (mut instrs, mut writes, mut ops) = (Vec::new(), Vec::new(), Vec::new());
    let mut push = |op: Op, attrs: Attrs, args: &[u32], to: DType| {
        instrs.push(Instr { op, attrs, dtype: to, args: args.into() });
        writes.push((to, sizes[..].into()));
        ops.push(op);
    };
    for row in table::TABLE.iter().filter(|row| row.class == Class::Pointwise) {
        let divides = matches!(row.op, Op::Div | Op::Rem) && !dtype.is_float();
        if matches!(row.op, Op::Cast | Op::Select) || divides {
            continue;
        }
        let x = ty(dtype);
        let unary = row.op.infer(&[&x], &[]);
        let binary = row.op.infer(&[&x, &x], &[]);
        if let Ok(types) = unary {
            push(row.op, smallvec![], &[0], types[0].dtype);
        } else if let Ok(types) = binary {
            push(row.op, smallvec![], &[0, 1], types[0].dtype);
        }
    }
    for to in TYPES {
        // Numbers that no integer is become what the device makes of them.
        let from = if dtype.is_float() && to.is_int() { 3 } else { 0 };
        push(Op::Cast, smallvec![Attr::DType(to)], &[from], to);
    }
    push(Op::Select, smallvec![], &[2, 0, 1], dtype);
    let reads = vec![
        operand(0, dtype, Lay::Dense, &sizes, true),
        operand(1, dtype, Lay::Reversed, &sizes, true),
        operand(2, DType::Bool, Lay::Dense, &sizes, false),
        operand(3, dtype, Lay::Dense, &sizes, false),
    ];
    let results = (0..instrs.len() as u32).map(|n| 4 + n).collect();
    let types = vec![dtype, dtype, DType::Bool, dtype];
    let body = LoopBody { sizes: sizes[..].into(), reads: types, instrs, results };
    (Case { kernel: Kernel::Map(body), reads, writes, scalars: vec![], in_place: false }, ops)
}

/// Units in the last place that a function may be off; those of the host's library here, a device's are no worse. The
/// CPU's vectors may be off by more.
fn ulps(op: Op) -> f64 {
    op.row().ulps.min(2.0)
}

#[test]
fn every_primitive_on_every_type() {
    let cases: Vec<(Case, Vec<Op>)> = TYPES.map(everything).into();
    prepare(cases.iter().map(|(case, _)| case));
    for (case, ops) in &cases {
        let (got, expected) = both(case);
        case.compare(&got, &expected, |k, i| {
            let (to, off) = (expected[k].ty.dtype, ulps(ops[k]));
            match expected[k].f64(i).abs() {
                size if to.is_float() && size.is_finite() && off > 0.0 => {
                    (2.0 * off * compute_epsilon(to) + 2.0 * epsilon(to)) * size + tiny(to)
                }
                _ => 0.0,
            }
        });
    }
}

#[test]
fn every_layout_and_odd_sizes() {
    let mut cases = Vec::new();
    let shapes: [&[i64]; 9] =
        [&[], &[1], &[2], &[257], &[16, 12], &[5, 7], &[3, 4, 8], &[3, 1, 5, 2], &[4, 0, 3]];
    for (n, sizes) in shapes.into_iter().enumerate() {
        for (a, b) in LAYS.into_iter().chain([Lay::One]).zip([
            Lay::Reversed,
            Lay::Dense,
            Lay::Row,
            Lay::Spaced,
            Lay::One,
            Lay::Repeated,
        ]) {
            let dtype = [DType::F32, DType::BF16, DType::F64][n % 3];
            let other = [DType::F32, DType::F32, DType::F64][n % 3];
            let instrs = vec![
                Instr {
                    op: Op::Cast,
                    attrs: smallvec![Attr::DType(other)],
                    dtype: other,
                    args: smallvec![0],
                },
                Instr { op: Op::Mul, attrs: smallvec![], dtype: other, args: smallvec![2, 1] },
            ];
            let reads =
                vec![operand(0, dtype, a, sizes, false), operand(1, other, b, sizes, false)];
            let body = LoopBody {
                sizes: sizes.into(),
                reads: vec![dtype, other],
                instrs,
                results: vec![3, 2],
            };
            let writes = vec![(other, sizes.into()), (other, sizes.into())];
            let kernel = Kernel::Map(body);
            cases.push((Case { kernel, reads, writes, scalars: vec![], in_place: false }, 0.0));
        }
    }
    check_close(&cases);
}

#[test]
fn copies_of_every_type_keep_every_bit() {
    let mut cases = Vec::new();
    for dtype in DType::all() {
        for (lay, sizes) in [(Lay::Dense, &[37][..]), (Lay::Reversed, &[6, 10])] {
            let (mem, mut array) = operand(0, dtype, lay, sizes, false);
            let mut random = Random::new(dtype as u64);
            if dtype != DType::Bool {
                array.bytes.iter_mut().for_each(|byte| *byte = random.bits() as u8);
            }
            let body = LoopBody {
                sizes: sizes.into(),
                reads: vec![dtype],
                instrs: vec![],
                results: vec![0],
            };
            let case = Case {
                kernel: Kernel::Map(body),
                reads: vec![(mem, array)],
                writes: vec![(dtype, sizes.into())],
                scalars: vec![],
                in_place: false,
            };
            cases.push(case);
        }
    }
    prepare(cases.iter());
    for case in &cases {
        let (got, expected) = both(case);
        assert!(got[0].bytes == expected[0].bytes, "{:?}", case.writes);
    }
}

#[test]
fn scalars_indices_constants_and_random_numbers() {
    let sizes = [5, 6];
    let points = crate::shape::Layout::contiguous(&sizes);
    let still = crate::shape::Layout::contiguous(&[]).broadcast(&sizes);
    let empty = crate::op::array::Array::zeros(&Ty::new(DType::I64, &[0]));
    let at = |mem, dtype, layout: &crate::shape::Layout| {
        (Operand { mem, dtype, layout: layout.clone() }, empty.clone())
    };
    let reads = vec![
        at(MemRef::Scalar(0), DType::I64, &still),
        at(MemRef::Scalar(1), DType::I64, &still),
        at(MemRef::Scalar(2), DType::F64, &still),
        at(MemRef::Scalar(3), DType::Bool, &still),
        at(MemRef::Index, DType::I64, &points),
        at(MemRef::Index, DType::I64, &points.transpose(&[0, 1])),
    ];
    let instr = |op, attrs, dtype, args: &[u32]| Instr { op, attrs, dtype, args: args.into() };
    let number =
        |v, dtype| instr(Op::Const, smallvec![Attr::Float(v), Attr::DType(dtype)], dtype, &[]);
    let instrs = vec![
        instr(Op::Random, smallvec![Attr::Ints(sizes[..].into())], DType::F32, &[0, 1, 4]),
        number(-1.5, DType::BF16),
        number(f64::NAN, DType::F32),
        instr(
            Op::ConstInt,
            smallvec![Attr::Int(i64::MIN), Attr::DType(DType::I64)],
            DType::I64,
            &[],
        ),
        instr(Op::Add, smallvec![], DType::I64, &[4, 5]),
        number(0.5, DType::Bool),
        number(-2.9, DType::I32),
        instr(Op::RandomBits, smallvec![Attr::Ints(sizes[..].into())], DType::I64, &[0, 1, 4]),
    ];
    let body = LoopBody {
        sizes: sizes[..].into(),
        reads: vec![DType::I64, DType::I64, DType::F64, DType::Bool, DType::I64, DType::I64],
        instrs,
        results: vec![6, 7, 8, 9, 10, 11, 12, 13, 2, 3],
    };
    let types = [
        DType::F32,
        DType::BF16,
        DType::F32,
        DType::I64,
        DType::I64,
        DType::Bool,
        DType::I32,
        DType::I64,
        DType::F64,
        DType::Bool,
    ];
    let case = Case {
        kernel: Kernel::Map(body),
        reads,
        writes: types.iter().map(|&dtype| (dtype, sizes[..].into())).collect(),
        scalars: vec![0x1234_5678_9abc, u64::MAX - 2, 0.3f64.to_bits(), 1],
        in_place: false,
    };
    let (got, expected) = both(&case);
    case.compare(&got, &expected, |_, _| 0.0);
}

#[test]
fn integer_division_by_zero_fails_before_anything_is_overwritten() {
    for in_place in [false, true] {
        let (x, mut y) = (
            operand(0, DType::I32, Lay::Dense, &[40], false),
            operand(1, DType::I32, Lay::Dense, &[40], false),
        );
        y.1.set_i64(33, 0);
        let instr =
            Instr { op: Op::Div, attrs: smallvec![], dtype: DType::I32, args: smallvec![0, 1] };
        let body = LoopBody {
            sizes: [40][..].into(),
            reads: vec![DType::I32; 2],
            instrs: vec![instr],
            results: vec![2],
        };
        let kernel = Kernel::Map(body);
        let writes = vec![(DType::I32, [40][..].into())];
        let case = Case { kernel, reads: vec![x, y], writes, scalars: vec![], in_place };
        assert!(failure(&case).message.contains("ZeroDivisionError"));
    }
}

/// Every code, and numbers of every kind.
#[test]
fn floats_of_8_bits() {
    let mut cases = Vec::new();
    for float8 in DType::all().filter(|d| Float8::of(*d).is_some()) {
        for (from, to) in [(DType::F32, float8), (float8, DType::F32)] {
            for (lay, sizes) in [(Lay::Dense, &[1031][..]), (Lay::Reversed, &[33, 35])] {
                let mut read = operand(0, from, lay, sizes, true);
                if from == float8 {
                    read.1.bytes.iter_mut().enumerate().for_each(|(i, code)| *code = i as u8);
                }
                let attrs = smallvec![Attr::DType(to)];
                let cast = Instr { op: Op::Cast, attrs, dtype: to, args: smallvec![0] };
                let body = LoopBody {
                    sizes: sizes.into(),
                    reads: vec![from],
                    instrs: vec![cast],
                    results: vec![1],
                };
                let writes = vec![(to, sizes.into())];
                let kernel = Kernel::Map(body);
                cases.push((
                    Case { kernel, reads: vec![read], writes, scalars: vec![], in_place: false },
                    0.0,
                ));
            }
        }
    }
    check_kernels(&cases);
}
