//! A module's body as a graph of its own, and back.

use super::{Graph, Node, NodeId, Value, ValueId};
use crate::op::module::{Body, BodyNode};
use crate::op::{Attr, Attrs, Op, Tys};
use smallvec::{SmallVec, smallvec};

/// A graph with the body's values, by the same numbers: its operands are the inputs. The body is one that its row accepts.
pub fn graph_of(body: &Body) -> Graph {
    let mut graph = Graph::default();
    let mut push = |op, attrs: Attrs, inputs: SmallVec<[ValueId; 4]>, types: Tys| {
        let (id, first) = (NodeId(graph.nodes.len() as u32), ValueId(graph.values.len() as u32));
        let n_outputs = types.len() as u32;
        let value = |(index, ty)| Value { node: id, index: index as u32, ty };
        graph.values.extend(types.into_iter().enumerate().map(value));
        graph.nodes.push(Node { op, attrs, inputs, first, n_outputs, site: 0, record: 0 });
    };
    for (index, ty) in body.operands.iter().enumerate() {
        let attrs = smallvec![Attr::Int(index as i64), Attr::Types(vec![ty.clone()])];
        push(Op::Input, attrs, smallvec![], smallvec![ty.clone()]);
    }
    for node in &body.nodes {
        let inputs = node.inputs.iter().map(|&v| ValueId(v)).collect();
        push(node.op, node.attrs.clone(), inputs, node.outputs.clone());
    }
    graph.outputs = body.results.iter().map(|&v| ValueId(v)).collect();
    graph
}

/// The body that a graph is whose first `operands` nodes are its inputs.
pub fn body_of(graph: &Graph, operands: usize) -> Body {
    let types = |node: &Node| node.outputs().map(|v| graph.ty(v).clone()).collect();
    let node = |node: &Node| BodyNode {
        op: node.op,
        attrs: node.attrs.clone(),
        inputs: node.inputs.iter().map(|v| v.0).collect(),
        outputs: types(node),
    };
    let (inputs, nodes) = graph.nodes.split_at(operands);
    Body {
        operands: inputs.iter().map(|node| graph.ty(node.first).clone()).collect(),
        nodes: nodes.iter().map(node).collect(),
        results: graph.outputs.iter().map(|v| v.0).collect(),
    }
}
