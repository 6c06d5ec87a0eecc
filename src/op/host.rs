//! Host operators: functions supplied by the program that uses the library (PyTorch's CPU kernels, custom
//! operators). The IR holds only their number; this table, process-wide and append-only, holds the functions.

use super::Ty;
use super::arg::Arg;
use crate::buffer::Location;
use crate::dtype::DType;
use crate::error::{Result, Site};
use crate::shape::{Dims, numel};
use parking_lot::RwLock;
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

thread_local! {
    static RUNNING_SITE: Cell<Site> = const { Cell::new(0) };
}

/// Sets the call site of the step that this thread runs from now on; 0 for none.
pub fn set_running_site(site: Site) {
    RUNNING_SITE.set(site);
}

/// The call site of the step that this thread runs, for its functions.
pub fn running_site() -> Site {
    RUNNING_SITE.get()
}

/// Index into the process-wide table.
pub type HostOpId = u32;

/// A dense row-major array in host memory; in a device's for a [`DeviceFn`].
#[derive(Clone, Debug)]
pub struct HostTensor {
    /// Address of the first element; 0 stands for an absent optional tensor.
    pub data: usize,
    pub dtype: DType,
    pub sizes: Dims,
}

impl HostTensor {
    pub fn absent() -> HostTensor {
        HostTensor { data: 0, dtype: DType::U8, sizes: Dims::default() }
    }

    /// Its range of addresses, empty if it is absent.
    pub fn bytes(&self) -> Range<usize> {
        let nbytes = numel(&self.sizes) as usize * self.dtype.size();
        self.data..self.data + if self.data == 0 { 0 } else { nbytes }
    }
}

/// An argument as the function sees it. The bits of a number are an i64, an f64 or a bool (0, 1), as its kind says.
pub type HostArg = Arg<HostTensor, u64>;

/// Fills every `out` from `args`, which it must not write.
pub type HostFn = Box<dyn Fn(&[HostArg], &[HostTensor]) -> Result<()> + Send + Sync>;

/// The same for tensors in the memory of the location's device; done on the location's queue. Error: `Unsupported` if it
/// cannot; then `function` is called.
pub type DeviceFn = Box<dyn Fn(Location, &[HostArg], &[HostTensor]) -> Result<()> + Send + Sync>;

/// Types of the results, whose number is given, from the arguments; tensors have types, but no memory to read.
pub type ShapeFn = Box<dyn Fn(&[HostArg], usize) -> Result<Vec<Ty>> + Send + Sync>;

pub struct HostOp {
    /// For messages: `aten::nonzero`.
    pub name: String,
    /// For keys: equal keys behave equally, in every process.
    pub key: String,
    pub function: HostFn,
    /// Without one the caller states the types of the results.
    pub shape: Option<ShapeFn>,
    /// For a GPU. Without one a function is called there too.
    pub cuda: Option<CudaForm>,
    /// For backends whose memory is not the host's. Without one `function` is called, with copies.
    pub device_function: Option<DeviceFn>,
}

/// An operator as CUDA C++: `entry` is a device function of `source`, which every thread calls with the recorded arguments
/// and the results (`torchacc_host_op` in the header says how).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CudaForm {
    pub source: String,
    pub entry: String,
    /// Threads of a block.
    pub block: u32,
    /// Elements of the first result for each thread.
    pub elements: u32,
    /// Blocks of the grid; 0 for as many as the elements ask for.
    pub blocks: u64,
}

#[derive(Default)]
struct Table {
    ops: Vec<Arc<HostOp>>,
    by_key: HashMap<String, HostOpId>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

/// Adds a host operator, or returns the one with an equal key if there is one (and drops `op`). Its CUDA form becomes a part
/// of the key: no program of another source is taken for one of this.
pub fn register(mut op: HostOp) -> HostOpId {
    if let Some(form) = &op.cuda {
        op.key = format!("{} cuda:{:032x}", op.key, xxh3_128(format!("{form:?}").as_bytes()));
    }
    let mut guard = TABLE.write();
    let table = guard.get_or_insert_default();
    if let Some(&id) = table.by_key.get(&op.key) {
        return id;
    }
    let id = table.ops.len() as HostOpId;
    table.by_key.insert(op.key.clone(), id);
    table.ops.push(Arc::new(op));
    id
}

pub fn get(id: HostOpId) -> Option<Arc<HostOp>> {
    TABLE.read().as_ref()?.ops.get(id as usize).cloned()
}

pub fn by_key(key: &str) -> Option<HostOpId> {
    TABLE.read().as_ref()?.by_key.get(key).copied()
}
