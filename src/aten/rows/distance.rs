//! Distances between all rows of two matrices.

use super::PLAIN;
use super::pointwise::finite;
use super::reduce::still_at_zero;
use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::error::Result;
use crate::graph::math::{V, together};
use crate::invalid;
use crate::op::Op;

pub const ROWS: &[Row] = &[
    row("_cdist_forward", PLAIN, forward).fixed(&[2]).wide_floats(),
    row("_cdist_backward", PLAIN, backward).fixed(&[3]).wide_floats(),
];

/// `x1[…, P, M] - x2[…, R, M]` as `[…, P, R, M]`.
fn differences<'a>(c: &Call<'a>, [at1, at2]: [usize; 2]) -> Result<V<'a>> {
    let (x1, x2) = (c.tensor(at1)?, c.tensor(at2)?);
    if x1.rank() < 2 || x2.rank() < 2 {
        return invalid!("cdist takes tensors of at least two dimensions");
    }
    let [a, b] = together([x1.unsqueeze(x1.rank() - 1), x2.unsqueeze(x2.rank() - 2)]);
    c.math.check()?;
    Ok(a - b)
}

/// `(x1, x2, p, compute_mode)`: the p-norms of the differences.
fn forward<'a>(c: &Call<'a>) -> Outs<'a> {
    let size = differences(c, [0, 1])?.abs();
    let (p, axis) = (c.float(2, 2.0)?, [size.rank() as i64 - 1]);
    let sum = |v: V<'a>| v.reduce(Op::Sum, &axis, false);
    let y = match p {
        // A NaN makes the count NaN.
        0.0 => sum(size.unary(Op::Ceil).min(1.0)),
        1.0 => sum(size),
        2.0 => still_at_zero(c, sum(size * size)).sqrt(),
        // Without columns it is 0.
        p if p.is_infinite() && size.sizes().last() == Some(&0) => sum(size),
        p if p.is_infinite() => {
            // PyTorch's kernels keep values larger than the maximum so far, which NaN never is.
            let size = size.eq(size).select(size, 0.0);
            let y = size.reduce(Op::ReduceMax, &axis, false);
            if c.is_differentiated() { equally_steep(y, size) } else { y }
        }
        p => {
            let size = if p < 1.0 { still_at_zero(c, size) } else { size };
            still_at_zero(c, sum(size.pow(p))).pow(1.0 / p)
        }
    };
    Ok(vec![y])
}

/// The largest of each row, with the full gradient for every element that is equal to it, as if each were alone.
fn equally_steep<'a>(largest: V<'a>, size: V<'a>) -> V<'a> {
    let axis = size.rank() - 1;
    let is_largest = size.eq(largest.unsqueeze(axis)).and(finite(size));
    let moved = is_largest.select(size.detached() - size, 0.0);
    largest.detached() - moved.reduce(Op::Sum, &[axis as i64], false)
}

/// `(grad[…, P, R], x1, x2, p, distances[…, P, R])` → the gradient of x1, in the sizes that it is broadcast to, or in its own
/// if there are no distances. It is 0 between equal rows.
fn backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let difference = differences(c, [1, 2])?;
    let (p, rank) = (c.float(3, 2.0)?, difference.rank());
    let [dy, distance] = [c.tensor(0)?, c.tensor(4)?].map(|v| v.unsqueeze(v.rank()));
    let (size, sign) = (difference.abs(), difference.unary(Op::Sign));
    let apart = distance.ne(0.0);
    let dx = match p {
        0.0 => c.math.zeros(difference.dtype(), &difference.sizes()),
        1.0 => dy * sign,
        2.0 => apart.select(dy / distance, 0.0) * difference,
        p if p.is_infinite() => size.eq(distance.broadcast(&size.sizes())).select(dy * sign, 0.0),
        p => {
            let slope = sign * size.pow(p - 1.0) * (dy / distance.pow(p - 1.0));
            let apart = if p < 1.0 { apart.and(size.ne(0.0)) } else { apart };
            apart.select(slope, 0.0)
        }
    };
    if dx.numel() == 0 {
        let (dtype, own) = (dx.dtype(), c.tensor(1)?.sizes());
        return Ok(vec![c.math.zeros(dtype, &own)]);
    }
    Ok(vec![dx.reduce(Op::Sum, &[rank as i64 - 2], false)])
}
