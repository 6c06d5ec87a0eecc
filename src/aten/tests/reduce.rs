//! Reductions against gathering every group of elements.

use super::*;
use DType::*;

/// For every element of the result over `axes`, the elements that go into it.
fn groups(x: &Array, axes: &[i64]) -> Vec<Vec<f64>> {
    let full = Layout::contiguous(&x.ty.sizes);
    let (inner, outer): (Vec<i64>, Vec<i64>) =
        (0..full.rank() as i64).partition(|d| axes.contains(d));
    let inner = full.transpose(&inner);
    let group = |start: i64| inner.indices().map(|i| x.f64((start + i) as usize)).collect();
    full.transpose(&outer).indices().map(group).collect()
}

fn total(g: &[f64]) -> f64 {
    g.iter().sum()
}

fn mean(g: &[f64]) -> f64 {
    total(g) / g.len() as f64
}

fn largest(g: &[f64]) -> f64 {
    g.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn variance(g: &[f64], correction: f64) -> f64 {
    let m = mean(g);
    g.iter().map(|x| (x - m).powi(2)).sum::<f64>() / (g.len() as f64 - correction)
}

/// Checks `name(x, dims, rest…, keepdim at its place)` for lists of dims, kept and dropped.
fn check_over(
    name: &str,
    dtype: DType,
    result: DType,
    args: &dyn Fn(TrialArg, TrialArg, bool) -> Vec<TrialArg>,
    f: &dyn Fn(&[f64]) -> f64,
) {
    let x = wave(dtype, &[2, 3, 4], 1);
    for (listed, axes) in [(vec![1], vec![1]), (vec![-1, 0], vec![0, 2]), (vec![], vec![0, 1, 2])] {
        for keep in [false, true] {
            let got = only(name, &args((&x).into(), ints(&listed), keep));
            let sizes: Dims = (0..3)
                .filter(|d| keep || !axes.contains(d))
                .map(|d| if axes.contains(&d) { 1 } else { x.ty.sizes[d as usize] })
                .collect();
            let expected: Vec<f64> = groups(&x, &axes).iter().map(|g| f(g)).collect();
            check(&format!("{name} {dtype} {listed:?}"), &got, result, &sizes, &expected);
        }
    }
}

#[test]
fn sums_means_and_extremes() {
    let plain = |x, dims, keep| vec![x, dims, flag(keep)];
    for (dtype, result) in [(F32, F32), (BF16, BF16), (F64, F64), (I32, I64), (U8, I64)] {
        check_over("aten::sum.dim_IntList", dtype, result, &plain, &total);
        if dtype.is_float() {
            check_over("aten::mean.dim", dtype, dtype, &plain, &mean);
            check_over("aten::logsumexp", dtype, dtype, &plain, &|g| {
                g.iter().map(|x| x.exp()).sum::<f64>().ln()
            });
        }
        check_over("aten::amax", dtype, dtype, &plain, &largest);
        check_over("aten::amin", dtype, dtype, &plain, &|g| {
            -largest(&g.iter().map(|x| -x).collect::<Vec<_>>())
        });
    }
    let wide = |x, dims, keep| vec![x, dims, flag(keep), dtype(F64)];
    check_over("aten::sum.dim_IntList", BF16, F64, &wide, &total);
    let all = |x, dims, keep| vec![x, dims, flag(keep)];
    check_over(
        "aten::any.dims",
        F32,
        Bool,
        &|x, dims, keep| {
            let none = matches!(&dims, Plain(Arg::Ints(d)) if d.is_empty());
            all(x, if none { NONE } else { dims }, keep)
        },
        &|g| g.iter().any(|&x| x != 0.0) as u8 as f64,
    );
    check_over(
        "aten::all.dims",
        I64,
        Bool,
        &|x, dims, keep| {
            let none = matches!(&dims, Plain(Arg::Ints(d)) if d.is_empty());
            all(x, if none { NONE } else { dims }, keep)
        },
        &|g| g.iter().all(|&x| x != 0.0) as u8 as f64,
    );
}

#[test]
fn whole_tensors() {
    let x = wave(F32, &[3, 4], 1);
    let g = &x.to_f64s()[..];
    let cases: &[(&str, f64, DType)] = &[
        ("aten::sum", total(g), F32),
        ("aten::mean", mean(g), F32),
        ("aten::max", largest(g), F32),
        ("aten::min", g.iter().copied().fold(f64::INFINITY, f64::min), F32),
        ("aten::any", 1.0, Bool),
        ("aten::all", g.iter().all(|&x| x != 0.0) as u8 as f64, Bool),
        ("aten::argmax", g.iter().position(|&x| x == largest(g)).unwrap() as f64, I64),
    ];
    for &(name, expected, dtype) in cases {
        check(name, &only(name, &[(&x).into()]), dtype, &[], &[expected]);
    }
    let small = Array::from_f64(I32, &[3], &[2.0, -3.0, 4.0]);
    check("prod", &only("aten::prod", &[(&small).into()]), I64, &[], &[-24.0]);
    let scalar = Array::from_f64(F32, &[], &[2.5]);
    for name in ["aten::sum.dim_IntList", "aten::mean.dim", "aten::amax"] {
        let got = only(name, &[(&scalar).into(), ints(&[-1]), flag(true)]);
        check(name, &got, F32, &[], &[2.5]);
    }
    let empty = only("aten::mean", &[(&wave(F32, &[0], 1)).into()]);
    check("mean of nothing", &empty, F32, &[], &[f64::NAN]);
    let mask = Array::from_f64(Bool, &[3], &[1.0, 1.0, 0.0]);
    check("sum of bool", &only("aten::sum", &[(&mask).into()]), I64, &[], &[2.0]);
    check("max of bool", &only("aten::max", &[(&mask).into()]), Bool, &[], &[1.0]);
    let byte = Array::from_f64(U8, &[2], &[0.0, 7.0]);
    check("any of u8", &only("aten::any", &[(&byte).into()]), U8, &[], &[1.0]);
    let none = only("aten::any.dims", &[(&x).into(), ints(&[]), flag(false)]);
    assert_eq!(&none.ty.sizes[..], [3, 4]);
}

#[test]
fn places() {
    let x = Array::from_f64(F32, &[2, 3], &[1.0, 5.0, 5.0, f64::NAN, 0.0, 9.0]);
    for (dim, keep, sizes) in [(1, false, &[2][..]), (-1, true, &[2, 1])] {
        let got = apply("aten::max.dim", &[(&x).into(), at(dim), flag(keep)]).unwrap();
        check("max", &got[0], F32, sizes, &[5.0, f64::NAN]);
        check("where", &got[1], I64, sizes, &[1.0, 0.0]);
        let place = only("aten::argmax", &[(&x).into(), at(dim), flag(keep)]);
        check("argmax", &place, I64, sizes, &[1.0, 0.0]);
    }
    let all = only("aten::argmin", &[(&x).into(), NONE, flag(true)]);
    check("argmin", &all, I64, &[1, 1], &[3.0]);
    let scalar = Array::from_f64(F32, &[], &[2.5]);
    let got = apply("aten::min.dim", &[(&scalar).into(), at(0), flag(true)]).unwrap();
    check("min of a scalar", &got[0], F32, &[], &[2.5]);
    check("its place", &got[1], I64, &[], &[0.0]);
}

#[test]
fn spread_and_norms() {
    for correction in [0.0, 1.0] {
        let args = |x, dims, keep| vec![x, dims, Float(correction), flag(keep)];
        for dtype in [F32, F16] {
            check_over("aten::var.correction", dtype, dtype, &args, &|g| variance(g, correction));
            check_over("aten::std.correction", dtype, dtype, &args, &|g| {
                variance(g, correction).sqrt()
            });
        }
    }
    let x = wave(F32, &[2, 5], 1);
    let both = apply("aten::var_mean.correction", &[(&x).into(), ints(&[1]), NONE, flag(false)]);
    let both = both.unwrap();
    let rows = groups(&x, &[1]);
    let expected: Vec<f64> = rows.iter().map(|g| variance(g, 1.0)).collect();
    check("var", &both[0], F32, &[2], &expected);
    check("mean", &both[1], F32, &[2], &rows.iter().map(|g| mean(g)).collect::<Vec<_>>());
    for order in [2.0, 1.0, 0.0, 3.5, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
        let args = |x, dims, keep| vec![x, Float(order), dims, flag(keep), NONE];
        let norm = |g: &[f64]| {
            let a: Vec<f64> = g.iter().map(|x| x.abs()).collect();
            match order {
                0.0 => a.iter().filter(|&&x| x != 0.0).count() as f64,
                f64::INFINITY => largest(&a),
                f64::NEG_INFINITY => a.iter().copied().fold(f64::INFINITY, f64::min),
                p => a.iter().map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
            }
        };
        check_over("aten::linalg_vector_norm", F32, F32, &args, &norm);
    }
    let wide =
        only("aten::linalg_vector_norm", &[(&x).into(), Float(2.0), NONE, flag(false), dtype(F64)]);
    assert_eq!((wide.ty.dtype, wide.ty.rank()), (F64, 0));
    // Of one number, whose square is none.
    let huge = Array::from_f64(F32, &[2, 1], &[-1e30, 8.5]);
    for order in [2.0, 300.0] {
        let args = [(&huge).into(), Float(order), ints(&[1]), flag(false), NONE];
        check("norm", &only("aten::linalg_vector_norm", &args), F32, &[2], &[1e30, 8.5]);
    }
}

#[test]
fn running_sums() {
    let x = wave(I32, &[2, 3], 1);
    let v = x.to_f64s();
    let expected = [v[0], v[0] + v[1], v[0] + v[1] + v[2], v[3], v[3] + v[4], v[3] + v[4] + v[5]];
    check("cumsum", &only("aten::cumsum", &[(&x).into(), at(-1), NONE]), I64, &[2, 3], &expected);
    let view = TrialArg::View(x.clone(), Layout::contiguous(&[2, 3]));
    check("cumsum_", &in_place("aten::cumsum_", &[view, at(1)]).unwrap(), I32, &[2, 3], &expected);
    let low = Array::from_f64(F32, &[2], &[f64::NEG_INFINITY; 2]);
    let got = only("aten::logsumexp", &[(&low).into(), ints(&[0]), flag(false)]);
    check("logsumexp of -inf", &got, F32, &[], &[f64::NEG_INFINITY]);
}

#[test]
fn running_products() {
    let x = wave(F32, &[2, 3], 1);
    let v = x.to_f64s();
    let expected = [v[0], v[0] * v[1], v[0] * v[1] * v[2], v[3], v[3] * v[4], v[3] * v[4] * v[5]];
    let of =
        |x: &Array, dim: i64, dtype: TrialArg| only("aten::cumprod", &[x.into(), at(dim), dtype]);
    check("cumprod", &of(&x, -1, NONE), F32, &[2, 3], &expected);
    let few = Array::from_f64(I8, &[4], &[3.0, -2.0, 100.0, 5.0]);
    check("integers", &of(&few, 0, NONE), I64, &[4], &[3.0, -6.0, -600.0, -3000.0]);
    check("as i8", &of(&few, 0, dtype(I8)), I8, &[4], &[3.0, -6.0, -88.0, 72.0]);
    let truths = Array::from_f64(Bool, &[3], &[1.0, 0.0, 1.0]);
    check("bool", &of(&truths, 0, dtype(Bool)), Bool, &[3], &[1.0, 0.0, 0.0]);
    check("a number", &of(&wave(F64, &[], 1), 0, NONE), F64, &[], &wave(F64, &[], 1).to_f64s());
    check("nothing", &of(&wave(F64, &[2, 0], 1), 1, NONE), F64, &[2, 0], &[]);
}

/// By the sums that the gradient stands for, with no, one and two zeros.
#[test]
fn gradients_of_running_products() {
    for (zeros, dtype) in [(0b0, F64), (0b10, F64), (0b101, F32), (0b1_0001, F64), (0b1_1000, BF16)]
    {
        let n = 5;
        let list: Vec<f64> =
            (0..n).map(|i| if zeros >> i & 1 == 1 { 0.0 } else { 0.5 + 0.25 * i as f64 }).collect();
        let x = Array::from_f64(dtype, &[n as i64], &list);
        let dy = Array::from_f64(dtype, &[n as i64], &[1.0, -2.0, 0.5, 4.0, 1.5]);
        let y = only("aten::cumprod", &[(&x).into(), at(0), NONE]);
        let slope =
            |k: usize, i: usize| -> f64 { (0..=i).filter(|&j| j != k).map(|j| list[j]).product() };
        let expected: Vec<f64> =
            (0..n).map(|k| (k..n).map(|i| dy.f64(i) * slope(k, i)).sum()).collect();
        let args = [(&dy).into(), (&x).into(), at(0), (&y).into()];
        check("gradient", &only("aten::cumprod_backward", &args), dtype, &[5], &expected);
    }
}

#[test]
fn running_extremes() {
    let nan = f64::NAN;
    let both = |name: &str, x: &Array, dim: i64| {
        let mut found = apply(name, &[x.into(), at(dim)]).unwrap();
        let places = found.remove(1);
        assert_eq!((places.ty.dtype, &places.ty.sizes), (I64, &x.ty.sizes), "{name}");
        (found.remove(0), places.to_f64s())
    };
    let list = [1.0, 3.0, 2.0, 3.0, nan, 5.0, nan, -1.0];
    for dtype in [F32, F64, F16, BF16] {
        let x = Array::from_f64(dtype, &[8], &list);
        let (largest, places) = both("aten::cummax", &x, 0);
        check("cummax", &largest, dtype, &[8], &[1.0, 3.0, 3.0, 3.0, nan, nan, nan, nan]);
        assert_eq!(places, [0.0, 1.0, 1.0, 3.0, 4.0, 4.0, 6.0, 6.0]);
        let (least, places) = both("aten::cummin", &x, 0);
        check("cummin", &least, dtype, &[8], &[1.0, 1.0, 1.0, 1.0, nan, nan, nan, nan]);
        assert_eq!(places, [0.0, 0.0, 0.0, 0.0, 4.0, 4.0, 6.0, 6.0]);
    }
    for (dtype, least) in [(U8, 0), (I8, -128), (I64, i64::MIN)] {
        let mut x = Array::zeros(&Ty::new(dtype, &[2, 3]));
        for (i, n) in [7, least, 7, least, least, 9].into_iter().enumerate() {
            x.set_i64(i, n);
        }
        let (largest, places) = both("aten::cummax", &x, 1);
        assert_eq!([largest.i64(2), largest.i64(3), largest.i64(5)], [7, least, 9], "{dtype}");
        assert_eq!(places, [0.0, 0.0, 2.0, 0.0, 1.0, 2.0]);
        let (smallest, places) = both("aten::cummin", &x, 1);
        assert_eq!([smallest.i64(0), smallest.i64(2), smallest.i64(5)], [7, least, least]);
        assert_eq!(places, [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
    }
    let truths = Array::from_f64(Bool, &[4], &[0.0, 1.0, 0.0, 1.0]);
    let (any, places) = both("aten::cummax", &truths, 0);
    check("bool", &any, Bool, &[4], &[0.0, 1.0, 1.0, 1.0]);
    assert_eq!(places, [0.0, 1.0, 1.0, 3.0]);
    let (all, places) = both("aten::cummin", &truths, 0);
    check("bool", &all, Bool, &[4], &[0.0; 4]);
    assert_eq!(places, [0.0, 0.0, 2.0, 2.0]);
    assert_eq!(both("aten::cummax", &wave(F32, &[], 1), 0).1, [0.0]);
    assert!(both("aten::cummin", &wave(F32, &[0, 2], 1), 0).1.is_empty());
}

#[test]
fn running_logarithms_of_sums() {
    let of = |x: &Array, dim: i64| only("aten::logcumsumexp", &[x.into(), at(dim)]);
    for n in [0, 1, 2, 3, 7, 8, 9] {
        let x = wave(F64, &[2, n], 1);
        let v = x.to_f64s();
        let n = n as usize;
        let sum = |i: usize| v[i / n * n..=i].iter().map(|x| x.exp()).sum::<f64>().ln();
        let expected: Vec<f64> = (0..v.len()).map(sum).collect();
        check("logcumsumexp", &of(&x, 1), F64, &[2, n as i64], &expected);
    }
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = Array::from_f64(F32, &[7], &[-inf, -inf, -1000.0, 1000.0, 0.0, inf, nan]);
    check("odd", &of(&x, 0), F32, &[7], &[-inf, -inf, -1000.0, 1000.0, 1000.0, inf, nan]);
}

#[test]
fn histograms() {
    let x = Array::from_f64(F32, &[2, 4], &[0.0, 1.0, 2.0, 2.5, 4.0, -1.0, 5.0, f64::NAN]);
    let of = |x: &Array, min: f64, max: f64| {
        apply("aten::histc", &[x.into(), at(4), Float(min), Float(max)])
    };
    // The end belongs to the last part; what is outside, or nowhere, counts nothing.
    let got = of(&x, 0.0, 4.0).unwrap().remove(0);
    check("histc", &got, F32, &[4], &[1.0, 1.0, 2.0, 1.0]);
    let finite = Array::from_f64(F32, &[5], &[0.0, 1.0, 2.0, 3.0, 8.0]);
    let got = of(&finite, 0.0, 0.0).unwrap().remove(0);
    check("its own range", &got, F32, &[4], &[2.0, 2.0, 0.0, 1.0]);
    let point = Array::from_f64(F32, &[3], &[7.0; 3]);
    check("of one number", &of(&point, 0.0, 0.0).unwrap()[0], F32, &[4], &[0.0, 0.0, 3.0, 0.0]);
    // As CUDA divides integers: 4·x / 9.
    let ints = Array::from_f64(I64, &[10], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    check("integers", &of(&ints, 0.0, 9.0).unwrap()[0], I64, &[4], &[3.0, 2.0, 2.0, 3.0]);
    check("nothing", &of(&wave(F32, &[0], 1), 0.0, 0.0).unwrap()[0], F32, &[4], &[0.0; 4]);
    assert!(of(&x, 0.0, 0.0).is_err(), "a range that is not finite");
    assert!(of(&x, 1.0, 0.0).is_err());
    assert!(apply("aten::histc", &[(&x).into(), at(0), Float(0.0), Float(1.0)]).is_err());
}

#[test]
fn sums_without_nan() {
    let x = Array::from_f64(F32, &[2, 2], &[1.0, f64::NAN, f64::NAN, f64::NAN]);
    let got = only("aten::nansum", &[(&x).into(), ints(&[1])]);
    check("nansum", &got, F32, &[2], &[1.0, 0.0]);
    let got = only("aten::nansum", &[(&wave(I32, &[5], 1)).into()]);
    let sum: f64 = wave(I32, &[5], 1).to_f64s().iter().sum();
    check("of integers", &got, I64, &[], &[sum]);
}
