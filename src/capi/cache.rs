//! What the caches of programs hold, and how look-ups went.

use super::boundary;
use super::context::torchacc_context;
use super::error::torchacc_error;
use super::handle::borrow;
use super::sized::{self, Growing};

/// What the caches of programs did since the last `torchacc_metrics_reset`, and what they hold now. May grow at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_cache_stats {
    /// `sizeof(torchacc_cache_stats)` of the caller.
    pub struct_size: usize,
    /// Runs of programs that were in memory.
    pub hits: u64,
    /// Runs of programs that were not: of these, compiled, made of a plan for other sizes, or read from disk (`disk_hits`).
    /// The others failed, or were padded to a program that was there.
    pub misses: u64,
    /// Programs compiled.
    pub compiles: u64,
    /// Programs made of a plan for other sizes, without compiling.
    pub carried_over: u64,
    /// Programs dropped from memory for others: the least recently used ones.
    pub evictions: u64,
    /// Traces that are expected to come again.
    pub known_traces: u64,
    /// Programs in memory now, and about how many bytes they and their keys take.
    pub programs: u64,
    pub program_bytes: u64,
    /// Programs read from the folder that another context or process had compiled.
    pub disk_hits: u64,
    /// Programs that this context removed there, to stay within `cache_limit`.
    pub disk_evictions: u64,
    /// Files that it removed there because they were no whole programs.
    pub disk_removed: u64,
    /// Programs that could not be stored.
    pub disk_errors: u64,
    /// Programs in the folder now, whoever stored them, and their bytes; 0 without a folder.
    pub disk_programs: u64,
    pub disk_bytes: u64,
}

// SAFETY: plain data; zero is a value of every field; the size is first.
unsafe impl Growing for torchacc_cache_stats {
    const NAME: &'static str = "torchacc_cache_stats";
}

/// Fills in `out`, whose `struct_size` is set, as far as it goes; what an older library does not know is 0. Looks at the files
/// of the folder, and waits for no operation. A trace counts once it has been launched: sync first for whole numbers.
/// Errors: INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_cache_stats(
    context: *mut torchacc_context,
    out: *mut torchacc_cache_stats,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY (here and below): as the header says.
        let stats = unsafe { borrow(context)? }.inner.cache_stats();
        let value = torchacc_cache_stats {
            struct_size: size_of::<torchacc_cache_stats>(),
            hits: stats.hits,
            misses: stats.misses,
            compiles: stats.compiles,
            carried_over: stats.carried_over,
            evictions: stats.evictions,
            known_traces: stats.known_traces,
            programs: stats.programs,
            program_bytes: stats.program_bytes,
            disk_hits: stats.disk_hits,
            disk_evictions: stats.disk_evictions,
            disk_removed: stats.disk_removed,
            disk_errors: stats.disk_errors,
            disk_programs: stats.disk_programs,
            disk_bytes: stats.disk_bytes,
        };
        unsafe { sized::write(out, &value) }
    })
}
