//! PyTorch's type promotion. A tensor with dimensions outranks one without, which outranks a plain number, as long as
//! the outranked one is not of a higher kind (bool < integer < float < complex).

use crate::dtype::DType::{self, *};
use crate::op::arg::ScalarKind;

/// The properties of an operand that promotion depends on.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    Tensor { dtype: DType, rank: usize },
    Number(ScalarKind),
    ComplexNumber,
}

/// 0 bool, 1 integer, 2 float, 3 complex.
fn kind(dtype: DType) -> u8 {
    match dtype {
        Bool => 0,
        _ if dtype.is_complex() => 3,
        _ => 1 + dtype.is_float() as u8,
    }
}

/// The dtype that holds both (`torch.promote_types`).
pub fn promote_types(a: DType, b: DType) -> DType {
    let (low, high) = if (kind(a), a) <= (kind(b), b) { (a, b) } else { (b, a) };
    match (low, high) {
        (F16, BF16) => F32,
        // The only unsigned type: it needs one more bit for a sign.
        (U8, I8) => I16,
        (F64, C64) => C128,
        _ => high,
    }
}

/// The dtype of `higher`, unless `lower` is of a higher kind.
fn outrank(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    match (higher, lower) {
        (Some(h), Some(l)) if kind(l) > kind(h) => Some(promote_types(h, l)),
        (None, l) => l,
        (h, _) => h,
    }
}

/// The common dtype of operands (`torch.result_type`). `float` is the default float dtype; numbers alone promote to
/// it, or to i64 or bool.
pub fn result_type(operands: &[Operand], float: DType) -> DType {
    let mut ranked = [None; 3];
    for operand in operands {
        let (rank, dtype) = match *operand {
            Operand::Tensor { dtype, rank: 0 } => (1, dtype),
            Operand::Tensor { dtype, .. } => (0, dtype),
            Operand::Number(ScalarKind::Float) => (2, float),
            Operand::ComplexNumber => (2, float.to_complex()),
            Operand::Number(kind) => (2, kind.dtype()),
        };
        ranked[rank] = Some(ranked[rank].map_or(dtype, |old| promote_types(old, dtype)));
    }
    outrank(ranked[0], outrank(ranked[1], ranked[2])).unwrap_or(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_promote_as_in_pytorch() {
        let cases = [
            (Bool, U8, U8),
            (U8, I8, I16),
            (U8, I64, I64),
            (I8, I16, I16),
            (I64, F16, F16),
            (F16, BF16, F32),
            (BF16, F32, F32),
            (F32, F64, F64),
            (F64, C64, C128),
            (C64, C128, C128),
            (I64, C64, C64),
            (Bool, Bool, Bool),
        ];
        for (a, b, both) in cases {
            assert_eq!((promote_types(a, b), promote_types(b, a)), (both, both), "{a} {b}");
        }
    }

    #[test]
    fn dimensions_and_kinds_decide() {
        let tensor = |dtype, rank| Operand::Tensor { dtype, rank };
        let number = Operand::Number;
        let cases = [
            (vec![tensor(BF16, 1), tensor(F32, 0)], BF16),
            (vec![tensor(I32, 2), tensor(F64, 0)], F64),
            (vec![tensor(I32, 2), tensor(I64, 0)], I32),
            (vec![tensor(F16, 1), number(ScalarKind::Float)], F16),
            (vec![tensor(I8, 1), number(ScalarKind::Float)], F32),
            (vec![tensor(Bool, 1), number(ScalarKind::Int)], I64),
            (vec![tensor(I16, 0), number(ScalarKind::Int)], I16),
            (vec![tensor(I16, 0), number(ScalarKind::Float)], F32),
            (vec![number(ScalarKind::Int), number(ScalarKind::Bool)], I64),
            (vec![tensor(C64, 1), tensor(F64, 0)], C64),
            (vec![tensor(F64, 1), tensor(C64, 0)], C128),
            (vec![tensor(F64, 1), Operand::ComplexNumber], C128),
            (vec![tensor(I64, 1), Operand::ComplexNumber], C64),
        ];
        for (operands, expected) in cases {
            assert_eq!(result_type(&operands, F32), expected, "{operands:?}");
        }
    }
}
