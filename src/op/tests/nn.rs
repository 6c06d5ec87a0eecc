//! Composites against their parts and their gradients against finite differences in f64.

use super::*;
use crate::op::nn::Cell;
use std::slice::from_ref;

/// `op` in f64, as a plain function of the values of its first operands.
pub fn forward<'a>(
    op: Op,
    operands: &'a [Array],
    attrs: &'a [Attr],
) -> impl Fn(&[Array]) -> Vec<Array> + 'a {
    move |changed: &[Array]| {
        let all: Vec<&Array> = changed.iter().chain(&operands[changed.len()..]).collect();
        run(op, &all, attrs).unwrap()
    }
}

/// Derivative of `sum(weights * f(x)[0])` with respect to every element of the operands `x`, by central differences.
pub fn differences(f: impl Fn(&[Array]) -> Vec<Array>, x: &[Array], weights: &Array) -> Vec<Array> {
    let loss = |x: &[Array]| -> f64 {
        f(x)[0].to_f64s().iter().zip(weights.to_f64s()).map(|(y, w)| y * w).sum()
    };
    let step = 1e-5;
    let mut gradients: Vec<Array> = x.iter().map(|a| Array::zeros(&a.ty)).collect();
    for (n, gradient) in gradients.iter_mut().enumerate() {
        for i in 0..gradient.len() {
            let mut moved = x.to_vec();
            moved[n].set_f64(i, x[n].f64(i) + step);
            let above = loss(&moved);
            moved[n].set_f64(i, x[n].f64(i) - step);
            gradient.set_f64(i, (above - loss(&moved)) / (2.0 * step));
        }
    }
    gradients
}

/// Central differences with step 1e-5 are good to about 1e-9.
pub const DIFFERENCES: f64 = 1e-8 / f64::EPSILON;

#[test]
fn softmax_is_the_textbook_formula() {
    for (dtype, sizes) in FLOATS
        .into_iter()
        .flat_map(|d| [&[5][..], &[2, 3], &[2, 0], &[0, 3], &[3, 1]].map(|s| (d, s)))
    {
        let x = Numbers(20).floats(dtype, sizes);
        let width = *sizes.last().unwrap() as usize;
        let exps: Vec<f64> = x.to_f64s().iter().map(|v| v.exp()).collect();
        let sum = |i: usize| exps[i / width * width..][..width].iter().sum::<f64>();
        let y: Vec<f64> = (0..exps.len()).map(|i| exps[i] / sum(i)).collect();
        let log: Vec<f64> = y.iter().map(|v| v.ln()).collect();
        assert_close(
            "softmax",
            &one(Op::Softmax, &[&x], &[]),
            &Array::from_f64(dtype, sizes, &y),
            2.0,
        );
        assert_close(
            "log_softmax",
            &one(Op::LogSoftmax, &[&x], &[]),
            &Array::from_f64(dtype, sizes, &log),
            8.0,
        );
        if width == 0 {
            continue;
        }
        let parts = run(Op::LogSumExp, &[&x], &[]).unwrap();
        for (row, values) in x.to_f64s().chunks(width).enumerate() {
            let top = values.iter().fold(f64::MIN, |a, &v| a.max(v));
            let sum = values.iter().map(|v| v.exp()).sum::<f64>().ln();
            assert_eq!(parts[0].f64(row), top);
            let error = (parts[1].f64(row) - (sum - top)).abs();
            assert!(error <= 4.0 * epsilon(parts[1].ty.dtype) * (1.0 + sum.abs() + top.abs()));
        }
    }
    let large = Array::from_f64(F32, &[2, 2], &[1e4, 1e4, 3.0, f64::NEG_INFINITY]);
    check(Op::Softmax, &[&large], &[], &Array::from_f64(F32, &[2, 2], &[0.5, 0.5, 1.0, 0.0]));
    let nothing = Array::from_f64(F32, &[2], &[f64::NEG_INFINITY; 2]);
    assert!(one(Op::Softmax, &[&nothing], &[]).f64(0).is_nan());
    let nan = Array::from_f64(F32, &[2], &[f64::NAN, 0.0]);
    assert!(one(Op::LogSoftmax, &[&nan], &[]).to_f64s().iter().all(|v| v.is_nan()));
}

#[test]
fn softmax_gradients() {
    let mut numbers = Numbers(21);
    let (x, dy) = (numbers.floats(F64, &[2, 4]), numbers.floats(F64, &[2, 4]));
    for (op, grad) in [(Op::Softmax, Op::SoftmaxGrad), (Op::LogSoftmax, Op::LogSoftmaxGrad)] {
        let want = differences(forward(op, from_ref(&x), &[]), from_ref(&x), &dy);
        let got = one(grad, &[&dy, &one(op, &[&x], &[])], &[]);
        assert_close(grad.name(), &got, &want[0], DIFFERENCES);
    }
}

#[test]
fn layer_norm_normalises() {
    for dtype in FLOATS {
        let mut numbers = Numbers(22);
        let x = numbers.floats(dtype, &[3, 8]);
        let (weight, bias) = (numbers.floats(dtype, &[8]), numbers.floats(F32, &[8]));
        let attrs = |w, b| [Attr::Float(1e-5), Attr::Bool(w), Attr::Bool(b)];
        let plain = run(Op::LayerNorm, &[&x], &attrs(false, false)).unwrap();
        let full = run(Op::LayerNorm, &[&x, &weight, &bias], &attrs(true, true)).unwrap();
        let shifted = run(Op::LayerNorm, &[&x, &bias], &attrs(false, true)).unwrap();
        let statistics = if dtype == F64 { F64 } else { F32 };
        for row in 0..3 {
            let values = &x.to_f64s()[row * 8..row * 8 + 8];
            let mean = values.iter().sum::<f64>() / 8.0;
            let squares = values.iter().map(|v| v * v).sum::<f64>() / 8.0;
            let rstd = (squares - mean * mean + 1e-5).powf(-0.5);
            let close = |got: f64, want: f64, dtype: DType| {
                assert!(
                    (got - want).abs() <= 8.0 * epsilon(dtype) * want.abs().max(1.0),
                    "{got} {want}"
                );
            };
            close(plain[1].f64(row), mean, statistics);
            close(plain[2].f64(row), rstd, statistics);
            for (i, v) in values.iter().enumerate() {
                let y = (v - mean) * rstd;
                close(plain[0].f64(row * 8 + i), y, dtype);
                close(shifted[0].f64(row * 8 + i), y + bias.f64(i), dtype);
                close(full[0].f64(row * 8 + i), y * weight.f64(i) + bias.f64(i), dtype);
            }
        }
        assert_eq!(plain[1].ty, Ty::new(statistics, &[3]));
    }
    let empty = Array::zeros(&Ty::new(F32, &[0, 4]));
    let attrs = [Attr::Float(1e-5), Attr::Bool(false), Attr::Bool(false)];
    assert!(run(Op::LayerNorm, &[&empty], &attrs).unwrap().iter().all(Array::is_empty));
}

#[test]
fn layer_norm_gradients() {
    let mut numbers = Numbers(23);
    let operands =
        [numbers.floats(F64, &[3, 4]), numbers.floats(F64, &[4]), numbers.floats(F64, &[4])];
    let dy = numbers.floats(F64, &[3, 4]);
    let attrs = [Attr::Float(1e-5), Attr::Bool(true), Attr::Bool(true)];
    let y = run(Op::LayerNorm, &operands.each_ref(), &attrs).unwrap();
    let want = differences(forward(Op::LayerNorm, &operands, &attrs), &operands, &dy);
    let inputs = [&dy, &operands[0], &y[1], &y[2], &operands[1]];
    let got = run(Op::LayerNormGrad, &inputs, &[]).unwrap();
    for (got, want) in got.iter().zip(&want) {
        assert_close("layer_norm_grad", got, want, DIFFERENCES);
    }
    let plain = [Attr::Float(1e-5), Attr::Bool(false), Attr::Bool(false)];
    let want = differences(forward(Op::LayerNorm, &operands[..1], &plain), &operands[..1], &dy);
    let got = run(Op::LayerNormGrad, &inputs[..4], &[]).unwrap();
    assert_close("without weight", &got[0], &want[0], DIFFERENCES);
    assert_eq!(got[1].ty, Ty::new(F64, &[4]));
}

#[test]
fn rms_norm_is_the_textbook_formula() {
    for dtype in FLOATS {
        let mut numbers = Numbers(24);
        let (x, weight) = (numbers.floats(dtype, &[3, 8]), numbers.floats(F32, &[8]));
        let eps = [Attr::Float(1e-2)];
        let plain = run(Op::RmsNorm, &[&x], &eps).unwrap();
        let weighted = run(Op::RmsNorm, &[&x, &weight], &eps).unwrap();
        let values = x.to_f64s();
        let rstd = |row: usize| {
            let squares = values[row * 8..row * 8 + 8].iter().map(|v| v * v).sum::<f64>();
            (squares / 8.0 + 1e-2).powf(-0.5)
        };
        let y: Vec<f64> = (0..24).map(|i| values[i] * rstd(i / 8)).collect();
        let scaled: Vec<f64> = (0..24).map(|i| y[i] * weight.f64(i % 8)).collect();
        let statistics = if dtype == F64 { F64 } else { F32 };
        let of_rows = Array::from_f64(statistics, &[3], &[0, 1, 2].map(rstd));
        assert_close("rms_norm", &plain[0], &Array::from_f64(dtype, &[3, 8], &y), 4.0);
        assert_close("weighted", &weighted[0], &Array::from_f64(dtype, &[3, 8], &scaled), 4.0);
        assert_close("rstd", &plain[1], &of_rows, 4.0);
    }
}

#[test]
fn rms_norm_gradients() {
    let mut numbers = Numbers(25);
    let operands = [numbers.floats(F64, &[3, 4]), numbers.floats(F64, &[4])];
    let dy = numbers.floats(F64, &[3, 4]);
    let eps = [Attr::Float(1e-5)];
    let rstd = run(Op::RmsNorm, &operands.each_ref(), &eps).unwrap().remove(1);
    let want = differences(forward(Op::RmsNorm, &operands, &eps), &operands, &dy);
    let inputs = [&dy, &operands[0], &rstd, &operands[1]];
    let got = run(Op::RmsNormGrad, &inputs, &[]).unwrap();
    for (got, want) in got.iter().zip(&want) {
        assert_close("rms_norm_grad", got, want, DIFFERENCES);
    }
    let want = differences(forward(Op::RmsNorm, &operands[..1], &eps), &operands[..1], &dy);
    let got = run(Op::RmsNormGrad, &inputs[..3], &[]).unwrap();
    assert_close("without weight", &got[0], &want[0], DIFFERENCES);
}

fn number(v: i64) -> Array {
    let mut a = Array::zeros(&Ty::new(I64, &[]));
    a.set_i64(0, v);
    a
}

fn attention_attrs(scale: f64, causal: bool, dropout: f64) -> [Attr; 3] {
    [Attr::Float(scale), Attr::Bool(causal), Attr::Float(dropout)]
}

/// `q[2,4,3,5]`, `k[2,2,6,5]`, `v[2,2,6,4]`: two query heads to each key head.
fn attention_operands(dtype: DType) -> Vec<Array> {
    let mut numbers = Numbers(24);
    let (q, k) = (numbers.floats(dtype, &[2, 4, 3, 5]), numbers.floats(dtype, &[2, 2, 6, 5]));
    vec![q, k, numbers.floats(dtype, &[2, 2, 6, 4]), number(9), number(3)]
}

/// The same in other primitives: repeated heads, matmul, mask, softmax, dropout, matmul. Output and log-sum-exp.
fn by_parts(x: &[Array], causal: bool, dropout: f64, scale: f64) -> (Array, Array) {
    let heads = Array::from_f64(I64, &[4], &[0.0, 0.0, 1.0, 1.0]);
    let repeat = |a: &Array| one(Op::Take, &[a, &heads], &[Attr::Int(1)]);
    let kt = one(Op::Transpose, &[&repeat(&x[1])], &[ints(&[0, 1, 3, 2])]);
    let mut scores = one(Op::Matmul, &[&x[0], &kt], &[]);
    let full = scores.ty.sizes.clone();
    for (i, at) in coordinates(&full).iter().enumerate() {
        let bias = x.get(5).map_or(0.0, |b| {
            let clipped: Vec<i64> =
                at.iter().zip(&b.ty.sizes).map(|(&i, &s)| i.min(s - 1)).collect();
            let v = b.f64(flat(&b.ty.sizes, &clipped));
            match b.ty.dtype {
                Bool if v != 0.0 => 0.0,
                I32 if (at[3] as f64) < v => 0.0,
                Bool | I32 => f64::NEG_INFINITY,
                _ => v,
            }
        });
        let hidden = if causal && at[3] > at[2] { f64::NEG_INFINITY } else { 0.0 };
        scores.set_f64(i, scores.f64(i) * scale + bias + hidden);
    }
    let exps = one(Op::Exp, &[&scores], &[]);
    let lse = one(Op::Log, &[&one(Op::Sum, &[&exps], &[ints(&[3])])], &[]);
    let mut weights = one(Op::Softmax, &[&scores], &[]);
    let random = one(Op::Random, &[&x[3], &x[4]], &[ints(&full)]);
    for i in 0..weights.len() {
        let p = if weights.f64(i).is_nan() { 0.0 } else { weights.f64(i) };
        weights.set_f64(i, if random.f64(i) >= dropout { p / (1.0 - dropout) } else { 0.0 });
    }
    (one(Op::Matmul, &[&weights, &repeat(&x[2])], &[]), lse)
}

fn biases() -> Vec<Option<Array>> {
    let mut numbers = Numbers(25);
    let mut mask = numbers.indices(Bool, &[2, 1, 3, 6], 2);
    // A query that sees nothing at all.
    (0..6).for_each(|j| mask.set_i64(j, 0));
    let row = numbers.indices(Bool, &[1, 1, 1, 6], 2);
    let lengths = Array::from_f64(I32, &[2, 1, 1, 1], &[4.0, 0.0]);
    let length = Array::from_f64(I32, &[1, 1, 1, 1], &[9.0]);
    let bias = numbers.floats(F64, &[1, 4, 3, 6]);
    vec![None, Some(bias), Some(mask), Some(row), Some(lengths), Some(length)]
}

#[test]
fn attention_is_the_sum_of_its_parts() {
    for (bias, causal) in biases().into_iter().flat_map(|b| [false, true].map(|c| (b.clone(), c))) {
        for dropout in [0.0, 0.4] {
            let mut x = attention_operands(F64);
            x.extend(bias.clone());
            let attrs = attention_attrs(0.3, causal, dropout);
            let got = run(Op::Attention, &x.iter().collect::<Vec<_>>(), &attrs).unwrap();
            let (out, lse) = by_parts(&x, causal, dropout, 0.3);
            let what = format!(
                "causal {causal}, dropout {dropout}, bias {:?}",
                bias.as_ref().map(|b| &b.ty)
            );
            assert_close(&what, &got[0], &out, 32.0);
            assert_close(&what, &got[1], &lse, 32.0);
        }
    }
}

#[test]
fn attention_edges() {
    let x = attention_operands(BF16);
    let all: Vec<&Array> = x.iter().collect();
    let got = run(Op::Attention, &all, &attention_attrs(1.0, false, 0.0)).unwrap();
    assert_eq!((got[0].ty.dtype, got[1].ty.dtype), (BF16, F32));
    let dropped = run(Op::Attention, &all, &attention_attrs(1.0, false, 1.0)).unwrap();
    assert!(dropped[0].to_f64s().iter().all(|&v| v == 0.0));
    let empty = |sizes: &[i64]| Array::zeros(&Ty::new(F32, sizes));
    let (q, k) = (empty(&[1, 2, 3, 4]), empty(&[1, 2, 0, 4]));
    let seen =
        run(Op::Attention, &[&q, &k, &k, &x[3], &x[4]], &attention_attrs(1.0, false, 0.0)).unwrap();
    assert_eq!(seen[0], q);
    assert!(seen[1].to_f64s().iter().all(|&v| v == f64::NEG_INFINITY));
}

#[test]
fn attention_gradients() {
    for (bias, causal) in biases().into_iter().flat_map(|b| [false, true].map(|c| (b.clone(), c))) {
        for dropout in [0.0, 0.4] {
            let mut x = attention_operands(F64);
            x.extend(bias.clone());
            let attrs = attention_attrs(0.3, causal, dropout);
            let y = run(Op::Attention, &x.iter().collect::<Vec<_>>(), &attrs).unwrap();
            let dout = Numbers(26).floats(F64, &y[0].ty.sizes);
            let want = differences(forward(Op::Attention, &x, &attrs), &x[..3], &dout);
            let mut inputs = vec![&dout, &x[0], &x[1], &x[2], &y[0], &y[1]];
            inputs.extend(&x[3..]);
            let got = run(Op::AttentionGrad, &inputs, &attrs).unwrap();
            for (got, want) in got.iter().zip(&want) {
                assert_close("attention_grad", got, want, DIFFERENCES);
            }
        }
    }
}

#[test]
fn recurrent_layers_are_the_textbook_formulas_one_unit_at_a_time() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    for (cell, reverse) in Cell::ALL.into_iter().flat_map(|c| [false, true].map(|r| (c, r))) {
        // One unit and one row, where products are products of two numbers.
        let (n, time) = (cell.gates(), 3);
        let mut numbers = Numbers(61);
        let [gates, w] =
            [[time, n], [1, n]].map(|[a, b]| numbers.floats(F64, &[a as i64, 1, b as i64]));
        let w = Array { ty: Ty::new(F64, &[n as i64, 1]), ..w };
        let [hidden, more] = [0, 1].map(|_| numbers.floats(F64, &[1, 1]));
        let bias = Array { ty: Ty::new(F64, &[1]), ..more.clone() };
        let (mut h, mut c) = (hidden.f64(0), more.f64(0));
        let mut want = vec![0.0; time];
        for step in 0..time {
            let t = if reverse { time - 1 - step } else { step };
            let x = |k: usize| gates.f64(t * n + k);
            let both = |k: usize| x(k) + w.f64(k) * h;
            h = match cell {
                Cell::Tanh => both(0).tanh(),
                Cell::Relu => both(0).max(0.0),
                Cell::Lstm => {
                    c = sigmoid(both(1)) * c + sigmoid(both(0)) * both(2).tanh();
                    sigmoid(both(3)) * c.tanh()
                }
                Cell::Gru => {
                    let inner = w.f64(2) * h + bias.f64(0);
                    let new = (x(2) + sigmoid(both(0)) * inner).tanh();
                    (1.0 - sigmoid(both(1))) * new + sigmoid(both(1)) * h
                }
            };
            want[t] = h;
        }
        let mut operands = vec![&gates, &w, &hidden];
        match cell {
            Cell::Lstm => operands.push(&more),
            Cell::Gru => operands.push(&bias),
            Cell::Tanh | Cell::Relu => {}
        }
        let y = run(Op::Recurrent, &operands, &[cell.attr(), Attr::Bool(reverse)]).unwrap();
        let want = Array::from_f64(F64, &[time as i64, 1, 1], &want);
        assert_close(&format!("{cell:?}"), &y[0], &want, 16.0);
        if cell == Cell::Lstm {
            assert_close("cell", &y[1], &Array::from_f64(F64, &[1, 1], &[c]), 16.0);
        }
    }
}
