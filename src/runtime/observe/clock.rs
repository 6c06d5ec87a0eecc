//! The one place that reads the clock.

use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the clock was first read by this process.
pub fn now() -> u64 {
    START.elapsed().as_nanos() as u64
}

/// The same for a moment that was read from the clock elsewhere.
pub fn since_start(moment: Instant) -> u64 {
    moment.saturating_duration_since(*START).as_nanos() as u64
}
