//! Convolutions with one channel to a group: every plane by itself, one tap after the other.

use super::{ConvElement, SMALL, lanes, plane};
use crate::backend::cpu::conv::field::Field;
use crate::backend::cpu::pool::{parallel_chunks, with_scratch};
use crate::backend::cpu::rows::RowOf;
use crate::backend::cpu::tile::element::load_run;
use crate::op::nn::Conv;

/// The field of a whole plane, and the work of one in bytes of memory traffic that would take as long.
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

/// As [`super::backward::grad_weight`].
pub fn grad_weight<S: RowOf<L>, L: ConvElement>(conv: &Conv, dy: &[S], x: &[S], dw: &mut [S]) {
    let (field, cost) = whole(conv);
    let (pixels, taps) = (conv.windows.pixels(), conv.windows.taps());
    let all = conv.groups * conv.filters;
    parallel_chunks(dw, taps, cost * conv.images, |filter, dw| {
        let mut sums = vec![0.0; taps];
        with_scratch(field.len() + pixels, |room: &mut [L]| {
            let (room, of_dy) = room.split_at_mut(field.len());
            for image in 0..conv.images {
                let x = field.load(plane(x, conv, [image, filter / conv.filters, 0]), room);
                let at = (image * all + filter) * pixels;
                load_run(&dy[at..at + pixels], of_dy);
                for (tap, sum) in sums.iter_mut().enumerate() {
                    *sum += field.dot(x, tap, of_dy);
                }
            }
        });
        dw.iter_mut().zip(sums).for_each(|(dw, sum)| *dw = S::store(L::from_f64(sum)));
    });
}
