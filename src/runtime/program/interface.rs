//! The interface of a program.

use crate::backend::Backend;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Graph;
use crate::op::Ty;
use crate::plan::{self, PlanDecisions, PlanMode, UnplacedPlan};
use crate::record::{Origin, Records, Value};

/// Types of a program's inputs and of its argument block, and for each output the leaf that may donate its memory to it.
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

    /// Plans everything but memory.
    pub fn plan_unplaced(
        &self,
        graph: &Graph,
        mode: PlanMode,
        backend: &dyn Backend,
    ) -> Result<(UnplacedPlan, PlanDecisions)> {
        plan::plan_unplaced(graph, &self.inputs, &self.scalars, &self.donors, backend, mode)
    }
}
