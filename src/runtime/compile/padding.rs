//! A trace run by the program of its bucket: its arrays are copied into padded memory, and out of it.

use super::{on_disk, pipeline};
use crate::cache::encode;
use crate::cache::key::Key;
use crate::dynamic::{InBucket, Padding, Policy, ShapeErasedTrace};
use crate::error::Result;
use crate::record::Records;
use crate::runtime::observe::breakdown::Phase;
use crate::runtime::program::{CompiledTrace, Interface, PaddedBinding};
use crate::runtime::shared::Shared;
use crate::trace::Closed;
use std::thread::Scope;

/// The program of a trace's bucket, bound to the trace. `Err` if the trace is to be compiled for its own sizes, with the reason
/// if padding was refused.
pub fn program<'scope>(
    shared: &'scope Shared,
    closed: &Closed,
    records: &Records,
    erased: &ShapeErasedTrace,
    scope: &'scope Scope<'scope, '_>,
) -> std::result::Result<CompiledTrace, Option<String>> {
    if shared.policy == Policy::Exact {
        return Err(None);
    }
    let padded = {
        let _stay = shared.observed.stay(Phase::Compile);
        shared.families.pad(erased, records, &shared.policy)
    };
    let made = match padded {
        Padding::Done(made) => {
            of_bucket(shared, closed, *made, scope).map_err(|error| error.message)
        }
        Padding::NotYet => return Err(None),
        Padding::Refused(why) => Err(why),
    };
    made.map_err(|why| {
        shared.observed.stats.padding_refused.add(1);
        Some(why)
    })
}

fn of_bucket<'scope>(
    shared: &'scope Shared,
    closed: &Closed,
    made: InBucket,
    scope: &'scope Scope<'scope, '_>,
) -> Result<CompiledTrace> {
    let InBucket { padded, records, seen } = made;
    let mut interface = Interface::of(&records);
    interface.inputs = padded.input_types(interface.inputs);
    interface.scalars.extend(padded.size_args.iter().map(|arg| arg.0));
    // Memory of other sizes cannot be donated.
    for (donor, output) in interface.donors.iter_mut().zip(&padded.outputs) {
        let grows = |leaf: u32| padded.inputs[leaf as usize].is_some();
        *donor = donor.filter(|&leaf| output.is_none() && !grows(leaf));
    }
    let text = padded.graph.to_string();
    let parts = encode::parts(&records).into_iter().chain([("padded", text.into_bytes())]);
    let key = shared.key_of(parts.collect());
    let graph = || pipeline::optimized(padded.graph.clone(), &*shared.backend);
    let make = |key: &Key| {
        let program =
            on_disk::find_or(shared, key, closed, (&interface, &graph, true), scope, || {
                pipeline::of_graph(shared, &records, graph()?, interface.clone())
            })?;
        shared.observed.stats.padded_programs.add(1);
        Ok(program)
    };
    let (program, _) = shared.cache.get_or_make(key, make);
    let program = program?;
    let size_args = padded.size_args.iter().map(|arg| arg.1).collect();
    let binding = PaddedBinding::new(padded.inputs, padded.outputs, size_args, seen);
    Ok(program.bound(binding))
}

/// Counts a run of a bucket's program. When it is time to revise the buckets, drops their programs, so that every trace gets a
/// bucket anew when it comes next.
pub fn was_run(shared: &Shared, binding: &PaddedBinding) {
    shared.observed.stats.padded_runs.add(1);
    if binding.was_run() {
        let counts = |other: &PaddedBinding| binding.counts_with(other);
        shared.cache.drop_where(|program| program.binding.as_deref().is_some_and(counts));
    }
}
