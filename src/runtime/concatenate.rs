//! Lists of tensors that change from run to run of a program: put together as bytes, so that their lengths, and which of them are
//! the same memory, are no part of it.

use super::elements::span;
use super::{Context, Shared};
use crate::buffer::{Bytes, Storage, zeros};
use crate::error::Result;
use crate::trace::{BufferId, Content, TensorRef, lost};
use crate::{internal, invalid};
use std::sync::Arc;

/// Parts of memory, one after another, and where they go.
pub struct Concatenation {
    parts: Vec<Part>,
    promised: Arc<Storage>,
}

struct Part {
    /// `None`: zeros.
    storage: Option<Arc<Storage>>,
    start: usize,
    len: usize,
}

impl Context {
    /// How many tensors of a list, from its first on, [`Context::concatenate`] can put together, if the list is another one from
    /// run to run of this program; 0 for one that stays. `kind`: as of [`Context::changes`].
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

    /// Makes the elements of dense tensors, one after another, the content of the buffer `out`, which is as large as all of them.
    /// Nothing is recorded; what has to be computed first was cut. Does not wait for it.
    ///
    /// Errors: `InvalidArgument` for tensors that are not dense, that the open trace computes, or of another size than `out`'s.
    pub fn concatenate(&self, list: &[TensorRef], out: BufferId) -> Result<()> {
        let mut spans = Vec::with_capacity(list.len());
        for (n, tensor) in list.iter().enumerate() {
            let view = tensor.view();
            if !view.layout.is_contiguous() {
                return invalid!("part {n} is not dense");
            }
            let (start, len) = span(&view);
            self.check_range(tensor.buffer, start, len)?;
            spans.push((start, len));
        }
        let (total, nbytes) = (spans.iter().map(|span| span.1).sum::<usize>(), self.nbytes(out));
        if total != nbytes {
            return invalid!("{total} bytes are put into a buffer of {nbytes}");
        }
        self.launcher.be_ready()?;
        self.shared.stats.concatenations.add(1);
        // Another thread may have what was looked at taken over before it is copied.
        for _ in 0..1000 {
            let mut trace = self.trace.lock()?;
            let mut parts = Vec::with_capacity(list.len());
            for (n, (tensor, &(start, len))) in list.iter().zip(&spans).enumerate() {
                let storage = match trace.content(tensor.buffer) {
                    Content::Stored(storage) => Some(storage),
                    Content::Zeros => None,
                    Content::Traced(_) => return invalid!("part {n} is not computed yet"),
                };
                parts.push(Part { storage, start, len });
            }
            let promised = Arc::new(Storage::pending(nbytes));
            let work = Concatenation { parts, promised: promised.clone() };
            if work.storages().all(|storage| storage.is_settled()) {
                drop(trace);
                if work.run(&self.shared) {
                    self.trace.lock()?.store(out, promised);
                    return Ok(());
                }
                continue;
            }
            // Under the lock, as a cut: what is queued later may take over what this reads.
            self.launcher.concatenate(work)?;
            trace.store(out, promised);
            drop(trace);
            return self.launcher.wait_for_room();
        }
        Err(lost())
    }
}

impl Concatenation {
    /// Fulfils what was promised, with the error of a part that has none of its own. Whether nothing had been taken over before.
    pub fn run(&self, shared: &Shared) -> bool {
        let memory = self.copied(shared);
        if matches!(memory, Ok(None)) {
            return false;
        }
        let inputs: Vec<Arc<Storage>> = self.storages().cloned().collect();
        shared.failures.spread(&inputs, std::slice::from_ref(&self.promised), |_| vec![0]);
        self.promised.fulfil(memory.and_then(|memory| memory.ok_or_else(lost)));
        true
    }

    fn copied(&self, shared: &Shared) -> Result<Option<Box<dyn Bytes>>> {
        let mut memory = shared.allocate(self.promised.nbytes())?;
        let mut at = 0;
        for &Part { ref storage, start, len } in &self.parts {
            let copy = |bytes: &dyn Bytes| match bytes.on_host() {
                Some(all) => memory.write(at, &all[start..start + len]),
                None => internal!("a part that is not in the host's memory"),
            };
            match storage {
                Some(storage) if !storage.visit(copy)? => return Ok(None),
                Some(_) => {}
                None => memory.write(at, &zeros(len)?)?,
            }
            at += len;
        }
        Ok(Some(memory))
    }

    fn storages(&self) -> impl Iterator<Item = &Arc<Storage>> {
        self.parts.iter().filter_map(|part| part.storage.as_ref())
    }
}
