//! Measurements while operations are recorded, and reports of all measurements.

use super::Context;
use crate::backend::memory;
use crate::cache::disk::Disk;
use crate::error::Result;
use crate::runtime::observe::breakdown::SAMPLE;
use crate::runtime::observe::clock::now;
use crate::runtime::observe::histogram::Histogram;
use crate::runtime::observe::json::Object;
use crate::runtime::observe::profile::{Span, Timed};
use crate::runtime::observe::stats::Snapshot;
use std::sync::atomic::Ordering::Relaxed;

impl Context {
    /// When recording an operation began, if its time is sampled.
    pub(super) fn begin_sample(&self) -> Option<u64> {
        self.shared.observed.stats.recorded_ops.get().is_multiple_of(SAMPLE).then(now)
    }

    /// Notes that the operation is recorded, as the `length`-th of its trace.
    pub(super) fn end_sample(&self, began: Option<u64>, length: usize) {
        if length == 1 {
            self.shared.observed.breakdown.begin_trace();
        }
        if let Some(began) = began {
            self.shared.observed.breakdown.sample(now() - began);
        }
    }

    /// Notes that a trace of `operations` operations is about to be closed.
    pub(super) fn end_of_trace(&self, operations: usize, full: bool) {
        let (begin, end) = self.shared.observed.breakdown.end_trace();
        if full {
            let last = self.shared.observed.last_step.swap(end, Relaxed);
            if last != 0 {
                self.shared.observed.step_times.add(end - last);
            }
        }
        if self.shared.observed.profile.is_active() {
            let details = Object::default().raw("operations", operations).raw("full_cut", full);
            let span = Span { name: "record", category: "trace", begin, end, site: 0, details };
            self.shared.observed.profile.span(span);
        }
    }

    /// Does not wait in a forked process, where nothing runs.
    fn wait_for_tail(&self) {
        if self.launcher.check_process().is_ok() {
            self.shared.observed.tail.wait();
        }
    }

    /// All counters and times, except for those of the folder on disk.
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
            ..shared.observed.stats.snapshot()
        };
        [all.compile_p50_ns, all.compile_p90_ns, all.compile_p99_ns] =
            percentiles(&shared.observed.compile_times);
        [all.step_p50_ns, all.step_p90_ns, all.step_p99_ns] =
            percentiles(&shared.observed.step_times);
        shared.observed.breakdown.measure(&mut all);
        all
    }

    /// A flat JSON object of integers.
    pub fn metrics(&self) -> String {
        self.snapshot().json()
    }

    /// Bytes of memory for values and programs, without memory that a backend does not take from its pool.
    pub fn memory(&self) -> memory::Stats {
        self.wait_for_tail();
        self.shared.backend.pool().stats()
    }

    /// Starts measuring the peaks again.
    pub fn reset_peak_memory(&self) {
        self.wait_for_tail();
        self.shared.backend.pool().reset_peak();
    }

    /// Gives memory that is kept for reuse back to the system, or the device: free blocks, the memory for intermediates, and
    /// data that backends have packed. Waits for programs that were cut; cuts nothing. Errors: as a cut in a forked process.
    pub fn trim(&self) -> Result<()> {
        let storages = self.trace.lock()?.storages();
        self.launcher.trim()?;
        storages.iter().for_each(|storage| storage.trim());
        drop(storages);
        self.shared.backend.pool().trim(0);
        Ok(())
    }

    /// Contents of the caches, and counts of look-ups since the last reset. Reads the folder on disk.
    pub fn cache_stats(&self) -> Snapshot {
        let (disk_programs, disk_bytes) = self.shared.disk.as_ref().map_or((0, 0), Disk::usage);
        Snapshot { disk_programs, disk_bytes, ..self.snapshot() }
    }

    pub fn reset_metrics(&self) {
        self.wait_for_tail();
        let shared = &self.shared;
        shared.observed.stats.reset();
        shared.cache.forget_evicted();
        shared.observed.explain.reset();
        shared.observed.fullest.reset();
        shared.observed.breakdown.reset();
        shared.observed.compile_times.reset();
        shared.observed.step_times.reset();
        shared.observed.last_step.store(0, Relaxed);
        shared.backend.pool().reset_peak();
    }

    /// Begins a timeline.
    pub fn start_profile(&self) {
        self.shared.observed.profile.start();
    }

    /// Ends the timeline, and returns it as a JSON object for viewers of Chrome's trace format.
    pub fn stop_profile(&self) -> String {
        self.shared.observed.profile.stop()
    }

    /// Ends the timeline, and passes its spans to `visit`. Returns the number of events that were lost.
    pub fn visit_profile(&self, visit: impl FnMut(Timed)) -> u64 {
        self.shared.observed.profile.stop_with(visit)
    }

    /// Nanoseconds in which programs ran, since the context was made.
    pub fn busy_ns(&self) -> u64 {
        self.shared.observed.busy.get()
    }

    /// The JSON of `torchacc_progress`.
    pub fn progress(&self) -> String {
        self.shared.observed.progress.json(self.shared.backend.kernels_compiled())
    }

    /// The JSON of `torchacc_memory_report`.
    pub fn memory_report(&self) -> String {
        self.shared.observed.fullest.json()
    }

    /// Sets the bytes that each program cut from now on may take besides its inputs: its intermediates, and results that are not
    /// given the memory of inputs; 0 for no limit. Values are recomputed rather than kept, or wait on a GPU's host, where that is needed. Waits for
    /// programs that were cut. Errors: as a cut in a forked process.
    pub fn set_memory_limit(&self, limit: u64) -> Result<()> {
        self.launcher.limit_memory(limit)
    }
}
