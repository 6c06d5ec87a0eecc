//! Host memory that stays the caller's: tensors on it without a copy.

use super::buffer::dtype;
use super::constants::torchacc_dtype;
use super::context::{User, torchacc_context, torchacc_drop_fn};
use super::error::torchacc_error;
use super::handle::{self, borrow};
use super::record::sizes_of;
use super::tensor::torchacc_tensor;
use super::{bad, boundary, put, slice, torchacc_buffer};
use crate::backend::borrowed::{ALIGN, Borrowed};
use crate::error::Result;
use crate::record::View;
use crate::runtime::is_canonical;
use crate::shape::{Dims, Layout, contiguous_strides};
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

/// Somebody else's array.
pub(super) struct Lent {
    pub data: *const c_void,
    /// Bytes that are readable there.
    pub len: usize,
    pub view: View,
    /// Gives the array back when dropped.
    pub owner: Box<dyn Any + Send + Sync>,
}

impl Lent {
    /// A tensor on the array, which is copied (and given back at once) where its alignment does not serve, programs run
    /// on a GPU, or it has bools that are other bytes than 0 and 1.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes, which nobody writes, until `owner` is dropped.
    pub unsafe fn tensor(self, context: &torchacc_context) -> Result<torchacc_tensor> {
        let end = self.view.layout.end().saturating_mul(self.view.dtype.size() as i64);
        if end < 0 || end as u64 > self.len as u64 {
            return Err(bad(format!("{} bytes of data, {end} needed", self.len)));
        }
        let nbytes = end as usize;
        let buffer = Arc::new(torchacc_buffer::new(&context.inner, nbytes)?);
        if nbytes == 0 {
            return torchacc_tensor::checked(buffer, self.view);
        }
        // SAFETY: the caller's promise, here and below.
        let bytes = unsafe { slice(self.data.cast::<u8>(), nbytes, "data")? };
        let serves = self.data.addr().is_multiple_of(ALIGN) && context.inner.is_host();
        if serves && is_canonical(self.view.dtype, bytes) {
            let address = self.data.expose_provenance();
            let memory = unsafe { Borrowed::new(address, nbytes, self.owner) };
            context.inner.lend(buffer.id, Box::new(memory));
        } else {
            context.inner.write_elements(buffer.id, self.view.dtype, bytes)?;
        }
        torchacc_tensor::checked(buffer, self.view)
    }
}

/// A tensor on the caller's memory, without a copy: `len` bytes at `data`, of which `sizes` and `strides` (in elements, not
/// negative; NULL for row-major) say where the elements are. The memory must stay as it is until `drop` is called, which
/// happens on any thread once neither a tensor nor a program uses it. The library never writes there: what is written to the
/// tensor goes to memory of its own. Memory that is not aligned to 16 bytes is copied, as is any for a GPU and bools that are other bytes
/// than 0 and 1, and `drop` called before this returns; on an error too. Does not wait. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
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
        let tensor = unsafe { Lent { data, len, view, owner }.tensor(context)? };
        let tensor = handle::share(tensor);
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
