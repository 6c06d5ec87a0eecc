//! The meaning of a step, compared with the graph one element at a time: from an element of a result, the step's
//! registers and the graph's expression are followed back together until both arrive at the same element of the same
//! value in memory.

use super::{first_token, is_slot_type};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::internal;
use crate::op::collective::{self, Kind, Operands, gathered};
use crate::op::{Op, Ty};
use crate::plan::{Instr, Kernel, LoopBody, MemRef, Operand, Reg, Step, accepts_half_input};
use crate::shape::{contiguous_strides, numel};

/// `host` is the node that a CPU fallback has to be.
pub(super) fn check(graph: &Graph, step: &Step, host: Option<&Node>) -> Result<()> {
    let types = step.reads.iter().map(|r| r.dtype);
    let of = |v: ValueId| graph.ty(v);
    match &step.kernel {
        Kernel::Map(body) => {
            let results: Vec<ValueId> = step.results_of.clone();
            let shaped = |w: &Operand| w.layout.sizes == body.sizes;
            if !types.eq(body.reads.iter().copied()) || !step.writes.iter().all(shaped) {
                return internal!("operands do not fit the program");
            }
            equal(graph, step, body, &results)
        }
        Kernel::Reduce { body, op, axes } => {
            let &[result] = &step.results_of[..] else { return internal!("one result is reduced") };
            let node = graph.maker(result);
            let axes_differ = node.attrs.first().map(|a| a.ints()) != Some(axes.as_slice());
            if node.op != *op || axes_differ || body.sizes != of(node.inputs[0]).sizes {
                return internal!("not the reduction of value {}", result.0);
            }
            if !types.eq(body.reads.iter().copied())
                || step.writes[0].layout.sizes != of(result).sizes
            {
                return internal!("operands do not fit the program");
            }
            equal(graph, step, body, &[node.inputs[0]])
        }
        Kernel::Fused { body, .. } => {
            let operands = step.kernel.operands(step.reads.len());
            let shaped = |w: &Operand| w.layout.sizes == body.sizes;
            let computed = body.results.len();
            let fits = operands <= step.reads.len()
                && computed <= step.writes.len()
                && types.skip(operands).eq(body.reads[1..].iter().copied());
            if !fits || !step.writes[..computed].iter().all(shaped) {
                return internal!("operands do not fit the program");
            }
            let (results, others) = step.results_of.split_at(computed);
            let heads = |&v: &ValueId| is_head(graph, step, body, graph.maker(v));
            if !others.iter().all(heads) {
                return internal!("not the other results of the node");
            }
            equal(graph, step, body, results)
        }
        Kernel::Node { op, attrs } => {
            let Some(node) = host.or(step.results_of.first().map(|&v| graph.maker(v))) else {
                return internal!("no result");
            };
            let all = node.outputs().eq(step.results_of.iter().copied());
            if node.op != *op || node.attrs != *attrs || !all {
                return internal!("not the node that makes value {}", node.first.0);
            }
            operands(graph, step, step.reads.len(), node)
        }
    }
}

/// Whether two values are the same elements in dense memory.
pub(super) fn same_memory(graph: &Graph, held: ValueId, wanted: ValueId) -> bool {
    let (a, b) = (graph.ty(held), graph.ty(wanted));
    let size = b.dtype.size() as i64;
    let found = |flat: i64| Element { value: wanted, byte: flat * size }.back_to(graph, held);
    let same = |point: Vec<i64>| {
        let flat = ravel(&b.sizes, &point);
        found(flat) == Some(flat * size)
    };
    held == wanted
        || (a.nbytes() == b.nbytes()
            && a.dtype.size() == b.dtype.size()
            && points(&b.sizes).into_iter().all(same))
}

/// Checks the operands of a node: the first `count` reads.
fn operands(graph: &Graph, step: &Step, count: usize, node: &Node) -> Result<()> {
    if node.inputs.len() != count {
        return internal!("{count} operands for {}", node.inputs.len());
    }
    for (i, &v) in node.inputs.iter().enumerate() {
        let (read, ty) = (&step.reads[i], graph.ty(v));
        let narrow = accepts_half_input(node.op, i) && read.dtype.is_half_of(ty.dtype);
        if read.layout.sizes != ty.sizes || read.dtype != ty.dtype && !narrow {
            return internal!("operand {i} is not {ty:?}");
        }
        for point in points(&ty.sizes) {
            let mut element = Element::at(graph, v, ravel(&ty.sizes, &point));
            if narrow {
                let Some(before) = element.before_cast(graph) else {
                    return internal!("operand {i} is not {ty:?}");
                };
                element = before;
            }
            let found = match read.mem {
                MemRef::Scalar(_) => {
                    is_slot_type(ty.dtype) && is_leaf(graph, read, element, &point)
                }
                MemRef::Index => false,
                _ => is_memory(graph, read, step.reads_of[i], element, &point),
            };
            if !found {
                return internal!("operand {i} is not value {} at {point:?}", v.0);
            }
        }
    }
    Ok(())
}

/// Checks the registers that a loop body ends with.
fn equal(graph: &Graph, step: &Step, body: &LoopBody, results: &[ValueId]) -> Result<()> {
    let n = body.reads.len() as Reg;
    for (i, instr) in body.instrs.iter().enumerate() {
        if instr.args.iter().any(|&a| a >= n + i as Reg) {
            return internal!("register {} is used before it is set", n + i as Reg);
        }
    }
    let fits = |v: &ValueId| graph.ty(*v).numel() == numel(&body.sizes);
    let set = |r: &Reg| *r < n + body.instrs.len() as Reg;
    if results.len() != body.results.len()
        || !results.iter().all(fits)
        || !body.results.iter().all(set)
        || step.reads[step.kernel.operands(step.reads.len())..]
            .iter()
            .any(|r| r.layout.sizes != body.sizes)
    {
        return internal!("results or operands do not fit the program");
    }
    for point in points(&body.sizes) {
        let flat = ravel(&body.sizes, &point);
        let mut match_ = Match { graph, step, body, point: &point, known: Vec::new() };
        for (&reg, &v) in body.results.iter().zip(results) {
            if !match_.register(reg, Element::at(graph, v, flat)) {
                return internal!("r{reg} is not value {} at {point:?}", v.0);
            }
        }
    }
    Ok(())
}

/// An element of a value, by its first byte in the value's dense memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Element {
    value: ValueId,
    byte: i64,
}

impl Element {
    fn at(graph: &Graph, value: ValueId, flat: i64) -> Element {
        Element { value, byte: flat * graph.ty(value).dtype.size() as i64 }
    }

    fn flat(self, graph: &Graph) -> i64 {
        self.byte / graph.ty(self.value).dtype.size() as i64
    }

    /// The element from which a movement takes this one; `None` if no movement makes the value.
    fn source(self, graph: &Graph) -> Option<Element> {
        let node = graph.maker(self.value);
        let ty = graph.ty(self.value);
        let from = *node.inputs.first()?;
        let old = graph.ty(from);
        let size = ty.dtype.size() as i64;
        let (flat, rest) = (self.byte / size, self.byte % size);
        let at = unravel(&ty.sizes, flat);
        let ints = |i: usize| node.attrs[i].ints();
        let flat = match node.op {
            Op::Bitcast | Op::Offload | Op::Reload => {
                return Some(Element { value: from, byte: self.byte });
            }
            Op::Reshape => flat,
            Op::Transpose => {
                let mut before = vec![0; at.len()];
                ints(0).iter().zip(&at).for_each(|(&p, &i)| before[p as usize] = i);
                ravel(&old.sizes, &before)
            }
            Op::Broadcast => {
                let tail = &at[at.len() - old.rank()..];
                let kept = tail.iter().zip(&old.sizes).map(|(&i, &n)| if n == 1 { 0 } else { i });
                ravel(&old.sizes, &kept.collect::<Vec<_>>())
            }
            Op::Slice => {
                let before = (0..at.len()).map(|d| ints(0)[d] + at[d] * ints(2)[d]);
                ravel(&old.sizes, &before.collect::<Vec<_>>())
            }
            Op::AsStrided => {
                node.attrs[2].int() + at.iter().zip(ints(1)).map(|(i, s)| i * s).sum::<i64>()
            }
            _ => return None,
        };
        Some(Element { value: from, byte: flat * size + rest })
    }

    /// The byte of `value` that the element shows, if it does.
    fn back_to(mut self, graph: &Graph, value: ValueId) -> Option<i64> {
        while !is_same_value(graph, self.value, value) {
            self = self.source(graph)?;
        }
        Some(self.byte)
    }

    /// The element from which a cast makes this one.
    fn before_cast(self, graph: &Graph) -> Option<Element> {
        let cast = self.computed(graph);
        let node = graph.maker(cast.value);
        (node.op == Op::Cast).then(|| Element::at(graph, node.inputs[0], cast.flat(graph)))
    }

    /// The element that is computed, behind all movements except bitcasts to another dtype and not back again.
    fn computed(self, graph: &Graph) -> Element {
        let dtype = |element: Element| graph.ty(element.value).dtype;
        let (mut at, mut found) = (self, self);
        while let Some(before) = at.source(graph)
            && dtype(before).size() == dtype(self).size()
        {
            at = before;
            if dtype(at) == dtype(self) {
                found = at;
            }
        }
        found
    }
}

/// One point of a loop body's iteration space.
struct Match<'a> {
    graph: &'a Graph,
    step: &'a Step,
    body: &'a LoopBody,
    point: &'a [i64],
    /// The pairs that were found equal already.
    known: Vec<(Reg, Element)>,
}

impl Match<'_> {
    /// Whether a register holds an element.
    fn register(&mut self, reg: Reg, element: Element) -> bool {
        if self.known.contains(&(reg, element)) {
            return true;
        }
        let reads = self.body.reads.len();
        let equal = match (reg as usize).checked_sub(reads) {
            Some(i) => self.instr(i, element),
            None => self.read(reg as usize, element),
        };
        if equal {
            self.known.push((reg, element));
        }
        equal
    }

    /// The read of the step that a register below the instructions is; `None` for the result of a node.
    fn read_of(&self, register: usize) -> Option<usize> {
        match &self.step.kernel {
            kernel @ Kernel::Fused { .. } => {
                Some(kernel.operands(self.step.reads.len()) + register.checked_sub(1)?)
            }
            _ => Some(register),
        }
    }

    /// Whether register 0 of a fused kernel, the node's result in order, is the element.
    fn result(&self, element: Element) -> bool {
        let element = element.computed(self.graph);
        let node = self.graph.maker(element.value);
        element.value == node.first
            && element.flat(self.graph) == ravel(&self.body.sizes, self.point)
            && is_head(self.graph, self.step, self.body, node)
    }

    /// Whether an instruction gives its operand the precision of the operand's own dtype.
    fn is_rounding(&self, instr: &Instr) -> bool {
        let reads = self.body.reads.len();
        instr.op == Op::Cast
            && matches!(instr.dtype, DType::F16 | DType::BF16)
            && instr.args.iter().all(|&a| {
                let maker = (a as usize).checked_sub(reads).map(|n| &self.body.instrs[n]);
                maker.is_some_and(|maker| maker.dtype == instr.dtype)
            })
    }

    fn read(&self, i: usize, element: Element) -> bool {
        let Some(i) = self.read_of(i) else { return self.result(element) };
        let (read, of) = (&self.step.reads[i], self.step.reads_of[i]);
        match read.mem {
            MemRef::Scalar(_) | MemRef::Index => is_leaf(self.graph, read, element, self.point),
            _ => is_memory(self.graph, read, of, element, self.point),
        }
    }

    fn instr(&mut self, i: usize, element: Element) -> bool {
        let graph = self.graph;
        let instr = &self.body.instrs[i];
        let element = element.computed(graph);
        let node = graph.maker(element.value);
        let ty = graph.ty(element.value);
        if instr.dtype != ty.dtype {
            return false;
        }
        if self.is_rounding(instr) && self.register(instr.args[0], element) {
            return true;
        }
        let index = |reg: Reg| {
            let read = self.step.reads.get(self.read_of(reg as usize)?)?;
            (read.mem == MemRef::Index && read.dtype == DType::I64)
                .then(|| flat_of(read, self.point))
        };
        if node.op == Op::Iota && instr.op == Op::Cast && instr.args.len() == 1 {
            return index(instr.args[0]) == Some(counted(node, ty, element.flat(graph)));
        }
        if instr.op != node.op || instr.attrs != node.attrs {
            return false;
        }
        let flat = element.flat(graph);
        let mut args = instr.args.to_vec();
        let operand_at = if node.op.draws() {
            if args.len() != 3 || index(args[2]) != Some(flat) {
                return false;
            }
            args.pop();
            0
        } else {
            flat
        };
        args.len() == node.inputs.len()
            && args.iter().zip(&node.inputs).all(|(&reg, &v)| {
                let sized = node.op.draws() || graph.ty(v).sizes == ty.sizes;
                sized && self.register(reg, Element::at(graph, v, operand_at))
            })
    }
}

/// Whether a read from memory that holds `of` is the element, by its first and its last byte.
fn is_memory(graph: &Graph, read: &Operand, of: ValueId, element: Element, point: &[i64]) -> bool {
    let size = read.dtype.size() as i64;
    let first = flat_of(read, point) * size;
    let same = |byte: i64| {
        let part = Element { byte: element.byte + byte, ..element };
        part.back_to(graph, of) == Some(first + byte)
    };
    graph.ty(element.value).dtype == read.dtype && same(0) && same(size - 1)
}

/// Whether a read that needs no memory is the element.
fn is_leaf(graph: &Graph, read: &Operand, element: Element, point: &[i64]) -> bool {
    let element = element.computed(graph);
    let node = graph.maker(element.value);
    let ty = graph.ty(element.value);
    let found = match (read.mem, node.op) {
        (MemRef::Scalar(slot), Op::Scalar) => node.attrs[0].int() == slot as i64,
        (MemRef::Index, Op::Iota) => flat_of(read, point) == counted(node, ty, element.flat(graph)),
        _ => false,
    };
    found && ty.dtype == read.dtype
}

/// The number that an iota has at a flat index.
fn counted(iota: &Node, ty: &Ty, flat: i64) -> i64 {
    unravel(&ty.sizes, flat)[iota.attrs[1].int() as usize]
}

/// Whether a fused kernel computes the node: the first result for the loop body, all others to be stored.
fn is_head(graph: &Graph, step: &Step, body: &LoopBody, node: &Node) -> bool {
    let Kernel::Fused { op, attrs, .. } = &step.kernel else { return false };
    let count = step.kernel.operands(step.reads.len());
    let ty = graph.ty(node.first);
    node.op == *op
        && node.attrs == *attrs
        && ty.dtype == body.reads[0]
        && ty.numel() == numel(&body.sizes)
        && node.outputs().skip(1).eq(step.results_of[body.results.len()..].iter().copied())
        && operands(graph, step, count, node).is_ok()
}

/// Whether two values are the same: two inputs of the same number are the same memory, and parameters
/// may be gathered again.
fn is_same_value(graph: &Graph, a: ValueId, b: ValueId) -> bool {
    let (x, y) = (graph.maker(a), graph.maker(b));
    a == b
        || match (x.op, y.op) {
            (Op::Input, Op::Input) => x.attrs[0] == y.attrs[0],
            (Op::Host, Op::Host) => a == x.first && b == y.first && gathers_same(graph, x, y),
            _ => false,
        }
}

/// Whether one of two all-gathers is of parameters and the next one is of the same again, as all those of this tensor come in turn.
fn gathers_same(graph: &Graph, x: &Node, y: &Node) -> bool {
    let Operands { given, token, .. } = collective::operands(Kind::AllGather);
    let Some(given) = given else { return false };
    let what = |node: &Node| match collective::of(&node.attrs) {
        Some((Kind::AllGather, numbers)) => numbers[0],
        _ => gathered::ANYTHING,
    };
    let of_parameters = |node: &&Node| node.op == Op::Host && what(node) != gathered::ANYTHING;
    let origin = |node: &Node| first_token(graph, node.inputs[token]);
    let of_same = |node: &&Node| {
        node.inputs[given] == x.inputs[given] && is_same_value(graph, origin(node), origin(x))
    };
    if !of_parameters(&x) || !of_parameters(&y) {
        return false;
    }
    let all: Vec<&Node> = graph.nodes.iter().filter(of_parameters).filter(of_same).collect();
    let in_turn = |(at, node): (usize, &&Node)| {
        let again = what(node) == gathered::PARAMETERS_AGAIN;
        again == (at % 2 == 1)
    };
    let place = |of: &Node| all.iter().position(|node| node.first == of.first);
    let pair = place(x).zip(place(y)).is_some_and(|(x, y)| x / 2 == y / 2);
    pair && all.iter().enumerate().all(in_turn)
}

fn flat_of(read: &Operand, point: &[i64]) -> i64 {
    read.layout.offset + read.layout.strides.iter().zip(point).map(|(s, i)| s * i).sum::<i64>()
}

fn ravel(sizes: &[i64], point: &[i64]) -> i64 {
    contiguous_strides(sizes).iter().zip(point).map(|(s, i)| s * i).sum()
}

fn unravel(sizes: &[i64], flat: i64) -> Vec<i64> {
    contiguous_strides(sizes).iter().zip(sizes).map(|(s, n)| flat / s % n).collect()
}

/// Points that tell two layouts apart: the first and the last, one step and all steps along every dimension, and some
/// that are spread over the space.
fn points(sizes: &[i64]) -> Vec<Vec<i64>> {
    if sizes.contains(&0) {
        return Vec::new();
    }
    let zero = vec![0; sizes.len()];
    let last: Vec<i64> = sizes.iter().map(|n| n - 1).collect();
    let mut points = vec![zero.clone(), last.clone()];
    for d in (0..sizes.len()).filter(|&d| sizes[d] > 1) {
        for i in [1, sizes[d] - 1] {
            let mut point = zero.clone();
            point[d] = i;
            points.push(point);
        }
    }
    for k in 1..=4i64 {
        // Multiples of the golden ratio's bits: far from each other and from the edges of power-of-two tiles.
        let spread = |(d, n): (usize, &i64)| (k + d as i64).wrapping_mul(0x9e37_79b9) % n;
        points.push(sizes.iter().enumerate().map(spread).collect());
    }
    points.dedup();
    points
}
