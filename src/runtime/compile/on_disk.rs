//! Programs that other processes have compiled, or that are compiled for them. Background work overlaps a program's first run:
//! writing it to disk, and planning it for other sizes, which continues beside later runs where nothing has to wait for it
//! (`dynamic/learning.rs`).

use super::pipeline;
use crate::backend::Backend;
use crate::cache::disk::{Claim, Disk, Entry};
use crate::cache::key::Key;
use crate::error::Result;
use crate::graph::Graph;
use crate::plan::{Plan, check, stored};
use crate::record::Records;
use crate::runtime::observe::breakdown::Phase;
use crate::runtime::observe::clock::now;
use crate::runtime::observe::progress::UnderWay;
use crate::runtime::program::{BackgroundWork, CompiledTrace, Interface};
use crate::runtime::shared::Shared;
use crate::trace::Closed;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, Scope};

/// Specification of a program: its interface, its graph, and whether it is that of a bucket.
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
    let stats = &shared.observed.stats;
    let compile = |file: Option<File<'scope>>| {
        let _stay = shared.observed.stay(Phase::Compile);
        let start = now();
        let records = &closed.trace().records;
        let site = records.first().map_or(0, |record| record.site);
        let under_way = shared.observed.progress.begins(records.len(), site);
        let made = compile();
        let program = made.as_ref().ok().map(|(program, _)| program);
        let recomputed = program.and_then(|program| program.recomputed.as_deref());
        shared.observed.compiled(closed, start, program.is_some(), recomputed, bucket);
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
            shared.observed.explain.loaded(closed.trace(), &closed.outputs);
            Ok(program)
        }
        Entry::Absent(claim) => compile(Some(File { disk, key: key.clone(), claim })),
        Entry::Closed(error) => {
            error.iter().for_each(|error| failed(shared, error));
            compile(None)
        }
    }
}

/// The program that is encoded in `bytes`, if it is one for these records.
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
    pipeline::assembled(records, None, plan, backend).ok()
}

/// Whether a plan can be run with this interface.
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

/// The file in which a program is to be stored.
struct File<'a> {
    disk: &'a Disk,
    key: Key,
    claim: Claim,
}

/// Does the background work of a program while it runs; a panic here must not affect the run.
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
            Err(error) => {
                return shared.observed.warn(format!("a program keeps its first plan: {error}"));
            }
        };
        if let Some(file) = file {
            store(shared, &plan, file);
        }
        background.learn(shared);
    };
    let contained = move || drop(catch_unwind(AssertUnwindSafe(work)));
    let thread = Builder::new().name("torchacc-background".into());
    // Without a thread the program stays as it is; the next length is compiled again, and then this is tried again.
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
            shared.observed.stats.disk_evictions.add(evicted.programs);
            shared.observed.stats.disk_scanned.add(evicted.looked_at);
        }
        Err(error) => failed(shared, &error),
    }
}

/// Warns once, and counts every error.
fn failed(shared: &Shared, error: &io::Error) {
    if shared.observed.stats.disk_errors.get() == 0 {
        shared
            .observed
            .warn(format!("compiled programs are not kept for other processes: {error}"));
    }
    shared.observed.stats.disk_errors.add(1);
}
