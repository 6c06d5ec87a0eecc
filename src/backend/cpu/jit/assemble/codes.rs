//! The table of instructions and the immediate operands that both vector types share.

use super::super::trace::{Binary, Compare};
use iced_x86::Code;

/// Rounding that raises no exception for inexact results.
pub const QUIET: u32 = 8;

/// Instructions that differ between the vector types only by their code.
pub struct Codes {
    /// A vector from memory, to memory, and between registers.
    pub load: Code,
    pub store: Code,
    pub copy: Code,
    /// One number in memory to all lanes.
    pub broadcast: Code,
    /// `c = a b + c`, `a = b a + c` and `a = a b + c`.
    pub mul_add: [Code; 3],
    pub binary: fn(Binary) -> Code,
}

/// The predicate of `vcmpps`, quiet for NaN.
pub fn predicate(op: Compare) -> u32 {
    match op {
        Compare::Eq => 0,
        Compare::Ne => 4,
        Compare::Lt => 17,
        Compare::Le => 18,
        Compare::Gt => 30,
        Compare::Ge => 29,
        Compare::Unordered => 3,
        Compare::NotLess => 21,
        Compare::NotAtLeast => 25,
    }
}
