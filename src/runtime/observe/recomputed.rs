//! The cost of a memory limit: the steps of a program that run again, and the values that wait on the host.

use crate::error::Site;
use crate::plan::{Cost, Operand, Plan, Step};
use crate::record::Operator;
use crate::trace::name_of;
use std::collections::HashSet;

/// Number of operators that are named of each kind.
const NAMED: usize = 8;

/// The steps of a program that run again to stay within the limit, the values that wait on the host, and the cost.
#[derive(Clone, Debug)]
pub struct Recomputed {
    pub limit: u64,
    /// Bytes that the program takes without the limit, and with it.
    pub before: u64,
    pub memory: u64,
    /// Estimated time relative to the program without a limit (1.0 = no slowdown).
    pub time: f64,
    /// Steps that run again.
    pub steps: u64,
    /// The operators whose repeated steps write the most bytes.
    pub largest: Vec<Group>,
    /// Values that wait on the host.
    pub offloads: u64,
    pub offloaded_bytes: u64,
    /// The operators whose values on the host have the most bytes.
    pub largest_offloads: Vec<Group>,
}

/// Steps of one operator at one line.
#[derive(Clone, Debug)]
pub struct Group {
    pub operator: String,
    pub site: Site,
    pub count: u64,
    /// Bytes that these write.
    pub bytes: u64,
}

/// Groups of steps.
#[derive(Default)]
struct Groups {
    steps: u64,
    bytes: u64,
    groups: Vec<Group>,
}

impl Recomputed {
    pub fn new(limit: u64, cost: Cost, plan: &Plan, operators: &[Operator]) -> Recomputed {
        let (mut again, mut offloads) = (Groups::default(), Groups::default());
        let mut seen = HashSet::new();
        for step in &plan.steps {
            let known = step.results_of.iter().filter(|value| !seen.insert(**value)).count();
            if step.is_chosen_offload() {
                offloads.add(step, operators);
            } else if known > 0 && !step.is_move() {
                again.add(step, operators);
            }
        }
        let Cost { before, time } = cost;
        Recomputed {
            limit,
            before,
            memory: plan.memory(),
            time,
            steps: again.steps,
            largest: again.largest(),
            offloads: offloads.steps,
            offloaded_bytes: offloads.bytes,
            largest_offloads: offloads.largest(),
        }
    }
}

impl Groups {
    fn add(&mut self, step: &Step, operators: &[Operator]) {
        let operator = name_of(operators, step.record);
        let nbytes = |write: &Operand| write.layout.numel() as u64 * write.dtype.size() as u64;
        let bytes = step.writes.iter().map(nbytes).sum();
        (self.steps, self.bytes) = (self.steps + 1, self.bytes + bytes);
        match self.groups.iter_mut().find(|a| a.site == step.site && a.operator == operator) {
            Some(known) => (known.count, known.bytes) = (known.count + 1, known.bytes + bytes),
            None => self.groups.push(Group { operator, site: step.site, count: 1, bytes }),
        }
    }

    fn largest(mut self) -> Vec<Group> {
        self.groups.sort_by_key(|group| std::cmp::Reverse(group.bytes));
        self.groups.truncate(NAMED);
        self.groups
    }
}
