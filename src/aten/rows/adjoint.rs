//! Gradients of rows that are nothing but the derivative of another row's formula.

use crate::error::Result;
use crate::grad::gradients;
use crate::graph::math::{Math, V};
use crate::op::{Attr, Op};
use smallvec::smallvec;

/// The derivatives of `formula`'s result, weighted by the cotangent `dy`, with respect to its operands `wrt`, floats.
/// Operands may be of equal value.
pub fn pullback<'a, const N: usize>(
    math: &'a Math,
    dy: V<'a>,
    wrt: [V<'a>; N],
    formula: impl FnOnce([V<'a>; N]) -> Result<V<'a>>,
) -> Result<[V<'a>; N]> {
    let mut number = 0;
    let marked = wrt.map(|v| {
        number -= 1;
        math.op(Op::Mark, &[v], smallvec![Attr::Int(number)])
    });
    math.check()?;
    let weighted = formula(marked)? * dy;
    math.check()?;
    let axes: Vec<i64> = (0..weighted.rank() as i64).collect();
    let (found, _) = gradients(math, weighted.reduce(Op::Sum, &axes, false), &marked, vec![])?;
    let mut found = found.into_iter();
    Ok(marked.map(|v| found.next().unwrap_or(v)))
}
