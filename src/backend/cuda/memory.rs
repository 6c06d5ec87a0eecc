//! Device memory: the supply of a pool's blocks, and the bytes that the rest of the library reads and writes.

use super::device::Device;
use crate::backend::borrowed::Borrowed;
use crate::backend::memory::{Memory, Pool, Supply};
use crate::buffer::Bytes;
use crate::error::Result;
use std::sync::Arc;

/// Large blocks are multiples of this, as the driver maps them: so almost nothing is wasted.
const LARGE: usize = 2 << 20;

/// A pool of device memory. Work queued by a block's previous owner comes before that of the next one, which may have the block
/// while that work is still queued.
pub fn pool(device: Arc<dyn Device>) -> Arc<Pool> {
    Pool::of(Box::new(Blocks { device, on_host: false }))
}

/// A pool of host memory that the device's kernels access.
pub fn host_pool(device: Arc<dyn Device>) -> Arc<Pool> {
    Pool::of(Box::new(Blocks { device, on_host: true }))
}

struct Blocks {
    device: Arc<dyn Device>,
    on_host: bool,
}

impl Supply for Blocks {
    fn allocate(&self, nbytes: usize) -> Result<usize> {
        match self.on_host {
            true => self.device.allocate_on_host(nbytes),
            false => self.device.allocate(nbytes),
        }
    }

    fn release(&self, address: usize, _: usize) {
        match self.on_host {
            true => self.device.free_on_host(address),
            false => self.device.free(address),
        }
    }

    fn coarsest(&self) -> usize {
        LARGE
    }
}

/// Memory of a device, from its [`pool`] or lent.
pub struct DeviceBytes {
    address: usize,
    len: usize,
    device: Arc<dyn Device>,
    /// Gives the memory back when dropped.
    _owner: Owner,
}

#[expect(dead_code, reason = "kept, not read")]
enum Owner {
    Pool(Memory),
    Lender(Borrowed),
}

impl DeviceBytes {
    /// Contents undefined. Error: `OutOfMemory`.
    pub fn new(device: &Arc<dyn Device>, pool: &Arc<Pool>, nbytes: usize) -> Result<DeviceBytes> {
        Ok(DeviceBytes::of(device, pool.allocate(nbytes)?))
    }

    pub fn of(device: &Arc<dyn Device>, memory: Memory) -> DeviceBytes {
        let (address, len) = (memory.addr(), memory.len());
        DeviceBytes { address, len, device: device.clone(), _owner: Owner::Pool(memory) }
    }

    pub fn lent(device: &Arc<dyn Device>, memory: Borrowed) -> DeviceBytes {
        let (address, len) = (memory.address(), memory.len());
        DeviceBytes { address, len, device: device.clone(), _owner: Owner::Lender(memory) }
    }
}

impl Bytes for DeviceBytes {
    fn address(&self) -> usize {
        self.address
    }

    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, destination: &mut [u8]) -> Result<()> {
        assert!(offset + destination.len() <= self.len(), "a read stays within its memory");
        match destination.is_empty() {
            true => Ok(()),
            false => self.device.download(self.address() + offset, destination),
        }
    }

    fn write(&mut self, offset: usize, source: &[u8]) -> Result<()> {
        assert!(offset + source.len() <= self.len(), "a write stays within its memory");
        match source.is_empty() {
            true => Ok(()),
            false => self.device.upload(source, self.address() + offset),
        }
    }

    fn settle(&self) -> Result<()> {
        self.device.settle()
    }
}
