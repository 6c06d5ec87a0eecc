//! Where a program comes from: a plan for other sizes, a file, or the compiler. What is done with it for later goes on beside
//! its first run: writing it to disk, and planning it for other sizes.

use super::breakdown::Phase;
use super::clock::now;
use super::compile::{self, Carried, Interface, Program, Rest};
use super::{Shared, fitting};
use crate::backend::Backend;
use crate::cache::disk::{Claim, Disk, Entry};
use crate::cache::key::Key;
use crate::dynamic::Form;
use crate::error::Result;
use crate::graph::Graph;
use crate::plan::{Plan, check, stored};
use crate::record::Records;
use crate::trace::Closed;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, Scope};

/// The program of `key`: by a plan for other sizes, or from disk, or compiled and stored there. What goes wrong with the disk
/// costs a warning.
pub fn program<'scope>(
    shared: &'scope Shared,
    key: &Key,
    closed: &Closed,
    beside: &'scope Scope<'scope, '_>,
) -> Result<Program> {
    let (records, stats) = (closed.records(), &shared.stats);
    let (families, backend) = (&shared.families, &*shared.backend);
    let form = Form::of(&records);
    let unpadded = match fitting::program(shared, closed, &records, &form, beside) {
        Ok(program) => return Ok(program),
        Err(why) => why,
    };
    let carried = {
        let _stay = shared.stay(Phase::Compile);
        compile::carry_over(&records, &form, families, backend)?
    };
    match carried {
        Carried::Over(program) => {
            stats.plans.add(1);
            stats.carried_over.add(1);
            return Ok(Program { unpadded, ..*program });
        }
        Carried::Refuted => {
            debug_assert!(false, "a plan carried over differs from the trace's own");
            shared.cache.drop_where(|program| program.carried_over);
            shared.warn("internal error: a program made of a plan for other sizes was wrong, so steps of new sizes \
                         since the last sync may be; all of these programs are dropped. Please report it".into());
        }
        Carried::Nothing => {}
    }
    let interface = Interface::of(&records);
    let graph = || compile::graph(&records, backend);
    let compile = || compile::compile(shared, &records, &form);
    let wanted = (&interface, &graph as &dyn Fn() -> _, false);
    let program = find_or(shared, key, closed, wanted, beside, compile)?;
    // If it was on disk: the next size that is compiled is compared with this one, and planned for others.
    families.add(&form);
    Ok(Program { unpadded, ..program })
}

/// What a program is to be: its world, its graph, and whether it is that of a bucket.
pub type Wanted<'a> = (&'a Interface, &'a dyn Fn() -> Result<Graph>, bool);

/// The program of `key` for the trace `closed`: from disk, or compiled and stored there.
pub fn find_or<'scope>(
    shared: &'scope Shared,
    key: &Key,
    closed: &Closed,
    (interface, graph, bucket): Wanted,
    beside: &'scope Scope<'scope, '_>,
    compile: impl FnOnce() -> Result<(Program, Rest)>,
) -> Result<Program> {
    let stats = &shared.stats;
    let compile = |file: Option<File<'scope>>| {
        let _stay = shared.stay(Phase::Compile);
        let start = now();
        let made = compile();
        shared.compiled(closed, start, made.is_ok(), bucket);
        let (program, rest) = made?;
        if file.is_some() || rest.is_some() {
            later(shared, rest, file, beside);
        }
        Ok(program)
    };
    let pays = closed.trace().records.len() >= shared.disk_from;
    let Some(disk) = shared.disk.as_ref().filter(|_| pays) else { return compile(None) };
    let records = closed.records();
    let decode = |bytes: &[u8]| load(bytes, &records, interface, graph, &*shared.backend);
    let (entry, removed) = stats.disk_ns.time(|| disk.find(key, decode));
    stats.disk_removed.add(removed);
    match entry {
        Entry::Found(program) => {
            stats.disk_hits.add(1);
            shared.explain.loaded(closed.trace(), &closed.outputs);
            Ok(program)
        }
        Entry::Absent(claim) => compile(Some(File { disk, key: key.clone(), claim })),
        Entry::Closed(error) => {
            error.iter().for_each(|error| failed(shared, error));
            compile(None)
        }
    }
}

/// The program that `bytes` stand for, if it is one for these records.
fn load(
    bytes: &[u8],
    records: &Records,
    interface: &Interface,
    graph: &dyn Fn() -> Result<Graph>,
    backend: &dyn Backend,
) -> Option<Program> {
    let record = |number: u32| records.records.get((number as usize).checked_sub(1)?);
    let site = |number: u32| record(number).map_or(0, |record| record.site);
    let plan = stored::decode(bytes, site)?;
    if !fits(&plan, interface) {
        return None;
    }
    if cfg!(debug_assertions) {
        let graph = graph().expect("it was compiled before");
        check::check(&graph, &plan).expect("it was checked before");
    }
    compile::assembled(records, None, plan, backend).ok()
}

/// Whether a plan can be run in this world.
fn fits(plan: &Plan, interface: &Interface) -> bool {
    let Interface { inputs, scalars, donors } = interface;
    let granted =
        |(granted, offered): (&Option<u32>, &Option<u32>)| granted.is_none() || granted == offered;
    plan.inputs == *inputs
        && plan.scalars == *scalars
        && plan.outputs.len() == donors.len()
        && plan.donors.len() == donors.len()
        && plan.donors.iter().zip(donors).all(granted)
}

/// Where a program is to be kept.
struct File<'a> {
    disk: &'a Disk,
    key: Key,
    claim: Claim,
}

/// Does the rest for a program that is run meanwhile, and must not suffer from a panic here.
fn later<'scope>(
    shared: &'scope Shared,
    mut rest: Rest,
    file: Option<File<'scope>>,
    beside: &'scope Scope<'scope, '_>,
) {
    let to_be_kept = file.is_some();
    let work = move || {
        let plan = match rest.plan(shared) {
            Ok(plan) => plan,
            Err(error) => return shared.warn(format!("a program keeps its first plan: {error}")),
        };
        if let Some(file) = file {
            store(shared, &plan, file);
        }
        shared.stats.templates.add(rest.learn(shared) as u64);
    };
    let contained = move || drop(catch_unwind(AssertUnwindSafe(work)));
    let thread = Builder::new().name("torchacc-later".into());
    // Without a thread the program stays as it is, and the next length is compiled again, and tried again.
    if let Err(error) = thread.spawn_scoped(beside, contained)
        && to_be_kept
    {
        failed(shared, &error);
    }
}

fn store(shared: &Shared, plan: &Plan, File { disk, key, claim }: File) {
    let Some(bytes) = stored::encode(plan) else { return };
    match disk.store(&key, &bytes, claim) {
        Ok(evicted) => {
            shared.stats.disk_evictions.add(evicted.programs);
            shared.stats.disk_scanned.add(evicted.looked_at);
        }
        Err(error) => failed(shared, &error),
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
