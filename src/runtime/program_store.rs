//! Where a program comes from: a plan for other sizes, a file, or the compiler. Its background work overlaps its first
//! run: writing it to disk, and planning it for other sizes, which goes on beside later runs where these sizes have a plan already.

use super::breakdown::Phase;
use super::clock::now;
use super::compile::{self, BackgroundWork, CompiledTrace, Instantiation, Interface};
use super::progress::UnderWay;
use super::{Shared, padding};
use crate::backend::Backend;
use crate::cache::disk::{Claim, Disk, Entry};
use crate::cache::key::Key;
use crate::dynamic::ShapeErasedTrace;
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
    scope: &'scope Scope<'scope, '_>,
) -> Result<CompiledTrace> {
    let (records, backend) = (closed.records(), &*shared.backend);
    let erased = ShapeErasedTrace::of(&records);
    let unpadded = match padding::program(shared, closed, &records, &erased, scope) {
        Ok(program) => return Ok(program),
        Err(why) => why,
    };
    let instance = {
        let _stay = shared.stay(Phase::Compile);
        instance(shared, &records, &erased)?
    };
    if let Some(program) = instance {
        shared.stats.carried_over.add(1);
        return Ok(CompiledTrace { unpadded, ..program });
    }
    let interface = Interface::of(&records);
    let graph = || compile::graph(&records, backend);
    let compile = || compile::compile(shared, &records, &erased);
    let wanted = (&interface, &graph as &dyn Fn() -> _, false);
    let program = find_or(shared, key, closed, wanted, scope, compile)?;
    // If it was on disk: the next size that is compiled is compared with this one, and planned for others.
    shared.families.add(&erased);
    Ok(CompiledTrace { unpadded, ..program })
}

/// The program of a trace by a plan for other sizes, if there is one.
pub fn instance(
    shared: &Shared,
    records: &Records,
    erased: &ShapeErasedTrace,
) -> Result<Option<CompiledTrace>> {
    match compile::instantiate(shared, records, erased)? {
        Instantiation::Done(program) => {
            shared.stats.plans.add(1);
            Ok(Some(*program))
        }
        Instantiation::Refuted => {
            debug_assert!(false, "an instantiated plan differs from the trace's own");
            shared.cache.drop_where(|program| program.instance_of.is_some());
            shared.warn("internal error: a program made of a plan for other sizes was wrong, so steps of new sizes \
                         since the last sync may be; all of these programs are dropped. Please report it".into());
            Ok(None)
        }
        Instantiation::Nothing => Ok(None),
    }
}

/// What a program is to be: its world, its graph, and whether it is that of a bucket.
pub type Wanted<'a> = (&'a Interface, &'a dyn Fn() -> Result<Graph>, bool);

/// The program of `key` for the trace `closed`: from disk, or compiled and stored there.
pub fn find_or<'scope>(
    shared: &'scope Shared,
    key: &Key,
    closed: &Closed,
    (interface, graph, bucket): Wanted,
    scope: &'scope Scope<'scope, '_>,
    compile: impl FnOnce() -> Result<(CompiledTrace, BackgroundWork)>,
) -> Result<CompiledTrace> {
    let stats = &shared.stats;
    let compile = |file: Option<File<'scope>>| {
        let _stay = shared.stay(Phase::Compile);
        let start = now();
        let records = &closed.trace().records;
        let site = records.first().map_or(0, |record| record.site);
        let under_way = shared.progress.begins(records.len(), site);
        let made = compile();
        shared.compiled(closed, start, made.as_ref().ok().map(|(program, _)| program), bucket);
        let (program, background) = made?;
        if file.is_some() || background.is_some() {
            run_in_background(shared, background, file, under_way, scope);
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
) -> Option<CompiledTrace> {
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

/// Does the background work of a program that is run meanwhile, and must not suffer from a panic here.
fn run_in_background<'scope>(
    shared: &'scope Shared,
    mut background: BackgroundWork,
    file: Option<File<'scope>>,
    under_way: UnderWay<'scope>,
    scope: &'scope Scope<'scope, '_>,
) {
    let to_be_kept = file.is_some();
    let work = move || {
        let _under_way = under_way;
        let plan = match background.plan(shared) {
            Ok(plan) => plan,
            Err(error) => return shared.warn(format!("a program keeps its first plan: {error}")),
        };
        if let Some(file) = file {
            store(shared, &plan, file);
        }
        match background.is_awaited(shared) {
            true => background.learn(shared),
            false => shared.unlearned.lock().push(background),
        }
    };
    let contained = move || drop(catch_unwind(AssertUnwindSafe(work)));
    let thread = Builder::new().name("torchacc-background".into());
    // Without a thread the program stays as it is, and the next length is compiled again, and tried again.
    if let Err(error) = thread.spawn_scoped(scope, contained)
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
