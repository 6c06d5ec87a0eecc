//! From a closed trace to a program: the whole pipeline on one screen.

use super::Shared;
use super::background::BackgroundThread;
use super::code::{Code, Compiled};
use super::memory_limit::Recomputed;
use super::padding::PaddedBinding;
use crate::backend::Backend;
use crate::dtype::DType;
use crate::dynamic::{Comparison, Instance, ShapeErasedTrace, SymbolBinding, compare};
use crate::error::Result;
use crate::graph::Graph;
use crate::graph::verify::verify;
use crate::op::{Op, Ty};
use crate::plan::{Plan, PlanDecisions, PlanMode, UnplacedPlan};
use crate::record::{Operator, Origin, Records, Value};
use crate::trace::operator_name;
use crate::{aten, invalid, passes, plan};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A program of so many nodes may start with a plan made quickly, if `TORCHACC_QUICK_FROM` does not say another number.
pub const QUICK_FROM: usize = 2000;
/// Unless that plan takes more bytes of the arena than this: up to a third of them are not needed after the search, and a
/// step that works on so many takes much longer than that.
const QUICK_BYTES: u64 = 256 << 20;

/// A compiled trace.
pub struct CompiledTrace {
    /// `None` if only a plan was found: on disk, or for other sizes.
    pub graph: Option<Arc<Graph>>,
    pub code: Arc<Code>,
    /// Operator of every record, for messages.
    pub operators: Vec<Operator>,
    /// If the plan was made for other sizes, of which family and for which of them.
    pub instance_of: Option<SymbolBinding>,
    /// Whether it was made before a trace asked for it, and has not run yet.
    pub is_unused: AtomicBool,
    /// How a trace of other sizes uses the program of its bucket.
    pub binding: Option<Box<PaddedBinding>>,
    /// Why it is not the program of a bucket, where it was to be.
    pub unpadded: Option<String>,
    /// What runs again to stay within the memory limit.
    pub recomputed: Option<Box<Recomputed>>,
}

/// What came of looking for a plan for other sizes.
pub enum Instantiation {
    Done(Box<CompiledTrace>),
    Nothing,
    /// One was found and is wrong; those that were instantiated before may be.
    Refuted,
}

impl CompiledTrace {
    /// The same for a trace of other sizes.
    pub fn bound(&self, binding: PaddedBinding) -> CompiledTrace {
        CompiledTrace {
            graph: None,
            code: self.code.clone(),
            operators: self.operators.clone(),
            instance_of: None,
            is_unused: AtomicBool::default(),
            binding: Some(Box::new(binding)),
            unpadded: None,
            recomputed: None,
        }
    }

    /// Bytes of host memory that it takes, about: what a step of its plan, with the nodes it comes from, was found to
    /// take in training steps.
    pub fn nbytes(&self) -> usize {
        const STEP: usize = 5 << 10;
        match self.binding {
            // The rest is the bucket's.
            Some(_) => STEP,
            None => (self.code.newest().plan.steps.len() + 1) * STEP,
        }
    }
}

/// What is left to do for a program when it can be run, in the background.
pub struct BackgroundWork {
    graph: Arc<Graph>,
    interface: Interface,
    code: Arc<Code>,
    /// The plan before its memory, and its decisions; `None` while the program runs one that was made quickly.
    found: Option<(UnplacedPlan, PlanDecisions)>,
    /// A trace whose sizes vary.
    varies: Option<(Records, ShapeErasedTrace)>,
}

/// Lowers each recorded operation to primitives, rewrites, plans, and has the backend compile the plan.
pub(super) fn compile(
    shared: &Shared,
    records: &Records,
    erased: &ShapeErasedTrace,
) -> Result<(CompiledTrace, BackgroundWork)> {
    let graph = shared.stage("graph", || graph(records, &*shared.backend))?;
    let (program, background) = of_graph(shared, records, graph, Interface::of(records))?;
    // A module holds for the sizes that it was compiled for.
    let is_fixed = shared.backend.engine_says().is_some() || is_unrolled(records, &*shared.backend);
    let may_vary = !is_fixed && shared.families.add(erased);
    let varies = may_vary.then(|| (records.clone(), erased.clone()));
    Ok((program, BackgroundWork { varies, ..background }))
}

/// Whether the program has as many steps as a size says.
fn is_unrolled(records: &Records, backend: &dyn Backend) -> bool {
    let unrolls = |op: Op| op.row().unrolls && !backend.supports(op);
    records.records.iter().any(|record| match record.op {
        Operator::Native(row) => aten::primitive_of(row).is_some_and(unrolls),
        Operator::Host(_) => false,
    })
}

/// The program of a graph that stands for these records.
pub(super) fn of_graph(
    shared: &Shared,
    records: &Records,
    graph: Graph,
    interface: Interface,
) -> Result<(CompiledTrace, BackgroundWork)> {
    let backend = &*shared.backend;
    let planned = |mode| shared.stage("plan", || interface.plan_unplaced(&graph, mode, backend));
    let quickly = || Ok(planned(PlanMode::Quick)?.0.placed());
    let quick = (graph.nodes.len() >= shared.quick_from).then(quickly).transpose()?;
    let between = |plan: &Plan| plan.arena_bytes + plan.results_bytes;
    let quick = quick.filter(|plan| between(plan) <= QUICK_BYTES && shared.is_within_limit(plan));
    let (plan, found) = match quick {
        Some(plan) => (plan, None),
        None => {
            let found = planned(shared.plan_mode())?;
            (found.0.clone().placed(), Some(found))
        }
    };
    let operators: Vec<Operator> = records.records.iter().map(|record| record.op).collect();
    shared.check_limit(&plan, &operators)?;
    let cost = found.as_ref().and_then(|(_, decisions)| decisions.cost());
    let recomputed = shared.memory_limit().zip(cost).map(|(limit, cost)| {
        let recomputed = Recomputed::new(limit, cost, &plan, &operators);
        shared.stats.limited_programs.add(1);
        shared.stats.recomputed_steps.add(recomputed.steps);
        Box::new(recomputed)
    });
    let program = || assembled(records, Some(&graph), plan, backend);
    let program = shared.stage("code", program)?;
    shared.stats.quick_plans.add(found.is_none() as u64);
    let graph = Arc::new(graph);
    let code = program.code.clone();
    let program = CompiledTrace { graph: Some(graph.clone()), recomputed, ..program };
    Ok((program, BackgroundWork { graph, interface, code, found, varies: None }))
}

impl BackgroundWork {
    /// Whether there is something.
    pub fn is_some(&self) -> bool {
        self.found.is_none() || self.varies.is_some()
    }

    /// The plan that stays. One that has to be searched for takes the place of the program's.
    pub(super) fn plan(&mut self, shared: &Shared) -> Result<Arc<Plan>> {
        if self.found.is_none() {
            let (graph, backend) = (&self.graph, &*shared.backend);
            let search = || self.interface.plan_unplaced(graph, shared.plan_mode(), backend);
            let found = shared.stage("search", search)?;
            let plan = found.0.clone().placed();
            if !shared.is_within_limit(&plan) {
                // The quick one was, whose results lie in a block.
                return Ok(self.code.newest().plan.clone());
            }
            self.code.replace(compiled(Some(graph), plan, backend)?);
            self.found = Some(found);
        }
        Ok(self.code.newest().plan.clone())
    }

    /// Whether a trace of other sizes had better wait for [`BackgroundWork::learn`].
    pub(super) fn is_awaited(&self, shared: &Shared) -> bool {
        self.varies.as_ref().is_none_or(|(_, erased)| shared.families.is_eager(erased))
    }

    /// Plans the trace for other sizes, as a template, if its sizes vary. After [`BackgroundWork::plan`].
    pub(super) fn learn(&self, shared: &Shared) {
        let (Some((unplaced, decisions)), Some((records, erased))) = (&self.found, &self.varies)
        else {
            return;
        };
        let backend = &*shared.backend;
        let planner = |records: &Records, decisions: &PlanDecisions| {
            if shared.is_ending.load(Relaxed) {
                return invalid!("nobody wants the plan any more");
            }
            let graph = graph(records, backend)?;
            Ok(Interface::of(records)
                .plan_unplaced(&graph, PlanMode::Guided(decisions), backend)?
                .0)
        };
        let learn = || shared.families.learn(erased, records, unplaced, decisions, &planner);
        shared.stats.templates.add(shared.stage("other sizes", learn) as u64);
    }
}

/// Programs that may wait to be planned for other sizes beside later runs. Of one for which there is no room the family is planned
/// by a later one.
const WAITING: usize = 4;

/// Plans programs for other sizes while later ones run.
pub(super) fn learner() -> BackgroundThread<BackgroundWork> {
    BackgroundThread::new("other-sizes", WAITING, |shared, background| background.learn(shared))
}

/// The program of a trace by a plan for other sizes, if there is one. The trace's own plan has the last word.
pub(super) fn instantiate(
    shared: &Shared,
    records: &Records,
    erased: &ShapeErasedTrace,
) -> Result<Instantiation> {
    let (families, backend) = (&shared.families, &*shared.backend);
    let Some(Instance { unplaced, binding, verify }) = families.instance(erased, records) else {
        return Ok(Instantiation::Nothing);
    };
    let done = |program| {
        Instantiation::Done(Box::new(CompiledTrace { instance_of: Some(binding), ..program }))
    };
    let Some(decisions) = verify else {
        let plan = unplaced.placed();
        if !shared.is_within_limit(&plan) {
            // In sizes such as these more has to be computed again.
            return Ok(Instantiation::Nothing);
        }
        // A backend that refuses what was instantiated may take the trace's own plan.
        return Ok(assembled(records, None, plan, backend).map_or_else(
            |_| {
                families.forget(erased);
                Instantiation::Nothing
            },
            done,
        ));
    };
    let graph = graph(records, backend)?;
    let guided =
        Interface::of(records).plan_unplaced(&graph, PlanMode::Guided(&decisions), backend);
    match guided.map(|(own, _)| (compare(&unplaced, &own), own.placed())) {
        Ok((Comparison::Equal, own)) if shared.is_within_limit(&own) => {
            let program = assembled(records, Some(&graph), own, backend)?;
            Ok(done(CompiledTrace { graph: Some(Arc::new(graph)), ..program }))
        }
        Ok((Comparison::OtherNumbers, _)) => {
            families.forget(erased);
            Ok(Instantiation::Refuted)
        }
        // These very sizes give other kernels (powers of two divide otherwise, equal sizes may be one), for which the
        // decisions say nothing.
        Ok(_) | Err(_) => Ok(Instantiation::Nothing),
    }
}

/// The program of these records by another engine of the same memory. `None`: that would compute nothing of it.
pub(super) fn for_engine(
    shared: &Shared,
    records: &Records,
    engine: &dyn Backend,
) -> Result<Option<Compiled>> {
    let graph = graph(records, engine)?;
    if !graph.nodes.iter().any(|node| node.op == Op::Module) {
        return Ok(None);
    }
    let (found, _) = Interface::of(records).plan_unplaced(&graph, shared.plan_mode(), engine)?;
    let plan = found.placed();
    match shared.is_within_limit(&plan) {
        true => compiled(Some(&graph), plan, engine).map(Some),
        false => Ok(None),
    }
}

/// What is planned.
pub fn graph(records: &Records, backend: &dyn Backend) -> Result<Graph> {
    optimized(aten::lower(records)?, backend)
}

/// A graph as the backend wants it to be planned.
pub fn optimized(graph: Graph, backend: &dyn Backend) -> Result<Graph> {
    let graph = passes::optimize(graph, &|op| backend.supports(op))?;
    let Some(says) = backend.engine_says() else { return Ok(graph) };
    let graph = passes::outline(&graph, says)?.into_owned();
    if cfg!(debug_assertions) {
        verify(&graph).map_err(|error| error.within("after pass outline"))?;
    }
    Ok(graph)
}

/// What the world of a program is to be: types of its inputs and of its argument block, and for each output the leaf that
/// may donate its memory to it.
#[derive(Clone)]
pub struct Interface {
    pub inputs: Vec<Ty>,
    pub scalars: Vec<DType>,
    pub donors: Vec<Option<u32>>,
}

impl Interface {
    pub fn of(records: &Records) -> Interface {
        let leaves = records.values.iter().filter(|v| matches!(v.origin, Origin::Leaf(_)));
        let format = |v: &Value| Ty { dtype: v.format.dtype, sizes: v.format.sizes.clone() };
        Interface {
            inputs: leaves.map(format).collect(),
            scalars: records.scalars.iter().map(|kind| kind.dtype()).collect(),
            donors: records.outputs.iter().map(|output| output.donor).collect(),
        }
    }

    /// All of a plan but its memory.
    fn plan_unplaced(
        &self,
        graph: &Graph,
        mode: PlanMode,
        backend: &dyn Backend,
    ) -> Result<(UnplacedPlan, PlanDecisions)> {
        plan::plan_unplaced(graph, &self.inputs, &self.scalars, &self.donors, backend, mode)
    }
}

/// The program of a finished plan of these records; of the graph, if it is at hand, which the plan is then checked against in
/// debug builds.
pub fn assembled(
    records: &Records,
    graph: Option<&Graph>,
    plan: Plan,
    backend: &dyn Backend,
) -> Result<CompiledTrace> {
    Ok(CompiledTrace {
        graph: None,
        code: Arc::new(Code::new(compiled(graph, plan, backend)?)),
        operators: records.records.iter().map(|record| record.op).collect(),
        instance_of: None,
        is_unused: AtomicBool::default(),
        binding: None,
        unpadded: None,
        recomputed: None,
    })
}

fn compiled(graph: Option<&Graph>, plan: Plan, backend: &dyn Backend) -> Result<Compiled> {
    if let Some(graph) = graph.filter(|_| cfg!(debug_assertions)) {
        plan::check::check(graph, &plan)?;
    }
    Compiled::new(Arc::new(plan), backend)
}

/// Name of the operator that a plan's step comes from.
pub fn name_of(operators: &[Operator], record: u32) -> String {
    let operator = (record as usize).checked_sub(1).and_then(|index| operators.get(index));
    operator.map_or_else(|| "an operation".into(), |&op| operator_name(op))
}

impl fmt::Display for CompiledTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(binding) = &self.binding {
            writeln!(f, "# {binding}\n")?;
        }
        if let Some(why) = &self.unpadded {
            writeln!(f, "# not padded: {why}\n")?;
        }
        match &self.graph {
            Some(graph) => writeln!(f, "# graph\n{graph}")?,
            None => writeln!(f, "# of a plan found on disk or for other sizes, without a graph\n")?,
        }
        writeln!(f, "# plan\n{}", self.code.newest().plan)
    }
}
