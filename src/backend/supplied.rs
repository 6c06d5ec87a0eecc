//! Memory from the user program's allocator, in place of the system's or the device's.

use super::memory::Supply;
use crate::buffer::Location;
use crate::error::{Code, Error, Result};

/// The user program's allocator for memory at a location. It keeps free memory itself.
pub struct Supplied {
    pub location: Location,
    /// Allocates that many bytes: their address, or 0.
    pub allocate: Box<dyn Fn(usize) -> usize + Send + Sync>,
    /// Takes back an address; the second argument is the size that was requested for it.
    pub release: Box<dyn Fn(usize, usize) + Send + Sync>,
}

/// Size classes are at most this far apart; allocators align to it anyway.
const STEP: usize = 512;

impl Supply for Supplied {
    fn allocate(&self, nbytes: usize) -> Result<usize> {
        let align = if self.location.stream == 0 { 64 } else { 256 };
        let refused = |why| {
            let text = format!("cannot allocate {nbytes} bytes: the program's allocator {why}");
            Err(Error::new(Code::OutOfMemory, text))
        };
        match (self.allocate)(nbytes) {
            0 => refused("has no more".to_string()),
            address if address.is_multiple_of(align) => Ok(address),
            address => {
                (self.release)(address, nbytes);
                refused(format!("gave memory that is not aligned to {align} bytes"))
            }
        }
    }

    fn release(&self, address: usize, nbytes: usize) {
        (self.release)(address, nbytes);
    }

    fn coarsest(&self) -> usize {
        STEP
    }

    fn keeps(&self) -> bool {
        true
    }
}
