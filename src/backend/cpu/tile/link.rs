//! The operations of chains.

use crate::dtype::DType;
use crate::op::Op;

/// An operation on the number in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
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
    Sigmoid,
    Sin,
    Cos,
    /// To what a half type can hold.
    ToF16,
    ToBF16,
}

/// An operation on the number in hand and another: the first is the number in hand, but where the name says `Other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    Add,
    Sub,
    OtherSub,
    Mul,
    Div,
    OtherDiv,
    Max,
    OtherMax,
    Min,
    OtherMin,
}

/// Operations of a chain at most.
pub const MAX_LINKS: usize = 16;

/// One operation; `F` says where the other number is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link<F> {
    Alone(Alone),
    With(With, F),
}

impl Alone {
    /// The operation that `op` is on f32; for `cast`, to `dtype`.
    pub fn of(op: Op, dtype: DType) -> Option<Alone> {
        Some(match (op, dtype) {
            (Op::Neg, _) => Alone::Neg,
            (Op::Abs, _) => Alone::Abs,
            (Op::Sign, _) => Alone::Sign,
            (Op::Sqrt, _) => Alone::Sqrt,
            (Op::Rsqrt, _) => Alone::Rsqrt,
            (Op::Floor, _) => Alone::Floor,
            (Op::Ceil, _) => Alone::Ceil,
            (Op::Round, _) => Alone::Round,
            (Op::Trunc, _) => Alone::Trunc,
            (Op::Exp, _) => Alone::Exp,
            (Op::Expm1, _) => Alone::Expm1,
            (Op::Log, _) => Alone::Log,
            (Op::Log1p, _) => Alone::Log1p,
            (Op::Tanh, _) => Alone::Tanh,
            (Op::Erf, _) => Alone::Erf,
            (Op::Sigmoid, _) => Alone::Sigmoid,
            (Op::Sin, _) => Alone::Sin,
            (Op::Cos, _) => Alone::Cos,
            (Op::Cast, DType::F16) => Alone::ToF16,
            (Op::Cast, DType::BF16) => Alone::ToBF16,
            _ => return None,
        })
    }
}

impl With {
    /// The operation that `op` is when its operand number `hand` is the number in hand.
    pub fn of(op: Op, hand: usize) -> Option<With> {
        Some(match (op, hand) {
            (Op::Add, _) => With::Add,
            (Op::Mul, _) => With::Mul,
            (Op::Sub, 0) => With::Sub,
            (Op::Sub, _) => With::OtherSub,
            (Op::Div, 0) => With::Div,
            (Op::Div, _) => With::OtherDiv,
            (Op::Max, 0) => With::Max,
            (Op::Max, _) => With::OtherMax,
            (Op::Min, 0) => With::Min,
            (Op::Min, _) => With::OtherMin,
            _ => return None,
        })
    }
}
