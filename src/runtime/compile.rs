//! From a closed trace to a program: the whole pipeline on one screen.

use super::profile::Profile;
use crate::backend::{Backend, Executable};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Graph;
use crate::op::{Op, Ty};
use crate::plan::{Kernel, Plan};
use crate::record::{Operator, Origin, Records, ScalarKind};
use crate::trace::operator_name;
use crate::{aten, passes, plan};
use std::fmt;
use std::sync::Arc;

/// A compiled trace.
pub struct Program {
    /// `None` if it was loaded: a plan is all that is kept on disk.
    pub graph: Option<Graph>,
    pub plan: Arc<Plan>,
    pub executable: Box<dyn Executable>,
    /// Operator of every record, for messages.
    pub operators: Vec<Operator>,
    /// Host calls that a run makes: name and site.
    pub host_calls: Vec<(String, u64)>,
}

impl Program {
    /// Bytes of host memory that it takes, about: what a step of its plan, with the nodes it comes from, was found to
    /// take in training steps.
    pub fn nbytes(&self) -> usize {
        const STEP: usize = 5 << 10;
        (self.plan.steps.len() + 1) * STEP
    }
}

/// Says each recorded operation in primitives, rewrites, plans, and has the backend compile the plan.
pub fn compile(records: &Records, backend: &dyn Backend, profile: &Profile) -> Result<Program> {
    let graph = profile.stage("graph", || graph(records, backend))?;
    let (inputs, scalars, donors) = (inputs(records), scalars(records), donors(records));
    let plan = || plan::plan(&graph, &inputs, &scalars, &donors, backend);
    let plan = Arc::new(profile.stage("plan", plan)?);
    let loaded = profile.stage("code", || load(records, plan, backend))?;
    Ok(Program { graph: Some(graph), ..loaded })
}

/// What is planned.
pub fn graph(records: &Records, backend: &dyn Backend) -> Result<Graph> {
    passes::optimize(aten::lower(records)?, &|op| backend.keeps(op))
}

/// The program of a finished plan of these records.
pub fn load(records: &Records, plan: Arc<Plan>, backend: &dyn Backend) -> Result<Program> {
    let executable = backend.compile(plan.clone())?;
    let operators: Vec<Operator> = records.records.iter().map(|record| record.op).collect();
    let host_calls = host_calls(&plan, &operators);
    Ok(Program { graph: None, plan, executable, operators, host_calls })
}

/// Types of the program's inputs: the formats of the leaves.
pub fn inputs(records: &Records) -> Vec<Ty> {
    let leaves = records.values.iter().filter(|v| matches!(v.origin, Origin::Leaf(_)));
    leaves.map(|v| Ty { dtype: v.format.dtype, sizes: v.format.sizes.clone() }).collect()
}

pub fn scalars(records: &Records) -> Vec<DType> {
    let dtype = |kind: &ScalarKind| match kind {
        ScalarKind::Bool => DType::Bool,
        ScalarKind::Int => DType::I64,
        ScalarKind::Float => DType::F64,
    };
    records.scalars.iter().map(dtype).collect()
}

/// For each output the leaf whose memory it may take over.
pub fn donors(records: &Records) -> Vec<Option<u32>> {
    records.outputs.iter().map(|output| output.donor).collect()
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
        match &self.graph {
            Some(graph) => writeln!(f, "# graph\n{graph}")?,
            None => writeln!(f, "# loaded from disk, where no graphs are kept\n")?,
        }
        writeln!(f, "# plan\n{}", self.plan)
    }
}
