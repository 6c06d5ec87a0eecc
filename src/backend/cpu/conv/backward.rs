//! Gradients of a convolution. With respect to the input: transposed filters times the gradient of the output give
//! columns, which are added to where they came from. With respect to the weight: the gradient of the output times
//! transposed columns.

use super::{ConvElement, Tiling, columns, deal, each_task, lanes, outputs, parts};
use crate::backend::cpu::element::{Stored, store_run};
use crate::backend::cpu::gemm::gemm;
use crate::backend::cpu::matrix::{Block, Matrix};
use crate::backend::cpu::pool::with_scratch;
use crate::backend::cpu::rows::RowOf;
use crate::op::nn::Conv;

/// Rows of columns in the product of one task, if there are enough.
const ROWS: usize = 384;
/// Fewer rows than this do not pay for packing the other operand.
const LEAST_ROWS: usize = 64;
/// Maximum number of partial sums of a weight's gradient, and of elements of one.
const MOST_SUMS: usize = 16;
const SUMMED: usize = 1 << 16;

/// `dx[images, groups·channels, plane]` of `dy[images, groups·filters, pixels]` and `w[groups·filters, channels·taps]`.
pub fn grad_input<S: RowOf<L>, L: ConvElement>(conv: &Conv, dy: &[S], w: &[S], dx: &mut [S]) {
    let (tiling, weight) = (Tiling::of_whole_planes(conv), lanes::<S, L>(w));
    let (groups, taps) = (conv.groups, conv.windows.taps());
    let batches = conv.images.div_ceil(tiling.images);
    let channels = channels_of_task(conv.channels, taps, batches * groups);
    let blocks = conv.channels.div_ceil(channels);
    let (images, per_image, plane) = (tiling.images, groups * conv.channels, conv.windows.plane());
    let tasks = deal(dx, (plane, plane), batches * groups * blocks, |row, _| {
        let (batch, group) = (row / per_image / images, row % per_image / conv.channels);
        (batch * groups + group) * blocks + row % conv.channels / channels
    });
    let this = GradInput { tiling, dy, weight: &weight, channels };
    each_task(tasks, conv.work(), |n, planes| {
        this.block(n / blocks / groups, n / blocks % groups, n % blocks, planes);
    });
}

/// Number of channels of one task, with `taps` rows of columns each; there are `others` tasks already.
fn channels_of_task(channels: usize, taps: usize, others: usize) -> usize {
    let most = channels.div_ceil(ROWS.div_ceil(taps));
    channels.div_ceil(most.max(parts(channels, others, LEAST_ROWS.div_ceil(taps))))
}

struct GradInput<'a, S, L> {
    tiling: Tiling,
    dy: &'a [S],
    weight: &'a [L],
    /// Channels of one task.
    channels: usize,
}

impl<S: RowOf<L>, L: ConvElement> GradInput<'_, S, L> {
    /// Writes planes in the order of images, then channels.
    fn block(&self, batch: usize, group: usize, block: usize, mut planes: Vec<&mut [S]>) {
        let (tiling, conv) = (&self.tiling, &self.tiling.conv);
        let (depth, taps, size) = (conv.depth(), conv.windows.taps(), tiling.room());
        let first = tiling.span(batch * tiling.fields.len());
        let channels = planes.len() / first.images.len();
        let from = Matrix::rows(&self.weight[group * conv.filters * depth..], depth);
        let filters = from.from(0, block * self.channels * taps).transposed();
        let rows = channels * taps;
        let lengths =
            [planes.len() * size, rows * tiling.columns(), conv.filters * tiling.columns()];
        with_scratch(lengths.iter().sum(), |room: &mut [L]| {
            let (fields, room) = room.split_at_mut(lengths[0]);
            let (products, room) = room.split_at_mut(lengths[1]);
            fields.fill(L::from(0.0));
            for part in 0..tiling.fields.len() {
                let span = tiling.span(batch * tiling.fields.len() + part);
                let (width, pixels) = (span.columns(), span.pixels.len());
                let dy = outputs(tiling, self.dy, (&span, group), 0..conv.filters, room);
                let products = &mut products[..rows * width];
                gemm(
                    conv.filters,
                    L::from(1.0),
                    filters,
                    dy,
                    0.0,
                    &mut Block::new(products, width),
                );
                for (n, field) in fields.chunks_exact_mut(size).enumerate() {
                    for tap in 0..taps {
                        let at = (n % channels * taps + tap) * width + n / channels * pixels;
                        tiling.fields[part].scatter(
                            L::from(1.0),
                            &products[at..at + pixels],
                            tap,
                            field,
                        );
                    }
                }
            }
            for (field, plane) in fields.chunks_exact(size).zip(&mut planes) {
                tiling.fields[0].store(field, plane);
            }
        });
    }
}

/// `dw[groups·filters, channels·taps]` of `dy[images, groups·filters, pixels]` and `x[images, groups·channels, plane]`.
pub fn grad_weight<S: RowOf<L>, L: ConvElement>(conv: &Conv, dy: &[S], x: &[S], dw: &mut [S]) {
    let tiling = Tiling::new(conv);
    let spans = spans_of_sum(tiling.len(), dw.len());
    let this = GradWeight { tiling, dy, x, spans };
    let sums = this.tiling.len().div_ceil(spans);
    if sums == 1 {
        return this.sums(dw, 1);
    }
    with_scratch(sums * dw.len(), |partial: &mut [L]| {
        this.sums(partial, sums);
        let (total, others) = partial.split_at_mut(dw.len());
        others.chunks_exact(dw.len()).for_each(|part| L::add(part, total));
        store_run(total, dw);
    });
}

/// Number of spans added up in one partial sum of `elements` elements: the sum of a small result is cut, so that there is
/// work for many threads.
fn spans_of_sum(spans: usize, elements: usize) -> usize {
    let sums = if elements <= SUMMED { spans.min(MOST_SUMS) } else { 1 };
    spans.div_ceil(sums)
}

struct GradWeight<'a, S> {
    tiling: Tiling,
    dy: &'a [S],
    x: &'a [S],
    /// Spans of one partial sum.
    spans: usize,
}

/// The work of one task: a partial sum's part of a matrix `[filters, depth]`.
struct Part {
    sum: usize,
    group: usize,
    filters: std::ops::Range<usize>,
    rows: std::ops::Range<usize>,
}

/// Filters and rows of one task's block of a matrix `[filters, depth]`, of which there are `matrices`.
fn block_of_sum(filters: usize, depth: usize, matrices: usize) -> [usize; 2] {
    let most = depth.div_ceil(ROWS);
    let rows = depth.div_ceil(most.max(parts(depth, matrices, LEAST_ROWS)));
    let others = matrices * depth.div_ceil(rows);
    [filters.div_ceil(parts(filters, others, LEAST_ROWS)), rows]
}

impl<S> GradWeight<'_, S> {
    /// Writes `n` partial sums, one after the other.
    fn sums<T: Stored<L>, L: ConvElement>(&self, out: &mut [T], n: usize)
    where
        S: RowOf<L>,
    {
        let conv = &self.tiling.conv;
        let (depth, filters) = (conv.depth(), conv.filters);
        let [height, rows] = block_of_sum(filters, depth, n * conv.groups);
        let (of_rows, of_filters) = (depth.div_ceil(rows), filters.div_ceil(height));
        let each = of_rows * of_filters;
        let tasks = deal(out, (depth, rows), n * conv.groups * each, |row, part| {
            row / filters * each + row % filters / height * of_rows + part
        });
        each_task(tasks, conv.work(), |task, pieces| {
            let (matrix, block) = (task / each, task % each);
            let (first, row) = (block / of_rows * height, block % of_rows * rows);
            let part = Part {
                sum: matrix / conv.groups,
                group: matrix % conv.groups,
                filters: first..filters.min(first + height),
                rows: row..depth.min(row + rows),
            };
            self.part::<T, L>(part, pieces);
        });
    }

    fn part<T: Stored<L>, L: ConvElement>(&self, part: Part, pieces: Vec<&mut [T]>)
    where
        S: RowOf<L>,
    {
        let (tiling, widest) = (&self.tiling, self.tiling.columns());
        let (rows, filters) = (part.rows.len(), part.filters.len());
        let lengths = [rows * filters, rows * widest, filters * widest];
        with_scratch(lengths.iter().sum::<usize>() + tiling.room(), |room: &mut [L]| {
            let (sums, room) = room.split_at_mut(lengths[0]);
            let (made, room) = room.split_at_mut(lengths[1]);
            let (of_dy, room) = room.split_at_mut(lengths[2]);
            let first = part.sum * self.spans;
            for n in first..tiling.len().min(first + self.spans) {
                let span = tiling.span(n);
                let width = span.columns();
                columns(tiling, self.x, (&span, part.group), part.rows.clone(), room, made);
                let dy = outputs(tiling, self.dy, (&span, part.group), part.filters.clone(), of_dy);
                let seen = Matrix::rows(&made[..rows * width], width).transposed();
                let beta = if n == first { 0.0 } else { 1.0 };
                gemm(width, L::from(1.0), dy, seen, beta, &mut Block::new(sums, rows));
            }
            for (sums, piece) in sums.chunks_exact(rows).zip(pieces) {
                store_run(sums, piece);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::tests::Random;

    /// Small ones in every combination, and random ones up to so many bits.
    fn triples(seed: u64, bits: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
        let mut random = Random::new(seed);
        let small =
            (1..20).flat_map(|a| (1..20).flat_map(move |b| [1, 2, 9, 49, 100].map(|c| [a, b, c])));
        small.chain((0..20_000).map(move |_| bits.map(|bits| random.size(bits))))
    }

    #[test]
    fn tasks_have_channels_and_no_more_rows_than_a_product_should() {
        for [channels, others, taps] in triples(28, [20, 20, 12]) {
            let each = channels_of_task(channels, taps, others);
            assert!((1..=channels).contains(&each), "{channels} {taps} {others}");
            assert!(each == 1 || each * taps < ROWS + taps, "{channels} {taps} {others}");
        }
    }

    #[test]
    fn partial_sums_have_spans_and_are_few() {
        for [spans, elements, _] in triples(29, [24, 30, 1]) {
            let each = spans_of_sum(spans, elements);
            assert!((1..=spans).contains(&each), "{spans} {elements}");
            let most = if elements <= SUMMED { MOST_SUMS } else { 1 };
            assert!(spans.div_ceil(each) <= most, "{spans} {elements}");
        }
    }

    #[test]
    fn blocks_of_a_gradient_are_within_it_and_no_deeper_than_a_product_should_be() {
        for [filters, depth, matrices] in triples(30, [20, 24, 16]) {
            let [height, rows] = block_of_sum(filters, depth, matrices);
            assert!((1..=filters).contains(&height), "{filters} {depth} {matrices}");
            assert!((1..=depth.min(ROWS)).contains(&rows), "{filters} {depth} {matrices}");
        }
    }
}
