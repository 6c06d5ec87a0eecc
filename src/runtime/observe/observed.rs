//! All counts, times and records of a context's work, and the events that add to them.

use super::breakdown::{Breakdown, Phase};
use super::clock::now;
use super::dump::Dump;
use super::explain::Explain;
use super::failures::{Concerns, Failures};
use super::histogram::Histogram;
use super::json::Object;
use super::limits::Limits;
use super::memory_report::Fullest;
use super::profile::{Profile, Span};
use super::progress::Progress;
use super::recomputed::Recomputed;
use super::stats::{Counter, Stats};
use super::tail::Tail;
use super::watchdog::Watchdog;
use crate::error::{Error, Result, Site};
use crate::runtime::options::Options;
use crate::trace::Closed;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of warnings that may wait; more are dropped.
const WARNINGS: usize = 16;

pub struct Observed {
    pub stats: Stats,
    /// Nanoseconds in which programs ran; never reset.
    pub busy: Counter,
    pub failures: Failures,
    pub tail: Tail,
    pub fullest: Fullest,
    pub explain: Explain,
    pub limits: Limits,
    pub breakdown: Breakdown,
    pub profile: Profile,
    pub progress: Progress,
    dump: Option<Dump>,
    pub compile_times: Histogram,
    /// Time from one full cut to the next.
    pub step_times: Histogram,
    /// When the last full cut was; 0 before the first.
    pub last_step: AtomicU64,
    pub watchdog: Option<Arc<Watchdog>>,
}

impl Observed {
    /// Error: the folder for compiled programs cannot be made.
    pub fn new(options: &Options) -> Result<Observed> {
        Ok(Observed {
            stats: Stats::default(),
            busy: Counter::default(),
            failures: Failures::default(),
            tail: Tail::default(),
            fullest: Fullest::default(),
            explain: Explain::default(),
            limits: Limits::new(options),
            breakdown: Breakdown::default(),
            profile: Profile::default(),
            progress: Progress::default(),
            dump: options.dump.as_deref().map(Dump::new).transpose()?,
            compile_times: Histogram::default(),
            step_times: Histogram::default(),
            last_step: AtomicU64::default(),
            watchdog: options.watchdog.map(Watchdog::new).map(Arc::new),
        })
    }

    /// Leaves a warning for the next thread that cuts, reads or waits.
    pub fn warn(&self, message: String) {
        let mut warnings = self.limits.warnings.lock();
        if warnings.len() < WARNINGS && !warnings.contains(&message) {
            warnings.push(message);
            self.explain.wake();
        }
    }

    /// Notes a CPU fallback for the next thread that cuts, reads or waits, where CPU fallbacks are errors.
    pub fn check_fallback(&self, name: &str, site: Site) {
        if self.limits.strict_fallbacks.load(Relaxed) {
            self.limits.fallback.lock().get_or_insert_with(|| (name.to_string(), site));
            self.explain.wake();
        }
    }

    /// Counts a failure, and remembers it for later reports.
    pub fn fail(&self, error: &Error, concerns: Concerns) {
        self.stats.failures.add(1);
        self.failures.add(error, concerns);
    }

    /// Writes a program to the folder for that, if there is one. A failure is a warning.
    pub fn dump(&self, program: &dyn Display) {
        if let Some(dump) = &self.dump
            && let Err(error) = dump.write(program)
        {
            self.warn(error.message);
        }
    }

    /// Runs a stage of a compile.
    pub fn stage<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        self.progress.is_at(name);
        self.profile.stage(name, work)
    }

    /// Counts a compile for a trace, begun at `start`, and finds its reason, unless it made the program of a `bucket`: these were
    /// asked for.
    pub fn compiled(
        &self,
        closed: &Closed,
        start: u64,
        succeeded: bool,
        recomputed: Option<&Recomputed>,
        bucket: bool,
    ) {
        let took = now() - start;
        self.stats.compiles.add(1);
        self.stats.plans.add(succeeded as u64);
        self.stats.compile_ns.add(took);
        self.compile_times.add(took);
        if bucket {
            return self.explain.loaded(closed.trace(), &closed.outputs);
        }
        if self.explain.compiled(closed.trace(), &closed.outputs, start, took) {
            self.stats.recompiles.add(1);
        }
        if let Some(recomputed) = recomputed {
            self.explain.recomputed(recomputed.clone());
        }
    }

    /// For the launch thread alone.
    pub fn stay(&self, phase: Phase) -> Stay<'_> {
        let (before, begin) = self.breakdown.enter(phase);
        Stay { observed: self, phase, before, begin }
    }
}

/// While it lives, the launch thread is in a phase.
pub struct Stay<'a> {
    observed: &'a Observed,
    phase: Phase,
    before: Phase,
    begin: u64,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        let (_, end) = self.observed.breakdown.enter(self.before);
        if self.observed.profile.is_active() {
            let (name, begin) = (self.phase.name(), self.begin);
            let details = Object::default();
            let span = Span { name, category: "phase", begin, end, site: 0, details };
            self.observed.profile.span(span);
        }
    }
}
