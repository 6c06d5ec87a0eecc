//! Tensors on host memory that stays the caller's, without a copy.

use super::buffer::dtype;
use super::constants::torchacc_dtype;
use super::context::{User, torchacc_context, torchacc_drop_fn};
use super::error::torchacc_error;
use super::handle::{self, Owned, borrow};
use super::tensor::torchacc_tensor;
use super::types::sizes_of;
use super::{bad, boundary, put, slice, torchacc_buffer};
use crate::backend::borrowed::{ALIGN, Borrowed};
use crate::error::Result;
use crate::record::View;
use crate::runtime::is_canonical;
use crate::shape::{Dims, Layout, contiguous_strides};
use std::any::Any;
use std::ffi::c_void;

/// An array that belongs to somebody else.
pub(super) struct Lent {
    pub data: *const c_void,
    /// Bytes that are readable there.
    pub len: usize,
    pub view: View,
    /// Whether it is in the memory of the context's device, not the host's.
    pub on_device: bool,
    /// Gives the array back when dropped.
    pub owner: Box<dyn Any + Send + Sync>,
}

impl Lent {
    /// A tensor on the array. An array on the host is copied, and given back at once, if it is not aligned well enough, if
    /// programs run on a device, or if it has bools that are bytes other than 0 and 1. Error: an array on a device that is not
    /// aligned to its elements.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes, which nobody writes, until `owner` is dropped.
    pub unsafe fn tensor(mut self, context: &torchacc_context) -> Result<torchacc_tensor> {
        if self.on_device {
            self.align()?;
        }
        let end = self.view.layout.end().saturating_mul(self.view.dtype.size() as i64);
        if end < 0 || end as u64 > self.len as u64 {
            return Err(bad(format!("{} bytes of data, {end} needed", self.len)));
        }
        let nbytes = end as usize;
        let buffer = Owned::new(torchacc_buffer::new(&context.inner, nbytes)?);
        if nbytes == 0 {
            return torchacc_tensor::checked(buffer, self.view);
        }
        let is_aligned = self.data.addr().is_multiple_of(ALIGN);
        if self.data.is_null() {
            return Err(bad(format!("data is NULL but has {nbytes} bytes")));
        }
        // SAFETY: the caller's promise, here and below.
        let bytes = || unsafe { slice(self.data.cast::<u8>(), nbytes, "data") };
        let serves = is_aligned && context.inner.is_host();
        if self.on_device || serves && is_canonical(self.view.dtype, bytes()?) {
            let address = self.data.expose_provenance();
            context.inner.lend(buffer.id, unsafe { Borrowed::new(address, nbytes, self.owner) })?;
        } else {
            context.inner.write_elements(buffer.id, self.view.dtype, bytes()?)?;
        }
        torchacc_tensor::checked(buffer, self.view)
    }

    /// Moves the array's start back to an aligned address, as device memory has, and its offset forward.
    fn align(&mut self) -> Result<()> {
        let (before, size) = (self.data.addr() % ALIGN, self.view.dtype.size());
        if !before.is_multiple_of(size) {
            return Err(bad(format!("an array of {size} bytes an element at {:p}", self.data)));
        }
        self.data = self.data.wrapping_byte_sub(before);
        self.view.layout.offset += (before / size) as i64;
        Ok(())
    }
}

/// Makes a tensor on the caller's memory, without a copy: `len` bytes at `data`, in which `sizes` and `strides` (in elements,
/// not negative; NULL for row-major) locate the elements. The memory must stay as it is until `drop` is called, which happens on
/// any thread once neither a tensor nor a program uses it. The library never writes there: writes to the tensor go to memory of
/// its own. Memory that is not aligned to 16 bytes is copied, as is any for a GPU, and bools that are bytes other than 0 and 1;
/// `drop` is then called before this returns, as on an error. Does not wait. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_borrow(
    context: *mut torchacc_context,
    dtype: torchacc_dtype,
    sizes: *const i64,
    strides: *const i64,
    rank: u32,
    data: *const c_void,
    len: usize,
    user: *mut c_void,
    drop: torchacc_drop_fn,
    out: *mut *mut torchacc_tensor,
) -> *mut torchacc_error {
    let owner = Box::new(User { pointer: user, drop });
    boundary(move || {
        // SAFETY (here and below): as the header says.
        let context = unsafe { borrow(context)? };
        let layout = unsafe { layout(sizes, strides, rank)? };
        let view = View { dtype: self::dtype(dtype)?, layout };
        let tensor = unsafe { Lent { data, len, view, on_device: false, owner }.tensor(context)? };
        let tensor = handle::give(tensor);
        unsafe { put(out, tensor).inspect_err(|_| handle::release(tensor)) }
    })
}

/// # Safety
/// `sizes` is readable for `rank` elements, and `strides`, if not NULL.
pub(super) unsafe fn layout(sizes: *const i64, strides: *const i64, rank: u32) -> Result<Layout> {
    // SAFETY (here and below): the caller's promise.
    let sizes = unsafe { sizes_of(sizes, rank)? };
    let strides: Dims = match strides.is_null() {
        true => contiguous_strides(&sizes),
        false => unsafe { slice(strides, rank as usize, "strides")? }.into(),
    };
    Ok(Layout { sizes, strides, offset: 0 })
}
