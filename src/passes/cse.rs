//! Common subexpression elimination.

use super::rebuild::{Item, Values, rebuild};
use crate::error::Result;
use crate::graph::{Builder, Graph};
use crate::op::Op;
use std::borrow::Cow;

/// Operands whose order does not matter are sorted; then the builder makes equal nodes one.
/// CPU fallbacks stay apart: two equal ones may draw two random numbers.
///
/// ```text
/// %2: f32[2] = add(%0, %1)            %2: f32[2] = add(%0, %1)
/// %3: f32[2] = add(%1, %0)      →     %3: f32[2] = mul(%2, %2)
/// %4: f32[2] = mul(%2, %3)            return %3
/// return %4
/// ```
pub fn cse(graph: &Graph) -> Result<Cow<'_, Graph>> {
    rebuild(graph, rule)
}

pub(super) fn rule(b: &mut Builder, item: &Item) -> Result<Option<Values>> {
    if !commutes(item.op) || item.inputs.is_sorted() {
        return Ok(None);
    }
    let mut inputs = item.inputs.clone();
    inputs.sort_unstable();
    b.ops(item.op, &inputs, item.attrs.clone()).map(Some)
}

/// Whether the operands can be swapped with the same bits. `max` and `min` cannot: of 0.0 and -0.0 the first wins.
fn commutes(op: Op) -> bool {
    matches!(op, Op::Add | Op::Mul | Op::And | Op::Or | Op::Xor | Op::Eq | Op::Ne)
}
