//! Pooling against what is in every window, its gradients against differences.

use super::nn::{DIFFERENCES, differences, forward};
use super::*;

/// Sizes of x; kernel, stride, padding, dilation; ceil; spatial sizes of the result.
type Shape<'a> = (&'a [i64], [&'a [i64]; 4], bool, &'a [i64]);

const SHAPES: &[Shape] = &[
    (&[2, 2, 7], [&[3], &[2], &[1], &[1]], false, &[4]),
    (&[1, 3, 6, 6], [&[2, 2], &[2, 2], &[0, 0], &[1, 1]], false, &[3, 3]),
    (&[1, 2, 6, 7], [&[3, 3], &[2, 2], &[0, 1], &[1, 1]], true, &[3, 4]),
    // The last window would start in the padding on the right.
    (&[1, 1, 4, 5], [&[2, 3], &[3, 4], &[1, 0], &[1, 1]], true, &[2, 2]),
    (&[2, 1, 5, 6], [&[2, 3], &[1, 2], &[1, 1], &[2, 1]], false, &[5, 3]),
    (&[1, 2, 3, 4, 5], [&[2, 1, 3], &[1, 2, 2], &[1, 0, 1], &[1, 1, 1]], false, &[4, 2, 3]),
];

fn attrs([kernel, stride, padding, dilation]: [&[i64]; 4], ceil: bool) -> Vec<Attr> {
    let lists = [kernel, stride, padding, dilation].map(ints);
    lists.into_iter().chain([Attr::Bool(ceil)]).collect()
}

/// For every element of the result the flat indices of what its window meets in its plane.
fn windows(sizes: &[i64], lists: [&[i64]; 4], result: &[i64]) -> Vec<Vec<usize>> {
    let [kernel, stride, padding, dilation] = lists;
    let window = |at: &Vec<i64>| -> Vec<usize> {
        let place = |tap: &Vec<i64>| -> Vec<i64> {
            (0..tap.len()).map(|d| at[d] * stride[d] + tap[d] * dilation[d] - padding[d]).collect()
        };
        let inside = |p: &Vec<i64>| p.iter().zip(sizes).all(|(&p, &n)| p >= 0 && p < n);
        let places = coordinates(kernel).iter().map(place).filter(inside).collect::<Vec<_>>();
        places.iter().map(|p| flat(sizes, p)).collect()
    };
    coordinates(result).iter().map(window).collect()
}

#[test]
fn pooling_looks_at_every_window() {
    for &(sizes, lists, ceil, result) in SHAPES {
        for dtype in numbers() {
            let x = Numbers(50).small(dtype, sizes);
            let full = [&sizes[..2], result].concat();
            let plane = numel(&sizes[2..]) as usize;
            let windows = windows(&sizes[2..], lists, result);
            let (mut sums, mut best, mut index) = (vec![], vec![], vec![]);
            for (p, window) in
                (0..x.len() / plane).flat_map(|p| windows.iter().map(move |w| (p, w)))
            {
                let value = |i: usize| x.f64(p * plane + i);
                let top = window.iter().map(|&i| value(i)).fold(f64::NEG_INFINITY, f64::max);
                sums.push(window.iter().map(|&i| value(i)).sum());
                best.push(top);
                index.push(*window.iter().find(|&&i| value(i) == top).unwrap() as f64);
            }
            check(Op::SumPool, &[&x], &attrs(lists, ceil), &Array::from_f64(dtype, &full, &sums));
            let got = run(Op::MaxPool, &[&x], &attrs(lists, ceil)).unwrap();
            assert_eq!(got[0], Array::from_f64(dtype, &full, &best), "{sizes:?}");
            assert_eq!(got[1], Array::from_f64(I64, &full, &index), "{sizes:?}");
        }
    }
}

#[test]
fn the_last_nan_is_the_largest() {
    let x = Array::from_f64(F32, &[1, 1, 4], &[f64::NAN, 1.0, f64::NAN, 2.0]);
    let lists: [&[i64]; 4] = [&[4], &[1], &[0], &[1]];
    let got = run(Op::MaxPool, &[&x], &attrs(lists, false)).unwrap();
    assert!(got[0].f64(0).is_nan());
    assert_eq!(got[1].i64(0), 2);
    let x = Array::from_f64(F32, &[1, 1, 2], &[f64::NEG_INFINITY; 2]);
    let got = run(Op::MaxPool, &[&x], &attrs([&[2], &[1], &[0], &[1]], false)).unwrap();
    assert_eq!((got[0].f64(0), got[1].i64(0)), (f64::NEG_INFINITY, 0));
}

#[test]
fn pooling_gradients() {
    for &(sizes, lists, ceil, _) in SHAPES {
        let mut numbers = Numbers(51);
        let x = [numbers.floats(F64, sizes)];
        let attrs = attrs(lists, ceil);
        let pooled = run(Op::MaxPool, &[&x[0]], &attrs).unwrap();
        let dy = numbers.floats(F64, &pooled[0].ty.sizes);
        let of_x = [ints(&sizes[2..])];
        let want = differences(forward(Op::MaxPool, &x, &attrs), &x, &dy);
        let dx = one(Op::MaxPoolGrad, &[&dy, &pooled[1]], &of_x);
        assert_close("max_pool_grad", &dx, &want[0], DIFFERENCES);
        let want = differences(forward(Op::SumPool, &x, &attrs), &x, &dy);
        let dx = one(Op::SumPoolGrad, &[&dy], &[&of_x[..], &attrs].concat());
        assert_close("sum_pool_grad", &dx, &want[0], DIFFERENCES);
    }
}
