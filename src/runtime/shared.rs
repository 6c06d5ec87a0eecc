//! State shared by the launch thread, the threads beside it and the recording threads.

use crate::backend::Backend;
use crate::buffer::Bytes;
use crate::cache::disk::Disk;
use crate::cache::key::Key;
use crate::cache::paths::Paths;
use crate::cache::{Cache, Capacity};
use crate::dynamic::{Families, Policy};
use crate::error::Result;
use crate::plan::{Limit, Plan, PlanMode};
use crate::record::Operator;
use crate::runtime::observe::{Observed, oom_report};
use crate::runtime::options::{self, Options};
use crate::runtime::program::{CompiledTrace, Prefetched, Unlearned};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Programs kept in memory by one context.
pub const PROGRAMS: Capacity = Capacity { entries: 1024, bytes: 512 << 20 };

/// The release, and the sources: any change to them may change programs.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("TORCHACC_SOURCES"));

pub struct Shared {
    pub backend: Box<dyn Backend>,
    pub cache: Cache<CompiledTrace>,
    pub paths: Paths<CompiledTrace>,
    pub disk: Option<Disk>,
    /// Operations from which programs are kept there.
    pub disk_from: usize,
    pub families: Families,
    /// Programs of the last run, to be planned for other sizes; the launcher passes them on.
    pub unlearned: Mutex<Vec<Unlearned>>,
    /// Traces that are likely to come, with their programs in the cache.
    pub prefetched: Mutex<Vec<Prefetched>>,
    pub policy: Policy,
    pub last_program: Mutex<Option<Arc<CompiledTrace>>>,
    pub observed: Observed,
    pub trace_limit: usize,
    pub trace_bytes: usize,
    /// Nodes from which a program may start with a quick plan.
    pub quick_from: usize,
    /// Bytes that a program may take besides its inputs; 0: no limit.
    memory_limit: AtomicU64,
    host_memory_limit: u64,
    /// Whether the backend's missing features were reported.
    pub lack_is_reported: AtomicBool,
    /// Whether the context is ending, so that background work is no longer needed.
    pub is_ending: AtomicBool,
    /// A plugin for programs that are to run on OpenXLA.
    pub openxla: Option<PathBuf>,
}

impl Shared {
    /// Starts no thread and takes no memory for tensors.
    pub fn new(options: Options) -> Result<Shared> {
        let (backend, warning) = options::backend(&options)?;
        let observed = Observed::new(&options)?;
        warning.into_iter().for_each(|warning| observed.warn(warning));
        backend.pool().set_exact(options.memory_limit != 0);
        let disk = |folder| Disk::new(folder, options.cache_limit as u64);
        Ok(Shared {
            backend,
            cache: Cache::new(PROGRAMS, CompiledTrace::nbytes),
            paths: Paths::default(),
            disk: options.cache_folder.map(disk),
            disk_from: options.cache_from,
            families: Families::default(),
            unlearned: Mutex::default(),
            prefetched: Mutex::default(),
            policy: options.policy,
            last_program: Mutex::default(),
            observed,
            trace_limit: options.trace_limit,
            trace_bytes: options.trace_bytes,
            quick_from: options.quick_from,
            memory_limit: options.memory_limit.into(),
            host_memory_limit: options.host_memory_limit,
            lack_is_reported: AtomicBool::default(),
            is_ending: AtomicBool::default(),
            openxla: options.openxla,
        })
    }

    pub fn allocate(&self, nbytes: usize) -> Result<Box<dyn Bytes>> {
        self.backend.allocate(nbytes)
    }

    /// The key of these parts, the backend, the memory limits and the version of this library.
    pub fn key_of(&self, mut parts: Vec<(&'static str, Vec<u8>)>) -> Key {
        parts.push(("backend", self.backend.fingerprint().into_bytes()));
        let limit = self.memory_limit();
        parts.push(("memory limit", limit.unwrap_or(0).to_le_bytes().into()));
        let on_host = limit.map_or(0, |_| self.host_memory_limit);
        parts.push(("limit on the host", on_host.to_le_bytes().into()));
        parts.push(("version", VERSION.into()));
        Key::new(parts)
    }

    /// Bytes that a program may take besides its inputs; `None`: no limit.
    pub fn memory_limit(&self) -> Option<u64> {
        Some(self.memory_limit.load(Relaxed)).filter(|&limit| limit != 0)
    }

    /// The mode in which plans are searched for.
    pub fn plan_mode(&self) -> PlanMode<'static> {
        let within = |bytes| PlanMode::Within(Limit { bytes, on_host: self.host_memory_limit });
        self.memory_limit().map_or(PlanMode::Search, within)
    }

    pub fn is_within_limit(&self, plan: &Plan) -> bool {
        self.memory_limit().is_none_or(|limit| plan.memory() <= limit)
    }

    /// Error: `OutOfMemory`, with the plan's size and peak, if it exceeds the limit.
    pub fn check_limit(&self, plan: &Plan, operators: &[Operator]) -> Result<()> {
        match self.memory_limit() {
            Some(limit) if plan.memory() > limit => {
                Err(oom_report::over_limit(plan, operators, limit))
            }
            _ => Ok(()),
        }
    }

    /// Limits the bytes that programs take from now on; 0: no limit. Programs that were found under another limit are looked up
    /// anew. To be called by the launch thread while nothing else runs, or before there is one.
    pub fn limit_memory(&self, limit: u64) {
        self.memory_limit.store(limit, Relaxed);
        self.backend.pool().set_exact(limit != 0);
        self.families.forget_plans();
        // Under this lock, so that no prefetched program becomes a path before both are done.
        let mut prefetched = self.prefetched.lock();
        prefetched.clear();
        self.paths.clear();
    }
}
