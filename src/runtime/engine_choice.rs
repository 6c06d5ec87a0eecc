//! Which engine a program runs on, where the backend has a second one for its memory (`TORCHACC_BACKEND=auto`): what runs often is
//! compiled for that one too, in the background, then runs on both in turns, and stays on the faster one. The folder of programs
//! keeps what was chosen.
//!
//! Both compute the same up to rounding. Processes that work together keep their replicas equal bit by bit, so they choose nothing.

use super::Shared;
use super::background::BackgroundThread;
use super::code::Compiled;
use super::compile::{self, CompiledTrace};
use super::execute::key_of;
use super::explain::Chosen;
use crate::backend::Backend;
use crate::cache::disk::Entry;
use crate::cache::key::Key;
use crate::op::collective;
use crate::record::Output;
use crate::trace::{Closed, RecordedTrace};
use parking_lot::Mutex;
use std::sync::Arc;

/// Runs after which a program is worth compiling for the second engine, ...
const RUNS: u32 = 50;
/// ... and nanoseconds that they took.
const RUNS_NS: u64 = 100_000_000;
/// Runs that are measured, on each engine, after one on each that is not.
const MEASURED: usize = 10;
/// Tasks that may wait.
const WAITING: usize = 256;

/// Of a program's code.
#[derive(Default)]
pub struct EngineChoice(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    New,
    Counting {
        runs: u32,
        ns: u64,
    },
    /// The background thread has it.
    InBackground,
    Measuring {
        other: Arc<Compiled>,
        /// Of the own engine, and of the other.
        times: [Vec<u64>; 2],
    },
    /// For good: what runs is the program's code.
    Made,
}

/// What a run is to the choice.
pub enum Trial {
    Nothing,
    Counted,
    /// Measured, on the own engine.
    Own,
    Other(Arc<Compiled>),
}

/// What is to be done in the background.
pub struct Task {
    pub program: Arc<CompiledTrace>,
    trace: Arc<RecordedTrace>,
    outputs: Vec<Output>,
    what: What,
}

enum What {
    /// Find out what an earlier process chose.
    Recall,
    Compile,
    /// Medians of the own engine and the other, and its code.
    Choose([u64; 2], Arc<Compiled>),
}

impl EngineChoice {
    /// Of the run that begins.
    pub(super) fn trial(&self, shared: &Shared, program: &CompiledTrace) -> Trial {
        // The program of a bucket has no trace of its own; small ones are over before a module has started.
        let is_open = shared.backend.second_engine().is_some()
            && program.binding.is_none()
            && program.operators.len() >= shared.disk_from
            && !collective::is_used();
        if is_open { self.next() } else { Trial::Nothing }
    }

    fn next(&self) -> Trial {
        match &*self.0.lock() {
            State::New | State::Counting { .. } => Trial::Counted,
            State::InBackground | State::Made => Trial::Nothing,
            State::Measuring { times: [own, other], .. } if own.len() <= other.len() => Trial::Own,
            State::Measuring { other, .. } => Trial::Other(other.clone()),
        }
    }

    /// The program's code stays what it is by now.
    pub fn give_up(&self) {
        *self.0.lock() = State::Made;
    }

    /// What a run that took so long means; `None`: it failed.
    fn ran(&self, took_ns: Option<u64>, is_other: bool) -> Option<What> {
        let mut state = self.0.lock();
        let task = match (&mut *state, took_ns) {
            (State::New, _) => What::Recall,
            (State::Counting { runs, ns }, Some(took)) => {
                (*runs, *ns) = (*runs + 1, *ns + took);
                if *runs < RUNS || *ns < RUNS_NS {
                    return None;
                }
                What::Compile
            }
            (State::Measuring { other, times }, Some(took)) => {
                times[is_other as usize].push(took);
                if times.iter().any(|times| times.len() <= MEASURED) {
                    return None;
                }
                let medians = times.clone().map(|times| median(times[1..].to_vec()));
                What::Choose(medians, other.clone())
            }
            (State::Measuring { .. }, None) if is_other => {
                *state = State::Made;
                return None;
            }
            _ => return None,
        };
        *state = State::InBackground;
        Some(task)
    }
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

impl Trial {
    /// What runs instead of the program's code.
    pub fn other(&self) -> Option<Arc<Compiled>> {
        match self {
            Trial::Other(code) => Some(code.clone()),
            _ => None,
        }
    }

    /// The run has ended, well if it took some time.
    pub fn ran(
        &self,
        program: &Arc<CompiledTrace>,
        closed: &Closed,
        took_ns: Option<u64>,
    ) -> Option<Task> {
        if matches!(self, Trial::Nothing) {
            return None;
        }
        let what = program.code.choice.ran(took_ns, matches!(self, Trial::Other(_)))?;
        let (trace, outputs) = (closed.trace().clone(), closed.outputs.clone());
        Some(Task { program: program.clone(), trace, outputs, what })
    }
}

pub fn chooser() -> BackgroundThread<Task> {
    BackgroundThread::new("engines", WAITING, work)
}

/// A panic leaves the program as it is.
fn work(shared: &Shared, task: Task) {
    let Some(second) = shared.backend.second_engine() else { return };
    let choice = &task.program.code.choice;
    match &task.what {
        What::Recall => {
            let is_second = recalled(shared, second, &task);
            if is_second == Some(true)
                && let Some(code) = compiled(shared, second, &task)
            {
                task.program.code.replace(code);
                task.note(shared, second.name(), None);
            }
            *choice.0.lock() = match is_second {
                Some(_) => State::Made,
                None => State::Counting { runs: 0, ns: 0 },
            };
        }
        What::Compile => {
            let code = compiled(shared, second, &task).map(Arc::new);
            *choice.0.lock() = match code {
                Some(other) => State::Measuring { other, times: Default::default() },
                None => State::Made,
            };
        }
        What::Choose(ns, other) => {
            let is_second = ns[1] < ns[0];
            let name = if is_second { second.name() } else { shared.backend.name() };
            if is_second {
                task.program.code.replace(other.clone());
            }
            choice.give_up();
            shared.stats.engine_measured.add(1);
            task.note(shared, name, Some(*ns));
            keep(shared, second, &task, is_second);
        }
    }
}

impl Task {
    fn note(&self, shared: &Shared, engine: &'static str, ns: Option<[u64; 2]>) {
        let is_second = shared.backend.name() != engine;
        shared.stats.engine_chosen.add(is_second as u64);
        let first = self.trace.records.first();
        shared.explain.chosen.lock().add(Chosen {
            engine,
            operations: self.trace.records.len(),
            site: first.map_or(0, |record| record.site),
            ns,
        });
    }

    fn key(&self, shared: &Shared, second: &dyn Backend) -> Key {
        let mut parts = self.trace.key_parts(&self.outputs);
        parts.push(("second engine", second.fingerprint().into_bytes()));
        key_of(shared, parts)
    }
}

/// The program for the second engine; `None` where that has nothing to compute in it, or fails.
fn compiled(shared: &Shared, second: &dyn Backend, task: &Task) -> Option<Compiled> {
    let records = task.trace.records(&task.outputs);
    compile::for_engine(shared, &records, second).unwrap_or_else(|error| {
        shared.warn(format!("a program stays on {}: {error}", shared.backend.name()));
        None
    })
}

/// Whether an earlier process chose the second engine.
fn recalled(shared: &Shared, second: &dyn Backend, task: &Task) -> Option<bool> {
    let decode = |bytes: &[u8]| match bytes {
        [is_second @ 0..=1] => Some(*is_second == 1),
        _ => None,
    };
    match shared.disk.as_ref()?.find(&task.key(shared, second), decode).0 {
        Entry::Found(is_second) => Some(is_second),
        Entry::Absent(_) | Entry::Closed(_) => None,
    }
}

/// What cannot be kept is measured again.
fn keep(shared: &Shared, second: &dyn Backend, task: &Task, is_second: bool) {
    let Some(disk) = &shared.disk else { return };
    let key = task.key(shared, second);
    if let Entry::Absent(claim) = disk.find(&key, |_| None::<()>).0 {
        disk.store(&key, &[is_second as u8], claim).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::null::Null;
    use crate::graph::text::parse;
    use crate::plan::tests::plan_of;

    const MS: u64 = 1_000_000;

    fn counting() -> EngineChoice {
        EngineChoice(State::Counting { runs: 0, ns: 0 }.into())
    }

    fn measuring() -> EngineChoice {
        let graph =
            parse("%0: f32[2] = input() {index=0, type=(f32[2])}\n%1: f32[2] = neg(%0)\nreturn %1");
        let plan = plan_of(&graph.unwrap(), &[None]);
        let other = Arc::new(Compiled::new(Arc::new(plan), &Null::default()).unwrap());
        EngineChoice(State::Measuring { other, times: Default::default() }.into())
    }

    #[test]
    fn it_is_looked_up_first_and_compiled_when_it_has_run_often_and_long() {
        let choice = EngineChoice::default();
        assert!(matches!(choice.next(), Trial::Counted));
        assert!(matches!(choice.ran(Some(1), false), Some(What::Recall)));
        assert!(matches!(choice.next(), Trial::Nothing));
        for (took, runs) in [(10 * MS, RUNS), (MS, 100)] {
            let choice = counting();
            // One that fails says nothing.
            assert!(choice.ran(None, false).is_none());
            for _ in 1..runs {
                assert!(choice.ran(Some(took), false).is_none());
            }
            assert!(matches!(choice.ran(Some(took), false), Some(What::Compile)));
            assert!(choice.ran(Some(took), false).is_none());
        }
    }

    #[test]
    fn runs_on_both_are_measured_in_turns_but_for_the_first() {
        let choice = measuring();
        for run in 0..=MEASURED {
            assert!(matches!(choice.next(), Trial::Own));
            assert!(choice.ran(Some(if run == 0 { 900 * MS } else { 7 * MS }), false).is_none());
            assert!(matches!(choice.next(), Trial::Other(_)));
            let task = choice.ran(Some(if run == 0 { MS } else { 8 * MS }), true);
            match (run == MEASURED, task) {
                (false, None) => {}
                (true, Some(What::Choose(ns, _))) => assert_eq!(ns, [7 * MS, 8 * MS]),
                _ => panic!("run {run}"),
            }
        }
        assert!(matches!(choice.next(), Trial::Nothing));
    }

    #[test]
    fn an_engine_that_fails_is_not_chosen() {
        let choice = measuring();
        assert!(choice.ran(None, false).is_none());
        assert!(matches!(choice.next(), Trial::Own));
        assert!(choice.ran(None, true).is_none());
        assert!(matches!(choice.next(), Trial::Nothing));
    }
}
