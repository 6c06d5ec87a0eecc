//! Options of a context, and the backend that follows from them.
//!
//! **Invariant:** the only room that reads the environment, in `config.rs`. Choices left open there are filled in by defaults.

mod bytes;
mod config;
mod patience;

pub use config::{Asked, Options, backend};
pub use patience::Patience;
