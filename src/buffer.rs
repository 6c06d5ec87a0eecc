//! Memory that becomes ready: the value of a buffer once it has left the trace.
//!
//! A [`Storage`] is promised when a trace is cut, filled by the launch thread, and read by any thread. It belongs to
//! one buffer at a time, so donation needs no reference counts.

mod host_copy;
pub mod size_class;

use crate::error::{Code, Error, Result};
pub use host_copy::{Elements, HostCopy, Taken};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::mem::{replace, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The location of memory and the queue on which it is used, in terms that other libraries share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// DLPack's `DLDeviceType`.
    pub device_type: i32,
    pub device_id: i32,
    /// A GPU's stream (`cudaStream_t`); 0 where work is synchronous.
    pub stream: usize,
    /// Whether it is host memory in every respect: code on the host reads it in place.
    pub is_host: bool,
}

impl Location {
    /// `kDLCPU`.
    pub const HOST: Location = Location { device_type: 1, device_id: 0, stream: 0, is_host: true };
}

/// Device memory as the rest of the library sees it.
pub trait Bytes: Send + Sync {
    /// Address of the first byte, on the host or on a device.
    fn address(&self) -> usize;
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Copies `destination.len()` bytes at `offset` to the host and waits for them. The range is within `len`. Errors:
    /// a device's.
    fn read(&self, offset: usize, destination: &mut [u8]) -> Result<()>;
    /// All bytes, if they are host memory.
    fn on_host(&self) -> Option<&[u8]> {
        None
    }
    /// Copies `source` from the host to `offset`. The range is within `len`. Errors: a device's.
    fn write(&mut self, offset: usize, source: &[u8]) -> Result<()>;
    /// Waits until the device has done all work that anybody gave it. Errors: the device's.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

/// Data that a backend derived from the content of some memory, such as packed weights: cached with the memory for as
/// long as that stays unchanged.
#[derive(Default)]
pub struct DerivedCache(Mutex<Option<Arc<dyn Any + Send + Sync>>>);

impl DerivedCache {
    /// The cached `T`; a new one if there is none.
    pub fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut kept = self.0.lock();
        if let Some(thing) = kept.clone().and_then(|thing| thing.downcast().ok()) {
            return thing;
        }
        let thing = Arc::<T>::default();
        *kept = Some(thing.clone());
        thing
    }

    fn clear(&self) {
        let kept = self.0.lock().take();
        // Without the lock: dropping it may free memory by an allocator that is not ours.
        drop(kept);
    }
}

enum State {
    Pending,
    /// Shared with the visitors, which read it without the lock.
    Ready(Arc<Box<dyn Bytes>>),
    /// The operation that should have filled it failed.
    Failed(Error),
    /// The memory was donated to a later program; the buffer holds something newer.
    Taken,
}

struct Content {
    state: State,
    /// Number of visits under way, which hold no lock.
    visitors: usize,
    /// Requested copies; those that are made may stay until the memory goes.
    copies: Vec<Arc<HostCopy>>,
}

pub struct Storage {
    content: Mutex<Content>,
    settled: Condvar,
    nbytes: usize,
    /// Whether code outside can see the memory: no program may overwrite it.
    shared: AtomicBool,
    derived: DerivedCache,
    /// For a window, which a trace reads and no buffer holds: the storage whose memory it shows, and the first byte.
    whole: Option<(Arc<Storage>, usize)>,
}

impl Storage {
    pub fn pending(nbytes: usize) -> Storage {
        Storage::of(State::Pending, nbytes)
    }

    pub fn ready(bytes: Box<dyn Bytes>) -> Storage {
        let nbytes = bytes.len();
        Storage::of(State::Ready(Arc::new(bytes)), nbytes)
    }

    fn of(state: State, nbytes: usize) -> Storage {
        let content = Mutex::new(Content { state, visitors: 0, copies: Vec::new() });
        let (shared, derived) = (AtomicBool::new(false), DerivedCache::default());
        Storage { content, settled: Condvar::new(), nbytes, shared, derived, whole: None }
    }

    /// A window for reading `nbytes` bytes, from `start` on, of the value that `whole` holds or will hold. Its memory
    /// is never taken.
    pub fn window(whole: &Arc<Storage>, start: usize, nbytes: usize) -> Storage {
        let whole = Some((whole.clone(), start));
        Storage { whole, ..Storage::of(State::Taken, nbytes) }
    }

    /// The storage that it is a window of, else itself.
    pub fn whole(self: &Arc<Storage>) -> &Arc<Storage> {
        self.whole.as_ref().map_or(self, |(whole, _)| whole)
    }

    /// Its memory is donated to no program from now on. Called under the lock of the trace whose buffer holds it, under
    /// which donors are chosen.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    pub fn is_shared(&self) -> bool {
        let memory = self.whole.as_ref().map_or(self, |(whole, _)| whole);
        memory.shared.load(Ordering::Relaxed)
    }

    /// The cache kept with the memory; `None` for a window, and if code outside, which may write to the memory, has its address.
    pub fn derived(&self) -> Option<&DerivedCache> {
        (!self.is_shared() && self.whole.is_none()).then_some(&self.derived)
    }

    pub fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// Whether waiting would return at once.
    pub fn is_settled(&self) -> bool {
        if let Some((whole, _)) = &self.whole {
            return whole.is_settled();
        }
        !matches!(self.content.lock().state, State::Pending)
    }

    pub fn fulfil(&self, result: Result<Box<dyn Bytes>>) {
        let mut content = self.content.lock();
        let result = result.map(Arc::new);
        content.copies.iter().for_each(|copy| copy.fulfil(result.clone().map(Some)));
        content.state = match result {
            Ok(bytes) => State::Ready(bytes),
            Err(error) => State::Failed(error),
        };
        drop(content);
        self.settled.notify_all();
    }

    /// Requests a copy of the value that the storage holds or will hold. It can be made once the storage is settled,
    /// and is made at the latest by the program that the memory is donated to. Called under the lock of the trace whose
    /// buffer holds it, as [`Storage::share`].
    pub fn copy_later(&self, copy: Arc<HostCopy>) {
        let mut content = self.content.lock();
        match &content.state {
            State::Pending => {}
            State::Ready(bytes) => copy.fulfil(Ok(Some(bytes.clone()))),
            State::Failed(error) => return copy.fulfil(Err(error.clone())),
            State::Taken => return copy.fulfil(Err(internal("what is to be copied was taken"))),
        }
        content.copies.retain(|copy| !copy.is_made());
        content.copies.push(copy);
    }

    fn wait(&self) -> MutexGuard<'_, Content> {
        let mut content = self.content.lock();
        while matches!(content.state, State::Pending) {
            self.settled.wait(&mut content);
        }
        content
    }

    /// Waits until it is settled.
    pub fn settle(&self) {
        match &self.whole {
            Some((whole, _)) => whole.settle(),
            None => drop(self.wait()),
        }
    }

    /// Waits, then copies bytes to the host. As [`Storage::visit`].
    pub fn read(&self, offset: usize, destination: &mut [u8]) -> Result<bool> {
        self.visit(|bytes| bytes.read(offset, destination))
    }

    /// Waits, then calls `look` with the memory, without a lock; nobody writes to it or frees it meanwhile.
    /// `Ok(false)`: it had been taken already, so the buffer's value has to be looked up again. Errors: the one that
    /// kept the storage from being filled; `look`'s.
    pub fn visit(&self, look: impl FnOnce(&dyn Bytes) -> Result<()>) -> Result<bool> {
        match &self.whole {
            Some((whole, start)) => {
                whole.visit_whole(|bytes| look(&Part { bytes, start: *start, len: self.nbytes }))
            }
            None => self.visit_whole(look),
        }
    }

    fn visit_whole(&self, look: impl FnOnce(&dyn Bytes) -> Result<()>) -> Result<bool> {
        let bytes = {
            let mut content = self.wait();
            match &content.state {
                State::Ready(bytes) => {
                    let bytes = bytes.clone();
                    content.visitors += 1;
                    bytes
                }
                State::Failed(error) => return Err(error.clone()),
                State::Taken | State::Pending => return Ok(false),
            }
        };
        let outcome = look(&**bytes);
        drop(bytes);
        self.content.lock().visitors -= 1;
        outcome.map(|()| true)
    }

    /// The address, for a program that reads it. The caller keeps the storage alive and is the only thread that fulfils
    /// and takes storages. Error: that of the failed producer.
    pub fn address(&self) -> Result<usize> {
        if let Some((whole, start)) = &self.whole {
            return Ok(whole.address()? + start);
        }
        match &self.content.lock().state {
            State::Ready(bytes) => Ok(bytes.address()),
            State::Failed(error) => Err(error.clone()),
            State::Pending | State::Taken => {
                Err(internal("a program was launched before its input was ready"))
            }
        }
    }

    /// Takes the memory, for a program that overwrites it once the pending copies are made. Does not wait for visitors:
    /// while there are any, they keep the memory and a copy is taken, in memory from `allocate`. Errors: there is no
    /// memory to take; the copy fails, and then the storage keeps its memory.
    pub fn take(&self, allocate: impl FnOnce(usize) -> Result<Box<dyn Bytes>>) -> Result<Taken> {
        let mut content = self.content.lock();
        let bytes = match replace(&mut content.state, State::Taken) {
            State::Ready(bytes) => bytes,
            other => {
                let error = match &other {
                    State::Failed(error) => error.clone(),
                    _ => internal("a donated input has no memory"),
                };
                content.state = other;
                return Err(error);
            }
        };
        let taken = if content.visitors == 0 {
            Taken { bytes, copies: take(&mut content.copies) }
        } else {
            content.state = State::Ready(bytes.clone());
            drop(content);
            let copy = copy_of(&**bytes, allocate)?;
            let mut content = self.content.lock();
            let old = (replace(&mut content.state, State::Taken), take(&mut content.copies), bytes);
            // Dropped without the lock: the visitor may have ended, and memory may go to an allocator that is not ours.
            drop(content);
            drop(old);
            Taken { bytes: Arc::new(copy), copies: Vec::new() }
        };
        self.derived.clear();
        Ok(taken)
    }

    /// A copy of the content, in memory from `allocate`. Errors: there is no content; those of the copy.
    pub fn copy(
        &self,
        allocate: impl FnOnce(usize) -> Result<Box<dyn Bytes>>,
    ) -> Result<Box<dyn Bytes>> {
        let mut copy = None;
        self.visit(|bytes| {
            copy = Some(copy_of(bytes, allocate)?);
            Ok(())
        })?;
        copy.ok_or_else(|| internal("what is to be copied has no memory"))
    }

    /// Drops the data cached with the memory, which can be derived again.
    pub fn trim(&self) {
        self.derived.clear();
    }
}

/// A part of other memory, for reading.
struct Part<'a> {
    bytes: &'a dyn Bytes,
    start: usize,
    len: usize,
}

impl Bytes for Part<'_> {
    fn address(&self) -> usize {
        self.bytes.address() + self.start
    }

    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, destination: &mut [u8]) -> Result<()> {
        self.bytes.read(self.start + offset, destination)
    }

    fn on_host(&self) -> Option<&[u8]> {
        self.bytes.on_host().map(|bytes| &bytes[self.start..self.start + self.len])
    }

    fn write(&mut self, _: usize, _: &[u8]) -> Result<()> {
        Err(internal("a part of a buffer is written where it is only read"))
    }

    fn settle(&self) -> Result<()> {
        self.bytes.settle()
    }
}

fn internal(message: &str) -> Error {
    Error::new(Code::Internal, message)
}

fn copy_of(
    bytes: &dyn Bytes,
    allocate: impl FnOnce(usize) -> Result<Box<dyn Bytes>>,
) -> Result<Box<dyn Bytes>> {
    let mut content = zeros(bytes.len())?;
    let mut copy = allocate(bytes.len())?;
    bytes.read(0, &mut content)?;
    copy.write(0, &content)?;
    Ok(copy)
}

/// `len` zero bytes on the host. Error: `OutOfMemory`.
pub fn zeros(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(len).is_err() {
        let message = format!("cannot allocate {len} bytes of host memory");
        return Err(Error::new(Code::OutOfMemory, message));
    }
    bytes.resize(len, 0);
    Ok(bytes)
}
