//! The lock of a context's trace.
//!
//! **Invariant:** memory that the trace gives up is dropped without the lock, because that may call the program. A trace that
//! a panic left half changed is not used any more.

use crate::error::{Code, Error, Result};
use crate::trace::Trace;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread::panicking;

#[derive(Default)]
pub struct TraceLock {
    trace: Mutex<Trace>,
    /// Notified of every cut.
    pub was_cut: Condvar,
    poison: Arc<Poison>,
}

/// Whether a panic left the trace half changed, and the panic's message.
#[derive(Default)]
struct Poison {
    is_set: AtomicBool,
    cause: OnceLock<String>,
}

thread_local! {
    /// Of the traces that the panic unwinding this thread has left half changed.
    static POISONED: RefCell<Vec<Arc<Poison>>> = const { RefCell::new(Vec::new()) };
}

/// Records the message of the panic that this thread has caught.
pub fn panicked(cause: &str) {
    for poison in POISONED.take() {
        poison.cause.get_or_init(|| cause.to_string());
    }
}

impl TraceLock {
    /// Error: a panic left the trace half changed.
    pub fn lock(&self) -> Result<TraceGuard<'_>> {
        let held = self.lock_to_release();
        self.check().map(|()| held)
    }

    /// The error of [`TraceLock::lock`], without taking the lock.
    pub fn check(&self) -> Result<()> {
        if !self.poison.is_set.load(Relaxed) {
            return Ok(());
        }
        let cause = self.poison.cause.get().map_or("unknown", |cause| cause);
        let text = format!(
            "an internal error left the context half changed, so that it cannot be used any more: {cause}; report it, and go on \
             with a new context, or in a new process"
        );
        Err(Error::new(Code::Panic, text))
    }

    /// For actions that are valid in any state: giving buffers back, and counting.
    pub fn lock_to_release(&self) -> TraceGuard<'_> {
        TraceGuard {
            trace: Some(self.trace.lock()),
            poison: &self.poison,
            was_panicking: panicking(),
        }
    }
}

/// Exclusive access to the trace.
pub struct TraceGuard<'a> {
    /// `Some` until the guard is dropped.
    trace: Option<MutexGuard<'a, Trace>>,
    poison: &'a Arc<Poison>,
    was_panicking: bool,
}

impl TraceGuard<'_> {
    /// Releases the trace until another thread has cut it.
    pub fn wait_for_cut(&mut self, lock: &TraceLock) {
        if let Some(trace) = &mut self.trace {
            lock.was_cut.wait(trace);
        }
    }
}

impl Deref for TraceGuard<'_> {
    type Target = Trace;

    fn deref(&self) -> &Trace {
        self.trace.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for TraceGuard<'_> {
    fn deref_mut(&mut self) -> &mut Trace {
        self.trace.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for TraceGuard<'_> {
    fn drop(&mut self) {
        if panicking() && !self.was_panicking {
            self.poison.is_set.store(true, Relaxed);
            POISONED.with_borrow_mut(|list| list.push(self.poison.clone()));
        }
        let retired = self.retired();
        self.trace = None;
        drop(retired);
    }
}
