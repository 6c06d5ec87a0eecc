//! Lowers a graph for XLA: adds results that signal refused numbers, and replaces primitives that XLA computes differently.

use super::checks::{Check, check};
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::graph::math::{Math, V};
use crate::graph::module::{body_among, graph_of};
use crate::graph::{Graph, Node, ValueId};
use crate::internal;
use crate::op::while_loop::parts;
use crate::op::{Attr, Op, Ty};
use smallvec::smallvec;
use std::sync::Arc;

/// The checks' numbers are the last results, in order.
pub fn lower(graph: &Graph) -> Result<(Graph, Vec<Check>)> {
    let math = Math::default();
    let Lowered { mut results, checks, numbers } = lowered(&math, graph)?;
    results.extend(numbers);
    let results = results.iter().map(|v| v.id).collect();
    Ok((math.into_builder().finish(results), checks))
}

struct Lowered<'m> {
    results: Vec<V<'m>>,
    checks: Vec<Check>,
    /// The number of each check.
    numbers: Vec<V<'m>>,
}

fn lowered<'m>(math: &'m Math, graph: &Graph) -> Result<Lowered<'m>> {
    let mut new: Vec<ValueId> = Vec::with_capacity(graph.values.len());
    let (mut checks, mut numbers) = (Vec::new(), Vec::new());
    // Nodes of this kind keep unread values alive; here the number of a check is a result.
    for node in graph.nodes.iter().filter(|node| node.op != Op::Check) {
        math.set_origin(node.site, node.record);
        let x: Vec<V> = node.inputs.iter().map(|v| math.wrap(new[v.0 as usize])).collect();
        match node.op {
            Op::Pow if x[0].dtype().is_int() => new.push(power(x[0], x[1]).id),
            Op::While => {
                let inner = while_loop(math, node, &x)?;
                new.extend(inner.results.iter().map(|v| v.id));
                checks.extend(inner.checks);
                numbers.extend(inner.numbers);
            }
            op => new.extend(math.ops(op, &x, node.attrs.clone())?.iter().map(|v| v.id)),
        }
        if let Some((check, number)) = check(graph, node, &x)? {
            checks.push(check);
            numbers.push(number);
        }
    }
    math.check()?;
    let results = graph.outputs.iter().map(|v| math.wrap(new[v.0 as usize])).collect();
    Ok(Lowered { results, checks, numbers })
}

/// A loop that carries the numbers of its round's checks beside its values: each keeps its value once it signals a refusal, which
/// also ends the loop.
fn while_loop<'m>(math: &'m Math, node: &Node, x: &[V<'m>]) -> Result<Lowered<'m>> {
    let Some([condition, round]) = parts(&node.attrs) else {
        return internal!("no parts of a loop");
    };
    let inner = Math::default();
    let Lowered { mut results, checks, numbers } = lowered(&inner, &graph_of(round))?;
    let (carried, count) = (results.len(), checks.len());
    // Inputs after all others, which `place` puts behind the carried values.
    let number = Ty::new(DType::I64, &[]);
    let before =
        |math: &Math, k: usize| math.build(|b| b.input((x.len() + k) as u32, number.clone())).id;
    for (k, (check, new)) in checks.iter().zip(numbers).enumerate() {
        let old = inner.wrap(before(&inner, k));
        results.push(check.refuses(old)?.select(old, new));
    }
    inner.check()?;
    let results = results.iter().map(|v| v.id).collect();
    let round = inner.into_builder().finish(results);

    let inner = Math::default();
    let said = lowered(&inner, &graph_of(condition))?;
    if !said.checks.is_empty() {
        let text = "a loop whose condition refuses numbers does not run on OpenXLA";
        return Err(Error::new(Code::Unsupported, text));
    }
    let mut goes_on = said.results[0];
    for (k, check) in checks.iter().enumerate() {
        goes_on = goes_on.and(check.refuses(inner.wrap(before(&inner, k)))?.not());
    }
    inner.check()?;
    let goes_on = goes_on.id;
    let condition = inner.into_builder().finish(vec![goes_on]);

    let clean = math.constant_int(0, DType::I64);
    let (state, captured) = x.split_at(carried);
    let operands = [state, &vec![clean; count], captured].concat();
    let types: Vec<Ty> = operands.iter().map(|v| math.graph(|g| g.ty(v.id).clone())).collect();
    let place = |i: usize| match i {
        i if i < carried => i,
        i if i < x.len() => i + count,
        i => i - x.len() + carried,
    };
    let body = |graph: &Graph| Attr::Body(Arc::new(body_among(graph, &types, place)));
    let attrs = smallvec![body(&condition), body(&round)];
    let mut results = math.ops(Op::While, &operands, attrs)?;
    let numbers = results.split_off(carried);
    Ok(Lowered { results, checks, numbers })
}

/// Powers of integers by repeated squaring. XLA rewrites these as if they were real: `a / b^c` becomes `a * b^-c`, and `0^-1` is
/// `1 / 0`.
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
