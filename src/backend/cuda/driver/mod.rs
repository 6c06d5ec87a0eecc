//! A GPU: the driver, NVRTC, cuBLASLt and cuDNN behind [`Device`].
//!
//! **Invariant:** no library of CUDA is needed to build this or to run another backend; each is found when a device is
//! opened, and a missing, too old or too new one is an error with advice.

mod api;
mod blas;
mod context;
mod dnn;
mod graph;
mod streams;
mod library;
mod modules;
mod multiply;
pub mod nvrtc;
mod staging;
#[cfg(test)]
pub(crate) mod tests;

use super::cudnn_graph::CudnnGraph;
use super::device::{Device, Launch, Limits, Prepared, Product, Replay};
use super::emit::Source;
use crate::buffer::Location;
use crate::cache::disk::Disk;
use crate::error::{Error, Result};
use crate::plan::LaneId;
pub use api::Refused;
use blas::Blas;
use context::Context;
pub use context::{GpuInfo, list};
use dnn::CudnnPlans;
use modules::Modules;
use multiply::Products;
use nvrtc::Nvrtc;
use std::path::PathBuf;
use std::sync::Arc;
use streams::Streams;

/// Options for opening a GPU.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Index among the GPUs that the driver shows.
    pub ordinal: u32,
    /// Folders searched for libraries, in this order, before the system's.
    pub folders: Vec<PathBuf>,
    /// Folder for machine code and choices of algorithms, if they are kept, and its limit in bytes.
    pub cache: Option<(PathBuf, u64)>,
    /// Whether products of f32 may round their operands to TF32 (10 bits of mantissa).
    pub allow_tf32: bool,
    /// Whether products use the algorithm that the library ranks first rather than the one measured fastest, and sums are
    /// always added in a fixed order.
    pub deterministic: bool,
    /// Whether all work is on one stream, in the order of the requests.
    pub one_stream: bool,
}

/// `kDLCUDA`.
const CUDA: i32 = 2;
/// The oldest architecture that kernels are written for: that of the V100.
const OLDEST: u32 = 70;
/// The oldest architecture that multiplies 8-bit floats: that of the L4.
const FLOAT8: u32 = 89;

/// The first GPU that kernels are written for, if the driver shows one. Opens none.
pub fn usable(folders: &[PathBuf]) -> Option<GpuInfo> {
    list(folders).ok()?.into_iter().find(|gpu| gpu.capability >= OLDEST)
}

/// Opens a GPU. Errors: `Unsupported` when it cannot be used, with the reason and advice.
pub fn open(options: &Options) -> Result<Arc<dyn Device>> {
    find(options).map_err(Refused::error)
}

/// As [`open`], for callers that can do without a GPU.
pub fn find(options: &Options) -> std::result::Result<Arc<dyn Device>, Refused> {
    let context = Context::open(&options.folders, options.ordinal)?;
    let (name, capability) = (&context.name, context.capability);
    let (major, minor) = context.version;
    if capability < OLDEST {
        return Err(Refused::Broken(format!(
            "{name} has compute capability {}.{}; {}.{} (V100) is the oldest that kernels are written for. Use another GPU",
            capability / 10,
            capability % 10,
            OLDEST / 10,
            OLDEST % 10
        )));
    }
    // Machine code of a newer major version runs on no older driver; that of a newer minor version does.
    let fits = |library: &str, newest: i32| match newest <= major {
        true => Ok(()),
        false => Err(format!(
            "{library} {newest} is too new for the driver, which supports CUDA {major}.{minor}: update the driver, or install \
             the library of CUDA {major}"
        )),
    };
    let nvrtc = Nvrtc::find(&options.folders, |nvrtc| {
        fits("NVRTC", nvrtc.version.0)?;
        nvrtc.target(capability).map(|_| ()).ok_or_else(|| {
            let (a, b) = nvrtc.version;
            format!("version {a}.{b} does not compile for {name} (sm_{capability}): CUDA 12 was the last to support sm_70")
        })
    });
    let blas = Blas::find(&options.folders, |blas| fits("cuBLASLt", blas.major()));
    let missing = |error: Error| Refused::Broken(error.message);
    let (nvrtc, blas) = (nvrtc.map_err(missing)?, blas.map_err(missing)?);
    let target = nvrtc.target(capability).unwrap_or_default();
    let (allow_tf32, deterministic) = (options.allow_tf32, options.deterministic);
    let fingerprint = format!(
        "{target} x{} NVRTC {}.{} cuBLASLt {} tf32 {allow_tf32} measured {}",
        context.multiprocessors, nvrtc.version.0, nvrtc.version.1, blas.version, !deterministic
    );
    let cache = options.cache.clone();
    let disk = cache.map(|(folder, limit)| Arc::new(Disk::new(folder, limit)));
    Ok(Arc::new(Gpu {
        cudnn_plans: CudnnPlans::new(options, &fingerprint, disk.clone()),
        products: Products::new(blas, options, fingerprint, disk.clone()),
        modules: Modules::new(nvrtc, target, disk),
        streams: Streams::new(&context, !options.one_stream)?,
        context: Arc::new(context),
    }))
}

struct Gpu {
    context: Arc<Context>,
    streams: Streams,
    modules: Modules,
    products: Products,
    cudnn_plans: CudnnPlans,
}

impl Device for Gpu {
    fn fingerprint(&self) -> String {
        self.cudnn_plans.fingerprint().to_owned()
    }

    fn missing_features(&self) -> Option<String> {
        self.cudnn_plans.missing_features()
    }

    fn kernels_compiled(&self) -> (u64, u64) {
        self.modules.compiled()
    }

    fn limits(&self) -> Limits {
        Limits { multiprocessors: self.context.multiprocessors, shared: self.context.shared }
    }

    fn allocate(&self, nbytes: usize) -> Result<usize> {
        self.context.allocate(nbytes)
    }

    fn free(&self, address: usize) {
        self.context.free(address);
    }

    fn allocate_on_host(&self, nbytes: usize) -> Result<usize> {
        self.context.allocate_on_host(nbytes)
    }

    fn free_on_host(&self, address: usize) {
        self.context.free_on_host(address);
    }

    fn read(&self, address: usize, to: &mut [u8]) -> Result<()> {
        self.streams.read(&self.context, address, to)
    }

    fn write(&self, from: &[u8], address: usize) -> Result<()> {
        self.streams.write(&self.context, from, address)
    }

    fn upload(&self, from: &[u8], address: usize) -> Result<()> {
        self.streams.upload(&self.context, from, address)
    }

    fn download(&self, address: usize, to: &mut [u8]) -> Result<()> {
        self.streams.download(&self.context, address, to)
    }

    fn begin(&self) -> Result<()> {
        self.streams.follow_uploads(&self.context, &self.context.lock_stream()?)
    }

    fn load(&self, sources: &[Source]) -> Result<Vec<Arc<dyn Launch>>> {
        self.modules.load(&self.context, sources)
    }

    fn prepare(&self, cudnn_graph: &CudnnGraph) -> Result<Option<Arc<dyn Prepared>>> {
        self.cudnn_plans.prepare(&self.context, cudnn_graph)
    }

    fn multiplies_float8(&self) -> bool {
        self.context.capability >= FLOAT8
    }

    fn multiply(
        &self,
        product: &Product,
        at: [usize; 3],
        scales: Option<[usize; 2]>,
    ) -> Result<()> {
        self.products.multiply(&self.context, product, at, scales)
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn Replay>>> {
        graph::capture(&self.context, work)
    }

    fn synchronize(&self) -> Result<()> {
        self.context.synchronize()
    }

    fn location(&self) -> Location {
        let Context { ordinal, stream, .. } = *self.context;
        Location { device_type: CUDA, device_id: ordinal as i32, stream, is_host: false }
    }

    fn queue(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.streams.queue(&self.context, work)
    }

    fn on_side_stream(
        &self,
        lane: Option<LaneId<u64>>,
        work: &mut dyn FnMut(Location) -> Result<()>,
    ) -> Result<usize> {
        self.streams.on_side_stream(&self.context, (lane, self.location()), work)
    }

    fn copy_aside(&self, lane: LaneId<u64>, ends: [usize; 2], nbytes: usize) -> Result<usize> {
        let mut copy =
            |there: Location| self.context.copy(lane == LaneId::ToHost, ends, nbytes, there.stream);
        self.on_side_stream(Some(lane), &mut copy)
    }

    fn join(&self, number: usize) -> Result<()> {
        self.streams.join(&self.context, number)
    }

    fn wait_for(&self, number: usize) -> Result<()> {
        self.streams.wait_for(&self.context, number)
    }

    fn settle(&self) -> Result<()> {
        self.context.settle()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.context.settle().ok();
        self.streams.close(&self.context);
        self.products.close(&self.context);
        self.cudnn_plans.close();
    }
}
