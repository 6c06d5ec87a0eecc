//! Rules of the pointwise primitives. Half types are computed in f32 and rounded once, as PyTorch's kernels do.

use super::{Flow, Step};
use crate::graph::math::{V, wide};
use crate::op::Op;

/// The operand's cotangent: `slope` of operand, result and cotangent.
pub fn unary<'m>(s: &Step<'m, '_>, slope: impl FnOnce(V<'m>, V<'m>, V<'m>) -> V<'m>) -> Flow<'m> {
    let dtype = s.x[0].dtype();
    let [x, y, dy] = [s.x[0], s.y[0], s.dy()].map(|v| v.cast(wide(dtype)));
    Ok(vec![Some(slope(x, y, dy).cast(dtype))])
}

/// As [`unary`], for two operands.
pub fn binary<'m>(
    s: &Step<'m, '_>,
    slopes: impl FnOnce([V<'m>; 2], V<'m>, V<'m>) -> [V<'m>; 2],
) -> Flow<'m> {
    let dtype = s.x[0].dtype();
    let [a, b, y, dy] = [s.x[0], s.x[1], s.y[0], s.dy()].map(|v| v.cast(wide(dtype)));
    Ok(slopes([a, b], y, dy).map(|v| Some(v.cast(dtype))).into())
}

/// Under an exponent of 0 the base has no slope, even at 0; nor has an exponent that is not negative over a base of 0.
pub fn pow<'m>([a, b]: [V<'m>; 2], y: V<'m>, dy: V<'m>) -> [V<'m>; 2] {
    let none = dy.math().zeros(dy.dtype(), &dy.sizes());
    let along_base = b.eq(0.0).select(none, dy * (b * a.pow(b - 1.0)));
    let flat = a.eq(0.0).and(b.ge(0.0));
    [along_base, flat.select(none, dy * (y * a.log()))]
}

/// At the origin, which has no direction, there is no slope.
pub fn atan2<'m>([a, b]: [V<'m>; 2], _: V<'m>, dy: V<'m>) -> [V<'m>; 2] {
    let square = a * a + b * b;
    let none = dy.math().zeros(dy.dtype(), &dy.sizes());
    let scale = square.eq(0.0).select(none, dy / square);
    [scale * b, -scale * a]
}

/// The operand that `wins` gets the cotangent. Equal ones share it, even if one of them is a repeated number: the graph does
/// not distinguish a bound (relu) from an array that the user filled, so rows with bounds define the slope at these
/// themselves.
pub fn extreme<'m>(s: &Step<'m, '_>, wins: Op) -> Flow<'m> {
    let [a, b] = [s.x[0], s.x[1]];
    // NaN neither wins nor loses: both operands get the full cotangent.
    let share = |winner: V<'m>, loser: V<'m>, dy: V<'m>| {
        let kept = loser.binary(wins, winner).not().select(dy, 0.0);
        a.eq(b).select(dy * 0.5, kept)
    };
    binary(s, |_, _, dy| [share(a, b, dy), share(b, a, dy)])
}

pub fn select<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (condition, dy) = (s.x[0], s.dy());
    let nothing = s.math.zeros(dy.dtype(), &dy.sizes());
    let yes = s.of(1, || condition.select(dy, nothing));
    let no = s.of(2, || condition.select(nothing, dy));
    Ok(vec![None, yes, no])
}
