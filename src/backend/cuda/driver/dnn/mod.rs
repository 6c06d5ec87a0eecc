//! cuDNN: execution plans of graphs, made once and kept on disk.

mod api;
mod describe;
mod descriptor;
mod plan;
#[cfg(test)]
mod tests;

use super::super::cudnn_graph::{CudnnGraph, Residency};
use super::super::device::Prepared;
use super::Options;
use super::api::Handle;
use super::context::Context;
use crate::cache::disk::{Disk, Entry};
use crate::cache::key::Key;
use crate::error::Result;
use crate::internal;
use api::Library;
use describe::name_of;
use descriptor::{Descriptor, Kind};
use parking_lot::Mutex;
use plan::Planner;
use std::collections::HashMap;
use std::sync::Arc;

/// The most graphs that are remembered.
const KNOWN: usize = 4096;

/// Plans for one GPU.
pub struct CudnnPlans {
    library: std::result::Result<Arc<Library>, String>,
    allow_tf32: bool,
    deterministic: bool,
    fingerprint: String,
    disk: Option<Arc<Disk>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Made when first needed. Errors: why the library does not start.
    opened: Option<Result<(Arc<Started>, Planner)>>,
    /// `None`: the library does not support the graph.
    known: HashMap<CudnnGraph, Option<Arc<Plan>>>,
}

/// A started library, with the handle that queues its work.
struct Started {
    context: Arc<Context>,
    library: Arc<Library>,
    handle: Handle,
}

struct Plan {
    started: Arc<Started>,
    plan: Descriptor,
    workspace: u64,
    /// Unique id of each tensor that is not virtual, and its value if it is a number.
    tensors: Vec<(i64, Option<f32>)>,
}

impl CudnnPlans {
    /// `fingerprint` is that of the device without cuDNN.
    pub fn new(options: &Options, fingerprint: &str, disk: Option<Arc<Disk>>) -> CudnnPlans {
        let library = Library::find(&options.folders).map(Arc::new);
        let (allow_tf32, deterministic) = (options.allow_tf32, options.deterministic);
        let version = library.as_ref().map_or(0, |library| library.version);
        let fingerprint = format!("{fingerprint} cuDNN {version}");
        CudnnPlans {
            library,
            allow_tf32,
            deterministic,
            fingerprint,
            disk,
            state: Mutex::default(),
        }
    }

    pub fn missing_features(&self) -> Option<String> {
        const SLOWER: &str =
            "attention and convolutions run by kernels of torchacc's own, which are slower";
        const INSTALL: &str =
            "pip install nvidia-cudnn-cu13 for CUDA 13, nvidia-cudnn-cu12 for CUDA 12";
        match &self.library {
            Err(why) => Some(format!(
                "no usable cuDNN: {SLOWER}. Install it ({INSTALL}) or name its folder by TORCHACC_CUDA. Tried {why}"
            )),
            Ok(_) => match &self.state.lock().opened {
                Some(Err(why)) => Some(format!(
                    "cuDNN does not start: {SLOWER}. Look whether it is made for the driver's CUDA ({INSTALL}). {why}"
                )),
                _ => None,
            },
        }
    }

    /// The device's fingerprint, with cuDNN's version.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// See [`super::super::device::Device::prepare`].
    pub fn prepare(
        &self,
        context: &Arc<Context>,
        cudnn_graph: &CudnnGraph,
    ) -> Result<Option<Arc<dyn Prepared>>> {
        let Ok(library) = &self.library else { return Ok(None) };
        if self.deterministic && cudnn_graph.any_order {
            return Ok(None);
        }
        // No stream lock, as nothing is queued: planning takes as long as compiling, and others may queue meanwhile.
        let _entered = context.enter()?;
        let State { opened, known } = &mut *self.state.lock();
        if let Some(plan) = known.get(cudnn_graph) {
            return Ok(plan.clone().map(|plan| plan as Arc<dyn Prepared>));
        }
        let opened = opened.get_or_insert_with(|| self.open(context, library));
        let Ok((started, planner)) = opened else { return Ok(None) };
        let plan =
            self.plan(planner, cudnn_graph).map(|plan| Plan::new(started, plan, cudnn_graph));
        let plan = plan.transpose()?.map(Arc::new);
        if known.len() >= KNOWN {
            known.clear();
        }
        known.insert(cudnn_graph.clone(), plan.clone());
        Ok(plan.map(|plan| plan as Arc<dyn Prepared>))
    }

    fn open(
        &self,
        context: &Arc<Context>,
        library: &Arc<Library>,
    ) -> Result<(Arc<Started>, Planner)> {
        let handle = library.start(context.stream)?;
        let started = Started { context: context.clone(), library: library.clone(), handle };
        Ok((Arc::new(started), Planner::of(library, handle, self.allow_tf32)?))
    }

    /// The plan from disk, else a new one. Unsupported graphs are not recorded on disk: another version may support them.
    fn plan(&self, planner: &Planner, cudnn_graph: &CudnnGraph) -> Option<Descriptor> {
        let make = || planner.restore(&planner.plan(cudnn_graph)?).ok();
        let Some(disk) = &self.disk else { return make() };
        let key = Key::new(vec![
            ("network", format!("{cudnn_graph:?}").into_bytes()),
            ("device", self.fingerprint.clone().into_bytes()),
        ]);
        match disk.find(&key, |text| planner.restore(text).ok()).0 {
            Entry::Found(plan) => Some(plan),
            Entry::Closed(_) => make(),
            Entry::Absent(claim) => {
                let text = planner.plan(cudnn_graph)?;
                let plan = planner.restore(&text).ok()?;
                disk.store(&key, &text, claim).ok();
                Some(plan)
            }
        }
    }

    /// Releases everything that no plan holds. The context's work must be done.
    pub fn close(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        drop(state);
    }
}

impl Plan {
    fn new(started: &Arc<Started>, plan: Descriptor, cudnn_graph: &CudnnGraph) -> Result<Plan> {
        let workspace = plan.int(402)?.max(0) as u64;
        let tensors = cudnn_graph.tensors.iter().enumerate().filter_map(|(id, tensor)| {
            let number = match tensor.residency {
                Residency::Virtual => return None,
                Residency::Memory => None,
                Residency::Number(bits) => Some(f32::from_bits(bits)),
            };
            Some((name_of(id), number))
        });
        Ok(Plan { started: started.clone(), plan, workspace, tensors: tensors.collect() })
    }
}

impl Prepared for Plan {
    fn workspace(&self) -> u64 {
        self.workspace
    }

    fn queue(&self, addresses: &[u64], workspace: u64) -> Result<()> {
        let Started { context, library, handle } = &*self.started;
        let mut given = addresses.iter();
        let mut pointers = Vec::with_capacity(self.tensors.len());
        for (_, number) in &self.tensors {
            // The library reads numbers before the call returns.
            let pointer = match number {
                Some(number) => Some(std::ptr::from_ref(number).expose_provenance() as u64),
                None => given.next().copied(),
            };
            let Some(pointer) = pointer else { return internal!("a network lacks an address") };
            pointers.push(pointer);
        }
        let names: Vec<i64> = self.tensors.iter().map(|(name, _)| *name).collect();
        let _lock = context.lock_stream()?;
        let pack = Descriptor::new(library, Kind::VariantPack)?
            .with_ints(1000, &names)?
            .with_addresses(1001, &pointers)?
            .with_addresses(1003, &[workspace])?
            .finalized()?;
        self.plan.execute(*handle, &pack)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // If the context is lost, so are the library's resources in it.
        let idle = self.context.synchronize();
        if let (Ok(()), Ok(_entered)) = (idle, self.context.enter()) {
            self.library.stop(self.handle);
        }
    }
}
