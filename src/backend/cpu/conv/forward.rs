//! The convolution itself: filters times columns.

use super::{
    ConvElement, SMALL, Span, Tiling, as_lanes, columns, deal, each_task, lanes, parts,
    start_of_plane,
};
use crate::backend::cpu::element::store_run;
use crate::backend::cpu::gemm::gemm;
use crate::backend::cpu::matrix::{Block, Matrix};
use crate::backend::cpu::pool::{GRAIN, parallel_each, with_scratch};
use crate::backend::cpu::rows::RowOf;
use crate::op::nn::Conv;

/// Fewer filters than this are not given to a task of their own.
const LEAST_FILTERS: usize = 32;
/// Fewer spans than this are not a task each.
const FEW: usize = 8;

struct Forward<'a, S, L> {
    tiling: Tiling,
    x: &'a [S],
    weight: &'a [L],
    /// Filters of one task.
    filters: usize,
}

/// `y[images, groups·filters, pixels]` of `x[images, groups·channels, plane]` and `w[groups·filters, channels·taps]`.
pub fn forward<S: RowOf<L>, L: ConvElement>(conv: &Conv, x: &[S], w: &[S], y: &mut [S]) {
    let (tiling, weight) = (Tiling::new(conv), lanes(w));
    let spans = tiling.len();
    // With few spans, threads share the columns of each; else every task makes its own.
    let shared = spans * conv.groups < FEW;
    let filters = filters_of_task(conv.filters, shared);
    let blocks = conv.filters.div_ceil(filters);
    let (images, parts_of_image) = (tiling.images, tiling.fields.len());
    let per_image = conv.groups * conv.filters;
    let all = conv.windows.pixels();
    let mut tasks = deal(y, (all, tiling.pixels), spans * conv.groups * blocks, |row, part| {
        let (image, group) = (row / per_image, row % per_image / conv.filters);
        let span = image / images * parts_of_image + part;
        (span * conv.groups + group) * blocks + row % conv.filters / filters
    });
    let this = Forward { tiling, x, weight: &weight, filters };
    if !shared {
        each_task(tasks, conv.work(), |n, pieces| {
            this.alone(
                &this.tiling.span(n / blocks / conv.groups),
                [n / blocks % conv.groups, n % blocks],
                pieces,
            );
        });
        return;
    }
    for n in (0..spans * conv.groups).rev() {
        let tasks = tasks.split_off(n * blocks);
        this.together(&this.tiling.span(n / conv.groups), n % conv.groups, tasks);
    }
}

/// Filters of one task: all, unless threads share the columns.
fn filters_of_task(filters: usize, shared: bool) -> usize {
    filters.div_ceil(if shared { parts(filters, 1, LEAST_FILTERS) } else { 1 })
}

impl<S: RowOf<L>, L: ConvElement> Forward<'_, S, L> {
    /// Runs a task that makes its own columns.
    fn alone(&self, span: &Span, [group, block]: [usize; 2], pieces: Vec<&mut [S]>) {
        if let Some(columns) = self.as_they_are(span, group) {
            return self.product(span, columns, [group, block], pieces);
        }
        let depth = self.tiling.conv.depth();
        let size = depth * span.columns();
        with_scratch(size + self.tiling.room(), |room| {
            let (made, room) = room.split_at_mut(size);
            columns(&self.tiling, self.x, (span, group), 0..depth, room, made);
            self.product(span, Matrix::rows(made, span.columns()), [group, block], pieces);
        });
    }

    /// Runs all tasks of a span and group, which share the columns.
    fn together(&self, span: &Span, group: usize, tasks: Vec<Vec<&mut [S]>>) {
        let conv = &self.tiling.conv;
        let work = conv.filters * conv.depth() * span.columns();
        let products = |columns: Matrix<L>| {
            each_task(tasks, work, |block, pieces| {
                self.product(span, columns, [group, block], pieces);
            });
        };
        if let Some(columns) = self.as_they_are(span, group) {
            return products(columns);
        }
        let (taps, width) = (conv.windows.taps(), span.columns());
        with_scratch(conv.depth() * width, |made: &mut [L]| {
            let of_channel = |(channel, to): (usize, &mut [L])| {
                with_scratch(self.tiling.room(), |room| {
                    let rows = channel * taps..(channel + 1) * taps;
                    columns(&self.tiling, self.x, (span, group), rows, room, to);
                });
            };
            let channels = made.chunks_exact_mut(taps * width).enumerate();
            // Moving a channel's columns takes about as long as multiplying them by eight filters.
            parallel_each(channels, 8 * taps * width * GRAIN / SMALL, of_channel);
            products(Matrix::rows(made, width));
        });
    }

    /// The columns of a span without a copy, if a window is one element and the span lies in one image.
    fn as_they_are(&self, span: &Span, group: usize) -> Option<Matrix<'_, L>> {
        if !self.tiling.conv.sees_itself() || span.images.len() > 1 {
            return None;
        }
        let x = as_lanes::<S, L>(self.x)?;
        let first = start_of_plane(&self.tiling.conv, [span.images.start, group, 0]);
        Some(Matrix {
            data: &x[first + span.pixels.start..],
            strides: (self.tiling.conv.windows.plane(), 1),
        })
    }

    /// Writes some filters' rows of `y`: pieces in the order of images, then filters.
    fn product(
        &self,
        span: &Span,
        columns: Matrix<L>,
        [group, block]: [usize; 2],
        pieces: Vec<&mut [S]>,
    ) {
        let conv = &self.tiling.conv;
        let (depth, width, pixels) = (conv.depth(), span.columns(), span.pixels.len());
        let filters = pieces.len() / span.images.len();
        let first = group * conv.filters + block * self.filters;
        let weight = Matrix::rows(&self.weight[first * depth..], depth);
        with_scratch(filters * width, |sums: &mut [L]| {
            gemm(depth, L::from(1.0), weight, columns, 0.0, &mut Block::new(sums, width));
            for (n, piece) in pieces.into_iter().enumerate() {
                let at = n % filters * width + n / filters * pixels;
                store_run(&sums[at..at + pixels], piece);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_filters() {
        for filters in (1..5000).chain([1 << 20, (1 << 31) + 1]) {
            assert_eq!(filters_of_task(filters, false), filters);
            let each = filters_of_task(filters, true);
            assert!((LEAST_FILTERS.min(filters)..=filters).contains(&each), "{filters}");
        }
    }
}
