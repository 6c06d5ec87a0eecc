//! Convolutions by the library's own kernels, where it has them: blocks of images, and slices of filters or channels, are
//! packed into a kernel's layout, convolved, and unpacked, each by one task.

use super::{CACHED, TASKS, deal, each_task};
use crate::backend::cpu::onednn::{self, Convolution, Direction, Element, Problem, convolution};
use crate::backend::cpu::pool::{GRAIN, parallel_each, with_scratch};
use crate::backend::cpu::rows::RowMath;
use crate::op::nn::Conv;
use std::ffi::c_int;
use std::sync::Arc;

/// Multiplications that are worth a task.
const TASK: usize = 1 << 21;
/// Number of slices that are enough tasks without blocks of images.
const ENOUGH: usize = 8;
/// Fewer tasks than this leave too many threads without one.
const LEAST_TASKS: usize = 4;
/// Number of filters or channels that kernels compute at once; fewer for weights' gradients.
const LEAST_SLICE: usize = 32;
const LEAST_SLICE_OF_WEIGHTS: usize = 16;
/// Minimum number of filters or channels of a result for the library's kernels to be worth trying.
const LEAST_LANES: usize = 8;
/// Maximum number of partial sums of a weight's gradient.
const MOST_SUMS: usize = 16;

/// How a convolution is cut: into blocks of images, and slices of a dimension that is not summed over.
#[derive(Clone, Copy)]
struct Tiling {
    images: usize,
    slices: usize,
}

/// A convolution that the library's kernels compute.
pub struct Direct {
    conv: Conv,
    direction: Direction,
    tiling: Tiling,
    block: Arc<Convolution>,
    /// For the images that do not fill a block.
    rest: Option<Arc<Convolution>>,
}

/// The size of the sliced dimension, and the minimum size of a slice.
fn sliced(conv: &Conv, direction: Direction) -> (usize, usize) {
    let least = match direction {
        Direction::GradWeight => LEAST_SLICE_OF_WEIGHTS,
        _ => LEAST_SLICE,
    };
    match direction {
        _ if conv.groups > 1 => (conv.groups, least.div_ceil(conv.filters.min(conv.channels))),
        Direction::GradInput => (conv.channels, least),
        _ => (conv.filters, least),
    }
}

impl Tiling {
    /// The cut with tasks for all threads and the least memory traffic: every slice reads all images, every block all weights.
    fn new(conv: &Conv, direction: Direction) -> Tiling {
        let (n, least) = sliced(conv, direction);
        let x = conv.groups * conv.channels * conv.windows.plane();
        let y = conv.groups * conv.filters * conv.windows.pixels();
        let weights = conv.groups * conv.filters * conv.depth();
        let of_grad_weight = direction == Direction::GradWeight;
        let whole = match direction {
            _ if conv.groups > 1 => 0,
            Direction::GradInput => y,
            _ => x,
        };
        let wanted = (conv.work() / TASK).clamp(1, TASKS);
        let tiling = |slices: usize| {
            let image = whole + (x + y - whole) / slices;
            let fitting = conv.images.div_ceil((CACHED / image).max(1));
            let least = if slices < ENOUGH { wanted.div_ceil(slices) } else { 1 };
            let blocks = least.max(fitting).min(conv.images);
            let images = conv.images.div_ceil(blocks);
            let blocks = conv.images.div_ceil(images);
            // Partial sums are written, read and added; weights for several blocks written and read once more.
            let of_weights = match blocks {
                1 => 1,
                _ if of_grad_weight => 4 * blocks.min(MOST_SUMS),
                _ => blocks + 2,
            };
            let traffic = conv.images * whole * slices + weights * of_weights;
            let missing = wanted.min(ENOUGH).saturating_sub(blocks * slices);
            ((missing, traffic), Tiling { images, slices })
        };
        let possible =
            (1..=n).filter(|&s| s == 1 || n.is_multiple_of(s) && (n / s).is_multiple_of(least));
        let tilings = possible.take_while(|&s| s <= TASKS).map(tiling);
        tilings
            .min_by_key(|(cost, _)| *cost)
            .map_or(Tiling { images: 1, slices: 1 }, |(_, tiling)| tiling)
    }

    /// The convolution of one task, for `images` images.
    fn part(&self, conv: &Conv, direction: Direction, images: usize) -> Conv {
        let mut part = Conv { images, ..*conv };
        let tiling = match direction {
            _ if conv.groups > 1 => &mut part.groups,
            Direction::GradInput => &mut part.channels,
            _ => &mut part.filters,
        };
        *tiling /= self.slices;
        part
    }
}

/// Number of blocks that are added up in one partial sum of a weight's gradient.
fn blocks_of_sum(blocks: usize) -> usize {
    blocks.div_ceil(blocks.min(MOST_SUMS))
}

/// Splits scratch memory into pieces, each of which starts at a cache line.
fn pieces<const N: usize>(mut room: &mut [f32], lengths: [usize; N]) -> [&mut [f32]; N] {
    lengths.map(|len| {
        let (piece, rest) = std::mem::take(&mut room).split_at_mut(aligned(len));
        room = rest;
        &mut piece[..len]
    })
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(16)
}

fn total(lengths: &[usize]) -> usize {
    lengths.iter().map(|&len| aligned(len)).sum()
}

impl Direct {
    /// `None` if the library is absent or has no kernel for the convolution, or the products of [`super::forward`] and
    /// [`super::backward`] are faster.
    pub fn new<S: Element>(conv: &Conv, direction: Direction) -> Option<Direct> {
        if !suits(conv, direction) {
            return None;
        }
        let tiling = Tiling::new(conv, direction);
        let tasks = conv.images.div_ceil(tiling.images) * tiling.slices;
        if tasks < LEAST_TASKS.min(conv.work() / TASK) {
            return None;
        }
        let packed = onednn::packed(S::CODE);
        let other = || Direct::tiling::<S>(conv, direction, tiling, f32::CODE);
        Direct::tiling::<S>(conv, direction, tiling, packed).or_else(other)
    }

    /// `packed` is as in [`Problem`].
    fn tiling<S: Element>(
        conv: &Conv,
        direction: Direction,
        tiling: Tiling,
        packed: c_int,
    ) -> Option<Direct> {
        let find = |images| {
            let (conv, row) = (tiling.part(conv, direction, images), conv.depth());
            convolution(&Problem { direction, conv, row, element: S::CODE, packed })
        };
        let block = find(tiling.images)?;
        let rest = match conv.images % tiling.images {
            0 => None,
            images => Some(find(images)?),
        };
        let alike = rest.as_ref().is_none_or(|rest| rest.shares_weights(&block, direction));
        alike.then_some(Direct { conv: *conv, direction, tiling, block, rest })
    }

    /// Computes the result of operands in the order of [`Direction`]'s comments.
    pub fn run<S: Element>(&self, a: &[S], b: &[S], out: &mut [S]) {
        match self.direction {
            Direction::GradWeight => self.grad_weight(a, b, out),
            _ => self.images(a, b, out),
        }
    }

    fn kernel(&self, images: usize) -> &Convolution {
        match &self.rest {
            Some(rest) if images < self.tiling.images => rest,
            _ => &self.block,
        }
    }

    /// The part of an image's tensor that a slice reads: all of it unless `sliced`.
    fn of_image<'a, S>(&self, x: &'a [S], image: usize, slice: usize, sliced: bool) -> &'a [S] {
        let all = x.len() / self.conv.images;
        let x = &x[image * all..][..all];
        let len = if sliced { all / self.tiling.slices } else { all };
        &x[if sliced { slice * len } else { 0 }..][..len]
    }

    /// y from x and w, or dx from dy and w.
    fn images<S: Element>(&self, a: &[S], w: &[S], out: &mut [S]) {
        let Tiling { images, slices } = self.tiling;
        let weights = &self.block.operands[1];
        let slice_of = |slice: usize| match self.direction {
            Direction::GradInput if self.conv.groups == 1 => {
                &w[slice * (self.conv.depth() / slices)..]
            }
            _ => &w[slice * (w.len() / slices)..],
        };
        let image = out.len() / self.conv.images;
        let blocks = self.conv.images.div_ceil(images);
        let tasks = deal(out, (image, image / slices), blocks * slices, |image, slice| {
            image / images * slices + slice
        });
        let each = aligned(weights.len);
        // A single block's weights are packed by its tasks, and are in cache when they are used.
        let shared = if blocks > 1 { slices * each } else { 0 };
        with_scratch(shared, |packed: &mut [f32]| {
            let parts = packed.chunks_exact_mut(each).enumerate();
            parallel_each(parts, GRAIN, |(slice, packed)| {
                with_scratch(self.block.room, |room| weights.pack(slice_of(slice), packed, room));
            });
            let packed = &*packed;
            each_task(tasks, self.conv.work(), |task, planes| {
                let (first, slice) = (task / slices * images, task % slices);
                let packed = packed.chunks_exact(each).nth(slice).ok_or(slice_of(slice));
                self.block(a, packed, (first, slice), planes);
            });
        });
    }

    /// Computes a slice of the planes of some images, with packed or plain weights.
    fn block<S: Element>(
        &self,
        a: &[S],
        weights: Result<&[f32], &[S]>,
        (first, slice): (usize, usize),
        mut planes: Vec<&mut [S]>,
    ) {
        let kernel = self.kernel(planes.len());
        let ([input, of_weights], result) = (&kernel.operands, &kernel.result);
        let own = if weights.is_err() { of_weights.len } else { 0 };
        let lengths = [input.len, result.len, own, kernel.room];
        with_scratch(total(&lengths), |scratch| {
            let [made, sums, own, room] = pieces(scratch, lengths);
            for (n, made) in made.chunks_exact_mut(input.part).enumerate() {
                let image = self.of_image(a, first + n, slice, self.conv.groups > 1);
                input.pack(image, made, room);
            }
            let weights = weights.unwrap_or_else(|plain| {
                of_weights.pack(plain, own, room);
                own
            });
            kernel.run(made, weights, sums, room);
            for (sums, plane) in sums.chunks_exact(result.part).zip(&mut planes) {
                result.unpack(sums, plane, room);
            }
        });
    }

    /// dw from dy and x.
    fn grad_weight<S: Element>(&self, dy: &[S], x: &[S], dw: &mut [S]) {
        let slices = self.tiling.slices;
        let blocks = self.conv.images.div_ceil(self.tiling.images);
        let run = blocks_of_sum(blocks);
        let sums = blocks.div_ceil(run);
        let (weights, grouped) = (&self.block.result, self.conv.groups > 1);
        let each = aligned(weights.len);
        with_scratch(slices * sums * each, |partial: &mut [f32]| {
            let tasks = deal(partial, (each, each), slices * sums, |task, _| task);
            each_task(tasks, self.conv.work(), |task, mut sum| {
                let (slice, first) = (task / sums, task % sums * run);
                for n in first..blocks.min(first + run) {
                    self.add_block(dy, x, (n, slice, grouped), n == first, sum[0]);
                }
            });
            let out = dw.chunks_exact_mut(dw.len() / slices);
            let parts = out.zip(partial.chunks_exact_mut(sums * each));
            parallel_each(parts, GRAIN, |(dw, partial)| {
                let (total, others) = partial.split_at_mut(each);
                others.chunks_exact(each).for_each(|part| f32::add(part, total));
                with_scratch(self.block.room, |room| weights.unpack(total, dw, room));
            });
        });
    }

    /// Writes a block's contribution to a slice's sum if it is the first, else adds it.
    fn add_block<S: Element>(
        &self,
        dy: &[S],
        x: &[S],
        (block, slice, grouped): (usize, usize, bool),
        is_first: bool,
        sum: &mut [f32],
    ) {
        let first = block * self.tiling.images;
        let images = self.tiling.images.min(self.conv.images - first);
        let kernel = self.kernel(images);
        let [of_y, of_x] = &kernel.operands;
        let extra = if is_first { 0 } else { kernel.result.len };
        let lengths = [of_y.len, of_x.len, extra, kernel.room];
        with_scratch(total(&lengths), |room| {
            let [y, made, more, room] = pieces(room, lengths);
            for (n, y) in y.chunks_exact_mut(of_y.part).enumerate() {
                of_y.pack(self.of_image(dy, first + n, slice, true), y, room);
            }
            for (n, made) in made.chunks_exact_mut(of_x.part).enumerate() {
                of_x.pack(self.of_image(x, first + n, slice, grouped), made, room);
            }
            if is_first {
                return kernel.run(y, made, sum, room);
            }
            kernel.run(y, made, more, room);
            f32::add(more, sum);
        });
    }
}

/// Whether the library's kernels are worth trying: not for a few filters or channels, where most of a vector would be
/// padding, nor where packing operands takes longer than the kernel saves. That is the case with weights much larger
/// than the images, and with large images whose products need no columns.
fn suits(conv: &Conv, direction: Direction) -> bool {
    let groups = conv.groups;
    let (x, y) = (conv.channels * conv.windows.plane(), conv.filters * conv.windows.pixels());
    let (weights, images) = (conv.filters * conv.depth(), conv.images * (x + y));
    if conv.sees_itself() && groups * (x + y) > CACHED {
        return false;
    }
    match direction {
        Direction::Forward => groups * conv.filters >= LEAST_LANES && weights / 64 <= images,
        Direction::GradInput => groups * conv.channels >= LEAST_LANES,
        Direction::GradWeight => groups * conv.filters >= LEAST_LANES && weights <= images,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{backward, forward};
    use super::*;
    use crate::backend::cpu::element::Bf16;
    use crate::backend::cpu::tests::{Random, cpu};
    use crate::op::nn::window::Windows;

    /// Blocks that the images do not fill, one for all, more than there are partial sums; slices of groups too.
    #[test]
    fn every_cut_gives_the_same() {
        let windows = Windows {
            input: [1, 5, 6],
            output: [1, 5, 6],
            kernel: [1, 3, 3],
            stride: [1; 3],
            padding: [0, 1, 1],
            dilation: [1; 3],
        };
        let alone = Conv { windows, images: 35, groups: 1, channels: 32, filters: 64 };
        let grouped = Conv { groups: 4, channels: 16, filters: 16, ..alone };
        let mut random = Random::new(25);
        for conv in [alone, grouped] {
            let planes = conv.images * conv.groups * windows.plane();
            let lengths = [planes * conv.channels, planes * conv.filters];
            // Of a half type, too.
            let mut numbers = |n: usize| -> Vec<f64> {
                (0..n).map(|_| half::bf16::from_f64(random.unit()).to_f64()).collect()
            };
            let [x, y] = lengths.map(&mut numbers);
            let w = numbers(conv.groups * conv.filters * conv.depth());
            for direction in [Direction::Forward, Direction::GradInput, Direction::GradWeight] {
                let (a, b, n) = match direction {
                    Direction::Forward => (&x, &w, y.len()),
                    Direction::GradInput => (&y, &w, x.len()),
                    Direction::GradWeight => (&y, &x, w.len()),
                };
                let mut wanted = vec![0.0; n];
                match direction {
                    Direction::Forward => forward::forward::<f64, f64>(&conv, a, b, &mut wanted),
                    Direction::GradInput => {
                        backward::grad_input::<f64, f64>(&conv, a, b, &mut wanted)
                    }
                    Direction::GradWeight => {
                        backward::grad_weight::<f64, f64>(&conv, a, b, &mut wanted)
                    }
                }
                let alike = |got: f64, wanted: f64, relative: f64| {
                    let near = (got - wanted).abs() <= 1e-3 + relative * wanted.abs();
                    assert!(near, "{direction:?}: {got} {wanted}");
                };
                for (images, slices) in [(35, 1), (35, 4), (1, 1), (4, 2), (8, 4)] {
                    let tiling = Tiling { images, slices };
                    let single = |v: &f64| *v as f32;
                    let got = run(&conv, direction, tiling, f32::CODE, [a, b], n, single);
                    got.iter().zip(&wanted).for_each(|(got, &v)| alike(*got as f64, v, 0.0));
                    let bf16 = |v: &f64| Bf16(half::bf16::from_f64(*v).to_bits());
                    for packed in [f32::CODE, Bf16::CODE] {
                        let got = run(&conv, direction, tiling, packed, [a, b], n, bf16);
                        got.iter().zip(&wanted).for_each(|(got, &v)| {
                            alike(half::bf16::from_bits(got.0).to_f64(), v, 1.0 / 256.0)
                        });
                    }
                }
            }
        }
    }

    #[test]
    fn cuts_are_whole_slices_and_blocks_that_hold_images() {
        let mut random = Random::new(26);
        for _ in 0..5000 {
            let output = [1, random.size(8), random.size(8)];
            let windows = Windows {
                input: output,
                output,
                kernel: [1, 1, random.size(3)],
                stride: [1; 3],
                padding: [0; 3],
                dilation: [1; 3],
            };
            let (images, groups) = (random.size(12), random.size(5));
            let (channels, filters) = (random.size(10), random.size(10));
            let conv = Conv { windows, images, groups, channels, filters };
            for direction in [Direction::Forward, Direction::GradInput, Direction::GradWeight] {
                let tiling = Tiling::new(&conv, direction);
                let (n, _) = sliced(&conv, direction);
                assert!((1..=images).contains(&tiling.images) && n.is_multiple_of(tiling.slices));
                assert!(tiling.slices <= TASKS);
            }
        }
    }

    #[test]
    fn partial_sums_have_blocks_and_are_few() {
        for blocks in (1..5000).chain([1 << 20, (1 << 40) + 1]) {
            let each = blocks_of_sum(blocks);
            assert!((1..=blocks).contains(&each) && blocks.div_ceil(each) <= MOST_SUMS, "{blocks}");
        }
    }

    /// `n` results; none without the library, or on a processor that it has no such kernel for.
    fn run<S: Element>(
        conv: &Conv,
        direction: Direction,
        tiling: Tiling,
        packed: c_int,
        operands: [&Vec<f64>; 2],
        n: usize,
        element: impl Fn(&f64) -> S,
    ) -> Vec<S> {
        let [a, b] = operands.map(|list| list.iter().map(&element).collect::<Vec<S>>());
        let mut got = vec![element(&f64::NAN); n];
        let run = || {
            let direct = Direct::tiling::<S>(conv, direction, tiling, packed);
            direct.map(|direct| direct.run(&a, &b, &mut got)).is_some()
        };
        if cpu(2).inside(run).unwrap() { got } else { Vec::new() }
    }
}
