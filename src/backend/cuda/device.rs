//! The backend's interface to a machine that runs kernels: the driver and its libraries, or the host in their place
//! where tests run emitted kernels without a GPU.
//!
//! **Invariant:** requests to one device are executed in their order, on one stream, except those that may overlap
//! ([`Device::upload`], [`Device::download`], [`Device::on_side_stream`], [`Device::copy_aside`]); only reads and `synchronize`
//! wait for them.

use super::cudnn_graph::CudnnGraph;
use super::emit::{Shape, Source};
use crate::buffer::Location;
use crate::dtype::DType;
use crate::error::Result;
use crate::plan::LaneId;
use std::sync::Arc;

pub trait Device: Send + Sync {
    /// Architecture, and the versions of all components that may affect code or results.
    fn fingerprint(&self) -> String;

    /// As `Backend::missing_features`.
    fn missing_features(&self) -> Option<String>;

    /// As `Backend::kernels_compiled`.
    fn kernels_compiled(&self) -> (u64, u64) {
        (0, 0)
    }

    fn limits(&self) -> Limits;

    /// Address of `nbytes` (at least 1) bytes of device memory, aligned to 256 bytes. Error: `OutOfMemory`.
    fn allocate(&self, nbytes: usize) -> Result<usize>;

    /// Frees memory from `allocate`. Work that is already queued may still use it.
    fn free(&self, address: usize);

    /// Address of `nbytes` bytes of host memory, which kernels access by the same address; aligned to at least 64 bytes.
    /// Error: `OutOfMemory`.
    fn allocate_on_host(&self, nbytes: usize) -> Result<usize> {
        self.allocate(nbytes)
    }

    /// Frees memory from `allocate_on_host`.
    fn free_on_host(&self, address: usize) {
        self.free(address);
    }

    /// Copies device memory to the host, in the order of programs; waits.
    fn read(&self, address: usize, to: &mut [u8]) -> Result<()>;

    /// Copies host memory to the device, in the order of programs; `from` may change when this returns.
    fn write(&self, from: &[u8], address: usize) -> Result<()>;

    /// As `write`, to memory that no running program touches: outside the order of the queue, but before work that is queued
    /// after the next [`Device::begin`] or in the next [`Device::queue`].
    fn upload(&self, from: &[u8], address: usize) -> Result<()> {
        self.write(from, address)
    }

    /// As `read`, of memory that no running program writes: outside the order of the queue, but after all previous uploads and
    /// all work queued by [`Device::queue`].
    fn download(&self, address: usize, to: &mut [u8]) -> Result<()> {
        self.read(address, to)
    }

    /// Begins a program: work queued from now on comes after all previous uploads.
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    /// Launchable kernels, one for each source. Sources that were loaded before cost nothing.
    /// Errors: the compiler's messages about a source.
    fn load(&self, sources: &[Source]) -> Result<Vec<Arc<dyn Launch>>>;

    /// A library's implementation of `cudnn_graph`; `None` where there is no library, or it does not support the graph. Repeated
    /// requests cost nothing.
    fn prepare(&self, cudnn_graph: &CudnnGraph) -> Result<Option<Arc<dyn Prepared>>>;

    /// Whether the device multiplies 8-bit floats.
    fn multiplies_float8(&self) -> bool;

    /// Queues `c = a · b`, times the f32 numbers at the addresses `scales` if given. Errors: the library's.
    fn multiply(&self, product: &Product, at: [usize; 3], scales: Option<[usize; 2]>)
    -> Result<()>;

    /// Runs `work`, which queues work and neither reads nor waits, but captures its requests instead of executing them: each
    /// replay then queues the same kernels with the same arguments in one call. `None` where the device cannot.
    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn Replay>>>;

    /// Waits for all queued work. Errors: those of that work.
    fn synchronize(&self) -> Result<()>;

    fn location(&self) -> Location;

    /// Calls `work`, which puts work of its own on the queue.
    fn queue(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()>;

    /// Calls `work`, which enqueues work of its own on a side stream, that of the location it is passed: the lane's, or one for all.
    /// It runs after all work queued so far. The number is for one [`Device::join`] or [`Device::wait_for`], which must follow. After an error all later work waits for the work that had begun.
    fn on_side_stream(
        &self,
        lane: Option<LaneId<u64>>,
        work: &mut dyn FnMut(Location) -> Result<()>,
    ) -> Result<usize>;

    /// Enqueues a copy of `nbytes` bytes from one address to another on the side stream of its lane: from device memory to that of
    /// [`Device::allocate_on_host`], or back. Number and errors as for [`Device::on_side_stream`].
    fn copy_aside(&self, lane: LaneId<u64>, ends: [usize; 2], nbytes: usize) -> Result<usize>;

    /// Work queued from now on comes after the work on a side stream that has this number.
    fn join(&self, number: usize) -> Result<()>;

    /// Waits for the work on a side stream that has this number.
    fn wait_for(&self, number: usize) -> Result<()>;

    /// Waits for all work of this process on the device, on any queue.
    fn settle(&self) -> Result<()>;
}

/// A loaded kernel.
pub trait Launch: Send + Sync {
    /// Queues a launch. `kernel_args` are its arguments ([`Source::kernel_args`] of them).
    fn launch(&self, shape: Shape, kernel_args: &[u64]) -> Result<()>;
}

/// A graph that a library is ready to compute.
pub trait Prepared: Send + Sync {
    /// Bytes of its workspace.
    fn workspace(&self) -> u64;

    /// Queues the graph. `addresses` are those of its tensors in memory; `workspace` is aligned to 256 bytes.
    fn queue(&self, addresses: &[u64], workspace: u64) -> Result<()>;
}

/// Captured work.
pub trait Replay: Send + Sync {
    fn replay(&self) -> Result<()>;
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may ask for.
    pub shared: u32,
}

/// `batch` products of row-major matrices, `c[m, n] = a[m, k] · b[k, n]`, summed in f32 (f64 for f64). No size is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Types of a, b and c: all the same of f16, bf16, f32 and f64; or bf16, bf16 and f32; or, with scales, two of e4m3 and
    /// e5m2, not both e5m2, and one of f16, bf16 and f32.
    pub dtypes: [DType; 3],
    pub batch: u64,
    pub m: u64,
    pub n: u64,
    pub k: u64,
    pub a: Matrix,
    pub b: Matrix,
    pub c: Matrix,
}

/// A matrix in memory; strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// Whether columns rather than rows are contiguous.
    pub transposed: bool,
    /// Stride from one row (column, if transposed) to the next: at least its length.
    pub leading: u64,
    /// Stride from one matrix to the next; 0 where all are the same.
    pub batch: u64,
}
