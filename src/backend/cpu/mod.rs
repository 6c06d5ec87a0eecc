//! The CPU backend: fused regions are tile programs, made of loops of machine code where possible; whole nodes have hand-written
//! kernels. Everything runs on the thread that runs the program and a thread pool that starts at the first run.
//!
//! **Invariant:** touches the memory of the call, its own pool and its own threads; the bits of a result depend neither on the
//! number of threads nor on timing. A step that fails fails before it writes.

mod access;
mod assemble;
mod attention;
mod choice;
mod columns;
mod conv;
mod dense;
mod element;
mod engine;
mod epilogue;
mod factor;
mod fft;
mod fold;
mod gemm;
mod grouped;
mod index;
mod isa;
mod packed_weights;
mod jit;
mod map;
mod matmul;
mod matrix;
mod multiplier;
mod node;
mod norm;
mod order;
pub mod onednn;
mod packed;
mod packed_panels;
mod panels;
mod pool;
mod pooling;
mod recurrent;
mod reduce;
mod rows;
mod scan;
mod sink;
mod softmax;
mod thread_pool;
#[cfg(test)]
pub(super) mod tests;
mod small_gemm;
mod tile;
mod vector;
mod while_loop;

use super::memory::Pool;
use super::run::run_some_steps;
use super::{Backend, Call, EngineCounts, Executable, Failure, Outcome, Stepwise};
use crate::cache::disk::Disk;
use crate::error::{Error, Result};
use crate::internal;
use crate::op::collective::KIND_COUNT;
use crate::op::lane::Ticket;
use crate::op::module::body;
use crate::op::{Attrs, Op, Ty, collective};
use crate::openxla;
use crate::passes::Says;
use crate::plan::{Kernel, Operand, Plan, Step, Target};
pub use choice::Multiplier;
pub use isa::{Isa, chosen as instructions, limit as limit_instructions};
pub use matrix::{Block, Matrix};
pub use multiplier::{multiply_by, multiply_packed};

use access::Bound;
pub use engine::Engine;
use engine::Module;
use epilogue::Epilogue;
use map::{Map, as_pairs, moves_pairs};
use node::PreparedCall;
use onednn::Search;
use packed_weights::{PackedOperands, Slabs};
use pool::Threads;
use reduce::Reduce;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use while_loop::WhileLoop;

pub struct Cpu {
    pool: Arc<Pool>,
    host_pool: Arc<Pool>,
    threads: Arc<Threads>,
    /// Bytes of packed operands that are kept from run to run.
    kept: Arc<AtomicU64>,
    /// Whether collectives run beside kernels.
    lanes: AtomicBool,
    /// The engine that computes modules.
    engine: Option<Arc<Engine>>,
    /// The same backend with an engine.
    second: Option<Box<Cpu>>,
}

impl Cpu {
    /// `num_threads` 0 means one for every core. No thread starts and no library is loaded before the first run.
    pub fn new(num_threads: usize, onednn: Search) -> Cpu {
        let threads = Arc::new(Threads::new(num_threads, onednn));
        let (pool, host_pool) = (Pool::new(), Pool::new());
        let (kept, lanes) = (Arc::default(), true.into());
        Cpu { pool, host_pool, threads, kept, lanes, engine: None, second: None }
    }

    /// Lets it measure which multiplier is the fastest for which blocks of f32, and keep the results on disk.
    pub fn with_choices(self, disk: Disk) -> Cpu {
        Cpu { threads: Arc::new(self.threads.with_choices(disk)), ..self }
    }

    /// Sets whether it has lanes; by default it has.
    pub fn with_lanes(self, lanes: bool) -> Cpu {
        Cpu { lanes: lanes.into(), ..self }
    }

    fn has_lanes(&self) -> bool {
        self.lanes.load(Relaxed)
    }

    /// With an engine that computes every node it can. The backend then supports only those composites that would be a
    /// node for each step.
    pub fn with_engine(self, engine: Engine) -> Cpu {
        Cpu { engine: Some(Arc::new(engine)), ..self }
    }

    /// With a second engine, for programs that turn out to be faster there.
    pub fn with_second_engine(self, engine: Engine) -> Cpu {
        let second = Cpu {
            pool: self.pool.clone(),
            host_pool: self.host_pool.clone(),
            threads: self.threads.clone(),
            kept: self.kept.clone(),
            lanes: self.has_lanes().into(),
            engine: Some(Arc::new(engine)),
            second: None,
        };
        Cpu { second: Some(Box::new(second)), ..self }
    }

    /// Runs `body` on this thread, whose work the backend's other threads share. Errors: the system starts no threads; the
    /// requested file of oneDNN cannot be used.
    pub fn inside<R>(&self, body: impl FnOnce() -> R) -> Result<R> {
        self.threads.install(body)
    }
}

impl Target for Cpu {
    /// Kernels keep their scratch memory per thread, from run to run.
    fn workspace(&self, _: Op, _: &Attrs, _: &[Ty], _: &[Ty]) -> u64 {
        0
    }

    fn kinds_on_lanes(&self) -> usize {
        if self.has_lanes() { KIND_COUNT } else { 0 }
    }
}

impl Backend for Cpu {
    fn name(&self) -> &'static str {
        if self.engine.is_some() { "openxla" } else { "cpu" }
    }

    fn keep_collectives_in_order(&self) {
        self.lanes.store(false, Relaxed);
    }

    fn runs_on_any_thread(&self) -> bool {
        true
    }

    /// Kernels read inputs that are aligned for their elements only; an engine needs more.
    fn input_alignment(&self) -> usize {
        if self.engine.is_some() || self.second.is_some() { 256 } else { 1 }
    }

    fn fingerprint(&self) -> String {
        let products = match self.threads.onednn() {
            Ok(Some(library)) => &library.version,
            _ => "none",
        };
        let lanes = if self.has_lanes() { "" } else { " without lanes" };
        let version = env!("CARGO_PKG_VERSION");
        let engine = self.engine.as_ref().map_or("", |engine| &engine.fingerprint);
        let with = if engine.is_empty() { "" } else { " with " };
        let measured = if self.threads.measures() { " measured" } else { "" };
        format!(
            "cpu {:?} {version} oneDNN {products}{measured}{lanes}{with}{engine}",
            isa::chosen()
        )
    }

    fn supports(&self, op: Op) -> bool {
        match self.engine {
            Some(_) => op.row().unrolls,
            None => op != Op::ScaledMatmul,
        }
    }

    fn product_choices(&self) -> Vec<(String, &'static str)> {
        self.threads.product_choices()
    }

    fn engine_says(&self) -> Option<Says> {
        self.engine.is_some().then_some(openxla::says)
    }

    fn second_engine(&self) -> Option<&dyn Backend> {
        self.second.as_deref().map(|second| second as &dyn Backend)
    }

    fn engine_counts(&self) -> EngineCounts {
        let engines =
            self.engine.iter().chain(self.second.iter().flat_map(|second| &second.engine));
        engines.map(|engine| engine.counts()).next().unwrap_or_default()
    }

    fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    fn host_pool(&self) -> &Arc<Pool> {
        &self.host_pool
    }

    fn compile(&self, plan: Arc<Plan>) -> Result<Box<dyn Executable>> {
        let compiled = |s| Compiled::new(s, &plan, self).map_err(|e| e.at(s.site));
        let steps = plan.steps.iter().map(compiled);
        let steps: Vec<Compiled> = steps.collect::<Result<_>>()?;
        Ok(Box::new(CpuExecutable {
            steps,
            packed_operands: PackedOperands::new(&plan, &self.kept),
            plan,
            pool: self.pool.clone(),
            threads: self.threads.clone(),
        }))
    }
}

/// A step, made ready to run.
enum Compiled {
    /// The flag: 16-byte elements are moved as pairs.
    Map(Box<Map>, bool),
    Reduce(Reduce),
    Fused(Box<Epilogue>),
    Product,
    Node,
    /// Arbitrary code: it runs as if nothing were installed on the thread.
    Host,
    /// Likewise, on a lane beside the next steps.
    OnLane,
    /// Run by the engine.
    Module(Module),
    While(WhileLoop),
}

struct CpuExecutable {
    steps: Vec<Compiled>,
    packed_operands: PackedOperands,
    plan: Arc<Plan>,
    pool: Arc<Pool>,
    threads: Arc<Threads>,
}

impl Compiled {
    fn new(step: &Step, plan: &Plan, cpu: &Cpu) -> Result<Compiled> {
        Ok(match &step.kernel {
            Kernel::Map(body) => {
                let wide = moves_pairs(&step.reads) || moves_pairs(&step.writes);
                let map = Map::new(body, &step.reads, &step.writes, &plan.donors)?;
                Compiled::Map(Box::new(map), wide)
            }
            Kernel::Reduce { body, op, axes } => {
                Compiled::Reduce(Reduce::new(body, *op, axes, step, &plan.donors)?)
            }
            Kernel::Fused { op, attrs, body } => {
                Compiled::Fused(Box::new(Epilogue::new((*op, attrs), body, step, &plan.donors)?))
            }
            Kernel::Node { op: Op::Host, .. } if step.done.is_some() => Compiled::OnLane,
            Kernel::Node { op: Op::Host, .. } => Compiled::Host,
            Kernel::Node { op: Op::Matmul, .. } => Compiled::Product,
            Kernel::Node { op: Op::Module, attrs } => match (&cpu.engine, body(attrs)) {
                (Some(engine), Some(body)) => Compiled::Module(engine.module(body)?),
                _ => Compiled::Node,
            },
            Kernel::Node { op: Op::While, attrs } => Compiled::While(WhileLoop::new(attrs, cpu)?),
            Kernel::Node { .. } => Compiled::Node,
        })
    }
}

type Bounds = SmallVec<[Bound; 4]>;

fn bind(operands: &[Operand], call: &Call) -> Result<Bounds> {
    let mut bounds = Bounds::with_capacity(operands.len());
    for operand in operands {
        bounds.push(Bound::new(operand, call)?);
    }
    Ok(bounds)
}

/// As [`bind`], for a kernel that moves 16-byte elements as pairs.
fn bind_pairs(operands: &[Operand], call: &Call) -> Result<Bounds> {
    bind(&operands.iter().map(as_pairs).collect::<Vec<_>>(), call)
}

impl CpuExecutable {
    fn run_step(&self, index: usize, call: &Call, of_run: &[Arc<Slabs>]) -> Result<()> {
        let step = &self.plan.steps[index];
        let slabs = || self.packed_operands.slabs(index, &step.reads[1], call, of_run);
        match &self.steps[index] {
            Compiled::Map(map, wide) => {
                let bind = if *wide { bind_pairs } else { bind };
                map.run(&bind(&step.reads, call)?, &bind(&step.writes, call)?)
            }
            Compiled::Reduce(reduce) => {
                reduce.run(&bind(&step.reads, call)?, &bind(&step.writes, call)?, &self.pool)
            }
            Compiled::Fused(epilogue) => {
                let slabs = epilogue.is_product().then(slabs).flatten();
                let (reads, writes) = (bind(&step.reads, call)?, bind(&step.writes, call)?);
                epilogue.run(&reads, &writes, (slabs.as_deref(), &self.pool))
            }
            Compiled::Product => {
                let (reads, writes) = (bind(&step.reads, call)?, bind(&step.writes, call)?);
                matmul::matmul(&reads, &writes, (slabs().as_deref(), &self.pool))
            }
            Compiled::Module(module) => {
                let (reads, writes) = (bind(&step.reads, call)?, bind(&step.writes, call)?);
                self.threads.serial(|| module.run(&reads, &writes, &self.pool))
            }
            Compiled::While(while_loop) => {
                let (reads, writes) = (bind(&step.reads, call)?, bind(&step.writes, call)?);
                while_loop.run(&reads, &writes, &self.pool)
            }
            kind @ (Compiled::Node | Compiled::Host | Compiled::OnLane) => {
                let Kernel::Node { op, attrs } = &step.kernel else {
                    return internal!("a node kernel without a node");
                };
                let (reads, writes) = (bind(&step.reads, call)?, bind(&step.writes, call)?);
                let run = || node::run(*op, attrs, &reads, &writes, &self.pool);
                if matches!(kind, Compiled::Node) { run() } else { self.threads.serial(run) }
            }
        }
    }

    /// Runs a step, or puts it on its communicator's lane after `before`.
    fn start_step(
        &self,
        (index, before): (usize, Option<Ticket>),
        call: &Call,
        of_run: &[Arc<Slabs>],
    ) -> Result<Option<Ticket>> {
        let step = &self.plan.steps[index];
        if let (Compiled::OnLane, Kernel::Node { attrs, .. }, Some(communicator)) =
            (&self.steps[index], &step.kernel, step.communicator(call.scalars))
            && let Some((kind, _)) = collective::of(attrs)
            && collective::has_lane(communicator)
        {
            let (reads, writes) = (bind(&step.reads, call)?, bind(&step.writes, call)?);
            let prepared = PreparedCall::new(attrs, &reads, &writes, &self.pool)?;
            let work = prepared.into_collective(kind, step.site)?;
            if let Some(ticket) = collective::put(communicator, before, work)? {
                return Ok(Some(ticket));
            }
        }
        self.run_step(index, call, of_run).map(|()| None)
    }
}

impl Executable for CpuExecutable {
    fn run(&self, call: &Call) -> Outcome {
        let mut steps = 0..self.plan.steps.len();
        self.run_steps(call, &mut |_| steps.next())
    }

    fn stepwise(&self) -> Option<&dyn Stepwise> {
        Some(self)
    }
}

impl Stepwise for CpuExecutable {
    fn run_steps(&self, call: &Call, next: &mut dyn FnMut(bool) -> Option<usize>) -> Outcome {
        let of_run = self.packed_operands.of_run();
        let step = |index, before| self.start_step((index, before), call, &of_run);
        let run = || run_some_steps(&self.plan, call, next, step);
        self.threads.install(run).unwrap_or_else(|error| all_failed(&self.plan, &error))
    }
}

fn all_failed(plan: &Plan, error: &Error) -> Outcome {
    let fail = |output| Failure { output, step: None, error: error.clone(), torn: false };
    let failed: Vec<Failure> = (0..plan.outputs.len() as u32).map(fail).collect();
    let unseen = if failed.is_empty() { vec![(None, error.clone())] } else { Vec::new() };
    Outcome { failed, unseen }
}
