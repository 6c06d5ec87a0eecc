//! Rules of the reductions.

use super::{Flow, Step};
use crate::dtype::DType;
use crate::graph::math::{V, wide};
use crate::op::index::Reduction;
use crate::op::{Attr, Op};
use crate::shape::Dims;
use smallvec::smallvec;

/// `v`, of the sizes of the result, repeated along the axes that the reduction dropped.
pub fn restored<'m>(s: &Step<'m, '_>, v: V<'m>) -> V<'m> {
    restored_to(&s.x[0].sizes(), s.ints(0), v)
}

fn restored_to<'m>(full: &[i64], axes: &[i64], v: V<'m>) -> V<'m> {
    let mut kept = Dims::from_slice(full);
    axes.iter().for_each(|&axis| kept[axis as usize] = 1);
    v.reshape(&kept).broadcast(full)
}

pub fn prod<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    Ok(vec![Some(of_prod(s.x[0], s.dy(), s.ints(0), false))])
}

/// The gradient of a product over `axes`, which `dy` does not have: the product of the others, that is the whole product divided
/// by the element; if one element is 0, only its gradient is not 0, as far as all others are finite. PyTorch does not check
/// these if it multiplies all elements and several are 0.
pub fn of_prod<'m>(x: V<'m>, dy: V<'m>, axes: &[i64], all_there_is: bool) -> V<'m> {
    let dtype = x.dtype();
    let compute = wide(dtype);
    let (x, dy) = (x.cast(compute), dy.cast(compute));
    let restored = |v| restored_to(&x.sizes(), axes, v);
    let is_zero = x.eq(0.0);
    let others = is_zero.select(x.math().full(1.0, compute, &x.sizes()), x);
    let product = restored(others.reduce(Op::Prod, axes, false));
    let [zeros, endless] = [is_zero, x.abs().lt(f64::INFINITY).not()].map(|v| v.cast(compute));
    let count = |v: V<'m>| restored(v.reduce(Op::Sum, axes, false));
    let is_finite = (count(endless) - endless).le(0.0);
    let zeros = count(zeros);
    let is_nothing = if all_there_is { is_finite.or(zeros.gt(1.0)) } else { is_finite };
    let nothing = is_nothing.select(x.math().zeros(compute, &x.sizes()), f64::NAN);
    let alone = zeros.eq(1.0).select(product, nothing);
    let among_others = zeros.eq(0.0).select(product / others, nothing);
    (restored(dy) * is_zero.select(alone, among_others)).cast(dtype)
}

/// Equal maxima have equal shares.
pub fn extreme<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let x = s.x[0];
    Ok(vec![Some(shares(x, restored(s, s.y[0]), s.ints(0)) * restored(s, s.dy()))])
}

/// For every element of `x`: 1 divided by the number of elements equal to `y` if it is one of them, else 0.
pub fn shares<'m>(x: V<'m>, y: V<'m>, axes: &[i64]) -> V<'m> {
    let compute = wide(x.dtype());
    let is_chosen = x.eq(y).cast(compute);
    (is_chosen / is_chosen.reduce(Op::Sum, axes, true)).cast(x.dtype())
}

/// Applies `op` along an axis.
fn along(v: V<'_>, op: Op, axis: i64) -> V<'_> {
    v.math().op(op, &[v], smallvec![Attr::Int(axis)])
}

/// Sums from each element to the end.
fn rest<'m>(v: V<'m>, axis: i64) -> V<'m> {
    let reversed = |v: V<'m>| {
        let size = v.sizes()[axis as usize];
        let last = v.math().full(size as f64 - 1.0, DType::I64, &[size]);
        let places = last - v.math().iota(&[size], 0, DType::I64);
        v.math().op(Op::Take, &[v, places], smallvec![Attr::Int(axis)])
    };
    reversed(along(reversed(v), Op::CumSum, axis))
}

pub fn cumsum<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    Ok(vec![Some(rest(s.dy(), s.int(0)))])
}

pub fn cumprod<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    Ok(vec![Some(of_cumprod(s.x[0], s.dy(), s.int(0)))])
}

/// The gradient of a running product. Before the first 0, products are divided by the element. The first 0 is a factor of all
/// products from there on, which are taken without it, and are 0 from a second 0 on; elements after it have no gradient.
pub fn of_cumprod<'m>(x: V<'m>, dy: V<'m>, axis: i64) -> V<'m> {
    let dtype = x.dtype();
    let (x, dy) = (x.cast(wide(dtype)), dy.cast(wide(dtype)));
    let zeros = along(x.eq(0.0).cast(DType::I64), Op::CumSum, axis);
    let is_before = zeros.eq(0.0);
    let is_first = x.eq(0.0).and(zeros.eq(1.0));
    let one = x.math().constant(1.0, x.dtype());
    let terms = dy * along(is_first.select(one, x), Op::CumProd, axis);
    let before = rest(is_before.select(terms, 0.0), axis) / is_before.select(x, 1.0);
    let first = is_first.select(rest(is_before.not().select(terms, 0.0), axis), 0.0);
    is_before.select(before, first).cast(dtype)
}

/// The place (i64) of the largest element so far, the last of equals and of NaN.
pub fn places_of_cummax<'m>(x: V<'m>, largest: V<'m>, axis: i64) -> V<'m> {
    let place = x.math().iota(&x.sizes(), axis as usize, DType::I64);
    let is_found = x.eq(largest).or(x.ne(x));
    along(is_found.select(place, 0.0), Op::CumMax, axis)
}

/// The last of equal elements gets the gradient.
pub fn cummax<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (x, axis) = (s.x[0], s.int(0));
    let zero = s.math.zeros(x.dtype(), &x.sizes());
    let operands = [zero, places_of_cummax(x, s.y[0], axis), s.dy()];
    let attrs = smallvec![Attr::Int(axis), Reduction::Sum.attr()];
    Ok(vec![Some(s.math.op(Op::Scatter, &operands, attrs))])
}
