//! The generator of a context: a seed, and how far it has been drawn from.

use super::Context;

/// Counters that one operation may use up: each stands for four numbers.
const STRIDE: u64 = 1 << 32;

#[derive(Default)]
pub struct Generator {
    seed: u64,
    offset: u64,
}

impl Context {
    /// Restarts the generator with `seed`.
    pub fn seed(&self, seed: u64) {
        *self.generator.lock() = Generator { seed, offset: 0 };
    }

    /// Seed and offset for one operation, whose numbers no other operation gets.
    pub fn draw(&self) -> [u64; 2] {
        let mut generator = self.generator.lock();
        let drawn = [generator.seed, generator.offset];
        generator.offset = generator.offset.wrapping_add(STRIDE);
        drawn
    }
}
