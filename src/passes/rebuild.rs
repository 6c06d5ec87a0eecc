//! Shared by passes: a graph is never changed in place, but built anew node by node, so that every value a rule
//! looks at is already rewritten, types are inferred again and equal nodes become one.

use crate::error::Result;
use crate::graph::{Builder, Graph, ValueId};
use crate::internal;
use crate::op::{Attrs, Op};
use smallvec::SmallVec;
use std::borrow::Cow;

pub type Values = SmallVec<[ValueId; 4]>;

/// A node of the old graph whose operands are values of the new one.
pub struct Item<'a> {
    pub op: Op,
    pub attrs: &'a Attrs,
    pub inputs: Values,
}

/// Copies `graph`, except that a node for which `rule` returns values is replaced by them. They must have the types
/// of the node's outputs. Nodes that the rule builds get the node's site and record. Borrowed if the copy is the same.
pub fn rebuild(
    graph: &Graph,
    mut rule: impl FnMut(&mut Builder, &Item) -> Result<Option<Values>>,
) -> Result<Cow<'_, Graph>> {
    let mut b = Builder::rewriting(graph);
    let mut new: Vec<ValueId> = Vec::with_capacity(graph.values.len());
    let mut is_same = true;
    for (id, node) in graph.nodes.iter().enumerate() {
        (b.site, b.record) = (node.site, node.record);
        let inputs = node.inputs.iter().map(|v| new[v.0 as usize]).collect();
        let item = Item { op: node.op, attrs: &node.attrs, inputs };
        let values = match rule(&mut b, &item)? {
            Some(values) => {
                is_same = is_same && b.graph().nodes.get(id) == Some(node);
                values
            }
            None => b.ops(item.op, &item.inputs, item.attrs.clone())?,
        };
        let same = |(old, new): (ValueId, &ValueId)| graph.ty(old) == b.ty(*new);
        if values.len() != node.n_outputs as usize || !node.outputs().zip(&values).all(same) {
            return internal!("{} was replaced by values of other types", node.op.name());
        }
        is_same = is_same && node.outputs().eq(values.iter().copied());
        new.extend(values);
    }
    if is_same && b.graph().nodes.len() == graph.nodes.len() {
        return Ok(Cow::Borrowed(graph));
    }
    let outputs = graph.outputs.iter().map(|v| new[v.0 as usize]).collect();
    Ok(Cow::Owned(b.finish(outputs)))
}
