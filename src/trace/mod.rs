//! Buffers, and the recording of operations on them.
//!
//! A buffer is an identity that holds a *current value*: nothing yet (zeros), memory ([`Storage`]), or a result of the
//! trace that is being recorded. Operations read strided views of values and write strided views of buffers; a write
//! makes a new value, so a trace is in SSA form from the start.
//!
//! **Invariant:** touches records and buffers under one lock (its owner's); does not compile, run or wait.

mod closed;
mod sites;

use crate::buffer::Storage;
use crate::cache::encode;
use crate::error::{Code, Error, Result, Site};
use crate::invalid;
use crate::op::host;
use crate::record::{
    Arg, Format, Operator, Origin, Read, Record, Records, ScalarKind, Value, ValueIndex, View,
    Write, written_format,
};
pub use closed::Closed;
pub use sites::Sites;
use std::sync::Arc;

/// Index of a buffer; free numbers are used again.
pub type BufferId = u32;

/// What a buffer holds.
#[derive(Clone)]
enum Held {
    /// Never written: reads as zeros.
    Zeros,
    Stored {
        storage: Arc<Storage>,
        format: Format,
    },
    Traced(ValueIndex),
}

struct Buffer {
    nbytes: usize,
    held: Held,
    /// What it held in memory before this trace first wrote to it: may be donated, and comes back if the write fails.
    before: Option<Arc<Storage>>,
    /// The value that stands for the memory it holds, if this trace has read it.
    leaf: Option<ValueIndex>,
}

/// One argument as the caller gives it: tensors by buffer, scalars by value.
pub enum Given {
    Tensor {
        buffer: BufferId,
        view: View,
    },
    Tensors(Vec<Option<(BufferId, View)>>),
    /// `bits` is an i64, an f64 or a bool, as `kind` says.
    Scalar {
        kind: ScalarKind,
        bits: u64,
    },
    /// Everything that needs no resolution.
    Plain(Arg),
}

/// What reading a buffer needs.
pub enum Content {
    Zeros,
    Stored(Arc<Storage>),
    /// Still in the trace: cut first.
    Traced,
}

#[derive(Default)]
pub struct Trace {
    buffers: Vec<Option<Buffer>>,
    free: Vec<BufferId>,
    records: Records,
    /// Who holds each value of the trace now, if anybody.
    holders: Vec<Option<BufferId>>,
    leaves: Vec<Arc<Storage>>,
    scalar_bits: Vec<u64>,
    /// Canonical bytes of the records so far.
    bytes: Vec<u8>,
    sites: Sites,
}

impl Trace {
    // ---- buffers

    pub fn new_buffer(&mut self, nbytes: usize) -> BufferId {
        let buffer = Some(Buffer { nbytes, held: Held::Zeros, before: None, leaf: None });
        match self.free.pop() {
            Some(id) => {
                self.buffers[id as usize] = buffer;
                id
            }
            None => {
                self.buffers.push(buffer);
                (self.buffers.len() - 1) as BufferId
            }
        }
    }

    /// The id must not be used afterwards.
    pub fn drop_buffer(&mut self, id: BufferId) {
        self.release_value(id);
        if self.buffers[id as usize].take().is_some() {
            self.free.push(id);
        }
    }

    pub fn live_buffers(&self) -> usize {
        self.buffers.len() - self.free.len()
    }

    pub fn nbytes(&self, id: BufferId) -> usize {
        self.buffer(id).nbytes
    }

    /// Replaces the content.
    pub fn store(&mut self, id: BufferId, storage: Arc<Storage>, format: Format) {
        self.release_value(id);
        let buffer = self.buffer_mut(id);
        buffer.nbytes = storage.nbytes();
        buffer.held = Held::Stored { storage, format };
        (buffer.before, buffer.leaf) = (None, None);
    }

    /// Gives a buffer another size and no content.
    pub fn clear(&mut self, id: BufferId, nbytes: usize) {
        self.release_value(id);
        *self.buffer_mut(id) = Buffer { nbytes, held: Held::Zeros, before: None, leaf: None };
    }

    pub fn content(&self, id: BufferId) -> Content {
        match &self.buffer(id).held {
            Held::Zeros => Content::Zeros,
            Held::Stored { storage, .. } => Content::Stored(storage.clone()),
            Held::Traced(_) => Content::Traced,
        }
    }

    fn buffer(&self, id: BufferId) -> &Buffer {
        self.buffers[id as usize].as_ref().expect("a handle keeps its buffer alive")
    }

    fn buffer_mut(&mut self, id: BufferId) -> &mut Buffer {
        self.buffers[id as usize].as_mut().expect("a handle keeps its buffer alive")
    }

    /// The value a buffer holds loses its holder.
    fn release_value(&mut self, id: BufferId) {
        if let Some(Buffer { held: Held::Traced(value), .. }) = self.buffers[id as usize] {
            self.holders[value as usize] = None;
        }
    }

    // ---- recording

    pub fn is_empty(&self) -> bool {
        self.records.records.is_empty()
    }

    pub fn len(&self) -> usize {
        self.records.records.len()
    }

    /// Records one operation. `outs` are the views that its results are written to, in order. Nothing is recorded
    /// when an argument is refused. Returns whether the place is new, so that the caller says where it is
    /// ([`Trace::locate`]).
    ///
    /// Errors: `InvalidArgument` for a view that leaves its buffer.
    pub fn record(
        &mut self,
        op: Operator,
        args: Vec<Given>,
        outs: &[(BufferId, View)],
    ) -> Result<bool> {
        for given in &args {
            match given {
                Given::Tensor { buffer, view } => self.check(*buffer, view, op)?,
                Given::Tensors(list) => {
                    list.iter().flatten().try_for_each(|(b, v)| self.check(*b, v, op))?
                }
                _ => {}
            }
        }
        outs.iter().try_for_each(|(buffer, view)| self.check(*buffer, view, op))?;
        let args = args.into_iter().map(|given| self.resolve(given)).collect();
        let outs = (outs.iter().enumerate())
            .map(|(out, (buffer, view))| self.write(*buffer, view.clone(), out as u32))
            .collect();
        let record = Record { op, args, outs, site: 0 };
        let start = self.bytes.len();
        encode::record(&mut self.bytes, &record);
        let site = self.sites.next(&self.bytes[start..]);
        self.records.records.push(Record { site: site.unwrap_or(0), ..record });
        Ok(site.is_none())
    }

    /// Says where the last operation was recorded.
    pub fn locate(&mut self, site: Site) {
        self.sites.learn(site);
        if let Some(last) = self.records.records.last_mut() {
            last.site = site;
        }
    }

    fn check(&self, id: BufferId, view: &View, op: Operator) -> Result<()> {
        let layout = &view.layout;
        let bytes = layout.end().saturating_mul(view.dtype.size() as i64);
        let negative = |list: &[i64]| list.iter().any(|&n| n < 0);
        let bad = layout.offset < 0 || negative(&layout.sizes) || negative(&layout.strides);
        if bad || bytes as u64 > self.nbytes(id) as u64 {
            return invalid!(
                "{}: a tensor of sizes {:?}, strides {:?}, offset {} and dtype {} does not fit into its buffer of {} bytes",
                operator_name(op),
                layout.sizes.as_slice(),
                layout.strides.as_slice(),
                layout.offset,
                view.dtype,
                self.nbytes(id)
            );
        }
        Ok(())
    }

    fn resolve(&mut self, given: Given) -> Arg {
        match given {
            Given::Plain(arg) => arg,
            Given::Tensor { buffer, view } => Arg::Tensor(self.read(buffer, view)),
            Given::Tensors(list) => {
                let mut read = |(buffer, view)| self.read(buffer, view);
                Arg::Tensors(list.into_iter().map(|tensor| tensor.map(&mut read)).collect())
            }
            Given::Scalar { kind, bits } => {
                let slot = self.scalar_bits.len() as u32;
                self.scalar_bits.push(bits);
                self.records.scalars.push(kind);
                Arg::Scalar { kind, slot }
            }
        }
    }

    fn read(&mut self, buffer: BufferId, view: View) -> Read {
        Read { value: self.current(buffer), view }
    }

    /// The value a buffer holds, as a value of this trace.
    fn current(&mut self, id: BufferId) -> ValueIndex {
        let buffer = self.buffer(id);
        if let Held::Traced(value) = buffer.held {
            return value;
        }
        if let Some(value) = buffer.leaf {
            return value;
        }
        let nbytes = buffer.nbytes;
        let (origin, format) = match &buffer.held {
            Held::Stored { storage, format } => {
                let leaf = self.leaves.len() as u32;
                let pair = (Origin::Leaf(leaf), format.clone());
                self.leaves.push(storage.clone());
                pair
            }
            _ => (Origin::Zeros, Format::flat(crate::dtype::DType::U8, nbytes)),
        };
        let value = self.new_value(Value { origin, format, nbytes });
        self.buffer_mut(id).leaf = Some(value);
        value
    }

    fn new_value(&mut self, value: Value) -> ValueIndex {
        self.records.values.push(value);
        self.holders.push(None);
        (self.records.values.len() - 1) as ValueIndex
    }

    fn write(&mut self, id: BufferId, view: View, out: u32) -> Write {
        let nbytes = self.nbytes(id);
        let covers = view.covers(nbytes).is_some();
        let old = (!covers).then(|| self.current(id));
        let format = match old {
            Some(old) => written_format(&self.records.values[old as usize].format, &view, nbytes),
            None => written_format(&Format::flat(view.dtype, nbytes), &view, nbytes),
        };
        let origin = Origin::Written { record: self.records.records.len() as u32, out };
        let value = self.new_value(Value { origin, format, nbytes });
        self.release_value(id);
        let buffer = self.buffer_mut(id);
        if let Held::Stored { storage, .. } = &buffer.held {
            buffer.before = Some(storage.clone());
        }
        buffer.held = Held::Traced(value);
        self.holders[value as usize] = Some(id);
        Write { old, view, value }
    }
}

/// For messages: `aten::add.Tensor`, or a host operator's name.
pub fn operator_name(op: Operator) -> String {
    match op {
        Operator::Native(row) => crate::aten::name(row).to_string(),
        Operator::Host(id) => host::get(id).map_or_else(|| "host".into(), |op| op.name.clone()),
    }
}

/// The error for a buffer that no longer has what was promised.
pub(crate) fn lost() -> Error {
    Error::new(Code::Internal, "a buffer's memory was taken over twice")
}

#[cfg(test)]
mod tests;
