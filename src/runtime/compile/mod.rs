//! From a closed trace to a program: found for other sizes or on disk, or compiled; for this trace, for a later one, or for
//! another engine.
//!
//! **Invariant:** runs no program and touches no memory of tensors. Work beside a run is for later runs: an error or a panic
//! there leaves the program as it is.

mod background;
mod chooser;
mod learner;
mod on_disk;
pub mod padding;
pub mod pipeline;
mod prefetch;
pub mod program_store;

pub use background::BackgroundThread;
pub use chooser::{Task, chooser};
pub use learner::learner;
pub use prefetch::{Ran, prefetcher};
