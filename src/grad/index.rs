//! Rules of indexing: a read at a place becomes an addition there, and the other way round. Sums of half types are in f32.

use super::{Flow, Step};
use crate::dtype::DType;
use crate::graph::math::{V, wide};
use crate::op::index::Reduction;
use crate::op::nn::may_meet_nothing;
use crate::op::{Attr, Attrs, Op};
use crate::shape::{Dims, numel};
use smallvec::smallvec;

/// The cotangent, added by `make` onto zeros of the sizes of `x`.
fn summed<'m>(s: &Step<'m, '_>, x: V<'m>, make: impl FnOnce(V<'m>, V<'m>) -> V<'m>) -> V<'m> {
    let compute = wide(x.dtype());
    let zeros = s.math.zeros(compute, &x.sizes());
    make(zeros, s.dy().cast(compute)).cast(x.dtype())
}

/// The cotangent's rows along `axis`, added at a list of indices.
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

fn scattered(axis: &Attr, how: Reduction) -> Attrs {
    smallvec![axis.clone(), how.attr()]
}

/// The gradient of one element of each row (a class of each sample) is made by comparison: pointwise, so that it fuses with
/// its users.
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
        s.math.op(Op::Scatter, &[zeros, s.x[1], dy], scattered(&s.attrs[0], Reduction::Sum))
    });
    Ok(vec![Some(dx), None])
}

/// Overwritten elements have no cotangent; each of several written to one place has all of it, as in PyTorch.
pub fn scatter<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (index, x, dy) = (s.x[1], s.x[2], s.dy());
    let how = Reduction::of(&s.attrs);
    match how {
        Reduction::Product => return Ok(product(s)),
        Reduction::Max | Reduction::Min => return Ok(extreme(s)),
        Reduction::Last | Reduction::Sum => {}
    }
    let base = s.of(0, || match how {
        Reduction::Sum => dy,
        _ => {
            let nothing = s.math.zeros(x.dtype(), &x.sizes());
            s.math.op(Op::Scatter, &[dy, index, nothing], scattered(&s.attrs[0], Reduction::Last))
        }
    });
    Ok(vec![base, None, s.of(2, || read(s, dy))])
}

/// The elements of `v` at the places of a scatter's elements.
fn read<'m>(s: &Step<'m, '_>, v: V<'m>) -> V<'m> {
    s.math.op(Op::Gather, &[v, s.x[1]], smallvec![s.attrs[0].clone()])
}

/// `base` with `x` scattered to the places of a scatter's elements.
fn again<'m>(s: &Step<'m, '_>, [base, x]: [V<'m>; 2], how: Reduction) -> V<'m> {
    s.math.op(Op::Scatter, &[base, s.x[1], x], scattered(&s.attrs[0], how))
}

/// A factor's slope is the product of the others: the whole product divided by it, or, if it alone is 0, that without it.
fn product<'m>(s: &Step<'m, '_>) -> Vec<Option<V<'m>>> {
    let (base, x, y, dy) = (s.x[0], s.x[2], s.y[0], s.dy());
    let of_base = s.of(0, || {
        let others = s.math.full(1.0, base.dtype(), &base.sizes());
        dy * again(s, [others, x], Reduction::Product)
    });
    let of_x = s.of(2, || {
        let is_zero = x.eq(0.0);
        let compute = wide(x.dtype());
        let none = s.math.zeros(compute, &base.sizes());
        let zeros = read(s, again(s, [none, is_zero.cast(compute)], Reduction::Sum));
        let is_only = is_zero.and(zeros.eq(1.0));
        let one = s.math.full(1.0, x.dtype(), &x.sizes());
        let without = again(s, [base, is_only.select(one, x)], Reduction::Product);
        let by_division = read(s, dy * y) / is_zero.select(one, x);
        is_only.select(read(s, dy * without), by_division)
    });
    vec![of_base, None, of_x]
}

/// All elements equal to the extreme share its cotangent evenly, as in PyTorch.
fn extreme<'m>(s: &Step<'m, '_>) -> Vec<Option<V<'m>>> {
    let (base, x, y) = (s.x[0], s.x[2], s.y[0]);
    let compute = wide(base.dtype());
    let [base_is, x_is] = [base.eq(y), x.eq(read(s, y))].map(|is| is.cast(compute));
    let share = s.dy().cast(compute) / again(s, [base_is, x_is], Reduction::Sum);
    let of_base = s.of(0, || (base_is * share).cast(base.dtype()));
    let of_x = s.of(2, || (x_is * read(s, share)).cast(x.dtype()));
    vec![of_base, None, of_x]
}

/// Scatters the cotangent to the places of the elements.
pub fn top_k<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let zeros = s.math.zeros(s.x[0].dtype(), &s.x[0].sizes());
    let operands = [zeros, s.y[1], s.dy()];
    Ok(vec![Some(s.math.op(Op::Scatter, &operands, scattered(&s.attrs[0], Reduction::Last)))])
}

pub fn max_pool<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let lists = [s.attrs[2].ints(), s.attrs[3].ints()];
    Ok(vec![Some(of_max_pool([s.dy(), s.y[1]], &s.x[0].sizes()[2..], lists))])
}

/// The gradient of maxima of windows over `spatial`, from `dy` and the places of the maxima, `[n, c, s…]`. The place of a
/// window that meets padding only may be beyond the plane: its gradient is dropped.
pub fn of_max_pool<'m>(
    [dy, index]: [V<'m>; 2],
    spatial: &[i64],
    [padding, dilation]: [&[i64]; 2],
) -> V<'m> {
    let math = dy.math();
    let attrs = smallvec![Attr::Ints(spatial.into())];
    if !may_meet_nothing(padding, dilation) {
        return math.op(Op::MaxPoolGrad, &[dy, index], attrs);
    }
    let inside = index.lt(math.constant_int(numel(spatial), DType::I64));
    let operands = [inside.select(dy, 0.0), inside.select(index, 0.0)];
    math.op(Op::MaxPoolGrad, &operands, attrs)
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
