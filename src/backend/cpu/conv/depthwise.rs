//! Convolutions with one channel per group: every plane on its own, one tap after the other; gradients of weights for several
//! planes at once.

use super::{ConvElement, SMALL, TASKS, lanes, plane};
use crate::backend::cpu::conv::field::{Field, LANES};
use crate::backend::cpu::pool::{parallel_chunks, with_scratch};
use crate::backend::cpu::rows::RowOf;
use crate::op::nn::Conv;

/// The field of a whole plane, and the work on it as bytes of memory traffic that would take as long.
fn whole(conv: &Conv) -> (Field, usize) {
    let pixels = conv.windows.pixels();
    let cost = (pixels * conv.windows.taps()).min(SMALL) + 8 * conv.windows.plane();
    (Field::new(&conv.windows, 0..pixels, 0..pixels), cost)
}

/// As [`super::forward::forward`].
pub fn forward<S: RowOf<L>, L: ConvElement>(conv: &Conv, x: &[S], w: &[S], y: &mut [S]) {
    let ((field, cost), w) = (whole(conv), lanes::<S, L>(w));
    let (pixels, taps) = (conv.windows.pixels(), conv.windows.taps());
    parallel_chunks(y, pixels, cost, |n, y| {
        let (image, filter) = (n / (conv.groups * conv.filters), n % (conv.groups * conv.filters));
        with_scratch(field.len() + 2 * pixels, |room: &mut [L]| {
            let (room, rest) = room.split_at_mut(field.len());
            let (sums, of_result) = rest.split_at_mut(pixels);
            let x = field.load(plane(x, conv, [image, filter / conv.filters, 0]), room);
            sums.fill(L::from(0.0));
            for tap in 0..taps {
                field.add_tap(w[filter * taps + tap], x, tap, sums);
            }
            S::write(y, of_result, |y| y.copy_from_slice(sums));
        });
    });
}

/// As [`super::backward::grad_input`].
pub fn grad_input<S: RowOf<L>, L: ConvElement>(conv: &Conv, dy: &[S], w: &[S], dx: &mut [S]) {
    let ((field, cost), w) = (whole(conv), lanes::<S, L>(w));
    let (pixels, taps) = (conv.windows.pixels(), conv.windows.taps());
    parallel_chunks(dx, conv.windows.plane(), cost * conv.filters, |n, dx| {
        with_scratch(field.len() + pixels, |room: &mut [L]| {
            let (sums, room) = room.split_at_mut(field.len());
            sums.fill(L::from(0.0));
            for filter in 0..conv.filters {
                let of_dy = (n * conv.filters + filter) * pixels;
                let dy = S::read(&dy[of_dy..of_dy + pixels], room);
                let first = (n % conv.groups * conv.filters + filter) * taps;
                for tap in 0..taps {
                    field.scatter(w[first + tap], dy, tap, sums);
                }
            }
            field.store(sums, dx);
        });
    });
}

/// As [`super::backward::grad_weight`], with planes of several filters side by side, so that each pixel and tap is computed
/// in vectors, however small the planes are.
pub fn grad_weight<S: RowOf<L>, L: ConvElement>(conv: &Conv, dy: &[S], x: &[S], dw: &mut [S]) {
    let (field, cost) = whole(conv);
    let positions = field.positions();
    let (pixels, taps) = (conv.windows.pixels(), conv.windows.taps());
    let all = conv.groups * conv.filters;
    let (blocks, each) = (all.div_ceil(LANES), taps * LANES);
    let images = images_of_sum(conv.images, blocks);
    let parts = conv.images.div_ceil(images);
    with_scratch(parts * blocks * each, |partial: &mut [L]| {
        parallel_chunks(partial, each, cost * LANES * images, |n, sums| {
            let (part, block) = (n / blocks, n % blocks);
            let filters = block * LANES..all.min((block + 1) * LANES);
            sums.fill(L::from(0.0));
            with_scratch((field.len() + pixels) * (1 + LANES), |room: &mut [L]| {
                let (seen, room) = room.split_at_mut(field.len() * LANES);
                let (of_dy, room) = room.split_at_mut(pixels * LANES);
                seen.fill(L::from(0.0));
                of_dy.fill(L::from(0.0));
                for image in part * images..conv.images.min((part + 1) * images) {
                    for (lane, filter) in filters.clone().enumerate() {
                        let plane = plane(x, conv, [image, filter / conv.filters, 0]);
                        spread(field.load(plane, room), &mut seen[lane..]);
                        let at = (image * all + filter) * pixels;
                        spread(S::read(&dy[at..at + pixels], room), &mut of_dy[lane..]);
                    }
                    let of_dy = &*of_dy;
                    field.add_products(seen, (&positions, of_dy), sums);
                }
            });
        });
        for (filter, dw) in dw.chunks_exact_mut(taps).enumerate() {
            let first = filter / LANES * each + filter % LANES;
            for (tap, dw) in dw.iter_mut().enumerate() {
                let of_parts = partial.iter().skip(first + tap * LANES).step_by(blocks * each);
                let mut sum = L::from(0.0);
                of_parts.for_each(|&part| sum += part);
                *dw = S::store(sum);
            }
        }
    });
}

/// Number of images whose gradients one task adds up, of `images` images and `blocks` blocks of filters.
fn images_of_sum(images: usize, blocks: usize) -> usize {
    images.div_ceil(TASKS.div_ceil(blocks).min(images))
}

/// Writes elements to one lane, each at a place of its own.
fn spread<L: Copy>(from: &[L], to: &mut [L]) {
    to.iter_mut().step_by(LANES).zip(from).for_each(|(to, &v)| *to = v);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_images_and_are_few() {
        for (images, blocks) in (1..300).flat_map(|images| (1..40).map(move |b| (images, b))) {
            let each = images_of_sum(images, blocks);
            assert!((1..=images).contains(&each), "{images} {blocks}");
            assert!(images.div_ceil(each) <= TASKS.div_ceil(blocks), "{images} {blocks}");
        }
    }
}
