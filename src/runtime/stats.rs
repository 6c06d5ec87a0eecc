//! Counters: what happened, in numbers that tests can assert.

use crate::backend::memory;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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
        let start = Instant::now();
        let result = work();
        self.add(start.elapsed().as_nanos() as u64);
        result
    }
}

macro_rules! stats {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        #[derive(Default)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: Counter,)*
            /// How often each host operator ran at each place.
            host_calls_by_place: Mutex<BTreeMap<(String, u64), u64>>,
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
    /// Of these, because a known trace has them at the same place: nothing was written down.
    replayed_ops,
    /// Traces closed, for whatever reason.
    cuts,
    /// Of these, because a host read wanted a value in the middle of a trace.
    read_cuts,
    /// Programs compiled.
    compiles,
    /// Runs of programs that were there already.
    cache_hits,
    /// Programs loaded that another process had compiled.
    disk_hits,
    /// Files of the disk cache removed because they were no whole programs of this version.
    disk_removed,
    /// Programs that could not be stored.
    disk_errors,
    /// Steps of plans run.
    kernels,
    /// Host operators run.
    host_calls,
    /// Outputs that could not be computed.
    failures,
    compile_ns,
    /// Looking for programs on disk, waiting for other processes included.
    disk_ns,
    execute_ns,
}

impl Stats {
    pub fn count_host_calls(&self, calls: &[(String, u64)]) {
        if calls.is_empty() {
            return;
        }
        self.host_calls.add(calls.len() as u64);
        let mut places = self.host_calls_by_place.lock();
        for call in calls {
            *places.entry(call.clone()).or_default() += 1;
        }
    }

    pub fn reset(&self) {
        self.each().iter().for_each(|(_, counter)| counter.0.store(0, Ordering::Relaxed));
        self.host_calls_by_place.lock().clear();
    }

    pub fn to_json(&self, live_buffers: u64, memory: &memory::Stats) -> String {
        let mut json = String::from("{");
        for (name, counter) in self.each() {
            let _ = write!(json, "\"{name}\": {}, ", counter.get());
        }
        let _ = write!(
            json,
            "\"live_buffers\": {live_buffers}, \"live_bytes\": {}, \"peak_bytes\": {}, \"pool_bytes\": {}}}",
            memory.live_bytes, memory.peak_bytes, memory.pool_bytes
        );
        json
    }

    pub fn host_calls_json(&self) -> String {
        let places = self.host_calls_by_place.lock();
        let items = places.iter().map(|((name, site), count)| {
            format!("{{\"name\": {}, \"count\": {count}, \"site\": {site}}}", quoted(name))
        });
        format!("[{}]", items.collect::<Vec<_>>().join(", "))
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(json, "\\u{:04x}", c as u32);
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}
