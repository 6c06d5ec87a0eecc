//! Indexing by tensors of integers, one for each dimension or none: `x[i, :, j]`.

use super::always;
use super::index::{rows_added, scattered, sum_dtype, take, turns};
use crate::aten::call::Call;
use crate::aten::facts::{ONE_FLOAT, REFUSES_OF_NOTHING, SHAPED_BY_MASKS};
use crate::aten::{Outs, Row, complex, row};
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::graph::Guard;
use crate::graph::math::V;
use crate::op::Op;
use crate::op::expect::Expectation;
use crate::op::index::{NO_ROW, Reduction};
use crate::record::Arg;
use crate::shape::{Dims, broadcast_shapes, contiguous_strides, numel};
use crate::{internal, invalid};

pub const ROWS: &[Row] = &[
    row("index", &["Tensor", "Tensor_out", "Tensor_hacked_twin"], |c| {
        let x = c.tensor(0)?;
        let sizes = x.sizes();
        if let [(dim, index)] = indices(c, &sizes)?[..] {
            return Ok(vec![take(x, from_the_end(index, sizes[dim]), dim)]);
        }
        let places = Places::of(c, &sizes)?;
        Ok(vec![places.to_result(take(places.rows(x), places.index, 0))])
    })
    .lists(|indices| !indices.iter().any(is_mask))
    .refuses(always)
    .complex()
    .facts(SHAPED_BY_MASKS),
    write("index_put"),
    write("_index_put_impl"),
];

const fn write(name: &'static str) -> Row {
    row(name, &[""], index_put)
        .lists(masks_alone)
        .refuses(always)
        .complex()
        .facts(ONE_FLOAT | REFUSES_OF_NOTHING)
}

/// Bools and bytes are masks: they select a number of elements that is not known in advance.
fn is_mask(index: &DType) -> bool {
    matches!(index, DType::Bool | DType::U8)
}

/// Whether a mask, if any, stands alone: beside other indices it selects as many elements as these have, or one.
fn masks_alone(indices: &[DType]) -> bool {
    indices.len() == 1 || !indices.iter().any(is_mask)
}

/// Argument 1, a list of indices with gaps, for a tensor of `sizes`: each index with the dimension that it indexes.
fn indices<'a>(c: &Call<'a>, sizes: &[i64]) -> Result<Vec<(usize, V<'a>)>> {
    let Arg::Tensors(reads) = c.arg(1) else {
        return invalid!("the indices must be a list of tensors");
    };
    if reads.len() > sizes.len() {
        return invalid!("too many indices for tensor of dimension {}", sizes.len());
    }
    let mut given = Vec::new();
    for (dim, read) in reads.iter().enumerate() {
        if let Some(read) = read {
            given.push((dim, c.read(read)?.cast(DType::I64)));
        }
    }
    match given[..] {
        [] => invalid!("at least one index must be provided"),
        _ => Ok(given),
    }
}

/// Counts negative numbers from the end; those out of range stay as they are.
fn from_the_end<'a>(index: V<'a>, size: i64) -> V<'a> {
    let counted = index.lt(0.0).and(index.ge(-size as f64));
    counted.select(index + size as f64, index)
}

/// The elements of a tensor that a list of indices selects. The indexed dimensions, moved to the front and merged, are the
/// rows of a matrix; a single index selects rows.
struct Places<'a> {
    /// Row numbers, in the indices' common sizes.
    index: V<'a>,
    /// Brings the indexed dimensions to the front.
    perm: Dims,
    /// Number of rows, and sizes of the dimensions that are not indexed.
    n_rows: i64,
    rest: Dims,
    /// Position of the indices' dimensions in the result.
    position: usize,
}

impl<'a> Places<'a> {
    /// The places that argument 1 selects in a tensor of `sizes`.
    fn of(c: &Call<'a>, sizes: &[i64]) -> Result<Places<'a>> {
        let given = indices(c, sizes)?;
        let dims: Vec<usize> = given.iter().map(|g| g.0).collect();
        let adjacent = dims.windows(2).all(|w| w[0] + 1 == w[1]);
        let others = (0..sizes.len()).filter(|d| !dims.contains(d));
        let rest: Dims = others.clone().map(|d| sizes[d]).collect();
        let indexed: Dims = dims.iter().map(|&d| sizes[d]).collect();
        Ok(Places {
            index: row_numbers(c, &given, &indexed)?,
            perm: dims.iter().copied().chain(others).map(|d| d as i64).collect(),
            n_rows: numel(&indexed),
            rest,
            position: if adjacent { dims[0] } else { 0 },
        })
    }

    /// `x`, of the indexed tensor's sizes, as rows.
    fn rows(&self, x: V<'a>) -> V<'a> {
        let sizes: Dims = [self.n_rows].into_iter().chain(self.rest.iter().copied()).collect();
        x.transpose(&self.perm).reshape(&sizes)
    }

    /// From rows back to the tensor's `sizes`.
    fn restored(&self, rows: V<'a>, sizes: &[i64]) -> V<'a> {
        let moved: Dims = self.perm.iter().map(|&p| sizes[p as usize]).collect();
        let mut back = Dims::from_elem(0, self.perm.len());
        self.perm.iter().enumerate().for_each(|(i, &p)| back[p as usize] = i as i64);
        rows.reshape(&moved).transpose(&back)
    }

    /// Permutation from `indices' dimensions, rest` to the order of the result.
    fn order(&self) -> Dims {
        let (k, n) = (self.index.rank(), self.index.rank() + self.rest.len());
        let before = k..k + self.position;
        before.chain(0..k).chain(k + self.position..n).map(|d| d as i64).collect()
    }

    fn to_result(&self, picked: V<'a>) -> V<'a> {
        picked.transpose(&self.order())
    }

    /// Values that broadcast to the result, as `indices' dimensions, rest`.
    fn values(&self, values: V<'a>) -> V<'a> {
        let order = self.order();
        let plain: Dims = self.index.sizes().into_iter().chain(self.rest.iter().copied()).collect();
        let result: Dims = order.iter().map(|&o| plain[o as usize]).collect();
        let mut back = Dims::from_elem(0, order.len());
        order.iter().enumerate().for_each(|(i, &o)| back[o as usize] = i as i64);
        values.broadcast(&result).transpose(&back)
    }
}

/// Row numbers of several indices: negative ones count from the end. An index out of range gives [`NO_ROW`] plus its
/// dimension, unless it is itself the row number.
fn row_numbers<'a>(c: &Call<'a>, given: &[(usize, V<'a>)], sizes: &[i64]) -> Result<V<'a>> {
    let mut common = Dims::new();
    for (_, index) in given {
        let with = index.sizes();
        common = match broadcast_shapes(&common, &with) {
            Some(both) => both,
            None => {
                return invalid!(
                    "shape mismatch: indexing tensors could not be broadcast together with shapes {common:?}, {with:?}"
                );
            }
        };
    }
    if let ([(0, index)], [size]) = (given, sizes) {
        return Ok(from_the_end(*index, *size));
    }
    let strides = contiguous_strides(sizes);
    let mut number = c.math.full(0.0, DType::I64, &common);
    let mut outside = Vec::new();
    for (&(dim, index), (&size, &stride)) in given.iter().zip(sizes.iter().zip(&strides)) {
        let index = from_the_end(index, size);
        outside.push((dim, index.lt(0.0).or(index.ge(size as f64))));
        number = number + index * stride as f64;
    }
    let named = |number: V<'a>, (dim, outside): (usize, V<'a>)| {
        outside.select(c.math.constant_int(NO_ROW + dim as i64, DType::I64), number)
    };
    Ok(outside.into_iter().rev().fold(number, named))
}

/// The mask that stands alone in a list of indices, and the first dimension that it covers.
fn lone_mask<'a>(c: &Call<'a>) -> Result<Option<(usize, V<'a>)>> {
    let Arg::Tensors(reads) = c.arg(1) else { return Ok(None) };
    let Some(dim) = reads.iter().position(Option::is_some) else { return Ok(None) };
    let index = reads[dim].as_ref().map(|read| c.read(read)).transpose()?;
    let mask = index.filter(|index| is_mask(&index.dtype()));
    Ok(mask.map(|mask| (dim, mask.cast(DType::Bool))))
}

/// `x` with `values` where `mask`, which covers dimensions of `x` from `dim` on, is true. Values broadcast to the selected
/// elements; several along the mask are used one after the other.
fn masked_put<'a>(
    x: V<'a>,
    (dim, mask): (usize, V<'a>),
    values: V<'a>,
    accumulate: bool,
) -> Result<V<'a>> {
    let (sizes, covered) = (x.sizes(), mask.sizes());
    if sizes.get(dim..dim + covered.len()) != Some(&covered[..]) {
        let text = format!(
            "The shape of the mask {covered:?} at index {dim} does not match the shape of the indexed tensor {sizes:?}"
        );
        return Err(Error::new(Code::IndexError, text));
    }
    let (before, after) = (dim, sizes.len() - dim - covered.len());
    let given = values.sizes();
    if given.len() > before + 1 + after {
        return invalid!(
            "shape mismatch: value tensor of shape {given:?} cannot be broadcast to what the mask selects of {sizes:?}"
        );
    }
    let along = given.len().checked_sub(1 + after);
    let new = match along.map(|along| (along, given[along])) {
        None => values,
        Some((along, 1)) => {
            let ones = std::iter::repeat_n(&1, covered.len());
            let spread = given[..along].iter().chain(ones).chain(&given[along + 1..]);
            values.reshape(&spread.copied().collect::<Dims>())
        }
        Some((along, n)) => {
            values.math().guard(Guard::order(n, 1));
            let mut values = values;
            if n == 0 {
                // A stand-in that is never used, for a mask that selects nothing.
                let mut one = given.clone();
                one[along] = 1;
                values = x.math().zeros(values.dtype(), &one);
            }
            let chosen = mask.cast(DType::I64);
            let all: Dims = (0..covered.len() as i64).collect();
            let holds = chosen.reduce(Op::Sum, &all, false).eq(n as f64);
            let turn = if n == 0 { chosen * 0.0 } else { turns(mask).reshape(&covered) };
            take(values, turn + holds.expected(Expectation::AsManyValues), along)
        }
    };
    let ones = |n| std::iter::repeat_n(1, n);
    let shape: Dims = ones(before).chain(covered.iter().copied()).chain(ones(after)).collect();
    let mask = mask.reshape(&shape);
    let new = new.cast(x.dtype());
    let new = match accumulate {
        true if new.dtype().is_complex() => complex::add(x, new),
        true => x + new,
        false => new,
    };
    Ok(mask.select(new, x).broadcast(&sizes))
}

/// `(self, indices, values, accumulate)`
fn index_put<'a>(c: &Call<'a>) -> Outs<'a> {
    let dtype = c.ty(0)?.dtype;
    let accumulate = c.bool(3, false)?;
    // Sums are in f32 at least.
    let x = c.tensor(0)?.cast(if accumulate { sum_dtype(dtype) } else { dtype });
    if let Some(mask) = lone_mask(c)? {
        let given = c.ty(2)?;
        // A single value fills, as a number does.
        if given.dtype != dtype && (accumulate || given.numel() != 1) {
            return invalid!(
                "Index put requires the source and destination dtypes match, got {dtype} for the destination and {} \
                 for the source.",
                given.dtype
            );
        }
        return Ok(vec![masked_put(x, mask, c.tensor(2)?, accumulate)?.cast(dtype)]);
    }
    let sizes = x.sizes();
    let places = Places::of(c, &sizes)?;
    let n = places.index.numel();
    let width = numel(&places.rest);
    if numel(&sizes) != places.n_rows * width {
        return internal!("{sizes:?} do not split into {} rows of {width}", places.n_rows);
    }
    let values = places.values(c.tensor(2)?.cast(x.dtype())).reshape(&[n, width]);
    let rows = places.rows(x).reshape(&[places.n_rows, width]);
    let index = places.index.reshape(&[n]);
    let new = if accumulate {
        rows_added(rows, index, values, 0)
    } else {
        let index = index.reshape(&[n, 1]).broadcast(&[n, width]);
        scattered(rows, index, values, 0, Reduction::Last)
    };
    Ok(vec![places.restored(new, &sizes).cast(dtype)])
}
