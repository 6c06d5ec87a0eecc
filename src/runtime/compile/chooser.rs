//! Chooses the engine of programs ([`EngineChoice`]), in the background. The folder of programs keeps the choices.
//!
//! Both engines compute the same up to rounding. Processes that work together keep their replicas equal bit by bit, so they
//! choose nothing.

use super::background::BackgroundThread;
use super::pipeline;
use crate::backend::Backend;
use crate::cache::disk::Entry;
use crate::cache::key::Key;
use crate::op::collective;
use crate::record::Output;
use crate::runtime::observe::explain::Chosen;
use crate::runtime::program::{Compiled, CompiledTrace, EngineChoice, Trial, What};
use crate::runtime::shared::Shared;
use crate::trace::{Closed, RecordedTrace};
use std::sync::Arc;

/// Number of tasks that may wait.
const WAITING: usize = 256;

/// A step of a program's choice, to be done in the background.
pub struct Task {
    pub program: Arc<CompiledTrace>,
    trace: Arc<RecordedTrace>,
    outputs: Vec<Output>,
    what: What,
}

impl EngineChoice {
    /// The trial of the run that begins.
    pub fn trial(&self, shared: &Shared, program: &CompiledTrace) -> Trial {
        // A bucket's program has no trace of its own; small programs end before a module has started.
        let is_open = shared.backend.second_engine().is_some()
            && program.binding.is_none()
            && program.operators.len() >= shared.disk_from
            && !collective::is_used();
        if is_open { self.next() } else { Trial::Nothing }
    }
}

impl Trial {
    /// Notes that the run has ended; `took_ns` is `None` if it failed. Returns the next task of the choice.
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
            match is_second {
                Some(_) => choice.give_up(),
                None => choice.count(),
            }
        }
        What::Compile => match compiled(shared, second, &task) {
            Some(other) => choice.measure(Arc::new(other)),
            None => choice.give_up(),
        },
        What::Choose(ns, other) => {
            let is_second = ns[1] < ns[0];
            let name = if is_second { second.name() } else { shared.backend.name() };
            if is_second {
                task.program.code.replace(other.clone());
            }
            choice.give_up();
            shared.observed.stats.engine_measured.add(1);
            task.note(shared, name, Some(*ns));
            keep(shared, second, &task, is_second);
        }
    }
}

impl Task {
    fn note(&self, shared: &Shared, engine: &'static str, ns: Option<[u64; 2]>) {
        let is_second = shared.backend.name() != engine;
        shared.observed.stats.engine_chosen.add(is_second as u64);
        let first = self.trace.records.first();
        shared.observed.explain.chosen.lock().add(Chosen {
            engine,
            operations: self.trace.records.len(),
            site: first.map_or(0, |record| record.site),
            ns,
        });
    }

    fn key(&self, shared: &Shared, second: &dyn Backend) -> Key {
        let mut parts = self.trace.key_parts(&self.outputs);
        parts.push(("second engine", second.fingerprint().into_bytes()));
        shared.key_of(parts)
    }
}

/// The program for the second engine; `None` if that would compute nothing of it, or fails.
fn compiled(shared: &Shared, second: &dyn Backend, task: &Task) -> Option<Compiled> {
    let records = task.trace.records(&task.outputs);
    pipeline::for_engine(shared, &records, second).unwrap_or_else(|error| {
        shared.observed.warn(format!("a program stays on {}: {error}", shared.backend.name()));
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

/// Stores the choice for later processes, which measure again if that fails.
fn keep(shared: &Shared, second: &dyn Backend, task: &Task, is_second: bool) {
    let Some(disk) = &shared.disk else { return };
    let key = task.key(shared, second);
    if let Entry::Absent(claim) = disk.find(&key, |_| None::<()>).0 {
        disk.store(&key, &[is_second as u8], claim).ok();
    }
}
