//! A context: one trace, one cache, one launch thread, one backend.
//!
//! **Invariant:** the only room of the runtime that has the trace and its lock. The user's program is called here, or in a step
//! of a program, and with no lock held.

pub mod async_read;
mod capture;
mod communicators;
mod concatenate;
mod cut;
mod diagnostics;
mod elements;
pub mod graphs;
pub mod lock;
mod marks;
mod measure;
pub mod openxla;
mod random;

use crate::buffer::{Bytes, Storage, zeros};
use crate::error::{Result, Site};
use crate::graph::Graph;
use crate::record::{Operator, Varying};
use crate::runtime::launch::Launcher;
use crate::runtime::observe::explain::Cause;
use crate::runtime::options::Options;
use crate::runtime::shared::Shared;
use crate::trace::{ArgRef, BufferId, Call, Content, Fresh, Recorded, TensorRef};
use async_read::Readers;
use communicators::Communicators;
pub use communicators::TOKEN_SIZES;
use cut::Cut;
pub use diagnostics::{Level, Log, Observer};
pub use elements::is_canonical;
use lock::{TraceGuard, TraceLock};
use parking_lot::{Mutex, RwLock};
use random::Generator;
use std::sync::{Arc, OnceLock};

/// Gives the call site in the user's program that is recording at the moment.
pub type Locator = Box<dyn Fn() -> Site + Send + Sync>;

pub struct Context {
    trace: TraceLock,
    launcher: Launcher,
    readers: Readers,
    generator: Mutex<Generator>,
    locator: RwLock<Option<Arc<Locator>>>,
    observer: RwLock<Option<Arc<Observer>>>,
    log: OnceLock<Log>,
    communicators: Communicators,
    shared: Arc<Shared>,
}

impl Context {
    /// Starts no thread and takes no memory for tensors.
    pub fn new(options: Options) -> Result<Arc<Context>> {
        let shared = Arc::new(Shared::new(options)?);
        let trace = TraceLock::default();
        trace.lock()?.set_alignment(shared.backend.input_alignment());
        let context = Arc::new(Context {
            trace,
            launcher: Launcher::new(shared.clone()),
            readers: Readers::default(),
            generator: Mutex::default(),
            locator: RwLock::default(),
            observer: RwLock::default(),
            log: OnceLock::new(),
            communicators: Communicators::default(),
            shared,
        });
        if let Some(dog) = &context.shared.observed.watchdog {
            let listener = Arc::downgrade(&context);
            dog.reports_to(Arc::new(move |message, site| {
                if let Some(context) = listener.upgrade() {
                    context.warn(message, site);
                }
            }));
        }
        Ok(context)
    }

    pub fn set_locator(&self, locator: Locator) {
        let old = self.locator.write().replace(Arc::new(locator));
        // Outside of the lock, since this may call the program.
        drop(old);
    }

    /// Error: a panic left the context half changed.
    pub fn check(&self) -> Result<()> {
        self.trace.check()
    }

    // ---- buffers

    pub fn new_buffer(&self, nbytes: usize) -> BufferId {
        self.trace.lock_to_release().new_buffer(nbytes)
    }

    pub fn drop_buffer(&self, id: BufferId) {
        self.trace.lock_to_release().drop_buffer(id);
    }

    pub fn nbytes(&self, id: BufferId) -> usize {
        self.trace.lock_to_release().nbytes(id)
    }

    /// Replaces the content by a copy of `data`. Cuts nothing, waits for nothing.
    /// Errors: `InvalidArgument` when the length differs, `OutOfMemory`, the device's.
    pub fn write(&self, id: BufferId, data: &[u8]) -> Result<()> {
        let nbytes = self.nbytes(id);
        if data.len() != nbytes {
            return crate::invalid!("{} bytes written to a buffer of {nbytes} bytes", data.len());
        }
        let mut memory = self.shared.allocate(nbytes)?;
        memory.write(0, data)?;
        let storage = Arc::new(Storage::ready(memory));
        self.trace.lock()?.store(id, storage);
        Ok(())
    }

    /// Copies bytes `[offset, offset + len)` to the host; cuts the trace if it still computes them, and waits.
    /// Errors: that of the operation that failed to produce the value, and others that `observe/failures.rs` has for it.
    pub fn read(&self, id: BufferId, offset: usize, destination: &mut [u8]) -> Result<()> {
        self.check_range(id, offset, destination.len())?;
        self.look(id, |bytes| match bytes {
            Some(bytes) => bytes.read(offset, destination),
            None => {
                destination.fill(0);
                Ok(())
            }
        })
    }

    /// Passes the memory of a buffer's value to `look`, `None` for zeros; cuts, waits and fails as [`Context::read`].
    fn look(
        &self,
        id: BufferId,
        mut look: impl FnMut(Option<&dyn Bytes>) -> Result<()>,
    ) -> Result<()> {
        // A program recorded by another thread may take the memory over before the look.
        for _ in 0..1000 {
            let Some(storage) = self.settled(id, true)? else { return look(None) };
            match storage.visit(|bytes| look(Some(bytes))) {
                Ok(false) => {}
                outcome => {
                    self.shared.observed.failures.of(&storage, outcome)?;
                    return self.raise_diagnostics();
                }
            }
        }
        Err(crate::trace::lost())
    }

    /// As [`Context::read`], but without a cut: waits until another thread has cut the trace that computes the value, and the
    /// value is ready. The next read or sync reports the same errors as well.
    pub fn read_after_cut(
        &self,
        id: BufferId,
        offset: usize,
        destination: &mut [u8],
    ) -> Result<()> {
        self.check_range(id, offset, destination.len())?;
        let mut trace = self.trace.lock()?;
        loop {
            match trace.content(id) {
                Content::Zeros => {
                    destination.fill(0);
                    return Ok(());
                }
                Content::Traced(_) => {
                    self.launcher.check_process()?;
                    trace.wait_for_cut(&self.trace);
                }
                Content::Stored(storage) => {
                    drop(trace);
                    self.will_be_there(&storage)?;
                    if storage.read(offset, destination)? {
                        return self.shared.observed.failures.peek(&storage);
                    }
                    // Donated to a program that gives the buffer a newer value.
                    trace = self.trace.lock()?;
                }
            }
        }
    }

    /// Ensures that a buffer's value gets computed: cuts if it is still in the trace. Does not wait for it.
    pub fn request(&self, id: BufferId) -> Result<()> {
        self.settled(id, false)?;
        self.launcher.wait_for_room()
    }

    fn check_range(&self, id: BufferId, offset: usize, len: usize) -> Result<()> {
        let (nbytes, end) = (self.nbytes(id), offset.saturating_add(len));
        match end <= nbytes {
            true => Ok(()),
            false => crate::invalid!("bytes {offset}..{end} read of a buffer of {nbytes} bytes"),
        }
    }

    /// The storage of a buffer's value, possibly pending; `None` for zeros. Cuts if the value is still in the trace, and may
    /// then run the trace here if the caller `waits` for it.
    fn settled(&self, id: BufferId, waits: bool) -> Result<Option<Arc<Storage>>> {
        let mut trace = self.trace.lock()?;
        let mut content = trace.content(id);
        if let Content::Traced(value) = content {
            self.shared.observed.stats.read_cuts.add(1);
            let (recorded, to_run) = match waits {
                true => self.cut_to_read(&mut trace)?.map(|cut| (cut.recorded, cut.to_run)).unzip(),
                false => (self.cut_locked(&mut trace, Cut::Partial)?, None),
            };
            content = trace.content(id);
            drop(trace);
            to_run.flatten().into_iter().for_each(|(here, closed)| here.run(closed));
            self.note_cut(recorded, Cause::Read(value));
        } else {
            if let Content::Stored(storage) = &content
                && !storage.is_settled()
            {
                trace.host_waits();
            }
            drop(trace);
        }
        match content {
            Content::Zeros => Ok(None),
            Content::Stored(storage) => self.will_be_there(&storage).map(|()| Some(storage)),
            Content::Traced(_) => crate::internal!("a cut left a value in the trace"),
        }
    }

    /// Error: nobody in this process will fill the storage.
    fn will_be_there(&self, storage: &Storage) -> Result<()> {
        if storage.is_settled() { Ok(()) } else { self.launcher.check_process() }
    }

    /// Whether a read would not wait.
    pub fn is_ready(&self, id: BufferId) -> bool {
        match self.trace.lock_to_release().content(id) {
            Content::Zeros => true,
            Content::Stored(storage) => storage.is_settled(),
            Content::Traced(_) => false,
        }
    }

    /// Changes the size; the common prefix stays, new bytes are zero. Errors: `OutOfMemory`, those of [`Context::read`]: then
    /// the buffer stays as it is.
    pub fn resize(&self, id: BufferId, nbytes: usize) -> Result<()> {
        let old = self.nbytes(id);
        if old == nbytes {
            return Ok(());
        }
        let kept = old.min(nbytes);
        let is_zeros = matches!(self.trace.lock()?.content(id), Content::Zeros);
        if kept == 0 || is_zeros {
            self.trace.lock()?.clear(id, nbytes);
            return Ok(());
        }
        // The old content stays until there is memory for the new one.
        let mut memory = self.shared.allocate(nbytes)?;
        let mut content = zeros(nbytes)?;
        self.read(id, 0, &mut content[..kept])?;
        memory.write(0, &content)?;
        let mut trace = self.trace.lock()?;
        trace.clear(id, nbytes);
        trace.store(id, Arc::new(Storage::ready(memory)));
        Ok(())
    }

    /// Declares that a size of the buffer's tensors will vary between `least` and `most`: programs are then planned for these.
    /// Errors: `InvalidArgument` when the size is not between them.
    pub fn mark_dynamic(&self, id: BufferId, size: i64, least: i64, most: i64) -> Result<()> {
        if !(0 <= least && least <= size && size <= most) {
            return crate::invalid!("a size of {size} is not between {least} and {most}");
        }
        self.trace.lock()?.mark(id, Varying { size, least, most });
        Ok(())
    }

    // ---- recording

    /// Records one operation; see [`Trace::record`]. Cuts automatically when the trace has grown to a limit; then it may wait
    /// for the launch thread.
    pub fn record(&self, call: &Call) -> Result<()> {
        self.record_with(call, false)
    }

    /// As [`Context::record`], for results whose types were inferred.
    pub fn record_inferred(&self, call: &Call) -> Result<()> {
        self.record_with(call, true)
    }

    /// As [`Context::record`] if a known trace has the same operation here; else does nothing. Returns which.
    pub fn record_again(&self, call: &Call) -> Result<bool> {
        let sample = self.begin_sample();
        let mut trace = self.lock_to_record()?;
        if !trace.replay(call) {
            return Ok(false);
        }
        self.end_sample(sample, trace.len());
        self.shared.observed.stats.recorded_ops.add(1);
        self.shared.observed.stats.replayed_ops.add(1);
        self.was_recorded(trace)?;
        Ok(true)
    }

    /// The same for an operation whose results are new tensors: see [`Trace::again`].
    pub fn record_fresh_again(
        &self,
        op: Operator,
        args: &[ArgRef],
        n: usize,
        rest: Option<TensorRef>,
    ) -> Result<Option<Fresh>> {
        let sample = self.begin_sample();
        let mut trace = self.lock_to_record()?;
        let Some(made) = trace.again(op, args, n, rest) else { return Ok(None) };
        self.end_sample(sample, trace.len());
        self.shared.observed.stats.recorded_ops.add(1);
        self.shared.observed.stats.replayed_ops.add(1);
        match self.was_recorded(trace) {
            Ok(()) => Ok(Some(made)),
            Err(error) => {
                made.iter().for_each(|(id, _)| self.drop_buffer(*id));
                Err(error)
            }
        }
    }

    /// Locks the trace; a new one learns of the traces that were prefetched.
    fn lock_to_record(&self) -> Result<TraceGuard<'_>> {
        let mut trace = self.trace.lock()?;
        if trace.is_empty() {
            for one in std::mem::take(&mut *self.shared.prefetched.lock()) {
                let trace_id = trace.expect(one.trace);
                self.shared.paths.add(trace_id, &one.outputs, &one.program, one.hash);
            }
        }
        Ok(trace)
    }

    fn record_with(&self, call: &Call, inferred: bool) -> Result<()> {
        let sample = self.begin_sample();
        let mut trace = self.lock_to_record()?;
        let before = match trace.end_windows(call) {
            true => self.cut_locked(&mut trace, Cut::Partial)?,
            false => None,
        };
        let recorded = trace.record(call)?;
        self.end_sample(sample, trace.len());
        self.shared.observed.stats.recorded_ops.add(1);
        match recorded {
            Recorded::Again => self.shared.observed.stats.replayed_ops.add(1),
            Recorded::New | Recorded::At(_) if inferred => trace.was_inferred(),
            Recorded::New | Recorded::At(_) => {}
        }
        if let Recorded::At(place) = recorded
            && let Some(locate) = self.locator.read().clone()
        {
            // Not under the lock: it may want the lock of an interpreter that another recording thread holds.
            drop(trace);
            let site = locate();
            trace = self.trace.lock()?;
            trace.locate(place, site);
        }
        self.was_recorded(trace)?;
        if before.is_some() {
            self.note_cut(before, Cause::Overwrite);
            self.launcher.wait_for_room()?;
        }
        Ok(())
    }

    // ---- introspection

    /// The graph of the last compiled program, if there is one.
    pub fn last_graph(&self) -> Option<Graph> {
        self.shared.last_program.lock().as_ref()?.graph.as_deref().cloned()
    }

    /// The last compiled program: its graph and its plan as text.
    pub fn last_program(&self) -> String {
        self.shared.last_program.lock().as_ref().map_or_else(String::new, |p| p.to_string())
    }
}

#[cfg(test)]
mod failures_tests;
#[cfg(test)]
mod tests;
