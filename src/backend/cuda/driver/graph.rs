//! CUDA graphs: work that was captured once, to be queued again in one call.
#![expect(unsafe_code, reason = "graphs of the driver's")]

use super::super::device::Replay;
use super::api::{Handle, OF_CAPTURE};
use super::context::{Context, RELAXED, StreamLock};
use crate::error::Result;
use std::sync::Arc;

struct Graph {
    context: Arc<Context>,
    executable: Handle,
}

/// See [`super::super::device::Device::capture`].
pub fn capture(
    context: &Arc<Context>,
    work: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<Box<dyn Replay>>> {
    let stream_lock = context.lock_stream()?;
    stream_lock.must_not_capture("capture")?;
    // Other threads may use other streams meanwhile; this thread holds the lock of the captured one.
    // SAFETY (all calls of this file): as `cuda.h` says.
    let status = unsafe { (context.api.begin_capture)(context.stream, RELAXED) };
    if OF_CAPTURE.contains(&status) {
        return Ok(None);
    }
    context.api.check(status, "beginning to capture")?;
    stream_lock.set_capturing(true);
    let capture = Capture { context, stream_lock: &stream_lock };
    let worked = work();
    let graph = capture.end();
    // Nothing was run. Others in the process may have ended the capture, by waiting for the GPU or for this stream: then the
    // work can still be queued. Work that fails by itself fails again then.
    if graph == 0 {
        return Ok(None);
    }
    let mut executable = 0;
    let made = worked.is_ok()
        && unsafe { (context.api.instantiate_graph)(&mut executable, graph, 0) } == 0;
    unsafe { (context.api.destroy_graph)(graph) };
    Ok(match made {
        true => Some(Box::new(Graph { context: context.clone(), executable })),
        false => None,
    })
}

/// A capture in progress, which ends even if the work panics.
struct Capture<'a> {
    context: &'a Context,
    stream_lock: &'a StreamLock<'a>,
}

impl Capture<'_> {
    /// Ends the capture. Returns the graph, 0 if there is none.
    fn end(self) -> Handle {
        let graph = self.stop();
        std::mem::forget(self);
        graph
    }

    fn stop(&self) -> Handle {
        let mut graph = 0;
        self.stream_lock.set_capturing(false);
        match unsafe { (self.context.api.end_capture)(self.context.stream, &mut graph) } {
            0 => graph,
            _ => 0,
        }
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        let graph = self.stop();
        if graph != 0 {
            unsafe { (self.context.api.destroy_graph)(graph) };
        }
    }
}

impl Replay for Graph {
    fn replay(&self) -> Result<()> {
        let stream_lock = self.context.lock_stream()?;
        stream_lock.must_not_capture("replay")?;
        let status =
            unsafe { (self.context.api.launch_graph)(self.executable, self.context.stream) };
        self.context.api.check(status, "launching a graph")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A graph that is still running is destroyed when it is done.
        if let Ok(_entered) = self.context.enter() {
            unsafe { (self.context.api.destroy_executable)(self.executable) };
        }
    }
}
