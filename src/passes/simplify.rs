//! Algebra on single elements. A rule is here only if it gives the same bits for every operand. That excludes familiar
//! ones: `x + 0.0` is not x for -0.0, `x - x` and `x * 0.0` are not 0.0 for NaN and infinities,
//! `not(x < y)` is not `x >= y` for NaN.

use super::fold::{splat_of, splat_value};
use super::rebuild::{Item, Values, rebuild};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Builder, Graph, ValueId};
use crate::op::array::Array;
use crate::op::{Class, Op};
use std::borrow::Cow;

/// One rule of each kind:
///
/// ```text
/// mul(x, 1.0)                → x             add(x, neg(y))             → sub(x, y)
/// div(x, 1.0)                → x             select(true, x, y)         → x
/// pow(x, 2.0)                → mul(x, x)     cast(cast(x: bf16): f32)   → cast(x)
/// not(eq(x, y))              → ne(x, y)      reduce_max(x) over no axes → x
/// ```
pub fn simplify(graph: &Graph) -> Result<Cow<'_, Graph>> {
    rebuild(graph, rule)
}

pub(super) fn rule(b: &mut Builder, item: &Item) -> Result<Option<Values>> {
    let found = match item.op {
        Op::Add | Op::Sub | Op::Mul | Op::Div => arithmetic(b, item)?,
        Op::And | Op::Or | Op::Xor | Op::Max | Op::Min => lattice(b, item)?,
        Op::Pow => power(b, item)?,
        Op::Neg | Op::Abs | Op::Not => unary(b, item)?,
        Op::Select => select(b, item)?,
        Op::Cast => cast(b, item)?,
        op if op.class() == Class::Reduction => reduction(b, item)?,
        _ => None,
    };
    Ok(found.map(|v| Values::from_slice(&[v])))
}

/// Whether every element of `v` is exactly this float: -0.0 is not 0.0.
fn is_float(b: &Builder, v: ValueId, x: f64) -> bool {
    let same = |number: Array| number.f64(0).to_bits() == x.to_bits();
    b.ty(v).dtype.is_float() && splat_value(b, v).is_some_and(same)
}

/// Whether every element of `v` is this integer (or bool, 0 or 1).
fn is_int(b: &Builder, v: ValueId, i: i64) -> bool {
    !b.ty(v).dtype.is_float() && splat_value(b, v).is_some_and(|number| number.i64(0) == i)
}

fn is_number(b: &Builder, v: ValueId, i: i64) -> bool {
    is_int(b, v, i) || is_float(b, v, i as f64)
}

/// The operand of `v`'s maker, if that is a unary `op`.
fn operand_of(b: &Builder, v: ValueId, op: Op) -> Option<ValueId> {
    let maker = b.graph().maker(v);
    (maker.op == op).then(|| maker.inputs[0])
}

/// An array like `v`, filled with one number.
fn filled(b: &mut Builder, v: ValueId, x: f64) -> Result<ValueId> {
    let ty = b.ty(v).clone();
    splat_of(b, &Array::from_f64(ty.dtype, &[], &[x]), &ty.sizes)
}

fn arithmetic(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (x, y) = (item.inputs[0], item.inputs[1]);
    let is_integer = !b.ty(x).dtype.is_float();
    match item.op {
        Op::Add => {
            for (x, y) in [(x, y), (y, x)] {
                if is_float(b, y, -0.0) || is_int(b, y, 0) {
                    return Ok(Some(x));
                }
                if let Some(y) = operand_of(b, y, Op::Neg) {
                    return b.binary(Op::Sub, x, y).map(Some);
                }
            }
        }
        Op::Sub if is_number(b, y, 0) => return Ok(Some(x)),
        Op::Sub if is_integer && x == y => return filled(b, x, 0.0).map(Some),
        Op::Sub => {
            if let Some(y) = operand_of(b, y, Op::Neg) {
                return b.binary(Op::Add, x, y).map(Some);
            }
        }
        Op::Mul => {
            for (x, y) in [(x, y), (y, x)] {
                if is_number(b, y, 1) {
                    return Ok(Some(x));
                }
                if is_number(b, y, -1) {
                    return b.unary(Op::Neg, x).map(Some);
                }
                if is_int(b, y, 0) {
                    return Ok(Some(y));
                }
            }
        }
        Op::Div if is_number(b, y, 1) => return Ok(Some(x)),
        _ => {}
    }
    Ok(None)
}

fn lattice(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (x, y) = (item.inputs[0], item.inputs[1]);
    let all_ones = if b.ty(x).dtype == DType::Bool { 1 } else { -1 };
    if x == y {
        return match item.op {
            Op::Xor => filled(b, x, 0.0).map(Some),
            _ => Ok(Some(x)),
        };
    }
    for (x, y) in [(x, y), (y, x)] {
        // An unsigned all-ones is not -1; leaving it costs nothing.
        let (zero, ones) = (is_int(b, y, 0), is_int(b, y, all_ones));
        match item.op {
            Op::And if ones => return Ok(Some(x)),
            Op::And if zero => return Ok(Some(y)),
            Op::Or | Op::Xor if zero => return Ok(Some(x)),
            Op::Or if ones => return Ok(Some(y)),
            _ => {}
        }
    }
    Ok(None)
}

/// PyTorch multiplies (and divides) for these exponents too.
fn power(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (x, y) = (item.inputs[0], item.inputs[1]);
    if is_number(b, y, 0) {
        return filled(b, x, 1.0).map(Some);
    }
    if is_number(b, y, 1) {
        return Ok(Some(x));
    }
    if is_number(b, y, 2) {
        return b.binary(Op::Mul, x, x).map(Some);
    }
    if is_number(b, y, 3) {
        let square = b.binary(Op::Mul, x, x)?;
        return b.binary(Op::Mul, square, x).map(Some);
    }
    if is_float(b, y, -1.0) {
        let one = filled(b, x, 1.0)?;
        return b.binary(Op::Div, one, x).map(Some);
    }
    Ok(None)
}

fn unary(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let x = item.inputs[0];
    let maker = b.graph().maker(x).clone();
    match (item.op, maker.op) {
        (Op::Neg, Op::Neg) | (Op::Not, Op::Not) => Ok(Some(maker.inputs[0])),
        (Op::Abs, Op::Abs) => Ok(Some(x)),
        // Negative numbers of an unsigned type are large ones.
        (Op::Abs, Op::Neg) if b.ty(x).dtype != DType::U8 => {
            b.unary(Op::Abs, maker.inputs[0]).map(Some)
        }
        (Op::Not, Op::Eq) => b.binary(Op::Ne, maker.inputs[0], maker.inputs[1]).map(Some),
        (Op::Not, Op::Ne) => b.binary(Op::Eq, maker.inputs[0], maker.inputs[1]).map(Some),
        _ => Ok(None),
    }
}

fn select(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (condition, x, y) = (item.inputs[0], item.inputs[1], item.inputs[2]);
    if x == y || is_int(b, condition, 1) {
        return Ok(Some(x));
    }
    if is_int(b, condition, 0) {
        return Ok(Some(y));
    }
    match operand_of(b, condition, Op::Not) {
        Some(opposite) => b.select(opposite, y, x).map(Some),
        None => Ok(None),
    }
}

fn cast(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let (x, to) = (item.inputs[0], item.attrs[0].dtype());
    if b.ty(x).dtype == to {
        return Ok(Some(x));
    }
    match operand_of(b, x, Op::Cast) {
        Some(inner) if holds_all_of(b.ty(x).dtype, b.ty(inner).dtype) => {
            b.cast(inner, to).map(Some)
        }
        _ => Ok(None),
    }
}

/// Whether every value of `from` is a value of `to`.
fn holds_all_of(to: DType, from: DType) -> bool {
    // Bits of a magnitude; for floats, the bits of the significand, and exponents grow along with them.
    let bits = |d: DType| match d {
        DType::Bool => 1,
        DType::U8 | DType::BF16 => 8,
        DType::I8 => 7,
        DType::F16 => 11,
        DType::I16 => 15,
        DType::F32 => 24,
        DType::I32 => 31,
        DType::F64 => 53,
        _ => 63,
    };
    match (from, to) {
        _ if from == to => true,
        (DType::BF16, DType::F16) => false,
        (_, DType::Bool | DType::U8) => from == DType::Bool,
        _ if from.is_float() && !to.is_float() => false,
        // The least integer, such as -128, has a bit more, but is a power of two.
        _ => bits(from) <= bits(to) && (from, to) != (DType::F16, DType::BF16),
    }
}

/// A reduction over dimensions of size 1 is its operand, but `reduce_sum` adds -0.0 to 0.0.
fn reduction(b: &mut Builder, item: &Item) -> Result<Option<ValueId>> {
    let x = item.inputs[0];
    let ty = b.ty(x).clone();
    match item.op {
        Op::Sum if ty.dtype.is_float() => return Ok(None),
        Op::Sum | Op::Prod | Op::ReduceMax | Op::ReduceMin | Op::Any | Op::All => {}
        _ => return Ok(None),
    }
    let axes = item.attrs[0].ints();
    if axes.iter().any(|&a| ty.sizes[a as usize] != 1) {
        return Ok(None);
    }
    let kept = (0..ty.rank()).filter(|&d| !axes.contains(&(d as i64))).map(|d| ty.sizes[d]);
    b.reshape(x, &kept.collect::<Vec<_>>()).map(Some)
}
