//! Joining, picking and scattering against loops.

use super::*;
use DType::*;

fn index(sizes: &[i64], values: &[f64]) -> Array {
    Array::from_f64(I64, sizes, values)
}

fn picked(x: &Array, at: &[usize]) -> Vec<f64> {
    at.iter().map(|&i| x.f64(i)).collect()
}

#[test]
fn joining() {
    let (a, b) = (wave(F32, &[2, 2], 1), wave(I64, &[2, 1], 2));
    let got = only("aten::cat", &[TrialArg::List(vec![a.clone(), b.clone()]), at(-1)]);
    let expected = [a.f64(0), a.f64(1), b.f64(0), a.f64(2), a.f64(3), b.f64(1)];
    check("cat", &got, F32, &[2, 3], &expected);
    let nothing = wave(F32, &[0], 1);
    let got = only("aten::cat", &[TrialArg::List(vec![nothing, b.clone()]), at(0)]);
    check("cat with nothing", &got, F32, &[2, 1], &b.to_f64s());
    let got = only("aten::stack", &[TrialArg::List(vec![b.clone(), b.clone()]), at(-1)]);
    check("stack", &got, I64, &[2, 1, 2], &picked(&b, &[0, 0, 1, 1]));
    let got = only("aten::repeat", &[(&b).into(), ints(&[2, 1, 2])]);
    check("repeat", &got, I64, &[2, 2, 2], &picked(&b, &[0, 0, 1, 1, 0, 0, 1, 1]));
    let got = only("aten::flip", &[(&a).into(), ints(&[0, -1])]);
    check("flip", &got, F32, &[2, 2], &picked(&a, &[3, 2, 1, 0]));
}

#[test]
fn triangles() {
    for dtype in [F32, I32, Bool] {
        let x = Array::from_f64(dtype, &[2, 3, 4], &[1.0; 24]);
        for diagonal in [-1, 0, 2] {
            let keeps = |lower: bool| -> Vec<f64> {
                let on = |i: i64| {
                    let beside = i % 4 - i / 4 % 3;
                    if lower { beside <= diagonal } else { beside >= diagonal }
                };
                (0..24).map(|i| on(i) as u8 as f64).collect()
            };
            let args = [(&x).into(), at(diagonal)];
            check("tril", &only("aten::tril", &args), dtype, &[2, 3, 4], &keeps(true));
            check("triu", &only("aten::triu", &args), dtype, &[2, 3, 4], &keeps(false));
        }
    }
}

#[test]
fn picking() {
    let x = wave(F32, &[3, 2], 1);
    let at_dim_1 =
        only("aten::index_select", &[(&x).into(), at(1), (&index(&[3], &[1.0, 0.0, 1.0])).into()]);
    check("index_select", &at_dim_1, F32, &[3, 3], &picked(&x, &[1, 0, 1, 3, 2, 3, 5, 4, 5]));
    let scalar = Array::from_f64(F32, &[], &[4.5]);
    let one = only("aten::index_select", &[(&scalar).into(), at(0), (&index(&[], &[0.0])).into()]);
    check("of a scalar", &one, F32, &[], &[4.5]);
    let words = index(&[2, 2], &[2.0, 0.0, 0.0, 1.0]);
    let got =
        only("aten::embedding", &[(&x).into(), (&words).into(), at(-1), flag(false), flag(false)]);
    check("embedding", &got, F32, &[2, 2, 2], &picked(&x, &[4, 5, 0, 1, 0, 1, 2, 3]));
    let places = index(&[2, 2], &[2.0, 0.0, 1.0, 1.0]);
    let got = only("aten::gather", &[(&x).into(), at(0), (&places).into(), flag(false)]);
    check("gather", &got, F32, &[2, 2], &picked(&x, &[4, 1, 2, 3]));
    let none = Array::zeros(&Ty::new(U8, &[0, 2]));
    let got = only("aten::gather", &[(&x).into(), at(0), (&none).into()]);
    check("gather nothing", &got, F32, &[0, 2], &[]);
    let outside = index(&[1], &[3.0]);
    let error = apply("aten::embedding", &[(&x).into(), (&outside).into()]).unwrap_err();
    assert_eq!(error.code, crate::error::Code::IndexError);
}

#[test]
fn gradients_of_embeddings() {
    let dy = wave(F32, &[2, 2, 3], 1);
    let words = [2.0, 0.0, 2.0, 1.0];
    for (padding, by_frequency) in [(-1, false), (1, false), (-1, true), (2, true)] {
        let got = only(
            "aten::embedding_dense_backward",
            &[
                (&dy).into(),
                (&index(&[2, 2], &words)).into(),
                at(4),
                at(padding),
                flag(by_frequency),
            ],
        );
        let mut expected = vec![0.0; 12];
        for (n, &word) in words.iter().enumerate().filter(|w| *w.1 != padding as f64) {
            let often = words.iter().filter(|&&w| w == word).count() as f64;
            for c in 0..3 {
                let share = if by_frequency { often } else { 1.0 };
                expected[word as usize * 3 + c] += dy.f64(n * 3 + c) / share;
            }
        }
        check("embedding_dense_backward", &got, F32, &[4, 3], &expected);
    }
}

#[test]
fn scattering() {
    let x = wave(F32, &[3, 4], 1);
    let to = index(&[2, 3], &[0.0, 2.0, 1.0, 1.0, 0.0, 2.0]);
    let src = wave(F32, &[3, 5], 2);
    let mut set = x.to_f64s();
    let mut valued = x.to_f64s();
    let mut added = x.to_f64s();
    for i in 0..2 {
        for j in 0..3 {
            let target = to.i64(i * 3 + j) as usize * 4 + j;
            set[target] = src.f64(i * 5 + j);
            valued[target] = 7.5;
            added[target] += src.f64(i * 5 + j);
        }
    }
    let args = |last: TrialArg| [(&x).into(), at(0), (&to).into(), last];
    check("scatter", &only("aten::scatter.src", &args((&src).into())), F32, &[3, 4], &set);
    check("scatter", &only("aten::scatter.value", &args(Float(7.5))), F32, &[3, 4], &valued);
    check("scatter_add", &only("aten::scatter_add", &args((&src).into())), F32, &[3, 4], &added);

    let mask = Array::from_f64(Bool, &[2], &[0.0, 1.0]);
    let twice = [(&mask).into(), at(0), (&index(&[2], &[0.0, 0.0])).into(), (&mask).into()];
    check("scatter_add of bool", &only("aten::scatter_add", &twice), Bool, &[2], &[1.0; 2]);

    let rows = wave(F32, &[3, 2], 3);
    let columns = index(&[2], &[3.0, 3.0]);
    let mut added = x.to_f64s();
    (0..6).for_each(|i| added[i / 2 * 4 + 3] += 0.5 * rows.f64(i));
    let args = [(&x).into(), at(1), (&columns).into(), (&rows).into(), Float(0.5)];
    check("index_add", &only("aten::index_add", &args), F32, &[3, 4], &added);
}

#[test]
fn rolling() {
    let x = wave(F32, &[2, 3], 1);
    let got = only("aten::roll", &[(&x).into(), ints(&[1, -1]), ints(&[0, 1])]);
    check("roll", &got, F32, &[2, 3], &picked(&x, &[4, 5, 3, 1, 2, 0]));
    let got = only("aten::roll", &[(&x).into(), ints(&[2])]);
    check("roll in one line", &got, F32, &[2, 3], &picked(&x, &[4, 5, 0, 1, 2, 3]));
    let got = only("aten::roll", &[(&x).into(), ints(&[i64::MIN])]);
    check("roll by any number", &got, F32, &[2, 3], &picked(&x, &[2, 3, 4, 5, 0, 1]));
}

#[test]
fn indices_in_several_dimensions() {
    let x = wave(F32, &[3, 4, 2], 1);
    let (i, j) = (index(&[2], &[2.0, -3.0]), index(&[3, 1], &[1.0, -1.0, 0.0]));
    let k = index(&[2], &[-1.0, 0.0]);
    let at = |i: usize, j: usize, k: usize| i * 8 + j * 2 + k;
    let rows = [2, 0];
    let columns = [1, 3, 0];
    let deep = [1, 0];
    // x[i, j]: the indices are beside each other.
    let both: Vec<usize> = (0..12).map(|e| at(rows[e / 2 % 2], columns[e / 4], e % 2)).collect();
    // x[i, :, k]: they are not, so their dimension comes first.
    let apart: Vec<usize> = (0..8).map(|e| at(rows[e / 4], e % 4, deep[e / 4])).collect();
    // x[:, j]
    let middle: Vec<usize> = (0..18).map(|e| at(e / 6, columns[e / 2 % 3], e % 2)).collect();
    let cases = [
        (vec![Some(i.clone()), Some(j.clone())], &[3, 2, 2][..], both),
        (vec![Some(i.clone()), None, Some(k)], &[2, 4], apart),
        (vec![None, Some(j)], &[3, 3, 1, 2], middle),
    ];
    for (indices, sizes, expected) in cases {
        let trial_arg = TrialArg::Gaps(indices);
        let got = only("aten::index.Tensor", &[(&x).into(), trial_arg.clone()]);
        check("index", &got, F32, sizes, &picked(&x, &expected));
        for accumulate in [false, true] {
            let values = wave(F32, sizes, 4);
            let args = [(&x).into(), trial_arg.clone(), (&values).into(), flag(accumulate)];
            let mut put = x.to_f64s();
            for (n, &to) in expected.iter().enumerate() {
                put[to] = values.f64(n) + if accumulate { put[to] } else { 0.0 };
            }
            check("index_put", &only("aten::index_put", &args), F32, &[3, 4, 2], &put);
        }
    }
    let outside = TrialArg::Gaps(vec![Some(i), Some(index(&[1], &[4.0]))]);
    let error = apply("aten::index.Tensor", &[(&x).into(), outside]).unwrap_err();
    assert_eq!(error.code, crate::error::Code::IndexError);
    let row = find("aten::index.Tensor").unwrap();
    assert!(!accepts_list(row, &[Bool]) && accepts_list(row, &[I64, I32]));
    let put = find("aten::index_put").unwrap();
    assert!(accepts_list(put, &[Bool]) && !accepts_list(put, &[Bool, I64]));
}

#[test]
fn copies_of_rows() {
    let (x, source) = (wave(F32, &[4, 2], 1), wave(F32, &[3, 2], 2));
    let args = [(&x).into(), at(0), (&index(&[3], &[2.0, 0.0, 2.0])).into(), (&source).into()];
    let mut expected = x.to_f64s();
    for (to, from) in [(2, 0), (0, 1), (2, 2)] {
        (0..2).for_each(|c| expected[to * 2 + c] = source.f64(from * 2 + c));
    }
    check("index_copy", &only("aten::index_copy", &args), F32, &[4, 2], &expected);
    let few = [(&x).into(), at(0), (&index(&[2], &[2.0, 0.0])).into(), (&source).into()];
    assert!(apply("aten::index_copy", &few).is_err());
}

#[test]
fn elements_for_a_mask() {
    let x = wave(F32, &[2, 3], 1);
    let mask = Array::from_f64(Bool, &[2, 3], &[1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    let source = wave(F32, &[2, 2], 2);
    let mut expected = x.to_f64s();
    for (turn, to) in [0, 2, 5].into_iter().enumerate() {
        expected[to] = source.f64(turn);
    }
    let args = |mask: &Array, source: &Array| [(&x).into(), mask.into(), source.into()];
    let got = only("aten::masked_scatter", &args(&mask, &source));
    check("masked_scatter", &got, F32, &[2, 3], &expected);
    assert!(apply("aten::masked_scatter", &args(&mask, &wave(F32, &[2], 1))).is_err(), "too few");
    let (nothing, none) = (wave(F32, &[0], 1), Array::from_f64(Bool, &[1, 3], &[0.0; 3]));
    let got = only("aten::masked_scatter", &args(&none, &nothing));
    check("of nothing", &got, F32, &[2, 3], &x.to_f64s());
    assert!(apply("aten::masked_scatter", &args(&mask, &nothing)).is_err());
    let dy = wave(F32, &[2, 3], 3);
    let back = [(&dy).into(), (&mask).into(), ints(&[2, 2])];
    let expected = [dy.f64(0), dy.f64(2), dy.f64(5), 0.0];
    check("gradient", &only("aten::masked_scatter_backward", &back), F32, &[2, 2], &expected);
}
