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

/// Of `name` with bounds, into a tensor of a dtype.
fn integers(name: &str, dtype: DType, bounds: &[i64]) -> Array {
    let like = Array::zeros(&Ty::new(dtype, &[7, 1001]));
    let bounds: Vec<TrialArg> = bounds.iter().map(|&n| Int(n)).collect();
    only(name, &seeded(&[&[(&like).into()], &bounds[..]].concat(), 5))
}

/// Each of the numbers from `from` on is about as often there: Pearson's test, which one sample in a hundred thousand fails.
fn check_even(what: &str, x: &Array, from: i64, count: usize) {
    let mut found = vec![0.0; count];
    for i in 0..x.len() {
        found[usize::try_from(x.i64(i) - from).unwrap()] += 1.0;
    }
    let (each, freedom) = (x.len() as f64 / count as f64, count as f64 - 1.0);
    let distance: f64 = found.iter().map(|n| (n - each).powi(2) / each).sum();
    assert!(distance < freedom + 4.3 * (2.0 * freedom).sqrt() + 8.0, "{what}: {distance}");
    assert!(found.iter().all(|&n| n > 0.0), "{what}: {found:?}");
}

#[test]
fn integers_between_bounds() {
    for dtype in [U8, I8, I16, I32, I64, F16, BF16, F32, F64] {
        let from = if dtype == U8 { 3 } else { -5 };
        let x = integers("aten::random_.from", dtype, &[from, from + 12]);
        assert_eq!(x.ty.dtype, dtype);
        check_even(dtype.name(), &x, from, 12);
        check_even(dtype.name(), &integers("aten::random_.to", dtype, &[7]), 0, 7);
        assert!(integers("aten::random_.to", dtype, &[1]).to_f64s().iter().all(|x| *x == 0.0));
    }
    check_even("bool", &integers("aten::random_", Bool, &[]), 0, 2);
    check_even("bool", &integers("aten::random_.from", Bool, &[0, 2]), 0, 2);
    check_even("u8", &integers("aten::random_", U8, &[]), 0, 256);
    check_even("i8", &integers("aten::random_", I8, &[]), 0, 128);
    check_even("i8", &integers("aten::random_.from", I8, &[-128, 128]), -128, 256);
    check_even("bf16", &integers("aten::random_", BF16, &[]), 0, 257);
}

#[test]
fn integers_of_large_ranges() {
    let even = |what: &str, x: &Array, from: f64, to: f64| {
        check_moments(what, x, (from + to) / 2.0, (to - from) / 12f64.sqrt());
    };
    let two = |n| 2f64.powi(n);
    even("i32", &integers("aten::random_", I32, &[]), 0.0, two(31));
    even("i64", &integers("aten::random_", I64, &[]), 0.0, two(63));
    even("f16", &integers("aten::random_", F16, &[]), 0.0, two(11));
    even("f32", &integers("aten::random_", F32, &[]), 0.0, two(24));
    even("f64", &integers("aten::random_", F64, &[]), 0.0, two(53));
    let all = Array::zeros(&Ty::new(I64, &[7, 1001]));
    let rest =
        |from: i64| only("aten::random_.from", &seeded(&[(&all).into(), Int(from), NONE], 5));
    even("i64 from the least", &rest(i64::MIN), -two(63), two(63));
    even("i64 from 2^62", &rest(1 << 62), two(62), two(63));
    for (from, to) in [(-(1 << 40), 1 << 33), (i64::MIN, i64::MIN + (1 << 60)), (7, (1 << 32) + 7)]
    {
        let x = integers("aten::random_.from", I64, &[from, to]);
        assert!((0..x.len()).all(|i| (from..to).contains(&x.i64(i))), "{from}..{to}");
        even("i64", &x, from as f64, to as f64);
        let odd: f64 = (0..x.len()).map(|i| (x.i64(i) & 1) as f64).sum();
        assert!((odd / x.len() as f64 - 0.5).abs() < 0.03, "{from}..{to}");
    }
    // Of more than half of all numbers of 64 bits, both ends.
    for (from, to) in [(i64::MIN, 1 << 62), (-(1 << 62), i64::MAX)] {
        let x = integers("aten::random_.from", I64, &[from, to]);
        let x: Vec<i64> = (0..x.len()).map(|i| x.i64(i)).collect();
        assert!(x.iter().all(|x| (from..to).contains(x)), "{from}..{to}");
        let near = ((to as f64 - from as f64) / 256.0) as i64;
        assert!(x.iter().any(|&x| x < from + near) && x.iter().any(|&x| x > to - near));
    }
}

/// What is rounded to a float does not reach the upper bound.
#[test]
fn integers_as_floats_stay_below() {
    for (dtype, from, to, largest) in [
        (BF16, 0, 1000, 996.0),
        (BF16, -1000, -900, -904.0),
        (BF16, 500, 513, 512.0),
        (F16, 2040, 2051, 2050.0),
        (F16, -4096, -2048, -2050.0),
        (F32, (1 << 24) - 2, (1 << 24) + 3, 16777218.0),
        (F64, (1 << 53) - 2, (1 << 53) + 3, 9007199254740994.0),
    ] {
        let x = integers("aten::random_.from", dtype, &[from, to]).to_f64s();
        let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(most, largest, "{dtype} {from}..{to}");
        assert!(x.iter().all(|x| *x >= from as f64), "{dtype} {from}..{to}");
    }
}

/// What is rounded to a float is not below the lower bound, either, and without an upper one no larger than all integers can be.
#[test]
fn integers_as_floats_begin_at_their_bound() {
    for (dtype, from, to, least) in
        [(F16, 4097, 4200, 4100.0), (BF16, 1001, 2000, 1004.0), (F16, -4099, -4000, -4096.0)]
    {
        let x = integers("aten::random_.from", dtype, &[from, to]).to_f64s();
        let found = x.iter().copied().fold(f64::INFINITY, f64::min);
        assert_eq!(found, least, "{dtype} {from}..{to}");
    }
    for (dtype, digits) in [(F16, 11), (BF16, 8), (F32, 24), (F64, 53)] {
        let all = Array::zeros(&Ty::new(dtype, &[7, 1001]));
        let rest =
            |from: i64| only("aten::random_.from", &seeded(&[(&all).into(), Int(from), NONE], 5));
        let most = 2f64.powi(digits);
        check_moments(dtype.name(), &rest(0), most / 2.0, most / 12f64.sqrt());
        assert!(rest(0).to_f64s().iter().all(|x| (0.0..=most).contains(x)), "{dtype}");
    }
    // From the least number on, all of 64 bits.
    let all = Array::zeros(&Ty::new(F32, &[7, 1001]));
    let x = only("aten::random_.from", &seeded(&[(&all).into(), Int(i64::MIN), NONE], 5));
    check_moments("f32", &x, 0.0, 2f64.powi(64) / 12f64.sqrt());
}

#[test]
fn permutations() {
    for (n, dtype) in [(0, I64), (1, I64), (1000, I64), (200, U8), (300, F32), (300, F16)] {
        let trial = Trial::new("aten::randperm.generator_out", &seeded(&[at(n)], 9));
        let places = trial.fresh(&[Ty::new(dtype, &[n])]).run().unwrap().remove(0);
        let mut sorted = places.to_f64s();
        let in_order: Vec<f64> = (0..n).map(|i| i as f64).collect();
        assert!(n < 2 || sorted != in_order);
        sorted.sort_by(f64::total_cmp);
        assert_eq!(sorted, in_order);
    }
    // Each element comes first equally often.
    let mut first = Array::zeros(&Ty::new(I64, &[4000]));
    for seed in 0..4000 {
        let trial = Trial::new("aten::randperm.generator_out", &seeded(&[at(5)], seed));
        let places = trial.fresh(&[Ty::new(I64, &[5])]).run().unwrap().remove(0);
        first.set_i64(seed as usize, places.i64(0));
    }
    check_even("first", &first, 0, 5);
    let refused = |n: i64, dtype: DType, size: i64| {
        let trial = Trial::new("aten::randperm.generator_out", &seeded(&[at(n)], 9));
        trial.fresh(&[Ty::new(dtype, &[size])]).run().is_err()
    };
    assert!(refused(2050, F16, 2050) && refused(257, U8, 257));
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
