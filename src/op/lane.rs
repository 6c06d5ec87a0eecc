//! A lane: a thread of its own that performs a communicator's collectives, one after the other, while the program computes.

use crate::error::{Code, Error, Result, panic_text};
use crate::thread;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of waiting jobs that the function of a lane sees at once.
const SEEN: usize = 32;

/// Performs the first of these, and as many of the following as it likes, as one; returns their number and their result.
pub type Perform<W> = fn(&[&W]) -> (usize, Result<()>);

/// The thread starts with the first work, and ends after the last one once the lane is dropped.
pub struct CollectiveLane<W> {
    perform: Perform<W>,
    queue: Mutex<Option<Arc<Queue<W>>>>,
}

struct Queue<W> {
    state: Mutex<Waiting<W>>,
    changed: Condvar,
}

struct Waiting<W> {
    jobs: VecDeque<Arc<Job<W>>>,
    /// The lane was dropped: no more jobs come.
    is_closed: bool,
}

struct Job<W> {
    work: W,
    before: Option<Ticket>,
    ticket: Ticket,
}

/// A job on a lane, which ends in any case.
#[derive(Clone)]
pub struct Ticket(Arc<State>);

#[derive(Default)]
struct State {
    ended: Mutex<Option<Ended>>,
    changed: Condvar,
}

/// The end of a job.
#[derive(Clone, Debug)]
pub struct Ended {
    pub result: Result<()>,
    pub began_at: Instant,
    pub ended_at: Instant,
    /// It was performed as one with the job before it.
    pub was_merged: bool,
    /// It was not performed: the job that it depends on had failed.
    pub was_skipped: bool,
}

impl<W: Send + Sync + 'static> CollectiveLane<W> {
    pub fn new(perform: Perform<W>) -> CollectiveLane<W> {
        CollectiveLane { perform, queue: Mutex::default() }
    }

    /// Performs `work` after everything that was put on the lane before. If `before`, one of these, has failed, it is not
    /// performed, and fails with the same error. Error: `OutOfMemory` when the system starts no thread.
    pub fn put(&self, before: Option<Ticket>, work: W) -> Result<Ticket> {
        let mut queue = self.queue.lock();
        let queue = match &*queue {
            Some(queue) => queue,
            None => {
                let made = Arc::new(Queue::default());
                let (perform, jobs) = (self.perform, made.clone());
                thread::start("lane", move || while jobs.perform_next(perform) {})?;
                queue.insert(made)
            }
        };
        let ticket = Ticket(Arc::default());
        let job = Job { work, before, ticket: ticket.clone() };
        queue.state.lock().jobs.push_back(Arc::new(job));
        queue.changed.notify_all();
        Ok(ticket)
    }
}

impl<W> Drop for CollectiveLane<W> {
    fn drop(&mut self) {
        if let Some(queue) = &*self.queue.lock() {
            queue.state.lock().is_closed = true;
            queue.changed.notify_all();
        }
    }
}

impl<W> Default for Queue<W> {
    fn default() -> Queue<W> {
        let state = Waiting { jobs: VecDeque::new(), is_closed: false };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl<W> Queue<W> {
    /// Waits for work and performs it. `false` if there will be none.
    fn perform_next(&self, perform: Perform<W>) -> bool {
        let mut seen: Vec<Arc<Job<W>>> = {
            let mut state = self.state.lock();
            while state.jobs.is_empty() {
                if state.is_closed {
                    return false;
                }
                self.changed.wait(&mut state);
            }
            state.jobs.iter().take(SEEN).cloned().collect()
        };
        let began_at = Instant::now();
        // The job that the first depends on has ended; those of the others may be among the seen ones.
        let spoiled = seen.iter().position(|job| job.is_spoiled());
        let (count, result) = match spoiled {
            Some(0) => (1, seen[0].before.as_ref().map_or(Ok(()), |before| before.wait().result)),
            _ => {
                seen.truncate(spoiled.unwrap_or(seen.len()));
                let works: Vec<&W> = seen.iter().map(|job| &job.work).collect();
                catch_unwind(AssertUnwindSafe(|| perform(&works)))
                    .unwrap_or_else(|panic| (1, Err(Error::new(Code::Panic, panic_text(&*panic)))))
            }
        };
        let ended_at = Instant::now();
        let count = count.clamp(1, seen.len());
        self.state.lock().jobs.drain(..count);
        for (n, job) in seen.into_iter().take(count).enumerate() {
            let ticket = job.ticket.clone();
            // Its memory is freed before others learn that it has ended.
            drop(job);
            let (was_merged, was_skipped) = (n > 0, spoiled == Some(0));
            let result = result.clone();
            let ended = Ended { result, began_at, ended_at, was_merged, was_skipped };
            *ticket.0.ended.lock() = Some(ended);
            ticket.0.changed.notify_all();
        }
        true
    }
}

impl<W> Job<W> {
    /// Whether the job that it depends on has failed.
    fn is_spoiled(&self) -> bool {
        let before = self.before.as_ref().map(|before| before.0.ended.lock());
        before.is_some_and(|ended| ended.as_ref().is_some_and(|ended| ended.result.is_err()))
    }
}

impl Ticket {
    /// Waits until it has ended.
    pub fn wait(&self) -> Ended {
        let mut ended = self.0.ended.lock();
        loop {
            if let Some(ended) = &*ended {
                return ended.clone();
            }
            self.0.changed.wait(&mut ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internal;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    type Work = Box<dyn Fn() -> Result<()> + Send + Sync>;

    fn lane() -> CollectiveLane<Work> {
        CollectiveLane::new(|works| (1, works[0]()))
    }

    #[test]
    fn work_is_done_in_order_and_what_follows_a_failure_is_not() {
        let (lane, count) = (lane(), Arc::new(AtomicU32::new(0)));
        let counts = |expected| -> Work {
            let count = count.clone();
            Box::new(move || match count.fetch_add(1, SeqCst) {
                found if found == expected => Ok(()),
                found => internal!("{found} jobs were done before"),
            })
        };
        let tickets: Vec<Ticket> = (0..20).map(|n| lane.put(None, counts(n)).unwrap()).collect();
        assert!(tickets.iter().all(|ticket| ticket.wait().result.is_ok()));
        let failed = lane.put(None, Box::new(|| internal!("no"))).unwrap();
        let spoiled = lane.put(Some(failed.clone()), counts(99)).unwrap();
        let panics = lane.put(None, Box::new(|| panic!("oh"))).unwrap();
        let goes_on = lane.put(None, counts(20)).unwrap();
        assert_eq!(spoiled.wait().result, failed.wait().result);
        assert_eq!(panics.wait().result.unwrap_err().code, Code::Panic);
        assert_eq!(goes_on.wait().result, Ok(()));
    }

    #[test]
    fn what_waits_is_done_as_one_and_fails_as_one() {
        // The first waits until all are there; an even number is done alone, an odd one with all odd ones behind it.
        let lane = CollectiveLane::new(|works: &[&(u32, Arc<Mutex<()>>)]| {
            drop(works[0].1.lock());
            let odd = works.iter().take_while(|work| work.0 % 2 == 1).count();
            (odd.max(1), if odd == 3 { internal!("three") } else { Ok(()) })
        });
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock();
        let put = |n, before| lane.put(before, (n, gate.clone())).unwrap();
        let mut tickets: Vec<Ticket> = [0, 1, 3, 2, 5, 7, 9].map(|n| put(n, None)).into();
        tickets.push(put(4, tickets.last().cloned()));
        tickets.push(put(11, None));
        drop(closed);
        let ended: Vec<Ended> = tickets.iter().map(Ticket::wait).collect();
        let merged: Vec<bool> = ended.iter().map(|ended| ended.was_merged).collect();
        assert_eq!(merged, [false, false, true, false, false, true, true, false, false]);
        let failed: Vec<bool> = ended.iter().map(|ended| ended.result.is_err()).collect();
        assert_eq!(failed, [false, false, false, false, true, true, true, true, false]);
        let skipped: Vec<bool> = ended.iter().map(|ended| ended.was_skipped).collect();
        assert_eq!(skipped, [false, false, false, false, false, false, false, true, false]);
    }

    #[test]
    fn without_a_thread_it_is_an_error() {
        let lane = lane();
        let put = thread::refusing(|| lane.put(None, Box::new(|| Ok(()))));
        assert_eq!(put.err().map(|error| error.code), Some(Code::OutOfMemory));
        assert!(lane.put(None, Box::new(|| Ok(()))).unwrap().wait().result.is_ok());
    }
}
