//! Counters and measurements: one table, of which the counters, `torchacc_metrics`, `torchacc_cache_stats` and `docs/metrics.md`
//! are made.

use super::clock::now;
use super::json::{Object, list};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts events since the last reset.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Adds the nanoseconds that `work` takes.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = now();
        let result = work();
        self.add(now() - start);
        result
    }
}

/// A value that is known elsewhere, and looked up for a [`Snapshot`].
#[derive(Default)]
pub struct Gauge;

impl Gauge {
    fn get(&self) -> u64 {
        0
    }

    fn reset(&self) {}
}

/// Likewise, but only for `torchacc_cache_stats`: it requires a look at the files of a folder.
pub type FolderGauge = Gauge;

/// The table, for a macro that generates code from it: names, names in `torchacc_cache_stats` (in its order), holders, units,
/// and descriptions.
macro_rules! metrics {
    ($make:ident) => {
        $make! {
            recorded_ops: Counter, "", "Operations recorded.";
            replayed_ops: Counter, "", "Of these, because a known trace has them at the same position: nothing was written down.";
            cuts: Counter, "", "Traces closed, for whatever reason.";
            read_cuts: Counter, "", "Of these, because a host read wanted a value in the middle of a trace.";
            limit_cuts: Counter, "", "Of these, because a trace had become long or kept much memory.";
            cache_hits as hits: Counter, "", "Runs of programs that were in memory.";
            cache_misses as misses: Counter, "", "Runs of others: compiled, carried over, read from disk, padded to one that was there, or \
                failed.";
            compiles as compiles: Counter, "", "Programs compiled.";
            recompiles: Counter, "", "Of these, because a trace that begins like a known one differs from it later: see \
                `torchacc_explain`.";
            plans: Counter, "", "Plans made.";
            quick_plans: Counter, "", "Compiled programs whose first run did not wait for the search for the plan that stays.";
            limited_programs: Counter, "", "Compiled programs that compute values again, or let them wait on the host, to stay within \
                the memory limit.";
            recomputed_steps: Counter, "", "Steps of these that are computed again.";
            chosen_offloads: Counter, "", "Values of these that wait on the host.";
            templates: Counter, "", "Plans that hold for other sizes too, made by compiling at some of these.";
            carried_over as carried_over: Counter, "", "Programs made of a plan for other sizes, without compiling.";
            prefetched: Counter, "", "Of these, made while the trace before was being recorded, because sizes changed evenly.";
            padded_programs: Counter, "", "Programs of buckets, which sizes that vary are padded to; compiled, or loaded from disk.";
            padded_runs: Counter, "", "Their runs.";
            padding_refused: Counter, "", "Traces that were to be padded and were not: beyond the buckets, or what has no rule.";
            evictions as evictions: Gauge, "", "Programs dropped from memory for others: the least recently used ones.";
            known_traces as known_traces: Gauge, "", "Traces that are expected to come again.";
            programs as programs: Gauge, "", "Programs in memory now.";
            program_bytes as program_bytes: Gauge, "bytes", "About how many bytes they and their keys take.";
            disk_hits as disk_hits: Counter, "", "Programs read from the folder that another context or process had compiled.";
            disk_evictions as disk_evictions: Counter, "", "Programs that this context removed there, to stay within `cache_limit`.";
            disk_removed as disk_removed: Counter, "", "Files that it removed there because they were no whole programs of this \
                version.";
            disk_errors as disk_errors: Counter, "", "Programs that could not be stored.";
            disk_programs as disk_programs: FolderGauge, "", "Programs in the folder now, whoever stored them; 0 without a folder.";
            disk_bytes as disk_bytes: FolderGauge, "bytes", "Their bytes.";
            disk_scanned: Counter, "", "Files looked at to find those to remove.";
            kernels: Counter, "", "Steps of plans run.";
            early_kernels: Counter, "", "Of these, begun while their trace was still being recorded.";
            early_outputs: Counter, "", "Outputs that were there for whoever waits before their program had ended.";
            engine_runs: Gauge, "", "Steps that a second engine has computed as a whole (modules), resets or not.";
            engine_compiles: Gauge, "", "Modules that it has compiled.";
            engine_loads: Gauge, "", "Modules read from the folder instead, compiled by another process.";
            engine_measured: Counter, "", "Programs measured on both engines of the backend `auto`.";
            engine_chosen: Counter, "", "Programs that its second engine runs since, measured or known from the folder.";
            offloaded_bytes: Counter, "bytes", "Of the host's memory that programs took for what they offloaded.";
            overlapped_copies: Counter, "", "Copies to the host's memory and back, of what was offloaded, beside kernels.";
            host_calls: Counter, "", "Host operators run.";
            host_copies: Counter, "", "Steps whose operands were copied from a device to the host for it, and results back.";
            collectives: Counter, "", "Collectives run, sends and receives among them: they are no host operators.";
            collective_bytes: Counter, "bytes", "Of the tensors that these took from this rank.";
            collective_ns: Counter, "ns", "Running them, waiting for other ranks included.";
            overlapped_collectives: Counter, "", "Collectives on the lanes of their communicators, beside kernels where there were any.";
            merged_collectives: Counter, "", "Collectives that went in one message with those before them.";
            collective_exposed_ns: Counter, "ns", "Of the time that collectives took, what nothing else was run in.";
            concatenations: Counter, "", "Lists of tensors, others in each run, that were put together without a program.";
            failures: Counter, "", "Outputs that could not be computed.";
            live_buffers: Gauge, "", "Buffers that the program holds.";
            live_bytes: Gauge, "bytes", "Memory in use: values, what is between inputs and outputs of programs, packed weights.";
            peak_bytes: Gauge, "bytes", "The most of it at once.";
            pool_bytes: Gauge, "bytes", "Memory that is free and kept to be used again.";
            compile_ns: Counter, "ns", "Compiling, on whatever thread.";
            compile_p50_ns: Gauge, "ns", "Of one compile. Percentiles are right to an eighth.";
            compile_p90_ns: Gauge, "ns", "Likewise.";
            compile_p99_ns: Gauge, "ns", "Likewise.";
            disk_ns: Counter, "ns", "Looking for programs on disk, waiting for other processes included.";
            execute_ns: Counter, "ns", "Running programs.";
            step_p50_ns: Gauge, "ns", "From one full cut to the next.";
            step_p90_ns: Gauge, "ns", "Likewise.";
            step_p99_ns: Gauge, "ns", "Likewise.";
            wall_ns: Gauge, "ns", "Time since the reset; each moment of it is in one of those below.";
            wall_python_ns: Gauge, "ns", "The launch thread waits and a trace is open, but the caller is outside the library.";
            wall_record_ns: Gauge, "ns", "It waits while an operation is being recorded; measured at one in 61.";
            wall_key_ns: Gauge, "ns", "It looks a program up.";
            wall_compile_ns: Gauge, "ns", "It compiles.";
            wall_launch_ns: Gauge, "ns", "It takes memory and hands results out.";
            wall_device_ns: Gauge, "ns", "It runs a program.";
            wall_idle_ns: Gauge, "ns", "It waits and no trace is open.";
        }
    };
}
pub(crate) use metrics;

macro_rules! stats {
    ($($name:ident $(as $c:ident)?: $kind:ident, $unit:literal, $doc:literal;)*) => {
        /// The counters of a context.
        #[derive(Default)]
        pub struct Stats {
            $(#[doc = $doc] pub $name: $kind,)*
        }

        impl Stats {
            pub fn reset(&self) {
                $(self.$name.reset();)*
            }

            /// With 0 for every gauge.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.get(),)* }
            }
        }

        /// All numbers of one moment.
        pub struct Snapshot {
            $(#[doc = $doc] pub $name: u64,)*
        }

        impl Snapshot {
            /// A flat JSON object of integers.
            pub fn json(&self) -> String {
                let object = Object::default();
                $(let object = match reported(stringify!($kind)) {
                    true => object.raw(stringify!($name), self.$name),
                    false => object,
                };)*
                object.end()
            }
        }

        /// Name, unit (`bytes`, `ns` or nothing) and meaning of the numbers in [`Snapshot::json`].
        fn described() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
            let all = [$((stringify!($name), $unit, $doc, reported(stringify!($kind)))),*];
            all.into_iter().filter(|one| one.3).map(|one| (one.0, one.1, one.2))
        }
    };
}
metrics!(stats);

fn reported(kind: &str) -> bool {
    kind != "FolderGauge"
}

/// A JSON list of objects that describe the numbers in [`Snapshot::json`].
pub fn docs() -> &'static str {
    static DOCS: OnceLock<String> = OnceLock::new();
    DOCS.get_or_init(|| {
        list(described().map(|(name, unit, doc)| {
            Object::default().text("name", name).text("unit", unit).text("doc", doc).end()
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;

    #[test]
    fn the_table_is_in_the_documentation() {
        let mut text = String::from(
            "# Metrics\n\nMade of the table in `src/runtime/observe/stats.rs`: `UPDATE_EXPECT=1 cargo test --lib stats::`. Integers, \
             counted since the\nlast reset unless they say what is there now; without a unit a number of things. \
             `torchacc_metrics` gives them as JSON,\n`torchacc_metric_docs` this table, and `torchacc.metrics()` adds what \
             the extension counts: `immediate_runs`,\n`immediate_copies`, `shape_cache_hits`, `shape_cache_misses`, \
             `shape_rule_uses`, and `shape_function_ns`, in which PyTorch's shape\nfunctions were asked what operators \
             return.\n\n| name | unit | what it is |\n|---|---|---|\n",
        );
        for (name, unit, doc) in described() {
            text += &format!("| `{name}` | {unit} | {doc} |\n");
        }
        expect_file!["../../../docs/metrics.md"].assert_eq(&text);
    }
}
