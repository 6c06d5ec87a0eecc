//! Pooling over windows and its gradients, in parallel over planes. Windows are clipped to the input beforehand, once
//! for each dimension.

use super::access::Bound;
use super::element::{Bf16, F16, Stored};
use super::pool::{parallel, parallel_chunks, parallel_each, with_parts, with_scratch};
use super::rows::{RowMath, RowOf};
use super::tile::run::TileElement;
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::internal;
use crate::op::Attr;
use crate::op::array::collected;
use crate::op::nn::window::Windows;
use crate::op::nn::windows_of_pool;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Pixels of a line from which on adding their elements at one place in the windows side by side is faster than adding
/// up the window of each.
const SIDE_BY_SIDE: usize = 8;

/// Calls a function that is generic over an element and its lane.
macro_rules! by_float {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $f::<f32, f32>($($arg),*),
            DType::F64 => $f::<f64, f64>($($arg),*),
            DType::F16 => $f::<F16, f32>($($arg),*),
            DType::BF16 => $f::<Bf16, f32>($($arg),*),
            other => return internal!("pooling of {other}"),
        }
    };
}

/// The elements that the windows cover along one dimension: for every pixel the first one and their number, `step` apart.
struct Along {
    meets: Vec<(usize, usize)>,
    step: usize,
}

/// The elements that the pixels of a line have at one place in their windows, if the windows are one element apart:
/// `count` elements in a row.
#[derive(Clone, Copy)]
struct Tap {
    pixel: usize,
    element: usize,
    count: usize,
}

struct Shape {
    along: [Along; 3],
    /// The taps of a line, from the first place in the windows to the last, if they are one element apart.
    taps: Option<Vec<Tap>>,
    plane: usize,
    pixels: usize,
    input: [usize; 3],
    /// Cost of a plane, in bytes of memory traffic that would take as long.
    cost: usize,
}

impl Shape {
    fn new(w: &Windows) -> Shape {
        let along = [0, 1, 2].map(|d| {
            let step = w.dilation[d];
            let meets = (0..w.output[d]).map(|pixel| {
                let from = pixel * w.stride[d];
                let skipped = w.padding[d].saturating_sub(from).div_ceil(step);
                let first = from + skipped * step - w.padding[d];
                let within = w.input[d].saturating_sub(first).div_ceil(step);
                (first, within.min(w.kernel[d].saturating_sub(skipped)))
            });
            Along { meets: meets.collect(), step }
        });
        let cost = 4 * (w.pixels() * w.taps() + w.plane());
        let taps = (w.stride[2] == 1 && w.output[2] >= SIDE_BY_SIDE).then(|| taps(w, 2));
        Shape { along, taps, plane: w.plane(), pixels: w.pixels(), input: w.input, cost }
    }

    /// Calls `f` for each line of pixels and each input line that their windows cover, with the first pixel and the
    /// first element of the line.
    #[inline(always)]
    fn each_line(&self, mut f: impl FnMut(usize, usize)) {
        let [layers, lines, columns] = &self.along;
        let mut pixel = 0;
        for &(layer, layer_count) in &layers.meets {
            for &(line, line_count) in &lines.meets {
                for i in 0..layer_count {
                    for j in 0..line_count {
                        let at = (layer + i * layers.step) * self.input[1] + line + j * lines.step;
                        f(pixel, at * self.input[2]);
                    }
                }
                pixel += columns.meets.len();
            }
        }
    }

    /// Calls `f` for the runs of elements in the window of each pixel: pixel, first element, step, number of elements.
    #[inline(always)]
    fn each_run(&self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let [layers, lines, columns] = &self.along;
        let mut pixel = 0;
        for &(layer, layer_count) in &layers.meets {
            for &(line, line_count) in &lines.meets {
                for &(column, count) in &columns.meets {
                    let layer_count = if count == 0 { 0 } else { layer_count };
                    for i in 0..layer_count {
                        for j in 0..line_count {
                            let at =
                                (layer + i * layers.step) * self.input[1] + line + j * lines.step;
                            f(pixel, at * self.input[2] + column, columns.step, count);
                        }
                    }
                    pixel += 1;
                }
            }
        }
    }
}

impl Shape {
    /// Adds to `sums`, of a plane's pixels, the elements in the window of each.
    #[inline(always)]
    fn sum<L: RowMath>(&self, x: &[L], sums: &mut [L]) {
        match &self.taps {
            Some(taps) => self.each_line(|line, from| {
                for &Tap { pixel, element, count } in taps {
                    add(&mut sums[line + pixel..][..count], &x[from + element..][..count]);
                }
            }),
            None => self.each_run(|pixel, from, step, count| {
                (from..).step_by(step).take(count).for_each(|i| sums[pixel] += x[i]);
            }),
        }
    }

    /// Adds to `sums`, of a plane's elements, the gradients of the pixels whose windows cover each, in the order of the pixels.
    #[inline(always)]
    fn sum_grad<L: RowMath>(&self, dy: &[L], sums: &mut [L]) {
        match &self.taps {
            Some(taps) => self.each_line(|line, from| {
                for &Tap { pixel, element, count } in taps.iter().rev() {
                    add(&mut sums[from + element..][..count], &dy[line + pixel..][..count]);
                }
            }),
            None => self.each_run(|pixel, from, step, count| {
                (from..).step_by(step).take(count).for_each(|i| sums[i] += dy[pixel]);
            }),
        }
    }
}

/// See [`Shape::taps`].
fn taps(w: &Windows, d: usize) -> Vec<Tap> {
    let tap = |at: usize| {
        let (skipped, shift) = (at * w.dilation[d], w.padding[d]);
        let (pixel, element) = (shift.saturating_sub(skipped), skipped.saturating_sub(shift));
        let within = w.input[d].saturating_sub(element);
        Tap { pixel, element, count: w.output[d].saturating_sub(pixel).min(within) }
    };
    (0..w.kernel[d]).map(tap).filter(|tap| tap.count > 0).collect()
}

/// `sums += x`.
#[inline(always)]
fn add<L: RowMath>(sums: &mut [L], x: &[L]) {
    sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += *x);
}

pub fn max_pool(attrs: &[Attr], x: &Bound, writes: &[Bound]) -> Result<()> {
    let windows = windows_of_pool(x.sizes(), writes[0].sizes(), attrs);
    by_float!(x.dtype, max_pool_as(&windows, x, writes));
    Ok(())
}

fn max_pool_as<S: RowOf<L>, L: RowMath + TileElement + PartialOrd>(
    windows: &Windows,
    x: &Bound,
    writes: &[Bound],
) {
    let shape = Shape::new(windows);
    let x = x.dense::<S>().chunks_exact(shape.plane);
    let y = writes[0].result::<S>().chunks_exact_mut(shape.pixels);
    let index = writes[1].result::<i64>().chunks_exact_mut(shape.pixels);
    parallel_each(x.zip(y).zip(index), shape.cost, |((x, y), index)| {
        with_scratch(S::room(shape.plane), |room: &mut [L]| {
            let lanes = S::read(x, room);
            index.fill(-1);
            shape.each_run(|pixel, from, step, count| {
                let (mut best, mut at) = match index[pixel] {
                    -1 => (lanes[from], from),
                    at => (lanes[at as usize], at as usize),
                };
                for i in (from..).step_by(step).take(count) {
                    let v = lanes[i];
                    if v > best || v.partial_cmp(&v).is_none() {
                        (best, at) = (v, i);
                    }
                }
                index[pixel] = at as i64;
            });
            for (pixel, (y, index)) in y.iter_mut().zip(index).enumerate() {
                if *index < 0 {
                    *y = S::store(L::from(f32::NEG_INFINITY));
                    *index = windows.start(pixel) as i64;
                } else {
                    *y = x[*index as usize];
                }
            }
        });
    });
}

pub fn max_pool_grad(reads: &[Bound], write: &Bound) -> Result<()> {
    let plane: i64 = write.sizes()[2..].iter().product();
    let index = reads[1].dense::<i64>();
    let fine = AtomicBool::new(true);
    let blocks: Vec<&[i64]> = collected(index.chunks(1 << 14));
    parallel(blocks.len(), 8 << 14, |n| {
        if !blocks[n].iter().all(|i| (0..plane).contains(i)) {
            fine.store(false, Relaxed);
        }
    });
    if !fine.into_inner() {
        return Err(Error::new(Code::IndexError, "index out of range in max_pool_grad"));
    }
    by_float!(write.dtype, max_pool_grad_as(&reads[0], index, plane as usize, write));
    Ok(())
}

fn max_pool_grad_as<S: RowOf<L>, L: RowMath + TileElement>(
    dy: &Bound,
    index: &[i64],
    plane: usize,
    write: &Bound,
) {
    let pixels = dy.sizes()[2..].iter().product::<i64>() as usize;
    let dy = dy.dense::<S>();
    parallel_chunks(write.result::<S>(), plane, 8 * (plane + 2 * pixels), |n, dx| {
        let own = n * pixels..(n + 1) * pixels;
        with_scratch(S::room(plane), |room: &mut [L]| {
            S::write(dx, room, |sums| {
                sums.fill(L::from(0.0));
                for (dy, &to) in dy[own.clone()].iter().zip(&index[own]) {
                    sums[to as usize] += Stored::<L>::load(*dy);
                }
            });
        });
    });
}

pub fn sum_pool(attrs: &[Attr], x: &Bound, write: &Bound) -> Result<()> {
    let shape = Shape::new(&windows_of_pool(x.sizes(), write.sizes(), attrs));
    by_float!(x.dtype, sum_pool_as(&shape, x, write));
    Ok(())
}

fn sum_pool_as<S: RowOf<L>, L: RowMath + TileElement>(shape: &Shape, x: &Bound, write: &Bound) {
    let x = x.dense::<S>();
    parallel_chunks(write.result::<S>(), shape.pixels, shape.cost, |n, y| {
        let lengths = [shape.plane, shape.pixels].map(S::room);
        with_parts(lengths, |[room, sums]: [&mut [L]; 2]| {
            let x = S::read(&x[n * shape.plane..(n + 1) * shape.plane], room);
            S::write(y, sums, |sums| {
                sums.fill(L::from(0.0));
                shape.sum(x, sums);
            });
        });
    });
}

pub fn sum_pool_grad(attrs: &[Attr], dy: &Bound, write: &Bound) -> Result<()> {
    let shape = Shape::new(&windows_of_pool(write.sizes(), dy.sizes(), attrs));
    by_float!(dy.dtype, sum_pool_grad_as(&shape, dy, write));
    Ok(())
}

fn sum_pool_grad_as<S: RowOf<L>, L: RowMath + TileElement>(
    shape: &Shape,
    dy: &Bound,
    write: &Bound,
) {
    let dy = dy.dense::<S>();
    parallel_chunks(write.result::<S>(), shape.plane, shape.cost, |n, dx| {
        let lengths = [shape.plane, shape.pixels].map(S::room);
        with_parts(lengths, |[sums, room]: [&mut [L]; 2]| {
            let dy = S::read(&dy[n * shape.pixels..(n + 1) * shape.pixels], room);
            S::write(dx, sums, |sums| {
                sums.fill(L::from(0.0));
                shape.sum_grad(dy, sums);
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::tests::Random;

    /// The elements of a line that a window covers along it, one after the other.
    fn met(w: &Windows, d: usize, pixel: usize) -> Vec<usize> {
        let at = |tap: usize| (pixel * w.stride[d] + tap * w.dilation[d]).checked_sub(w.padding[d]);
        (0..w.kernel[d]).filter_map(at).filter(|&at| at < w.input[d]).collect()
    }

    #[test]
    fn sums_side_by_side_have_the_bits_of_those_one_by_one() {
        let mut random = Random::new(32);
        let mut tried = 0;
        for _ in 0..2000 {
            let mut three =
                |bits: usize, least: usize| [0; 3].map(|_| random.size(bits) + least - 1);
            let mut w = Windows {
                input: three(4, 1),
                output: three(4, 1),
                kernel: three(4, 1),
                stride: three(2, 1),
                padding: three(3, 0),
                dilation: three(2, 1),
            };
            w.stride[2] = 1;
            w.output[2] += SIDE_BY_SIDE;
            let shape = Shape::new(&w);
            let one_by_one = Shape { taps: None, ..Shape::new(&w) };
            let mut numbers =
                |n: usize| (0..n).map(|_| (random.unit() - 0.5) as f32).collect::<Vec<f32>>();
            let (x, dy) = (numbers(shape.plane), numbers(shape.pixels));
            let [y, expected] = [&shape, &one_by_one].map(|shape| {
                let mut sums = vec![0.0; shape.pixels];
                shape.sum(&x, &mut sums);
                sums
            });
            assert_eq!(y, expected, "{w:?}");
            let [dx, expected] = [&shape, &one_by_one].map(|shape| {
                let mut sums = vec![0.0; shape.plane];
                shape.sum_grad(&dy, &mut sums);
                sums
            });
            assert_eq!(dx, expected, "{w:?}");
            tried += expected.iter().any(|&sum| sum != 0.0) as usize;
        }
        assert!(tried > 1000, "{tried}");
    }

    #[test]
    fn windows_are_cut_to_the_elements_that_they_meet() {
        let mut random = Random::new(31);
        let mut three = |bits: usize, least: usize| [0; 3].map(|_| random.size(bits) + least - 1);
        for _ in 0..20_000 {
            let w = Windows {
                input: three(5, 1),
                output: three(4, 1),
                kernel: three(4, 1),
                stride: three(3, 1),
                padding: three(4, 0),
                dilation: three(3, 1),
            };
            for d in (0..3).filter(|&d| w.stride[d] == 1) {
                let mut found = vec![Vec::new(); w.output[d]];
                for Tap { pixel, element, count } in taps(&w, d) {
                    (0..count).for_each(|i| found[pixel + i].push(element + i));
                }
                let expected: Vec<_> = (0..w.output[d]).map(|pixel| met(&w, d, pixel)).collect();
                assert_eq!(found, expected, "{w:?}");
            }
            for (d, along) in Shape::new(&w).along.iter().enumerate() {
                for (pixel, &(first, count)) in along.meets.iter().enumerate() {
                    let found: Vec<usize> = (0..count).map(|i| first + i * along.step).collect();
                    assert_eq!(found, met(&w, d, pixel), "{w:?}");
                }
            }
        }
    }
}
