//! Rules of products and windows. All are linear in each operand, so they are each other's rules.

use super::{Flow, Step};
use crate::graph::math::V;
use crate::op::{Attr, Attrs, Op};
use crate::shape::Dims;

pub fn matmul<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (a, b, dy) = (s.x[0], s.x[1], s.dy());
    let turned = |v: V<'m>| v.swap(v.rank() - 2, v.rank() - 1);
    let along_a = s.of(0, || dy.matmul(turned(b)));
    let along_b = s.of(1, || turned(a).matmul(dy));
    Ok(vec![along_a, along_b])
}

/// Of a product of groups of rows, one gradient is a product of each form; of one of groups of terms, both are of groups of rows.
pub fn grouped_matmul<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (a, b, ends, dy) = (s.x[0], s.x[1], s.x[2], s.dy());
    let turned = |v: V<'m>| v.swap(v.rank() - 2, v.rank() - 1);
    let product = |a, b| s.math.op(Op::GroupedMatmul, &[a, b, ends], Attrs::new());
    let (along_a, along_b) = match b.rank() {
        3 => (s.of(0, || product(dy, turned(b))), s.of(1, || product(turned(a), dy))),
        _ => (s.of(0, || turned(product(b, turned(dy)))), s.of(1, || product(turned(a), dy))),
    };
    Ok(vec![along_a, along_b, None])
}

/// The matrix of a transform is symmetric, and its conjugate is that of the other direction.
pub fn fft<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    Ok(vec![Some(s.math.op(
        Op::Fft,
        &[s.dy()],
        [Attr::Bool(!s.attrs[0].bool())].into_iter().collect(),
    ))])
}

/// Attributes of a primitive whose result has the spatial sizes of `of`: these, then the others.
fn with_sizes(of: V, rest: &[Attr]) -> Attrs {
    let sizes = Attr::Ints(of.sizes()[2..].into());
    [sizes].into_iter().chain(rest.iter().cloned()).collect()
}

/// `v` cut to the sizes of `like`, which may end before it.
fn cut_to<'m>(v: V<'m>, like: V<'m>) -> V<'m> {
    let rank = v.rank();
    v.slice(&Dims::from_elem(0, rank), &like.sizes(), &Dims::from_elem(1, rank))
}

pub fn conv<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (x, w, dy) = (s.x[0], s.x[1], s.dy());
    let dx = || s.math.op(Op::ConvGradInput, &[dy, w], with_sizes(x, &s.attrs));
    let dw = || s.math.op(Op::ConvGradWeight, &[dy, x], with_sizes(w, &s.attrs));
    Ok(vec![s.of(0, dx), s.of(1, dw)])
}

/// Rule of `(dy, w)` → `dx`.
pub fn conv_grad_input<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (dy, w, g) = (s.x[0], s.x[1], s.dy());
    let rest = &s.attrs[1..];
    let along_dy = || cut_to(s.math.op(Op::Conv, &[g, w], rest.iter().cloned().collect()), dy);
    let along_w = || s.math.op(Op::ConvGradWeight, &[dy, g], with_sizes(w, rest));
    Ok(vec![s.of(0, along_dy), s.of(1, along_w)])
}

/// Rule of `(dy, x)` → `dw`.
pub fn conv_grad_weight<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (dy, x, g) = (s.x[0], s.x[1], s.dy());
    let rest = &s.attrs[1..];
    let along_dy = || cut_to(s.math.op(Op::Conv, &[x, g], rest.iter().cloned().collect()), dy);
    let along_x = || s.math.op(Op::ConvGradInput, &[dy, g], with_sizes(x, rest));
    Ok(vec![s.of(0, along_dy), s.of(1, along_x)])
}

pub fn sum_pool<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let attrs = with_sizes(s.x[0], &s.attrs);
    Ok(vec![Some(s.math.op(Op::SumPoolGrad, &[s.dy()], attrs))])
}

pub fn sum_pool_grad<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let attrs = s.attrs[1..].iter().cloned().collect();
    Ok(vec![Some(s.math.op(Op::SumPool, &[s.dy()], attrs))])
}
