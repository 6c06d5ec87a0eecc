//! Expands primitives that StableHLO has no operation for into others that it has: the function beside a composite, for
//! systems that do not know the primitive.

use super::ops::random::{halves, philox, whole};
use super::ops::shape::{padded, reversed};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{Math, V};
use crate::graph::{Graph, Node};
use crate::op::array::integer_range;
use crate::op::index::Reduction;
use crate::op::movement::view_of;
use crate::op::nn::may_meet_nothing;
use crate::op::{Attr, Attrs, Op, Ty};
use crate::shape::{Dims, contiguous_strides};
use smallvec::smallvec;

/// Larger windows are not written out element by element.
const MAX_TAPS: i64 = 256;

/// A graph equivalent to the node, with its operands as inputs. An index out of range is clamped or written nowhere, and
/// nothing is refused, since StableHLO refuses nothing.
pub fn expansion(graph: &Graph, node: &Node) -> Option<Graph> {
    let math = Math::default();
    let input = |(i, &v): (usize, _)| math.build(|b| b.input(i as u32, graph.ty(v).clone()));
    let x: Vec<V> = node.inputs.iter().enumerate().map(input).collect();
    let outs: Vec<Ty> = node.outputs().map(|v| graph.ty(v).clone()).collect();
    let results = expanded(&math, node, &x, &outs).ok()??;
    math.check().ok()?;
    if results.iter().map(|v| v.ty()).ne(outs) {
        return None;
    }
    let results = results.iter().map(|v| v.id).collect();
    Some(math.into_builder().finish(results))
}

fn expanded<'m>(
    math: &'m Math,
    node: &Node,
    x: &[V<'m>],
    outs: &[Ty],
) -> Result<Option<Vec<V<'m>>>> {
    let attrs = &node.attrs;
    let out = &outs[0];
    let one = match node.op {
        Op::Mark | Op::Detach | Op::Offload | Op::Reload => x[0],
        Op::Expect => math.constant_int(0, DType::I64),
        Op::Sign => {
            let dtype = x[0].dtype();
            let zero = math.constant(0.0, dtype);
            x[0].gt(zero).cast(dtype) - x[0].lt(zero).cast(dtype)
        }
        Op::Trunc => x[0].lt(0.0).select(x[0].unary(Op::Ceil), x[0].unary(Op::Floor)),
        Op::ArgMax => first_of(x[0], Op::ReduceMax, attrs[0].int()),
        Op::ArgMin => first_of(x[0], Op::ReduceMin, attrs[0].int()),
        Op::AsStrided if let Some((starts, sizes)) = view_of(attrs).as_box(&x[0].sizes()) => {
            let steps = Dims::from_elem(1, sizes.len());
            x[0].slice(&starts, &sizes, &steps).reshape(&out.sizes)
        }
        Op::AsStrided => {
            let index = strided(math, &out.sizes, attrs[1].ints(), attrs[2].int());
            math.op(Op::Take, &[x[0].reshape(&[-1]), index], smallvec![Attr::Int(0)])
        }
        Op::AsStridedScatter => {
            let sizes = x[1].sizes();
            let index = strided(math, &sizes, attrs[1].ints(), attrs[2].int());
            scattered(x[0], index, x[1], Reduction::Last)
        }
        // There is nothing to read from, or to sum up.
        Op::Take => math.zeros(out.dtype, &out.sizes),
        Op::CumSum | Op::CumProd | Op::CumMax => x[0],
        Op::GroupedMatmul => return grouped_matmul(x[0], x[1], x[2]),
        Op::Gather => {
            let index = along(x[1], &x[0].sizes(), attrs[0].int());
            math.op(Op::Take, &[x[0].reshape(&[-1]), index], smallvec![Attr::Int(0)])
        }
        Op::Scatter => {
            let index = along(x[1], &x[0].sizes(), attrs[0].int());
            scattered(x[0], index, x[2], Reduction::of(attrs))
        }
        op if op.draws() => random(x[0], x[1], out),
        Op::MaxPool => return max_pool(x[0], attrs, out),
        Op::MaxPoolGrad => {
            let sizes = &out.sizes;
            let plane: i64 = sizes[2..].iter().product();
            let mut strides = Dims::from_elem(0, sizes.len());
            (strides[0], strides[1]) = (sizes[1] * plane, plane);
            let index = strided(math, &x[0].sizes(), &strides, 0) + x[1];
            let flat = math.zeros(out.dtype, &[out.numel()]);
            let operands = [flat, index.reshape(&[-1]), x[0].reshape(&[-1])];
            math.op(Op::IndexAdd, &operands, smallvec![Attr::Int(0)]).reshape(sizes)
        }
        Op::SumPoolGrad => return sum_pool_grad(x[0], attrs, out),
        Op::ConvGradInput => conv_grad_input(x[0], x[1], attrs, out)?,
        Op::ConvGradWeight => conv_grad_weight(x[0], x[1], attrs)?,
        _ => return Ok(None),
    };
    Ok(Some(vec![one]))
}

fn int<'m>(math: &'m Math, number: i64) -> V<'m> {
    math.constant_int(number, DType::I64)
}

/// Positions in memory of all elements of a strided view.
fn strided<'m>(math: &'m Math, sizes: &[i64], strides: &[i64], offset: i64) -> V<'m> {
    let moving = (0..sizes.len()).filter(|&d| strides[d] != 0);
    let place =
        |sum: V<'m>, d: usize| sum + math.iota(sizes, d, DType::I64) * int(math, strides[d]);
    moving.fold(int(math, offset), place).broadcast(sizes)
}

/// Positions in the flattened array of `sizes`, where an index replaces the coordinate along `axis`.
fn along<'m>(index: V<'m>, sizes: &[i64], axis: i64) -> V<'m> {
    let mut strides = contiguous_strides(sizes);
    let stride = std::mem::take(&mut strides[axis as usize]);
    let rest = strided(index.math(), &index.sizes(), &strides, 0);
    index.cast(DType::I64) * int(index.math(), stride) + rest
}

/// `base` with `x` written to the positions `index` of its flattened elements.
fn scattered<'m>(base: V<'m>, index: V<'m>, x: V<'m>, how: Reduction) -> V<'m> {
    let operands = [base, index, x].map(|v| v.reshape(&[-1]));
    let attrs = smallvec![Attr::Int(0), how.attr()];
    base.math().op(Op::Scatter, &operands, attrs).reshape(&base.sizes())
}

/// Index of the first extreme element, or of the first NaN.
fn first_of(x: V<'_>, extreme: Op, axis: i64) -> V<'_> {
    let sizes = x.sizes();
    let hit = x.eq(x.reduce(extreme, &[axis], true)).or(x.ne(x));
    let place = x.math().iota(&sizes, axis as usize, DType::I64);
    let none = int(x.math(), sizes[axis as usize]);
    hit.select(place, none).reduce(Op::ReduceMin, &[axis], false)
}

/// All positions in a window, by dimension. `None`: there are more than [`MAX_TAPS`].
fn taps(kernel: &[i64]) -> Option<Vec<Dims>> {
    if kernel.iter().try_fold(1i64, |n, &k| n.checked_mul(k)).is_none_or(|n| n > MAX_TAPS) {
        return None;
    }
    let mut all = vec![Dims::new()];
    for &size in kernel {
        let longer = |tap: &Dims, k: i64| tap.iter().copied().chain([k]).collect();
        all = all.iter().flat_map(|tap| (0..size).map(move |k| longer(tap, k))).collect();
    }
    Some(all)
}

fn max_pool<'m>(x: V<'m>, attrs: &Attrs, out: &Ty) -> Result<Option<Vec<V<'m>>>> {
    let [kernel, stride, padding, dilation] = [0, 1, 2, 3].map(|n| attrs[n].ints());
    let (math, sizes, spatial) = (x.math(), x.sizes(), &out.sizes[2..]);
    let Some(taps) = taps(kernel) else { return Ok(None) };
    let least = match out.dtype.is_float() {
        true => math.constant(f64::NEG_INFINITY, out.dtype),
        false => math.constant_int(integer_range(out.dtype).0, out.dtype),
    };
    let mut wide = x;
    for d in 0..spatial.len() {
        let reach = (spatial[d] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1;
        wide = padded(wide, least, d + 2, [padding[d], reach - padding[d] - sizes[d + 2], 0])?;
    }
    let strides = contiguous_strides(&sizes[2..]);
    let mut best = math.zeros(out.dtype, &out.sizes);
    let mut place = math.zeros(DType::I64, &out.sizes);
    if may_meet_nothing(padding, dilation) {
        best = least.broadcast(&out.sizes);
        for d in 0..spatial.len() {
            let i = math.iota(&out.sizes, d + 2, DType::I64) * int(math, stride[d]);
            let i = i - int(math, padding[d]);
            // Of a window that begins before the input, the first position inside that a tap reaches.
            let step = int(math, dilation[d]);
            let after = (int(math, 0) - i).rem(step);
            let first = after.eq(int(math, 0)).select(after, step - after);
            let i = i.lt(int(math, 0)).select(first, i);
            place = place + i * int(math, strides[d]);
        }
    }
    let mut seen = math.zeros(DType::Bool, &out.sizes);
    for tap in taps {
        let (mut starts, mut steps) =
            (Dims::from_elem(0, sizes.len()), Dims::from_elem(1, sizes.len()));
        let (mut at, mut inside) = (int(math, 0), seen.eq(seen));
        for d in 0..spatial.len() {
            (starts[d + 2], steps[d + 2]) = (tap[d] * dilation[d], stride[d]);
            let first = int(math, tap[d] * dilation[d] - padding[d]);
            let i = math.iota(&out.sizes, d + 2, DType::I64) * int(math, stride[d]) + first;
            inside = inside.and(i.ge(int(math, 0))).and(i.lt(int(math, sizes[d + 2])));
            at = at + i * int(math, strides[d]);
        }
        let v = wide.slice(&starts, &out.sizes, &steps);
        let better = inside.and(seen.not().or(v.gt(best)).or(v.ne(v)));
        (best, place) = (better.select(v, best), better.select(at, place));
        seen = seen.or(inside);
    }
    Ok(Some(vec![best, place]))
}

/// Adds each element once for every position that it had in a window.
fn sum_pool_grad<'m>(dy: V<'m>, attrs: &Attrs, out: &Ty) -> Result<Option<Vec<V<'m>>>> {
    let [sizes, kernel, stride, padding, dilation] = [0, 1, 2, 3, 4].map(|n| attrs[n].ints());
    let Some(taps) = taps(kernel) else { return Ok(None) };
    let zero = dy.math().constant(0.0, out.dtype);
    let mut sum = dy.math().zeros(out.dtype, &out.sizes);
    for tap in taps {
        let mut v = dy;
        for d in 0..sizes.len() {
            let low = tap[d] * dilation[d] - padding[d];
            let length = ((v.sizes()[d + 2] - 1) * stride[d] + 1).max(0);
            v = padded(v, zero, d + 2, [low, sizes[d] - low - length, stride[d] - 1])?;
        }
        sum = sum + v;
    }
    Ok(Some(vec![sum]))
}

/// A convolution of the gradient, dilated by the stride, with the flipped kernel.
fn conv_grad_input<'m>(dy: V<'m>, w: V<'m>, attrs: &Attrs, out: &Ty) -> Result<V<'m>> {
    let [sizes, stride, padding, dilation] = [0, 1, 2, 3].map(|n| attrs[n].ints());
    let groups = attrs[4].int();
    let (math, of_w) = (dy.math(), w.sizes());
    let split = [&[groups, of_w[0] / groups], &of_w[1..]].concat();
    let mut perm: Dims = (0..split.len() as i64).collect();
    perm.swap(1, 2);
    let joined = [&[groups * of_w[1], of_w[0] / groups], &of_w[2..]].concat();
    let mut w = w.reshape(&split).transpose(&perm).reshape(&joined);
    let zero = math.constant(0.0, out.dtype);
    let mut v = dy;
    for d in 0..sizes.len() {
        w = reversed(w, d + 2);
        let reach = (of_w[d + 2] - 1) * dilation[d];
        let length = ((v.sizes()[d + 2] - 1) * stride[d] + 1).max(0);
        let low = reach - padding[d];
        v = padded(v, zero, d + 2, [low, sizes[d] + reach - length - low, stride[d] - 1])?;
    }
    let n = sizes.len();
    Ok(convolved(v, w, &Dims::from_elem(1, n), dilation, groups))
}

fn convolved<'m>(x: V<'m>, w: V<'m>, stride: &[i64], dilation: &[i64], groups: i64) -> V<'m> {
    let padding = Dims::from_elem(0, stride.len());
    let lists = [stride.into(), padding, dilation.into()].map(Attr::Ints);
    let attrs: Attrs = lists.into_iter().chain([Attr::Int(groups)]).collect();
    x.math().op(Op::Conv, &[x, w], attrs)
}

/// A convolution of the input with the gradient as kernel, where images are the channels; group by group.
fn conv_grad_weight<'m>(dy: V<'m>, x: V<'m>, attrs: &Attrs) -> Result<V<'m>> {
    let [kernel, stride, padding, dilation] = [0, 1, 2, 3].map(|n| attrs[n].ints());
    let groups = attrs[4].int();
    let (math, of_dy, of_x) = (dy.math(), dy.sizes(), x.sizes());
    let zero = math.constant(0.0, x.dtype());
    let mut x = x;
    for d in 0..kernel.len() {
        let reach = (of_dy[d + 2] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1;
        x = padded(x, zero, d + 2, [padding[d], reach - padding[d] - of_x[d + 2], 0])?;
    }
    let (filters, channels) = (of_dy[1] / groups, of_x[1] / groups);
    let of_group = |g: i64| {
        let images = x.narrow(1, g * channels, channels).swap(0, 1);
        let kernels = dy.narrow(1, g * filters, filters).swap(0, 1);
        convolved(images, kernels, dilation, stride, 1).swap(0, 1)
    };
    let parts: Vec<V> = (0..groups).map(of_group).collect();
    Ok(math.concat(&parts, 0))
}

/// A product for each group, with zeros outside the group.
fn grouped_matmul<'m>(a: V<'m>, b: V<'m>, ends: V<'m>) -> Result<Option<Vec<V<'m>>>> {
    let (math, groups, sums) = (a.math(), ends.numel(), b.rank() == 2);
    if !(1..=MAX_TAPS).contains(&groups) {
        return Ok(None);
    }
    let (of_a, of_b) = (a.sizes(), b.sizes());
    let extent = of_a[sums as usize];
    let place = math.iota(&[extent], 0, DType::I64);
    let mut start = int(math, 0);
    let mut products = Vec::new();
    for g in 0..groups {
        let end = ends.narrow(0, g, 1).reshape(&[]).cast(DType::I64);
        let end = end.max(int(math, 0)).min(int(math, extent)).max(start);
        let inside = place.ge(start).and(place.lt(end));
        start = end;
        let masked = |v: V<'m>, shape: [i64; 2]| {
            inside
                .reshape(&shape)
                .broadcast(&v.sizes())
                .select(v, math.zeros(v.dtype(), &v.sizes()))
        };
        products.push(match sums {
            true => {
                let product = masked(a, [1, extent]).matmul(masked(b, [extent, 1]));
                product.reshape(&[1, of_a[0], of_b[1]])
            }
            false => masked(a.matmul(b.narrow(0, g, 1).reshape(&of_b[1..])), [extent, 1]),
        });
    }
    let one = match sums {
        true => math.concat(&products, 0),
        // Outside its group each product is zero.
        false => products[1..].iter().fold(products[0], |sum, &product| sum + product),
    };
    Ok(Some(vec![one]))
}

/// Philox4x32-10, as in `op::philox`, with words in i64.
fn random<'m>(seed: V<'m>, offset: V<'m>, out: &Ty) -> V<'m> {
    let math = seed.math();
    let count = out.numel();
    let index = math.iota(&[count], 0, DType::I64);
    let [lower, upper] = halves(index / int(math, 4) + offset);
    let which = index.rem(int(math, 4));
    let word = |above: i64| {
        let [above, zero] = [above, 0].map(|n| int(math, n).broadcast(&[count]));
        let words = philox(halves(seed), [lower, upper, above, zero]);
        let pick = |word: V<'m>, n: usize| which.eq(int(math, n as i64)).select(words[n], word);
        (1..4).fold(words[0], pick)
    };
    let drawn = match out.dtype {
        DType::I64 => whole([0, 1].map(word)),
        _ => {
            let word = word(0);
            let top = (word - word.and(int(math, 255))) / int(math, 256);
            top.cast(DType::F32) * 2f64.powi(-24)
        }
    };
    drawn.reshape(&out.sizes)
}
