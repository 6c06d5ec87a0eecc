//! From a closed trace to a program: the whole pipeline on one screen.

use super::Shared;
use super::code::{Code, Compiled};
use super::fitting::Fitting;
use crate::backend::Backend;
use crate::dtype::DType;
use crate::dynamic::{Comparison, Families, Form, Instance, compare};
use crate::error::Result;
use crate::graph::Graph;
use crate::op::Ty;
use crate::plan::{Effort, Guide, Outline, Plan};
use crate::record::{Operator, Origin, Records, ScalarKind, Value};
use crate::trace::operator_name;
use crate::{aten, passes, plan};
use std::fmt;
use std::sync::Arc;

/// A program of so many nodes may start with a plan made quickly, if `TORCHACC_QUICK_FROM` does not say another number.
pub const QUICK_FROM: usize = 2000;
/// Unless that plan takes more bytes of the arena than this: up to a third of them are not needed after the search, and a
/// step that works on so many takes much longer than that.
const QUICK_BYTES: u64 = 256 << 20;

/// A compiled trace.
pub struct Program {
    /// `None` if only a plan was found: on disk, or for other sizes.
    pub graph: Option<Arc<Graph>>,
    pub code: Arc<Code>,
    /// Operator of every record, for messages.
    pub operators: Vec<Operator>,
    /// Whether the plan was made for other sizes.
    pub carried_over: bool,
    /// How a trace of other sizes uses the program of its bucket.
    pub fitting: Option<Box<Fitting>>,
    /// Why it is not the program of a bucket, where it was to be.
    pub unpadded: Option<String>,
}

/// What came of looking for a plan for other sizes.
pub enum Carried {
    Over(Box<Program>),
    Nothing,
    /// One was found and is wrong; those that were carried over before may be.
    Refuted,
}

impl Program {
    /// The same for a trace of other sizes.
    pub fn fitted(&self, fitting: Fitting) -> Program {
        Program {
            graph: None,
            code: self.code.clone(),
            operators: self.operators.clone(),
            carried_over: false,
            fitting: Some(Box::new(fitting)),
            unpadded: None,
        }
    }

    /// Bytes of host memory that it takes, about: what a step of its plan, with the nodes it comes from, was found to
    /// take in training steps.
    pub fn nbytes(&self) -> usize {
        const STEP: usize = 5 << 10;
        match self.fitting {
            // The rest is the bucket's.
            Some(_) => STEP,
            None => (self.code.newest().plan.steps.len() + 1) * STEP,
        }
    }
}

/// What is left to do for a program when it can be run.
pub struct Rest {
    graph: Arc<Graph>,
    interface: Interface,
    code: Arc<Code>,
    /// The plan before its memory, and its guide; `None` while the program runs one that was made quickly.
    found: Option<(Outline, Guide)>,
    /// A trace whose sizes vary.
    varies: Option<(Records, Form)>,
}

/// Says each recorded operation in primitives, rewrites, plans, and has the backend compile the plan.
pub(super) fn compile(shared: &Shared, records: &Records, form: &Form) -> Result<(Program, Rest)> {
    let graph = shared.profile.stage("graph", || graph(records, &*shared.backend))?;
    let (program, rest) = of_graph(shared, records, graph, Interface::of(records))?;
    let varies = shared.families.add(form).then(|| (records.clone(), form.clone()));
    Ok((program, Rest { varies, ..rest }))
}

/// The program of a graph that stands for these records.
pub(super) fn of_graph(
    shared: &Shared,
    records: &Records,
    graph: Graph,
    interface: Interface,
) -> Result<(Program, Rest)> {
    let backend = &*shared.backend;
    let outlined =
        |effort| shared.profile.stage("plan", || interface.outlined(&graph, effort, backend));
    let quickly = || Ok(outlined(Effort::Quick)?.0.settled());
    let quick = (graph.nodes.len() >= shared.quick_from).then(quickly).transpose()?;
    let quick = quick.filter(|plan| plan.arena_bytes <= QUICK_BYTES);
    let (plan, found) = match quick {
        Some(plan) => (plan, None),
        None => {
            let found = outlined(Effort::Search)?;
            (found.0.clone().settled(), Some(found))
        }
    };
    let program = || assembled(records, Some(&graph), plan, backend);
    let program = shared.profile.stage("code", program)?;
    shared.stats.quick_plans.add(found.is_none() as u64);
    let graph = Arc::new(graph);
    let code = program.code.clone();
    let program = Program { graph: Some(graph.clone()), ..program };
    Ok((program, Rest { graph, interface, code, found, varies: None }))
}

impl Rest {
    /// Whether there is something.
    pub fn is_some(&self) -> bool {
        self.found.is_none() || self.varies.is_some()
    }

    /// The plan that stays. One that has to be searched for takes the place of the program's.
    pub(super) fn plan(&mut self, shared: &Shared) -> Result<Arc<Plan>> {
        if self.found.is_none() {
            let (graph, backend) = (&self.graph, &*shared.backend);
            let search = || self.interface.outlined(graph, Effort::Search, backend);
            let found = shared.profile.stage("search", search)?;
            self.code.replace(compiled(Some(graph), found.0.clone().settled(), backend)?);
            self.found = Some(found);
        }
        Ok(self.code.newest().plan.clone())
    }

    /// Plans the trace for other sizes, to be carried over, if its sizes vary; whether that came out. After [`Rest::plan`].
    pub(super) fn learn(&self, shared: &Shared) -> bool {
        let (Some((outline, guide)), Some((records, form))) = (&self.found, &self.varies) else {
            return false;
        };
        let backend = &*shared.backend;
        let planner = |records: &Records, guide: &Guide| {
            let graph = graph(records, backend)?;
            Ok(Interface::of(records).outlined(&graph, Effort::Guided(guide), backend)?.0)
        };
        let learn = || shared.families.learn(form, records, outline, guide, &planner);
        shared.profile.stage("other sizes", learn)
    }
}

/// The program of a trace by a plan for other sizes, if there is one. The trace's own plan has the last word.
pub fn carry_over(
    records: &Records,
    form: &Form,
    families: &Families,
    backend: &dyn Backend,
) -> Result<Carried> {
    let Some(Instance { outline, verify }) = families.instance(form, records) else {
        return Ok(Carried::Nothing);
    };
    let over = |program| Carried::Over(Box::new(Program { carried_over: true, ..program }));
    let Some(guide) = verify else {
        // A backend that refuses what was carried over may take the trace's own plan.
        return Ok(assembled(records, None, outline.settled(), backend).map_or_else(
            |_| {
                families.forget(form);
                Carried::Nothing
            },
            over,
        ));
    };
    let graph = graph(records, backend)?;
    let guided = Interface::of(records).outlined(&graph, Effort::Guided(&guide), backend);
    match guided.map(|(own, _)| (compare(&outline, &own), own)) {
        Ok((Comparison::Equal, own)) => {
            let program = assembled(records, Some(&graph), own.settled(), backend)?;
            Ok(over(Program { graph: Some(Arc::new(graph)), ..program }))
        }
        Ok((Comparison::OtherNumbers, _)) => {
            families.forget(form);
            Ok(Carried::Refuted)
        }
        // These very sizes give other kernels (powers of two divide otherwise, equal sizes may be one), for which the
        // guide says nothing.
        Ok((Comparison::OtherKernels, _)) | Err(_) => Ok(Carried::Nothing),
    }
}

/// What is planned.
pub fn graph(records: &Records, backend: &dyn Backend) -> Result<Graph> {
    passes::optimize(aten::lower(records)?, &|op| backend.keeps(op))
}

/// What the world of a program is to be: types of its inputs and of its argument block, and for each output the leaf whose
/// memory it may take over.
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
        let dtype = |kind: &ScalarKind| match kind {
            ScalarKind::Bool => DType::Bool,
            ScalarKind::Int => DType::I64,
            ScalarKind::Float => DType::F64,
        };
        Interface {
            inputs: leaves.map(format).collect(),
            scalars: records.scalars.iter().map(dtype).collect(),
            donors: records.outputs.iter().map(|output| output.donor).collect(),
        }
    }

    /// All of a plan but its memory.
    fn outlined(
        &self,
        graph: &Graph,
        effort: Effort,
        backend: &dyn Backend,
    ) -> Result<(Outline, Guide)> {
        plan::outline(graph, &self.inputs, &self.scalars, &self.donors, backend, effort)
    }
}

/// The program of a finished plan of these records; of the graph, if it is at hand, which the plan is then checked against in
/// debug builds.
pub fn assembled(
    records: &Records,
    graph: Option<&Graph>,
    plan: Plan,
    backend: &dyn Backend,
) -> Result<Program> {
    Ok(Program {
        graph: None,
        code: Arc::new(Code::new(compiled(graph, plan, backend)?)),
        operators: records.records.iter().map(|record| record.op).collect(),
        carried_over: false,
        fitting: None,
        unpadded: None,
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

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fitting) = &self.fitting {
            writeln!(f, "# {fitting}\n")?;
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
