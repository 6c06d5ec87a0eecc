//! Fused optimizer steps against the update rules on f64, one number at a time.

use super::*;
use DType::*;

/// What one Adam step does to one number: weight, mean, square, largest square.
struct Adam {
    step: f64,
    lr: f64,
    betas: [f64; 2],
    decay: f64,
    eps: f64,
    amsgrad: bool,
    decoupled: bool,
    maximize: bool,
}

impl Adam {
    fn step(&self, [mut w, mut g, mut m, mut v, mut top]: [f64; 5]) -> [f64; 4] {
        g = if self.maximize { -g } else { g };
        if self.decoupled {
            w -= self.lr * self.decay * w;
        } else {
            g += self.decay * w;
        }
        m = self.betas[0] * m + (1.0 - self.betas[0]) * g;
        v = self.betas[1] * v + (1.0 - self.betas[1]) * g * g;
        top = top.max(v);
        let corrections = self.betas.map(|b| 1.0 - b.powf(self.step));
        let second = if self.amsgrad { top } else { v };
        w -= self.lr / corrections[0] * m / ((second / corrections[1]).sqrt() + self.eps);
        [w, m, v, top]
    }
}

fn magnitudes(x: &Array) -> Array {
    only("aten::abs", &[x.into()])
}

#[test]
fn adam() {
    for n in 0..16 {
        let bit = |b: usize| n >> b & 1 == 1;
        let rule = Adam {
            step: 1.0 + n as f64,
            lr: 0.01,
            betas: [0.9, 0.999],
            decay: 0.1,
            eps: 1e-8,
            amsgrad: bit(0),
            decoupled: bit(1),
            maximize: bit(2),
        };
        let scaled = bit(3);
        let state: Vec<Array> = (0..5).map(|s| wave(F32, &[2, 3], s)).collect();
        let [w, g, m, v, top] = &state[..] else { unreachable!() };
        let (v, top) = (magnitudes(v), magnitudes(top));
        let tops = if rule.amsgrad { vec![top.clone()] } else { vec![] };
        let scale = Array::from_f64(F32, &[1], &[4.0]);
        let name = if rule.decoupled { "aten::_fused_adamw_" } else { "aten::_fused_adam_" };
        let one = |x: &Array| TrialArg::List(vec![x.clone()]);
        let call = |found_inf: TrialArg| {
            apply(
                name,
                &[
                    one(w),
                    one(g),
                    one(m),
                    one(&v),
                    TrialArg::List(tops.clone()),
                    one(&Array::from_f64(F32, &[], &[rule.step])),
                    Float(rule.lr),
                    Float(rule.betas[0]),
                    Float(rule.betas[1]),
                    Float(rule.decay),
                    Float(rule.eps),
                    flag(rule.amsgrad),
                    flag(rule.maximize),
                    if scaled { (&scale).into() } else { NONE },
                    found_inf,
                ],
            )
            .unwrap()
        };
        let flagged = |x: f64| TrialArg::from(&Array::from_f64(F32, &[], &[x]));
        let got = call(if scaled { flagged(0.0) } else { NONE });
        assert_eq!(got.len(), 4 + tops.len(), "params, grads, means, squares, largest squares");
        let gradient = |i: usize| g.f64(i) / if scaled { 4.0 } else { 1.0 };
        let all: Vec<[f64; 4]> = (0..6)
            .map(|i| rule.step([w.f64(i), gradient(i), m.f64(i), v.f64(i), top.f64(i)]))
            .collect();
        let column = |c: usize| all.iter().map(|row| row[c]).collect::<Vec<_>>();
        check("weights", &got[0], F32, &[2, 3], &column(0));
        check("gradients", &got[1], F32, &[2, 3], &(0..6).map(gradient).collect::<Vec<_>>());
        check("means", &got[2], F32, &[2, 3], &column(1));
        check("squares", &got[3], F32, &[2, 3], &column(2));
        if rule.amsgrad {
            check("largest squares", &got[4], F32, &[2, 3], &column(3));
        }
        let mut before = vec![w.clone(), g.clone(), m.clone(), v.clone()];
        before.extend(tops.clone());
        assert_eq!(call(flagged(1.0)), before, "a step with infinities is skipped");
    }
}

#[test]
fn adam_of_half_weights_with_a_tensor_rate() {
    let x = |seed| TrialArg::List(vec![wave(BF16, &[3], seed)]);
    let rate = Array::from_f64(F32, &[], &[0.5]);
    let steps = TrialArg::List(vec![Array::from_f64(F32, &[], &[1.0])]);
    let args = [x(1), x(2), x(0), x(0), TrialArg::List(vec![]), steps];
    let rest = [
        (&rate).into(),
        Float(0.9),
        Float(0.99),
        Float(0.0),
        Float(1e-8),
        flag(false),
        flag(false),
    ];
    let got = apply("aten::_fused_adamw_.tensor_lr", &[&args[..], &rest, &[NONE, NONE]].concat())
        .unwrap();
    assert!(got.iter().all(|a| a.ty.dtype == BF16));
}

#[test]
fn sgd() {
    for n in 0..16 {
        let bit = |b: usize| n >> b & 1 == 1;
        let (momentum, nesterov, maximize, first) = (bit(0), bit(1), bit(2), bit(3));
        let (w, g, b) = (wave(F32, &[4], 1), wave(F32, &[4], 2), wave(F32, &[4], 3));
        let buffers = if momentum { vec![b.clone()] } else { vec![] };
        let (decay, mu, lr, damping) = (0.1, if momentum { 0.9 } else { 0.0 }, 0.05, 0.25);
        let got = apply(
            "aten::_fused_sgd_",
            &[
                TrialArg::List(vec![w.clone()]),
                TrialArg::List(vec![g.clone()]),
                TrialArg::List(buffers),
                Float(decay),
                Float(mu),
                Float(lr),
                Float(damping),
                flag(nesterov),
                flag(maximize),
                flag(first),
                NONE,
                NONE,
            ],
        )
        .unwrap();
        let update = |i: usize| {
            let g = (if maximize { -1.0 } else { 1.0 }) * g.f64(i) + decay * w.f64(i);
            let buffer = if first { g } else { mu * b.f64(i) + (1.0 - damping) * g };
            let ahead = if nesterov { g + mu * buffer } else { buffer };
            (w.f64(i) - lr * if momentum { ahead } else { g }, buffer)
        };
        let (weights, buffers): (Vec<f64>, Vec<f64>) = (0..4).map(update).unzip();
        check("weights", &got[0], F32, &[4], &weights);
        assert_eq!(got[1], g);
        if momentum {
            check("buffers", &got[2], F32, &[4], &buffers);
        }
        assert_eq!(got.len(), 2 + momentum as usize);
    }
}

#[test]
fn scaling_of_mixed_precision() {
    let (a, half) = (wave(F32, &[3], 1), wave(F16, &[2], 2));
    let bad = Array::from_f64(F32, &[2], &[1.0, f64::INFINITY]);
    let number = |x: f64| Array::from_f64(F32, &[1], &[x]);
    let call = |list: Vec<Array>, found: f64| {
        let args = [TrialArg::List(list), (&number(found)).into(), (&number(0.5)).into()];
        apply("aten::_amp_foreach_non_finite_check_and_unscale_", &args).unwrap()
    };
    let got = call(vec![a.clone(), half], 0.0);
    check("unscaled", &got[0], F32, &[3], &a.to_f64s().iter().map(|x| x / 2.0).collect::<Vec<_>>());
    assert_eq!((got[1].ty.dtype, got[2].f64(0)), (F16, 0.0));
    assert_eq!(call(vec![a.clone(), bad], 0.0)[2].f64(0), 1.0);
    assert_eq!(call(vec![a], 1.0)[1].f64(0), 1.0);

    for (found, tracker, scale, after) in
        [(0.0, 1.0, 8.0, 2.0), (0.0, 2.0, 16.0, 0.0), (1.0, 2.0, 4.0, 0.0)]
    {
        let count = Array::from_f64(I32, &[1], &[tracker]);
        let args = [
            (&number(8.0)).into(),
            (&count).into(),
            (&number(found)).into(),
            Float(2.0),
            Float(0.5),
            Int(3),
        ];
        let got = apply("aten::_amp_update_scale_", &args).unwrap();
        check("scale", &got[0], F32, &[1], &[scale]);
        check("tracker", &got[1], I32, &[1], &[after]);
    }
}
