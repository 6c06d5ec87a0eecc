//! A compiled trace: a plan that can be run, perhaps a better one, and how the trace uses it.
//!
//! **Invariant:** programs as they are kept and run, and their remaining work; nothing here looks for one or makes one from a
//! trace, or knows a context's shared state.

mod background_work;
mod code;
mod compiled;
mod compiled_trace;
mod engine_choice;
mod interface;
mod padded_binding;

pub use background_work::{BackgroundWork, Unlearned};
pub use code::Code;
pub use compiled::Compiled;
pub use compiled_trace::{CompiledTrace, Prefetched};
pub use engine_choice::{EngineChoice, Trial, What};
pub use interface::Interface;
pub use padded_binding::PaddedBinding;
