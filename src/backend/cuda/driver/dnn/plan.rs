//! Graphs to execution plans: the engine of the library that computes a graph, and its code.
//!
//! **Invariant:** a plan is restored from its text, whether the text was just made or comes from disk.

use super::super::super::cudnn_graph::CudnnGraph;
use super::super::api::Handle;
use super::api::Library;
use super::describe::describe;
use super::descriptor::{Descriptor, Enum, Kind};
use crate::dtype::DType;
use crate::error::Result;
use std::ffi::c_int;
use std::sync::Arc;

/// `cudnnBackendHeurMode_t`: A, then the fallback for graphs that A does not know.
const HEURISTICS: [c_int; 2] = [3, 2];
/// Number of candidates tried of each of them.
const CANDIDATES: usize = 8;
/// Bytes of workspace that a plan may use.
const MOST_WORKSPACE: i64 = 2 << 30;

/// `cudnnBackendNumericalNote_t`.
const TENSOR_CORE: c_int = 0;
const DOWN_CONVERTED: c_int = 1;
const NONDETERMINISTIC: c_int = 4;
/// Sums in less than f32, and algorithms with larger errors than plain sums: FFT, Winograd's.
const INEXACT: [c_int; 6] = [2, 3, 5, 6, 7, 8];

/// Makes plans for one device.
pub struct Planner {
    pub library: Arc<Library>,
    /// The library's description of the device.
    device: Descriptor,
    allow_tf32: bool,
}

impl Planner {
    /// For the device of a handle.
    pub fn of(library: &Arc<Library>, handle: Handle, allow_tf32: bool) -> Result<Planner> {
        let device = Descriptor::new(library, Kind::Device)?.with_handle(2701, handle)?;
        Ok(Planner { library: library.clone(), device: device.finalized()?, allow_tf32 })
    }

    /// For a device that may be absent, by the library's own description of it.
    #[cfg(test)]
    pub fn of_text(library: &Arc<Library>, text: &str, allow_tf32: bool) -> Result<Planner> {
        let text = format!("{text}\0");
        let device = Descriptor::new(library, Kind::Device)?.with_text(2702, text.as_bytes())?;
        Ok(Planner { library: library.clone(), device: device.finalized()?, allow_tf32 })
    }

    /// The text of a plan. `None`: no engine supports the graph.
    pub fn plan(&self, cudnn_graph: &CudnnGraph) -> Option<Vec<u8>> {
        // An unsupported graph may be refused at any stage; there are as many reasons as engines.
        let graph = describe(&self.library, cudnn_graph).ok()?;
        let configs = HEURISTICS.into_iter().filter_map(|mode| self.configs(&graph, mode).ok());
        configs.flatten().find_map(|config| {
            self.suits(cudnn_graph, &config).ok()?.then_some(())?;
            let plan = self.new_plan().ok()?.with_descriptors(401, &[&config]).ok()?;
            let plan = plan.finalized().ok()?;
            (plan.int(402).ok()? <= MOST_WORKSPACE).then_some(())?;
            plan.text(405).ok()
        })
    }

    /// Restores a plan from its text. Errors: the text is of another library or device.
    pub fn restore(&self, text: &[u8]) -> Result<Descriptor> {
        self.new_plan()?.with_text(405, text)?.finalized()
    }

    fn new_plan(&self) -> Result<Descriptor> {
        Descriptor::new(&self.library, Kind::Plan)?.with_descriptors(407, &[&self.device])
    }

    /// Engines with their settings, those that the library expects to be fastest first.
    fn configs(&self, graph: &Descriptor, mode: c_int) -> Result<Vec<Descriptor>> {
        Descriptor::new(&self.library, Kind::Heuristics)?
            .with_descriptors(201, &[graph])?
            .with(200, Enum::HeuristicsMode, mode)?
            .with_descriptors(204, &[&self.device])?
            .finalized()?
            .descriptors(202, Kind::EngineConfig, CANDIDATES)
    }

    /// Whether the engine rounds, and reorders sums, no more than is allowed.
    fn suits(&self, cudnn_graph: &CudnnGraph, config: &Descriptor) -> Result<bool> {
        let engines = config.descriptors(300, Kind::Engine, 1)?;
        let Some(engine) = engines.first() else { return Ok(false) };
        let notes = engine.enums(1303, Enum::NumericalNote)?;
        // Tensor cores round operands of f32 to TF32.
        let is_single = cudnn_graph.tensors.first().is_some_and(|x| x.dtype == DType::F32);
        let rounds = [TENSOR_CORE, DOWN_CONVERTED];
        Ok(!notes.iter().any(|note| {
            INEXACT.contains(note)
                || *note == NONDETERMINISTIC && !cudnn_graph.any_order
                || is_single && !self.allow_tf32 && rounds.contains(note)
        }))
    }
}
