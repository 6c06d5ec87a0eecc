//! Speculative execution. While the host records what has been a known trace so far, one whose result it waited for last time,
//! the launch thread has nothing else to do: it runs the steps of that trace's program whose operands are there. If another
//! trace comes of it, what they computed is dropped: no such step has effects, or writes to memory that somebody sees. So of a
//! training step it is what comes before the first update in place. Scalars that were the same twice are taken to be so again.

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
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Steps that have to wait before no later ones are looked at.
const MOST_WAITING: usize = 16;
/// Bytes of an updated buffer that is small enough to be made beside the old one, and of all of them.
const SMALL: usize = 8 << 10;
const ALL_SMALL: usize = 1 << 20;

/// A run that was begun.
pub struct Speculation {
    progress: Progress,
    outputs: Vec<Output>,
    program: Arc<CompiledTrace>,
    code: Arc<Compiled>,
    /// Of the program's outputs, but for those that are given an input's.
    memory: Vec<Option<Box<dyn Bytes>>>,
    between: Intermediates,
    /// What every step that was looked at reads and writes.
    touched: Vec<Option<[Vec<Extent>; 2]>>,
    /// Steps that have run, without a failure.
    ran: Vec<bool>,
    /// What scalars are taken to be as long as they are not known, and which of them have been used.
    guesses: Vec<Option<u64>>,
    guessed: Vec<bool>,
}

/// What a run that was begun leaves to whoever finishes it.
pub struct Begun {
    pub memory: Vec<Option<Box<dyn Bytes>>>,
    pub between: Intermediates,
    pub ran: Vec<bool>,
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
        if program.binding.is_some() || code.executable.stepwise().is_none() {
            progress.trace.outlook.set_awaited(false);
            return None;
        }
        let between = arena.reserve(shared, plan).ok()?;
        let mut apart = 0;
        let memory = plan.donors.iter().enumerate().map(|(k, donor)| {
            let nbytes = plan.outputs[k].nbytes();
            if donor.is_some() {
                if nbytes > SMALL || apart + nbytes > ALL_SMALL {
                    return Some(None);
                }
                apart += nbytes;
            }
            fresh_output(shared, plan, k).ok().map(Some)
        });
        let memory = memory.collect::<Option<_>>()?;
        let touched = plan.steps.iter().map(|_| None).collect();
        let ran = vec![false; plan.steps.len()];
        let mut guesses = progress.trace.outlook.steady();
        guesses.resize(plan.scalars.len(), None);
        let guessed = vec![false; guesses.len()];
        Some(Speculation {
            progress,
            outputs,
            program,
            code,
            memory,
            between,
            touched,
            ran,
            guesses,
            guessed,
        })
    }

    /// The steps that can run by now: all they need is known, and they neither write what those that have to wait read or write,
    /// nor read what these write.
    fn ready(&mut self, shared: &Shared) -> Vec<usize> {
        let (mut ready, mut waiting) = (Vec::new(), 0);
        let [mut read, mut written] = [Covered::default(), Covered::default()];
        let code = self.code.clone();
        for (index, step) in code.plan.steps.iter().enumerate() {
            if self.ran[index] {
                continue;
            }
            let is_ready = self.is_ready(shared, step);
            let [reads, writes] = self.touched[index].get_or_insert_with(|| Extent::of_step(step));
            if is_ready
                && !reads.iter().any(|extent| written.meets(extent))
                && !writes.iter().any(|extent| written.meets(extent) || read.meets(extent))
            {
                ready.push(index);
                continue;
            }
            waiting += 1;
            if waiting == MOST_WAITING {
                break;
            }
            reads.iter().for_each(|extent| read.add(extent.clone()));
            writes.iter().for_each(|extent| written.add(extent.clone()));
        }
        ready
    }

    /// Whether nothing failed.
    fn run(&mut self, shared: &Shared) -> bool {
        let ready = self.ready(shared);
        if ready.is_empty() {
            return self.ran.contains(&true);
        }
        let (progress, code) = (&self.progress, &self.code);
        let (plan, Some(stepwise)) = (&code.plan, code.executable.stepwise()) else { return false };
        // What is not known yet no step reads.
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
        let run = || {
            let steps = &mut ready.iter().copied();
            shared.stats.execute_ns.time(|| stepwise.run_steps(&call, steps))
        };
        let outcome = shared.busy.time(run);
        for &step in &ready {
            self.ran[step] = true;
            for read in &plan.steps[step].reads {
                if let MemRef::Scalar(slot) = read.mem {
                    self.guessed[slot as usize] |= slot as usize >= known;
                }
            }
        }
        outcome.failed.is_empty() && outcome.unseen.is_empty()
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
            MemRef::Output(k) => self.memory[k as usize].is_some(),
            MemRef::Arena(_) | MemRef::Host(_) | MemRef::Index => true,
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

    /// Whether those of these scalars that were used before they were known are what they were taken to be.
    fn guessed_right(&self, scalars: &[u64]) -> bool {
        let mut guesses = self.guesses.iter().zip(&self.guessed).zip(scalars);
        guesses.all(|((guess, guessed), bits)| !guessed || *guess == Some(*bits))
    }

    /// What was begun, if it is a run of this trace by this code; else the next time nothing is.
    pub fn begun(self, closed: &Closed, code: &Arc<Compiled>) -> Option<Begun> {
        let is_it = Arc::ptr_eq(&self.progress.trace, closed.trace())
            && Arc::ptr_eq(&self.code, code)
            && self.outputs == closed.outputs
            && begins_with(&closed.leaves, &self.progress.leaves)
            && closed.scalars.starts_with(&self.progress.scalars)
            && self.guessed_right(&closed.scalars);
        self.progress.trace.outlook.was_begun(is_it);
        let Speculation { memory, between, ran, .. } = self;
        is_it.then_some(Begun { memory, between, ran })
    }
}

fn begins_with(leaves: &[Arc<Storage>], first: &[Arc<Storage>]) -> bool {
    leaves.len() >= first.len() && leaves.iter().zip(first).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// Memory that steps write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Arena,
    Host,
    Output(u32),
}

/// The bytes between the first and the last that an operand is of.
#[derive(Clone)]
struct Extent {
    space: Space,
    bytes: Range<u64>,
}

impl Extent {
    /// Of what a step reads, and of what it writes.
    fn of_step(step: &Step) -> [Vec<Extent>; 2] {
        let [reads, mut writes] = [&step.reads, &step.writes]
            .map(|operands| operands.iter().filter_map(Extent::of).collect::<Vec<_>>());
        let scratch = step.workspace.map(|(start, nbytes)| start..start + nbytes);
        writes.extend(scratch.map(|bytes| Extent { space: Space::Arena, bytes }));
        [reads, writes]
    }

    /// `None` of what no step writes, and of nothing.
    fn of(operand: &Operand) -> Option<Extent> {
        let (space, start) = match operand.mem {
            MemRef::Arena(offset) => (Space::Arena, offset),
            MemRef::Host(offset) => (Space::Host, offset),
            MemRef::Output(k) => (Space::Output(k), 0),
            MemRef::Input(_) | MemRef::Scalar(_) | MemRef::Index => return None,
        };
        let end = start + operand.layout.end() as u64 * operand.dtype.size() as u64;
        (start < end).then_some(Extent { space, bytes: start..end })
    }
}

/// Bytes of many extents, without repetition: where each range begins, and its end.
#[derive(Default)]
struct Covered(BTreeMap<(Space, u64), u64>);

impl Covered {
    fn meets(&self, Extent { space, bytes }: &Extent) -> bool {
        let before = self.0.range((*space, 0)..(*space, bytes.end)).next_back();
        before.is_some_and(|(_, &end)| end > bytes.start)
    }

    fn add(&mut self, Extent { space, mut bytes }: Extent) {
        // Those that it meets become part of it.
        while let Some((&(space, start), &end)) =
            self.0.range((space, 0)..(space, bytes.end)).next_back()
            && end > bytes.start
        {
            self.0.remove(&(space, start));
            bytes = start.min(bytes.start)..end.max(bytes.end);
        }
        self.0.insert((space, bytes.start), bytes.end);
    }
}
