//! Sorting against the order of a list.

use super::*;
use DType::*;

fn sorted(row: &[f64], descending: bool) -> (Vec<f64>, Vec<f64>) {
    let mut places: Vec<usize> = (0..row.len()).collect();
    places.sort_by(|&a, &b| {
        let order = row[a].is_nan().cmp(&row[b].is_nan()).then(row[a].total_cmp(&row[b]));
        if descending { order.reverse() } else { order }
    });
    (places.iter().map(|&p| row[p]).collect(), places.iter().map(|&p| p as f64).collect())
}

#[test]
fn sorts_and_the_first_elements() {
    for dtype in [F32, I64, Bool] {
        let x = Array::from_f64(dtype, &[1, 4], &[3.0, 0.0, 1.0, 0.0]);
        for descending in [false, true] {
            let (values, places) = sorted(&x.to_f64s(), descending);
            let got = apply("aten::sort", &[(&x).into(), at(-1), flag(descending)]).unwrap();
            check("sort", &got[0], dtype, &[1, 4], &values);
            check("its places", &got[1], I64, &[1, 4], &places);
            let stable = [(&x).into(), flag(true), at(1), flag(descending)];
            let got = apply("aten::sort.stable", &stable).unwrap();
            check("sort.stable", &got[0], dtype, &[1, 4], &values);
            check("argsort", &only("aten::argsort.stable", &stable), I64, &[1, 4], &places);
            if dtype == Bool {
                assert!(!accepts(find("aten::topk").unwrap(), &[Bool]));
                continue;
            }
            let args = [(&x).into(), at(2), at(1), flag(descending), flag(true)];
            let got = apply("aten::topk", &args).unwrap();
            check("topk", &got[0], dtype, &[1, 2], &values[..2]);
            check("its places", &got[1], I64, &[1, 2], &places[..2]);
        }
    }
    let one = Array::from_f64(F32, &[], &[2.5]);
    let got = apply("aten::sort", &[(&one).into(), at(0), flag(true)]).unwrap();
    check("of one number", &got[0], F32, &[], &[2.5]);
    check("its place", &got[1], I64, &[], &[0.0]);
    let got = apply("aten::topk", &[(&one).into(), at(0), at(-1)]).unwrap();
    check("none of one number", &got[0], F32, &[], &[2.5]);
    let many = [(&wave(F32, &[3], 1)).into(), at(4), at(0)];
    assert!(apply("aten::topk", &many).is_err());
}

#[test]
fn elements_by_their_rank() {
    let nan = f64::NAN;
    let x = Array::from_f64(F32, &[2, 4], &[4.0, 1.0, 3.0, 2.0, 1.0, nan, 0.0, nan]);
    let got = apply("aten::kthvalue", &[(&x).into(), at(2), at(1), flag(false)]).unwrap();
    check("kthvalue", &got[0], F32, &[2], &[2.0, 1.0]);
    check("its place", &got[1], I64, &[2], &[3.0, 0.0]);
    let got = apply("aten::median.dim", &[(&x).into(), at(1), flag(true)]).unwrap();
    check("median", &got[0], F32, &[2, 1], &[2.0, nan]);
    check("its place", &got[1], I64, &[2, 1], &[3.0, 1.0]);
    check("of all", &only("aten::median", &[(&x).into()]), F32, &[], &[nan]);
    let whole = wave(I32, &[5], 1);
    let (values, _) = sorted(&whole.to_f64s(), false);
    check("of integers", &only("aten::median", &[(&whole).into()]), I32, &[], &values[2..3]);
    check("of nothing", &only("aten::median", &[(&wave(F32, &[0], 1)).into()]), F32, &[], &[nan]);
    let nothing = only("aten::median", &[(&wave(I64, &[0], 1)).into()]);
    assert_eq!(nothing.i64(0), i64::MIN, "NaN as an integer");
    for k in [0, 5] {
        assert!(apply("aten::kthvalue", &[(&x).into(), at(k), at(1), flag(false)]).is_err());
    }
}
