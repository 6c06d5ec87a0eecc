//! The memory of a context: statistics, a limit, and the release of free memory.

use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::borrow;
use super::sized::{self, Growing};
use super::{boundary, quiet};

/// Bytes of memory on the context's device. May grow at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_memory_stats {
    /// `sizeof(torchacc_memory_stats)` of the caller.
    pub struct_size: usize,
    /// In use: by values, by the intermediates of programs, and by packed weights.
    pub allocated_bytes: u64,
    pub peak_allocated_bytes: u64,
    /// The same, with free memory that is kept for reuse. With an allocator of the program's own nothing is kept.
    pub reserved_bytes: u64,
    pub peak_reserved_bytes: u64,
}

// SAFETY: plain data; zero is a value of every field; the size is first.
unsafe impl Growing for torchacc_memory_stats {
    const NAME: &'static str = "torchacc_memory_stats";
}

/// Fills in `out` up to its `struct_size`, which the caller sets; fields that an older library does not know are 0. Waits for
/// nothing: sync first to include recorded operations. Errors: INVALID_ARGUMENT.
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

/// Resets both peaks to the present values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_reset_peak_memory(context: *mut torchacc_context) {
    quiet((), || {
        // SAFETY: NULL or a live context, says the header.
        if let Ok(context) = unsafe { borrow(context) } {
            context.inner.reset_peak_memory();
        }
    });
}

/// Limits the bytes that each program cut from now on takes besides its inputs: its intermediates, and results that are not
/// given the memory of an input. Values that do not fit are recomputed where they are read, or wait in the host's memory if they are a
/// GPU's, which takes time and changes no bit. A program for which that is not enough fails with OUT_OF_MEMORY, with a message that says how much it wants and at which
/// step, and the buffers that it was to update keep their values. 0 for no limit. Blocks until everything that was cut has run;
/// cuts nothing. Errors: UNSUPPORTED in a process that was forked after the context was used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_set_memory_limit(
    context: *mut torchacc_context,
    nbytes: u64,
) -> *mut torchacc_error {
    // SAFETY: a live context, says the header.
    boundary(|| unsafe { borrow(context)? }.inner.set_memory_limit(nbytes))
}

/// Gives memory that is kept for reuse back to the system, or to the device: free blocks, the memory that programs have for
/// intermediates, and packed weights. It is allocated again when it is needed, so this costs time, and helps only other users of
/// the memory. Blocks until everything that was cut has run; cuts nothing. Errors: UNSUPPORTED in a process that was forked
/// after the context was used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_trim(
    context: *mut torchacc_context,
) -> *mut torchacc_error {
    // SAFETY: a live context, says the header.
    boundary(|| unsafe { borrow(context)? }.inner.trim())
}
