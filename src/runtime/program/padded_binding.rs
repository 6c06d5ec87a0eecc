//! Running a trace by the program for other sizes: its arrays are padded.

use crate::backend::{Backend, Call, Executable};
use crate::buffer::{Bytes, Storage, zeros};
use crate::dtype::DType;
use crate::dynamic::Seen;
use crate::error::Result;
use crate::internal;
use crate::op::Ty;
use crate::passes::padding::Frame;
use crate::plan::Plan;
use crate::shape::Layout;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// How a trace uses the program of its bucket: which of its arrays are padded.
pub struct PaddedBinding {
    /// Of the program's inputs and outputs, those that are padded.
    inputs: Vec<Option<PaddedFrame>>,
    outputs: Vec<Option<PaddedFrame>>,
    /// The program's size arguments: the end of the argument block.
    size_args: Vec<u64>,
    /// Counts runs at the trace's sizes.
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

impl PaddedBinding {
    pub fn new(
        inputs: Vec<Option<Frame>>,
        outputs: Vec<Option<Frame>>,
        size_args: Vec<u64>,
        seen: Option<(Arc<Seen>, Vec<i64>)>,
    ) -> PaddedBinding {
        let padded_frames = |frames: Vec<Option<Frame>>| {
            let of = |frame| PaddedFrame { frame, copy: OnceLock::new() };
            frames.into_iter().map(|frame| frame.map(of)).collect()
        };
        let (inputs, outputs) = (padded_frames(inputs), padded_frames(outputs));
        PaddedBinding { inputs, outputs, size_args, seen }
    }

    /// Counts a run. Returns whether it is time to revise the buckets.
    pub fn was_run(&self) -> bool {
        self.seen.as_ref().is_some_and(|(seen, point)| seen.add(point))
    }

    /// Whether runs of both are counted together.
    pub fn counts_with(&self, other: &PaddedBinding) -> bool {
        match (&self.seen, &other.seen) {
            (Some((ours, _)), Some((theirs, _))) => Arc::ptr_eq(ours, theirs),
            _ => false,
        }
    }

    /// The argument block of a run.
    pub fn scalars(&self, trace: &[u64]) -> Vec<u64> {
        trace.iter().chain(&self.size_args).copied().collect()
    }

    /// Input `index` in padded memory, which is of type `ty`; `None` if it is not padded.
    pub fn padded_input(
        &self,
        backend: &dyn Backend,
        index: usize,
        ty: &Ty,
        leaf: &Storage,
    ) -> Option<Result<Box<dyn Bytes>>> {
        let padded_frame = self.inputs.get(index)?.as_ref()?;
        Some(padded_frame.pad(backend, ty, leaf))
    }

    /// Output `index`, without padding.
    pub fn exact_output(
        &self,
        backend: &dyn Backend,
        index: usize,
        ty: &Ty,
        padded: Box<dyn Bytes>,
    ) -> Result<Box<dyn Bytes>> {
        match &self.outputs[index] {
            Some(padded_frame) => padded_frame.unpad(backend, ty, &*padded),
            None => Ok(padded),
        }
    }
}

impl PaddedFrame {
    fn pad(&self, backend: &dyn Backend, ty: &Ty, leaf: &Storage) -> Result<Box<dyn Bytes>> {
        let mut padded = backend.allocate(ty.nbytes())?;
        if cfg!(debug_assertions) {
            // Every float is NaN then, and every integer out of range.
            padded.write(0, &vec![0xff; ty.nbytes()])?;
        }
        if !backend.location().is_host {
            let [exact, within] = self.frame.layouts();
            let at = [leaf.address()?, padded.address()];
            return self.copy(backend, ty.dtype, [exact, within], at).map(|()| padded);
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

    fn unpad(&self, backend: &dyn Backend, ty: &Ty, padded: &dyn Bytes) -> Result<Box<dyn Bytes>> {
        let size = ty.dtype.size();
        let mut bytes = backend.allocate(self.frame.exact_len() * size)?;
        if !backend.location().is_host {
            let [exact, within] = self.frame.layouts();
            let at = [padded.address(), bytes.address()];
            return self.copy(backend, ty.dtype, [within, exact], at).map(|()| bytes);
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
        backend: &dyn Backend,
        dtype: DType,
        [from, to]: [Layout; 2],
        [input, output]: [usize; 2],
    ) -> Result<()> {
        let program = match self.copy.get() {
            Some(program) => program,
            None => {
                let made = backend.compile(Arc::new(Plan::of_copy(dtype, from, to)))?;
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
