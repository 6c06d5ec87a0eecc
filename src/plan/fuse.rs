//! Fusion: which nodes share a kernel.
//!
//! Nodes are visited from the last to the first, so that all users of a value are known when its turn comes:
//! * all users are in one region, or the value is cheap to recompute: it is computed there and never stored;
//! * else, if the first user region to run iterates over the same elements, that region also stores the value;
//! * else it gets a region of its own; but some nodes may stand at the head of a region that uses them ([`epilogue`]).
//!
//! **Invariant:** `height` falls strictly along every dependence between regions, so there are no cycles: a region
//! reaches only lower ones. In particular no other user of a value reaches its highest user.

mod epilogue;
mod operands;
mod siblings;

use super::Instr;
use super::cost::{self, Cone};
use super::draft::{Buffer, BufferId, Draft, Fused, Kind, RegionId, Slot, SlotId, Source, State};
use super::memory::unchanged;
use super::views::{View, along, is_on_host, is_view, is_whole, moved, views};
use crate::dtype::DType;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::op::{Class, FLOPS_PER_BYTE, Op};
use crate::shape::{Dims, Layout};
use smallvec::{SmallVec, smallvec};

/// The slots that ask for a value.
type Demands = SmallVec<[(RegionId, SlotId); 2]>;

struct Fuser<'g> {
    graph: &'g Graph,
    /// Whether the memory of each output holds its value from the start.
    unchanged: Vec<bool>,
    views: Vec<View>,
    cones: Vec<Cone>,
    drafts: Vec<Draft>,
    demands: Vec<Demands>,
    /// The buffer of every value that is stored.
    home: Vec<Option<BufferId>>,
    buffers: Vec<Buffer>,
    /// The next CPU fallback: they keep their order, since they may have effects.
    next_host: Option<RegionId>,
    choices: Choices<'g>,
    /// Whether nodes of an operation may stand at the head of a region.
    has_epilogue: &'g dyn Fn(Op) -> bool,
}

/// Decisions of cost in the order in which they arise: taken here, or prescribed.
struct Choices<'g> {
    taken: Vec<bool>,
    prescribed: Option<&'g [bool]>,
}

impl Choices<'_> {
    /// The next decision, if they are prescribed; false if there are too few, as those of another program are.
    fn next(&self) -> Option<bool> {
        self.prescribed.map(|prescribed| prescribed.get(self.taken.len()).copied().unwrap_or(false))
    }
}

/// Splits `graph` into regions. Dead nodes are left out, except CPU fallbacks. Also returns the decisions of cost, which can be
/// prescribed for the same program with other sizes. `donors` are the offers: the memory of an input to an output.
pub(super) fn fuse<'g>(
    graph: &'g Graph,
    donors: &[Option<u32>],
    prescribed: Option<&'g [bool]>,
    has_epilogue: &'g dyn Fn(Op) -> bool,
) -> (Fused, Vec<bool>) {
    let n = graph.values.len();
    let views = views(graph);
    let mut fuser = Fuser {
        graph,
        unchanged: unchanged(graph, donors),
        cones: cost::cones(graph, &views),
        views,
        drafts: Vec::new(),
        demands: vec![Demands::new(); n],
        home: vec![None; n],
        buffers: Vec::new(),
        next_host: None,
        choices: Choices { taken: Vec::new(), prescribed },
        has_epilogue,
    };
    (0..graph.outputs.len()).for_each(|k| fuser.output(k));
    (0..graph.nodes.len()).rev().for_each(|n| fuser.visit(NodeId(n as u32)));
    let merged = fuser.merge();
    let taken = std::mem::take(&mut fuser.choices.taken);
    (fuser.finish(&merged), taken)
}

impl Fuser<'_> {
    fn node_of(&self, v: ValueId) -> &Node {
        self.graph.maker(v)
    }

    fn store(&mut self, value: ValueId, output: Option<u32>) -> BufferId {
        let on_host = match output {
            Some(_) => is_on_host(self.graph, value),
            None => self.graph.maker(value).op == Op::Offload,
        };
        self.buffers.push(Buffer { value, output, on_host });
        self.buffers.len() - 1
    }

    /// Gives output `k` its own memory: that of the value itself, or of the value that it is a whole view of; a copy if that
    /// is an input or taken by another output.
    fn output(&mut self, k: usize) {
        if self.unchanged[k] {
            return;
        }
        let v = self.graph.outputs[k];
        let view = self.views[v.0 as usize].clone();
        let root = view.root;
        let computed = self.node_of(root).op != Op::Input;
        let target = if computed && view.is_whole(self.graph) { root } else { v };
        let free = self.home[target.0 as usize].is_none();
        if free && self.node_of(target).op != Op::Input {
            self.home[target.0 as usize] = Some(self.store(target, Some(k as u32)));
        } else {
            let buffer = self.store(v, Some(k as u32));
            let region = self.start(Kind::Map, v);
            let slot = self.ask(region, view);
            self.drafts[region].writes.push((slot, buffer));
        }
    }

    fn start(&mut self, kind: Kind, v: ValueId) -> RegionId {
        let anchor = self.graph.value(v).node;
        self.drafts.push(Draft::new(kind, &self.graph.ty(v).sizes, anchor));
        self.drafts.len() - 1
    }

    /// The slot of a region that shows `view`, whose sizes are the region's. Numbers that need no memory are put there at
    /// once; for the rest the demand is noted.
    fn ask(&mut self, region: RegionId, view: View) -> SlotId {
        let root = view.root;
        if view.dtype == self.graph.ty(root).dtype
            && let Some(slot) = self.leaf(region, &view)
        {
            return slot;
        }
        let slot = Slot::new(view, State::Open);
        let draft = &mut self.drafts[region];
        let found = if matches!(draft.kind, Kind::Node(_)) { None } else { draft.find(&slot) };
        found.unwrap_or_else(|| {
            let id = draft.push(slot);
            self.demands[root.0 as usize].push((region, id));
            id
        })
    }

    /// A scalar, a constant or an index, if `view` shows one and the region computes.
    fn leaf(&mut self, region: RegionId, view: &View) -> Option<SlotId> {
        let graph = self.graph;
        let node = graph.maker(view.root);
        let draft = &mut self.drafts[region];
        if matches!(draft.kind, Kind::Node(_)) {
            return None;
        }
        let zero = Dims::from_elem(0, draft.sizes.len());
        let still = Layout { sizes: draft.sizes.clone(), strides: zero, offset: 0 };
        let dtype = view.dtype;
        let instr =
            |args| State::Instr(Instr { op: node.op, attrs: node.attrs.clone(), dtype, args });
        let (state, layout, dtype) = match node.op {
            Op::Const | Op::ConstInt => (instr(smallvec![]), still, dtype),
            Op::Scalar => (State::Scalar(node.attrs[0].int() as u32), still, dtype),
            Op::Iota => (State::Index, along(graph, &view.path, &counting(node))?, DType::I64),
            _ => return None,
        };
        let shown = View { layout: layout.clone(), dtype, ..view.clone() };
        let slot = put(draft, Slot::new(shown, state));
        if dtype == view.dtype {
            return Some(slot);
        }
        let cast = Instr {
            op: Op::Cast,
            attrs: smallvec![crate::op::Attr::DType(view.dtype)],
            dtype: view.dtype,
            args: smallvec![slot],
        };
        let shown = View { layout, ..view.clone() };
        Some(put(draft, Slot::new(shown, State::Instr(cast))))
    }

    fn visit(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let wanted = |v: ValueId| {
            self.home[v.0 as usize].is_some() || !self.demands[v.0 as usize].is_empty()
        };
        if node.op.class() != Class::Host && !node.outputs().any(wanted) {
            return;
        }
        match (node.op.class(), node.op) {
            (_, Op::Input) => {
                let readers = self.demands[node.first.0 as usize].clone();
                readers.iter().for_each(|&(r, s)| self.read(r, s));
            }
            (Class::Leaf | Class::Pointwise, _) => self.pointwise(node.first),
            (_, Op::Offload | Op::Reload) => {
                let region = self.start(Kind::Copy, node.first);
                let slot = self.ask(region, self.views[node.inputs[0].0 as usize].clone());
                self.keep(region, slot, node.first);
            }
            (_, op) if is_view(op) => {
                let region = self.start(Kind::Map, node.first);
                let slot = self.ask(region, self.views[node.first.0 as usize].clone());
                self.keep(region, slot, node.first);
            }
            (Class::Reduction, op) if !op.row().folds => self.whole(id),
            (Class::Reduction, _) => {
                let region = self.start(Kind::Reduce(id), node.inputs[0]);
                self.drafts[region].anchor = id;
                let slot = self.ask(region, self.views[node.inputs[0].0 as usize].clone());
                self.keep(region, slot, node.first);
            }
            (Class::Host, _) => self.whole(id),
            _ if self.precede(id) => {}
            _ => self.whole(id),
        }
    }

    /// Makes a node a kernel of its own.
    fn whole(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        self.drafts.push(Draft::new(Kind::Node(id), &[], id));
        let region = self.drafts.len() - 1;
        self.operands_of(id, region);
        node.outputs().for_each(|v| self.add(region, v));
        if node.op.class() == Class::Host
            && let Some(next) = self.next_host.replace(region)
        {
            self.drafts[next].after.push(region);
            self.depends(region, next);
        }
    }

    fn pointwise(&mut self, v: ValueId) {
        let demands = self.demands[v.0 as usize].clone();
        if self.home[v.0 as usize].is_none() && self.absorb(v, &demands) {
            return;
        }
        let (region, slot) = self.join_highest(v, &demands).unwrap_or_else(|| {
            let region = self.start(Kind::Map, v);
            let view = View::itself(self.graph, v);
            if let Some(slot) = self.leaf(region, &view) {
                return (region, slot);
            }
            let slot = self.drafts[region].push(Slot::new(view, State::Open));
            self.join(v, region, slot);
            (region, slot)
        });
        self.keep(region, slot, v);
    }

    /// Computes `v` wherever it is demanded, if that needs no memory for it and costs little.
    fn absorb(&mut self, v: ValueId, demands: &Demands) -> bool {
        let alone = demands.iter().all(|d| d.0 == demands[0].0);
        let pays = self.choices.next().unwrap_or_else(|| match alone {
            true => self.is_part(v, demands),
            false => self.is_repeated(v, demands),
        });
        self.choices.taken.push(pays);
        if !pays || !demands.iter().all(|&(r, s)| self.can_join(v, r, s, demands)) {
            return false;
        }
        demands.iter().for_each(|&(r, s)| self.join(v, r, s));
        true
    }

    /// Whether `v` may be computed at `points` points although it has fewer elements. A single number is not recomputed
    /// at many points: reading it costs nothing.
    fn spreads(&self, v: ValueId, points: i64) -> bool {
        if self.graph.ty(v).numel() == 1 && points > cost::FEW_POINTS {
            return false;
        }
        let cone = &self.cones[v.0 as usize];
        let leafy = cone.roots.is_empty() && cone.work <= cost::MAX_REPEATED;
        leafy || self.node_of(v).op == Op::Cast
    }

    /// For the only region that needs `v`: whether it computes no element twice, or may do so.
    fn is_part(&self, v: ValueId, demands: &Demands) -> bool {
        let points: i64 = demands.iter().map(|&(r, s)| self.slot(r, s).layout.numel()).sum();
        points <= self.graph.ty(v).numel() || self.spreads(v, points)
    }

    /// Whether computing `v` in every region that needs it is cheaper than storing it.
    fn is_repeated(&self, v: ValueId, demands: &Demands) -> bool {
        let cone = &self.cones[v.0 as usize];
        let ty = self.graph.ty(v);
        let pays = |&(r, s): &(RegionId, SlotId)| {
            let draft = &self.drafts[r];
            let points = self.slot(r, s).layout.numel();
            let reads =
                |root| draft.slots.iter().any(|s| s.value == root && s.state == State::Open);
            let more = |root: &&ValueId| {
                // Memory that is read again and again for other points comes from a cache.
                self.graph.ty(**root).numel() * 8 > points && !reads(**root)
            };
            let bytes = cone.roots.iter().filter(more).map(|&r| self.graph.ty(r).nbytes()).sum();
            cost::is_no_more(bytes, ty.nbytes())
                && (points <= ty.numel() || self.spreads(v, points))
        };
        cone.work <= cost::MAX_REPEATED && demands.iter().all(pays)
    }

    /// The map among the highest regions that ask for `v`, if it sees `v` once, whole and in order, and has room for
    /// one more result.
    fn highest(&self, v: ValueId, demands: &Demands) -> Option<(RegionId, SlotId)> {
        let top = demands.iter().map(|d| self.drafts[d.0].height).max()?;
        let fits = |&&(r, s): &&(RegionId, SlotId)| {
            let draft = &self.drafts[r];
            draft.height == top
                && draft.kind == Kind::Map
                && demands.iter().filter(|d| d.0 == r).count() == 1
                && is_whole(&draft.slots[s as usize].layout, self.graph.ty(v))
                && draft.has_room(0, 1)
        };
        demands.iter().find(fits).copied()
    }

    /// Puts `v` into the highest region that asks for it, if it fits there as one more result.
    fn join_highest(&mut self, v: ValueId, demands: &Demands) -> Option<(RegionId, SlotId)> {
        let (region, slot) = self.highest(v, demands)?;
        if !self.can_join(v, region, slot, demands) {
            return None;
        }
        self.join(v, region, slot);
        Some((region, slot))
    }

    fn slot(&self, region: RegionId, slot: SlotId) -> &Slot {
        &self.drafts[region].slots[slot as usize]
    }

    /// Whether region `r` can compute `v` for its slot `s` (and all its other slots of `v`) instead of reading it.
    fn can_join(&self, v: ValueId, r: RegionId, s: SlotId, demands: &Demands) -> bool {
        let slot = self.slot(r, s);
        let node = self.node_of(v);
        if slot.state == State::Operand {
            return self.can_widen(v, r, s);
        }
        let computes = node.op.class() == Class::Pointwise || node.op.draws();
        let here = demands.iter().filter(|d| d.0 == r).count();
        let args = node.inputs.len() + node.op.draws() as usize;
        let fits = match self.drafts[r].kind {
            Kind::Node(_) | Kind::Copy => false,
            Kind::Fused(_) => !may_fail(node.op, self.graph.ty(v).dtype),
            Kind::Map | Kind::Reduce(_) => true,
        };
        computes
            && fits
            && slot.state == State::Open
            && slot.dtype == self.graph.ty(v).dtype
            && self.drafts[r].has_room(here * (args + 1), here * args)
            && self.operands(node, slot).is_some()
    }

    /// The views of the node's operands that the slot's region needs in order to compute the slot.
    fn operands(&self, node: &Node, slot: &Slot) -> Option<SmallVec<[View; 3]>> {
        let operand = |v: &ValueId| {
            let View { root, dtype, layout, path } = &self.views[v.0 as usize];
            let mut path = path.clone();
            let layout = match node.op {
                op if op.draws() => {
                    path.push(self.graph.value(node.first).node);
                    along(self.graph, &slot.path, &moved(node, layout)?)?
                }
                _ => along(self.graph, &slot.path, layout)?,
            };
            path.extend_from_slice(&slot.path);
            Some(View { root: *root, dtype: *dtype, layout, path })
        };
        node.inputs.iter().map(operand).collect()
    }

    /// Computes slot `s` in region `r`.
    fn join(&mut self, v: ValueId, r: RegionId, s: SlotId) {
        let graph = self.graph;
        let node = graph.maker(v);
        let slot = self.slot(r, s).clone();
        let operands = self.operands(node, &slot).expect("asked before joining");
        if slot.state == State::Operand {
            operands.into_iter().for_each(|view| self.widen(r, s, view));
            return;
        }
        let mut args: SmallVec<[SlotId; 3]> =
            operands.into_iter().map(|view| self.ask(r, view)).collect();
        let draft = &mut self.drafts[r];
        if node.op.draws() {
            let index = Slot { dtype: DType::I64, state: State::Index, ..slot.clone() };
            args.push(put(draft, index));
        }
        let instr = Instr { op: node.op, attrs: node.attrs.clone(), dtype: slot.dtype, args };
        draft.slots[s as usize].state = State::Instr(instr);
        draft.joined.push(s);
    }

    /// Makes `region` store a result of its node.
    fn add(&mut self, region: RegionId, v: ValueId) {
        let buffer = self.settle(region, v);
        self.drafts[region].added.push(buffer);
    }

    /// Makes `region` store its slot as `v`; all other users of `v` read it from there.
    fn keep(&mut self, region: RegionId, slot: SlotId, v: ValueId) {
        let buffer = self.settle(region, v);
        self.drafts[region].writes.push((slot, buffer));
    }

    /// The buffer in which `region` stores `v`, and from which all other users read it.
    fn settle(&mut self, region: RegionId, v: ValueId) -> BufferId {
        let home = self.home[v.0 as usize];
        let buffer = home.unwrap_or_else(|| self.store(v, None));
        self.home[v.0 as usize] = Some(buffer);
        for (r, s) in self.demands[v.0 as usize].clone() {
            if r != region {
                self.read(r, s);
                self.depends(region, r);
            }
        }
        buffer
    }

    fn read(&mut self, r: RegionId, s: SlotId) {
        let state = &mut self.drafts[r].slots[s as usize].state;
        if *state == State::Open {
            *state = State::Memory;
        }
    }

    /// Notes that `user` needs `producer` to have run; raises the regions that are too low then.
    fn depends(&mut self, producer: RegionId, user: RegionId) {
        if !self.drafts[user].producers.contains(&producer) {
            self.drafts[user].producers.push(producer);
        }
        let mut low = vec![(producer, self.drafts[user].height + 1)];
        while let Some((region, height)) = low.pop() {
            let draft = &mut self.drafts[region];
            if draft.height < height {
                draft.height = height;
                low.extend(draft.producers.iter().map(|&p| (p, height + 1)));
            }
        }
    }

    fn finish(&self, went: &[RegionId]) -> Fused {
        let mut number = vec![usize::MAX; self.drafts.len()];
        let kept = (0..went.len()).filter(|&r| went[r] == r);
        kept.clone().enumerate().for_each(|(n, r)| number[r] = n);
        let source = |v: ValueId| match self.home[v.0 as usize] {
            Some(buffer) => Source::Buffer(buffer),
            None => Source::Input(self.node_of(v).attrs[0].int() as u32),
        };
        let finish = |r: RegionId| {
            let mut region = self.drafts[r].finish(self.graph, source);
            region.after.iter_mut().for_each(|a| *a = number[went[*a]]);
            region
        };
        Fused {
            regions: kept.map(finish).collect(),
            buffers: self.buffers.clone(),
            half_flops_per_byte: FLOPS_PER_BYTE,
            host_link_slowdown: None,
        }
    }
}

/// Whether an operation may fail at run time.
fn may_fail(op: Op, dtype: DType) -> bool {
    matches!(op, Op::Div | Op::Rem) && !dtype.is_float()
}

/// The region's equal slot if it has one, else this one as a new slot.
fn put(draft: &mut Draft, slot: Slot) -> SlotId {
    draft.find(&slot).unwrap_or_else(|| draft.push(slot))
}

/// The layout of an iota: the index along its dimension.
fn counting(iota: &Node) -> Layout {
    let sizes: Dims = iota.attrs[0].ints().into();
    let mut strides = Dims::from_elem(0, sizes.len());
    strides[iota.attrs[1].int() as usize] = 1;
    Layout { sizes, strides, offset: 0 }
}
