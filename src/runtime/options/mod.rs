//! What a context is asked to be, and the backend that follows from it.
//!
//! **Invariant:** the only room that reads the environment, in `config.rs`. What is left open there is filled in by defaults.

mod bytes;
mod config;
mod patience;

pub use config::{Asked, Options, backend};
pub use patience::Patience;
