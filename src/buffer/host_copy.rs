//! Copies to the host, made by a background thread, of memory that a later program overwrites. Before it does, that program
//! waits for a copy in progress or makes the copy itself, so nothing else that delays the thread delays the program.

use super::{Bytes, internal};
use crate::error::Result;
use parking_lot::Mutex;
use std::mem::replace;
use std::sync::Arc;

/// The copied elements.
pub type Elements = Box<dyn AsMut<[u8]> + Send>;
/// Copies the elements of the memory; `None` stands for zeros.
pub type Read = Box<dyn FnOnce(Option<&dyn Bytes>) -> Result<Elements> + Send>;
/// Memory that stays unchanged for as long as this is held.
pub type Source = Option<Arc<Box<dyn Bytes>>>;

/// A requested copy.
pub struct HostCopy(Mutex<State>);

enum State {
    Asked(Read),
    /// The memory is ready, and kept until the copy is made.
    Ready(Read, Source),
    Made(Result<Elements>),
    Delivered,
}

impl HostCopy {
    pub fn new(read: Read) -> HostCopy {
        HostCopy(Mutex::new(State::Asked(read)))
    }

    /// Provides the memory to copy, or the error because of which there is none.
    pub fn fulfil(&self, source: Result<Source>) {
        let mut state = self.0.lock();
        *state = match (replace(&mut *state, State::Delivered), source) {
            (State::Asked(read), Ok(source)) => State::Ready(read, source),
            (State::Asked(_), Err(error)) => State::Made(Err(error)),
            (other, _) => other,
        };
    }

    /// Makes the copy, unless that has been done. Its source is ready.
    pub fn make(&self) {
        let mut state = self.0.lock();
        *state = match replace(&mut *state, State::Delivered) {
            // The memory is released under the lock: a program that waits for the lock takes it over.
            State::Ready(read, source) => {
                State::Made(read(source.as_deref().map(|bytes| &**bytes)))
            }
            other => other,
        };
    }

    /// Cancels the copy.
    pub fn give_up(&self) {
        let given_up = replace(&mut *self.0.lock(), State::Delivered);
        drop(given_up);
    }

    /// Whether the memory will not be read any more.
    pub(super) fn is_made(&self) -> bool {
        self.0.try_lock().is_some_and(|state| matches!(*state, State::Made(_) | State::Delivered))
    }

    /// Delivers the elements, making the copy if necessary. Its source is ready.
    pub fn elements(&self) -> Result<Elements> {
        self.make();
        match replace(&mut *self.0.lock(), State::Delivered) {
            State::Made(made) => made,
            _ => Err(internal("a copy was delivered twice, or had no source")),
        }
    }
}

/// Memory that a program takes over, possibly with pending copies: nothing is written to it before [`Taken::make_copies`].
pub struct Taken {
    pub(super) bytes: Arc<Box<dyn Bytes>>,
    pub(super) copies: Vec<Arc<HostCopy>>,
}

impl Taken {
    pub fn address(&self) -> usize {
        self.bytes.address()
    }

    pub fn has_copies_ahead(&self) -> bool {
        self.copies.iter().any(|copy| !copy.is_made())
    }

    pub fn make_copies(&self) {
        self.copies.iter().for_each(|copy| copy.make());
    }

    /// The memory, once the copies are made.
    pub fn into_bytes(self) -> Result<Box<dyn Bytes>> {
        self.make_copies();
        Arc::into_inner(self.bytes)
            .ok_or_else(|| internal("memory that was taken over is still being read"))
    }
}
