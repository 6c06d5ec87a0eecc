//! Speculative execution. While the host records a trace that has followed a known one so far, and for whose result it waited
//! last time, the launch thread is idle: it runs the steps of that trace's program whose operands are ready. If the trace turns
//! out to be another one, their results are dropped: no such step has effects, or writes to memory that is visible to others. So
//! of a training step it runs the part before the first update in place. Scalars that were the same twice are assumed to be so
//! again.

use super::arena::{Arena, Intermediates, fresh_output};
use super::results_block::ResultsBlock;
use crate::backend::{Call, Watch};
use crate::buffer::{Bytes, DerivedCache, Storage};
use crate::error::Result;
use crate::plan::early::EarlySteps;
use crate::plan::{MemRef, Operand, Step};
use crate::record::Output;
use crate::runtime::observe::breakdown::Phase;
use crate::runtime::observe::clock::now;
use crate::runtime::observe::watch;
use crate::runtime::observe::watchdog::Watchdog;
use crate::runtime::program::{Compiled, CompiledTrace};
use crate::runtime::shared::Shared;
use crate::trace::{Closed, Progress};
use std::sync::Arc;

/// Bytes of an updated buffer that is small enough to be computed beside the old one, and of all of them.
const SMALL: usize = 8 << 10;
const ALL_SMALL: usize = 1 << 20;

/// A run that was begun.
pub struct Speculation {
    progress: Progress,
    outputs: Vec<Output>,
    program: Arc<CompiledTrace>,
    code: Arc<Compiled>,
    /// Memory of the program's outputs, except for those that are given an input's, and for those that are not written yet,
    /// whose memory would be wasted if the trace turns out to be another one.
    memory: Vec<Option<Box<dyn Bytes>>>,
    /// Whether each output has or may have memory there.
    is_apart: Vec<bool>,
    between: Intermediates,
    /// `Some` once a step has needed it.
    results: Option<ResultsBlock>,
    /// Steps that have run, without a failure, and how long they took.
    steps: EarlySteps,
    took_ns: u64,
    /// Assumed values of scalars that are not known yet, and which of them have been used.
    guesses: Vec<Option<u64>>,
    guessed: Vec<bool>,
}

/// The state of a run that was begun, for the run that finishes it.
pub struct Begun {
    pub memory: Vec<Option<Box<dyn Bytes>>>,
    pub between: Intermediates,
    pub results: Option<ResultsBlock>,
    pub steps: EarlySteps,
    pub took_ns: u64,
}

impl Speculation {
    /// Runs the steps that can run by now; `begun` is continued if it is a run of the same trace. `None` if no step has run, or
    /// one failed.
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
        if program.binding.is_some() || code.executable.stepwise().is_none() {
            progress.trace.outlook.set_awaited(false);
            return None;
        }
        let between = arena.reserve(shared, plan).ok()?;
        // An update that changes nothing is its input's memory: no step writes it.
        let mut is_written = vec![false; plan.outputs.len()];
        for write in plan.steps.iter().flat_map(|step| &step.writes) {
            if let MemRef::Output(k) = write.mem {
                is_written[k as usize] = true;
            }
        }
        let mut apart = 0;
        let is_apart = plan.donors.iter().enumerate().map(|(k, donor)| {
            let nbytes = plan.outputs[k].nbytes();
            if donor.is_some() {
                if !is_written[k] || nbytes > SMALL || apart + nbytes > ALL_SMALL {
                    return false;
                }
                apart += nbytes;
            }
            true
        });
        let is_apart: Vec<bool> = is_apart.collect();
        let memory = is_apart.iter().map(|_| None).collect();
        let steps = EarlySteps::new(plan);
        let mut guesses = progress.trace.outlook.steady();
        guesses.resize(plan.scalars.len(), None);
        let guessed = vec![false; guesses.len()];
        Some(Speculation {
            progress,
            outputs,
            program,
            code,
            memory,
            is_apart,
            between,
            results: None,
            steps,
            took_ns: 0,
            guesses,
            guessed,
        })
    }

    /// Whether steps have run and none failed.
    fn run(&mut self, shared: &Shared) -> bool {
        let code = self.code.clone();
        let is_known = |step: &Step| self.is_ready(shared, step);
        let ready = self.steps.ready(&code.plan, code.touched(), &is_known);
        if ready.is_empty() {
            return self.steps.count() > 0;
        }
        let (plan, Some(stepwise)) = (&code.plan, code.executable.stepwise()) else { return false };
        let operands = ready.iter().flat_map(|&step| {
            let Step { reads, writes, .. } = &plan.steps[step];
            reads.iter().chain(writes).map(|operand| operand.mem)
        });
        if operands.map(|mem| self.provide(shared, mem)).any(|there| there.is_err()) {
            return false;
        }
        let progress = &self.progress;
        // No step reads inputs that are not known yet.
        let mut inputs = vec![0; plan.inputs.len()];
        for (input, leaf) in inputs.iter_mut().zip(&progress.leaves) {
            let Ok(address) = leaf.address() else { return false };
            *input = address;
        }
        let mut derived: Vec<Option<&DerivedCache>> =
            progress.leaves.iter().map(|leaf| leaf.derived()).collect();
        derived.resize(plan.inputs.len(), None);
        let known = progress.scalars.len();
        let mut scalars = progress.scalars.clone();
        scalars.extend(self.guesses.iter().skip(known).map(|guess| guess.unwrap_or(0)));
        let address = |bytes: &Option<Box<dyn Bytes>>| bytes.as_ref().map_or(0, |b| b.address());
        let outputs: Vec<usize> = self.memory.iter().map(address).collect();
        let operators = &self.program.operators;
        let _at_work = shared.observed.watchdog.as_ref().map(Watchdog::compiles);
        shared.observed.watchdog.as_ref().inspect(|dog| dog.runs(plan, operators));
        let (has_fallbacks, scalars) = (code.has_fallbacks, &scalars[..]);
        let running = watch::Run { plan, has_fallbacks, operators, scalars };
        let watch = watch::steps(&shared.observed, &*shared.backend, running);
        let call = Call {
            inputs: &inputs,
            poisoned: &[],
            derived: &derived,
            outputs: &outputs,
            arena: self.between.arena,
            host: self.between.host,
            results: self.results.as_ref().map_or(0, |block| block.address),
            scalars,
            watch: watch.as_ref().map(|watch| watch as &dyn Watch),
        };
        let run = || {
            let _stay = shared.observed.stay(Phase::Device);
            let mut ready = ready.iter().copied();
            stepwise.run_steps(&call, &mut |_| ready.next())
        };
        let start = now();
        let outcome = shared.observed.busy.time(|| shared.observed.stats.execute_ns.time(run));
        self.took_ns += now() - start;
        self.steps.have_run(&ready);
        for &step in &ready {
            for read in &plan.steps[step].reads {
                if let MemRef::Scalar(slot) = read.mem {
                    self.guessed[slot as usize] |= slot as usize >= known;
                }
            }
        }
        outcome.failed.is_empty() && outcome.unseen.is_empty()
    }

    /// Provides the memory of an operand that is about to be used.
    fn provide(&mut self, shared: &Shared, mem: MemRef) -> Result<()> {
        let code = self.code.clone();
        let output = match mem {
            MemRef::Output(k) => Some(k),
            MemRef::Results(_) => None,
            _ => return Ok(()),
        };
        let is_result = output.is_none_or(|k| code.plan.place_of_result(k).is_some());
        if is_result && self.results.is_none() {
            self.results = Some(ResultsBlock::new(shared, &code, &mut self.memory)?);
        }
        if let Some(k) = output.map(|k| k as usize)
            && self.memory[k].is_none()
        {
            self.memory[k] = Some(fresh_output(shared, &code.plan, k)?);
        }
        Ok(())
    }

    /// Whether a step may run before the trace is closed: without effects, on operands that are known and that nobody outside
    /// writes to, and into memory of the program's own.
    fn is_ready(&self, shared: &Shared, step: &Step) -> bool {
        let Progress { leaves, scalars, .. } = &self.progress;
        let is_there = |operand: &Operand| match operand.mem {
            MemRef::Input(n) => leaves.get(n as usize).is_some_and(|leaf| !leaf.is_shared()),
            MemRef::Scalar(slot) => {
                (slot as usize) < scalars.len() || self.guesses[slot as usize].is_some()
            }
            MemRef::Output(k) => self.is_apart[k as usize],
            MemRef::Arena(_) | MemRef::Host(_) | MemRef::Results(_) | MemRef::Index => true,
        };
        !shared.backend.calls_host(&step.kernel)
            && step.reads.iter().chain(&step.writes).all(is_there)
    }

    fn is_continued_by(&self, progress: &Progress) -> bool {
        Arc::ptr_eq(&self.progress.trace, &progress.trace)
            && begins_with(&progress.leaves, &self.progress.leaves)
            && progress.scalars.starts_with(&self.progress.scalars)
            && self.guessed_right(&progress.scalars)
    }

    /// Whether the scalars that were used before they were known have the assumed values.
    fn guessed_right(&self, scalars: &[u64]) -> bool {
        let mut guesses = self.guesses.iter().zip(&self.guessed).zip(scalars);
        guesses.all(|((guess, guessed), bits)| !guessed || *guess == Some(*bits))
    }

    /// The begun run, if it is one of this trace by this code; else nothing is begun the next time.
    pub fn begun(self, closed: &Closed, code: &Arc<Compiled>) -> Option<Begun> {
        let is_it = Arc::ptr_eq(&self.progress.trace, closed.trace())
            && Arc::ptr_eq(&self.code, code)
            && self.outputs == closed.outputs
            && begins_with(&closed.leaves, &self.progress.leaves)
            && closed.scalars.starts_with(&self.progress.scalars)
            && self.guessed_right(&closed.scalars);
        self.progress.trace.outlook.was_begun(is_it);
        let Speculation { memory, between, results, steps, took_ns, .. } = self;
        is_it.then_some(Begun { memory, between, results, steps, took_ns })
    }
}

fn begins_with(leaves: &[Arc<Storage>], first: &[Arc<Storage>]) -> bool {
    leaves.len() >= first.len() && leaves.iter().zip(first).all(|(a, b)| Arc::ptr_eq(a, b))
}
