//! From a graph to plain data that says which kernels run in which order on which memory.
//!
//! **Invariant:** the output of this room is data: no pointers, no handles, no backend types. [`check`] proves every
//! plan without sharing code with the planners.

pub mod check;
mod cost;
mod draft;
mod fuse;
mod memory;
mod need;
mod order;
mod outline;
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

use crate::dtype::DType;
use crate::error::{Result, Site};
use crate::graph::{Graph, ValueId};
use crate::internal;
use crate::op::{Attrs, Op, Ty};
use crate::shape::{Dims, Layout};
pub use need::widens;
pub use outline::Outline;
pub use remat::Guide;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// What planning must know of the backend, as data in and numbers out.
pub trait Target {
    /// Bytes of scratch memory that a node kernel wants, given the types of its operands and results; or a reduction,
    /// given the type of what is reduced (after its prologue).
    fn workspace(&self, op: Op, attrs: &Attrs, inputs: &[Ty], outputs: &[Ty]) -> u64;

    /// Whether it runs [`Kernel::Fused`] of `op`.
    fn has_epilogue(&self, _op: Op) -> bool {
        true
    }

    /// Whether it runs consecutive steps that compute alike as one, so that they should come side by side.
    fn gathers(&self) -> bool {
        false
    }
}

/// Where the flat elements of an operand are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Place {
    /// Memory of a program input. Never written.
    Input(u32),
    /// Memory of a program output; with a donor ([`Plan::donors`]) the same memory as that input. A scatter whose base
    /// and result are the same memory ([`Plan::is_in_place`]) only has to write the update.
    Output(u32),
    /// Byte offset in the arena.
    Arena(u64),
    /// A slot (8 bytes) of the argument block: an i64, an f64 or a bool (as i64 0 or 1), as the graph's `scalar` says.
    Scalar(u32),
    /// No memory: the element at flat index `i` is the number `i` (dtype i64). So `iota` is a layout.
    Index,
}

/// A strided view of flat elements, as a kernel reads or writes it; no stride is negative. A `Scalar` place is read as the dtype given here
/// from its 8-byte slot (f64 for floats, i64 for integers and bool).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    pub place: Place,
    pub dtype: DType,
    pub layout: Layout,
}

/// Register of a [`Program`]: first the reads, then one per instruction.
pub type Reg = u32;

/// One pointwise operation. `Random` takes a third operand here: the linear index (i64).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Instr {
    pub op: Op,
    pub attrs: Attrs,
    /// Of the result. Half-precision intermediates are held in f32 and rounded only by `cast`, also to the dtype that the
    /// operand has already, and when written.
    pub dtype: DType,
    pub args: SmallVec<[Reg; 3]>,
}

/// A fused pointwise region: for every point of `sizes`, registers are computed in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Program {
    /// Iteration space; every read's layout has these sizes.
    pub sizes: Dims,
    /// Dtypes of the reads.
    pub reads: Vec<DType>,
    /// Only pointwise ops, `const`, `const_int` and `random`.
    pub instrs: Vec<Instr>,
    /// What is written, in the order of the step's writes (or, in a reduction, the one register that is reduced).
    pub results: Vec<Reg>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kernel {
    /// writes[k] = register results[k]; writes' layouts have the program's sizes. A plain copy is a program without instructions.
    Map(Program),
    /// writes[0] = `op` (a reduction over `axes`) of register results[0]; the write's layout lacks the axes.
    Reduce { program: Program, op: Op, axes: Dims },
    /// What a node computes goes on through a program while it is at hand. The first reads are the node's operands, as
    /// for `Node`; register 0 of the program is the node's first result, as its dtype (read 0 of the program, not of
    /// the step), in the order of the program's sizes, the last of which are its last one or factors of it; then come the program's other reads. writes[k] = register
    /// results[k]; then come the node's other results. Only nodes for which [`need::has_epilogue`] and that cannot fail,
    /// nor can the program.
    Fused { op: Op, attrs: Attrs, program: Program },
    /// One primitive, computed whole; reads and writes are the node's operands and results in order, writes dense.
    /// Reads are dense too (at any offset), except: both operands of a matmul or a scaled matmul, all of a concat and the update of an
    /// `as_strided_scatter` may have any strides (0 included); q, k, v, dout and out of attention and its gradient any
    /// with stride 1 in the last dimension. What [`widens`] names may lie in memory of a half type where the primitive has
    /// f32: it is what a cast would make of that. Seed and offset of attention may be `Scalar` places.
    Node { op: Op, attrs: Attrs },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    pub kernel: Kernel,
    pub reads: Vec<Operand>,
    pub writes: Vec<Operand>,
    /// For every read, the graph's value whose dense flat elements the operand is a view of. For people and [`check`].
    pub reads_of: Vec<ValueId>,
    /// For every write, the value it is.
    pub results_of: Vec<ValueId>,
    /// Scratch memory in the arena: byte offset and size.
    pub workspace: Option<(u64, u64)>,
    pub site: Site,
    /// As `graph::Node::record`, of the node that gives the step its name.
    pub record: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub inputs: Vec<Ty>,
    pub outputs: Vec<Ty>,
    /// For every output, the input whose memory it takes over. Granted donations only: subset of what was offered.
    pub donors: Vec<Option<u32>>,
    pub scalars: Vec<DType>,
    pub arena_bytes: u64,
    /// Largest sum of live arena bytes at any step: what no placement can beat.
    pub lower_bound: u64,
}

/// How a plan is looked for.
#[derive(Clone, Copy)]
pub enum Effort<'a> {
    /// What to compute again, to need less memory, is searched for.
    Search,
    /// It is not: all results are kept until they were read for the last time.
    Quick,
    /// By the decisions of the same program for other sizes: this one's memory and time decide nothing any more.
    Guided(&'a Guide),
}

/// Alignment of everything placed in the arena, in bytes.
pub const ALIGN: u64 = 64;

/// Plans `graph`. `inputs` and `scalars` are the types of the leaves by index; `donors[k]` offers the memory of an input
/// to output `k` (the caller promises that nobody else reads that input after the program). Every output has memory
/// of its own. Errors: only for arguments that do not belong to the graph.
pub fn plan(
    graph: &Graph,
    inputs: &[Ty],
    scalars: &[DType],
    donors: &[Option<u32>],
    target: &dyn Target,
) -> Result<Plan> {
    let plan = outline(graph, inputs, scalars, donors, target, Effort::Search)?.0.settled();
    if cfg!(debug_assertions) {
        check::check(graph, &plan)?;
    }
    Ok(plan)
}

/// As [`plan`], but for the offsets in the arena. Errors also when a guide is not of this program.
pub fn outline(
    graph: &Graph,
    inputs: &[Ty],
    scalars: &[DType],
    donors: &[Option<u32>],
    target: &dyn Target,
    effort: Effort,
) -> Result<(Outline, Guide)> {
    validate(graph, inputs, scalars, donors)?;
    let absorbed = match effort {
        Effort::Guided(guide) => Some(&guide.absorbed[..]),
        Effort::Search | Effort::Quick => None,
    };
    let (mut fused, absorbed) = fuse::fuse(graph, donors, absorbed, &|op| target.has_epilogue(op));
    for region in &mut fused.regions {
        region.workspace = workspace(graph, region, target);
    }
    let (fused, mut guide) = match effort {
        Effort::Search => remat::remat(graph, (fused, absorbed), donors),
        Effort::Quick => remat::keep(graph, (fused, absorbed), donors),
        Effort::Guided(guide) => match guide.applied(fused) {
            Some(fused) => (fused, guide.clone()),
            None => return internal!("a plan is guided by that of another program"),
        },
    };
    if target.gathers() && !matches!(effort, Effort::Guided(_)) {
        guide.order = order::gathered(graph, &fused, donors, guide.order);
    }
    let plan = memory::outline(graph, &fused, &guide.order, inputs, scalars, donors);
    Ok((Outline::new(plan), guide))
}

fn validate(graph: &Graph, inputs: &[Ty], scalars: &[DType], donors: &[Option<u32>]) -> Result<()> {
    if donors.len() != graph.outputs.len() {
        return internal!("{} donors for {} outputs", donors.len(), graph.outputs.len());
    }
    for node in &graph.nodes {
        let declared = || graph.ty(node.first);
        let given = match node.op {
            Op::Input => inputs.get(node.attrs[0].int() as usize) == Some(declared()),
            Op::Scalar => scalars.get(node.attrs[0].int() as usize) == Some(&declared().dtype),
            _ => continue,
        };
        if !given {
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
    /// The program of a kernel that has one.
    pub fn program(&self) -> Option<&Program> {
        match self {
            Kernel::Map(program)
            | Kernel::Reduce { program, .. }
            | Kernel::Fused { program, .. } => Some(program),
            Kernel::Node { .. } => None,
        }
    }

    /// How many of the `reads` of a step are operands of a node.
    pub fn operands(&self, reads: usize) -> usize {
        match self {
            Kernel::Map(_) | Kernel::Reduce { .. } => 0,
            Kernel::Fused { program, .. } => (reads + 1).saturating_sub(program.reads.len()),
            Kernel::Node { .. } => reads,
        }
    }
}

impl Plan {
    /// One step: the elements that lie in an input as `from` says come to lie in an output as `to` says.
    pub fn of_copy(dtype: DType, from: Layout, to: Layout) -> Plan {
        let flat = |layout: &Layout| vec![Ty::new(dtype, &[layout.end()])];
        let operand = |place, layout| vec![Operand { place, dtype, layout }];
        let (inputs, outputs, sizes) = (flat(&from), flat(&to), from.sizes.clone());
        let copy = Program { sizes, reads: vec![dtype], instrs: Vec::new(), results: vec![0] };
        let step = Step {
            kernel: Kernel::Map(copy),
            reads: operand(Place::Input(0), from),
            writes: operand(Place::Output(0), to),
            reads_of: vec![ValueId(0)],
            results_of: vec![ValueId(1)],
            workspace: None,
            site: Site::default(),
            record: 0,
        };
        Plan { steps: vec![step], inputs, outputs, donors: vec![None], ..Plan::default() }
    }

    /// Whether two places start at the same memory.
    pub fn is_same_memory(&self, a: Place, b: Place) -> bool {
        let owner = |place: Place| match place {
            Place::Output(k) => self.donors[k as usize].map_or(place, Place::Input),
            _ => place,
        };
        owner(a) == owner(b)
    }

    /// Whether a step writes its first result over its first operand.
    pub fn is_in_place(&self, step: &Step) -> bool {
        match (step.reads.first(), step.writes.first()) {
            (Some(read), Some(write)) => self.is_same_memory(read.place, write.place),
            _ => false,
        }
    }
}
