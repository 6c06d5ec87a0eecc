//! A device emulated on the host: the emitted sources, compiled by the C++ compiler that builds the extension, run thread by
//! thread. It is slow, and correct exactly when the sources are: indices, barriers, rounding but for the last bits of
//! transcendental functions. So everything above the driver is tested without a GPU. In debug builds only.
#![expect(unsafe_code, reason = "kernels loaded as a shared library")]

mod cudnn_graph;

use super::Cuda;
use super::cudnn_graph::CudnnGraph;
use super::device::{Device, Launch, Limits, Matrix, Prepared, Product, Replay};
use super::emit::{Shape, Source, prelude};
use crate::backend::memory::Pool;
use crate::buffer::Location;
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::op::Ty;
use crate::op::array::Array;
use crate::plan::LaneId;
use libloading::Library;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

type Run = unsafe extern "C" fn(kernel_args: *const u64, shape: *const u32);

struct Kernel {
    run: Run,
    kernel_args: usize,
    queue: Arc<Queue>,
    launches: Arc<AtomicU64>,
    /// Keeps the code in memory.
    _library: Arc<Library>,
}

/// An operation that is queued while work is captured.
enum Queued {
    Launch(Run, Shape, Vec<u64>),
    Multiply(Product, [usize; 3], Option<[usize; 2]>),
    CudnnGraph(Arc<CudnnGraph>, Vec<u64>),
}

/// One grid at a time: a library has one set of thread indices.
static TURN: Mutex<()> = Mutex::new(());
static LOADED: LazyLock<Mutex<HashMap<String, Loaded>>> = LazyLock::new(Mutex::default);

type Loaded = (Run, Arc<Library>);

/// `None`: operations are executed at once.
type Queue = Mutex<Option<Vec<Queued>>>;

#[derive(Default)]
pub struct Emulated {
    queue: Arc<Queue>,
    /// Number of launches requested one by one.
    pub launches: Arc<AtomicU64>,
    /// Whether there is a library, which computes every graph by its meaning.
    library: bool,
    late: Mutex<Late>,
}

type Work = Box<dyn FnOnce() + Send>;

/// Work on side streams: done as late as possible, when it is joined.
#[derive(Default)]
struct Late {
    /// How often some was asked for, and the stream of the last.
    asked: usize,
    stream: Option<LaneId<u64>>,
    /// What waits on each stream, with the number for which it was asked.
    waiting: HashMap<Option<LaneId<u64>>, VecDeque<(usize, Work)>>,
}

impl Late {
    /// The next work on the stream of this number that comes no later.
    fn next(&mut self, number: usize) -> Option<Work> {
        let has = |queue: &&mut VecDeque<(usize, _)>| queue.iter().any(|(n, _)| *n == number);
        Some(self.waiting.values_mut().find(has)?.pop_front()?.1)
    }
}

impl Emulated {
    /// A device with a library.
    pub fn with_library() -> Emulated {
        Emulated { library: true, ..Emulated::default() }
    }

    /// Puts `work` on the side stream, in [`Device::on_side_stream`].
    pub fn later(&self, work: Work) {
        let mut late = self.late.lock();
        let (stream, number) = (late.stream, late.asked);
        late.waiting.entry(stream).or_default().push_back((number, work));
    }
}

/// The CUDA backend on the host.
pub fn backend() -> Cuda {
    Cuda::new(Arc::new(Emulated::default()), Pool::new(), true)
}

fn run(run: Run, shape: Shape, kernel_args: &[u64]) {
    let _turn = TURN.lock();
    let shape = [shape.grid[0], shape.grid[1], shape.grid[2], shape.block];
    // SAFETY: a kernel of `build`, with as many words as its source has; their addresses are the test's.
    unsafe { run(kernel_args.as_ptr(), shape.as_ptr()) }
}

impl Launch for Kernel {
    fn launch(&self, shape: Shape, kernel_args: &[u64]) -> Result<()> {
        assert_eq!(kernel_args.len(), self.kernel_args, "a kernel gets its arguments");
        self.launches.fetch_add(1, Ordering::Relaxed);
        match self.queue.lock().as_mut() {
            Some(queue) => queue.push(Queued::Launch(self.run, shape, kernel_args.to_vec())),
            None => run(self.run, shape, kernel_args),
        }
        Ok(())
    }
}

/// Bytes of workspace that the library reports.
const WORKSPACE: usize = 1000;

/// A graph, computed at once or when the capture with it is replayed.
struct Meant {
    cudnn_graph: Arc<CudnnGraph>,
    queue: Arc<Queue>,
}

impl Prepared for Meant {
    fn workspace(&self) -> u64 {
        WORKSPACE as u64
    }

    fn queue(&self, addresses: &[u64], workspace: u64) -> Result<()> {
        assert!(addresses.iter().all(|address| address % 16 == 0), "addresses {addresses:x?}");
        // The workspace's old contents are lost.
        slice(workspace as usize, WORKSPACE).fill(0x77);
        match self.queue.lock().as_mut() {
            Some(queue) => {
                queue.push(Queued::CudnnGraph(self.cudnn_graph.clone(), addresses.to_vec()))
            }
            None => cudnn_graph::run(&self.cudnn_graph, addresses),
        }
        Ok(())
    }
}

struct Captured(Vec<Queued>);

impl Replay for Captured {
    fn replay(&self) -> Result<()> {
        for queued in &self.0 {
            match queued {
                Queued::Launch(kernel, shape, kernel_args) => run(*kernel, *shape, kernel_args),
                Queued::Multiply(product, at, scales) => multiply(product, *at, *scales),
                Queued::CudnnGraph(cudnn_graph, addresses) => {
                    cudnn_graph::run(cudnn_graph, addresses)
                }
            }
        }
        Ok(())
    }
}

/// The text of one library.
fn text(sources: &[&Source]) -> String {
    let mut text = format!("{}\n{}\n", include_str!("host.hpp"), prelude());
    for Source { name, text: kernel, kernel_args } in sources {
        text += kernel;
        text += &format!(
            "static void call_{name}(const void* words) {{ {name}(*(const Words<{kernel_args}>*)words); }}\n\
             extern \"C\" void run_{name}(const u64* words, const u32* shape) {{ host::run(call_{name}, words, shape); }}\n"
        );
    }
    text
}

fn build(sources: &[&Source]) -> Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("torchacc-emulated-{}", std::process::id()));
    let failed = |what: String| Error::new(Code::Internal, what);
    std::fs::create_dir_all(&folder).map_err(|e| failed(e.to_string()))?;
    let source: PathBuf = folder.join(format!("{number}.cpp"));
    let library = source.with_extension("so");
    std::fs::write(&source, text(sources)).map_err(|e| failed(e.to_string()))?;
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    // A GPU cannot access unaligned vectors.
    let aligned = ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"];
    // Fibers jump between stacks, which a fortified longjmp, the default of some distributions, takes for an error.
    let flags =
        ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-U_FORTIFY_SOURCE"];
    let output = Command::new(compiler)
        .args(flags)
        .args(aligned)
        .args([&source, &PathBuf::from("-o"), &library])
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!(
            "{}: {}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    // SAFETY: it has no initialisers but those of empty vectors.
    let loaded = unsafe { Library::new(&library) }.map_err(|e| failed(e.to_string()))?;
    std::fs::remove_file(&source).and_then(|()| std::fs::remove_file(&library)).ok();
    let loaded = Arc::new(loaded);
    for source in sources {
        // SAFETY: `text` gave it this type.
        let symbol = unsafe { loaded.get::<Run>(format!("run_{}", source.name)) };
        let run = *symbol.map_err(|e| failed(e.to_string()))?;
        LOADED.lock().insert(source.name.clone(), (run, loaded.clone()));
    }
    Ok(())
}

pub fn slice<'a>(address: usize, len: usize) -> &'a mut [u8] {
    // SAFETY: addresses are those of memory that the test lends; nobody else uses it while a device runs.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(address), len) }
}

/// Computes one element after the other.
fn multiply(product: &Product, at: [usize; 3], scales: Option<[usize; 2]>) {
    let Product { dtypes, batch, m, n, k, .. } = *product;
    let element = |side: usize, i: u64| {
        let (dtype, size) = (dtypes[side], dtypes[side].size());
        let mut x = Array::zeros(&Ty::new(dtype, &[1]));
        x.set_raw(0, slice(at[side] + i as usize * size, size));
        x.f64(0)
    };
    let index = |x: Matrix, z: u64, row: u64, column: u64| match x.transposed {
        false => z * x.batch + row * x.leading + column,
        true => z * x.batch + column * x.leading + row,
    };
    let number =
        |address: usize| f32::from_le_bytes([0, 1, 2, 3].map(|i| slice(address + i, 1)[0]));
    let scale = scales.map_or(1.0, |[a, b]| number(a) * number(b));
    let rows = (0..batch).flat_map(|z| (0..m).map(move |row| (z, row)));
    for (z, row, column) in rows.flat_map(|(z, row)| (0..n).map(move |column| (z, row, column))) {
        let term = |i| {
            element(0, index(product.a, z, row, i)) * element(1, index(product.b, z, i, column))
        };
        let sum: f64 = (0..k).map(term).sum();
        let mut y = Array::zeros(&Ty::new(dtypes[2], &[1]));
        let single = || f64::from(sum as f32 * scale);
        y.set_f64(0, if dtypes[2] == DType::F64 { sum } else { single() });
        let to = at[2] + index(product.c, z, row, column) as usize * dtypes[2].size();
        slice(to, dtypes[2].size()).copy_from_slice(y.raw(0));
    }
}

impl Device for Emulated {
    fn fingerprint(&self) -> String {
        "emulated".into()
    }

    fn missing_features(&self) -> Option<String> {
        None
    }

    fn limits(&self) -> Limits {
        Limits { multiprocessors: 132, shared: 227 << 10 }
    }

    fn allocate(&self, nbytes: usize) -> Result<usize> {
        let memory = vec![0x55u64; nbytes.div_ceil(8) + 32].leak();
        Ok(memory.as_mut_ptr().expose_provenance().next_multiple_of(256))
    }

    fn free(&self, _: usize) {}

    fn read(&self, address: usize, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(slice(address, to.len()));
        Ok(())
    }

    fn write(&self, from: &[u8], address: usize) -> Result<()> {
        slice(address, from.len()).copy_from_slice(from);
        Ok(())
    }

    fn load(&self, sources: &[Source]) -> Result<Vec<Arc<dyn Launch>>> {
        let known = |source: &&Source| LOADED.lock().contains_key(&source.name);
        let mut fresh: Vec<&Source> = sources.iter().filter(|source| !known(source)).collect();
        fresh.sort_by_key(|source| &source.name);
        fresh.dedup_by_key(|source| &source.name);
        if !fresh.is_empty() {
            build(&fresh)?;
        }
        let kernel = |source: &Source| -> Arc<dyn Launch> {
            let (run, library) = LOADED.lock()[&source.name].clone();
            Arc::new(Kernel {
                run,
                kernel_args: source.kernel_args,
                queue: self.queue.clone(),
                launches: self.launches.clone(),
                _library: library,
            })
        };
        Ok(sources.iter().map(kernel).collect())
    }

    fn prepare(&self, cudnn_graph: &CudnnGraph) -> Result<Option<Arc<dyn Prepared>>> {
        let meant =
            || Meant { cudnn_graph: Arc::new(cudnn_graph.clone()), queue: self.queue.clone() };
        Ok(self.library.then(|| Arc::new(meant()) as Arc<dyn Prepared>))
    }

    fn multiplies_float8(&self) -> bool {
        true
    }

    fn multiply(
        &self,
        product: &Product,
        at: [usize; 3],
        scales: Option<[usize; 2]>,
    ) -> Result<()> {
        match self.queue.lock().as_mut() {
            Some(queue) => queue.push(Queued::Multiply(*product, at, scales)),
            None => multiply(product, at, scales),
        }
        Ok(())
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn Replay>>> {
        *self.queue.lock() = Some(Vec::new());
        let done = work();
        let queued = self.queue.lock().take().unwrap_or_default();
        done.map(|()| Some(Box::new(Captured(queued)) as Box<dyn Replay>))
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn location(&self) -> Location {
        Location { is_host: false, ..Location::HOST }
    }

    fn queue(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        work()
    }

    fn on_side_stream(
        &self,
        lane: Option<LaneId<u64>>,
        work: &mut dyn FnMut(Location) -> Result<()>,
    ) -> Result<usize> {
        let number = {
            let mut late = self.late.lock();
            late.asked += 1;
            late.stream = lane;
            late.asked
        };
        work(self.location()).map(|()| number)
    }

    fn copy_aside(
        &self,
        lane: LaneId<u64>,
        [from, to]: [usize; 2],
        nbytes: usize,
    ) -> Result<usize> {
        let copy = move || slice(to, nbytes).copy_from_slice(slice(from, nbytes));
        self.on_side_stream(Some(lane), &mut |_| {
            self.later(Box::new(copy));
            Ok(())
        })
    }

    fn join(&self, number: usize) -> Result<()> {
        self.wait_for(number)
    }

    fn wait_for(&self, number: usize) -> Result<()> {
        std::iter::from_fn(|| self.late.lock().next(number)).for_each(|work| work());
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }
}
