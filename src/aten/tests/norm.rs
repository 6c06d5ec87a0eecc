//! Normalisation against loops and symmetric differences.

use super::*;
use DType::*;

#[test]
fn layer_norm_and_its_gradient() {
    let x = wave(F32, &[2, 3, 4], 1);
    let (weight, bias) = (wave(F32, &[4], 2), wave(F32, &[4], 3));
    let args = [(&x).into(), ints(&[4]), (&weight).into(), (&bias).into(), Float(1e-5)];
    let got = apply("aten::native_layer_norm", &args).unwrap();
    let rows = x.to_f64s();
    let stats: Vec<(f64, f64)> = rows
        .chunks(4)
        .map(|r| {
            let mean = r.iter().sum::<f64>() / 4.0;
            let variance = r.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
            (mean, 1.0 / (variance + 1e-5).sqrt())
        })
        .collect();
    let normal = |i: usize| (rows[i] - stats[i / 4].0) * stats[i / 4].1;
    let y: Vec<f64> = (0..24).map(|i| normal(i) * weight.f64(i % 4) + bias.f64(i % 4)).collect();
    check("y", &got[0], F32, &[2, 3, 4], &y);
    check("mean", &got[1], F32, &[2, 3, 1], &stats.iter().map(|s| s.0).collect::<Vec<_>>());
    check("rstd", &got[2], F32, &[2, 3, 1], &stats.iter().map(|s| s.1).collect::<Vec<_>>());

    let dy = wave(F32, &[2, 3, 4], 5);
    let mask = |m: [bool; 3]| Plain(Arg::Bools(m.into()));
    let call = |m| {
        apply(
            "aten::native_layer_norm_backward",
            &[
                (&dy).into(),
                (&x).into(),
                ints(&[4]),
                (&got[1]).into(),
                (&got[2]).into(),
                (&weight).into(),
                (&bias).into(),
                mask(m),
            ],
        )
        .unwrap()
    };
    let grads = call([true, true, true]);
    let down = |f: &dyn Fn(usize) -> f64| -> Vec<f64> {
        (0..4).map(|c| (0..6).map(|r| f(r * 4 + c)).sum()).collect()
    };
    check("dweight", &grads[1], F32, &[4], &down(&|i| dy.f64(i) * normal(i)));
    check("dbias", &grads[2], F32, &[4], &down(&|i| dy.f64(i)));
    let g = |i: usize| dy.f64(i) * weight.f64(i % 4);
    let dx: Vec<f64> = (0..24)
        .map(|i| {
            let row = i / 4 * 4..i / 4 * 4 + 4;
            let a = row.clone().map(g).sum::<f64>() / 4.0;
            let b = row.map(|j| g(j) * normal(j)).sum::<f64>() / 4.0;
            stats[i / 4].1 * (g(i) - a - normal(i) * b)
        })
        .collect();
    check("dx", &grads[0], F32, &[2, 3, 4], &dx);
    let some = call([true, false, true]);
    assert_eq!((some.len(), &some[0], &some[1]), (2, &grads[0], &grads[2]));
}

#[test]
fn layer_norm_of_half_with_f32_weights() {
    let x = wave(BF16, &[3, 4], 1);
    let weight = wave(F32, &[4], 2);
    let args = [(&x).into(), ints(&[4]), (&weight).into(), NONE, Float(1e-5)];
    let got = apply("aten::native_layer_norm", &args).unwrap();
    assert_eq!([got[0].ty.dtype, got[1].ty.dtype], [BF16, F32]);
    let both =
        apply("aten::native_layer_norm", &[(&x).into(), ints(&[3, 4]), NONE, NONE, Float(0.1)]);
    assert_eq!(&both.unwrap()[1].ty.sizes[..], [1, 1]);
}

#[test]
fn rms_norm_and_its_gradient() {
    let (x, weight) = (wave(F32, &[2, 3, 4], 1), wave(F32, &[4], 2));
    let args = [(&x).into(), ints(&[4]), (&weight).into(), Float(1e-2)];
    let got = apply("aten::_fused_rms_norm", &args).unwrap();
    let v = x.to_f64s();
    let square = |r: &[f64]| r.iter().map(|x| x * x).sum::<f64>() / 4.0;
    let rstd: Vec<f64> = v.chunks(4).map(|r| (square(r) + 1e-2).powf(-0.5)).collect();
    let normal = |i: usize| v[i] * rstd[i / 4];
    let y: Vec<f64> = (0..24).map(|i| normal(i) * weight.f64(i % 4)).collect();
    check("y", &got[0], F32, &[2, 3, 4], &y);
    check("rstd", &got[1], F32, &[2, 3, 1], &rstd);

    let dy = wave(F32, &[2, 3, 4], 5);
    let call = |mask: [bool; 2]| {
        let rstd = (&got[1]).into();
        let mask = Plain(Arg::Bools(mask.into()));
        let args = [(&dy).into(), (&x).into(), ints(&[4]), rstd, (&weight).into(), mask];
        apply("aten::_fused_rms_norm_backward", &args).unwrap()
    };
    let grads = call([true, true]);
    let g = |i: usize| dy.f64(i) * weight.f64(i % 4);
    let dx: Vec<f64> = (0..24)
        .map(|i| {
            let row = i / 4 * 4..i / 4 * 4 + 4;
            let along = row.map(|j| g(j) * normal(j)).sum::<f64>() / 4.0;
            rstd[i / 4] * (g(i) - normal(i) * along)
        })
        .collect();
    check("dx", &grads[0], F32, &[2, 3, 4], &dx);
    let column = |c: usize| (0..6).map(|r| dy.f64(r * 4 + c) * normal(r * 4 + c)).sum();
    check("dweight", &grads[1], F32, &[4], &[0, 1, 2, 3].map(column));
    let some = call([false, true]);
    assert_eq!((some.len(), &some[0]), (1, &grads[1]));
}

#[test]
fn rms_norm_without_eps_takes_that_of_the_computation() {
    let x = Array::from_f64(BF16, &[1, 2], &[1e-4, -1e-4]);
    let y = only_first(apply("aten::_fused_rms_norm", &[(&x).into(), ints(&[2]), NONE, NONE]));
    let expected = x.f64(0) / (x.f64(0).powi(2) + f32::EPSILON as f64).sqrt();
    check("y", &y, BF16, &[1, 2], &[expected, -expected]);
}

fn only_first(results: Result<Vec<Array>>) -> Array {
    results.unwrap().remove(0)
}

/// Mean and variance.
fn moments(x: &[f64]) -> (f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    (mean, x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64)
}

/// Sizes of the input of the group and batch norms below; element `i` is of channel `channel(i)`.
const SIZES: [i64; 3] = [2, 4, 3];

fn channel(i: usize) -> usize {
    i / 3 % 4
}

/// Normalises elements with equal `group`, then scales and shifts by channel.
fn normalize(x: &[f64], group: impl Fn(usize) -> usize, weight: &Array, bias: &Array) -> Vec<f64> {
    let member = |i: usize| -> Vec<f64> {
        (0..24).filter(|&j| group(j) == group(i)).map(|j| x[j]).collect()
    };
    let at = |i: usize| {
        let (mean, variance) = moments(&member(i));
        (x[i] - mean) / (variance + 1e-5).sqrt() * weight.f64(channel(i)) + bias.f64(channel(i))
    };
    (0..24).map(at).collect()
}

/// A function of input, weight and bias.
type Affine<'a> = dyn Fn(&[f64], &Array, &Array) -> Vec<f64> + 'a;

/// Compares gradients of `sum(dy * f(x, weight, bias))` with symmetric differences.
fn check_gradients(grads: &[Array], dy: &Array, [x, weight, bias]: [&Array; 3], f: &Affine) {
    let total = |x: &Array, w: &Array, b: &Array| -> f64 {
        f(&x.to_f64s(), w, b).iter().enumerate().map(|(i, y)| y * dy.f64(i)).sum()
    };
    let moved = |a: &Array, i: usize, by: f64| {
        let mut a = a.clone();
        a.set_f64(i, a.f64(i) + by);
        a
    };
    let h = 1e-5;
    for (which, trial_arg) in [x, weight, bias].into_iter().enumerate() {
        for i in 0..trial_arg.len() {
            let at = |by: f64| {
                let changed = moved(trial_arg, i, by);
                let mut all = [x, weight, bias];
                all[which] = &changed;
                total(all[0], all[1], all[2])
            };
            let expected = (at(h) - at(-h)) / (2.0 * h);
            let got = grads[which].f64(i);
            assert!(
                (got - expected).abs() < 1e-5 * (1.0 + expected.abs()),
                "{which} {i}: {got}, not {expected}"
            );
        }
    }
}

fn parameters() -> [Array; 4] {
    [wave(F64, &SIZES, 1), wave(F64, &[4], 2), wave(F64, &[4], 3), wave(F64, &SIZES, 5)]
}

#[test]
fn group_norm_and_its_gradient() {
    let [x, weight, bias, dy] = parameters();
    let group = |i: usize| i / 12 * 2 + channel(i) / 2;
    let f = |x: &[f64], w: &Array, b: &Array| normalize(x, group, w, b);
    let shape = [at(2), at(4), at(3), at(2)];
    let args =
        [&[(&x).into(), (&weight).into(), (&bias).into()], &shape[..], &[Float(1e-5)]].concat();
    let got = apply("aten::native_group_norm", &args).unwrap();
    check("y", &got[0], F64, &SIZES, &f(&x.to_f64s(), &weight, &bias));
    assert_eq!(&got[1].ty.sizes[..], [2, 2]);
    let trial_arg: [TrialArg; 5] =
        [(&dy).into(), (&x).into(), (&got[1]).into(), (&got[2]).into(), (&weight).into()];
    let mask = Plain(Arg::Bools(vec![true; 3]));
    let grads =
        apply("aten::native_group_norm_backward", &[&trial_arg[..], &shape, &[mask]].concat());
    check_gradients(&grads.unwrap(), &dy, [&x, &weight, &bias], &f);
}

#[test]
fn batch_norm_and_its_gradient() {
    let [x, weight, bias, dy] = parameters();
    let (running_mean, running_var) =
        (wave(F64, &[4], 6), Array::from_f64(F64, &[4], &[0.5, 1.0, 1.5, 2.0]));
    let running = [TrialArg::from(&running_mean), TrialArg::from(&running_var)];
    let tail = |training| [flag(training), Float(0.1), Float(1e-5)];
    let head: [TrialArg; 3] = [(&x).into(), (&weight).into(), (&bias).into()];
    let call = |training| {
        apply("aten::native_batch_norm", &[&head[..], &running, &tail(training)].concat()).unwrap()
    };
    let mask = Plain(Arg::Bools(vec![true; 3]));
    let gradients = |training, saved: [&Array; 2]| {
        let trial_arg = [&[(&dy).into(), (&x).into(), (&weight).into()], &running[..]].concat();
        let rest = [saved[0].into(), saved[1].into(), flag(training), Float(1e-5), mask.clone()];
        apply("aten::native_batch_norm_backward", &[&trial_arg[..], &rest].concat()).unwrap()
    };
    let trained = call(true);
    let f = |x: &[f64], w: &Array, b: &Array| normalize(x, channel, w, b);
    check("y", &trained[0], F64, &SIZES, &f(&x.to_f64s(), &weight, &bias));
    let of = |c: usize| {
        moments(&(0..24).filter(|&i| channel(i) == c).map(|i| x.f64(i)).collect::<Vec<_>>())
    };
    let means: Vec<f64> = (0..4).map(|c| 0.9 * running_mean.f64(c) + 0.1 * of(c).0).collect();
    let variances: Vec<f64> =
        (0..4).map(|c| 0.9 * running_var.f64(c) + 0.1 * of(c).1 * 6.0 / 5.0).collect();
    check("running mean", &trained[3], F64, &[4], &means);
    check("running variance", &trained[4], F64, &[4], &variances);
    let grads = gradients(true, [&trained[1], &trained[2]]);
    check_gradients(&grads, &dy, [&x, &weight, &bias], &f);

    let fixed = |x: &[f64], w: &Array, b: &Array| -> Vec<f64> {
        let scale = |c: usize| w.f64(c) / (running_var.f64(c) + 1e-5).sqrt();
        let at = |i: usize| {
            (x[i] - running_mean.f64(channel(i))) * scale(channel(i)) + b.f64(channel(i))
        };
        (0..24).map(at).collect()
    };
    let evaluated = call(false);
    check("y", &evaluated[0], F64, &SIZES, &fixed(&x.to_f64s(), &weight, &bias));
    assert_eq!([&evaluated[3], &evaluated[4]], [&running_mean, &running_var]);
    let grads = gradients(false, [&evaluated[1], &evaluated[2]]);
    check_gradients(&grads, &dy, [&x, &weight, &bias], &fixed);

    let none = apply("aten::_native_batch_norm_legit.no_stats", &[&head[..], &tail(true)].concat());
    assert_eq!(none.unwrap()[..], trained[..3]);
}
