//! Moments of recording: whether the device has reached one, and whether it is as in earlier runs.

use super::{Context, Cut};
use crate::error::Result;
use crate::runtime::observe::explain::Cause;

impl Context {
    /// A mark for this moment: a number that grows. Error: a panic left the context half changed.
    pub fn mark(&self) -> Result<u64> {
        let trace = self.trace.lock()?;
        Ok(self.launcher.sent() + u64::from(!trace.is_empty()))
    }

    /// Whether an integer of the operation that comes next changes from run to run; see [`Trace::changes`].
    ///
    /// [`Trace::changes`]: crate::trace::Trace::changes
    pub fn changes(&self, kind: u64, integer: i64) -> Result<bool> {
        Ok(self.trace.lock()?.changes(kind, integer))
    }

    /// Whether everything recorded before a mark has run. Never waits; cuts if some of it is still in the trace, so that
    /// repeated calls eventually give true.
    /// Errors: as [`Context::cut`] in a forked process.
    pub fn is_done(&self, mark: u64) -> Result<bool> {
        if self.launcher.done() >= mark {
            return Ok(true);
        }
        let mut trace = self.trace.lock()?;
        let before = self.launcher.sent();
        let recorded =
            if before < mark { self.cut_locked(&mut trace, Cut::Partial)? } else { None };
        // Nothing runs of a trace of which nothing lives on.
        let sent = self.launcher.sent();
        drop(trace);
        self.note_cut(recorded, Cause::Asked);
        Ok(self.launcher.done() >= mark.min(sent))
    }
}
