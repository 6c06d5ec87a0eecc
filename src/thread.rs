//! Threads of the library's own, which the system may refuse to start.

use crate::error::{Code, Error, Result};
use std::thread::{Builder, JoinHandle};

/// What the names of all of them begin with.
const PREFIX: &str = "torchacc-";

/// Starts the thread `torchacc-{name}`. Error: `OutOfMemory` when the system starts no more.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let name = format!("{PREFIX}{name}");
    let started = match refused() {
        Some(error) => Err(error),
        None => Builder::new().name(name.clone()).spawn(work),
    };
    started.map_err(|error| {
        let text = format!(
            "the system does not start the thread {name}: {error}; end other processes, or raise the limit on them (ulimit -u)"
        );
        Error::new(Code::OutOfMemory, text)
    })
}

/// The thread that nobody waits for, and that may wait for the program.
pub const RELEASING: &str = "release";

/// Whether this thread is one of them that others may wait for.
pub fn is_own() -> bool {
    let current = std::thread::current();
    let name = current.name().and_then(|name| name.strip_prefix(PREFIX));
    name.is_some_and(|name| name != RELEASING)
}

#[cfg(not(test))]
fn refused() -> Option<std::io::Error> {
    None
}

#[cfg(test)]
use refusal::refused;
#[cfg(test)]
pub use refusal::refusing;

#[cfg(test)]
mod refusal {
    use std::cell::Cell;

    thread_local! {
        static REFUSES: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs `body` while the system starts no thread that this one asks for.
    pub fn refusing<R>(body: impl FnOnce() -> R) -> R {
        REFUSES.set(true);
        let result = body();
        REFUSES.set(false);
        result
    }

    pub fn refused() -> Option<std::io::Error> {
        REFUSES.get().then(|| std::io::Error::from_raw_os_error(libc::EAGAIN))
    }
}
