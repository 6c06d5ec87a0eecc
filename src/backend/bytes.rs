//! Backend memory on the host, as the rest of the library reads and writes it.
#![expect(unsafe_code, reason = "copies between addresses")]

use super::memory::Memory;
use crate::buffer::Bytes;
use crate::error::Result;

/// Memory from a pool of host memory.
pub struct HostBytes(pub Memory);

impl Bytes for HostBytes {
    fn address(&self) -> usize {
        self.0.addr()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, offset: usize, destination: &mut [u8]) -> Result<()> {
        assert!(offset + destination.len() <= self.len(), "a read stays within its memory");
        // SAFETY: within the block, which lives as long as `self`; the destination is not device memory.
        unsafe {
            let source = (self.address() + offset) as *const u8;
            std::ptr::copy_nonoverlapping(source, destination.as_mut_ptr(), destination.len());
        }
        Ok(())
    }

    fn on_host(&self) -> Option<&[u8]> {
        // SAFETY: the block lives as long as `self`, and nobody writes to it while somebody looks at it.
        (!self.is_empty())
            .then(|| unsafe { std::slice::from_raw_parts(self.address() as *const u8, self.len()) })
    }

    fn write(&mut self, offset: usize, source: &[u8]) -> Result<()> {
        assert!(offset + source.len() <= self.len(), "a write stays within its memory");
        // SAFETY: as in `read`, and `self` is borrowed mutably.
        unsafe {
            let destination = (self.address() + offset) as *mut u8;
            std::ptr::copy_nonoverlapping(source.as_ptr(), destination, source.len());
        }
        Ok(())
    }
}
