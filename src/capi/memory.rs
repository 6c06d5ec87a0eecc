//! How much memory a context has, and giving back what it keeps.

use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::borrow;
use super::sized::{self, Growing};
use super::{boundary, quiet};

/// Bytes of the context's device's memory. May grow at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_memory_stats {
    /// `sizeof(torchacc_memory_stats)` of the caller.
    pub struct_size: usize,
    /// In use: by values, by programs for what is between inputs and outputs, and by weights that were packed.
    pub allocated_bytes: u64,
    pub peak_allocated_bytes: u64,
    /// The same with what is free and kept to be used again. With an allocator of the program's own nothing is kept.
    pub reserved_bytes: u64,
    pub peak_reserved_bytes: u64,
}

// SAFETY: plain data; zero is a value of every field; the size is first.
unsafe impl Growing for torchacc_memory_stats {
    const NAME: &'static str = "torchacc_memory_stats";
}

/// Fills in `out`, whose `struct_size` is set, as far as it goes; what an older library does not know is 0. Waits for nothing: sync
/// first for what was recorded. Errors: INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_memory_stats(
    context: *mut torchacc_context,
    out: *mut torchacc_memory_stats,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let stats = unsafe { borrow(context)? }.inner.memory();
        let value = torchacc_memory_stats {
            struct_size: size_of::<torchacc_memory_stats>(),
            allocated_bytes: stats.live_bytes,
            peak_allocated_bytes: stats.peak_bytes,
            reserved_bytes: stats.live_bytes + stats.pool_bytes,
            peak_reserved_bytes: stats.peak_reserved_bytes,
        };
        unsafe { sized::write(out, &value) }
    })
}

/// Sets both peaks to what there is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_reset_peak_memory(context: *mut torchacc_context) {
    quiet((), || {
        // SAFETY: NULL or a live context, says the header.
        if let Ok(context) = unsafe { borrow(context) } {
            context.inner.reset_peak_memory();
        }
    });
}

/// Limits the bytes that each program cut from now on takes besides its inputs: what lies between these and its results, and
/// results that are not given the memory of an input. Values that do not fit are computed again where they are read, which takes
/// time and changes no bit. A program for which that is not enough fails with OUT_OF_MEMORY, which says what it wants when, and
/// what it was to update keeps its value. 0 for no limit. Blocks until everything that was cut has run; cuts nothing. Errors:
/// UNSUPPORTED in a process that was forked after the context was used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_set_memory_limit(
    context: *mut torchacc_context,
    nbytes: u64,
) -> *mut torchacc_error {
    // SAFETY: a live context, says the header.
    boundary(|| unsafe { borrow(context)? }.inner.set_memory_limit(nbytes))
}

/// Gives back to the system, or to the device, the memory that is kept to be used again: free blocks, the memory that programs
/// have for what is between inputs and outputs, and packed weights. What needs it takes it anew, so this costs time, and helps
/// other users of the memory alone. Blocks until everything that was cut has run; cuts nothing. Errors: UNSUPPORTED in a process
/// that was forked after the context was used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_trim(
    context: *mut torchacc_context,
) -> *mut torchacc_error {
    // SAFETY: a live context, says the header.
    boundary(|| unsafe { borrow(context)? }.inner.trim())
}
