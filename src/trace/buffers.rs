//! Buffers of a trace: creation, contents, dropping.

use super::windows::CUTS;
use super::{Buffer, BufferId, BufferState, Content, ContentId, Older, Retired, Trace};
use crate::buffer::Storage;
use crate::record::{ValueIndex, Varying};
use std::mem::{replace, take};
use std::sync::Arc;

impl Buffer {
    fn zeros(nbytes: usize, content: ContentId, since: u64) -> Buffer {
        Buffer {
            nbytes,
            state: BufferState::Zeros,
            before: None,
            leaf: None,
            varying: Vec::new(),
            content,
            older: Older::default(),
            since,
            is_moving: false,
            has_windows: None,
            updated: None,
            pause: CUTS,
        }
    }
}

impl Trace {
    pub fn new_buffer(&mut self, nbytes: usize) -> BufferId {
        let buffer = Some(Buffer::zeros(nbytes, self.next_content(), self.cuts));
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
        self.give_up(id);
        self.forget_windows(id);
        if let Some(buffer) = self.buffers[id as usize].take() {
            self.retire(buffer);
            self.free.push(id);
        }
    }

    fn retire(&mut self, buffer: Buffer) {
        if let BufferState::Stored(storage) = buffer.state {
            self.retired.push(storage);
        }
        self.retired.extend(buffer.before);
    }

    /// Memory that the trace has given up, to be dropped without a lock.
    pub fn retired(&mut self) -> Retired {
        take(&mut self.retired)
    }

    /// The memory that buffers hold or will hold.
    pub fn storages(&self) -> Vec<Arc<Storage>> {
        let storages = self.buffers.iter().flatten().filter_map(|buffer| match &buffer.state {
            BufferState::Stored(storage) => Some(storage.clone()),
            _ => None,
        });
        storages.collect()
    }

    pub fn live_buffers(&self) -> usize {
        self.buffers.len() - self.free.len()
    }

    /// Number of traces that are expected to come again.
    pub fn known_traces(&self) -> usize {
        self.history.len()
    }

    pub fn nbytes(&self, id: BufferId) -> usize {
        self.buffer(id).nbytes
    }

    /// Replaces the content.
    pub fn store(&mut self, id: BufferId, storage: Arc<Storage>) {
        self.release_value(id);
        self.give_up(id);
        self.outlived(id);
        self.forget_windows(id);
        let content = self.next_content();
        let nbytes = storage.nbytes();
        let buffer = self.buffer_mut(id);
        let (varying, older) = (take(&mut buffer.varying), take(&mut buffer.older));
        let (is_moving, updated, pause) = (buffer.is_moving, buffer.updated, buffer.pause);
        let new = Buffer {
            state: BufferState::Stored(storage),
            varying,
            older,
            is_moving,
            updated,
            pause,
            ..Buffer::zeros(nbytes, content, buffer.since)
        };
        let old = replace(buffer, new);
        self.retire(old);
    }

    /// Gives a buffer another size and no content.
    pub fn clear(&mut self, id: BufferId, nbytes: usize) {
        self.release_value(id);
        self.give_up(id);
        self.forget_windows(id);
        let content = self.next_content();
        let buffer = self.buffer_mut(id);
        let old = replace(buffer, Buffer::zeros(nbytes, content, buffer.since));
        self.retire(old);
    }

    /// Declares that a size of the buffer's tensors will vary: in the trace that uses it now, and in those that read it later.
    pub fn mark(&mut self, id: BufferId, varying: Varying) {
        let in_use = self.value_of(id).is_some() || self.has_windows(id);
        let buffer = self.buffer_mut(id);
        buffer.varying.retain(|known| known.size != varying.size);
        buffer.varying.push(varying);
        if in_use {
            self.varying.push(varying);
        }
    }

    /// Notes that this trace reads a buffer's memory for the first time, as `value`.
    pub(super) fn becomes_leaf(&mut self, id: BufferId, value: ValueIndex) {
        self.touched.push(id);
        let buffer = self.buffers[id as usize].as_mut().expect("a handle keeps its buffer alive");
        buffer.leaf = Some(value);
        self.contents.push(buffer.content);
        self.varying.extend_from_slice(&buffer.varying);
    }

    pub fn content(&self, id: BufferId) -> Content {
        match &self.buffer(id).state {
            BufferState::Zeros => Content::Zeros,
            BufferState::Stored(storage) => Content::Stored(storage.clone()),
            BufferState::Traced(value) => Content::Traced(*value),
        }
    }

    pub(super) fn buffer(&self, id: BufferId) -> &Buffer {
        self.buffers[id as usize].as_ref().expect("a handle keeps its buffer alive")
    }

    pub(super) fn buffer_mut(&mut self, id: BufferId) -> &mut Buffer {
        self.buffers[id as usize].as_mut().expect("a handle keeps its buffer alive")
    }

    /// Removes a buffer as the holder of its value.
    pub(super) fn release_value(&mut self, id: BufferId) {
        if let Some(Buffer { state: BufferState::Traced(value), .. }) = self.buffers[id as usize] {
            self.holders[value as usize] = None;
        }
    }

    /// Notes that a buffer is dropped, or gets other memory: if the trace has read the old memory, the trace alone keeps it from
    /// now on.
    fn give_up(&mut self, id: BufferId) {
        let is_read = self.buffer(id).leaf.is_some() || self.has_windows(id);
        if let Some(Buffer { nbytes, state, before, .. }) = &self.buffers[id as usize]
            && is_read
            && (before.is_some() || matches!(state, BufferState::Stored { .. }))
        {
            self.held_bytes += nbytes;
        }
    }

    /// The value of this trace that a buffer holds, if it has one already.
    pub(super) fn value_of(&self, id: BufferId) -> Option<ValueIndex> {
        let buffer = self.buffer(id);
        match buffer.state {
            BufferState::Traced(value) => Some(value),
            _ => buffer.leaf,
        }
    }

    /// Gives a buffer the next value of the trace, which is `value`.
    pub(super) fn hold(&mut self, id: BufferId, value: ValueIndex) {
        debug_assert_eq!(value as usize, self.holders.len());
        self.release_value(id);
        self.outlived(id);
        self.holders.push(Some(id));
        self.contents.push(0);
        let buffer = self.buffer_mut(id);
        if let BufferState::Stored(storage) =
            std::mem::replace(&mut buffer.state, BufferState::Traced(value))
        {
            buffer.before = Some(storage);
            self.touched.push(id);
        }
    }
}
