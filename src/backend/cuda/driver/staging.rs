//! Copies between the host and the device, through pinned memory of our own: with other memory the driver makes the caller
//! wait, and copies at a fraction of the bus's rate.
//!
//! **Invariant:** a chunk is written again only when its last copy to the device is done.
#![expect(unsafe_code, reason = "pinned memory of the driver's")]

use super::api::Handle;
use super::context::{Context, NO_TIMING, StreamLock};
use crate::error::Result;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

const CHUNK: usize = 4 << 20;
/// Number of copies that may be in flight before a write waits.
const CHUNKS: usize = 8;

/// The dependencies of a copy.
pub struct Order<'a> {
    pub stream: Handle,
    /// Events that the copy waits for.
    pub after: &'a [Handle],
    /// An event that is recorded after the copy.
    pub done: Option<Handle>,
}

/// Pinned memory, and the event that its last copy is done.
struct Chunk {
    start: usize,
    done: Handle,
}

impl Order<'_> {
    fn begin(&self, context: &Context, stream_lock: &StreamLock) -> Result<()> {
        self.after.iter().try_for_each(|event| context.follow(self.stream, *event, stream_lock))
    }

    fn end(&self, context: &Context, chunk: &Chunk, stream_lock: &StreamLock) -> Result<()> {
        let events = [chunk.done].into_iter().chain(self.done);
        events.into_iter().try_for_each(|event| context.record(event, self.stream, stream_lock))
    }
}

#[derive(Default)]
pub struct Staging {
    /// Chunks that are not in use, the one used longest ago first.
    free: Mutex<VecDeque<Chunk>>,
    made: AtomicUsize,
}

impl Staging {
    /// Queues a copy of `from` to the device; `from` may change when this returns.
    pub fn write(
        &self,
        context: &Context,
        order: &Order,
        from: &[u8],
        address: usize,
    ) -> Result<()> {
        for (part, offset) in from.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
            self.with(context, |chunk| {
                // SAFETY: a chunk holds `part.len()` bytes, its last copy is done, and nobody else has it.
                unsafe {
                    let start = ptr::with_exposed_provenance_mut::<u8>(chunk.start);
                    ptr::copy_nonoverlapping(part.as_ptr(), start, part.len());
                }
                let stream_lock = context.lock_stream()?;
                stream_lock.must_not_capture("write from the host")?;
                order.begin(context, &stream_lock)?;
                let start = ptr::with_exposed_provenance::<c_void>(chunk.start);
                let to = (address + offset) as u64;
                // SAFETY: the caller's memory of the device; the chunk stays until `done`.
                let status = unsafe { (context.api.copy_in)(to, start, part.len(), order.stream) };
                context.api.check(status, "copying to the GPU")?;
                order.end(context, chunk, &stream_lock)
            })?;
        }
        Ok(())
    }

    /// Copies from the device, and waits for the copy.
    pub fn read(
        &self,
        context: &Context,
        order: &Order,
        address: usize,
        to: &mut [u8],
    ) -> Result<()> {
        for (part, offset) in to.chunks_mut(CHUNK).zip((0..).step_by(CHUNK)) {
            self.with(context, |chunk| {
                let stream_lock = context.lock_stream()?;
                stream_lock.must_not_capture("read to the host")?;
                order.begin(context, &stream_lock)?;
                let start = ptr::with_exposed_provenance_mut::<c_void>(chunk.start);
                let from = (address + offset) as u64;
                // SAFETY: as in `write`, the other way round.
                let status =
                    unsafe { (context.api.copy_out)(start, from, part.len(), order.stream) };
                context.api.check(status, "copying from the GPU")?;
                order.end(context, chunk, &stream_lock)?;
                drop(stream_lock);
                context.wait(chunk.done, "copying from the GPU")?;
                // SAFETY: the chunk holds `part.len()` bytes, all written by the copy.
                unsafe {
                    let start = ptr::with_exposed_provenance::<u8>(chunk.start);
                    ptr::copy_nonoverlapping(start, part.as_mut_ptr(), part.len());
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn with(&self, context: &Context, work: impl FnOnce(&Chunk) -> Result<()>) -> Result<()> {
        let chunk = self.take(context)?;
        let result = work(&chunk);
        self.free.lock().push_back(chunk);
        result
    }

    /// A chunk whose last copy is done.
    fn take(&self, context: &Context) -> Result<Chunk> {
        let oldest = self.free.lock().pop_front();
        let Some(chunk) = oldest else { return self.make(context) };
        if context.has_happened(chunk.done)? {
            return Ok(chunk);
        }
        if self.made.load(Ordering::Relaxed) < CHUNKS {
            self.free.lock().push_front(chunk);
            return self.make(context);
        }
        match context.wait(chunk.done, "copying to the GPU") {
            Ok(()) => Ok(chunk),
            Err(error) => {
                self.free.lock().push_front(chunk);
                Err(error)
            }
        }
    }

    fn make(&self, context: &Context) -> Result<Chunk> {
        let mut start = ptr::null_mut();
        let _entered = context.enter()?;
        // SAFETY: as `cuda.h` says.
        let status = unsafe { (context.api.allocate_pinned)(&mut start, CHUNK, 0) };
        context.api.check(status, "pinning 4 MiB of host memory")?;
        self.made.fetch_add(1, Ordering::Relaxed);
        let done = context.new_event(NO_TIMING);
        done.map(|done| Chunk { start: start.expose_provenance(), done }).inspect_err(|_| {
            // SAFETY: just allocated.
            unsafe { (context.api.free_pinned)(start) };
        })
    }

    /// Frees the memory. The context's work must be done.
    pub fn close(&self, context: &Context) {
        let Ok(_entered) = context.enter() else { return };
        for chunk in self.free.lock().drain(..) {
            context.drop_event(chunk.done);
            // SAFETY: from `allocate_pinned`; nothing is queued any more.
            unsafe { (context.api.free_pinned)(ptr::with_exposed_provenance_mut(chunk.start)) };
        }
    }
}
