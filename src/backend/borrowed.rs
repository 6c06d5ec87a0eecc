//! Memory that somebody else owns and lends for reading, such as an array of the user's program. Host memory is read here.
//!
//! **Invariant:** it is read-only. Donation, which would write to memory that a program has finished with, is refused
//! by the storage that holds it ([`crate::buffer::Storage::share`]).
#![expect(unsafe_code, reason = "copies from an address that the lender answers for")]

use crate::buffer::Bytes;
use crate::error::Result;
use std::any::Any;

/// Addresses that are multiples of this suit every dtype, and every other dtype that the bytes are viewed as.
pub const ALIGN: usize = 16;

pub struct Borrowed {
    address: usize,
    len: usize,
    /// Gives the memory back when dropped.
    _owner: Box<dyn Any + Send + Sync>,
}

impl Borrowed {
    /// # Safety
    /// `address` is readable for `len` bytes by all its readers, and nobody writes these, until `owner` is dropped.
    pub unsafe fn new(address: usize, len: usize, owner: Box<dyn Any + Send + Sync>) -> Borrowed {
        Borrowed { address, len, _owner: owner }
    }
}

impl Bytes for Borrowed {
    fn address(&self) -> usize {
        self.address
    }

    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, destination: &mut [u8]) -> Result<()> {
        assert!(offset + destination.len() <= self.len, "a read stays within its memory");
        // SAFETY: within the range that is readable by the contract of `new`; nobody writes it.
        unsafe {
            let source = std::ptr::with_exposed_provenance::<u8>(self.address + offset);
            std::ptr::copy_nonoverlapping(source, destination.as_mut_ptr(), destination.len());
        }
        Ok(())
    }

    fn on_host(&self) -> Option<&[u8]> {
        let start = std::ptr::with_exposed_provenance::<u8>(self.address);
        // SAFETY: as in `read`.
        (!self.is_empty()).then(|| unsafe { std::slice::from_raw_parts(start, self.len) })
    }

    fn write(&mut self, _: usize, _: &[u8]) -> Result<()> {
        unreachable!("borrowed memory is never written");
    }
}
