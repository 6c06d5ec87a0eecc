//! The rest of a program that has handed some results over already. Reading counters waits for its end, so that the counts for a
//! program whose result has been read do not depend on timing.

use parking_lot::{Condvar, Mutex};

/// The rest of the running program, if that has begun; no step of it is the user's own code, which may read counters itself.
#[derive(Default)]
pub struct Tail {
    is_running: Mutex<bool>,
    ended: Condvar,
}

impl Tail {
    pub fn begin(&self) {
        *self.is_running.lock() = true;
    }

    pub fn end(&self) {
        *self.is_running.lock() = false;
        self.ended.notify_all();
    }

    pub fn wait(&self) {
        let mut is_running = self.is_running.lock();
        while *is_running {
            self.ended.wait(&mut is_running);
        }
    }
}
