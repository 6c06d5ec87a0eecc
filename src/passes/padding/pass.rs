//! The pass: a graph for sizes that vary becomes one for a bucket's sizes, with masks.

use super::axes::{Axis, Part};
use super::padded::{Pad, PaddedValue, Pass, SizeArg, Splits, dims, whole};
use super::points::Points;
use super::{Stop, refused, rules};
use crate::graph::{Graph, Node, ValueId};
use crate::op::Op;
use std::collections::BTreeMap;

/// The result of the pass.
pub struct Made {
    pub graph: Graph,
    /// The dimensions of every leaf that the graph reads.
    pub inputs: BTreeMap<u32, Vec<Axis>>,
    pub outputs: Vec<Vec<Axis>>,
    pub size_args: Vec<SizeArg>,
}

/// Pads the graph; numbers that its masks need are passed in slots from `first_slot` on.
pub fn pad(points: &Points, splits: &Splits, first_slot: u32) -> Result<Made, Stop> {
    let graph = points.here();
    let mut pass = Pass::new(points, splits, first_slot);
    for (n, node) in graph.nodes.iter().enumerate() {
        (pass.b.site, pass.b.record) = (node.site, node.record);
        let results = pass.node(n, node).map_err(|stop| stop.within(node.op))?;
        pass.check(node, &results)?;
        pass.values.extend(results);
    }
    let outputs: Vec<&PaddedValue> =
        graph.outputs.iter().map(|v| &pass.values[v.0 as usize]).collect();
    let axes = outputs.iter().map(|padded_value| padded_value.axes.clone()).collect();
    let ids = outputs.iter().map(|padded_value| padded_value.id).collect();
    let Pass { b, inputs, size_args, .. } = pass;
    Ok(Made { graph: b.finish(ids), inputs, outputs: axes, size_args })
}

impl Pass<'_> {
    fn node(&mut self, n: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
        let fixed = !node.inputs.iter().any(|v| self.value(*v).varies())
            && node.outputs().all(|v| self.points.has_fixed_sizes(v))
            && self.points.has_fixed_attrs(n);
        if !fixed || node.op == Op::Input {
            return rules::rule(self, n, node);
        }
        let pad = self.uniform(node)?;
        let inputs: Vec<ValueId> = node.inputs.iter().map(|v| self.value(*v).id).collect();
        let ids = self.b.ops(node.op, &inputs, node.attrs.clone())?;
        let padded_value = |(id, v): (&ValueId, ValueId)| PaddedValue {
            id: *id,
            axes: self.points.sizes(v).into_iter().map(whole).collect(),
            pad: pad.clone(),
        };
        Ok(ids.iter().zip(node.outputs()).map(padded_value).collect())
    }

    /// The padding of a node of fixed sizes: uniform if it gives one number everywhere.
    fn uniform(&self, node: &Node) -> Result<Pad, Stop> {
        let of = |i: usize| self.value(node.inputs[i]).pad.clone();
        Ok(match node.op {
            Op::Const | Op::ConstInt => {
                let ty = self.points.here().ty(node.first).clone();
                let made = crate::op::evaluate::evaluate(node.op, &[], &node.attrs, &[ty])?;
                Pad::Uniform(made.into_iter().next().ok_or_else(|| Stop::new("no constant"))?)
            }
            Op::Broadcast | Op::Reshape | Op::Transpose | Op::Slice => of(0),
            _ => Pad::Any,
        })
    }

    /// Refuses a rule's results if their sizes are not those of the trace, in hand and padded.
    fn check(&self, node: &Node, results: &[PaddedValue]) -> Result<(), Stop> {
        let one = self.points.one();
        for (padded_value, v) in results.iter().zip(node.outputs()) {
            let sizes = self.points.sizes(v);
            let equal = padded_value.axes.len() == sizes.len()
                && padded_value
                    .axes
                    .iter()
                    .zip(&sizes)
                    .all(|(axis, size)| axis.size(&one) == *size);
            let padded = *self.b.ty(padded_value.id).sizes == *dims(&padded_value.axes);
            let grows = |part: &Part| part.size.here() <= part.size.bucket();
            if !equal || !padded || !padded_value.axes.iter().all(|axis| axis.0.iter().all(grows)) {
                return refused(format!("{}: sizes that do not grow together", node.op.name()));
            }
        }
        Ok(())
    }
}
