//! Work that goes on beside the runs of a program.

use super::code::Code;
use super::interface::Interface;
use crate::dynamic::{ShapeErasedTrace, Ticket};
use crate::graph::Graph;
use crate::plan::{PlanDecisions, UnplacedPlan};
use crate::record::Records;
use std::sync::Arc;

/// Background work for a program that can be run already.
pub struct BackgroundWork {
    pub graph: Arc<Graph>,
    pub interface: Interface,
    pub code: Arc<Code>,
    /// The plan before its memory, and its decisions; `None` while the program runs a quick plan.
    pub found: Option<(UnplacedPlan, PlanDecisions)>,
    /// A trace whose sizes vary.
    pub varies: Option<(Records, ShapeErasedTrace)>,
}

/// A program that is to be planned for other sizes beside later runs, as [`BackgroundWork`] has it.
pub struct Unlearned {
    pub ticket: Ticket,
    pub found: (UnplacedPlan, PlanDecisions),
    pub varies: (Records, ShapeErasedTrace),
}
