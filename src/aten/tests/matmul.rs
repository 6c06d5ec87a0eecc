//! Matrix products against three loops.

use super::*;
use DType::*;

fn product(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let at = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
    (0..m * n).map(|e| at(e / n, e % n)).collect()
}

#[test]
fn matrices() {
    for dtype in [F32, BF16, F64, I64] {
        let (a, b) = (wave(dtype, &[3, 4], 1), wave(dtype, &[4, 5], 2));
        let expected = product(&a.to_f64s(), &b.to_f64s(), 3, 4, 5);
        check("mm", &only("aten::mm", &[(&a).into(), (&b).into()]), dtype, &[3, 5], &expected);
        let v = wave(dtype, &[4], 3);
        let expected = product(&a.to_f64s(), &v.to_f64s(), 3, 4, 1);
        check("mv", &only("aten::mv", &[(&a).into(), (&v).into()]), dtype, &[3], &expected);
        let expected = product(&v.to_f64s(), &v.to_f64s(), 1, 4, 1);
        check("dot", &only("aten::dot", &[(&v).into(), (&v).into()]), dtype, &[], &expected);
    }
    let (a, b) = (wave(F32, &[2, 3, 4], 1), wave(F32, &[2, 4, 5], 2));
    let expected: Vec<f64> = (0..2)
        .flat_map(|i| product(&a.to_f64s()[i * 12..][..12], &b.to_f64s()[i * 20..][..20], 3, 4, 5))
        .collect();
    check("bmm", &only("aten::bmm", &[(&a).into(), (&b).into()]), F32, &[2, 3, 5], &expected);
    let empty =
        only("aten::mm", &[(&wave(F32, &[2, 0], 1)).into(), (&wave(F32, &[0, 3], 1)).into()]);
    check("mm over nothing", &empty, F32, &[2, 3], &[0.0; 6]);
}

#[test]
fn sums_of_products() {
    let (a, b) = (wave(F32, &[3, 4], 1), wave(F32, &[4, 5], 2));
    let ab = product(&a.to_f64s(), &b.to_f64s(), 3, 4, 5);
    let numbers =
        [(Int(1), Int(1)), (Float(0.0), Float(1.0)), (Float(0.5), Float(2.0)), (Int(2), Int(0))];
    for sizes in [&[3, 5][..], &[5], &[3, 1], &[]] {
        let base = wave(F32, sizes, 3);
        for (beta, alpha) in &numbers {
            let value = |g: &TrialArg| match g {
                Float(x) => *x,
                Int(n) => *n as f64,
                _ => unreachable!(),
            };
            let terms = ab.iter().zip(spread(&base, &[3, 5]));
            let expected: Vec<f64> =
                terms.map(|(p, s)| value(beta) * s + value(alpha) * p).collect();
            let args = [(&base).into(), (&a).into(), (&b).into(), beta.clone(), alpha.clone()];
            check("addmm", &only("aten::addmm", &args), F32, &[3, 5], &expected);
        }
    }
    // With beta 0 not even NaN gets in.
    let nan = Array::from_f64(F32, &[5], &[f64::NAN; 5]);
    let args = [(&nan).into(), (&a).into(), (&b).into(), Int(0), Int(1)];
    check("addmm", &only("aten::addmm", &args), F32, &[3, 5], &ab);

    let (x, y) = (wave(F32, &[2, 3, 4], 1), wave(F32, &[2, 4, 3], 2));
    let xy = only("aten::bmm", &[(&x).into(), (&y).into()]);
    let base = wave(F32, &[3, 3], 5);
    let args = [(&base).into(), (&x).into(), (&y).into(), Float(0.5), Float(-1.0)];
    let terms = xy.to_f64s().into_iter().zip(spread(&base, &[2, 3, 3]));
    let expected: Vec<f64> = terms.map(|(p, s)| 0.5 * s - p).collect();
    check("baddbmm", &only("aten::baddbmm", &args), F32, &[2, 3, 3], &expected);
    let summed: Vec<f64> = (0..9).map(|i| 0.5 * base.f64(i) - xy.f64(i) - xy.f64(i + 9)).collect();
    check("addbmm", &only("aten::addbmm", &args), F32, &[3, 3], &summed);
    let (v, start) = (wave(F32, &[4], 2), wave(F32, &[3], 6));
    let av = product(&a.to_f64s(), &v.to_f64s(), 3, 4, 1);
    let expected: Vec<f64> = av.iter().zip(start.to_f64s()).map(|(p, s)| 2.0 * s + p).collect();
    let args = [(&start).into(), (&a).into(), (&v).into(), Int(2), Int(1)];
    check("addmv", &only("aten::addmv", &args), F32, &[3], &expected);
}

#[test]
fn scaled_products_of_8_bits() {
    let none = || TrialArg::Plain(Arg::None);
    let (a, b) = (wave(F8E4M3FN, &[3, 4], 1), wave(F8E5M2, &[4, 5], 2));
    let plain = product(&a.to_f64s(), &b.to_f64s(), 3, 4, 5);
    let rows = Array::from_f64(F32, &[3, 1], &[0.5, 2.0, 4.0]);
    let columns = Array::from_f64(F32, &[1, 5], &[1.0, 0.25, 2.0, -1.0, 0.5]);
    let (two, three) = (Array::from_f64(F32, &[], &[2.0]), Array::from_f64(F32, &[1], &[3.0]));
    for to in [F32, BF16] {
        let scaled = |x: &Array, y: &Array| {
            let rest = [none(), none(), dtype(to)];
            let args: Vec<TrialArg> =
                [&a, &b, x, y].into_iter().map(TrialArg::from).chain(rest).collect();
            only("aten::_scaled_mm", &args)
        };
        let expected: Vec<f64> = plain.iter().map(|p| p * 6.0).collect();
        check("by tensor", &scaled(&two, &three), to, &[3, 5], &expected);
        let at = |e: usize| plain[e] * rows.f64(e / 5) * columns.f64(e % 5);
        let expected: Vec<f64> = (0..15).map(at).collect();
        check("by row", &scaled(&rows, &columns), to, &[3, 5], &expected);
    }
    // The bias is added before anything is rounded, and a result of 8 bits scaled.
    let bias = wave(BF16, &[5], 3);
    let args = [&a, &b, &two, &three, &bias, &two].map(TrialArg::from);
    let got = only("aten::_scaled_mm", &args);
    let mut expected = Array::zeros(&Ty::new(F8E4M3FN, &[3, 5]));
    (0..15).for_each(|e| expected.set_f64(e, (plain[e] * 6.0 + bias.f64(e % 5)) * 2.0));
    assert_eq!(got, expected);
}
