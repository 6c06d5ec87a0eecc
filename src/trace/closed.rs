//! The cut: a trace becomes a [`Closed`] one, and what it computes becomes memory that is promised.

use super::{Held, Trace};
use crate::buffer::Storage;
use crate::cache::encode;
use crate::record::{Output, Records};
use std::sync::Arc;

/// A trace that is handed over: what to run, on what, into what.
pub struct Closed {
    pub records: Records,
    /// Canonical bytes of the records.
    pub bytes: Vec<u8>,
    pub leaves: Vec<Arc<Storage>>,
    pub scalars: Vec<u64>,
    /// Where each output goes.
    pub promised: Vec<Arc<Storage>>,
    /// What each output's buffer held before: stays if the output cannot be computed.
    pub before: Vec<Option<Arc<Storage>>>,
}

impl Trace {
    /// Closes the trace. A `full` cut donates: an output may take over the memory that its buffer held before. A
    /// partial one (a read in the middle of a step) does not, so that it leaves no mark on the next program.
    /// `None` when nothing of it lives on.
    pub fn cut(&mut self, full: bool) -> Option<Closed> {
        self.sites.restart();
        let mut records = std::mem::take(&mut self.records);
        let bytes = std::mem::take(&mut self.bytes);
        let scalars = std::mem::take(&mut self.scalar_bits);
        let leaves = std::mem::take(&mut self.leaves);
        let holders = std::mem::take(&mut self.holders);
        let mut promised = Vec::new();
        let mut befores = Vec::new();
        // In the order of the values, which is that of the program: never that of addresses or of dropping.
        for (value, holder) in holders.into_iter().enumerate() {
            let Some(id) = holder else { continue };
            let leaf = self.buffer(id).leaf;
            let buffer = self.buffer_mut(id);
            let before = buffer.before.take();
            let is_leaf = |value: u32| match records.values[value as usize].origin {
                crate::record::Origin::Leaf(leaf) => Some(leaf),
                _ => None,
            };
            // The leaf of a buffer is the memory it held first, so it is `before` exactly if both are there.
            let donor = leaf.filter(|_| full && before.is_some()).and_then(is_leaf);
            let storage = Arc::new(Storage::pending(buffer.nbytes));
            let format = records.values[value].format.clone();
            buffer.held = Held::Stored { storage: storage.clone(), format };
            records.outputs.push(Output { value: value as u32, donor });
            promised.push(storage);
            befores.push(before);
        }
        for buffer in self.buffers.iter_mut().flatten() {
            (buffer.leaf, buffer.before) = (None, None);
        }
        records.n_leaves = leaves.len() as u32;
        if promised.is_empty() {
            return None;
        }
        Some(Closed { records, bytes, leaves, scalars, promised, before: befores })
    }
}

impl Closed {
    /// The named parts of the key that the trace decides.
    pub fn key_parts(&self) -> Vec<(&'static str, Vec<u8>)> {
        vec![
            ("records", self.bytes.clone()),
            ("leaves", encode::leaves(&self.records.values)),
            ("outputs", encode::outputs(&self.records.outputs)),
            ("donors", encode::donors(&self.records.outputs)),
        ]
    }
}
