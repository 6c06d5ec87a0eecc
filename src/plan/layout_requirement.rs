//! Which layouts the kernels of whole nodes read without a copy, and which of them go on with a loop body. Part of the
//! contract with backends.

use crate::op::{Op, Ty};
use crate::shape::Layout;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayoutRequirement {
    /// Any strides, 0 included.
    Strided,
    /// Any strides but for the last dimension, which has stride 1.
    Rows,
    /// Dense and row-major, at any offset.
    Dense,
    /// Dense memory, or a slot of the argument block.
    Number,
}

impl LayoutRequirement {
    pub fn accepts(self, layout: &Layout) -> bool {
        match self {
            LayoutRequirement::Strided => true,
            LayoutRequirement::Rows => {
                layout.is_contiguous()
                    || layout.sizes.last() == Some(&1)
                    || layout.strides.last() == Some(&1)
            }
            LayoutRequirement::Dense | LayoutRequirement::Number => layout.is_contiguous(),
        }
    }
}

/// What `op` needs its `operand`-th operand to be.
pub(super) fn layout_requirement(op: Op, operand: usize) -> LayoutRequirement {
    match (op, operand) {
        (Op::Matmul | Op::Concat | Op::Check, _) | (Op::AsStridedScatter, 1) => {
            LayoutRequirement::Strided
        }
        (Op::ScaledMatmul, 0 | 1) => LayoutRequirement::Strided,
        (Op::Attention, 0..=2) | (Op::AttentionGrad, 0..=4) => LayoutRequirement::Rows,
        (Op::Attention, 3 | 4) | (Op::AttentionGrad, 6 | 7) => LayoutRequirement::Number,
        _ => LayoutRequirement::Dense,
    }
}

/// Whether kernels of `op` read their `operand`-th operand, if it should be f32, from memory of a half type too.
pub fn accepts_half_input(op: Op, operand: usize) -> bool {
    use Op::*;
    match op {
        Softmax | LogSoftmax | LayerNorm | RmsNorm => operand == 0,
        SoftmaxGrad | LogSoftmaxGrad | LayerNormGrad | RmsNormGrad => operand < 2,
        _ => false,
    }
}

/// Whether a kernel of `op` with such a first result puts each part of it through a loop body when it has computed it.
pub(super) fn has_epilogue(op: Op, ty: &Ty) -> bool {
    // The kernels over rows are those that widen what they read.
    (op == Op::Matmul || accepts_half_input(op, 0)) && ty.dtype.is_float() && ty.numel() > 0
}
