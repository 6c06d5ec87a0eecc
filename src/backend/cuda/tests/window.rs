//! Convolution and pooling.

use super::{check_close, failure};
use crate::backend::cpu::tests::conv::{POOLS, SHAPES, attrs_of};
use crate::backend::cpu::tests::node::{ints, node, values};
use crate::backend::cpu::tests::{Case, FLOATS, Random, numbers};
use crate::backend::reference::Reference;
use crate::dtype::DType;
use crate::op::array::Array;
use crate::op::{Attr, Attrs, Op, Ty};
use smallvec::smallvec;

#[test]
fn convolution_and_its_gradients() {
    let mut random = Random::new(20);
    let mut cases: Vec<(Case, f64)> = Vec::new();
    for &(x, w, lists, groups) in SHAPES {
        let large = x.iter().chain(w).product::<i64>() > 100_000;
        let dtypes = if large { &FLOATS[2..3] } else { &FLOATS[1..] };
        for &dtype in dtypes {
            let (x, w) = (values(&mut random, dtype, x), values(&mut random, dtype, w));
            let forward = node(Op::Conv, attrs_of(None, lists, groups), vec![x.clone(), w.clone()]);
            let terms = |n: i64| 4.0 * (n as f64 + 4.0);
            let sizes = forward.writes[0].1.clone();
            cases.push((forward, terms(w.ty.numel() / w.ty.sizes[0].max(1))));
            let dy = values(&mut random, dtype, &sizes);
            let of_input = attrs_of(Some(&x.ty.sizes[2..]), lists, groups);
            let taps: i64 = w.ty.sizes[2..].iter().product();
            let gradient = node(Op::ConvGradInput, of_input, vec![dy.clone(), w.clone()]);
            cases.push((gradient, terms(w.ty.sizes[0] * taps)));
            let of_weight = attrs_of(Some(&w.ty.sizes[2..]), lists, groups);
            let gradient = node(Op::ConvGradWeight, of_weight, vec![dy.clone(), x.clone()]);
            cases.push((gradient, terms(dy.ty.numel() / sizes[1].max(1))));
        }
    }
    check_close(&cases);
}

#[test]
fn pooling_and_its_gradients() {
    let mut random = Random::new(23);
    let mut cases: Vec<(Case, f64)> = Vec::new();
    for &(sizes, lists, ceil) in POOLS {
        for dtype in FLOATS.into_iter().chain([DType::I32]) {
            let n = crate::shape::numel(sizes) as usize;
            let special =
                Array { ty: Ty::new(dtype, sizes), ..numbers(&mut random, dtype, n, true) };
            let attrs: Attrs = lists.into_iter().map(ints).chain([Attr::Bool(ceil)]).collect();
            let case = node(Op::MaxPool, attrs.clone(), vec![special]);
            let index = case.run(&Reference::default()).unwrap().remove(1);
            let dy = values(&mut random, dtype, &case.writes[0].1);
            cases.push((case, 0.0));
            let x = values(&mut random, dtype, sizes);
            cases.push((node(Op::SumPool, attrs.clone(), vec![x]), 100.0));
            let of_x: Attrs = smallvec![ints(&sizes[2..])];
            let operands = vec![dy.clone(), index];
            cases.push((node(Op::MaxPoolGrad, of_x.clone(), operands), 100.0));
            let attrs: Attrs = of_x.into_iter().chain(attrs).collect();
            cases.push((node(Op::SumPoolGrad, attrs, vec![dy]), 100.0));
        }
    }
    check_close(&cases);
}

#[test]
fn an_index_beyond_the_plane_is_an_error() {
    let mut random = Random::new(24);
    let dy = values(&mut random, DType::F32, &[1, 1, 2, 2]);
    for bad in [-1, 9] {
        let mut index = Array::zeros(&Ty::new(DType::I64, &[1, 1, 2, 2]));
        index.set_i64(2, bad);
        let case = node(Op::MaxPoolGrad, smallvec![ints(&[3, 3])], vec![dy.clone(), index]);
        let (got, want) = (failure(&case), case.run(&Reference::default()).unwrap_err());
        assert_eq!((got.code, got.message), (want.code, want.message));
    }
}
