//! Distribution of work to the threads of this backend, and the memory they work in.
//!
//! **Invariant:** the result of a task depends on the shapes only, never on the number of threads or on which of them
//! runs it: results have the same bits for any number of threads.

use super::access::{Plain, zeroed};
use super::choice::Choices;
use super::element::{Bf16, F16};
use super::onednn::{self, OneDnn, Search};
use super::thread_pool::{self, ThreadPool, parallel_for};
use crate::cache::disk::Disk;
use crate::error::{Error, Result};
use crate::op::array::collected;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

/// Bytes of memory traffic (or equally long work) below which handing work to another thread costs more than it gains.
pub const GRAIN: usize = 64 << 10;
/// Likewise for waking a thread.
const WAKE: usize = 4 * GRAIN;

/// Threads that start at the first use, and the library of matrix products they use.
pub struct Threads {
    count: usize,
    search: Search,
    /// Where its measurements are kept; without this nothing is measured.
    choices: Option<Disk>,
    onednn: OnceLock<Result<Option<Arc<OneDnn>>>>,
    thread_pool: OnceLock<ThreadPool>,
    /// Held while the threads start.
    starting: Mutex<()>,
}

impl Threads {
    /// `count` 0 means one for every core.
    pub fn new(count: usize, search: Search) -> Threads {
        let (onednn, thread_pool) = (OnceLock::new(), OnceLock::new());
        let (choices, starting) = (None, Mutex::default());
        Threads { count, search, choices, onednn, thread_pool, starting }
    }

    /// As many threads, none started, that use the multipliers measured to be the fastest.
    pub fn with_choices(&self, disk: Disk) -> Threads {
        Threads { choices: Some(disk), ..Threads::new(self.count, self.search.clone()) }
    }

    /// The choices that were made; see [`Choices::made`].
    pub fn product_choices(&self) -> Vec<(String, &'static str)> {
        let library = self.onednn.get().and_then(|library| library.as_ref().ok()?.as_ref());
        library.and_then(|library| library.choices()).map(Choices::made).unwrap_or_default()
    }

    /// Whether multipliers are measured.
    pub fn measures(&self) -> bool {
        self.choices.is_some()
    }

    /// The library, loaded at the first use. Error: the requested file cannot be used.
    pub fn onednn(&self) -> std::result::Result<Option<&Arc<OneDnn>>, &Error> {
        let load = || {
            let library = onednn::load(&self.search)?;
            Ok(match (library, &self.choices) {
                (Some(library), Some(disk)) => {
                    let version = format!("{} {:x}", library.version, library.isa);
                    let choices = Choices::new(disk.clone(), &version);
                    Some(Arc::new(OneDnn::clone(&library).with_choices(choices)))
                }
                (library, _) => library,
            })
        };
        self.onednn.get_or_init(load).as_ref().map(Option::as_ref)
    }

    #[cfg(test)]
    pub fn started(&self) -> bool {
        self.thread_pool.get().is_some()
    }

    /// Runs `body` on this thread, which shares its work with the others. Errors: the system starts no threads; as
    /// [`Threads::onednn`].
    pub fn install<R>(&self, body: impl FnOnce() -> R) -> Result<R> {
        let thread_pool = self.thread_pool()?;
        let library = self.onednn().map_err(Error::clone)?.cloned();
        Ok(onednn::with(library, || thread_pool.install(body)))
    }

    /// Within [`Threads::install`]: runs `body` serially, as if no pool were installed.
    pub fn serial<R>(&self, body: impl FnOnce() -> R) -> R {
        onednn::with(None, || thread_pool::serial(body))
    }

    /// The pool, started at the first use. If the system starts no threads now, the next use tries again.
    fn thread_pool(&self) -> Result<&ThreadPool> {
        if let Some(thread_pool) = self.thread_pool.get() {
            return Ok(thread_pool);
        }
        let _starting = self.starting.lock();
        if let Some(thread_pool) = self.thread_pool.get() {
            return Ok(thread_pool);
        }
        let thread_pool = self.start()?;
        Ok(self.thread_pool.get_or_init(|| thread_pool))
    }

    fn start(&self) -> Result<ThreadPool> {
        let library = self.onednn().map_err(Error::clone)?.cloned();
        let count = match self.count {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            count => count,
        };
        ThreadPool::new(count, move || onednn::enter(library.clone()))
    }
}

/// Runs `task(0)` to `task(n - 1)`, in parallel when there is work for several threads. `cost` is the memory traffic
/// of one task in bytes, or an equivalent.
pub fn parallel(n: usize, cost: usize, task: impl Fn(usize) + Sync) {
    let each = GRAIN.div_ceil(cost.max(1));
    if n <= each {
        return (0..n).for_each(task);
    }
    let piece = |p: usize| (p * each..n.min((p + 1) * each)).for_each(&task);
    parallel_for(n.div_ceil(each), n.saturating_mul(cost) >= WAKE, &piece);
}

/// [`parallel`] over items, each given away once. Panics with the error `OutOfMemory`. The items are collected in a
/// list, so each should be a piece of the data that is worth a task, not a number.
pub fn parallel_each<T: Send>(
    items: impl Iterator<Item = T>,
    cost: usize,
    task: impl Fn(T) + Sync,
) {
    let items: Vec<Mutex<Option<T>>> = collected(items.map(|item| Mutex::new(Some(item))));
    parallel(items.len(), cost, |n| {
        let item = items[n].lock().take();
        item.into_iter().for_each(&task);
    });
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
    let several = |(n, out): (usize, &mut [T])| {
        out.chunks_mut(chunk).enumerate().for_each(|(i, out)| task(n * each + i, out));
    };
    parallel_each(out.chunks_mut(chunk.saturating_mul(each)).enumerate(), each * cost, several);
}

/// Memory that starts at a page. So each vector lies in one cache line, and a read at some place of one of these and a write at
/// the same place of another are not taken for the same by the processor, which compares the low twelve bits of addresses first.
#[derive(Default)]
pub struct Paged<T> {
    memory: Vec<T>,
    start: usize,
    len: usize,
}

const PAGE: usize = 4096;

impl<T: Plain> Paged<T> {
    /// Panics with the error `OutOfMemory`, which its step returns.
    pub fn new(len: usize) -> Paged<T> {
        let memory = zeroed::<T>(len + PAGE / size_of::<T>());
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

/// Unused buffers. Moving one moves a pointer only: a larger value that was just written, and is read again in larger
/// parts, would wait until all results before it are in the cache.
type Free<T> = Vec<Box<Paged<T>>>;

/// Element types of scratch memory.
pub trait Scratch: Plain {
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
scratch!(i64, SCRATCH_I64);
scratch!(F16, SCRATCH_F16);
scratch!(Bf16, SCRATCH_BF16);

/// Bytes of the largest buffer that is kept. Glibc's malloc keeps no larger one, either: getting it takes little time compared
/// with its use. Operands packed for layers of usual sizes are smaller, and would take up to twice as long in new memory.
const KEPT: usize = 32 << 20;

/// Calls `body` with a buffer of `len` numbers of unspecified value, which this thread keeps for the next time unless
/// it is large.
pub fn with_scratch<T: Scratch, R>(len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    if len == 0 {
        return body(&mut []);
    }
    if len > KEPT / size_of::<T>() {
        return body(&mut Paged::new(len));
    }
    // Taken out while it is used: a nested or stolen task gets another one.
    let mut buffer = T::stack(Vec::pop).unwrap_or_default();
    if buffer.len() < len {
        // The old one is freed first.
        *buffer = Paged::default();
        *buffer = Paged::new(len.next_power_of_two());
    }
    let result = body(&mut buffer[..len]);
    T::stack(|free| free.push(buffer));
    result
}

/// Bytes of the buffers that this thread keeps.
#[cfg(test)]
pub fn kept<T: Scratch>() -> usize {
    T::stack(|free| free.iter().map(|buffer| size_of_val(&***buffer)).sum())
}

/// [`with_scratch`], divided into parts of these lengths.
pub fn with_parts<T: Scratch, R, const N: usize>(
    lengths: [usize; N],
    body: impl FnOnce([&mut [T]; N]) -> R,
) -> R {
    with_scratch(lengths.iter().sum(), |mut room: &mut [T]| {
        body(lengths.map(|len| room.split_off_mut(..len).expect("as many as were asked for")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    const COSTS: [usize; 6] = [0, 1, 700, GRAIN, WAKE, 1 << 40];

    fn every_loop_is_covered(threads: usize) {
        let threads = Threads::new(threads, Search::Off);
        let all = || {
            for (n, cost) in (0..70).chain([1000, 70_000]).flat_map(|n| COSTS.map(|c| (n, c))) {
                let done = AtomicUsize::new(0);
                parallel(n, cost, |i| {
                    done.fetch_add(i + 1, Relaxed);
                });
                assert_eq!(done.into_inner(), n * (n + 1) / 2, "{n} tasks of {cost}");
                for chunk in [0, 1, 2, 63, n / 3, n, usize::MAX] {
                    let mut out = vec![0; n];
                    parallel_chunks(&mut out, chunk, cost, |task, out| {
                        out.iter_mut().enumerate().for_each(|(i, x)| *x += task * chunk.max(1) + i);
                    });
                    assert!(out.iter().enumerate().all(|(i, &x)| i == x), "{n} {chunk} {cost}");
                }
            }
        };
        threads.install(all).unwrap();
    }

    #[test]
    fn threads_that_did_not_start_are_asked_for_again() {
        let threads = Threads::new(3, Search::Off);
        let refused = crate::thread::refusing(|| threads.install(|| ()));
        assert_eq!(refused.unwrap_err().code, Code::OutOfMemory);
        assert_eq!(threads.install(thread_pool::size).unwrap(), 3);
    }

    #[test]
    fn large_buffers_are_not_kept() {
        let all = || {
            assert_eq!(kept::<f64>(), 0);
            with_scratch(0, |room: &mut [f64]| assert!(room.is_empty()));
            assert_eq!(kept::<f64>(), 0);
            with_scratch(700, |_: &mut [f64]| assert_eq!(kept::<f64>(), 0));
            assert_eq!(kept::<f64>(), 8 << 10);
            for large in [KEPT / 8 + 1, KEPT / 4] {
                with_scratch(large, |room: &mut [f64]| room.fill(1.0));
                assert_eq!(kept::<f64>(), 8 << 10);
            }
            // Another within another, and a larger one in place of a smaller one.
            with_scratch(1000, |_: &mut [f64]| with_scratch(1 << 20, |_: &mut [f64]| ()));
            assert_eq!(kept::<f64>(), (8 << 10) + (8 << 20));
            with_scratch(KEPT / 8, |_: &mut [f64]| ());
            with_scratch(KEPT / 8, |_: &mut [f64]| with_scratch(KEPT / 8, |_: &mut [f64]| ()));
            assert_eq!(kept::<f64>(), 2 * KEPT);
        };
        std::thread::spawn(all).join().unwrap();
    }

    #[test]
    fn parts_of_a_buffer_follow_each_other() {
        with_parts([3, 0, 5], |[a, b, c]: [&mut [f32]; 3]| {
            assert_eq!([a.len(), b.len(), c.len()], [3, 0, 5]);
            a.fill(1.0);
            c.fill(2.0);
            assert!(a.iter().all(|&x| x == 1.0));
        });
    }

    #[test]
    fn refused_memory_is_an_error() {
        let refused = |work: &dyn Fn()| {
            let work = std::panic::AssertUnwindSafe(work);
            let panic = std::panic::catch_unwind(move || (*work)()).unwrap_err();
            panic.downcast_ref::<Error>().map(|error| error.code)
        };
        let most = usize::MAX / 32;
        assert_eq!(refused(&|| with_scratch(most, |_: &mut [f64]| ())), Some(Code::OutOfMemory));
        assert_eq!(refused(&|| drop(zeroed::<f64>(most))), Some(Code::OutOfMemory));
        assert_eq!(refused(&|| drop(collected(0..most))), Some(Code::OutOfMemory));
        let each = || parallel_each(0..most, 1, |_| ());
        assert_eq!(refused(&each), Some(Code::OutOfMemory));
    }

    #[test]
    fn chunks_cover_a_list_once_and_know_where_they_are() {
        [1, 2, 5].into_iter().for_each(every_loop_is_covered);
    }
}
