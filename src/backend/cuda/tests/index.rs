//! Reading and writing where indices say.

use super::{check_close, failure};
use crate::backend::cpu::tests::node::{index, node, values};
use crate::backend::cpu::tests::{Case, FLOATS, Random};
use crate::backend::reference::Reference;
use crate::dtype::DType;
use crate::op::array::Array;
use crate::op::index::Reduction;
use crate::op::{Attr, Attrs, Op, Ty};
use smallvec::smallvec;

#[test]
fn take_and_gather() {
    let mut random = Random::new(7);
    let mut cases: Vec<(Case, f64)> = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::U8, DType::C128] {
        for (sizes, picked) in
            [(&[5][..], &[3][..]), (&[4, 6], &[2, 3]), (&[3, 4, 8], &[7]), (&[2, 3], &[0])]
        {
            for axis in 0..sizes.len() {
                let x = values(&mut random, dtype, sizes);
                let attrs: Attrs = smallvec![Attr::Int(axis as i64)];
                let places = index(&mut random, DType::I64, picked, sizes[axis]);
                cases.push((node(Op::Take, attrs.clone(), vec![x.clone(), places]), 0.0));
                let mut within: Vec<i64> = sizes.iter().map(|s| 1 + s / 2).collect();
                within[axis] = 7;
                let places = index(&mut random, DType::I32, &within, sizes[axis]);
                cases.push((node(Op::Gather, attrs, vec![x, places]), 0.0));
            }
        }
    }
    check_close(&cases);
}

#[test]
fn index_add_and_scatter() {
    let mut random = Random::new(8);
    let mut cases: Vec<(Case, f64)> = Vec::new();
    for dtype in FLOATS.into_iter().chain([DType::U8, DType::I64]) {
        for (sizes, n) in
            [(&[5][..], 9), (&[3, 4, 5], 11), (&[50, 300], 200), (&[2, 5], 700), (&[3, 2], 0)]
        {
            for axis in 0..sizes.len() {
                let base = values(&mut random, dtype, sizes);
                let mut along = sizes.to_vec();
                along[axis] = n;
                let x = values(&mut random, dtype, &along);
                let at = index(&mut random, DType::I64, &[n], sizes[axis]);
                let attrs: Attrs = smallvec![Attr::Int(axis as i64)];
                let operands = vec![base.clone(), at, x.clone()];
                cases.push((node(Op::IndexAdd, attrs, operands), 16.0));
                let at = index(&mut random, DType::I32, &along, sizes[axis]);
                let all = if sizes.len() == 3 { &Reduction::ALL[..] } else { &Reduction::ALL[..2] };
                for how in all {
                    let attrs = smallvec![Attr::Int(axis as i64), how.attr()];
                    let operands = vec![base.clone(), at.clone(), x.clone()];
                    cases.push((node(Op::Scatter, attrs, operands), 16.0));
                }
            }
        }
    }
    for n in 0..cases.len() {
        let Case { kernel, reads, writes, .. } = &cases[n].0;
        let (kernel, reads, writes) = (kernel.clone(), reads.clone(), writes.clone());
        let case = Case { kernel, reads, writes, scalars: vec![], in_place: true };
        cases.push((case, 16.0));
    }
    check_close(&cases);
}

#[test]
fn an_index_out_of_range_fails_before_anything_is_overwritten() {
    let mut random = Random::new(9);
    let x = values(&mut random, DType::F32, &[4, 3]);
    for (bad, in_place) in [(-1, false), (4, true)] {
        let mut at = index(&mut random, DType::I64, &[4], 4);
        at.set_i64(3, bad);
        let wide = Array { ty: Ty::new(DType::I64, &[4, 1]), ..at.clone() };
        let column = values(&mut random, DType::F32, &[4, 1]);
        let axis: Attrs = smallvec![Attr::Int(0)];
        let set = smallvec![Attr::Int(0), Reduction::Last.attr()];
        let add = node(Op::IndexAdd, axis.clone(), vec![x.clone(), at.clone(), x.clone()]);
        let scatter = node(Op::Scatter, set, vec![x.clone(), wide.clone(), column]);
        let mut cases = vec![add, scatter];
        cases.iter_mut().for_each(|case| case.in_place = in_place);
        if !in_place {
            cases.push(node(Op::Gather, axis.clone(), vec![x.clone(), wide]));
            cases.push(node(Op::Take, axis, vec![x.clone(), at]));
        }
        for case in cases {
            let (got, expected) = (failure(&case), case.run(&Reference::default()).unwrap_err());
            assert_eq!((got.code, got.message), (expected.code, expected.message));
        }
    }
}
