//! Reductions over windows: pooling, running sums, and the gradient of a maximum.

use super::reduce::is_neutral;
use super::shape::{padded, reversed};
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::array::integer_range;
use crate::op::{Attr, Attrs, Op};
use crate::shape::Dims;
use crate::stablehlo::body::Body;
use crate::stablehlo::lower::Call;
use crate::stablehlo::types::is_carried;
use crate::stablehlo::value::Values;
use smallvec::smallvec;

struct Windows {
    sizes: Dims,
    strides: Dims,
    /// Dilations of the operand.
    base: Dims,
    /// Dilations of the windows.
    dilations: Dims,
    low: Dims,
    high: Dims,
}

/// Larger windows, strides and paddings are meaningless; with this bound their sums cannot overflow.
const LIMIT: i64 = 1 << 31;

impl Windows {
    fn of(c: &Call<'_, '_, '_>, rank: usize) -> Result<Windows> {
        let padding = c.ints_or(&["padding"], 0, 2 * rank)?;
        let each = |n: usize| padding.iter().skip(n).step_by(2).copied().collect();
        let windows = Windows {
            sizes: c.ints_or(&["window_dimensions"], 1, rank)?,
            strides: c.ints_or(&["window_strides"], 1, rank)?,
            base: c.ints_or(&["base_dilations"], 1, rank)?,
            dilations: c.ints_or(&["window_dilations"], 1, rank)?,
            low: each(0),
            high: each(1),
        };
        let positive = [&windows.sizes, &windows.strides, &windows.base, &windows.dilations];
        if padding.iter().any(|n| !(-LIMIT..LIMIT).contains(n)) {
            return invalid!("a padding is less than {LIMIT}");
        }
        match positive.iter().all(|list| list.iter().all(|n| (1..LIMIT).contains(n))) {
            true => Ok(windows),
            false => invalid!("windows, strides and dilations are 1 to {LIMIT}"),
        }
    }

    fn pads(&self, d: usize) -> [i64; 3] {
        [self.low[d], self.high[d], self.base[d] - 1]
    }

    /// Dimensions in which windows have several elements, or a stride.
    fn moving(&self) -> Vec<usize> {
        (0..self.sizes.len()).filter(|&d| self.sizes[d] > 1 || self.strides[d] > 1).collect()
    }

    /// Number of windows of a padded dimension.
    fn count(&self, d: usize, padded: i64) -> i64 {
        let reach = (self.sizes[d] - 1) * self.dilations[d] + 1;
        if padded < reach { 0 } else { (padded - reach) / self.strides[d] + 1 }
    }
}

pub fn reduce_window<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let n = c.x.len() / 2;
    if n == 0 || !c.x.len().is_multiple_of(2) {
        return invalid!("expected as many operands as numbers to begin with");
    }
    let (x, inits) = c.x.split_at(n);
    let sizes = x[0].v.sizes();
    if x.iter().any(|x| x.v.sizes() != sizes) {
        return invalid!("operands of different sizes");
    }
    if x.iter().zip(inits).any(|(x, init)| init.dtype != x.dtype || init.v.rank() != 0) {
        return invalid!("a number to begin with has another type");
    }
    let windows = Windows::of(c, sizes.len())?;
    let body = c.body(0)?;
    if let (Body::One(op), [x], [init]) = (body, x, inits)
        && is_neutral(c, op, *init)
        && !is_carried(x.dtype)
        && x.v.dtype().has_arithmetic()
    {
        let along = match op {
            Op::Add => Some(Op::CumSum),
            Op::Mul => Some(Op::CumProd),
            Op::Max => Some(Op::CumMax),
            _ => None,
        };
        if let Some(along) = along.filter(|_| x.dtype != crate::dtype::DType::Bool)
            && let Some(folded) = running(x.v, along, &windows)
        {
            return Ok(vec![x.map(|_| folded)]);
        }
        if let Some(pooled) = pooled(x.v, init.v, op, &windows)? {
            return Ok(vec![x.map(|_| pooled)]);
        }
    }
    let mut values = x.to_vec();
    for (value, init) in values.iter_mut().zip(inits) {
        for d in 0..sizes.len() {
            let v = padded(value.v, init.v, d, windows.pads(d))?;
            *value = value.map(|_| v);
        }
    }
    for d in 0..sizes.len() {
        values = along(c, values, d, &windows)?;
    }
    let result = values[0].v.sizes();
    let inits: Values = inits.iter().map(|init| init.map(|v| v.broadcast(&result))).collect();
    c.merge(body, &inits, &values)
}

/// Reduces windows along one dimension, composed of windows of 1, 2, 4, … elements.
fn along<'m>(
    c: &Call<'_, '_, 'm>,
    values: Values<'m>,
    d: usize,
    windows: &Windows,
) -> Result<Values<'m>> {
    let body = c.body(0)?;
    let (size, step) = (windows.sizes[d], windows.dilations[d]);
    let full = values[0].v.sizes()[d];
    let count = windows.count(d, full);
    let part = |values: &Values<'m>, start: i64, size: i64| -> Values<'m> {
        values.iter().map(|x| x.map(|v| v.narrow(d, start, size))).collect()
    };
    if count == 0 {
        return Ok(part(&values, 0, 0));
    }
    let reach = full - (size - 1) * step;
    let (mut doubled, mut length) = (values, 1);
    let mut done: Option<(Values<'m>, i64)> = None;
    loop {
        if size & length != 0 {
            done = Some(match done {
                None => (part(&doubled, 0, doubled[0].v.sizes()[d]), length),
                Some((before, covered)) => {
                    let after = doubled[0].v.sizes()[d] - covered * step;
                    let n = after.min(before[0].v.sizes()[d]);
                    let (a, b) = (part(&before, 0, n), part(&doubled, covered * step, n));
                    (c.merge(body, &a, &b)?, covered + length)
                }
            });
        }
        if 2 * length > size {
            break;
        }
        let n = doubled[0].v.sizes()[d] - length * step;
        let (a, b) = (part(&doubled, 0, n), part(&doubled, length * step, n));
        doubled = c.merge(body, &a, &b)?;
        length *= 2;
    }
    let Some((values, _)) = done else { return invalid!("a window of no elements") };
    let values = part(&values, 0, reach);
    let every = |v: V<'m>| {
        let rank = v.rank();
        let (mut sizes, mut steps) = (v.sizes(), Dims::from_elem(1, rank));
        (sizes[d], steps[d]) = (count, windows.strides[d]);
        v.slice(&Dims::from_elem(0, rank), &sizes, &steps)
    };
    Ok(values.iter().map(|x| x.map(every)).collect())
}

/// Folds all elements up to each, or from each on. `None`: the windows are others.
fn running<'m>(v: V<'m>, op: Op, windows: &Windows) -> Option<V<'m>> {
    let sizes = v.sizes();
    let [d] = windows.moving()[..] else { return None };
    let n = sizes[d];
    let still = (0..sizes.len()).all(|e| e == d || windows.low[e] == 0 && windows.high[e] == 0);
    let plain = windows.strides[d] == 1 && windows.dilations[d] == 1;
    let undilated = windows.base.iter().all(|&n| n == 1);
    if !still || !plain || !undilated || windows.sizes[d] != n {
        return None;
    }
    let along = |v: V<'m>| v.math().op(op, &[v], smallvec![Attr::Int(d as i64)]);
    match (windows.low[d], windows.high[d]) {
        (low, 0) if low == n - 1 => Some(along(v)),
        (0, high) if high == n - 1 => Some(reversed(along(reversed(v, d)), d)),
        _ => None,
    }
}

/// Reduces by the primitives of pooling, if windows move along one to three dimensions.
fn pooled<'m>(v: V<'m>, init: V<'m>, op: Op, windows: &Windows) -> Result<Option<V<'m>>> {
    let moving = windows.moving();
    if !matches!(op, Op::Add | Op::Max | Op::Min) || !(1..=3).contains(&moving.len()) {
        return Ok(None);
    }
    let dtype = v.dtype();
    if dtype == crate::dtype::DType::Bool || op == Op::Min && !dtype.is_float() {
        return Ok(None);
    }
    // The primitives pad both sides equally, by at most half a window.
    let own = (0..v.rank()).all(|d| {
        let [low, high, interior] = windows.pads(d);
        low == high
            && interior == 0
            && 2 * low <= windows.sizes[d]
            && windows.dilations[d] == 1
            && low >= 0
    });
    let mut v = v;
    if !own {
        for d in 0..v.rank() {
            v = padded(v, init, d, windows.pads(d))?;
        }
    }
    let sizes = v.sizes();
    let fits = |d: &usize| {
        let padded = sizes[*d] + if own { 2 * windows.low[*d] } else { 0 };
        sizes[*d] > 0 && windows.count(*d, padded) > 0
    };
    if !moving.iter().all(fits) {
        return Ok(None);
    }
    let list = |all: &Dims| Attr::Ints(moving.iter().map(|&d| all[d]).collect());
    let zeros = Dims::from_elem(0, v.rank());
    let padding = if own { &windows.low } else { &zeros };
    let attrs: Attrs = smallvec![
        list(&windows.sizes),
        list(&windows.strides),
        list(padding),
        list(&windows.dilations),
        Attr::Bool(false)
    ];
    let planes = Planes::new(v, &moving);
    let planar = planes.to(v);
    let math = v.math();
    let y = match op {
        Op::Add => math.op(Op::SumPool, &[planar], attrs),
        Op::Max => math.ops(Op::MaxPool, &[planar], attrs)?[0],
        _ => -math.ops(Op::MaxPool, &[-planar], attrs)?[0],
    };
    Ok(Some(planes.from(y)?))
}

/// An array as planes `[n, c, s…]` of the dimensions that windows move along, and back.
struct Planes {
    perm: Dims,
    kept: Dims,
    moving: usize,
}

impl Planes {
    fn new(v: V<'_>, moving: &[usize]) -> Planes {
        let sizes = v.sizes();
        let still: Vec<usize> = (0..sizes.len()).filter(|d| !moving.contains(d)).collect();
        let perm = still.iter().chain(moving).map(|&d| d as i64).collect();
        let kept = still.iter().map(|&d| sizes[d]).collect();
        Planes { perm, kept, moving: moving.len() }
    }

    fn to<'m>(&self, v: V<'m>) -> V<'m> {
        let v = v.transpose(&self.perm);
        let sizes = v.sizes();
        let spatial = &sizes[sizes.len() - self.moving..];
        match self.kept[..] {
            [_, _] => v,
            _ => v.reshape(&[&[self.kept.iter().product(), 1], spatial].concat()),
        }
    }

    fn from<'m>(&self, v: V<'m>) -> Result<V<'m>> {
        v.math().check()?;
        let sizes = v.sizes();
        let spatial = &sizes[sizes.len() - self.moving..];
        let mut back = Dims::from_elem(0, self.perm.len());
        self.perm.iter().enumerate().for_each(|(i, &d)| back[d as usize] = i as i64);
        Ok(v.reshape(&[&self.kept[..], spatial].concat()).transpose(&back))
    }
}

/// The gradient of a maximum over windows: each number of `source` is added at the first largest element of its window.
pub fn select_and_scatter<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let [x, source, init] = [c.x[0], c.x[1], c.x[2]];
    let select = c.region(0)?;
    let is_largest = match &select.body[..] {
        [compare, _] if compare.name == "stablehlo.compare" => {
            let larger = |(_, value): &(&str, crate::stablehlo::attribute::Attribute)| {
                matches!(value, crate::stablehlo::attribute::Attribute::Choice("GE" | "GT"))
            };
            let names: Vec<&str> = compare.operands.iter().map(|x| x.name).collect();
            names == select.args && compare.attrs.iter().any(larger)
        }
        _ => false,
    };
    if !is_largest || !matches!(c.body(1)?, Body::One(Op::Add)) {
        return invalid!("only the sum at the largest element of a window is supported");
    }
    let dtype = x.v.dtype();
    if is_carried(x.dtype) || !(dtype.is_float() || dtype.is_int()) || source.dtype != x.dtype {
        return invalid!("not supported of {} and {}", x.dtype, source.dtype);
    }
    let sizes = x.v.sizes();
    let windows = Windows::of(c, sizes.len())?;
    let moving = windows.moving();
    if !(1..=3).contains(&moving.len()) {
        return invalid!(
            "windows along one to three dimensions are supported, not {}",
            moving.len()
        );
    }
    let least = match dtype.is_float() {
        true => c.math().constant(f64::NEG_INFINITY, dtype),
        false => c.math().constant_int(integer_range(dtype).0, dtype),
    };
    let mut v = x.v;
    for d in 0..sizes.len() {
        v = padded(v, least, d, windows.pads(d))?;
    }
    let list = |all: &Dims| Attr::Ints(moving.iter().map(|&d| all[d]).collect());
    let zeros = Dims::from_elem(0, sizes.len());
    let attrs: Attrs = smallvec![
        list(&windows.sizes),
        list(&windows.strides),
        list(&zeros),
        list(&windows.dilations),
        Attr::Bool(false)
    ];
    let planes = Planes::new(v, &moving);
    let places = c.math().ops(Op::MaxPool, &[planes.to(v)], attrs)?[1];
    if source.v.rank() != sizes.len() {
        return invalid!("the source has another number of dimensions than the operand");
    }
    let source = Planes::new(source.v, &moving).to(source.v);
    let spatial = smallvec![list(&v.sizes())];
    let mut dx = planes.from(c.math().op(Op::MaxPoolGrad, &[source, places], spatial))?;
    c.math().check()?;
    for d in 0..sizes.len() {
        dx = dx.narrow(d, windows.low[d].max(0), sizes[d].min(dx.sizes()[d]));
    }
    let added = is_neutral(c, Op::Add, init);
    Ok(vec![x.map(|_| if added { dx } else { dx + init.v })])
}
