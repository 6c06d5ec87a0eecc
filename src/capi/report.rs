//! Reports: counters, programs, the log of compiles, cuts, CPU fallbacks and collectives, and limits for them.

use super::constants::torchacc_strict;
use super::context::{User, torchacc_context, torchacc_drop_fn};
use super::error::{torchacc_error, torchacc_string};
use super::handle::borrow;
use super::{bad, boundary, put, quiet, torchacc_str};
use crate::op::host;
use crate::runtime::observe::stats;
use crate::runtime::{Context, Observer};
use std::ffi::c_void;
use std::sync::Arc;

/// # Safety
/// As the functions below.
unsafe fn text_of(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
    text: impl FnOnce(&Context) -> String,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        let context = unsafe { borrow(context)? };
        if out.is_null() {
            return Err(bad("the output pointer is NULL"));
        }
        // SAFETY: writable, says the header.
        unsafe { put(out, torchacc_string::owned(text(&context.inner))) }
    })
}

/// Describes the metrics of `torchacc_metrics`: a JSON list of objects with name, unit ("bytes", "ns", or "" for a plain number)
/// and doc; also in docs/metrics.md. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn torchacc_metric_docs() -> torchacc_str {
    quiet(torchacc_str::of(""), || torchacc_str::of(stats::docs()))
}

/// Counters and times since the last reset, and present amounts, as a flat JSON object of integers: see `torchacc_metric_docs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_metrics(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::metrics) }
}

/// Sets the counters to 0 and the peak to the memory that is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_metrics_reset(context: *mut torchacc_context) {
    quiet((), || {
        // SAFETY: NULL or a live context, says the header.
        if let Ok(context) = unsafe { borrow(context) } {
            context.inner.reset_metrics();
        }
    });
}

/// Graph and plan of the last program that was compiled, as text for people; empty before the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_last_program(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::last_program) }
}

/// Memory of the program that takes most of it, of those that ran since the last reset. A JSON object, empty before the first:
/// `steps`, their number; `input_bytes`, `result_bytes` and `arena_bytes`, the sizes of its inputs, of the results that are not
/// given the memory of inputs, and of all intermediates (except those that lie where results are written later); `live`, at most
/// 256 points (`step`, `bytes` of the intermediates needed then, `operator`, `site`), of several steps the one that needs most;
/// and at most 16 of the largest tensors `between` at the peak (from step `first` to `last`), of the `results` and of the
/// `inputs`: `type` ("f32[2,3]" or "scratch memory"), `bytes`, and `operator` and `site` of the step that makes it, where there
/// is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_memory_report(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::memory_report) }
}

/// The program that is being compiled at the moment. A JSON object, empty if there is none: `operations`, `site` (of the first),
/// `stage` ("graph", "plan", "code", "search" or "other sizes"), `elapsed_ns`, `expected_ns` (of the whole compile, estimated; 0
/// while it is not known), `kernels` and `kernels_done` of them, where the backend compiles some. Waits for nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_progress(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::progress) }
}

/// Host operators that ran since the last reset: a JSON list of objects with name, count,
/// time_ns and site.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_host_call_report(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::fallbacks) }
}

/// Compiles, CPU fallbacks and cuts since the last reset, each with its reason and call site. A JSON object:
///
/// - `compiles`, oldest first, at most 64: `number`, `at_ns` (since the library was first used), `took_ns`, `operations`, `site`
///   (of the first operation), `why`: "first"; "new" (no known trace begins with its operator); "again" (its program was dropped
///   from the cache); or "changed", with `change`, the first difference from the nearest known trace: `operation` (its index),
///   `operator`, `aspect` (operator, shape, dtype, layout, alias, scalar, attribute, arguments, results, format, length, outputs
///   or donation), `argument` (and `element`) or `result` (their index), `old`, `new`, `site`, `old_site`, `text`, which states
///   all of this, and `advice` for a change that keeps recurring. `earlier_compiles` counts the others. If values are
///   recomputed or wait on the host because of the memory limit, `recomputed`: the `limit`, `bytes_without` it and `bytes`, the
///   estimated `time` (1 without), the number of `steps` that run again, and the `largest` of them by `operator`: `count`, `bytes`
///   and `site`; the number of `offloads`, values that wait on the host, `offloaded_bytes`, and `largest_offloads`, alike.
/// - `host_calls`: as `torchacc_host_call_report`.
/// - `cuts`: `cause` ("asked", "sync", "read", "limit" or "overwrite"), `count`, `site`; for a read also `value`, which
///   describes the value read, and `value_site`, where it was computed.
/// - `collectives`, of each communicator the last 16, oldest first, whatever was reset: `communicator`, its name; `number`, from
///   0 on; `name`, as an operator's; `tensor`, type and sizes of the tensor from this rank; `bytes`; `state` ("running", "done"
///   or "failed"); `at_ns` (as for compiles), `took_ns` (until now if it runs), `site`; `exposed_ns`, the part of that time in
///   which nothing else ran, and `hidden_by`, the number of steps of its program between its start and the point where it is
///   waited for, of which the first and the last one come from `first_site` and `last_site`.
/// - `engines`, at most 64: programs for which the backend "auto" chose an `engine` ("cpu" or "openxla"): `operations`, `site`
///   (of the first), and where they were measured `first_ns` and `second_ns`, median times of a run on each.
/// - `products`: blocks of matrix products of f32 that occurred, where the fastest implementation is found by measuring:
///   `blocks` (rows x terms x columns, and the layouts of the operands), and `by`, the implementation ("torchacc", "oneDNN" or
///   "matrixmultiply").
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_explain(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::explain) }
}

/// The call site of the step that this thread runs, as the locator gave it when the step was first recorded: for functions
/// that the library calls for a step (host operators, collectives). 0 elsewhere, and without a locator.
#[unsafe(no_mangle)]
pub extern "C" fn torchacc_running_site() -> u64 {
    host::running_site()
}

/// Maps a site that the locator gave to its line: the same number for all sites on one line, itself a site on that line.
pub type torchacc_line_fn = Option<unsafe extern "C" fn(user: *mut c_void, site: u64) -> u64>;

/// Receives a warning about the line `site`. The text is valid during the call.
pub type torchacc_warn_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, message: torchacc_str, site: u64)>;

/// Sets the function that maps sites to lines, by which reports merge sites and recompiles are counted, and the one that
/// receives warnings. Both are called without a lock, within cuts, reads, syncs and reports, by the thread that asked for them.
/// Without an observer every site is a line of its own and nobody is warned; `options.log` receives the same warnings, as
/// messages of the level WARNING, with or without it. A second call replaces both. Neither may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_context_set_observer(
    context: *mut torchacc_context,
    line: torchacc_line_fn,
    warn: torchacc_warn_fn,
    user: *mut c_void,
    drop: torchacc_drop_fn,
) -> *mut torchacc_error {
    let user = Arc::new(User { pointer: user, drop });
    boundary(move || {
        // SAFETY: a live context, says the header.
        let context = unsafe { borrow(context)? };
        let line = line.ok_or_else(|| bad("line is NULL"))?;
        let warn = warn.ok_or_else(|| bad("warn is NULL"))?;
        let other = user.clone();
        context.inner.set_observer(Observer {
            // SAFETY (here and below): called as the header says.
            line: Box::new(move |site| unsafe {
                let user: &User = &user;
                line(user.pointer, site)
            }),
            warn: Box::new(move |message, site| unsafe {
                let user: &User = &other;
                warn(user.pointer, torchacc_str::of(message), site);
            }),
        });
        Ok(())
    })
}

/// Begins a timeline of the context's work: recording, compiles, runs with their kernels, CPU fallbacks, memory. Until it is
/// stopped every kernel is timed, at some cost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_profile_start(
    context: *mut torchacc_context,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        unsafe { borrow(context)? }.inner.start_profile();
        Ok(())
    })
}

/// Ends the timeline and gives it in Chrome's trace format, which Perfetto reads too: a JSON object with `traceEvents`.
/// Work that is still running is missing: sync first. Sites are in `args.site`. The last 262144 events are kept;
/// `otherData.lost_events` counts those before. Without `torchacc_profile_start` before it the list is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_profile_stop(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::stop_profile) }
}

/// An interval of a timeline. May grow at the end. Texts are valid during the call that passes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_span {
    /// `sizeof(torchacc_span)` of the library.
    pub struct_size: usize,
    /// For a kernel or CPU fallback: the operator.
    pub name: torchacc_str,
    /// "trace", "phase", "compile", "kernel" or "CPU fallback".
    pub category: torchacc_str,
    /// Nanoseconds since `torchacc_profile_start`.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Number of the thread, in the order in which threads were first seen.
    pub thread: u64,
    /// 0 for none.
    pub site: u64,
    /// A JSON object. For a kernel or CPU fallback: `kernel`, `step`, `bytes_read`, `bytes_written`, and lists of types
    /// ("f32[2,3]") `reads` and `writes`.
    pub details: torchacc_str,
}

/// Receives a span.
pub type torchacc_span_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, span: *const torchacc_span)>;

/// Ends the timeline as `torchacc_profile_stop` does, and passes its spans to `visit`, in the order in which they ended: for
/// another profiler, which has a clock and a format of its own. `lost`, which may be NULL, becomes the number of events that
/// there was no room for. No lock is held meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_profile_visit(
    context: *mut torchacc_context,
    visit: torchacc_span_fn,
    user: *mut c_void,
    lost: *mut u64,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        let context = unsafe { borrow(context)? };
        let visit = visit.ok_or_else(|| bad("visit is NULL"))?;
        let number = context.inner.visit_profile(|timed| {
            let span = torchacc_span {
                struct_size: size_of::<torchacc_span>(),
                name: torchacc_str::of(timed.name),
                category: torchacc_str::of(timed.category),
                begin_ns: timed.begin,
                end_ns: timed.end,
                thread: timed.thread,
                site: timed.site,
                details: torchacc_str::of(timed.details),
            };
            // SAFETY: called as the header says.
            unsafe { visit(user, &span) }
        });
        if lost.is_null() {
            return Ok(());
        }
        // SAFETY: writable, says the header.
        unsafe { put(lost, number) }
    })
}

/// Nanoseconds in which programs ran since the context was made; nothing resets it. The time between two events on a device is
/// the difference: sync before each, so that earlier operations have run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_busy_ns(
    context: *mut torchacc_context,
    out: *mut u64,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        let context = unsafe { borrow(context)? };
        if out.is_null() {
            return Err(bad("the output pointer is NULL"));
        }
        // SAFETY: writable, says the header.
        unsafe { put(out, context.inner.busy_ns()) }
    })
}

/// Sets how many recompiles one line may cause before a warning, or an error in strict mode. Initially 8, or
/// `TORCHACC_RECOMPILE_LIMIT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_set_recompile_limit(
    context: *mut torchacc_context,
    limit: u64,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        unsafe { borrow(context)? }.inner.set_recompile_limit(limit);
        Ok(())
    })
}

/// Sets which of the `TORCHACC_STRICT_*`, added up, are errors: code STRICT, from the next cut, read or sync after they
/// happened. The operation that the error is about has run; a value that a failed call did not give can be read again. Initially
/// those of `TORCHACC_STRICT`, else none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_set_strict(
    context: *mut torchacc_context,
    what: torchacc_strict,
) -> *mut torchacc_error {
    boundary(|| {
        // SAFETY: a live context, says the header.
        let context = unsafe { borrow(context)? };
        if what > 3 {
            return Err(bad(format!("{what} is no sum of TORCHACC_STRICT_*")));
        }
        context.inner.set_strict(what & 1 != 0, what & 2 != 0);
        Ok(())
    })
}
