//! The threads of this backend and how work is given to them.
//!
//! **Invariant:** what a task computes depends on the shapes only, never on how many threads there are or which of
//! them runs it: results have the same bits for any number of threads.

use super::onednn::{self, OneDnn, Search};
use super::tile::element::{Brain, Half};
use crate::error::{Code, Error, Result};
use crate::internal;
use rayon::prelude::*;
use std::any::Any;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::{Arc, OnceLock};

/// Bytes of memory traffic (or what takes as long) below which handing work to another thread costs more than it
/// brings.
pub const GRAIN: usize = 64 << 10;

/// Threads that start at the first use, and the library of matrix products they use.
pub struct Threads {
    count: usize,
    search: Search,
    onednn: OnceLock<Result<Option<Arc<OneDnn>>>>,
    pool: OnceLock<Result<rayon::ThreadPool>>,
}

impl Threads {
    /// 0 means one for every core.
    pub fn new(count: usize, search: Search) -> Threads {
        Threads { count, search, onednn: OnceLock::new(), pool: OnceLock::new() }
    }

    /// Loads it at the first use. Error when the file that was asked for cannot be used.
    pub fn onednn(&self) -> std::result::Result<Option<&Arc<OneDnn>>, &Error> {
        self.onednn.get_or_init(|| onednn::load(&self.search)).as_ref().map(Option::as_ref)
    }

    #[cfg(test)]
    pub fn started(&self) -> bool {
        self.pool.get().is_some()
    }

    /// Errors: the system gives no threads; as [`Threads::onednn`].
    pub fn pool(&self) -> Result<&rayon::ThreadPool> {
        self.pool.get_or_init(|| self.start()).as_ref().map_err(Error::clone)
    }

    fn start(&self) -> Result<rayon::ThreadPool> {
        let library = self.onednn().map_err(Error::clone)?.cloned();
        let builder = rayon::ThreadPoolBuilder::new()
            .num_threads(self.count)
            .thread_name(|i| format!("torchacc-cpu-{i}"))
            .start_handler(move |_| onednn::enter(library.clone()));
        match builder.build() {
            Ok(pool) => Ok(pool),
            Err(e) => internal!("cannot start threads: {e}"),
        }
    }
}

/// Runs `task(0)` to `task(n - 1)`, in parallel when there is work for several threads. `cost` is the memory traffic
/// of one task in bytes, or an equivalent.
pub fn parallel(n: usize, cost: usize, task: impl Fn(usize) + Sync) {
    let each = GRAIN.div_ceil(cost.max(1));
    if n <= each {
        return (0..n).for_each(task);
    }
    (0..n).into_par_iter().with_min_len(each).for_each(&task);
}

/// [`parallel`] over `chunk`-sized pieces of `out`; the last one may be shorter.
pub fn parallel_chunks<T: Send>(
    out: &mut [T],
    chunk: usize,
    cost: usize,
    task: impl Fn(usize, &mut [T]) + Sync,
) {
    let chunk = chunk.max(1);
    let each = GRAIN.div_ceil(cost.max(1));
    if out.len().div_ceil(chunk) <= each {
        return out.chunks_mut(chunk).enumerate().for_each(|(i, c)| task(i, c));
    }
    out.par_chunks_mut(chunk).enumerate().with_min_len(each).for_each(|(i, c)| task(i, c));
}

/// Memory that starts at a page. So vectors lie in one cache line each, and what is read at some place of one of
/// these and written at the same place of another is not taken for the same by the processor, which compares the
/// low twelve bits of addresses first.
#[derive(Default)]
pub struct Paged<T> {
    memory: Vec<T>,
    start: usize,
    len: usize,
}

const PAGE: usize = 4096;

/// What a kernel panics with that gets no memory to work in.
struct NoScratch(usize);

/// Runs a kernel. Error: `OutOfMemory` when it got no memory to work in, for which kernels have no other way out; some of
/// its results may be written then.
pub fn contained(kernel: impl FnOnce() -> Result<()>) -> Result<()> {
    let no_scratch = |panic: Box<dyn Any + Send>| match panic.downcast_ref::<NoScratch>() {
        Some(NoScratch(nbytes)) => {
            let message = format!("cannot allocate {nbytes} bytes for a kernel to work in");
            Err(Error::new(Code::OutOfMemory, message))
        }
        None => resume_unwind(panic),
    };
    catch_unwind(AssertUnwindSafe(kernel)).unwrap_or_else(no_scratch)
}

impl<T: Copy + Default> Paged<T> {
    pub fn new(len: usize) -> Paged<T> {
        let room = len + PAGE / size_of::<T>();
        let mut memory = Vec::new();
        if memory.try_reserve_exact(room).is_err() {
            panic_any(NoScratch(room * size_of::<T>()));
        }
        memory.resize(room, T::default());
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE / size_of::<T>());
        Paged { memory, start, len }
    }
}

impl<T> Deref for Paged<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Paged<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// Buffers that wait for their next use. Moving one moves a pointer only: a larger value just written and read again
/// in larger parts would wait until all results before it are in the cache.
type Free<T> = Vec<Box<Paged<T>>>;

/// Element types of scratch memory.
pub trait Scratch: Copy + Default + 'static {
    fn stack<R>(body: impl FnOnce(&mut Free<Self>) -> R) -> R;
}

macro_rules! scratch {
    ($t:ty, $name:ident) => {
        thread_local! {
            static $name: RefCell<Free<$t>> = const { RefCell::new(Vec::new()) };
        }
        impl Scratch for $t {
            fn stack<R>(body: impl FnOnce(&mut Free<$t>) -> R) -> R {
                $name.with_borrow_mut(body)
            }
        }
    };
}
scratch!(f32, SCRATCH_F32);
scratch!(f64, SCRATCH_F64);
scratch!(Half, SCRATCH_F16);
scratch!(Brain, SCRATCH_BF16);

/// A buffer of `len` numbers of unspecified value that this thread keeps for the next time.
pub fn with_scratch<T: Scratch, R>(len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    // Taken out while it is used: a nested or stolen task gets another one.
    let mut buffer = T::stack(Vec::pop).unwrap_or_default();
    if buffer.len() < len {
        *buffer = Paged::new(len.next_power_of_two());
    }
    let result = body(&mut buffer[..len]);
    T::stack(|free| free.push(buffer));
    result
}
