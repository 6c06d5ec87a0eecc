//! Reductions over dimensions.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::array::integer_range;
use crate::op::{Attr, Op};
use crate::shape::{Dims, numel};
use crate::stablehlo::body::{Body, logic, samples};
use crate::stablehlo::lower::Call;
use crate::stablehlo::types::{carrier, is_carried};
use crate::stablehlo::value::{Value, Values};
use smallvec::smallvec;

/// The primitive that folds by `op`.
fn folding(op: Op, dtype: DType) -> Option<Op> {
    if dtype == DType::Bool {
        return match logic(op) {
            Op::Or => Some(Op::Any),
            Op::And => Some(Op::All),
            _ => None,
        };
    }
    match op {
        Op::Add => Some(Op::Sum),
        Op::Mul => Some(Op::Prod),
        Op::Max => Some(Op::ReduceMax),
        Op::Min => Some(Op::ReduceMin),
        _ => None,
    }
}

/// Whether `init` is neutral in a reduction by `op`.
pub fn is_neutral<'m>(c: &Call<'_, '_, 'm>, op: Op, init: Value<'m>) -> bool {
    let Some(known) = c.lowering.splat(init.v) else { return false };
    let dtype = init.dtype;
    if dtype.is_float() {
        let x = known.f64(0);
        return match op {
            Op::Add => x == 0.0,
            Op::Mul => x == 1.0,
            Op::Max => x == f64::NEG_INFINITY,
            Op::Min => x == f64::INFINITY,
            _ => false,
        };
    }
    if !carrier(dtype).is_int() && dtype != DType::Bool {
        return false;
    }
    let (least, greatest) = match is_carried(dtype) {
        true => (0, -1),
        false => integer_range(dtype),
    };
    let all_ones = if dtype == DType::Bool { 1 } else { -1 };
    let wanted = match op {
        Op::Add | Op::Or | Op::Xor => 0,
        Op::Mul => 1,
        Op::Max => least,
        Op::Min => greatest,
        Op::And => all_ones,
        _ => return false,
    };
    let x = known.i64(0);
    x == wanted || dtype == DType::U8 && x as i8 as i64 == wanted
}

pub fn reduce<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let n = c.x.len() / 2;
    if n == 0 || !c.x.len().is_multiple_of(2) {
        return invalid!("expected as many operands as numbers to begin with");
    }
    let (x, inits) = c.x.split_at(n);
    let sizes = x[0].v.sizes();
    if let Some(other) = x.iter().find(|x| x.v.sizes() != sizes) {
        return invalid!("operands of different sizes, {sizes:?} and {:?}", other.v.sizes());
    }
    if x.iter().zip(inits).any(|(x, init)| init.dtype != x.dtype || init.v.rank() != 0) {
        return invalid!("a number to begin with has another type");
    }
    let dims = c.dims(&["dimensions"], sizes.len())?;
    let body = c.body(0)?;
    let kept: Dims = (0..sizes.len()).filter(|d| !dims.contains(d)).map(|d| sizes[d]).collect();
    let count: i64 = dims.iter().map(|&d| sizes[d]).product();
    if count == 0 {
        return Ok(inits.iter().map(|init| init.map(|v| v.broadcast(&kept))).collect());
    }
    let axes: Vec<i64> = dims.iter().map(|&d| d as i64).collect();
    let spread = |init: &Value<'m>| init.map(|v| v.broadcast(&kept));
    if let Body::One(op) = body
        && n == 1
    {
        let (x, init) = (x[0], inits[0]);
        let folded = match folding(op, x.dtype) {
            Some(fold) if x.dtype.is_complex() && op == Op::Add => {
                Some(x.map(|v| v.pairs().reduce(fold, &axes, false).paired()))
            }
            Some(fold) if is_carried(x.dtype) && matches!(op, Op::Max | Op::Min) => {
                Some(x.with_ordered(x.ordered().reduce(fold, &axes, false)))
            }
            Some(fold) if x.v.dtype().has_arithmetic() => {
                Some(x.map(|v| v.reduce(fold, &axes, false)))
            }
            _ => None,
        };
        if let Some(folded) = folded {
            return match is_neutral(c, op, init) {
                true => Ok(vec![folded]),
                false => c.merge(body, &[spread(&init)], &[folded]),
            };
        }
    }
    if let Some(results) = place_of_extreme(c, body, x, inits, &dims)? {
        return Ok(results);
    }
    pairwise(c, x, inits, &dims, &kept)
}

/// Reduces by any body, in a tree of pairs of neighbours.
fn pairwise<'m>(
    c: &Call<'_, '_, 'm>,
    x: &[Value<'m>],
    inits: &[Value<'m>],
    dims: &[usize],
    kept: &[i64],
) -> Result<Values<'m>> {
    let rank = x[0].v.rank();
    let order = (0..rank).filter(|d| !dims.contains(d)).chain(dims.iter().copied());
    let perm: Dims = order.map(|d| d as i64).collect();
    let sizes = x[0].v.sizes();
    let mut n: i64 = dims.iter().map(|&d| sizes[d]).product();
    let flat = [numel(kept), n];
    let mut values: Values =
        x.iter().map(|x| x.map(|v| v.transpose(&perm).reshape(&flat))).collect();
    let body = c.body(0)?;
    while n > 1 {
        let half = n / 2;
        let every = |start: i64| -> Values<'m> {
            let slice = |v: V<'m>| v.slice(&[0, start], &[flat[0], half], &[1, 2]);
            values.iter().map(|x| x.map(slice)).collect()
        };
        let mut merged = c.merge(body, &every(0), &every(1))?;
        if n % 2 == 1 {
            for (merged, x) in merged.iter_mut().zip(&values) {
                *merged = merged.map(|v| c.math().concat(&[v, x.v.narrow(1, n - 1, 1)], 1));
            }
        }
        values = merged;
        n = half + n % 2;
    }
    let values: Values = values.iter().map(|x| x.map(|v| v.reshape(kept))).collect();
    let inits: Values = inits.iter().map(|init| init.map(|v| v.broadcast(kept))).collect();
    c.merge(body, &inits, &values)
}

/// The largest or smallest element and its index: a reduction of an array with its indices.
fn place_of_extreme<'m>(
    c: &Call<'_, '_, 'm>,
    body: Body<'_, '_>,
    x: &[Value<'m>],
    inits: &[Value<'m>],
    dims: &[usize],
) -> Result<Option<Values<'m>>> {
    let (Body::Region(_), [x, places], [axis]) = (body, x, dims) else { return Ok(None) };
    let region = c.region(0)?;
    let is_places = c.math().graph(|graph| {
        let node = graph.maker(places.v.id);
        node.op == Op::Iota && node.attrs[1].int() == *axis as i64
    });
    let is_exact = x.dtype.is_float() || x.dtype.is_int();
    if !is_places || !is_exact || !c.compares(region) {
        return Ok(None);
    }
    let Some(largest) = chooses(c, x.dtype, places.dtype) else { return Ok(None) };
    let (arg, extreme, op) = match largest {
        true => (Op::ArgMax, Op::ReduceMax, Op::Max),
        false => (Op::ArgMin, Op::ReduceMin, Op::Min),
    };
    if !is_neutral(c, op, inits[0]) {
        return Ok(None);
    }
    let index = c.math().op(arg, &[x.v], smallvec![Attr::Int(*axis as i64)]);
    let best = x.v.reduce(extreme, &[*axis as i64], false);
    Ok(Some(vec![x.map(|_| best), places.map(|v| index.cast(v.dtype()))]))
}

/// Whether a region keeps the larger (`true`) or the smaller of two elements with its index: the first of equal ones, and
/// a NaN rather than a number.
fn chooses(c: &Call<'_, '_, '_>, dtype: DType, of_places: DType) -> Option<bool> {
    let numbers = samples(dtype)?;
    let mut columns: [Vec<f64>; 4] = Default::default();
    for &a in &numbers {
        for &b in &numbers {
            for (i, j) in [(0.0, 1.0), (1.0, 0.0)] {
                [a, i, b, j].into_iter().zip(&mut columns).for_each(|(x, column)| column.push(x));
            }
        }
    }
    let [a, i, b, j] = columns;
    let args =
        [(dtype, a.clone()), (of_places, i.clone()), (dtype, b.clone()), (of_places, j.clone())];
    let got = c.run_region(c.region(0).ok()?, &args)?;
    let [best, at] = &got[..] else { return None };
    let agrees = |largest: bool| {
        (0..a.len()).all(|n| {
            let better = if largest { a[n] > b[n] } else { a[n] < b[n] };
            let equal = a[n] == b[n] || a[n].is_nan() && b[n].is_nan();
            // Of two NaNs, either index may be kept.
            if a[n].is_nan() && b[n].is_nan() {
                return best.f64(n).is_nan();
            }
            let first = a[n].is_nan() || better && !b[n].is_nan() || equal && i[n] < j[n];
            let (x, place) = if first { (a[n], i[n]) } else { (b[n], j[n]) };
            (best.f64(n) == x || x.is_nan() && best.f64(n).is_nan()) && at.f64(n) == place
        })
    };
    [true, false].into_iter().find(|&largest| agrees(largest))
}
