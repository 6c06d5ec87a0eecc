//! Writes instructions in sequence, and jumps to places that are not written yet.

use iced_x86::{Code, Encoder, IcedError, Instruction};

/// Errors are instructions that do not exist.
pub type Made<T> = std::result::Result<T, IcedError>;

pub struct Writer {
    encoder: Encoder,
    /// Addresses of the first instruction and of the next one.
    start: u64,
    pub at: u64,
}

impl Writer {
    pub fn new(start: u64) -> Writer {
        Writer { encoder: Encoder::new(64), start, at: start }
    }

    pub fn put(&mut self, instruction: Instruction) -> Made<()> {
        self.at += self.encoder.encode(&instruction, self.at)? as u64;
        Ok(())
    }

    /// A jump whose target [`Writer::aim`] sets.
    pub fn jump(&mut self, code: Code) -> Made<u64> {
        self.put(Instruction::with_branch(code, self.at)?)?;
        Ok(self.at)
    }

    /// Makes the jump that ends at `jump` go to the instruction that is written next.
    pub fn aim(&mut self, jump: u64) {
        let distance = ((self.at - jump) as u32).to_le_bytes();
        let mut bytes = self.encoder.take_buffer();
        let end = (jump - self.start) as usize;
        bytes[end - 4..end].copy_from_slice(&distance);
        self.encoder.set_buffer(bytes);
    }

    pub fn bytes(mut self) -> Vec<u8> {
        self.encoder.take_buffer()
    }
}
