//! Rules of the reductions.

use super::{Flow, Step};
use crate::graph::math::{V, wide};
use crate::op::{Attr, Op};
use crate::shape::Dims;
use smallvec::smallvec;

/// `v`, of the sizes of the result, repeated along the axes that the reduction dropped.
pub fn restored<'m>(s: &Step<'m, '_>, v: V<'m>) -> V<'m> {
    let full = s.x[0].sizes();
    let mut kept = full.clone();
    s.ints(0).iter().for_each(|&axis| kept[axis as usize] = 1);
    v.reshape(&kept).broadcast(&full)
}

/// The product of the others: the whole product divided by the element; where one element is 0, its alone is not 0.
pub fn prod<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let dtype = s.x[0].dtype();
    let compute = wide(dtype);
    let x = s.x[0].cast(compute);
    let is_zero = x.eq(0.0);
    let axes = s.ints(0);
    let others = is_zero.select(s.math.full(1.0, compute, &x.sizes()), x);
    let product = restored(s, others.reduce(Op::Prod, axes, false));
    let zeros = restored(s, is_zero.cast(compute).reduce(Op::Sum, axes, false));
    let alone = zeros.eq(1.0).select(product, 0.0);
    let among_others = zeros.eq(0.0).select(product / others, 0.0);
    let slope = is_zero.select(alone, among_others);
    Ok(vec![Some((restored(s, s.dy().cast(compute)) * slope).cast(dtype))])
}

/// Equal maxima have equal shares.
pub fn extreme<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let x = s.x[0];
    Ok(vec![Some(shares(x, restored(s, s.y[0]), s.ints(0)) * restored(s, s.dy()))])
}

/// For every element of `x`: 1 divided by the number of those that are `y` if it is one, else 0.
pub fn shares<'m>(x: V<'m>, y: V<'m>, axes: &[i64]) -> V<'m> {
    let compute = wide(x.dtype());
    let is_chosen = x.eq(y).cast(compute);
    (is_chosen / is_chosen.reduce(Op::Sum, axes, true)).cast(x.dtype())
}

/// Summed from the other end.
pub fn cumsum<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let axis = s.int(0);
    let reversed = |v: V<'m>| {
        let size = v.sizes()[axis as usize];
        let last = s.math.full(size as f64 - 1.0, crate::dtype::DType::I64, &[size]);
        let places = last - s.math.iota(&Dims::from_slice(&[size]), 0, crate::dtype::DType::I64);
        s.math.op(Op::Take, &[v, places], smallvec![Attr::Int(axis)])
    };
    let sums = s.math.op(Op::CumSum, &[reversed(s.dy())], smallvec![Attr::Int(axis)]);
    Ok(vec![Some(reversed(sums))])
}
