//! Windows: what a program reads of one buffer at changing places, such as the batches of a data set on the device. Each is a leaf
//! of its own, whose address is where it begins, so that its place is no part of what is recorded.
//!
//! While a trace has windows of a buffer's memory, no output is given that memory.

use super::{ArgRef, BufferId, BufferState, Call, RecordedTrace, TensorRef, Trace};
use crate::buffer::Storage;
use crate::record::{Arg, Origin, Read, Value, ValueIndex, leaf_format};
use std::sync::Arc;

/// A buffer of which parts were written has windows again after so many cuts: for each such step all of it is copied.
const CUTS: u64 = 64;

/// A part of a buffer's memory that is a leaf of this trace.
pub(super) struct Window {
    buffer: BufferId,
    start: usize,
    nbytes: usize,
    value: ValueIndex,
}

/// Of buffers that are gone.
const NONE: BufferId = BufferId::MAX;

/// The memory that a tensor shows, first byte and length, and the tensor as a view of it.
pub(super) struct Part<'a> {
    start: usize,
    nbytes: usize,
    pub tensor: TensorRef<'a>,
}

impl Trace {
    /// Lets leaves begin at multiples of so many bytes of a buffer's memory; 0: at its begin alone.
    pub fn set_alignment(&mut self, bytes: usize) {
        self.alignment = bytes;
    }

    /// Of a tensor that is read as a window.
    pub(super) fn part<'a>(&self, tensor: &TensorRef<'a>) -> Option<Part<'a>> {
        let buffer = self.buffer(tensor.buffer);
        let is_moving = buffer.is_moving && self.may_have_windows();
        if !is_moving || !matches!(buffer.state, BufferState::Stored(_)) {
            return None;
        }
        let size = tensor.dtype.size();
        let begin = usize::try_from(tensor.offset).ok()? * size;
        let start = begin / self.alignment * self.alignment;
        let offset = ((begin - start) / size) as i64;
        let tensor = TensorRef { offset, ..*tensor };
        let nbytes = tensor.view().layout.end() as usize * size;
        let is_part = 0 < nbytes && nbytes < buffer.nbytes && start + nbytes <= buffer.nbytes;
        (is_part && (begin - start).is_multiple_of(size)).then_some(Part { start, nbytes, tensor })
    }

    /// Gradients see whole buffers, and so does who captures.
    fn may_have_windows(&self) -> bool {
        self.alignment > 0 && !self.has_gradients && !self.is_captured
    }

    /// The value of a window that is a leaf already.
    pub(super) fn window(&self, part: &Part) -> Option<ValueIndex> {
        let Part { start, nbytes, tensor } = part;
        let same = |window: &&Window| {
            (window.buffer, window.start, window.nbytes) == (tensor.buffer, *start, *nbytes)
        };
        self.windows.iter().find(same).map(|window| window.value)
    }

    /// The same; if it is a new leaf, it must be the next one of the expected trace.
    pub(super) fn find_window(&mut self, trace: &RecordedTrace, part: &Part) -> Option<ValueIndex> {
        if let Some(value) = self.window(part) {
            return Some(value);
        }
        let expected = trace.values.get(self.holders.len())?;
        let is_next = expected.nbytes == part.nbytes && matches!(expected.origin, Origin::Leaf(_));
        is_next.then(|| self.add_window(part))
    }

    /// The window as a value of this trace.
    pub(super) fn read_window(&mut self, part: &Part) -> Read {
        let view = part.tensor.view();
        let value = self.window(part).unwrap_or_else(|| {
            let origin = Origin::Leaf(self.leaves.len() as u32);
            let (format, nbytes) = (leaf_format(&view, part.nbytes), part.nbytes);
            self.recording.values.push(Value { origin, format, nbytes });
            self.add_window(part)
        });
        Read { value, view }
    }

    fn add_window(&mut self, part: &Part) -> ValueIndex {
        let (id, value) = (part.tensor.buffer, self.holders.len() as ValueIndex);
        let buffer = self.buffers[id as usize].as_ref().expect("a handle keeps its buffer alive");
        if let BufferState::Stored(storage) = &buffer.state {
            self.leaves.push(Arc::new(Storage::window(storage, part.start, part.nbytes)));
        }
        self.holders.push(None);
        self.contents.push(buffer.content);
        self.varying.extend_from_slice(&buffer.varying);
        let (start, nbytes) = (part.start, part.nbytes);
        self.windows.push(Window { buffer: id, start, nbytes, value });
        value
    }

    /// Values that are windows of a buffer.
    pub(super) fn windows_of(&self, id: BufferId) -> impl Iterator<Item = ValueIndex> + '_ {
        self.windows.iter().filter(move |window| window.buffer == id).map(|window| window.value)
    }

    /// A buffer goes, or gets other memory; its number may come again.
    pub(super) fn forget_windows(&mut self, id: BufferId) {
        self.windows.iter_mut().filter(|window| window.buffer == id).for_each(|window| {
            window.buffer = NONE;
        });
    }

    /// A part of a buffer is written.
    pub(super) fn note_update(&mut self, id: BufferId) {
        let cuts = self.cuts;
        let buffer = self.buffer_mut(id);
        (buffer.is_moving, buffer.updated) = (false, Some(cuts));
    }

    /// Before a call is recorded in full: notes the buffers that it reads at other places than the known trace that this one was up
    /// to now, or up to another such call.
    pub(super) fn note_moves(&mut self, call: &Call) {
        if !self.may_have_windows() {
            return;
        }
        if self.moved_from.is_none() {
            let likely = || if self.position == 0 { self.history.likely() } else { None };
            self.moved_from = self.expected.clone().or_else(likely);
        }
        let Some(trace) = self.moved_from.take() else { return };
        let record = trace.records.get(self.position);
        let record = record.filter(|r| r.op == call.op && r.args.len() == call.args.len());
        for (arg, arg_ref) in record.iter().flat_map(|record| record.args.iter().zip(call.args)) {
            match (arg, arg_ref) {
                (Arg::Tensor(read), ArgRef::Tensor(tensor)) => self.note_move(&trace, read, tensor),
                (Arg::Tensors(reads), ArgRef::Tensors(list)) => {
                    let pairs = reads.iter().flatten().zip(list.iter().flatten());
                    pairs.for_each(|(read, tensor)| self.note_move(&trace, read, tensor));
                }
                _ => {}
            }
        }
        self.moved_from = Some(trace);
    }

    fn note_move(&mut self, trace: &RecordedTrace, read: &Read, tensor: &TensorRef) {
        let (value, offset) = (&trace.values[read.value as usize], read.view.layout.offset);
        let was_read = TensorRef { offset, ..*tensor }.is(&read.view);
        let buffer = self.buffer(tensor.buffer);
        let has_moved = was_read
            && offset != tensor.offset
            && matches!(value.origin, Origin::Leaf(_))
            && value.nbytes == buffer.nbytes
            && matches!(buffer.state, BufferState::Stored(_));
        if has_moved && buffer.updated.is_none_or(|at| self.cuts - at > CUTS) {
            self.buffer_mut(tensor.buffer).is_moving = true;
        }
    }
}
