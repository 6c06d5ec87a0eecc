//! Lists of tensors that change from run to run of a program: put together as bytes, so that their lengths, and which of them are
//! the same memory, are no part of it.

use super::elements::span;
use super::execute::panicked;
use super::failures::Concerns;
use super::{Context, Shared};
use crate::buffer::{Bytes, Storage, zeros};
use crate::error::Result;
use crate::trace::{BufferId, Content, TensorRef, lost};
use crate::{internal, invalid};
use std::panic::{AssertUnwindSafe, catch_unwind};
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
        self.launcher.be_ready()?;
        // Another thread may have what was looked at taken over before it is copied.
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
                    self.shared.stats.concatenations.add(1);
                    self.trace.lock()?.store(out, promised);
                    return Ok(());
                }
                continue;
            }
            // Under the lock, as a cut: what is queued later may take over what this reads.
            self.launcher.concatenate(work)?;
            self.shared.stats.concatenations.add(1);
            trace.store(out, promised);
            drop(trace);
            return self.launcher.wait_for_room();
        }
        Err(lost())
    }
}

impl Concatenation {
    /// Fulfils what was promised, be it with an error. Whether nothing had been taken over before.
    pub fn run(&self, shared: &Shared) -> bool {
        let failed = self.storages().find_map(|storage| storage.visit(|_| Ok(())).err());
        let outcome = match &failed {
            Some(error) => Err(error.clone()),
            None => catch_unwind(AssertUnwindSafe(|| self.copied(shared)))
                .unwrap_or_else(|panic| Err(panicked(&*panic))),
        };
        let memory = match outcome {
            Ok(None) => return false,
            Ok(Some(memory)) => Ok(memory),
            Err(error) => {
                // Who failed to make a part has said so.
                if failed.is_none() {
                    shared.fail(&error, Concerns::tensor(&self.promised));
                }
                Err(error)
            }
        };
        let inputs: Vec<Arc<Storage>> = self.storages().cloned().collect();
        shared.failures.spread(&inputs, std::slice::from_ref(&self.promised), |_| vec![0]);
        self.promised.fulfil(memory);
        true
    }

    /// `None` if a part was taken over.
    fn copied(&self, shared: &Shared) -> Result<Option<Box<dyn Bytes>>> {
        let mut memory = shared.allocate(self.promised.nbytes())?;
        let mut at = 0;
        for &Part { ref storage, start, len } in &self.parts {
            let copy =
                |bytes: &dyn Bytes| match bytes.on_host().map(|all| all.get(start..start + len)) {
                    Some(Some(part)) => memory.write(at, part),
                    _ => internal!("a part that is not in the host's memory"),
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

impl Drop for Concatenation {
    /// Nobody waits for ever for what was promised.
    fn drop(&mut self) {
        if !self.promised.is_settled() {
            self.promised.fulfil(Err(lost()));
        }
    }
}
