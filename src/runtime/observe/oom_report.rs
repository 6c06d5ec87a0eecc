//! The OOM report: the message of a program that lacks memory says how much it wants, where its peak is, which values take the
//! memory and which lines made them.

use super::live_ranges::fullest;
use crate::backend::memory::Stats;
use crate::error::{Code, Error, Site};
use crate::op::Ty;
use crate::plan::{MemRef, Plan};
use crate::record::Operator;
use crate::trace::name_of;
use std::fmt::Write;

/// Number of tensors that are named.
const NAMED: usize = 5;

/// The error of a refused allocation, with the memory that the program wants; `memory`: statistics of all memory.
pub fn report(memory: Stats, plan: &Plan, operators: &[Operator], refused: &Error) -> Error {
    let mut text = format!("{}\n", refused.message);
    let _ = writeln!(
        text,
        "In use are {}, of which this program reads {}; it wants {} more for results and {} for what lies between.",
        size(memory.live_bytes),
        size(plan.inputs.iter().map(|ty| ty.nbytes() as u64).sum()),
        size(plan.fresh_bytes()),
        size(plan.arena_bytes)
    );
    largest(&mut text, plan, operators);
    text.push_str(
        "To want less: a smaller batch or shorter sequences, a half type (autocast), checkpoints \
         (torch.utils.checkpoint), or dropping tensors that nobody needs any more.",
    );
    Error { message: text, ..refused.clone() }
}

/// The error of a plan that takes more than the limit, though it is the smallest that was found: where its peak is, and which
/// values take the memory.
pub fn over_limit(plan: &Plan, operators: &[Operator], limit: u64) -> Error {
    let mut text = format!(
        "This program takes at least {} besides its inputs, as far as was found, and the memory limit is {}: {} for results \
         and {} for what lies between, computed again, or kept on the host of a GPU, wherever that helps.\n",
        size(plan.memory()),
        size(limit),
        size(plan.memory_of_results()),
        size(plan.memory() - plan.memory_of_results())
    );
    largest(&mut text, plan, operators);
    text.push_str(
        "To stay within it: a higher limit (torchacc.set_memory_limit, TORCHACC_MEMORY_LIMIT), a smaller batch or shorter \
         sequences, or a half type (autocast). Nothing was run, and what it was to update is as it was.",
    );
    Error::new(Code::OutOfMemory, text)
}

/// Appends the step at the peak with the largest values live there, and the largest results.
fn largest(text: &mut String, plan: &Plan, operators: &[Operator]) {
    let is_new = |(k, _): &(usize, &Ty)| plan.donors[*k].is_none();
    let fresh: Vec<(&Ty, usize)> =
        plan.outputs.iter().enumerate().filter(is_new).map(|(k, ty)| (ty, k)).collect();
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
    // Parts of at most one percent are not worth a line.
    let between = plan.arena_bytes + plan.results_bytes;
    let counts = |part: u64| part > (results + between) / 100;
    if let Some((step, live_ranges)) = fullest(plan).filter(|_| counts(between)) {
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

/// A call site in the program, marked for bindings that can name its line.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
