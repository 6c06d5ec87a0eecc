//! Loops: the condition and a round are programs of their own, which run on memory of the loop.

use super::access::{Bound, Source};
use super::dense::{Dense, copy, dense, fresh};
use crate::backend::memory::Pool;
use crate::backend::{Backend, Call, Executable};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::module::graph_of;
use crate::internal;
use crate::op::Attr;
use crate::op::module::Body;
use crate::op::while_loop::parts;
use crate::passes::optimize;
use crate::plan::check::check;
use crate::plan::{Plan, PlanMode, plan_unplaced};
use crate::shape::Layout;
use std::sync::Arc;

pub struct WhileLoop {
    condition: Part,
    round: Part,
}

impl WhileLoop {
    /// Errors: those of compiling its parts.
    pub fn new(attrs: &[Attr], backend: &dyn Backend) -> Result<WhileLoop> {
        let Some([condition, round]) = parts(attrs) else { return internal!("no parts of a loop") };
        let donors = (0..round.results.len() as u32).map(Some).collect();
        Ok(WhileLoop {
            condition: Part::new(condition, vec![None], backend)?,
            round: Part::new(round, donors, backend)?,
        })
    }

    /// Writes the results after the last round. Errors: no memory, and those of the condition and of a round.
    pub fn run(&self, reads: &[Bound], writes: &[Bound], pool: &Arc<Pool>) -> Result<()> {
        let (carried, captured) = reads.split_at(writes.len());
        let own = |read: &Bound| {
            let own = fresh(read, pool)?;
            copy(read, &own)?;
            Ok(own)
        };
        let mut carried: Vec<Dense> = carried.iter().map(own).collect::<Result<_>>()?;
        let captured: Vec<Dense> =
            captured.iter().map(|read| dense(read, pool)).collect::<Result<_>>()?;
        // For results that a round cannot write over its operands.
        let spare = |(write, donor): (&Bound, &Option<u32>)| {
            donor.is_none().then(|| fresh(write, pool)).transpose()
        };
        let donors = &self.round.plan.donors;
        let mut spares: Vec<Option<Dense>> =
            writes.iter().zip(donors).map(spare).collect::<Result<_>>()?;
        let arena_bytes = self.condition.plan.arena_bytes.max(self.round.plan.arena_bytes);
        let arena = pool.allocate(arena_bytes as usize)?;
        let goes_on = Bound::at(Source::Index, DType::Bool, Layout::contiguous(&[]))?;
        let goes_on = fresh(&goes_on, pool)?;
        loop {
            let inputs: Vec<usize> = carried.iter().chain(&captured).map(|x| x.start()).collect();
            self.condition.run(&inputs, &[goes_on.start()], arena.addr())?;
            if goes_on.slice::<u8>(0, 1)[0] == 0 {
                break;
            }
            let target = |(spare, x): (&Option<Dense>, &Dense)| spare.as_ref().unwrap_or(x).start();
            let outputs: Vec<usize> = spares.iter().zip(&carried).map(target).collect();
            self.round.run(&inputs, &outputs, arena.addr())?;
            for (spare, x) in spares.iter_mut().zip(&mut carried) {
                spare.iter_mut().for_each(|spare| std::mem::swap(spare, x));
            }
        }
        carried.iter().zip(writes).try_for_each(|(x, write)| copy(x, write))
    }
}

struct Part {
    plan: Arc<Plan>,
    program: Box<dyn Executable>,
}

impl Part {
    fn new(body: &Body, donors: Vec<Option<u32>>, backend: &dyn Backend) -> Result<Part> {
        let graph = optimize(graph_of(body), &|op| backend.supports(op))?;
        let search = PlanMode::Search;
        let planned = plan_unplaced(&graph, &body.operands, &[], &donors, backend, search)?;
        // Its results lie in memory that the loop gives.
        let plan = Arc::new(planned.0.placed_sharing(u64::MAX));
        if cfg!(debug_assertions) {
            check(&graph, &plan)?;
        }
        let program = backend.compile(plan.clone())?;
        Ok(Part { plan, program })
    }

    fn run(&self, inputs: &[usize], outputs: &[usize], arena: usize) -> Result<()> {
        let outcome = self.program.run(&Call {
            inputs,
            poisoned: &[],
            derived: &[],
            outputs,
            arena,
            host: 0,
            results: 0,
            scalars: &[],
            watch: None,
        });
        let failed = outcome.failed.into_iter().map(|failure| failure.error);
        match failed.chain(outcome.unseen.into_iter().map(|(_, error)| error)).next() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
