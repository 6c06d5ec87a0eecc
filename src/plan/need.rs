//! Which layouts the kernels of whole nodes read without a copy, and which of them go on with a program. Part of the
//! contract with backends.

use crate::op::{Op, Ty};
use crate::shape::Layout;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Any strides, 0 included.
    Strided,
    /// Any strides but for the last dimension, which has stride 1.
    Rows,
    /// Dense and row-major, at any offset.
    Dense,
    /// Dense memory, or a slot of the argument block.
    Number,
}

impl Need {
    pub fn accepts(self, layout: &Layout) -> bool {
        match self {
            Need::Strided => true,
            Need::Rows => {
                layout.is_contiguous()
                    || layout.sizes.last() == Some(&1)
                    || layout.strides.last() == Some(&1)
            }
            Need::Dense | Need::Number => layout.is_contiguous(),
        }
    }
}

/// What `op` needs its `operand`-th operand to be.
pub(super) fn need(op: Op, operand: usize) -> Need {
    match (op, operand) {
        (Op::Matmul | Op::Concat | Op::Check, _) | (Op::AsStridedScatter, 1) => Need::Strided,
        (Op::ScaledMatmul, 0 | 1) => Need::Strided,
        (Op::Attention, 0..=2) | (Op::AttentionGrad, 0..=4) => Need::Rows,
        (Op::Attention, 3 | 4) | (Op::AttentionGrad, 6 | 7) => Need::Number,
        _ => Need::Dense,
    }
}

/// Whether kernels of `op` read their `operand`-th operand, if it should be f32, from memory of a half type too.
pub fn widens(op: Op, operand: usize) -> bool {
    use Op::*;
    match op {
        Softmax | LogSoftmax | LayerNorm | RmsNorm => operand == 0,
        SoftmaxGrad | LogSoftmaxGrad | LayerNormGrad | RmsNormGrad => operand < 2,
        _ => false,
    }
}

/// Whether a kernel of `op` with such a first result puts each part of it through a program when it has computed it.
pub(super) fn has_epilogue(op: Op, ty: &Ty) -> bool {
    // The kernels over rows are those that widen what they read.
    (op == Op::Matmul || widens(op, 0)) && ty.dtype.is_float() && ty.numel() > 0
}
