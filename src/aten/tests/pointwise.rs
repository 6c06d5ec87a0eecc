//! Elementwise rows against formulas on f64, element by element.

use super::*;
use DType::*;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

/// erf by its Taylor series: slow, but nothing like what is tested.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn gelu_tanh(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
}

/// Derivative by a symmetric difference.
fn slope(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 1e-5;
    (f(x + h) - f(x - h)) / (2.0 * h)
}

fn truth(b: bool) -> f64 {
    b as u8 as f64
}

fn mapped(x: &Array, f: impl Fn(f64) -> f64) -> Vec<f64> {
    x.to_f64s().into_iter().map(f).collect()
}

type Unary = (&'static str, fn(f64) -> f64);

/// Rows that keep the dtype of floats and make f32 of integers.
const FLOAT: &[Unary] = &[
    ("sqrt", |x| x.sqrt()),
    ("rsqrt", |x| 1.0 / x.sqrt()),
    ("reciprocal", |x| 1.0 / x),
    ("exp", f64::exp),
    ("exp2", f64::exp2),
    ("expm1", f64::exp_m1),
    ("log", f64::ln),
    ("log1p", f64::ln_1p),
    ("log2", f64::log2),
    ("log10", f64::log10),
    ("sin", f64::sin),
    ("cos", f64::cos),
    ("tan", f64::tan),
    ("atan", f64::atan),
    ("asin", f64::asin),
    ("acos", f64::acos),
    ("tanh", f64::tanh),
    ("sinh", f64::sinh),
    ("cosh", f64::cosh),
    ("erf", erf),
    ("sigmoid", sigmoid),
    ("silu", |x| x * sigmoid(x)),
    ("gelu", |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
    ("mish", |x| x * softplus(x).tanh()),
    ("hardswish", |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
    ("hardsigmoid", |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
    ("softplus", softplus),
    ("elu", |x| if x > 0.0 { x } else { x.exp_m1() }),
    ("leaky_relu", |x| if x > 0.0 { x } else { 0.01 * x }),
];

/// Rows that keep every dtype.
const SAME: &[Unary] = &[
    ("neg", |x| -x),
    ("abs", f64::abs),
    ("sign", |x| truth(x > 0.0) - truth(x < 0.0)),
    ("sgn", |x| truth(x > 0.0) - truth(x < 0.0)),
    ("floor", f64::floor),
    ("ceil", f64::ceil),
    ("round", f64::round_ties_even),
    ("trunc", f64::trunc),
    ("relu", |x| x.max(0.0)),
    ("hardtanh", |x| x.clamp(-1.0, 1.0)),
];

#[test]
fn one_operand() {
    let sizes = [4, 7];
    for &(name, f) in FLOAT {
        for (dtype, result) in [(F16, F16), (BF16, BF16), (F32, F32), (F64, F64), (I64, F32)] {
            let x = wave(dtype, &sizes, 1);
            let name = format!("aten::{name}");
            check(&name, &only(&name, &[(&x).into()]), result, &sizes, &mapped(&x, f));
        }
    }
    for &(name, f) in SAME {
        for dtype in [BF16, F32, I8, I64] {
            let x = wave(dtype, &sizes, 2);
            let name = format!("aten::{name}");
            check(&name, &only(&name, &[(&x).into()]), dtype, &sizes, &mapped(&x, f));
        }
    }
    let x = wave(F32, &sizes, 3);
    let tanh = only("aten::gelu", &[(&x).into(), text("tanh")]);
    check("gelu tanh", &tanh, F32, &sizes, &mapped(&x, gelu_tanh));
    let frac = only("aten::frac", &[(&x).into()]);
    check("frac", &frac, F32, &sizes, &mapped(&x, f64::fract));
}

/// The sizes of a pair of operands and of their result.
const SHAPES: [(&[i64], &[i64], &[i64]); 4] = [
    (&[3, 5], &[3, 5], &[3, 5]),
    (&[3, 5], &[5], &[3, 5]),
    (&[3, 1], &[2, 1, 5], &[2, 3, 5]),
    (&[4, 2], &[1, 1], &[4, 2]),
];

const PAIRS: [(DType, DType, DType); 7] = [
    (F32, F32, F32),
    (BF16, BF16, BF16),
    (BF16, F32, F32),
    (F16, I64, F16),
    (I32, F64, F64),
    (I32, I64, I64),
    (I8, I16, I16),
];

type Formula = fn(f64, f64) -> f64;
type Binary = (&'static str, Formula);

#[test]
fn two_operands() {
    let rows: &[Binary] = &[
        ("aten::add.Tensor", |a, b| a + b),
        ("aten::sub.Tensor", |a, b| a - b),
        ("aten::rsub.Tensor", |a, b| b - a),
        ("aten::mul.Tensor", |a, b| a * b),
        ("aten::maximum", f64::max),
        ("aten::minimum", f64::min),
    ];
    for &(name, f) in rows {
        for (sa, sb, sizes) in SHAPES {
            for (da, db, dtype) in PAIRS {
                let (a, b) = (wave(da, sa, 1), wave(db, sb, 4));
                let pairs = spread(&a, sizes).into_iter().zip(spread(&b, sizes));
                let expected: Vec<f64> = pairs.map(|(a, b)| f(a, b)).collect();
                let got = only(name, &[(&a).into(), (&b).into()]);
                check(&format!("{name} {da} {db}"), &got, dtype, sizes, &expected);
            }
        }
    }
}

#[test]
fn quotients() {
    let floor = |a: f64, b: f64| (a / b).floor();
    let rows: &[(&str, &str, Formula)] = &[
        ("aten::div.Tensor", "", |a, b| a / b),
        ("aten::div.Tensor_mode", "floor", floor),
        ("aten::div.Tensor_mode", "trunc", |a, b| (a / b).trunc()),
        ("aten::floor_divide", "", floor),
        ("aten::remainder.Tensor", "", |a, b| a - b * (a / b).floor()),
        ("aten::fmod.Tensor", "", |a, b| a % b),
    ];
    for &(name, mode, f) in rows {
        for dtype in [F32, BF16, I32, I64] {
            let a = wave(dtype, &[5, 5], 1);
            // Nothing to divide by may be 0.
            let values = mapped(&wave(dtype, &[5], 3), |x| if x == 0.0 { 2.0 } else { x });
            let b = Array::from_f64(dtype, &[5], &values);
            let pairs = a.to_f64s().into_iter().zip(spread(&b, &[5, 5]));
            let expected: Vec<f64> = pairs.map(|(a, b)| f(a, b)).collect();
            let mut args = vec![TrialArg::from(&a), TrialArg::from(&b)];
            args.extend((!mode.is_empty()).then(|| text(mode)));
            let true_division = name == "aten::div.Tensor";
            let result = if true_division && !dtype.is_float() { F32 } else { dtype };
            check(
                &format!("{name} {mode} {dtype}"),
                &only(name, &args),
                result,
                &[5, 5],
                &expected,
            );
        }
    }
    let a = Array::from_f64(F32, &[4], &[1.0, -1.0, 0.0, f64::INFINITY]);
    let by_zero = only("aten::floor_divide", &[(&a).into(), Float(0.0)]);
    let expected = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::INFINITY];
    check("floor_divide by 0", &by_zero, F32, &[4], &expected);
}

#[test]
fn numbers_beside_tensors() {
    let x = wave(BF16, &[6], 1);
    let n = wave(I32, &[6], 1);
    let mask = Array::from_f64(Bool, &[3], &[1.0, 0.0, 1.0]);
    let cases: &[(&str, &Array, TrialArg, Vec<f64>, DType)] = &[
        ("aten::mul.Tensor", &x, Float(0.1), mapped(&x, |x| x * 0.1), BF16),
        ("aten::add.Scalar", &x, Int(3), mapped(&x, |x| x + 3.0), BF16),
        ("aten::div.Scalar", &n, Int(4), mapped(&n, |x| x / 4.0), F32),
        ("aten::mul.Scalar", &n, Float(0.5), mapped(&n, |x| x * 0.5), F32),
        ("aten::mul.Scalar", &n, Int(3), mapped(&n, |x| x * 3.0), I32),
        ("aten::add.Tensor", &mask, Plain(Arg::Bool(true)), vec![1.0; 3], Bool),
        ("aten::add.Tensor", &mask, Int(1), vec![2.0, 1.0, 2.0], I64),
        ("aten::mul.Tensor", &mask, (&mask).into(), vec![1.0, 0.0, 1.0], Bool),
        ("aten::bitwise_and.Scalar", &n, Int(6), mapped(&n, |x| (x as i64 & 6) as f64), I32),
    ];
    for (name, x, number, expected, dtype) in cases {
        let got = only(name, &[(*x).into(), number.clone()]);
        check(&format!("{name} {}", x.ty.dtype), &got, *dtype, &x.ty.sizes, expected);
    }
    // 0.1 is not rounded to bf16 before it is multiplied.
    let seven = Array::from_f64(BF16, &[1], &[7.0]);
    let product = only("aten::mul.Tensor", &[(&seven).into(), Float(0.1)]);
    assert_eq!(product, Array::from_f64(BF16, &[1], &[0.7]));
    let scaled = only("aten::add.Tensor", &[(&x).into(), (&x).into(), Float(0.5)]);
    check("alpha", &scaled, BF16, &[6], &mapped(&x, |x| 1.5 * x));
    let turned = only("aten::rsub.Scalar", &[(&x).into(), Float(2.0), Float(3.0)]);
    check("rsub", &turned, BF16, &[6], &mapped(&x, |x| 2.0 - 3.0 * x));
}

#[test]
fn powers() {
    let x = wave(F32, &[9], 1);
    for e in [0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 2.5, 7.0] {
        let got = only("aten::pow.Tensor_Scalar", &[(&x).into(), Float(e)]);
        check(&format!("pow {e}"), &got, F32, &[9], &mapped(&x, |x| x.powf(e)));
    }
    let n = wave(I64, &[9], 1);
    let cube = only("aten::pow.Tensor_Scalar", &[(&n).into(), Int(3)]);
    check("cube", &cube, I64, &[9], &mapped(&n, |x| x.powi(3)));
    let base = only("aten::pow.Scalar", &[Float(2.0), (&x).into()]);
    check("2 ** x", &base, F32, &[9], &mapped(&x, f64::exp2));
    let square = Array::from_f64(F32, &[], &[2.0]);
    let both = only("aten::pow.Tensor_Tensor", &[(&x).into(), (&square).into()]);
    check("x ** tensor", &both, F32, &[9], &mapped(&x, |x| x * x));
    assert!(apply("aten::pow.Tensor_Scalar", &[(&n).into(), Int(-1)]).is_err());
}

#[test]
fn comparisons_and_logic() {
    let (a, b) = (wave(F32, &[3, 5], 1), wave(I64, &[5], 1));
    type Question = fn(f64, f64) -> bool;
    let rows: &[(&str, Question)] = &[
        ("aten::eq.Tensor", |a, b| a == b),
        ("aten::ne.Tensor", |a, b| a != b),
        ("aten::lt.Tensor", |a, b| a < b),
        ("aten::le.Tensor", |a, b| a <= b),
        ("aten::gt.Tensor", |a, b| a > b),
        ("aten::ge.Tensor", |a, b| a >= b),
        ("aten::logical_and", |a, b| a != 0.0 && b != 0.0),
        ("aten::logical_or", |a, b| a != 0.0 || b != 0.0),
        ("aten::logical_xor", |a, b| (a != 0.0) != (b != 0.0)),
    ];
    for (name, f) in rows {
        let pairs = a.to_f64s().into_iter().zip(spread(&b, &[3, 5]));
        let expected: Vec<f64> = pairs.map(|(a, b)| truth(f(a, b))).collect();
        check(name, &only(name, &[(&a).into(), (&b).into()]), Bool, &[3, 5], &expected);
    }
    let specials = [0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let tests: &[(&str, [u8; 5])] = &[
        ("aten::isnan", [0, 0, 0, 0, 1]),
        ("aten::isinf", [0, 0, 1, 1, 0]),
        ("aten::isposinf", [0, 0, 1, 0, 0]),
        ("aten::isneginf", [0, 0, 0, 1, 0]),
        ("aten::isfinite", [1, 1, 0, 0, 0]),
        ("aten::logical_not", [1, 0, 0, 0, 0]),
    ];
    for (name, expected) in tests {
        for dtype in [F32, F16] {
            let x = Array::from_f64(dtype, &[5], &specials);
            check(name, &only(name, &[(&x).into()]), Bool, &[5], &expected.map(f64::from));
        }
    }
    let integers = only("aten::isfinite", &[(&b).into()]);
    check("isfinite", &integers, Bool, &[5], &[1.0; 5]);
    let replaced = only("aten::nan_to_num", &[(&Array::from_f64(F32, &[5], &specials)).into()]);
    let most = f32::MAX as f64;
    check("nan_to_num", &replaced, F32, &[5], &[0.0, 1.0, most, -most, 0.0]);
    let not = only("aten::bitwise_not", &[(&b).into()]);
    check("bitwise_not", &not, I64, &[5], &mapped(&b, |x| -x - 1.0));
}

#[test]
fn choices_and_bounds() {
    let (x, y) = (wave(F32, &[2, 6], 1), wave(F32, &[6], 2));
    let condition = Array::from_f64(Bool, &[2, 1], &[1.0, 0.0]);
    let zipped = |f: fn(usize, f64, f64) -> f64| -> Vec<f64> {
        let pairs = x.to_f64s().into_iter().zip(spread(&y, &[2, 6]));
        pairs.enumerate().map(|(i, (x, y))| f(i, x, y)).collect()
    };
    let first = only("aten::where.self", &[(&condition).into(), (&x).into(), (&y).into()]);
    check("where", &first, F32, &[2, 6], &zipped(|i, x, y| if i < 6 { x } else { y }));
    let filled = only("aten::masked_fill.Scalar", &[(&x).into(), (&condition).into(), Float(9.5)]);
    check("masked_fill", &filled, F32, &[2, 6], &zipped(|i, x, _| if i < 6 { 9.5 } else { x }));
    let both = only("aten::clamp", &[(&x).into(), Float(-0.5), Float(1.5)]);
    check("clamp", &both, F32, &[2, 6], &mapped(&x, |x| x.clamp(-0.5, 1.5)));
    let upper = only("aten::clamp", &[(&x).into(), NONE, Float(1.5)]);
    check("clamp max", &upper, F32, &[2, 6], &mapped(&x, |x| x.min(1.5)));
    let lower = only("aten::clamp.Tensor", &[(&x).into(), (&y).into(), NONE]);
    check("clamp tensor", &lower, F32, &[2, 6], &zipped(|_, x, y| x.max(y)));
    let nan = Array::from_f64(F32, &[1], &[f64::NAN]);
    let kept = only("aten::clamp_min", &[(&nan).into(), Float(0.0)]);
    check("clamp nan", &kept, F32, &[1], &[f64::NAN]);
    let lone = only("aten::clamp", &[(&x).into(), Float(f64::NAN)]);
    check("clamp to nan", &lone, F32, &[2, 6], &x.to_f64s());
    let beside = only("aten::clamp", &[(&x).into(), Float(0.0), Float(f64::NAN)]);
    check("clamp between 0 and nan", &beside, F32, &[2, 6], &[f64::NAN; 12]);
    for weight in [0.0, 0.25, 0.75, 1.0] {
        let got = only("aten::lerp.Scalar", &[(&x).into(), (&y).into(), Float(weight)]);
        let pairs = x.to_f64s().into_iter().zip(spread(&y, &[2, 6]));
        let expected: Vec<f64> = pairs.map(|(x, y)| x + weight * (y - x)).collect();
        check("lerp", &got, F32, &[2, 6], &expected);
    }
    let args = [(&x).into(), (&x).into(), (&y).into(), Float(0.5)];
    let product = only("aten::addcmul", &args);
    check("addcmul", &product, F32, &[2, 6], &zipped(|_, x, y| x + 0.5 * x * y));
    let positive = only("aten::abs", &[(&y).into()]);
    let shifted = only("aten::add.Scalar", &[(&positive).into(), Int(1)]);
    let args = [(&x).into(), (&x).into(), (&shifted).into(), Float(0.5)];
    let quotient = only("aten::addcdiv", &args);
    check("addcdiv", &quotient, F32, &[2, 6], &zipped(|_, x, y| x + 0.5 * x / (y.abs() + 1.0)));
}

#[test]
fn gradients_are_slopes() {
    // No element of the wave is at a kink.
    let values: Vec<f64> = wave(F64, &[23], 1).to_f64s().iter().map(|x| x * 1.5 + 0.1).collect();
    let x = Array::from_f64(F64, &[23], &values);
    let dy = wave(F64, &[23], 5);
    let check_slope = |name: &str, trial_arg: &Array, rest: &[TrialArg], f: &dyn Fn(f64) -> f64| {
        let mut args = vec![(&dy).into(), trial_arg.into()];
        args.extend_from_slice(rest);
        let got = only(name, &args);
        assert_eq!(got.ty.dtype, F64);
        for i in 0..got.len() {
            let expected = dy.f64(i) * slope(f, x.f64(i));
            assert!((got.f64(i) - expected).abs() < 1e-6, "{name} at {}: {expected}", x.f64(i));
        }
    };
    let outputs = |f: fn(f64) -> f64| Array::from_f64(F64, &[23], &mapped(&x, f));
    check_slope("aten::sigmoid_backward", &outputs(sigmoid), &[], &sigmoid);
    check_slope("aten::tanh_backward", &outputs(f64::tanh), &[], &f64::tanh);
    check_slope("aten::silu_backward", &x, &[], &|x| x * sigmoid(x));
    check_slope("aten::gelu_backward", &x, &[text("tanh")], &gelu_tanh);
    let gelu = |x: f64| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()));
    check_slope("aten::gelu_backward", &x, &[], &gelu);
    check_slope("aten::threshold_backward", &x, &[Float(0.0)], &|x| x.max(0.0));
    let leaky = |x: f64| if x > 0.0 { x } else { 0.2 * x };
    check_slope("aten::leaky_relu_backward", &x, &[Float(0.2), flag(false)], &leaky);
    check_slope("aten::mish_backward", &x, &[], &|x| x * softplus(x).tanh());
    check_slope("aten::log_sigmoid_backward", &x, &[], &|x| -softplus(-x));
    let args = [Float(-1.0), Float(1.0)];
    check_slope("aten::hardtanh_backward", &x, &args, &|x| x.clamp(-1.0, 1.0));
    check_slope("aten::softplus_backward", &x, &[Float(1.0), Float(20.0)], &softplus);
    let hard = |x: f64| (x + 3.0).clamp(0.0, 6.0) / 6.0;
    check_slope("aten::hardsigmoid_backward", &x, &[], &hard);
    check_slope("aten::hardswish_backward", &x, &[], &|x| x * hard(x));
}

#[test]
fn results_go_into_views() {
    let base = wave(F32, &[4, 6], 1);
    let columns = Layout::contiguous(&[4, 6]).slice(&[0, 1], &[4, 2], &[1, 3]);
    let inside = |i: usize| i % 6 == 1 || i % 6 == 4;
    let expected: Vec<f64> = base
        .to_f64s()
        .iter()
        .enumerate()
        .map(|(i, x)| if inside(i) { x + 1.0 } else { *x })
        .collect();
    let view = TrialArg::View(base.clone(), columns);
    let got = in_place("aten::add_.Scalar", &[view.clone(), Int(1)]).unwrap();
    check("x[:, 1::3] += 1", &got, F32, &[4, 6], &expected);
    // The result is cast to what it is written into.
    let n = wave(I64, &[6], 1);
    let whole = TrialArg::View(n.clone(), Layout::contiguous(&[6]));
    let got = in_place("aten::ge_.Scalar", &[whole, Int(2)]).unwrap();
    check("ge_", &got, I64, &[6], &mapped(&n, |x| truth(x >= 2.0)));
    let transposed = TrialArg::View(base.clone(), Layout::contiguous(&[4, 6]).transpose(&[1, 0]));
    let got = in_place("aten::mul_.Tensor", &[transposed, Float(2.0)]).unwrap();
    check("x.t().mul_(2)", &got, F32, &[4, 6], &mapped(&base, |x| 2.0 * x));
    let got = in_place("aten::zero_", &[view]).unwrap();
    let zeroed: Vec<f64> =
        base.to_f64s().iter().enumerate().map(|(i, x)| if inside(i) { 0.0 } else { *x }).collect();
    check("x[:, 1::3].zero_()", &got, F32, &[4, 6], &zeroed);
}

#[test]
fn activations_of_other_forms() {
    let (x, dy) = (wave(F64, &[2, 4], 1), wave(F64, &[2, 2], 5));
    let logistic = apply("aten::log_sigmoid_forward", &[(&x).into()]).unwrap();
    check("log_sigmoid", &logistic[0], F64, &[2, 4], &mapped(&x, |x| -softplus(-x)));
    assert_eq!(logistic[1].ty.sizes[..], [2, 4]);
    let gated = |v: &[f64]| -> Vec<f64> {
        (0..4).map(|i| v[i / 2 * 4 + i % 2] * sigmoid(v[i / 2 * 4 + i % 2 + 2])).collect()
    };
    let got = only("aten::glu", &[(&x).into(), at(-1)]);
    check("glu", &got, F64, &[2, 2], &gated(&x.to_f64s()));
    let got = only("aten::glu_backward", &[(&dy).into(), (&x).into(), at(1)]);
    for i in 0..8 {
        let moved = |h: f64| {
            let mut v = x.to_f64s();
            v[i] += h;
            gated(&v).iter().zip(dy.to_f64s()).map(|(y, d)| y * d).sum()
        };
        assert!((got.f64(i) - slope(moved, 0.0)).abs() < 1e-6, "glu_backward");
    }
    let dy = wave(F64, &[2, 4], 5);
    let elu = |x: f64| 1.5 * if x > 0.0 { x } else { 0.5 * (2.0 * x).exp_m1() };
    let numbers = [Float(0.5), Float(1.5), Float(2.0)];
    let steep = |x: f64| if x > 0.0 { 1.5 } else { 1.5 * (2.0 * x).exp() };
    let expected: Vec<f64> = (0..8).map(|i| dy.f64(i) * steep(x.f64(i))).collect();
    let result = Array::from_f64(F64, &[2, 4], &mapped(&x, elu));
    for (is_result, trial_arg) in [(false, &x), (true, &result)] {
        let args = [&[(&dy).into()], &numbers[..], &[flag(is_result), trial_arg.into()]].concat();
        check("elu_backward", &only("aten::elu_backward", &args), F64, &[2, 4], &expected);
    }
    let weight = Array::from_f64(F64, &[1, 4], &[0.1, 0.2, 0.3, 0.4]);
    let leaky = |i: usize| if x.f64(i) > 0.0 { 1.0 } else { weight.f64(i % 4) };
    let got = only("aten::_prelu_kernel", &[(&x).into(), (&weight).into()]);
    check("prelu", &got, F64, &[2, 4], &(0..8).map(|i| leaky(i) * x.f64(i)).collect::<Vec<_>>());
    let args = [(&dy).into(), (&x).into(), (&weight).into()];
    let got = apply("aten::_prelu_kernel_backward", &args).unwrap();
    check("dx", &got[0], F64, &[2, 4], &(0..8).map(|i| leaky(i) * dy.f64(i)).collect::<Vec<_>>());
    let dweight = |i: usize| if x.f64(i) > 0.0 { 0.0 } else { dy.f64(i) * x.f64(i) };
    check("dweight", &got[1], F64, &[2, 4], &(0..8).map(dweight).collect::<Vec<_>>());
    let y = wave(F64, &[2, 4], 3);
    let pairs = || x.to_f64s().into_iter().zip(y.to_f64s());
    let sums: Vec<f64> = pairs().map(|(a, b)| (a.exp() + b.exp()).ln()).collect();
    check("logaddexp", &only("aten::logaddexp", &[(&x).into(), (&y).into()]), F64, &[2, 4], &sums);
    let product = |(a, b): (f64, f64)| if a == 0.0 { 0.0 } else { a * b.ln() };
    let products: Vec<f64> = pairs().map(product).collect();
    check(
        "xlogy",
        &only("aten::xlogy.Tensor", &[(&x).into(), (&y).into()]),
        F64,
        &[2, 4],
        &products,
    );
}

#[test]
fn a_number_times_a_power_of_two_is_exact_where_the_result_is_in_range() {
    let x = Array::from_f64(F32, &[6], &[1.5, 2e-30, 0.0, -1e30, 1.0, f64::INFINITY]);
    let n = Array::from_f64(I64, &[6], &[3.0, 140.0, 5000.0, -140.0, -150.0, -5000.0]);
    let y = only("aten::ldexp.Tensor", &[(&x).into(), (&n).into()]);
    let pairs = x.to_f64s().into_iter().zip(n.to_f64s());
    let exact = |(x, n): (f64, f64)| if x == 0.0 { 0.0 } else { (x * n.exp2()) as f32 as f64 };
    let expected: Vec<f64> = pairs.take(5).map(exact).chain([f64::INFINITY]).collect();
    assert_eq!(y.to_f64s(), expected);
    let half = Array::from_f64(F32, &[1], &[0.5]);
    let root = only("aten::ldexp.Tensor", &[(&half).into(), (&half).into()]);
    check("ldexp", &root, F32, &[1], &[0.5f64.sqrt()]);
    let eight = only("aten::ldexp.Tensor", &[(&n).into(), (&n).into()]);
    assert_eq!((eight.ty.dtype, eight.to_f64s()[0]), (F32, 24.0));
}
