//! The replay cursor: while the program repeats itself, recording compares each call and advances by one.
//!
//! Everything recorded since the last cut equals the first records of the *expected* trace. So an argument is the
//! same exactly if its buffer holds the value with the same number, and the equality of one more record extends that of
//! the whole beginning: nothing is hashed, inferred or copied. On the first difference another known trace with the
//! same beginning takes over, or the beginning is copied and the rest recorded in full.

use super::arg_ref::{ArgRef, Call, TensorRef};
use super::recorded::{RecordedTrace, start};
use super::{BufferState, Trace, settled};
use crate::aten;
use crate::cache::encode;
use crate::op::arg::ScalarKind;
use crate::record::{
    Arg, Operator, Origin, Read, Record, Value, ValueIndex, Write, written_format,
};
use std::sync::Arc;

/// In release builds one trace in this many is also compared byte by byte; in debug builds every one.
const SAMPLE: u64 = if cfg!(debug_assertions) { 1 } else { 1024 };

impl Trace {
    /// Records the call if it is the next one of a known trace, and returns whether it is.
    pub fn replay(&mut self, call: &Call) -> bool {
        let is_off = self.position > 0 && self.expected.is_none();
        if is_off || call.outs.iter().any(|out| self.is_windowed(out)) {
            return false;
        }
        let trace = self.expected.take();
        if trace.as_ref().is_some_and(|trace| self.follow(trace, call)) {
            self.expected = trace;
            return true;
        }
        let likely = if self.position == 0 { self.history.likely() } else { None };
        if likely.as_ref().is_some_and(|likely| self.follow(likely, call)) {
            self.expected = likely;
            return true;
        }
        let sizes = call.outs.iter().map(|out| out.sizes);
        let start = (self.position == 0).then(|| start(call.op, sizes));
        for index in 0..self.history.len() {
            if start.is_some_and(|start| !self.history.may_start(index, start)) {
                continue;
            }
            let branch = self.history.branch(index, trace.as_deref(), self.position);
            let branch = branch.filter(|branch| self.follow(branch, call));
            if branch.is_some() {
                self.expected = branch;
                return true;
            }
        }
        self.expected = trace;
        false
    }

    /// Leaves the known trace: from here on records are written.
    pub(super) fn leave_path(&mut self) {
        if let Some(trace) = self.expected.take() {
            self.recording = trace.prefix(self.position);
            self.sites.resume(self.recording.mark(self.position).chain);
            self.left = Some(trace);
        } else if self.position == 0 {
            self.left = self.history.likely();
        }
    }

    /// After a record was written: forgets the trace that was left if the two differ in more than numbers here.
    pub(super) fn compare_left(&mut self, record: &Record) {
        let before = self.left.as_ref().and_then(|trace| trace.records.get(self.position));
        if !before.is_some_and(|before| alike(before, record)) {
            self.left = None;
        }
    }

    /// Whether a scalar that would be the attribute `fixed` is better an input, because the known trace that this one left has
    /// another number here. So a site with changing numbers is compiled twice, not once for each number.
    pub(super) fn varies(
        &self,
        op: Operator,
        index: usize,
        kind: ScalarKind,
        bits: u64,
        fixed: &Arg,
    ) -> bool {
        let Operator::Native(row) = op else { return false };
        let record = self.left.as_ref().and_then(|trace| trace.records.get(self.position));
        let before = record.filter(|record| record.op == op).and_then(|r| r.args.get(index));
        let differs = match (before, fixed) {
            (Some(Arg::Scalar { .. }), _) => true,
            (Some(before), fixed) => !same_bits(before, fixed),
            (None, _) => false,
        };
        differs && aten::may_vary(row, index, kind, bits)
    }

    /// Records the call if it is record `position` of `trace`; else leaves everything as it was.
    fn follow(&mut self, trace: &RecordedTrace, call: &Call) -> bool {
        let Some(record) = trace.records.get(self.position) else { return false };
        let (leaves, values) = (self.leaves.len(), self.holders.len());
        let (scalars, touched) = (self.scalar_bits.len(), self.touched.len());
        let (varying, windows) = (self.varying.len(), self.windows.len());
        let same = record.op == call.op
            && record.args.len() == call.args.len()
            && record.outs.len() == call.outs.len()
            && self.repeat_all(trace, record, call)
            && (0..call.outs.len()).all(|out| self.may_write(trace, record, call, out))
            && (!trace.marks[self.position].gradient || self.gives_gradient(trace, call))
            && (!self.position_is_sampled() || self.verify(trace, record, call));
        if !same {
            for id in self.touched.drain(touched..) {
                if let Some(buffer) = &mut self.buffers[id as usize] {
                    buffer.leaf = None;
                }
            }
            self.leaves.truncate(leaves);
            self.holders.truncate(values);
            self.contents.truncate(values);
            self.scalar_bits.truncate(scalars);
            self.varying.truncate(varying);
            self.truncate_windows(windows);
            return false;
        }
        for (write, out) in record.outs.iter().zip(call.outs) {
            if let Some(old) = write.old {
                let found = self.find(trace, out.buffer);
                debug_assert_eq!(found, Some(old), "it may be written");
                self.note_update(out.buffer);
            }
            self.hold(out.buffer, write.value);
        }
        self.position += 1;
        true
    }

    fn repeat_all(&mut self, trace: &RecordedTrace, record: &Record, call: &Call) -> bool {
        let mut pairs = record.args.iter().zip(call.args).enumerate();
        pairs.all(|(index, (arg, arg_ref))| self.repeats(trace, call.op, index, arg, arg_ref))
    }

    /// Whether an argument equals the recorded `arg`.
    fn repeats(
        &mut self,
        trace: &RecordedTrace,
        op: Operator,
        index: usize,
        arg: &Arg,
        arg_ref: &ArgRef,
    ) -> bool {
        match (arg, arg_ref) {
            (Arg::Tensor(read), ArgRef::Tensor(tensor)) => self.reads(trace, read, tensor),
            (Arg::Tensors(reads), ArgRef::Tensors(list)) => {
                reads.len() == list.len()
                    && reads.iter().zip(list).all(|pair| match pair {
                        (Some(read), Some(tensor)) => self.reads(trace, read, tensor),
                        (None, None) => true,
                        _ => false,
                    })
            }
            (Arg::Scalar { kind: expected, .. }, &ArgRef::Scalar { kind, bits }) => {
                self.scalar_bits.push(bits);
                *expected == kind && may_be_input(op, index, kind, bits)
            }
            (arg, &ArgRef::Scalar { kind, bits }) => {
                settled(op, index, kind, bits).is_some_and(|fixed| same_bits(&fixed, arg))
            }
            (arg, arg_ref) => arg_ref.is_attribute(arg),
        }
    }

    fn reads(&mut self, trace: &RecordedTrace, read: &Read, tensor: &TensorRef) -> bool {
        if let Some(part) = self.part(tensor) {
            return part.tensor.is(&read.view) && self.is_window(trace, &part, read.value);
        }
        tensor.is(&read.view) && self.find(trace, tensor.buffer) == Some(read.value)
    }

    /// The value that a buffer holds; a new one must be the next value of the expected trace.
    fn find(&mut self, trace: &RecordedTrace, id: super::BufferId) -> Option<ValueIndex> {
        if let Some(value) = self.value_of(id) {
            return Some(value);
        }
        let value = self.holders.len();
        let expected = trace.values.get(value)?;
        let buffer = self.buffers[id as usize].as_mut().expect("a handle keeps its buffer alive");
        if buffer.nbytes != expected.nbytes {
            return None;
        }
        match (&buffer.state, expected.origin) {
            (BufferState::Stored(storage), Origin::Leaf(_)) => self.leaves.push(storage.clone()),
            (BufferState::Zeros, Origin::Zeros) => {}
            _ => return None,
        }
        self.holders.push(None);
        self.becomes_leaf(id, value as ValueIndex);
        Some(value as ValueIndex)
    }

    /// Whether result `out` is written where the record wrote it. Changes nothing.
    fn may_write(&self, trace: &RecordedTrace, record: &Record, call: &Call, out: usize) -> bool {
        let (write, arg_ref) = (&record.outs[out], &call.outs[out]);
        let buffer = self.buffer(arg_ref.buffer);
        let expected = &trace.values[write.value as usize];
        // Equal views of equally large buffers cover both or neither.
        if !arg_ref.is(&write.view) || buffer.nbytes != expected.nbytes {
            return false;
        }
        let Some(old) = write.old else { return true };
        let earlier = call.outs[..out].iter().rposition(|other| other.buffer == arg_ref.buffer);
        match earlier.map(|i| record.outs[i].value).or_else(|| self.value_of(arg_ref.buffer)) {
            Some(value) => value == old,
            // Read for the first time by this write: it is the next value, and the written one follows it.
            None => {
                old == self.next_value(&record.outs[..out])
                    && old + 1 == write.value
                    && fits(&buffer.state, &trace.values[old as usize])
            }
        }
    }

    /// The value that follows these results of a record whose arguments have been found.
    fn next_value(&self, outs: &[Write]) -> ValueIndex {
        outs.last().map_or(self.holders.len() as ValueIndex, |last| last.value + 1)
    }

    // ---- verification

    fn position_is_sampled(&self) -> bool {
        self.cuts.is_multiple_of(SAMPLE)
    }

    /// The slow check: encodes the call as a record and compares its canonical bytes and the values of its results. The
    /// arguments have been found already.
    fn verify(&self, trace: &RecordedTrace, record: &Record, call: &Call) -> bool {
        let pairs = record.args.iter().zip(call.args);
        let args = pairs.map(|(arg, arg_ref)| self.to_arg(arg, arg_ref)).collect();
        let mut outs: Vec<Write> = Vec::new();
        let mut same_values = true;
        for (arg_ref, expected) in call.outs.iter().zip(&record.outs) {
            let (nbytes, view) = (self.nbytes(arg_ref.buffer), arg_ref.view());
            let earlier = call.outs[..outs.len()].iter().rposition(|o| o.buffer == arg_ref.buffer);
            let old = (view.covers(nbytes).is_none()).then(|| {
                let found =
                    earlier.map(|i| outs[i].value).or_else(|| self.value_of(arg_ref.buffer));
                found.unwrap_or_else(|| self.next_value(&outs))
            });
            let before = old.map(|old| &trace.values[old as usize].format);
            let format = written_format(before, &view, nbytes);
            let origin = Origin::Written { record: self.position as u32, out: outs.len() as u32 };
            same_values &=
                trace.values[expected.value as usize] == Value { origin, format, nbytes };
            outs.push(Write { old, view, value: expected.value });
        }
        let mut bytes = Vec::new();
        encode::record(&mut bytes, &Record { op: call.op, args, outs, site: 0 });
        let (start, end) = (trace.mark(self.position).bytes, trace.mark(self.position + 1).bytes);
        let same = same_values && bytes == trace.bytes[start..end];
        debug_assert!(same, "an operation was taken for another one");
        same
    }

    fn to_arg(&self, arg: &Arg, arg_ref: &ArgRef) -> Arg {
        let read = |tensor: &TensorRef, recorded: Option<&Read>| {
            let Some(part) = self.part(tensor) else {
                let value = self.value_of(tensor.buffer).unwrap_or(ValueIndex::MAX);
                return Read { value, view: tensor.view() };
            };
            let value = recorded.map(|read| read.value).filter(|&value| self.shows(&part, value));
            Read { value: value.unwrap_or(ValueIndex::MAX), view: part.tensor.view() }
        };
        match arg_ref {
            ArgRef::Tensor(tensor) => Arg::Tensor(read(
                tensor,
                match arg {
                    Arg::Tensor(recorded) => Some(recorded),
                    _ => None,
                },
            )),
            ArgRef::Tensors(list) => {
                let recorded = |n: usize| match arg {
                    Arg::Tensors(reads) => reads.get(n)?.as_ref(),
                    _ => None,
                };
                let reads = list.iter().enumerate();
                let reads = reads.map(|(n, t)| t.as_ref().map(|t| read(t, recorded(n))));
                Arg::Tensors(reads.collect())
            }
            ArgRef::Scalar { kind, bits } => match arg {
                Arg::Scalar { .. } => Arg::Scalar { kind: *kind, number: 0 },
                _ => kind.attribute(*bits),
            },
            other => other.attribute().unwrap_or(Arg::None),
        }
    }

    /// The finished trace, however it was recorded; the next one may be any known trace. Also, the first record whose call site
    /// is its own: those of the records before are where an equal trace was recorded.
    pub(super) fn finish(&mut self) -> (Arc<RecordedTrace>, usize) {
        let recorded = match self.expected.take() {
            Some(trace) => trace,
            None => Arc::new(std::mem::take(&mut self.recording)),
        };
        let length = std::mem::take(&mut self.position);
        (self.left, self.moved_from) = (None, None);
        let unknown_from = self.unknown_from.take();
        let newest = self.history.newest();
        let trace = self.history.finished(recorded, length);
        let is_new = self.history.newest() != newest;
        (trace, unknown_from.filter(|_| is_new).unwrap_or(length))
    }
}

/// Whether a scalar may be an input of the program, even if it may be an attribute, too.
fn may_be_input(op: Operator, index: usize, kind: ScalarKind, bits: u64) -> bool {
    match op {
        Operator::Native(row) => {
            !aten::is_static(row, index, kind, bits) || aten::may_vary(row, index, kind, bits)
        }
        Operator::Host(_) => true,
    }
}

/// Whether two records differ in numbers at most.
fn alike(a: &Record, b: &Record) -> bool {
    let number =
        |arg: &Arg| matches!(arg, Arg::Scalar { .. } | Arg::Int(_) | Arg::Float(_) | Arg::Bool(_));
    a.op == b.op
        && a.outs == b.outs
        && a.args.len() == b.args.len()
        && a.args.iter().zip(&b.args).all(|(a, b)| a == b || number(a) && number(b))
}

fn same_bits(a: &Arg, b: &Arg) -> bool {
    match (a, b) {
        (Arg::Int(a), Arg::Int(b)) => a == b,
        (Arg::Float(a), Arg::Float(b)) => a.to_bits() == b.to_bits(),
        (Arg::Bool(a), Arg::Bool(b)) => a == b,
        _ => false,
    }
}

/// Whether the memory or zeros that a buffer holds may stand for `value`, which is not a result.
fn fits(state: &BufferState, value: &Value) -> bool {
    let pair = (state, value.origin);
    matches!(pair, (BufferState::Stored(_), Origin::Leaf(_)) | (BufferState::Zeros, Origin::Zeros))
}
