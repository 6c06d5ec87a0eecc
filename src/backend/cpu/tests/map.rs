//! Fused pointwise kernels.

use super::*;
use crate::op::table::TABLE;
use crate::op::{Arity, Attr, Class, Row};
use crate::plan::{Instr, LoopBody};
use smallvec::smallvec;

/// A kernel of one instruction on operands of `dtypes`.
pub fn single(
    op: Op,
    attrs: Attrs,
    dtypes: &[DType],
    to: DType,
    sizes: &[i64],
    lays: &[Lay],
    seed: u64,
) -> Case {
    let mut random = Random::new(seed);
    let reads = dtypes.iter().enumerate().map(|(n, &dtype)| {
        let (layout, len) = layout(lays[n % lays.len()], sizes);
        let values = numbers(&mut random, dtype, len, true);
        (Operand { mem: MemRef::Input(n as u32), dtype, layout }, values)
    });
    let reads: Vec<(Operand, Array)> = reads.collect();
    let args = (0..dtypes.len() as u32).collect();
    let body = LoopBody {
        sizes: sizes.into(),
        reads: dtypes.to_vec(),
        instrs: vec![Instr { op, attrs, dtype: to, args }],
        results: vec![dtypes.len() as u32],
    };
    Case {
        kernel: Kernel::Map(body),
        reads,
        writes: vec![(to, sizes.into())],
        scalars: vec![],
        in_place: false,
    }
}

pub fn check_single(
    op: Op,
    dtypes: &[DType],
    to: DType,
    attrs: Attrs,
    sizes: &[i64],
    lays: &[Lay],
) {
    let case = single(op, attrs, dtypes, to, sizes, lays, op as u64 * 31 + sizes.len() as u64);
    let (got, expected) = case.both();
    // One unit in the last place is at most twice the rounding error; a half result may round the other way.
    let ulps = op.row().ulps;
    let off = 2.0 * ulps * compute_epsilon(to) + if ulps > 0.0 { 2.0 * epsilon(to) } else { 0.0 };
    case.compare(&got, &expected, |k, i| match expected[k].f64(i).abs() {
        size if size.is_finite() && off > 0.0 => off * size + tiny(to),
        _ => 0.0,
    });
}

/// Primitives of elements without attributes.
fn pointwise(operands: usize) -> impl Iterator<Item = Op> {
    let plain = |row: &&Row| row.class == Class::Pointwise && row.attrs.is_empty();
    let rows = TABLE.iter().filter(plain);
    rows.filter(move |row| row.arity == Arity::Exactly(operands)).map(|row| row.op)
}

/// Operands with elements of their own and with one number for all.
pub const MIXED: [&[Lay]; 4] =
    [&[Lay::Dense], &[Lay::One], &[Lay::Dense, Lay::One], &[Lay::One, Lay::Dense]];

#[test]
fn each_primitive_on_each_dtype() {
    for dtype in DType::all().filter(|d| d.has_arithmetic()) {
        let ty = Ty::new(dtype, &[67]);
        for n in [1, 2] {
            for op in pointwise(n) {
                let operands = vec![&ty; n];
                let Ok(outs) = op.infer(&operands, &[]) else { continue };
                // Integer division by the zeros among the numbers is another test.
                if matches!(op, Op::Div | Op::Rem) && !dtype.is_float() {
                    continue;
                }
                for lays in MIXED {
                    check_single(op, &vec![dtype; n], outs[0].dtype, smallvec![], &[67], lays);
                }
            }
        }
    }
}

#[test]
fn small_constant_powers() {
    for dtype in FLOATS {
        for (exponent, lays) in [2.0, 3.0, 0.5].into_iter().flat_map(|e| MIXED.map(|l| (e, l))) {
            let mut case = single(Op::Pow, smallvec![], &[dtype], dtype, &[67], lays, 11);
            let Kernel::Map(body) = &mut case.kernel else { unreachable!() };
            let attrs = smallvec![Attr::Float(exponent), Attr::DType(dtype)];
            body.instrs.insert(0, Instr { op: Op::Const, attrs, dtype, args: smallvec![] });
            body.instrs[1].args = smallvec![0, 1];
            body.results = vec![2];
            let (got, expected) = case.both();
            let off = 4.0 * compute_epsilon(dtype) + 2.0 * epsilon(dtype);
            case.compare(&got, &expected, |k, i| off * expected[k].f64(i).abs() + tiny(dtype));
        }
    }
}

#[test]
fn copies_move_bytes_of_any_dtype_from_any_layout() {
    for dtype in DType::all() {
        for lay in LAYS {
            for sizes in [&[][..], &[0], &[1], &[7], &[5, 0, 3], &[33, 41], &[2, 17, 3, 19]] {
                let (layout, len) = layout(lay, sizes);
                let values = numbers(&mut Random::new(3), dtype, len, true);
                let read = Operand { mem: MemRef::Input(0), dtype, layout };
                let body = LoopBody {
                    sizes: sizes.into(),
                    reads: vec![dtype],
                    instrs: vec![],
                    results: vec![0],
                };
                let kernel = Kernel::Map(body);
                let case = Case {
                    kernel,
                    reads: vec![(read, values)],
                    writes: vec![(dtype, sizes.into())],
                    scalars: vec![],
                    in_place: false,
                };
                let (got, expected) = case.both();
                assert!(got == expected, "{dtype} {lay:?} {sizes:?}");
            }
        }
    }
}

/// A random program of operations that are exact, so that any backend must agree to the last bit.
fn random_program(random: &mut Random, sizes: &[i64]) -> Case {
    let n_reads = 1 + random.below(4);
    // Half of them of the types that are computed in chains.
    let all = [
        DType::F32,
        DType::BF16,
        DType::F64,
        DType::I32,
        DType::I64,
        DType::Bool,
        DType::U8,
        DType::F16,
    ];
    let dtypes = if random.below(2) == 0 { &all[..2] } else { &all[..] };
    let mut reads = Vec::new();
    let mut registers: Vec<DType> = Vec::new();
    for n in 0..n_reads {
        let dtype = *random.pick(dtypes);
        let lay = *random.pick(&LAYS);
        let (layout, len) = layout(lay, sizes);
        reads.push((
            Operand { mem: MemRef::Input(n as u32), dtype, layout },
            numbers(random, dtype, len, true),
        ));
        registers.push(dtype);
    }
    let mut instrs: Vec<Instr> = Vec::new();
    for _ in 0..random.below(12) {
        let a = random.below(registers.len());
        let dtype = registers[a];
        let peers: Vec<u32> =
            (0..registers.len() as u32).filter(|&r| registers[r as usize] == dtype).collect();
        let (b, ty) = (*random.pick(&peers), Ty::new(dtype, &[1]));
        let ops = [
            Op::Add,
            Op::Mul,
            Op::Sub,
            Op::Max,
            Op::Min,
            Op::Lt,
            Op::Eq,
            Op::And,
            Op::Xor,
            Op::Neg,
            Op::Abs,
            Op::Cast,
            Op::Const,
        ];
        let op = *random.pick(&ops);
        let (to, attrs, args): (DType, Attrs, _) = match op {
            Op::Cast => {
                let to = *random.pick(dtypes);
                (to, smallvec![Attr::DType(to)], smallvec![a as u32])
            }
            Op::Const => {
                let to = *random.pick(dtypes);
                (to, smallvec![Attr::Float(0.5), Attr::DType(to)], smallvec![])
            }
            Op::Neg | Op::Abs => match op.infer(&[&ty], &[]) {
                Ok(outs) => (outs[0].dtype, smallvec![], smallvec![a as u32]),
                Err(_) => continue,
            },
            _ => match op.infer(&[&ty, &ty], &[]) {
                Ok(outs) => (outs[0].dtype, smallvec![], smallvec![a as u32, b]),
                Err(_) => continue,
            },
        };
        registers.push(to);
        instrs.push(Instr { op, attrs, dtype: to, args });
    }
    let results: Vec<u32> =
        (0..1 + random.below(3)).map(|_| random.below(registers.len()) as u32).collect();
    let writes = results.iter().map(|&r| (registers[r as usize], sizes.into())).collect();
    // The first result in the place of the first read.
    let in_place = registers[results[0] as usize] == registers[0]
        && reads[0].0.layout == Layout::contiguous(sizes);
    let body =
        LoopBody { sizes: sizes.into(), reads: registers[..n_reads].to_vec(), instrs, results };
    Case { kernel: Kernel::Map(body), reads, writes, scalars: vec![], in_place }
}

#[test]
fn random_programs_agree_to_the_last_bit() {
    let shapes: [&[i64]; 8] =
        [&[], &[1], &[1023], &[3, 5, 7], &[40, 48], &[2, 1, 513], &[0, 4], &[3, 37, 41]];
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let sizes = *random.pick(&shapes);
        random_program(&mut random, sizes).check_exact();
    }
}

#[test]
fn scalars_and_indices_are_operands() {
    let mem = |mem, dtype, layout: Layout| {
        (Operand { mem, dtype, layout }, numbers(&mut Random::new(1), dtype, 0, false))
    };
    let repeated = Layout::contiguous(&[]).broadcast(&[3, 5]);
    let strided = Layout { strides: [10i64, 2][..].into(), ..Layout::contiguous(&[3, 5]) };
    let add = |dtype| Instr { op: Op::Add, attrs: smallvec![], dtype, args: smallvec![0, 0] };
    let case = |read: (Operand, Array), scalar: u64| {
        let dtype = read.0.dtype;
        let body = LoopBody {
            sizes: [3i64, 5][..].into(),
            reads: vec![dtype],
            instrs: vec![add(dtype)],
            results: vec![1, 0],
        };
        let sizes: Dims = [3i64, 5][..].into();
        let writes = vec![(dtype, sizes.clone()), (dtype, sizes)];
        Case {
            kernel: Kernel::Map(body),
            reads: vec![read],
            writes,
            scalars: vec![scalar],
            in_place: false,
        }
    };
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        case(mem(MemRef::Scalar(0), dtype, repeated.clone()), 1.7f64.to_bits()).check_exact();
    }
    case(mem(MemRef::Scalar(0), DType::I64, repeated), -3i64 as u64).check_exact();
    case(mem(MemRef::Index, DType::I64, strided), 0).check_exact();
}

#[test]
fn random_numbers_are_those_of_the_row() {
    for (op, dtype) in [(Op::Random, DType::F32), (Op::RandomBits, DType::I64)] {
        check_drawn(op, dtype);
    }
}

fn check_drawn(op: Op, dtype: DType) {
    let body = LoopBody {
        sizes: [13i64, 107][..].into(),
        reads: vec![DType::I64; 3],
        instrs: vec![Instr {
            op,
            attrs: smallvec![Attr::Ints([13i64, 107][..].into())],
            dtype,
            args: smallvec![0, 1, 2],
        }],
        results: vec![3],
    };
    let one = Layout::contiguous(&[]).broadcast(&[13, 107]);
    let none = || numbers(&mut Random::new(1), DType::I64, 0, false);
    let operand =
        |mem, layout: &Layout| (Operand { mem, dtype: DType::I64, layout: layout.clone() }, none());
    let dense = Layout::contiguous(&[13, 107]);
    for index in [
        dense.clone(),
        Layout { offset: 3, ..dense.clone() },
        Layout::contiguous(&[107, 13]).transpose(&[1, 0]),
    ] {
        let case = Case {
            kernel: Kernel::Map(body.clone()),
            reads: vec![
                operand(MemRef::Scalar(0), &one),
                operand(MemRef::Scalar(1), &one),
                operand(MemRef::Index, &index),
            ],
            writes: vec![(dtype, [13i64, 107][..].into())],
            scalars: vec![77 << 40 | 5, u32::MAX as u64 - 9],
            in_place: false,
        };
        case.check_exact();
    }
}

#[test]
fn division_by_zero_fails_before_anything_is_written() {
    for op in [Op::Div, Op::Rem] {
        for dtype in INTS {
            let mut case =
                single(op, smallvec![], &[dtype, dtype], dtype, &[3000], &[Lay::Dense], 5);
            let divisors = &mut case.reads[1].1;
            (0..3000).for_each(|i| divisors.set_i64(i, 1 + i as i64 % 50));
            case.check_exact();
            case.reads[1].1.set_i64(2999, 0);
            assert!(case.run(cpu(2)).unwrap_err().message.contains("ZeroDivisionError"));
        }
    }
}

#[test]
fn in_place_results_may_overwrite_what_was_read() {
    // y = x + y and z = x - y with y's memory given to the first result.
    let n = 5000;
    let args = |op| Instr { op, attrs: smallvec![], dtype: DType::F32, args: smallvec![0, 1] };
    let body = LoopBody {
        sizes: [n][..].into(),
        reads: vec![DType::F32; 2],
        instrs: vec![args(Op::Add), args(Op::Sub)],
        results: vec![2, 3],
    };
    let layout = Layout::contiguous(&[n]);
    let operand = |mem| Operand { mem, dtype: DType::F32, layout: layout.clone() };
    let step = Step {
        kernel: Kernel::Map(body),
        reads: vec![operand(MemRef::Input(0)), operand(MemRef::Input(1))],
        writes: vec![operand(MemRef::Output(0)), operand(MemRef::Output(1))],
        reads_of: Vec::new(),
        results_of: Vec::new(),
        workspace: None,
        done: None,
        site: 0,
        record: 0,
    };
    let ty = Ty::new(DType::F32, &[n]);
    let plan = Plan {
        steps: vec![step],
        inputs: vec![ty.clone(); 2],
        outputs: vec![ty.clone(); 2],
        donors: vec![Some(1), None],
        ..Plan::default()
    };
    let executable = cpu(2).compile(Arc::new(plan)).unwrap();
    let mut random = Random::new(9);
    let (x, y) = (
        numbers(&mut random, DType::F32, n as usize, false),
        numbers(&mut random, DType::F32, n as usize, false),
    );
    let floats = |a: &Array| -> Vec<f32> { (0..a.len()).map(|i| a.f64(i) as f32).collect() };
    let (x, y) = (floats(&x), floats(&y));
    let (mut sum, mut difference) = (y.clone(), vec![0f32; n as usize]);
    let y_addr = sum.as_mut_ptr().expose_provenance();
    let call = Call {
        inputs: &[x.as_ptr().expose_provenance(), y_addr],
        poisoned: &[],
        derived: &[],
        outputs: &[y_addr, difference.as_mut_ptr().expose_provenance()],
        arena: 0,
        host: 0,
        results: 0,
        scalars: &[],
        watch: None,
    };
    assert!(executable.run(&call).failed.is_empty());
    for i in 0..n as usize {
        assert_eq!((sum[i], difference[i]), (x[i] + y[i], x[i] - y[i]));
    }
}
