//! Counters: what happened, in numbers that tests can assert.

use super::clock::now;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds the nanoseconds that `work` takes.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = now();
        let result = work();
        self.add(now() - start);
        result
    }
}

macro_rules! stats {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        #[derive(Default)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: Counter,)*
        }

        impl Stats {
            fn each(&self) -> Vec<(&'static str, &Counter)> {
                vec![$((stringify!($name), &self.$name)),*]
            }
        }
    };
}

stats! {
    /// Operations recorded.
    recorded_ops,
    /// Of these, because a known trace has them at the same position: nothing was written down.
    replayed_ops,
    /// Traces closed, for whatever reason.
    cuts,
    /// Of these, because a host read wanted a value in the middle of a trace.
    read_cuts,
    /// Of these, because a trace had become long or kept much memory.
    limit_cuts,
    /// Programs compiled.
    compiles,
    /// Of these, because a trace that begins like a known one differs from it later.
    recompiles,
    /// Plans made.
    plans,
    /// Programs that started with a plan made quickly, which another took the place of.
    quick_plans,
    /// Plans that hold for other sizes too, made by compiling at some of these.
    templates,
    /// Programs made of a plan for other sizes, without compiling.
    carried_over,
    /// Programs of buckets, which sizes that vary are padded to; compiled, or loaded from disk.
    padded_programs,
    /// Their runs.
    padded_runs,
    /// Traces that were to be padded and were not: beyond the buckets, or what has no rule.
    padding_refused,
    /// Runs of programs that were there already.
    cache_hits,
    /// Runs of programs that had to be made or loaded first.
    cache_misses,
    /// Programs loaded that another process had compiled.
    disk_hits,
    /// Files of the disk cache removed because they were no whole programs of this version.
    disk_removed,
    /// Programs there that others took the place of.
    disk_evictions,
    /// Files looked at for that.
    disk_scanned,
    /// Programs that could not be stored.
    disk_errors,
    /// Steps of plans run.
    kernels,
    /// Host operators run.
    host_calls,
    /// Steps whose operands were copied from a device to the host for it, and results back.
    host_copies,
    /// Outputs that could not be computed.
    failures,
    compile_ns,
    /// Looking for programs on disk, waiting for other processes included.
    disk_ns,
    execute_ns,
}

impl Stats {
    pub fn reset(&self) {
        self.each().iter().for_each(|(_, counter)| counter.0.store(0, Ordering::Relaxed));
    }

    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.each().into_iter().map(|(name, counter)| (name, counter.get())).collect()
    }
}
