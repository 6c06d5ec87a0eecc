//! Data movement: shapes, slices, padding, and windows at computed positions.

use super::integers;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::index::Reduction;
use crate::op::{Attr, Op};
use crate::shape::{Dims, contiguous_strides};
use crate::stablehlo::lower::Call;
use crate::stablehlo::options::dims;
use crate::stablehlo::types::carrier;
use crate::stablehlo::value::{Value, Values};
use smallvec::smallvec;

pub fn constant<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    match c.attr(&["value"])? {
        crate::stablehlo::attribute::Attribute::Dense(literal) => {
            Ok(vec![c.lowering.literal(literal)?])
        }
        _ => invalid!("expected `dense<…>`"),
    }
}

pub fn iota<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let ty = c.said()?;
    let dim = c.dim(&["iota_dimension", "dim"], ty.rank())?;
    let v = match ty.dtype {
        dtype if dtype.is_complex() => {
            c.math().iota(&ty.sizes, dim, dtype.part().unwrap_or(DType::F32)).cast(dtype)
        }
        dtype => c.math().iota(&ty.sizes, dim, carrier(dtype)),
    };
    Ok(vec![Value::new(v, ty.dtype)])
}

pub fn reshape<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let ty = c.said()?;
    Ok(vec![c.x[0].map(|v| v.reshape(&ty.sizes))])
}

pub fn transpose<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let perm = c.ints(&["permutation", "dims"])?;
    let x = c.x[0];
    if perm.len() != x.v.rank() || dims(&perm, x.v.rank()).is_err() {
        return invalid!("{perm:?} is no permutation of the dimensions of {:?}", x.v.sizes());
    }
    Ok(vec![x.map(|v| v.transpose(&perm))])
}

/// Each dimension of the operand becomes a dimension of the result; one of size 1 is repeated there.
pub fn broadcast_in_dim<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (x, ty) = (c.x[0], c.said()?);
    let to = c.dims(&["broadcast_dimensions", "dims"], ty.rank())?;
    let from = x.v.sizes();
    if to.len() != from.len() {
        return invalid!("{} dimensions where the operand has {}", to.len(), from.len());
    }
    // In the order of the result.
    let mut order: Vec<usize> = (0..to.len()).collect();
    order.sort_by_key(|&i| to[i]);
    let perm: Dims = order.iter().map(|&i| i as i64).collect();
    let mut sizes = Dims::from_elem(1, ty.rank());
    to.iter().zip(&from).for_each(|(&d, &size)| sizes[d] = size);
    // Leading dimensions of size 1 may be omitted.
    let lead = to.iter().copied().min().unwrap_or(ty.rank());
    Ok(vec![x.map(|v| v.transpose(&perm).reshape(&sizes[lead..]).broadcast(&ty.sizes))])
}

pub fn broadcast<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let ty = c.said()?;
    Ok(vec![c.x[0].map(|v| v.broadcast(&ty.sizes))])
}

pub fn slice<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = c.x[0];
    let rank = x.v.rank();
    let (starts, limits, steps): (Dims, Dims, Dims) = match c.find(&["ranges"]) {
        Some(ranges) => {
            let ranges = ranges.ints()?;
            if ranges.len() != 3 * rank {
                return invalid!("expected a range for each of {rank} dimensions");
            }
            let each = |n: usize| ranges.iter().skip(n).step_by(3).copied().collect();
            (each(0), each(1), each(2))
        }
        None => (
            c.ints_or(&["start_indices"], 0, rank)?,
            c.ints_or(&["limit_indices"], 0, rank)?,
            c.ints_or(&["strides"], 1, rank)?,
        ),
    };
    let mut sizes = Dims::new();
    for d in 0..rank {
        let size = limits[d].checked_sub(starts[d]).filter(|&n| n >= 0 && starts[d] >= 0);
        match size {
            Some(size) if steps[d] >= 1 => {
                sizes.push((size as u64).div_ceil(steps[d] as u64) as i64)
            }
            _ => return invalid!("{}:{}:{} is no range", starts[d], limits[d], steps[d]),
        }
    }
    Ok(vec![x.map(|v| v.slice(&starts, &sizes, &steps))])
}

pub fn concatenate<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let first = c.x[0];
    let dim = c.dim(&["dimension", "dim"], first.v.rank())?;
    let parts: Vec<V> = c.x.iter().map(|x| x.v).collect();
    Ok(vec![first.map(|_| c.math().concat(&parts, dim))])
}

/// `v` with the elements along `dim` in reverse order.
pub fn reversed(v: V<'_>, dim: usize) -> V<'_> {
    let size = v.sizes().get(dim).copied().unwrap_or(0);
    let index = v.math().iota(&[size], 0, DType::I64);
    let last = v.math().constant_int(size - 1, DType::I64);
    v.math().op(Op::Take, &[v, last - index], smallvec![Attr::Int(dim as i64)])
}

pub fn reverse<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = c.x[0];
    let all = c.dims(&["dimensions", "dims"], x.v.rank())?;
    Ok(vec![x.map(|v| all.into_iter().fold(v, reversed))])
}

/// Pads `dim` with `low` elements before, `high` after and `interior` between neighbours; negative ones remove elements.
pub fn padded<'m>(
    v: V<'m>,
    fill: V<'m>,
    dim: usize,
    [low, high, interior]: [i64; 3],
) -> Result<V<'m>> {
    let mut sizes = v.sizes();
    let total = |size: i64| {
        // The intermediate array has one more gap.
        size.checked_mul(interior.checked_add(1)?)?;
        let between = (size - 1).max(0) * interior;
        size.checked_add(between)?.checked_add(low)?.checked_add(high)
    };
    let Some(wanted) = total(sizes[dim]).filter(|&n| n >= 0 && interior >= 0) else {
        return invalid!("padding of {low}, {high}, {interior} for a dimension of {}", sizes[dim]);
    };
    let math = v.math();
    let mut v = v;
    if interior > 0 && sizes[dim] > 1 {
        let mut gap = sizes.clone();
        gap.insert(dim + 1, interior);
        v = math.concat(&[v.unsqueeze(dim + 1), fill.broadcast(&gap)], dim + 1);
        let all = sizes[dim] * (interior + 1);
        sizes[dim] = all;
        v = v.reshape(&sizes);
        sizes[dim] = all - interior;
        v = v.narrow(dim, 0, sizes[dim]);
    }
    math.check()?;
    if low < 0 || high < 0 {
        let start = low.saturating_neg().max(0).min(sizes[dim]);
        let size = (sizes[dim] - start - high.saturating_neg().max(0)).max(0);
        v = v.narrow(dim, start, size);
        sizes[dim] = size;
    }
    // More may be cut than there is: the rest of the result is fill.
    let missing = wanted - sizes[dim];
    let before = low.max(0).min(missing);
    let mut fill_of = |size: i64| {
        sizes[dim] = size;
        fill.broadcast(&sizes)
    };
    let mut parts = Vec::new();
    if before > 0 {
        parts.push(fill_of(before));
    }
    parts.push(v);
    if missing > before {
        parts.push(fill_of(missing - before));
    }
    let v = math.concat(&parts, dim);
    math.check()?;
    Ok(v)
}

pub fn pad<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [x, fill] = [c.x[0], c.x[1]];
    let rank = x.v.rank();
    let low = c.ints_or(&["edge_padding_low", "low"], 0, rank)?;
    let high = c.ints_or(&["edge_padding_high", "high"], 0, rank)?;
    let interior = c.ints_or(&["interior_padding", "interior"], 0, rank)?;
    if fill.dtype != x.dtype || fill.v.rank() != 0 {
        return invalid!("the padding value is no number of the operand's type");
    }
    let mut v = x.v;
    for d in 0..rank {
        v = padded(v, fill.v, d, [low[d], high[d], interior[d]])?;
    }
    Ok(vec![x.map(|_| v)])
}

/// The beginning of a window of `size` elements of `dim`: known, or computed; always in bounds.
enum Start<'m> {
    At(i64),
    Computed(V<'m>),
}

fn start<'m>(c: &Call<'_, '_, 'm>, x: Value<'m>, full: i64, size: i64) -> Result<Start<'m>> {
    if !x.v.dtype().is_int() || x.v.rank() != 0 {
        return invalid!("a start is one integer");
    }
    let last = full - size;
    let v = integers::index(x);
    c.math().check()?;
    Ok(match c.lowering.known_int(v) {
        Some(n) => Start::At(n.clamp(0, last)),
        None if last == 0 => Start::At(0),
        None => {
            let (zero, last) =
                (v.math().constant_int(0, DType::I64), v.math().constant_int(last, DType::I64));
            Start::Computed(v.max(zero).min(last))
        }
    })
}

fn starts<'m>(
    c: &Call<'_, '_, 'm>,
    full: &[i64],
    sizes: &[i64],
    given: &[Value<'m>],
) -> Result<Vec<Start<'m>>> {
    if given.len() != full.len() || sizes.len() != full.len() {
        return invalid!("expected a start and a size for each of {} dimensions", full.len());
    }
    if let Some(d) = (0..full.len()).find(|&d| !(0..=full[d]).contains(&sizes[d])) {
        return invalid!("a window of {} in a dimension of {}", sizes[d], full[d]);
    }
    (0..full.len()).map(|d| start(c, given[d], full[d], sizes[d])).collect()
}

pub fn dynamic_slice<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let x = c.x[0];
    let full = x.v.sizes();
    let sizes = c.ints(&["slice_sizes", "sizes"])?;
    let mut v = x.v;
    for (d, start) in starts(c, &full, &sizes, &c.x[1..])?.into_iter().enumerate() {
        v = match start {
            Start::At(at) => v.narrow(d, at, sizes[d]),
            Start::Computed(start) => {
                let index = c.math().iota(&[sizes[d]], 0, DType::I64) + start;
                c.math().op(Op::Take, &[v, index], smallvec![Attr::Int(d as i64)])
            }
        };
    }
    Ok(vec![x.map(|_| v)])
}

pub fn dynamic_update_slice<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [x, update] = [c.x[0], c.x[1]];
    let (full, sizes) = (x.v.sizes(), update.v.sizes());
    if x.dtype != update.dtype {
        return invalid!("an update of {} for an array of {}", update.dtype, x.dtype);
    }
    let starts = starts(c, &full, &sizes, &c.x[2..])?;
    if full == sizes {
        return Ok(vec![update]);
    }
    let strides = contiguous_strides(&full);
    let known: Option<Vec<i64>> = starts
        .iter()
        .map(|start| match start {
            Start::At(at) => Some(*at),
            Start::Computed(_) => None,
        })
        .collect();
    if let Some(known) = known {
        let offset = known.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        let attrs = smallvec![Attr::Ints(sizes), Attr::Ints(strides), Attr::Int(offset)];
        let v = c.math().op(Op::AsStridedScatter, &[x.v, update.v], attrs);
        return Ok(vec![x.map(|_| v)]);
    }
    let place = |d: usize| {
        let along = c.math().iota(&sizes, d, DType::I64);
        match starts[d] {
            Start::At(at) => along + c.math().constant_int(at, DType::I64),
            Start::Computed(start) => along + start,
        }
    };
    let scatter = |base: V<'m>, index: V<'m>, update: V<'m>, axis: usize| {
        let attrs = smallvec![Attr::Int(axis as i64), Reduction::Last.attr()];
        c.math().op(Op::Scatter, &[base, index, update], attrs)
    };
    let moving: Vec<usize> = (0..full.len()).filter(|&d| full[d] != sizes[d]).collect();
    let v = match moving[..] {
        [d] => scatter(x.v, place(d), update.v, d),
        _ => {
            let zero = c.math().constant_int(0, DType::I64);
            let scaled = |d: usize| place(d) * c.math().constant_int(strides[d], DType::I64);
            let index = (0..full.len()).fold(zero, |sum, d| sum + scaled(d));
            let [base, index, update] = [x.v, index, update.v].map(|v| v.reshape(&[-1]));
            scatter(base, index, update, 0).reshape(&full)
        }
    };
    Ok(vec![x.map(|_| v)])
}

/// Reinterprets the bytes; a narrower type adds a last dimension, a wider one removes it.
pub fn bitcast_convert<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (x, ty) = (c.x[0], c.said()?);
    if (x.dtype == DType::Bool) != (ty.dtype == DType::Bool) {
        return invalid!("bools have no bytes to read as another type");
    }
    let (from, to) = (x.v.dtype(), carrier(ty.dtype));
    let v = match from.size().cmp(&to.size()) {
        std::cmp::Ordering::Equal => x.v.bitcast(to),
        std::cmp::Ordering::Greater => x.v.unsqueeze(x.v.rank()).bitcast(to),
        std::cmp::Ordering::Less => {
            let sizes = x.v.sizes();
            if sizes.last() != Some(&((to.size() / from.size()) as i64)) {
                return invalid!("the last dimension is not one {} long", ty.dtype);
            }
            x.v.bitcast(to).reshape(&sizes[..sizes.len() - 1])
        }
    };
    Ok(vec![Value::new(v, ty.dtype)])
}
