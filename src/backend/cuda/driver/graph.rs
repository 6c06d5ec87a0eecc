//! What was queued once, kept to be queued again at once: CUDA graphs.
#![expect(unsafe_code, reason = "graphs of the driver's")]

use super::super::device::Replay;
use super::api::{Handle, OF_CAPTURE, OUT_OF_MEMORY};
use super::context::{Context, Turn};
use crate::error::Result;
use std::ffi::c_int;
use std::sync::Arc;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`: this and other threads may call what they like meanwhile, on other streams; on this
/// one it is this thread's turn.
const RELAXED: c_int = 2;

struct Graph {
    context: Arc<Context>,
    executable: Handle,
}

/// See [`super::super::device::Device::capture`].
pub fn capture(
    context: &Arc<Context>,
    work: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<Box<dyn Replay>>> {
    let turn = context.turn()?;
    turn.must_not_capture("capture")?;
    // SAFETY (all calls of this file): as `cuda.h` says.
    let status = unsafe { (context.api.begin_capture)(context.stream, RELAXED) };
    if OF_CAPTURE.contains(&status) {
        return Ok(None);
    }
    context.api.check(status, "beginning to capture")?;
    turn.set_capturing(true);
    let capture = Capture { context, turn: &turn };
    let worked = work();
    let (status, graph) = capture.end();
    // Whatever happened, nothing was run.
    if graph == 0 {
        worked?;
        let of_capture = OF_CAPTURE.contains(&status) || status == 0;
        return if of_capture {
            Ok(None)
        } else {
            context.api.check(status, "capturing").map(|()| None)
        };
    }
    let mut executable = 0;
    let made =
        worked.map(|()| unsafe { (context.api.instantiate_graph)(&mut executable, graph, 0) });
    unsafe { (context.api.destroy_graph)(graph) };
    match made? {
        // The same kernels one by one need less.
        OUT_OF_MEMORY => Ok(None),
        status => {
            context.api.check(status, "making a graph")?;
            Ok(Some(Box::new(Graph { context: context.clone(), executable })))
        }
    }
}

/// A capture under way, which ends even if the work panics.
struct Capture<'a> {
    context: &'a Context,
    turn: &'a Turn<'a>,
}

impl Capture<'_> {
    /// The driver's word, and the graph, 0 if there is none.
    fn end(self) -> (c_int, Handle) {
        let result = self.stop();
        std::mem::forget(self);
        result
    }

    fn stop(&self) -> (c_int, Handle) {
        let mut graph = 0;
        self.turn.set_capturing(false);
        let status = unsafe { (self.context.api.end_capture)(self.context.stream, &mut graph) };
        (status, graph)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        let (_, graph) = self.stop();
        if graph != 0 {
            unsafe { (self.context.api.destroy_graph)(graph) };
        }
    }
}

impl Replay for Graph {
    fn replay(&self) -> Result<()> {
        let turn = self.context.turn()?;
        turn.must_not_capture("replay")?;
        let status =
            unsafe { (self.context.api.launch_graph)(self.executable, self.context.stream) };
        self.context.api.check(status, "launching a graph")
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A graph that still runs goes when it is done.
        if let Ok(_entered) = self.context.enter() {
            unsafe { (self.context.api.destroy_executable)(self.executable) };
        }
    }
}
