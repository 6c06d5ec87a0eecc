//! Pointwise kernels that read across what they write.

use super::super::actions::Action;
use super::super::lower;
use super::{both, cuda, prepare};
use crate::backend::cpu::tests::{Case, Random, numbers};
use crate::dtype::DType;
use crate::op::array::Array;
use crate::op::{Attr, Op, Ty};
use crate::plan::{Instr, Kernel, LoopBody, MemRef, Operand};
use crate::shape::{Dims, Layout};
use smallvec::smallvec;

/// Read `n`, of points of `sizes`, dense in memory in the order of dimensions `order`.
fn ordered(n: usize, dtype: DType, sizes: &[i64], order: &[i64]) -> (Operand, Array) {
    let memory = Layout::contiguous(&Layout::contiguous(sizes).transpose(order).sizes);
    let mem = |d: usize| order.iter().position(|&o| o == d as i64).unwrap() as i64;
    let layout = memory.transpose(&(0..sizes.len()).map(mem).collect::<Dims>());
    let values = numbers(&mut Random::new(n as u64 + 5), dtype, layout.numel() as usize, false);
    (Operand { mem: MemRef::Input(n as u32), dtype, layout }, values)
}

fn instr(op: Op, dtype: DType, args: &[u32]) -> Instr {
    let attrs = if op == Op::Cast { smallvec![Attr::DType(dtype)] } else { smallvec![] };
    Instr { op, attrs, dtype, args: args.into() }
}

fn case(reads: Vec<(Operand, Array)>, sizes: &[i64], instrs: Vec<Instr>, results: &[u32]) -> Case {
    let types: Vec<DType> = reads.iter().map(|(operand, _)| operand.dtype).collect();
    let written = |&r: &u32| match (r as usize).checked_sub(types.len()) {
        None => types[r as usize],
        Some(k) => instrs[k].dtype,
    };
    let writes = results.iter().map(|r| (written(r), sizes.into())).collect();
    let results = results.into();
    let body = LoopBody { sizes: sizes.into(), reads: types, instrs, results };
    Case { kernel: Kernel::Map(body), reads, writes, scalars: vec![], in_place: false }
}

/// How many reads go through tiles.
fn tiles(case: &Case) -> usize {
    let actions = lower::step(&case.plan(), 0, &*cuda().device).unwrap().actions;
    let [Action::Launch(task)] = &actions[..] else { panic!("one launch") };
    task.source.text.matches("__shared__").count()
}

/// The same bits as the reference, with so many tiles each.
fn check(cases: &[(Case, usize)]) {
    prepare(cases.iter().map(|(case, _)| case));
    for (case, expected) in cases {
        assert_eq!(tiles(case), *expected, "{:?}", case.reads[0].0);
        let (got, expected) = both(case);
        case.compare(&got, &expected, |_, _| 0.0);
    }
}

#[test]
fn copies_of_every_type() {
    let (sizes, order) = ([33, 66], [1, 0]);
    let one = |dtype| (case(vec![ordered(0, dtype, &sizes, &order)], &sizes, vec![], &[0]), 1);
    check(&DType::all().map(one).collect::<Vec<_>>());
}

/// With a row, a dense operand and another order beside it: work is fused.
#[test]
fn every_order_and_odd_sizes() {
    let shapes: [(&[i64], &[i64], usize); 8] = [
        (&[64, 32], &[1, 0], 2),
        (&[31, 97], &[1, 0], 2),
        (&[5, 40, 17], &[0, 2, 1], 2),
        (&[17, 5, 70], &[2, 1, 0], 2),
        (&[18, 2, 3, 33], &[2, 3, 1, 0], 2),
        (&[2, 20, 3, 33], &[0, 3, 2, 1], 2),
        // What lies together stays together, or is too little.
        (&[6, 40, 32], &[1, 0, 2], 0),
        (&[100, 3], &[1, 0], 0),
    ];
    let mut cases = Vec::new();
    for (n, (sizes, order, tiles)) in shapes.into_iter().enumerate() {
        let types = [[DType::F32, DType::BF16], [DType::F64, DType::F16], [DType::F32, DType::I8]];
        let [a, b] = types[n % 3];
        let straight: Vec<i64> = (0..sizes.len() as i64).collect();
        let mut row = ordered(3, a, &sizes[sizes.len() - 1..], &[0]);
        row.0.layout = row.0.layout.broadcast(sizes);
        let reads = vec![
            ordered(0, a, sizes, &straight),
            ordered(1, a, sizes, order),
            ordered(2, b, sizes, order),
            row,
        ];
        let instrs = vec![
            instr(Op::Cast, a, &[2]),
            instr(Op::Mul, a, &[1, 4]),
            instr(Op::Sub, a, &[5, 0]),
            instr(Op::Add, a, &[6, 3]),
        ];
        cases.push((case(reads, sizes, instrs, &[7, 2]), tiles));
    }
    // The result takes the place of the dense operand.
    cases[1].0.in_place = true;
    check(&cases);
}

/// Of seven numbers across, five have tiles in the shared memory that there is.
#[test]
fn more_operands_than_tiles() {
    let sizes = [20, 50];
    let reads: Vec<_> = (0..7).map(|n| ordered(n, DType::F64, &sizes, &[1, 0])).collect();
    let sums = (0..6).map(|n| instr(Op::Add, DType::F64, &[if n == 0 { 0 } else { 6 + n }, n + 1]));
    check(&[(case(reads, &sizes, sums.collect(), &[12]), 5)]);
}

/// Numbers of points beyond 2^31, so indices have 64 bits.
#[test]
fn wide_indices() {
    let sizes = [3, 34, 40];
    let far = Layout { strides: [1i64 << 31, 1 << 20, 1][..].into(), ..Layout::contiguous(&sizes) };
    let index = Operand { mem: MemRef::Index, dtype: DType::I64, layout: far };
    let empty = Array::zeros(&Ty::new(DType::I64, &[0]));
    let reads = vec![ordered(0, DType::I64, &sizes, &[2, 0, 1]), (index, empty)];
    let sum = instr(Op::Add, DType::I64, &[0, 1]);
    check(&[(case(reads, &sizes, vec![sum], &[2]), 1)]);
}
