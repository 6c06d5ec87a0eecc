//! Rules of indexing: what is read somewhere is added there, and the other way round. Sums of half types are taken in f32.

use super::{Flow, Step};
use crate::graph::math::{V, wide};
use crate::op::{Attr, Attrs, Op};
use crate::shape::{Dims, numel};
use smallvec::smallvec;

/// `make`s a sum onto zeros of the sizes of `x`, of the cotangent.
fn summed<'m>(s: &Step<'m, '_>, x: V<'m>, make: impl FnOnce(V<'m>, V<'m>) -> V<'m>) -> V<'m> {
    let compute = wide(x.dtype());
    let zeros = s.math.zeros(compute, &x.sizes());
    make(zeros, s.dy().cast(compute)).cast(x.dtype())
}

/// The rows of `x` along `axis`, added at a list of indices.
pub fn take<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (x, index, axis) = (s.x[0], s.x[1], s.int(0) as usize);
    let n = numel(&index.sizes());
    let mut sizes = x.sizes();
    sizes[axis] = n;
    let dx = summed(s, x, |zeros, dy| {
        let operands = [zeros, index.reshape(&[n]), dy.reshape(&sizes)];
        s.math.op(Op::IndexAdd, &operands, s.attrs.clone())
    });
    Ok(vec![Some(dx), None])
}

pub fn index_add<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let taken = s.of(2, || s.math.op(Op::Take, &[s.dy(), s.x[1]], s.attrs.clone()));
    Ok(vec![Some(s.dy()), None, taken])
}

fn scattered(axis: &Attr, add: bool) -> Attrs {
    smallvec![axis.clone(), Attr::Bool(add)]
}

/// One element of each row (a class of each sample) by comparison: pointwise, so that it goes into one kernel with what
/// follows.
pub fn gather<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (x, index, axis) = (s.x[0], s.x[1], s.int(0) as usize);
    let mut column = x.sizes();
    if let Some(size) = column.get_mut(axis) {
        *size = 1;
    }
    if x.rank() > 0 && index.sizes() == column {
        let place = s.math.iota(&x.sizes(), axis, index.dtype());
        return Ok(vec![Some(place.eq(index).select(s.dy(), 0.0)), None]);
    }
    let dx = summed(s, s.x[0], |zeros, dy| {
        s.math.op(Op::Scatter, &[zeros, s.x[1], dy], scattered(&s.attrs[0], true))
    });
    Ok(vec![Some(dx), None])
}

/// What is written over has no cotangent; of several that are written to one place each has all of it, as in PyTorch.
pub fn scatter<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (index, x, dy) = (s.x[1], s.x[2], s.dy());
    let axis = &s.attrs[0];
    let base = s.of(0, || match s.attrs[1].bool() {
        true => dy,
        false => {
            let nothing = s.math.zeros(x.dtype(), &x.sizes());
            s.math.op(Op::Scatter, &[dy, index, nothing], scattered(axis, false))
        }
    });
    let read = s.of(2, || s.math.op(Op::Gather, &[dy, index], smallvec![axis.clone()]));
    Ok(vec![base, None, read])
}

/// To where the elements were.
pub fn top_k<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let zeros = s.math.zeros(s.x[0].dtype(), &s.x[0].sizes());
    let operands = [zeros, s.y[1], s.dy()];
    Ok(vec![Some(s.math.op(Op::Scatter, &operands, scattered(&s.attrs[0], false)))])
}

pub fn max_pool<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let spatial = Attr::Ints(s.x[0].sizes()[2..].into());
    Ok(vec![Some(s.math.op(Op::MaxPoolGrad, &[s.dy(), s.y[1]], smallvec![spatial]))])
}

pub fn max_pool_grad<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (dy, index, g) = (s.x[0], s.x[1], s.dy());
    let flat = |v: V<'m>| {
        let sizes = v.sizes();
        v.reshape(&Dims::from_slice(&[sizes[0], sizes[1], numel(&sizes[2..])]))
    };
    let read = s.math.op(Op::Gather, &[flat(g), flat(index)], smallvec![Attr::Int(2)]);
    Ok(vec![Some(read.reshape(&dy.sizes())), None])
}
