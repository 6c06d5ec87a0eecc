//! The launch thread: takes closed traces in order, finds or makes their programs, runs them. Started by the first cut, so that
//! importing the library starts nothing. While it is idle, a thread that waits for a short program runs that itself.

use super::arena::Arena;
use super::concatenation::Concatenation;
use super::execute;
use super::speculation::Speculation;
use crate::error::{Code, Error, Result};
use crate::runtime::compile::{BackgroundThread, Ran, Task, chooser, learner, prefetcher};
use crate::runtime::observe::failures::{Concerns, panicked};
use crate::runtime::program::Unlearned;
use crate::runtime::shared::Shared;
use crate::thread;
use crate::trace::{Closed, Progress};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, available_parallelism};

/// Number of queued programs above which threads that cut wait.
const QUEUED: usize = 8;

enum Job {
    Run(Box<Closed>),
    /// Counts as a program, since later ones read its result.
    Concatenate(Concatenation),
    /// Begins with the trace in [`Queue::progress`].
    Speculate,
    /// Opens when everything queued before it has run.
    Fence(Arc<Fence>),
    /// Gives back the memory for intermediates.
    Trim,
    /// Sets the memory limit of programs.
    Limit(u64),
}

#[derive(Default)]
pub struct Fence {
    open: Mutex<bool>,
    opened: Condvar,
}

/// Programs that were handed over and have not run yet.
#[derive(Default)]
struct Queue {
    length: Mutex<usize>,
    /// Programs handed over since the beginning; counted after `length`.
    sent: AtomicU64,
    shorter: Condvar,
    /// Of the trace that is being recorded, until the launch thread takes it.
    progress: Mutex<Option<Progress>>,
}

impl Queue {
    fn take_one(&self) {
        *self.length.lock() -= 1;
        self.shorter.notify_all();
    }
}

pub struct Launcher {
    shared: Arc<Shared>,
    /// Whether there is a processor for this thread while another one records.
    has_processor: bool,
    running: Mutex<Option<Running>>,
    queue: Arc<Queue>,
    engine: Arc<Mutex<Engine>>,
}

/// Runs programs, one at a time.
struct Engine {
    arena: Arena,
    begun: Option<Speculation>,
    prefetcher: BackgroundThread<Ran>,
    chooser: BackgroundThread<Task>,
    learner: BackgroundThread<Unlearned>,
}

impl Default for Engine {
    fn default() -> Engine {
        let arena = Arena::default();
        let (prefetcher, chooser, learner) = (prefetcher(), chooser(), learner());
        Engine { arena, begun: None, prefetcher, chooser, learner }
    }
}

impl Engine {
    fn run(&mut self, shared: &Arc<Shared>, queue: &Queue, closed: Closed) {
        let Engine { arena, begun, prefetcher, chooser, learner } = self;
        let run = || execute::run(shared, closed, arena, begun.take());
        let next = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            shared.observed.fail(&panicked(&*panic), Concerns::Everybody);
            Default::default()
        });
        queue.take_one();
        if let Some(ran) = next.ran {
            prefetcher.begin(shared, ran);
        }
        if let Some(task) = next.task {
            let program = task.program.clone();
            if !chooser.begin(shared, task) {
                program.code.choice.give_up();
            }
        }
        let unlearned = std::mem::take(&mut *shared.unlearned.lock());
        for program in unlearned {
            let number = program.ticket.number;
            if !learner.begin(shared, program) {
                shared.families.give_up(number);
            }
        }
    }
}

/// Exclusive use of the engine, for a program that its caller runs.
pub struct Here<'a> {
    launcher: &'a Launcher,
    engine: MutexGuard<'a, Engine>,
}

impl Here<'_> {
    pub fn run(mut self, closed: Closed) {
        // The progress is that of this trace.
        self.launcher.queue.progress.lock().take();
        self.engine.run(&self.launcher.shared, &self.launcher.queue, closed);
    }
}

struct Running {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
    /// Threads do not survive a fork: in a child process this one is not there.
    process: u32,
}

impl Launcher {
    pub fn new(shared: Arc<Shared>) -> Launcher {
        let (queue, engine) = Default::default();
        let has_processor = available_parallelism().is_ok_and(|n| n.get() > 1);
        Launcher { shared, has_processor, running: Mutex::new(None), queue, engine }
    }

    /// Error in a process forked after the device was used, which has no launch thread.
    pub fn check_process(&self) -> Result<()> {
        match &*self.running.lock() {
            Some(running) if running.process != std::process::id() => {
                let message = "the device was used before this process was forked and cannot be used here; \
                               start worker processes with the spawn method, or before using the device";
                Err(Error::new(Code::Unsupported, message))
            }
            _ => Ok(()),
        }
    }

    /// Ensures that there is a thread to run the program that is about to be promised. Errors: as [`Launcher::check_process`];
    /// `OutOfMemory` when the system starts none: the next call tries again.
    pub fn be_ready(&self) -> Result<()> {
        self.check_process()?;
        let mut running = self.running.lock();
        if running.is_none() {
            *running = Some(self.start()?);
        }
        Ok(())
    }

    /// Takes the engine for the next program, if nothing is queued, running or begun: to be called under the lock of the trace,
    /// and used without it.
    pub fn here(&self) -> Option<Here<'_>> {
        let engine = self.engine.try_lock()?;
        let mut length = self.queue.length.lock();
        if *length > 0 || engine.begun.is_some() {
            return None;
        }
        *length = 1;
        self.queue.sent.fetch_add(1, Relaxed);
        drop(length);
        Some(Here { launcher: self, engine })
    }

    /// Queues a program. Gives it back if there is nobody to run it.
    pub fn run(&self, closed: Box<Closed>) -> std::result::Result<(), Box<Closed>> {
        *self.queue.length.lock() += 1;
        self.queue.sent.fetch_add(1, Relaxed);
        self.send(Job::Run(closed)).map_err(|job| {
            self.queue.take_one();
            match job {
                Job::Run(closed) => closed,
                _ => unreachable!("the job that was sent comes back"),
            }
        })
    }

    /// Queues a concatenation. Error: there is no thread to do it.
    pub fn concatenate(&self, list: Concatenation) -> Result<()> {
        *self.queue.length.lock() += 1;
        self.queue.sent.fetch_add(1, Relaxed);
        self.send(Job::Concatenate(list)).or_else(|_| {
            self.queue.take_one();
            crate::internal!("the launch thread has ended")
        })
    }

    /// Lets the launch thread begin with a trace that is being recorded, if it has nothing else to do. To be called without
    /// locks.
    pub fn speculate(&self, progress: Progress) {
        // In a forked process, which may record, a lock may stay taken for ever.
        let length = self.queue.length.try_lock().map(|length| *length);
        if length != Some(0) || !self.has_processor {
            return;
        }
        let before = self.queue.progress.try_lock().map(|mut latest| latest.replace(progress));
        if let Some(None) = before {
            self.send(Job::Speculate).ok();
        }
    }

    fn send(&self, job: Job) -> std::result::Result<(), Job> {
        match &*self.running.lock() {
            Some(running) => running.jobs.send(job).map_err(|unsent| unsent.0),
            None => Err(job),
        }
    }

    /// Programs handed over since the beginning.
    pub fn sent(&self) -> u64 {
        self.queue.sent.load(Relaxed)
    }

    /// Number of these that have run; perhaps too low.
    pub fn done(&self) -> u64 {
        let sent = self.sent();
        sent - (*self.queue.length.lock() as u64).min(sent)
    }

    /// Waits while many programs are queued: a program that records faster than its operations run must not fill the memory with
    /// their inputs. To be called without locks. Error: as [`Launcher::check_process`], where it would wait.
    pub fn wait_for_room(&self) -> Result<()> {
        let is_full = *self.queue.length.lock() > QUEUED;
        if is_full {
            // Before the queue's lock is taken, since this takes another one.
            self.check_process()?;
        }
        let mut length = self.queue.length.lock();
        while *length > QUEUED {
            self.queue.shorter.wait(&mut length);
        }
        Ok(())
    }

    /// Waits until everything queued so far has run.
    pub fn wait(&self) -> Result<()> {
        self.check_process()?;
        if self.running.lock().is_none() {
            return Ok(());
        }
        let fence = Arc::new(Fence::default());
        if self.send(Job::Fence(fence.clone())).is_err() {
            return crate::internal!("the launch thread has ended");
        }
        let mut open = fence.open.lock();
        while !*open {
            fence.opened.wait(&mut open);
        }
        Ok(())
    }

    /// Gives the memory for intermediates back to the pool, after everything queued so far has run.
    pub fn trim(&self) -> Result<()> {
        self.check_process()?;
        self.send(Job::Trim).ok();
        self.wait()
    }

    /// Sets the memory limit of programs, after everything queued so far has run.
    pub fn limit_memory(&self, limit: u64) -> Result<()> {
        self.check_process()?;
        match self.send(Job::Limit(limit)) {
            Ok(()) => self.wait(),
            Err(_) => {
                self.shared.limit_memory(limit);
                Ok(())
            }
        }
    }

    fn start(&self) -> Result<Running> {
        let (jobs, queue) = channel();
        let (shared, waiting) = (self.shared.clone(), self.queue.clone());
        let engine = self.engine.clone();
        let work = move || {
            for job in queue {
                let engine = &mut *engine.lock();
                match job {
                    Job::Run(closed) => engine.run(&shared, &waiting, *closed),
                    Job::Concatenate(list) => {
                        list.run(&shared);
                        waiting.take_one();
                    }
                    Job::Speculate => {
                        let Some(progress) = waiting.progress.lock().take() else { continue };
                        let Engine { arena, begun, .. } = engine;
                        let before = begun.take();
                        let advance = || Speculation::advance(&shared, before, progress, arena);
                        // The trace itself will fail, if it comes.
                        *begun = catch_unwind(AssertUnwindSafe(advance)).ok().flatten();
                    }
                    Job::Trim => {
                        engine.begun = None;
                        engine.arena = Arena::default();
                    }
                    Job::Limit(limit) => {
                        engine.begun = None;
                        engine.arena = Arena::default();
                        engine.prefetcher.wait();
                        shared.limit_memory(limit);
                    }
                    Job::Fence(fence) => {
                        engine.begun = None;
                        engine.prefetcher.wait();
                        *fence.open.lock() = true;
                        fence.opened.notify_all();
                    }
                }
            }
            // Memory is freed by this thread, not by the one that drops the launcher.
            *engine.lock() = Engine::default();
        };
        let thread = thread::start("launch", work)?;
        Ok(Running { jobs, thread, process: std::process::id() })
    }
}

impl Drop for Launcher {
    /// Lets queued programs finish. From the launch thread itself (a host operator dropped the last handle) there is
    /// nothing to wait for; in a forked child there is no thread, and the memory is the parent's.
    fn drop(&mut self) {
        if let Some(Running { jobs, thread, process }) = self.running.lock().take() {
            drop(jobs);
            // Queued programs no longer need plans for other sizes.
            self.shared.is_ending.store(true, Relaxed);
            let here = std::thread::current().id() == thread.thread().id();
            if process != std::process::id() {
                std::mem::forget(self.engine.clone());
            } else if !here {
                // A panic of the thread was turned into failed storages already.
                thread.join().ok();
            }
        }
    }
}
