//! Reductions, running sums and matrix products: floats are accumulated in f64 and rounded once, integers wrap.

use super::array::Array;
use super::pointwise::max;
use super::{Attr, Eval, Ty, Tys, check};
use crate::dtype::{DType, Float8};
use crate::error::Result;
use crate::invalid;
use crate::shape::{Dims, Layout};
use smallvec::smallvec;
use std::cmp::Ordering;

pub const SUM: Eval = Eval::Whole(|x, a, o| fold(x, a, o, 0, |a, b| a + b, i64::wrapping_add));
pub const PROD: Eval = Eval::Whole(|x, a, o| fold(x, a, o, 1, |a, b| a * b, i64::wrapping_mul));
pub const MAX: Eval =
    Eval::Whole(|x, a, o| first_of(x, a, o, |new, old| new > old, |new, old| new > old));
pub const MIN: Eval =
    Eval::Whole(|x, a, o| first_of(x, a, o, |new, old| new < old, |new, old| new < old));
pub const ANY: Eval = Eval::Whole(|x, a, o| fold(x, a, o, 0, |a, b| a + b, |a, b| a | b));
pub const ALL: Eval = Eval::Whole(|x, a, o| fold(x, a, o, 1, |a, b| a * b, |a, b| a & b));
pub const ARGMAX: Eval =
    Eval::Whole(|x, a, o| arg_of(x, a, o, |new, old| new > old, |new, old| new > old));
pub const ARGMIN: Eval =
    Eval::Whole(|x, a, o| arg_of(x, a, o, |new, old| new < old, |new, old| new < old));
pub const CUMSUM: Eval =
    Eval::Whole(|x, a, o| running(x, a, o, 0.0, |a, b| a + b, i64::wrapping_add));
pub const CUMPROD: Eval =
    Eval::Whole(|x, a, o| running(x, a, o, 1.0, |a, b| a * b, i64::wrapping_mul));
pub const CUMMAX: Eval =
    Eval::Whole(|x, a, o| running(x, a, o, f64::NEG_INFINITY, |a, b| max(&[a, b]), i64::max));
pub const TOP_K: Eval = Eval::Whole(top_k);
pub const MATMUL: Eval = Eval::Whole(matmul);
pub const SCALED_MATMUL: Eval = Eval::Whole(scaled_matmul);

// ---- types

/// Sizes of `inputs[0]` without the axes of the only attribute.
fn reduced(inputs: &[&Ty], attrs: &[Attr]) -> Result<Dims> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    let [Attr::Ints(axes)] = attrs else {
        return check::wrong_attrs("axes: ints", attrs);
    };
    for &axis in axes {
        check::axis(axis, x.rank())?;
    }
    if axes.windows(2).any(|w| w[0] >= w[1]) {
        return invalid!("axes {axes:?} are not sorted, or one appears multiple times");
    }
    Ok(without(&x.sizes, axes))
}

fn without(sizes: &[i64], axes: &[i64]) -> Dims {
    let kept = |d: &usize| !axes.contains(&(*d as i64));
    (0..sizes.len()).filter(kept).map(|d| sizes[d]).collect()
}

pub fn number(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let sizes = reduced(inputs, attrs)?;
    check::number(inputs[0].dtype)?;
    check::one(inputs[0].dtype, &sizes)
}

/// For maxima and minima: there must be something to choose from.
pub fn ordered(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let sizes = reduced(inputs, attrs)?;
    check::arithmetic(inputs[0].dtype)?;
    for &axis in attrs[0].ints() {
        nonempty(inputs[0], axis)?;
    }
    check::one(inputs[0].dtype, &sizes)
}

pub fn logical(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let sizes = reduced(inputs, attrs)?;
    check::dtype(inputs[0], DType::Bool, "the operand")?;
    check::one(DType::Bool, &sizes)
}

pub fn nonempty(x: &Ty, axis: i64) -> Result<()> {
    if x.sizes[axis as usize] == 0 {
        return invalid!("Expected reduction dim {axis} to have non-zero size.");
    }
    Ok(())
}

fn one_axis<'a>(inputs: &[&'a Ty], attrs: &[Attr]) -> Result<(&'a Ty, i64)> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    let [Attr::Int(axis)] = attrs else {
        return check::wrong_attrs("axis: int", attrs);
    };
    check::number(x.dtype)?;
    check::axis(*axis, x.rank())?;
    Ok((x, *axis))
}

pub fn arg(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let (x, axis) = one_axis(inputs, attrs)?;
    nonempty(x, axis)?;
    check::one(DType::I64, &without(&x.sizes, &[axis]))
}

pub fn cumulative(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let (x, _) = one_axis(inputs, attrs)?;
    check::one(x.dtype, &x.sizes)
}

pub fn top_k_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [axis, Attr::Int(k), Attr::Bool(_)] = attrs else {
        return check::wrong_attrs("axis: int, k: int, largest: bool", attrs);
    };
    let (x, axis) = one_axis(inputs, std::slice::from_ref(axis))?;
    let mut sizes = x.sizes.clone();
    if !(0..=sizes[axis as usize]).contains(k) {
        return invalid!("selected index k out of range: {k} of {}", sizes[axis as usize]);
    }
    sizes[axis as usize] = *k;
    Ok(smallvec![check::ty(x.dtype, &sizes)?, check::ty(DType::I64, &sizes)?])
}

pub fn matmul_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [a, b] = inputs else {
        return check::wrong_operands("a, b", inputs);
    };
    check::no_attrs(attrs)?;
    check::same_dtype(a, b)?;
    let sizes = product_sizes(a, b)?;
    check::number(a.dtype)?;
    check::one(a.dtype, &sizes)
}

fn product_sizes(a: &Ty, b: &Ty) -> Result<Dims> {
    let ([batch @ .., m, k], [batch_b @ .., k_b, n]) = (&a.sizes[..], &b.sizes[..]) else {
        return invalid!(
            "both arguments to matmul need to be at least 2D, but they are {}D and {}D",
            a.rank(),
            b.rank()
        );
    };
    if batch != batch_b {
        return invalid!(
            "Expected size for the batch dimensions of both tensors to be {batch:?}, but got {batch_b:?}"
        );
    }
    if k != k_b {
        return invalid!("mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {k_b}x{n})");
    }
    Ok(batch.iter().chain([m, n]).copied().collect())
}

pub fn scaled_matmul_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [a, b, scale_a, scale_b] = inputs else {
        return check::wrong_operands("a, b, scale_a, scale_b", inputs);
    };
    let [Attr::DType(dtype)] = attrs else {
        return check::wrong_attrs("dtype: dtype", attrs);
    };
    for side in [a, b] {
        check::rank(side, 2, "both operands")?;
        if Float8::of(side.dtype).is_none() {
            return invalid!(
                "expected both operands to be floats of 8 bits, but got {}",
                side.dtype
            );
        }
    }
    check::float(*dtype)?;
    let sizes = product_sizes(a, b)?;
    for (scale, all, what) in
        [(scale_a, [sizes[0], 1], "scale_a"), (scale_b, [1, sizes[1]], "scale_b")]
    {
        check::dtype(scale, DType::F32, what)?;
        if scale.numel() != 1 || scale.rank() != 2 {
            check::sizes(scale, &all, what)?;
        }
    }
    check::one(*dtype, &sizes)
}

// ---- cost

/// One per element of the operand.
pub fn flops(inputs: &[&Ty], _: &[Ty]) -> u64 {
    inputs[0].numel() as u64
}

/// A comparison for each element and halving.
pub fn sort_flops(inputs: &[&Ty], _: &[Ty]) -> u64 {
    let n = inputs[0].numel() as u64;
    n.saturating_mul(n.max(2).ilog2() as u64)
}

pub fn matmul_flops(inputs: &[&Ty], outputs: &[Ty]) -> u64 {
    let k = inputs[0].sizes[inputs[0].rank() - 1] as u64;
    2u64.saturating_mul(k).saturating_mul(outputs[0].numel() as u64)
}

// ---- meanings

/// For every element of the result, the flat indices of the elements of `x` that it is reduced from, in order.
fn groups(x: &Ty, axes: &[i64]) -> (Layout, Layout) {
    let full = Layout::contiguous(&x.sizes);
    let inner: Dims = axes.into();
    let outer: Dims = (0..x.rank() as i64).filter(|d| !axes.contains(d)).collect();
    (full.transpose(&outer), full.transpose(&inner))
}

fn fold(
    x: &[&Array],
    attrs: &[Attr],
    outs: &[Ty],
    neutral: i64,
    float: fn(f64, f64) -> f64,
    int: fn(i64, i64) -> i64,
) -> Result<Vec<Array>> {
    let (outer, inner) = groups(&x[0].ty, attrs[0].ints());
    let mut y = Array::zeros(&outs[0]);
    for (i, start) in outer.indices().enumerate() {
        let members = inner.indices().map(|step| (start + step) as usize);
        if y.ty.dtype.is_float() {
            y.set_f64(i, members.map(|m| x[0].f64(m)).fold(neutral as f64, float));
        } else {
            y.set_i64(i, members.map(|m| x[0].i64(m)).fold(neutral, int));
        }
    }
    Ok(vec![y])
}

/// Position in `members` of the first member that no other beats; the first NaN beats all.
fn winner(
    x: &Array,
    members: &[usize],
    float: fn(f64, f64) -> bool,
    int: fn(i64, i64) -> bool,
) -> usize {
    let beats = |new: usize, old: usize| {
        if !x.ty.dtype.is_float() {
            return int(x.i64(new), x.i64(old));
        }
        let (new, old) = (x.f64(new), x.f64(old));
        !old.is_nan() && (new.is_nan() || float(new, old))
    };
    (1..members.len()).fold(0, |best, n| if beats(members[n], members[best]) { n } else { best })
}

fn first_of(
    x: &[&Array],
    attrs: &[Attr],
    outs: &[Ty],
    float: fn(f64, f64) -> bool,
    int: fn(i64, i64) -> bool,
) -> Result<Vec<Array>> {
    let (outer, inner) = groups(&x[0].ty, attrs[0].ints());
    let mut y = Array::zeros(&outs[0]);
    for (i, start) in outer.indices().enumerate() {
        let members: Vec<usize> = inner.indices().map(|step| (start + step) as usize).collect();
        y.set_raw(i, x[0].raw(members[winner(x[0], &members, float, int)]));
    }
    Ok(vec![y])
}

fn arg_of(
    x: &[&Array],
    attrs: &[Attr],
    outs: &[Ty],
    float: fn(f64, f64) -> bool,
    int: fn(i64, i64) -> bool,
) -> Result<Vec<Array>> {
    let (outer, inner) = groups(&x[0].ty, &[attrs[0].int()]);
    let mut y = Array::zeros(&outs[0]);
    for (i, start) in outer.indices().enumerate() {
        let members: Vec<usize> = inner.indices().map(|step| (start + step) as usize).collect();
        y.set_i64(i, winner(x[0], &members, float, int) as i64);
    }
    Ok(vec![y])
}

fn running(
    x: &[&Array],
    attrs: &[Attr],
    outs: &[Ty],
    neutral: f64,
    float: fn(f64, f64) -> f64,
    int: fn(i64, i64) -> i64,
) -> Result<Vec<Array>> {
    let (outer, inner) = groups(&x[0].ty, &[attrs[0].int()]);
    let mut y = Array::zeros(&outs[0]);
    for start in outer.indices() {
        let (mut so_far, mut whole) = (neutral, neutral as i64);
        for m in inner.indices().map(|step| (start + step) as usize) {
            if y.ty.dtype.is_float() {
                so_far = float(so_far, x[0].f64(m));
                y.set_f64(m, so_far);
            } else {
                whole = int(whole, x[0].i64(m));
                y.set_i64(m, whole);
            }
        }
    }
    Ok(vec![y])
}

fn top_k(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let (x, axis, largest) = (x[0], attrs[0].int(), attrs[2].bool());
    let (outer, inner) = groups(&x.ty, &[axis]);
    let (mut values, mut places) = (Array::zeros(&outs[0]), Array::zeros(&outs[1]));
    let (_, along) = groups(&outs[0], &[axis]);
    let (starts, _) = groups(&outs[0], &[axis]);
    let ascending = |a: usize, b: usize| match x.ty.dtype.is_float() {
        true => {
            let (a, b) = (x.f64(a), x.f64(b));
            a.is_nan().cmp(&b.is_nan()).then(a.partial_cmp(&b).unwrap_or(Ordering::Equal))
        }
        false => x.i64(a).cmp(&x.i64(b)),
    };
    for (from, to) in outer.indices().zip(starts.indices()) {
        let mut members: Vec<(usize, usize)> =
            inner.indices().map(|step| (from + step) as usize).enumerate().collect();
        members.sort_by(|a, b| match largest {
            true => ascending(b.1, a.1),
            false => ascending(a.1, b.1),
        });
        for (step, (place, member)) in along.indices().zip(members) {
            let to = (to + step) as usize;
            values.set_raw(to, x.raw(member));
            places.set_i64(to, place as i64);
        }
    }
    Ok(vec![values, places])
}

fn matmul(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let (a, b) = (x[0], x[1]);
    let rank = a.ty.rank();
    let (m, k, n) = (a.ty.sizes[rank - 2], a.ty.sizes[rank - 1], b.ty.sizes[rank - 1]);
    let (m, k, n) = (m as usize, k as usize, n as usize);
    let mut y = Array::zeros(&outs[0]);
    for i in 0..y.len() {
        let (batch, row, column) = (i / (m * n), i / n % m, i % n);
        let pairs = (0..k).map(|j| (batch * m * k + row * k + j, batch * k * n + j * n + column));
        if y.ty.dtype.is_float() {
            y.set_f64(i, pairs.map(|(p, q)| a.f64(p) * b.f64(q)).sum());
        } else {
            let product = |(p, q): (usize, usize)| a.i64(p).wrapping_mul(b.i64(q));
            y.set_i64(i, pairs.map(product).fold(0, i64::wrapping_add));
        }
    }
    Ok(vec![y])
}

fn scaled_matmul(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let product = Ty { dtype: DType::F32, sizes: outs[0].sizes.clone() };
    let product = matmul(&x[..2], &[], &[product])?.remove(0);
    let n = outs[0].sizes[1] as usize;
    let mut y = Array::zeros(&outs[0]);
    for i in 0..y.len() {
        let scale =
            |array: &Array, at: usize| array.f64(if array.len() == 1 { 0 } else { at }) as f32;
        let scale = scale(x[2], i / n) * scale(x[3], i % n);
        y.set_f64(i, f64::from(product.f64(i) as f32 * scale));
    }
    Ok(vec![y])
}
