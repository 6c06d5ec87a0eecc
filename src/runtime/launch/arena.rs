//! Memory that is only needed during a run, and new memory for results.

use crate::buffer::Bytes;
use crate::buffer::size_class::block_bytes;
use crate::error::Result;
use crate::plan::Plan;
use crate::runtime::shared::Shared;

/// Memory for the intermediates of all programs, except for those in a block of results: programs run one after the other, so
/// they share one block of the device's memory, and one of the host's.
#[derive(Default)]
pub struct Arena {
    device: Option<Box<dyn Bytes>>,
    host: Option<Box<dyn Bytes>>,
}

/// Addresses of a plan's blocks for intermediates; 0 where it needs none.
#[derive(Clone, Copy, Default)]
pub struct Intermediates {
    pub arena: usize,
    pub host: usize,
}

impl Arena {
    /// Blocks for a plan; contents are not kept.
    pub fn reserve(&mut self, shared: &Shared, plan: &Plan) -> Result<Intermediates> {
        let nbytes = plan.arena_bytes as usize;
        // A block that another program left may exceed the limit together with the results of this program.
        let fits = |bytes: &dyn Bytes| {
            let limit = shared.memory_limit().unwrap_or(u64::MAX);
            let taken = block_bytes(bytes.len() as u64) + plan.memory_of_results();
            bytes.len() >= nbytes && taken <= limit
        };
        if self.device.as_deref().is_none_or(|bytes| !fits(bytes)) {
            // The old block is freed first: both at once may be too much.
            self.device = None;
            self.device = Some(shared.allocate(nbytes)?);
        }
        let nbytes = plan.host_bytes as usize;
        if nbytes > self.host.as_ref().map_or(0, |bytes| bytes.len()) {
            self.host = None;
            self.host = Some(shared.backend.allocate_on_host(nbytes)?);
        }
        let address = |block: &Option<Box<dyn Bytes>>| block.as_ref().map_or(0, |b| b.address());
        Ok(Intermediates { arena: address(&self.device), host: address(&self.host) })
    }
}

/// New memory for an output without a donor.
pub fn fresh_output(shared: &Shared, plan: &Plan, output: usize) -> Result<Box<dyn Bytes>> {
    let nbytes = plan.outputs[output].nbytes();
    match plan.is_on_host(output) {
        true => shared.backend.allocate_on_host(nbytes),
        false => shared.allocate(nbytes),
    }
}
