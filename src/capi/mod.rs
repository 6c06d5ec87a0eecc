//! The exported C functions: check, convert, call one function.
//!
//! **Invariant:** no logic here, nothing exported elsewhere, and no panic escapes: every body that may panic runs inside
//! [`boundary`] or [`quiet`]. `include/torchacc.h` is generated from this room; its comments are the documentation of the ABI.
//!
//! Rules of the ABI: a function that can fail returns an owned `torchacc_error*`, NULL for success; outputs come last and
//! are written only on success; shared objects have `_retain` and `_release`, owned ones `_free`, and both accept
//! NULL, in any order; structs passed in that may grow start with `struct_size`.
#![expect(
    unsafe_code,
    reason = "C callers pass raw pointers; every function says what they must be"
)]
#![expect(non_camel_case_types, reason = "names of the C header")]

mod archive;
mod arguments;
mod async_read;
mod borrow;
mod buffer;
mod cache;
mod communicator;
pub mod constants;
mod context;
mod device;
mod dlpack;
mod error;
mod grad;
mod graph;
mod handle;
mod infer;
mod memory;
mod op;
mod record;
mod release;
mod report;
mod sized;
mod tensor;
mod types;
mod view;

use crate::error::{Code, Error, Result, panic_text};
use crate::runtime::context::lock::panicked;
use buffer::torchacc_buffer;
pub use cache::DECLARED;
use error::torchacc_error;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Version of the ABI: raised when a program built against an older header could go wrong.
pub const TORCHACC_ABI: u32 = 1;

/// Version of the library that this header belongs to; `torchacc_version` gives that of the loaded library.
pub const TORCHACC_VERSION_MAJOR: u32 = 0;
pub const TORCHACC_VERSION_MINOR: u32 = 1;
pub const TORCHACC_VERSION_PATCH: u32 = 0;

/// A piece of UTF-8 text that somebody else owns. Not terminated by NUL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_str {
    pub data: *const std::ffi::c_char,
    /// In bytes.
    pub len: usize,
}

impl torchacc_str {
    pub(crate) fn of(text: &str) -> torchacc_str {
        torchacc_str { data: text.as_ptr().cast(), len: text.len() }
    }

    /// # Safety
    /// `data` is readable for `len` bytes (or NULL with `len` 0) for as long as the result is used.
    pub(crate) unsafe fn text<'a>(self) -> Result<&'a str> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { slice(self.data.cast::<u8>(), self.len, "text")? };
        std::str::from_utf8(bytes).map_err(|e| bad(format!("text is not UTF-8: {e}")))
    }
}

/// An `InvalidArgument` error.
fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// A C array as a slice; NULL is fine when it is empty.
///
/// # Safety
/// `data` is readable for `len` elements for as long as the result is used.
unsafe fn slice<'a, T>(data: *const T, len: usize, what: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(bad(format!("{what} is NULL but has {len} elements")));
    }
    // SAFETY: not NULL, and the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// A C array to be written; as [`slice`].
///
/// # Safety
/// `data` is writable for `len` elements for as long as the result is used, by nobody else.
unsafe fn slice_mut<'a, T>(data: *mut T, len: usize, what: &str) -> Result<&'a mut [T]> {
    // SAFETY: the caller's promise.
    unsafe { slice(data, len, what)? };
    match len {
        0 => Ok(&mut []),
        // SAFETY: not NULL, and the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(data, len) }),
    }
}

/// Writes an output, which is last in the parameter list and must not be NULL.
///
/// # Safety
/// `out` is NULL or writable.
unsafe fn put<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(bad("the output pointer is NULL"));
    }
    // SAFETY: not NULL, and the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// A thread's position relative to the library.
#[derive(Clone, Copy, PartialEq)]
enum CallState {
    Outside,
    /// In an exported function.
    Inside,
    /// In a callback that must not call the library.
    Callback,
}

thread_local! {
    static CALL_STATE: Cell<CallState> = const { Cell::new(CallState::Outside) };
}

/// Runs a body with the thread in `state`.
fn within<T>(state: CallState, body: impl FnOnce() -> T) -> T {
    let outer = CALL_STATE.replace(state);
    let result = body();
    CALL_STATE.set(outer);
    result
}

/// Calls a callback. Functions that can fail refuse to run during it: they might wait for its caller, or change the state that
/// it is asked about.
fn calling<T>(callback: impl FnOnce() -> T) -> T {
    within(CallState::Callback, callback)
}

/// Keeps panics that are caught here from printing: a library does not write to other people's terminals.
fn be_silent() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let other = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let ours = thread.name().is_some_and(|name| name.starts_with("torchacc-"));
            if !ours && CALL_STATE.get() == CallState::Outside {
                other(panic);
            }
        }));
    });
}

/// Runs `body` and catches its panic, which the contexts that it leaves half changed report from now on.
fn caught<T>(body: impl FnOnce() -> T) -> Option<T> {
    let result = within(CallState::Inside, || catch_unwind(AssertUnwindSafe(body)));
    result.inspect_err(|panic| panicked(panic_text(&**panic))).ok()
}

/// Runs the body of an exported function: an error becomes an owned object, a panic the code PANIC.
fn boundary(body: impl FnOnce() -> Result<()>) -> *mut torchacc_error {
    if CALL_STATE.get() == CallState::Callback {
        return torchacc_error::owned(bad("a callback called the library, which it must not"));
    }
    match caught(body) {
        Some(Ok(())) => std::ptr::null_mut(),
        Some(Err(error)) => torchacc_error::owned(error),
        None => torchacc_error::panic(),
    }
}

/// [`boundary`] for functions that cannot report: a panic gives `fallback`.
fn quiet<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    caught(body).unwrap_or(fallback)
}

/// Version of the ABI that this library implements. Compare it with `TORCHACC_ABI` once, at start.
#[unsafe(no_mangle)]
pub extern "C" fn torchacc_abi_version() -> u32 {
    TORCHACC_ABI
}

/// Version of the library, like "0.1.0". Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn torchacc_version() -> torchacc_str {
    torchacc_str::of(env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_library() {
        let version = [TORCHACC_VERSION_MAJOR, TORCHACC_VERSION_MINOR, TORCHACC_VERSION_PATCH];
        let [major, minor, patch] = version;
        assert_eq!(format!("{major}.{minor}.{patch}"), env!("CARGO_PKG_VERSION"));
    }
}
