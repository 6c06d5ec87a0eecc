//! The memory of the largest program while it runs, and the tensors in it.

use super::json::{Object, list};
use super::live_ranges::{LiveRange, live_ranges, wanted};
use crate::op::Ty;
use crate::plan::{MemRef, Plan};
use crate::record::Operator;
use crate::trace::name_of;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of tensors of each kind that are named.
const NAMED: usize = 16;
/// Number of points of the curve; if there are more steps, a point stands for several.
const POINTS: usize = 256;

type PlanAndOperators = (Arc<Plan>, Arc<[Operator]>);

/// The program that takes most memory of those that ran since the last reset.
#[derive(Default)]
pub struct Fullest {
    bytes: AtomicU64,
    program: Mutex<Option<PlanAndOperators>>,
}

impl Fullest {
    /// Notes a run of a program whose plan takes `bytes`. Costs one atomic operation except for the first run of a larger one.
    pub fn ran(&self, bytes: u64, plan: &Arc<Plan>, operators: &Arc<[Operator]>) {
        if self.bytes.fetch_max(bytes, Relaxed) < bytes {
            *self.program.lock() = Some((plan.clone(), operators.clone()));
        }
    }

    pub fn reset(&self) {
        let mut program = self.program.lock();
        self.bytes.store(0, Relaxed);
        *program = None;
    }

    /// The JSON of `torchacc_memory_report`.
    pub fn json(&self) -> String {
        let found = self.program.lock().clone();
        found.map_or_else(|| "{}".into(), |(plan, operators)| json(&plan, &operators))
    }
}

/// Bytes that a plan takes, its inputs included.
pub fn bytes(plan: &Plan) -> u64 {
    plan.memory() + input_bytes(plan)
}

fn input_bytes(plan: &Plan) -> u64 {
    plan.inputs.iter().map(|ty| ty.nbytes() as u64).sum()
}

fn json(plan: &Plan, operators: &[Operator]) -> String {
    let live_ranges = live_ranges(plan);
    let wanted = wanted(plan, &live_ranges);
    let by = |object: Object, step: usize| {
        let step = &plan.steps[step];
        object.text("operator", &name_of(operators, step.record)).raw("site", step.site)
    };
    // The fullest step of each group.
    let group = wanted.len().div_ceil(POINTS).max(1);
    let fullest = |steps: Range<usize>| steps.max_by_key(|&step| (wanted[step], Reverse(step)));
    let points = (0..wanted.len()).step_by(group);
    let points = points.filter_map(|first| fullest(first..(first + group).min(wanted.len())));
    let curve = list(points.map(|step| {
        by(Object::default().raw("step", step).raw("bytes", wanted[step]), step).end()
    }));
    let peak = fullest(0..wanted.len());
    let at_peak = |range: &&LiveRange| peak.is_some_and(|at| range.first <= at && at <= range.last);
    let between = live_ranges.iter().filter(at_peak).map(|range| {
        let object = named(range.ty.as_ref(), range.nbytes);
        (range.nbytes, by(object.raw("first", range.first).raw("last", range.last), range.first))
    });
    let fresh = |output: &usize| plan.donors[*output].is_none() && !plan.is_on_host(*output);
    let results = (0..plan.outputs.len()).filter(fresh).map(|output| {
        let nbytes = plan.outputs[output].nbytes() as u64;
        let object = named(Some(&plan.outputs[output]), nbytes);
        let writes = |mem: MemRef| mem == MemRef::Output(output as u32);
        let writer =
            (plan.steps.iter()).position(|step| step.writes.iter().any(|write| writes(write.mem)));
        (nbytes, writer.into_iter().fold(object, by))
    });
    let inputs = plan.inputs.iter().map(|ty| {
        let nbytes = ty.nbytes() as u64;
        (nbytes, named(Some(ty), nbytes))
    });
    Object::default()
        .raw("steps", plan.steps.len())
        .raw("input_bytes", input_bytes(plan))
        .raw("result_bytes", plan.fresh_bytes())
        .raw("arena_bytes", plan.arena_bytes)
        .raw("live", curve)
        .raw("between", largest(between))
        .raw("results", largest(results))
        .raw("inputs", largest(inputs))
        .end()
}

fn named(ty: Option<&Ty>, nbytes: u64) -> Object {
    let name = ty.map_or_else(|| "scratch memory".into(), Ty::to_string);
    Object::default().text("type", &name).raw("bytes", nbytes)
}

fn largest(all: impl Iterator<Item = (u64, Object)>) -> String {
    let mut all: Vec<(u64, Object)> = all.collect();
    all.sort_by_key(|&(nbytes, _)| Reverse(nbytes));
    list(all.into_iter().take(NAMED).map(|(_, object)| object.end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::null::Null;
    use crate::plan::plan;
    use crate::plan::tests::leaves;
    use crate::plan::training::training_step;

    #[test]
    fn the_largest_tensors_are_named_and_the_curve_is_bounded() {
        let (graph, donors) = training_step(6, 2, 8, 16, 32);
        let (inputs, scalars) = leaves(&graph);
        let plan = plan(&graph, &inputs, &scalars, &donors, &Null::default()).unwrap();
        let text = json(&plan, &[]);
        let expected: u64 = inputs.iter().map(|ty| ty.nbytes() as u64).sum();
        assert!(text.contains(&format!("\"input_bytes\": {expected},")), "{text}");
        assert_eq!(bytes(&plan), expected + plan.memory());
        let points = text.matches("\"step\":").count();
        assert!((2..=POINTS).contains(&points) && plan.steps.len() >= points, "{points}");
        assert_eq!(text.matches("\"first\":").count(), NAMED);
    }
}
