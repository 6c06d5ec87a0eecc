//! The operations of chains.

use crate::dtype::DType;
use crate::op::Op;

/// A unary operation of a chain, on its running value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    Neg,
    Abs,
    Sign,
    Square,
    Cube,
    Sqrt,
    Rsqrt,
    Floor,
    Ceil,
    Round,
    Trunc,
    Exp,
    Expm1,
    Log,
    Log1p,
    Tanh,
    Erf,
    Erfc,
    Sigmoid,
    Sin,
    Cos,
    /// To what a half type can hold.
    ToF16,
    ToBF16,
}

/// A binary operation of a chain, on its running value and another number: the first operand is the running value, but for the
/// reversed ones (`RSub`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    Add,
    Sub,
    RSub,
    Mul,
    Div,
    RDiv,
    Max,
    RMax,
    Min,
    RMin,
}

/// Operations of a chain at most.
pub const MAX_LINKS: usize = 16;

/// One operation; `F` says where the other number is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link<F> {
    Unary(UnaryOp),
    Binary(BinaryOp, F),
}

impl UnaryOp {
    /// The operation that `op` is on f32; for `cast`, to `dtype`.
    pub fn of(op: Op, dtype: DType) -> Option<UnaryOp> {
        Some(match (op, dtype) {
            (Op::Neg, _) => UnaryOp::Neg,
            (Op::Abs, _) => UnaryOp::Abs,
            (Op::Sign, _) => UnaryOp::Sign,
            (Op::Sqrt, _) => UnaryOp::Sqrt,
            (Op::Rsqrt, _) => UnaryOp::Rsqrt,
            (Op::Floor, _) => UnaryOp::Floor,
            (Op::Ceil, _) => UnaryOp::Ceil,
            (Op::Round, _) => UnaryOp::Round,
            (Op::Trunc, _) => UnaryOp::Trunc,
            (Op::Exp, _) => UnaryOp::Exp,
            (Op::Expm1, _) => UnaryOp::Expm1,
            (Op::Log, _) => UnaryOp::Log,
            (Op::Log1p, _) => UnaryOp::Log1p,
            (Op::Tanh, _) => UnaryOp::Tanh,
            (Op::Erf, _) => UnaryOp::Erf,
            (Op::Erfc, _) => UnaryOp::Erfc,
            (Op::Sigmoid, _) => UnaryOp::Sigmoid,
            (Op::Sin, _) => UnaryOp::Sin,
            (Op::Cos, _) => UnaryOp::Cos,
            (Op::Cast, DType::F16) => UnaryOp::ToF16,
            (Op::Cast, DType::BF16) => UnaryOp::ToBF16,
            _ => return None,
        })
    }
}

impl BinaryOp {
    /// The operation that `op` is when its operand number `hand` is the running value.
    pub fn of(op: Op, hand: usize) -> Option<BinaryOp> {
        Some(match (op, hand) {
            (Op::Add, _) => BinaryOp::Add,
            (Op::Mul, _) => BinaryOp::Mul,
            (Op::Sub, 0) => BinaryOp::Sub,
            (Op::Sub, _) => BinaryOp::RSub,
            (Op::Div, 0) => BinaryOp::Div,
            (Op::Div, _) => BinaryOp::RDiv,
            (Op::Max, 0) => BinaryOp::Max,
            (Op::Max, _) => BinaryOp::RMax,
            (Op::Min, 0) => BinaryOp::Min,
            (Op::Min, _) => BinaryOp::RMin,
            _ => return None,
        })
    }
}
