//! The log of compiles, cuts, CPU fallbacks, choices of engines and the last collectives: their reasons, and their call sites in
//! the user's program.
//!
//! **Invariant:** everything here is bounded, and off the path of a repeated step: a compile, a cut or a CPU fallback that was
//! seen before is a look-up and a count. Nothing here calls the user's program; `context/diagnostics.rs` does, without a lock.

mod chosen;
mod collectives;
mod cuts;
mod difference;
mod fallbacks;
mod report;
#[cfg(test)]
mod tests;

use super::recomputed::Recomputed;
use crate::error::Site;
use crate::record::Output;
use crate::trace::RecordedTrace;
pub use chosen::{Choices, Chosen};
pub use collectives::{Collective, Collectives, Hiding, State};
pub use cuts::{Cause, Cut, Cuts};
pub use difference::{Change, Subject, Why, origin};
use difference::{PriorCompile, explain};
pub use fallbacks::{Fallbacks, Spent};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of compiles that a report lists: the newest ones.
const COMPILES: usize = 64;
/// Number of traces that a new one is compared with, ...
const KNOWN: usize = 32;
/// ... and limit on the number of operations in all of them (but always one trace).
const KNOWN_RECORDS: usize = 1 << 16;
/// Call sites whose recompiles are counted; beyond, all counts start again.
const SITES: usize = 4096;

/// One compile.
#[derive(Clone, Debug)]
pub struct Compile {
    /// From 1 on, since the context was made.
    pub number: u64,
    /// When it began, in nanoseconds since the library was first used.
    pub at_ns: u64,
    pub took_ns: u64,
    pub operations: usize,
    /// Call site of the trace's first operation.
    pub site: Site,
    pub why: Why,
    /// The steps that run again to stay within the memory limit.
    pub recomputed: Option<Recomputed>,
    /// Whether its sites are lines by now, and its recompile is counted.
    settled: bool,
}

#[derive(Default)]
pub struct Explain {
    inner: Mutex<Inner>,
    /// Whether some compile or CPU fallback is not settled yet.
    pending: AtomicBool,
    pub cuts: Mutex<Cuts>,
    pub fallbacks: Mutex<Fallbacks>,
    pub collectives: Mutex<Collectives>,
    pub chosen: Mutex<Choices>,
}

#[derive(Default)]
struct Inner {
    number: u64,
    compiles: VecDeque<Compile>,
    prior: VecDeque<PriorCompile>,
    /// How often an aspect of an operator changed at each line: a line that starts several programs, like that of a pipeline's
    /// schedule, does not make the same program again.
    changes: HashMap<(Site, String, &'static str), u64>,
}

/// A recompile whose line is known.
pub struct Recompile {
    pub change: Change,
    /// Number of recompiles at this line for the same reason, this one included.
    pub count: u64,
}

impl Explain {
    /// Notes that a trace was compiled, and finds out why. Returns whether a known trace begins like it.
    pub fn compiled(
        &self,
        trace: &Arc<RecordedTrace>,
        outputs: &[Output],
        at_ns: u64,
        took_ns: u64,
    ) -> bool {
        let new = PriorCompile { trace: trace.clone(), outputs: outputs.to_vec() };
        let mut inner = self.inner.lock();
        let why = explain(inner.prior.iter(), &new);
        let changed = matches!(why, Why::Changed(_));
        inner.number += 1;
        let compile = Compile {
            number: inner.number,
            at_ns,
            took_ns,
            operations: trace.records.len(),
            site: trace.records.first().map_or(0, |record| record.site),
            why,
            recomputed: None,
            settled: false,
        };
        inner.compiles.push_back(compile);
        if inner.compiles.len() > COMPILES {
            inner.compiles.pop_front();
        }
        inner.keep(new);
        self.pending.store(true, Ordering::Release);
        changed
    }

    /// Notes the steps that run again in the program that was compiled last.
    pub fn recomputed(&self, recomputed: Recomputed) {
        if let Some(compile) = self.inner.lock().compiles.back_mut() {
            compile.recomputed = Some(recomputed);
        }
    }

    /// Notes a trace whose program need not be compiled, so that later ones are compared with it.
    pub fn loaded(&self, trace: &Arc<RecordedTrace>, outputs: &[Output]) {
        let new = PriorCompile { trace: trace.clone(), outputs: outputs.to_vec() };
        self.inner.lock().keep(new);
    }

    /// Says that there is a diagnostic to raise.
    pub fn wake(&self) {
        self.pending.store(true, Ordering::Release);
    }

    /// Whether something happened since this was last asked. Costs one load if not.
    pub fn take_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) && self.pending.swap(false, Ordering::Acquire)
    }

    /// Sites of compiles that are not lines yet, by compile: of its first operation, and of the change, new and old.
    pub fn unsettled(&self) -> Vec<(u64, [Site; 3])> {
        let inner = self.inner.lock();
        let open = inner.compiles.iter().filter(|compile| !compile.settled);
        open.map(|compile| (compile.number, compile.sites())).collect()
    }

    /// Replaces the sites of a compile by their lines. Returns the recompile, if it was one.
    pub fn settle(&self, number: u64, lines: [Site; 3]) -> Option<Recompile> {
        let mut inner = self.inner.lock();
        let at = inner.compiles.iter().position(|c| c.number == number && !c.settled)?;
        let compile = &mut inner.compiles[at];
        compile.settled = true;
        compile.site = lines[0];
        let Why::Changed(change) = &mut compile.why else { return None };
        [change.site, change.old_site] = [lines[1], lines[2]];
        let change = change.clone();
        if inner.changes.len() >= SITES {
            inner.changes.clear();
        }
        let reason = (change.site, change.operator.clone(), change.aspect);
        let count = inner.changes.entry(reason).or_default();
        *count += 1;
        Some(Recompile { count: *count, change })
    }

    /// Forgets the contents of reports. The traces that new ones are compared with stay.
    pub fn reset(&self) {
        let mut inner = self.inner.lock();
        inner.compiles.clear();
        inner.changes.clear();
        drop(inner);
        *self.cuts.lock() = Cuts::default();
        *self.fallbacks.lock() = Fallbacks::default();
        *self.chosen.lock() = Choices::default();
    }
}

impl Compile {
    fn sites(&self) -> [Site; 3] {
        match &self.why {
            Why::Changed(change) => [self.site, change.site, change.old_site],
            _ => [self.site, 0, 0],
        }
    }
}

impl Inner {
    fn keep(&mut self, new: PriorCompile) {
        self.prior.retain(|old| old.trace.id != new.trace.id || old.outputs != new.outputs);
        self.prior.push_back(new);
        let total = |known: &VecDeque<PriorCompile>| {
            known.iter().map(|k| k.trace.records.len()).sum::<usize>()
        };
        while self.prior.len() > KNOWN || self.prior.len() > 1 && total(&self.prior) > KNOWN_RECORDS
        {
            self.prior.pop_front();
        }
    }
}
