//! Lists of tensors that change from run to run of a program: concatenated as bytes, so that their lengths, and which of them
//! share memory, are not part of it.

use super::Context;
use super::elements::span;
use crate::buffer::Storage;
use crate::error::Result;
use crate::invalid;
use crate::runtime::launch::{Concatenation, Part};
use crate::trace::{BufferId, Content, TensorRef, lost};
use std::sync::Arc;

impl Context {
    /// Number of tensors of a list, from the first one on, that [`Context::concatenate`] can concatenate, if the list changes
    /// from run to run of this program; 0 for one that stays, and where memory is not the host's. `kind`: as for
    /// [`Context::changes`].
    pub fn changing_list(&self, kind: u64, list: &[TensorRef]) -> Result<usize> {
        if !self.is_host() {
            return Ok(0);
        }
        let ids: Vec<BufferId> = list.iter().map(|tensor| tensor.buffer).collect();
        let mut trace = self.trace.lock()?;
        let is_ready = |tensor: &&TensorRef| {
            let is_dense = tensor.view().layout.is_contiguous();
            is_dense && !matches!(trace.content(tensor.buffer), Content::Traced(_))
        };
        let stored = list.iter().take_while(is_ready).count();
        Ok(if trace.list_changes(kind, &ids) { stored } else { 0 })
    }

    /// Makes the elements of dense tensors, one after another, the content of the buffer `out`, which is as large as all of
    /// them. Records nothing; values that have to be computed first are those of programs that were cut. Does not wait for
    /// these.
    ///
    /// Errors: `InvalidArgument` for tensors that are not dense, that the open trace computes, or of another size than `out`'s.
    pub fn concatenate(&self, list: &[TensorRef], out: BufferId) -> Result<()> {
        self.launcher.be_ready()?;
        // Another thread may record a program that takes over a part's memory before it is copied.
        for _ in 0..1000 {
            let mut trace = self.trace.lock()?;
            let mut parts = Vec::with_capacity(list.len());
            for (n, tensor) in list.iter().enumerate() {
                let view = tensor.view();
                if !trace.fits(tensor) || !view.layout.is_contiguous() {
                    return invalid!("part {n} is not dense, or not in its buffer");
                }
                let (start, len) = span(&view);
                let storage = match trace.content(tensor.buffer) {
                    Content::Stored(storage) => Some(storage),
                    Content::Zeros => None,
                    Content::Traced(_) => return invalid!("part {n} is not computed yet"),
                };
                if len > 0 {
                    parts.push(Part { storage, start, len });
                }
            }
            let total: usize = parts.iter().map(|part| part.len).sum();
            let nbytes = trace.nbytes(out);
            if nbytes != total {
                return invalid!("{total} bytes are put into a buffer of {nbytes}");
            }
            let promised = Arc::new(Storage::pending(nbytes));
            let work = Concatenation { parts, promised: promised.clone() };
            if work.storages().all(|storage| storage.is_settled()) {
                drop(trace);
                if work.run(&self.shared) {
                    self.shared.observed.stats.concatenations.add(1);
                    self.trace.lock()?.store(out, promised);
                    return Ok(());
                }
                continue;
            }
            // Under the lock, as a cut: programs queued later may take over the memory that this reads.
            self.launcher.concatenate(work)?;
            self.shared.observed.stats.concatenations.add(1);
            trace.store(out, promised);
            drop(trace);
            return self.launcher.wait_for_room();
        }
        Err(lost())
    }
}
