//! The parts of programs that a plugin of OpenXLA computes: compiled once, kept on disk, run on the memory of the plan.

use super::access::Bound;
use super::dense::{Dense, dense};
use crate::backend::EngineCounts;
use crate::backend::memory::Pool;
use crate::cache::disk::{Disk, Entry};
use crate::cache::key::Key;
use crate::error::Result;
use crate::graph::module::graph_of;
use crate::op::module::Body;
use crate::openxla::{self, Client, Executable, HloModule};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// An OpenXLA plugin. Its client, which has threads, is made for the first module.
pub struct Engine {
    file: PathBuf,
    pub fingerprint: String,
    /// Where executables are kept for other processes, if anywhere.
    disk: Option<Disk>,
    client: Mutex<Option<Arc<Client>>>,
    /// Executables that some program holds.
    known: Mutex<HashMap<Arc<Body>, Weak<Executable>>>,
    compiled: AtomicU64,
    loaded: AtomicU64,
    runs: AtomicU64,
}

impl Engine {
    /// Errors: as [`openxla::client`].
    pub fn new(file: &Path, disk: Option<Disk>) -> Result<Engine> {
        Ok(Engine {
            file: file.into(),
            fingerprint: openxla::fingerprint(file)?,
            disk,
            client: Mutex::default(),
            known: Mutex::default(),
            compiled: AtomicU64::default(),
            loaded: AtomicU64::default(),
            runs: AtomicU64::default(),
        })
    }

    pub fn counts(&self) -> EngineCounts {
        let of = |count: &AtomicU64| count.load(Relaxed);
        EngineCounts {
            compiled: of(&self.compiled),
            loaded: of(&self.loaded),
            runs: of(&self.runs),
        }
    }

    fn client(&self) -> Result<Arc<Client>> {
        let mut client = self.client.lock();
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let made = openxla::client(&self.file)?;
        *client = Some(made.clone());
        Ok(made)
    }

    /// A module ready to run. Errors: the plugin's.
    pub fn module(self: &Arc<Engine>, body: &Arc<Body>) -> Result<Module> {
        let executable = self.executable(body).map_err(|error| error.within(described(body)))?;
        Ok(Module { engine: self.clone(), executable, body: body.clone() })
    }

    /// The executable that some program holds, else one from disk, else a compiled one.
    fn executable(&self, body: &Arc<Body>) -> Result<Arc<Executable>> {
        if let Some(known) = self.known.lock().get(body).and_then(Weak::upgrade) {
            return Ok(known);
        }
        // Without the lock: the plugin may take long, and other programs would wait.
        let made = Arc::new(self.made(&|| HloModule::new(&graph_of(body).into()))?);
        let mut known = self.known.lock();
        known.retain(|_, executable| executable.strong_count() > 0);
        known.insert(body.clone(), Arc::downgrade(&made));
        Ok(made)
    }

    /// From disk, else compiled. A folder that cannot be used, or a plugin that writes no executables, costs the time
    /// to compile.
    fn made(&self, program: &dyn Fn() -> Result<HloModule>) -> Result<Executable> {
        let (client, wanted) = (self.client()?, program()?);
        let compile = |wanted| {
            let made = client.compiled(wanted);
            self.compiled.fetch_add(made.is_ok() as u64, Relaxed);
            made
        };
        let Some(disk) = &self.disk else { return compile(wanted) };
        let key = Key::new(vec![
            ("module", wanted.text().as_bytes().to_vec()),
            ("engine", self.fingerprint.clone().into_bytes()),
            ("machine", machine().into_bytes()),
        ]);
        let read = |bytes: &[u8]| client.restored(program().ok()?, bytes).ok();
        match disk.find(&key, read).0 {
            Entry::Found(executable) => {
                self.loaded.fetch_add(1, Relaxed);
                Ok(executable)
            }
            Entry::Closed(_) => compile(wanted),
            Entry::Absent(claim) => {
                let executable = compile(wanted)?;
                if let Ok(Some(bytes)) = executable.serialized() {
                    disk.store(&key, &bytes, claim).ok();
                }
                Ok(executable)
            }
        }
    }
}

/// A compiled module.
pub struct Module {
    engine: Arc<Engine>,
    executable: Arc<Executable>,
    body: Arc<Body>,
}

impl Module {
    /// Reads all operands before it writes a result. Errors: the plugin's.
    pub fn run(&self, reads: &[Bound], writes: &[Bound], pool: &Arc<Pool>) -> Result<()> {
        self.engine.runs.fetch_add(1, Relaxed);
        self.results(reads, writes, pool).map_err(|error| error.within(described(&self.body)))
    }

    fn results(&self, reads: &[Bound], writes: &[Bound], pool: &Arc<Pool>) -> Result<()> {
        let results = {
            let operands: Vec<Dense> =
                reads.iter().map(|read| dense(read, pool)).collect::<Result<_>>()?;
            let bytes: Vec<&[u8]> = operands.iter().map(|read| read.bytes_of_dense()).collect();
            self.executable.start(&bytes)?
        };
        let mut bytes: Vec<&mut [u8]> = writes.iter().map(Bound::result_bytes).collect();
        results.copy_to(&mut bytes)
    }
}

/// Description of a module, for errors.
fn described(body: &Body) -> String {
    format!("a module of {} primitives", body.nodes.len())
}

/// Machine code of one processor need not run on another.
fn machine() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let features = ["flags", "Features"];
    let line = about.lines().find(|line| features.iter().any(|name| line.starts_with(name)));
    format!("{} {}", std::env::consts::ARCH, line.unwrap_or_default())
}
