//! Integers: shifts, and the operations that differ for unsigned ones, which are computed as signed ones of the same width.

use crate::dtype::{DType, Float8};
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::Op;
use crate::stablehlo::lower::Call;
use crate::stablehlo::types::{carrier, is_unsigned};
use crate::stablehlo::value::{Value, Values, flipped};

fn int<'m>(v: V<'m>, number: i64) -> V<'m> {
    v.math().constant_int(number, v.dtype())
}

/// The number as i64; 64 unsigned bits stay the same.
pub fn wide(x: Value) -> V {
    let v = x.v.cast(DType::I64);
    match x.dtype {
        DType::U16 | DType::U32 => {
            let mask = (1i64 << (8 * x.dtype.size())) - 1;
            v.and(int(v, mask))
        }
        _ => v,
    }
}

/// Logical right shift of an i64 by a constant from 0 to 63.
fn shifted_right(v: V, by: i64) -> V {
    match by {
        0 => v,
        _ => {
            // Half of it without the sign bit, then a division for the rest.
            let low = v.and(int(v, 1));
            let half = ((v - low) / int(v, 2)).and(int(v, i64::MAX));
            half / int(v, 1 << (by - 1))
        }
    }
}

/// Two to the power of each number of `by`, where that is 0 to 62.
fn powers(by: V) -> V {
    int(by, 2).pow(by)
}

fn bits(dtype: DType) -> i64 {
    8 * dtype.size() as i64
}

pub fn shift<'m>(c: &Call<'_, '_, 'm>, kind: Shift) -> Result<Values<'m>> {
    let [x, by] = [c.x[0], c.x[1]];
    if x.dtype != by.dtype || x.dtype.is_float() || x.dtype == DType::Bool {
        return invalid!("integers of one type are expected, not {} and {}", x.dtype, by.dtype);
    }
    let known = c.lowering.splat(by.v).map(|array| array.i64(0));
    let width = bits(x.dtype);
    let result = match known {
        Some(by) => by_constant(x, by, kind, width),
        None => by_any(x, by, kind, width),
    };
    Ok(vec![x.map(|_| result)])
}

#[derive(Clone, Copy, PartialEq)]
pub enum Shift {
    Left,
    Logical,
    Arithmetic,
}

/// The bits of a number as i64, zero-extended.
fn unsigned_bits(x: Value) -> V {
    let v = x.v.cast(DType::I64);
    if x.v.dtype() == DType::I64 { v } else { v.and(int(v, (1 << bits(x.dtype)) - 1)) }
}

fn by_constant(x: Value, by: i64, kind: Shift, width: i64) -> V {
    let v = x.v;
    let out = !(0..width).contains(&by);
    match kind {
        Shift::Left | Shift::Logical if out => v.math().zeros(v.dtype(), &v.sizes()),
        Shift::Left => v * int(v, 1i64.wrapping_shl(by as u32)),
        Shift::Logical => shifted_right(unsigned_bits(x), by).cast(v.dtype()),
        Shift::Arithmetic => {
            let by = if out { width - 1 } else { by };
            let wide = v.cast(DType::I64);
            if by == 63 {
                return wide.lt(int(wide, 0)).select(int(wide, -1), int(wide, 0)).cast(v.dtype());
            }
            let low = wide.and(int(wide, (1 << by) - 1));
            ((wide - low) / int(wide, 1 << by)).cast(v.dtype())
        }
    }
}

fn by_any<'m>(x: Value<'m>, by: Value<'m>, kind: Shift, width: i64) -> V<'m> {
    let amount = by.v.cast(DType::I64);
    let (zero, last) = (int(amount, 0), int(amount, width - 1));
    let out = amount.lt(zero).or(amount.gt(last));
    let inside = amount.max(zero).min(last);
    let wide = x.v.cast(DType::I64);
    let nothing = int(wide, 0);
    let moved = match kind {
        Shift::Left => {
            let low = inside.min(int(inside, 62));
            let most = wide * powers(low);
            let moved = inside.eq(low).select(most, most * int(most, 2));
            out.select(nothing, moved)
        }
        Shift::Logical => {
            let (v, least) = (unsigned_bits(x), inside.max(int(inside, 1)) - int(inside, 1));
            let moved = shifted_right(v, 1) / powers(least);
            out.select(nothing, inside.eq(zero).select(v, moved))
        }
        Shift::Arithmetic => {
            let low = inside.min(int(inside, 62));
            let power = powers(low);
            let rest = wide.and(power - int(power, 1));
            let moved = (wide - rest) / power;
            let sign = wide.lt(nothing).select(int(wide, -1), nothing);
            out.or(inside.ne(low)).select(sign, moved)
        }
    };
    moved.cast(x.v.dtype())
}

/// Quotient or remainder towards zero. Division by 0 gives all ones, and the dividend as remainder.
pub fn divide<'m>(c: &Call<'_, '_, 'm>, op: Op, a: Value<'m>, b: Value<'m>) -> Value<'m> {
    let (x, y) = match a.dtype {
        DType::U16 | DType::U32 => (wide(a), wide(b)),
        _ => (a.v, b.v),
    };
    let is_zero = y.eq(int(y, 0));
    let known = c.lowering.known_int(b.v);
    let safe = if known.is_some_and(|n| n != 0) { y } else { is_zero.select(int(y, 1), y) };
    let result = if a.dtype == DType::U64 { of_u64(op, x, safe) } else { x.binary(op, safe) };
    let result = match known {
        Some(n) if n != 0 => result,
        _ => is_zero.select(if op == Op::Div { int(x, -1) } else { x }, result),
    };
    a.map(|v| result.cast(v.dtype()))
}

/// Division of 64 unsigned bits (Warren, Hacker's Delight, 9-3).
fn of_u64<'m>(op: Op, x: V<'m>, y: V<'m>) -> V<'m> {
    let below = |a: V<'m>, b: V<'m>| flipped(a).lt(flipped(b));
    let large = y.lt(int(y, 0));
    // Divides half the dividend, which has no sign bit; the divisor has none either where this result is used.
    let divisor = large.select(int(y, 1), y);
    let twice = shifted_right(x, 1) / divisor;
    let quotient = twice + twice;
    let one = int(x, 1);
    let quotient = below(x - quotient * divisor, divisor).select(quotient, quotient + one);
    let quotient = large.select(below(x, y).select(int(x, 0), one), quotient);
    if op == Op::Div { quotient } else { x - quotient * y }
}

pub fn convert<'m>(c: &Call<'_, '_, 'm>, x: Value<'m>, to: DType) -> Result<Value<'m>> {
    let from = x.dtype;
    let computes = |dtype: DType| {
        let own = carrier(dtype);
        own.has_arithmetic() || own.is_complex() || Float8::of(own).is_some()
    };
    if !computes(from) || !computes(to) {
        return invalid!("from {from} to {to} is not supported");
    }
    let is_float = |dtype: DType| !carrier(dtype).is_int() && dtype != DType::Bool;
    let v = match (from, to) {
        _ if from == to => x.v,
        (_, DType::Bool) => x.v.cast(DType::Bool),
        (DType::U64, _) if is_float(to) => {
            // Half of the number, with a sticky last bit for the lost ones.
            let half = shifted_right(x.v, 1).binary(Op::Or, x.v.and(int(x.v, 1)));
            let wide = if to == DType::F64 { DType::F64 } else { DType::F32 };
            let [small, half] = [x.v, half].map(|v| v.cast(wide));
            x.v.lt(int(x.v, 0)).select(half + half, small).cast(to)
        }
        (DType::U16 | DType::U32, _) => wide(x).cast(carrier(to)),
        (_, DType::U64) if is_float(from) => {
            let limit = 2f64.powi(63);
            let v = x.v.cast(if from == DType::F64 { DType::F64 } else { DType::F32 });
            let large = v.ge(limit);
            let rest = large.select(v - limit, v).cast(DType::I64);
            large.select(flipped(rest), rest)
        }
        (_, DType::U16 | DType::U32) if is_float(from) => x.v.cast(DType::I64).cast(carrier(to)),
        _ => x.v.cast(carrier(to)),
    };
    c.lowering.math.check()?;
    Ok(Value::new(v, to))
}

/// Number of bits that are set.
pub fn popcnt<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = integer(c)?;
    Ok(vec![x.map(|v| ones(unsigned_bits(x)).cast(v.dtype()))])
}

/// Number of zeros before the first set bit, after which all bits are filled with ones.
pub fn count_leading_zeros<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = integer(c)?;
    let filled = [1, 2, 4, 8, 16, 32]
        .iter()
        .fold(unsigned_bits(x), |v, &by| v.binary(Op::Or, shifted_right(v, by)));
    let count = ones(filled);
    Ok(vec![x.map(|v| (int(count, bits(x.dtype)) - count).cast(v.dtype()))])
}

fn integer<'m>(c: &Call<'_, '_, 'm>) -> Result<Value<'m>> {
    let x = c.x[0];
    match x.v.dtype().is_int() {
        true => Ok(x),
        false => invalid!("integers are expected, not {}", x.dtype),
    }
}

fn ones(v: V) -> V {
    const MASKS: [i64; 3] = [0x5555_5555_5555_5555, 0x3333_3333_3333_3333, 0x0f0f_0f0f_0f0f_0f0f];
    let pairs = v - shifted_right(v, 1).and(int(v, MASKS[0]));
    let fours = pairs.and(int(v, MASKS[1])) + shifted_right(pairs, 2).and(int(v, MASKS[1]));
    let eights = (fours + shifted_right(fours, 4)).and(int(v, MASKS[2]));
    shifted_right(eights * int(v, 0x0101_0101_0101_0101), 56)
}

/// Logic of bools and integers.
pub fn bitwise<'m>(c: &Call<'_, '_, 'm>, op: Op) -> Result<Values<'m>> {
    let [a, b] = [c.x[0], c.x[1]];
    match a.dtype == b.dtype {
        true => Ok(vec![a.map(|v| v.binary(op, b.v))]),
        false => invalid!("operands of different types, {} and {}", a.dtype, b.dtype),
    }
}

/// An index into a dimension, as i64.
pub fn index(x: Value) -> V {
    if is_unsigned(x.dtype) { wide(x) } else { x.v.cast(DType::I64) }
}
