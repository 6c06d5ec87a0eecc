//! Buffers, and the recording of operations on them.
//!
//! A buffer is an identity that holds a *current value*: nothing yet (zeros), memory ([`Storage`]), or a result of the
//! trace that is being recorded. Operations read strided views of values and write strided views of buffers; a write
//! makes a new value, so a trace is in SSA form from the start.
//!
//! **Invariant:** touches records and buffers under one lock (its owner's); does not compile, run or wait.

mod buffers;
mod capture;
mod changing;
mod closed;
mod arg_ref;
mod gradient;
mod loop_detection;
mod replay;
mod sites;
mod recorded;
mod windows;

use crate::aten;
use crate::buffer::Storage;
use crate::cache::encode;
use crate::dtype::DType;
use crate::error::{Code, Error, Result, Site};
use crate::invalid;
use crate::op::arg::ScalarKind;
use crate::op::host;
use crate::record::{
    Arg, Operator, Origin, Read, Record, Value, ValueIndex, Varying, View, Write, leaf_format,
    written_format,
};
pub use arg_ref::{ArgRef, Call, TensorRef};
pub use capture::Captured;
use changing::ChangingIntegers;
pub use closed::Closed;
use gradient::{ContentId, Older, Past};
pub use recorded::RecordedTrace;
use recorded::{Mark, TraceHistory};
pub use sites::Sites;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use windows::Window;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Index of a buffer; free numbers are used again.
pub type BufferId = u32;

/// A buffer's current value.
#[derive(Clone)]
enum BufferState {
    /// Never written: reads as zeros.
    Zeros,
    Stored(Arc<Storage>),
    Traced(ValueIndex),
}

struct Buffer {
    nbytes: usize,
    state: BufferState,
    /// The memory it held before this trace first wrote to it: may be donated, and comes back if the write fails.
    before: Option<Arc<Storage>>,
    /// The value that stands for the memory it holds, if this trace has read it.
    leaf: Option<ValueIndex>,
    /// Sizes of its tensors that will vary.
    varying: Vec<Varying>,
    /// Identity of its content in memory, or of its zeros.
    content: ContentId,
    older: Older,
    /// Number of the trace that created it.
    since: u64,
    /// Whether parts of it are read at changing offsets.
    is_moving: bool,
    /// Number of the last trace that has windows of it.
    has_windows: Option<u64>,
    /// Number of the last trace that wrote a part of it; after that it has no windows for `pause` traces.
    updated: Option<u64>,
    pause: u64,
}

/// The source of a buffer's bytes for a read.
pub enum Content {
    Zeros,
    Stored(Arc<Storage>),
    /// A value of the open trace: cut before reading.
    Traced(ValueIndex),
}

/// A known trace that is being recorded again, with the first leaves and scalars, those known so far.
pub struct Progress {
    pub trace: Arc<RecordedTrace>,
    pub leaves: Vec<Arc<Storage>>,
    pub scalars: Vec<u64>,
}

/// Minimum number of records between two results of [`Trace::progress`]: recording them takes much longer than telling
/// another thread.
const INTERVAL: usize = 16;
/// Approximate number of progress reports per trace.
const PIECES: usize = 8;

#[derive(Default)]
pub struct Trace {
    buffers: Vec<Option<Buffer>>,
    free: Vec<BufferId>,
    /// Records since the last cut.
    position: usize,
    /// The known trace that begins with these records, ...
    expected: Option<Arc<RecordedTrace>>,
    /// ... or else the records themselves, ...
    recording: RecordedTrace,
    /// ... and the known trace that they equal except for numbers.
    left: Option<Arc<RecordedTrace>>,
    /// The buffer that holds each value of the trace now, if any.
    holders: Vec<Option<BufferId>>,
    leaves: Vec<Arc<Storage>>,
    /// The leaves that are parts of buffers.
    windows: Vec<Window>,
    /// Alignment of windows in bytes; 0 if there are none.
    alignment: usize,
    /// The known trace that this one followed until it read another part of a buffer.
    moved_from: Option<Arc<RecordedTrace>>,
    /// Whether any trace so far took gradients.
    has_gradients: bool,
    /// For each value, the identity of its content if it existed before the trace; 0 for results.
    contents: Vec<ContentId>,
    last_content: ContentId,
    /// The traces that were cut last.
    past: Past,
    /// The last of them.
    last: Option<Arc<RecordedTrace>>,
    scalar_bits: Vec<u64>,
    /// Buffers that this trace has read as they were, or overwritten.
    touched: Vec<BufferId>,
    /// Bytes of memory that nothing but this trace keeps from being freed.
    held_bytes: usize,
    /// Number of records after which the trace repeats itself, if it continues one that was cut because of its length.
    period: usize,
    /// Varying sizes of the buffers that this trace uses.
    varying: Vec<Varying>,
    history: TraceHistory,
    cuts: u64,
    sites: Sites,
    changing: ChangingIntegers,
    /// The first record since the last cut with an unknown call site, if there is one: those of later records are unknown, too.
    unknown_from: Option<usize>,
    /// Whether the trace becomes a function of tensors: then everything made of them has to be recorded.
    is_captured: bool,
    /// Memory that buffers held. The holder of the trace's lock drops it later, without the lock: that may call the program.
    retired: Retired,
}

/// Memory that the trace has given up.
pub type Retired = SmallVec<[Arc<Storage>; 4]>;

/// How an operation was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recorded {
    /// The call equals the next record of a known trace.
    Again,
    /// In full, at a known call site.
    New,
    /// In full. The caller should supply the call site: [`Trace::locate`].
    At(PendingSite),
}

/// New buffers, and the views that cover them.
pub type Fresh = SmallVec<[(BufferId, View); 1]>;

/// A record whose call site in the user's program is not known yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PendingSite {
    cuts: u64,
    position: usize,
    chain: u64,
}

impl Trace {
    pub fn is_empty(&self) -> bool {
        self.position == 0
    }

    pub fn len(&self) -> usize {
        self.position
    }

    /// Bytes of memory that only this trace keeps from being freed: read by it, then dropped or replaced.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Records one operation. Nothing is recorded when it is refused.
    ///
    /// Errors: `InvalidArgument` for a view that leaves its buffer, `Unsupported` for dtypes that a native operator has
    /// no form for.
    pub fn record(&mut self, call: &Call) -> Result<Recorded> {
        if self.replay(call) {
            return Ok(Recorded::Again);
        }
        let tensors = || call.args.iter().flat_map(ArgRef::tensors).chain(call.outs);
        tensors().try_for_each(|tensor| self.check(tensor, call.op))?;
        supported(call.op, call.args, call.outs)?;
        let gradient = takes_gradients(call.op);
        self.has_gradients |= gradient;
        if gradient {
            self.check_gradient(call)?;
        }
        self.note_moves(call);
        self.leave_path();
        if gradient {
            self.check_rules(call)?;
        }
        let args = call.args.iter().enumerate();
        let args = args.map(|(index, arg_ref)| self.resolve(call.op, index, arg_ref)).collect();
        let outs = (call.outs.iter().enumerate())
            .map(|(out, tensor)| self.write(tensor, out as u32))
            .collect();
        let record = Record { op: call.op, args, outs, site: 0 };
        self.compare_left(&record);
        let start = self.recording.bytes.len();
        encode::record(&mut self.recording.bytes, &record);
        let site = self.sites.next(&self.recording.bytes[start..]);
        let chain = self.sites.chain();
        let operations = self.recording.mark(self.position).operations;
        self.recording.marks.push(Mark {
            operations: changing::with_operation(operations, call.op),
            values: self.recording.values.len(),
            scalars: self.recording.scalars.len(),
            bytes: self.recording.bytes.len(),
            chain,
            inferred: false,
            gradient,
        });
        self.recording.records.push(Record { site: site.unwrap_or(0), ..record });
        let pending = PendingSite { cuts: self.cuts, position: self.position, chain };
        self.position += 1;
        if site.is_some() {
            return Ok(Recorded::New);
        }
        self.unknown_from.get_or_insert(pending.position);
        Ok(Recorded::At(pending))
    }

    /// Notes that the results of the last operation, recorded in full, have the types that follow from its arguments.
    pub fn was_inferred(&mut self) {
        if let Some(mark) = self.recording.marks.last_mut() {
            mark.inferred = true;
        }
    }

    /// Records an operation if it is the next one of a known trace, with new buffers for its first `n` results, whose types
    /// follow from its arguments, and `rest` for the others. Returns the buffers with the views that cover them; `None`, with
    /// nothing recorded, for any other operation.
    pub fn again(
        &mut self,
        op: Operator,
        args: &[ArgRef],
        n: usize,
        rest: Option<TensorRef>,
    ) -> Option<Fresh> {
        if rest.is_some_and(|rest| self.is_windowed(&rest)) {
            return None;
        }
        let made = match self.expected.take() {
            Some(trace) => {
                let made = self.fresh(&trace, op, n, rest.is_some());
                self.expected = Some(trace);
                made?
            }
            None if self.position == 0 => {
                self.fresh(&*self.history.likely()?, op, n, rest.is_some())?
            }
            None => return None,
        };
        let mut outs: SmallVec<[TensorRef; 4]> =
            made.iter().map(|(id, view)| TensorRef::new(*id, view)).collect();
        outs.extend(rest);
        let again = self.replay(&Call { op, args, outs: &outs });
        drop(outs);
        if again {
            return Some(made);
        }
        made.iter().for_each(|(id, _)| self.drop_buffer(*id));
        None
    }

    /// New buffers for the first `n` results of the next record of `trace`.
    fn fresh(
        &mut self,
        trace: &RecordedTrace,
        op: Operator,
        n: usize,
        has_rest: bool,
    ) -> Option<Fresh> {
        let record = trace.records.get(self.position).filter(|record| record.op == op)?;
        let inferred = trace.marks[self.position].inferred;
        if !inferred || record.outs.len() != n + usize::from(has_rest) {
            return None;
        }
        let make = |write: &Write| {
            (self.new_buffer(trace.values[write.value as usize].nbytes), write.view.clone())
        };
        Some(record.outs[..n].iter().map(make).collect())
    }

    /// Adds a trace that was made in advance. Returns its number.
    pub fn expect(&mut self, prefetched: RecordedTrace) -> u64 {
        self.history.expect(prefetched)
    }

    /// Whether an integer that the next operation would have as an attribute changes from run to run of this program. `kind`
    /// tells it apart from others, at least by its operator.
    pub fn changes(&mut self, kind: u64, integer: i64) -> bool {
        self.meets((kind, integer), changing::INTEGER)
    }

    fn meets(&mut self, integer: (u64, i64), most: usize) -> bool {
        let trace = self.expected.as_deref().unwrap_or(&self.recording);
        let operations = trace.mark(self.position).operations;
        self.changing.meet((self.cuts, operations), integer, most)
    }

    /// From now to the next cut, everything that depends on the contents of tensors is recorded.
    pub fn begin_capture(&mut self) {
        self.is_captured = true;
    }

    /// [`Trace::changes`] of a list of buffers that the operation reads: its length, and which are read already, or twice.
    pub fn list_changes(&mut self, kind: u64, list: &[BufferId]) -> bool {
        if self.is_captured {
            return false;
        }
        let mut first: HashMap<BufferId, u64> = HashMap::new();
        let mut pattern = list.len() as u64;
        for (n, &id) in list.iter().enumerate() {
            let place = *first.entry(id).or_insert(n as u64);
            let value = self.value_of(id).map_or(u64::MAX, u64::from);
            let words = [place.to_ne_bytes(), value.to_ne_bytes()].concat();
            pattern = xxh3_64_with_seed(&words, pattern);
        }
        self.meets((kind, pattern as i64), changing::LIST)
    }

    /// Notes that the host waits for the trace that was cut last.
    pub fn host_waits(&self) {
        self.last.iter().for_each(|trace| trace.outlook.set_awaited(true));
    }

    /// From time to time, the progress of a known trace for whose results the host waited last time.
    pub fn progress(&self) -> Option<Progress> {
        let trace = self.expected.as_ref().filter(|trace| trace.outlook.is_good())?;
        let interval = INTERVAL.max(trace.records.len() / PIECES);
        let is_due = self.position.is_multiple_of(interval);
        (is_due && self.position < trace.records.len()).then(|| Progress {
            trace: trace.clone(),
            leaves: self.leaves.clone(),
            scalars: self.scalar_bits.clone(),
        })
    }

    /// Supplies the call site of a record.
    pub fn locate(&mut self, pending: PendingSite, site: Site) {
        self.sites.learn(pending.chain, site);
        if let Some(record) = self.recording.records.get_mut(pending.position)
            && pending.cuts == self.cuts
        {
            record.site = site;
        }
    }

    /// Whether a tensor lies within its buffer.
    pub fn fits(&self, tensor: &TensorRef) -> bool {
        let TensorRef { sizes, strides, offset, dtype, .. } = *tensor;
        let bytes = tensor.view().layout.end().saturating_mul(dtype.size() as i64);
        let negative = |list: &[i64]| list.iter().any(|&n| n < 0);
        let nbytes = self.nbytes(tensor.buffer) as u64;
        !(offset < 0 || negative(sizes) || negative(strides) || bytes as u64 > nbytes)
    }

    fn check(&self, tensor: &TensorRef, op: Operator) -> Result<()> {
        let TensorRef { sizes, strides, offset, dtype, .. } = *tensor;
        let nbytes = self.nbytes(tensor.buffer);
        if !self.fits(tensor) {
            return invalid!(
                "{}: a tensor of sizes {sizes:?}, strides {strides:?}, offset {offset} and dtype {dtype} does not fit into its buffer of {nbytes} bytes",
                operator_name(op)
            );
        }
        Ok(())
    }

    fn resolve(&mut self, op: Operator, index: usize, arg_ref: &ArgRef) -> Arg {
        match arg_ref {
            ArgRef::Tensor(tensor) => Arg::Tensor(self.read(tensor)),
            ArgRef::Tensors(list) => {
                Arg::Tensors(list.iter().map(|t| t.as_ref().map(|t| self.read(t))).collect())
            }
            &ArgRef::Scalar { kind, bits } => {
                if let Some(fixed) = settled(op, index, kind, bits)
                    && !self.varies(op, index, kind, bits, &fixed)
                {
                    return fixed;
                }
                let slot = self.scalar_bits.len() as u32;
                self.scalar_bits.push(bits);
                self.recording.scalars.push(kind);
                Arg::Scalar { kind, number: slot }
            }
            other => other.attribute().unwrap_or(Arg::None),
        }
    }

    fn read(&mut self, tensor: &TensorRef) -> Read {
        if let Some(part) = self.part(tensor) {
            return self.read_window(&part);
        }
        let view = tensor.view();
        Read { value: self.current(tensor.buffer, &view), view }
    }

    /// The value a buffer holds, as a value of this trace; `view` is how it is about to be used.
    fn current(&mut self, id: BufferId, view: &View) -> ValueIndex {
        if let Some(value) = self.value_of(id) {
            return value;
        }
        let buffer = self.buffer(id);
        let nbytes = buffer.nbytes;
        let origin = match &buffer.state {
            BufferState::Stored(storage) => {
                let leaf = self.leaves.len() as u32;
                self.leaves.push(storage.clone());
                Origin::Leaf(leaf)
            }
            _ => Origin::Zeros,
        };
        let format = leaf_format(view, nbytes);
        let value = self.holders.len() as ValueIndex;
        self.recording.values.push(Value { origin, format, nbytes });
        self.holders.push(None);
        self.becomes_leaf(id, value);
        value
    }

    fn write(&mut self, tensor: &TensorRef, out: u32) -> Write {
        let (id, view) = (tensor.buffer, tensor.view());
        let nbytes = self.nbytes(id);
        let covers = view.covers(nbytes).is_some();
        let old = (!covers).then(|| self.current(id, &view));
        if !covers {
            self.note_update(id);
        }
        let before = old.map(|old| &self.recording.values[old as usize].format);
        let format = written_format(before, &view, nbytes);
        let origin = Origin::Written { record: self.position as u32, out };
        let value = self.holders.len() as ValueIndex;
        self.recording.values.push(Value { origin, format, nbytes });
        self.hold(id, value);
        Write { old, view, value }
    }
}

/// The attribute that a scalar argument becomes, if its operator needs to know it when it is compiled.
pub fn settled(op: Operator, index: usize, kind: ScalarKind, bits: u64) -> Option<Arg> {
    let Operator::Native(row) = op else { return None };
    aten::is_static(row, index, kind, bits).then(|| kind.attribute(bits))
}

/// Refuses dtypes that a native operator cannot compute; the caller may record a host operator instead.
pub fn supported(op: Operator, args: &[ArgRef], outs: &[TensorRef]) -> Result<()> {
    type DTypes = SmallVec<[DType; 8]>;
    let Operator::Native(row) = op else { return Ok(()) };
    let tensors = args.iter().flat_map(ArgRef::tensors).chain(outs);
    let dtypes: DTypes = tensors.map(|tensor| tensor.dtype).collect();
    let accepts_list = |list: &ArgRef| {
        let dtypes: DTypes = list.tensors().map(|tensor| tensor.dtype).collect();
        aten::accepts_list(row, &dtypes)
    };
    let mut lists = args.iter().filter(|arg| matches!(arg, ArgRef::Tensors(_)));
    if aten::accepts(row, &dtypes) && lists.all(accepts_list) {
        return Ok(());
    }
    let message = format!("{} has no native form for {:?}", aten::name(row), dtypes.as_slice());
    Err(Error::new(Code::Unsupported, message))
}

/// Whether the operation computes gradients.
fn takes_gradients(op: Operator) -> bool {
    matches!(op, Operator::Native(row) if aten::takes_gradients(row))
}

/// For messages: `aten::add.Tensor`, or a host operator's name.
pub fn operator_name(op: Operator) -> String {
    match op {
        Operator::Native(row) => crate::aten::name(row).to_string(),
        Operator::Host(id) => host::get(id).map_or_else(|| "host".into(), |op| op.name.clone()),
    }
}

/// Name of the operator that a plan's step comes from.
pub fn name_of(operators: &[Operator], record: u32) -> String {
    let operator = (record as usize).checked_sub(1).and_then(|index| operators.get(index));
    operator.map_or_else(|| "an operation".into(), |&op| operator_name(op))
}

/// The error for a buffer that no longer has its promised memory.
pub(crate) fn lost() -> Error {
    Error::new(Code::Internal, "a buffer's memory was donated twice")
}

#[cfg(test)]
mod gradient_tests;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod windows_tests;
