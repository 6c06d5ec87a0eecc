//! Gradients: reverse mode over the graph under construction, one rule per primitive.
//!
//! **Invariant:** touches builder calls only. Every [`Op`] has a rule in [`table`], or is declared to stop gradients or to
//! have none; a rule expresses the gradient in primitives, so gradients have gradients.
//!
//! A *cotangent* of a value is the derivative of the loss with respect to it: same dtype, same sizes. Where a function has
//! a kink the rules choose as PyTorch does (`abs` at 0: 0; equal operands of `max`: half each; equal maxima: equal shares).

mod collective;
mod contraction;
mod index;
mod movement;
mod nn;
mod pointwise;
mod reduce;
mod table;
#[cfg(test)]
mod tests;

use crate::dtype::Float8;
use crate::error::{Code, Error, Result};
use crate::graph::math::{Math, V};
use crate::graph::{Graph, NodeId, ValueId};
use crate::invalid;
use crate::op::{Attr, Attrs, Op, host};
use collective::Tokens;
pub use index::of_max_pool;
pub use reduce::{of_cumprod, of_prod, places_of_cummax};
use table::{Rule, rule};

/// A node whose results have cotangents, and all that its rule may use.
struct Step<'m, 's> {
    math: &'m Math,
    id: NodeId,
    tokens: &'s Tokens<'m>,
    attrs: Attrs,
    /// Operands and results.
    x: Vec<V<'m>>,
    y: Vec<V<'m>>,
    /// Cotangents of the results; `None` where the loss does not depend on one.
    cotangents: Vec<Option<V<'m>>>,
    /// Whether the cotangent of an operand is asked for.
    wanted: Vec<bool>,
}

/// Cotangents of a node's operands, where there are any.
type Flow<'m> = Result<Vec<Option<V<'m>>>>;

impl<'m> Step<'m, '_> {
    /// The cotangent of result `n`.
    fn cotangent(&self, n: usize) -> V<'m> {
        let y = self.y[n];
        self.cotangents[n].unwrap_or_else(|| self.math.zeros(y.dtype(), &y.sizes()))
    }

    /// The cotangent of the only result.
    fn dy(&self) -> V<'m> {
        self.cotangent(0)
    }

    /// `make`s the cotangent of operand `n` if it is asked for.
    fn of(&self, n: usize, make: impl FnOnce() -> V<'m>) -> Option<V<'m>> {
        self.wanted[n].then(make)
    }

    fn int(&self, n: usize) -> i64 {
        self.attrs[n].int()
    }

    fn ints(&self, n: usize) -> &[i64] {
        self.attrs[n].ints()
    }
}

/// The derivatives of `loss`, one float, with respect to the floats `wrt`, in their types; zeros where the loss does not
/// depend on one. Two of `wrt` that are to be distinguished must be two nodes ([`Op::Mark`]). `tokens` are those of
/// communicators after the last collectives; they are returned as they are after the gradient's own collectives.
///
/// Errors: `InvalidArgument` for a loss or a `wrt` of another type; `Unsupported`, at the node's site, when the loss depends
/// on one of `wrt` through an operation that has no gradient.
pub fn gradients<'m>(
    math: &'m Math,
    loss: V<'m>,
    wrt: &[V<'m>],
    tokens: Vec<V<'m>>,
) -> Result<(Vec<V<'m>>, Vec<V<'m>>)> {
    math.check()?;
    let tokens = Tokens::new(math, tokens);
    let ty = loss.ty();
    if ty.numel() != 1 || !ty.dtype.is_float() {
        return invalid!("the loss must be one float, but is {ty}");
    }
    if let Some(v) = wrt.iter().find(|v| !v.dtype().is_float()) {
        return invalid!("there are gradients with respect to floats only, not {}", v.ty());
    }
    let last = math.graph(|graph| graph.value(loss.id).node);
    let varies = math.graph(|graph| varying(graph, last, wrt));
    let mut cotangents: Vec<Option<V>> = vec![None; varies.len()];
    if let Some(seed) = cotangents.get_mut(loss.id.0 as usize) {
        *seed = Some(math.full(1.0, ty.dtype, &ty.sizes));
    }
    for id in (0..=last.0).rev().map(NodeId) {
        let Some(op) = math.graph(|graph| reached(graph, id, &varies, &cotangents)) else {
            continue;
        };
        let step = math.graph(|graph| step(math, graph, (id, &tokens), &varies, &cotangents));
        let found = match rule(op) {
            Rule::Flows(rule) => rule(&step)?,
            Rule::Stops => continue,
            Rule::Refuses => return Err(math.graph(|graph| refused(graph, id))),
        };
        math.check()?;
        for ((x, found), wanted) in step.x.iter().zip(found).zip(&step.wanted) {
            let Some(found) = found.filter(|_| *wanted) else { continue };
            let sum = &mut cotangents[x.id.0 as usize];
            *sum = Some(sum.map_or(found, |sum| added(sum, found)));
        }
    }
    let gradient = |v: &V<'m>| {
        let found = cotangents.get(v.id.0 as usize).copied().flatten();
        found.unwrap_or_else(|| math.zeros(v.dtype(), &v.sizes()))
    };
    let gradients = wrt.iter().map(gradient).collect();
    math.check()?;
    Ok((gradients, tokens.into_now()))
}

fn added<'m>(a: V<'m>, b: V<'m>) -> V<'m> {
    if a.dtype().is_complex() { (a.pairs() + b.pairs()).paired() } else { a + b }
}

/// Whether each value up to node `last` depends on `wrt` in a way that gradients follow.
fn varying(graph: &Graph, last: NodeId, wrt: &[V]) -> Vec<bool> {
    let mut varies: Vec<bool> = Vec::new();
    for node in &graph.nodes[..=last.0 as usize] {
        let passes = !matches!(rule(node.op), Rule::Stops)
            && node.inputs.iter().any(|v| varies[v.0 as usize]);
        for v in node.outputs() {
            // A change of representation may be undone, a cast to an integer is a step function.
            let dtype = graph.ty(v).dtype;
            let is_float = dtype.is_float() || Float8::of(dtype).is_some();
            let kept = is_float || node.op != Op::Cast;
            varies.push(passes && kept || wrt.iter().any(|w| w.id == v));
        }
    }
    varies
}

/// The operation of a node, if the loss depends through it on one of `wrt`.
fn reached(graph: &Graph, id: NodeId, varies: &[bool], cotangents: &[Option<V>]) -> Option<Op> {
    let node = graph.node(id);
    let has_cotangent = node.outputs().any(|v| cotangents[v.0 as usize].is_some());
    let is_wanted = node.inputs.iter().any(|v| varies[v.0 as usize]);
    (has_cotangent && is_wanted).then_some(node.op)
}

fn step<'m, 's>(
    math: &'m Math,
    graph: &Graph,
    (id, tokens): (NodeId, &'s Tokens<'m>),
    varies: &[bool],
    cotangents: &[Option<V<'m>>],
) -> Step<'m, 's> {
    let node = graph.node(id);
    let at = |v: ValueId| v.0 as usize;
    Step {
        math,
        id,
        tokens,
        attrs: node.attrs.clone(),
        x: node.inputs.iter().map(|&v| math.wrap(v)).collect(),
        y: node.outputs().map(|v| math.wrap(v)).collect(),
        cotangents: node.outputs().map(|v| cotangents[at(v)]).collect(),
        wanted: node.inputs.iter().map(|&v| varies[at(v)]).collect(),
    }
}

fn refused(graph: &Graph, id: NodeId) -> Error {
    let node = graph.node(id);
    let name = match (node.op, node.attrs.first()) {
        (Op::Host, Some(Attr::Int(id))) => {
            host::get(*id as u32).map_or_else(|| "a host operator".into(), |op| op.name.clone())
        }
        (op, _) => op.name().to_string(),
    };
    let message = format!("{name} has no gradient, and the loss depends on it");
    Error::new(Code::Unsupported, message).at(node.site)
}
