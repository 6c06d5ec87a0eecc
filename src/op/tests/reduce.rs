//! Reductions and matrix products of small integers, which are exact in every dtype, and their edges.

use super::*;

/// Folds the elements of `x` into the coordinate they have without `axes`.
fn folded(x: &Array, axes: &[i64], start: f64, f: fn(f64, f64) -> f64) -> Array {
    let kept: Vec<usize> = (0..x.ty.rank()).filter(|&d| !axes.contains(&(d as i64))).collect();
    let sizes: Vec<i64> = kept.iter().map(|&d| x.ty.sizes[d]).collect();
    let mut values = vec![start; numel(&sizes) as usize];
    for (i, at) in coordinates(&x.ty.sizes).iter().enumerate() {
        let to: Vec<i64> = kept.iter().map(|&d| at[d]).collect();
        let value = &mut values[flat(&sizes, &to)];
        *value = f(*value, x.f64(i));
    }
    Array::from_f64(x.ty.dtype, &sizes, &values)
}

const AXES: [&[i64]; 6] = [&[], &[0], &[1], &[2], &[0, 2], &[0, 1, 2]];

#[test]
fn reductions_over_any_axes() {
    type Step = fn(f64, f64) -> f64;
    let ordinary: [(Op, f64, Step); 4] = [
        (Op::Sum, 0.0, |a, b| a + b),
        (Op::Prod, 1.0, |a, b| a * b),
        (Op::ReduceMax, f64::NEG_INFINITY, f64::max),
        (Op::ReduceMin, f64::INFINITY, f64::min),
    ];
    for (dtype, axes) in numbers().flat_map(|d| AXES.map(|a| (d, a))) {
        for (op, start, f) in ordinary {
            let mut x = Numbers(7).small(dtype, &[3, 1, 2]);
            if op == Op::Prod {
                x = Numbers(8).indices(dtype, &[3, 1, 2], 3);
            }
            check(op, &[&x], &[ints(axes)], &folded(&x, axes, start, f));
        }
    }
    for axes in AXES {
        let x = Numbers(9).indices(Bool, &[3, 1, 2], 2);
        for op in [Op::Any, Op::ReduceMax] {
            check(op, &[&x], &[ints(axes)], &folded(&x, axes, 0.0, f64::max));
        }
        for op in [Op::All, Op::ReduceMin] {
            check(op, &[&x], &[ints(axes)], &folded(&x, axes, 1.0, f64::min));
        }
    }
}

#[test]
fn reductions_of_nothing_give_the_neutral_element() {
    for row in crate::op::table::TABLE.iter().filter(|row| row.neutral.is_some()) {
        let dtype = if matches!(row.op, Op::Any | Op::All) { Bool } else { F32 };
        let x = Array::zeros(&Ty::new(dtype, &[2, 0]));
        match run(row.op, &[&x], &[ints(&[1])]) {
            Ok(y) => assert_eq!(y[0].to_f64s(), [row.neutral.unwrap(); 2]),
            Err(e) => assert!(e.message.contains("dim 1 to have non-zero size"), "{e}"),
        }
        let empty = run(row.op, &[&x], &[ints(&[0])]).unwrap();
        assert_eq!(empty[0].ty.sizes.as_slice(), [0]);
    }
}

#[test]
fn nan_wins_and_the_first_of_equals_is_the_one() {
    let nan = f64::NAN;
    let x = Array::from_f64(
        F32,
        &[3, 4],
        &[1.0, 3.0, 3.0, 1.0, 5.0, nan, 7.0, nan, -0.0, 0.0, -0.0, 0.0],
    );
    let axis = [Attr::Int(1)];
    check(Op::ReduceMax, &[&x], &[ints(&[1])], &Array::from_f64(F32, &[3], &[3.0, nan, -0.0]));
    check(Op::ReduceMin, &[&x], &[ints(&[1])], &Array::from_f64(F32, &[3], &[1.0, nan, -0.0]));
    check(Op::ArgMax, &[&x], &axis, &Array::from_f64(I64, &[3], &[1.0, 1.0, 0.0]));
    check(Op::ArgMin, &[&x], &axis, &Array::from_f64(I64, &[3], &[0.0, 1.0, 0.0]));
    let low = Array::from_f64(F32, &[1], &[f64::NEG_INFINITY]);
    check(Op::ReduceMax, &[&low], &[ints(&[0])], &Array::from_f64(F32, &[], &[f64::NEG_INFINITY]));
}

#[test]
fn argmax_and_cumsum_along_any_axis() {
    for (dtype, axis) in numbers().flat_map(|d| (0..3).map(move |a| (d, a))) {
        let x = Numbers(10).small(dtype, &[3, 4, 2]);
        let line = |at: &[i64], i: i64| {
            let mut at = at.to_vec();
            at.insert(axis, i);
            x.f64(flat(&x.ty.sizes, &at))
        };
        let mut sizes = x.ty.sizes.to_vec();
        let count = sizes.remove(axis);
        let best = |better: fn(f64, f64) -> bool| {
            let position = |at: &Vec<i64>| {
                let beaten = |&i: &i64| (0..count).any(|j| better(line(at, j), line(at, i)));
                (0..count).find(|i| !beaten(i)).unwrap() as f64
            };
            Array::from_f64(
                I64,
                &sizes,
                &coordinates(&sizes).iter().map(position).collect::<Vec<_>>(),
            )
        };
        let attrs = [Attr::Int(axis as i64)];
        check(Op::ArgMax, &[&x], &attrs, &best(|a, b| a > b));
        check(Op::ArgMin, &[&x], &attrs, &best(|a, b| a < b));
        let running = |at: &Vec<i64>| {
            let mut rest = at.clone();
            let last = rest.remove(axis);
            (0..=last).map(|i| line(&rest, i)).sum()
        };
        let sums: Vec<f64> = coordinates(&x.ty.sizes).iter().map(running).collect();
        check(Op::CumSum, &[&x], &attrs, &Array::from_f64(dtype, &x.ty.sizes, &sums));
    }
}

#[test]
fn integers_wrap_and_halves_accumulate_wide() {
    let bytes = Array::from_f64(I8, &[3], &[100.0, 100.0, 1.0]);
    check(Op::Sum, &[&bytes], &[ints(&[0])], &Array::from_f64(I8, &[], &[-55.0]));
    check(
        Op::CumSum,
        &[&bytes],
        &[Attr::Int(0)],
        &Array::from_f64(I8, &[3], &[100.0, -56.0, -55.0]),
    );
    // 4096 ones: adding them one by one in bf16 would stop at 256.
    let ones = Array::from_f64(BF16, &[4096], &[1.0; 4096]);
    check(Op::Sum, &[&ones], &[ints(&[0])], &Array::from_f64(BF16, &[], &[4096.0]));
    let (row, column) = (
        one(Op::Reshape, &[&ones], &[ints(&[1, 4096])]),
        one(Op::Reshape, &[&ones], &[ints(&[4096, 1])]),
    );
    check(Op::Matmul, &[&row, &column], &[], &Array::from_f64(BF16, &[1, 1], &[4096.0]));
}

#[test]
fn matmul() {
    for dtype in numbers() {
        for batch in [&[][..], &[2], &[2, 0], &[3, 1]] {
            for [m, k, n] in [[2, 3, 4], [1, 1, 1], [2, 0, 2], [0, 2, 2], [2, 2, 0]] {
                let sizes = |a: i64, b: i64| [batch, &[a, b]].concat();
                let mut numbers = Numbers(11);
                let (a, b) =
                    (numbers.small(dtype, &sizes(m, k)), numbers.small(dtype, &sizes(k, n)));
                let element = |at: &Vec<i64>| {
                    let (batch, last) = at.split_at(batch.len());
                    let term = |j: i64| {
                        let left = flat(&a.ty.sizes, &[batch, &[last[0], j]].concat());
                        let right = flat(&b.ty.sizes, &[batch, &[j, last[1]]].concat());
                        a.f64(left) * b.f64(right)
                    };
                    (0..k).map(term).sum()
                };
                let want: Vec<f64> = coordinates(&sizes(m, n)).iter().map(element).collect();
                check(Op::Matmul, &[&a, &b], &[], &Array::from_f64(dtype, &sizes(m, n), &want));
            }
        }
    }
}

/// Each row and each term is in the first group that ends after it.
#[test]
fn grouped_matmul() {
    let all: [&[i64]; 5] = [&[1, 1, 5], &[2, 4, 7], &[9, 3, -2], &[0, 6, 2], &[]];
    for (dtype, ends) in numbers().filter(|d| d.is_float()).flat_map(|d| all.map(|e| (d, e))) {
        let (m, k, n, groups) = (7, 3, 2, ends.len() as i64);
        let group = |at: i64| ends.iter().position(|&end| at < end);
        let places =
            Array::from_f64(I64, &[groups], &ends.iter().map(|&e| e as f64).collect::<Vec<_>>());
        let mut numbers = Numbers(13);
        let (a, b) = (numbers.small(dtype, &[m, k]), numbers.small(dtype, &[groups, k, n]));
        let mut want = Array::zeros(&Ty::new(dtype, &[m, n]));
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let Some(g) = group(row) else { continue };
            let term = |j: i64| {
                a.f64((row * k + j) as usize) * b.f64(((g as i64 * k + j) * n + column) as usize)
            };
            want.set_f64((row * n + column) as usize, (0..k).map(term).sum());
        }
        check(Op::GroupedMatmul, &[&a, &b, &places], &[], &want);

        let (a, b) = (numbers.small(dtype, &[k, m]), numbers.small(dtype, &[m, n]));
        let mut want = Array::zeros(&Ty::new(dtype, &[groups, k, n]));
        for (at, place) in coordinates(&[groups, k, n]).iter().enumerate() {
            let terms = (0..m).filter(|&j| group(j) == Some(place[0] as usize));
            let term =
                |j: i64| a.f64((place[1] * m + j) as usize) * b.f64((j * n + place[2]) as usize);
            want.set_f64(at, terms.map(term).sum());
        }
        check(Op::GroupedMatmul, &[&a, &b, &places], &[], &want);
    }
}

/// What stands at place `at` of a sorted line comes after all that stand before it, and nothing is lost.
#[test]
fn the_first_elements_along_any_axis() {
    for (dtype, axis) in numbers().flat_map(|d| (0..3).map(move |a| (d, a))) {
        let x = Numbers(12).small(dtype, &[3, 5, 2]);
        let count = x.ty.sizes[axis];
        for (k, largest) in [(0, true), (1, false), (2, true), (count, false), (count, true)] {
            let mut sizes = x.ty.sizes.to_vec();
            sizes[axis] = k;
            let rank = |at: &Vec<i64>, i: i64| {
                let mut other = at.clone();
                let value = |other: &Vec<i64>| x.f64(flat(&x.ty.sizes, other));
                other[axis] = i;
                let mine = value(&other);
                (0..count)
                    .filter(|&j| {
                        other[axis] = j;
                        let theirs = value(&other);
                        let before = if largest { theirs > mine } else { theirs < mine };
                        before || theirs == mine && j < i
                    })
                    .count() as i64
            };
            let place = |at: &Vec<i64>| (0..count).find(|&i| rank(at, i) == at[axis]).unwrap();
            let places: Vec<f64> = coordinates(&sizes).iter().map(|at| place(at) as f64).collect();
            let value = |at: &Vec<i64>| {
                let mut from = at.clone();
                from[axis] = place(at);
                x.f64(flat(&x.ty.sizes, &from))
            };
            let values: Vec<f64> = coordinates(&sizes).iter().map(value).collect();
            let attrs = [Attr::Int(axis as i64), Attr::Int(k), Attr::Bool(largest)];
            let got = run(Op::TopK, &[&x], &attrs).unwrap();
            assert_eq!(got[0].to_f64s(), values, "{dtype} {axis} {k} {largest}");
            assert_eq!(got[1].to_f64s(), places, "{dtype} {axis} {k} {largest}");
        }
    }
}

#[test]
fn nan_is_the_largest_and_zeros_are_equal() {
    let nan = f64::NAN;
    let x = Array::from_f64(F32, &[6], &[0.0, nan, -0.0, 3.0, nan, -1.0]);
    let order = |largest: bool| {
        let attrs = [Attr::Int(0), Attr::Int(6), Attr::Bool(largest)];
        run(Op::TopK, &[&x], &attrs).unwrap()[1].to_f64s()
    };
    assert_eq!(order(true), [1.0, 4.0, 3.0, 0.0, 2.0, 5.0]);
    assert_eq!(order(false), [5.0, 0.0, 2.0, 3.0, 1.0, 4.0]);
}
