//! Where a program comes from: a plan for other sizes, a file, or the compiler.

use super::pipeline::{self, Instantiation};
use super::{on_disk, padding};
use crate::cache::key::Key;
use crate::dynamic::ShapeErasedTrace;
use crate::error::Result;
use crate::record::Records;
use crate::runtime::observe::breakdown::Phase;
use crate::runtime::program::{CompiledTrace, Interface};
use crate::runtime::shared::Shared;
use crate::trace::Closed;
use std::thread::Scope;

/// The program of `key`: from a plan for other sizes, or from disk, or compiled and stored there. Errors of the disk are only
/// warnings.
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
        let _stay = shared.observed.stay(Phase::Compile);
        instance(shared, &records, &erased)?
    };
    if let Some(program) = instance {
        shared.observed.stats.carried_over.add(1);
        return Ok(CompiledTrace { unpadded, ..program });
    }
    let interface = Interface::of(&records);
    let graph = || pipeline::graph(&records, backend);
    let compile = || pipeline::compile(shared, &records, &erased);
    let wanted = (&interface, &graph as &dyn Fn() -> _, false);
    let program = on_disk::find_or(shared, key, closed, wanted, scope, compile)?;
    // For a program from disk: the next size that is compiled is compared with this one, and planned for others.
    shared.families.add(&erased);
    Ok(CompiledTrace { unpadded, ..program })
}

/// The program of a trace from a plan for other sizes, if there is one.
pub fn instance(
    shared: &Shared,
    records: &Records,
    erased: &ShapeErasedTrace,
) -> Result<Option<CompiledTrace>> {
    match pipeline::instantiate(shared, records, erased)? {
        Instantiation::Done(program) => {
            shared.observed.stats.plans.add(1);
            Ok(Some(*program))
        }
        Instantiation::Refuted => {
            debug_assert!(false, "an instantiated plan differs from the trace's own");
            shared.cache.drop_where(|program| program.instance_of.is_some());
            shared.observed.warn("internal error: a program made of a plan for other sizes was wrong, so steps of new sizes \
                         since the last sync may be; all of these programs are dropped. Please report it".into());
            Ok(None)
        }
        Instantiation::Nothing => Ok(None),
    }
}
