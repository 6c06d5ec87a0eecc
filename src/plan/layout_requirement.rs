//! Which layouts the kernels of whole nodes read without a copy, and which of them continue with a loop body. Part of the
//! contract with backends.

use crate::op::{LayoutRequirement, Op, Ty};

/// The layout that `op` needs for its `operand`-th operand.
pub(super) fn layout_requirement(op: Op, operand: usize) -> LayoutRequirement {
    let layouts = op.row().layouts;
    layouts[operand.min(layouts.len() - 1)]
}

/// Whether kernels of `op` read their `operand`-th operand, if it should be f32, from memory of a half type too.
pub fn accepts_half_input(op: Op, operand: usize) -> bool {
    operand < op.row().by_rows
}

/// Whether a kernel of `op` with such a first result puts each part of it through a loop body once it is computed.
pub(super) fn has_epilogue(op: Op, ty: &Ty) -> bool {
    // The kernels over rows are those that widen their operands.
    (op == Op::Matmul || accepts_half_input(op, 0)) && ty.dtype.is_float() && ty.numel() > 0
}
