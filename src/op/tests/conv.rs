//! Convolution against the formula, its gradients against differences: it is linear in both operands.

use super::nn::{DIFFERENCES, differences, forward};
use super::*;

/// Sizes of x and w; stride, padding, dilation; groups.
type Shape<'a> = (&'a [i64], &'a [i64], [&'a [i64]; 3], i64);

const SHAPES: &[Shape] = &[
    (&[2, 3, 6], &[4, 3, 3], [&[2], &[1], &[1]], 1),
    (&[2, 2, 4, 5], &[3, 2, 3, 2], [&[1, 2], &[1, 0], &[1, 3]], 1),
    (&[1, 4, 5, 4], &[6, 2, 2, 3], [&[2, 1], &[0, 2], &[2, 1]], 2),
    (&[1, 3, 4, 4], &[6, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 3),
    (&[1, 2, 3, 3, 4], &[2, 2, 2, 2, 3], [&[1, 1, 2], &[1, 0, 1], &[1, 2, 1]], 1),
];

fn attrs(first: Option<&[i64]>, lists: [&[i64]; 3], groups: i64) -> Vec<Attr> {
    first.into_iter().chain(lists).map(ints).chain([Attr::Int(groups)]).collect()
}

/// Element by element, over a padded input.
fn by_formula(
    x: &Array,
    w: &Array,
    [stride, padding, dilation]: [&[i64]; 3],
    groups: i64,
) -> Array {
    let spatial = |a: &Array| a.ty.sizes[2..].to_vec();
    let (input, kernel) = (spatial(x), spatial(w));
    let rank = input.len();
    let size = |d: usize| {
        let covered = dilation[d] * (kernel[d] - 1) + 1;
        (input[d] + 2 * padding[d] - covered) / stride[d] + 1
    };
    let mut sizes = vec![x.ty.sizes[0], w.ty.sizes[0]];
    sizes.extend((0..rank).map(size));
    let (channels, filters) = (w.ty.sizes[1], w.ty.sizes[0] / groups);
    let element = |at: &Vec<i64>| -> f64 {
        let terms = coordinates(&w.ty.sizes[1..]);
        let term = |of: &Vec<i64>| {
            let place: Vec<i64> = (0..rank)
                .map(|d| at[d + 2] * stride[d] + of[d + 1] * dilation[d] - padding[d])
                .collect();
            if place.iter().zip(&input).any(|(&p, &n)| p < 0 || p >= n) {
                return 0.0;
            }
            let channel = at[1] / filters * channels + of[0];
            let from = [&[at[0], channel], &place[..]].concat();
            x.f64(flat(&x.ty.sizes, &from))
                * w.f64(flat(&w.ty.sizes, &[&[at[1]], &of[..]].concat()))
        };
        terms.iter().map(term).sum()
    };
    let values: Vec<f64> = coordinates(&sizes).iter().map(element).collect();
    Array::from_f64(x.ty.dtype, &sizes, &values)
}

#[test]
fn convolution_is_the_formula() {
    for &(x, w, lists, groups) in SHAPES {
        for dtype in FLOATS.into_iter().chain([I64, I32, I8]) {
            let mut numbers = Numbers(40);
            let (x, w) = (numbers.small(dtype, x), numbers.small(dtype, w));
            let want = by_formula(&x, &w, lists, groups);
            if dtype == I8 && want.to_f64s().iter().any(|v| v.abs() > 127.0) {
                continue;
            }
            check(Op::Conv, &[&x, &w], &attrs(None, lists, groups), &want);
        }
    }
}

#[test]
fn convolution_gradients() {
    for &(x, w, lists, groups) in SHAPES {
        let mut numbers = Numbers(41);
        let operands = [numbers.floats(F64, x), numbers.floats(F64, w)];
        let plain = attrs(None, lists, groups);
        let y = one(Op::Conv, &[&operands[0], &operands[1]], &plain);
        let dy = numbers.floats(F64, &y.ty.sizes);
        let want = differences(forward(Op::Conv, &operands, &plain), &operands, &dy);
        let of_input = attrs(Some(&x[2..]), lists, groups);
        let dx = one(Op::ConvGradInput, &[&dy, &operands[1]], &of_input);
        assert_close("conv_grad_input", &dx, &want[0], DIFFERENCES);
        let of_weight = attrs(Some(&w[2..]), lists, groups);
        let dw = one(Op::ConvGradWeight, &[&dy, &operands[0]], &of_weight);
        assert_close("conv_grad_weight", &dw, &want[1], DIFFERENCES);
    }
}

/// Windows that a gradient stops short of count as if their gradient were 0.
#[test]
fn a_shorter_gradient_is_one_with_zeros() {
    let mut numbers = Numbers(42);
    let (x, w) = (numbers.small(F64, &[1, 2, 6]), numbers.small(F64, &[3, 2, 2]));
    let short = numbers.small(F64, &[1, 3, 4]);
    let mut long = Array::zeros(&Ty::new(F64, &[1, 3, 5]));
    (0..12).for_each(|i| long.set_f64(i / 4 * 5 + i % 4, short.f64(i)));
    let lists: [&[i64]; 3] = [&[1], &[0], &[1]];
    for (op, other, of) in [(Op::ConvGradInput, &w, [6]), (Op::ConvGradWeight, &x, [2])] {
        let attrs = attrs(Some(&of), lists, 1);
        check(op, &[&short, other], &attrs, &one(op, &[&long, other], &attrs));
    }
}
