//! Errors and owned strings.

use super::constants::torchacc_code;
use super::handle::{self, Cell, borrow};
use super::{quiet, torchacc_str};
use crate::error::{Code, Error, Result};
use std::borrow::Cow;

/// Why a call failed. Owned by the caller.
#[repr(C)]
pub struct torchacc_error {
    code: u32,
    site: u64,
    message: Cow<'static, str>,
}

handle::kind!(torchacc_error, b"er");

/// Returned after a panic, when allocating a message may fail or may not be safe; never freed.
static PANIC: Cell<torchacc_error> = Cell::immortal(torchacc_error {
    code: Code::Panic as u32,
    site: 0,
    message: Cow::Borrowed("internal error: a panic was caught at the boundary of the library"),
});

impl torchacc_error {
    pub(super) fn owned(error: Error) -> *mut torchacc_error {
        handle::give(torchacc_error {
            code: error.code as u32,
            site: error.site,
            message: Cow::Owned(error.message),
        })
    }

    pub(super) fn panic() -> *mut torchacc_error {
        PANIC.handle()
    }

    /// Converts an error object, which a callback may have made, and frees it.
    ///
    /// # Safety
    /// `pointer` is a live, owned error.
    pub(super) unsafe fn take(pointer: *mut torchacc_error) -> Error {
        // SAFETY: the caller's promise.
        let error = match unsafe { borrow(pointer) } {
            Ok(error) => Error::new(code_of(error.code), error.message.to_string()).at(error.site),
            Err(error) => error,
        };
        // SAFETY: the caller gave it up.
        unsafe { torchacc_error_free(pointer) };
        error
    }
}

fn code_of(number: u32) -> Code {
    use Code::*;
    let codes = [
        InvalidArgument,
        NotFound,
        OutOfMemory,
        IndexError,
        OperatorError,
        Internal,
        Panic,
        Unsupported,
        AbiMismatch,
        Strict,
        ValueError,
        TypeError,
        LinAlgError,
    ];
    codes.into_iter().find(|&code| code as u32 == number).unwrap_or(OperatorError)
}

/// The number of an error's kind (`TORCHACC_INVALID_ARGUMENT`, …); 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_error_code(error: *const torchacc_error) -> torchacc_code {
    // SAFETY: NULL or a live error, says the header.
    quiet(0, || unsafe { borrow(error) }.map_or(0, |e| e.code))
}

/// The message, with the cause and a remedy. Valid as long as the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_error_message(error: *const torchacc_error) -> torchacc_str {
    // SAFETY: NULL or a live error, says the header.
    quiet(torchacc_str::of(""), || match unsafe { borrow(error) } {
        Ok(error) => torchacc_str::of(&error.message),
        Err(_) => torchacc_str::of(""),
    })
}

/// The call site that recorded the failed operation, as the locator named it; 0 when unknown. If the same operation was recorded
/// before, this is the site of the first time, and the message says so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_error_site(error: *const torchacc_error) -> u64 {
    // SAFETY: NULL or a live error, says the header.
    quiet(0, || unsafe { borrow(error) }.map_or(0, |e| e.site))
}

/// A new error, for a host operator to return. An unknown code becomes OPERATOR_ERROR; bytes that are not UTF-8 are replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_error_new(
    code: torchacc_code,
    message: torchacc_str,
) -> *mut torchacc_error {
    quiet(torchacc_error::panic(), || {
        // SAFETY: `message` is readable, says the header.
        let bytes = unsafe { super::slice(message.data.cast::<u8>(), message.len, "message") };
        let text = String::from_utf8_lossy(bytes.unwrap_or(b"(no message)")).into_owned();
        torchacc_error::owned(Error::new(code_of(code), text))
    })
}

/// Frees an error; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_error_free(error: *mut torchacc_error) {
    // SAFETY: NULL or a live error that its owner gives up, says the header.
    quiet((), || unsafe { handle::release(error) });
}

/// A text owned by the caller.
#[repr(C)]
pub struct torchacc_string {
    text: String,
}

handle::kind!(torchacc_string, b"st");

impl torchacc_string {
    pub(super) fn owned(text: String) -> *mut torchacc_string {
        handle::give(torchacc_string { text })
    }
}

/// The text; valid as long as the string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_string_view(string: *const torchacc_string) -> torchacc_str {
    // SAFETY: NULL or a live string, says the header.
    quiet(torchacc_str::of(""), || match unsafe { borrow(string) } {
        Ok(string) => torchacc_str::of(&string.text),
        Err(_) => torchacc_str::of(""),
    })
}

/// Frees a string; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_string_free(string: *mut torchacc_string) {
    // SAFETY: NULL or a live string that its owner gives up, says the header.
    quiet((), || unsafe { handle::release(string) });
}

/// Converts the result of a callback or of an exported function.
///
/// # Safety
/// `error` is NULL, or an owned error.
pub(super) unsafe fn outcome(error: *mut torchacc_error) -> Result<()> {
    // SAFETY: the caller's promise.
    if error.is_null() { Ok(()) } else { Err(unsafe { torchacc_error::take(error) }) }
}
