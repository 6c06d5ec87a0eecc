//! Evaluates one primitive by its row: the only caller of `Row::eval`.

use super::array::Array;
use super::{Attr, Eval, Op, Ty, pointwise};
use crate::error::Result;

/// Outputs of `op`; `outs` are the types that `infer` gave for these inputs and attributes. Errors: `IndexError` for
/// an index out of range, `InvalidArgument` for an integer division by zero, whatever a host operator returns.
pub fn evaluate(op: Op, inputs: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    match op.row().eval {
        Eval::Pointwise { float, int } => Ok(vec![pointwise::apply(float, int, inputs, &outs[0])?]),
        Eval::Whole(f) => f(inputs, attrs, outs),
        Eval::External => crate::internal!("{} is supplied by the interpreter", op.name()),
    }
}
