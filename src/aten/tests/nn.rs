//! Softmax, losses and attention against loops.

use super::*;
use DType::*;

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let sum: f64 = row.iter().map(|x| x.exp()).sum();
    row.iter().map(|x| x - sum.ln()).collect()
}

/// Applies `f` to every run of `x` along `dim` of sizes [2, 3, 4].
fn along(x: &[f64], dim: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let (size, stride) = ([2, 3, 4][dim], [12, 4, 1][dim]);
    let mut y = vec![0.0; x.len()];
    for start in (0..24).filter(|i| i / stride % size == 0) {
        let run: Vec<f64> = (0..size).map(|i| x[start + i * stride]).collect();
        f(&run).into_iter().enumerate().for_each(|(i, v)| y[start + i * stride] = v);
    }
    y
}

#[test]
fn softmax_along_any_dimension() {
    let softmax = |r: &[f64]| log_softmax(r).iter().map(|x| x.exp()).collect::<Vec<_>>();
    for dtype in [F32, F64, BF16] {
        let x = wave(dtype, &[2, 3, 4], 1);
        for dim in [0, 1, -1] {
            let d = dim as usize % 3;
            let d = if dim < 0 { 2 } else { d };
            let args = [(&x).into(), at(dim), flag(false)];
            let y = along(&x.to_f64s(), d, softmax);
            check("softmax", &only("aten::_softmax", &args), dtype, &[2, 3, 4], &y);
            let y = along(&x.to_f64s(), d, log_softmax);
            check("log_softmax", &only("aten::_log_softmax", &args), dtype, &[2, 3, 4], &y);
        }
    }
    let half = wave(F16, &[2, 3, 4], 1);
    let y = along(&half.to_f64s(), 1, softmax);
    let got = only("aten::_softmax", &[(&half).into(), at(1), flag(true)]);
    check("half_to_float", &got, F32, &[2, 3, 4], &y);
    let scalar = Array::from_f64(F32, &[], &[3.0]);
    check(
        "scalar",
        &only("aten::_softmax", &[(&scalar).into(), at(0), flag(false)]),
        F32,
        &[],
        &[1.0],
    );
}

#[test]
fn softmax_gradients() {
    let (x, dy) = (wave(F64, &[2, 3, 4], 1), wave(F64, &[2, 3, 4], 2));
    let args = [(&x).into(), at(1), flag(false)];
    let (y, z) = (only("aten::_softmax", &args), only("aten::_log_softmax", &args));
    let pairs: Vec<f64> = (0..24).map(|i| dy.f64(i) * y.f64(i)).collect();
    let sums = along(&pairs, 1, |r| vec![r.iter().sum(); r.len()]);
    let expected: Vec<f64> = (0..24).map(|i| y.f64(i) * (dy.f64(i) - sums[i])).collect();
    let args = [(&dy).into(), (&y).into(), at(1), dtype(F64)];
    check("softmax", &only("aten::_softmax_backward_data", &args), F64, &[2, 3, 4], &expected);
    let sums = along(&dy.to_f64s(), 1, |r| vec![r.iter().sum(); r.len()]);
    let expected: Vec<f64> = (0..24).map(|i| dy.f64(i) - z.f64(i).exp() * sums[i]).collect();
    let args = [(&dy).into(), (&z).into(), at(1), dtype(F16)];
    check(
        "log_softmax",
        &only("aten::_log_softmax_backward_data", &args),
        F16,
        &[2, 3, 4],
        &expected,
    );
}

/// Negative log likelihood of `x` (C classes along dimension 1 of [n, C]): (losses, weights).
fn nll(x: &Array, target: &[f64], weight: Option<&Array>) -> (Vec<f64>, Vec<f64>) {
    let classes = x.len() / target.len();
    let weight = |t: f64| match weight {
        _ if t == -100.0 => 0.0,
        Some(w) => w.f64(t as usize),
        None => 1.0,
    };
    let score = |(i, &t): (usize, &f64)| {
        if t == -100.0 { 0.0 } else { -x.f64(i * classes + t as usize) * weight(t) }
    };
    (target.iter().enumerate().map(score).collect(), target.iter().map(|&t| weight(t)).collect())
}

#[test]
fn negative_log_likelihood() {
    let x = wave(F32, &[4, 3], 1);
    let labels = [2.0, -100.0, 0.0, 2.0];
    let target = Array::from_f64(I64, &[4], &labels);
    let weights = Array::from_f64(F32, &[3], &[0.5, 1.0, 2.0]);
    let dy = Array::from_f64(F32, &[], &[1.5]);
    for weight in [None, Some(&weights)] {
        let trial_arg = weight.map_or(NONE, TrialArg::from);
        let (losses, each) = nll(&x, &labels, weight);
        let (sum, total) = (losses.iter().sum::<f64>(), each.iter().sum::<f64>());
        for (reduction, sizes, loss, recorded) in [
            (0, &[4][..], losses.clone(), 0.0),
            (1, &[], vec![sum / total], total),
            (2, &[], vec![sum], total),
        ] {
            let rest = [trial_arg.clone(), at(reduction), at(-100)];
            let args = [&[(&x).into(), (&target).into()], &rest[..]].concat();
            let got = apply("aten::nll_loss_forward", &args).unwrap();
            check("loss", &got[0], F32, sizes, &loss);
            check("total", &got[1], F32, &[], &[recorded]);
            let dy = if reduction == 0 { wave(F32, &[4], 3) } else { dy.clone() };
            let args =
                [&[(&dy).into(), (&x).into(), (&target).into()], &rest[..], &[(&got[1]).into()]];
            let dx = only("aten::nll_loss_backward", &args.concat());
            let slope = |i: usize| {
                let scale = if reduction == 1 { total } else { 1.0 };
                let dy = if reduction == 0 { dy.f64(i / 3) } else { dy.f64(0) };
                if labels[i / 3] == (i % 3) as f64 { -each[i / 3] * dy / scale } else { 0.0 }
            };
            check("dx", &dx, F32, &[4, 3], &(0..12).map(slope).collect::<Vec<_>>());
        }
    }
    let one = wave(F32, &[3], 1);
    let label = Array::from_f64(I64, &[], &[1.0]);
    let args = [(&one).into(), (&label).into(), NONE, at(1), at(-100)];
    let got = apply("aten::nll_loss_forward", &args).unwrap();
    check("no batch", &got[0], F32, &[], &[-one.f64(1)]);
    // [n, C, h, w]
    let image = wave(F32, &[2, 3, 1, 2], 1);
    let pixels = Array::from_f64(I64, &[2, 1, 2], &[0.0, 2.0, -100.0, 1.0]);
    let args = [(&image).into(), (&pixels).into(), NONE, at(2), at(-100)];
    let got = apply("aten::nll_loss2d_forward", &args).unwrap();
    let expected = -(image.f64(0) + image.f64(5) + image.f64(9));
    check("2d", &got[0], F32, &[], &[expected]);
    let args = [(&x).into(), (&target).into(), NONE, at(1), at(2)];
    let wrong = apply("aten::nll_loss_forward", &args).unwrap_err();
    assert_eq!(wrong.code, crate::error::Code::IndexError, "-100 is not ignored here: {wrong}");
}

/// Checks a loss against its formula, and its gradient against symmetric differences, for every reduction.
fn check_loss(name: &str, parameters: &[TrialArg], f: fn(f64, f64) -> f64) {
    // Inside (0, 1), so that it is a probability, and at no kink.
    let inside = |x: &Array| x.to_f64s().iter().map(|x| 0.5 + x / 7.0).collect::<Vec<_>>();
    let x = Array::from_f64(F64, &[2, 3], &inside(&wave(F64, &[2, 3], 1)));
    let y = Array::from_f64(F64, &[2, 3], &inside(&wave(F64, &[2, 3], 4)));
    let rest = |reduction: i64| match name {
        "aten::binary_cross_entropy" => vec![NONE, at(reduction)],
        _ => [&[at(reduction)], parameters].concat(),
    };
    let each: Vec<f64> = (0..6).map(|i| f(x.f64(i), y.f64(i))).collect();
    let total: f64 = each.iter().sum();
    let slope = |i: usize| (f(x.f64(i) + 1e-5, y.f64(i)) - f(x.f64(i) - 1e-5, y.f64(i))) / 2e-5;
    for (reduction, sizes, loss) in
        [(0, &[2, 3][..], each.clone()), (1, &[], vec![total / 6.0]), (2, &[], vec![total])]
    {
        let args = [&[(&x).into(), (&y).into()], &rest(reduction)[..]].concat();
        check(name, &only(name, &args), F64, sizes, &loss);
        let dy = wave(F64, sizes, 6);
        let args = [&[(&dy).into()], &args[..]].concat();
        let got = only(&format!("{name}_backward"), &args);
        for i in 0..6 {
            let scale = [1.0, 1.0 / 6.0, 1.0][reduction as usize];
            let expected = slope(i) * scale * dy.f64(if reduction == 0 { i } else { 0 });
            assert!(
                (got.f64(i) - expected).abs() < 1e-6,
                "{name}_backward: {}, not {expected}",
                got.f64(i)
            );
        }
    }
}

#[test]
fn losses_of_two_tensors() {
    check_loss("aten::mse_loss", &[], |x, y| (x - y).powi(2));
    check_loss("aten::smooth_l1_loss", &[Float(0.3)], |x, y| {
        let d = (x - y).abs();
        if d < 0.3 { d * d / 0.6 } else { d - 0.15 }
    });
    check_loss("aten::huber_loss", &[Float(0.3)], |x, y| {
        let d = (x - y).abs();
        if d < 0.3 { d * d / 2.0 } else { 0.3 * (d - 0.15) }
    });
    check_loss("aten::binary_cross_entropy", &[], |x, y| {
        -(y * x.ln() + (1.0 - y) * (1.0 - x).ln())
    });
}

#[test]
fn attention_takes_the_extension_s_arguments() {
    let array = |sizes: &[i64], seed| wave(F32, sizes, seed);
    let (q, k, v) = (array(&[1, 2, 3, 4], 1), array(&[1, 1, 5, 4], 2), array(&[1, 1, 5, 6], 3));
    let bias = Array::from_f64(Bool, &[1, 2, 3, 5], &[1.0; 30]);
    let rest = [Plain(Arg::Float(0.0)), flag(false), Plain(Arg::Float(0.5)), Int(1), Int(2)];
    let arguments =
        |bias: TrialArg| [&[(&q).into(), (&k).into(), (&v).into(), bias], &rest[..]].concat();
    let call = |bias: TrialArg| apply("torchacc::attention", &arguments(bias)).unwrap();
    let of_ints = Array::zeros(&Ty::new(I32, &[1; 4]));
    let refused = apply("torchacc::attention", &arguments((&of_ints).into())).unwrap_err();
    assert!(refused.message.contains("bool or float, but got i32"), "{refused}");
    let (with, without) = (call((&bias).into()), call(NONE));
    assert_eq!(with, without);
    assert_eq!(&with[0].ty.sizes[..], [1, 2, 3, 6]);
    assert_eq!(&with[1].ty.sizes[..], [1, 2, 3]);
    let score =
        |i: usize, j: usize| (0..4).map(|d| q.f64(i * 4 + d) * k.f64(j * 4 + d)).sum::<f64>() * 0.5;
    let expected: Vec<f64> = (0..36)
        .map(|e| {
            let (i, d) = (e / 6, e % 6);
            let p = log_softmax(&(0..5).map(|j| score(i, j)).collect::<Vec<_>>());
            (0..5).map(|j| p[j].exp() * v.f64(j * 6 + d)).sum()
        })
        .collect();
    check("out", &with[0], F32, &[1, 2, 3, 6], &expected);
    let dy = array(&[1, 2, 3, 6], 4);
    let trial_arg: [TrialArg; 7] = [
        (&dy).into(),
        (&q).into(),
        (&k).into(),
        (&v).into(),
        NONE,
        (&with[0]).into(),
        (&with[1]).into(),
    ];
    let grads = apply("torchacc::attention_backward", &[&trial_arg, &rest[..]].concat()).unwrap();
    let types: Vec<_> = grads.iter().map(|g| g.ty.clone()).collect();
    assert_eq!(types, [q.ty, k.ty, v.ty]);
}
