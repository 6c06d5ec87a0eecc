//! Pooling over windows: maxima with their places, and sums (an average is a sum, divided).

use super::window::{Spacing, Windows, lists};
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::invalid;
use crate::op::array::{Array, filled, integer_range};
use crate::op::{Attr, Eval, Ty, Tys, check};
use crate::shape::{Dims, numel};
use smallvec::smallvec;

pub const MAX_POOL: Eval = Eval::Whole(max_pool);
pub const MAX_POOL_GRAD: Eval = Eval::Whole(max_pool_grad);
pub const SUM_POOL: Eval = Eval::Whole(sum_pool);
pub const SUM_POOL_GRAD: Eval = Eval::Whole(sum_pool_grad);

const ATTRS: &str = "kernel: ints, stride: ints, padding: ints, dilation: ints, ceil: bool";
const GRAD_ATTRS: &str =
    "sizes: ints, kernel: ints, stride: ints, padding: ints, dilation: ints, ceil: bool";

/// Sizes of `x[n,c,s…]`, pooled. The four lists and the flag are the last attributes of the primitives.
fn pooled(sizes: &[i64], lists: [&[i64]; 4], ceil: bool) -> Result<Dims> {
    let [kernel, stride, padding, dilation] = lists;
    if sizes.len() < 3 {
        return invalid!("expected an input of 3 to 5 dimensions, but got sizes {sizes:?}");
    }
    let spacing = Spacing { kernel, stride, padding, dilation }.check(&sizes[2..])?;
    let half = |d: usize| padding[d] <= (dilation[d] * (kernel[d] - 1) + 1) / 2;
    if let Some(d) = (0..kernel.len()).find(|&d| !half(d)) {
        return invalid!(
            "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and dilation={}",
            padding[d],
            kernel[d],
            dilation[d]
        );
    }
    let spatial = spacing.outputs(&sizes[2..], ceil)?;
    if sizes[2..].contains(&0) {
        return invalid!("expected non-empty spatial dimensions, but got sizes {sizes:?}");
    }
    Ok([&sizes[..2], &spatial[..]].concat().into())
}

fn ceil(attrs: &[Attr], at: usize) -> Result<bool> {
    match attrs.get(at) {
        Some(Attr::Bool(ceil)) if attrs.len() == at + 1 => Ok(*ceil),
        _ => check::wrong_attrs(if at == 4 { ATTRS } else { GRAD_ATTRS }, attrs),
    }
}

pub fn max_pool_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    check::number(x.dtype)?;
    let sizes = pooled(&x.sizes, lists(attrs, ATTRS)?, ceil(attrs, 4)?)?;
    Ok(smallvec![check::ty(x.dtype, &sizes)?, check::ty(DType::I64, &sizes)?])
}

pub fn max_pool_grad_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [dy, index] = inputs else {
        return check::wrong_operands("dy, index", inputs);
    };
    let [Attr::Ints(spatial)] = attrs else {
        return check::wrong_attrs("sizes: ints", attrs);
    };
    check::number(dy.dtype)?;
    check::dtype(index, DType::I64, "indices")?;
    check::sizes(index, &dy.sizes, "indices")?;
    if dy.rank() < 3 || dy.rank() != spatial.len() + 2 {
        return invalid!(
            "expected grad_output of {} dimensions, but got sizes {:?}",
            spatial.len() + 2,
            dy.sizes
        );
    }
    check::one(dy.dtype, &[&dy.sizes[..2], &spatial[..]].concat())
}

pub fn sum_pool_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    check::number(x.dtype)?;
    check::one(x.dtype, &pooled(&x.sizes, lists(attrs, ATTRS)?, ceil(attrs, 4)?)?)
}

pub fn sum_pool_grad_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [dy] = inputs else {
        return check::wrong_operands("dy", inputs);
    };
    check::number(dy.dtype)?;
    let [spatial, rest @ ..] = lists::<5>(attrs, GRAD_ATTRS)?;
    if dy.rank() < 3 {
        return invalid!("expected grad_output of 3 to 5 dimensions, but got sizes {:?}", dy.sizes);
    }
    let sizes: Dims = [&dy.sizes[..2], spatial].concat().into();
    check::sizes(dy, &pooled(&sizes, rest, ceil(attrs, 5)?)?, "grad_output")?;
    check::one(dy.dtype, &sizes)
}

/// One operation for every element of every window.
pub fn pool_flops(inputs: &[&Ty], outs: &[Ty]) -> u64 {
    // A window has at least one element; the types do not tell how many more.
    outs[0].numel().max(inputs[0].numel()) as u64
}

/// The windows of checked sizes and attributes.
pub fn windows_of_pool(x: &[i64], y: &[i64], attrs: &[Attr]) -> Windows {
    let [kernel, stride, padding, dilation, _] = &attrs[attrs.len() - 5..] else {
        panic!("attributes of pooling: {attrs:?}");
    };
    let spacing = Spacing {
        kernel: kernel.ints(),
        stride: stride.ints(),
        padding: padding.ints(),
        dilation: dilation.ints(),
    };
    Windows::new(&x[2..], &y[2..], spacing)
}

fn planes(ty: &Ty) -> usize {
    numel(&ty.sizes[..2]) as usize
}

/// Whether a window may meet padding only. One that is not dilated reaches over its padding, which
/// is at most half of it.
pub fn may_meet_nothing(padding: &[i64], dilation: &[i64]) -> bool {
    padding.iter().zip(dilation).any(|(&padding, &dilation)| padding > 0 && dilation > 1)
}

/// The first of the largest in a window; the last NaN if there is one, as in PyTorch. A window that meets padding
/// only gives the least number, and its start, which may be beyond the plane.
fn max_pool(operands: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let x = operands[0];
    let windows = windows_of_pool(&x.ty.sizes, &outs[0].sizes, attrs);
    let (mut y, mut index) = (Array::zeros(&outs[0]), Array::zeros(&outs[1]));
    let is_nan = |i: usize| x.ty.dtype.is_float() && x.f64(i).is_nan();
    let above = |i: usize, j: usize| match x.ty.dtype.is_float() {
        true => x.f64(i) > x.f64(j),
        false => x.i64(i) > x.i64(j),
    };
    for plane in 0..planes(&x.ty) {
        let (from, to) = (plane * windows.plane(), plane * windows.pixels());
        let mut best: Vec<Option<usize>> = filled(None, windows.pixels());
        windows.each(|pixel, _, i| {
            let beats = |old: usize| above(from + i, from + old) || is_nan(from + i);
            if best[pixel].is_none_or(beats) {
                best[pixel] = Some(i);
            }
        });
        for (pixel, best) in best.into_iter().enumerate() {
            match best {
                Some(best) => y.set_raw(to + pixel, x.raw(from + best)),
                None if x.ty.dtype.is_float() => y.set_f64(to + pixel, f64::NEG_INFINITY),
                None => y.set_i64(to + pixel, integer_range(x.ty.dtype).0),
            }
            index.set_i64(to + pixel, best.unwrap_or_else(|| windows.start(pixel)) as i64);
        }
    }
    Ok(vec![y, index])
}

/// Adds `from[j]` to `to[i]` for all pairs (i, j) that `each` names, in f64 or i64.
fn added(ty: &Ty, from: &Array, each: impl Fn(&mut dyn FnMut(usize, usize))) -> Array {
    let mut out = Array::zeros(ty);
    if ty.dtype.is_float() {
        let mut sums = filled(0.0, out.len());
        each(&mut |i, j| sums[i] += from.f64(j));
        sums.iter().enumerate().for_each(|(i, &v)| out.set_f64(i, v));
    } else {
        let mut sums = filled(0i64, out.len());
        each(&mut |i, j| sums[i] = sums[i].wrapping_add(from.i64(j)));
        sums.iter().enumerate().for_each(|(i, &v)| out.set_i64(i, v));
    }
    out
}

fn max_pool_grad(operands: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let (dy, index) = (operands[0], operands[1]);
    let plane = numel(&outs[0].sizes[2..]) as usize;
    let pixels = numel(&dy.ty.sizes[2..]) as usize;
    if (0..index.len()).any(|i| !(0..plane as i64).contains(&index.i64(i))) {
        return Err(Error::new(Code::IndexError, "index out of range in max_pool_grad"));
    }
    let dx = added(&outs[0], dy, |add| {
        (0..dy.len()).for_each(|i| add(i / pixels * plane + index.i64(i) as usize, i));
    });
    Ok(vec![dx])
}

fn sum_pool(operands: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let x = operands[0];
    let windows = windows_of_pool(&x.ty.sizes, &outs[0].sizes, attrs);
    let y = added(&outs[0], x, |add| {
        for plane in 0..planes(&x.ty) {
            let (from, to) = (plane * windows.plane(), plane * windows.pixels());
            windows.each(|pixel, _, i| add(to + pixel, from + i));
        }
    });
    Ok(vec![y])
}

fn sum_pool_grad(operands: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let dy = operands[0];
    let windows = windows_of_pool(&outs[0].sizes, &dy.ty.sizes, attrs);
    let dx = added(&outs[0], dy, |add| {
        for plane in 0..planes(&dy.ty) {
            let (to, from) = (plane * windows.plane(), plane * windows.pixels());
            windows.each(|pixel, _, i| add(to + i, from + pixel));
        }
    });
    Ok(vec![dx])
}
