//! One rule for every primitive on sizes that vary: which operands must be clean, the parts of the result's dimensions, and
//! the content of its padding. A primitive without a rule is refused.

mod composite;
mod contraction;
mod index;
mod leaf;
mod movement;
mod pointwise;
mod reduce;
mod strided;

use super::axes::{Axis, unify};
use super::padded::{Pad, PaddedValue, Pass, dims};
use super::{Stop, refused};
use crate::graph::{Node, ValueId};
use crate::op::table::primitives;
use crate::op::{Class, Op};

/// Gives the results of a node on padded operands, from its number and the node of the trace in hand.
enum Rule {
    One(fn(&mut Pass, usize, &Node) -> Result<PaddedValue, Stop>),
    All(fn(&mut Pass, usize, &Node) -> Result<Vec<PaddedValue>, Stop>),
    Missing,
}

use Rule::{All, One};

/// The column `padded` of a row.
macro_rules! rule_of {
    (padded ($rule:expr) $($others:tt)*) => { $rule };
    ($other:ident $of:tt $($others:tt)*) => { rule_of!($($others)*) };
    () => { Rule::Missing };
}

macro_rules! rules {
    ([$op:expr] $($(#[$doc:meta])* $row:ident $facts:tt $($column:ident $of:tt)*;)*) => {
        match $op { $(Op::$row => rule_of!($($column $of)*),)* }
    };
}

/// The results of node `n`, which is `node` in the trace in hand.
pub fn rule(pass: &mut Pass, n: usize, node: &Node) -> Result<Vec<PaddedValue>, Stop> {
    if node.op.class() == Class::Pointwise {
        return Ok(vec![pointwise::pointwise(pass, n, node)?]);
    }
    match primitives!(rules[node.op]) {
        One(rule) => Ok(vec![rule(pass, n, node)?]),
        All(rule) => rule(pass, n, node),
        Rule::Missing => refused("there is no rule for it"),
    }
}

/// The common dimensions of operands of equal sizes.
fn shared(operands: &[&[Axis]]) -> Result<Vec<Axis>, Stop> {
    let Some((first, rest)) = operands.split_first() else { return refused("no operands") };
    let mut axes = first.to_vec();
    for other in rest {
        axes = axes.iter().zip(*other).map(|(a, b)| unify(a, b)).collect::<Result<_, _>>()?;
    }
    Ok(axes)
}

fn anything(id: ValueId, axes: Vec<Axis>) -> PaddedValue {
    PaddedValue { id, axes, pad: Pad::Any }
}

/// Refuses attributes that vary.
fn fixed_attrs(pass: &Pass, n: usize) -> Result<(), Stop> {
    match pass.points.has_fixed_attrs(n) {
        true => Ok(()),
        false => refused("an attribute varies"),
    }
}

/// Refuses a value in which other dimensions than these vary.
fn only(padded_value: &PaddedValue, may_vary: &[usize]) -> Result<(), Stop> {
    let other = |d: usize| !may_vary.contains(&d) && padded_value.axes[d].varies();
    match (0..padded_value.axes.len()).any(other) {
        true => refused("a dimension varies that must not"),
        false => Ok(()),
    }
}

/// Refuses a value in which any dimension varies.
fn fixed(padded_value: &PaddedValue) -> Result<(), Stop> {
    only(padded_value, &[])
}

fn sizes_of(padded_value: &PaddedValue) -> crate::shape::Dims {
    dims(&padded_value.axes)
}
