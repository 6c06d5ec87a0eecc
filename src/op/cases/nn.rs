//! Softmax and its kin, normalization.

use super::data::{FLOATS, statistic};
use super::*;

pub fn cases() -> Vec<Case> {
    let mut cases = softmax();
    cases.extend(softmax_edges());
    cases.extend(layer_norm());
    cases.extend(layer_norm_edges());
    cases.extend(rms_norm());
    cases.extend(norm_gradients());
    cases.extend(gradients());
    cases
}

pub fn oracle(op: Op) -> Option<Oracle> {
    Some(match op {
        Op::Softmax => |x, _, to| by_rows(&x[0], to, |row, out| out[0].extend(softmax_of(row))),
        Op::LogSoftmax => |x, _, to| {
            by_rows(&x[0], to, |row, out| {
                let [top, sum] = log_sum_exp_of(row);
                out[0].extend(row.iter().map(|v| v - top - sum));
            })
        },
        Op::LogSumExp => |x, _, to| {
            by_rows(&x[0], to, |row, out| {
                let [top, sum] = log_sum_exp_of(row);
                out[0].push(top);
                out[1].push(sum);
            })
        },
        Op::LayerNorm => |x, attrs, to| {
            let [eps, weight, bias] = attrs else { unreachable!() };
            let mut columns = x[1..].iter();
            let weight = weight.bool().then(|| columns.next().unwrap().to_f64s());
            let bias = bias.bool().then(|| columns.next().unwrap().to_f64s());
            by_rows(&x[0], to, |row, out| {
                let mean = row.iter().sum::<f64>() / row.len() as f64;
                let squares = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
                let rstd = (squares - mean * mean + eps.float()).powf(-0.5);
                out[1].push(mean);
                out[2].push(rstd);
                out[0].extend(row.iter().enumerate().map(|(i, v)| {
                    (v - mean) * rstd * weight.as_ref().map_or(1.0, |w| w[i])
                        + bias.as_ref().map_or(0.0, |b| b[i])
                }));
            })
        },
        Op::RmsNorm => |x, attrs, to| {
            let weight = x.get(1).map(Array::to_f64s);
            by_rows(&x[0], to, |row, out| {
                let squares = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
                let rstd = (squares + attrs[0].float()).powf(-0.5);
                out[1].push(rstd);
                let scaled =
                    |(i, v): (usize, &f64)| v * rstd * weight.as_ref().map_or(1.0, |w| w[i]);
                out[0].extend(row.iter().enumerate().map(scaled));
            })
        },
        _ => return None,
    })
}

/// Calls `f` with every row, which it adds to lists of the results' numbers.
fn by_rows(x: &Array, to: &[Ty], f: impl Fn(&[f64], &mut [Vec<f64>])) -> Vec<Array> {
    // The last result is of statistics, or the only one.
    let dtype = if to.len() > 1 { statistic(x.ty.dtype) } else { x.ty.dtype };
    assert_eq!(to[to.len() - 1].dtype, dtype);
    let (width, numbers) = (x.ty.sizes[x.ty.rank() - 1] as usize, x.to_f64s());
    let mut results = vec![Vec::new(); to.len()];
    for row in 0..numbers.len().checked_div(width).unwrap_or(0) {
        f(&numbers[row * width..][..width], &mut results);
    }
    // Rows of nothing.
    if width == 0 {
        for _ in 0..x.ty.sizes[..x.ty.rank() - 1].iter().product::<i64>() {
            f(&[], &mut results);
        }
    }
    results.iter().zip(to).map(|(y, ty)| Array::from_f64(ty.dtype, &ty.sizes, y)).collect()
}

/// The largest number, and the logarithm of the sum of exponentials over it.
fn log_sum_exp_of(row: &[f64]) -> [f64; 2] {
    let top = row.iter().fold(f64::NEG_INFINITY, |top, &v| top.max(v));
    [top, row.iter().map(|v| (v - top).exp()).sum::<f64>().ln()]
}

fn softmax_of(row: &[f64]) -> Vec<f64> {
    let [top, _] = log_sum_exp_of(row);
    let sum: f64 = row.iter().map(|v| (v - top).exp()).sum();
    row.iter().map(|v| (v - top).exp() / sum).collect()
}

fn softmax() -> Vec<Case> {
    // One number; rows of warps in packs and one by one; rows of blocks; rows too long to keep, where packs begin at
    // another place in each.
    let all: [(&[i64], u8); 15] = [
        (&[1], ALL),
        (&[5], HOST),
        (&[2, 3], HOST),
        (&[3, 1], HOST),
        (&[7, 33], ALL),
        (&[2, 3, 64], HOST | CUDA_ALL),
        (&[2, 3, 100], HOST),
        (&[3, 1040], CPU | CUDA_ALL),
        (&[70, 1500], CPU),
        (&[3, 20_000], CPU | CUDA_ALL),
        (&[3, 9001], CPU | CUDA),
        (&[4, 0], ALL),
        (&[0, 4], ALL),
        (&[2, 0], HOST),
        (&[0, 3], HOST),
    ];
    let mut cases = Vec::new();
    for (dtype, (sizes, engines)) in FLOATS.into_iter().flat_map(|d| all.map(|s| (d, s))) {
        let (x, width) = (|| values(dtype, sizes), sizes[sizes.len() - 1] as f64);
        let kernels = Bound::Steps(64.0);
        let mut add = |op, operands: Vec<Operand>, engines, meaning, kernels| {
            let case = case(op, [], operands).on(engines, meaning, kernels);
            cases.push(case);
        };
        add(Op::Softmax, vec![x()], engines, Bound::Epsilons(2.0), kernels.clone());
        add(Op::LogSoftmax, vec![x()], engines, Bound::Epsilons(8.0), kernels.clone());
        if width > 0.0 {
            let parts = Bound::Each(vec![Bound::Bits, Bound::Epsilons(4.0)]);
            add(Op::LogSumExp, vec![x()], engines, parts, kernels);
        }
        for op in [Op::SoftmaxGrad, Op::LogSoftmaxGrad] {
            let steps = Bound::Steps(64.0 + 8.0 * width);
            add(op, vec![x(), x()], engines & !MEANING, Bound::Bits, steps);
        }
    }
    cases
}

fn softmax_edges() -> Vec<Case> {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let mut cases = Vec::new();
    let far: (&[i64], &[f64]) = (&[2, 2], &[1e4, 1e4, 3.0, -inf]);
    for (sizes, numbers) in [far, (&[2], &[-inf, -inf]), (&[2], &[nan, 0.0])] {
        for op in [Op::Softmax, Op::LogSoftmax] {
            let x = exactly(DType::F32, sizes, numbers);
            let (meaning, kernels) = (Bound::Epsilons(1.0), Bound::Steps(64.0));
            let meaning = if op == Op::Softmax { Bound::Bits } else { meaning };
            cases.push(case(op, [], [x]).on(HOST, meaning, kernels));
        }
    }
    let ends = [[1.0, -inf, 2.0], [-inf, -inf, -inf], [1.0, inf, 2.0], [nan, 1.0, 2.0]];
    for (op, n) in [Op::Softmax, Op::LogSoftmax, Op::LogSumExp]
        .iter()
        .flat_map(|op| [3, 9000].map(|n| (op, n)))
    {
        let row = |ends: &[f64; 3]| {
            let mut row = vec![if ends[0] == -inf { -inf } else { 0.5 }; n];
            (row[0], row[n / 2], row[n - 1]) = (ends[0], ends[1], ends[2]);
            row
        };
        let numbers: Vec<f64> = ends.iter().flat_map(row).collect();
        let x = exactly(DType::F32, &[4, n as i64], numbers);
        cases.push(case(*op, [], [x]).on(CPU | CUDA, Bound::Bits, Bound::Steps(64.0)));
    }
    for (n, offset) in [(64, 1), (64, 4), (9001, 2)] {
        let x = values(DType::BF16, &[3, n]).lay(Lay::Shifted(offset));
        cases.push(case(Op::Softmax, [], [x]).on(CPU | CUDA, Bound::Bits, Bound::Steps(64.0)));
    }
    cases
}

/// Rows and columns, and who takes them.
const MATRICES: [([i64; 2], u8); 12] = [
    ([1, 1], ALL),
    ([3, 5], HOST),
    ([3, 8], HOST),
    ([9, 5], HOST | CUDA),
    ([40, 96], CPU | CUDA_ALL),
    ([130, 37], CPU),
    ([3, 1040], CPU | CUDA),
    ([3, 9000], CPU | CUDA_ALL),
    ([1300, 7], CPU),
    ([2200, 8], CPU | CUDA),
    ([0, 4], ALL),
    ([3, 0], CPU | CUDA),
];

fn matrices() -> impl Iterator<Item = (DType, [i64; 2], u8)> {
    FLOATS.into_iter().flat_map(|dtype| MATRICES.map(|(sizes, engines)| (dtype, sizes, engines)))
}

fn layer_attrs(weight: bool, bias: bool) -> [Attr; 3] {
    [Attr::Float(1e-5), Attr::Bool(weight), Attr::Bool(bias)]
}

fn layer_norm() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, sizes, engines) in matrices() {
        // Types of weight and bias.
        let (own, f32) = (Some(dtype), Some(DType::F32));
        for (weight, bias, more) in [
            (None, None, CUDA_ALL | CUDA),
            (own, own, CUDA_ALL | CUDA),
            (f32, None, CUDA_ALL | CUDA),
            (None, f32, CUDA_ALL | CUDA),
            (own, None, 0),
            (None, own, 0),
            (f32, f32, 0),
            (own, f32, 0),
        ] {
            let columns = [weight, bias].into_iter().flatten().map(|d| values(d, &sizes[1..]));
            let operands = [values(dtype, &sizes)].into_iter().chain(columns);
            let attrs = layer_attrs(weight.is_some(), bias.is_some());
            let engines = engines & (HOST | more);
            let (meaning, kernels) = (Bound::Epsilons(8.0), Bound::Steps(200.0));
            cases.push(case(Op::LayerNorm, attrs, operands).on(engines, meaning, kernels));
        }
    }
    cases
}

fn layer_norm_edges() -> Vec<Case> {
    let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
    // Their mean is infinite, too, and what they are normed to is no number.
    let rows = [[1.0, high, 2.0], [low, -1.0, 3.0], [high, low, 0.0], [f64::NAN, 1.0, 2.0]];
    let mut all = vec![([4, 3], rows.as_flattened().to_vec(), 64.0)];
    // Far from zero: the mean is rounded to f32.
    for c in [96, 9000] {
        let numbers = (0..3 * c).map(|i| 1000.0 + (i % 7) as f64 / 8.0).collect();
        all.push(([3, c], numbers, 2e3));
    }
    // A thread has thousands of a row, and every rounding of its sum goes the same way.
    let million = (0..1 << 20).map(|i| if i % 2 == 0 { 1.1 } else { -1.1 }).collect();
    all.push(([1, 1 << 20], million, 8.0));
    let of = |(sizes, numbers, steps): ([i64; 2], Vec<f64>, f64)| {
        let case =
            case(Op::LayerNorm, layer_attrs(false, false), [exactly(DType::F32, &sizes, numbers)]);
        case.on(CPU | CUDA, Bound::Bits, Bound::Steps(steps))
    };
    all.into_iter().map(of).collect()
}

/// A matrix, its weight's types, and who takes them.
fn weighted() -> impl Iterator<Item = (DType, [i64; 2], Option<DType>, u8)> {
    matrices().flat_map(|(dtype, sizes, engines)| {
        [None, Some(dtype), Some(DType::F32)].map(|weight| (dtype, sizes, weight, engines))
    })
}

fn rms_norm() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, sizes, weight, engines) in weighted() {
        for (eps, engines) in [(1e-5, engines), (1e-2, engines & HOST)] {
            let weight = weight.map(|w| values(w, &sizes[1..]));
            let operands = [values(dtype, &sizes)].into_iter().chain(weight);
            let (meaning, kernels) = (Bound::Epsilons(4.0), Bound::Steps(200.0));
            let case = case(Op::RmsNorm, [Attr::Float(eps)], operands);
            cases.push(case.on(engines, meaning, kernels));
        }
    }
    cases
}

fn norm_gradients() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, sizes, weight, engines) in weighted() {
        let matrix = || values(dtype, &sizes);
        let row = || values(statistic(dtype), &sizes[..1]);
        let weight = || weight.map(|w| values(w, &sizes[1..]));
        let operands = [matrix(), matrix(), row(), row()].into_iter().chain(weight());
        let (engines, steps) = (engines & !MEANING, Bound::Steps(400.0));
        let layer = case(Op::LayerNormGrad, [], operands);
        cases.push(layer.on(engines, Bound::Bits, steps.clone()));
        let operands = [matrix(), matrix(), row()].into_iter().chain(weight());
        cases.push(case(Op::RmsNormGrad, [], operands).on(engines, Bound::Bits, steps));
    }
    cases
}

fn gradients() -> Vec<Case> {
    let (x, column) = (|| smooth(&[3, 4]), || smooth(&[4]));
    let layer = |weight, bias| vec![Attr::Float(1e-3), Attr::Bool(weight), Attr::Bool(bias)];
    let rms = || vec![Attr::Float(1e-3)];
    let (once, twice) = (Gradient::Once, Gradient::Twice);
    let all = [
        (Op::Softmax, vec![], vec![x()], twice),
        (Op::LogSoftmax, vec![], vec![x()], twice),
        (Op::Softmax, vec![], vec![smooth(&[2, 0])], twice),
        (Op::SoftmaxGrad, vec![], vec![x(), x()], twice),
        (Op::LogSoftmaxGrad, vec![], vec![x(), x()], twice),
        (Op::LogSumExp, vec![], vec![x()], twice),
        // Their gradients have none.
        (Op::LayerNorm, layer(true, true), vec![x(), column(), column()], once),
        (Op::LayerNorm, layer(false, true), vec![x(), column()], once),
        (Op::LayerNorm, layer(false, false), vec![x()], once),
        (Op::RmsNorm, rms(), vec![x(), column()], once),
        (Op::RmsNorm, rms(), vec![x()], once),
    ];
    let of = |(op, attrs, operands, gradient): (Op, Vec<Attr>, Vec<Operand>, Gradient)| {
        let case = case(op, attrs, operands).on(CPU, Bound::Bits, Bound::Steps(200.0));
        case.differentiated(gradient)
    };
    all.map(of).into()
}
