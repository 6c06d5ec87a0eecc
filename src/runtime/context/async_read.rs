//! Reads on a thread of the library's own, which passes each value to a callback. The first such read starts it; it ends by
//! itself when no more can come. Nobody waits for it: a thread that did so while it held a lock that a callback wants (an
//! interpreter's) would wait for ever.

use super::Context;
use super::elements::read_elements;
use crate::buffer::{Elements, HostCopy};
use crate::error::Result;
use crate::record::View;
use crate::thread;
use crate::trace::BufferId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// Receives the elements of a view in row-major order, or the error that prevented it.
pub type Reader = Box<dyn FnOnce(Result<Elements>) + Send>;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct Readers(Mutex<Option<Running>>);

struct Running {
    /// Keeps the thread running: once this is dropped, it finishes the reads that were asked for.
    jobs: Sender<Job>,
    /// As for the launch thread: it does not exist in a forked process.
    process: u32,
}

impl Readers {
    fn send(&self, job: Job) -> Result<()> {
        let mut running = self.0.lock();
        if running.as_ref().is_none_or(|running| running.process != std::process::id()) {
            *running = Some(start()?);
        }
        let sent = running.as_ref().is_some_and(|running| running.jobs.send(job).is_ok());
        if sent { Ok(()) } else { crate::internal!("the reading thread has ended") }
    }
}

fn start() -> Result<Running> {
    let (jobs, queue) = channel::<Job>();
    thread::start("read", move || queue.into_iter().for_each(|job| job()))?;
    Ok(Running { jobs, process: std::process::id() })
}

impl Context {
    /// Copies the present value of a buffer to `elements`, of the view's length, on another thread, which then calls `done`; in
    /// the order of the calls. Cuts the trace if it still computes the value. A program that overwrites the value waits for the
    /// copy before it does so, or makes it. Failures of the value's own operations go to `done`, and to the next sync as well.
    pub fn read_later(
        &self,
        id: BufferId,
        view: View,
        mut elements: Elements,
        done: Reader,
    ) -> Result<()> {
        let nbytes = view.layout.numel() as usize * view.dtype.size();
        if (*elements).as_mut().len() != nbytes {
            return crate::invalid!(
                "{} bytes to copy to, {nbytes} needed",
                (*elements).as_mut().len()
            );
        }
        let copy = Arc::new(HostCopy::new(Box::new(move |bytes| {
            match bytes {
                Some(bytes) => read_elements(bytes, &view, (*elements).as_mut())?,
                None => (*elements).as_mut().fill(0),
            }
            Ok(elements)
        })));
        let storage = self.stored(id, |storage| storage.copy_later(copy.clone()))?;
        let asked = copy.clone();
        let make = move || {
            match &storage {
                Some(storage) => storage.settle(),
                None => copy.fulfil(Ok(None)),
            }
            done(copy.elements());
        };
        let sent = self.launcher.wait_for_room().and_then(|()| self.readers.send(Box::new(make)));
        // The memory is the caller's again.
        sent.inspect_err(|_| asked.give_up())
    }
}
