//! The cost of a memory limit: the steps of a program that run again.

use crate::error::Site;
use crate::plan::{Cost, Operand, Plan};
use crate::record::Operator;
use crate::trace::name_of;
use std::collections::HashSet;

/// Number of operators that are named.
const NAMED: usize = 8;

/// The steps of a program that run again to stay within the limit, and their cost.
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
    pub largest: Vec<Again>,
}

/// An operator whose steps run again.
#[derive(Clone, Debug)]
pub struct Again {
    pub operator: String,
    pub site: Site,
    pub count: u64,
    /// Bytes that these write.
    pub bytes: u64,
}

impl Recomputed {
    pub fn new(limit: u64, cost: Cost, plan: &Plan, operators: &[Operator]) -> Recomputed {
        let (mut steps, mut largest, mut seen) = (0, Vec::<Again>::new(), HashSet::new());
        for step in &plan.steps {
            let again = step.results_of.iter().filter(|value| !seen.insert(**value)).count();
            if again == 0 {
                continue;
            }
            steps += 1;
            let operator = name_of(operators, step.record);
            let nbytes = |write: &Operand| write.layout.numel() as usize * write.dtype.size();
            let bytes = step.writes.iter().map(|write| nbytes(write) as u64).sum();
            match largest.iter_mut().find(|a| a.site == step.site && a.operator == operator) {
                Some(known) => (known.count, known.bytes) = (known.count + 1, known.bytes + bytes),
                None => largest.push(Again { operator, site: step.site, count: 1, bytes }),
            }
        }
        largest.sort_by_key(|again| std::cmp::Reverse(again.bytes));
        largest.truncate(NAMED);
        let Cost { before, time } = cost;
        Recomputed { limit, before, memory: plan.memory(), time, steps, largest }
    }
}
