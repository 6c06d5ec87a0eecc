//! Runs the program's functions that release objects which it lent: never on a thread of the library's, since others wait for
//! these threads and such a function may wait for others. (Nor under a lock: see [`crate::runtime::context::lock`].)

use crate::thread;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Job = Box<dyn FnOnce() + Send>;

/// Work for the releasing thread.
struct Queue {
    jobs: VecDeque<Job>,
    /// The process in which the thread runs; 0 for none. It does not survive a fork.
    process: u32,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), process: 0 });
static MORE: Condvar = Condvar::new();

/// Runs `job` now, or, when called on a thread of the library's, soon, on another one that nobody waits for.
pub fn release(job: impl FnOnce() + Send + 'static) {
    if !thread::is_own() {
        return job();
    }
    let mut queue = QUEUE.lock();
    queue.jobs.push_back(Box::new(job));
    // If the system starts no thread, the next release tries again.
    if queue.process != std::process::id() && thread::start(thread::RELEASING, serve).is_ok() {
        queue.process = std::process::id();
    }
    MORE.notify_one();
}

fn serve() {
    loop {
        let job = {
            let mut queue = QUEUE.lock();
            loop {
                match queue.jobs.pop_front() {
                    Some(job) => break job,
                    None => MORE.wait(&mut queue),
                }
            }
        };
        catch_unwind(AssertUnwindSafe(job)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_job_runs_at_once_but_for_the_threads_of_the_library() {
        let (tell, notified) = channel();
        let note = |tell: &std::sync::mpsc::Sender<_>| {
            let tell = tell.clone();
            move || tell.send(std::thread::current().id()).unwrap()
        };
        release(note(&tell));
        assert_eq!(notified.try_recv(), Ok(std::thread::current().id()));
        let (first, then) = (note(&tell), note(&tell));
        let own = thread::start("test", move || {
            // One that ends badly keeps no other from running.
            release(|| panic!("a job"));
            release(first);
            release(then);
        });
        let own = own.unwrap();
        let id = own.thread().id();
        own.join().unwrap();
        for ran in [notified.recv().unwrap(), notified.recv().unwrap()] {
            assert!(ran != id && ran != std::thread::current().id());
        }
    }

    #[test]
    fn what_cannot_run_yet_runs_when_a_thread_starts() {
        let (tell, notified) = channel();
        let own = thread::start("test", move || {
            QUEUE.lock().process = 0;
            let other = tell.clone();
            thread::refusing(|| release(move || other.send(1).unwrap()));
            release(move || tell.send(2).unwrap());
        });
        own.unwrap().join().unwrap();
        let mut ran = [notified.recv().unwrap(), notified.recv().unwrap()];
        ran.sort_unstable();
        assert_eq!(ran, [1, 2]);
    }
}
