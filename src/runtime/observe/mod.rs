//! Observation of a context's work: counters, times, reasons, failures, reports.
//!
//! **Invariant:** records and reports: plans and operators come as data, and nothing here compiles or runs them. The user's
//! program is called by the listener of the watchdog alone, and the clock is read in [`clock`] alone.

pub mod breakdown;
pub mod clock;
pub mod devices;
mod dump;
pub mod explain;
pub mod failures;
pub mod histogram;
pub mod json;
pub mod limits;
mod live_ranges;
pub mod memory_report;
mod observed;
pub mod oom_report;
pub mod profile;
pub mod progress;
pub mod recomputed;
pub mod stats;
pub mod tail;
pub mod watch;
pub mod watchdog;

pub use observed::{Observed, Stay};
