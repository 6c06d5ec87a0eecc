//! A graph, planned and compiled, with memory to run on; and the table of what was measured.

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use rayon::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchacc::backend::cpu::Cpu;
use torchacc::backend::{Backend, Call, Executable};
use torchacc::buffer::{Bytes, DerivedCache};
use torchacc::dtype::DType;
use torchacc::graph::{Builder, ValueId};
use torchacc::op::Ty;
use torchacc::passes::optimize;
use torchacc::plan::{Plan, plan};
use torchacc::runtime::options::{Asked, Options};

/// What the time of a case is divided into.
#[derive(Clone, Copy)]
pub enum Work {
    /// Elements of a result, of a kernel whose data stay in the second-level cache.
    Elements(i64),
    /// Memory that has to be moved at least, out of reach of the caches.
    Bytes(i64),
    Flops(f64),
}

/// Type of an input, and whether its numbers are all positive.
pub struct Input(pub DType, pub Vec<i64>, pub bool);

pub fn input(dtype: DType, sizes: &[i64]) -> Input {
    Input(dtype, sizes.to_vec(), false)
}

pub fn positive(dtype: DType, sizes: &[i64]) -> Input {
    Input(dtype, sizes.to_vec(), true)
}

/// A program and the memory of one call of it.
struct Case {
    executable: Box<dyn Executable>,
    plan: Arc<Plan>,
    inputs: Vec<Box<dyn Bytes>>,
    derived: Vec<DerivedCache>,
    outputs: Vec<Box<dyn Bytes>>,
    arena: Box<dyn Bytes>,
    results: Box<dyn Bytes>,
}

impl Case {
    /// The memory of input `donors[k]` is donated to output `k`.
    fn new(
        backend: &Cpu,
        inputs: &[Input],
        donors: &[u32],
        build: &dyn Fn(&mut Builder, &[ValueId]) -> Vec<ValueId>,
    ) -> Case {
        let types: Vec<Ty> = inputs.iter().map(|i| Ty::new(i.0, &i.1)).collect();
        let mut b = Builder::new();
        let leaf = |(i, ty): (usize, &Ty)| b.input(i as u32, ty.clone()).unwrap();
        let values: Vec<ValueId> = types.iter().enumerate().map(leaf).collect();
        let outputs = build(&mut b, &values);
        let graph = optimize(b.finish(outputs), &|op| backend.supports(op)).unwrap();
        let donors: Vec<_> = (0..graph.outputs.len()).map(|k| donors.get(k).copied()).collect();
        let plan = Arc::new(plan(&graph, &types, &[], &donors, backend).unwrap());
        let executable = backend.compile(plan.clone()).unwrap();
        let memory = |ty: &Ty, positive| {
            let mut m = backend.allocate(ty.nbytes()).unwrap();
            m.write(0, &pattern(ty, positive)).unwrap();
            m
        };
        Case {
            executable,
            inputs: types.iter().zip(inputs).map(|(ty, i)| memory(ty, i.2)).collect(),
            derived: types.iter().map(|_| DerivedCache::default()).collect(),
            outputs: plan.outputs.iter().map(|ty| memory(ty, false)).collect(),
            arena: backend.allocate(plan.arena_bytes as usize).unwrap(),
            results: backend.allocate(plan.results_bytes as usize).unwrap(),
            plan,
        }
    }

    fn run(&self) {
        let inputs: Vec<usize> = self.inputs.iter().map(|m| m.address()).collect();
        let derived: Vec<Option<&DerivedCache>> = self.derived.iter().map(Some).collect();
        let own = self.outputs.iter().map(|m| m.address());
        let target =
            |(own, donor): (usize, &Option<u32>)| donor.map_or(own, |input| inputs[input as usize]);
        let outputs: Vec<usize> = own.zip(&self.plan.donors).map(target).collect();
        let call = Call {
            inputs: &inputs,
            poisoned: &[],
            derived: &derived,
            outputs: &outputs,
            arena: self.arena.address(),
            host: 0,
            results: self.results.address(),
            scalars: &[],
            watch: None,
        };
        assert!(self.executable.run(&call).failed.is_empty());
    }
}

/// Small numbers of both signs or positive ones; indices below 100; true and false.
fn pattern(ty: &Ty, positive: bool) -> Vec<u8> {
    let value = |i: i64| {
        let v = ((i * 7919 + 13) % 1999 - 999) as f32 / 500.0;
        if positive { v.abs() + 0.01 } else { v }
    };
    let bytes = |i: i64| match ty.dtype {
        DType::BF16 => half::bf16::from_f32(value(i)).to_le_bytes().to_vec(),
        DType::F32 => value(i).to_le_bytes().to_vec(),
        DType::I64 => (i * 37 % 100).to_le_bytes().to_vec(),
        _ => vec![i as u8 & 1; ty.dtype.size()],
    };
    // A period is enough.
    let period: Vec<u8> = (0..ty.numel().min(1999 * 100)).flat_map(bytes).collect();
    period.iter().copied().cycle().take(ty.nbytes()).collect()
}

struct Row {
    name: String,
    work: Work,
    best: Duration,
    /// Processor seconds of one run: what remains comparable on a machine that others use too.
    busy: f64,
    steps: usize,
}

/// Processor time of this process.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks = |n: usize| after_name.split_whitespace().nth(n).and_then(|t| t.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

pub struct Bench {
    /// All threads.
    pub wide: Cpu,
    /// One thread.
    pub narrow: Cpu,
    rows: RefCell<Vec<Row>>,
}

impl Bench {
    pub fn new() -> Bench {
        let onednn = Options::resolve(Asked::default()).expect("the environment's options").onednn;
        Bench {
            wide: Cpu::new(0, onednn.clone()),
            narrow: Cpu::new(1, onednn),
            rows: RefCell::default(),
        }
    }

    /// Measures the graph that `build` makes of its inputs. `Work::Elements` is measured on one thread, the rest on all.
    pub fn run(
        &self,
        c: &mut BenchmarkGroup<WallTime>,
        name: &str,
        inputs: &[Input],
        donors: &[u32],
        work: Work,
        build: impl Fn(&mut Builder, &[ValueId]) -> Vec<ValueId>,
    ) {
        let backend = if matches!(work, Work::Elements(_)) { &self.narrow } else { &self.wide };
        c.throughput(match work {
            Work::Elements(n) => Throughput::Elements(n as u64),
            Work::Bytes(n) => Throughput::Bytes(n as u64),
            Work::Flops(n) => Throughput::Elements(n as u64),
        });
        // Made when the filter lets the case through.
        let mut case = None;
        let (mut best, mut busy, mut runs) = (Duration::MAX, 0.0, 0);
        c.bench_function(name, |bencher| {
            let case = case.get_or_insert_with(|| Case::new(backend, inputs, donors, &build));
            bencher.iter_custom(|times| {
                let all = || {
                    let mut total = Duration::ZERO;
                    let begin = cpu_seconds();
                    for _ in 0..times {
                        let start = Instant::now();
                        case.run();
                        let took = start.elapsed();
                        (total, best) = (total + took, best.min(took));
                    }
                    (busy, runs) = (busy + cpu_seconds() - begin, runs + times);
                    total
                };
                // On a thread of the backend, so that no change of threads is counted.
                backend.inside(all).unwrap()
            });
        });
        if let Some(case) = case {
            let (name, steps) = (name.to_string(), case.plan.steps.len());
            let busy = busy / runs as f64;
            self.rows.borrow_mut().push(Row { name, work, best, busy, steps });
        }
    }

    /// Prints the best time of every case and what it amounts to.
    pub fn report(&self) {
        let rows = self.rows.borrow();
        if rows.is_empty() {
            return;
        }
        let (copy, copy_busy) = copy_bandwidth();
        println!(
            "\n{}; copies 64 MB at {:.1} GB/s, {:.1} a processor second",
            self.wide.fingerprint(),
            copy / 1e9,
            copy_busy / 1e9
        );
        for Row { name, work, best, busy, steps } in rows.iter() {
            let best = best.as_secs_f64();
            let amount = match *work {
                Work::Elements(n) => format!("{:>7.3} Gelem/s", n as f64 / best / 1e9),
                Work::Flops(n) => {
                    format!(
                        "{:>7.1} GFLOP/s, {:.1} a processor second",
                        n / best / 1e9,
                        n / busy / 1e9
                    )
                }
                Work::Bytes(n) => {
                    let (rate, busy) = (n as f64 / best, n as f64 / busy);
                    format!(
                        "{:>7.1} GB/s {:>4.0} % of copy, {:.1} a processor second {:.0} %",
                        rate / 1e9,
                        100.0 * rate / copy,
                        busy / 1e9,
                        100.0 * busy / copy_busy
                    )
                }
            };
            println!("{name:<30} {:>10.1} us {amount}, {steps} steps", best * 1e6);
        }
    }
}

/// Bytes a second (read and written) of the standard library's copy over all threads: the best of some, and for a
/// second of processor time.
fn copy_bandwidth() -> (f64, f64) {
    let n = 64usize << 20;
    let (from, mut to) = (vec![1u8; n], vec![0u8; n]);
    let (mut best, begin, runs) = (Duration::MAX, cpu_seconds(), 60);
    for _ in 0..runs {
        let start = Instant::now();
        let parts = to.par_chunks_mut(1 << 20).zip(from.par_chunks(1 << 20));
        parts.for_each(|(to, from)| to.copy_from_slice(from));
        best = best.min(start.elapsed());
    }
    let busy = (cpu_seconds() - begin) / runs as f64;
    assert!(to == from);
    (2.0 * n as f64 / best.as_secs_f64(), 2.0 * n as f64 / busy)
}

/// Few and short measurements, no plots: kernels are many and the machine is shared.
pub fn criterion() -> Criterion {
    Criterion::default()
        .without_plots()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
}
