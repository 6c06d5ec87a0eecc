//! Element types. The numbers are part of the ABI (`TORCHACC_BOOL`, …): append, never renumber.

mod float8;

pub use float8::Float8;

/// The type of one element. Primitives compute with `Bool` to `F64`; the others are stored, moved and handed to CPU
/// fallbacks. The [`Float8`] ones are converted and multiplied too, and operators compute with `C64` and `C128` as pairs of
/// their parts.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DType {
    Bool = 0,
    U8 = 1,
    I8 = 2,
    I16 = 3,
    I32 = 4,
    I64 = 5,
    F16 = 6,
    BF16 = 7,
    F32 = 8,
    F64 = 9,
    C64 = 10,
    C128 = 11,
    U16 = 12,
    U32 = 13,
    U64 = 14,
    C32 = 15,
    F8E4M3FN = 16,
    F8E5M2 = 17,
    F8E4M3FNUZ = 18,
    F8E5M2FNUZ = 19,
    F8E8M0FNU = 20,
}

use DType::*;
use serde::{Deserialize, Serialize};

/// Every type, its text name and its size in bytes, in the order of the numbers.
const TABLE: [(DType, &str, usize); 21] = [
    (Bool, "bool", 1),
    (U8, "u8", 1),
    (I8, "i8", 1),
    (I16, "i16", 2),
    (I32, "i32", 4),
    (I64, "i64", 8),
    (F16, "f16", 2),
    (BF16, "bf16", 2),
    (F32, "f32", 4),
    (F64, "f64", 8),
    (C64, "c64", 8),
    (C128, "c128", 16),
    (U16, "u16", 2),
    (U32, "u32", 4),
    (U64, "u64", 8),
    (C32, "c32", 4),
    (F8E4M3FN, "f8e4m3fn", 1),
    (F8E5M2, "f8e5m2", 1),
    (F8E4M3FNUZ, "f8e4m3fnuz", 1),
    (F8E5M2FNUZ, "f8e5m2fnuz", 1),
    (F8E8M0FNU, "f8e8m0fnu", 1),
];

impl DType {
    pub fn from_number(n: u32) -> Option<DType> {
        TABLE.get(n as usize).map(|row| row.0)
    }

    pub fn from_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        TABLE[self as usize].2
    }

    /// `F16`, `BF16`, `F32` or `F64`.
    pub fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// Whether this is one of the two half types and `wide` is `F32`, which represents all their numbers exactly.
    pub fn is_half_of(self, wide: DType) -> bool {
        wide == F32 && matches!(self, F16 | BF16)
    }

    /// The dtype of the real and the imaginary part of `C64` and `C128`; they are stored in this order.
    pub fn part(self) -> Option<DType> {
        match self {
            C64 => Some(F32),
            C128 => Some(F64),
            _ => None,
        }
    }

    /// Whether it has parts to compute with. `C32` is moved only.
    pub fn is_complex(self) -> bool {
        self.part().is_some()
    }

    /// The complex dtype that holds a real number of this one; itself if it is complex.
    pub fn to_complex(self) -> DType {
        if matches!(self, F64 | C128) { C128 } else { C64 }
    }

    /// A signed or unsigned integer of up to 64 bits with arithmetic; `Bool` is not one.
    pub fn is_int(self) -> bool {
        matches!(self, U8 | I8 | I16 | I32 | I64)
    }

    /// Whether primitives compute on it; the rest is only stored, moved and passed to CPU fallbacks.
    pub fn has_arithmetic(self) -> bool {
        self.is_float() || self.is_int() || self == Bool
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_numbers() {
        for (n, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, n);
            assert_eq!(DType::from_name(row.1), Some(row.0));
        }
    }
}
