//! Functions of mathematical physics as formulas in f64, whatever their operand: near a root f32 would cancel.

use super::{PLAIN, moving};
use crate::aten::call::{Call, Rule};
use crate::aten::{Row, row};
use crate::dtype::DType;
use crate::graph::math::{LANCZOS, V};
use crate::op::Op;
use std::f64::consts::PI;

pub const ROWS: &[Row] = &[
    row("lgamma", PLAIN, |c| c.elementwise([0], Rule::FloatFormula, |[x]| precisely(c, x, lgamma))),
    row("digamma", PLAIN, |c| {
        c.elementwise([0], Rule::FloatFormula, |[x]| precisely(c, x, digamma))
    }),
];

fn precisely<'a>(c: &Call<'a>, x: V<'a>, formula: fn(&Call<'a>, V<'a>) -> V<'a>) -> V<'a> {
    formula(c, x.cast(DType::F64)).cast(x.dtype())
}

/// log |Γ(x)|: Lanczos' formula from a half on, below it Γ(x) Γ(1 - x) = π / sin(πx). Infinite at 0, at negative whole
/// numbers, and at both infinities.
fn lgamma<'a>(c: &Call<'a>, x: V<'a>) -> V<'a> {
    let reflects = x.lt(0.5);
    let z = reflects.select(1.0 - x, x);
    let mut sum = x.math().constant(LANCZOS[0], DType::F64).broadcast(&x.sizes());
    for (k, coefficient) in LANCZOS.iter().enumerate().skip(1) {
        sum = sum + *coefficient / (z + (k as f64 - 1.0));
    }
    let t = (z + 6.5).log() - 1.0;
    let above = (z - 0.5) * t + ((2.0 * PI).sqrt() * sum).log() - 7.0;
    let below = moving(c, x, |_| reflects);
    let sine = ((below - x.unary(Op::Round)) * PI).unary(Op::Sin);
    let sine = match c.is_differentiated() {
        // At 0 the slope has a sign.
        true => x.eq(0.0).select(below, sine.abs()),
        false => sine.abs(),
    };
    let y = reflects.select(PI.ln() - sine.log() - above, above);
    x.abs().eq(f64::INFINITY).select(x.abs(), y)
}

/// The derivative of log Γ: its asymptotic series from 10 on (Abramowitz and Stegun, 6.3.18), below it by ψ(x) =
/// ψ(x + 1) - 1/x, and for negative numbers by ψ(1 - x) - π / tan(πx). NaN at negative whole numbers, infinite at 0.
fn digamma<'a>(c: &Call<'a>, x: V<'a>) -> V<'a> {
    let reflects = x.lt(0.0);
    let (given, below) = (x, moving(c, x, |_| reflects));
    let x = moving(c, x, |x| x.ne(0.0).and(x.ne(f64::INFINITY)));
    let mut z = reflects.select(1.0 - x, x);
    let mut sum = z * 0.0;
    for _ in 0..10 {
        let small = z.lt(10.0);
        sum = small.select(sum - 1.0 / z, sum);
        z = small.select(z + 1.0, z);
    }
    let w = 1.0 / (z * z);
    // B_2k / 2k.
    let series = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32_760.0,
        1.0 / 12.0,
    ];
    let tail = series.iter().rev().fold(w * 0.0, |tail, term| (tail + *term) * w);
    let above = sum + z.log() - 0.5 / z - tail;
    let part = (below - x.unary(Op::Trunc)) * PI;
    let y = reflects.select(above - PI * part.unary(Op::Cos) / part.unary(Op::Sin), above);
    let whole = reflects.and(x.eq(x.unary(Op::Trunc)));
    let y = whole.select(moving(c, y, |_| whole) * f64::NAN, y);
    // At 0 the sign is the opposite of the zero's.
    let y = x.eq(0.0).select(-1.0 / given, y);
    x.eq(f64::INFINITY).select(x, y)
}
