//! Backend memory on the host, as the rest of the library reads and writes it.
#![expect(unsafe_code, reason = "copies between addresses")]

use super::memory::Memory;
use crate::buffer::Bytes;

impl Bytes for Memory {
    fn address(&self) -> usize {
        self.addr()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn read(&self, offset: usize, destination: &mut [u8]) {
        assert!(offset + destination.len() <= self.len(), "a read stays within its memory");
        // SAFETY: within the block, which lives as long as `self`; the destination is not device memory.
        unsafe {
            let source = (self.addr() + offset) as *const u8;
            std::ptr::copy_nonoverlapping(source, destination.as_mut_ptr(), destination.len());
        }
    }

    fn write(&mut self, offset: usize, source: &[u8]) {
        assert!(offset + source.len() <= self.len(), "a write stays within its memory");
        // SAFETY: as in `read`, and `self` is borrowed mutably.
        unsafe {
            let destination = (self.addr() + offset) as *mut u8;
            std::ptr::copy_nonoverlapping(source.as_ptr(), destination, source.len());
        }
    }
}
