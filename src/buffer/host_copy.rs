//! Copies to the host that a thread makes in the background, of memory that a later program overwrites: that waits for them
//! where it would, or makes them itself. So it waits for nothing but a copy in progress, whatever that thread is held up by.

use super::{Bytes, internal};
use crate::error::Result;
use parking_lot::Mutex;
use std::mem::replace;
use std::sync::Arc;

/// Where the copied elements are.
pub type Elements = Box<dyn AsMut<[u8]> + Send>;
/// Copies what the memory holds; there is none for zeros.
pub type Read = Box<dyn FnOnce(Option<&dyn Bytes>) -> Result<Elements> + Send>;
/// Memory that stays as it is for as long as it is kept.
pub type Source = Option<Arc<Box<dyn Bytes>>>;

/// A copy that was asked for.
pub struct HostCopy(Mutex<State>);

enum State {
    Asked(Read),
    /// The memory is there, and stays until the copy is made.
    Ready(Read, Source),
    Made(Result<Elements>),
    Delivered,
}

impl HostCopy {
    pub fn new(read: Read) -> HostCopy {
        HostCopy(Mutex::new(State::Asked(read)))
    }

    /// Says what is to be copied, or why it is not there.
    pub fn fulfil(&self, source: Result<Source>) {
        let mut state = self.0.lock();
        *state = match (replace(&mut *state, State::Delivered), source) {
            (State::Asked(read), Ok(source)) => State::Ready(read, source),
            (State::Asked(_), Err(error)) => State::Made(Err(error)),
            (other, _) => other,
        };
    }

    /// Makes it, unless that has been done. Its source is there.
    pub fn make(&self) {
        let mut state = self.0.lock();
        *state = match replace(&mut *state, State::Delivered) {
            // The memory is given up under the lock: who waits for that takes it over.
            State::Ready(read, source) => {
                State::Made(read(source.as_deref().map(|bytes| &**bytes)))
            }
            other => other,
        };
    }

    /// Not to be made any more.
    pub fn give_up(&self) {
        let given_up = replace(&mut *self.0.lock(), State::Delivered);
        drop(given_up);
    }

    /// Whether nothing is read any more.
    pub(super) fn is_made(&self) -> bool {
        self.0.try_lock().is_some_and(|state| matches!(*state, State::Made(_) | State::Delivered))
    }

    /// The elements, for who asked. Its source is there.
    pub fn elements(&self) -> Result<Elements> {
        self.make();
        match replace(&mut *self.0.lock(), State::Delivered) {
            State::Made(made) => made,
            _ => Err(internal("a copy was delivered twice, or had no source")),
        }
    }
}

/// Memory that a program takes over, of which copies may be ahead: nothing is written to it before [`Taken::make_copies`].
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
