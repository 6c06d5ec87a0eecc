//! What is measured on the way, and what is reported of it.

use super::breakdown::{Phase, SAMPLE};
use super::clock::now;
use super::compile::CompiledTrace;
use super::histogram::Histogram;
use super::json::Object;
use super::profile::{Span, Timed};
use super::stats::Snapshot;
use super::{Context, Shared};
use crate::backend::memory;
use crate::cache::disk::Disk;
use crate::error::Result;
use crate::trace::Closed;
use std::sync::atomic::Ordering::Relaxed;

impl Context {
    /// When recording an operation began, if it is one whose time is measured.
    pub(super) fn begin_sample(&self) -> Option<u64> {
        self.shared.stats.recorded_ops.get().is_multiple_of(SAMPLE).then(now)
    }

    /// The operation is recorded, as the `length`-th of its trace.
    pub(super) fn end_sample(&self, began: Option<u64>, length: usize) {
        if length == 1 {
            self.shared.breakdown.begin_trace();
        }
        if let Some(began) = began {
            self.shared.breakdown.sample(now() - began);
        }
    }

    /// A trace of so many operations is about to be closed.
    pub(super) fn end_of_trace(&self, operations: usize, full: bool) {
        let (begin, end) = self.shared.breakdown.end_trace();
        if full {
            let last = self.shared.last_step.swap(end, Relaxed);
            if last != 0 {
                self.shared.step_times.add(end - last);
            }
        }
        if self.shared.profile.is_active() {
            let details = Object::default().raw("operations", operations).raw("full_cut", full);
            let span = Span { name: "record", category: "trace", begin, end, site: 0, details };
            self.shared.profile.span(span);
        }
    }

    /// In a forked process there is nobody to wait for.
    fn wait_for_tail(&self) {
        if self.launcher.check_process().is_ok() {
            self.shared.tail.wait();
        }
    }

    /// All counters and times, but for those of the folder on disk.
    fn snapshot(&self) -> Snapshot {
        self.wait_for_tail();
        let shared = &self.shared;
        let (live_buffers, known_traces) = {
            let trace = self.trace.lock_to_release();
            (trace.live_buffers() as u64, trace.known_traces() as u64)
        };
        let memory = shared.backend.pool().stats();
        let engine = shared.backend.engine_counts();
        let percentiles = |times: &Histogram| [50, 90, 99].map(|percent| times.percentile(percent));
        let mut all = Snapshot {
            live_buffers,
            known_traces,
            programs: shared.cache.len() as u64,
            program_bytes: shared.cache.bytes() as u64,
            evictions: shared.cache.evicted(),
            live_bytes: memory.live_bytes,
            peak_bytes: memory.peak_bytes,
            pool_bytes: memory.pool_bytes,
            engine_runs: engine.runs,
            engine_compiles: engine.compiled,
            engine_loads: engine.loaded,
            ..shared.stats.snapshot()
        };
        [all.compile_p50_ns, all.compile_p90_ns, all.compile_p99_ns] =
            percentiles(&shared.compile_times);
        [all.step_p50_ns, all.step_p90_ns, all.step_p99_ns] = percentiles(&shared.step_times);
        shared.breakdown.measure(&mut all);
        all
    }

    /// A flat JSON object of integers.
    pub fn metrics(&self) -> String {
        self.snapshot().json()
    }

    /// Bytes of memory for values and programs. What a backend does not take from its pool is not among them.
    pub fn memory(&self) -> memory::Stats {
        self.wait_for_tail();
        self.shared.backend.pool().stats()
    }

    /// Starts measuring the peaks again.
    pub fn reset_peak_memory(&self) {
        self.wait_for_tail();
        self.shared.backend.pool().reset_peak();
    }

    /// Gives back to the system, or the device, what is kept to be used again: free blocks, the memory for intermediates, and
    /// what backends have packed. Waits for what was cut; cuts nothing. Errors: as a cut in a forked process.
    pub fn trim(&self) -> Result<()> {
        let storages = self.trace.lock()?.storages();
        self.launcher.trim()?;
        storages.iter().for_each(|storage| storage.trim());
        drop(storages);
        self.shared.backend.pool().trim(0);
        Ok(())
    }

    /// What the caches hold, and how look-ups went since the last reset. Reads the folder on disk.
    pub fn cache_stats(&self) -> Snapshot {
        let (disk_programs, disk_bytes) = self.shared.disk.as_ref().map_or((0, 0), Disk::usage);
        Snapshot { disk_programs, disk_bytes, ..self.snapshot() }
    }

    pub fn reset_metrics(&self) {
        self.wait_for_tail();
        let shared = &self.shared;
        shared.stats.reset();
        shared.cache.forget_evicted();
        shared.explain.reset();
        shared.fullest.reset();
        shared.breakdown.reset();
        shared.compile_times.reset();
        shared.step_times.reset();
        shared.last_step.store(0, Relaxed);
        shared.backend.pool().reset_peak();
    }

    /// Begins a timeline.
    pub fn start_profile(&self) {
        self.shared.profile.start();
    }

    /// Ends it: a JSON object for viewers of Chrome's trace format.
    pub fn stop_profile(&self) -> String {
        self.shared.profile.stop()
    }

    /// Ends it: what took time goes to `visit`. Returns how many events were lost.
    pub fn visit_profile(&self, visit: impl FnMut(Timed)) -> u64 {
        self.shared.profile.stop_with(visit)
    }

    /// Nanoseconds in which programs ran, since the context was made.
    pub fn busy_ns(&self) -> u64 {
        self.shared.busy.get()
    }
}

/// While it lives, the launch thread is in a phase.
pub struct Stay<'a> {
    shared: &'a Shared,
    phase: Phase,
    before: Phase,
    begin: u64,
}

impl Shared {
    /// For the launch thread alone.
    pub fn stay(&self, phase: Phase) -> Stay<'_> {
        let (before, begin) = self.breakdown.enter(phase);
        Stay { shared: self, phase, before, begin }
    }

    /// Counts a compile for a trace, begun at `start`, and finds out why it had to be; not for the program of a `bucket`:
    /// these were asked for.
    pub fn compiled(
        &self,
        closed: &Closed,
        start: u64,
        made: Option<&CompiledTrace>,
        bucket: bool,
    ) {
        let took = now() - start;
        self.stats.compiles.add(1);
        self.stats.plans.add(made.is_some() as u64);
        self.stats.compile_ns.add(took);
        self.compile_times.add(took);
        if bucket {
            return self.explain.loaded(closed.trace(), &closed.outputs);
        }
        if self.explain.compiled(closed.trace(), &closed.outputs, start, took) {
            self.stats.recompiles.add(1);
        }
        if let Some(recomputed) = made.and_then(|program| program.recomputed.as_deref()) {
            self.explain.recomputed(recomputed.clone());
        }
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        let (_, end) = self.shared.breakdown.enter(self.before);
        if self.shared.profile.is_active() {
            let (name, begin) = (self.phase.name(), self.begin);
            let details = Object::default();
            self.shared.profile.span(Span {
                name,
                category: "phase",
                begin,
                end,
                site: 0,
                details,
            });
        }
    }
}
