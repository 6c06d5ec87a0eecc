//! Threads of the library's own, which the system may refuse to start.

use crate::error::{Code, Error, Result};
use parking_lot::Mutex;
use std::sync::LazyLock;
use std::thread::{Builder, JoinHandle};

/// Prefix of the names of all of them.
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

static HAS_PROCESSOR: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1));

/// Runs both, in parallel if there is a processor for the second one and the system starts a thread. `None` if the
/// second one panics on that thread.
pub fn join<A, B: Send>(
    first: impl FnOnce() -> A,
    second: impl FnOnce() -> B + Send,
) -> (A, Option<B>) {
    let second = Mutex::new(Some(second));
    let run_second = || second.lock().take().map(|second| second());
    std::thread::scope(|scope| {
        let builder = || Builder::new().name(format!("{PREFIX}join"));
        let start = || builder().spawn_scoped(scope, run_second).ok();
        let beside = if *HAS_PROCESSOR && refused().is_none() { start() } else { None };
        let of_first = first();
        match beside {
            Some(thread) => (of_first, thread.join().ok().flatten()),
            None => (of_first, run_second()),
        }
    })
}

/// The thread that nobody waits for, and that may wait for the user's program.
pub const RELEASING: &str = "release";

/// Whether this is a thread of the library that others may wait for.
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
