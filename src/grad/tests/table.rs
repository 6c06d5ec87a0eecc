//! The cases of the table of primitives that are differentiated.

use super::cases::case;
use super::*;
use crate::op::cases::{self, Gradient};

/// Sines of the results, which have slopes nearly everywhere.
fn of(one: cases::Case) -> Case {
    let inputs = one.dense(&one.sample());
    let (op, attrs) = (one.op, one.attrs.clone());
    let formula = case(op.name(), &inputs, move |math, x| {
        let results = math.ops(op, x, attrs.clone());
        let results = results.unwrap_or_else(|e| panic!("{}: {e}", op.name())).into_iter();
        // What others save for their gradients has none.
        let results = results.take(match op {
            Op::Attention => 1,
            Op::Recurrent => 2,
            _ => usize::MAX,
        });
        results.filter(|v| v.dtype().is_float()).map(|v| v.unary(Op::Sin)).collect()
    });
    Case { twice: one.gradient == Gradient::Twice, ..formula }
}

pub fn all() -> impl Iterator<Item = Case> {
    cases::all().filter(|case| case.gradient != Gradient::Never).map(of)
}
