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

/// What the caller filled in: fields that an old caller did not know are zero; those that a newer one added must be.
/// NULL is all zeros.
///
/// # Safety
/// `given` is NULL or readable for the size that it says.
pub unsafe fn read<T: Growing>(given: *const T) -> Result<T> {
    // SAFETY: all zeros is a valid value, says the trait.
    let mut known: T = unsafe { std::mem::zeroed() };
    if given.is_null() {
        return Ok(known);
    }
    // SAFETY: the size comes first and is always there.
    let size = unsafe { given.cast::<usize>().read() };
    if size < size_of::<usize>() || size > 1 << 16 {
        return Err(bad(format!("struct_size is {size}, not the size of {}", T::NAME)));
    }
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
