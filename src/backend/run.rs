//! Runs the steps of a plan in order and contains failures: the bytes that a failed step should have written are *poisoned*,
//! steps that read poisoned bytes are skipped (and poison the bytes that they should have written), the others run.
//!
//! **Invariant:** without a failure nothing is tracked. Memory is compared byte for byte, because the plan reuses it: a step
//! that runs heals the bytes that it writes.

use super::{Call, Failure, Outcome};
use crate::error::{Code, Error, Result};
use crate::op::lane::Ticket;
use crate::plan::{Kernel, LaneId, MemRef, Operand, Plan, Step};
use crate::shape::{Layout, numel};
use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls `exec` with the index of every step whose operands are sound. A failed `exec` must have left the step's writes
/// untouched, unless its error says otherwise or is `OutOfMemory`: then they are torn.
pub fn run_steps(plan: &Plan, call: &Call, mut exec: impl FnMut(usize) -> Result<()>) -> Outcome {
    let mut steps = 0..plan.steps.len();
    run_some_steps(plan, call, &mut |_| steps.next(), |index, _| exec(index).map(|()| None))
}

/// As [`run_steps`], for the steps that `next` returns. `next` is told whether all earlier steps have ended and none
/// failed; the dependencies of its steps have run without a failure. `exec` may put a step that is done later on a lane
/// and return a ticket; it is given the ticket of the last step that this run put on that lane, if it has not ended.
pub fn run_some_steps(
    plan: &Plan,
    call: &Call,
    next: &mut dyn FnMut(bool) -> Option<usize>,
    exec: impl FnMut(usize, Option<Ticket>) -> Result<Option<Ticket>>,
) -> Outcome {
    let mut poison = Poison::new(plan);
    for (input, error) in call.poisoned {
        let whole = 0..plan.inputs[*input as usize].nbytes() as u64;
        let blame = poison.blame(None, error.clone());
        poison.spread(Space::Input(*input), [whole], blame);
    }
    let has_memory = has_memory(plan, call);
    let (torn, in_flight) = (Vec::new(), InFlight::default());
    let mut run = Run { plan, call, exec, has_memory, poison, torn, in_flight };
    while let Some(index) = next(run.poison.errors.is_empty() && run.in_flight.0.is_empty()) {
        run.land_before(index);
        run.step(index);
    }
    run.land(|_| true);
    run.poison.outcome(&run.torn)
}

struct Run<'a, F> {
    plan: &'a Plan,
    call: &'a Call<'a>,
    exec: F,
    /// If false, the memory of every step has to be checked.
    has_memory: bool,
    poison: Poison<'a>,
    /// Outputs that may be partly written.
    torn: Vec<u32>,
    in_flight: InFlight,
}

/// Steps on lanes, in starting order. Whatever happens, they end before their memory is given away.
#[derive(Default)]
struct InFlight(Vec<Started>);

struct Started {
    step: usize,
    lane: Option<LaneId<u64>>,
    ticket: Ticket,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.iter().for_each(|started| drop(started.ticket.wait()));
    }
}

impl<F: FnMut(usize, Option<Ticket>) -> Result<Option<Ticket>>> Run<'_, F> {
    fn step(&mut self, index: usize) {
        let step = &self.plan.steps[index];
        if !self.poison.is_clean()
            && let Some(blame) = step.reads.iter().find_map(|read| self.poison.touches(read))
        {
            return self.poison.spread_step(step, blame);
        }
        match self.attempt(index) {
            Ok(Some(ticket)) => {
                let lane = self.plan.lane(step, self.call.scalars);
                self.in_flight.0.push(Started { step: index, lane, ticket });
            }
            Ok(None) => self.succeed(step),
            Err(error) => self.fail(index, error),
        }
    }

    fn attempt(&mut self, index: usize) -> Result<Option<Ticket>> {
        let (plan, call) = (self.plan, self.call);
        let step = &plan.steps[index];
        if !self.has_memory
            && let Some(error) = homeless(plan, call, step)
        {
            return Err(error);
        }
        let before = step.done.and_then(|_| {
            let lane = plan.lane(step, call.scalars);
            let of_lane = self.in_flight.0.iter().rfind(|s| s.lane == lane);
            of_lane.map(|started| started.ticket.clone())
        });
        call.watch.inspect(|watch| watch.begin(index));
        let result = contained(|| (self.exec)(index, before));
        call.watch.inspect(|watch| match &result {
            Ok(Some(_)) => watch.goes_on(index),
            result => watch.end(index, result.is_err()),
        });
        result
    }

    fn succeed(&mut self, step: &Step) {
        if !self.poison.is_clean() {
            step.writes.iter().for_each(|write| self.poison.heal(write));
        }
    }

    fn fail(&mut self, index: usize, error: Error) {
        let step = &self.plan.steps[index];
        let began = error.torn || error.code == Code::OutOfMemory;
        if began && homeless(self.plan, self.call, step).is_none() {
            self.torn.extend(step.writes.iter().filter_map(|write| match write.mem {
                MemRef::Output(n) => Some(n),
                _ => None,
            }));
        }
        let blame = self.poison.blame(Some(index as u32), explain(step, error));
        self.poison.spread_step(step, blame);
    }

    /// Waits for the steps that must end before this one. A collective that is not put on its lane comes after all that
    /// are there.
    fn land_before(&mut self, index: usize) {
        if self.in_flight.0.is_empty() {
            return;
        }
        let (plan, step) = (self.plan, &self.plan.steps[index]);
        let alone = if step.done.is_none() { plan.lane(step, self.call.scalars) } else { None };
        self.land(|started| {
            let done = plan.steps[started.step].done.is_none_or(|done| done as usize <= index);
            done || alone.is_some() && started.lane == alone
        });
    }

    /// Waits for the steps in flight that are due, and for those put on their lanes before them.
    fn land(&mut self, is_due: impl Fn(&Started) -> bool) {
        while let Some(due) = self.in_flight.0.iter().find(|started| is_due(started)) {
            let lane = due.lane;
            let first = self.in_flight.0.iter().position(|s| s.lane == lane);
            let index = self.in_flight.0[first.unwrap_or(0)].step;
            self.call.watch.inspect(|watch| watch.waits(index));
            let ended = self.in_flight.0[first.unwrap_or(0)].ticket.wait();
            self.in_flight.0.remove(first.unwrap_or(0));
            self.call.watch.inspect(|watch| watch.landed(index, &ended));
            let step = &self.plan.steps[index];
            match ended.result {
                Ok(()) => self.succeed(step),
                // With poisoned reads it was skipped: an earlier step on its lane failed.
                Err(error) => match step.reads.iter().find_map(|read| self.poison.touches(read)) {
                    Some(blame) => self.poison.spread_step(step, blame),
                    None => self.fail(index, error),
                },
            }
        }
    }
}

/// The outputs that depend on some of these inputs.
pub fn reached(plan: &Plan, inputs: &[u32]) -> Vec<u32> {
    let mut reach = Poison::new(plan);
    let blame = reach.blame(None, Error::new(Code::Internal, ""));
    for &input in inputs {
        let whole = 0..plan.inputs[input as usize].nbytes() as u64;
        reach.spread(Space::Input(input), [whole], blame);
    }
    for step in &plan.steps {
        match step.reads.iter().any(|read| reach.touches(read).is_some()) {
            true => reach.spread_step(step, blame),
            false => step.writes.iter().for_each(|write| reach.heal(write)),
        }
    }
    reach.outcome(&[]).failed.iter().map(|failure| failure.output).collect()
}

/// Runs a kernel. Errors: its own, and one that it panicked with for want of another way out; some of its results may
/// be written then.
fn contained<T>(kernel: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(kernel)).unwrap_or_else(|panic| match panic.downcast() {
        Ok(error) => Err(*error),
        Err(panic) => resume_unwind(panic),
    })
}

/// Whether there was memory for everything that the steps need.
fn has_memory(plan: &Plan, call: &Call) -> bool {
    let has = |address: usize, nbytes: u64| address != 0 || nbytes == 0;
    let mut outputs = call.outputs.iter().zip(&plan.outputs);
    has(call.arena, plan.arena_bytes)
        && has(call.host, plan.host_bytes)
        && has(call.results, plan.results_bytes)
        && outputs.all(|(&address, output)| has(address, output.nbytes() as u64))
}

/// The error of a step that needs an output, or the arena, host or results block, for which there was no memory.
fn homeless(plan: &Plan, call: &Call, step: &Step) -> Option<Error> {
    let nbytes = |operand: &Operand| match operand.mem {
        MemRef::Output(n) if call.outputs[n as usize] == 0 => plan.outputs[n as usize].nbytes(),
        MemRef::Arena(_) if call.arena == 0 => plan.arena_bytes as usize,
        MemRef::Host(_) if call.host == 0 => plan.host_bytes as usize,
        MemRef::Results(_) if call.results == 0 => plan.results_bytes as usize,
        _ => 0,
    };
    let operands = step.reads.iter().chain(&step.writes).map(nbytes);
    let scratch = step.workspace.filter(|_| call.arena == 0).map(|_| plan.arena_bytes as usize);
    let missing = operands.chain(scratch).max().filter(|&nbytes| nbytes > 0)?;
    Some(Error::new(Code::OutOfMemory, format!("cannot allocate {missing} bytes")))
}

/// Adds the call site and, unless the record that the step comes from names it better, the operation.
pub fn explain(step: &Step, error: Error) -> Error {
    let error = error.at(step.site);
    match &step.kernel {
        _ if step.record != 0 => error,
        Kernel::Map(body) => match body.instrs.last() {
            Some(last) => error.within(last.op.name()),
            None => error.within("copy"),
        },
        Kernel::Reduce { op, .. } | Kernel::Fused { op, .. } | Kernel::Node { op, .. } => {
            error.within(op.name())
        }
    }
}

/// Memory that overlaps no other space. An output with a donor is in the space of that input, one in the block of
/// results in `Results`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Input(u32),
    Output(u32),
    Arena,
    Host,
    Results,
}

/// Index into [`Poison::errors`].
type Blame = usize;

struct Poison<'a> {
    plan: &'a Plan,
    /// Disjoint poisoned ranges: space and first byte → end and the failure to blame.
    ranges: BTreeMap<(Space, u64), (u64, Blame)>,
    /// Outputs without bytes whose step failed.
    empty: BTreeMap<u32, Blame>,
    /// The failed step (`None`: a poisoned input) and its error.
    errors: Vec<(Option<u32>, Error)>,
}

impl<'a> Poison<'a> {
    fn new(plan: &'a Plan) -> Poison<'a> {
        Poison { plan, ranges: BTreeMap::new(), empty: BTreeMap::new(), errors: Vec::new() }
    }

    fn is_clean(&self) -> bool {
        self.ranges.is_empty()
    }

    fn blame(&mut self, step: Option<u32>, error: Error) -> Blame {
        self.errors.push((step, error));
        self.errors.len() - 1
    }

    fn origin_of_output(&self, output: u32) -> (Space, u64) {
        match (self.plan.donors[output as usize], self.plan.place_of_result(output)) {
            (Some(input), _) => (Space::Input(input), 0),
            (None, Some(start)) => (Space::Results, start),
            (None, None) => (Space::Output(output), 0),
        }
    }

    /// The space of an operand and the byte at which its flat elements start; `None` without memory.
    fn origin(&self, mem: MemRef) -> Option<(Space, u64)> {
        match mem {
            MemRef::Input(n) => Some((Space::Input(n), 0)),
            MemRef::Output(n) => Some(self.origin_of_output(n)),
            MemRef::Arena(offset) => Some((Space::Arena, offset)),
            MemRef::Host(offset) => Some((Space::Host, offset)),
            MemRef::Results(offset) => Some((Space::Results, offset)),
            MemRef::Scalar(_) | MemRef::Index => None,
        }
    }

    /// The bytes of an operand; if it has very many pieces, also the bytes between them.
    fn bytes(&self, operand: &Operand) -> Option<(Space, Vec<Range<u64>>)> {
        let layout = &operand.layout;
        let hull = || iter::once(first(layout)..layout.end()).collect();
        self.shifted(operand, runs(layout).unwrap_or_else(hull))
    }

    fn shifted(
        &self,
        operand: &Operand,
        runs: Vec<Range<i64>>,
    ) -> Option<(Space, Vec<Range<u64>>)> {
        let (space, start) = self.origin(operand.mem)?;
        let size = operand.dtype.size() as u64;
        let shift =
            |run: Range<i64>| start + run.start as u64 * size..start + run.end as u64 * size;
        Some((space, runs.into_iter().map(shift).collect()))
    }

    fn overlapping(&self, space: Space, range: &Range<u64>) -> Option<(Range<u64>, Blame)> {
        let (&(_, start), &(end, blame)) =
            self.ranges.range((space, 0)..(space, range.end)).next_back()?;
        (end > range.start && !range.is_empty()).then_some((start..end, blame))
    }

    fn touches(&self, read: &Operand) -> Option<Blame> {
        let (space, runs) = self.bytes(read)?;
        runs.iter().find_map(|run| Some(self.overlapping(space, run)?.1))
    }

    fn remove(&mut self, space: Space, range: &Range<u64>) {
        while let Some((old, blame)) = self.overlapping(space, range) {
            self.ranges.remove(&(space, old.start));
            for rest in [old.start..range.start, range.end..old.end] {
                if !rest.is_empty() {
                    self.ranges.insert((space, rest.start), (rest.end, blame));
                }
            }
        }
    }

    fn heal(&mut self, write: &Operand) {
        // Bytes that may not have been written stay poisoned.
        let written = runs(&write.layout).and_then(|runs| self.shifted(write, runs));
        if let Some((space, runs)) = written {
            runs.iter().for_each(|run| self.remove(space, run));
        }
    }

    fn spread(&mut self, space: Space, ranges: impl IntoIterator<Item = Range<u64>>, blame: Blame) {
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            self.remove(space, &range);
            self.ranges.insert((space, range.start), (range.end, blame));
        }
    }

    fn spread_step(&mut self, step: &Step, blame: Blame) {
        for write in &step.writes {
            match write.mem {
                MemRef::Output(n) if self.plan.outputs[n as usize].nbytes() == 0 => {
                    self.empty.insert(n, blame);
                }
                _ => {
                    if let Some((space, runs)) = self.bytes(write) {
                        self.spread(space, runs, blame);
                    }
                }
            }
        }
    }

    fn outcome(mut self, torn: &[u32]) -> Outcome {
        let mut seen = vec![false; self.errors.len()];
        let mut failure = |output: u32| {
            let (space, start) = self.origin_of_output(output);
            let whole = start..start + self.plan.outputs[output as usize].nbytes() as u64;
            let poisoned = self.overlapping(space, &whole);
            let blame =
                poisoned.map(|(_, blame)| blame).or_else(|| self.empty.get(&output).copied())?;
            seen[blame] = true;
            let (step, error) = self.errors[blame].clone();
            Some(Failure { output, step, error, torn: torn.contains(&output) })
        };
        let failed = (0..self.plan.outputs.len() as u32).filter_map(&mut failure).collect();
        // An input without a value is reported to its readers.
        let unseen = std::mem::take(&mut self.errors).into_iter().zip(seen);
        let unseen = unseen.filter(|((step, _), seen)| step.is_some() && !seen);
        Outcome { failed, unseen: unseen.map(|(error, _)| error).collect() }
    }
}

/// The smallest flat index.
fn first(layout: &Layout) -> i64 {
    let back =
        layout.sizes.iter().zip(&layout.strides).map(|(size, stride)| (size - 1) * stride.min(&0));
    layout.offset + back.sum::<i64>()
}

/// The most ranges of an operand that are distinguished.
const MOST_RUNS: i64 = 1 << 16;

/// The flat elements of a layout as sorted dense ranges; `None` if there are too many.
fn runs(layout: &Layout) -> Option<Vec<Range<i64>>> {
    if layout.numel() == 0 {
        return Some(Vec::new());
    }
    // Repeated elements count once, and the order of dimensions does not matter.
    let mut dims: Vec<(i64, i64)> =
        layout.strides.iter().copied().zip(layout.sizes.iter().copied()).collect();
    dims.retain(|&(stride, size)| stride != 0 && size != 1);
    dims.sort_unstable_by_key(|&(stride, _)| std::cmp::Reverse(stride));
    let dense = Layout {
        sizes: dims.iter().map(|&(_, size)| size).collect(),
        strides: dims.iter().map(|&(stride, _)| stride).collect(),
        offset: layout.offset,
    };
    let split = (0..=dense.rank()).find(|&d| {
        let inner = Layout {
            sizes: dense.sizes[d..].into(),
            strides: dense.strides[d..].into(),
            offset: 0,
        };
        inner.is_contiguous()
    });
    let split = split.expect("a layout of rank 0 is contiguous");
    let length = numel(&dense.sizes[split..]);
    let outer = Layout {
        sizes: dense.sizes[..split].into(),
        strides: dense.strides[..split].into(),
        offset: dense.offset,
    };
    if outer.numel() > MOST_RUNS {
        return None;
    }
    let mut starts: Vec<i64> = outer.indices().collect();
    starts.sort_unstable();
    let mut runs: Vec<Range<i64>> = Vec::new();
    for start in starts {
        match runs.last_mut() {
            Some(last) if last.end >= start => last.end = last.end.max(start + length),
            _ => runs.push(start..start + length),
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests;
