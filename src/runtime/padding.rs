//! A trace run by the program of its bucket: its arrays are copied into padded memory, and out of it.

use super::breakdown::Phase;
use super::compile::{CompiledTrace, Interface};
use super::{Shared, compile, execute, program_store};
use crate::backend::{Call, Executable};
use crate::buffer::{Bytes, Storage, zeros};
use crate::cache::encode;
use crate::cache::key::Key;
use crate::dtype::DType;
use crate::dynamic::pad::Frame;
use crate::dynamic::{InBucket, Padding, Policy, Seen, ShapeErasedTrace};
use crate::error::Result;
use crate::internal;
use crate::op::Ty;
use crate::plan::Plan;
use crate::record::Records;
use crate::shape::Layout;
use crate::trace::Closed;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread::Scope;

/// How a trace uses the program of its bucket: which of its arrays are padded.
pub struct PaddedBinding {
    /// Of the program's inputs and outputs, those that are padded.
    inputs: Vec<Option<PaddedFrame>>,
    outputs: Vec<Option<PaddedFrame>>,
    /// The program's size arguments: the end of the argument block.
    size_args: Vec<u64>,
    /// Who is notified of runs at the trace's sizes.
    seen: Option<(Arc<Seen>, Vec<i64>)>,
}

/// An array that is padded.
struct PaddedFrame {
    frame: Frame,
    /// Copies it into padded memory of a device, or out of it; made when first needed.
    copy: OnceLock<Box<dyn Executable>>,
}

impl fmt::Display for PaddedBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |frames: &[Option<PaddedFrame>]| frames.iter().flatten().count();
        let (inputs, outputs) = (count(&self.inputs), count(&self.outputs));
        write!(f, "padded: {inputs} inputs, {outputs} outputs, sizes {:?}", self.size_args)
    }
}

/// The program of a trace's bucket for the trace. `Err` says why it is to be compiled for its own sizes, if that is not what
/// was asked for.
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
        let _stay = shared.stay(Phase::Compile);
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
        shared.stats.padding_refused.add(1);
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
    let key = execute::key_of(shared, parts.collect());
    let graph = || compile::optimized(padded.graph.clone(), &*shared.backend);
    let make = |key: &Key| {
        let program =
            program_store::find_or(shared, key, closed, (&interface, &graph, true), scope, || {
                compile::of_graph(shared, &records, graph()?, interface.clone())
            })?;
        shared.stats.padded_programs.add(1);
        Ok(program)
    };
    let (program, _) = shared.cache.get_or_make(key, make);
    let program = program?;
    let padded_frame = |frames: Vec<Option<Frame>>| {
        let of = |frame| PaddedFrame { frame, copy: OnceLock::new() };
        frames.into_iter().map(|frame| frame.map(of)).collect()
    };
    let binding = PaddedBinding {
        inputs: padded_frame(padded.inputs),
        outputs: padded_frame(padded.outputs),
        size_args: padded.size_args.iter().map(|arg| arg.1).collect(),
        seen,
    };
    Ok(program.bound(binding))
}

impl PaddedBinding {
    /// Counts a run. When it is time to look at the buckets again, every trace is asked for its bucket when it comes next.
    pub(super) fn was_run(&self, shared: &Shared) {
        shared.stats.padded_runs.add(1);
        let Some((seen, point)) = &self.seen else { return };
        if seen.add(point) {
            let of =
                |binding: &PaddedBinding| binding.seen.as_ref().map(|(seen, _)| Arc::as_ptr(seen));
            let ours = Some(Arc::as_ptr(seen));
            shared.cache.drop_where(|program| program.binding.as_deref().and_then(of) == ours);
        }
    }

    /// The argument block of a run.
    pub fn scalars(&self, trace: &[u64]) -> Vec<u64> {
        trace.iter().chain(&self.size_args).copied().collect()
    }

    /// Input `index` in padded memory, which is of type `ty`; `None` if it is not padded.
    pub(super) fn padded_input(
        &self,
        shared: &Shared,
        index: usize,
        ty: &Ty,
        leaf: &Storage,
    ) -> Option<Result<Box<dyn Bytes>>> {
        let padded_frame = self.inputs.get(index)?.as_ref()?;
        Some(padded_frame.pad(shared, ty, leaf))
    }

    /// Output `index`, without padding.
    pub(super) fn exact_output(
        &self,
        shared: &Shared,
        index: usize,
        ty: &Ty,
        padded: Box<dyn Bytes>,
    ) -> Result<Box<dyn Bytes>> {
        match &self.outputs[index] {
            Some(padded_frame) => padded_frame.unpad(shared, ty, &*padded),
            None => Ok(padded),
        }
    }
}

impl PaddedFrame {
    fn pad(&self, shared: &Shared, ty: &Ty, leaf: &Storage) -> Result<Box<dyn Bytes>> {
        let mut padded = shared.allocate(ty.nbytes())?;
        if cfg!(debug_assertions) {
            // Every float is NaN then, and every integer out of range.
            padded.write(0, &vec![0xff; ty.nbytes()])?;
        }
        if !shared.backend.location().is_host {
            let [exact, within] = self.frame.layouts();
            let at = [leaf.address()?, padded.address()];
            return self.copy(shared, ty.dtype, [exact, within], at).map(|()| padded);
        }
        let size = ty.dtype.size();
        let mut exact = zeros(self.frame.exact_len() * size)?;
        if !leaf.read(0, &mut exact)? {
            return internal!("an input was donated before it was read");
        }
        for (from, to, row) in self.frame.rows() {
            padded.write(to * size, &exact[from * size..(from + row) * size])?;
        }
        Ok(padded)
    }

    fn unpad(&self, shared: &Shared, ty: &Ty, padded: &dyn Bytes) -> Result<Box<dyn Bytes>> {
        let size = ty.dtype.size();
        let mut bytes = shared.allocate(self.frame.exact_len() * size)?;
        if !shared.backend.location().is_host {
            let [exact, within] = self.frame.layouts();
            let at = [padded.address(), bytes.address()];
            return self.copy(shared, ty.dtype, [within, exact], at).map(|()| bytes);
        }
        let mut exact = zeros(bytes.len())?;
        for (to, from, row) in self.frame.rows() {
            padded.read(from * size, &mut exact[to * size..(to + row) * size])?;
        }
        bytes.write(0, &exact)?;
        Ok(bytes)
    }

    /// Copies between memory of a device, at these addresses.
    fn copy(
        &self,
        shared: &Shared,
        dtype: DType,
        [from, to]: [Layout; 2],
        [input, output]: [usize; 2],
    ) -> Result<()> {
        let program = match self.copy.get() {
            Some(program) => program,
            None => {
                let made = shared.backend.compile(Arc::new(Plan::of_copy(dtype, from, to)))?;
                self.copy.get_or_init(|| made)
            }
        };
        let call = Call {
            inputs: &[input],
            poisoned: &[],
            derived: &[],
            outputs: &[output],
            arena: 0,
            host: 0,
            results: 0,
            scalars: &[],
            watch: None,
        };
        match program.run(&call).failed.pop() {
            Some(failure) => Err(failure.error),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
