//! What is left of a program that has handed some results over already. Whoever reads counters waits for its end: what they say of a
//! program whose result somebody has does not depend on who was faster.

use parking_lot::{Condvar, Mutex};

/// Of the program that runs, if that has begun; no step of it is the program's own code, which may read counters itself.
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
