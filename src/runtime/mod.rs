//! A context, in rooms: its options, reports, programs, compiler and launch thread.
//!
//! **Invariant:** the only module that knows all the others (except for `capi`). Each of these rooms imports only rooms before
//! it (`tests/layers.rs`).

/// Options of the caller and of the environment.
pub mod options;
/// Counters, reasons, failures, reports.
pub mod observe;
/// Compiled traces.
mod program;
/// State that the threads of a context share.
mod shared;
/// From a closed trace to a program.
pub mod compile;
/// Runs programs.
mod launch;
/// The trace, its lock, and the operations of a context.
pub mod context;

pub use context::{Context, Level, Log, Observer, TOKEN_SIZES, is_canonical};
