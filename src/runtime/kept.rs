//! Programs kept on disk for other processes: looked for before compiling, stored after.

use super::Shared;
use super::breakdown::Phase;
use super::clock::now;
use super::compile::{self, Carried, Program};
use crate::backend::Backend;
use crate::cache::disk::{Claim, Disk, Entry};
use crate::cache::key::Key;
use crate::dynamic::Form;
use crate::error::Result;
use crate::plan::{Plan, check, stored};
use crate::record::Records;
use crate::trace::Closed;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

#[derive(Default)]
pub struct Kept {
    disk: Option<Arc<Disk>>,
    /// Being written while the program runs for the first time.
    writes: Mutex<Vec<JoinHandle<io::Result<()>>>>,
}

impl Kept {
    pub fn new(disk: Option<Disk>) -> Kept {
        Kept { disk: disk.map(Arc::new), writes: Mutex::default() }
    }
}

/// The program of `key`: by a plan for other sizes, or from disk, or compiled and stored there. What goes wrong with the disk
/// costs a warning.
pub fn program(shared: &Shared, key: &Key, closed: &Closed) -> Result<Program> {
    let (records, stats) = (closed.records(), &shared.stats);
    let (families, backend) = (&shared.families, &*shared.backend);
    let form = Form::of(&records);
    let carried = {
        let _stay = shared.stay(Phase::Compile);
        compile::carry_over(&records, &form, families, backend)?
    };
    match carried {
        Carried::Over(program) => {
            stats.plans.add(1);
            stats.carried_over.add(1);
            return Ok(program);
        }
        Carried::Refuted => {
            debug_assert!(false, "a plan carried over differs from the trace's own");
            shared.cache.drop_where(|program| program.carried_over);
            shared.warn("internal error: a program made of a plan for other sizes was wrong, so steps of new sizes \
                         since the last sync may be; all of these programs are dropped. Please report it".into());
        }
        Carried::Nothing => {}
    }
    let compile = || {
        let _stay = shared.stay(Phase::Compile);
        let start = now();
        let made = compile::compile(&records, form, families, backend, &shared.profile);
        shared.compiled(closed, start, made.is_ok());
        let (program, general) = made?;
        stats.templates.add(general as u64);
        Ok(program)
    };
    let Some(disk) = &shared.kept.disk else { return compile() };
    let decode = |bytes: &[u8]| load(bytes, &records, &*shared.backend);
    let (entry, removed) = stats.disk_ns.time(|| disk.find(key, decode));
    stats.disk_removed.add(removed);
    match entry {
        Entry::Found(program) => {
            stats.disk_hits.add(1);
            shared.explain.loaded(closed.trace(), &closed.outputs);
            Ok(program)
        }
        Entry::Absent(claim) => {
            let program = compile()?;
            store(shared, disk.clone(), key.clone(), program.plan.clone(), claim);
            Ok(program)
        }
        Entry::Closed(error) => {
            error.iter().for_each(|error| failed(shared, error));
            compile()
        }
    }
}

/// The program that `bytes` stand for, if it is one for these records.
fn load(bytes: &[u8], records: &Records, backend: &dyn Backend) -> Option<Program> {
    let record = |number: u32| records.records.get((number as usize).checked_sub(1)?);
    let site = |number: u32| record(number).map_or(0, |record| record.site);
    let plan = stored::decode(bytes, site)?;
    if !fits(&plan, records) {
        return None;
    }
    if cfg!(debug_assertions) {
        let graph = compile::graph(records, backend).expect("it was compiled before");
        check::check(&graph, &plan).expect("it was checked before");
    }
    compile::load(records, Arc::new(plan), backend).ok()
}

/// Whether a plan can be run on what the records bring along.
fn fits(plan: &Plan, records: &Records) -> bool {
    let offered = compile::donors(records);
    let granted =
        |(granted, offered): (&Option<u32>, &Option<u32>)| granted.is_none() || granted == offered;
    plan.inputs == compile::inputs(records)
        && plan.scalars == compile::scalars(records)
        && plan.outputs.len() == records.outputs.len()
        && plan.donors.len() == offered.len()
        && plan.donors.iter().zip(&offered).all(granted)
}

/// Stores a program on a thread of its own: the step it is for is waiting.
fn store(shared: &Shared, disk: Arc<Disk>, key: Key, plan: Arc<Plan>, claim: Claim) {
    let write = move || match stored::encode(&plan) {
        Some(bytes) => disk.store(&key, &bytes, claim),
        None => Ok(()),
    };
    match std::thread::Builder::new().name("torchacc-store".into()).spawn(write) {
        Ok(thread) => shared.kept.writes.lock().push(thread),
        Err(error) => failed(shared, &error),
    }
}

/// Waits until what was to be stored is.
pub fn settle(shared: &Shared) {
    for thread in std::mem::take(&mut *shared.kept.writes.lock()) {
        let stored = thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")));
        if let Err(error) = stored {
            failed(shared, &error);
        }
    }
}

/// Said once.
fn failed(shared: &Shared, error: &io::Error) {
    if shared.stats.disk_errors.get() == 0 {
        shared.warn(format!("compiled programs are not kept for other processes: {error}"));
    }
    shared.stats.disk_errors.add(1);
}

#[cfg(test)]
mod tests;
