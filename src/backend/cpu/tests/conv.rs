//! Convolution and pooling over odd shapes, with padding, strides, dilation and groups.

use super::node::{check_close, ints, node, values};
use super::*;
use crate::op::Attr;
use smallvec::smallvec;

/// Sizes of x and w; stride, padding, dilation; groups.
pub type Shape = (&'static [i64], &'static [i64], [&'static [i64]; 3], i64);

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

pub fn attrs_of(first: Option<&[i64]>, lists: [&[i64]; 3], groups: i64) -> Attrs {
    let lists = first.into_iter().chain(lists).map(ints);
    lists.chain([Attr::Int(groups)]).collect()
}

#[test]
fn convolution_and_its_gradients() {
    let mut random = Random::new(20);
    for &(x, w, lists, groups) in SHAPES {
        let large = x.iter().chain(w).product::<i64>() > 100_000;
        let dtypes = if large { &FLOATS[1..3] } else { &FLOATS[..] };
        for &dtype in dtypes {
            let (x, w) = (values(&mut random, dtype, x), values(&mut random, dtype, w));
            let forward = node(Op::Conv, attrs_of(None, lists, groups), vec![x.clone(), w.clone()]);
            // As many roundings as there are terms; they add up like a random walk.
            let terms = |n: i64| 4.0 * (n as f64 + 4.0);
            check_close(&forward, terms(w.ty.numel() / w.ty.sizes[0].max(1)));
            let sizes = forward.writes[0].1.clone();
            let dy = values(&mut random, dtype, &sizes);
            let of_input = attrs_of(Some(&x.ty.sizes[2..]), lists, groups);
            let taps: i64 = w.ty.sizes[2..].iter().product();
            let gradient = node(Op::ConvGradInput, of_input, vec![dy.clone(), w.clone()]);
            check_close(&gradient, terms(w.ty.sizes[0] * taps));
            let of_weight = attrs_of(Some(&w.ty.sizes[2..]), lists, groups);
            let gradient = node(Op::ConvGradWeight, of_weight, vec![dy.clone(), x.clone()]);
            check_close(&gradient, terms(dy.ty.numel() / sizes[1].max(1)));
        }
    }
}

/// Kernels that compute several terms at once must not make NaN of an infinite one and what they are filled up with. (Where
/// a window meets padding, an infinite factor is multiplied by 0 or left out.)
#[test]
fn infinite_elements_stay_infinite() {
    for dtype in FLOATS {
        for (channels, filters) in [(1, 8), (3, 16), (8, 8), (16, 16), (17, 33)] {
            for (kernel, padding) in [(1, 0), (3, 1), (3, 0)] {
                let lists: [&[i64]; 3] = [&[1, 1], &[padding, padding], &[1, 1]];
                let shorter = kernel - 1 - 2 * padding;
                let x = [2, channels, 7, 9];
                let w = [filters, channels, kernel, kernel];
                let y = [2, filters, 7 - shorter, 9 - shorter];
                let cases = [
                    (Op::Conv, None, x, w),
                    (Op::ConvGradInput, Some(&x[2..]), y, w),
                    (Op::ConvGradWeight, Some(&w[2..]), y, x),
                ];
                for (op, sizes, a, b) in cases {
                    for operand in 0..2 {
                        let of_weight = op != Op::ConvGradWeight && operand == 1;
                        if of_weight && (padding > 0 || op == Op::ConvGradInput && kernel > 1) {
                            continue;
                        }
                        // Sums of ones are exact.
                        let ones = |sizes: [i64; 4]| {
                            let count = sizes.iter().product::<i64>() as usize;
                            Array::from_f64(dtype, &sizes, &vec![1.0; count])
                        };
                        let mut operands = vec![ones(a), ones(b)];
                        let [_, _, height, width] = if operand == 0 { a } else { b };
                        let plane = (height * width) as usize;
                        let middle = operands[operand].len() - plane + plane / 2;
                        operands[operand].set_f64(middle, f64::INFINITY);
                        node(op, attrs_of(sizes, lists, 1), operands).check_exact();
                    }
                }
            }
        }
    }
}

#[test]
fn gradients_of_an_output_that_stops_short() {
    let mut random = Random::new(21);
    let lists: [&[i64]; 3] = [&[1, 2], &[1, 1], &[1, 1]];
    let (x, w) = (
        values(&mut random, DType::F32, &[2, 3, 9, 8]),
        values(&mut random, DType::F32, &[4, 3, 3, 3]),
    );
    let dy = values(&mut random, DType::F32, &[2, 4, 7, 4]);
    let case = node(Op::ConvGradInput, attrs_of(Some(&[9, 8]), lists, 1), vec![dy.clone(), w]);
    check_close(&case, 200.0);
    check_close(&node(Op::ConvGradWeight, attrs_of(Some(&[3, 3]), lists, 1), vec![dy, x]), 400.0);
}

#[test]
fn convolution_of_integers() {
    let mut random = Random::new(22);
    for dtype in INTS {
        let (x, w) =
            (values(&mut random, dtype, &[2, 3, 5, 6]), values(&mut random, dtype, &[2, 3, 2, 2]));
        node(Op::Conv, attrs_of(None, [&[1, 1], &[1, 0], &[1, 1]], 1), vec![x, w]).check_exact();
    }
}

/// Sizes of x; kernel, stride, padding, dilation; ceil.
pub type Pool = (&'static [i64], [&'static [i64]; 4], bool);

pub const POOLS: &[Pool] = &[
    (&[1, 1, 1], [&[1], &[1], &[0], &[1]], false),
    (&[2, 3, 10], [&[3], &[2], &[1], &[1]], false),
    (&[2, 3, 8, 8], [&[2, 2], &[2, 2], &[0, 0], &[1, 1]], false),
    (&[2, 5, 17, 9], [&[3, 3], &[2, 2], &[1, 1], &[1, 1]], false),
    (&[2, 5, 17, 10], [&[3, 2], &[2, 3], &[1, 1], &[1, 1]], true),
    (&[1, 2, 9, 12], [&[2, 3], &[1, 2], &[1, 0], &[3, 2]], false),
    (&[1, 2, 5, 1, 4], [&[2, 1, 3], &[1, 1, 2], &[1, 0, 1], &[1, 1, 1]], true),
    (&[30, 20, 12, 12], [&[3, 3], &[1, 1], &[1, 1], &[1, 1]], false),
    (&[0, 2, 4, 4], [&[2, 2], &[2, 2], &[0, 0], &[1, 1]], false),
];

#[test]
fn pooling_and_its_gradients() {
    let mut random = Random::new(23);
    for &(sizes, lists, ceil) in POOLS {
        for dtype in FLOATS.into_iter().chain(INTS) {
            let n = crate::shape::numel(sizes) as usize;
            let special =
                Array { ty: Ty::new(dtype, sizes), ..numbers(&mut random, dtype, n, true) };
            let attrs: Attrs = lists.into_iter().map(ints).chain([Attr::Bool(ceil)]).collect();
            let case = node(Op::MaxPool, attrs.clone(), vec![special]);
            case.check_exact();
            let index = case.run(&Reference::default()).unwrap().remove(1);
            let x = values(&mut random, dtype, sizes);
            check_close(&node(Op::SumPool, attrs.clone(), vec![x]), 100.0);
            let dy = values(&mut random, dtype, &case.writes[0].1);
            let of_x: Attrs = smallvec![ints(&sizes[2..])];
            check_close(&node(Op::MaxPoolGrad, of_x.clone(), vec![dy.clone(), index]), 100.0);
            let attrs: Attrs = of_x.into_iter().chain(attrs).collect();
            check_close(&node(Op::SumPoolGrad, attrs, vec![dy]), 100.0);
        }
    }
}

#[test]
fn an_index_beyond_the_plane_is_an_error() {
    let mut random = Random::new(24);
    let dy = values(&mut random, DType::F32, &[1, 1, 2, 2]);
    for bad in [-1, 9] {
        let mut index = Array::zeros(&Ty::new(DType::I64, &[1, 1, 2, 2]));
        index.set_i64(2, bad);
        let case = node(Op::MaxPoolGrad, smallvec![ints(&[3, 3])], vec![dy.clone(), index]);
        let (got, want) =
            (case.run(cpu(2)).unwrap_err(), case.run(&Reference::default()).unwrap_err());
        assert_eq!((got.code, got.message), (want.code, want.message));
    }
}
