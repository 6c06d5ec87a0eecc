//! Reading between elements and beyond edges: padding by reflection or replication, interpolation to other sizes,
//! sampling at the places of a grid. Each is a sum of elements that are taken, with weights.

use super::adjoint::pullback;
use super::index::take;
use super::{BACKWARD, PLAIN};
use crate::aten::call::{Call, wide};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{Math, V};
use crate::invalid;
use crate::op::Op;
use crate::shape::Dims;

pub const ROWS: &[Row] = &[
    row("reflection_pad1d", PLAIN, |c| pad(c, 1, Edge::Reflected)).floats(),
    row("reflection_pad2d", PLAIN, |c| pad(c, 2, Edge::Reflected)).floats(),
    row("reflection_pad3d", PLAIN, |c| pad(c, 3, Edge::Reflected)).floats(),
    row("replication_pad1d", PLAIN, |c| pad(c, 1, Edge::Replicated)).floats(),
    row("replication_pad2d", PLAIN, |c| pad(c, 2, Edge::Replicated)).floats(),
    row("replication_pad3d", PLAIN, |c| pad(c, 3, Edge::Replicated)).floats(),
    row("reflection_pad1d_backward", BACKWARD, |c| pad_backward(c, 1, Edge::Reflected)).floats(),
    row("reflection_pad2d_backward", BACKWARD, |c| pad_backward(c, 2, Edge::Reflected)).floats(),
    row("reflection_pad3d_backward", BACKWARD, |c| pad_backward(c, 3, Edge::Reflected)).floats(),
    row("replication_pad1d_backward", BACKWARD, |c| pad_backward(c, 1, Edge::Replicated)).floats(),
    row("replication_pad2d_backward", BACKWARD, |c| pad_backward(c, 2, Edge::Replicated)).floats(),
    row("replication_pad3d_backward", BACKWARD, |c| pad_backward(c, 3, Edge::Replicated)).floats(),
    row("upsample_nearest1d", PLAIN, |c| upsample(c, 1, Kind::Nearest)).fixed(&[2]).floats(),
    row("upsample_nearest2d", PLAIN, |c| upsample(c, 2, Kind::Nearest)).fixed(&[2, 3]).floats(),
    row("upsample_nearest3d", PLAIN, |c| upsample(c, 3, Kind::Nearest)).fixed(&[2, 3, 4]).floats(),
    row("_upsample_nearest_exact1d", PLAIN, |c| upsample(c, 1, Kind::Exact)).fixed(&[2]).floats(),
    row("_upsample_nearest_exact2d", PLAIN, |c| upsample(c, 2, Kind::Exact))
        .fixed(&[2, 3])
        .floats(),
    row("_upsample_nearest_exact3d", PLAIN, |c| upsample(c, 3, Kind::Exact))
        .fixed(&[2, 3, 4])
        .floats(),
    row("upsample_linear1d", PLAIN, |c| upsample(c, 1, Kind::Linear)).fixed(&[2, 3]).floats(),
    row("upsample_bilinear2d", PLAIN, |c| upsample(c, 2, Kind::Linear)).fixed(&[2, 3, 4]).floats(),
    row("upsample_trilinear3d", PLAIN, |c| upsample(c, 3, Kind::Linear))
        .fixed(&[2, 3, 4, 5])
        .floats(),
    row("upsample_bicubic2d", PLAIN, |c| upsample(c, 2, Kind::Cubic)).fixed(&[2, 3, 4]).floats(),
    row("upsample_nearest1d_backward", BACKWARD, |c| upsample_backward(c, 1, Kind::Nearest))
        .fixed(&[3])
        .floats(),
    row("upsample_nearest2d_backward", BACKWARD, |c| upsample_backward(c, 2, Kind::Nearest))
        .fixed(&[3, 4])
        .floats(),
    row("upsample_nearest3d_backward", BACKWARD, |c| upsample_backward(c, 3, Kind::Nearest))
        .fixed(&[3, 4, 5])
        .floats(),
    row("_upsample_nearest_exact1d_backward", BACKWARD, |c| upsample_backward(c, 1, Kind::Exact))
        .fixed(&[3])
        .floats(),
    row("_upsample_nearest_exact2d_backward", BACKWARD, |c| upsample_backward(c, 2, Kind::Exact))
        .fixed(&[3, 4])
        .floats(),
    row("_upsample_nearest_exact3d_backward", BACKWARD, |c| upsample_backward(c, 3, Kind::Exact))
        .fixed(&[3, 4, 5])
        .floats(),
    row("upsample_linear1d_backward", BACKWARD, |c| upsample_backward(c, 1, Kind::Linear))
        .fixed(&[3, 4])
        .floats(),
    row("upsample_bilinear2d_backward", BACKWARD, |c| upsample_backward(c, 2, Kind::Linear))
        .fixed(&[3, 4, 5])
        .floats(),
    row("upsample_trilinear3d_backward", BACKWARD, |c| upsample_backward(c, 3, Kind::Linear))
        .fixed(&[3, 4, 5, 6])
        .floats(),
    row("upsample_bicubic2d_backward", BACKWARD, |c| upsample_backward(c, 2, Kind::Cubic))
        .fixed(&[3, 4, 5])
        .floats(),
    row("grid_sampler_2d", PLAIN, grid_sampler).fixed(&[2, 3, 4]).floats(),
    row("grid_sampler_3d", PLAIN, grid_sampler).fixed(&[2, 3, 4]).floats(),
    row("grid_sampler_2d_backward", PLAIN, grid_sampler_backward).fixed(&[3, 4, 5]).floats(),
    row("grid_sampler_3d_backward", PLAIN, grid_sampler_backward).fixed(&[3, 4, 5]).floats(),
];

// ---- padding

/// What lies beyond an edge: the inside mirrored at the last element, or that element again.
#[derive(Clone, Copy, PartialEq)]
enum Edge {
    Reflected,
    Replicated,
}

/// `x` with its last dimension padded by the first two numbers, the one before it by the next two, and so on; negative
/// ones cut off.
fn padded<'a>(x: V<'a>, padding: &[i64], edge: Edge) -> Result<V<'a>> {
    let sizes = x.sizes();
    let mut y = x;
    for (i, pair) in padding.chunks_exact(2).enumerate() {
        let d = sizes.len() - 1 - i;
        let (size, before, after) = (sizes[d], pair[0], pair[1]);
        if edge == Edge::Reflected && before.max(after) >= size {
            return invalid!(
                "Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at dimension {d} of input {sizes:?}"
            );
        }
        let total = size.saturating_add(before).saturating_add(after);
        if size < 1 || total < 1 {
            return invalid!(
                "input of sizes {sizes:?} is too small for padding {padding:?}: dimension {d} would have {total} elements"
            );
        }
        if (before, after) == (0, 0) {
            continue;
        }
        let (at, last) =
            (x.math().iota(&[total], 0, DType::I64) - before as f64, (size - 1) as f64);
        let at = match edge {
            Edge::Reflected => last - (last - at.abs()).abs(),
            Edge::Replicated => at.max(0.0).min(last),
        };
        y = take(y, at, d);
    }
    Ok(y)
}

/// Argument `i`, two numbers for each of `n` dimensions of what has `rank`.
fn padding(c: &Call, i: usize, n: usize, rank: usize) -> Result<Dims> {
    match c.ints(i)? {
        Some(list) if list.len() == 2 * n && rank >= n => Ok(list),
        list => invalid!(
            "padding of {n} dimensions takes {} numbers and a tensor of {} or {} dimensions, got {list:?} and {rank} dimensions",
            2 * n,
            n + 1,
            n + 2
        ),
    }
}

/// `(self, padding)`
fn pad<'a>(c: &Call<'a>, n: usize, edge: Edge) -> Outs<'a> {
    let x = c.tensor(0)?;
    Ok(vec![padded(x, &padding(c, 1, n, x.rank())?, edge)?])
}

/// `(grad_output, self, padding)`
fn pad_backward<'a>(c: &Call<'a>, n: usize, edge: Edge) -> Outs<'a> {
    let (dy, sizes) = (c.tensor(0)?, c.ty(1)?.sizes);
    let padding = padding(c, 2, n, sizes.len())?;
    adjoint(c, dy, &sizes, |x| padded(x, &padding, edge))
}

/// The gradient of what is linear in a tensor of `sizes`, in the dtype of `dy`.
fn adjoint<'a>(
    c: &Call<'a>,
    dy: V<'a>,
    sizes: &[i64],
    formula: impl FnOnce(V<'a>) -> Result<V<'a>>,
) -> Outs<'a> {
    let compute = wide(dy.dtype());
    let x = c.math.zeros(compute, sizes);
    let [dx] = pullback(c.math, dy.cast(compute), [x], |[x]| {
        let y = formula(x)?;
        match y.sizes() == dy.sizes() {
            true => Ok(y),
            false => invalid!("expected a gradient of sizes {:?}, got {:?}", y.sizes(), dy.sizes()),
        }
    })?;
    Ok(vec![dx.cast(dy.dtype())])
}

// ---- interpolation

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Nearest,
    /// Nearest to the centre of an element of the result.
    Exact,
    Linear,
    Cubic,
}

/// Which elements a result is made of, and how much of each: of the sizes of the places that are asked for.
struct Tap<'a> {
    index: V<'a>,
    /// All of it when there is none.
    weight: Option<V<'a>>,
}

/// One dimension, from `from` elements to `to`; what `scale` (result per input) says of the distance of neighbours goes
/// first.
struct Axis {
    from: i64,
    to: i64,
    scale: Option<f64>,
    /// Whether the first and last elements lie over each other, rather than the edges.
    align: bool,
}

impl Axis {
    /// How far apart neighbours of the result lie, in elements of the input.
    fn spacing<'a>(&self, math: &'a Math, dtype: DType) -> V<'a> {
        let number = |n: i64| math.constant(n as f64, dtype);
        match self.scale.filter(|&scale| scale > 0.0) {
            _ if self.align && self.to > 1 => number(self.from - 1) / number(self.to - 1),
            _ if self.align => number(0),
            Some(scale) => math.constant(1.0 / scale, dtype),
            None => number(self.from) / number(self.to),
        }
    }

    /// The places of the result's elements, `[to]`, as PyTorch rounds them in `dtype`.
    fn taps<'a>(&self, math: &'a Math, kind: Kind, dtype: DType) -> Vec<Tap<'a>> {
        let (i, spacing) = (math.iota(&[self.to], 0, dtype), self.spacing(math, dtype));
        let last = (self.from - 1) as f64;
        let place = if self.align { i * spacing } else { (i + 0.5) * spacing - 0.5 };
        let whole = |at: V<'a>| at.unary(Op::Floor).cast(DType::I64).min(last);
        match kind {
            Kind::Nearest => vec![Tap { index: whole(i * spacing), weight: None }],
            Kind::Exact => vec![Tap { index: whole((i + 0.5) * spacing), weight: None }],
            Kind::Linear => {
                let place = place.max(0.0);
                let index = whole(place);
                let rest = (place - index.cast(dtype)).max(0.0).min(1.0);
                let next = (index + 1.0).min(last);
                vec![
                    Tap { index, weight: Some(1.0 - rest) },
                    Tap { index: next, weight: Some(rest) },
                ]
            }
            Kind::Cubic => {
                let floor = place.unary(Op::Floor);
                let index = floor.cast(DType::I64);
                let tap = |(k, weight)| {
                    let index = (index + (k as f64 - 1.0)).max(0.0).min(last);
                    Tap { index, weight: Some(weight) }
                };
                cubic_weights(place - floor).into_iter().enumerate().map(tap).collect()
            }
        }
    }

    /// `x` with this as dimension `d`.
    fn apply<'a>(&self, x: V<'a>, d: usize, kind: Kind, dtype: DType) -> V<'a> {
        let mut column = Dims::from_elem(1, x.rank());
        column[d] = self.to;
        let element = |tap: &Tap<'a>| {
            let taken = take(x, tap.index, d);
            tap.weight.map_or(taken, |w| taken * w.cast(x.dtype()).reshape(&column))
        };
        let parts = self.taps(x.math(), kind, dtype);
        parts.iter().map(element).reduce(|sum, part| sum + part).unwrap_or(x)
    }
}

/// Weights of the two elements before and the two behind a place that lies `t` behind the second: Keys' cubic convolution
/// (1981) with a = -0.75.
fn cubic_weights(t: V) -> [V; 4] {
    const A: f64 = -0.75;
    let within = |u| ((A + 2.0) * u - (A + 3.0)) * u * u + 1.0;
    let beyond = |u| ((A * u - 5.0 * A) * u + 8.0 * A) * u - 4.0 * A;
    [beyond(t + 1.0), within(t), within(1.0 - t), beyond(2.0 - t)]
}

/// `x[n,c,s…]` with dimensions `s` of the sizes `to`, the last one first. Arguments from `first` on: for kinds that have
/// it `align_corners`, then the scales.
fn interpolated<'a>(
    c: &Call<'a>,
    x: V<'a>,
    to: &[i64],
    first: usize,
    (kind, dtype): (Kind, DType),
) -> Result<V<'a>> {
    let sizes = x.sizes();
    let n = to.len();
    if sizes.len() != n + 2 || sizes[1..].iter().chain(to).any(|&size| size < 1) {
        return invalid!(
            "Input and output sizes should be greater than 0, but got input of sizes {sizes:?} and output sizes {to:?}"
        );
    }
    let aligns = matches!(kind, Kind::Linear | Kind::Cubic);
    let align = aligns && c.bool(first, false)?;
    let first = first + aligns as usize;
    let mut y = x;
    for d in (0..n).rev() {
        let scale = if c.has(first + d) { Some(c.float(first + d, 0.0)?) } else { None };
        let axis = Axis { from: sizes[d + 2], to: to[d], scale, align };
        let same = axis.from == axis.to && (kind == Kind::Linear || scale.is_none_or(|s| s == 1.0));
        if !same {
            y = axis.apply(y, d + 2, kind, dtype);
            y.math().check()?;
        }
    }
    Ok(y)
}

/// Argument `i`, a list of `n` sizes.
fn sizes(c: &Call, i: usize, n: usize) -> Result<Dims> {
    match c.ints(i)? {
        Some(list) if list.len() == n => Ok(list),
        list => invalid!("It is expected that argument {i} has {n} elements, but got {list:?}"),
    }
}

/// `(self, output_size, align_corners if it has them, scales…)`
fn upsample<'a>(c: &Call<'a>, n: usize, kind: Kind) -> Outs<'a> {
    let x = c.tensor(0)?;
    let compute = wide(x.dtype());
    let y = interpolated(c, x.cast(compute), &sizes(c, 1, n)?, 2, (kind, compute))?;
    Ok(vec![y.cast(x.dtype())])
}

/// `(grad_output, output_size, input_size, align_corners if it has them, scales…)`
fn upsample_backward<'a>(c: &Call<'a>, n: usize, kind: Kind) -> Outs<'a> {
    let (dy, to, from) = (c.tensor(0)?, sizes(c, 1, n)?, sizes(c, 2, n + 2)?);
    let compute = wide(dy.dtype());
    adjoint(c, dy, &from, |x| interpolated(c, x, &to, 3, (kind, compute)))
}

// ---- grids

/// Farther from an input than any of its elements, in elements; exact in f32.
const FAR: f64 = (1u64 << 40) as f64;

/// What a grid's place outside of the input reads.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

struct Sampler {
    kind: Kind,
    outside: Outside,
    align: bool,
}

impl Sampler {
    /// Arguments from `first` on: `interpolation_mode, padding_mode, align_corners`.
    fn new(c: &Call, first: usize) -> Result<Sampler> {
        let kind = match c.int(first, 0)? {
            0 => Kind::Linear,
            1 => Kind::Nearest,
            2 => Kind::Cubic,
            mode => return invalid!("interpolation_mode must be 0, 1 or 2, got {mode}"),
        };
        let outside = match c.int(first + 1, 0)? {
            0 => Outside::Zeros,
            1 => Outside::Border,
            2 => Outside::Reflection,
            mode => return invalid!("padding_mode must be 0, 1 or 2, got {mode}"),
        };
        Ok(Sampler { kind, outside, align: c.bool(first + 2, false)? })
    }

    /// From [-1, 1], the edges of the input or the centres of its first and last elements, to elements.
    fn unnormalized<'a>(&self, at: V<'a>, size: i64) -> V<'a> {
        let size = size as f64;
        if self.align { (at + 1.0) / 2.0 * (size - 1.0) } else { ((at + 1.0) * size - 1.0) / 2.0 }
    }

    /// A place brought inside, if anything brings it there: there NaN is 0.
    fn inside<'a>(&self, at: V<'a>, size: i64) -> V<'a> {
        let last = (size - 1) as f64;
        let within = |at: V<'a>| {
            let constant = |x| at.math().constant(x, at.dtype());
            at.gt(0.0).select(at.lt(last).select(at, constant(last)), constant(0.0))
        };
        match self.outside {
            // Infinities and NaN are far away: nothing times them would be NaN.
            Outside::Zeros => at.abs().lt(FAR).select(at, -FAR),
            Outside::Border => within(at),
            Outside::Reflection => {
                let (low, span) = if self.align { (0.0, last) } else { (-0.5, size as f64) };
                if span == 0.0 {
                    return at * 0.0;
                }
                let from = at - low;
                let from = from.lt(0.0).select(-from, from);
                let extra = from.rem(span);
                let is_even = (from / span).unary(Op::Floor).rem(2.0).eq(0.0);
                within(is_even.select(extra, span - extra) + low)
            }
        }
    }

    /// The elements of one dimension of `size` that `at`, in [-1, 1], is made of: whole numbers, still floats.
    fn taps<'a>(&self, at: V<'a>, size: i64) -> Vec<Tap<'a>> {
        let at = self.unnormalized(at, size);
        match self.kind {
            Kind::Nearest | Kind::Exact => {
                vec![Tap { index: self.inside(at, size).unary(Op::Round), weight: None }]
            }
            Kind::Linear => {
                let at = self.inside(at, size);
                let floor = at.unary(Op::Floor);
                let rest = at - floor;
                vec![
                    Tap { index: floor, weight: Some(1.0 - rest) },
                    Tap { index: floor + 1.0, weight: Some(rest) },
                ]
            }
            Kind::Cubic => {
                let floor = at.unary(Op::Floor);
                let tap = |(k, weight)| Tap {
                    index: self.inside(floor + (k as f64 - 1.0), size),
                    weight: Some(weight),
                };
                cubic_weights(at - floor).into_iter().enumerate().map(tap).collect()
            }
        }
    }

    /// `x[n,c,s…]` at the places `grid[n,o…,d]`, whose last numbers are the first dimensions' → `[n,c,o…]`
    fn sampled<'a>(&self, x: V<'a>, grid: V<'a>) -> Result<V<'a>> {
        let (sizes, places) = (x.sizes(), grid.sizes());
        let n = sizes.len().saturating_sub(2);
        let fits = sizes.len() == places.len() && places.last() == Some(&(n as i64));
        if !(2..=3).contains(&n) || !fits || places[0] != sizes[0] {
            return invalid!(
                "grid_sampler(): expected an input of 4 or 5 dimensions and a grid with the same batch size and {n} coordinates, but got input of sizes {sizes:?} and grid of sizes {places:?}"
            );
        }
        if sizes[2..].iter().any(|&size| size < 1) {
            return invalid!(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {sizes:?}"
            );
        }
        if self.kind == Kind::Cubic && n != 2 {
            return invalid!("grid_sampler(): bicubic interpolation only supports 4D input");
        }
        let math = x.math();
        let mut outer: Dims = places[..=n].into();
        // All elements of a place lie side by side.
        let to_last: Dims = [0].into_iter().chain(2..n as i64 + 2).chain([1]).collect();
        let count = sizes[2..].iter().fold(1, |n: i64, &size| n.saturating_mul(size));
        let n_rows = sizes[0].saturating_mul(count);
        let mut rows = x.transpose(&to_last).reshape(&[n_rows, sizes[1]]);
        if self.outside == Outside::Zeros {
            rows = math.concat(&[rows, math.zeros(x.dtype(), &[1, sizes[1]])], 0);
        }
        // For each element that a place is made of, its row, whether it is inside, and its weight.
        let mut spots = vec![(math.iota(&outer, 0, DType::I64), None, None)];
        for d in 0..n {
            let (size, last) = (sizes[d + 2] as f64, (sizes[d + 2] - 1) as f64);
            let at = grid.narrow(n + 1, (n - 1 - d) as i64, 1).reshape(&outer);
            let taps = self.taps(at, sizes[d + 2]);
            let zeros = self.outside == Outside::Zeros;
            let meet = |&(row, valid, weight): &(V<'a>, Option<V<'a>>, Option<V<'a>>)| {
                let with = |tap: &Tap<'a>| {
                    let along = tap.index.cast(DType::I64).max(0.0).min(last);
                    let here = zeros.then(|| tap.index.ge(0.0).and(tap.index.le(last)));
                    let both = |a: Option<V<'a>>, b, join: fn(V<'a>, V<'a>) -> V<'a>| match (a, b) {
                        (Some(a), Some(b)) => Some(join(a, b)),
                        (a, b) => a.or(b),
                    };
                    let weight = both(weight, tap.weight, |a, b| a * b);
                    (row * size + along, both(valid, here, |a, b| a.and(b)), weight)
                };
                taps.iter().map(with).collect::<Vec<_>>()
            };
            spots = spots.iter().flat_map(meet).collect();
        }
        let column: Dims = outer.iter().copied().chain([1]).collect();
        let read = |(row, valid, weight): (V<'a>, Option<V<'a>>, Option<V<'a>>)| {
            // The row of zeros is the last one.
            let row = valid.map_or(row, |valid| valid.select(row, n_rows as f64));
            let taken = take(rows, row, 0);
            weight.map_or(taken, |weight| taken * weight.reshape(&column))
        };
        let sum = spots.into_iter().map(read).reduce(|sum, part| sum + part).unwrap_or(rows);
        outer.push(sizes[1]);
        let to_second: Dims = [0, n as i64 + 1].into_iter().chain(1..=n as i64).collect();
        Ok(sum.reshape(&outer).transpose(&to_second))
    }
}

/// `(input, grid, interpolation_mode, padding_mode, align_corners)`
fn grid_sampler<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, grid) = (c.tensor(0)?, c.tensor(1)?);
    let [wide_x, wide_grid] = [x, grid].map(|v| v.cast(wide(v.dtype())));
    Ok(vec![Sampler::new(c, 2)?.sampled(wide_x, wide_grid)?.cast(x.dtype())])
}

/// `(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)`: the grid's gradient is
/// always asked for.
fn grid_sampler_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let [dy, x, grid] = [c.tensor(0)?, c.tensor(1)?, c.tensor(2)?];
    let [wide_dy, wide_x, wide_grid] = [dy, x, grid].map(|v| v.cast(wide(v.dtype())));
    let sampler = Sampler::new(c, 3)?;
    let [dx, dgrid] =
        pullback(c.math, wide_dy, [wide_x, wide_grid], |[x, grid]| sampler.sampled(x, grid))?;
    c.math.check()?;
    let (dx, dgrid) = (dx.cast(x.dtype()), dgrid.cast(grid.dtype()));
    let wants_dx = !c.has(6) || c.bools(6)?.first() != Some(&false);
    Ok(if wants_dx { vec![dx, dgrid] } else { vec![dgrid] })
}
