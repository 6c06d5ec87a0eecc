//! A proof of a finished plan against its graph, by running it on names instead of numbers: memory holds "value v from
//! its first element on", and every step must find in memory the values it reads and compute those that the graph defines.
//!
//! Proved of every step:
//! * reads are inside memory that holds the value they name, whole, written by an earlier step and not overwritten since;
//! * writes go to outputs, the arena, the block of results and, of offloaded values and copies only, the host's block, aligned and
//!   inside;
//!   they overlap no other write or scratch memory of the step, and no read unless the kernel goes through both in step;
//! * an input donated to an output is written once, by the step that makes the output, or never if it is the output;
//! * each element of each result is the graph's expression: followed back element by element, for the corners of the
//!   iteration space and some points inside it;
//!
//! * only collectives and copies of whole tensors to the host and back are on lanes, and until one is done nobody reads or writes
//!   its results or overwrites its operands; but those started later on the same lane may read them, and end later;
//!
//! and of the whole: every output is there; CPU fallbacks, checks and collectives run once each, in the order of the graph
//! except for collectives of several lanes, and none of these is waited for before all that precede it have begun.
//!
//! **Invariant:** shares nothing with the planners but the data types.

mod meaning;
#[cfg(test)]
mod tests;

use super::{ALIGN, Kernel, MemRef, Operand, Plan, Step};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::internal;
use crate::op::collective::{self, Kind};
use crate::op::{Class, Op, Ty};
use crate::shape::contiguous_strides;
use std::collections::HashMap;
use std::ops::Range;

/// `Internal` with the step and the reason if the plan does not compute the graph.
pub fn check(graph: &Graph, plan: &Plan) -> Result<()> {
    let mut memory = Memory::new(graph, plan)?;
    let mut effects = Effects::new(graph);
    for (index, step) in plan.steps.iter().enumerate() {
        let host = effects.begin(graph, index, step)?;
        let checked = memory
            .in_flight(index, step)
            .and_then(|()| memory.run(step))
            .and_then(|()| meaning::check(graph, step, host));
        checked.map_err(|e| e.within(format!("step {index}: {step}")))?;
    }
    effects.finish(graph)?;
    memory.finish()
}

/// The steps with effects, by node: the position of each, and the step before which the program waits for it.
struct Effects {
    /// Those that are not collectives, in the order of the graph.
    others: std::vec::IntoIter<NodeId>,
    found: HashMap<NodeId, (usize, usize)>,
}

impl Effects {
    fn new(graph: &Graph) -> Effects {
        let others: Vec<NodeId> =
            effects(graph).filter(|&id| !is_collective(graph.node(id))).collect();
        Effects { others: others.into_iter(), found: HashMap::new() }
    }

    /// The node of a step, if it has effects.
    fn begin<'a>(&mut self, graph: &'a Graph, at: usize, step: &Step) -> Result<Option<&'a Node>> {
        let Kernel::Node { op, .. } = &step.kernel else { return Ok(None) };
        if op.class() != Class::Host {
            return Ok(None);
        }
        if step.kernel.collective().is_none() {
            let id = self.others.next();
            id.map(|id| self.found.insert(id, (at, at + 1)));
            return Ok(id.map(|id| graph.node(id)));
        }
        let Some(&result) = step.results_of.first() else { return Ok(None) };
        let id = graph.value(result).node;
        let waits = step.done.map_or(at + 1, |done| done as usize);
        if self.found.insert(id, (at, waits)).is_some() {
            return internal!("it runs twice");
        }
        Ok(Some(graph.node(id)))
    }

    /// Checks that everything ran once. When a step waits for a collective, or has other effects, all that come before it in the
    /// graph have begun; and if it is not a collective, none that comes after it has. So ranks whose plans differ never wait for
    /// one another in a circle.
    fn finish(self, graph: &Graph) -> Result<()> {
        let (mut begun, mut fence) = (0, 0);
        for id in effects(graph) {
            let Some(&(at, waits)) = self.found.get(&id) else {
                return internal!("a collective, CPU fallback or check is missing");
            };
            if at < fence || waits <= begun {
                return internal!(
                    "step {at} has its effects too early, or is waited for too early"
                );
            }
            begun = begun.max(at);
            if !is_collective(graph.node(id)) {
                fence = at;
            }
        }
        Ok(())
    }
}

fn effects(graph: &Graph) -> impl Iterator<Item = NodeId> {
    graph.node_ids().filter(|&id| graph.node(id).op.class() == Class::Host)
}

fn is_collective(node: &Node) -> bool {
    node.op == Op::Host && collective::of(&node.attrs).is_some()
}

/// The token with which the first of the collectives begins that a token follows.
fn first_token(graph: &Graph, mut token: ValueId) -> ValueId {
    loop {
        let maker = graph.maker(token);
        let before = match maker.op {
            Op::Host => collective::of(&maker.attrs)
                .and_then(|(kind, _)| maker.inputs.get(collective::operands(kind).token)),
            _ => None,
        };
        match before {
            Some(&before) => token = before,
            None => return token,
        }
    }
}

/// Memory that overlaps no other. An output with a donor is in the space of that input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Input(u32),
    Output(u32),
    Arena,
    Host,
    /// The block of results, and the outputs that may lie there.
    Results,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Input(u32),
    Value(ValueId),
}

#[derive(Clone, Debug)]
struct LiveValue {
    space: Space,
    bytes: Range<u64>,
    content: Content,
    /// Written as an output, which need not lie in the block of results.
    is_output: bool,
}

/// A lane: that of the collectives which follow one token, or of copies to the host or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnLane {
    Token(Content),
    ToHost,
    FromHost,
}

/// A step on its lane.
struct Pending {
    done: usize,
    lane: OnLane,
    reads: Vec<(Space, Range<u64>)>,
    writes: Vec<(Space, Range<u64>)>,
}

struct Memory<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    live: Vec<LiveValue>,
    pending: Vec<Pending>,
    /// Number of writes to each output.
    writes: Vec<u32>,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl<'a> Memory<'a> {
    fn new(graph: &'a Graph, plan: &'a Plan) -> Result<Memory<'a>> {
        if plan.outputs.len() != graph.outputs.len() || plan.donors.len() != plan.outputs.len() {
            return internal!("the plan has other outputs than the graph");
        }
        for (k, donor) in plan.donors.iter().enumerate() {
            let Some(i) = donor else { continue };
            let fits =
                plan.inputs.get(*i as usize).map(Ty::nbytes) == Some(plan.outputs[k].nbytes());
            if !fits || plan.donors[..k].contains(donor) {
                return internal!("input {i} cannot become output {k}");
            }
        }
        for (n, &(k, start)) in plan.results.iter().enumerate() {
            let nbytes = plan.outputs.get(k as usize).map(|ty| ty.nbytes() as u64);
            let is_inside = nbytes.is_some_and(|nbytes| {
                start.checked_add(nbytes).is_some_and(|end| end <= plan.results_bytes)
            });
            let is_fresh = is_inside && plan.donors[k as usize].is_none();
            let is_twice = plan.results[..n].iter().any(|(other, _)| *other == k);
            if !is_fresh || is_twice || !start.is_multiple_of(ALIGN) || plan.is_on_host(k as usize)
            {
                return internal!("output {k} cannot lie at byte {start} of the results");
            }
        }
        let input = |(i, ty): (usize, &Ty)| LiveValue {
            space: Space::Input(i as u32),
            bytes: 0..ty.nbytes() as u64,
            content: Content::Input(i as u32),
            is_output: false,
        };
        let live = plan.inputs.iter().enumerate().map(input).collect();
        let writes = vec![0; plan.outputs.len()];
        Ok(Memory { graph, plan, live, pending: Vec::new(), writes })
    }

    /// Space and first byte of a reference; `None` without memory.
    fn locate(&self, mem: MemRef) -> Result<Option<(Space, u64)>> {
        Ok(match mem {
            MemRef::Input(i) if (i as usize) < self.plan.inputs.len() => Some((Space::Input(i), 0)),
            MemRef::Output(k) => match self.plan.donors.get(k as usize) {
                Some(Some(i)) => Some((Space::Input(*i), 0)),
                Some(None) => match self.plan.place_of_result(k) {
                    Some(start) => Some((Space::Results, start)),
                    None => Some((Space::Output(k), 0)),
                },
                None => return internal!("there is no output {k}"),
            },
            MemRef::Arena(offset) => Some((Space::Arena, offset)),
            MemRef::Host(offset) => Some((Space::Host, offset)),
            MemRef::Results(offset) => Some((Space::Results, offset)),
            MemRef::Scalar(slot) if (slot as usize) < self.plan.scalars.len() => None,
            MemRef::Index => None,
            _ => return internal!("there is no {mem}"),
        })
    }

    fn content(&self, value: ValueId) -> Content {
        let maker = self.graph.maker(value);
        match maker.op {
            Op::Input => Content::Input(maker.attrs[0].int() as u32),
            _ => Content::Value(value),
        }
    }

    /// Checks that a step leaves alone the operands and results of those on lanes; then adds the step if it is on one
    /// itself.
    fn in_flight(&mut self, index: usize, step: &Step) -> Result<()> {
        self.pending.retain(|pending| pending.done > index);
        let lane = self.lane(step);
        let bytes = |operands: &[Operand]| -> Result<Vec<(Space, Range<u64>)>> {
            let located = operands.iter().map(|operand| {
                let place = self.locate(operand.mem)?;
                Ok(place.map(|(space, start)| (space, start..start + furthest(operand))))
            });
            Ok(located.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        };
        let (reads, mut writes) = (bytes(&step.reads)?, bytes(&step.writes)?);
        writes.extend(step.workspace.map(|(offset, size)| (Space::Arena, offset..offset + size)));
        let touch = |some: &[(Space, Range<u64>)], others: &[(Space, Range<u64>)]| {
            some.iter().any(|(s, a)| others.iter().any(|(t, b)| s == t && overlap(a, b)))
        };
        for pending in &self.pending {
            let follows = lane == Some(pending.lane);
            let reads_early = !follows && touch(&reads, &pending.writes);
            if reads_early || touch(&writes, &pending.reads) || touch(&writes, &pending.writes) {
                return internal!("it touches what another one on its lane still uses");
            }
            if follows && step.done.map_or(index, |done| done as usize) < pending.done {
                return internal!("it is done before what precedes it on its lane");
            }
        }
        let Some(done) = step.done else { return Ok(()) };
        let (done, steps) = (done as usize, self.plan.steps.len());
        match lane {
            Some(lane) if done > index && done <= steps => {
                self.pending.push(Pending { done, lane, reads, writes });
                Ok(())
            }
            Some(_) => internal!("it begins at step {index} and is done before step {done}"),
            None => internal!("only collectives and copies to the host and back are done later"),
        }
    }

    /// The lane of a collective or copy that may have one.
    fn lane(&self, step: &Step) -> Option<OnLane> {
        match step.kernel.collective() {
            Some(kind) => self.lane_of_token(step, kind).map(OnLane::Token),
            None if step.done.is_none() || !is_whole_copy(step) => None,
            None => match (self.is_on_host(&step.writes), self.reads_host(step)) {
                (true, false) => Some(OnLane::ToHost),
                (false, true) => Some(OnLane::FromHost),
                _ => None,
            },
        }
    }

    fn reads_host(&self, step: &Step) -> bool {
        let is_input = |read: &Operand| matches!(read.mem, MemRef::Input(_));
        let reloads = |&result: &ValueId| self.graph.maker(result).op == Op::Reload;
        let reloads_input =
            || step.reads.iter().any(is_input) && step.results_of.iter().any(reloads);
        self.is_on_host(&step.reads) || reloads_input()
    }

    fn is_on_host(&self, operands: &[Operand]) -> bool {
        operands.iter().any(|operand| match operand.mem {
            MemRef::Host(_) => true,
            MemRef::Output(k) => self.plan.is_on_host(k as usize),
            _ => false,
        })
    }

    /// The token with which the first of those it follows begins.
    fn lane_of_token(&self, step: &Step, kind: Kind) -> Option<Content> {
        let token = *step.reads_of.get(collective::operands(kind).token)?;
        Some(self.content(first_token(self.graph, token)))
    }

    fn run(&mut self, step: &Step) -> Result<()> {
        if step.reads.len() != step.reads_of.len() || step.writes.len() != step.results_of.len() {
            return internal!("operands without values");
        }
        for (read, &value) in step.reads.iter().zip(&step.reads_of) {
            self.read(read, value)?;
        }
        let mut written: Vec<(Space, Range<u64>)> = Vec::new();
        for (k, (write, &value)) in step.writes.iter().zip(&step.results_of).enumerate() {
            let target = self.write(write, value, is_copy(step))?;
            self.hazards(step, k, &target)?;
            written.push(target);
        }
        if let Some((offset, bytes)) = step.workspace {
            let range = offset..offset + bytes;
            self.in_arena(&range)?;
            if self.reads_over(step, Space::Arena, &range).next().is_some() {
                return internal!("scratch memory lies over an operand");
            }
            written.push((Space::Arena, range));
        }
        for (i, (space, range)) in written.iter().enumerate() {
            if written[..i].iter().any(|(s, r)| s == space && overlap(r, range)) {
                return internal!("two results or scratch memory overlap at {range:?}");
            }
            self.live.retain(|h| h.space != *space || !overlap(&h.bytes, range));
        }
        let mems = step.writes.iter().map(|write| write.mem);
        for (((space, bytes), &value), mem) in written.into_iter().zip(&step.results_of).zip(mems) {
            let is_output = matches!(mem, MemRef::Output(_));
            self.live.push(LiveValue { space, bytes, content: Content::Value(value), is_output });
        }
        Ok(())
    }

    fn read(&self, read: &Operand, value: ValueId) -> Result<()> {
        let layout = &read.layout;
        let shaped = layout.sizes.len() == layout.strides.len();
        let forward = layout.offset >= 0 && layout.strides.iter().all(|&s| s >= 0);
        if !shaped || (!forward && !layout.sizes.contains(&0)) {
            return internal!("the layout of {read} points before its memory");
        }
        let Some((space, start)) = self.locate(read.mem)? else { return Ok(()) };
        let end = start + furthest(read);
        let wanted = self.content(value);
        let is_there = |h: &LiveValue| {
            space != Space::Results || h.is_output == matches!(read.mem, MemRef::Output(_))
        };
        let holds = |h: &&LiveValue| {
            h.space == space && h.bytes.start == start && h.content == wanted && is_there(h)
        };
        match self.live.iter().find(holds) {
            Some(h) if end <= h.bytes.end => Ok(()),
            Some(_) => internal!("{read} reaches beyond value {}", value.0),
            None if end == start => Ok(()),
            None => internal!("{read} does not hold value {}", value.0),
        }
    }

    fn write(
        &mut self,
        write: &Operand,
        value: ValueId,
        is_copy: bool,
    ) -> Result<(Space, Range<u64>)> {
        let ty = self.graph.ty(value);
        let layout = &write.layout;
        let dense = layout.offset == 0 && layout.strides == contiguous_strides(&layout.sizes);
        if !dense || write.dtype != ty.dtype || layout.numel() != ty.numel() {
            return internal!("{write} is not all of value {}", value.0);
        }
        let nbytes = ty.nbytes() as u64;
        match write.mem {
            MemRef::Output(k) if (k as usize) < self.plan.outputs.len() => {
                self.writes[k as usize] += 1;
                if nbytes != self.plan.outputs[k as usize].nbytes() as u64 {
                    return internal!("{write} is not as large as output {k}");
                }
            }
            MemRef::Arena(offset) => self.in_arena(&(offset..offset + nbytes))?,
            MemRef::Host(offset) => self.on_host(&(offset..offset + nbytes), value, is_copy)?,
            MemRef::Results(offset) => {
                if !offset.is_multiple_of(ALIGN) || offset + nbytes > self.plan.results_bytes {
                    return internal!("{write} is not aligned or not in the block of results");
                }
            }
            _ => return internal!("{write} must not be written"),
        }
        let (space, start) = self.locate(write.mem)?.expect("what is written is memory");
        Ok((space, start..start + nbytes))
    }

    fn in_arena(&self, range: &Range<u64>) -> Result<()> {
        if !range.start.is_multiple_of(ALIGN) || range.end > self.plan.arena_bytes {
            return internal!("bytes {range:?} are not aligned or not in the arena");
        }
        Ok(())
    }

    fn on_host(&self, range: &Range<u64>, value: ValueId, is_copy: bool) -> Result<()> {
        if !range.start.is_multiple_of(ALIGN) || range.end > self.plan.host_bytes {
            return internal!("bytes {range:?} are not aligned or not in the host's block");
        }
        if !is_copy && self.graph.maker(value).op != Op::Offload {
            return internal!("value {} is computed there", value.0);
        }
        Ok(())
    }

    /// The reads of a step that touch some memory.
    fn reads_over<'s>(
        &'s self,
        step: &'s Step,
        space: Space,
        range: &'s Range<u64>,
    ) -> impl Iterator<Item = (usize, &'s Operand)> {
        step.reads.iter().enumerate().filter(move |(_, read)| match self.locate(read.mem) {
            Ok(Some((s, start))) => s == space && overlap(&(start..start + furthest(read)), range),
            _ => false,
        })
    }

    /// Write `k` may overwrite a read only if both are gone through in step, or everything is read before.
    fn hazards(&self, step: &Step, k: usize, (space, range): &(Space, Range<u64>)) -> Result<()> {
        let write = &step.writes[k];
        for (i, read) in self.reads_over(step, *space, range) {
            let starts = self.locate(read.mem)?.map(|l| l.1) == Some(range.start);
            let is_before = |mem: MemRef| matches!(mem, MemRef::Results(_));
            let same = starts
                && is_before(read.mem) == is_before(write.mem)
                && read.layout.offset == 0
                && read.dtype.size() == write.dtype.size()
                && read.layout.strides == contiguous_strides(&read.layout.sizes)
                && read.layout.numel() == write.layout.numel();
            let in_step = match &step.kernel {
                Kernel::Map(_) => read.layout.sizes == write.layout.sizes,
                Kernel::Fused { body, .. } => {
                    let point_by_point = i + body.reads.len() > step.reads.len();
                    let point_by_point = point_by_point && k < body.results.len();
                    point_by_point && read.layout.sizes == write.layout.sizes
                }
                Kernel::Node { op: Op::AsStridedScatter | Op::IndexAdd | Op::Scatter, .. } => {
                    i == 0
                }
                Kernel::Node { op: Op::Module | Op::While, .. } => true,
                _ => false,
            };
            if !same || !in_step {
                return internal!("{write} overwrites {read} while it is read");
            }
        }
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        for (k, &value) in self.graph.outputs.iter().enumerate() {
            let mem = MemRef::Output(k as u32);
            let (space, start) = self.locate(mem)?.expect("outputs are memory");
            let ty = &self.plan.outputs[k];
            let unchanged = self.plan.donors[k].map(Content::Input) == Some(self.content(value));
            if ty != self.graph.ty(value) || self.writes[k] != 1 - unchanged as u32 {
                return internal!("output {k} is written {} times", self.writes[k]);
            }
            let is_there = |h: &LiveValue| space != Space::Results || h.is_output;
            let holds = |h: &&LiveValue| h.space == space && h.bytes.start == start && is_there(h);
            match self.live.iter().rev().find(holds).map(|h| h.content) {
                Some(Content::Value(v)) if meaning::same_memory(self.graph, v, value) => {}
                Some(found @ Content::Input(_)) if found == self.content(value) => {}
                found => return internal!("output {k} is value {}, not {found:?}", value.0),
            }
        }
        Ok(())
    }
}

/// Whether a step computes nothing.
fn is_copy(step: &Step) -> bool {
    matches!(&step.kernel, Kernel::Map(body) if body.instrs.is_empty())
}

/// Whether all that a step does is to copy the bytes of one tensor, in their order.
fn is_whole_copy(step: &Step) -> bool {
    let ([read], [write]) = (&step.reads[..], &step.writes[..]) else { return false };
    is_copy(step)
        && read.dtype == write.dtype
        && read.layout.sizes == write.layout.sizes
        && read.layout.is_contiguous()
        && !matches!(read.mem, MemRef::Scalar(_) | MemRef::Index)
}

/// Number of bytes from the start of its memory that an operand spans.
fn furthest(operand: &Operand) -> u64 {
    let layout = &operand.layout;
    if layout.sizes.contains(&0) {
        return 0;
    }
    let last: i64 = layout.sizes.iter().zip(&layout.strides).map(|(n, s)| (n - 1) * s).sum();
    (layout.offset + last + 1) as u64 * operand.dtype.size() as u64
}

/// Whether a slot of the argument block holds exactly the bytes of that type.
fn is_slot_type(dtype: DType) -> bool {
    matches!(dtype, DType::I64 | DType::F64)
}
