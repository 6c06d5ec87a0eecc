//! The block for results that are given no other memory, and, before these are written, for intermediates ([`Plan::results`]):
//! gradients take the place of activations.
//!
//! **Invariant:** a result that is kept keeps its block. So a plan gets no third block while its last two exist (the last one
//! may: a run begins early, before the program drops the gradients of the run before), nor one while many idle parts of blocks
//! exist: its results then get memory of their own, and the block is scratch memory. It gets a block all the same if memory of
//! their own would exceed the memory limit, or cannot be had.

use crate::backend::memory::Whole;
use crate::buffer::Bytes;
use crate::error::Result;
use crate::plan::Plan;
use crate::runtime::program::Compiled;
use crate::runtime::shared::Shared;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Idle parts of blocks may be at most one byte in this many of the memory in use.
const IDLE: u64 = 16;

/// The block of a run.
#[derive(Default)]
pub struct ResultsBlock {
    pub address: usize,
    _kept: Option<Kept>,
}

/// Keeps the block for as long as the run, whatever becomes of its results.
#[expect(dead_code, reason = "kept, not read")]
enum Kept {
    Scratch(Box<dyn Bytes>),
    Parts(Arc<Whole>),
}

impl ResultsBlock {
    /// The block of a run. Gives `memory` the parts of the block for the plan's results, or memory of their own.
    pub fn new(
        shared: &Shared,
        code: &Compiled,
        memory: &mut [Option<Box<dyn Bytes>>],
    ) -> Result<ResultsBlock> {
        let plan = &*code.plan;
        let nbytes = plan.results_bytes as usize;
        if nbytes == 0 {
            return Ok(ResultsBlock::default());
        }
        let (is_held, is_first, own) = {
            let last = code.last_blocks.lock();
            let there: Vec<Arc<Whole>> = last.iter().filter_map(Weak::upgrade).collect();
            let own = there.iter().map(|block| block.idle_bytes()).sum();
            (there.len() == last.len(), last[0].ptr_eq(&Weak::new()), own)
        };
        if fits_apart(shared, plan) && (is_held || !pays(shared, own)) {
            let apart = apart(shared, plan, memory);
            if apart.is_ok() {
                return apart;
            }
            // The block alone takes less.
            plan.results.iter().for_each(|(k, _)| memory[*k as usize] = None);
        }
        let bytes = |&(k, start): &(u32, u64)| -> Range<usize> {
            let start = start as usize;
            start..start + plan.outputs[k as usize].nbytes()
        };
        let bytes: Vec<Range<usize>> = plan.results.iter().map(bytes).collect();
        if is_first {
            // Frees memory that other programs left, like the first step of a training, which makes the optimizer's state.
            shared.backend.pool().make_way(nbytes);
        }
        let made = shared.backend.allocate_parts(nbytes, &bytes)?;
        let whole = made.whole.upgrade();
        let mut last = code.last_blocks.lock();
        last.rotate_right(1);
        last[0] = made.whole;
        drop(last);
        for ((k, _), part) in plan.results.iter().zip(made.parts) {
            memory[*k as usize] = Some(part);
        }
        Ok(ResultsBlock { address: made.address, _kept: whole.map(Kept::Parts) })
    }
}

/// The block as scratch memory, and separate memory for the results.
fn apart(
    shared: &Shared,
    plan: &Plan,
    memory: &mut [Option<Box<dyn Bytes>>],
) -> Result<ResultsBlock> {
    let block = shared.allocate(plan.results_bytes as usize)?;
    for (k, _) in &plan.results {
        let k = *k as usize;
        memory[k] = Some(shared.allocate(plan.outputs[k].nbytes())?);
    }
    Ok(ResultsBlock { address: block.address(), _kept: Some(Kept::Scratch(block)) })
}

/// `own`: idle bytes of the plan's own blocks, which may be about to be freed, part by part.
fn pays(shared: &Shared, own: u64) -> bool {
    let stats = shared.backend.pool().stats();
    stats.idle_bytes.saturating_sub(own) <= stats.live_bytes / IDLE
}

fn fits_apart(shared: &Shared, plan: &Plan) -> bool {
    let bytes = plan.memory() + plan.memory_apart();
    shared.memory_limit().is_none_or(|limit| bytes <= limit)
}
