//! Closing the trace, and waiting for its results.

use super::Context;
use super::lock::TraceGuard;
use crate::error::Result;
use crate::internal;
use crate::runtime::launch::Here;
use crate::runtime::observe::explain::Cause;
use crate::trace::{Closed, RecordedTrace, Trace};
use std::sync::Arc;

/// How a trace is closed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Cut {
    /// Donates.
    Full,
    Partial,
    /// As `Partial`, of a trace that has become long.
    Long,
}

/// A trace that was cut by a read.
pub(super) struct CutToRead<'a> {
    pub recorded: Arc<RecordedTrace>,
    /// The trace, if the reader is to run it.
    pub to_run: Option<(Here<'a>, Closed)>,
}

impl Context {
    /// Closes the trace and hands it to the launch thread. Waits only while many programs are queued there.
    pub fn cut(&self) -> Result<()> {
        self.cut_for(Cause::Asked)?;
        self.raise_diagnostics()
    }

    fn cut_for(&self, cause: Cause) -> Result<()> {
        let recorded = self.cut_locked(&mut *self.trace.lock()?, Cut::Full)?;
        self.note_cut(recorded, cause);
        self.launcher.wait_for_room()
    }

    /// The lock is held until the program is queued, so that programs run in the order of their cuts. Returns the
    /// trace that was handed over.
    pub(super) fn cut_locked(
        &self,
        trace: &mut Trace,
        cut: Cut,
    ) -> Result<Option<Arc<RecordedTrace>>> {
        let Some(closed) = self.close(trace, cut)? else { return Ok(None) };
        self.hand_over(trace, closed).map(Some)
    }

    /// As [`Context::cut_locked`], for a value that the caller waits for: if it can be computed here and now, the caller is to
    /// do so as soon as the lock is released.
    pub(super) fn cut_to_read(&self, trace: &mut Trace) -> Result<Option<CutToRead<'_>>> {
        let Some(closed) = self.close(trace, Cut::Partial)? else { return Ok(None) };
        let recorded = closed.trace().clone();
        if self.shared.backend.runs_on_any_thread()
            && recorded.runs_on_any_thread()
            && let Some(here) = self.launcher.here()
        {
            return Ok(Some(CutToRead { recorded, to_run: Some((here, closed)) }));
        }
        self.hand_over(trace, closed).map(|recorded| Some(CutToRead { recorded, to_run: None }))
    }

    fn close(&self, trace: &mut Trace, cut: Cut) -> Result<Option<Closed>> {
        self.launcher.check_process()?;
        if trace.is_empty() {
            return Ok(None);
        }
        // Before anything is promised.
        self.launcher.be_ready()?;
        self.shared.observed.stats.cuts.add(1);
        self.end_of_trace(trace.len(), cut == Cut::Full);
        let closed = match cut {
            Cut::Full => trace.cut(true),
            Cut::Partial => trace.cut(false),
            Cut::Long => trace.cut_long(),
        };
        self.trace.was_cut.notify_all();
        Ok(closed)
    }

    fn hand_over(&self, trace: &mut Trace, closed: Closed) -> Result<Arc<RecordedTrace>> {
        let recorded = closed.trace().clone();
        match self.launcher.run(Box::new(closed)) {
            Ok(()) => Ok(recorded),
            Err(mut closed) => {
                trace.give_up_program(&mut closed);
                internal!("the launch thread has ended")
            }
        }
    }

    /// Cuts, waits for everything, and reports all failures that were not reported yet.
    pub fn sync(&self) -> Result<()> {
        self.cut_for(Cause::Sync)?;
        self.trace.lock()?.host_waits();
        self.launcher.wait()?;
        self.shared.observed.failures.all()?;
        self.raise_diagnostics()
    }

    /// To be called when an operation was recorded: cuts a trace that has grown to a limit, else lets the launch thread begin
    /// with it.
    pub(super) fn was_recorded(&self, mut trace: TraceGuard) -> Result<()> {
        let is_long = trace.is_long(self.shared.trace_limit);
        if !is_long && trace.held_bytes() < self.shared.trace_bytes {
            let progress = trace.progress();
            drop(trace);
            progress.into_iter().for_each(|progress| self.launcher.speculate(progress));
            return Ok(());
        }
        self.shared.observed.stats.limit_cuts.add(1);
        let cut = if is_long { Cut::Long } else { Cut::Partial };
        let recorded = self.cut_locked(&mut trace, cut)?;
        drop(trace);
        self.note_cut(recorded, Cause::Limit);
        self.launcher.wait_for_room()
    }
}
