//! Values that the library reads and tells of.

use super::context::{User, torchacc_drop_fn};
use super::error::{torchacc_error, torchacc_error_free};
use super::handle::borrow;
use super::tensor::torchacc_tensor;
use super::{bad, boundary};
use crate::error::Result;
use std::ffi::c_void;

/// Takes a value: `len` bytes, elements in row-major order; or the error that there is instead (then `data` is NULL). Both
/// are the library's and valid during the call. It may call this library, but for functions that block, and must not unwind.
pub type torchacc_read_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        error: *const torchacc_error,
        data: *const c_void,
        len: usize,
    ),
>;

/// Reads a tensor without waiting: `done` is called once, on a thread of the library's own, with the value that the tensor
/// has now, whatever is written to it later. Calls come in the order of the reads of a context. The last handle of the
/// context waits for none of them, so whoever releases it may hold a lock that `done` wants; they come all the same. Cuts
/// the trace if it still computes the value: after `torchacc_cut` that costs nothing. `user` belongs to the library from
/// the call on, on an error too. Errors: INVALID_ARGUMENT; those of the operations that compute the value go to `done`
/// (and to the next sync).
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
        let done = done.ok_or_else(|| bad("done is NULL"))?;
        let tell = move |value: Result<Vec<u8>>| {
            let user: &User = &user;
            match value {
                // SAFETY (here and below): called as its type says.
                Ok(bytes) => unsafe {
                    done(user.pointer, std::ptr::null(), bytes.as_ptr().cast(), bytes.len());
                },
                Err(error) => unsafe {
                    let error = torchacc_error::owned(error);
                    done(user.pointer, error, std::ptr::null(), 0);
                    torchacc_error_free(error);
                },
            }
        };
        tensor.buffer.context.read_later(tensor.buffer.id, tensor.view.clone(), Box::new(tell))
    })
}
