//! Concatenations by copying memory, in the order of the programs.

use crate::buffer::{Bytes, Storage, zeros};
use crate::error::Result;
use crate::internal;
use crate::runtime::observe::failures::{Concerns, panicked};
use crate::runtime::shared::Shared;
use crate::trace::lost;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Parts of memory to concatenate, and the storage promised for the result.
pub struct Concatenation {
    pub parts: Vec<Part>,
    pub promised: Arc<Storage>,
}

/// Bytes of a storage.
pub struct Part {
    /// `None`: zeros.
    pub storage: Option<Arc<Storage>>,
    pub start: usize,
    pub len: usize,
}

impl Concatenation {
    /// Fulfils the promised storage, possibly with an error. Returns false, without doing so, if the memory of a part was taken
    /// over.
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
                // A failure to make a part was reported already.
                if failed.is_none() {
                    shared.observed.fail(&error, Concerns::tensor(&self.promised));
                }
                Err(error)
            }
        };
        let inputs: Vec<Arc<Storage>> = self.storages().cloned().collect();
        shared.observed.failures.spread(&inputs, std::slice::from_ref(&self.promised), |_| vec![0]);
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

    pub fn storages(&self) -> impl Iterator<Item = &Arc<Storage>> {
        self.parts.iter().filter_map(|part| part.storage.as_ref())
    }
}

impl Drop for Concatenation {
    /// Settles the promised storage, so that nobody waits for it for ever.
    fn drop(&mut self) {
        if !self.promised.is_settled() {
            self.promised.fulfil(Err(lost()));
        }
    }
}
