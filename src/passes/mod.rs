//! Graph → Graph: one file and one function each, which returns the very graph that it was given if it changes nothing.
//!
//! **Invariant:** touches the graph and the context given; no clock, environment, randomness or IO, and nothing that
//! depends on the order of a hash map. Every pass preserves the program's results: bit by bit, NaN, -0.0 and
//! infinities included (the sign and payload of a NaN do not count), except that `decompose` and `cross_entropy` round
//! where the primitives round, `products` rounds one sum where there were several, `collective_matmul` leaves products of
//! fewer rows, whose sums a backend may add in another order, `scatters` leaves a -0.0 that 0 was added to, and
//! `simplify` multiplies where `pow` has a small constant exponent, as PyTorch does.
//!
//! `padding` is not in the order of [`optimize`]: it makes the graph of a bucket of sizes, before that.

mod collective_matmul;
mod cross_entropy;
mod cse;
mod dce;
mod declare;
mod decompose;
mod draws;
mod fold;
mod marks;
mod movement;
mod outline;
pub mod padding;
mod products;
mod rebuild;
mod scatters;
mod settle;
mod simplify;

use crate::error::Result;
use crate::graph::Graph;
use crate::graph::verify::verify;
use crate::op::Op;
pub use collective_matmul::collective_matmul;
pub use cross_entropy::cross_entropy;
pub use cse::cse;
pub use dce::dce;
pub use declare::declare;
pub use decompose::decompose;
pub use draws::{Draws, draws};
pub use fold::fold;
pub use marks::marks;
pub use movement::movement;
pub use outline::{Says, outline};
pub use products::products;
use rebuild::rebuild;
pub use scatters::scatters;
pub use settle::settle;
pub use simplify::simplify;
use std::borrow::Cow;

/// One simplification can enable another; in practice the second or third round changes nothing.
const MAX_ROUNDS: usize = 8;

/// All passes in order. Composites for which `supports` is false are decomposed into other primitives. Errors are internal.
pub fn optimize(mut graph: Graph, supports: &dyn Fn(Op) -> bool) -> Result<Graph> {
    improve(&mut graph, "marks", marks)?;
    improve(&mut graph, "decompose", |graph| decompose(graph, supports))?;
    for _ in 0..MAX_ROUNDS {
        let mut goes_on = improve(&mut graph, "simplify, movement, fold, cse", node_by_node)?;
        if supports(Op::LogSumExp) {
            goes_on |= improve(&mut graph, "cross_entropy", cross_entropy)?;
        }
        goes_on |= improve(&mut graph, "products", products)?;
        goes_on |= improve(&mut graph, "scatters", scatters)?;
        goes_on |= improve(&mut graph, "collective_matmul", collective_matmul)?;
        goes_on |= improve(&mut graph, "dce", dce)?;
        if !goes_on {
            break;
        }
    }
    Ok(graph)
}

/// Replaces the graph by the result of `pass`; returns whether it is another one. In debug builds, proves that it is
/// well-formed.
fn improve(
    graph: &mut Graph,
    name: &str,
    pass: impl Fn(&Graph) -> Result<Cow<'_, Graph>>,
) -> Result<bool> {
    let Cow::Owned(better) = pass(graph)? else { return Ok(false) };
    *graph = better;
    if cfg!(debug_assertions) {
        verify(graph).map_err(|e| e.within(format!("after pass {name}")))?;
    }
    Ok(true)
}

/// The passes that look at one node and its operands, all in one walk: most of a pass's time is copying the graph.
fn node_by_node(graph: &Graph) -> Result<Cow<'_, Graph>> {
    let rules = [simplify::rule, movement::rule, fold::rule, cse::rule];
    rebuild(graph, |b, item| {
        for rule in rules {
            if let Some(values) = rule(b, item)? {
                return Ok(Some(values));
            }
        }
        Ok(None)
    })
}
