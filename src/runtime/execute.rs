//! Runs a closed trace on the launch thread, and settles every storage it promised, whatever happens.

use super::breakdown::Phase;
use super::clock::now;
use super::code::Compiled;
use super::compile::{CompiledTrace, name_of};
use super::engine_choice::{Task, Trial};
use super::failures::Concerns;
use super::prefetch::Ran;
use super::results_block::ResultsBlock;
use super::speculation::Speculation;
use super::taken_over::TakenOver;
use super::watchdog::Watchdog;
use super::{Shared, oom_report, program_store, watch};
use crate::backend::run::reached;
use crate::backend::{Call, Failure, Outcome, Watch};
use crate::buffer::{Bytes, DerivedCache, Storage, Taken};
use crate::cache::Lookup;
use crate::cache::key::Key;
use crate::error::{Code, Error, Result, panic_text};
use crate::internal;
use crate::plan::Plan;
use crate::trace::Closed;
use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Scope, scope};

/// The release, and the sources: any change of theirs may change what a program should be.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("TORCHACC_SOURCES"));

/// Intermediates of all programs, but for those in a block of results: they run one after the other, so they share one block of
/// the device's memory, and one of the host's.
#[derive(Default)]
pub struct Arena {
    device: Option<Box<dyn Bytes>>,
    host: Option<Box<dyn Bytes>>,
}

/// Addresses of a plan's blocks for intermediates; 0 where it needs none.
#[derive(Clone, Copy, Default)]
pub struct Intermediates {
    pub arena: usize,
    pub host: usize,
}

impl Arena {
    /// Blocks for a plan; contents are not kept.
    pub fn reserve(&mut self, shared: &Shared, plan: &Plan) -> Result<Intermediates> {
        let nbytes = plan.arena_bytes as usize;
        // With the results of this program, what another one left may be more than the limit.
        let fits = |bytes: &dyn Bytes| {
            let limit = shared.memory_limit().unwrap_or(u64::MAX);
            let others = plan.fresh_bytes() + plan.results_bytes;
            bytes.len() >= nbytes && bytes.len() as u64 + others <= limit
        };
        if self.device.as_deref().is_none_or(|bytes| !fits(bytes)) {
            // The old block goes first: both at once may be too much.
            self.device = None;
            self.device = Some(shared.allocate(nbytes)?);
        }
        let nbytes = plan.host_bytes as usize;
        if nbytes > self.host.as_ref().map_or(0, |bytes| bytes.len()) {
            self.host = None;
            self.host = Some(shared.backend.allocate_on_host(nbytes)?);
        }
        let address = |block: &Option<Box<dyn Bytes>>| block.as_ref().map_or(0, |b| b.address());
        Ok(Intermediates { arena: address(&self.device), host: address(&self.host) })
    }
}

/// Memory for an output that is given none.
pub fn fresh_output(shared: &Shared, plan: &Plan, output: usize) -> Result<Box<dyn Bytes>> {
    let nbytes = plan.outputs[output].nbytes();
    match plan.is_on_host(output) {
        true => shared.backend.allocate_on_host(nbytes),
        false => shared.allocate(nbytes),
    }
}

/// What other threads may do after a run.
#[derive(Default)]
pub struct Next {
    pub ran: Option<Ran>,
    pub task: Option<Task>,
}

/// Finds or compiles the program of a closed trace and runs it, or what is left of a run that was begun.
pub fn run(shared: &Shared, closed: Closed, arena: &mut Arena, begun: Option<Speculation>) -> Next {
    let (mut waiting, mut next) = (None, Next::default());
    // Ends when the background work of the program's first run has.
    scope(|scope| {
        let is_new = run_with_background(shared, closed, (arena, begun), scope, &mut next);
        waiting = is_new.then(|| shared.stay(Phase::Compile));
    });
    next
}

/// Whether the program was made for this run.
fn run_with_background<'scope>(
    shared: &'scope Shared,
    mut closed: Closed,
    (arena, begun): (&mut Arena, Option<Speculation>),
    scope: &'scope Scope<'scope, '_>,
    next: &mut Next,
) -> bool {
    let mut is_new = false;
    let _at_work = shared.watchdog.as_ref().map(Watchdog::compiles);
    let launch = AssertUnwindSafe(|| {
        let (program, lookup) = find(shared, &closed, scope)?;
        is_new = lookup == Lookup::Made;
        if program.is_unused.swap(false, Relaxed) {
            shared.stats.carried_over.add(1);
            shared.stats.prefetched.add(1);
        }
        next.ran = Ran::new(shared, &closed, &program);
        let _stay = shared.stay(Phase::Launch);
        next.task = launch(shared, &program, is_new, &closed, (arena, begun))?;
        Ok(())
    });
    let result = catch_unwind(launch).unwrap_or_else(|panic| Err(panicked(&*panic)));
    // Readers find the values in the buffers; nothing else may keep the old ones alive.
    closed.leaves.clear();
    shared.tail.end();
    if let Err(error) = result.map_err(|error| closed.placed(error)) {
        let left: Vec<usize> =
            (0..closed.promised.len()).filter(|&n| !closed.promised[n].is_settled()).collect();
        let tensors = left.iter().map(|&n| Arc::downgrade(&closed.promised[n])).collect();
        let nobody = closed.promised.is_empty();
        shared.fail(&error, if nobody { Concerns::Everybody } else { Concerns::Tensors(tensors) });
        for n in left {
            closed.promised[n].fulfil(recover(shared, closed.before[n].as_deref(), &error));
        }
    }
    is_new
}

fn find<'scope>(
    shared: &'scope Shared,
    closed: &Closed,
    scope: &'scope Scope<'scope, '_>,
) -> Result<(Arc<CompiledTrace>, Lookup)> {
    let _stay = shared.stay(Phase::Key);
    if let Some(found) = shared.paths.find(closed.trace_id(), &closed.outputs) {
        if !found.check || is_of_key(shared, closed, &found.program) {
            shared.cache.touch(found.hash);
            shared.stats.cache_hits.add(1);
            return Ok((found.program, Lookup::Hit));
        }
        debug_assert!(false, "a known trace led to another program than its key");
    }
    let key = key(shared, closed);
    let hash = key.hash();
    let make = |key: &Key| program_store::program(shared, key, closed, scope);
    let (program, lookup) = shared.cache.get_or_make(key, make);
    match lookup {
        Lookup::Hit => shared.stats.cache_hits.add(1),
        Lookup::Made => shared.stats.cache_misses.add(1),
    }
    let program = program?;
    if lookup == Lookup::Made {
        shared.dump(&program);
        shared.report_lack();
        *shared.last_program.lock() = Some(program.clone());
    }
    shared.paths.add(closed.trace_id(), &closed.outputs, &program, hash);
    Ok((program, lookup))
}

fn key(shared: &Shared, closed: &Closed) -> Key {
    key_of(shared, closed.key_parts())
}

/// The key of what these parts and this library say.
pub fn key_of(shared: &Shared, mut parts: Vec<(&'static str, Vec<u8>)>) -> Key {
    parts.push(("backend", shared.backend.fingerprint().into_bytes()));
    parts.push(("memory limit", shared.memory_limit().unwrap_or(0).to_le_bytes().into()));
    parts.push(("version", VERSION.into()));
    Key::new(parts)
}

/// Whether the full key leads to the same program, or to none any more.
fn is_of_key(shared: &Shared, closed: &Closed, program: &Arc<CompiledTrace>) -> bool {
    shared.cache.get(&key(shared, closed)).is_none_or(|other| Arc::ptr_eq(&other, program))
}

/// `is_new`: whether the program was made for this run. What is to be done for its choice of engines.
fn launch(
    shared: &Shared,
    program: &Arc<CompiledTrace>,
    is_new: bool,
    closed: &Closed,
    (arena, begun): (&mut Arena, Option<Speculation>),
) -> Result<Option<Task>> {
    let trial = program.code.choice.trial(shared, program);
    let code = trial.other().unwrap_or_else(|| program.code.to_run(is_new));
    let plan = &code.plan;
    // What is measured is a whole run.
    let begun = begun.filter(|_| !matches!(trial, Trial::Own | Trial::Other(_)));
    let begun = begun.and_then(|begun| begun.begun(closed, &code));
    closed.trace().outlook.had(&closed.scalars);
    shared.watchdog.as_ref().inspect(|dog| dog.runs(program, &code));
    shared.fullest.ran(program, &code);
    let binding = program.binding.as_deref();
    // Held until the program has run.
    let mut padded: Vec<Box<dyn Bytes>> = Vec::new();
    let mut is_padded = vec![false; closed.leaves.len()];
    let mut inputs: Vec<Result<usize>> = (closed.leaves.iter().enumerate())
        .map(|(i, leaf)| {
            let copy = binding.and_then(|f| f.padded_input(shared, i, &plan.inputs[i], leaf));
            let Some(copy) = copy else { return leaf.address() };
            padded.push(copy?);
            is_padded[i] = true;
            Ok(padded[padded.len() - 1].address())
        })
        .collect();
    let poisoned: Vec<(u32, Error)> = (inputs.iter().enumerate())
        .filter_map(|(i, address)| Some((i as u32, address.as_ref().err()?.clone())))
        .collect();
    // Without memory for an output or the arena, the steps that need it fail; not the program.
    let mut refused = None;
    let between = match &begun {
        Some(begun) => Ok(begun.between),
        None => arena.reserve(shared, plan),
    };
    let between = between.unwrap_or_else(|error| {
        refused = Some(error);
        Intermediates::default()
    });
    let early_ns = begun.as_ref().map_or(0, |begun| begun.took_ns);
    let (early, mut begun, mut results) =
        begun.map_or_else(Default::default, |begun| (begun.steps, begun.memory, begun.results));
    begun.resize_with(plan.outputs.len(), || None);
    if results.is_none() {
        match ResultsBlock::new(shared, &code, &mut begun) {
            Ok(block) => results = Some(block),
            Err(error) => drop(refused.get_or_insert(error)),
        }
    }
    // An input that failed earlier has nothing to donate.
    let donor = |output: usize| {
        let is_apart = begun.get(output).is_some_and(Option::is_some);
        plan.donors[output].filter(|&leaf| !is_apart && inputs[leaf as usize].is_ok())
    };
    let donors: Vec<Option<u32>> = (0..plan.outputs.len()).map(donor).collect();
    let mut begun = begun.into_iter();
    let mut outputs = vec![0; donors.len()];
    let mut taken = Vec::new();
    let mut memory: Vec<Option<Box<dyn Bytes>>> = (donors.iter().enumerate())
        .map(|(output, donor)| match (begun.next().flatten(), donor) {
            (Some(memory), _) => Ok(Some(memory)),
            (None, Some(leaf)) => {
                let leaf = *leaf as usize;
                let memory = closed.leaves[leaf].take(|n| shared.allocate(n))?;
                // Somebody is reading what was to be donated: the program has a copy.
                if !is_padded[leaf] {
                    inputs[leaf] = Ok(memory.address());
                }
                if !memory.has_copies_ahead() {
                    return memory.into_bytes().map(Some);
                }
                outputs[output] = memory.address();
                taken.push((output, memory));
                Ok(None)
            }
            (None, None) => fresh_output(shared, plan, output).map(Some),
        })
        .map(|memory| {
            let refuse = |error| {
                refused.get_or_insert(error);
            };
            memory.map_err(refuse).ok().flatten()
        })
        .collect();
    let mut taken = TakenOver::new(plan, taken);
    for (address, bytes) in outputs.iter_mut().zip(&memory) {
        if let Some(bytes) = bytes {
            *address = bytes.address();
        }
    }
    let inputs: Vec<usize> = inputs.into_iter().map(|address| address.unwrap_or(0)).collect();
    let scalars = binding.map(|f| Cow::Owned(f.scalars(&closed.scalars)));
    let scalars = scalars.unwrap_or(Cow::Borrowed(&closed.scalars[..]));
    let derived: Vec<Option<&DerivedCache>> = (closed.leaves.iter().zip(is_padded))
        .map(|(leaf, is_padded)| if is_padded { None } else { leaf.derived() })
        .collect();
    let watch = watch::steps(shared, program, &code, &scalars);
    let call = Call {
        inputs: &inputs,
        poisoned: &poisoned,
        derived: &derived,
        outputs: &outputs,
        arena: between.arena,
        host: between.host,
        results: results.as_ref().map_or(0, |block| block.address),
        scalars: &scalars,
        watch: watch.as_ref().map(|watch| watch as &dyn Watch),
    };
    // A failure that is known may concern what is computed now, which is found out at the end.
    let hands_over = binding.is_none() && shared.failures.is_empty();
    if code.executable.stepwise().is_none() {
        taken.before(plan.steps.len());
    }
    let (mut rest, mut handed_over) = (early.rest(plan), 0);
    let mut next = |all_well: bool| {
        let step = rest.next()?;
        taken.before(step);
        if hands_over && all_well {
            for output in code.final_uses.before(step, &mut handed_over) {
                if let Some(bytes) = memory[output].take() {
                    shared.tail.begin();
                    closed.promised[output].fulfil(Ok(bytes));
                }
            }
        }
        Some(step)
    };
    // Inside what is counted as running, so that the device's part of the time is never more than that.
    let run = || {
        let _stay = shared.stay(Phase::Device);
        match code.executable.stepwise() {
            Some(stepwise) => stepwise.run_steps(&call, &mut next),
            None => code.executable.run(&call),
        }
    };
    let start = now();
    let outcome = shared.busy.time(|| shared.stats.execute_ns.time(run));
    let took_ns = now() - start + early_ns;
    let is_whole = outcome.failed.is_empty() && outcome.unseen.is_empty();
    for (output, bytes) in taken.into_memory() {
        match bytes {
            Ok(bytes) => memory[output] = Some(bytes),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    shared.stats.kernels.add(plan.steps.len() as u64);
    shared.stats.early_kernels.add(early.count() as u64);
    shared.stats.offloaded_bytes.add(plan.offloaded_bytes());
    binding.inspect(|binding| binding.was_run(shared));
    shared.failures.spread(&closed.leaves, &closed.promised, |inputs| reached(plan, inputs));
    let report = refused.map(|error| oom_report::report(shared, program, &code, &error));
    let error = |step: Option<u32>, error: Error| match &report {
        // An input that has no value for want of memory says so in its own words.
        Some(report) if step.is_some() && error.code == report.code => {
            closed.placed(Error { site: error.site, ..report.clone() })
        }
        // Nor has it failed here.
        _ if step.is_none() => error,
        _ => closed.placed(named(program, &code, step, error)),
    };
    let failures = note(shared, plan, closed, &poisoned, outcome, error);
    let settled = closed.promised.iter().zip(memory).zip(failures).enumerate();
    for (index, ((promised, bytes), failure)) in settled {
        if bytes.is_none() && promised.is_settled() {
            shared.stats.early_outputs.add(1);
            continue;
        }
        let before = closed.before[index].as_deref();
        promised.fulfil(match (failure, bytes) {
            (None, Some(bytes)) => match binding {
                Some(f) => {
                    f.exact_output(shared, index, &plan.outputs[index], bytes).or_else(|e| {
                        shared.fail(&e, Concerns::tensor(promised));
                        recover(shared, before, &e)
                    })
                }
                None => Ok(bytes),
            },
            // Donated memory is written by nothing but the step that failed to run: it holds the old value.
            (Some(failure), Some(bytes)) if donors[index].is_some() && !failure.torn => Ok(bytes),
            (Some(failure), _) => recover(shared, before, &failure.error),
            (None, None) => internal!("an output was computed without memory"),
        });
    }
    if shared.profile.is_active() {
        shared.profile.counter("live memory", shared.backend.pool().stats().live_bytes);
    }
    Ok(trial.ran(program, closed, is_whole.then_some(took_ns)))
}

/// Remembers what failed, for who is to be notified; the failure of each output. `error` says an error in the user's terms.
fn note(
    shared: &Shared,
    plan: &Plan,
    closed: &Closed,
    poisoned: &[(u32, Error)],
    outcome: Outcome,
    error: impl Fn(Option<u32>, Error) -> Error,
) -> Vec<Option<Failure>> {
    let mut failures: Vec<Option<Failure>> = plan.outputs.iter().map(|_| None).collect();
    // In the order of the steps; what fails at one step is one failure of all its outputs.
    let mut noted: BTreeMap<Option<u32>, (Error, Concerns)> = BTreeMap::new();
    for (step, found) in outcome.unseen {
        let writes = step.map_or(0, |step| plan.steps[step as usize].writes.len());
        let concerns = if writes == 0 { Concerns::Everybody } else { Concerns::none() };
        shared.stats.failures.add(1);
        noted.insert(step, (error(step, found), concerns));
    }
    for mut failure in outcome.failed {
        // What failed to make an input was noted then.
        let is_known =
            failure.step.is_none() && poisoned.iter().any(|(_, error)| *error == failure.error);
        failure.error = error(failure.step, failure.error);
        shared.stats.failures.add(1);
        let output = failure.output as usize;
        if !is_known {
            let known = noted.entry(failure.step);
            let known = known.or_insert_with(|| (failure.error.clone(), Concerns::none()));
            known.1.add(Concerns::tensor(&closed.promised[output]));
        }
        failures[output] = Some(failure);
    }
    for (error, concerns) in noted.into_values() {
        shared.failures.add(&error, concerns);
    }
    failures
}

/// What a buffer holds after a failed update: what it held before; an error if that was nothing.
fn recover(shared: &Shared, before: Option<&Storage>, error: &Error) -> Result<Box<dyn Bytes>> {
    let old = before.ok_or_else(|| error.clone())?;
    // Nobody else wants it, and for a copy there may be no memory.
    let allocate = |nbytes| shared.allocate(nbytes);
    let kept = match old.is_shared() {
        true => old.copy(allocate),
        false => old.take(allocate).and_then(Taken::into_bytes),
    };
    kept.map_err(|_| error.clone())
}

/// Puts the name of the user's operator in front.
fn named(program: &CompiledTrace, code: &Compiled, step: Option<u32>, error: Error) -> Error {
    match step.and_then(|step| code.plan.steps.get(step as usize)) {
        Some(step) => error.at(step.site).within(name_of(&program.operators, step.record)),
        None => error,
    }
}

pub fn panicked(panic: &(dyn Any + Send)) -> Error {
    // What had no other way out.
    if let Some(error) = panic.downcast_ref::<Error>() {
        return error.clone();
    }
    let text = panic_text(panic);
    Error::new(Code::Panic, format!("internal error while a program was compiled or run: {text}"))
}

impl Shared {
    pub fn allocate(&self, nbytes: usize) -> Result<Box<dyn Bytes>> {
        self.backend.allocate(nbytes)
    }

    /// Warns once of what the backend lacks, which it may have found out when it compiled.
    fn report_lack(&self) {
        if let Some(lack) = self.backend.missing_features()
            && !self.lack_is_reported.swap(true, Relaxed)
        {
            self.warn(lack);
        }
    }

    /// Remembers a failure for who is to be notified.
    pub fn fail(&self, error: &Error, concerns: Concerns) {
        self.stats.failures.add(1);
        self.failures.add(error, concerns);
    }
}
