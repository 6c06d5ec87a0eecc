//! Adjoints of collectives, which are collectives. The loss is the sum of the losses of all ranks: so every rank gets the
//! derivative of this sum with respect to its own tensors, and all ranks take the same gradients in the same order.

use super::{Flow, Step, refused};
use crate::error::{Code, Error, Result};
use crate::graph::math::{Math, V};
use crate::graph::{NodeId, ValueId};
use crate::op::arg::{Arg, NodeArg};
use crate::op::collective::{self, Kind, REDUCTIONS};
use crate::op::{Op, Ty};
use std::cell::RefCell;
use std::collections::HashMap;

/// The tokens of communicators, which the collectives of a gradient take and return.
pub struct Tokens<'m> {
    now: RefCell<Vec<V<'m>>>,
    /// Index of the token of each collective of the graph.
    of: HashMap<NodeId, usize>,
}

impl<'m> Tokens<'m> {
    /// `now` are the tokens that the last collectives returned.
    pub fn new(math: &'m Math, now: Vec<V<'m>>) -> Tokens<'m> {
        let mut of = HashMap::new();
        for (n, token) in now.iter().enumerate() {
            math.graph(|graph| {
                let mut at: Option<ValueId> = Some(token.id);
                while let Some(v) = at {
                    let id = graph.value(v).node;
                    let node = graph.node(id);
                    at = match node.op {
                        Op::Host if collective::of(&node.attrs).is_some() => {
                            of.insert(id, n);
                            // The operand before the last is the token; the last is this rank.
                            node.inputs.iter().rev().nth(1).copied()
                        }
                        Op::Reshape => node.inputs.first().copied(),
                        _ => None,
                    };
                }
            });
        }
        Tokens { now: RefCell::new(now), of }
    }

    pub fn into_now(self) -> Vec<V<'m>> {
        self.now.into_inner()
    }
}

fn run<'m>(s: &Step<'m, '_>, kind: Kind, how: &str, x: V<'m>, result: Ty) -> Result<V<'m>> {
    let how = REDUCTIONS.iter().position(|known| *known == how).unwrap_or(0) as i64;
    run_by(s, kind, Arg::Int(how), x, result)
}

/// The collective `kind` of `x`, on the communicator of the node that `s` goes back through, and after all its collectives.
fn run_by<'m>(s: &Step<'m, '_>, kind: Kind, how: NodeArg, x: V<'m>, result: Ty) -> Result<V<'m>> {
    let Some(&n) = s.tokens.of.get(&s.id) else {
        let message = "gradients by way of collectives are taken by torchacc_grad";
        return Err(Error::new(Code::Unsupported, message));
    };
    let mut now = s.tokens.now.borrow_mut();
    let attrs = collective::again(kind, how, result, &s.attrs);
    let made = s.math.ops(Op::Host, &[x, s.x[1], now[n], s.x[3]], attrs)?;
    now[n] = made[1];
    Ok(made[0])
}

/// Rule of `Op::Host`: collectives are linear except for products and extremes; other CPU fallbacks have no gradient.
pub fn adjoint<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let mut found = vec![None; s.x.len()];
    let Some((kind, numbers)) = collective::of(&s.attrs) else {
        return Err(s.math.graph(|graph| refused(graph, s.id)));
    };
    let how = numbers[0];
    // The loss does not depend on tokens in a way that counts.
    if kind == Kind::Receive || !s.wanted[0] || s.cotangents[0].is_none() {
        return Ok(found);
    }
    let (x, dy) = (s.x[0], s.dy());
    let reduction = match kind {
        Kind::AllReduce | Kind::ReduceScatter => REDUCTIONS[how as usize],
        _ => "sum",
    };
    if !["sum", "avg"].contains(&reduction) {
        return Err(s.math.graph(|graph| refused(graph, s.id)));
    }
    found[0] = Some(match kind {
        Kind::AllReduce => run(s, kind, reduction, dy, x.ty())?,
        Kind::AllGather => run(s, Kind::ReduceScatter, "sum", dy, x.ty())?,
        Kind::ReduceScatter => {
            let gathered = run(s, Kind::AllGather, "", dy, x.ty())?;
            let ranks = x.sizes()[0] / dy.sizes()[0].max(1);
            if reduction == "avg" { gathered / ranks.max(1) as f64 } else { gathered }
        }
        Kind::Broadcast => {
            let sum = run(s, Kind::AllReduce, "sum", dy, x.ty())?;
            let is_root = s.x[3].eq(s.math.constant_int(how, s.x[3].dtype()));
            is_root.select(sum, 0.0)
        }
        Kind::AllToAll => run(s, kind, "", dy, x.ty())?,
        Kind::AllToAllV => {
            let (there, back) = numbers.split_at(numbers.len() / 2);
            let numbers = back.iter().chain(there).copied().collect();
            run_by(s, kind, Arg::Ints(numbers), dy, x.ty())?
        }
        Kind::Reduce | Kind::Send | Kind::Receive => {
            return Err(s.math.graph(|graph| refused(graph, s.id)));
        }
    });
    Ok(found)
}
