//! Sources to launchable kernels: compiled by several threads at once, kept while they are in use, and on disk.
//!
//! **Invariant:** machine code from disk is used only for the whole text, architecture, compiler and options that it was
//! made from.
#![expect(unsafe_code, reason = "modules of the driver's")]

use super::super::device::Launch;
use super::super::emit::{Shape, Source};
use super::api::Handle;
use super::context::Context;
use super::nvrtc::{Nvrtc, OPTIONS, whole};
use crate::cache::disk::{Disk, Entry};
use crate::cache::key::Key;
use crate::error::{Code, Error, Result};
use crate::internal;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

/// Stack bytes of a thread that compiles: large kernels recurse deeply.
const STACK: usize = 32 << 20;

/// `CUfunction_attribute`.
const STATIC_SHARED: c_int = 1;
const MOST_DYNAMIC_SHARED: c_int = 8;

pub struct Modules {
    pub nvrtc: Nvrtc,
    /// The architecture that kernels are compiled for.
    pub target: String,
    pub disk: Option<Arc<Disk>>,
    known: Mutex<HashMap<Source, Weak<Kernel>>>,
    /// Progress of the last request: the number of sources compiled, and the number to compile.
    compiled: AtomicUsize,
    missing: AtomicUsize,
}

struct Kernel {
    context: Arc<Context>,
    name: String,
    kernel_args: usize,
    module: Handle,
    function: Handle,
    /// Bytes of dynamic shared memory that it may be launched with at present, and at most.
    allowed: AtomicU32,
    most: u32,
}

impl Modules {
    pub fn new(nvrtc: Nvrtc, target: String, disk: Option<Arc<Disk>>) -> Modules {
        Modules {
            nvrtc,
            target,
            disk,
            known: Mutex::default(),
            compiled: AtomicUsize::new(0),
            missing: AtomicUsize::new(0),
        }
    }

    /// See [`super::super::device::Device::load`].
    pub fn load(&self, context: &Arc<Context>, sources: &[Source]) -> Result<Vec<Arc<dyn Launch>>> {
        let mut kernels: Vec<Option<Arc<Kernel>>> = {
            let known = self.known.lock();
            sources.iter().map(|source| known.get(source)?.upgrade()).collect()
        };
        let mut missing: Vec<&Source> = (sources.iter().zip(&kernels))
            .filter_map(|(source, kernel)| kernel.is_none().then_some(source))
            .collect();
        missing.sort_by(|a, b| a.name.cmp(&b.name));
        missing.dedup();
        self.compiled.store(0, Ordering::Relaxed);
        self.missing.store(missing.len(), Ordering::Relaxed);
        let cubins = in_parallel(&missing, |source| {
            let cubin = self.cubin(source);
            self.compiled.fetch_add(1, Ordering::Relaxed);
            cubin
        })?;
        let mut made = HashMap::new();
        for (source, cubin) in missing.into_iter().zip(cubins) {
            made.insert(source, Arc::new(Kernel::new(context, source, &cubin)?));
        }
        for (kernel, source) in kernels.iter_mut().zip(sources) {
            if kernel.is_none() {
                *kernel = made.get(source).cloned();
            }
        }
        let mut known = self.known.lock();
        known.retain(|_, kernel| kernel.strong_count() > 0);
        known.extend(made.iter().map(|(&source, kernel)| (source.clone(), Arc::downgrade(kernel))));
        let kernels = kernels.into_iter().map(|kernel| Some(kernel? as Arc<dyn Launch>));
        match kernels.collect() {
            Some(kernels) => Ok(kernels),
            None => internal!("a source was left uncompiled"),
        }
    }

    /// As `Backend::kernels_compiled`.
    pub fn compiled(&self) -> (u64, u64) {
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed) as u64;
        (of(&self.compiled), of(&self.missing))
    }

    /// Machine code from disk, else compiled. A folder that cannot be used costs the time to compile.
    fn cubin(&self, source: &Source) -> Result<Vec<u8>> {
        let compile = || Ok(self.nvrtc.compile(source, &self.target)?.0);
        let Some(disk) = &self.disk else { return compile() };
        let (major, minor) = self.nvrtc.version;
        let key = Key::new(vec![
            ("kernel", whole(source).into_bytes()),
            ("target", self.target.clone().into_bytes()),
            ("compiler", format!("NVRTC {major}.{minor} {OPTIONS:?}").into_bytes()),
        ]);
        match disk.find(&key, |bytes| Some(bytes.to_vec())).0 {
            Entry::Found(cubin) => Ok(cubin),
            Entry::Closed(_) => compile(),
            Entry::Absent(claim) => {
                let cubin = compile()?;
                disk.store(&key, &cubin, claim).ok();
                Ok(cubin)
            }
        }
    }
}

/// Results of `work` on every item, on as many threads as there are cores. Errors: that of the first item that fails.
pub fn in_parallel<I: Sync, T: Send + Sync>(
    items: &[I],
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let results: Vec<OnceLock<Result<T>>> = items.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some((item, result)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            items.get(at).zip(results.get(at))
        } {
            result.set(work(item)).ok();
        }
    };
    let threads = thread::available_parallelism().map_or(1, |n| n.get()).min(items.len());
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run).is_ok();
        // If the system starts no threads, this one does the work.
        if !(0..threads).map(start).fold(false, |any, started| any | started) {
            run();
        }
    });
    let missing = || Err(Error::new(Code::Internal, "a thread ended before its work"));
    results.into_iter().map(|result| result.into_inner().unwrap_or_else(missing)).collect()
}

impl Kernel {
    fn new(context: &Arc<Context>, source: &Source, cubin: &[u8]) -> Result<Kernel> {
        let api = &context.api;
        let Ok(name) = CString::new(&source.name[..]) else {
            return internal!("a kernel's name has a zero byte");
        };
        let what = || format!("loading kernel {}", source.name);
        let _entered = context.enter()?;
        let mut module = 0;
        // SAFETY (all calls): as `cuda.h` says; a cubin says its own length.
        let status = unsafe { (api.load_module)(&mut module, cubin.as_ptr().cast()) };
        api.check(status, &what())?;
        // From here on the module is unloaded with the kernel.
        let mut kernel = Kernel {
            context: context.clone(),
            name: source.name.clone(),
            kernel_args: source.kernel_args,
            module,
            function: 0,
            allowed: AtomicU32::new(0),
            most: 0,
        };
        let status = unsafe { (api.function)(&mut kernel.function, module, name.as_ptr()) };
        api.check(status, &what())?;
        let fixed = kernel.attribute(STATIC_SHARED)?;
        kernel.most = context.shared.saturating_sub(fixed);
        kernel.allowed = AtomicU32::new(kernel.attribute(MOST_DYNAMIC_SHARED)?);
        Ok(kernel)
    }

    fn attribute(&self, which: c_int) -> Result<u32> {
        let (api, mut value) = (&self.context.api, 0);
        // SAFETY: as `cuda.h` says.
        let status = unsafe { (api.function_attribute)(&mut value, which, self.function) };
        api.check(status, "asking what a kernel needs").map(|()| value.max(0) as u32)
    }

    /// Allows launches with `shared` bytes of dynamic shared memory.
    fn allow(&self, shared: u32) -> Result<()> {
        if shared <= self.allowed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (name, most, api) = (&self.name, self.most, &self.context.api);
        if shared > most {
            return internal!(
                "kernel {name} wants {shared} bytes of shared memory; there are {most}"
            );
        }
        // SAFETY: as `cuda.h` says.
        let status = unsafe {
            (api.set_function_attribute)(self.function, MOST_DYNAMIC_SHARED, shared as c_int)
        };
        api.check(status, &format!("giving kernel {name} {shared} bytes of shared memory"))?;
        self.allowed.store(shared, Ordering::Relaxed);
        Ok(())
    }
}

impl Launch for Kernel {
    fn launch(&self, shape: Shape, kernel_args: &[u64]) -> Result<()> {
        let name = &self.name;
        if kernel_args.len() != self.kernel_args {
            return internal!(
                "kernel {name} takes {} arguments, not {}",
                self.kernel_args,
                kernel_args.len()
            );
        }
        if shape.grid.contains(&0) {
            return Ok(());
        }
        let api = &self.context.api;
        let _lock = self.context.lock_stream()?;
        self.allow(shape.shared)?;
        let [x, y, z] = shape.grid;
        let mut parameters = [kernel_args.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the one parameter is a struct of `self.kernel_args` words, which is read before the call returns.
        let status = unsafe {
            (api.launch)(
                self.function,
                x,
                y,
                z,
                shape.block,
                1,
                1,
                shape.shared,
                self.context.stream,
                parameters.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        match status {
            0 => Ok(()),
            status => api.check(status, &format!("launching kernel {name} as {shape:?}")),
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Queued work may still run the kernel, and the lock prevents captures. If the context is lost, so is the module.
        let Ok(_lock) = self.context.lock_stream() else { return };
        if self.context.synchronize().is_ok() {
            // SAFETY: nothing uses it any more.
            unsafe { (self.context.api.unload_module)(self.module) };
        }
    }
}
