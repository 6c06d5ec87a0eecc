//! Shapes and views as C gives them.

use super::buffer::{dtype, torchacc_buffer};
use super::constants::torchacc_dtype;
use super::{bad, slice};
use crate::error::Result;
use crate::op::Ty;
use crate::shape::Dims;

/// More dimensions than any tensor library supports.
pub const TORCHACC_MAX_RANK: u32 = 64;

/// A strided view of a buffer. Sizes, strides and offset count elements of `dtype`. A NULL buffer stands for "no tensor".
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_view {
    pub buffer: *mut torchacc_buffer,
    pub sizes: *const i64,
    pub strides: *const i64,
    pub offset: i64,
    pub rank: u32,
    pub dtype: torchacc_dtype,
}

/// Sizes and strides of a view.
///
/// # Safety
/// The pointers in `view` are valid for the lengths that it states, for as long as the result is used.
pub(super) unsafe fn dims<'a>(view: &torchacc_view) -> Result<(&'a [i64], &'a [i64])> {
    if view.rank > TORCHACC_MAX_RANK {
        return Err(bad(format!("rank {} is more than {TORCHACC_MAX_RANK}", view.rank)));
    }
    let rank = view.rank as usize;
    // SAFETY: the caller's promise.
    unsafe { Ok((slice(view.sizes, rank, "sizes")?, slice(view.strides, rank, "strides")?)) }
}

/// Sizes given by a C caller.
///
/// # Safety
/// `sizes` is readable for `rank` elements.
pub(super) unsafe fn sizes_of(sizes: *const i64, rank: u32) -> Result<Dims> {
    if rank > TORCHACC_MAX_RANK {
        return Err(bad(format!("rank {rank} is more than {TORCHACC_MAX_RANK}")));
    }
    // SAFETY: the caller's promise.
    let sizes = unsafe { slice(sizes, rank as usize, "sizes")? };
    match sizes.iter().find(|&&size| size < 0) {
        Some(size) => Err(bad(format!("a size of {size}"))),
        None => Ok(sizes.into()),
    }
}

/// Element type and sizes of a dense tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_type {
    pub dtype: torchacc_dtype,
    pub rank: u32,
    /// Only the first `rank` are used.
    pub sizes: [i64; TORCHACC_MAX_RANK as usize],
}

impl torchacc_type {
    pub(super) const EMPTY: torchacc_type =
        torchacc_type { dtype: u32::MAX, rank: 0, sizes: [0; TORCHACC_MAX_RANK as usize] };

    pub(super) fn of(ty: &Ty) -> Result<torchacc_type> {
        let mut sizes = torchacc_type::EMPTY.sizes;
        let Some(room) = sizes.get_mut(..ty.rank()) else {
            return Err(bad(format!("a result has more than {TORCHACC_MAX_RANK} dimensions")));
        };
        room.copy_from_slice(&ty.sizes);
        Ok(torchacc_type { dtype: ty.dtype as u32, rank: ty.rank() as u32, sizes })
    }

    pub(super) fn ty(&self) -> Result<Ty> {
        // SAFETY: the array is longer than any rank that passes the check.
        let sizes = unsafe { sizes_of(self.sizes.as_ptr(), self.rank)? };
        Ok(Ty { dtype: dtype(self.dtype)?, sizes })
    }
}
