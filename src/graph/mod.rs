//! The IR: a list of nodes in topological order, values by dense ids. No node points at memory.
//!
//! **Invariant:** touches shapes, dtypes and structure only; a node's operands come before it; equal pure nodes are
//! one node while a graph is built ([`Builder`]).

pub mod builder;
pub mod generate;
pub mod interpret;
pub mod linalg;
pub(crate) mod math;
pub mod module;
pub mod text;
pub mod verify;

use crate::error::Site;
use crate::op::{Attrs, Class, Op, Ty};
pub use builder::Builder;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Index into [`Graph::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);

/// Index into [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub op: Op,
    pub attrs: Attrs,
    pub inputs: SmallVec<[ValueId; 4]>,
    /// First of the node's outputs; the others follow.
    pub first: ValueId,
    pub n_outputs: u32,
    /// The call site in the user's program that this node comes from; not part of what it computes.
    pub site: Site,
    /// Index of the record this node came from, plus one; 0 when unknown. For error messages.
    pub record: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub node: NodeId,
    /// Index among the node's outputs.
    pub index: u32,
    pub ty: Ty,
}

/// A program: from inputs and scalars to outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub values: Vec<Value>,
    pub outputs: Vec<ValueId>,
    /// Conditions under which a program of the same structure would be rewritten as this one was.
    pub guards: Vec<Guard>,
}

/// A margin that must not be negative, on which a lowering or a rewrite relies. It holds in the graph; at other sizes, or for
/// views that begin elsewhere, it may not: a read then meets elements that were overwritten, or a search needs one more round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    pub says: Relation,
    /// The part of a concatenation that the relation is about, if any: other parts have other margins.
    pub part: u32,
    /// The dimension of the arrays compared.
    pub dim: u32,
    pub margin: i64,
}

impl Guard {
    /// A size is between two others, ends included.
    pub fn between(least: i64, size: i64, most: i64) -> [Guard; 2] {
        let begins = Guard { says: Relation::BeginsWithin, part: 0, dim: 0, margin: size - least };
        [begins, Guard::at_most(size, most)]
    }

    /// A size is at most another one.
    pub fn at_most(size: i64, most: i64) -> Guard {
        Guard { says: Relation::EndsWithin, part: 0, dim: 0, margin: most - size }
    }

    /// A number is less or greater than another one; `None` for equal numbers, which are a special case.
    pub fn order(a: i64, b: i64) -> Option<Guard> {
        let says = if a < b { Relation::Before } else { Relation::After };
        let margin = i64::try_from(a.abs_diff(b)).ok()?.checked_sub(1)?;
        (margin >= 0).then_some(Guard { says, part: 0, dim: 0, margin })
    }
}

/// The relation of a run of elements, or a number, to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It ends before the other one begins.
    Before,
    /// It begins after the other one ends.
    After,
    /// It does not begin before the other one.
    BeginsWithin,
    /// It does not end after the other one.
    EndsWithin,
    /// One of the two has no elements.
    Empty,
}

impl Graph {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    pub fn ty(&self, id: ValueId) -> &Ty {
        &self.value(id).ty
    }

    /// The node that makes a value.
    pub fn maker(&self, id: ValueId) -> &Node {
        self.node(self.value(id).node)
    }

    pub fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Which nodes are needed for `outputs`, or for nodes with effects.
    pub fn live(&self, outputs: &[ValueId]) -> Vec<bool> {
        let mut live: Vec<bool> = self.nodes.iter().map(|n| n.op.class() == Class::Host).collect();
        outputs.iter().for_each(|&v| live[self.value(v).node.0 as usize] = true);
        for (id, node) in self.nodes.iter().enumerate().rev() {
            if live[id] {
                node.inputs.iter().for_each(|&v| live[self.value(v).node.0 as usize] = true);
            }
        }
        live
    }

    /// Number of uses of each value: as an operand or as an output of the program.
    pub fn use_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.values.len()];
        let operands = self.nodes.iter().flat_map(|n| n.inputs.iter());
        for v in operands.chain(&self.outputs) {
            counts[v.0 as usize] += 1;
        }
        counts
    }
}

impl Node {
    pub fn outputs(&self) -> impl Iterator<Item = ValueId> + use<> {
        (self.first.0..self.first.0 + self.n_outputs).map(ValueId)
    }

    pub fn output(&self, index: u32) -> ValueId {
        debug_assert!(index < self.n_outputs);
        ValueId(self.first.0 + index)
    }
}
