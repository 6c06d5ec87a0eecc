//! Convolution and its gradients. Where oneDNN is found and has a fast kernel, it computes blocks of images of all types but
//! f64 (`direct`). Elsewhere the inputs of a range of pixels are laid out as a matrix of columns, so that each of the three
//! is a product of matrices; depthwise convolutions, whose products would be of vectors, are summed directly.
//!
//! **Invariant:** how columns and results are cut decides the order of sums, so it depends on the shape only, never on the
//! number of threads.

mod backward;
mod depthwise;
mod direct;
mod field;
mod forward;

use super::access::{Bound, Plain};
use super::element::{Bf16, F16, Stored, load_run};
use super::matrix::Matrix;
use super::onednn::{Direction, Element};
use super::pool::{GRAIN, parallel_each};
use super::rows::{RowMath, RowOf};
use super::tile::run::TileElement;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::nn::Conv;
use crate::op::{Attr, Op};
use direct::Direct;
use field::Field;
use std::any::TypeId;
use std::borrow::Cow;
use std::ops::{Mul, Range};

/// An element type that convolutions are computed in.
trait ConvElement: RowMath + TileElement + Stored<Self> + Mul<Output = Self> {}
impl ConvElement for f32 {}
impl ConvElement for f64 {}

/// Elements of a matrix of columns and of its product that stay in a core's cache.
const CACHED: usize = 1 << 18;
/// Fewer columns than this do not pay for packing the other operand of a product.
const LEAST_COLUMNS: usize = 192;
const MOST_COLUMNS: usize = 2048;
/// Tasks that keep all threads busy to the end.
const TASKS: usize = 16;
/// Multiplications that are not worth a second thread.
const SMALL: usize = 1 << 17;

/// `op` is one of the three convolutions; no operand is empty.
pub fn run(op: Op, attrs: &[Attr], reads: &[Bound], write: &Bound) -> Result<()> {
    let (a, b) = (&reads[0], &reads[1]);
    let [y, x, w] = match op {
        Op::Conv => [write, a, b],
        Op::ConvGradInput => [a, write, b],
        _ => [a, b, write],
    };
    let conv = Conv::new(y.sizes(), x.sizes(), w.sizes(), attrs);
    match write.dtype {
        DType::F32 => run_in_f32::<f32>(op, &conv, reads, write),
        DType::F16 => run_in_f32::<F16>(op, &conv, reads, write),
        DType::BF16 => run_in_f32::<Bf16>(op, &conv, reads, write),
        DType::F64 => run_as::<f64, f64>(op, &conv, reads, write),
        other => return internal!("{} of {other}", op.name()),
    }
    Ok(())
}

fn run_in_f32<S: RowOf<f32> + Element>(op: Op, conv: &Conv, reads: &[Bound], write: &Bound) {
    let direction = match op {
        Op::Conv => Direction::Forward,
        Op::ConvGradInput => Direction::GradInput,
        _ => Direction::GradWeight,
    };
    match Direct::new::<S>(conv, direction) {
        Some(direct) => direct.run::<S>(reads[0].dense(), reads[1].dense(), write.result()),
        None => run_as::<S, f32>(op, conv, reads, write),
    }
}

fn run_as<S: RowOf<L>, L: ConvElement>(op: Op, conv: &Conv, reads: &[Bound], write: &Bound) {
    let (a, b, out) = (reads[0].dense::<S>(), reads[1].dense::<S>(), write.result::<S>());
    let direct = conv.channels == 1 && conv.groups > 1;
    match (op, direct) {
        (Op::Conv, true) => depthwise::forward::<S, L>(conv, a, b, out),
        (Op::Conv, false) => forward::forward::<S, L>(conv, a, b, out),
        (Op::ConvGradInput, true) => depthwise::grad_input::<S, L>(conv, a, b, out),
        (Op::ConvGradInput, false) => backward::grad_input::<S, L>(conv, a, b, out),
        (_, true) => depthwise::grad_weight::<S, L>(conv, a, b, out),
        (_, false) => backward::grad_weight::<S, L>(conv, a, b, out),
    }
}

/// `x` without a conversion, if it has the type that is computed in.
fn as_lanes<S: RowOf<L>, L: ConvElement>(x: &[S]) -> Option<&[L]> {
    (TypeId::of::<S>() == TypeId::of::<L>()).then(|| S::read(x, &mut []))
}

/// All of `x`, converted to the type that is computed in.
fn lanes<S: RowOf<L>, L: ConvElement>(x: &[S]) -> Cow<'_, [L]> {
    as_lanes(x).map_or_else(
        || {
            let mut wide = vec![L::default(); x.len()];
            load_run(x, &mut wide);
            Cow::Owned(wide)
        },
        Cow::Borrowed,
    )
}

/// How images and pixels are cut into spans: some whole images, or a part of one.
struct Tiling {
    images: usize,
    pixels: usize,
    /// One for each part of an image.
    fields: Vec<Field>,
    conv: Conv,
}

/// A range of images and the part of their pixels with this number.
struct Span {
    images: Range<usize>,
    part: usize,
    pixels: Range<usize>,
}

impl Span {
    fn columns(&self) -> usize {
        self.images.len() * self.pixels.len()
    }
}

impl Tiling {
    fn new(conv: &Conv) -> Tiling {
        Tiling::with_fields(conv, |part, _| part)
    }

    /// A tiling whose fields hold a whole plane each.
    fn of_whole_planes(conv: &Conv) -> Tiling {
        Tiling::with_fields(conv, |_, all| 0..all)
    }

    /// `pixels_of(part, all)`: the pixels that the field of a part has to hold, of `all` pixels.
    fn with_fields(conv: &Conv, pixels_of: fn(Range<usize>, usize) -> Range<usize>) -> Tiling {
        let all = conv.windows.pixels();
        let height = conv.depth() + conv.filters;
        let columns = (CACHED / height).clamp(LEAST_COLUMNS, MOST_COLUMNS);
        let pixels = all.div_ceil(all.div_ceil(columns));
        let images = if pixels < all { 1 } else { (columns / all).clamp(1, conv.images) };
        let seen = (0..all).step_by(pixels).map(|p| p..all.min(p + pixels));
        let field =
            |part: Range<usize>| Field::new(&conv.windows, pixels_of(part.clone(), all), part);
        let fields = seen.map(field).collect();
        Tiling { images, pixels, fields, conv: *conv }
    }

    fn len(&self) -> usize {
        self.conv.images.div_ceil(self.images) * self.fields.len()
    }

    fn span(&self, n: usize) -> Span {
        let (first, part) = (n / self.fields.len() * self.images, n % self.fields.len());
        let from = part * self.pixels;
        Span {
            images: first..self.conv.images.min(first + self.images),
            part,
            pixels: from..self.conv.windows.pixels().min(from + self.pixels),
        }
    }

    /// Columns of the widest span.
    fn columns(&self) -> usize {
        self.images * self.pixels
    }

    /// Elements of the largest field.
    fn room(&self) -> usize {
        self.fields.iter().map(Field::len).max().unwrap_or(0)
    }
}

impl Conv {
    /// Rows of the matrix of columns.
    fn depth(&self) -> usize {
        self.channels * self.windows.taps()
    }

    /// Whether every pixel's window is the one element of each channel at its own place.
    fn sees_itself(&self) -> bool {
        let w = &self.windows;
        w.taps() == 1 && w.stride == [1; 3] && w.padding == [0; 3] && w.input == w.output
    }

    fn work(&self) -> usize {
        self.images * self.groups * self.filters * self.depth() * self.windows.pixels()
    }
}

/// The start in `x` of a channel of an image's group.
fn start_of_plane(conv: &Conv, [image, group, channel]: [usize; 3]) -> usize {
    ((image * conv.groups + group) * conv.channels + channel) * conv.windows.plane()
}

fn plane<'a, S>(x: &'a [S], conv: &Conv, position: [usize; 3]) -> &'a [S] {
    &x[start_of_plane(conv, position)..][..conv.windows.plane()]
}

/// Writes `rows` of the matrix of columns of a span: one row for each tap of each channel.
fn columns<S: RowOf<L>, L: ConvElement>(
    tiling: &Tiling,
    x: &[S],
    (span, group): (&Span, usize),
    rows: Range<usize>,
    room: &mut [L],
    to: &mut [L],
) {
    let (field, taps) = (&tiling.fields[span.part], tiling.conv.windows.taps());
    let (width, pixels) = (span.columns(), span.pixels.len());
    for (i, image) in span.images.clone().enumerate() {
        for channel in rows.start / taps..rows.end.div_ceil(taps) {
            let field_of = field.load(plane(x, &tiling.conv, [image, group, channel]), room);
            let first = (channel * taps).max(rows.start);
            for row in first..rows.end.min((channel + 1) * taps) {
                let at = (row - rows.start) * width + i * pixels;
                field.gather(field_of, row - channel * taps, &mut to[at..at + pixels]);
            }
        }
    }
}

/// Rows `filters` of a span's part of `dy` as a matrix: in place, or gathered into `room`.
fn outputs<'a, S: RowOf<L>, L: ConvElement>(
    tiling: &Tiling,
    dy: &'a [S],
    (span, group): (&Span, usize),
    filters: Range<usize>,
    room: &'a mut [L],
) -> Matrix<'a, L> {
    let (conv, all) = (&tiling.conv, tiling.conv.windows.pixels());
    let start = |image: usize, filter: usize| {
        ((image * conv.groups + group) * conv.filters + filter) * all + span.pixels.start
    };
    if let (Some(dy), 1) = (as_lanes::<S, L>(dy), span.images.len()) {
        let from = start(span.images.start, filters.start);
        return Matrix { data: &dy[from..], strides: (all, 1) };
    }
    let (width, pixels) = (span.columns(), span.pixels.len());
    for (row, filter) in filters.enumerate() {
        for (i, image) in span.images.clone().enumerate() {
            let (from, at) = (start(image, filter), row * width + i * pixels);
            load_run(&dy[from..from + pixels], &mut room[at..at + pixels]);
        }
    }
    Matrix::rows(room, width)
}

/// Distributes the pieces of a result among `n` tasks. Rows of `width` elements are cut into pieces of `piece`;
/// `task(row, number of the piece)` is the task that writes it. Each task has its pieces in the order of rows.
fn deal<T>(
    out: &mut [T],
    (width, piece): (usize, usize),
    n: usize,
    task: impl Fn(usize, usize) -> usize,
) -> Vec<Vec<&mut [T]>> {
    let mut hands: Vec<Vec<&mut [T]>> = (0..n).map(|_| Vec::new()).collect();
    for (row, elements) in out.chunks_exact_mut(width).enumerate() {
        for (i, piece) in elements.chunks_mut(piece).enumerate() {
            hands[task(row, i)].push(piece);
        }
    }
    hands
}

/// Runs all tasks, in parallel if there is enough work.
fn each_task<T: Plain>(
    tasks: Vec<Vec<&mut [T]>>,
    work: usize,
    run: impl Fn(usize, Vec<&mut [T]>) + Sync,
) {
    if work < SMALL {
        return tasks.into_iter().enumerate().for_each(|(n, pieces)| run(n, pieces));
    }
    parallel_each(tasks.into_iter().enumerate(), GRAIN, |(n, pieces)| run(n, pieces));
}

/// Number of parts to cut `n` rows into, when there are `others` tasks already: enough for many threads, none smaller than
/// `least`.
fn parts(n: usize, others: usize, least: usize) -> usize {
    let wanted = TASKS.div_ceil(others.max(1));
    wanted.min(n / least.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::tests::Random;
    use crate::op::nn::window::Windows;

    #[test]
    fn spans_cover_every_pixel_of_every_image_once() {
        let mut random = Random::new(4);
        for _ in 0..2000 {
            let output = [1, random.size(6), random.size(6)];
            let windows = Windows {
                input: output,
                output,
                kernel: [1; 3],
                stride: [1; 3],
                padding: [0; 3],
                dilation: [1; 3],
            };
            let (images, groups) = (random.size(7), random.size(3));
            let (channels, filters) = (random.size(14), random.size(14));
            let tiling = Tiling::new(&Conv { windows, images, groups, channels, filters });
            let pixels = windows.pixels();
            let mut seen = vec![0u8; images * pixels];
            for span in (0..tiling.len()).map(|n| tiling.span(n)) {
                assert!(span.columns() <= tiling.columns());
                for image in span.images.clone() {
                    let part = &mut seen[image * pixels..][span.pixels.clone()];
                    part.iter_mut().for_each(|times| *times += 1);
                }
            }
            assert!(seen.iter().all(|&times| times == 1));
        }
    }

    #[test]
    fn there_are_parts_for_all_and_none_is_too_small() {
        let mut random = Random::new(5);
        let small = (1..300).map(|n| (n, n % 7, n % 13));
        let large: Vec<_> =
            (0..5000).map(|_| (random.size(50), random.size(50), random.size(40))).collect();
        for (n, others, least) in small.chain(large) {
            let parts = parts(n, others, least);
            assert!((1..=TASKS).contains(&parts) && parts <= (n / least.max(1)).max(1));
        }
    }
}
