//! Gradients of composites against finite differences in f64.

use super::*;
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
