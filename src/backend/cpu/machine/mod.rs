//! Machine code for loops over vectors of f32: what a fused region computes in one pass, its values in registers. It is
//! written in microseconds while a program is compiled, without a compiler: the functions of [`super::math`] are
//! recorded ([`trace`]) and each recorded operation is an instruction of AVX-512 ([`assemble`]).
//!
//! Where there is no AVX-512, or no memory that can be run, the chains of [`super::tile`] do the same, bit for bit on a
//! processor that has it.

mod assemble;
mod memory;
mod registers;
pub mod trace;

use super::isa::{Isa, chosen};
use crate::error::Result;
use crate::internal;
pub use memory::Executable;
use trace::Node;

/// A loop over streams of elements.
pub struct Routine {
    pub code: Executable,
    /// Operations on a vector, to judge by how long it takes.
    pub operations: usize,
}

/// Whether loops can be written for this processor.
pub fn available() -> bool {
    #[cfg(test)]
    if !WANTED.get() {
        return false;
    }
    cfg!(target_arch = "x86_64") && chosen() == Isa::Avx512
}

#[cfg(test)]
thread_local! {
    static WANTED: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

/// Calls `body`; programs that this thread compiles meanwhile have no machine code.
#[cfg(test)]
pub fn without<R>(body: impl FnOnce() -> R) -> R {
    WANTED.set(false);
    let result = body();
    WANTED.set(true);
    result
}

impl Routine {
    /// The loop that does what was recorded; `None` when it cannot be written.
    pub fn of(nodes: &[Node]) -> Result<Option<Routine>> {
        let (bytes, start) = match assemble::assemble(nodes) {
            Ok(Some(assembled)) => assembled,
            Ok(None) => return Ok(None),
            Err(error) => return internal!("machine code of {nodes:?}: {error}"),
        };
        let is_operation = |n: &&Node| !matches!(n, Node::Constant(_) | Node::Number(_));
        let operations = nodes.iter().filter(is_operation).count();
        Ok(Executable::new(&bytes, start).map(|code| Routine { code, operations }))
    }
}
