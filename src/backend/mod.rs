//! What runs plans. A backend is the trait below, and as little else as possible.
//!
//! **Invariant:** touches device memory and its own code; does not rewrite graphs and does not read the environment.

pub mod borrowed;
pub mod bytes;
pub mod cpu;
pub mod cuda;
pub mod host_memory;
#[cfg(test)]
mod early_tests;
#[cfg(test)]
mod lane_tests;
mod library;
pub mod memory;
pub mod null;
#[cfg(test)]
mod plan_tests;
pub mod reference;
#[cfg(test)]
mod reference_tests;
pub mod run;
pub mod supplied;

use crate::buffer::{Bytes, DerivedCache, Location};
use crate::error::{Error, Result};
use crate::op::Op;
use crate::op::lane::Ended;
use crate::passes::Says;
use crate::plan::{Kernel, Plan, Target};
use borrowed::Borrowed;
use bytes::HostBytes;
use memory::{Memory, Pool, Whole};
use std::ops::Range;
use std::sync::{Arc, Weak};

pub trait Backend: Target + Send + Sync {
    fn name(&self) -> &'static str;

    /// From now on plans have no lanes: the program has collectives that are waited for when they start, which must not pass
    /// others.
    fn keep_collectives_in_order(&self) {}

    /// Everything about this backend that a compiled program depends on; part of the cache key.
    fn fingerprint(&self) -> String;

    /// Kinds of products on the CPU for which it is measured who computes them fastest, and who does. None on other backends.
    fn product_choices(&self) -> Vec<(String, &'static str)> {
        Vec::new()
    }

    /// What its user should know of it: something is missing, so that it is slower than it could be.
    fn missing_features(&self) -> Option<String> {
        None
    }

    /// Of a compile that is under way: how many kernels are compiled, of how many; zeros where that takes no time.
    fn kernels_compiled(&self) -> (u64, u64) {
        (0, 0)
    }

    /// What addresses of inputs must be multiples of, in bytes.
    fn input_alignment(&self) -> usize {
        256
    }

    /// Whether it computes a composite whole; the others are decomposed before planning.
    fn supports(&self, op: Op) -> bool;

    /// Which nodes a second engine computes for it: these become modules ([`crate::passes::outline`]).
    fn engine_says(&self) -> Option<Says> {
        None
    }

    /// The same memory with such an engine, for programs that turn out to be faster there.
    fn second_engine(&self) -> Option<&dyn Backend> {
        None
    }

    /// What that engine did.
    fn engine_counts(&self) -> EngineCounts {
        EngineCounts::default()
    }

    /// Where its memory comes from.
    fn pool(&self) -> &Arc<Pool>;

    /// Where memory of the host's comes from that its kernels reach.
    fn host_pool(&self) -> &Arc<Pool>;

    /// Where its memory is.
    fn location(&self) -> Location {
        Location::HOST
    }

    /// Does `work`, which puts things on the location's queue, when nobody else does so.
    fn queue(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        work()
    }

    /// Whether a program without functions of the program's own may run on any thread.
    fn runs_on_any_thread(&self) -> bool {
        false
    }

    /// Whether it computes a step by a function of the program's.
    fn calls_host(&self, kernel: &Kernel) -> bool {
        matches!(kernel, Kernel::Node { op: Op::Host, .. })
    }

    /// Memory for `nbytes`, contents undefined, aligned to at least 64 bytes. Error: `OutOfMemory`.
    fn allocate(&self, nbytes: usize) -> Result<Box<dyn Bytes>> {
        Ok(Box::new(HostBytes(self.pool().allocate(nbytes)?)))
    }

    /// Likewise, in parts: bytes of the whole.
    fn allocate_parts(&self, nbytes: usize, parts: &[Range<usize>]) -> Result<Parts> {
        let of = |memory| Box::new(HostBytes(memory)) as Box<dyn Bytes>;
        Ok(Parts::new(self.pool().allocate(nbytes)?, parts, of))
    }

    /// Likewise of the host's, which kernels reach, too.
    fn allocate_on_host(&self, nbytes: usize) -> Result<Box<dyn Bytes>> {
        Ok(Box::new(HostBytes(self.host_pool().allocate(nbytes)?)))
    }

    /// Memory of the location's that somebody else lends.
    fn borrow(&self, memory: Borrowed) -> Box<dyn Bytes> {
        Box::new(memory)
    }

    fn compile(&self, plan: Arc<Plan>) -> Result<Box<dyn Executable>>;
}

/// One block of memory as several.
pub struct Parts {
    /// Of the whole.
    pub address: usize,
    pub parts: Vec<Box<dyn Bytes>>,
    /// The whole, for as long as one of them is there.
    pub whole: Weak<Whole>,
}

impl Parts {
    fn new(whole: Memory, parts: &[Range<usize>], of: impl Fn(Memory) -> Box<dyn Bytes>) -> Parts {
        let address = whole.addr();
        let (parts, whole) = whole.parts(parts);
        Parts { address, parts: parts.into_iter().map(of).collect(), whole }
    }
}

/// Since the backend was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineCounts {
    /// Modules compiled.
    pub compiled: u64,
    /// Read from disk instead.
    pub loaded: u64,
    /// Runs of modules.
    pub runs: u64,
}

/// A compiled plan.
pub trait Executable: Send + Sync {
    fn run(&self, call: &Call) -> Outcome;

    /// `None` if a run is one thing.
    fn stepwise(&self) -> Option<&dyn Stepwise> {
        None
    }
}

/// An executable that can run some steps of the plan now and the rest later.
pub trait Stepwise {
    /// Runs the steps that `next` says, in order; it is told whether all before have ended, and none failed. What they depend on has
    /// run, without a failure and on the same memory.
    fn run_steps(&self, call: &Call, next: &mut dyn FnMut(bool) -> Option<usize>) -> Outcome;
}

/// Addresses for one run. The caller keeps the memory alive and exclusive until `run` returns.
pub struct Call<'a> {
    pub inputs: &'a [usize],
    /// Inputs that have no value because an earlier program failed to make it: as if a step had failed to write them.
    pub poisoned: &'a [(u32, Error)],
    /// The derived cache of every input whose memory stays as it is until it is donated; may be empty.
    pub derived: &'a [Option<&'a DerivedCache>],
    /// Aligned as memory of the location is, other than inputs; 0 where there was no memory: steps that need it fail.
    pub outputs: &'a [usize],
    /// Likewise.
    pub arena: usize,
    /// Likewise, of the host's block: what was offloaded.
    pub host: usize,
    /// Likewise, of the block of results, in which the outputs that the plan says may lie, or not.
    pub results: usize,
    /// The argument block: 8 bytes a slot.
    pub scalars: &'a [u64],
    pub watch: Option<&'a dyn Watch>,
}

/// Is notified of every step that runs, by the thread that runs it.
pub trait Watch: Sync {
    fn begin(&self, step: usize);
    /// Operands of the step that runs were copied to the host, and results back.
    fn was_copied(&self);
    fn end(&self, step: usize, failed: bool);
    /// Instead of its end: the step that began goes on, on a lane.
    fn goes_on(&self, _step: usize) {}
    /// Nothing runs but what is on lanes until this step has ended there.
    fn waits(&self, _step: usize) {}
    /// It has.
    fn landed(&self, _step: usize, _ended: &Ended) {}
}

/// How a run ended. A failed step leaves its results unwritten; what depends on them is skipped, the rest runs.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Every output that could not be computed.
    pub failed: Vec<Failure>,
    /// Failures that no output shows, with the step.
    pub unseen: Vec<(Option<u32>, Error)>,
}

#[derive(Debug)]
pub struct Failure {
    pub output: u32,
    /// The step of the plan that is to blame; `None` when it is a poisoned input.
    pub step: Option<u32>,
    pub error: Error,
    /// Whether some of it may be written: then donated memory does not hold the old value any more.
    pub torn: bool,
}
