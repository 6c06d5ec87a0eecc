//! Runs a closed trace on the launch thread, and settles every storage it promised, whatever happens.

use super::arena::{Arena, Intermediates, fresh_output};
use super::results_block::ResultsBlock;
use super::speculation::Speculation;
use super::taken_over::TakenOver;
use crate::backend::run::reached;
use crate::backend::{Call, Failure, Outcome, Watch};
use crate::buffer::{Bytes, DerivedCache, Storage, Taken};
use crate::cache::Lookup;
use crate::cache::key::Key;
use crate::error::{Error, Result};
use crate::internal;
use crate::plan::Plan;
use crate::record::Operator;
use crate::runtime::compile::{Ran, Task, padding, program_store};
use crate::runtime::observe::breakdown::Phase;
use crate::runtime::observe::clock::now;
use crate::runtime::observe::failures::{Concerns, panicked};
use crate::runtime::observe::watchdog::Watchdog;
use crate::runtime::observe::{oom_report, watch};
use crate::runtime::program::{CompiledTrace, Trial};
use crate::runtime::shared::Shared;
use crate::trace::{Closed, name_of};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Scope, scope};

/// Work for other threads after a run.
#[derive(Default)]
pub struct Next {
    pub ran: Option<Ran>,
    pub task: Option<Task>,
}

/// Finds or compiles the program of a closed trace and runs it, or the rest of a run that was begun.
pub fn run(shared: &Shared, closed: Closed, arena: &mut Arena, begun: Option<Speculation>) -> Next {
    let (mut waiting, mut next) = (None, Next::default());
    // Ends when the background work that the next trace waits for is done, too.
    scope(|scope| {
        let is_new = run_with_background(shared, closed, (arena, begun), scope, &mut next);
        waiting = is_new.then(|| shared.observed.stay(Phase::Compile));
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
    let _at_work = shared.observed.watchdog.as_ref().map(Watchdog::compiles);
    let launch = AssertUnwindSafe(|| {
        let (program, lookup) = find(shared, &closed, scope)?;
        is_new = lookup == Lookup::Made;
        if program.is_unused.swap(false, Relaxed) {
            shared.observed.stats.carried_over.add(1);
            shared.observed.stats.prefetched.add(1);
        }
        next.ran = Ran::new(shared, &closed, &program);
        let _stay = shared.observed.stay(Phase::Launch);
        next.task = launch(shared, &program, is_new, &closed, (arena, begun))?;
        Ok(())
    });
    let result = catch_unwind(launch).unwrap_or_else(|panic| Err(panicked(&*panic)));
    // Readers find the values in the buffers; nothing else may keep the old ones alive.
    closed.leaves.clear();
    shared.observed.tail.end();
    if let Err(error) = result.map_err(|error| closed.placed(error)) {
        let left: Vec<usize> =
            (0..closed.promised.len()).filter(|&n| !closed.promised[n].is_settled()).collect();
        let tensors = left.iter().map(|&n| Arc::downgrade(&closed.promised[n])).collect();
        let nobody = closed.promised.is_empty();
        shared
            .observed
            .fail(&error, if nobody { Concerns::Everybody } else { Concerns::Tensors(tensors) });
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
    let _stay = shared.observed.stay(Phase::Key);
    if let Some(found) = shared.paths.find(closed.trace_id(), &closed.outputs) {
        if !found.check || is_of_key(shared, closed, &found.program) {
            shared.cache.touch(found.hash);
            shared.observed.stats.cache_hits.add(1);
            return Ok((found.program, Lookup::Hit));
        }
        debug_assert!(false, "a known trace led to another program than its key");
    }
    let key = shared.key_of(closed.key_parts());
    let hash = key.hash();
    let make = |key: &Key| program_store::program(shared, key, closed, scope);
    let (program, lookup) = shared.cache.get_or_make(key, make);
    match lookup {
        Lookup::Hit => shared.observed.stats.cache_hits.add(1),
        Lookup::Made => shared.observed.stats.cache_misses.add(1),
    }
    let program = program?;
    if lookup == Lookup::Made {
        shared.observed.dump(&program);
        shared.report_lack();
        *shared.last_program.lock() = Some(program.clone());
    }
    shared.paths.add(closed.trace_id(), &closed.outputs, &program, hash);
    Ok((program, lookup))
}

/// Whether the full key leads to the same program, or no longer to any.
fn is_of_key(shared: &Shared, closed: &Closed, program: &Arc<CompiledTrace>) -> bool {
    shared
        .cache
        .get(&shared.key_of(closed.key_parts()))
        .is_none_or(|other| Arc::ptr_eq(&other, program))
}

/// `is_new`: whether the program was made for this run. Returns the next task of its choice of engines.
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
    // Only whole runs are measured.
    let begun = begun.filter(|_| !matches!(trial, Trial::Own | Trial::Other(_)));
    let begun = begun.and_then(|begun| begun.begun(closed, &code));
    closed.trace().outlook.had(&closed.scalars);
    shared.observed.watchdog.as_ref().inspect(|dog| dog.runs(plan, &program.operators));
    shared.observed.fullest.ran(code.bytes, plan, &program.operators);
    let binding = program.binding.as_deref();
    // Held until the program has run.
    let mut padded: Vec<Box<dyn Bytes>> = Vec::new();
    let mut is_padded = vec![false; closed.leaves.len()];
    let mut inputs: Vec<Result<usize>> = (closed.leaves.iter().enumerate())
        .map(|(i, leaf)| {
            let copy =
                binding.and_then(|f| f.padded_input(&*shared.backend, i, &plan.inputs[i], leaf));
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
                // While a read uses the memory to be donated, the program gets a copy.
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
    let has_fallbacks = code.has_fallbacks;
    let running =
        watch::Run { plan, has_fallbacks, operators: &program.operators, scalars: &scalars };
    let watch = watch::steps(&shared.observed, &*shared.backend, running);
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
    // A known failure may concern this program's results, which is found out at the end.
    let hands_over = binding.is_none() && shared.observed.failures.is_empty();
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
                    shared.observed.tail.begin();
                    closed.promised[output].fulfil(Ok(bytes));
                }
            }
        }
        Some(step)
    };
    // Inside the time that is counted as running, so that the device's part never exceeds it.
    let run = || {
        let _stay = shared.observed.stay(Phase::Device);
        match code.executable.stepwise() {
            Some(stepwise) => stepwise.run_steps(&call, &mut next),
            None => code.executable.run(&call),
        }
    };
    let start = now();
    let outcome = shared.observed.busy.time(|| shared.observed.stats.execute_ns.time(run));
    let took_ns = now() - start + early_ns;
    let is_whole = outcome.failed.is_empty() && outcome.unseen.is_empty();
    for (output, bytes) in taken.into_memory() {
        match bytes {
            Ok(bytes) => memory[output] = Some(bytes),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    shared.observed.stats.kernels.add(plan.steps.len() as u64);
    shared.observed.stats.early_kernels.add(early.count() as u64);
    shared.observed.stats.offloaded_bytes.add(plan.offloaded_bytes());
    shared.observed.stats.overlapped_copies.add(plan.copies_on_lanes());
    binding.inspect(|binding| padding::was_run(shared, binding));
    shared
        .observed
        .failures
        .spread(&closed.leaves, &closed.promised, |inputs| reached(plan, inputs));
    let report = refused.map(|error| {
        let memory = shared.backend.pool().stats();
        oom_report::report(memory, plan, &program.operators, &error)
    });
    let error = |step: Option<u32>, error: Error| match &report {
        // An input that failed for lack of memory keeps its own message.
        Some(report) if step.is_some() && error.code == report.code => {
            closed.placed(Error { site: error.site, ..report.clone() })
        }
        // Nor did an input fail here.
        _ if step.is_none() => error,
        _ => closed.placed(named(plan, &program.operators, step, error)),
    };
    let failures = note(shared, plan, closed, &poisoned, outcome, error);
    let settled = closed.promised.iter().zip(memory).zip(failures).enumerate();
    for (index, ((promised, bytes), failure)) in settled {
        if bytes.is_none() && promised.is_settled() {
            shared.observed.stats.early_outputs.add(1);
            continue;
        }
        let before = closed.before[index].as_deref();
        promised.fulfil(match (failure, bytes) {
            (None, Some(bytes)) => match binding {
                Some(f) => f
                    .exact_output(&*shared.backend, index, &plan.outputs[index], bytes)
                    .or_else(|e| {
                        shared.observed.fail(&e, Concerns::tensor(promised));
                        recover(shared, before, &e)
                    }),
                None => Ok(bytes),
            },
            // Donated memory is written only by the step that failed to run: it still holds the old value.
            (Some(failure), Some(bytes)) if donors[index].is_some() && !failure.torn => Ok(bytes),
            (Some(failure), _) => recover(shared, before, &failure.error),
            (None, None) => internal!("an output was computed without memory"),
        });
    }
    if shared.observed.profile.is_active() {
        shared.observed.profile.counter("live memory", shared.backend.pool().stats().live_bytes);
    }
    Ok(trial.ran(program, closed, is_whole.then_some(took_ns)))
}

/// Remembers failures for later reports, and returns that of each output. `error` expresses an error in the user's terms.
fn note(
    shared: &Shared,
    plan: &Plan,
    closed: &Closed,
    poisoned: &[(u32, Error)],
    outcome: Outcome,
    error: impl Fn(Option<u32>, Error) -> Error,
) -> Vec<Option<Failure>> {
    let mut failures: Vec<Option<Failure>> = plan.outputs.iter().map(|_| None).collect();
    // In the order of the steps; all outputs that fail at one step have one failure.
    let mut noted: BTreeMap<Option<u32>, (Error, Concerns)> = BTreeMap::new();
    for (step, found) in outcome.unseen {
        let writes = step.map_or(0, |step| plan.steps[step as usize].writes.len());
        let concerns = if writes == 0 { Concerns::Everybody } else { Concerns::none() };
        shared.observed.stats.failures.add(1);
        noted.insert(step, (error(step, found), concerns));
    }
    for mut failure in outcome.failed {
        // The failure of an input was noted when it happened.
        let is_known =
            failure.step.is_none() && poisoned.iter().any(|(_, error)| *error == failure.error);
        failure.error = error(failure.step, failure.error);
        shared.observed.stats.failures.add(1);
        let output = failure.output as usize;
        if !is_known {
            let known = noted.entry(failure.step);
            let known = known.or_insert_with(|| (failure.error.clone(), Concerns::none()));
            known.1.add(Concerns::tensor(&closed.promised[output]));
        }
        failures[output] = Some(failure);
    }
    for (error, concerns) in noted.into_values() {
        shared.observed.failures.add(&error, concerns);
    }
    failures
}

/// The content of a buffer after a failed update: its old value, or an error if it had none.
fn recover(shared: &Shared, before: Option<&Storage>, error: &Error) -> Result<Box<dyn Bytes>> {
    let old = before.ok_or_else(|| error.clone())?;
    // Unless it is shared nobody else needs it, and there may be no memory for a copy.
    let allocate = |nbytes| shared.allocate(nbytes);
    let kept = match old.is_shared() {
        true => old.copy(allocate),
        false => old.take(allocate).and_then(Taken::into_bytes),
    };
    kept.map_err(|_| error.clone())
}

/// Prefixes an error with the name of the user's operator.
fn named(plan: &Plan, operators: &[Operator], step: Option<u32>, error: Error) -> Error {
    match step.and_then(|step| plan.steps.get(step as usize)) {
        Some(step) => error.at(step.site).within(name_of(operators, step.record)),
        None => error,
    }
}

impl Shared {
    /// Warns once of features that the backend lacks, which it may find out when it compiles.
    fn report_lack(&self) {
        if let Some(lack) = self.backend.missing_features()
            && !self.lack_is_reported.swap(true, Relaxed)
        {
            self.observed.warn(lack);
        }
    }
}
