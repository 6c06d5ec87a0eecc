//! The CUDA backend: fused regions as kernels written at run time, products by cuBLASLt.
//!
//! **Invariant:** only [`device`]'s implementations touch a device; the rest is text and plain data, and tests run it on the
//! host (`emulated`). A failing step fails before it overwrites a value of an earlier program, and the later steps of its
//! program do nothing.

mod actions;
mod host_fallback;
pub mod device;
pub mod driver;
pub mod emit;
#[cfg(debug_assertions)]
pub mod emulated;
mod horizontal_fusion;
mod graphs;
mod lanes;
mod lower;
pub mod memory;
mod cudnn_graph;
mod custom_op;
mod on_device;
mod product;
mod executable;
#[cfg(test)]
mod tests;

use super::borrowed::Borrowed;
use super::memory::Pool;
use super::{Backend, Executable, Parts};
use crate::buffer::{Bytes, Location};
use crate::error::Result;
use crate::op::collective::DEVICE_KIND_COUNT;
use crate::op::{Attrs, GPU_HALF_FLOPS_PER_BYTE, GPU_HOST_LINK_SLOWDOWN, Op, Ty};
use crate::plan::{Kernel, Plan, Target};
use device::Device;
use executable::CudaExecutable;
use memory::DeviceBytes;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub struct Cuda {
    device: Arc<dyn Device>,
    pool: Arc<Pool>,
    host_pool: Arc<Pool>,
    captures: bool,
    /// Whether plans have lanes: for copies to the host and back, and for collectives that communicators do on the device's memory
    /// unless they are to stay in order.
    lanes: bool,
    in_order: AtomicBool,
}

impl Cuda {
    /// `pool` allocates device memory. With `captures`, repeated runs are queued as a whole ([`graphs`]).
    pub fn new(device: Arc<dyn Device>, pool: Arc<Pool>, captures: bool) -> Cuda {
        let host_pool = memory::host_pool(device.clone());
        Cuda { device, pool, host_pool, captures, lanes: true, in_order: false.into() }
    }

    /// Sets whether it has lanes; by default it has.
    pub fn with_lanes(self, lanes: bool) -> Cuda {
        Cuda { lanes, ..self }
    }
}

impl Target for Cuda {
    /// Scratch memory belongs to the program.
    fn workspace(&self, _: Op, _: &Attrs, _: &[Ty], _: &[Ty]) -> u64 {
        0
    }

    /// The library's products are faster alone.
    fn has_epilogue(&self, op: Op) -> bool {
        op != Op::Matmul
    }

    fn fuses_horizontally(&self) -> bool {
        true
    }

    fn half_flops_per_byte(&self) -> u64 {
        GPU_HALF_FLOPS_PER_BYTE
    }

    /// Not those that the host does, which block when they start.
    fn kinds_on_lanes(&self) -> usize {
        if self.lanes && !self.in_order.load(Relaxed) { DEVICE_KIND_COUNT } else { 0 }
    }

    fn host_link_slowdown(&self) -> Option<u64> {
        self.lanes.then_some(GPU_HOST_LINK_SLOWDOWN)
    }
}

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn keep_collectives_in_order(&self) {
        self.in_order.store(true, Relaxed);
    }

    fn fingerprint(&self) -> String {
        let lanes = match (self.lanes, self.in_order.load(Relaxed)) {
            (true, false) => "",
            (true, true) => " without lanes for collectives",
            (false, _) => " without lanes",
        };
        format!("cuda {} {}{lanes}", self.device.fingerprint(), env!("CARGO_PKG_VERSION"))
    }

    fn missing_features(&self) -> Option<String> {
        self.device.missing_features()
    }

    fn kernels_compiled(&self) -> (u64, u64) {
        self.device.kernels_compiled()
    }

    fn supports(&self, op: Op) -> bool {
        !matches!(op, Op::Recurrent | Op::RecurrentGrad)
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn host_pool(&self) -> &Arc<Pool> {
        &self.host_pool
    }

    fn location(&self) -> Location {
        self.device.location()
    }

    fn queue(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.device.queue(work)
    }

    fn calls_host(&self, kernel: &Kernel) -> bool {
        matches!(kernel, Kernel::Node { op: Op::Host, .. })
            && custom_op::operator_of(kernel).is_none()
    }

    fn allocate(&self, nbytes: usize) -> Result<Box<dyn Bytes>> {
        Ok(Box::new(DeviceBytes::new(&self.device, &self.pool, nbytes)?))
    }

    fn allocate_parts(&self, nbytes: usize, parts: &[Range<usize>]) -> Result<Parts> {
        let of = |memory| Box::new(DeviceBytes::of(&self.device, memory)) as Box<dyn Bytes>;
        Ok(Parts::new(self.pool.allocate(nbytes)?, parts, of))
    }

    fn borrow(&self, memory: Borrowed) -> Box<dyn Bytes> {
        // Orders the lender's work before the queue's and before copies on other streams. If this fails, the device is lost.
        self.device.queue(&mut || Ok(())).ok();
        Box::new(DeviceBytes::lent(&self.device, memory))
    }

    fn compile(&self, plan: Arc<Plan>) -> Result<Box<dyn Executable>> {
        Ok(Box::new(CudaExecutable::new(
            plan,
            self.device.clone(),
            self.pool.clone(),
            self.captures,
        )?))
    }
}
