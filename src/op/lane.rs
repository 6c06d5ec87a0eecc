//! A communicator's lane: a thread of its own that does its collectives, one after the other, while the program computes.

use crate::error::{Code, Error, Result, panic_text};
use crate::thread;
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

type Job = Box<dyn FnOnce() + Send>;

/// The thread starts with the first job, and ends after the last one once the lane is dropped.
#[derive(Default)]
pub struct CollectiveLane(Mutex<Option<Sender<Job>>>);

/// Something on a lane, which ends in any case.
#[derive(Clone)]
pub struct Ticket(Arc<State>);

#[derive(Default)]
struct State {
    ended: Mutex<Option<Ended>>,
    changed: Condvar,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub result: Result<()>,
    pub began_at: Instant,
    pub ended_at: Instant,
}

impl CollectiveLane {
    /// Does `work` after everything that was put on the lane before. If `before`, one of these, has failed, it is not done,
    /// and fails with the same error. Error: `OutOfMemory` when the system starts no thread.
    pub fn put(
        &self,
        before: Option<Ticket>,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<Ticket> {
        let ticket = Ticket(Arc::default());
        let state = ticket.0.clone();
        let job = move || {
            let began_at = Instant::now();
            let spoiled = before.and_then(|before| before.wait().result.err());
            let result = match spoiled {
                Some(error) => Err(error),
                None => catch_unwind(AssertUnwindSafe(work))
                    .unwrap_or_else(|panic| Err(Error::new(Code::Panic, panic_text(&*panic)))),
            };
            *state.ended.lock() = Some(Ended { result, began_at, ended_at: Instant::now() });
            state.changed.notify_all();
        };
        let mut queue = self.0.lock();
        let sender = match &*queue {
            Some(sender) => sender,
            None => {
                let (sender, jobs) = channel::<Job>();
                thread::start("lane", move || jobs.iter().for_each(|job| job()))?;
                queue.insert(sender)
            }
        };
        sender.send(Box::new(job)).expect("the thread is there for as long as the lane is");
        Ok(ticket)
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

    #[test]
    fn work_is_done_in_order_and_what_follows_a_failure_is_not() {
        let (lane, count) = (CollectiveLane::default(), Arc::new(AtomicU32::new(0)));
        let counts = |expected| {
            let count = count.clone();
            move || match count.fetch_add(1, SeqCst) {
                found if found == expected => Ok(()),
                found => internal!("{found} jobs were done before"),
            }
        };
        let tickets: Vec<Ticket> = (0..20).map(|n| lane.put(None, counts(n)).unwrap()).collect();
        assert!(tickets.iter().all(|ticket| ticket.wait().result.is_ok()));
        let failed = lane.put(None, || internal!("no")).unwrap();
        let spoiled = lane.put(Some(failed.clone()), counts(99)).unwrap();
        let panics = lane.put(None, || panic!("oh")).unwrap();
        let goes_on = lane.put(None, counts(20)).unwrap();
        assert_eq!(spoiled.wait().result, failed.wait().result);
        assert_eq!(panics.wait().result.unwrap_err().code, Code::Panic);
        assert_eq!(goes_on.wait().result, Ok(()));
    }

    #[test]
    fn without_a_thread_it_is_an_error() {
        let lane = CollectiveLane::default();
        let put = thread::refusing(|| lane.put(None, || Ok(())));
        assert_eq!(put.err().map(|error| error.code), Some(Code::OutOfMemory));
        assert!(lane.put(None, || Ok(())).unwrap().wait().result.is_ok());
    }
}
