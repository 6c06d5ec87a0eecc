//! Sampling at the places of a grid: a weighted sum of elements, whose weights have gradients, too.

use super::PLAIN;
use super::adjoint::pullback;
use super::index::take;
use super::resample::{Kind, Tap, cubic_weights};
use crate::aten::call::{Call, wide};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Guard;
use crate::graph::math::V;
use crate::invalid;
use crate::op::Op;
use crate::shape::Dims;

pub const ROWS: &[Row] = &[
    row("grid_sampler_2d", PLAIN, grid_sampler).fixed(&[2, 3, 4]).floats(),
    row("grid_sampler_3d", PLAIN, grid_sampler).fixed(&[2, 3, 4]).floats(),
    row("grid_sampler_2d_backward", PLAIN, grid_sampler_backward).fixed(&[3, 4, 5]).floats(),
    row("grid_sampler_3d_backward", PLAIN, grid_sampler_backward).fixed(&[3, 4, 5]).floats(),
];

/// A distance, in elements, beyond all elements of an input; exact in f32.
const FAR: f64 = (1u64 << 40) as f64;

/// How places outside of the input are read.
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

    /// From [-1, 1], the edges of the input or the centres of its first and last elements, to positions in elements.
    fn unnormalized<'a>(&self, at: V<'a>, size: i64) -> V<'a> {
        let size = size as f64;
        if self.align { (at + 1.0) / 2.0 * (size - 1.0) } else { ((at + 1.0) * size - 1.0) / 2.0 }
    }

    /// The place moved inside, where the padding mode does so: then NaN becomes 0.
    fn inside<'a>(&self, at: V<'a>, size: i64) -> V<'a> {
        let last = (size - 1) as f64;
        let within = |at: V<'a>| {
            let constant = |x| at.math().constant(x, at.dtype());
            at.gt(0.0).select(at.lt(last).select(at, constant(last)), constant(0.0))
        };
        match self.outside {
            // Infinities and NaN are moved far away: 0 times them would be NaN.
            Outside::Zeros => at.abs().lt(FAR).select(at, -FAR),
            Outside::Border => within(at),
            Outside::Reflection => {
                let (low, span) = if self.align { (0.0, last) } else { (-0.5, size as f64) };
                at.math().guard(Guard::order(size, 1));
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

    /// The elements of one dimension of `size` that contribute to place `at`, in [-1, 1]: whole numbers, still floats.
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

    /// `x[n,c,s…]` at the places `grid[n,o…,d]`, whose last coordinates are those of the first dimensions → `[n,c,o…]`
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
        // For each element that contributes to a place: its row, whether it is inside, and its weight.
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
