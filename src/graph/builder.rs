//! Builds a graph node by node: infers types, refuses nodes that their rows refuse, and gives an equal pure node the ids
//! of the one that is there already (hash-consing, so common subexpressions never arise).

use super::{Graph, Guard, Node, NodeId, Value, ValueId};
use crate::dtype::{DType, Float8};
use crate::error::{Result, Site};
use crate::op::array::as_integer;
use crate::op::{Attr, Attrs, Class, Op, Ty};
use crate::shape::Dims;
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

#[derive(Default)]
pub struct Builder {
    graph: Graph,
    /// By the hash of operator, attributes and operands, whose equality then decides. Of nodes with one hash, only the first.
    known: HashMap<u64, NodeId, BuildHasherDefault<Mix>>,
    /// The site of every node made from now on.
    pub site: Site,
    /// As [`Node::record`].
    pub record: u32,
}

/// A fast hash that is the same in every process: every pass looks up every node.
#[derive(Default)]
struct Mix(u64);

impl Mix {
    fn add(&mut self, word: u64) {
        let product = (self.0 ^ word) as u128 * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(word);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.add(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.add(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    /// A builder for a rewritten `graph`, with its guards and room for its nodes.
    pub fn rewriting(graph: &Graph) -> Builder {
        let nodes = graph.nodes.len();
        let mut builder = Builder::default();
        builder.graph.nodes.reserve(nodes);
        builder.graph.values.reserve(nodes);
        builder.graph.guards.clone_from(&graph.guards);
        builder.known.reserve(nodes);
        builder
    }

    /// Records conditions that a rewrite relies on.
    pub fn guard(&mut self, guards: impl IntoIterator<Item = Guard>) {
        self.graph.guards.extend(guards);
    }

    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    pub fn ty(&self, v: ValueId) -> &Ty {
        self.graph.ty(v)
    }

    pub fn finish(mut self, outputs: Vec<ValueId>) -> Graph {
        self.graph.outputs = outputs;
        self.graph
    }

    /// Adds a node (or finds its equal) and returns it. Errors: those of the row's `infer`.
    pub fn node(&mut self, op: Op, inputs: &[ValueId], attrs: Attrs) -> Result<NodeId> {
        let mut hash = Mix::default();
        (op, &attrs, inputs).hash(&mut hash);
        let hash = hash.finish();
        if let Some(&id) = self.known.get(&hash) {
            let node = self.graph.node(id);
            if node.op == op && node.attrs == attrs && node.inputs[..] == *inputs {
                return Ok(id);
            }
        }
        let outputs = {
            let types: SmallVec<[&Ty; 4]> = inputs.iter().map(|&v| self.graph.ty(v)).collect();
            op.infer(&types, &attrs).map_err(|e| e.at(self.site))?
        };
        let id = NodeId(self.graph.nodes.len() as u32);
        let first = ValueId(self.graph.values.len() as u32);
        let n_outputs = outputs.len() as u32;
        for (index, ty) in outputs.into_iter().enumerate() {
            self.graph.values.push(Value { node: id, index: index as u32, ty });
        }
        self.graph.nodes.push(Node {
            op,
            attrs,
            inputs: SmallVec::from_slice(inputs),
            first,
            n_outputs,
            site: self.site,
            record: self.record,
        });
        // A CPU fallback may have effects we cannot see: two equal ones stay two.
        if op.class() != Class::Host {
            self.known.entry(hash).or_insert(id);
        }
        Ok(id)
    }

    /// [`Builder::node`] for primitives with one output.
    pub fn op(&mut self, op: Op, inputs: &[ValueId], attrs: Attrs) -> Result<ValueId> {
        let id = self.node(op, inputs, attrs)?;
        Ok(self.graph.node(id).first)
    }

    /// [`Builder::node`], all outputs.
    pub fn ops(
        &mut self,
        op: Op,
        inputs: &[ValueId],
        attrs: Attrs,
    ) -> Result<SmallVec<[ValueId; 4]>> {
        let id = self.node(op, inputs, attrs)?;
        Ok(self.graph.node(id).outputs().collect())
    }

    pub fn input(&mut self, index: u32, ty: Ty) -> Result<ValueId> {
        self.op(Op::Input, &[], smallvec![Attr::Int(index as i64), Attr::Types(vec![ty])])
    }

    pub fn scalar(&mut self, slot: u32, dtype: DType) -> Result<ValueId> {
        self.op(Op::Scalar, &[], smallvec![Attr::Int(slot as i64), Attr::DType(dtype)])
    }

    /// A rank-0 constant, rounded to `dtype`.
    pub fn constant(&mut self, value: f64, dtype: DType) -> Result<ValueId> {
        if dtype.is_float() {
            self.op(Op::Const, &[], smallvec![Attr::Float(value), Attr::DType(dtype)])
        } else {
            self.constant_int(as_integer(value, dtype), dtype)
        }
    }

    /// A rank-0 integer or bool constant.
    pub fn constant_int(&mut self, value: i64, dtype: DType) -> Result<ValueId> {
        if dtype.is_float() {
            return self.constant(value as f64, dtype);
        }
        self.op(Op::ConstInt, &[], smallvec![Attr::Int(value), Attr::DType(dtype)])
    }

    pub fn unary(&mut self, op: Op, x: ValueId) -> Result<ValueId> {
        self.op(op, &[x], smallvec![])
    }

    /// Operands must have equal sizes and dtypes; the caller broadcasts and promotes.
    pub fn binary(&mut self, op: Op, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.op(op, &[a, b], smallvec![])
    }

    pub fn select(&mut self, condition: ValueId, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.op(Op::Select, &[condition, a, b], smallvec![])
    }

    /// Adds no node if the dtype is right already. Goes from and to 8-bit floats through f32, as PyTorch does.
    pub fn cast(&mut self, x: ValueId, dtype: DType) -> Result<ValueId> {
        let from = self.ty(x).dtype;
        if from == dtype {
            return Ok(x);
        }
        let is_float8 = |dtype| Float8::of(dtype).is_some();
        let x = match is_float8(from) || is_float8(dtype) {
            true if from != DType::F32 && dtype != DType::F32 => {
                self.op(Op::Cast, &[x], smallvec![Attr::DType(DType::F32)])?
            }
            _ => x,
        };
        self.op(Op::Cast, &[x], smallvec![Attr::DType(dtype)])
    }

    /// Adds no node if the sizes are right already. One size may be -1.
    pub fn reshape(&mut self, x: ValueId, sizes: &[i64]) -> Result<ValueId> {
        let mut sizes: Dims = sizes.into();
        if let Some(free) = sizes.iter().position(|&s| s == -1) {
            let rest: i64 = sizes.iter().filter(|&&s| s != -1).product();
            sizes[free] = self.ty(x).numel() / rest.max(1);
        }
        if self.ty(x).sizes == sizes {
            return Ok(x);
        }
        self.op(Op::Reshape, &[x], smallvec![Attr::Ints(sizes)])
    }

    /// Adds no node if `perm` is the identity.
    pub fn transpose(&mut self, x: ValueId, perm: &[i64]) -> Result<ValueId> {
        if perm.iter().enumerate().all(|(i, &p)| i as i64 == p) {
            return Ok(x);
        }
        self.op(Op::Transpose, &[x], smallvec![Attr::Ints(perm.into())])
    }

    /// Adds no node if the sizes are right already.
    pub fn broadcast(&mut self, x: ValueId, sizes: &[i64]) -> Result<ValueId> {
        if self.ty(x).sizes.as_slice() == sizes {
            return Ok(x);
        }
        self.op(Op::Broadcast, &[x], smallvec![Attr::Ints(sizes.into())])
    }

    /// Adds no node if the slice takes everything.
    pub fn slice(
        &mut self,
        x: ValueId,
        starts: &[i64],
        sizes: &[i64],
        steps: &[i64],
    ) -> Result<ValueId> {
        if self.ty(x).sizes.as_slice() == sizes {
            return Ok(x);
        }
        let attrs = [starts, sizes, steps].into_iter().map(|list| Attr::Ints(list.into()));
        self.op(Op::Slice, &[x], attrs.collect())
    }

    /// `op` is one of the reductions over `axes`. With `keep`, reduced dimensions stay with size 1.
    pub fn reduce(&mut self, op: Op, x: ValueId, axes: &[i64], keep: bool) -> Result<ValueId> {
        let mut kept = self.ty(x).sizes.clone();
        axes.iter().for_each(|&a| kept[a as usize] = 1);
        let mut sorted: Dims = axes.into();
        sorted.sort_unstable();
        let y = self.op(op, &[x], smallvec![Attr::Ints(sorted)])?;
        if keep { self.reshape(y, &kept) } else { Ok(y) }
    }

    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.binary(Op::Matmul, a, b)
    }
}
