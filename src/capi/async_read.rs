//! Reads without waiting: the value goes to a callback.

use super::context::{User, torchacc_drop_fn};
use super::error::{torchacc_error, torchacc_error_free};
use super::handle::borrow;
use super::tensor::torchacc_tensor;
use super::{bad, boundary};
use crate::buffer::{Elements, zeros};
use crate::error::Result;
use std::ffi::c_void;

/// Receives a value: `len` bytes, elements in row-major order; or the error that prevented it (then `data` is NULL). Both belong
/// to the library and are valid during the call. May call this library, except for functions that block, and must not unwind.
pub type torchacc_read_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        error: *const torchacc_error,
        data: *const c_void,
        len: usize,
    ),
>;

/// Reads a tensor without waiting: `done` is called once, on a thread of the library's own, with the present value of the
/// tensor, whatever is written to it later. Calls come in the order of a context's reads. Releasing the last handle of the
/// context does not wait for them, so its caller may hold a lock that `done` wants; they come all the same. Cuts the trace if it
/// still computes the value: after `torchacc_cut` that costs nothing. `user` belongs to the library from the call on, on an
/// error too. Errors: INVALID_ARGUMENT; those of the operations that compute the value go to `done` (and to the next sync).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_read_async(
    tensor: *const torchacc_tensor,
    done: torchacc_read_fn,
    user: *mut c_void,
    drop: torchacc_drop_fn,
) -> *mut torchacc_error {
    let user = User { pointer: user, drop };
    boundary(move || {
        // SAFETY: a live tensor, says the header.
        let tensor = unsafe { borrow(tensor)? };
        let elements = zeros(tensor.view.layout.numel() as usize * tensor.view.dtype.size())?;
        read(tensor, Box::new(elements), done, user)
    })
}

/// Copies a tensor to `destination` without waiting: its elements in row-major order, `len` bytes. Nobody else touches these
/// before `done` is called, as by `torchacc_tensor_read_async`, with `data` the destination. Copies the present value of the
/// tensor. A program that overwrites the tensor meanwhile runs up to the step that does so, which waits for the copy, never for
/// a call of `done`. So a snapshot of a model overlaps the next step's forward and backward pass, and takes no memory but the
/// destination. `user` as there. Errors: INVALID_ARGUMENT, also for a `len` that is not the tensor's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_tensor_copy_async(
    tensor: *const torchacc_tensor,
    destination: *mut c_void,
    len: usize,
    done: torchacc_read_fn,
    user: *mut c_void,
    drop: torchacc_drop_fn,
) -> *mut torchacc_error {
    let user = User { pointer: user, drop };
    boundary(move || {
        // SAFETY: a live tensor, says the header.
        let tensor = unsafe { borrow(tensor)? };
        if destination.is_null() && len > 0 {
            return Err(bad("destination is NULL"));
        }
        read(tensor, Box::new(Destination(destination.cast(), len)), done, user)
    })
}

fn read(
    tensor: &torchacc_tensor,
    elements: Elements,
    done: torchacc_read_fn,
    user: User,
) -> Result<()> {
    let done = done.ok_or_else(|| bad("done is NULL"))?;
    let tell = move |value: Result<Elements>| {
        let user: &User = &user;
        match value {
            Ok(mut elements) => {
                let bytes = (*elements).as_mut();
                // SAFETY (here and below): called as its type says.
                unsafe { done(user.pointer, std::ptr::null(), bytes.as_ptr().cast(), bytes.len()) };
            }
            Err(error) => unsafe {
                let error = torchacc_error::owned(error);
                done(user.pointer, error, std::ptr::null(), 0);
                torchacc_error_free(error);
            },
        }
    };
    let (buffer, view) = (&tensor.buffer, tensor.view.clone());
    buffer.context.read_later(buffer.id, view, elements, Box::new(tell))
}

/// The caller's memory.
struct Destination(*mut u8, usize);

// SAFETY: nobody else touches it, says the header.
unsafe impl Send for Destination {}

impl AsMut<[u8]> for Destination {
    fn as_mut(&mut self) -> &mut [u8] {
        if self.1 == 0 {
            return &mut [];
        }
        // SAFETY: writable for this many bytes, says the header.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1) }
    }
}
