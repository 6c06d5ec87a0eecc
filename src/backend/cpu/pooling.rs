//! Pooling over windows and its gradients, in parallel over planes: for one place of the windows after the other, of as
//! many pixels as lie side by side.

use super::access::Bound;
use super::isa::{self, Kernel};
use super::pool::{parallel, parallel_chunks, parallel_each, with_scratch};
use super::rows::{RowMath, RowOf};
use super::tile::element::{Brain, Half, Stored};
use super::tile::run::LaneType;
use super::vector::Vector;
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::internal;
use crate::op::Attr;
use crate::op::nn::window::Windows;
use crate::op::nn::windows_of_pool;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Calls a function that is generic over an element and its lane.
macro_rules! by_float {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $f::<f32, f32>($($arg),*),
            DType::F64 => $f::<f64, f64>($($arg),*),
            DType::F16 => $f::<Half, f32>($($arg),*),
            DType::BF16 => $f::<Brain, f32>($($arg),*),
            other => return internal!("pooling of {other}"),
        }
    };
}

/// What one place in all windows meets along a dimension: these pixels, and the first of them element `from`.
struct Tap {
    pixels: Range<usize>,
    from: usize,
}

/// One dimension.
struct Along {
    taps: Vec<Tap>,
    pixels: usize,
    /// Elements from pixel to pixel.
    stride: usize,
}

impl Along {
    /// The elements that a pixel meets.
    fn met_by(&self, pixel: usize) -> impl Iterator<Item = usize> {
        let taps = self.taps.iter().filter(move |tap| tap.pixels.contains(&pixel));
        taps.map(move |tap| tap.from + (pixel - tap.pixels.start) * self.stride)
    }
}

struct Shape {
    along: [Along; 3],
    plane: usize,
    pixels: usize,
    input: [usize; 3],
    /// Of a plane, in bytes of memory traffic that would take as long.
    cost: usize,
}

/// Pixels side by side, and the elements that they meet at one place of their windows.
struct Run {
    pixels: Range<usize>,
    from: usize,
    /// Elements from pixel to pixel.
    stride: usize,
}

impl Run {
    /// Pixels with their elements, counted from the first ones. Strides that are common are known to the compiler.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(usize, usize)) {
        match self.stride {
            1 => (0..self.pixels.len()).for_each(|i| f(i, i)),
            2 => (0..self.pixels.len()).for_each(|i| f(i, 2 * i)),
            stride => (0..self.pixels.len()).for_each(|i| f(i, stride * i)),
        }
    }

    /// All elements from the first to the last one that is met.
    #[inline(always)]
    fn elements(&self) -> Range<usize> {
        self.from..self.from + (self.pixels.len() - 1) * self.stride + 1
    }
}

impl Shape {
    fn new(w: &Windows) -> Shape {
        let along = [0, 1, 2].map(|d| {
            let (stride, padding) = (w.stride[d], w.padding[d]);
            let taps = (0..w.kernel[d]).map(|k| {
                let shift = k * w.dilation[d];
                let start = padding.saturating_sub(shift).div_ceil(stride);
                let end = (w.input[d] + padding).saturating_sub(shift).div_ceil(stride);
                let pixels = start..end.min(w.output[d]);
                let from = (start * stride + shift).saturating_sub(padding);
                Tap { pixels, from }
            });
            let taps = taps.filter(|tap| !tap.pixels.is_empty()).collect();
            Along { taps, pixels: w.output[d], stride }
        });
        let cost = 4 * (w.pixels() * w.taps() + w.plane());
        Shape { along, plane: w.plane(), pixels: w.pixels(), input: w.input, cost }
    }

    /// Calls `f` for all runs; for each pixel in the order of its elements.
    #[inline(always)]
    fn each_run(&self, mut f: impl FnMut(Run)) {
        let [layers, lines, columns] = &self.along;
        for layer in 0..layers.pixels {
            for line in 0..lines.pixels {
                let first = (layer * lines.pixels + line) * columns.pixels;
                for i in layers.met_by(layer) {
                    for j in lines.met_by(line) {
                        for tap in &columns.taps {
                            f(Run {
                                pixels: first + tap.pixels.start..first + tap.pixels.end,
                                from: (i * self.input[1] + j) * self.input[2] + tap.from,
                                stride: columns.stride,
                            });
                        }
                    }
                }
            }
        }
    }
}

/// The largest element that each pixel meets, and where it is; -1: nowhere.
struct Largest<'a, L> {
    shape: &'a Shape,
    x: &'a [L],
    best: &'a mut [L],
    index: &'a mut [i64],
}

impl<L: RowMath + PartialOrd> Kernel for Largest<'_, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        self.index.fill(-1);
        self.shape.each_run(|run| {
            let x = &self.x[run.elements()];
            let (best, index) =
                (&mut self.best[run.pixels.clone()], &mut self.index[run.pixels.clone()]);
            run.each(|i, at| {
                let v = x[at];
                let is_better = v > best[i] || v.partial_cmp(&v).is_none() || index[i] < 0;
                if is_better {
                    (best[i], index[i]) = (v, (run.from + at) as i64);
                }
            });
        });
    }
}

/// The sum of what each pixel meets.
struct Sums<'a, L> {
    shape: &'a Shape,
    x: &'a [L],
    sums: &'a mut [L],
}

impl<L: RowMath> Kernel for Sums<'_, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        self.sums.fill(L::from(0.0));
        self.shape.each_run(|run| {
            let (x, sums) = (&self.x[run.elements()], &mut self.sums[run.pixels.clone()]);
            run.each(|i, at| sums[i] += x[at]);
        });
    }
}

/// The opposite: what each pixel has is added to all that it meets.
struct SumsBack<'a, L> {
    shape: &'a Shape,
    dy: &'a [L],
    sums: &'a mut [L],
}

impl<L: RowMath> Kernel for SumsBack<'_, L> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        self.sums.fill(L::from(0.0));
        self.shape.each_run(|run| {
            let (dy, sums) = (&self.dy[run.pixels.clone()], &mut self.sums[run.elements()]);
            run.each(|i, at| sums[at] += dy[i]);
        });
    }
}

pub fn max_pool(attrs: &[Attr], x: &Bound, writes: &[Bound]) -> Result<()> {
    let shape = Shape::new(&windows_of_pool(x.sizes(), writes[0].sizes(), attrs));
    by_float!(x.dtype, max_pool_as(&shape, x, writes));
    Ok(())
}

fn max_pool_as<S: RowOf<L>, L: RowMath + LaneType + PartialOrd>(
    shape: &Shape,
    x: &Bound,
    writes: &[Bound],
) {
    let x = x.dense::<S>().chunks_exact(shape.plane);
    let y = writes[0].result::<S>().chunks_exact_mut(shape.pixels);
    let index = writes[1].result::<i64>().chunks_exact_mut(shape.pixels);
    parallel_each(x.zip(y).zip(index), shape.cost, |((x, y), index)| {
        with_scratch(shape.plane + shape.pixels, |room: &mut [L]| {
            let (room, best) = room.split_at_mut(shape.plane);
            isa::run(Largest { shape, x: S::read(x, room), best, index: &mut *index });
            for (y, index) in y.iter_mut().zip(index) {
                if *index < 0 {
                    (*y, *index) = (S::store(L::from(0.0)), 0);
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
    let blocks: Vec<&[i64]> = index.chunks(1 << 14).collect();
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

fn max_pool_grad_as<S: RowOf<L>, L: RowMath + LaneType>(
    dy: &Bound,
    index: &[i64],
    plane: usize,
    write: &Bound,
) {
    let pixels = dy.sizes()[2..].iter().product::<i64>() as usize;
    let dy = dy.dense::<S>();
    parallel_chunks(write.result::<S>(), plane, 8 * (plane + 2 * pixels), |n, dx| {
        let own = n * pixels..(n + 1) * pixels;
        with_scratch(plane, |room: &mut [L]| {
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

fn sum_pool_as<S: RowOf<L>, L: RowMath + LaneType>(shape: &Shape, x: &Bound, write: &Bound) {
    let x = x.dense::<S>();
    parallel_chunks(write.result::<S>(), shape.pixels, shape.cost, |n, y| {
        with_scratch(shape.plane + shape.pixels, |room: &mut [L]| {
            let (room, sums) = room.split_at_mut(shape.plane);
            let x = S::read(&x[n * shape.plane..(n + 1) * shape.plane], room);
            S::write(y, sums, |sums| isa::run(Sums { shape, x, sums }));
        });
    });
}

pub fn sum_pool_grad(attrs: &[Attr], dy: &Bound, write: &Bound) -> Result<()> {
    let shape = Shape::new(&windows_of_pool(write.sizes(), dy.sizes(), attrs));
    by_float!(dy.dtype, sum_pool_grad_as(&shape, dy, write));
    Ok(())
}

fn sum_pool_grad_as<S: RowOf<L>, L: RowMath + LaneType>(shape: &Shape, dy: &Bound, write: &Bound) {
    let dy = dy.dense::<S>();
    parallel_chunks(write.result::<S>(), shape.plane, shape.cost, |n, dx| {
        with_scratch(shape.plane + shape.pixels, |room: &mut [L]| {
            let (sums, room) = room.split_at_mut(shape.plane);
            let dy = S::read(&dy[n * shape.pixels..(n + 1) * shape.pixels], room);
            S::write(dx, sums, |sums| isa::run(SumsBack { shape, dy, sums }));
        });
    });
}
