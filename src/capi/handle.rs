//! Handles: what an opaque pointer points at, and how it is told from a pointer to something else.

use super::bad;
use crate::error::Result;
use std::sync::Arc;

/// The first word of every handle object names its type, so that a handle of the wrong kind is an error and not a crash.
pub trait Handle: Sized {
    const TAG: u64;
    const NAME: &'static str;
}

/// Borrows a handle.
///
/// # Safety
/// `pointer` is NULL or points at a live handle object of this library, of any kind.
pub unsafe fn borrow<'a, T: Handle>(pointer: *const T) -> Result<&'a T> {
    if pointer.is_null() {
        return Err(bad(format!("{} is NULL", T::NAME)));
    }
    if !pointer.is_aligned() {
        return Err(bad(format!("{} is not a handle", T::NAME)));
    }
    // SAFETY: every handle object starts with its tag, a u64 (`repr(C)`), and is 8-byte aligned.
    let tag = unsafe { pointer.cast::<u64>().read() };
    if tag != T::TAG {
        return Err(bad(format!("this handle is not a {}", T::NAME)));
    }
    // SAFETY: the tag says that it is a `T`.
    Ok(unsafe { &*pointer })
}

/// One more owner of a shared handle; NULL for NULL and for a handle of another kind.
///
/// # Safety
/// As [`borrow`]; the object was made by [`share`].
pub unsafe fn retain<T: Handle>(pointer: *const T) -> *mut T {
    // SAFETY: the caller's promise.
    match unsafe { borrow(pointer) } {
        Ok(handle) => {
            // SAFETY: shared handles come from `Arc::into_raw`.
            unsafe { Arc::increment_strong_count(handle) };
            pointer.cast_mut()
        }
        Err(_) => std::ptr::null_mut(),
    }
}

/// Another owner, as an `Arc`.
///
/// # Safety
/// As [`retain`].
pub unsafe fn shared<T: Handle>(pointer: *const T) -> Result<Arc<T>> {
    // SAFETY: the caller's promise.
    let handle = unsafe { borrow(pointer)? };
    // SAFETY: shared handles come from `Arc::into_raw`; the count goes up before the new owner exists.
    unsafe {
        Arc::increment_strong_count(handle);
        Ok(Arc::from_raw(handle))
    }
}

/// One owner fewer; nothing for NULL and for a handle of another kind.
///
/// # Safety
/// As [`retain`]; the caller owned one reference.
pub unsafe fn release<T: Handle>(pointer: *mut T) {
    // SAFETY: the caller's promise.
    if let Ok(handle) = unsafe { borrow(pointer) } {
        // SAFETY: shared handles come from `Arc::into_raw`, and this ends one of them.
        drop(unsafe { Arc::from_raw(handle as *const T) });
    }
}

/// A new shared handle with one owner: the caller.
pub fn share<T: Handle>(value: T) -> *mut T {
    Arc::into_raw(Arc::new(value)).cast_mut()
}

/// A new owned handle.
pub fn own<T: Handle>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// The end of an owned handle; nothing for NULL and for a handle of another kind.
///
/// # Safety
/// As [`borrow`]; the object was made by [`own`], and its owner gives it up.
pub unsafe fn free<T: Handle>(pointer: *mut T) {
    // SAFETY (both): the caller's promise.
    if unsafe { borrow(pointer) }.is_ok() {
        drop(unsafe { Box::from_raw(pointer) });
    }
}
