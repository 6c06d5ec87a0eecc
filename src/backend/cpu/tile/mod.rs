//! Loop bodies, fused pointwise regions, as vector operations over tiles that stay in the first-level cache.
//!
//! **Invariant:** a tile's results depend on its position only; tiles of one run may be computed in any order
//! and on any thread.

pub mod chain;
pub mod code;
pub mod compile;
pub mod compute;
mod divide;
pub mod link;
pub mod load;
pub mod run;
pub mod space;
pub mod one_hot;
