//! Where a function has no slope, PyTorch's choice: the numbers here are what `torch.autograd.grad` gives (CPU, f64).

use super::*;

/// Gradients of the sum of a formula of f64 rows.
fn slopes(rows: &[&[f64]], formula: impl for<'m> Fn(&'m Math, &[V<'m>]) -> V<'m>) -> Vec<Vec<f64>> {
    let array = |row: &&[f64]| Array::from_f64(DType::F64, &[row.len() as i64], row);
    let inputs: Vec<Array> = rows.iter().map(array).collect();
    let math = Math::default();
    let x: Vec<V> = inputs.iter().enumerate().map(|(n, a)| input(&math, n, a)).collect();
    let y = formula(&math, &x);
    let axes: Dims = (0..y.rank() as i64).collect();
    let found = gradients(&math, y.reduce(Op::Sum, &axes, false), &x).unwrap();
    let graph = finish(&math, &found.iter().map(|v| v.id).collect::<Vec<_>>());
    let arrays = interpret(&graph, &inputs, &[]).unwrap();
    arrays.iter().map(Array::to_f64s).collect()
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn same(found: &[Vec<f64>], expected: &[&[f64]]) {
    assert_eq!(format!("{found:?}"), format!("{expected:?}"));
}

#[test]
fn one_operand() {
    same(&slopes(&[&[0.0, -0.0, 2.0]], |_, x| x[0].abs()), &[&[0.0, 0.0, 1.0]]);
    same(&slopes(&[&[0.0, 4.0]], |_, x| x[0].sqrt()), &[&[INF, 0.25]]);
    same(&slopes(&[&[-1.0, 0.0, 1.0]], |_, x| x[0].max(0.0)), &[&[0.0, 0.5, 1.0]]);
    same(&slopes(&[&[0.0, 2.0]], |_, x| x[0].log()), &[&[INF, 0.5]]);
}

#[test]
fn equal_operands_share() {
    let rows: [&[f64]; 2] = [&[1.0, 2.0, 3.0, NAN, 1.0], &[1.0, 1.0, 4.0, 1.0, NAN]];
    let first: &[f64] = &[0.5, 1.0, 0.0, 1.0, 1.0];
    same(&slopes(&rows, |_, x| x[0].max(x[1])), &[first, &[0.5, 0.0, 1.0, 1.0, 1.0]]);
    let first: &[f64] = &[0.5, 0.0, 1.0, 1.0, 1.0];
    same(&slopes(&rows, |_, x| x[0].min(x[1])), &[first, &[0.5, 1.0, 0.0, 1.0, 1.0]]);
}

#[test]
fn equal_maxima_share() {
    let found = slopes(&[&[2.0, 1.0, 2.0]], |_, x| x[0].reduce(Op::ReduceMax, &[0], false));
    same(&found, &[&[0.5, 0.0, 0.5]]);
}

/// Of lines of 3 elements with taps 5 apart: the windows in the middle meet nothing, and their
/// places are 3 and 4.
#[test]
fn maxima_of_padding_only() {
    let lists = [2, 1, 3, 5].map(|number| Attr::Ints(smallvec![number]));
    let attrs = lists.into_iter().chain([Attr::Bool(false)]);
    let found = slopes(&[&[1.0, 2.0, 4.0]], |math, x| {
        math.ops(Op::MaxPool, &[x[0].reshape(&[1, 1, 3])], attrs.clone().collect()).unwrap()[0]
    });
    same(&found, &[&[1.0, 0.0, 1.0]]);
}

#[test]
fn powers_of_and_to_zero() {
    let rows: [&[f64]; 2] = [&[0.0, 0.0, 0.0, 2.0, -2.0], &[0.0, 2.0, 1.0, 0.0, 2.0]];
    let (base, exponent) = (&[0.0, 0.0, 1.0, 0.0, -4.0], &[0.0, 0.0, 0.0, f64::ln(2.0), NAN]);
    same(&slopes(&rows, |_, x| x[0].pow(x[1])), &[base, exponent]);
}

#[test]
fn no_direction() {
    let rows: [&[f64]; 2] = [&[0.0, 1.0], &[0.0, 0.0]];
    same(&slopes(&rows, |_, x| x[0].binary(Op::Atan2, x[1])), &[&[0.0, 0.0], &[-0.0, -1.0]]);
}

#[test]
fn remainders() {
    let rows: [&[f64]; 2] = [&[7.0, -7.0, 7.5], &[2.0, 2.0, -2.0]];
    same(&slopes(&rows, |_, x| x[0].rem(x[1])), &[&[1.0, 1.0, 1.0], &[-3.0, 3.0, 3.0]]);
}
