//! What happened and why: counters, programs, the log of compiles, cuts, CPU fallbacks and collectives, and what is too many of them.

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

/// What `torchacc_metrics` gives: a JSON list of objects with name, unit ("bytes", "ns", or "" for a number of things)
/// and doc; also in docs/metrics.md. Valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn torchacc_metric_docs() -> torchacc_str {
    quiet(torchacc_str::of(""), || torchacc_str::of(stats::docs()))
}

/// Counters and times since the last reset, and what there is now, as a flat JSON object of integers: see
/// `torchacc_metric_docs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_metrics(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::metrics) }
}

/// Sets the counters to 0 and the peak to what is live.
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
/// `steps`, how many it has; `input_bytes`, `result_bytes` and `arena_bytes`, what its inputs, the results that are given no
/// memory of inputs, and all between (but for what lies where results are
/// written later) take; `live`, at most 256 points (`step`, `bytes` of what lies between that are wanted then,
/// `operator`, `site`), of several steps the one that wants most; and at most 16 of the largest tensors `between` when most is
/// wanted (from step `first` to `last`), of the `results` and of the `inputs`: `type` ("f32[2,3]" or "scratch memory"),
/// `bytes`, and `operator` and `site` of what makes it, where something does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_memory_report(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::memory_report) }
}

/// The program that is being compiled just now. A JSON object, empty where there is none: `operations`, `site` (of the first),
/// `stage` ("graph", "plan", "code", "search" or "other sizes"), `elapsed_ns`, `expected_ns` (of the whole compile, estimated;
/// 0 while it is not known), `kernels` and `kernels_done` of them, where the backend compiles some. Waits for nothing.
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
/// - `compiles`, oldest first, at most 64: `number`, `at_ns` (since the library was first used), `took_ns`,
///   `operations`, `site` (of the first operation), `why`: "first"; "new" (no known trace begins with its operator);
///   "again" (its program was dropped from the cache); or "changed", with `change`, the first difference from the
///   nearest known trace: `operation` (its index), `operator`, `aspect` (operator, shape, dtype, layout, alias, scalar,
///   attribute, arguments, results, format, length, outputs or donation), `argument` (and `element`) or `result` (their
///   index), `old`, `new`, `site`, `old_site`, `text`, which says all that, and `advice`: what to do if it keeps coming.
///   `earlier_compiles` counts the others. Where the memory limit made it compute values again, `recomputed`: the `limit`,
///   `bytes_without` it and `bytes`, the estimated `time` (1 without), the number of `steps`, and the `largest` of them by
///   `operator`: `count`, `bytes` and `site`.
/// - `host_calls`: as `torchacc_host_call_report`.
/// - `cuts`: `cause` ("asked", "sync", "read", "limit" or "overwrite"), `count`, `site`; of a read also `value`, what was read, and
///   `value_site`, where it was computed.
/// - `collectives`, of each communicator the last 16, oldest first, whatever was reset: `communicator`, its name;
///   `number`, from 0 on; `name`, as an operator's; `tensor`, type and sizes of what this rank gave; `bytes`; `state`
///   ("running", "done" or "failed"); `at_ns` (as of compiles), `took_ns` (until now if it runs), `site`; of that time what
///   nothing else ran in, `exposed_ns`, and how many steps of its program lie between its start and where it is waited for,
///   `hidden_by`, of which the first and the last one come from `first_site` and `last_site`.
/// - `engines`, at most 64: programs for which the backend "auto" chose an `engine` ("cpu" or "openxla"): `operations`,
///   `site` (of the first), and where they were measured `first_ns` and `second_ns`, medians of a run on each.
/// - `products`: blocks of matrix products of f32 that were met, where it is measured what multiplies them fastest: `blocks`
///   (rows x terms x columns, and how the operands lie), and `by` what ("torchacc", "oneDNN" or "matrixmultiply").
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

/// Gives the line of a site that the locator gave: the same number for all sites on one line, itself a site on that line.
pub type torchacc_line_fn = Option<unsafe extern "C" fn(user: *mut c_void, site: u64) -> u64>;

/// Takes a warning about the line `site`. The text is valid during the call.
pub type torchacc_warn_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, message: torchacc_str, site: u64)>;

/// Sets who says which sites are one line, so that reports merge them and recompiles are counted by line, and who takes
/// warnings. Both are called without a lock, within cuts, reads, syncs and reports, by the thread that asked for them.
/// Without it every site is a line of its own and nobody is warned; `options.log` receives the same warnings, as messages of
/// the level WARNING, with or without it. Another call sets others. Neither may be NULL.
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

/// Begins a timeline of what the context does: recording, compiles, runs with their kernels, CPU fallbacks, memory. Until it
/// is stopped every kernel is timed, at some cost.
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
/// What is still running is missing: sync first. Sites are in `args.site`. The last 262144 events are kept;
/// `otherData.lost_events` counts those before. Without `torchacc_profile_start` before it the list is empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torchacc_profile_stop(
    context: *mut torchacc_context,
    out: *mut *mut torchacc_string,
) -> *mut torchacc_error {
    // SAFETY: as the header says.
    unsafe { text_of(context, out, Context::stop_profile) }
}

/// Something that took time during a timeline. May grow at the end. Texts are valid during the call that shows it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct torchacc_span {
    /// `sizeof(torchacc_span)` of the library.
    pub struct_size: usize,
    /// Of a kernel or CPU fallback: the operator.
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
    /// A JSON object. Of a kernel or CPU fallback: `kernel`, `step`, `bytes_read`, `bytes_written`, and lists of types
    /// ("f32[2,3]") `reads` and `writes`.
    pub details: torchacc_str,
}

/// Takes a span.
pub type torchacc_span_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, span: *const torchacc_span)>;

/// Ends the timeline as `torchacc_profile_stop` does, and shows its spans to `visit`, in the order in which they ended: for
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

/// Nanoseconds in which programs ran since the context was made; nothing resets it. What two events on a device say is the
/// difference: sync before each, so that what was recorded before has run.
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

/// How many recompiles one line may cause before a warning, or an error in strict mode. 8 at first, or
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

/// Which of the `TORCHACC_STRICT_*`, added up, are errors: code STRICT, from the next cut, read or sync after they
/// happened. What the error is about has run; a value that a failed call did not give can be read again. At first what
/// `TORCHACC_STRICT` says, else none.
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
