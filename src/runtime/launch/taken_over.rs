//! Memory that a program took over from its inputs while copies of it are pending: these are made before the first step that
//! writes there, so that copying a snapshot of a model overlaps the forward and the backward pass of the next step.

use crate::buffer::{Bytes, Taken};
use crate::error::Result;
use crate::plan::{MemRef, Plan};

/// The outputs with such memory, and the first step that writes to each; in the order of the steps.
#[derive(Default)]
pub struct TakenOver {
    taken: Vec<(usize, usize, Taken)>,
    /// Number of outputs whose copies have been made.
    copied: usize,
}

impl TakenOver {
    pub fn new(plan: &Plan, taken: Vec<(usize, Taken)>) -> TakenOver {
        if taken.is_empty() {
            return TakenOver::default();
        }
        let mut first = vec![plan.steps.len(); plan.outputs.len()];
        for (index, step) in plan.steps.iter().enumerate().rev() {
            for write in &step.writes {
                if let MemRef::Output(output) = write.mem {
                    first[output as usize] = index;
                }
            }
        }
        let with_first = |(output, memory)| (first[output], output, memory);
        let mut taken: Vec<_> = taken.into_iter().map(with_first).collect();
        taken.sort_by_key(|&(first, output, _)| (first, output));
        TakenOver { taken, copied: 0 }
    }

    /// To be called before a step runs, when all steps before it have run.
    pub fn before(&mut self, step: usize) {
        while let Some((first, _, memory)) = self.taken.get(self.copied)
            && *first <= step
        {
            memory.make_copies();
            self.copied += 1;
        }
    }

    /// Outputs and their memory, without pending copies.
    pub fn into_memory(self) -> impl Iterator<Item = (usize, Result<Box<dyn Bytes>>)> {
        self.taken.into_iter().map(|(_, output, memory)| (output, memory.into_bytes()))
    }
}
