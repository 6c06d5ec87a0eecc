//! The block in which results lie that are given no other memory, and before they are written what is needed then
//! ([`Plan::results`]): gradients take the place of activations.
//!
//! **Invariant:** a result that is kept keeps its block. So a program has no second block while its last one is there, and none
//! while much of all memory are parts of blocks that nobody has any more: then its results have memory of their own.

use super::Shared;
use super::code::Compiled;
use crate::backend::memory::Whole;
use crate::buffer::Bytes;
use crate::error::Result;
use crate::plan::Plan;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Weak;

/// Of the memory in use, such parts may be one in so many bytes.
const IDLE: u64 = 16;

/// The last block of a program.
#[derive(Default)]
pub struct LastBlock(Mutex<Weak<Whole>>);

/// The block of a run.
#[derive(Default)]
pub struct ResultsBlock {
    pub address: usize,
    /// It, if the results lie elsewhere.
    _apart: Option<Box<dyn Bytes>>,
}

impl ResultsBlock {
    /// For a run, with the memory of the outputs that lie there, if they do.
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
        let mut last = code.last_block.0.lock();
        if last.strong_count() > 0 || !pays(shared, plan) {
            let block = shared.allocate(nbytes)?;
            return Ok(ResultsBlock { address: block.address(), _apart: Some(block) });
        }
        let bytes = |&(k, start): &(u32, u64)| -> Range<usize> {
            let start = start as usize;
            start..start + plan.outputs[k as usize].nbytes()
        };
        let bytes: Vec<Range<usize>> = plan.results.iter().map(bytes).collect();
        let made = shared.backend.allocate_parts(nbytes, &bytes)?;
        *last = made.whole;
        for ((k, _), part) in plan.results.iter().zip(made.parts) {
            memory[*k as usize] = Some(part);
        }
        Ok(ResultsBlock { address: made.address, _apart: None })
    }
}

fn pays(shared: &Shared, plan: &Plan) -> bool {
    let stats = shared.backend.pool().stats();
    let apart = plan.memory() + plan.results_bytes;
    stats.idle_bytes <= stats.live_bytes / IDLE
        || shared.memory_limit().is_some_and(|limit| apart > limit)
}
