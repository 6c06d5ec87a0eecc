//! The body of a module, or of a part of a loop, as a graph of its own, and back.

use super::{Graph, Node, NodeId, Value, ValueId};
use crate::op::module::{Body, BodyNode};
use crate::op::{Attr, Attrs, Op, Ty, Tys};
use smallvec::{SmallVec, smallvec};

/// The body as a graph with the same numbers of values; its operands become inputs. Its row must accept the body.
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

/// The body of a graph whose first `operands` nodes are its inputs.
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

/// The body of the live nodes of a graph, whose input `i` is number `place(i)` of these operands.
pub fn body_among(graph: &Graph, operands: &[Ty], place: impl Fn(usize) -> usize) -> Body {
    let live = graph.live(&graph.outputs);
    let mut numbers: Vec<u32> = vec![u32::MAX; graph.values.len()];
    let mut body = Body { operands: operands.to_vec(), nodes: Vec::new(), results: Vec::new() };
    let mut next = operands.len() as u32;
    for (node, _) in graph.nodes.iter().zip(live).filter(|(_, live)| *live) {
        if node.op == Op::Input {
            numbers[node.first.0 as usize] = place(node.attrs[0].int() as usize) as u32;
            continue;
        }
        for value in node.outputs() {
            numbers[value.0 as usize] = next;
            next += 1;
        }
        body.nodes.push(BodyNode {
            op: node.op,
            attrs: node.attrs.clone(),
            inputs: node.inputs.iter().map(|v| numbers[v.0 as usize]).collect(),
            outputs: node.outputs().map(|v| graph.ty(v).clone()).collect(),
        });
    }
    body.results = graph.outputs.iter().map(|v| numbers[v.0 as usize]).collect();
    body
}
