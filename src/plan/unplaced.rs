//! A plan before its memory: another size of the same program changes only numbers in it.

use super::{Kernel, LoopBody, Operand, Plan, Step, memory};
use crate::buffer::size_class::largest_within;
use crate::graph::Guard;
use crate::number::{Number, Numbers};
use crate::op::Ty;

/// Bytes of results that pay for a block of their own, in which other values lie before.
const LEAST_RESULTS: u64 = 1 << 20;

/// A plan in which `MemRef::Arena`, `MemRef::Host` and the workspaces name blocks by number; their sizes and
/// lifetimes follow from the steps.
#[derive(Clone, Debug, PartialEq)]
pub struct UnplacedPlan {
    plan: Plan,
    /// Those of the graph.
    guards: Vec<Guard>,
}

impl UnplacedPlan {
    pub(super) fn new(plan: Plan, guards: &[Guard]) -> UnplacedPlan {
        UnplacedPlan { plan, guards: guards.to_vec() }
    }

    /// The conditions on which its graph's rewrites rely: the last of its numbers.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Whether these hold for its numbers.
    pub fn is_guarded(&self) -> bool {
        self.guards.iter().all(|guard| guard.margin >= 0)
    }

    /// The plan, with every block at its offset.
    pub fn placed(self) -> Plan {
        self.placed_sharing(LEAST_RESULTS)
    }

    /// The same, with results in one block if they have at least this many bytes.
    pub fn placed_sharing(self, least: u64) -> Plan {
        let UnplacedPlan { mut plan, .. } = self;
        memory::settle(&mut plan, least, 0);
        plan
    }

    /// Bytes by which the arena is too large for [`Plan::memory`] to be within `limit`; 0 if it is not.
    pub(super) fn excess(self, limit: u64) -> u64 {
        let UnplacedPlan { mut plan, .. } = self;
        memory::settle(&mut plan, LEAST_RESULTS, limit);
        let room = largest_within(limit.saturating_sub(plan.memory_of_results()));
        if plan.memory() <= limit { 0 } else { plan.arena_bytes.saturating_sub(room).max(1) }
    }

    pub fn steps(&self) -> &[Step] {
        &self.plan.steps
    }

    pub fn steps_mut(&mut self) -> &mut [Step] {
        &mut self.plan.steps
    }
}

impl Numbers for UnplacedPlan {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        let UnplacedPlan { plan: Plan { steps, inputs, outputs, .. }, guards } = self;
        inputs.iter_mut().chain(outputs).for_each(|ty: &mut Ty| ty.numbers(f));
        steps.iter_mut().for_each(|step| step.numbers(f));
        guards.iter_mut().for_each(|guard| f(Number::Int(&mut guard.margin)));
    }
}

impl Numbers for Step {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        self.kernel.numbers(f);
        self.reads.iter_mut().chain(&mut self.writes).for_each(|o| o.numbers(f));
        if let Some((_, bytes)) = &mut self.workspace {
            f(Number::Bytes(bytes));
        }
    }
}

impl Numbers for Operand {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        self.layout.numbers(f);
    }
}

impl Numbers for Kernel {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        match self {
            Kernel::Map(body) | Kernel::Reduce { body, .. } => body.numbers(f),
            Kernel::Fused { attrs, body, .. } => {
                attrs.numbers(f);
                body.numbers(f);
            }
            Kernel::Node { attrs, .. } => attrs.numbers(f),
        }
    }
}

impl Numbers for LoopBody {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        self.sizes.numbers(f);
        self.instrs.iter_mut().for_each(|instr| instr.attrs.numbers(f));
    }
}
