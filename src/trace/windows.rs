//! Windows: parts of one buffer that a program reads at changing offsets, such as the batches of a data set on the device. Each
//! is a leaf of its own that begins at the part's address, so that its offset is not recorded.
//!
//! No output of a trace is given memory that the trace has windows of; so a trace is cut before such memory is written.

use super::{ArgRef, BufferId, BufferState, Call, RecordedTrace, TensorRef, Trace};
use crate::buffer::Storage;
use crate::record::{Arg, Origin, Read, Value, ValueIndex, leaf_format};
use smallvec::SmallVec;
use std::sync::Arc;

/// Number of cuts without windows after a part of a buffer was written, at first.
pub(super) const CUTS: u64 = 64;
/// Factor by which that number grows each time a buffer with windows is written.
const LONGER: u64 = 64;

/// A part of a buffer's memory that is a leaf of this trace.
pub(super) struct Window {
    buffer: BufferId,
    start: usize,
    nbytes: usize,
    value: ValueIndex,
}

/// The results of a call.
type Outs<'a> = SmallVec<[TensorRef<'a>; 4]>;

/// Replaces the buffer of a window once that buffer is gone.
const NONE: BufferId = BufferId::MAX;

/// The memory that a tensor covers, first byte and length, and the tensor as a view of it.
pub(super) struct Part<'a> {
    start: usize,
    nbytes: usize,
    pub tensor: TensorRef<'a>,
}

impl Window {
    fn is(&self, part: &Part) -> bool {
        let Part { start, nbytes, tensor } = part;
        (self.buffer, self.start, self.nbytes) == (tensor.buffer, *start, *nbytes)
    }
}

impl Trace {
    /// Lets leaves begin at multiples of `bytes` of a buffer's memory; 0: only at its start.
    pub fn set_alignment(&mut self, bytes: usize) {
        self.alignment = bytes;
    }

    /// The part that a tensor shows, if it is read as a window.
    pub(super) fn part<'a>(&self, tensor: &TensorRef<'a>) -> Option<Part<'a>> {
        self.buffer(tensor.buffer).is_moving.then(|| self.part_of(tensor)).flatten()
    }

    fn part_of<'a>(&self, tensor: &TensorRef<'a>) -> Option<Part<'a>> {
        let buffer = self.buffer(tensor.buffer);
        if !self.may_have_windows() || !matches!(buffer.state, BufferState::Stored(_)) {
            return None;
        }
        let size = tensor.dtype.size();
        let begin = usize::try_from(tensor.offset).ok()?.checked_mul(size)?;
        let start = begin / self.alignment * self.alignment;
        let offset = ((begin - start) / size) as i64;
        let tensor = TensorRef { offset, ..*tensor };
        let nbytes = usize::try_from(tensor.view().layout.end()).ok()?.checked_mul(size)?;
        let end = start.checked_add(nbytes)?;
        let is_part = 0 < nbytes && nbytes < buffer.nbytes && end <= buffer.nbytes;
        (is_part && (begin - start).is_multiple_of(size)).then_some(Part { start, nbytes, tensor })
    }

    /// Gradients and captured functions see whole buffers.
    fn may_have_windows(&self) -> bool {
        self.alignment > 0 && !self.has_gradients && !self.is_captured
    }

    /// Whether the part is, or becomes, leaf `value` of the expected trace. Two of its windows may coincide by chance, but one
    /// window is always one part.
    pub(super) fn is_window(
        &mut self,
        trace: &RecordedTrace,
        part: &Part,
        value: ValueIndex,
    ) -> bool {
        if (value as usize) < self.holders.len() {
            return self.shows(part, value);
        }
        let expected = trace.values.get(self.holders.len());
        let is_next = value as usize == self.holders.len()
            && expected.is_some_and(|expected| {
                expected.nbytes == part.nbytes && matches!(expected.origin, Origin::Leaf(_))
            });
        if is_next {
            self.add_window(part);
        }
        is_next
    }

    /// Whether a value is this window.
    pub(super) fn shows(&self, part: &Part, value: ValueIndex) -> bool {
        let at = self.windows.binary_search_by_key(&value, |window| window.value);
        at.is_ok_and(|at| self.windows[at].is(part))
    }

    /// The window as a value of this trace.
    pub(super) fn read_window(&mut self, part: &Part) -> Read {
        let view = part.tensor.view();
        let known = self.windows.iter().find(|window| window.is(part));
        let value = known.map(|window| window.value).unwrap_or_else(|| {
            let origin = Origin::Leaf(self.leaves.len() as u32);
            let (format, nbytes) = (leaf_format(&view, part.nbytes), part.nbytes);
            self.recording.values.push(Value { origin, format, nbytes });
            self.add_window(part)
        });
        Read { value, view }
    }

    fn add_window(&mut self, part: &Part) -> ValueIndex {
        let (id, value) = (part.tensor.buffer, self.holders.len() as ValueIndex);
        let cuts = self.cuts;
        let buffer = self.buffers[id as usize].as_mut().expect("a handle keeps its buffer alive");
        buffer.has_windows = Some(cuts);
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

    /// Whether this trace has windows of a buffer.
    pub(super) fn has_windows(&self, id: BufferId) -> bool {
        self.buffer(id).has_windows == Some(self.cuts)
    }

    /// Values that are windows of a buffer.
    pub(super) fn windows_of(&self, id: BufferId) -> impl Iterator<Item = ValueIndex> + '_ {
        self.windows.iter().filter(move |window| window.buffer == id).map(|window| window.value)
    }

    /// Forgets the windows of a buffer that is dropped, or gets other memory; its number may be reused.
    pub(super) fn forget_windows(&mut self, id: BufferId) {
        if !self.has_windows(id) {
            return;
        }
        let values: SmallVec<[ValueIndex; 2]> = self.windows_of(id).collect();
        values.into_iter().for_each(|value| self.was_outlived(id, value));
        for window in self.windows.iter_mut().filter(|window| window.buffer == id) {
            window.buffer = NONE;
        }
        self.buffer_mut(id).has_windows = None;
    }

    /// Notes that a part of a buffer is written.
    pub(super) fn note_update(&mut self, id: BufferId) {
        let cuts = self.cuts;
        let buffer = self.buffer_mut(id);
        (buffer.is_moving, buffer.updated) = (false, Some(cuts));
    }

    /// Whether a tensor's buffer is read in windows, which must end before it is written: [`Trace::end_windows`].
    pub(super) fn is_windowed(&self, tensor: &TensorRef) -> bool {
        self.buffer(tensor.buffer).is_moving || self.has_windows(tensor.buffer)
    }

    /// Before a call: the buffers it writes are read as a whole for a while. Returns whether the trace has windows of them; if it
    /// is cut first, nothing has to be copied.
    pub fn end_windows(&mut self, call: &Call) -> bool {
        let mut has_windows = false;
        for out in call.outs.iter().filter(|out| self.is_windowed(out)).copied().collect::<Outs>() {
            has_windows |= self.has_windows(out.buffer);
            self.note_update(out.buffer);
            let buffer = self.buffer_mut(out.buffer);
            buffer.pause = buffer.pause.saturating_mul(LONGER);
        }
        has_windows
    }

    /// Drops all but the first `length` windows.
    pub(super) fn truncate_windows(&mut self, length: usize) {
        while self.windows.len() > length
            && let Some(last) = self.windows.pop()
        {
            if last.buffer != NONE && self.windows_of(last.buffer).next().is_none() {
                self.buffer_mut(last.buffer).has_windows = None;
            }
        }
    }

    /// Before a call is recorded in full: notes the buffers that it reads at other offsets than the known trace that this one
    /// followed up to now, or up to another such call.
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
        let buffer = self.buffer(tensor.buffer);
        let may_move = matches!(value.origin, Origin::Leaf(_))
            && matches!(buffer.state, BufferState::Stored(_))
            && buffer.updated.is_none_or(|at| self.cuts - at > buffer.pause);
        let has_moved = if value.nbytes == buffer.nbytes {
            // In buffers that each step makes anew, offsets differ because lengths do: two lengths that are equal by chance are
            // no move.
            offset != tensor.offset
                && trace.outlook.had_seen(buffer.since)
                && TensorRef { offset, ..*tensor }.is(&read.view)
        } else {
            // The known trace read it as a window.
            may_move
                && self
                    .part_of(tensor)
                    .is_some_and(|part| part.nbytes == value.nbytes && part.tensor.is(&read.view))
        };
        if may_move && has_moved {
            self.buffer_mut(tensor.buffer).is_moving = true;
        }
    }
}
