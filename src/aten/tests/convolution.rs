//! Convolution and pooling rows against the formulas, and their gradients against the definition of an adjoint: for a
//! linear f, `Σ dy · f(x) = Σ dx · x`.

use super::*;
use DType::*;

fn dot(a: &Array, b: &Array) -> f64 {
    assert_eq!(a.ty.sizes, b.ty.sizes);
    a.to_f64s().iter().zip(b.to_f64s()).map(|(x, y)| x * y).sum()
}

fn check_adjoint(what: &str, [dy, y]: [&Array; 2], [dx, x]: [&Array; 2]) {
    let (left, right) = (dot(dy, y), dot(dx, x));
    assert!((left - right).abs() < 1e-9 * (1.0 + left.abs()), "{what}: {left} {right}");
}

fn tail(
    lists: [&[i64]; 3],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Vec<TrialArg> {
    let [stride, padding, dilation] = lists.map(ints);
    vec![stride, padding, dilation, flag(transposed), ints(output_padding), at(groups)]
}

fn convolve(x: &Array, w: &Array, bias: TrialArg, tail: &[TrialArg]) -> Result<Array> {
    let args = [&[x.into(), w.into(), bias], tail].concat();
    apply("aten::convolution", &args).map(|mut y| y.remove(0))
}

fn gradients(dy: &Array, x: &Array, w: &Array, tail: &[TrialArg], mask: [bool; 3]) -> Vec<Array> {
    let operands = [dy.into(), x.into(), w.into(), NONE];
    let args = [&operands[..], tail, &[Plain(Arg::Bools(mask.into()))]].concat();
    apply("aten::convolution_backward", &args).unwrap()
}

#[test]
fn convolution_of_a_row() {
    let x = Array::from_f64(F32, &[1, 1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let w = Array::from_f64(F32, &[2, 1, 2], &[1.0, -1.0, 0.5, 0.5]);
    let bias = Array::from_f64(F32, &[2], &[10.0, 20.0]);
    let y = convolve(&x, &w, (&bias).into(), &tail([&[2], &[1], &[1]], false, &[0], 1)).unwrap();
    check("y", &y, F32, &[1, 2, 3], &[9.0, 9.0, 9.0, 20.5, 22.5, 24.5]);
    // Every element spreads over its window.
    let w = Array::from_f64(F32, &[1, 1, 2], &[1.0, 10.0]);
    let x = Array::from_f64(F32, &[1, 1, 2], &[3.0, 4.0]);
    let y = convolve(&x, &w, NONE, &tail([&[3], &[1], &[1]], true, &[1], 1)).unwrap();
    check("transposed", &y, F32, &[1, 1, 4], &[30.0, 0.0, 4.0, 40.0]);
}

#[test]
fn gradients_are_adjoint() {
    for (x, w, transposed, output_padding, groups) in [
        (&[2, 4, 5, 6][..], &[6, 2, 3, 2][..], false, &[0, 0][..], 2),
        (&[2, 4, 5, 6], &[4, 3, 3, 2], true, &[1, 0], 2),
        // An output padding beyond the stride, which the dilation allows.
        (&[1, 2, 3, 3], &[2, 3, 2, 2], true, &[0, 2], 1),
    ] {
        let (x, w) = (wave(F64, x, 1), wave(F64, w, 2));
        let tail = tail([&[2, 1], &[1, 0], &[1, 3]], transposed, output_padding, groups);
        let y = convolve(&x, &w, NONE, &tail).unwrap();
        let dy = wave(F64, &y.ty.sizes, 3);
        let grads = gradients(&dy, &x, &w, &tail, [true; 3]);
        check_adjoint("dx", [&dy, &y], [&grads[0], &x]);
        check_adjoint("dw", [&dy, &y], [&grads[1], &w]);
        let ones = Array::from_f64(F64, &grads[2].ty.sizes, &vec![1.0; grads[2].len()]);
        assert!((dot(&grads[2], &ones) - dy.to_f64s().iter().sum::<f64>()).abs() < 1e-9);
        let some = gradients(&dy, &x, &w, &tail, [false, true, false]);
        assert_eq!(some[..], grads[1..2]);
    }
}

#[test]
fn half_types_and_single_numbers() {
    let (x, w) = (wave(BF16, &[1, 2, 3, 4, 4], 1), wave(BF16, &[3, 2, 2, 2, 2], 2));
    let bias = wave(BF16, &[3], 3);
    let y = convolve(&x, &w, (&bias).into(), &tail([&[1], &[0], &[1]], false, &[0], 1)).unwrap();
    assert_eq!((y.ty.dtype, &y.ty.sizes[..]), (BF16, &[1, 3, 2, 3, 3][..]));
    let flat = wave(BF16, &[2, 3], 1);
    assert!(convolve(&flat, &w, NONE, &tail([&[1], &[0], &[1]], false, &[0], 1)).is_err());
    assert!(convolve(&x, &w, NONE, &tail([&[1, 1], &[0], &[1]], false, &[0], 1)).is_err());
    let far = tail([&[i64::MAX], &[i64::MIN], &[i64::MAX]], true, &[i64::MAX], 1);
    assert!(convolve(&x, &w, NONE, &far).is_err());
}

#[test]
fn max_pool_and_its_gradient() {
    let x = Array::from_f64(F32, &[1, 3, 3], &[1.0, 5.0, 2.0, 7.0, 3.0, 0.0, 4.0, 8.0, 6.0]);
    let window = [ints(&[2]), ints(&[]), ints(&[0, 1]), ints(&[1]), flag(true)];
    let got = apply("aten::max_pool2d_with_indices", &[&[(&x).into()], &window[..]].concat());
    let got = got.unwrap();
    check("y", &got[0], F32, &[1, 2, 2], &[7.0, 5.0, 4.0, 8.0]);
    check("indices", &got[1], I64, &[1, 2, 2], &[3.0, 1.0, 6.0, 7.0]);
    let dy = Array::from_f64(F32, &[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let operands = [(&dy).into(), (&x).into()];
    let args = [&operands[..], &window, &[(&got[1]).into()]].concat();
    let dx = only("aten::max_pool2d_with_indices_backward", &args);
    check("dx", &dx, F32, &[1, 3, 3], &[0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 3.0, 4.0, 0.0]);
}

/// As PyTorch's CPU kernels say: such a window is -inf, from where it starts, which may be no place
/// in the plane.
#[test]
fn max_pool_of_padding_only() {
    let of = |sizes: &[i64], lists: [&[i64]; 2], want: [&[f64]; 2], of_x: &[f64]| {
        let x = wave(F32, sizes, 0);
        let [padding, dilation] = lists.map(ints);
        let window = [ints(&[2]), ints(&[1]), padding, dilation, flag(false)];
        let got = apply("aten::max_pool2d_with_indices", &[&[(&x).into()], &window[..]].concat());
        let got = got.unwrap();
        assert_eq!([&got[0], &got[1]].map(|array| array.to_f64s()), want);
        let dy = Array::from_f64(F32, &got[0].ty.sizes, &vec![1.0; got[0].len()]);
        let operands = [(&dy).into(), (&x).into()];
        let args = [&operands[..], &window, &[(&got[1]).into()]].concat();
        check("dx", &only("aten::max_pool2d_with_indices_backward", &args), F32, sizes, of_x);
    };
    let inf = f64::NEG_INFINITY;
    of(&[1, 3, 3], [&[1], &[4]], [&[inf], &[12.0]], &[0.0; 9]);
    // Where the place is in the plane, its element has the gradient.
    let places = [6.0, 3.0, 6.0, 9.0, 12.0, 15.0];
    let mut dx = [0.0; 18];
    places.iter().for_each(|&at| dx[at as usize] += 1.0);
    of(&[1, 6, 3], [&[1], &[2, 4]], [&[inf; 6], &places], &dx);
}

fn average(x: &Array, args: &[TrialArg]) -> Array {
    only("aten::avg_pool2d", &[&[x.into()], args].concat())
}

#[test]
fn avg_pool_counts_as_asked() {
    let x = Array::from_f64(F64, &[1, 1, 1, 3], &[1.0, 2.0, 6.0]);
    let window = |padded, divisor| {
        [ints(&[1, 2]), ints(&[1, 2]), ints(&[0, 1]), flag(false), flag(padded), divisor]
    };
    let both = average(&x, &window(true, NONE));
    check("with padding", &both, F64, &[1, 1, 1, 2], &[0.5, 4.0]);
    let inside = average(&x, &window(false, NONE));
    check("without", &inside, F64, &[1, 1, 1, 2], &[1.0, 4.0]);
    let divided = average(&x, &window(true, at(4)));
    check("divided", &divided, F64, &[1, 1, 1, 2], &[0.25, 2.0]);
    // The last window hangs over the end of the padding: only what is within counts.
    let hanging = [ints(&[1, 3]), ints(&[1, 2]), ints(&[0, 1]), flag(true), flag(true), NONE];
    let y = average(&wave(F64, &[1, 1, 1, 4], 0), &hanging);
    let x = wave(F64, &[1, 1, 1, 4], 0).to_f64s();
    let want = [(x[0] + x[1]) / 3.0, (x[1] + x[2] + x[3]) / 3.0, x[3] / 2.0];
    check("hanging", &y, F64, &[1, 1, 1, 3], &want);
    let x = wave(F64, &[2, 3, 5, 4], 1);
    for args in [window(true, NONE), window(false, NONE), window(false, at(-3))] {
        let y = average(&x, &args);
        let dy = wave(F64, &y.ty.sizes, 2);
        let operands = [(&dy).into(), (&x).into()];
        let dx = only("aten::avg_pool2d_backward", &[&operands[..], &args].concat());
        check_adjoint("dx", [&dy, &y], [&dx, &x]);
    }
    let none = [ints(&[1]), ints(&[]), ints(&[0]), flag(false), flag(true), at(0)];
    assert!(apply("aten::avg_pool2d", &[&[(&x).into()], &none[..]].concat()).is_err());
}

#[test]
fn adaptive_averages() {
    let x = wave(F64, &[2, 5, 6], 1);
    for (outputs, name) in [([5, 2], "side by side"), ([3, 4], "overlapping"), ([7, 1], "repeated")]
    {
        let y = only("aten::_adaptive_avg_pool2d", &[(&x).into(), ints(&outputs)]);
        let mut want = Vec::new();
        for plane in 0..2 {
            for (i, j) in (0..outputs[0]).flat_map(|i| (0..outputs[1]).map(move |j| (i, j))) {
                let range =
                    |at: i64, n: i64, size: i64| at * size / n..((at + 1) * size + n - 1) / n;
                let (rows, columns) = (range(i, outputs[0], 5), range(j, outputs[1], 6));
                let count = (rows.end - rows.start) * (columns.end - columns.start);
                let inside = rows.flat_map(|r| columns.clone().map(move |c| (r, c)));
                let sum: f64 = inside.map(|(r, c)| x.f64((plane * 30 + r * 6 + c) as usize)).sum();
                want.push(sum / count as f64);
            }
        }
        check(name, &y, F64, &[2, outputs[0], outputs[1]], &want);
        let dy = wave(F64, &y.ty.sizes, 2);
        let dx = only("aten::_adaptive_avg_pool2d_backward", &[(&dy).into(), (&x).into()]);
        check_adjoint(name, [&dy, &y], [&dx, &x]);
    }
}
