//! Properties of tensors, and views that share their memory.

use super::constants::torchacc_dtype;
use super::error::torchacc_error;
use super::handle::{self, borrow};
use super::tensor::torchacc_tensor;
use super::types::sizes_of;
use super::{bad, boundary, put, quiet, slice, torchacc_str};
use crate::error::{Error, Result};
use crate::record::View;
use crate::shape::{Dims, Layout};

/// Type of the elements; for NULL `UINT32_MAX`, which is no dtype.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_dtype(tensor: *const torchacc_tensor) -> torchacc_dtype {
    // SAFETY: NULL or a live tensor, says the header.
    quiet(u32::MAX, || unsafe { borrow(tensor) }.map_or(u32::MAX, |t| t.view.dtype as u32))
}

/// Number of dimensions; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_rank(tensor: *const torchacc_tensor) -> u32 {
    // SAFETY: NULL or a live tensor, says the header.
    quiet(0, || unsafe { borrow(tensor) }.map_or(0, |t| t.view.layout.rank() as u32))
}

/// Sizes of the dimensions, as many as the rank; valid as long as the tensor. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_sizes(tensor: *const torchacc_tensor) -> *const i64 {
    let none = std::ptr::null();
    // SAFETY: NULL or a live tensor, says the header.
    quiet(none, || unsafe { borrow(tensor) }.map_or(none, |t| t.view.layout.sizes.as_ptr()))
}

/// Number of elements; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_numel(tensor: *const torchacc_tensor) -> i64 {
    // SAFETY: NULL or a live tensor, says the header.
    quiet(0, || unsafe { borrow(tensor) }.map_or(0, |t| t.view.layout.numel()))
}

/// Whether a read would not wait; false for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_is_ready(tensor: *const torchacc_tensor) -> bool {
    // SAFETY: NULL or a live tensor, says the header.
    let tensor = || unsafe { borrow(tensor) };
    quiet(false, || tensor().is_ok_and(|t| t.buffer.context.is_ready(t.buffer.id)))
}

/// Gives the tensor a name, which `torchacc_save` writes and `torchacc_load` gives. A tensor is named once.
/// Errors: INVALID_ARGUMENT for text that is not UTF-8, and when it has another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_set_name(
    tensor: *mut torchacc_tensor,
    name: torchacc_str,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: as the header says.
        let (tensor, name) = unsafe { (borrow(tensor)?, name.text()?) };
        match tensor.name.get_or_init(|| name.into()) {
            known if known == name => Ok(()),
            known => Err(bad(format!("the tensor is called \"{known}\" already"))),
        }
    })
}

/// The tensor's name, empty without one; valid as long as the tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_name(tensor: *const torchacc_tensor) -> torchacc_str {
    // SAFETY: NULL or a live tensor, says the header.
    let tensor = || unsafe { borrow(tensor) };
    let name = || tensor().ok().and_then(|t| t.name.get()).map_or("", |name| name);
    quiet(torchacc_str::of(""), || torchacc_str::of(name()))
}

/// Puts a view of `tensor` into `out`.
///
/// # Safety
/// As the functions below.
unsafe fn viewed(
    tensor: *const torchacc_tensor,
    out: *mut *mut torchacc_tensor,
    layout: impl FnOnce(&Layout) -> Result<Layout>,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let tensor = unsafe { borrow(tensor)? };
        let view = View { dtype: tensor.view.dtype, layout: layout(&tensor.view.layout)? };
        let view = handle::give(torchacc_tensor::new(tensor.buffer.clone(), view));
        unsafe { put(out, view).inspect_err(|_| handle::release(view)) }
    })
}

fn no_view(layout: &Layout, wanted: String) -> Error {
    bad(format!("a tensor of sizes {:?} has no view {wanted}", layout.sizes))
}

/// The tensor with its dimensions in another order: dimension i of the view is dimension `order[i]`. `order` has as
/// many elements as the tensor has dimensions, each one once, counted from 0. The view shares the tensor's buffer:
/// writes to one are seen in the other. Errors: INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_permute(
    tensor: *const torchacc_tensor,
    order: *const i64,
    rank: u32,
    out: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    let permuted = |layout: &Layout| {
        // SAFETY: readable for `rank` elements, says the header.
        let order = unsafe { slice(order, rank as usize, "order")? };
        let view = layout.permuted(order);
        view.ok_or_else(|| no_view(layout, format!("of dimensions {order:?}")))
    };
    // SAFETY: as the header says.
    unsafe { viewed(tensor, out, permuted) }
}

/// `count` elements of dimension `dim`, from `start` on, every `step`-th. A view like that of `torchacc_tensor_permute`. All are
/// counted from 0 and within the dimension; `step` is at least 1. Errors: INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_slice(
    tensor: *const torchacc_tensor,
    dim: u32,
    start: i64,
    count: i64,
    step: i64,
    out: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    let sliced = |layout: &Layout| {
        let wanted =
            || format!("of {count} elements of dimension {dim} from {start} by steps of {step}");
        let view = layout.sliced(dim as usize, start, count, step);
        view.ok_or_else(|| no_view(layout, wanted()))
    };
    // SAFETY: as the header says.
    unsafe { viewed(tensor, out, sliced) }
}

/// The same elements in row-major order under other sizes. A view like that of `torchacc_tensor_permute`. Errors:
/// INVALID_ARGUMENT for another number of elements, and when the elements would have to move ("aten::reshape" copies).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_reshape(
    tensor: *const torchacc_tensor,
    sizes: *const i64,
    rank: u32,
    out: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    let reshaped = |layout: &Layout| {
        // SAFETY: readable for `rank` elements, says the header.
        let sizes: Dims = unsafe { sizes_of(sizes, rank)? };
        let same = crate::shape::numel(&sizes) == layout.numel();
        let view = same.then(|| layout.reshape(&sizes)).flatten();
        view.ok_or_else(|| no_view(layout, format!("of sizes {sizes:?}")))
    };
    // SAFETY: as the header says.
    unsafe { viewed(tensor, out, reshaped) }
}

/// The tensor repeated to `sizes`: they are aligned at the end, and only dimensions of size 1 (and new ones in front) repeat. A
/// view like that of `torchacc_tensor_permute`, to read from. Errors: INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_expand(
    tensor: *const torchacc_tensor,
    sizes: *const i64,
    rank: u32,
    out: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    let expanded = |layout: &Layout| {
        // SAFETY: readable for `rank` elements, says the header.
        let sizes: Dims = unsafe { sizes_of(sizes, rank)? };
        let view = layout.expanded(&sizes);
        view.ok_or_else(|| no_view(layout, format!("of sizes {sizes:?}")))
    };
    // SAFETY: as the header says.
    unsafe { viewed(tensor, out, expanded) }
}
