//! Pooling over odd shapes, with padding, strides and dilation.

use super::data::{coordinates, flat, number_types};
use super::*;
use crate::op::array::integer_range;
use crate::shape::numel;

pub fn cases() -> Vec<Case> {
    let mut cases = exact_pools();
    cases.extend(dilated_pools());
    cases.extend(pools());
    cases.extend(beyond_the_plane());
    cases.extend(gradients());
    cases
}

pub fn oracle(op: Op) -> Option<Oracle> {
    Some(match op {
        Op::SumPool => |x, attrs, to| {
            let sums = pooled(&x[0], attrs, &to[0], |window, _| {
                window.iter().fold(0.0, |sum, w| sum + w.1)
            });
            vec![Array::from_f64(to[0].dtype, &to[0].sizes, &sums)]
        },
        Op::MaxPool => |x, attrs, to| {
            // The last of those that are no numbers, else the first of the largest, else where the
            // window starts.
            let dtype = to[0].dtype;
            let least = match dtype.is_float() {
                true => f64::NEG_INFINITY,
                false => integer_range(dtype).0 as f64,
            };
            let best = |window: &[(usize, f64)], start: usize| -> (usize, f64) {
                let better = |a: (usize, f64), b: &(usize, f64)| {
                    if b.1 > a.1 || b.1.is_nan() { *b } else { a }
                };
                let first = window.first().copied().unwrap_or((start, least));
                window.iter().fold(first, better)
            };
            let values = pooled(&x[0], attrs, &to[0], |window, start| best(window, start).1);
            let places = pooled(&x[0], attrs, &to[0], |window, start| best(window, start).0 as f64);
            let array = |ty: &Ty, list: &[f64]| Array::from_f64(ty.dtype, &ty.sizes, list);
            vec![array(&to[0], &values), array(&to[1], &places)]
        },
        _ => return None,
    })
}

/// For every element of the result, `f` of the places and numbers that its window meets in its
/// plane, and of the place of its first tap that lies before no element of it.
fn pooled(
    x: &Array,
    attrs: &[Attr],
    to: &Ty,
    f: impl Fn(&[(usize, f64)], usize) -> f64,
) -> Vec<f64> {
    let [kernel, stride, padding, dilation] = [0, 1, 2, 3].map(|n| attrs[n].ints());
    let plane = &x.ty.sizes[2..];
    let element = |at: &Vec<i64>| {
        let place = |tap: &Vec<i64>| -> Vec<i64> {
            let along = |d| at[d + 2] * stride[d] + tap[d] * dilation[d] - padding[d];
            (0..tap.len()).map(along).collect()
        };
        let inside = |p: &Vec<i64>| p.iter().zip(plane).all(|(&p, &n)| p >= 0 && p < n);
        let start = (at[0] * x.ty.sizes[1] + at[1]) as usize * numel(plane) as usize;
        let taps = coordinates(kernel);
        let start_of = taps.iter().map(place).find(|p| p.iter().all(|&p| p >= 0));
        let start_of = flat(plane, &start_of.expect("no window lies in the padding before"));
        let met = taps.iter().map(place).filter(inside).map(|p| {
            let place = flat(plane, &p);
            (place, x.f64(start + place))
        });
        f(&met.collect::<Vec<_>>(), start_of)
    };
    coordinates(&to.sizes).iter().map(element).collect()
}

/// Sizes of x; kernel, stride, padding, dilation; ceil.
pub type Pool = (&'static [i64], [&'static [i64]; 4], bool);

pub fn pool_attrs(lists: [&[i64]; 4], ceil: bool) -> Attrs {
    lists.into_iter().map(ints).chain([Attr::Bool(ceil)]).collect()
}

/// Few elements, and the spatial sizes of the result.
pub const EXACT_POOLS: [(Pool, &[i64]); 6] = [
    ((&[2, 2, 7], [&[3], &[2], &[1], &[1]], false), &[4]),
    ((&[1, 3, 6, 6], [&[2, 2], &[2, 2], &[0, 0], &[1, 1]], false), &[3, 3]),
    ((&[1, 2, 6, 7], [&[3, 3], &[2, 2], &[0, 1], &[1, 1]], true), &[3, 4]),
    // The last window would start in the padding on the right.
    ((&[1, 1, 4, 5], [&[2, 3], &[3, 4], &[1, 0], &[1, 1]], true), &[2, 2]),
    ((&[2, 1, 5, 6], [&[2, 3], &[1, 2], &[1, 1], &[2, 1]], false), &[5, 3]),
    ((&[1, 2, 3, 4, 5], [&[2, 1, 3], &[1, 2, 2], &[1, 0, 1], &[1, 1, 1]], false), &[4, 2, 3]),
];

fn exact_pools() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, ((x, lists, ceil), y)) in number_types().flat_map(|d| EXACT_POOLS.map(|s| (d, s))) {
        for op in [Op::SumPool, Op::MaxPool] {
            let case = case(op, pool_attrs(lists, ceil), [small(dtype, x)]).exactly_on(HOST);
            assert_eq!(case.results()[0].sizes[2..], *y);
            cases.push(case);
        }
    }
    let inf = f64::NEG_INFINITY;
    for line in [vec![f64::NAN, 1.0, f64::NAN, 2.0], vec![inf, inf]] {
        let n = line.len() as i64;
        let attrs = pool_attrs([&[n], &[1], &[0], &[1]], false);
        let x = exactly(DType::F32, &[1, 1, n], line);
        cases.push(case(Op::MaxPool, attrs, [x]).exactly_on(HOST));
    }
    cases
}

/// Windows of which some or all meet padding only, as PyTorch has them, and the spatial sizes of
/// the result.
const DILATED_POOLS: [(Pool, &[i64]); 6] = [
    ((&[1, 2, 3], [&[2], &[1], &[1], &[4]], false), &[1]),
    ((&[2, 1, 3], [&[2], &[1], &[3], &[5]], false), &[4]),
    ((&[1, 2, 3, 3], [&[2, 2], &[1, 1], &[1, 1], &[4, 4]], false), &[1, 1]),
    ((&[2, 1, 3, 6], [&[2, 2], &[1, 1], &[1, 1], &[4, 2]], false), &[1, 6]),
    ((&[1, 2, 6, 3], [&[2, 2], &[1, 1], &[1, 3], &[2, 5]], false), &[6, 4]),
    ((&[1, 1, 3, 3, 3], [&[2, 2, 2], &[1, 1, 1], &[1, 1, 1], &[4, 4, 4]], false), &[1, 1, 1]),
];

fn dilated_pools() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, ((x, lists, ceil), y)) in number_types().flat_map(|d| DILATED_POOLS.map(|s| (d, s)))
    {
        let engines = if dtype.is_float() { HOST | CUDA_ALL } else { HOST };
        for op in [Op::SumPool, Op::MaxPool] {
            let case = case(op, pool_attrs(lists, ceil), [small(dtype, x)]).exactly_on(engines);
            assert_eq!(case.results()[0].sizes[2..], *y);
            cases.push(case);
        }
    }
    cases
}

/// And their gradients.
fn pools() -> Vec<Case> {
    let shapes: [Pool; 9] = [
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
    let mut cases = Vec::new();
    for (dtype, (x, lists, ceil)) in number_types().flat_map(|d| shapes.map(|s| (d, s))) {
        let on_device = dtype.is_float() || dtype == DType::I32;
        let engines = if on_device { CPU | CUDA_ALL } else { CPU };
        let attrs = || pool_attrs(lists, ceil);
        let mut add = |case: Case, steps: Option<f64>| {
            let bound = steps.map_or(Bound::Equal, Bound::Steps);
            cases.push(case.on(engines, Bound::Bits, bound));
        };
        let largest = || case(Op::MaxPool, attrs(), [special(dtype, x)]);
        let (y, places) = (largest().results().remove(0).sizes, result_of(&Rc::new(largest()), 1));
        add(largest(), None);
        add(case(Op::SumPool, attrs(), [values(dtype, x)]), Some(100.0));
        let operands = [values(dtype, &y), places];
        add(case(Op::MaxPoolGrad, [ints(&x[2..])], operands), Some(100.0));
        let attrs = [ints(&x[2..])].into_iter().chain(attrs());
        add(case(Op::SumPoolGrad, attrs, [values(dtype, &y)]), Some(100.0));
    }
    cases
}

/// An index beyond the plane is an error.
fn beyond_the_plane() -> Vec<Case> {
    let of = |bad: f64| {
        let index = exactly(DType::I64, &[1, 1, 2, 2], [0.0, 0.0, bad, 0.0]);
        let dy = values(DType::F32, &[1, 1, 2, 2]);
        case(Op::MaxPoolGrad, [ints(&[3, 3])], [dy, index])
    };
    let bound = || Bound::Fails(Code::IndexError, "index out of range in max_pool_grad".into());
    [-1.0, 9.0].map(|bad| of(bad).on(ALL, bound(), bound())).into()
}

fn gradients() -> Vec<Case> {
    let pool = |ceil| pool_attrs([&[2, 3], &[2, 1], &[1, 0], &[1, 1]], ceil);
    let back: Attrs = [ints(&[3, 5])].into_iter().chain(pool(false)).collect();
    let windows = pool_attrs([&[2, 2], &[1, 2], &[1, 0], &[1, 1]], true);
    let all: [(Op, Attrs, &[i64]); 4] = [
        (Op::SumPool, pool(false), &[1, 2, 3, 5]),
        (Op::SumPool, pool(true), &[1, 2, 3, 5]),
        (Op::SumPoolGrad, back, &[1, 1, 2, 3]),
        (Op::MaxPool, windows, &[2, 1, 3, 4]),
    ];
    let of = |(op, attrs, sizes): (Op, Attrs, &[i64])| {
        let case = case(op, attrs, [smooth(sizes)]);
        case.on(CPU, Bound::Bits, Bound::Steps(100.0)).differentiated(Gradient::Twice)
    };
    all.map(of).into()
}
