//! Values read by a thread of the library's own, which tells the caller when they are there. Started by the first
//! such read.

use super::Context;
use super::elements::read_elements;
use crate::buffer::{Storage, zeros};
use crate::error::Result;
use crate::record::View;
use crate::thread;
use crate::trace::BufferId;
use parking_lot::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Told the elements of a view in row-major order, or why there are none.
pub type Reader = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct Readers(Mutex<Option<Running>>);

struct Running {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
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
    let thread = thread::start("read", move || queue.into_iter().for_each(|job| job()))?;
    Ok(Running { jobs, thread, process: std::process::id() })
}

impl Drop for Readers {
    /// Everything asked for is told. From the reading thread itself (a callback dropped the last handle) there is
    /// nothing to wait for.
    fn drop(&mut self) {
        if let Some(Running { jobs, thread, process }) = self.0.lock().take() {
            drop(jobs);
            let here = std::thread::current().id() == thread.thread().id();
            if !here && process == std::process::id() {
                thread.join().ok();
            }
        }
    }
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
