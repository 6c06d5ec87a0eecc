//! From a graph to plain data that says which kernels run in which order on which memory.
//!
//! **Invariant:** the output of this module is data: no pointers, no handles, no backend types. [`check`] proves every
//! plan without sharing code with the planners.

mod budget;
pub mod check;
mod cost;
mod decisions;
mod draft;
pub mod early;
pub mod final_use;
mod fuse;
mod gathered;
mod lanes;
mod memory;
mod layout_requirement;
mod order;
mod packing;
mod partial;
mod unplaced;
#[cfg(test)]
pub mod random;
#[cfg(test)]
pub mod tests;
mod text;
#[cfg(test)]
pub mod training;
mod remat;
mod rounding;
pub mod stored;
mod views;

use crate::buffer::size_class::block_bytes;
use crate::dtype::DType;
use crate::error::{Code, Error, Result, Site};
use crate::graph::{Graph, ValueId};
use crate::internal;
use crate::op::{Attrs, FLOPS_PER_BYTE, Op, Ty};
use crate::shape::{Dims, Layout};
pub use decisions::{Cost, PlanDecisions};
use lanes::Landings;
pub use lanes::LaneId;
pub use layout_requirement::accepts_half_input;
use order::Attempts;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
pub use unplaced::UnplacedPlan;

/// The properties of the backend that planning needs, as data in and numbers out.
pub trait Target {
    /// Bytes of scratch memory that a node kernel needs, given the types of its operands and results; or a reduction,
    /// given the type that it reduces (after its prologue).
    fn workspace(&self, op: Op, attrs: &Attrs, inputs: &[Ty], outputs: &[Ty]) -> u64;

    /// Whether it runs [`Kernel::Fused`] of `op`.
    fn has_epilogue(&self, _op: Op) -> bool {
        true
    }

    /// Whether it runs consecutive steps that compute alike as one, so that they should be adjacent.
    fn fuses_horizontally(&self) -> bool {
        false
    }

    /// Number of arithmetic operations of a product of halves, or of 8-bit floats, that take as long as moving a byte.
    fn half_flops_per_byte(&self) -> u64 {
        FLOPS_PER_BYTE
    }

    /// The number of kinds of collectives, the first ones of [`Kind`](crate::op::collective::Kind), that run on lanes of their own
    /// while it computes, in programs that have no others.
    fn kinds_on_lanes(&self) -> usize {
        0
    }

    /// How many times as long it takes to move a byte between the device's memory and the host's as within the device's, if
    /// these are two memories: then copies between them run on lanes, too.
    fn host_link_slowdown(&self) -> Option<u64> {
        None
    }
}

/// A memory reference: where the flat elements of an operand are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemRef {
    /// Memory of a program input. Never written.
    Input(u32),
    /// Memory of a program output; with a donor ([`Plan::donors`]) the same memory as that input. A scatter whose base
    /// and result are the same memory ([`Plan::is_in_place`]) only has to write the update.
    Output(u32),
    /// Byte offset in the arena.
    Arena(u64),
    /// Byte offset in the host's block, where offloaded values wait.
    Host(u64),
    /// Byte offset in the block of results ([`Plan::results`]), of a value needed there before the result is written.
    Results(u64),
    /// A slot (8 bytes) of the argument block: an i64, an f64 or a bool (as i64 0 or 1), as the graph's `scalar` says.
    Scalar(u32),
    /// No memory: the element at flat index `i` is the number `i` (dtype i64). So `iota` is a layout.
    Index,
}

/// A strided view of flat elements, as a kernel reads or writes it; no stride is negative. A `Scalar` operand is read as the
/// dtype given here from its 8-byte slot (f64 for floats, i64 for integers and bool).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    pub mem: MemRef,
    pub dtype: DType,
    pub layout: Layout,
}

/// Register of a [`LoopBody`]: first the reads, then one per instruction.
pub type Reg = u32;

/// One pointwise operation. One that draws random numbers takes a third operand here: the linear index (i64).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Instr {
    pub op: Op,
    pub attrs: Attrs,
    /// Dtype of the result. Half-precision intermediates are held in f32 and rounded only by `cast`, even to the dtype that
    /// the operand has already, and when written.
    pub dtype: DType,
    pub args: SmallVec<[Reg; 3]>,
}

/// The loop body of a fused pointwise region: for every point of `sizes`, registers are computed in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoopBody {
    /// Iteration space; every read's layout has these sizes.
    pub sizes: Dims,
    /// Dtypes of the reads.
    pub reads: Vec<DType>,
    /// Only pointwise ops, `const`, `const_int` and `random`.
    pub instrs: Vec<Instr>,
    /// The registers that are written, in the order of the step's writes (or, in a reduction, the one that is reduced).
    pub results: Vec<Reg>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kernel {
    /// writes[k] = register results[k]; writes' layouts have the body's sizes. A plain copy is a body without instructions.
    Map(LoopBody),
    /// writes[0] = `op` (a reduction over `axes`) of register results[0]; the write's layout lacks the axes.
    Reduce { body: LoopBody, op: Op, axes: Dims },
    /// A node whose result goes on through a loop body while it is at hand. The first reads are the node's operands, as
    /// for `Node`; register 0 of the body is the node's first result, in its dtype (read 0 of the body, not of
    /// the step), in the order of the body's sizes, the last of which are the result's last one or factors of it; then come
    /// the body's other reads. writes[k] = register results[k]; then come the node's other results. Only for nodes with
    /// [`layout_requirement::has_epilogue`] that cannot fail, nor can the body.
    Fused { op: Op, attrs: Attrs, body: LoopBody },
    /// One primitive, computed whole; reads and writes are the node's operands and results in order, writes dense.
    /// Reads are dense too (at any offset), except: both operands of a matmul or a scaled matmul, all of a concat and the update
    /// of an `as_strided_scatter` may have any strides (0 included); a module's operands may be `Scalar`, and its results may lie
    /// over operands that are as large; q, k, v, dout and out of attention and its gradient may have any strides with 1 in the
    /// last dimension. The operands named by [`accepts_half_input`] may lie in memory of a half type where
    /// the primitive has f32: the kernel reads them as a cast would. Seed and offset of attention may be `Scalar` operands.
    Node { op: Op, attrs: Attrs },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    pub kernel: Kernel,
    pub reads: Vec<Operand>,
    pub writes: Vec<Operand>,
    /// For every read, the graph's value whose dense flat elements the operand views. For readers and [`check`].
    pub reads_of: Vec<ValueId>,
    /// For every write, its value.
    pub results_of: Vec<ValueId>,
    /// Scratch memory in the arena: byte offset and size.
    pub workspace: Option<(u64, u64)>,
    /// For a collective that runs on the lane of its communicator, or a copy of all of a tensor to the host's memory or from it on
    /// that of its direction: it is started here, and done before this step of the plan begins (the number of steps: before the
    /// program ends). Until then nothing touches its results or writes to its operands, but others of the same lane may be
    /// started on its results: they run after it.
    pub done: Option<u32>,
    pub site: Site,
    /// The `graph::Node::record` of the node that gives the step its name.
    pub record: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub inputs: Vec<Ty>,
    pub outputs: Vec<Ty>,
    /// For every output, the input that donates its memory to it. Granted donations only: a subset of the offers.
    pub donors: Vec<Option<u32>>,
    /// Outputs that were offloaded: their memory is the host's.
    pub outputs_on_host: Vec<u32>,
    pub scalars: Vec<DType>,
    pub arena_bytes: u64,
    /// Size of the host's block.
    pub host_bytes: u64,
    /// Outputs that may lie in one block, and the byte at which each begins: values needed before the output is written may lie
    /// there, too. The memory of these outputs may as well be apart from the block.
    pub results: Vec<(u32, u64)>,
    /// Size of that block.
    pub results_bytes: u64,
    /// Largest sum of live arena bytes at any step, less those that fit into the block of results: no placement can beat it.
    pub lower_bound: u64,
}

/// How a plan is made.
#[derive(Clone, Copy)]
pub enum PlanMode<'a> {
    /// Searches for results to rematerialize in order to need less memory.
    Search,
    /// As `Search`; if that plan's [`Plan::memory`] exceeds the limit, as much is recomputed, or waits on the host, as it takes to
    /// stay within it. If nothing suffices, it is the plan that takes the least.
    Within(Limit),
    /// No search: all results are kept until they were read for the last time.
    Quick,
    /// By the decisions for the same program with other sizes: this one's memory and time decide nothing any more.
    Guided(&'a PlanDecisions),
}

/// The memory that a program may take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// At most [`Plan::memory`].
    pub bytes: u64,
    /// Of the host's memory, for values that the plan lets wait there ([`Target::host_link_slowdown`]).
    pub on_host: u64,
}

impl Limit {
    /// A limit of so many bytes, and none on the host.
    #[cfg(test)]
    pub fn of(bytes: u64) -> Limit {
        Limit { bytes, on_host: u64::MAX }
    }
}

/// Alignment of everything placed in the arena, the host's block and that of results, in bytes.
pub const ALIGN: u64 = 64;

/// Number of times that an order for lanes is sought, with ever less memory, because offsets in the arena took more than the live
/// bytes.
const CORRECTIONS: u64 = 4;

/// Plans `graph`. `inputs` and `scalars` are the types of the leaves by index; `donors[k]` offers the memory of an input
/// to output `k` (the caller promises that nobody else reads that input after the program). Every output has memory
/// of its own, perhaps a part of one block. Errors: `OutOfMemory` for values beyond any memory; else only for
/// arguments that do not belong to the graph.
pub fn plan(
    graph: &Graph,
    inputs: &[Ty],
    scalars: &[DType],
    donors: &[Option<u32>],
    target: &dyn Target,
) -> Result<Plan> {
    let plan = plan_unplaced(graph, inputs, scalars, donors, target, PlanMode::Search)?.0.placed();
    if cfg!(debug_assertions) {
        check::check(graph, &plan)?;
    }
    Ok(plan)
}

/// [`plan`] without the offsets in the arena. Errors also if decisions are not of this program.
pub fn plan_unplaced(
    graph: &Graph,
    inputs: &[Ty],
    scalars: &[DType],
    donors: &[Option<u32>],
    target: &dyn Target,
    mode: PlanMode,
) -> Result<(UnplacedPlan, PlanDecisions)> {
    validate(graph, inputs, scalars, donors)?;
    let absorbed = match mode {
        PlanMode::Guided(decisions) => Some(&decisions.absorbed[..]),
        PlanMode::Search | PlanMode::Within(_) | PlanMode::Quick => None,
    };
    let (mut fused, absorbed) = fuse::fuse(graph, donors, absorbed, &|op| target.has_epilogue(op));
    for region in &mut fused.regions {
        region.workspace = workspace(graph, region, target);
    }
    fused.half_flops_per_byte = target.half_flops_per_byte();
    fused.host_link_slowdown = target.host_link_slowdown();
    let unplaced = |fused: &draft::Fused, order: &[usize], landings: Option<&Landings>| {
        let order = (order, landings);
        let plan = memory::unplaced(graph, fused, order, inputs, scalars, donors);
        UnplacedPlan::new(plan, &graph.guards)
    };
    let excess = |fused: &draft::Fused, order: &[usize], landings: Option<&Landings>, limit| {
        if limit == u64::MAX { 0 } else { unplaced(fused, order, landings).excess(limit) }
    };
    // Within a limit, with as much memory beyond the peak as there is room for.
    let scheduled = |fused: &draft::Fused, order: &[usize], limit: u64, attempts: Attempts| {
        let kinds = fused.regions.iter().filter_map(|region| region.kernel.collective());
        let last = kinds.map(|kind| kind as usize + 1).max();
        if last.unwrap_or(0) > target.kinds_on_lanes() || !lanes::has_some(graph, fused) {
            return None;
        }
        let (mut beyond, mut step) = (u64::MAX, None);
        loop {
            let found = order::scheduled(graph, fused, donors, order.to_vec(), beyond, attempts);
            if excess(fused, &found.order, Some(&found.landings), limit) == 0 {
                return Some(found);
            }
            if found.beyond == 0 {
                return None;
            }
            let step = *step.get_or_insert(found.beyond.div_ceil(CORRECTIONS));
            beyond = found.beyond.saturating_sub(step);
        }
    };
    let (fused, mut decisions) = match mode {
        PlanMode::Search => remat::remat(graph, (fused, absorbed), donors),
        PlanMode::Within(limit) => {
            let planner = budget::Planner { unplaced: &unplaced, scheduled: &scheduled };
            budget::within(graph, (fused, absorbed), donors, &planner, limit)
        }
        PlanMode::Quick => remat::keep(graph, (fused, absorbed), donors),
        PlanMode::Guided(decisions) => match decisions.applied(graph, fused) {
            Some(fused) => (fused, decisions.clone()),
            None => return internal!("a plan is guided by that of another program"),
        },
    };
    let limit = match mode {
        PlanMode::Within(limit) => limit.bytes,
        PlanMode::Search | PlanMode::Quick | PlanMode::Guided(_) => u64::MAX,
    };
    if !matches!(mode, PlanMode::Guided(_)) {
        if !matches!(mode, PlanMode::Within(_)) {
            let found = scheduled(&fused, &decisions.order, u64::MAX, Attempts::All);
            decisions = decisions.scheduled(found);
        }
        if target.fuses_horizontally() {
            let landings = decisions.landings.as_ref();
            let gathered = order::gathered(graph, &fused, donors, &decisions.order, landings);
            if excess(&fused, &gathered, landings, limit) == 0 {
                decisions.order = gathered;
            }
        }
    }
    Ok((unplaced(&fused, &decisions.order, decisions.landings.as_ref()), decisions))
}

/// Values of this many bytes fit into no machine's memory. With fewer, offsets and sums of sizes do not overflow.
const TOO_LARGE: u128 = 1 << 48;

fn validate(graph: &Graph, inputs: &[Ty], scalars: &[DType], donors: &[Option<u32>]) -> Result<()> {
    if donors.len() != graph.outputs.len() {
        return internal!("{} donors for {} outputs", donors.len(), graph.outputs.len());
    }
    for value in &graph.values {
        if value.ty.numel() as u128 * value.ty.dtype.size() as u128 >= TOO_LARGE {
            let message = format!("{} takes more memory than a machine can have", value.ty);
            return Err(Error::new(Code::OutOfMemory, message).at(graph.node(value.node).site));
        }
    }
    for node in &graph.nodes {
        let declared = || graph.ty(node.first);
        let prescribed = match node.op {
            Op::Input => inputs.get(node.attrs[0].int() as usize) == Some(declared()),
            Op::Scalar => scalars.get(node.attrs[0].int() as usize) == Some(&declared().dtype),
            _ => continue,
        };
        if !prescribed {
            return internal!("{} {} is not {}", node.op.name(), node.attrs[0].int(), declared());
        }
    }
    Ok(())
}

fn workspace(graph: &Graph, region: &draft::Region, target: &dyn Target) -> u64 {
    let node = graph.node(region.anchor);
    let types =
        |values: &[ValueId]| values.iter().map(|&v| graph.ty(v).clone()).collect::<Vec<_>>();
    let outputs: Vec<ValueId> = node.outputs().collect();
    match &region.kernel {
        Kernel::Map(_) => 0,
        _ => target.workspace(node.op, &node.attrs, &types(&node.inputs), &types(&outputs)),
    }
}

impl Kernel {
    /// The loop body of a kernel that has one.
    pub fn body(&self) -> Option<&LoopBody> {
        match self {
            Kernel::Map(body) | Kernel::Reduce { body, .. } | Kernel::Fused { body, .. } => {
                Some(body)
            }
            Kernel::Node { .. } => None,
        }
    }

    /// Number of the `reads` of a step that are operands of a node.
    pub fn operands(&self, reads: usize) -> usize {
        match self {
            Kernel::Map(_) | Kernel::Reduce { .. } => 0,
            Kernel::Fused { body, .. } => (reads + 1).saturating_sub(body.reads.len()),
            Kernel::Node { .. } => reads,
        }
    }
}

impl Plan {
    /// A plan of one step, which copies elements that lie in an input as in `from` to an output, as in `to`.
    pub fn of_copy(dtype: DType, from: Layout, to: Layout) -> Plan {
        let flat = |layout: &Layout| vec![Ty::new(dtype, &[layout.end()])];
        let operand = |mem, layout| vec![Operand { mem, dtype, layout }];
        let (inputs, outputs, sizes) = (flat(&from), flat(&to), from.sizes.clone());
        let copy = LoopBody { sizes, reads: vec![dtype], instrs: Vec::new(), results: vec![0] };
        let step = Step {
            kernel: Kernel::Map(copy),
            reads: operand(MemRef::Input(0), from),
            writes: operand(MemRef::Output(0), to),
            reads_of: vec![ValueId(0)],
            results_of: vec![ValueId(1)],
            workspace: None,
            done: None,
            site: Site::default(),
            record: 0,
        };
        Plan { steps: vec![step], inputs, outputs, donors: vec![None], ..Plan::default() }
    }

    /// Bytes that it takes besides its inputs, as blocks of a pool: the arena, and results that reuse no memory of inputs.
    pub fn memory(&self) -> u64 {
        block_bytes(self.arena_bytes) + self.memory_of_results()
    }

    /// The part of [`Plan::memory`] that is not the arena.
    pub fn memory_of_results(&self) -> u64 {
        let is_apart = |k: &usize| self.is_fresh(*k) && self.place_of_result(*k as u32).is_none();
        let apart = (0..self.outputs.len()).filter(is_apart);
        let apart: u64 = apart.map(|k| block_bytes(self.outputs[k].nbytes() as u64)).sum();
        apart + block_bytes(self.results_bytes)
    }

    /// Bytes of blocks for the results in the block of results, where each has one of its own.
    pub fn memory_apart(&self) -> u64 {
        let nbytes = |(k, _): &(u32, u64)| self.outputs[*k as usize].nbytes() as u64;
        self.results.iter().map(|result| block_bytes(nbytes(result))).sum()
    }

    /// Whether a result reuses no memory of inputs, and is not on the host.
    fn is_fresh(&self, k: usize) -> bool {
        self.donors[k].is_none() && !self.is_on_host(k)
    }

    /// Bytes of results that reuse no memory of inputs, without those on the host.
    pub fn fresh_bytes(&self) -> u64 {
        let fresh = (0..self.outputs.len()).filter(|&k| self.is_fresh(k));
        fresh.map(|k| self.outputs[k].nbytes() as u64).sum()
    }

    /// Bytes of the host's memory that it takes: offloaded values that wait between steps or for other programs.
    pub fn offloaded_bytes(&self) -> u64 {
        let nbytes = |k: &u32| self.outputs[*k as usize].nbytes() as u64;
        self.host_bytes + self.outputs_on_host.iter().map(nbytes).sum::<u64>()
    }

    /// The byte at which an output lies in the block of results.
    pub fn place_of_result(&self, output: u32) -> Option<u64> {
        self.results.iter().find(|(k, _)| *k == output).map(|(_, start)| *start)
    }

    /// Whether the memory of an output is the host's.
    pub fn is_on_host(&self, output: usize) -> bool {
        self.outputs_on_host.contains(&(output as u32))
    }

    /// Whether two references start at the same memory.
    pub fn is_same_memory(&self, a: MemRef, b: MemRef) -> bool {
        let owner = |mem: MemRef| match mem {
            MemRef::Output(k) => self.donors[k as usize].map_or(mem, MemRef::Input),
            _ => mem,
        };
        owner(a) == owner(b)
    }

    /// Whether a step writes its first result over its first operand.
    pub fn is_in_place(&self, step: &Step) -> bool {
        match (step.reads.first(), step.writes.first()) {
            (Some(read), Some(write)) => self.is_same_memory(read.mem, write.mem),
            _ => false,
        }
    }
}
