//! Numbers that are the same everywhere, computed along with arrays.

use super::*;
use crate::backend::cpu::jit::target;
use crate::backend::cpu::tile::code::{Inst, ReadKind, StoreKind};
use crate::backend::cpu::tile::compile;
use crate::op::Attr;
use crate::plan::{Instr, LoopBody};
use smallvec::smallvec;

/// `w * (1 - rate * decay)`, the rate and the decay in f64, as an update of parameters has it, the factor by itself, and where it is
/// above a half.
fn body(size: i64) -> LoopBody {
    let instr =
        |op, attrs: Attrs, dtype, args: &[u32]| Instr { op, attrs, dtype, args: args.into() };
    LoopBody {
        sizes: smallvec![size],
        reads: vec![DType::F64, DType::F64, DType::F32],
        instrs: vec![
            instr(Op::Const, smallvec![Attr::Float(1.0), Attr::DType(DType::F64)], DType::F64, &[]),
            instr(Op::Mul, smallvec![], DType::F64, &[0, 1]),
            instr(Op::Sub, smallvec![], DType::F64, &[3, 4]),
            instr(Op::Cast, smallvec![Attr::DType(DType::F32)], DType::F32, &[5]),
            instr(Op::Mul, smallvec![], DType::F32, &[2, 6]),
            instr(Op::Gt, smallvec![], DType::Bool, &[5, 1]),
        ],
        results: vec![7, 5, 8],
    }
}

#[test]
fn what_is_the_same_everywhere_is_computed_once() {
    let constant = ReadKind { constant: true, ..ReadKind::default() };
    let dense = ReadKind { direct: true, rows: true, ..ReadKind::default() };
    let store = |dtype| StoreKind { dtype, direct: true, rows: true };
    let stores = [DType::F32, DType::F64, DType::Bool].map(store);
    let code = compile::code(&body(9), &[constant, constant, dense], Some(&stores)).unwrap();
    assert_eq!(code.uniform.len(), 4);
    let computed = |inst: &&Inst| !matches!(inst, Inst::Store { .. } | Inst::Load { .. });
    let expected = if target().is_some() { "one loop" } else { "one chain" };
    assert_eq!(code.insts.iter().filter(computed).count(), 1, "{expected}");
}

/// Also over several tiles, and in fewer elements than a vector has.
#[test]
fn numbers_reach_every_element() {
    for size in [0, 1, 3, 67, 2048, 5000] {
        let mut random = Random::new(size as u64);
        let reads = [(DType::F64, Lay::One), (DType::F64, Lay::One), (DType::F32, Lay::Dense)];
        let reads = reads.into_iter().enumerate().map(|(n, (dtype, lay))| {
            let (layout, len) = layout(lay, &[size]);
            let values = numbers(&mut random, dtype, len, true);
            (Operand { mem: MemRef::Input(n as u32), dtype, layout }, values)
        });
        let case = Case {
            kernel: Kernel::Map(body(size)),
            reads: reads.collect(),
            writes: [DType::F32, DType::F64, DType::Bool].map(|to| (to, smallvec![size])).into(),
            scalars: vec![],
            in_place: false,
        };
        case.check_exact();
    }
}
