//! A limit on the bytes that a program takes besides its inputs: setting it, and what it costs.

use super::compile::name_of;
use super::{Context, Shared, oom_report};
use crate::error::{Result, Site};
use crate::invalid;
use crate::plan::{Cost, Plan, PlanMode};
use crate::record::Operator;
use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

/// Operators that are named as running again.
const NAMED: usize = 8;

/// What runs again in a program to stay within the limit, and what that takes.
#[derive(Clone, Debug)]
pub struct Recomputed {
    pub limit: u64,
    /// Bytes that the program would take without a limit, and those that it takes.
    pub before: u64,
    pub memory: u64,
    /// Estimated time, of which the program takes 1 without a limit.
    pub time: f64,
    /// Steps that run again.
    pub steps: u64,
    /// The operators whose steps make most bytes again.
    pub largest: Vec<Again>,
}

/// An operator of which steps run again.
#[derive(Clone, Debug)]
pub struct Again {
    pub operator: String,
    pub site: Site,
    pub count: u64,
    /// That they make again.
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
            let nbytes =
                |write: &crate::plan::Operand| write.layout.numel() as usize * write.dtype.size();
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

impl Shared {
    /// Bytes that a program may take besides its inputs; `None`: as many as it wants.
    pub fn memory_limit(&self) -> Option<u64> {
        Some(self.memory_limit.load(Relaxed)).filter(|&limit| limit != 0)
    }

    /// How programs are searched for.
    pub fn plan_mode(&self) -> PlanMode<'static> {
        self.memory_limit().map_or(PlanMode::Search, PlanMode::Within)
    }

    pub fn is_within_limit(&self, plan: &Plan) -> bool {
        self.memory_limit().is_none_or(|limit| plan.memory() <= limit)
    }

    /// Error: `OutOfMemory`, with what the plan wants and when, if that is more than the limit.
    pub fn check_limit(&self, plan: &Plan, operators: &[Operator]) -> Result<()> {
        match self.memory_limit() {
            Some(limit) if plan.memory() > limit => {
                Err(oom_report::over_limit(plan, operators, limit))
            }
            _ => Ok(()),
        }
    }

    /// From now on programs take at most so many bytes; 0: as many as they want. Programs that were found under another limit
    /// are looked up anew. To be called by the launch thread while nothing else runs, or before there is one.
    pub fn limit_memory(&self, limit: u64) {
        self.memory_limit.store(limit, Relaxed);
        self.families.forget_plans();
        // Until both are done nothing that was prefetched becomes a path.
        let mut prefetched = self.prefetched.lock();
        prefetched.clear();
        self.paths.clear();
    }
}

impl Context {
    /// Sets the bytes that each program cut from now on may take besides its inputs: what lies between, and results that
    /// are given no memory of inputs; 0: as many as it wants. What that takes is computed again rather than kept. Waits for
    /// what was cut. Errors: as a cut in a forked process.
    pub fn set_memory_limit(&self, limit: u64) -> Result<()> {
        self.launcher.limit_memory(limit)
    }
}

/// A number of bytes, as `512M`. Errors: it is none.
pub fn parse(name: &str, text: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => Some(0),
        "K" => Some(10),
        "M" => Some(20),
        "G" => Some(30),
        _ => None,
    };
    let scaled = |shift: u32| digits.parse::<u64>().ok()?.checked_mul(1 << shift);
    match shift.and_then(scaled) {
        Some(bytes) => Ok(bytes),
        None => invalid!("{name}={text} is no number of bytes, as 1500000000, 1500M or 2G"),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn bytes_are_numbers_with_a_unit() {
        let read = |text| parse("TORCHACC_MEMORY_LIMIT", text).ok();
        assert_eq!(read("12"), Some(12));
        assert_eq!(read("3K"), Some(3 << 10));
        assert_eq!(read("1500M"), Some(1500 << 20));
        assert_eq!(read("2G"), Some(2 << 30));
        for wrong in ["", "G", "1.5G", "-1", "2T", "2 G", "2GB", "99999999999G"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
