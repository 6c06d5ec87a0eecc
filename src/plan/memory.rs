//! The place of everything in memory: lifetimes, sharing, offsets in the arena.
//!
//! **Invariant:** the memory of an input that is donated to an output is written by the step that makes that output, if it is
//! another value, and by nothing else, so if that step does not run the old bytes are intact.

use super::draft::{BufferId, Fused, Region, RegionId, Source};
use super::lanes::Landings;
use super::packing::{Block, Packed, ResultsLayout, lower_bound, pack};
use super::views::is_on_host;
use super::{ALIGN, Kernel, MemRef, Operand, Plan, Step, lanes};
use crate::buffer::size_class::largest_within;
use crate::dtype::DType;
use crate::graph::{Graph, ValueId};
use crate::op::{Op, Ty};

/// Puts the regions in the given order, with steps on lanes if there are landings; blocks of the arena get
/// numbers, not offsets. `donors` are the offers; the plan holds those that were granted.
pub(super) fn unplaced(
    graph: &Graph,
    fused: &Fused,
    (order, landings): (&[RegionId], Option<&Landings>),
    inputs: &[Ty],
    scalars: &[DType],
    donors: &[Option<u32>],
) -> Plan {
    let steps: Vec<&Region> = order.iter().map(|&r| &fused.regions[r]).collect();
    let done = match landings {
        Some(landings) => lanes::done(graph, fused, (order, &steps), donors, landings),
        None => vec![None; steps.len()],
    };
    let last = last_touches(&done);
    let (block_of, blocks) = blocks(graph, fused, &steps, &last);
    let place_of = |b: BufferId| match fused.buffers[b].output {
        Some(k) => MemRef::Output(k),
        None if fused.buffers[b].on_host => MemRef::Host(block_of[b]),
        None => MemRef::Arena(block_of[b]),
    };
    let mut scratch = blocks..;
    let step = |(region, done): (&&Region, &Option<usize>)| {
        let workspace = if region.workspace > 0 { scratch.next() } else { None };
        let done = done.map(|done| done as u32);
        Step { done, ..step(graph, fused, region, workspace, place_of) }
    };
    let outputs_on_host = outputs_on_host(graph);
    Plan {
        steps: steps.iter().zip(&done).map(step).collect(),
        inputs: inputs.to_vec(),
        outputs: graph.outputs.iter().map(|&v| graph.ty(v).clone()).collect(),
        donors: grant(graph, fused, (&steps, &last), inputs, donors, &outputs_on_host),
        outputs_on_host,
        scalars: scalars.to_vec(),
        arena_bytes: 0,
        host_bytes: 0,
        results: Vec::new(),
        results_bytes: 0,
        lower_bound: 0,
    }
}

/// Alignment of results in their block, in bytes: that of device memory.
const RESULT_ALIGN: u64 = 512;
/// A result is put into the block only if it has at least one byte in this many of those that pay for a block.
const SMALL_RESULT: u64 = 16;
/// The fraction of the results' bytes by which the arena has to become smaller (numerator, denominator): if the results lie
/// elsewhere after all, the rest is taken for nothing.
const SAVED: (u64, u64) = (3, 4);

/// Gives the blocks of an unplaced plan their offsets. Results lie in one block if they have `least` bytes and the arena becomes
/// smaller by most of them: in a training step, gradients are written where activations were. Any arena will do with which the plan
/// takes no more than `limit`: with a lower one, it takes no more either.
pub(super) fn settle(plan: &mut Plan, least: u64, limit: u64) {
    let Blocks { arena, host } = liveness(plan);
    let steps = plan.steps.len();
    let packed = |taken: ResultsLayout, room: u64| {
        let bound = lower_bound(&arena, &taken, steps);
        (pack(&arena, &taken, bound, room), bound)
    };
    let room = |plan: &Plan| largest_within(limit.saturating_sub(plan.memory_of_results()));
    let (mut arena_packed, mut bound) = packed(ResultsLayout::default(), room(plan));
    let (results, taken) = results(plan, least);
    let results_bytes = taken.bytes;
    let enough = results_bytes / SAVED.1 * SAVED.0;
    let fits = arena_packed.bytes <= room(plan);
    if !fits && results_bytes > 0 && results_bytes >= least && arena_packed.bytes >= enough {
        (plan.results, plan.results_bytes) = (results, results_bytes);
        let shared = packed(taken, room(plan).min(arena_packed.bytes - enough));
        if arena_packed.bytes.saturating_sub(shared.0.bytes) >= enough {
            (arena_packed, bound) = shared;
        } else {
            (plan.results, plan.results_bytes) = (Vec::new(), 0);
        }
    }
    plan.lower_bound = bound;
    let none = ResultsLayout::default();
    let host_packed = pack(&host, &none, lower_bound(&host, &none, steps), 0);
    let results_bytes = plan.results_bytes;
    let place = |packed: &Packed, block: u64| packed.offsets[block as usize];
    for step in &mut plan.steps {
        for operand in step.reads.iter_mut().chain(&mut step.writes) {
            match operand.mem {
                MemRef::Arena(block) => {
                    let offset = place(&arena_packed, block);
                    operand.mem = match offset.checked_sub(results_bytes) {
                        Some(offset) => MemRef::Arena(offset),
                        None => MemRef::Results(offset),
                    };
                }
                MemRef::Host(block) => operand.mem = MemRef::Host(place(&host_packed, block)),
                _ => {}
            }
        }
        if let Some((block, _)) = &mut step.workspace {
            *block = place(&arena_packed, *block) - results_bytes;
        }
    }
    (plan.arena_bytes, plan.host_bytes) = (arena_packed.bytes, host_packed.bytes);
}

/// The results that reuse no memory of inputs, except for small ones, and their places in a block, which is written from its end
/// on: so the part that is free before is in one piece, and where blocks lie that live long, which are placed first, it is free
/// for longest.
fn results(plan: &Plan, least: u64) -> (Vec<(u32, u64)>, ResultsLayout) {
    let mut written: Vec<(usize, u32)> = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        written.extend(step.writes.iter().filter_map(|write| match write.mem {
            MemRef::Output(k) => Some((at, k)),
            _ => None,
        }));
    }
    // New results of a step that also updates in place are an optimizer's first state, which is kept for longer than others,
    // unless it updates more than it makes.
    let makes_state = |step: &Step| {
        let outputs = step.writes.iter().filter_map(|write| match write.mem {
            MemRef::Output(k) => Some(plan.donors[k as usize].is_some()),
            _ => None,
        });
        let (updated, made): (Vec<bool>, Vec<bool>) = outputs.partition(|is_update| *is_update);
        !updated.is_empty() && updated.len() <= made.len()
    };
    written.retain(|&(at, _)| !makes_state(&plan.steps[at]));
    let nbytes = |k: u32| plan.outputs[k as usize].nbytes() as u64;
    written.retain(|&(_, k)| {
        let is_fresh = plan.donors[k as usize].is_none() && !plan.is_on_host(k as usize);
        is_fresh && nbytes(k) > 0 && nbytes(k) >= least / SMALL_RESULT
    });
    let (mut results, mut taken) = (Vec::new(), ResultsLayout::default());
    for (first, k) in written.into_iter().rev() {
        results.push((k, taken.bytes));
        let last = plan.steps.len() - 1;
        // Up to the next one, so that all of the block belongs to some result.
        let bytes = nbytes(k).next_multiple_of(RESULT_ALIGN);
        taken.blocks.push((taken.bytes, Block { bytes, first, last, roams: false }));
        taken.bytes += bytes;
    }
    (results, taken)
}

/// The blocks, by their numbers.
#[derive(Default)]
struct Blocks {
    arena: Vec<Block>,
    host: Vec<Block>,
}

/// Sizes and lifetimes of the blocks of an unplaced plan.
fn liveness(plan: &Plan) -> Blocks {
    let mut all = Blocks::default();
    let mut touch = |mem: MemRef, at: usize, bytes: u64| {
        let (blocks, block) = match mem {
            MemRef::Arena(block) => (&mut all.arena, block),
            MemRef::Host(block) => (&mut all.host, block),
            _ => return,
        };
        let index = block as usize;
        if index >= blocks.len() {
            blocks.resize(index + 1, Block { bytes: 0, first: usize::MAX, last: 0, roams: true });
        }
        let known = &mut blocks[index];
        known.bytes = known.bytes.max(bytes.next_multiple_of(ALIGN));
        (known.first, known.last) = (known.first.min(at), known.last.max(at));
    };
    let done: Vec<_> = plan.steps.iter().map(|step| step.done.map(|done| done as usize)).collect();
    for ((at, step), last) in plan.steps.iter().enumerate().zip(last_touches(&done)) {
        for read in &step.reads {
            touch(read.mem, at, 0);
            touch(read.mem, last, 0);
        }
        for write in &step.writes {
            touch(write.mem, at, (write.layout.numel() as usize * write.dtype.size()) as u64);
            touch(write.mem, last, 0);
        }
        if let Some((block, bytes)) = step.workspace {
            touch(MemRef::Arena(block), at, bytes);
        }
    }
    // Scratch memory is in the arena itself.
    for (block, _) in plan.steps.iter().filter_map(|step| step.workspace) {
        all.arena[block as usize].roams = false;
    }
    all
}

fn step(
    graph: &Graph,
    fused: &Fused,
    region: &Region,
    workspace: Option<u64>,
    place_of: impl Fn(BufferId) -> MemRef,
) -> Step {
    let node = graph.node(region.anchor);
    let read = |r: &super::draft::Read| Operand {
        mem: match r.source {
            Source::Input(i) => MemRef::Input(i),
            Source::Buffer(b) => place_of(b),
            Source::Scalar(slot) => MemRef::Scalar(slot),
            Source::Index => MemRef::Index,
        },
        dtype: r.dtype,
        layout: r.layout.clone(),
    };
    let write = |(k, &b): (usize, &BufferId)| {
        let ty = fused.ty(graph, b);
        Operand { mem: place_of(b), dtype: ty.dtype, layout: region.written(k, ty) }
    };
    Step {
        kernel: region.kernel.clone(),
        reads: region.reads.iter().map(read).collect(),
        writes: region.writes.iter().enumerate().map(write).collect(),
        reads_of: region.reads.iter().map(|r| r.value).collect(),
        results_of: region.writes.iter().map(|&b| fused.buffers[b].value).collect(),
        workspace: workspace.map(|block| (block, region.workspace)),
        done: None,
        site: node.site,
        record: node.record,
    }
}

/// The last step during which each step may touch its operands and results.
fn last_touches(done: &[Option<usize>]) -> Vec<usize> {
    done.iter().enumerate().map(|(at, done)| done.map_or(at, |done| done - 1)).collect()
}

/// The step that reads each buffer last; none if another one may go on doing so.
fn last_reads(fused: &Fused, steps: &[&Region], last_touches: &[usize]) -> Vec<Option<usize>> {
    let mut last = vec![None; fused.buffers.len()];
    // The last step during which others on lanes read it.
    let mut until = vec![None; fused.buffers.len()];
    for ((at, region), &last_touch) in steps.iter().enumerate().zip(last_touches) {
        for read in &region.reads {
            if let Source::Buffer(b) = read.source {
                until[b] = until[b].max(Some(last_touch).filter(|&touch| touch > at));
                last[b] = Some(at);
            }
        }
    }
    let alone = |(last, until): (Option<usize>, _)| last.filter(|_| until < last);
    last.into_iter().zip(until).map(alone).collect()
}

/// The block of each buffer in the arena or on the host, and the number of those in the arena; a result that may overwrite
/// an operand which dies there shares its block.
fn blocks(
    graph: &Graph,
    fused: &Fused,
    steps: &[&Region],
    last_touches: &[usize],
) -> (Vec<u64>, u64) {
    let last_reads = last_reads(fused, steps, last_touches);
    let mut block_of = vec![u64::MAX; fused.buffers.len()];
    let (mut blocks, mut on_host) = (0.., 0..);
    for (at, region) in steps.iter().enumerate() {
        let mut taken: Vec<BufferId> = Vec::new();
        for (k, &write) in region.writes.iter().enumerate() {
            if fused.buffers[write].output.is_some() {
                continue;
            }
            if fused.buffers[write].on_host {
                block_of[write] = on_host.next().unwrap_or(u64::MAX);
                continue;
            }
            let result = fused.ty(graph, write);
            let dying = region.reads.iter().find_map(|r| match r.source {
                Source::Buffer(b)
                    if last_reads[b] == Some(at)
                        && fused.is_in_arena(b)
                        && !taken.contains(&b)
                        && region.may_overwrite(
                            k,
                            |r| r.source == Source::Buffer(b),
                            fused.ty(graph, b),
                            result,
                        ) =>
                {
                    Some(b)
                }
                _ => None,
            });
            block_of[write] = match dying {
                Some(b) => {
                    taken.push(b);
                    block_of[b]
                }
                None => blocks.next().unwrap_or(u64::MAX),
            };
        }
    }
    (block_of, blocks.start)
}

/// For every output, whether the memory donated to it holds its value from the start. No input donates twice.
pub(super) fn unchanged(graph: &Graph, donors: &[Option<u32>]) -> Vec<bool> {
    let mut taken = Vec::new();
    let is_unchanged = |(&output, donor): (&ValueId, &Option<u32>)| {
        let maker = graph.maker(output);
        let Some(donor) = *donor else { return false };
        let its_own = maker.op == Op::Input && donor as i64 == maker.attrs[0].int();
        let free = its_own && !taken.contains(&donor);
        taken.extend(free.then_some(donor));
        free
    };
    graph.outputs.iter().zip(donors).map(is_unchanged).collect()
}

/// The outputs whose memory is the host's.
fn outputs_on_host(graph: &Graph) -> Vec<u32> {
    let on_host = |&k: &u32| is_on_host(graph, graph.outputs[k as usize]);
    (0..graph.outputs.len() as u32).filter(on_host).collect()
}

/// The offered input that is donated to each output, if any.
fn grant(
    graph: &Graph,
    fused: &Fused,
    (steps, last_touches): (&[&Region], &[usize]),
    inputs: &[Ty],
    donors: &[Option<u32>],
    outputs_on_host: &[u32],
) -> Vec<Option<u32>> {
    let mut last_read = vec![None; inputs.len()];
    let mut written = vec![None; donors.len()];
    for (at, region) in steps.iter().enumerate() {
        for read in &region.reads {
            if let Source::Input(i) = read.source {
                last_read[i as usize] = last_read[i as usize].max(Some(last_touches[at]));
            }
        }
        for (n, &b) in region.writes.iter().enumerate() {
            if let Some(k) = fused.buffers[b].output {
                written[k as usize] = Some((at, n));
            }
        }
    }
    let unchanged = unchanged(graph, donors);
    let mut prescribed = vec![false; inputs.len()];
    let kept = donors.iter().zip(&unchanged).filter_map(|(donor, &kept)| donor.filter(|_| kept));
    kept.for_each(|donor| prescribed[donor as usize] = true);
    let mut decide = |k: usize| {
        let donor = donors[k]?;
        if unchanged[k] {
            return Some(donor);
        }
        let (at, n) = written[k]?;
        let (ty, region) = (inputs.get(donor as usize)?, steps[at]);
        let result = fused.ty(graph, region.writes[n]);
        let host = matches!(region.kernel, Kernel::Node { op: Op::Host, .. })
            || outputs_on_host.contains(&(k as u32));
        let free = match last_read[donor as usize] {
            Some(read) if read == at => {
                region.may_overwrite(n, |r| r.source == Source::Input(donor), ty, result)
            }
            last => last < Some(at),
        };
        let fits = ty.nbytes() == result.nbytes() && !host && !prescribed[donor as usize];
        (free && fits).then(|| {
            prescribed[donor as usize] = true;
            donor
        })
    };
    (0..donors.len()).map(&mut decide).collect()
}
