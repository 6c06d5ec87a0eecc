//! Convolution over odd shapes, with padding, strides, dilation and groups.

use super::data::{FLOATS, INTS, coordinates, flat};
use super::*;
use crate::shape::numel;

pub fn cases() -> Vec<Case> {
    let mut cases = exact_convolutions();
    cases.extend(convolutions());
    cases.extend(infinite_elements());
    cases.extend(gradients_of_what_stops_short());
    cases.extend(gradients());
    cases
}

pub fn oracle(op: Op) -> Option<Oracle> {
    (op == Op::Conv).then_some(|x, attrs, to| vec![convolution(&x[0], &x[1], attrs, &to[0])])
}

/// Element by element, over a padded input.
fn convolution(x: &Array, w: &Array, attrs: &[Attr], to: &Ty) -> Array {
    let [stride, padding, dilation] = [0, 1, 2].map(|n| attrs[n].ints());
    let input = &x.ty.sizes[2..];
    let (channels, filters) = (w.ty.sizes[1], w.ty.sizes[0] / attrs[3].int());
    let element = |at: &Vec<i64>| -> f64 {
        let term = |of: &Vec<i64>| {
            let place: Vec<i64> = (0..input.len())
                .map(|d| at[d + 2] * stride[d] + of[d + 1] * dilation[d] - padding[d])
                .collect();
            if place.iter().zip(input).any(|(&p, &n)| p < 0 || p >= n) {
                return 0.0;
            }
            let channel = at[1] / filters * channels + of[0];
            let from = [&[at[0], channel], &place[..]].concat();
            x.f64(flat(&x.ty.sizes, &from))
                * w.f64(flat(&w.ty.sizes, &[&[at[1]], &of[..]].concat()))
        };
        coordinates(&w.ty.sizes[1..]).iter().map(term).sum()
    };
    let numbers: Vec<f64> = coordinates(&to.sizes).iter().map(element).collect();
    Array::from_f64(to.dtype, &to.sizes, &numbers)
}

/// Sizes of x and w; stride, padding, dilation; groups.
pub type Shape = (&'static [i64], &'static [i64], [&'static [i64]; 3], i64);

pub fn conv_attrs(first: Option<&[i64]>, lists: [&[i64]; 3], groups: i64) -> Attrs {
    first.into_iter().chain(lists).map(ints).chain([Attr::Int(groups)]).collect()
}

/// Few elements.
pub const EXACT: [Shape; 5] = [
    (&[2, 3, 6], &[4, 3, 3], [&[2], &[1], &[1]], 1),
    (&[2, 2, 4, 5], &[3, 2, 3, 2], [&[1, 2], &[1, 0], &[1, 3]], 1),
    (&[1, 4, 5, 4], &[6, 2, 2, 3], [&[2, 1], &[0, 2], &[2, 1]], 2),
    (&[1, 3, 4, 4], &[6, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 3),
    (&[1, 2, 3, 3, 4], &[2, 2, 2, 2, 3], [&[1, 1, 2], &[1, 0, 1], &[1, 2, 1]], 1),
];

fn exact_convolutions() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS.into_iter().chain([DType::I64, DType::I32, DType::I8]) {
        for (x, w, lists, groups) in EXACT {
            let operands = [small(dtype, x), small(dtype, w)];
            let attrs = conv_attrs(None, lists, groups);
            cases.push(case(Op::Conv, attrs, operands).exactly_on(HOST));
        }
    }
    for dtype in INTS {
        let operands = [values(dtype, &[2, 3, 5, 6]), values(dtype, &[2, 3, 2, 2])];
        let attrs = conv_attrs(None, [&[1, 1], &[1, 0], &[1, 1]], 1);
        cases.push(case(Op::Conv, attrs, operands).exactly_on(CPU));
    }
    cases
}

pub const SHAPES: &[Shape] = &[
    (&[1, 1, 1], &[1, 1, 1], [&[1], &[0], &[1]], 1),
    (&[2, 3, 11], &[4, 3, 3], [&[2], &[1], &[1]], 1),
    (&[3, 5, 7, 9], &[6, 5, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 1),
    (&[2, 4, 9, 20], &[6, 2, 3, 5], [&[2, 1], &[2, 3], &[1, 2]], 2),
    // Larger than what the windows reach; padding larger than that.
    (&[2, 3, 8, 7], &[2, 3, 2, 2], [&[3, 3], &[0, 0], &[1, 1]], 1),
    (&[1, 2, 3, 3], &[3, 2, 3, 3], [&[1, 2], &[4, 3], &[2, 2]], 1),
    // One tap, in place, strided and padded.
    (&[2, 8, 20, 20], &[5, 8, 1, 1], [&[1, 1], &[0, 0], &[1, 1]], 1),
    (&[2, 6, 9, 7], &[4, 3, 1, 1], [&[2, 2], &[0, 0], &[1, 1]], 2),
    (&[2, 2, 4, 4], &[3, 2, 1, 1], [&[1, 1], &[1, 1], &[1, 1]], 1),
    // Depthwise, with a multiplier.
    (&[2, 6, 13, 12], &[6, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 6),
    (&[2, 3, 9, 10], &[6, 1, 5, 3], [&[2, 2], &[2, 1], &[1, 1]], 3),
    // Three dimensions.
    (&[2, 2, 4, 5, 6], &[3, 2, 2, 3, 3], [&[1, 2, 1], &[1, 1, 0], &[2, 1, 1]], 1),
    (&[1, 4, 3, 20, 11], &[4, 1, 3, 3, 3], [&[1, 1, 1], &[1, 1, 1], &[1, 1, 1]], 4),
    // A batch in several spans, an image in several spans, few images for many threads.
    (&[19, 16, 8, 8], &[24, 16, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 1),
    (&[1, 3, 70, 65], &[10, 3, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 1),
    (&[2, 40, 4, 4], &[70, 40, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 1),
    (&[2, 3, 60, 64], &[8, 3, 7, 7], [&[2, 2], &[3, 3], &[1, 1]], 1),
    // Work for several tasks: slices of channels, of filters, blocks of images.
    (&[5, 64, 6, 6], &[64, 64, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 1),
    (&[4, 32, 9, 9], &[32, 16, 3, 3], [&[2, 2], &[1, 1], &[1, 1]], 2),
    (&[16, 32, 30], &[48, 32, 5], [&[1], &[2], &[1]], 1),
    // Nothing.
    (&[0, 3, 5, 5], &[4, 3, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 1),
    (&[2, 0, 5, 5], &[4, 0, 3, 3], [&[1, 1], &[1, 1], &[1, 1]], 1),
];

/// And their gradients. As many roundings as there are terms; they add up like a random walk.
fn convolutions() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, &(x, w, lists, groups)) in
        FLOATS.into_iter().flat_map(|d| SHAPES.iter().map(move |shape| (d, shape)))
    {
        let large = x.iter().chain(w).product::<i64>() > 100_000;
        let engines = match dtype {
            DType::F32 => CPU | CUDA,
            DType::BF16 if large => CPU,
            DType::BF16 => CPU | CUDA,
            _ if large => continue,
            DType::F64 => CPU | CUDA_ALL,
            _ => CPU,
        };
        let mut add = |op, attrs, operands, terms: i64| {
            let steps = Bound::Steps(4.0 * (terms as f64 + 4.0));
            let case: Case = case(op, attrs, operands).on(engines, Bound::Bits, steps);
            cases.push(case);
            cases[cases.len() - 1].results().remove(0).sizes
        };
        let of = |sizes: &[i64]| values(dtype, sizes);
        let in_filter: i64 = numel(w) / w[0].max(1);
        let y = add(Op::Conv, conv_attrs(None, lists, groups), [of(x), of(w)], in_filter);
        let taps: i64 = w[2..].iter().product();
        let attrs = conv_attrs(Some(&x[2..]), lists, groups);
        add(Op::ConvGradInput, attrs, [of(&y), of(w)], w[0] * taps);
        let attrs = conv_attrs(Some(&w[2..]), lists, groups);
        add(Op::ConvGradWeight, attrs, [of(&y), of(x)], numel(&y) / y[1].max(1));
    }
    cases
}

/// Kernels that compute several terms at once must not make NaN of an infinite one and what they are filled up with. (Where
/// a window meets padding, an infinite factor is multiplied by 0 or left out.)
fn infinite_elements() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in FLOATS {
        for (channels, filters) in [(1, 8), (3, 16), (8, 8), (16, 16), (17, 33)] {
            for (kernel, padding) in [(1, 0), (3, 1), (3, 0)] {
                let lists: [&[i64]; 3] = [&[1, 1], &[padding, padding], &[1, 1]];
                let shorter = kernel - 1 - 2 * padding;
                let x = [2, channels, 7, 9];
                let w = [filters, channels, kernel, kernel];
                let y = [2, filters, 7 - shorter, 9 - shorter];
                let all = [
                    (Op::Conv, None, x, w),
                    (Op::ConvGradInput, Some(&x[2..]), y, w),
                    (Op::ConvGradWeight, Some(&w[2..]), y, x),
                ];
                for ((op, sizes, a, b), operand) in
                    all.into_iter().flat_map(|case| [(case, 0), (case, 1)])
                {
                    let of_weight = op != Op::ConvGradWeight && operand == 1;
                    if of_weight && (padding > 0 || op == Op::ConvGradInput && kernel > 1) {
                        continue;
                    }
                    // Sums of ones are exact.
                    let mut lists_of = [a, b].map(|sizes| vec![1.0; numel(&sizes) as usize]);
                    let [_, _, height, width] = if operand == 0 { a } else { b };
                    let plane = (height * width) as usize;
                    let middle = lists_of[operand].len() - plane + plane / 2;
                    lists_of[operand][middle] = f64::INFINITY;
                    let [first, second] = lists_of;
                    let operands = [exactly(dtype, &a, first), exactly(dtype, &b, second)];
                    cases.push(case(op, conv_attrs(sizes, lists, 1), operands).exactly_on(CPU));
                }
            }
        }
    }
    cases
}

/// Gradients of an output that stops short.
fn gradients_of_what_stops_short() -> Vec<Case> {
    let lists: [&[i64]; 3] = [&[1, 2], &[1, 1], &[1, 1]];
    let of = |sizes: [i64; 4]| values(DType::F32, &sizes);
    let (x, w, dy) = ([2, 3, 9, 8], [4, 3, 3, 3], [2, 4, 7, 4]);
    let input = case(Op::ConvGradInput, conv_attrs(Some(&x[2..]), lists, 1), [of(dy), of(w)]);
    let weight = case(Op::ConvGradWeight, conv_attrs(Some(&w[2..]), lists, 1), [of(dy), of(x)]);
    vec![
        input.on(CPU, Bound::Bits, Bound::Steps(200.0)),
        weight.on(CPU, Bound::Bits, Bound::Steps(400.0)),
    ]
}

fn gradients() -> Vec<Case> {
    let spacing = |first: Option<&[i64]>, [stride, padding, dilation, groups]: [i64; 4]| {
        conv_attrs(first, [&[stride; 2], &[padding; 2], &[dilation; 2]], groups)
    };
    // A stride that leaves the last elements out.
    let apart = [2, 0, 1, 1];
    let all: [(Op, Attrs, [&[i64]; 2]); 4] = [
        (Op::Conv, spacing(None, [1, 0, 1, 1]), [&[2, 2, 4, 3], &[3, 2, 2, 2]]),
        (Op::Conv, spacing(None, [2, 1, 2, 2]), [&[1, 2, 5, 6], &[4, 1, 2, 3]]),
        (Op::ConvGradInput, spacing(Some(&[5, 5]), apart), [&[1, 2, 2, 2], &[2, 1, 2, 2]]),
        (Op::ConvGradWeight, spacing(Some(&[2, 2]), apart), [&[1, 2, 2, 2], &[1, 1, 5, 5]]),
    ];
    let of = |(op, attrs, sizes): (Op, Attrs, [&[i64]; 2])| {
        let case = case(op, attrs, sizes.map(smooth));
        case.on(CPU, Bound::Bits, Bound::Steps(100.0)).differentiated(Gradient::Twice)
    };
    all.map(of).into()
}
