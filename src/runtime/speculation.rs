//! Speculative execution. While the host records what has been a known trace so far, one whose result it waited for last time,
//! the launch thread has nothing else to do: it runs the steps of that trace's program whose operands are there. If another
//! trace comes of it, what they computed is dropped: no such step has effects, or writes to memory that somebody sees.

use super::breakdown::Phase;
use super::code::Compiled;
use super::compile::CompiledTrace;
use super::execute::{Arena, Intermediates, fresh_output};
use super::watchdog::Watchdog;
use super::{Shared, watch};
use crate::backend::{Call, Watch};
use crate::buffer::{Bytes, DerivedCache, Storage};
use crate::plan::{MemRef, Operand, Step};
use crate::record::Output;
use crate::trace::{Closed, Progress};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A run that was begun.
pub struct Speculation {
    progress: Progress,
    outputs: Vec<Output>,
    program: Arc<CompiledTrace>,
    code: Arc<Compiled>,
    /// Of the program's outputs.
    memory: Vec<Box<dyn Bytes>>,
    between: Intermediates,
    /// Steps that have run, without a failure.
    done: usize,
}

/// What a run that was begun leaves to whoever finishes it.
pub struct Begun {
    pub memory: Vec<Box<dyn Bytes>>,
    pub between: Intermediates,
    pub done: usize,
}

impl Speculation {
    /// Runs what can be run by now; `begun` may be what ran of the same trace before. `None` if that is nothing.
    pub fn advance(
        shared: &Shared,
        begun: Option<Speculation>,
        progress: Progress,
        arena: &mut Arena,
    ) -> Option<Speculation> {
        let mut speculation = match begun.filter(|begun| begun.is_continued_by(&progress)) {
            Some(begun) => Speculation { progress, ..begun },
            None => Speculation::begin(shared, progress, arena)?,
        };
        speculation.run(shared).then_some(speculation)
    }

    fn begin(shared: &Shared, progress: Progress, arena: &mut Arena) -> Option<Speculation> {
        let (program, outputs) = shared.paths.latest(progress.trace.id)?;
        let code = program.code.to_run(false);
        let plan = &code.plan;
        let is_padded = program.binding.is_some();
        let donates = plan.donors.iter().any(Option::is_some);
        if is_padded || donates || code.executable.stepwise().is_none() {
            progress.trace.is_awaited.store(false, Relaxed);
            return None;
        }
        if !plan.steps.first().is_some_and(|step| is_ready(shared, step, &progress)) {
            return None;
        }
        let between = arena.reserve(shared, plan).ok()?;
        let memory = (0..plan.outputs.len()).map(|k| fresh_output(shared, plan, k).ok());
        let memory = memory.collect::<Option<_>>()?;
        Some(Speculation { progress, outputs, program, code, memory, between, done: 0 })
    }

    /// Whether nothing failed.
    fn run(&mut self, shared: &Shared) -> bool {
        let (progress, code) = (&self.progress, &self.code);
        let (plan, Some(stepwise)) = (&code.plan, code.executable.stepwise()) else { return false };
        let ready = plan.steps[self.done..].iter().take_while(|s| is_ready(shared, s, progress));
        let steps = self.done..self.done + ready.count();
        if steps.is_empty() {
            return true;
        }
        // What is not known yet no step reads.
        let mut inputs = vec![0; plan.inputs.len()];
        for (input, leaf) in inputs.iter_mut().zip(&progress.leaves) {
            let Ok(address) = leaf.address() else { return false };
            *input = address;
        }
        let mut derived: Vec<Option<&DerivedCache>> =
            progress.leaves.iter().map(|leaf| leaf.derived()).collect();
        derived.resize(plan.inputs.len(), None);
        let mut scalars = progress.scalars.clone();
        scalars.resize(plan.scalars.len(), 0);
        let outputs: Vec<usize> = self.memory.iter().map(|bytes| bytes.address()).collect();
        let _at_work = shared.watchdog.as_ref().map(Watchdog::compiles);
        shared.watchdog.as_ref().inspect(|dog| dog.runs(&self.program, code));
        let watch = watch::steps(shared, &self.program, code, &scalars);
        let call = Call {
            inputs: &inputs,
            poisoned: &[],
            derived: &derived,
            outputs: &outputs,
            arena: self.between.arena,
            host: self.between.host,
            scalars: &scalars,
            watch: watch.as_ref().map(|watch| watch as &dyn Watch),
        };
        let _stay = shared.stay(Phase::Device);
        self.done = steps.end;
        let run = || shared.stats.execute_ns.time(|| stepwise.run_steps(&call, steps));
        let outcome = shared.busy.time(run);
        outcome.failed.is_empty() && outcome.unseen.is_empty()
    }

    fn is_continued_by(&self, progress: &Progress) -> bool {
        Arc::ptr_eq(&self.progress.trace, &progress.trace)
            && begins_with(&progress.leaves, &self.progress.leaves)
            && progress.scalars.starts_with(&self.progress.scalars)
    }

    /// What was begun, if it is a run of this trace by this code; else the next time nothing is.
    pub fn begun(self, closed: &Closed, code: &Arc<Compiled>) -> Option<Begun> {
        let is_it = Arc::ptr_eq(&self.progress.trace, closed.trace())
            && Arc::ptr_eq(&self.code, code)
            && self.outputs == closed.outputs
            && begins_with(&closed.leaves, &self.progress.leaves)
            && closed.scalars.starts_with(&self.progress.scalars);
        if !is_it {
            self.progress.trace.is_awaited.store(false, Relaxed);
        }
        let Speculation { memory, between, done, .. } = self;
        is_it.then_some(Begun { memory, between, done })
    }
}

fn begins_with(leaves: &[Arc<Storage>], first: &[Arc<Storage>]) -> bool {
    leaves.len() >= first.len() && leaves.iter().zip(first).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// Whether a step may run before the trace is closed: without effects, and on operands that are known and that nobody outside
/// writes to.
fn is_ready(shared: &Shared, step: &Step, progress: &Progress) -> bool {
    let Progress { leaves, scalars, .. } = progress;
    let is_there = |operand: &Operand| match operand.mem {
        MemRef::Input(n) => leaves.get(n as usize).is_some_and(|leaf| !leaf.is_shared()),
        MemRef::Scalar(slot) => (slot as usize) < scalars.len(),
        MemRef::Output(_) | MemRef::Arena(_) | MemRef::Host(_) | MemRef::Index => true,
    };
    !shared.backend.calls_host(&step.kernel) && step.reads.iter().all(is_there)
}
