//! Programs made before a trace asks for them. While sizes change evenly, like those of a cache of keys and values that grows by
//! a token at a time, the trace after the next one is made here with its program: when it comes, the host only compares it, and
//! finds it compiled.

use super::background::BackgroundThread;
use super::program_store;
use crate::dynamic::{ShapeErasedTrace, SymbolBinding};
use crate::error::{Code, Error};
use crate::record::{Output, Records};
use crate::runtime::program::{CompiledTrace, Prefetched};
use crate::runtime::shared::Shared;
use crate::trace::{Closed, RecordedTrace};
use std::sync::Arc;

/// A program that ran, and the sizes of the trace after the next one.
pub struct Ran {
    trace: Arc<RecordedTrace>,
    outputs: Vec<Output>,
    ahead: SymbolBinding,
}

impl Ran {
    /// `None` if it is unknown how the sizes continue.
    pub fn new(shared: &Shared, closed: &Closed, program: &CompiledTrace) -> Option<Ran> {
        let ahead = shared.families.ahead(program.instance_of.as_ref()?)?;
        Some(Ran { trace: closed.trace().clone(), outputs: closed.outputs.clone(), ahead })
    }
}

/// Programs that may wait for their successors to be made; those of older programs are no longer needed.
const WAITING: usize = 2;

/// Makes the trace after the next one with its program, if there is time. Without a thread nothing is prefetched, and nothing
/// else is wrong.
pub fn prefetcher() -> BackgroundThread<Ran> {
    BackgroundThread::new("prefetch", WAITING, prefetch)
}

/// Errors are dropped: nobody has asked for the program.
fn prefetch(shared: &Shared, ran: Ran) {
    let Ran { trace, outputs, ahead } = ran;
    let records = ahead.resized(trace.records(&outputs));
    let Some(records) = records.filter(Records::is_recordable) else { return };
    let trace = trace.resized(records);
    let key = shared.key_of(trace.key_parts(&outputs));
    let hash = key.hash();
    let make = |_: &_| {
        let records = trace.records(&outputs);
        let erased = ShapeErasedTrace::of(&records);
        let instance = program_store::instance(shared, &records, &erased)?;
        let instance = instance.map(|new| CompiledTrace { is_unused: true.into(), ..new });
        instance.ok_or_else(|| Error::new(Code::Unsupported, "no template has a plan for it"))
    };
    if let Ok(program) = shared.cache.get_or_make(key, make).0 {
        shared.prefetched.lock().push(Prefetched { trace, outputs, program, hash });
    }
}
