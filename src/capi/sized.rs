//! Structs that grow: every age of caller and library understand each other.

use super::{bad, slice};
use crate::error::Result;

/// A plain struct of the header whose first field, a `usize`, is its size for whoever fills it in.
///
/// # Safety
/// `repr(C)`, all zeros is a valid value, and the first field is the size.
pub unsafe trait Growing: Copy {
    const NAME: &'static str;
}

/// What a struct says that its size is; `None` for NULL.
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

/// What the caller filled in: fields that an old caller did not know are zero; those that a newer one added must be.
/// NULL is all zeros.
///
/// # Safety
/// `given` is NULL or readable for the size that it says.
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

/// Fills in a struct of the caller's age: fields that it does not know are left out, those that are newer than this
/// library are zero. Its size stays what the caller said.
///
/// # Safety
/// `out` is NULL, or writable for the size that it says.
pub unsafe fn write<T: Growing>(out: *mut T, value: &T) -> Result<()> {
    // SAFETY: the caller's promise; what the caller filled in beside the size does not matter.
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
