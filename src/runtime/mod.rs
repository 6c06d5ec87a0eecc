//! A context: what it shares, compiles, runs and says of that, in rooms.
//!
//! **Invariant:** the only module that knows all the others (but `capi`). Of these rooms each imports those before it, none that
//! comes after it (`tests/layers.rs`).

/// What is asked for, and what the environment says.
pub mod options;
/// Counters, reasons, failures, reports.
pub mod observe;
/// What became of a trace.
mod program;
/// What the threads of a context have in common.
mod shared;
/// From a closed trace to a program.
pub mod compile;
/// Runs programs.
mod launch;
/// The trace, its lock, and all that is asked of a context.
pub mod context;

pub use context::{Context, Level, Log, Observer, TOKEN_SIZES, is_canonical};
