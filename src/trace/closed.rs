//! The cut: a trace becomes a [`Closed`] one, and its results become promised storages.

use super::gradient::{ContentId, Cut, Ended};
use super::recorded::RecordedTrace;
use super::{BufferState, Trace, loop_detection};
use crate::buffer::Storage;
use crate::error::{Code, Error};
use crate::record::{Origin, Output, Records, Varying};
use std::sync::Arc;

/// Ends the message of an error whose call site was learned earlier.
const REPEATED: &str =
    "\n  (an earlier step recorded the same; the place is that of its first time)";

/// A trace that is handed over, with the memory that it reads and the storages that it fills.
pub struct Closed {
    trace: Arc<RecordedTrace>,
    /// From this record on, the call sites are those of this very trace.
    placed_from: usize,
    /// The values that live on, which the program must leave behind, in order.
    pub outputs: Vec<Output>,
    pub leaves: Vec<Arc<Storage>>,
    pub scalars: Vec<u64>,
    /// The storage of each output.
    pub promised: Vec<Arc<Storage>>,
    varying: Vec<Varying>,
    /// The memory that each output's buffer held before: it stays if the output cannot be computed.
    pub before: Vec<Option<Arc<Storage>>>,
}

impl Trace {
    /// Closes the trace. A `full` cut donates: an output may reuse the memory that its buffer held before, its donor. A
    /// partial one (a read in the middle of a step) does not, so that it leaves no mark on the next program.
    /// Returns `None` if none of its values live on and no record has effects. The cost grows with the number of leaves and
    /// outputs, hardly with that of records.
    pub fn cut(&mut self, full: bool) -> Option<Closed> {
        let (trace, placed_from) = self.finish();
        trace.outlook.set_awaited(!full);
        trace.outlook.was_trace(self.cuts);
        self.last = Some(trace.clone());
        (self.held_bytes, self.period) = (0, 0);
        self.is_captured = false;
        self.sites.resume(0);
        // The next trace is likely to be as large.
        let scalars = taken(&mut self.scalar_bits);
        let leaves = taken(&mut self.leaves);
        let varying = std::mem::take(&mut self.varying);
        let mut holders = std::mem::take(&mut self.holders);
        let contents = taken(&mut self.contents);
        let first = self.last_content + 1;
        let (mut outputs, mut promised, mut befores) = (Vec::new(), Vec::new(), Vec::new());
        // In the order of the values, which is that of the program: never in that of addresses or drops.
        for (value, holder) in holders.drain(..).enumerate() {
            let Some(id) = holder else { continue };
            let has_windows = self.has_windows(id);
            let buffer = self.buffer_mut(id);
            let before = buffer.before.take();
            let is_leaf = |value: u32| match trace.values[value as usize].origin {
                Origin::Leaf(leaf) => Some(leaf),
                _ => None,
            };
            // The leaf of a buffer is the memory it held first, so it is `before` exactly if both exist.
            let ours = before.as_ref().is_some_and(|storage| !storage.is_shared());
            let may_donate = full && ours && !has_windows;
            let donor = buffer.leaf.filter(|_| may_donate).and_then(is_leaf);
            let storage = Arc::new(Storage::pending(buffer.nbytes));
            buffer.state = BufferState::Stored(storage.clone());
            buffer.content = first + outputs.len() as ContentId;
            outputs.push(Output { value: value as u32, donor });
            promised.push(storage);
            befores.push(before);
        }
        self.holders = holders;
        self.windows.clear();
        self.cuts += 1;
        self.last_content += outputs.len() as ContentId;
        let ended = if full { Ended::Asked } else { Ended::Read };
        self.past
            .push(Cut { trace: trace.clone(), contents, outputs: outputs.clone(), first }, ended);
        for id in self.touched.drain(..) {
            if let Some(buffer) = &mut self.buffers[id as usize] {
                buffer.leaf = None;
                self.retired.extend(buffer.before.take());
            }
        }
        if promised.is_empty() && !trace.has_effects() {
            self.retired.extend(leaves);
            return None;
        }
        Some(Closed {
            trace,
            placed_from,
            outputs,
            leaves,
            scalars,
            promised,
            varying,
            before: befores,
        })
    }
}

impl Trace {
    /// Whether the trace has about `limit` records or more: a whole number of iterations if it repeats itself.
    pub fn is_long(&self, limit: usize) -> bool {
        match self.period {
            0 => self.position >= limit,
            period => self.position >= (limit / period).max(1) * period,
        }
    }

    /// Releases the memory that a program would read, if nobody runs it.
    pub fn give_up_program(&mut self, closed: &mut Closed) {
        self.retired.extend(closed.leaves.drain(..));
        self.retired.extend(closed.before.drain(..).flatten());
    }

    /// A partial [`Trace::cut`] of a trace that has become long. If that is because the program
    /// loops, the next ones are cut where they repeat this one.
    pub fn cut_long(&mut self) -> Option<Closed> {
        let period = match &self.expected {
            Some(_) if self.period > 0 => self.period,
            Some(trace) => loop_detection::period_of(&trace.records[..self.position]),
            None => loop_detection::period_of(&self.recording.records),
        };
        let closed = self.cut(false);
        self.period = period;
        self.past.ended = Ended::Long;
        closed
    }
}

/// Takes the elements of a list, leaving an empty one with as much room.
fn taken<T>(list: &mut Vec<T>) -> Vec<T> {
    let room = list.len();
    std::mem::replace(list, Vec::with_capacity(room))
}

impl Drop for Closed {
    /// Settles the promised storages, so that nobody waits for them forever, whatever became of the program.
    fn drop(&mut self) {
        for promised in self.promised.iter().filter(|promised| !promised.is_settled()) {
            promised
                .fulfil(Err(Error::new(Code::Internal, "a program was given up before it ran")));
        }
    }
}

impl Closed {
    /// Number of the trace without its memory: traces with equal numbers have the same records. With `outputs` it decides
    /// the same as [`Closed::key_parts`].
    pub fn trace_id(&self) -> u64 {
        self.trace.id
    }

    /// Marks an error of this trace whose call site was learned from an equal trace before: the call sites of a trace that
    /// comes again are not asked for.
    pub fn placed(&self, mut error: Error) -> Error {
        let own = &self.trace.records[self.placed_from..];
        if error.site != 0 && own.iter().all(|record| record.site != error.site) {
            error.message += REPEATED;
        }
        error
    }

    /// The trace without its memory.
    pub fn trace(&self) -> &Arc<RecordedTrace> {
        &self.trace
    }

    /// The records to compile.
    pub fn records(&self) -> Records {
        Records { varying: self.varying.clone(), ..self.trace.records(&self.outputs) }
    }

    /// The named parts of the key that the trace determines.
    pub fn key_parts(&self) -> Vec<(&'static str, Vec<u8>)> {
        self.trace.key_parts(&self.outputs)
    }
}
