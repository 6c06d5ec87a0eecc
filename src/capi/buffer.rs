//! Buffers.

use super::constants::torchacc_dtype;
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::{self, borrow};
use super::{bad, boundary, put, quiet, slice_mut};
use crate::dtype::DType;
use crate::error::Result;
use crate::runtime::Context;
use crate::trace::BufferId;
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes with an identity: the storage of tensors. Holds a value, which operations replace. Shared; keeps its context.
#[repr(C)]
pub struct torchacc_buffer {
    pub(super) id: BufferId,
    pub(super) context: Arc<Context>,
}

handle::kind!(torchacc_buffer, b"bu");

impl Drop for torchacc_buffer {
    fn drop(&mut self) {
        self.context.drop_buffer(self.id);
    }
}

/// Pointers cannot span a larger object; a larger size is a mistake in arithmetic.
fn check_size(nbytes: usize) -> Result<()> {
    match isize::try_from(nbytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(bad(format!("{nbytes} bytes are more than any memory has"))),
    }
}

impl torchacc_buffer {
    pub(super) fn new(context: &Arc<Context>, nbytes: usize) -> Result<torchacc_buffer> {
        context.check()?;
        check_size(nbytes)?;
        Ok(torchacc_buffer::of(context, context.new_buffer(nbytes)))
    }

    /// Takes over a buffer, which nobody else drops.
    pub(super) fn of(context: &Arc<Context>, id: BufferId) -> torchacc_buffer {
        torchacc_buffer { id, context: context.clone() }
    }
}

/// The dtype with this number in the header.
pub(super) fn dtype(number: u32) -> Result<DType> {
    DType::from_number(number).ok_or_else(|| bad(format!("{number} is not a torchacc_dtype")))
}

/// Makes a new buffer, whose content reads as zeros. Takes no memory before something is written.
/// Errors: INVALID_ARGUMENT for more bytes than an address space has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_new(
    context: *mut torchacc_context,
    nbytes: usize,
    out: *mut *mut torchacc_buffer,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        let context = unsafe { borrow(context)? };
        let buffer = handle::give(torchacc_buffer::new(&context.inner, nbytes)?);
        // SAFETY: writable, says the header; on failure the new buffer is released.
        unsafe { put(out, buffer).inspect_err(|_| handle::release(buffer)) }
    })
}

/// Adds an owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_retain(
    buffer: *mut torchacc_buffer,
) -> *mut torchacc_buffer {
    // SAFETY: NULL or a live buffer, says the header.
    quiet(std::ptr::null_mut(), || unsafe { handle::retain(buffer) })
}

/// Removes an owner. Operations recorded on the buffer are not affected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_release(buffer: *mut torchacc_buffer) {
    // SAFETY: NULL or a live buffer whose owner gives it up, says the header.
    quiet((), || unsafe { handle::release(buffer) });
}

/// Size in bytes; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_nbytes(buffer: *const torchacc_buffer) -> usize {
    // SAFETY: NULL or a live buffer, says the header.
    quiet(0, || unsafe { borrow(buffer) }.map_or(0, |b| b.context.nbytes(b.id)))
}

/// Changes the size. The common prefix keeps its bytes, new bytes are zero. Blocks when there is a value to keep.
/// Errors: as `torchacc_buffer_read`; OUT_OF_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_resize(
    buffer: *mut torchacc_buffer,
    nbytes: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live buffer, says the header.
        let buffer = unsafe { borrow(buffer)? };
        check_size(nbytes)?;
        buffer.context.resize(buffer.id, nbytes)
    })
}

/// Replaces the content by a copy of `len` bytes, which are elements of `dtype`. `len` must be the size of the buffer.
/// Does not wait. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_write(
    buffer: *mut torchacc_buffer,
    dtype: torchacc_dtype,
    data: *const c_void,
    len: usize,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live buffer, says the header.
        let buffer = unsafe { borrow(buffer)? };
        // SAFETY: readable for `len` bytes, says the header.
        let data = unsafe { super::slice(data.cast::<u8>(), len, "data")? };
        buffer.context.write_elements(buffer.id, self::dtype(dtype)?, data)
    })
}

/// Copies bytes `[offset, offset + len)` to `data`. Blocks: cuts the trace if it still computes the value, and waits. After an
/// error the contents of `data` are unspecified.
/// Errors: that of the operation that failed to produce the value; that of one that failed to update it, or a value that it was
/// computed from, which is reported once; that of a host operator without results, which no other read could report;
/// INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_read(
    buffer: *mut torchacc_buffer,
    offset: usize,
    data: *mut c_void,
    len: usize,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { read_with(buffer, offset, data, len, Context::read) }
}

/// # Safety
/// As the two functions that read.
unsafe fn read_with(
    buffer: *mut torchacc_buffer,
    offset: usize,
    data: *mut c_void,
    len: usize,
    read: impl FnOnce(&Context, BufferId, usize, &mut [u8]) -> Result<()>,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live buffer, says the header.
        let buffer = unsafe { borrow(buffer)? };
        // SAFETY: writable for `len` bytes, says the header.
        let data = unsafe { slice_mut(data.cast::<u8>(), len, "data")? };
        read(&buffer.context, buffer.id, offset, data)
    })
}

/// As `torchacc_buffer_read`, but cuts nothing: blocks until the trace that computes the value has been cut, for instance by
/// `torchacc_buffer_request`, and the value is ready. To be called on a thread of its own.
/// Errors: that of the operation that failed to produce the value, which the next sync returns as well; INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_read_after_cut(
    buffer: *mut torchacc_buffer,
    offset: usize,
    data: *mut c_void,
    len: usize,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { read_with(buffer, offset, data, len, Context::read_after_cut) }
}

/// Ensures that the value gets computed: cuts the trace if that still computes it, as a read does. Does not wait for the value.
/// Errors of the operations that compute it come with the read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_request(
    buffer: *mut torchacc_buffer,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live buffer, says the header.
        let buffer = unsafe { borrow(buffer)? };
        buffer.context.request(buffer.id)
    })
}

/// Whether a read would not wait; false for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_buffer_is_ready(buffer: *const torchacc_buffer) -> bool {
    // SAFETY: NULL or a live buffer, says the header.
    quiet(false, || unsafe { borrow(buffer) }.is_ok_and(|b| b.context.is_ready(b.id)))
}
