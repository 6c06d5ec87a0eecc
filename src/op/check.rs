//! Checks of operands and attributes for every `infer`, with messages in PyTorch's words.

use super::{Attr, Ty, Tys};
use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use smallvec::smallvec;

/// A type whose sizes are not negative and whose bytes and strides can be counted.
pub fn ty(dtype: DType, sizes: &[i64]) -> Result<Ty> {
    if let Some(negative) = sizes.iter().find(|&&s| s < 0) {
        return invalid!("Trying to create tensor with negative dimension {negative}: {sizes:?}");
    }
    // Sizes of 0 count as 1 here, so that strides fit too.
    let count = sizes.iter().try_fold(1i64, |n, &s| n.checked_mul(s.max(1)));
    match count.and_then(|n| n.checked_mul(dtype.size() as i64)) {
        Some(_) => Ok(Ty::new(dtype, sizes)),
        None => invalid!("Storage size calculation overflowed with sizes={sizes:?}"),
    }
}

/// [`ty`], as the only output of a node.
pub fn one(dtype: DType, sizes: &[i64]) -> Result<Tys> {
    Ok(smallvec![ty(dtype, sizes)?])
}

/// The error for attributes that are not the row's; `wanted` names their kinds in order.
pub fn wrong_attrs<T>(wanted: &str, attrs: &[Attr]) -> Result<T> {
    invalid!("expected attributes ({wanted}), got {attrs:?}")
}

/// The error for a wrong number of operands.
pub fn wrong_operands<T>(wanted: &str, inputs: &[&Ty]) -> Result<T> {
    invalid!("expected operands ({wanted}), got {}", inputs.len())
}

pub fn no_attrs(attrs: &[Attr]) -> Result<()> {
    if attrs.is_empty() { Ok(()) } else { wrong_attrs("", attrs) }
}

pub fn same_dtype(a: &Ty, b: &Ty) -> Result<()> {
    if a.dtype == b.dtype {
        return Ok(());
    }
    invalid!("expected operands to have the same dtype, but got: {} != {}", a.dtype, b.dtype)
}

pub fn same_sizes(a: &[i64], b: &[i64]) -> Result<()> {
    if a.len() != b.len() {
        return invalid!("expected operands of equal sizes, but got {a:?} and {b:?}");
    }
    match a.iter().zip(b).position(|(x, y)| x != y) {
        None => Ok(()),
        Some(d) => invalid!(
            "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {d}",
            a[d],
            b[d]
        ),
    }
}

/// `axis`, if a tensor of `rank` dimensions has it. The IR has no negative axes.
pub fn axis(axis: i64, rank: usize) -> Result<usize> {
    if (0..rank as i64).contains(&axis) {
        return Ok(axis as usize);
    }
    invalid!(
        "Dimension out of range (expected to be in range of [0, {}], but got {axis})",
        rank as i64 - 1
    )
}

pub fn rank(ty: &Ty, rank: usize, what: &str) -> Result<()> {
    if ty.rank() == rank {
        return Ok(());
    }
    invalid!("expected {what} to be a {rank}D tensor, but got sizes {:?}", ty.sizes)
}

pub fn sizes(ty: &Ty, sizes: &[i64], what: &str) -> Result<()> {
    if ty.sizes.as_slice() == sizes {
        return Ok(());
    }
    invalid!("expected {what} to have sizes {sizes:?}, but got {:?}", ty.sizes)
}

pub fn dtype(ty: &Ty, dtype: DType, what: &str) -> Result<()> {
    if ty.dtype == dtype {
        return Ok(());
    }
    invalid!("expected {what} to have dtype {dtype}, but got {}", ty.dtype)
}

pub fn float(dtype: DType) -> Result<()> {
    if dtype.is_float() {
        Ok(())
    } else {
        invalid!("not implemented for '{dtype}': expected a float dtype")
    }
}

/// An integer or a float: a dtype with addition.
pub fn number(dtype: DType) -> Result<()> {
    if dtype.is_float() || dtype.is_int() {
        return Ok(());
    }
    invalid!("not implemented for '{dtype}': expected an integer or float dtype")
}

/// A number or bool: a dtype with comparisons.
pub fn arithmetic(dtype: DType) -> Result<()> {
    if dtype.has_arithmetic() { Ok(()) } else { invalid!("not implemented for '{dtype}'") }
}

pub fn bits(dtype: DType) -> Result<()> {
    if dtype.is_int() || dtype == DType::Bool {
        return Ok(());
    }
    invalid!("not implemented for '{dtype}': expected an integer dtype or bool")
}

pub fn index(dtype: DType) -> Result<()> {
    if matches!(dtype, DType::I32 | DType::I64) {
        return Ok(());
    }
    invalid!(
        "Expected index to have one of the following scalar types: i32, i64; but got {dtype} instead"
    )
}
