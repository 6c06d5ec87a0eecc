//! The thread pool of this backend. A loop is shared by the thread that comes to it and by the workers that are awake:
//! they look for work for some time before they sleep, because the kernels of a program follow each other within
//! microseconds and waking a thread takes tens of them.
//!
//! **Invariant:** a worker looks at a job only between entering and leaving it, and the thread that started the job
//! waits until all have left. One job at a time; a thread that finds the pool busy runs its loop serially.
#![expect(unsafe_code, reason = "threads borrow a loop's body for as long as the loop runs")]

use crate::error::Result;
use crate::thread;
use parking_lot::Mutex;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long a worker looks for work before it sleeps: longer than most steps that have work for one thread only, and
/// about as long as waking it takes.
const PATIENCE: Duration = Duration::from_micros(50);
/// Spins of this wait before others are given the processor.
const SPINS: usize = 256;
/// Sleepers that one thread wakes; those wake others.
const CALLS: usize = 2;

/// The body of a loop.
type Task = *const (dyn Fn(usize) + Sync);

/// Iterations that nobody has begun: the first of them, and from the 32nd bit on the end. Each thread begins with a
/// part of its own, the same in every loop over the same sizes, because its results of the last one are in its cache;
/// then it takes from the ends of others' parts. Each part has a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Part(AtomicU64);

impl Part {
    fn set(&self, first: usize, end: usize) {
        self.0.store(first as u64 | (end as u64) << 32, Relaxed);
    }

    /// Takes the first iteration, or the last one.
    fn take(&self, last: bool) -> Option<usize> {
        let rest = |part: u64| {
            let (first, end) = (part & u32::MAX as u64, part >> 32);
            let left = if last { (first, end.wrapping_sub(1)) } else { (first + 1, end) };
            (first < end).then_some(left.0 | left.1 << 32)
        };
        let part = self.0.fetch_update(Relaxed, Relaxed, rest).ok()?;
        Some(if last { (part >> 32) - 1 } else { part & u32::MAX as u64 } as usize)
    }

    fn is_done(&self) -> bool {
        let part = self.0.load(Relaxed);
        part & u32::MAX as u64 >= part >> 32
    }
}

struct Worker {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

struct Shared {
    /// Number of the job, whether it may be entered, and the number of workers in it.
    state: AtomicU64,
    task: UnsafeCell<Task>,
    /// Parts of the thread that starts the job, and of the workers.
    parts: Vec<Part>,
    /// The payload of a worker's panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    workers: Vec<Worker>,
    sleepers: AtomicUsize,
    shut_down: AtomicBool,
}

const INSIDE: u64 = OPEN - 1;
const OPEN: u64 = 1 << 31;
const JOB: u64 = 1 << 32;

// SAFETY: `task` is written by the one thread that starts a job, while nobody is in it, and read by workers that are.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Held while there is a job.
    busy: Mutex<()>,
}

thread_local! {
    /// The pool that is installed on this thread.
    static CURRENT: Cell<Option<NonNull<ThreadPool>>> = const { Cell::new(None) };
}

/// Installs a pool on this thread until it is dropped.
struct InstallGuard(Option<NonNull<ThreadPool>>);

impl InstallGuard {
    fn now(pool: Option<NonNull<ThreadPool>>) -> InstallGuard {
        InstallGuard(CURRENT.replace(pool))
    }
}

impl Drop for InstallGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl ThreadPool {
    /// `count` threads, the one that installs the pool included. `begin` runs first on each of the others. Error: the
    /// system starts no threads.
    pub fn new(count: usize, begin: impl Fn() + Send + Sync + 'static) -> Result<ThreadPool> {
        let worker = || Worker { asleep: AtomicBool::new(false), thread: OnceLock::new() };
        let nothing: &(dyn Fn(usize) + Sync) = &|_| ();
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            task: UnsafeCell::new(nothing),
            parts: (0..count.max(1)).map(|_| Part::default()).collect(),
            panic: Mutex::new(None),
            workers: (1..count).map(|_| worker()).collect(),
            sleepers: AtomicUsize::new(0),
            shut_down: AtomicBool::new(false),
        });
        let begin = Arc::new(begin);
        // Dropped with those that did start, if one does not.
        let mut pool = ThreadPool { shared, threads: Vec::new(), busy: Mutex::new(()) };
        for n in 1..count {
            let (shared, begin) = (pool.shared.clone(), begin.clone());
            let body = move || {
                begin();
                shared.serve(n);
            };
            pool.threads.push(thread::start(&format!("cpu-{n}"), body)?);
        }
        Ok(pool)
    }

    /// Runs `body`, whose loops the pool shares.
    pub fn install<R>(&self, body: impl FnOnce() -> R) -> R {
        let _installed = InstallGuard::now(Some(NonNull::from(self)));
        body()
    }

    /// Runs a job, while there is no other.
    fn run(&self, count: usize, wake: bool, task: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.shared;
        let task: *const (dyn Fn(usize) + Sync + '_) = task;
        // SAFETY: only the lifetime changes; nobody looks at it once `close` has returned.
        let task: Task = unsafe { std::mem::transmute(task) };
        // SAFETY: the last job was closed, so nobody reads this.
        unsafe { *shared.task.get() = task };
        let parts = shared.parts.len();
        for (n, part) in shared.parts.iter().enumerate() {
            let Range { start, end } = begins_with(n, parts, count);
            part.set(start, end);
        }
        let number = shared.state.load(Relaxed) / JOB + 1;
        shared.state.store((number * JOB) | OPEN, SeqCst);
        if wake {
            shared.call();
        }
        let mine = catch_unwind(AssertUnwindSafe(|| shared.work(0)));
        shared.close();
        let theirs = shared.panic.lock().take();
        if let Some(panic) = mine.err().or(theirs) {
            resume_unwind(panic);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.shut_down.store(true, SeqCst);
        // Not waited for: in a child process that was forked they are not there.
        self.threads.drain(..).for_each(|thread| thread.thread().unpark());
    }
}

/// The iterations that thread `n` of `threads` begins with.
fn begins_with(n: usize, threads: usize, count: usize) -> Range<usize> {
    let first = |n: usize| (count as u64 * n as u64 / threads as u64) as usize;
    first(n)..first(n + 1)
}

/// Number of threads that share the loops of this one.
pub fn size() -> usize {
    // SAFETY: `install` borrows the pool for as long as it is installed on this thread.
    CURRENT.get().map_or(1, |pool| unsafe { pool.as_ref() }.threads.len() + 1)
}

/// Runs `body` serially, as if no pool were installed.
pub fn serial<R>(body: impl FnOnce() -> R) -> R {
    let _serial = InstallGuard::now(None);
    body()
}

/// Runs `task(0)` to `task(count - 1)`, with the pool that is installed on this thread, if there is one. Loops within a task run
/// serially. `wake`: sleeping workers join, too. A panic of a task resumes here, when no other task runs any more.
pub fn parallel_for(count: usize, wake: bool, task: &(dyn Fn(usize) + Sync)) {
    let current = CURRENT.get();
    let _serial = InstallGuard::now(None);
    // SAFETY: `install` borrows the pool for as long as it is installed on this thread.
    let pool = current.map(|pool| unsafe { pool.as_ref() });
    if (2..u32::MAX as usize).contains(&count)
        && let Some(pool) = pool.filter(|pool| !pool.threads.is_empty())
        && let Some(_busy) = pool.busy.try_lock()
    {
        return pool.run(count, wake, task);
    }
    (0..count).for_each(task);
}

impl Shared {
    /// The body of the thread with part number `part`.
    fn serve(&self, part: usize) {
        let worker = &self.workers[part - 1];
        let mut last = 0;
        worker.thread.get_or_init(std::thread::current);
        while let Some(job) = self.enter(last, worker) {
            last = job;
            if !self.parts[part].is_done() {
                self.call();
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work(part))) {
                self.panic.lock().get_or_insert(panic);
            }
            self.state.fetch_sub(1, Release);
        }
    }

    /// Runs iterations until there are none left, or one has panicked. To be called only between entering a job and
    /// leaving it, or by the thread that started it.
    fn work(&self, part: usize) {
        // SAFETY: it does not change while somebody is in the job; the thread that started it waits, so the body is still there.
        let task = unsafe { &**self.task.get() };
        while let Some(n) = self.parts[part].take(false) {
            task(n);
        }
        let (before, after) = self.parts.split_at(part);
        for other in after.iter().chain(before) {
            while let Some(n) = other.take(true) {
                task(n);
            }
        }
    }

    /// Waits until all workers have left the job and lets no more in.
    fn close(&self) {
        let mut spins = 0;
        let mut state = self.state.fetch_and(!OPEN, AcqRel);
        while state & INSIDE != 0 {
            pause(&mut spins);
            state = self.state.load(Acquire);
        }
    }

    /// Waits for a job that is not number `last`, enters it and returns its number. `None` when the pool is shut down.
    fn enter(&self, last: u64, worker: &Worker) -> Option<u64> {
        let is_open = |state: u64| state & OPEN != 0 && state / JOB != last;
        let (mut spins, mut since) = (0, None::<Instant>);
        while !self.shut_down.load(Relaxed) {
            let state = self.state.load(Acquire);
            if is_open(state) {
                if self.state.compare_exchange(state, state + 1, AcqRel, Relaxed).is_ok() {
                    return Some(state / JOB);
                }
                continue;
            }
            if since.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
                pause(&mut spins);
                continue;
            }
            // Set before looking once more: a thread that opens a job looks for sleepers after that.
            worker.asleep.store(true, SeqCst);
            self.sleepers.fetch_add(1, SeqCst);
            if !is_open(self.state.load(SeqCst)) && !self.shut_down.load(SeqCst) {
                std::thread::park();
            }
            if worker.asleep.swap(false, SeqCst) {
                self.sleepers.fetch_sub(1, SeqCst);
            }
            (spins, since) = (0, None);
        }
        None
    }

    /// Wakes some sleepers.
    fn call(&self) {
        let mut calls = CALLS.min(self.sleepers.load(SeqCst));
        for worker in &self.workers {
            if calls == 0 {
                return;
            }
            if worker.asleep.load(Relaxed) && worker.asleep.swap(false, SeqCst) {
                self.sleepers.fetch_sub(1, SeqCst);
                worker.thread.get().inspect(|thread| thread.unpark());
                calls -= 1;
            }
        }
    }
}

/// A short wait: it yields the processor if it has become a long one.
fn pause(spins: &mut usize) {
    *spins += 1;
    if *spins < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(count: usize, wake: bool) -> usize {
        let total = AtomicUsize::new(0);
        parallel_for(count, wake, &|n| {
            total.fetch_add(n, Relaxed);
        });
        total.into_inner()
    }

    #[test]
    fn what_threads_begin_with_covers_all_once() {
        for threads in 1..=256 {
            let few = 0..2 * threads + 3;
            for count in few.chain([1000, 65_537, u32::MAX as usize - 1]) {
                let parts = (0..threads).map(|n| begins_with(n, threads, count));
                let end = parts.fold(0, |end, part| {
                    assert!(part.start == end && part.end >= end, "{threads} {count}");
                    part.end
                });
                assert_eq!(end, count, "{threads} threads");
            }
        }
    }

    #[test]
    fn a_part_is_taken_from_both_ends_until_all_of_it_was_taken_once() {
        let most = u32::MAX as usize - 1;
        let ranges = (0..40).flat_map(|first| (0..40).map(move |len| (first, first + len)));
        for (first, end) in ranges.chain([(most - 70, most)]) {
            for spins in [0, 1, 2, 3, 7] {
                let part = Part::default();
                part.set(first, end);
                let mut taken: Vec<usize> = (0..=end - first)
                    .filter_map(|n| part.take(spins > 0 && n % spins == 0))
                    .collect();
                taken.sort_unstable();
                assert!(part.is_done() && taken.into_iter().eq(first..end), "{first} to {end}");
            }
        }
    }

    #[test]
    fn every_iteration_runs_once() {
        for threads in [1, 2, 3, 8] {
            let pool = ThreadPool::new(threads, || ()).unwrap();
            pool.install(|| {
                for count in [0, 1, 2, 7, 1000] {
                    for round in 0..200 {
                        assert_eq!(sum(count, round % 2 == 0), count * count.saturating_sub(1) / 2);
                    }
                }
            });
        }
    }

    #[test]
    fn sleepers_are_woken() {
        let pool = ThreadPool::new(4, || ()).unwrap();
        let ids = Mutex::new(std::collections::HashSet::new());
        pool.install(|| {
            std::thread::sleep(20 * PATIENCE);
            // All four must come, or none could go on.
            let barrier = std::sync::Barrier::new(4);
            parallel_for(4, true, &|_| {
                ids.lock().insert(std::thread::current().id());
                barrier.wait();
            });
        });
        assert_eq!(ids.into_inner().len(), 4);
    }

    #[test]
    fn who_finds_it_busy_works_alone() {
        let pool = ThreadPool::new(3, || ()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    pool.install(|| (0..500).for_each(|_| assert_eq!(sum(50, true), 1225)))
                });
            }
        });
    }

    #[test]
    fn loops_within_loops_and_without_a_team() {
        let pool = ThreadPool::new(3, || ()).unwrap();
        let total = AtomicUsize::new(0);
        let inner = |n| {
            total.fetch_add(n, Relaxed);
        };
        let outer = |_| parallel_for(10, true, &inner);
        pool.install(|| parallel_for(20, true, &outer));
        parallel_for(20, true, &outer);
        assert_eq!(total.into_inner(), 40 * 45);
    }

    #[test]
    fn a_panic_goes_on_where_the_loop_is_and_the_pool_lives() {
        let pool = ThreadPool::new(3, || ()).unwrap();
        pool.install(|| {
            for bad in [0, 13, 99] {
                let body = |n: usize| assert_ne!(n, bad, "task");
                assert!(catch_unwind(|| parallel_for(100, true, &body)).is_err());
                assert_eq!(sum(100, true), 4950);
            }
        });
    }
}
