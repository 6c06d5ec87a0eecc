//! Closing the trace, and waiting for what it promised.

use super::Context;
use super::explain::Cause;
use super::lock::TraceGuard;
use crate::error::Result;
use crate::internal;
use crate::trace::{RecordedTrace, Trace};
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
        self.launcher.check_process()?;
        if trace.is_empty() {
            return Ok(None);
        }
        // Before anything is promised.
        self.launcher.be_ready()?;
        self.shared.stats.cuts.add(1);
        self.end_of_trace(trace.len(), cut == Cut::Full);
        let closed = match cut {
            Cut::Full => trace.cut(true),
            Cut::Partial => trace.cut(false),
            Cut::Long => trace.cut_long(),
        };
        self.trace.was_cut.notify_all();
        let Some(closed) = closed else { return Ok(None) };
        let recorded = closed.trace().clone();
        match self.launcher.run(Box::new(closed)) {
            Ok(()) => Ok(Some(recorded)),
            Err(mut closed) => {
                trace.give_up_program(&mut closed);
                internal!("the launch thread has ended")
            }
        }
    }

    /// Cuts, waits for everything, and reports all failures that were not reported yet.
    pub fn sync(&self) -> Result<()> {
        self.cut_for(Cause::Sync)?;
        self.launcher.wait()?;
        self.shared.failures.all()?;
        self.raise_diagnostics()
    }

    /// An operation was recorded: the trace may have grown to a limit, or the launch thread may begin with it.
    pub(super) fn was_recorded(&self, mut trace: TraceGuard) -> Result<()> {
        let is_long = trace.is_long(self.shared.trace_limit);
        if !is_long && trace.held_bytes() < self.shared.trace_bytes {
            let progress = trace.progress();
            drop(trace);
            progress.into_iter().for_each(|progress| self.launcher.speculate(progress));
            return Ok(());
        }
        self.shared.stats.limit_cuts.add(1);
        let cut = if is_long { Cut::Long } else { Cut::Partial };
        let recorded = self.cut_locked(&mut trace, cut)?;
        drop(trace);
        self.note_cut(recorded, Cause::Limit);
        self.launcher.wait_for_room()
    }
}
