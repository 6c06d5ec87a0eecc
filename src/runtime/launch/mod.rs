//! Runs programs: one after the other on the launch thread, or on the thread that waits for a short one.
//!
//! **Invariant:** a storage that was promised is settled, whatever happens, and programs run in the order of their cuts. Takes
//! no lock of a trace, and waits for no recording thread.

mod arena;
mod concatenation;
mod execute;
mod launcher;
mod results_block;
mod speculation;
mod taken_over;

pub use concatenation::{Concatenation, Part};
pub use launcher::{Here, Launcher};
