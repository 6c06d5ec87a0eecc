//! Regions while they grow, and the finished ones.

use super::rounding;
use super::views::{Path, View, is_whole};
use super::{ALIGN, Instr, Kernel, LoopBody, Reg};
use crate::dtype::DType;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::op::{Op, Ty};
use crate::shape::{Dims, Layout};
use smallvec::SmallVec;

pub(super) type RegionId = usize;
pub(super) type BufferId = usize;
pub(super) type SlotId = u32;

/// Memory for one value, not placed yet.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub value: ValueId,
    /// Set if it is the memory of a program output.
    pub output: Option<u32>,
    /// Whether it is the host's memory.
    pub on_host: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Input(u32),
    Buffer(BufferId),
    Scalar(u32),
    Index,
}

#[derive(Clone, Debug)]
pub(super) struct Read {
    pub source: Source,
    /// The value whose dense flat elements the layout points into.
    pub value: ValueId,
    pub dtype: DType,
    pub layout: Layout,
}

/// A kernel over buffers.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub kernel: Kernel,
    pub reads: Vec<Read>,
    pub writes: Vec<BufferId>,
    /// Regions that have to run before this one although it reads none of their results.
    pub after: Vec<RegionId>,
    /// The node that gives the region its name and its place in the program's order.
    pub anchor: NodeId,
    pub workspace: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Fused {
    pub regions: Vec<Region>,
    pub buffers: Vec<Buffer>,
    /// See [`super::Target::half_flops_per_byte`].
    pub half_flops_per_byte: u64,
    /// See [`super::Target::host_link_slowdown`].
    pub host_link_slowdown: Option<u64>,
}

impl Fused {
    pub fn is_in_arena(&self, buffer: BufferId) -> bool {
        let Buffer { output, on_host, .. } = self.buffers[buffer];
        output.is_none() && !on_host
    }

    /// Bytes that a buffer takes in the arena; 0 if it lies elsewhere.
    pub fn arena_bytes(&self, graph: &Graph, buffer: BufferId) -> u64 {
        match self.is_in_arena(buffer) {
            true => (self.ty(graph, buffer).nbytes() as u64).next_multiple_of(ALIGN),
            false => 0,
        }
    }

    pub fn ty<'g>(&self, graph: &'g Graph, buffer: BufferId) -> &'g Ty {
        graph.ty(self.buffers[buffer].value)
    }

    /// The region that writes each buffer.
    pub fn writers(&self) -> Vec<RegionId> {
        let mut writers = vec![usize::MAX; self.buffers.len()];
        for (r, region) in self.regions.iter().enumerate() {
            region.writes.iter().for_each(|&b| writers[b] = r);
        }
        writers
    }
}

impl Region {
    /// Layout of write `k`.
    pub fn written(&self, k: usize, ty: &Ty) -> Layout {
        match &self.kernel {
            Kernel::Map(body) => Layout::contiguous(&body.sizes),
            Kernel::Fused { body, .. } if k < body.results.len() => Layout::contiguous(&body.sizes),
            _ => Layout::contiguous(&ty.sizes),
        }
    }

    /// Whether write `k` may overwrite the memory that only the reads chosen by `of` see: every one of them must be
    /// traversed in step with the write, or be the base that a scatter updates, or an operand of a module.
    pub fn may_overwrite(
        &self,
        k: usize,
        of: impl Fn(&Read) -> bool,
        base: &Ty,
        result: &Ty,
    ) -> bool {
        if base.nbytes() != result.nbytes() {
            return false;
        }
        let same = |r: &Read| {
            is_whole(&r.layout, base)
                && r.dtype.size() == base.dtype.size()
                && r.dtype.size() == result.dtype.size()
        };
        match &self.kernel {
            Kernel::Map(_) => self.reads.iter().filter(|r| of(r)).all(same),
            // Parts of the result are written while other parts still need the operands.
            Kernel::Fused { body, .. } if k < body.results.len() => {
                let (operands, others) =
                    self.reads.split_at(self.kernel.operands(self.reads.len()));
                !operands.iter().any(&of) && others.iter().filter(|r| of(r)).all(same)
            }
            Kernel::Node { op: Op::AsStridedScatter | Op::IndexAdd | Op::Scatter, .. } => {
                let mut reads = self.reads.iter().enumerate().filter(|(_, r)| of(r));
                reads.all(|(i, r)| i == 0 && same(r))
            }
            // It reads all operands before it writes.
            Kernel::Node { op: Op::Module | Op::While, .. } => {
                self.reads.iter().filter(|r| of(r)).all(same)
            }
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Map,
    /// A map that only moves a value from one memory to another; nothing joins it.
    Copy,
    Reduce(NodeId),
    Node(NodeId),
    /// A map that begins with the result of a node.
    Fused(NodeId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The node that makes the value has not been visited yet.
    Open,
    /// Read from the value's memory.
    Memory,
    Scalar(u32),
    Index,
    /// Computed here; the arguments are slots.
    Instr(Instr),
    /// Read from memory by the region's node.
    Operand,
    /// The result of the region's node.
    Result,
}

impl State {
    fn sort(&self) -> u8 {
        match self {
            State::Open | State::Memory | State::Scalar(_) => 0,
            State::Index => 1,
            State::Instr(_) => 2,
            State::Operand | State::Result => 3,
        }
    }
}

/// A value as a region needs it: its dense flat elements in the order of `layout`.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub value: ValueId,
    pub dtype: DType,
    pub layout: Layout,
    /// The path from the value to the region's iteration space.
    pub path: Path,
    pub state: State,
}

impl Slot {
    pub fn new(view: View, state: State) -> Slot {
        Slot { value: view.root, dtype: view.dtype, layout: view.layout, path: view.path, state }
    }

    fn is_same(&self, other: &Slot) -> bool {
        self.value == other.value
            && self.dtype == other.dtype
            && self.layout == other.layout
            && self.state.sort() == other.state.sort()
    }
}

/// A region that grows from its last instruction towards its reads.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub kind: Kind,
    /// Iteration space of a map or a reduction.
    pub sizes: Dims,
    pub slots: Vec<Slot>,
    /// Slots computed from other slots, each before its arguments.
    pub joined: Vec<SlotId>,
    pub writes: Vec<(SlotId, BufferId)>,
    /// Results of the region's node that are stored as they are, after the writes.
    pub added: Vec<BufferId>,
    /// Larger than the height of every region that depends on this one.
    pub height: u32,
    /// Known regions that this one depends on.
    pub producers: Vec<RegionId>,
    pub after: Vec<RegionId>,
    pub anchor: NodeId,
}

/// Maximum number of instructions in one region.
const MAX_INSTRS: usize = 64;
/// Maximum number of reads and writes of one region.
const MAX_OPERANDS: usize = 24;

impl Draft {
    pub fn new(kind: Kind, sizes: &[i64], anchor: NodeId) -> Draft {
        Draft {
            kind,
            sizes: sizes.into(),
            slots: Vec::new(),
            joined: Vec::new(),
            writes: Vec::new(),
            added: Vec::new(),
            height: 0,
            producers: Vec::new(),
            after: Vec::new(),
            anchor,
        }
    }

    pub fn push(&mut self, slot: Slot) -> SlotId {
        self.slots.push(slot);
        self.slots.len() as SlotId - 1
    }

    pub fn find(&self, slot: &Slot) -> Option<SlotId> {
        self.slots.iter().position(|s| s.is_same(slot)).map(|i| i as SlotId)
    }

    /// Whether that many more instructions and operands fit.
    pub fn has_room(&self, instrs: usize, operands: usize) -> bool {
        let computed = self.slots.iter().filter(|s| matches!(s.state, State::Instr(_))).count();
        let touched = self.slots.len() - computed + self.writes.len() + self.added.len();
        computed + instrs <= MAX_INSTRS && touched + operands <= MAX_OPERANDS
    }

    /// Takes over everything that `other` does, or changes nothing if that would be too large or see the same memory in two
    /// orders (which would keep a result from overwriting it). Both are maps over the same sizes and neither depends on
    /// the other.
    pub fn merge(&mut self, other: &Draft) -> bool {
        let twisted = |a: &Slot, b: &Slot| {
            let read = a.state == State::Memory && b.state == State::Memory;
            read && a.value == b.value && a.layout != b.layout
        };
        if self.slots.iter().any(|a| other.slots.iter().any(|b| twisted(a, b))) {
            return false;
        }
        let own = self.slots.len();
        let mut slots = vec![SlotId::MAX; other.slots.len()];
        let mut fresh = Vec::new();
        for id in other.in_order() {
            let mut slot = other.slots[id as usize].clone();
            if let State::Instr(instr) = &mut slot.state {
                instr.args.iter_mut().for_each(|a| *a = slots[*a as usize]);
            }
            slots[id as usize] = self.find(&slot).unwrap_or_else(|| {
                let new = self.push(slot);
                if other.joined.contains(&id) {
                    fresh.push(new);
                }
                new
            });
        }
        if !self.has_room(0, other.writes.len()) {
            self.slots.truncate(own);
            return false;
        }
        fresh.reverse();
        fresh.append(&mut self.joined);
        self.joined = fresh;
        self.writes.extend(other.writes.iter().map(|&(s, b)| (slots[s as usize], b)));
        true
    }

    /// All slots, arguments first: leaves, then the slots computed from them.
    fn in_order(&self) -> impl Iterator<Item = SlotId> + '_ {
        let mut is_joined = vec![false; self.slots.len()];
        self.joined.iter().for_each(|&s| is_joined[s as usize] = true);
        let leaves = (0..self.slots.len() as SlotId).filter(move |&s| !is_joined[s as usize]);
        leaves.chain(self.joined.iter().rev().copied())
    }

    /// The finished region. `source` gives the memory of a value.
    pub fn finish(&self, graph: &Graph, source: impl Fn(ValueId) -> Source) -> Region {
        let read = |s: &Slot| Read {
            source: match s.state {
                State::Scalar(slot) => Source::Scalar(slot),
                State::Index => Source::Index,
                _ => source(s.value),
            },
            value: s.value,
            dtype: s.dtype,
            layout: s.layout.clone(),
        };
        let (kernel, reads) = match self.kind {
            Kind::Node(id) => {
                let Node { op, attrs, .. } = graph.node(id).clone();
                (Kernel::Node { op, attrs }, self.slots.iter().map(read).collect())
            }
            _ => {
                let (body, reads) = self.body(graph);
                let operands = self.slots.iter().filter(|s| s.state == State::Operand);
                let others = reads.iter().map(|&s| &self.slots[s]);
                let others = others.filter(|s| s.state != State::Result);
                (self.kernel(graph, body), operands.chain(others).map(read).collect())
            }
        };
        let writes = self.writes.iter().map(|w| w.1).chain(self.added.iter().copied()).collect();
        let after = self.after.clone();
        Region { kernel, reads, writes, after, anchor: self.anchor, workspace: 0 }
    }

    fn kernel(&self, graph: &Graph, body: LoopBody) -> Kernel {
        match self.kind {
            Kind::Reduce(id) => {
                let node = graph.node(id);
                Kernel::Reduce { body, op: node.op, axes: node.attrs[0].ints().into() }
            }
            Kind::Fused(id) => {
                let Node { op, attrs, .. } = graph.node(id).clone();
                Kernel::Fused { op, attrs, body }
            }
            _ => Kernel::Map(body),
        }
    }

    /// The loop body that computes the writes, and the slots it reads: the result of the node, if there is one,
    /// then the others in order of their first use.
    fn body(&self, graph: &Graph) -> (LoopBody, Vec<usize>) {
        let results = || self.writes.iter().map(|w| w.0);
        let computed = |s: &SlotId| matches!(self.slots[*s as usize].state, State::Instr(_));
        let order: Vec<SlotId> = self.in_order().filter(computed).collect();
        let result = |s: &Slot| s.state == State::Result;
        let mut reads: Vec<usize> = self.slots.iter().position(result).into_iter().collect();
        let mut note = |s: SlotId| {
            if !computed(&s) && !reads.contains(&(s as usize)) {
                reads.push(s as usize);
            }
        };
        for &s in &order {
            if let State::Instr(instr) = &self.slots[s as usize].state {
                instr.args.iter().for_each(|&a| note(a));
            }
        }
        results().for_each(&mut note);
        let mut register = vec![Reg::MAX; self.slots.len()];
        let slots = reads.iter().copied().chain(order.iter().map(|&s| s as usize));
        slots.enumerate().for_each(|(r, s)| register[s] = r as Reg);
        let instr = |s: &SlotId| match &self.slots[*s as usize].state {
            State::Instr(i) => {
                let args: SmallVec<[Reg; 3]> =
                    i.args.iter().map(|&a| register[a as usize]).collect();
                Some(Instr { args, ..i.clone() })
            }
            _ => None,
        };
        let body = LoopBody {
            sizes: self.sizes.clone(),
            reads: reads.iter().map(|&s| self.slots[s].dtype).collect(),
            instrs: order.iter().filter_map(instr).collect(),
            results: results().map(|s| register[s as usize]).collect(),
        };
        let record = |s: &SlotId| graph.maker(self.slots[*s as usize].value).record;
        let records: Vec<u32> = order.iter().map(record).collect();
        let reduction = match self.kind {
            Kind::Reduce(id) => Some(graph.node(id).record),
            _ => None,
        };
        (rounding::rounded(body, &records, reduction), reads)
    }
}
