//! Tensors: a buffer with a view, for callers that have no tensor type of their own.

use super::buffer::{dtype, torchacc_buffer};
use super::constants::torchacc_dtype;
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::{self, Owned, borrow, owner};
use super::types::{dims, sizes_of, torchacc_view};
use super::{bad, boundary, put, quiet, slice, slice_mut};
use crate::dtype::DType;
use crate::error::Result;
use crate::record::View;
use crate::runtime::Context;
use crate::shape::{Layout, numel};
use crate::trace::TensorRef;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

/// A strided view of a buffer, which it keeps alive. Shared and immutable: operations make new tensors, or write through it.
#[repr(C)]
pub struct torchacc_tensor {
    pub(super) buffer: Owned<torchacc_buffer>,
    pub(super) view: View,
    pub(super) name: OnceLock<String>,
}

handle::kind!(torchacc_tensor, b"te");

impl torchacc_tensor {
    /// A new dense tensor in a buffer of its own.
    pub(super) fn dense(context: &Arc<Context>, dtype: DType, sizes: &[i64]) -> Result<Self> {
        let nbytes = numel(sizes).checked_mul(dtype.size() as i64);
        let nbytes = nbytes.ok_or_else(|| bad(format!("sizes {sizes:?} overflow")))?;
        let buffer = Owned::new(torchacc_buffer::new(context, nbytes as usize)?);
        let view = View { dtype, layout: Layout::contiguous(sizes) };
        Ok(torchacc_tensor::new(buffer, view))
    }

    /// A tensor with this view. Error: the view leaves its buffer.
    pub(super) fn checked(buffer: Owned<torchacc_buffer>, view: View) -> Result<Self> {
        let layout = &view.layout;
        let negative = layout.sizes.iter().chain(&layout.strides).any(|&n| n < 0);
        let end = layout.end().saturating_mul(view.dtype.size() as i64);
        let nbytes = buffer.context.nbytes(buffer.id) as i64;
        if negative || layout.offset < 0 || end > nbytes {
            return Err(bad(format!("the view needs {end} bytes of a buffer of {nbytes}")));
        }
        Ok(torchacc_tensor::new(buffer, view))
    }

    pub(super) fn new(buffer: Owned<torchacc_buffer>, view: View) -> Self {
        torchacc_tensor { buffer, view, name: OnceLock::new() }
    }

    /// Bytes of a dense copy.
    pub(super) fn nbytes(&self) -> usize {
        self.view.layout.numel() as usize * self.view.dtype.size()
    }

    pub(super) fn read(&self) -> Result<Vec<u8>> {
        self.buffer.context.read_view(self.buffer.id, &self.view)
    }

    /// The tensor to write to. Error: one that repeats elements.
    #[inline]
    pub(super) fn target(&self) -> Result<TensorRef<'_>> {
        let layout = &self.view.layout;
        let repeats = |(&size, &stride): (&i64, &i64)| size > 1 && stride == 0;
        if layout.sizes.iter().zip(&layout.strides).any(repeats) {
            return Err(bad("a tensor that repeats elements (strides of 0) cannot be written to"));
        }
        Ok(TensorRef::new(self.buffer.id, &self.view))
    }
}

/// Makes a new tensor with a copy of `len` bytes: elements in row-major order. `len` must match the sizes.
/// Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_from_host(
    context: *mut torchacc_context,
    dtype: torchacc_dtype,
    sizes: *const i64,
    rank: u32,
    data: *const c_void,
    len: usize,
    out: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let sizes = unsafe { sizes_of(sizes, rank)? };
        let data = unsafe { slice(data.cast::<u8>(), len, "data")? };
        let tensor = torchacc_tensor::dense(&context.inner, self::dtype(dtype)?, &sizes)?;
        if len != tensor.nbytes() {
            return Err(bad(format!("{len} bytes of data, {} needed", tensor.nbytes())));
        }
        context.inner.write_elements(tensor.buffer.id, tensor.view.dtype, data)?;
        let tensor = handle::give(tensor);
        unsafe { put(out, tensor).inspect_err(|_| handle::release(tensor)) }
    })
}

/// A new dense tensor of zeros. Takes no memory before something is written. Errors: INVALID_ARGUMENT for sizes that are
/// negative or beyond any memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_zeros(
    context: *mut torchacc_context,
    dtype: torchacc_dtype,
    sizes: *const i64,
    rank: u32,
    out: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let sizes = unsafe { sizes_of(sizes, rank)? };
        let tensor = torchacc_tensor::dense(&context.inner, self::dtype(dtype)?, &sizes)?;
        let tensor = handle::give(tensor);
        unsafe { put(out, tensor).inspect_err(|_| handle::release(tensor)) }
    })
}

/// A tensor that shares the buffer of `view`. Errors: INVALID_ARGUMENT when the view leaves the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_from_view(
    view: *const torchacc_view,
    out: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let view = unsafe { slice(view, 1, "view")? };
        let tensor = handle::give(unsafe { tensor_of(&view[0])? });
        unsafe { put(out, tensor).inspect_err(|_| handle::release(tensor)) }
    })
}

/// The tensor's view of its buffer. The pointers are valid, and the buffer is kept, as long as the tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_view(
    tensor: *const torchacc_tensor,
    out: *mut torchacc_view,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let tensor = unsafe { borrow(tensor)? };
        let layout = &tensor.view.layout;
        let view = torchacc_view {
            buffer: tensor.buffer.handle(),
            sizes: layout.sizes.as_ptr(),
            strides: layout.strides.as_ptr(),
            offset: layout.offset,
            rank: layout.sizes.len() as u32,
            dtype: tensor.view.dtype as u32,
        };
        unsafe { put(out, view) }
    })
}

/// Bytes that `torchacc_tensor_read` copies; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_nbytes(tensor: *const torchacc_tensor) -> usize {
    // SAFETY: NULL or a live tensor, says the header.
    quiet(0, || unsafe { borrow(tensor) }.map_or(0, |t| t.nbytes()))
}

/// Copies the elements in row-major order; `len` must be at least `torchacc_tensor_nbytes`. Blocks,
/// and fails, as `torchacc_buffer_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_read(
    tensor: *const torchacc_tensor,
    data: *mut c_void,
    len: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let tensor = unsafe { borrow(tensor)? };
        let needed = tensor.nbytes();
        if len < needed {
            return Err(bad(format!("room for {len} bytes, {needed} needed")));
        }
        let data = unsafe { slice_mut(data.cast::<u8>(), needed, "data")? };
        tensor.buffer.context.read_view_into(tensor.buffer.id, &tensor.view, data)
    })
}

/// Replaces the elements by a copy of `len` bytes: elements in row-major order. `len` must be `torchacc_tensor_nbytes`.
/// Other views of the same buffer see it. Does not wait. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_write(
    tensor: *mut torchacc_tensor,
    data: *const c_void,
    len: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let tensor = unsafe { borrow(tensor)? };
        let data = unsafe { slice(data.cast::<u8>(), len, "data")? };
        let target = tensor.target()?;
        tensor.buffer.context.write_view(target.buffer, &tensor.view, data)
    })
}

/// Declares that dimension `dim` of the tensor (and those of that size in other tensors of its buffer) will have between `least`
/// and `most` elements in later programs, which then are planned for these sizes at once. Only advice: without it, programs are
/// planned for other sizes when a second size occurs; and sizes outside of the range still work.
/// Errors: INVALID_ARGUMENT for a dimension that the tensor does not have, or when its size is not between the two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_mark_dynamic(
    tensor: *mut torchacc_tensor,
    dim: u32,
    least: i64,
    most: i64,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: as the header says.
        let tensor = unsafe { borrow(tensor)? };
        let sizes = &tensor.view.layout.sizes;
        let size = sizes.get(dim as usize).copied().ok_or_else(|| {
            bad(format!("dimension {dim} of a tensor with {} dimensions", sizes.len()))
        })?;
        tensor.buffer.context.mark_dynamic(tensor.buffer.id, size, least, most)
    })
}

/// Adds an owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_retain(
    tensor: *mut torchacc_tensor,
) -> *mut torchacc_tensor {
    // SAFETY: NULL or a live tensor, says the header.
    quiet(std::ptr::null_mut(), || unsafe { handle::retain(tensor) })
}

/// Removes an owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_release(tensor: *mut torchacc_tensor) {
    // SAFETY: NULL or a live tensor whose owner gives it up, says the header.
    quiet((), || unsafe { handle::release(tensor) });
}

/// A tensor that views a buffer.
///
/// # Safety
/// The pointers in `raw` are valid for the lengths that it states.
unsafe fn tensor_of(raw: &torchacc_view) -> Result<torchacc_tensor> {
    // SAFETY: the caller's promise.
    let (buffer, (sizes, strides)) = unsafe { (owner(raw.buffer)?, dims(raw)?) };
    let layout = Layout { sizes: sizes.into(), strides: strides.into(), offset: raw.offset };
    torchacc_tensor::checked(buffer, View { dtype: dtype(raw.dtype)?, layout })
}
