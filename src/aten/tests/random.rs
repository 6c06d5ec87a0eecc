//! Random rows: their range, their moments, and that the seed decides.

use super::*;
use DType::*;

/// The tail of a random operator's arguments: no generator, then seed and offset.
fn seeded(args: &[TrialArg], seed: i64) -> Vec<TrialArg> {
    [args, &[NONE, Int(seed), Int(4)]].concat()
}

fn moments(x: &Array) -> (f64, f64) {
    let v = x.to_f64s();
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    (mean, (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64).sqrt())
}

fn check_moments(what: &str, x: &Array, mean: f64, deviation: f64) {
    let (m, d) = moments(x);
    let error = 5.0 * deviation / (x.len() as f64).sqrt();
    assert!((m - mean).abs() < error, "{what}: mean {m}");
    assert!((d - deviation).abs() < 2.0 * error, "{what}: deviation {d}");
}

#[test]
fn distributions() {
    for dtype in [F32, F64, F16, BF16] {
        let like = Array::zeros(&Ty::new(dtype, &[5, 1001]));
        let uniform = only("aten::uniform", &seeded(&[(&like).into(), Float(-1.0), Float(3.0)], 1));
        check_moments("uniform", &uniform, 1.0, 4.0 / 12f64.sqrt());
        assert!(uniform.to_f64s().iter().all(|x| (-1.0..3.0).contains(x)), "{dtype}");
        let normal = only("aten::normal_", &seeded(&[(&like).into(), Float(2.0), Float(0.5)], 2));
        check_moments("normal", &normal, 2.0, 0.5);
        let coin = only("aten::bernoulli_.float", &seeded(&[(&like).into(), Float(0.25)], 3));
        check_moments("bernoulli", &coin, 0.25, 0.1875f64.sqrt());
        let waits = only("aten::exponential", &seeded(&[(&like).into(), Float(2.0)], 4));
        check_moments("exponential", &waits, 0.5, 0.5);
        assert!(waits.to_f64s().iter().all(|&x| x > 0.0), "{dtype}");
    }
}

#[test]
fn the_seed_decides() {
    let like = Array::zeros(&Ty::new(F32, &[3]));
    let draw =
        |seed| only("aten::normal_", &seeded(&[(&like).into(), Float(0.0), Float(1.0)], seed));
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn dropout_and_its_gradient() {
    let x = Array::from_f64(F32, &[4000], &[2.0; 4000]);
    let tail = [Int(1), Int(0)];
    let call = |p: f64, train: TrialArg| {
        apply("aten::native_dropout", &[&[(&x).into(), Float(p), train], &tail[..]].concat())
            .unwrap()
    };
    let got = call(0.2, flag(true));
    assert_eq!([got[0].ty.dtype, got[1].ty.dtype], [F32, Bool]);
    check_moments("mask", &got[1], 0.8, 0.4);
    let expected: Vec<f64> = got[1].to_f64s().iter().map(|m| m * 2.0 / 0.8).collect();
    check("dropout", &got[0], F32, &[4000], &expected);
    assert_eq!(call(0.2, NONE), got);
    check("all gone", &call(1.0, flag(true))[0], F32, &[4000], &[0.0; 4000]);
    check("not training", &call(0.2, flag(false))[0], F32, &[4000], &[2.0; 4000]);
    let args = [(&x).into(), (&got[1]).into(), Float(1.25)];
    let grad = only("aten::native_dropout_backward", &args);
    check("gradient", &grad, F32, &[4000], &expected);
}
