//! A graph as XLA is to have it: with results that say what its primitives refuse, and without what XLA computes otherwise.

use super::checks::{Check, check};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{Math, V};
use crate::graph::{Graph, ValueId};
use crate::op::Op;

/// The checks' numbers are the last results, in order.
pub fn lower(graph: &Graph) -> Result<(Graph, Vec<Check>)> {
    let math = Math::default();
    let mut new: Vec<ValueId> = Vec::with_capacity(graph.values.len());
    let (mut checks, mut numbers) = (Vec::new(), Vec::new());
    // Nodes of this kind keep alive what nobody reads; here that is a result.
    for node in graph.nodes.iter().filter(|node| node.op != Op::Check) {
        math.set_origin(node.site, node.record);
        let x: Vec<V> = node.inputs.iter().map(|v| math.wrap(new[v.0 as usize])).collect();
        match node.op {
            Op::Pow if x[0].dtype().is_int() => new.push(power(x[0], x[1]).id),
            op => new.extend(math.ops(op, &x, node.attrs.clone())?.iter().map(|v| v.id)),
        }
        if let Some((check, number)) = check(graph, node, &x)? {
            checks.push(check);
            numbers.push(number.id);
        }
    }
    math.check()?;
    let results = graph.outputs.iter().map(|v| new[v.0 as usize]).chain(numbers).collect();
    Ok((math.into_builder().finish(results), checks))
}

/// By repeated squaring. XLA rewrites powers of integers as if they were real: `a / b^c` becomes `a * b^-c`, and `0^-1` is `1 / 0`.
fn power<'m>(base: V<'m>, exponent: V<'m>) -> V<'m> {
    let dtype = base.dtype();
    let int = |n: i64| base.math().constant_int(n, dtype);
    let is_signed = dtype != DType::U8;
    let bits = 8 * dtype.size() - usize::from(is_signed);
    let (mut square, mut result) = (base, int(1).broadcast(&base.sizes()));
    for bit in 0..bits {
        let is_set = exponent.and(int(1 << bit)).ne(0.0);
        result = is_set.select(result * square, result);
        square = square * square;
    }
    if !is_signed {
        return result;
    }
    let sign = exponent.and(int(1)).ne(0.0).select(int(-1), int(1));
    let inverse = base.eq(1.0).select(int(1), base.eq(-1.0).select(sign, int(0)));
    exponent.lt(0.0).select(inverse, result)
}
