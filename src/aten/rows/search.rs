//! Places of numbers in a sorted list, and whether numbers are in a list at all.

use super::index::take;
use crate::aten::call::{Call, Rule};
use crate::aten::facts::CHECKS_INTEGERS;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Guard;
use crate::graph::math::V;
use crate::invalid;
use crate::op::{Attr, Op};
use crate::record::Arg;
use crate::shape::{Dims, numel};
use smallvec::smallvec;

const EITHER: &[&str] = &["Tensor", "Scalar", "Tensor_out", "Scalar_out"];

pub const ROWS: &[Row] = &[
    row("searchsorted", EITHER, searchsorted).numbers().refuses(super::always),
    row("bucketize", EITHER, |c| {
        let (_, compute) = c.plan(&[0, 1], Rule::Exact)?;
        let [x, bounds] = c.numbers([0, 1], compute)?;
        if bounds.rank() != 1 {
            return invalid!("boundaries tensor must be 1 dimension, but got {:?}", bounds.sizes());
        }
        Ok(vec![bound(bounds, x, c.bool(3, false)?)?.cast(place_dtype(c, 2)?)])
    })
    .numbers(),
    row(
        "isin",
        &[
            "Tensor_Tensor",
            "Tensor_Scalar",
            "Scalar_Tensor",
            "Tensor_Tensor_out",
            "Tensor_Scalar_out",
            "Scalar_Tensor_out",
        ],
        isin,
    )
    .facts(CHECKS_INTEGERS),
];

/// Lists of at most this many elements are compared one by one, longer ones are sorted first.
const FEW: i64 = 16;

fn place_dtype(c: &Call, at: usize) -> Result<DType> {
    Ok(if c.bool(at, false)? { DType::I32 } else { DType::I64 })
}

/// The first place in the last dimension of `sorted` at which `x` could be inserted and keep the order; with `right`, the
/// last one. `sorted` is a list, or has the leading sizes of `x`. NaN compares with nothing, so with one in `sorted` the
/// result depends on which elements are read: the middle of the remaining range, as in PyTorch.
pub fn bound<'a>(sorted: V<'a>, x: V<'a>, right: bool) -> Result<V<'a>> {
    let math = x.math();
    let (sizes, rank) = (x.sizes(), sorted.rank());
    let n = *sorted.sizes().last().unwrap_or(&0);
    math.check()?;
    let mut start = math.zeros(DType::I64, &sizes);
    if n == 0 || numel(&sizes) == 0 {
        return Ok(start);
    }
    let element = |at: V<'a>| match rank {
        1 => take(sorted, at, 0),
        _ => math.op(Op::Gather, &[sorted, at], smallvec![Attr::Int(rank as i64 - 1)]),
    };
    // Each round halves the remaining range, so there is one for each bit of its size.
    let half = 1 << n.ilog2();
    math.guard(Guard::between(half, n, half - 1 + half));
    let mut end = math.full(n as f64, DType::I64, &sizes);
    for _ in 0..=n.ilog2() {
        let middle = (start + end) / 2.0;
        let before = element(middle.max(0.0).min((n - 1) as f64));
        let stays = if right { before.gt(x) } else { before.ge(x) };
        let moves = start.lt(end).and(stays.not());
        start = moves.select(middle + 1.0, start);
        end = stays.select(middle, end);
    }
    Ok(start)
}

/// `(sorted_sequence, self, out_int32, right, side, sorter)`
fn searchsorted<'a>(c: &Call<'a>) -> Outs<'a> {
    let (_, compute) = c.plan(&[0, 1], Rule::Exact)?;
    let [mut sorted, x] = c.numbers([0, 1], compute)?;
    let right = match c.arg(4) {
        Arg::Str(side) => &**side == "right",
        _ => c.bool(3, false)?,
    };
    let last = sorted.rank().wrapping_sub(1);
    if let Some(sorter) = c.optional(5)? {
        sorted = match last {
            0 => take(sorted, sorter, 0),
            _ => c.math.op(Op::Gather, &[sorted, sorter], smallvec![Attr::Int(last as i64)]),
        };
    }
    let leads = |v: V| -> Option<Dims> { v.sizes().split_last().map(|(_, lead)| lead.into()) };
    if sorted.rank() == 0 || last > 0 && leads(sorted) != leads(x) {
        return invalid!(
            "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value \
             tensor must match, but we got boundaries tensor {:?} and input value tensor {:?}",
            sorted.sizes(),
            x.sizes()
        );
    }
    Ok(vec![bound(sorted, x, right)?.cast(place_dtype(c, 2)?)])
}

/// `(elements, test_elements, assume_unique, invert)`
fn isin<'a>(c: &Call<'a>) -> Outs<'a> {
    let (_, compute) = c.plan(&[0, 1], Rule::Exact)?;
    for at in [0, 1] {
        if c.common(&[at])? == DType::Bool {
            return invalid!("Unsupported input type encountered for isin(): Bool");
        }
    }
    let [x, tests] = c.numbers([0, 1], compute)?;
    let n = tests.numel();
    let tests = tests.reshape(&[n]);
    let found = if n <= FEW {
        let one = |v: V<'a>| v.unsqueeze(v.rank());
        let axis = x.rank() as i64;
        one(x).eq(tests).reduce(Op::Any, &[axis], false)
    } else {
        let attrs = smallvec![Attr::Int(0), Attr::Int(n), Attr::Bool(false)];
        let Some(&sorted) = c.math.ops(Op::TopK, &[tests], attrs)?.first() else {
            return crate::internal!("a sort without results");
        };
        let place = bound(sorted, x, false)?.min((n - 1) as f64);
        take(sorted, place, 0).eq(x)
    };
    Ok(vec![if c.bool(3, false)? { found.not() } else { found }])
}
