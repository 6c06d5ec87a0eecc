//! Rows of a table, reduced by bag: sums, means or maxima over consecutive parts of the list of indices.

use super::always;
use super::index::{by_frequency, rows_added, scattered, take};
use super::search::bound;
use crate::aten::call::{Call, wide};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::graph::math::V;
use crate::invalid;
use crate::op::expect::Expectation;
use crate::op::index::Reduction;

pub const ROWS: &[Row] = &[
    row("_embedding_bag", &["", "out"], forward).refuses(always),
    row("_embedding_bag_forward_only", &["", "out"], forward).refuses(always),
    row("_embedding_bag_backward", &[""], backward).refuses(always),
    row("_embedding_bag_per_sample_weights_backward", &["", "out"], weights_backward)
        .refuses(always),
];

#[derive(PartialEq)]
enum Mode {
    Sum,
    Mean,
    Max,
}

fn mode(c: &Call, i: usize) -> Result<Mode> {
    Ok(match c.int(i, 0)? {
        0 => Mode::Sum,
        1 => Mode::Mean,
        2 => Mode::Max,
        other => return invalid!("embedding_bag: there is no mode {other}"),
    })
}

/// Which indices count: all but the padding, argument `i`.
fn counted<'a>(c: &Call<'a>, i: usize, index: V<'a>) -> Result<V<'a>> {
    let padding = c.math.constant_int(c.int(i, -1)?, index.dtype());
    Ok(index.ne(padding))
}

/// `(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)` → the
/// bags, the bag of each index, the number of counted indices of each bag, and the rows that maxima are from.
fn forward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (table, index, offsets) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (&[_, width], &[n], &[ends]) =
        (&table.sizes()[..], &index.sizes()[..], &offsets.sizes()[..])
    else {
        return invalid!("embedding_bag: expected a matrix and two lists");
    };
    let (mode, has_end) = (mode(c, 4)?, c.bool(7, false)?);
    let bags = ends - i64::from(has_end);
    if bags < 0 {
        return invalid!("include_last_offset: numBags should be at least 1");
    }
    let (dtype, compute) = (table.dtype(), wide(table.dtype()));
    let whole = index.dtype();
    let index = index.cast(DType::I64);
    let place = c.math.iota(&[n], 0, DType::I64);
    let mut bag = c.math.zeros(DType::I64, &[n]);
    if ends > 0 {
        let offsets = offsets.cast(DType::I64);
        let one = |at: i64| offsets.narrow(0, at, 1).reshape(&[]);
        bag = bag + one(0).eq(0.0).expected(Expectation::FirstOffset);
        bag = bag + one(ends - 1).le(n as f64).expected(Expectation::LastOffset);
        bag = bag + bound(offsets.narrow(0, 0, bags), place, true)? - 1.0;
    }
    let counts = counted(c, 8, index)?;
    let column = |v: V<'a>| v.unsqueeze(1);
    let zeros = |dtype: DType, sizes: &[i64]| c.math.zeros(dtype, sizes);
    if bags == 0 {
        let no_bags = [zeros(dtype, &[0, width]), bag.cast(whole), zeros(whole, &[ends])];
        let rows: &[i64] = if mode == Mode::Max { &[0, width] } else { &[0] };
        return Ok(no_bags.into_iter().chain([zeros(whole, rows)]).collect());
    }
    let sizes = rows_added(zeros(DType::I64, &[bags]), bag, counts.cast(DType::I64), 0);
    let mut rows = take(table, index, 0).cast(compute);
    if c.is_differentiated() && c.bool(3, false)? {
        rows = by_frequency(rows, index, table)?;
    }
    if let Some(weights) = c.optional(6)? {
        rows = rows * column(weights.cast(compute));
    }
    let (bagged, from) = match mode {
        Mode::Sum | Mode::Mean => {
            let counted = column(counts).select(rows, 0.0);
            let sums = rows_added(zeros(compute, &[bags, width]), bag, counted, 0);
            let by = column(sizes.max(1.0).cast(compute));
            (if mode == Mode::Mean { sums / by } else { sums }, zeros(whole, &[0]))
        }
        Mode::Max => {
            let to = column(bag).broadcast(&[n, width]);
            let lowest = |sizes: &[i64]| c.math.full(f64::NEG_INFINITY, compute, sizes);
            let counted = column(counts).select(rows, f64::NEG_INFINITY);
            let largest = scattered(lowest(&[bags, width]), to, counted, 0, Reduction::Max);
            let is_empty = column(sizes.eq(0.0));
            let from = match n {
                0 => zeros(DType::I64, &[bags, width]),
                _ => {
                    // The first of equals.
                    let found = rows.eq(take(largest, bag, 0)).or(rows.ne(rows));
                    let found = found.and(column(counts));
                    let last = (n - 1) as f64;
                    let places = found.select(column(place), last);
                    let none = c.math.full(last, DType::I64, &[bags, width]);
                    let first = scattered(none, to, places, 0, Reduction::Min);
                    is_empty.not().select(take(index, first, 0), 0.0)
                }
            };
            (is_empty.not().select(largest, 0.0), from.cast(whole))
        }
    };
    let mut sizes = sizes.cast(whole);
    if has_end {
        sizes = c.math.concat(&[sizes, zeros(whole, &[1])], 0);
    }
    Ok(vec![bagged.cast(dtype), bag.cast(whole), sizes, from])
}

/// `(grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse,
/// per_sample_weights, padding_idx)`
fn backward<'a>(c: &Call<'a>) -> Outs<'a> {
    if c.bool(7, false)? || c.bool(9, false)? {
        return Err(Error::new(Code::Unsupported, "a gradient that is sparse, or by frequency"));
    }
    let (dy, index, bag) = (c.tensor(0)?, c.tensor(1)?, c.tensor(3)?);
    let &[bags, width] = &dy.sizes()[..] else {
        return invalid!("embedding_bag: expected the gradient of a matrix");
    };
    let (dtype, compute) = (dy.dtype(), wide(dy.dtype()));
    let (dy, sizes, mode, rows) = (dy.cast(compute), c.tensor(4)?, mode(c, 8)?, c.int(6, 0)?);
    let column = |v: V<'a>| v.unsqueeze(1);
    let zeros = c.math.zeros(compute, &[rows, width]);
    if mode == Mode::Max {
        let is_empty = column(sizes.narrow(0, 0, bags).eq(0.0));
        let counted = is_empty.not().select(dy, 0.0);
        let to = c.tensor(5)?.cast(DType::I64);
        return Ok(vec![scattered(zeros, to, counted, 0, Reduction::Sum).cast(dtype)]);
    }
    let mut parts = take(dy, bag, 0);
    if let Some(weights) = c.optional(10)? {
        parts = parts * column(weights.cast(compute));
    }
    if mode == Mode::Mean {
        parts = parts / column(take(sizes.cast(compute), bag, 0));
    }
    let counted = column(counted(c, 11, index)?).select(parts, 0.0);
    Ok(vec![rows_added(zeros, index, counted, 0).cast(dtype)])
}

/// `(grad, weight, indices, offsets, offset2bag, mode, padding_idx)`
fn weights_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (dy, table, index, bag) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?, c.tensor(4)?);
    let (dtype, compute) = (dy.dtype(), wide(dy.dtype()));
    let products = take(dy, bag, 0).cast(compute) * take(table, index, 0).cast(compute);
    let sums = products.reduce(crate::op::Op::Sum, &[1], false);
    Ok(vec![counted(c, 6, index)?.select(sums, 0.0).cast(dtype)])
}
