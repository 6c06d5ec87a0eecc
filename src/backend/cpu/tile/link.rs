//! The operations of chains.

use crate::dtype::DType;
use crate::op::Op;
use crate::op::table::primitives;

/// A unary operation of a chain, on its running value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// A primitive with a column `cpu`.
    Primitive(Op),
    Square,
    Cube,
    /// Rounding to a half type.
    ToF16,
    ToBF16,
}

/// A binary operation of a chain, on its running value and another number: the running value is the first operand, except
/// in reversed operations (`RSub`).
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
    Atan2,
    RAtan2,
}

/// Maximum number of operations in a chain.
pub const MAX_LINKS: usize = 16;

/// One operation; `F` locates its other operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link<F> {
    Unary(UnaryOp),
    Binary(BinaryOp, F),
}

/// Whether a row has a column `cpu`.
macro_rules! has_function {
    (cpu $function:tt $($others:tt)*) => { true };
    ($other:ident $of:tt $($others:tt)*) => { has_function!($($others)*) };
    () => { false };
}

macro_rules! have_functions {
    ([$op:expr] $($(#[$doc:meta])* $row:ident $facts:tt $($column:ident $of:tt)*;)*) => {
        match $op { $(Op::$row => has_function!($($column $of)*),)* }
    };
}

impl UnaryOp {
    /// The chain operation for `op` on f32, if there is one; `cast` is to `dtype`.
    pub fn of(op: Op, dtype: DType) -> Option<UnaryOp> {
        match (op, dtype) {
            (Op::Cast, DType::F16) => Some(UnaryOp::ToF16),
            (Op::Cast, DType::BF16) => Some(UnaryOp::ToBF16),
            _ => primitives!(have_functions[op]).then_some(UnaryOp::Primitive(op)),
        }
    }
}

impl BinaryOp {
    /// The chain operation for `op` with operand number `hand` as the running value, if there is one.
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
            (Op::Atan2, 0) => BinaryOp::Atan2,
            (Op::Atan2, _) => BinaryOp::RAtan2,
            _ => return None,
        })
    }
}
