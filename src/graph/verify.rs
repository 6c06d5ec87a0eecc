//! Proves that a graph is well formed, sharing no code with the builder of graphs. In every graph that passes:
//!
//! 1. values are dense: the outputs of node 0, then of node 1, …, and every value names its node and its index there;
//! 2. operands come before use: each was made by an earlier node;
//! 3. every node has as many operands as its row accepts, and as many attributes as it names;
//! 4. the types of a node's outputs are those that its row infers, which refuses attributes of the wrong kind;
//! 5. `input` nodes of one index agree on the type, `scalar` nodes of one slot on the dtype;
//! 6. the outputs of the program exist.
//!
//! Not proved, because not required: that equal nodes are one node, and that every node is used.

use super::{Graph, NodeId};
use crate::error::Result;
use crate::internal;
use crate::op::{Op, Ty};
use smallvec::SmallVec;
use std::collections::HashMap;

/// `Err` (internal) names the first node that breaks an invariant, and the invariant.
pub fn verify(graph: &Graph) -> Result<()> {
    let mut next = 0;
    let mut leaves = HashMap::new();
    for id in graph.node_ids() {
        let node = graph.node(id);
        let place = || format!("node {} ({})", id.0, node.op.name());
        if node.first.0 != next {
            return internal!("{}: first value is %{}, not %{next}", place(), node.first.0);
        }
        next += node.n_outputs;
        check_values(graph, id).map_err(|e| e.within(place()))?;
        check_types(graph, id).map_err(|e| e.within(place()).at(node.site))?;
        if matches!(node.op, Op::Input | Op::Scalar) {
            let number = node.attrs[0].int();
            let ty = graph.ty(node.first);
            if *leaves.entry((node.op, number)).or_insert(ty) != ty {
                return internal!("{}: {number} has two types", place());
            }
        }
    }
    if next as usize != graph.values.len() {
        return internal!("{} values, but the nodes make {next}", graph.values.len());
    }
    match graph.outputs.iter().find(|v| v.0 >= next) {
        Some(v) => internal!("output %{} does not exist", v.0),
        None => Ok(()),
    }
}

/// Checks invariants 1 and 2.
fn check_values(graph: &Graph, id: NodeId) -> Result<()> {
    let node = graph.node(id);
    if let Some(v) = node.inputs.iter().find(|v| v.0 >= node.first.0) {
        return internal!("operand %{} is not made by an earlier node", v.0);
    }
    for (index, v) in node.outputs().enumerate() {
        match graph.values.get(v.0 as usize) {
            Some(value) if value.node == id && value.index == index as u32 => {}
            Some(_) => return internal!("%{} says it is made elsewhere", v.0),
            None => return internal!("%{} has no entry", v.0),
        }
    }
    Ok(())
}

/// Checks invariants 3 and 4.
fn check_types(graph: &Graph, id: NodeId) -> Result<()> {
    let node = graph.node(id);
    let row = node.op.row();
    if !row.arity.accepts(node.inputs.len()) {
        return internal!("{} operands where {:?} are expected", node.inputs.len(), row.arity);
    }
    if node.attrs.len() != row.attrs.len() {
        return internal!("{} attributes where {:?} are expected", node.attrs.len(), row.attrs);
    }
    let types: SmallVec<[&Ty; 4]> = node.inputs.iter().map(|&v| graph.ty(v)).collect();
    let inferred = (row.infer)(&types, &node.attrs)?;
    if inferred.len() != node.n_outputs as usize {
        return internal!("{} outputs, but {} are inferred", node.n_outputs, inferred.len());
    }
    for (v, expected) in node.outputs().zip(&inferred) {
        if graph.ty(v) != expected {
            return internal!("%{} is {}, but {expected} is inferred", v.0, graph.ty(v));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::{Builder, ValueId};
    use crate::op::Attr;

    fn small() -> Graph {
        let mut b = Builder::new();
        let x = b.input(0, Ty::new(DType::F32, &[2, 3])).unwrap();
        let y = b.transpose(x, &[1, 0]).unwrap();
        let z = b.input(1, Ty::new(DType::F32, &[3, 2])).unwrap();
        let sum = b.binary(Op::Add, y, z).unwrap();
        b.finish(vec![sum])
    }

    fn check(break_it: impl FnOnce(&mut Graph), expected: &str) {
        let mut graph = small();
        break_it(&mut graph);
        let message = verify(&graph).expect_err("a broken graph passed").message;
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    }

    #[test]
    fn every_invariant_is_noticed() {
        verify(&small()).unwrap();
        check(|g| g.nodes[1].first = ValueId(2), "first value");
        check(|g| g.values[1].index = 1, "made elsewhere");
        check(|g| g.values.truncate(3), "no entry");
        check(|g| g.values.push(g.values[0].clone()), "5 values");
        check(|g| g.nodes[1].inputs[0] = ValueId(3), "earlier node");
        check(|g| g.nodes[3].inputs.truncate(1), "operands");
        check(|g| g.nodes[1].attrs.clear(), "attributes");
        check(|g| g.nodes[1].attrs[0] = Attr::Int(0), "expected attributes");
        check(|g| g.values[1].ty.sizes[0] = 7, "is inferred");
        check(|g| g.nodes[2].attrs[0] = Attr::Int(0), "two types");
        check(|g| g.nodes[2].attrs[0] = Attr::Int(-1), "expected attributes");
        check(|g| g.outputs.push(ValueId(9)), "%9 does not exist");
    }
}
