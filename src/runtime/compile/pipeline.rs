//! From a closed trace to a program: the whole pipeline on one screen.

use crate::backend::Backend;
use crate::dynamic::{Comparison, Instance, ShapeErasedTrace, compare};
use crate::error::Result;
use crate::graph::Graph;
use crate::graph::verify::verify;
use crate::op::Op;
use crate::plan::{Plan, PlanDecisions, PlanMode, UnplacedPlan};
use crate::record::{Operator, Records};
use crate::runtime::observe::recomputed::Recomputed;
use crate::runtime::program::{
    BackgroundWork, Code, Compiled, CompiledTrace, Interface, Unlearned,
};
use crate::runtime::shared::Shared;
use crate::{aten, invalid, passes, plan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of the arena and the block of results above which a program does not start with a quick plan: up to a third of them are
/// not needed after the search, and a step that works on so many takes much longer than the search.
const QUICK_BYTES: u64 = 256 << 20;

/// Outcome of looking for a plan for other sizes.
pub enum Instantiation {
    Done(Box<CompiledTrace>),
    Nothing,
    /// A plan was found and is wrong; earlier instances may be wrong, too.
    Refuted,
}

/// Lowers each recorded operation to primitives, rewrites, plans, and has the backend compile the plan.
pub fn compile(
    shared: &Shared,
    records: &Records,
    erased: &ShapeErasedTrace,
) -> Result<(CompiledTrace, BackgroundWork)> {
    let graph = shared.observed.stage("graph", || graph(records, &*shared.backend))?;
    let (program, background) = of_graph(shared, records, graph, Interface::of(records))?;
    // A module is valid only for the sizes that it was compiled for.
    let is_fixed = shared.backend.engine_says().is_some() || is_unrolled(records, &*shared.backend);
    let may_vary = !is_fixed && shared.families.add(erased);
    let varies = may_vary.then(|| (records.clone(), erased.clone()));
    Ok((program, BackgroundWork { varies, ..background }))
}

/// Whether the number of the program's steps depends on a size.
fn is_unrolled(records: &Records, backend: &dyn Backend) -> bool {
    let unrolls = |op: Op| op.row().unrolls && !backend.supports(op);
    records.records.iter().any(|record| match record.op {
        Operator::Native(row) => aten::primitive_of(row).is_some_and(unrolls),
        Operator::Host(_) => false,
    })
}

/// The program of a graph that implements these records.
pub fn of_graph(
    shared: &Shared,
    records: &Records,
    graph: Graph,
    interface: Interface,
) -> Result<(CompiledTrace, BackgroundWork)> {
    let backend = &*shared.backend;
    let planned =
        |mode| shared.observed.stage("plan", || interface.plan_unplaced(&graph, mode, backend));
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
        shared.observed.stats.limited_programs.add(1);
        shared.observed.stats.recomputed_steps.add(recomputed.steps);
        shared.observed.stats.chosen_offloads.add(recomputed.offloads);
        Box::new(recomputed)
    });
    let program = || assembled(records, Some(&graph), plan, backend);
    let program = shared.observed.stage("code", program)?;
    shared.observed.stats.quick_plans.add(found.is_none() as u64);
    let graph = Arc::new(graph);
    let code = program.code.clone();
    let program = CompiledTrace { graph: Some(graph.clone()), recomputed, ..program };
    Ok((program, BackgroundWork { graph, interface, code, found, varies: None }))
}

impl BackgroundWork {
    /// Whether there is any work.
    pub fn is_some(&self) -> bool {
        self.found.is_none() || self.varies.is_some()
    }

    /// The final plan. One that has to be searched for replaces the program's.
    pub fn plan(&mut self, shared: &Shared) -> Result<Arc<Plan>> {
        if self.found.is_none() {
            let (graph, backend) = (&self.graph, &*shared.backend);
            let search = || self.interface.plan_unplaced(graph, shared.plan_mode(), backend);
            let found = shared.observed.stage("search", search)?;
            let plan = found.0.clone().placed();
            if !shared.is_within_limit(&plan) {
                // The quick plan, whose results lie in a block, was within it.
                return Ok(self.code.newest().plan.clone());
            }
            self.code.replace(compiled(Some(graph), plan, backend)?);
            self.found = Some(found);
        }
        Ok(self.code.newest().plan.clone())
    }

    /// Plans the trace for other sizes, as a template, if its sizes vary; or leaves that for later. To be called after
    /// [`BackgroundWork::plan`].
    pub fn learn(self, shared: &Shared) {
        let BackgroundWork { found: Some(found), varies: Some(varies), .. } = self else { return };
        let ((unplaced, decisions), (records, erased)) = (&found, &varies);
        if let Some(ticket) = shared.families.beside(erased) {
            return shared.unlearned.lock().push(Unlearned { ticket, found, varies });
        }
        let planner = planner(shared);
        let learn = || shared.families.learn(erased, records, unplaced, decisions, &planner);
        shared.observed.stats.templates.add(shared.observed.stage("other sizes", learn) as u64);
    }
}

impl Unlearned {
    /// As [`BackgroundWork::learn`], while other programs are compiled.
    pub fn learn(self, shared: &Shared) {
        let Unlearned { ticket, found: (unplaced, decisions), varies: (records, erased) } = self;
        let (families, planner) = (&shared.families, planner(shared));
        let learn =
            || families.learn_beside(ticket, &erased, &records, &unplaced, &decisions, &planner);
        let is_template = shared.observed.profile.stage("other sizes", learn);
        shared.observed.stats.templates.add(is_template as u64);
    }
}

/// Plans traces by given decisions, until the context ends.
fn planner(shared: &Shared) -> impl Fn(&Records, &PlanDecisions) -> Result<UnplacedPlan> {
    |records: &Records, decisions: &PlanDecisions| {
        if shared.is_ending.load(Relaxed) {
            return invalid!("nobody wants the plan any more");
        }
        let (mode, backend) = (PlanMode::Guided(decisions), &*shared.backend);
        let graph = graph(records, backend)?;
        Ok(Interface::of(records).plan_unplaced(&graph, mode, backend)?.0)
    }
}

/// The program of a trace from a plan for other sizes, if there is one. Where that is verified, the trace's own plan decides.
pub fn instantiate(
    shared: &Shared,
    records: &Records,
    erased: &ShapeErasedTrace,
) -> Result<Instantiation> {
    let (families, backend) = (&shared.families, &*shared.backend);
    let Some(instance) = families.instance(erased, records) else {
        return Ok(Instantiation::Nothing);
    };
    let Instance { unplaced, binding, verify, is_special } = instance;
    let done = |program| {
        Instantiation::Done(Box::new(CompiledTrace {
            instance_of: Some(binding.clone()),
            ..program
        }))
    };
    let Some(decisions) = verify else {
        let plan = unplaced.placed();
        if !shared.is_within_limit(&plan) {
            // At these sizes more has to be recomputed.
            return Ok(Instantiation::Nothing);
        }
        // A backend that refuses the instance may accept the trace's own plan.
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
            if !is_special {
                families.prove(&binding);
            }
            let program = assembled(records, Some(&graph), own, backend)?;
            Ok(done(CompiledTrace { graph: Some(Arc::new(graph)), ..program }))
        }
        Ok((Comparison::OtherNumbers, _)) if !is_special => {
            families.forget(erased);
            Ok(Instantiation::Refuted)
        }
        // These particular sizes give other kernels (powers of two divide differently, equal sizes may be treated as one), about
        // which the decisions say nothing.
        Ok(_) | Err(_) => Ok(Instantiation::Nothing),
    }
}

/// The program of these records for another engine on the same memory; `None` if that would compute nothing of it, or exceed the
/// memory limit.
pub fn for_engine(
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

/// The graph to be planned.
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

/// The program of a finished plan of these records. Debug builds check the plan against the graph, if that is given.
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
