//! The primary context of a GPU, which all libraries of the process share (PyTorch's too), and the stream of programs in it.
//!
//! **Invariant:** work is queued only under the [`StreamLock`], so that no other thread's work falls into a capture; every
//! call restores the thread's current context and its capture mode.
#![expect(unsafe_code, reason = "calls of the driver")]

use super::api::{Api, Handle, NOT_READY, OUT_OF_MEMORY, Refused};
use crate::error::{Code, Error, Result};
use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard};
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::path::PathBuf;
use std::ptr;

/// `CUdevice_attribute`.
const MULTIPROCESSORS: c_int = 16;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;
const SHARED_OPTIN: c_int = 97;

/// A stream that does not wait for the default stream's work, nor the default stream for its work.
const NON_BLOCKING: u32 = 1;
pub const NO_TIMING: u32 = 2;

pub struct Context {
    pub api: Api,
    /// Index among the GPUs that the driver shows.
    pub ordinal: u32,
    device: c_int,
    context: Handle,
    /// The stream of programs.
    pub stream: Handle,
    /// Whether queued work is being captured.
    stream_lock: ReentrantMutex<Cell<bool>>,
    /// Events that are free for reuse.
    events: Mutex<Vec<Handle>>,
    pub name: String,
    /// Compute capability times ten.
    pub capability: u32,
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may ask for.
    pub shared: u32,
    /// The newest CUDA that the driver supports: major and minor.
    pub version: (i32, i32),
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`: threads may make any calls while a stream is captured, except to wait for it.
pub const RELAXED: c_int = 2;

/// While it lives the calling thread is in the context, and its calls end no capture: those of PyTorch forbid threads in
/// their initial mode to allocate memory, load kernels or query events.
pub struct Entered<'a> {
    api: &'a Api,
    /// Whether the thread was in another context, or none.
    pushed: bool,
    /// The thread's previous capture mode.
    mode: c_int,
}

/// While it lives the calling thread is in the context, and the only one that queues work.
pub struct StreamLock<'a> {
    capturing: ReentrantMutexGuard<'a, Cell<bool>>,
    _entered: Entered<'a>,
}

impl Context {
    pub fn open(folders: &[PathBuf], ordinal: u32) -> std::result::Result<Context, Refused> {
        let api = Api::start(folders)?;
        let (mut version, mut context) = (0, 0);
        // SAFETY (all calls of this file): as `cuda.h` says, with room for the results.
        unsafe { api.check((api.version)(&mut version), "asking for the driver's version")? };
        let count = count(&api)?;
        if ordinal >= count {
            let why = format!(
                "there is no GPU {ordinal}, as the driver finds {count} (CUDA_VISIBLE_DEVICES may hide some). Name one from 0 \
                 on"
            );
            return Err(if count == 0 { Refused::Absent(why) } else { Refused::Broken(why) });
        }
        let (device, GpuInfo { name, capability }) = gpu_info(&api, ordinal)?;
        let multiprocessors = attribute(&api, device, MULTIPROCESSORS)?;
        let shared = attribute(&api, device, SHARED_OPTIN)?;
        let status = unsafe { (api.retain_context)(&mut context, device) };
        if status != 0 {
            let why = api.text(status);
            return Err(Refused::Broken(format!(
                "GPU {ordinal} ({name}) does not open: {why}. Look at nvidia-smi for who uses it or its memory"
            )));
        }
        let mut opened = Context {
            api,
            ordinal,
            device,
            context,
            stream: 0,
            stream_lock: ReentrantMutex::default(),
            events: Mutex::default(),
            name,
            capability,
            multiprocessors,
            shared,
            version: (version / 1000, version % 1000 / 10),
        };
        opened.stream = opened.new_stream()?;
        Ok(opened)
    }

    /// Makes the context the calling thread's current one for as long as the result lives.
    pub fn enter(&self) -> Result<Entered<'_>> {
        let (api, mut current, mut mode) = (&self.api, 0, RELAXED);
        api.check(unsafe { (api.current_context)(&mut current) }, "asking for the context")?;
        let pushed = current != self.context;
        if pushed {
            api.check(unsafe { (api.push_context)(self.context) }, "entering the context")?;
        }
        let mut entered = Entered { api, pushed, mode };
        api.check(unsafe { (api.exchange_capture_mode)(&mut mode) }, "entering the context")?;
        entered.mode = mode;
        Ok(entered)
    }

    /// Waits for other threads that are queueing or capturing; a thread may hold several of these locks.
    pub fn lock_stream(&self) -> Result<StreamLock<'_>> {
        Ok(StreamLock { capturing: self.stream_lock.lock(), _entered: self.enter()? })
    }

    /// A new stream, owned by the caller.
    pub fn new_stream(&self) -> Result<Handle> {
        let mut stream = 0;
        let _entered = self.enter()?;
        let status = unsafe { (self.api.create_stream)(&mut stream, NON_BLOCKING) };
        self.api.check(status, "making a stream").map(|()| stream)
    }

    pub fn drop_stream(&self, stream: Handle) {
        // An error cannot be handled here.
        if let Ok(_entered) = self.enter() {
            unsafe { (self.api.destroy_stream)(stream) };
        }
    }

    /// An event that can be waited for, to be returned by [`Context::give_event`].
    pub fn event(&self) -> Result<Handle> {
        if let Some(event) = self.events.lock().pop() {
            return Ok(event);
        }
        self.new_event(NO_TIMING)
    }

    pub fn give_event(&self, event: Handle) {
        self.events.lock().push(event);
    }

    /// A new event, owned by the caller.
    pub fn new_event(&self, flags: u32) -> Result<Handle> {
        let mut event = 0;
        let _entered = self.enter()?;
        self.api.check(unsafe { (self.api.create_event)(&mut event, flags) }, "making an event")?;
        Ok(event)
    }

    pub fn drop_event(&self, event: Handle) {
        // An error cannot be handled here.
        if let Ok(_entered) = self.enter() {
            unsafe { (self.api.destroy_event)(event) };
        }
    }

    /// Records the event, which happens when the stream's work so far is done.
    pub fn record(&self, event: Handle, stream: Handle, _lock: &StreamLock) -> Result<()> {
        self.api.check(unsafe { (self.api.record_event)(event, stream) }, "recording an event")
    }

    /// Work put on the stream from now on waits for the event as it was last recorded; for nothing, if it never was.
    pub fn follow(&self, stream: Handle, event: Handle, _lock: &StreamLock) -> Result<()> {
        let status = unsafe { (self.api.wait_event)(stream, event, 0) };
        self.api.check(status, "letting a stream wait")
    }

    /// Whether the event has happened since it was last recorded, or was never recorded.
    pub fn has_happened(&self, event: Handle) -> Result<bool> {
        let _entered = self.enter()?;
        match unsafe { (self.api.query_event)(event) } {
            NOT_READY => Ok(false),
            status => self.api.check(status, "asking for an event").map(|()| true),
        }
    }

    /// Waits for the event, without keeping other threads from queueing.
    pub fn wait(&self, event: Handle, what: &str) -> Result<()> {
        let _entered = self.enter()?;
        self.api.check(unsafe { (self.api.synchronize_event)(event) }, what)
    }

    /// Waits for all work on the stream of programs.
    pub fn synchronize(&self) -> Result<()> {
        let event = self.event()?;
        let recorded = self.lock_stream().and_then(|stream_lock| {
            stream_lock.must_not_capture("wait")?;
            self.record(event, self.stream, &stream_lock)
        });
        let done = recorded.and_then(|()| self.wait(event, "waiting for the GPU"));
        self.give_event(event);
        done
    }

    /// Waits for all streams of the process, under the lock: during a capture that would be an error.
    pub fn settle(&self) -> Result<()> {
        let stream_lock = self.lock_stream()?;
        stream_lock.must_not_capture("wait")?;
        self.api.check(unsafe { (self.api.synchronize_context)() }, "waiting for the GPU")
    }
}

/// Memory.
impl Context {
    /// See [`super::super::device::Device::allocate`]. Uses the driver's plain allocator: the pool above calls it rarely, its
    /// addresses are valid on every stream and in graphs, and freed memory is available to PyTorch.
    pub fn allocate(&self, nbytes: usize) -> Result<usize> {
        let (mut address, mut free, mut total) = (0, 0, 0);
        let _entered = self.enter()?;
        let status = unsafe { (self.api.allocate)(&mut address, nbytes) };
        if status == OUT_OF_MEMORY && unsafe { (self.api.memory_info)(&mut free, &mut total) } == 0
        {
            let name = &self.name;
            let why = format!(
                "cannot allocate {nbytes} bytes on {name}: {free} of {total} bytes are free"
            );
            return Err(Error::new(Code::OutOfMemory, why));
        }
        self.api.check(status, &format!("allocating {nbytes} bytes on the GPU"))?;
        Ok(address as usize)
    }

    /// Page-locked memory, which every kernel accesses by the host's address (CUDA Driver API, "Unified Addressing").
    pub fn allocate_on_host(&self, nbytes: usize) -> Result<usize> {
        let mut start = ptr::null_mut();
        let _entered = self.enter()?;
        let status = unsafe { (self.api.allocate_pinned)(&mut start, nbytes, 0) };
        if status == OUT_OF_MEMORY {
            let why = format!("cannot lock {nbytes} bytes of the host's memory for offloading");
            return Err(Error::new(Code::OutOfMemory, why));
        }
        self.api.check(status, &format!("locking {nbytes} bytes of the host's memory"))?;
        Ok(start.expose_provenance())
    }

    pub fn free_on_host(&self, address: usize) {
        if let Ok(_entered) = self.enter() {
            unsafe { (self.api.free_pinned)(ptr::with_exposed_provenance_mut(address)) };
        }
    }

    /// Queues a copy between device memory and page-locked memory.
    pub fn copy(
        &self,
        to_host: bool,
        [from, to]: [usize; 2],
        nbytes: usize,
        stream: Handle,
    ) -> Result<()> {
        let status = match to_host {
            true => {
                let to = ptr::with_exposed_provenance_mut(to);
                // SAFETY: memory of a program, which waits for the copy before it is another's.
                unsafe { (self.api.copy_out)(to, from as u64, nbytes, stream) }
            }
            false => {
                let from = ptr::with_exposed_provenance(from);
                // SAFETY: as above.
                unsafe { (self.api.copy_in)(to as u64, from, nbytes, stream) }
            }
        };
        let (source, target) = if to_host { ("GPU", "host") } else { ("host", "GPU") };
        self.api.check(status, &format!("copying {nbytes} bytes from the {source} to the {target}"))
    }

    /// Waits until no queued work can use the memory, as drivers do for memory of this allocator.
    pub fn free(&self, address: usize) {
        // The memory of a lost context is lost with it.
        if let Ok(_entered) = self.enter() {
            unsafe { (self.api.free)(address as u64) };
        }
    }
}

impl StreamLock<'_> {
    /// Whether the work that this thread queues is being captured.
    pub fn is_capturing(&self) -> bool {
        self.capturing.get()
    }

    pub fn set_capturing(&self, capturing: bool) {
        self.capturing.set(capturing);
    }

    /// Errors: the calling thread is capturing.
    pub fn must_not_capture(&self, what: &str) -> Result<()> {
        match self.is_capturing() {
            true => Err(Error::new(Code::Internal, format!("captured work must not {what}"))),
            false => Ok(()),
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut popped = 0;
        unsafe { (self.api.exchange_capture_mode)(&mut self.mode) };
        if self.pushed {
            unsafe { (self.api.pop_context)(&mut popped) };
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // At the end of the process the driver may be gone already, so errors are ignored.
        let events = std::mem::take(&mut *self.events.lock());
        events.into_iter().for_each(|event| self.drop_event(event));
        if self.stream != 0 {
            self.drop_stream(self.stream);
        }
        unsafe { (self.api.release_context)(self.device) };
    }
}

/// Description of a GPU.
pub struct GpuInfo {
    pub name: String,
    /// Compute capability times ten.
    pub capability: u32,
}

/// The GPUs that the driver shows. Errors: `Unsupported` without a driver; the driver's.
pub fn list(folders: &[PathBuf]) -> Result<Vec<GpuInfo>> {
    let api = Api::start(folders).map_err(Refused::error)?;
    (0..count(&api)?).map(|ordinal| Ok(gpu_info(&api, ordinal)?.1)).collect()
}

fn count(api: &Api) -> Result<u32> {
    let mut count = 0;
    api.check(unsafe { (api.device_count)(&mut count) }, "counting GPUs")?;
    Ok(count.max(0) as u32)
}

/// The driver's number of an existing GPU, and its description.
fn gpu_info(api: &Api, ordinal: u32) -> Result<(c_int, GpuInfo)> {
    let mut device = 0;
    api.check(unsafe { (api.device)(&mut device, ordinal as c_int) }, "opening the GPU")?;
    let major = attribute(api, device, CAPABILITY_MAJOR)?;
    let minor = attribute(api, device, CAPABILITY_MINOR)?;
    Ok((device, GpuInfo { name: name_of(api, device)?, capability: major * 10 + minor }))
}

fn attribute(api: &Api, device: c_int, which: c_int) -> Result<u32> {
    let mut value = 0;
    let status = unsafe { (api.device_attribute)(&mut value, which, device) };
    api.check(status, "asking what the GPU is").map(|()| value.max(0) as u32)
}

fn name_of(api: &Api, device: c_int) -> Result<String> {
    let mut name = [0; 256];
    let status = unsafe { (api.device_name)(name.as_mut_ptr(), name.len() as c_int - 1, device) };
    api.check(status, "asking for the GPU's name")?;
    // The last byte is still zero.
    Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}
