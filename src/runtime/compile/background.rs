//! Threads beside the launch thread that nobody waits for: each starts with its first task, and does its tasks in order.

use crate::runtime::shared::Shared;
use crate::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

pub struct BackgroundThread<T> {
    name: &'static str,
    /// Number of tasks that may wait.
    room: usize,
    work: fn(&Shared, T),
    running: Option<(SyncSender<Job<T>>, JoinHandle<()>)>,
}

enum Job<T> {
    Task(T),
    /// Reports that all earlier tasks are done.
    Fence(Sender<()>),
}

impl<T: Send + 'static> BackgroundThread<T> {
    pub fn new(name: &'static str, room: usize, work: fn(&Shared, T)) -> BackgroundThread<T> {
        BackgroundThread { name, room, work, running: None }
    }

    /// Queues a task. Returns whether there is room for it, and a thread. A panic of the work ends this task alone.
    pub fn begin(&mut self, shared: &Arc<Shared>, task: T) -> bool {
        if self.running.is_none() {
            let (jobs, queue) = sync_channel(self.room);
            let (shared, work) = (shared.clone(), self.work);
            let thread = thread::start(self.name, move || run(&shared, queue, work));
            self.running = thread.ok().map(|thread| (jobs, thread));
        }
        self.running.as_ref().is_some_and(|(jobs, _)| jobs.try_send(Job::Task(task)).is_ok())
    }

    /// Waits until all queued tasks are done.
    pub fn wait(&self) {
        let (done, is_done) = channel();
        if let Some((jobs, _)) = &self.running
            && jobs.send(Job::Fence(done)).is_ok()
        {
            is_done.recv().ok();
        }
    }
}

impl<T> Drop for BackgroundThread<T> {
    fn drop(&mut self) {
        if let Some((jobs, thread)) = self.running.take() {
            drop(jobs);
            thread.join().ok();
        }
    }
}

fn run<T>(shared: &Shared, queue: Receiver<Job<T>>, work: fn(&Shared, T)) {
    for job in queue {
        match job {
            Job::Task(task) => drop(catch_unwind(AssertUnwindSafe(|| work(shared, task)))),
            Job::Fence(done) => drop(done.send(())),
        }
    }
}
