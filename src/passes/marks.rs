//! Removes marks and detached values, which only gradients need.

use super::rebuild::{Values, rebuild};
use crate::error::Result;
use crate::graph::Graph;
use crate::op::Op;
use std::borrow::Cow;

/// The first pass, so that no other one needs to know of them.
///
/// ```text
/// %1: f32[2] = mark(%0) {number=0}     →     %1: f32[2] = exp(%0)
/// %2: f32[2] = exp(%1)                       return %1
/// return %2
/// ```
pub fn marks(graph: &Graph) -> Result<Cow<'_, Graph>> {
    let goes = |op| matches!(op, Op::Mark | Op::Detach);
    // Most graphs have none.
    if !graph.nodes.iter().any(|node| goes(node.op)) {
        return Ok(Cow::Borrowed(graph));
    }
    rebuild(graph, |_, item| Ok(goes(item.op).then(|| Values::from_slice(&item.inputs))))
}
