//! Structs that grow: callers and libraries of all versions understand each other.

use super::{bad, slice};
use crate::error::Result;

/// A plain struct of the header whose first field, a `usize`, is its size as the side that fills it in knows it.
///
/// # Safety
/// `repr(C)`, all zeros is a valid value, and the first field is the size.
pub unsafe trait Growing: Copy {
    const NAME: &'static str;
}

/// The size that a struct states; `None` for NULL.
///
/// # Safety
/// `given` is NULL or its first field is readable.
unsafe fn size_of_given<T: Growing>(given: *const T) -> Result<Option<usize>> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: the size comes first and is always there.
    let size = unsafe { given.cast::<usize>().read() };
    match (size_of::<usize>()..=1 << 16).contains(&size) {
        true => Ok(Some(size)),
        false => Err(bad(format!("struct_size is {size}, not the size of {}", T::NAME))),
    }
}

/// The caller's struct: fields that an older caller did not know are zero; those that a newer one added must be zero. NULL is
/// all zeros.
///
/// # Safety
/// `given` is NULL or readable for the size that it states.
pub unsafe fn read<T: Growing>(given: *const T) -> Result<T> {
    // SAFETY: all zeros is a valid value, says the trait.
    let mut known: T = unsafe { std::mem::zeroed() };
    // SAFETY: the caller's promise.
    let Some(size) = (unsafe { size_of_given(given)? }) else { return Ok(known) };
    // SAFETY: the caller's struct is readable for the size it says.
    let bytes = unsafe { slice(given.cast::<u8>(), size, T::NAME)? };
    let common = size_of::<T>().min(size);
    if bytes[common..].iter().any(|&byte| byte != 0) {
        let name = T::NAME;
        return Err(bad(format!(
            "{name} has fields that this version of the library does not know"
        )));
    }
    // SAFETY: both are plain memory, and no more is copied than either has.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut known).cast::<u8>(), common) };
    Ok(known)
}

/// Fills in a struct of the caller's version: fields that it does not know are left out, those that are newer than this library
/// are zero. Its size stays as the caller set it.
///
/// # Safety
/// `out` is NULL, or writable for the size that it states.
pub unsafe fn write<T: Growing>(out: *mut T, value: &T) -> Result<()> {
    // SAFETY: the caller's promise; the contents of the fields beside the size do not matter.
    let size = unsafe { size_of_given(out.cast_const())? };
    let Some(size) = size else { return Err(bad("the output pointer is NULL")) };
    let common = size_of::<T>().min(size);
    let (to, from, word) = (out.cast::<u8>(), (&raw const *value).cast::<u8>(), size_of::<usize>());
    // SAFETY: both are plain memory, no more is written than the caller has, and the size comes first in both.
    unsafe {
        std::ptr::write_bytes(to.add(word), 0, size - word);
        std::ptr::copy_nonoverlapping(from.add(word), to.add(word), common - word);
    }
    Ok(())
}
