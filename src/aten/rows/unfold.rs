//! Windows as columns of an image or along a line, and back; channels as pixels and back.

use super::PLAIN;
use super::adjoint::pullback;
use super::index::{rows_added, sum_dtype, take};
use super::pool::batched;
use crate::aten::call::{Call, wide};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::shape::{Dims, broadcast_shapes};

pub const ROWS: &[Row] = &[
    row("im2col", PLAIN, im2col).floats(),
    row("col2im", PLAIN, col2im).floats(),
    row("unfold_backward", PLAIN, unfold_backward).complex(),
    row("pixel_shuffle", PLAIN, pixel_shuffle).moves(),
    row("channel_shuffle", PLAIN, channel_shuffle).moves(),
    row("pixel_unshuffle", PLAIN, pixel_unshuffle).moves(),
];

/// Arguments from `first` on: `kernel_size, dilation, padding, stride`, for two dimensions each.
struct Windows {
    kernel: Dims,
    dilation: Dims,
    padding: Dims,
    stride: Dims,
}

impl Windows {
    fn new(c: &Call, first: usize) -> Result<Windows> {
        let list = |i: usize, least: i64| match c.ints(first + i)? {
            Some(pair) if pair.len() == 2 && pair.iter().all(|&n| n >= least) => Ok(pair),
            pair => invalid!(
                "expected argument {} to be two numbers of at least {least}, got {pair:?}",
                first + i
            ),
        };
        Ok(Windows {
            kernel: list(0, 1)?,
            dilation: list(1, 1)?,
            padding: list(2, 0)?,
            stride: list(3, 1)?,
        })
    }

    fn kernel_numel(&self) -> i64 {
        self.kernel.iter().fold(1, |n, &size| n.saturating_mul(size))
    }

    /// Number of windows along dimension `d` of `size` elements.
    fn count(&self, d: usize, size: i64) -> i64 {
        let reach = self.dilation[d].saturating_mul(self.kernel[d] - 1).saturating_add(1);
        let room = size.saturating_add(self.padding[d].saturating_mul(2)).saturating_sub(reach);
        room.div_euclid(self.stride[d]).saturating_add(1)
    }

    /// `x[n,c,h,w]` → `[n, c * kernel, windows]`, 0 where a window lies in the padding.
    fn columns<'a>(&self, x: V<'a>) -> Result<V<'a>> {
        let sizes = x.sizes();
        let counts = [0, 1].map(|d| self.count(d, sizes[d + 2]));
        if counts.iter().any(|&count| count < 1) || sizes[1..].iter().any(|&size| size < 1) {
            return invalid!(
                "Given input with spatial size {:?}, kernel_size={:?}, dilation={:?}, padding={:?}, stride={:?}, calculated shape of the array of sliding blocks as {counts:?}, but its components must be at least one.",
                &sizes[2..],
                self.kernel,
                self.dilation,
                self.padding,
                self.stride
            );
        }
        let mut y = x;
        // The last dimension first: the other one stays where it is.
        for d in [1, 0] {
            let along = [self.kernel[d], counts[d]];
            let [k, o] = [0, 1].map(|dim| x.math().iota(&along, dim, DType::I64));
            let at = o * self.stride[d] as f64 + k * self.dilation[d] as f64;
            if self.padding[d] > 0 {
                let mut margin = y.sizes();
                margin[d + 2] = self.padding[d];
                let zeros = x.math().zeros(y.dtype(), &margin);
                y = x.math().concat(&[zeros, y, zeros], d + 2);
            }
            y = take(y, at, d + 2);
            y.math().check()?;
        }
        // n, c, kernel h, windows h, kernel w, windows w
        let y = y.transpose(&[0, 1, 2, 4, 3, 5]);
        let kernel = self.kernel_numel();
        let columns = counts[0].saturating_mul(counts[1]);
        Ok(y.reshape(&[sizes[0], sizes[1].saturating_mul(kernel), columns]))
    }
}

/// `(self, kernel_size, dilation, padding, stride)`
fn im2col<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let y = Windows::new(c, 1)?.columns(batched(x, 2)?)?;
    Ok(vec![if x.rank() == 3 { y.reshape(&y.sizes()[1..]) } else { y }])
}

/// `(self, output_size, kernel_size, dilation, padding, stride)`: overlapping windows are summed.
fn col2im<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, windows) = (c.tensor(0)?, Windows::new(c, 2)?);
    let (columns, kernel) = (batched(x, 1)?, windows.kernel_numel());
    let sizes = columns.sizes();
    let size = c.ints(1)?.unwrap_or_default();
    if size.len() != 2 || sizes[1] % kernel != 0 {
        return invalid!(
            "Expected two output sizes and a dimension 1 of input divisible by the product of kernel_size, but got output_size={size:?}, input.size(1)={} and kernel_size={:?}.",
            sizes[1],
            windows.kernel
        );
    }
    let compute = wide(x.dtype());
    let image = c.math.zeros(compute, &[sizes[0], sizes[1] / kernel, size[0], size[1]]);
    let [y] = pullback(c.math, columns.cast(compute), [image], |[image]| {
        let expected = windows.columns(image)?;
        match expected.sizes() == sizes {
            true => Ok(expected),
            false => invalid!(
                "Given output_size={size:?} and windows of {:?}, expected input of sizes {:?}, but got {sizes:?}",
                windows.kernel,
                expected.sizes()
            ),
        }
    })?;
    let y = y.cast(x.dtype());
    Ok(vec![if x.rank() == 2 { y.reshape(&y.sizes()[1..]) } else { y }])
}

/// `(grad_in, input_sizes, dim, size, step)`: the gradient of `Tensor.unfold`, whose windows of `size` elements, `step` apart,
/// lie along a last dimension of their own. They add up where they overlap.
fn unfold_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (dy, sizes) = (c.tensor(0)?, c.ints(1)?.unwrap_or_default());
    let (dim, size, step) = (c.dim(2, 0, sizes.len())?, c.int(3, 1)?, c.int(4, 1)?);
    // A scalar is a line of one element, with one window.
    let line = if sizes.is_empty() { Dims::from_elem(1, 1) } else { sizes.clone() };
    if size < 0 || step < 1 || size > line[dim] {
        return invalid!(
            "windows of {size} elements, {step} apart, in dimension {dim} of {sizes:?}"
        );
    }
    let count = if sizes.is_empty() { 1 } else { ((line[dim] - size) / step).saturating_add(1) };
    let mut windows = line.clone();
    windows[dim] = count;
    let lead: &[i64] = if sizes.is_empty() { &[] } else { &windows[..] };
    let expected = joined(lead, &[size]);
    if broadcast_shapes(&dy.sizes(), &expected).as_ref() != Some(&expected) {
        return invalid!("Expected a gradient of sizes {expected:?}, but got {:?}", dy.sizes());
    }
    let (dtype, compute, rank) = (dy.dtype(), sum_dtype(dy.dtype()), line.len());
    let dy = dy.broadcast(&expected).reshape(&joined(&windows, &[size])).cast(compute);
    // The elements of each window move next to the dimension of the windows.
    let behind = dim as i64 + 1..rank as i64;
    let order: Dims = (0..=dim as i64).chain([rank as i64]).chain(behind).collect();
    let mut elements = line.clone();
    elements[dim] = count.saturating_mul(size);
    let [window, place] = [0, 1].map(|d| c.math.iota(&[count, size], d, DType::I64));
    let at = (window * step as f64 + place).reshape(&[elements[dim]]);
    let dy = dy.transpose(&order).reshape(&elements);
    let dx = rows_added(c.math.zeros(compute, &line), at, dy, dim);
    Ok(vec![dx.cast(dtype).reshape(&sizes)])
}

/// The sizes in front, channels, height and width.
fn image(x: &[i64]) -> Result<(&[i64], [i64; 3])> {
    match x {
        [outer @ .., channels, height, width] => Ok((outer, [*channels, *height, *width])),
        _ => {
            invalid!("expects input to have at least 3 dimensions, but got input with sizes {x:?}")
        }
    }
}

/// `x` with its first `outer` dimensions as they are, the others in the order `inner`.
fn reordered<'a>(x: V<'a>, outer: usize, inner: &[usize]) -> V<'a> {
    let perm: Dims = (0..outer).chain(inner.iter().map(|d| outer + d)).map(|d| d as i64).collect();
    x.transpose(&perm)
}

fn joined(outer: &[i64], inner: &[i64]) -> Dims {
    outer.iter().chain(inner).copied().collect()
}

/// `(self, upscale_factor)`: `[…, c*r*r, h, w]` → `[…, c, h*r, w*r]`
fn pixel_shuffle<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, r) = (c.tensor(0)?, c.int(1, 1)?);
    let sizes = x.sizes();
    let (outer, [channels, h, w]) = image(&sizes)?;
    let square = r.saturating_mul(r);
    if r < 1 || channels % square != 0 {
        return invalid!(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={channels} is not divisible by {r}^2"
        );
    }
    let few = channels / square;
    let split = x.reshape(&joined(outer, &[few, r, r, h, w]));
    let y = reordered(split, outer.len(), &[0, 3, 1, 4, 2]);
    Ok(vec![y.reshape(&joined(outer, &[few, h.saturating_mul(r), w.saturating_mul(r)]))])
}

/// `(self, groups)`: `[n, g*c, …]` → `[n, c*g, …]`, the channels of all groups in turn.
fn channel_shuffle<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, groups) = (c.tensor(0)?, c.int(1, 1)?);
    let sizes = x.sizes();
    let &[n, channels, ref rest @ ..] = &sizes[..] else {
        return invalid!("channel_shuffle expects input with > 2 dims, but got {sizes:?}");
    };
    if groups < 1 || channels % groups != 0 || rest.is_empty() {
        return invalid!(
            "channel_shuffle expects images whose {channels} channels are divisible by groups, {groups}, but got {sizes:?}"
        );
    }
    let split = x.reshape(&joined(&[n], &[&[groups, channels / groups], rest].concat()));
    let rest = 3..split.rank() as i64;
    let turned: Vec<i64> = [0, 2, 1].into_iter().chain(rest).collect();
    Ok(vec![split.transpose(&turned).reshape(&sizes)])
}

/// `(self, downscale_factor)`: `[…, c, h*r, w*r]` → `[…, c*r*r, h, w]`
fn pixel_unshuffle<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, r) = (c.tensor(0)?, c.int(1, 1)?);
    let sizes = x.sizes();
    let (outer, [channels, h, w]) = image(&sizes)?;
    if r < 1 || h % r != 0 || w % r != 0 {
        return invalid!(
            "pixel_unshuffle expects height and width to be divisible by downscale_factor, but input.size(-2)={h} and input.size(-1)={w} are not both divisible by {r}"
        );
    }
    let split = x.reshape(&joined(outer, &[channels, h / r, r, w / r, r]));
    let y = reordered(split, outer.len(), &[0, 2, 4, 1, 3]);
    Ok(vec![
        y.reshape(&joined(outer, &[channels.saturating_mul(r).saturating_mul(r), h / r, w / r])),
    ])
}
