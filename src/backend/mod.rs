//! Backends compile and run plans. A backend is the trait below, and as little else as possible.
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

    /// From now on plans have no lanes: the program has collectives that block when they start and must not overtake others
    /// ([`Communicator::overlaps`](crate::op::collective::Communicator::overlaps)).
    fn keep_collectives_in_order(&self) {}

    /// Everything about this backend that a compiled program depends on; part of the cache key.
    fn fingerprint(&self) -> String;

    /// Classes of CPU matrix products, each with the implementation that was measured to be the fastest. Empty on other
    /// backends.
    fn product_choices(&self) -> Vec<(String, &'static str)> {
        Vec::new()
    }

    /// Warning for the user about a missing component that makes the backend slower than it could be.
    fn missing_features(&self) -> Option<String> {
        None
    }

    /// Progress of the compile under way: kernels compiled, and their total; zeros where that takes no time.
    fn kernels_compiled(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Required alignment of input addresses, in bytes.
    fn input_alignment(&self) -> usize {
        256
    }

    /// Whether it computes a composite whole; the others are decomposed before planning.
    fn supports(&self, op: Op) -> bool;

    /// The predicate for nodes that a second engine computes: these become modules ([`crate::passes::outline`]).
    fn engine_says(&self) -> Option<Says> {
        None
    }

    /// A backend on the same memory with such an engine, for programs that turn out to be faster there.
    fn second_engine(&self) -> Option<&dyn Backend> {
        None
    }

    /// Counters of that engine.
    fn engine_counts(&self) -> EngineCounts {
        EngineCounts::default()
    }

    /// The pool of its memory.
    fn pool(&self) -> &Arc<Pool>;

    /// The pool of host memory that its kernels can access.
    fn host_pool(&self) -> &Arc<Pool>;

    /// The location of its memory.
    fn location(&self) -> Location {
        Location::HOST
    }

    /// Runs `work`, which enqueues on the location's queue, while nobody else does.
    fn queue(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        work()
    }

    /// Whether a program that calls no function of the user's program may run on any thread.
    fn runs_on_any_thread(&self) -> bool {
        false
    }

    /// Whether the kernel calls a function of the user's program.
    fn calls_host(&self, kernel: &Kernel) -> bool {
        matches!(kernel, Kernel::Node { op: Op::Host, .. })
    }

    /// Memory for `nbytes`, contents undefined, aligned to at least 64 bytes. Error: `OutOfMemory`.
    fn allocate(&self, nbytes: usize) -> Result<Box<dyn Bytes>> {
        Ok(Box::new(HostBytes(self.pool().allocate(nbytes)?)))
    }

    /// As [`Backend::allocate`], divided into parts: byte ranges of the whole.
    fn allocate_parts(&self, nbytes: usize, parts: &[Range<usize>]) -> Result<Parts> {
        let of = |memory| Box::new(HostBytes(memory)) as Box<dyn Bytes>;
        Ok(Parts::new(self.pool().allocate(nbytes)?, parts, of))
    }

    /// As [`Backend::allocate`], in host memory that kernels can access.
    fn allocate_on_host(&self, nbytes: usize) -> Result<Box<dyn Bytes>> {
        Ok(Box::new(HostBytes(self.host_pool().allocate(nbytes)?)))
    }

    /// Wraps memory at the location that somebody else lends.
    fn borrow(&self, memory: Borrowed) -> Box<dyn Bytes> {
        Box::new(memory)
    }

    fn compile(&self, plan: Arc<Plan>) -> Result<Box<dyn Executable>>;
}

/// One block of memory, divided into parts.
pub struct Parts {
    /// Address of the whole.
    pub address: usize,
    pub parts: Vec<Box<dyn Bytes>>,
    /// The whole, alive as long as one of its parts.
    pub whole: Weak<Whole>,
}

impl Parts {
    fn new(whole: Memory, parts: &[Range<usize>], of: impl Fn(Memory) -> Box<dyn Bytes>) -> Parts {
        let address = whole.addr();
        let (parts, whole) = whole.parts(parts);
        Parts { address, parts: parts.into_iter().map(of).collect(), whole }
    }
}

/// Counters of an engine since the backend was made.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineCounts {
    /// Modules compiled.
    pub compiled: u64,
    /// Modules read from disk instead.
    pub loaded: u64,
    /// Runs of modules.
    pub runs: u64,
}

/// A compiled plan.
pub trait Executable: Send + Sync {
    fn run(&self, call: &Call) -> Outcome;

    /// `None` if a run cannot be split into steps.
    fn stepwise(&self) -> Option<&dyn Stepwise> {
        None
    }
}

/// An executable that can run some steps of the plan now and the rest later.
pub trait Stepwise {
    /// Runs the steps that `next` returns, in order; `next` is told whether all earlier ones have ended and none
    /// failed. Their dependencies have run without a failure, on the same memory.
    fn run_steps(&self, call: &Call, next: &mut dyn FnMut(bool) -> Option<usize>) -> Outcome;
}

/// Addresses for one run. The caller keeps the memory alive and exclusive until `run` returns.
pub struct Call<'a> {
    pub inputs: &'a [usize],
    /// Inputs without a value because an earlier program failed to make it: as if a step had failed to write them.
    pub poisoned: &'a [(u32, Error)],
    /// The derived cache of every input whose memory stays unchanged until it is donated; may be empty.
    pub derived: &'a [Option<&'a DerivedCache>],
    /// Aligned as the location's memory is, unlike inputs; 0 where there was no memory: steps that need it fail.
    pub outputs: &'a [usize],
    /// Likewise, of the arena.
    pub arena: usize,
    /// Likewise, of the host block, for offloaded values.
    pub host: usize,
    /// Likewise, of the block of results. The outputs that the plan places there may lie in it or elsewhere.
    pub results: usize,
    /// The argument block: 8 bytes a slot.
    pub scalars: &'a [u64],
    pub watch: Option<&'a dyn Watch>,
}

/// Is notified of every step that runs, by the thread that runs it.
pub trait Watch: Sync {
    fn begin(&self, step: usize);
    /// The running step's operands were copied to the host, and its results back.
    fn was_copied(&self);
    fn end(&self, step: usize, failed: bool);
    /// Called instead of `end` when the step continues on a lane.
    fn goes_on(&self, _step: usize) {}
    /// Only lanes run until this step has ended on its lane.
    fn waits(&self, _step: usize) {}
    /// The step has ended on its lane.
    fn landed(&self, _step: usize, _ended: &Ended) {}
}

/// The outcome of a run. A failed step leaves its results unwritten; steps that depend on them are skipped, the rest runs.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Every output that could not be computed.
    pub failed: Vec<Failure>,
    /// Failures that affect no output, with the step.
    pub unseen: Vec<(Option<u32>, Error)>,
}

#[derive(Debug)]
pub struct Failure {
    pub output: u32,
    /// The step of the plan that failed; `None` if no step is to blame, as for a poisoned input.
    pub step: Option<u32>,
    pub error: Error,
    /// Whether the output may be partly written; donated memory then no longer holds the old value.
    pub torn: bool,
}
