//! Casts between all types, alone and in a row, and selects.

use super::map::{MIXED, check_single, single};
use super::*;
use crate::dtype::Float8;
use crate::op::Attr;
use crate::plan::Instr;
use smallvec::smallvec;

#[test]
fn casts_and_selects() {
    let computing: Vec<DType> = DType::all().filter(|d| d.has_arithmetic()).collect();
    for &from in &computing {
        for &to in &computing {
            for lays in &MIXED[..2] {
                check_single(Op::Cast, &[from], to, smallvec![Attr::DType(to)], &[131], lays);
            }
        }
    }
    for float8 in DType::all().filter(|d| Float8::of(*d).is_some()) {
        for (lays, sizes) in [(MIXED[0], &[131][..]), (MIXED[1], &[131]), (&LAYS[1..2], &[9, 7])] {
            for (from, to) in [(DType::F32, float8), (float8, DType::F32)] {
                let attrs = smallvec![Attr::DType(to)];
                single(Op::Cast, attrs, &[from], to, sizes, lays, 5).check_exact();
            }
        }
    }
    for (dtype, lays) in DType::all().flat_map(|d| MIXED.map(|lays| (d, lays))) {
        check_single(Op::Select, &[DType::Bool, dtype, dtype], dtype, smallvec![], &[67], lays);
    }
    for dtype in DType::all() {
        check_single(Op::Select, &[DType::Bool, dtype, dtype], dtype, smallvec![], &[9, 7], &LAYS);
    }
}

#[test]
fn casts_by_way_of_half_types_round() {
    for from in DType::all().filter(|d| d.has_arithmetic()) {
        for half in [DType::BF16, DType::F16] {
            for sizes in [&[][..], &[131], &[40, 70]] {
                let mut case =
                    single(Op::Cast, smallvec![Attr::DType(half)], &[from], half, sizes, &LAYS, 3);
                let Kernel::Map(body) = &mut case.kernel else { unreachable!("it is a map") };
                let attrs = smallvec![Attr::DType(DType::F32)];
                body.instrs.push(Instr {
                    op: Op::Cast,
                    attrs,
                    dtype: DType::F32,
                    args: smallvec![1],
                });
                body.results = vec![2];
                case.writes = vec![(DType::F32, sizes.into())];
                case.check_exact();
            }
        }
    }
}
