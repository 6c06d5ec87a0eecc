//! The rule of every primitive, from its row: a row without one does not compile.

use super::{Flow, Step, collective, contraction, index, movement, nn, pointwise, reduce};
use crate::op::Op;
use crate::op::table::primitives;
use std::f64::consts::FRAC_2_SQRT_PI;

/// The effect of a node on the flow of cotangents.
pub enum Rule {
    Flows(for<'m> fn(&Step<'m, '_>) -> Flow<'m>),
    /// The operands are not floats, or the result is a step function of them.
    Stops,
    /// There would be a gradient, but no rule states it.
    Refuses,
}

use Rule::{Flows, Refuses, Stops};

/// The column `grad` of a row.
macro_rules! rule_of {
    (grad ($rule:expr) $($others:tt)*) => { $rule };
    ($other:ident $of:tt $($others:tt)*) => { rule_of!($($others)*) };
}

macro_rules! rules {
    ([$op:expr] $($(#[$doc:meta])* $row:ident $facts:tt $($column:ident $of:tt)*;)*) => {
        match $op { $(Op::$row => rule_of!($($column $of)*),)* }
    };
}

pub fn rule(op: Op) -> Rule {
    use pointwise::{binary, unary};
    primitives!(rules[op])
}
