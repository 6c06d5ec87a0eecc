//! From a closed trace to a program: the whole pipeline on one screen.

use super::fitting::Fitting;
use super::profile::Profile;
use crate::backend::{Backend, Executable};
use crate::dtype::DType;
use crate::dynamic::{Comparison, Families, Form, Instance, compare};
use crate::error::Result;
use crate::graph::Graph;
use crate::op::{Op, Ty};
use crate::plan::{Guide, Kernel, Outline, Plan};
use crate::record::{Operator, Origin, Records, ScalarKind, Value};
use crate::trace::operator_name;
use crate::{aten, passes, plan};
use std::fmt;
use std::sync::Arc;

/// A compiled trace.
pub struct Program {
    /// `None` if only a plan was found: on disk, or for other sizes.
    pub graph: Option<Graph>,
    pub plan: Arc<Plan>,
    pub executable: Arc<dyn Executable>,
    /// Operator of every record, for messages.
    pub operators: Vec<Operator>,
    /// Host calls that a run makes: name and site.
    pub host_calls: Vec<(String, u64)>,
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
            plan: self.plan.clone(),
            executable: self.executable.clone(),
            operators: self.operators.clone(),
            host_calls: self.host_calls.clone(),
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
            None => (self.plan.steps.len() + 1) * STEP,
        }
    }
}

/// What a plan for other sizes is made of.
pub struct Lesson {
    records: Records,
    form: Form,
    outline: Outline,
    guide: Guide,
}

/// Says each recorded operation in primitives, rewrites, plans, and has the backend compile the plan. When the trace's
/// sizes vary, there is also something to [`learn`].
pub fn compile(
    records: &Records,
    form: &Form,
    families: &Families,
    backend: &dyn Backend,
    profile: &Profile,
) -> Result<(Program, Option<Lesson>)> {
    let graph = profile.stage("graph", || graph(records, backend))?;
    let (outline, guide) = profile.stage("plan", || outlined(records, &graph, None, backend))?;
    let lesson = families.add(form).then(|| Lesson {
        records: records.clone(),
        form: form.clone(),
        outline: outline.clone(),
        guide,
    });
    let program = || assembled(records, Some(graph), outline, backend);
    Ok((profile.stage("code", program)?, lesson))
}

/// Plans a trace for other sizes, to be carried over; whether that came out.
pub fn learn(lesson: &Lesson, families: &Families, backend: &dyn Backend) -> bool {
    let planner = |records: &Records, guide: &Guide| {
        Ok(outlined(records, &graph(records, backend)?, Some(guide), backend)?.0)
    };
    let Lesson { records, form, outline, guide } = lesson;
    families.learn(form, records, outline, guide, &planner)
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
        return Ok(assembled(records, None, outline, backend).map_or_else(
            |_| {
                families.forget(form);
                Carried::Nothing
            },
            over,
        ));
    };
    let graph = graph(records, backend)?;
    let guided = outlined(records, &graph, Some(&guide), backend);
    match guided.map(|(own, _)| (compare(&outline, &own), own)) {
        Ok((Comparison::Equal, own)) => assembled(records, Some(graph), own, backend).map(over),
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
}

/// All of a plan but its memory; by a guide if there is one.
fn outlined(
    records: &Records,
    graph: &Graph,
    guide: Option<&Guide>,
    backend: &dyn Backend,
) -> Result<(Outline, Guide)> {
    let Interface { inputs, scalars, donors } = Interface::of(records);
    plan::outline(graph, &inputs, &scalars, &donors, backend, guide)
}

fn assembled(
    records: &Records,
    graph: Option<Graph>,
    outline: Outline,
    backend: &dyn Backend,
) -> Result<Program> {
    let plan = outline.settled();
    if let Some(graph) = graph.as_ref().filter(|_| cfg!(debug_assertions)) {
        plan::check::check(graph, &plan)?;
    }
    Ok(Program { graph, ..load(records, Arc::new(plan), backend)? })
}

/// The program of a graph that stands for these records.
pub fn of_graph(
    records: &Records,
    graph: Graph,
    interface: &Interface,
    backend: &dyn Backend,
) -> Result<Program> {
    let Interface { inputs, scalars, donors } = interface;
    let (outline, _) = plan::outline(&graph, inputs, scalars, donors, backend, None)?;
    assembled(records, Some(graph), outline, backend)
}

/// The program of a finished plan of these records.
pub fn load(records: &Records, plan: Arc<Plan>, backend: &dyn Backend) -> Result<Program> {
    let executable = backend.compile(plan.clone())?.into();
    let operators: Vec<Operator> = records.records.iter().map(|record| record.op).collect();
    let host_calls = host_calls(&plan, &operators);
    Ok(Program {
        graph: None,
        plan,
        executable,
        operators,
        host_calls,
        carried_over: false,
        fitting: None,
        unpadded: None,
    })
}

fn host_calls(plan: &Plan, operators: &[Operator]) -> Vec<(String, u64)> {
    let is_host = |kernel: &Kernel| matches!(kernel, Kernel::Node { op: Op::Host, .. });
    let steps = plan.steps.iter().filter(|step| is_host(&step.kernel));
    steps.map(|step| (name_of(operators, step.record), step.site)).collect()
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
        writeln!(f, "# plan\n{}", self.plan)
    }
}
