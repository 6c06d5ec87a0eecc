//! The OOM report: what a program says when there is no memory for it, how much it wants, when it wants most, what takes it and
//! which lines made that.

use super::Shared;
use super::code::Compiled;
use super::compile::{CompiledTrace, name_of};
use crate::error::{Code, Error, Site};
use crate::op::Ty;
use crate::plan::{MemRef, Plan};
use crate::record::Operator;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Tensors that are named.
const NAMED: usize = 5;

/// Something in memory while steps `first..=last` run. In the arena it is of the step `first`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LiveRange {
    first: usize,
    last: usize,
    nbytes: u64,
    /// `None` is scratch memory.
    ty: Option<Ty>,
}

/// What was refused, in the words of who refused it, and what the program wants.
pub fn report(shared: &Shared, program: &CompiledTrace, code: &Compiled, refused: &Error) -> Error {
    let plan = &code.plan;
    let mut text = format!("{}\n", refused.message);
    let stats = shared.backend.pool().stats();
    let _ = writeln!(
        text,
        "In use are {}, of which this program reads {}; it wants {} more for results and {} for what lies between.",
        size(stats.live_bytes),
        size(plan.inputs.iter().map(|ty| ty.nbytes() as u64).sum()),
        size(plan.fresh_bytes()),
        size(plan.arena_bytes)
    );
    largest(&mut text, plan, &program.operators);
    text.push_str(
        "To want less: a smaller batch or shorter sequences, a half type (autocast), checkpoints \
         (torch.utils.checkpoint), or dropping tensors that nobody needs any more.",
    );
    Error { message: text, ..refused.clone() }
}

/// That a plan takes more than the limit, the least that was found: when it wants most, and what takes it.
pub fn over_limit(plan: &Plan, operators: &[Operator], limit: u64) -> Error {
    let mut text = format!(
        "This program takes at least {} besides its inputs, as far as was found, and the memory limit is {}: {} for results \
         and {} for what lies between, computed again wherever that helps.\n",
        size(plan.memory()),
        size(limit),
        size(plan.fresh_bytes()),
        size(plan.arena_bytes)
    );
    largest(&mut text, plan, operators);
    text.push_str(
        "To stay within it: a higher limit (torchacc.set_memory_limit, TORCHACC_MEMORY_LIMIT), a smaller batch or shorter \
         sequences, or a half type (autocast). Nothing was run, and what it was to update is as it was.",
    );
    Error::new(Code::OutOfMemory, text)
}

/// The step that wants most, and the largest of what lies there while it runs; the largest results.
fn largest(text: &mut String, plan: &Plan, operators: &[Operator]) {
    let given = |k: usize| plan.donors[k].is_none();
    let fresh: Vec<(&Ty, usize)> =
        plan.outputs.iter().enumerate().filter(|(k, _)| given(*k)).map(|(k, ty)| (ty, k)).collect();
    let results = plan.fresh_bytes();
    let made_by = |step: usize| {
        let step = &plan.steps[step];
        format!("{}, {}", name_of(operators, step.record), marked(step.site))
    };
    let line = |text: &mut String, nbytes: u64, ty: Option<&Ty>, step: Option<usize>| {
        let what = ty.map_or_else(|| "scratch memory".into(), Ty::to_string);
        let by = step.map_or_else(|| "a value that is passed on".into(), made_by);
        let _ = writeln!(text, "  {:>10}  {what}: {by}", size(nbytes));
    };
    // What is next to nothing is not worth a line.
    let counts = |part: u64| part > (results + plan.arena_bytes) / 100;
    if let Some((step, live_ranges)) = fullest(plan).filter(|_| counts(plan.arena_bytes)) {
        let _ = writeln!(text, "Between, most is wanted by {}, the largest being", made_by(step));
        let mut largest = live_ranges;
        largest.sort_by_key(|range| std::cmp::Reverse(range.nbytes));
        for range in largest.iter().take(NAMED) {
            line(text, range.nbytes, range.ty.as_ref(), Some(range.first));
        }
    }
    if counts(results) {
        let writer = |output: usize| {
            let writes = |mem: MemRef| mem == MemRef::Output(output as u32);
            plan.steps.iter().position(|step| step.writes.iter().any(|write| writes(write.mem)))
        };
        text.push_str("The largest results are\n");
        let mut largest = fresh;
        largest.sort_by_key(|(ty, _)| std::cmp::Reverse(ty.nbytes()));
        for (ty, output) in largest.into_iter().take(NAMED) {
            line(text, ty.nbytes() as u64, Some(ty), writer(output));
        }
    }
}

/// A call site in the program, for whoever knows what the numbers mean.
fn marked(site: Site) -> String {
    match site {
        0 => "in an unknown line".into(),
        site => format!("<site {site}>"),
    }
}

fn size(nbytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if nbytes < 1024 {
        return format!("{nbytes} B");
    }
    let unit = (nbytes.ilog2() as usize / 10).min(UNITS.len());
    format!("{:.2} {}", nbytes as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit - 1])
}

/// The step that wants most of the arena, and all that lies there while it runs.
fn fullest(plan: &Plan) -> Option<(usize, Vec<LiveRange>)> {
    let live_ranges = live_ranges(plan);
    let mut change = vec![0i64; plan.steps.len() + 1];
    for range in &live_ranges {
        change[range.first] += range.nbytes as i64;
        change[range.last + 1] -= range.nbytes as i64;
    }
    let mut live = 0;
    let wanted = change.iter().take(plan.steps.len()).map(|change| {
        live += change;
        live
    });
    let (step, most) =
        wanted.enumerate().max_by_key(|&(step, live)| (live, std::cmp::Reverse(step)))?;
    let there = |range: &LiveRange| (range.first..=range.last).contains(&step);
    (most > 0).then(|| (step, live_ranges.into_iter().filter(there).collect()))
}

/// All that lies in the arena at any time.
fn live_ranges(plan: &Plan) -> Vec<LiveRange> {
    let mut gone = Vec::new();
    let mut live: BTreeMap<u64, LiveRange> = BTreeMap::new();
    for (index, step) in plan.steps.iter().enumerate() {
        for read in &step.reads {
            let MemRef::Arena(start) = read.mem else { continue };
            if let Some((_, range)) = live.range_mut(..=start).next_back() {
                range.last = index;
            }
        }
        if let Some((_, nbytes)) = step.workspace {
            gone.push(LiveRange { first: index, last: index, nbytes, ty: None });
        }
        for write in &step.writes {
            let MemRef::Arena(start) = write.mem else { continue };
            let ty = Ty::new(write.dtype, &write.layout.sizes);
            let nbytes = ty.nbytes() as u64;
            if nbytes == 0 {
                continue;
            }
            let overlaps = |(&at, range): (&u64, &LiveRange)| {
                (at < start + nbytes && start < at + range.nbytes).then_some(at)
            };
            let over: Vec<u64> = live.range(..start + nbytes).filter_map(overlaps).collect();
            // What is overwritten by its reader is the reader's.
            let leave = |range: LiveRange| LiveRange { last: range.last.min(index - 1), ..range };
            gone.extend(over.into_iter().filter_map(|at| live.remove(&at).map(leave)));
            live.insert(start, LiveRange { first: index, last: index, nbytes, ty: Some(ty) });
        }
    }
    gone.extend(live.into_values());
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::null::Null;
    use crate::plan::plan;
    use crate::plan::tests::leaves;
    use crate::plan::training::training_step;

    #[test]
    fn sizes_are_said_in_the_largest_unit() {
        let said =
            [0, 1023, 1024, 1536, 1 << 20, 3 << 30, (1 << 40) + (1 << 39), 1 << 51].map(size);
        let expected = [
            "0 B",
            "1023 B",
            "1.00 KiB",
            "1.50 KiB",
            "1.00 MiB",
            "3.00 GiB",
            "1.50 TiB",
            "2048.00 TiB",
        ];
        assert_eq!(said, expected);
    }

    /// As the planner counts it.
    #[test]
    fn the_fullest_step_holds_what_no_placement_can_beat() {
        for layers in 1..4 {
            let (graph, donors) = training_step(layers, 2, 8, 16, 32);
            let (inputs, scalars) = leaves(&graph);
            let plan = plan(&graph, &inputs, &scalars, &donors, &Null::default()).unwrap();
            let (_, live_ranges) = fullest(&plan).unwrap();
            let aligned = |range: &LiveRange| range.nbytes.next_multiple_of(crate::plan::ALIGN);
            assert_eq!(live_ranges.iter().map(aligned).sum::<u64>(), plan.lower_bound);
        }
    }
}
