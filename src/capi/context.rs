//! Contexts: options, cut, wait, introspection.

use super::constants::torchacc_log_level;
use super::error::{torchacc_error, torchacc_string};
use super::handle::{self, borrow};
use super::release::release;
use super::sized::{self, Growing};
use super::{bad, be_silent, boundary, put, quiet, torchacc_str};
use crate::error::Result;
use crate::runtime::Context;
use crate::runtime::observe::devices::devices;
use crate::runtime::options::{Asked, Options};
use std::ffi::c_void;
use std::sync::Arc;

/// A trace, a cache, a launch thread and a backend. Shared. Every function that takes one may be called from any thread.
#[repr(C)]
pub struct torchacc_context {
    pub(super) inner: Arc<Context>,
}

handle::kind!(torchacc_context, b"ct");

/// Options of a context. Zero everything but `struct_size` for the defaults. May grow at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_options {
    /// `sizeof(torchacc_options)` of the caller.
    pub struct_size: usize,
    /// "cpu"; "cuda" (an NVIDIA GPU: of several processes on a machine each uses that of its `LOCAL_RANK`; "cuda:1" is the
    /// second that the driver shows); "openxla" (the CPU, and an OpenXLA plugin for everything that it can compute); "auto" (the
    /// CPU, and for programs that run often the faster of the two); "reference"; or "null". Empty for the environment's
    /// `TORCHACC_BACKEND`, else a GPU that can be used, else "cpu": a GPU that then does not open is a warning (to `log`, or
    /// `torchacc_context_set_observer`). A backend that was named and cannot be used is an error.
    pub backend: torchacc_str,
    /// Threads to compute with, at most 4096; 0 for `TORCHACC_NUM_THREADS`, else all cores.
    pub num_threads: u32,
    /// Number of operations after which a trace is cut automatically; 0 for `TORCHACC_TRACE_LIMIT`, else 20000.
    pub trace_limit: u64,
    /// Folders to search for vendors' libraries, separated by ':'; empty for none. For oneDNN (`libdnnl.so.3`),
    /// `TORCHACC_ONEDNN` (a file or "off") takes precedence over them, and they over this library's own folder and the system's.
    /// For CUDA (NVRTC, cuBLASLt), `TORCHACC_CUDA` (folders separated by ':') comes before them, and the toolkit's folder
    /// (`CUDA_HOME`, else /usr/local/cuda) and the system's after them.
    pub library_path: torchacc_str,
    /// Folder to keep compiled programs in for other processes, or "off"; empty for `TORCHACC_CACHE_DIR`, else the folder
    /// torchacc in the user's cache folder (`XDG_CACHE_HOME`, else `~/.cache`).
    pub cache_folder: torchacc_str,
    /// Bytes that the programs there may take; the kernels of the backend cuda, the modules compiled by OpenXLA, and the
    /// measurements of matrix products may each take as many again. The least recently used are removed. 0 for
    /// `TORCHACC_CACHE_LIMIT`, else 1 GiB.
    pub cache_limit: u64,
    /// Bytes of dropped and replaced inputs that a trace may keep before it is cut automatically; 0 for `TORCHACC_TRACE_BYTES`,
    /// else 1 GiB.
    pub trace_bytes: u64,
    /// Receives messages; NULL for none. `log_user` belongs to the library from the call on, on an error too (except for a bad
    /// `struct_size`).
    pub log: torchacc_log_fn,
    pub log_user: *mut c_void,
    pub log_drop: torchacc_drop_fn,
    /// How to pad sizes that vary, so that one program serves them: "exact" (no padding), "multiple:64", "geometric:1.25:64"
    /// (each bucket is that ratio times the one before, rounded up to a multiple), "list:128,256,512" or "learned:8" (that many
    /// buckets, for the sizes seen). Empty for `TORCHACC_BUCKETS`, else "exact". Results are those of the exact sizes except for
    /// the order of sums. A trace that cannot be padded is compiled for its own sizes; the metric padding_refused counts these.
    pub bucket_policy: torchacc_str,
    /// 1: the way in which results are computed depends on no measurement, so their bits are the same in every process on equal
    /// machines. 0: `TORCHACC_DETERMINISTIC`, else matrix products (on the CPU those of f32) are computed by the implementation
    /// that was fastest when the first one like them was run (which is kept in the cache folder; on the CPU nothing is measured
    /// without one), and on the backend cuda gradients of attention in half types, which cuDNN then computes, differ in their
    /// last bits from run to run. Except for these, within a context, and on "cpu" for any number of threads, equal steps give
    /// equal bits either way.
    pub deterministic: u32,
    /// As `torchacc_context_set_memory_limit`; 0 for `TORCHACC_MEMORY_LIMIT` (with a suffix K, M or G for binary units), else
    /// none.
    pub memory_limit: u64,
}

/// Receives a message: `level` is one of `TORCHACC_LOG_*`, `site` the call site that it is about (0 for none). The text is valid
/// during the call. Called without a lock within cuts, reads and syncs, by the thread that asked for them; must not unwind.
pub type torchacc_log_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        level: torchacc_log_level,
        message: torchacc_str,
        site: u64,
    ),
>;

// SAFETY: plain data; NULL and zero are values of every field; the size is first.
unsafe impl Growing for torchacc_options {
    const NAME: &'static str = "torchacc_options";
}

/// # Safety
/// The texts are readable for as long as the result is used.
unsafe fn asked(raw: &torchacc_options) -> Result<Asked<'_>> {
    // SAFETY (all): the caller's promise.
    Ok(Asked {
        backend: unsafe { raw.backend.text()? },
        num_threads: raw.num_threads as usize,
        trace_limit: raw.trace_limit as usize,
        trace_bytes: raw.trace_bytes as usize,
        library_path: unsafe { raw.library_path.text()? },
        cache_folder: unsafe { raw.cache_folder.text()? },
        cache_limit: raw.cache_limit as usize,
        bucket_policy: unsafe { raw.bucket_policy.text()? },
        deterministic: raw.deterministic != 0,
        memory_limit: raw.memory_limit,
    })
}

/// Makes a context. Starts no thread and takes no memory before the first operation runs; the backend cuda, and the search for a
/// GPU where none is named, start the driver. With `TORCHACC_WATCHDOG=60`, whenever nothing of a program has ended for 60
/// seconds, a thread reports on the error stream and to `log` what runs and where all threads are, and everything goes on; with
/// `60,abort` the process then ends.
/// Errors: INVALID_ARGUMENT for an unknown backend or a bad option, UNSUPPORTED for a GPU that cannot be used (the message says
/// why, and how to proceed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_new(
    options: *const torchacc_options,
    out: *mut *mut torchacc_context,
) -> *mut torchacc_error {
    boundary(|| {
        be_silent();
        // SAFETY (here and below): readable as the header says.
        let raw = unsafe { sized::read(options)? };
        let user = User { pointer: raw.log_user, drop: raw.log_drop };
        let inner = Context::new(Options::resolve(unsafe { asked(&raw)? })?)?;
        if let Some(log) = raw.log {
            inner.set_log(Box::new(move |level, message, site| {
                let user: &User = &user;
                unsafe { log(user.pointer, level as u32, torchacc_str::of(message), site) }
            }));
        }
        let context = handle::give(torchacc_context { inner });
        // SAFETY: writable, says the header; on failure the new context is released.
        unsafe { put(out, context).inspect_err(|_| handle::release(context)) }
    })
}

/// The devices that contexts can compute on, as a JSON list of objects. Each has `backend`, its name in
/// `torchacc_options.backend`; "cpu" also has the vector `instructions` that it uses ("avx512"); each NVIDIA GPU that the driver
/// shows its `name` and compute `capability` ("9.0"); without a driver one object with the backend "cuda" says why it is
/// `missing`. `library_path` as in the options. Starts NVIDIA's driver, but no context of its own.
/// Errors: INVALID_ARGUMENT for an environment variable with an invalid value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_devices(
    library_path: torchacc_str,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    boundary(|| {
        be_silent();
        if out.is_null() {
            return Err(bad("the output pointer is NULL"));
        }
        // SAFETY (here and below): readable and writable, says the header.
        let list = devices(unsafe { library_path.text()? })?;
        unsafe { put(out, torchacc_string::owned(list)) }
    })
}

/// Adds an owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_retain(
    context: *mut torchacc_context,
) -> *mut torchacc_context {
    // SAFETY: NULL or a live context, says the header.
    quiet(std::ptr::null_mut(), || unsafe { handle::retain(context) })
}

/// Removes an owner. Buffers keep their context alive. The last one blocks until everything that was cut has run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_release(context: *mut torchacc_context) {
    // SAFETY: NULL or a live context whose owner gives it up, says the header.
    quiet((), || unsafe { handle::release(context) });
}

/// Returns the call site in the program that is recording: any number but 0. Must not call this library.
pub type torchacc_locate_fn = Option<unsafe extern "C" fn(user: *mut c_void) -> u64>;

/// Called when the user pointer that it came with is no longer needed.
pub type torchacc_drop_fn = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// A caller's pointer with its destructor.
pub(super) struct User {
    pub pointer: *mut c_void,
    pub drop: torchacc_drop_fn,
}

// SAFETY: the header says that callbacks run on any thread; the pointer is only passed to them.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl Drop for User {
    fn drop(&mut self) {
        if self.drop.is_some() {
            let raw = User { pointer: self.pointer, drop: self.drop.take() };
            release(move || raw.give_back());
        }
    }
}

impl User {
    fn give_back(mut self) {
        if let Some(drop) = self.drop.take() {
            // SAFETY: the caller supplied both for this purpose; it is called once.
            unsafe { drop(self.pointer) };
        }
    }
}

/// Sets the function that is asked for the call site of a recorded operation: on the recording thread, without a lock, and only
/// at call sites not seen before. A second call replaces the function, and drops the first one's `user`. Errors carry its result
/// (`torchacc_error_site`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_set_locator(
    context: *mut torchacc_context,
    locate: torchacc_locate_fn,
    user: *mut c_void,
    drop: torchacc_drop_fn,
) -> *mut torchacc_error {
    let user = User { pointer: user, drop };
    boundary(move || {
        // SAFETY: a live context, says the header.
        let context = unsafe { borrow(context)? };
        let locate = locate.ok_or_else(|| bad("locate is NULL"))?;
        // SAFETY: called as the header says.
        context.inner.set_locator(Box::new(move || unsafe {
            let user: &User = &user;
            locate(user.pointer)
        }));
        Ok(())
    })
}

/// Seeds the generator that `TORCHACC_ARG_RANDOM` draws from: the same seed, operations and sizes give the same numbers, on
/// any number of threads. A new context begins with seed 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_seed(
    context: *mut torchacc_context,
    seed: u64,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        unsafe { borrow(context)? }.inner.seed(seed);
        Ok(())
    })
}

/// Closes the trace and hands it to the launch thread. Blocks only while several programs are queued there.
/// Errors: STRICT; those of the operations come with a read or sync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_cut(context: *mut torchacc_context) -> *mut torchacc_error {
    // SAFETY: a live context, says the header.
    boundary(|| unsafe { borrow(context)? }.inner.cut())
}

/// Cuts, waits for everything, and returns every failure that no read and no sync has returned yet, including those of results
/// that were released unread: as one error, the first, which is the cause as far as is known, with a message that contains them
/// all. Blocks. Errors: those of all operations; STRICT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_sync(context: *mut torchacc_context) -> *mut torchacc_error {
    // SAFETY: a live context, says the header.
    boundary(|| unsafe { borrow(context)? }.inner.sync())
}

/// Marks the present moment: gives a number for `torchacc_is_done`. Records nothing, cuts nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_mark(
    context: *mut torchacc_context,
    out: *mut u64,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        let mark = unsafe { borrow(context)? }.inner.mark()?;
        // SAFETY: writable, says the header.
        unsafe { super::put(out, mark) }
    })
}

/// Whether everything that was recorded before a mark has run, whether or not it failed. Never blocks: cuts if some of it is
/// still in the trace, so that repeated calls eventually give true. Errors: UNSUPPORTED in a process forked after the context
/// was used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_is_done(
    context: *mut torchacc_context,
    mark: u64,
    out: *mut bool,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        let done = unsafe { borrow(context)? }.inner.is_done(mark)?;
        // SAFETY: writable, says the header.
        unsafe { super::put(out, done) }
    })
}
