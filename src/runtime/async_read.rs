//! Values read by a thread of the library's own, which tells the caller when they are there. Started by the first
//! such read; ends by itself when there are no more to come. Nobody waits for it: whoever did, while it holds what a callback
//! wants (an interpreter's lock), would wait for ever.

use super::Context;
use super::elements::read_elements;
use crate::buffer::{Storage, zeros};
use crate::error::Result;
use crate::record::View;
use crate::thread;
use crate::trace::BufferId;
use parking_lot::Mutex;
use std::sync::mpsc::{Sender, channel};

/// Receives the elements of a view in row-major order, or why there are none.
pub type Reader = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct Readers(Mutex<Option<Running>>);

struct Running {
    /// All that keeps the thread: it goes on with what was asked for when this is gone.
    jobs: Sender<Job>,
    /// As of the launch thread: in a forked process it is not there.
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
    /// Reads what a buffer holds now, on another thread, which then calls `done`; in the order of the calls. Cuts the
    /// trace if it still computes the value. Failures of the value's own operations go to `done`, and to the next
    /// sync as well.
    pub fn read_later(&self, id: BufferId, view: View, done: Reader) -> Result<()> {
        let storage = self.share(id)?;
        self.launcher.wait_for_room()?;
        self.readers.send(Box::new(move || done(elements(storage.as_deref(), &view))))
    }
}

fn elements(storage: Option<&Storage>, view: &View) -> Result<Vec<u8>> {
    let mut elements = zeros(view.layout.numel() as usize * view.dtype.size())?;
    if let Some(storage) = storage
        && !storage.visit(|bytes| read_elements(bytes, view, &mut elements))?
    {
        return Err(crate::trace::lost());
    }
    Ok(elements)
}
