//! Declares all inputs of a program, those that it does not use, too.

use super::rebuild::rebuild;
use crate::error::Result;
use crate::graph::Graph;
use crate::op::Ty;
use std::borrow::Cow;

/// The last pass of a program that others call, since `dce` removes unused inputs.
///
/// ```text
/// %0: f32[2] = input() {index=1, type=(f32[2])}     →     %0: f32[3] = input() {index=0, type=(f32[3])}
/// return %0                                               %1: f32[2] = input() {index=1, type=(f32[2])}
///                                                         return %1
/// ```
pub fn declare<'g>(graph: &'g Graph, inputs: &[Ty]) -> Result<Cow<'g, Graph>> {
    let mut missing = inputs.iter().enumerate();
    rebuild(graph, |b, _| {
        for (index, ty) in missing.by_ref() {
            b.input(index as u32, ty.clone())?;
        }
        Ok(None)
    })
}
