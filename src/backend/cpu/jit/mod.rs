//! Machine code for loops over vectors of f32: a fused region is computed in one pass, with its values in registers. The
//! code is written in microseconds while a program is compiled, without a compiler: the functions of
//! [`super::vector::math`] are recorded ([`trace`]), and each recorded operation becomes an instruction of AVX-512 or, on
//! processors without it, a few of AVX2 ([`assemble`]).
//!
//! On other processors, and where there is no executable memory, the chains of [`super::tile`] do the same, with the same
//! bits on a processor that has both.

mod assemble;
mod jit_loop;
mod memory;
mod micro_kernel;
mod registers;
pub mod trace;
mod writer;

use super::isa::{self, Isa};
pub use jit_loop::JitLoop;
pub use micro_kernel::MicroKernels;

/// The instruction set of loops; `None`: this processor has neither AVX2 nor AVX-512.
pub fn target() -> Option<Isa> {
    #[cfg(test)]
    if !WANTED.get() {
        return None;
    }
    Some(isa::current()).filter(|&isa| isa >= Isa::Avx2)
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
