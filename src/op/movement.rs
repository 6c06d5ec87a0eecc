//! Primitives whose result holds elements of the operands, elsewhere: each is a [`Layout`] read or written in order.

use super::array::Array;
use super::{Attr, Attrs, Eval, Ty, Tys, check};
use crate::error::Result;
use crate::invalid;
use crate::shape::{Dims, Layout, contiguous_strides};
use smallvec::smallvec;

pub const SAME: Eval = Eval::Whole(same_bytes);
pub const RESHAPE: Eval = Eval::Whole(same_bytes);
pub const TRANSPOSE: Eval = Eval::Whole(transpose);
pub const BROADCAST: Eval = Eval::Whole(broadcast);
pub const SLICE: Eval = Eval::Whole(slice);
pub const AS_STRIDED: Eval = Eval::Whole(as_strided);
pub const BITCAST: Eval = Eval::Whole(same_bytes);
pub const CONCAT: Eval = Eval::Whole(concat);
pub const AS_STRIDED_SCATTER: Eval = Eval::Whole(as_strided_scatter);

// ---- types

pub fn reshape_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    let [Attr::Ints(sizes)] = attrs else {
        return check::wrong_attrs("sizes: ints", attrs);
    };
    let ty = check::ty(x.dtype, sizes)?;
    if ty.numel() != x.numel() {
        return invalid!("shape '{:?}' is invalid for input of size {}", ty.sizes, x.numel());
    }
    check::one(x.dtype, sizes)
}

pub fn transpose_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    let [Attr::Ints(perm)] = attrs else {
        return check::wrong_attrs("perm: ints", attrs);
    };
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..x.rank() as i64) {
        return invalid!(
            "{perm:?} is not a permutation of the dimensions of a tensor of sizes {:?}",
            x.sizes
        );
    }
    let sizes: Dims = perm.iter().map(|&p| x.sizes[p as usize]).collect();
    check::one(x.dtype, &sizes)
}

pub fn broadcast_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    let [Attr::Ints(sizes)] = attrs else {
        return check::wrong_attrs("sizes: ints", attrs);
    };
    let Some(lead) = sizes.len().checked_sub(x.rank()) else {
        return invalid!(
            "the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
            sizes.len(),
            x.rank()
        );
    };
    for (d, (&from, &to)) in x.sizes.iter().zip(&sizes[lead..]).enumerate() {
        if from != to && from != 1 {
            return invalid!(
                "The expanded size of the tensor ({to}) must match the existing size ({from}) at non-singleton \
                 dimension {}. Target sizes: {sizes:?}. Tensor sizes: {:?}",
                d + lead,
                x.sizes
            );
        }
    }
    check::one(x.dtype, sizes)
}

pub fn slice_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    let [Attr::Ints(starts), Attr::Ints(sizes), Attr::Ints(steps)] = attrs else {
        return check::wrong_attrs("starts: ints, sizes: ints, steps: ints", attrs);
    };
    if [starts, sizes, steps].iter().any(|list| list.len() != x.rank()) {
        return invalid!(
            "starts, sizes and steps need one number for each dimension of {:?}",
            x.sizes
        );
    }
    for d in 0..x.rank() {
        let (start, size, step, full) = (starts[d], sizes[d], steps[d], x.sizes[d]);
        let last = size.saturating_sub(1).max(0).saturating_mul(step.max(0)).saturating_add(start);
        let inside = if size == 0 { start <= full } else { last < full };
        if start < 0 || size < 0 || step < 1 || !inside {
            return invalid!(
                "a slice of {size} elements from {start} by {step} does not fit dimension {d} with size {full}"
            );
        }
    }
    check::one(x.dtype, sizes)
}

/// The layout that the attributes describe, checked against the flat elements of `base`.
fn strided_view(base: &Ty, attrs: &[Attr]) -> Result<Layout> {
    let [Attr::Ints(sizes), Attr::Ints(strides), Attr::Int(offset)] = attrs else {
        return check::wrong_attrs("sizes: ints, strides: ints, offset: int", attrs);
    };
    check::ty(base.dtype, sizes)?;
    if strides.len() != sizes.len() {
        return invalid!("mismatch in length of strides and shape: {strides:?} and {sizes:?}");
    }
    if *offset < 0 || strides.iter().any(|&s| s < 0) {
        return invalid!(
            "Negative strides or offsets are not supported, got {strides:?} and {offset}"
        );
    }
    let layout = Layout { sizes: sizes.clone(), strides: strides.clone(), offset: *offset };
    if layout.end() > base.numel() {
        return invalid!(
            "sizes {sizes:?}, strides {strides:?}, storage offset {offset} require {} elements and are out of \
             bounds for {} elements",
            layout.end(),
            base.numel()
        );
    }
    Ok(layout)
}

/// The view of an array's flat elements that `as_strided` and `as_strided_scatter` use.
pub fn view_of(attrs: &[Attr]) -> Layout {
    let [sizes, strides] = [0, 1].map(|n| Dims::from_slice(attrs[n].ints()));
    Layout { sizes, strides, offset: attrs[2].int() }
}

/// The attributes that [`view_of`] reads.
pub fn view_attrs(layout: &Layout) -> Attrs {
    smallvec![
        Attr::Ints(layout.sizes.clone()),
        Attr::Ints(layout.strides.clone()),
        Attr::Int(layout.offset),
    ]
}

pub fn as_strided_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    check::one(x.dtype, &strided_view(x, attrs)?.sizes)
}

pub fn scatter_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [base, x] = inputs else {
        return check::wrong_operands("base, x", inputs);
    };
    let view = strided_view(base, attrs)?;
    check::same_dtype(base, x)?;
    check::sizes(x, &view.sizes, "x")?;
    check::one(base.dtype, &base.sizes)
}

pub fn bitcast_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x] = inputs else {
        return check::wrong_operands("x", inputs);
    };
    let [Attr::DType(dtype)] = attrs else {
        return check::wrong_attrs("dtype: dtype", attrs);
    };
    let (from, to) = (x.dtype.size() as i64, dtype.size() as i64);
    let mut sizes = x.sizes.clone();
    match sizes.last_mut() {
        _ if from == to => {}
        None => {
            return invalid!(
                "self.dim() cannot be 0 to view {} as {dtype} (different element sizes)",
                x.dtype
            );
        }
        Some(last) if last.saturating_mul(from) % to != 0 => {
            return invalid!(
                "self.size(-1) must be divisible by {} to view {} as {dtype} (different element sizes), but got {last}",
                to / from,
                x.dtype
            );
        }
        Some(last) => *last = *last * from / to,
    }
    check::one(*dtype, &sizes)
}

pub fn mark_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    match attrs {
        [Attr::Int(_)] => itself(inputs),
        _ => check::wrong_attrs("number: int", attrs),
    }
}

pub fn same_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    check::no_attrs(attrs)?;
    itself(inputs)
}

fn itself(inputs: &[&Ty]) -> Result<Tys> {
    match inputs {
        [x] => check::one(x.dtype, &x.sizes),
        _ => check::wrong_operands("x", inputs),
    }
}

pub fn concat_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let Some((first, rest)) = inputs.split_first() else {
        return check::wrong_operands("at least one", inputs);
    };
    let [Attr::Int(dim)] = attrs else {
        return check::wrong_attrs("dim: int", attrs);
    };
    let dim = check::axis(*dim, first.rank())?;
    let mut sizes = first.sizes.clone();
    for (n, x) in rest.iter().enumerate() {
        check::same_dtype(first, x)?;
        check::rank(x, first.rank(), "every tensor of the list")?;
        if let Some(d) = (0..x.rank()).find(|&d| d != dim && x.sizes[d] != sizes[d]) {
            return invalid!(
                "Sizes of tensors must match except in dimension {dim}. Expected size {} but got size {} for \
                 tensor number {} in the list.",
                sizes[d],
                x.sizes[d],
                n + 1
            );
        }
        sizes[dim] = sizes[dim].saturating_add(x.sizes[dim]);
    }
    check::one(first.dtype, &sizes)
}

// ---- meanings

/// The elements of `x` that `layout` names, in its row-major order.
fn read(x: &Array, layout: &Layout, out: &Ty) -> Result<Vec<Array>> {
    let mut y = Array::zeros(out);
    for (to, from) in layout.indices().enumerate() {
        y.set_raw(to, x.raw(from as usize));
    }
    Ok(vec![y])
}

/// Puts the elements of `x`, in order, at the places that `layout` names.
fn write(y: &mut Array, layout: &Layout, x: &Array) {
    for (from, to) in layout.indices().enumerate() {
        y.set_raw(to as usize, x.raw(from));
    }
}

fn same_bytes(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    Ok(vec![Array { ty: outs[0].clone(), ..x[0].clone() }])
}

fn transpose(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    read(x[0], &Layout::contiguous(&x[0].ty.sizes).transpose(attrs[0].ints()), &outs[0])
}

fn broadcast(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    read(x[0], &Layout::contiguous(&x[0].ty.sizes).broadcast(attrs[0].ints()), &outs[0])
}

fn slice(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let full = Layout::contiguous(&x[0].ty.sizes);
    read(x[0], &full.slice(attrs[0].ints(), attrs[1].ints(), attrs[2].ints()), &outs[0])
}

fn as_strided(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    read(x[0], &strided_view(&x[0].ty, attrs)?, &outs[0])
}

fn as_strided_scatter(x: &[&Array], attrs: &[Attr], _: &[Ty]) -> Result<Vec<Array>> {
    let mut y = x[0].clone();
    write(&mut y, &strided_view(&x[0].ty, attrs)?, x[1]);
    Ok(vec![y])
}

fn concat(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let dim = attrs[0].int() as usize;
    let strides = contiguous_strides(&outs[0].sizes);
    let mut y = Array::zeros(&outs[0]);
    let mut start = 0;
    for part in x {
        let layout = Layout {
            sizes: part.ty.sizes.clone(),
            strides: strides.clone(),
            offset: start * strides[dim],
        };
        write(&mut y, &layout, part);
        start += part.ty.sizes[dim];
    }
    Ok(vec![y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType::F32;

    #[test]
    fn slices_of_any_numbers_are_refused_without_overflow() {
        let x = Ty::new(F32, &[4]);
        let some = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        for (start, size) in some.into_iter().flat_map(|a| some.map(|b| (a, b))) {
            for step in some {
                let ints = [start, size, step].map(|n| Attr::Ints(smallvec![n]));
                let is_right = (0..=1).contains(&size) && (0..=1).contains(&start) && step > 0;
                assert_eq!(slice_type(&[&x], &ints).is_ok(), is_right, "{start} {size} {step}");
            }
        }
    }
}
