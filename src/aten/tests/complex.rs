//! Complex numbers against arithmetic on their parts, in f64.

use super::*;
use DType::*;

type Number = (f64, f64);

/// An array of complex numbers, of any parts.
fn complex(dtype: DType, sizes: &[i64], numbers: &[Number]) -> Array {
    let parts: Vec<f64> = numbers.iter().flat_map(|&(re, im)| [re, im]).collect();
    let parts = Array::from_f64(dtype.part().unwrap(), &[parts.len() as i64], &parts);
    Array { ty: Ty::new(dtype, sizes), ..parts }
}

fn numbers(x: &Array) -> Vec<Number> {
    let part = x.ty.dtype.part().unwrap();
    let parts = Array { ty: Ty::new(part, &[2 * x.len() as i64]), ..x.clone() }.to_f64s();
    parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

fn any(dtype: DType, sizes: &[i64], seed: i64) -> Array {
    let [re, im] = [0, 1].map(|part| wave(F64, sizes, 2 * seed + part).to_f64s());
    complex(dtype, sizes, &re.into_iter().zip(im).collect::<Vec<_>>())
}

fn times((a, b): Number, (c, d): Number) -> Number {
    (a * c - b * d, a * d + b * c)
}

fn check_complex(what: &str, got: &Array, dtype: DType, sizes: &[i64], expected: &[Number]) {
    assert_eq!((got.ty.dtype, &got.ty.sizes[..]), (dtype, sizes), "{what}");
    let close = |x: f64, y: f64| (x - y).abs() <= 1e-5 * (1.0 + y.abs());
    for (got, want) in numbers(got).into_iter().zip(expected) {
        assert!(close(got.0, want.0) && close(got.1, want.1), "{what}: {got:?}, not {want:?}");
    }
}

#[test]
fn functions_of_parts() {
    for dtype in [C64, C128] {
        let part = dtype.part().unwrap();
        for sizes in [&[2, 3][..], &[], &[0, 2]] {
            let (a, b) = (any(dtype, sizes, 1), any(dtype, sizes, 2));
            let (x, y) = (numbers(&a), numbers(&b));
            let both = |f: fn(Number, Number) -> Number| {
                x.iter().zip(&y).map(|(&a, &b)| f(a, b)).collect::<Vec<_>>()
            };
            let call = |name: &str| only(name, &[(&a).into(), (&b).into()]);
            let products = both(times);
            check_complex("mul", &call("aten::mul.Tensor"), dtype, sizes, &products);
            let sums = both(|a, b| (a.0 + b.0, a.1 + b.1));
            check_complex("add", &call("aten::add.Tensor"), dtype, sizes, &sums);
            let quotients = both(|a, (c, d)| {
                let (re, im) = times(a, (c, -d));
                (re / (c * c + d * d), im / (c * c + d * d))
            });
            check_complex("div", &call("aten::div.Tensor"), dtype, sizes, &quotients);
            let lengths: Vec<f64> = x.iter().map(|z| z.0.hypot(z.1)).collect();
            check("abs", &only("aten::abs", &[(&a).into()]), part, sizes, &lengths);
            let conjugates: Vec<Number> = x.iter().map(|z| (z.0, -z.1)).collect();
            let conj = only("aten::conj_physical", &[(&a).into()]);
            check_complex("conj", &conj, dtype, sizes, &conjugates);
            let exps: Vec<Number> =
                x.iter().map(|z| (z.0.exp() * z.1.cos(), z.0.exp() * z.1.sin())).collect();
            check_complex("exp", &only("aten::exp", &[(&a).into()]), dtype, sizes, &exps);
            let roots: Vec<Array> = vec![only("aten::sqrt", &[(&a).into()])];
            let squares: Vec<Number> = numbers(&roots[0]).iter().map(|&z| times(z, z)).collect();
            check_complex("sqrt", &complex(dtype, sizes, &squares), dtype, sizes, &x);
        }
    }
}

#[test]
fn what_is_endless_or_zero() {
    const INF: f64 = f64::INFINITY;
    let of = |z: Number| complex(C64, &[1], &[z]);
    let quotient = |a: Number, b: Number| {
        numbers(&only("aten::div.Tensor", &[(&of(a)).into(), (&of(b)).into()]))[0]
    };
    assert_eq!(quotient((1.0, 2.0), (0.0, INF)), (0.0, 0.0));
    assert_eq!(quotient((1.0, 2.0), (-INF, 1.0)), (0.0, 0.0));
    assert_eq!(quotient((INF, 0.0), (2.0, 0.0)).0, INF);
    assert_eq!(quotient((1.0, -2.0), (0.0, -0.0)), (INF, -INF));
    let function = |name: &str, z: Number| numbers(&only(name, &[(&of(z)).into()]))[0];
    assert_eq!(function("aten::exp", (INF, 0.0)), (INF, 0.0));
    assert_eq!(function("aten::exp", (INF, INF)).0, INF);
    assert_eq!(function("aten::exp", (-INF, INF)), (0.0, 0.0));
    assert_eq!(function("aten::sqrt", (1.0, -INF)), (INF, -INF));
    assert!(function("aten::sqrt", (f64::NAN, 1.0)).1.is_nan());
}

#[test]
fn types_are_promoted() {
    let z = any(C64, &[3], 1);
    let cases = [(wave(F32, &[3], 2), C64), (wave(F64, &[3], 2), C128), (wave(I64, &[], 2), C64)];
    for (x, dtype) in cases {
        let reals = spread(&x, &[3]);
        let want: Vec<Number> =
            numbers(&z).iter().zip(reals).map(|(z, x)| (z.0 * x, z.1 * x)).collect();
        let got = only("aten::mul.Tensor", &[(&z).into(), (&x).into()]);
        check_complex("mul", &got, dtype, &[3], &want);
    }
    // Its two parts stand for a complex number.
    let i = Plain(Arg::Floats(vec![0.0, 1.0]));
    let turned: Vec<Number> = numbers(&z).iter().map(|z| (-z.1, z.0)).collect();
    let got = only("aten::mul.Scalar", &[(&z).into(), i]);
    check_complex("mul by i", &got, C64, &[3], &turned);
}

#[test]
fn numbers_become_others() {
    let z = complex(C64, &[3], &[(1.5, 2.0), (0.0, -1.0), (0.0, 0.0)]);
    let to = |x: &Array, dtype: DType| {
        let ty = Ty::new(dtype, &x.ty.sizes);
        Trial::new("torchacc::copy", &[x.into()]).fresh(&[ty]).run().unwrap().remove(0)
    };
    check("real", &to(&z, F32), F32, &[3], &[1.5, 0.0, 0.0]);
    check("bool", &to(&z, Bool), Bool, &[3], &[1.0, 1.0, 0.0]);
    check_complex("wide", &to(&z, C128), C128, &[3], &numbers(&z));
    let x = wave(I32, &[2], 1);
    let want: Vec<Number> = x.to_f64s().into_iter().map(|x| (x, 0.0)).collect();
    check_complex("complex", &to(&x, C64), C64, &[2], &want);
}

#[test]
fn sums_and_products() {
    for dtype in [C64, C128] {
        let (a, b) = (any(dtype, &[2, 3], 1), any(dtype, &[3, 2], 2));
        let (x, y) = (numbers(&a), numbers(&b));
        let plus = |a: Number, b: Number| (a.0 + b.0, a.1 + b.1);
        let sum: Vec<Number> =
            (0..2).map(|i| x[3 * i..][..3].iter().copied().fold((0., 0.), plus)).collect();
        let got = only("aten::sum.dim_IntList", &[(&a).into(), ints(&[-1])]);
        check_complex("sum", &got, dtype, &[2], &sum);
        let cell = |i: usize, j: usize| {
            (0..3).map(|k| times(x[3 * i + k], y[2 * k + j])).fold((0., 0.), plus)
        };
        let product: Vec<Number> = (0..4).map(|n| cell(n / 2, n % 2)).collect();
        let got = only("aten::mm", &[(&a).into(), (&b).into()]);
        check_complex("mm", &got, dtype, &[2, 2], &product);
    }
    let refused =
        |b: &Array| apply("aten::mm", &[(&any(C64, &[2, 3], 1)).into(), b.into()]).unwrap_err();
    assert!(refused(&wave(F32, &[3, 2], 1)).message.contains("same dtype"));
    assert!(refused(&any(C64, &[2, 3], 1)).message.contains("(2x3 and 2x3)"));
}

#[test]
fn transforms() {
    for n in [1i64, 2, 5, 6] {
        let x = wave(F32, &[2, n], 3);
        let values = x.to_f64s();
        let bin = |line: usize, k: i64| {
            let term = |j: i64| {
                let angle = -std::f64::consts::TAU * (j * k) as f64 / n as f64;
                let value = values[line * n as usize + j as usize];
                (value * angle.cos(), value * angle.sin())
            };
            (0..n).map(term).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
        };
        let half = n / 2 + 1;
        let want: Vec<Number> = (0..2)
            .flat_map(|line| (0..half).map(move |k| (line, k)))
            .map(|(l, k)| bin(l, k))
            .collect();
        let got = only("aten::_fft_r2c", &[(&x).into(), ints(&[1]), at(0), flag(true)]);
        check_complex("r2c", &got, C64, &[2, half], &want);
        let back = only("aten::_fft_c2r", &[(&got).into(), ints(&[1]), at(2), at(n)]);
        check("c2r", &back, F32, &[2, n], &values);
        let there = only("aten::_fft_r2c", &[(&x).into(), ints(&[0, 1]), at(0), flag(true)]);
        let back = only("aten::_fft_c2r", &[(&there).into(), ints(&[0, 1]), at(2), at(n)]);
        check("c2r of two dimensions", &back, F32, &[2, n], &values);
        let z = any(C64, &[3, n], 4);
        let there = only("aten::_fft_c2c", &[(&z).into(), ints(&[0, 1]), at(1), flag(true)]);
        let back = only("aten::_fft_c2c", &[(&there).into(), ints(&[1, 0]), at(1), flag(false)]);
        check_complex("c2c", &back, C64, &[3, n], &numbers(&z));
    }
}
