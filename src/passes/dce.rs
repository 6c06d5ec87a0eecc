//! Dead code elimination.

use crate::error::Result;
use crate::graph::{Builder, Graph, ValueId};
use std::borrow::Cow;

/// Keeps the nodes that an output of the program depends on, and every CPU fallback and check with its dependencies: they
/// may have effects, and may fail. Unused inputs and scalars go too.
///
/// ```text
/// %0: f32[2] = input() {…}            %0: f32[2] = input() {…}
/// %1: f32[2] = exp(%0)          →     %1: f32[2] = neg(%0)
/// %2: f32[2] = neg(%0)                return %1
/// return %2
/// ```
pub fn dce(graph: &Graph) -> Result<Cow<'_, Graph>> {
    let live = graph.live(&graph.outputs);
    if live.iter().all(|&live| live) {
        return Ok(Cow::Borrowed(graph));
    }
    let mut b = Builder::rewriting(graph);
    let mut new: Vec<Option<ValueId>> = vec![None; graph.values.len()];
    let renamed = |new: &[Option<ValueId>], v: &ValueId| {
        new[v.0 as usize].expect("operands of live nodes live")
    };
    for id in graph.node_ids().filter(|id| live[id.0 as usize]) {
        let node = graph.node(id);
        (b.site, b.record) = (node.site, node.record);
        let inputs: Vec<ValueId> = node.inputs.iter().map(|v| renamed(&new, v)).collect();
        let values = b.ops(node.op, &inputs, node.attrs.clone())?;
        node.outputs().zip(values).for_each(|(v, to)| new[v.0 as usize] = Some(to));
    }
    let outputs = graph.outputs.iter().map(|v| renamed(&new, v)).collect();
    Ok(Cow::Owned(b.finish(outputs)))
}
