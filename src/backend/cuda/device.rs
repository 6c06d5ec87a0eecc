//! What the backend asks of a machine that runs kernels: the driver and its libraries, or the host in their stead
//! where tests run emitted kernels without a GPU.
//!
//! **Invariant:** everything asked of one device happens in the order asked for, on one stream, but for what may overlap
//! it ([`Device::upload`], [`Device::download`], [`Device::on_side_stream`]); only reads and `synchronize` wait for it.

use super::cudnn_graph::CudnnGraph;
use super::emit::{Shape, Source};
use crate::buffer::Location;
use crate::dtype::DType;
use crate::error::Result;
use std::sync::Arc;

pub trait Device: Send + Sync {
    /// Architecture, and the versions of everything whose change may change code or results.
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

    /// Gives back what `allocate` gave. What was queued before may still use it.
    fn free(&self, address: usize);

    /// The address of so many bytes of the host's memory, which kernels reach by the same address; aligned to at least 64
    /// bytes. Error: `OutOfMemory`.
    fn allocate_on_host(&self, nbytes: usize) -> Result<usize> {
        self.allocate(nbytes)
    }

    /// Gives that back.
    fn free_on_host(&self, address: usize) {
        self.free(address);
    }

    /// Copies from device memory to the host, in a program; waits.
    fn read(&self, address: usize, to: &mut [u8]) -> Result<()>;

    /// Copies from the host to device memory, in a program; `from` may change when this returns.
    fn write(&self, from: &[u8], address: usize) -> Result<()>;

    /// As `write`, to memory that no program under way touches: not in the order of the queue, but before what is queued after
    /// the next [`Device::begin`] or in the next [`Device::queue`].
    fn upload(&self, from: &[u8], address: usize) -> Result<()> {
        self.write(from, address)
    }

    /// As `read`, of memory that no program under way writes: not in the order of the queue, but after all that was uploaded, and
    /// queued by [`Device::queue`].
    fn download(&self, address: usize, to: &mut [u8]) -> Result<()> {
        self.read(address, to)
    }

    /// A program begins: what is queued from now on comes after all that was uploaded.
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    /// Kernels ready to be launched, one for each source. Those that were asked for before cost nothing.
    /// Errors: what the compiler says of a source.
    fn load(&self, sources: &[Source]) -> Result<Vec<Arc<dyn Launch>>>;

    /// What computes `cudnn_graph` in a library's way; `None` where there is no library, or it does not take this. Asked again,
    /// it costs nothing.
    fn prepare(&self, cudnn_graph: &CudnnGraph) -> Result<Option<Arc<dyn Prepared>>>;

    /// Whether it has products of floats of 8 bits.
    fn multiplies_float8(&self) -> bool;

    /// Queues `c = a · b`, times the numbers (f32) at the addresses `scales` where there are any. Errors: what the library
    /// says.
    fn multiply(&self, product: &Product, at: [usize; 3], scales: Option<[usize; 2]>)
    -> Result<()>;

    /// Runs `work`, which queues things and neither reads nor waits, but keeps what it asks for instead of doing it: to be
    /// queued at once, as often as wanted, the same kernels with the same arguments. `None` where the device cannot.
    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn Replay>>>;

    /// Waits until everything is done. Errors: of anything that was queued.
    fn synchronize(&self) -> Result<()>;

    fn location(&self) -> Location;

    /// Does `work`, which puts things of its own on the queue.
    fn queue(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()>;

    /// Does `work`, which enqueues things of its own on the side stream, that of the location which it is passed. They happen
    /// after all that is queued so far. The number is for one [`Device::join`], which has to come. After an error all that
    /// comes waits for what had begun.
    fn on_side_stream(&self, work: &mut dyn FnMut(Location) -> Result<()>) -> Result<usize>;

    /// What is queued from now on comes after what was put on the side stream, by its number.
    fn join(&self, number: usize) -> Result<()>;

    /// Waits until everything is done that anybody in this process asked of the device, on whatever queue.
    fn settle(&self) -> Result<()>;
}

/// A loaded kernel.
pub trait Launch: Send + Sync {
    /// Queues it. `kernel_args` are its arguments ([`Source::kernel_args`] of them).
    fn launch(&self, shape: Shape, kernel_args: &[u64]) -> Result<()>;
}

/// A graph that a library is ready to compute.
pub trait Prepared: Send + Sync {
    /// Bytes of memory that it works in.
    fn workspace(&self) -> u64;

    /// Queues it. `addresses` are those of the graph's tensors in memory, `workspace` is aligned to 256 bytes.
    fn queue(&self, addresses: &[u64], workspace: u64) -> Result<()>;
}

/// What was captured.
pub trait Replay: Send + Sync {
    fn replay(&self) -> Result<()>;
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may ask for.
    pub shared: u32,
}

/// `batch` products of row-major matrices, `c[m, n] = a[m, k] · b[k, n]`, summed in f32 (f64 for f64). Nothing is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Of a, b and c: all one of f16, bf16, f32 and f64; or bf16, bf16 and f32; or, with scales, two of e4m3 and e5m2,
    /// not both e5m2, and f16, bf16 or f32.
    pub dtypes: [DType; 3],
    pub batch: u64,
    pub m: u64,
    pub n: u64,
    pub k: u64,
    pub a: Matrix,
    pub b: Matrix,
    pub c: Matrix,
}

/// How a matrix lies in memory; strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// Columns instead of rows lie together.
    pub transposed: bool,
    /// From one row (column, if transposed) to the next: at least its length.
    pub leading: u64,
    /// From one matrix to the next; 0 where all are the same.
    pub batch: u64,
}
