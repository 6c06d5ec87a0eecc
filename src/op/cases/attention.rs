//! Attention and its gradient.

use super::data::{FLOATS, coordinates, flat, statistic};
use super::*;

/// `[b, h, g, t, s, d, e]`, causal, dropout, bias.
pub type Heads = ([i64; 7], bool, f64, Option<(DType, [i64; 4])>);

pub const HEADS: [Heads; 14] = [
    ([1, 1, 1, 1, 1, 1, 1], false, 0.0, None),
    ([2, 3, 3, 7, 11, 5, 6], false, 0.0, None),
    ([2, 4, 2, 9, 9, 8, 8], true, 0.0, None),
    ([1, 2, 1, 70, 130, 4, 3], true, 0.0, None),
    ([1, 2, 2, 130, 70, 4, 3], true, 0.0, None),
    ([2, 2, 1, 5, 6, 4, 4], false, 0.4, Some((DType::F32, [2, 1, 5, 6]))),
    ([2, 2, 2, 66, 40, 4, 4], true, 0.25, Some((DType::Bool, [1, 2, 1, 40]))),
    ([1, 2, 2, 5, 6, 4, 4], false, 0.0, Some((DType::Bool, [1, 1, 5, 6]))),
    ([1, 2, 2, 5, 6, 4, 4], false, 0.0, Some((DType::BF16, [1, 2, 5, 1]))),
    ([3, 2, 1, 5, 6, 4, 4], false, 0.0, Some((DType::I32, [3, 1, 1, 1]))),
    ([2, 2, 2, 66, 40, 4, 4], true, 0.25, Some((DType::I32, [2, 1, 1, 1]))),
    ([2, 2, 2, 5, 6, 4, 4], false, 0.0, Some((DType::I32, [1, 1, 1, 1]))),
    ([1, 2, 2, 0, 6, 4, 4], false, 0.0, None),
    ([1, 2, 2, 5, 0, 4, 4], false, 0.0, None),
];

pub fn cases() -> Vec<Case> {
    let mut cases = parts();
    cases.extend(edges());
    for dtype in FLOATS {
        cases.extend(HEADS.into_iter().flat_map(|heads| of(dtype, heads, CPU | CUDA_ALL)));
        let panels = [
            ([1, 2, 1, 67, 200, 20, 36], false, 0.0, Some((DType::F32, [1, 1, 67, 200]))),
            ([1, 1, 1, 150, 150, 64, 64], true, 0.0, None),
            ([1, 2, 2, 70, 90, 8, 16], false, 0.0, Some((DType::Bool, [1, 1, 1, 90]))),
        ];
        cases.extend(panels.into_iter().flat_map(|heads| of(dtype, heads, CPU)));
    }
    // Of all widths.
    for (dtype, d, e) in
        [(DType::F32, 40, 48), (DType::F32, 200, 256), (DType::F64, 129, 30), (DType::BF16, 100, 9)]
    {
        let heads = ([1, 1, 1, 35, 37, d, e], true, 0.0, None);
        for (case, steps) in of(dtype, heads, CPU | CUDA_ALL).into_iter().zip([300.0, 2000.0]) {
            cases.push(Case { cuda: Some(Bound::Steps(steps)), ..case });
        }
    }
    // Tiles of tensor cores.
    let some = |dtype, sizes| Some((dtype, sizes));
    for (dtype, heads) in [
        (DType::BF16, ([1, 2, 1, 70, 130, 64, 64], true, 0.0, None)),
        (DType::F16, ([2, 1, 1, 130, 70, 40, 56], true, 0.3, some(DType::Bool, [2, 1, 1, 70]))),
        (DType::BF16, ([3, 2, 2, 70, 130, 64, 64], false, 0.0, some(DType::I32, [3, 1, 1, 1]))),
        (DType::F16, ([2, 2, 1, 70, 70, 128, 128], true, 0.0, some(DType::I32, [1, 1, 1, 1]))),
        (DType::BF16, ([1, 1, 1, 70, 40, 128, 120], false, 0.2, some(DType::F32, [1, 1, 70, 40]))),
    ] {
        cases.extend(of(dtype, heads, CPU | CUDA_ALL));
    }
    cases.extend(gradients());
    cases
}

pub fn attrs(scale: f64, causal: bool, dropout: f64) -> [Attr; 3] {
    [Attr::Float(scale), Attr::Bool(causal), Attr::Float(dropout)]
}

/// Tensor cores take probabilities and gradients of scores as half types.
pub fn rounded(dtype: DType, steps: f64) -> f64 {
    steps + 4.0 * epsilon(dtype) / compute_epsilon(dtype)
}

/// Attention with such heads, and its gradient.
pub fn of(dtype: DType, heads: Heads, engines: u8) -> [Case; 2] {
    let ([b, h, g, t, s, d, e], causal, dropout, bias) = heads;
    let forward = || {
        let mut operands = vec![
            values(dtype, &[b, h, t, d]),
            values(dtype, &[b, g, s, d]),
            values(dtype, &[b, g, s, e]),
            number(1234),
            number(5),
        ];
        operands.extend(bias.map(|(dtype, sizes)| {
            let n = sizes.iter().product();
            // Some rows have nothing to see.
            match dtype {
                DType::Bool => {
                    let seen: Vec<f64> =
                        (0..n).map(|i| (i % 3 == 1 && i > 5) as u8 as f64).collect();
                    exactly(dtype, &sizes, seen)
                }
                DType::I32 => {
                    let seen: Vec<f64> =
                        (0..n).map(|i| [s / 2 + 1, s + 3, 0][i as usize % 3] as f64).collect();
                    exactly(dtype, &sizes, seen)
                }
                _ => values(dtype, &sizes),
            }
        }));
        case(Op::Attention, attrs(1.0 / (d as f64).sqrt(), causal, dropout), operands)
    };
    let shared = Rc::new(forward());
    let mut operands = vec![values(dtype, &shared.results()[0].sizes)];
    operands.extend([0, 1, 2].map(|n| operand_of(&shared, n)));
    operands.extend([0, 1].map(|n| result_of(&shared, n)));
    operands.extend((3..shared.operands.len()).map(|n| operand_of(&shared, n)));
    let backward = case(Op::AttentionGrad, shared.attrs.clone(), operands);
    let bounded = |case: Case, steps| {
        let case = case.on(engines, Bound::Bits, Bound::Steps(steps));
        Case { cuda: case.cuda.map(|_| Bound::Steps(rounded(dtype, steps))), ..case }
    };
    [bounded(forward(), 300.0), bounded(backward, 2000.0)]
}

/// Two query heads to each key head, with every kind of bias.
fn parts() -> Vec<Case> {
    let dtype = DType::F64;
    // A query that sees nothing at all.
    let mask: Vec<f64> = (0..36).map(|i| (i >= 6 && i * 7 % 3 != 0) as u8 as f64).collect();
    let biases: [&dyn Fn() -> Option<Operand>; 6] = [
        &|| None,
        &|| Some(values(dtype, &[1, 4, 3, 6])),
        &|| Some(exactly(DType::Bool, &[2, 1, 3, 6], mask.clone())),
        &|| Some(exactly(DType::Bool, &[1, 1, 1, 6], [1.0, 0.0, 0.0, 1.0, 1.0, 0.0])),
        &|| Some(exactly(DType::I32, &[2, 1, 1, 1], [4.0, 0.0])),
        &|| Some(exactly(DType::I32, &[1, 1, 1, 1], [9.0])),
    ];
    let mut cases = Vec::new();
    for (bias, causal) in biases.into_iter().flat_map(|b| [false, true].map(|c| (b, c))) {
        for dropout in [0.0, 0.4] {
            let (q, k) = (values(dtype, &[2, 4, 3, 5]), values(dtype, &[2, 2, 6, 5]));
            let operands = [q, k, values(dtype, &[2, 2, 6, 4]), number(9), number(3)];
            let operands = operands.into_iter().chain(bias());
            let case = case(Op::Attention, attrs(0.3, causal, dropout), operands);
            cases.push(case.on(HOST, Bound::Epsilons(32.0), Bound::Steps(300.0)));
        }
    }
    cases
}

fn edges() -> Vec<Case> {
    let mut cases = Vec::new();
    // All is dropped.
    for dropout in [0.0, 1.0] {
        let of = |sizes: &[i64]| values(DType::BF16, sizes);
        let operands =
            [of(&[2, 4, 3, 5]), of(&[2, 2, 6, 5]), of(&[2, 2, 6, 4]), number(9), number(3)];
        let case = case(Op::Attention, attrs(1.0, false, dropout), operands);
        cases.push(case.on(HOST, Bound::Epsilons(32.0), Bound::Steps(300.0)));
    }
    // There are no keys.
    let of = |sizes: &[i64]| values(DType::F32, sizes);
    let operands = [of(&[1, 2, 3, 4]), of(&[1, 2, 0, 4]), of(&[1, 2, 0, 4]), number(9), number(3)];
    cases.push(case(Op::Attention, attrs(1.0, false, 0.0), operands).exactly_on(HOST));
    cases
}

pub fn oracle(op: Op) -> Option<Oracle> {
    (op == Op::Attention).then_some(attention)
}

/// Scores, masks, softmax, dropout and sums of values, a number at a time.
fn attention(x: &[Array], attrs: &[Attr], to: &[Ty]) -> Vec<Array> {
    let [scale, causal, dropout] = attrs else { unreachable!() };
    let [q, k, v] = [0, 1, 2].map(|n| &x[n]);
    assert_eq!((to[0].dtype, to[1].dtype), (q.ty.dtype, statistic(q.ty.dtype)));
    let (heads, groups, keys) = (q.ty.sizes[1], k.ty.sizes[1], k.ty.sizes[2]);
    let full = [q.ty.sizes[0], heads, q.ty.sizes[2], keys];
    let random = Ty::new(DType::F32, &full);
    let random =
        evaluate(Op::Random, &[&x[3], &x[4]], &[ints(&full)], &[random]).unwrap().remove(0);
    let number = |a: &Array, at: [i64; 4]| a.f64(flat(&a.ty.sizes, &at));
    let score = |b: i64, h: i64, t: i64, s: i64| {
        let g = h / (heads / groups);
        let term = |d: i64| number(q, [b, h, t, d]) * number(k, [b, g, s, d]);
        let product: f64 = (0..q.ty.sizes[3]).map(term).sum();
        let bias = x.get(5).map_or(0.0, |bias| {
            let at = [b, h, t, s];
            let clipped = [0, 1, 2, 3].map(|d| at[d].min(bias.ty.sizes[d] - 1));
            let v = number(bias, clipped);
            match bias.ty.dtype {
                DType::Bool if v != 0.0 => 0.0,
                DType::I32 if (s as f64) < v => 0.0,
                DType::Bool | DType::I32 => f64::NEG_INFINITY,
                _ => v,
            }
        });
        let hidden = if causal.bool() && s > t { f64::NEG_INFINITY } else { 0.0 };
        product * scale.float() + bias + hidden
    };
    let (mut out, mut lse) = (Vec::new(), Vec::new());
    for at in coordinates(&full[..3]) {
        let [b, h, t] = [at[0], at[1], at[2]];
        let exps: Vec<f64> = (0..keys).map(|s| score(b, h, t, s).exp()).collect();
        let sum: f64 = exps.iter().sum();
        lse.push(sum.ln());
        let weight = |s: i64| {
            let kept = number(&random, [b, h, t, s]) >= dropout.float();
            let p = if sum == 0.0 { 0.0 } else { exps[s as usize] / sum };
            if kept { p / (1.0 - dropout.float()) } else { 0.0 }
        };
        let weights: Vec<f64> = (0..keys).map(weight).collect();
        for e in 0..v.ty.sizes[3] {
            let term = |s: i64| weights[s as usize] * number(v, [b, h / (heads / groups), s, e]);
            out.push((0..keys).map(term).fold(0.0, |sum, term| sum + term));
        }
    }
    let out = Array::from_f64(to[0].dtype, &to[0].sizes, &out);
    vec![out, Array::from_f64(to[1].dtype, &to[1].sizes, &lse)]
}

fn gradients() -> Vec<Case> {
    let visible: Vec<f64> = (0..15).map(|i| (i % 5 < 4) as u8 as f64).collect();
    let all = [
        (false, 0.0, Some(exactly(DType::Bool, &[1, 1, 3, 5], visible))),
        (false, 0.0, Some(exactly(DType::I32, &[1; 4], [4.0]))),
        (true, 0.3, None),
    ];
    let of = |(causal, dropout, bias): (bool, f64, Option<Operand>)| {
        let (q, k) = (smooth(&[1, 4, 3, 2]), smooth(&[1, 2, 5, 2]));
        let operands = [q, k, smooth(&[1, 2, 5, 3]), number(7), number(7)];
        let operands = operands.into_iter().chain(bias);
        let case = case(Op::Attention, attrs(0.6, causal, dropout), operands);
        case.differentiated(Gradient::Once)
    };
    all.map(of).into()
}
