//! Elementary functions against f64, with every instruction set that this processor has.

use super::chain::{alone, unary_ops};
use crate::backend::cpu::isa::{Isa, Kernel, each_isa, on_each_isa};
use crate::backend::cpu::tile::chain::{self, Feed, Target};
use crate::backend::cpu::tile::compute::unary_f64;
use crate::backend::cpu::tile::link::Link;
use crate::backend::cpu::vector::math;
use crate::backend::cpu::vector::{Vector, each};
use crate::op::{Eval, Op};

/// Distance of `got` from the exact value in units of the last place of f32 at that value.
pub fn ulps(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got.to_bits() == rounded.to_bits() || (got.is_nan() && rounded.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !rounded.is_finite() {
        return f64::INFINITY;
    }
    let exponent = (exact.abs().max(f32::MIN_POSITIVE as f64).log2().floor() as i32).max(-126);
    (got as f64 - exact).abs() / 2f64.powi(exponent - 23)
}

pub const SPECIAL: [f32; 19] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    1e-40,
    -1e-40,
    1e-45,
    88.72,
    88.73,
    -103.9,
    1.4999999,
    0.75,
    1e-9,
];

/// All the special values, every 4801st bit pattern and evenly spaced numbers around 0; an odd number of them.
fn arguments() -> Vec<f32> {
    let swept = (0..=u32::MAX / 4801).map(|i| f32::from_bits(i * 4801));
    let dense = (-60_000..60_000).map(|i| i as f32 * 3.37e-4);
    let mut all: Vec<f32> = swept.chain(dense).chain(SPECIAL).collect();
    all.truncate(all.len() - (1 - all.len() % 2));
    all
}

/// The results of a function of vectors for each instruction set.
macro_rules! results {
    ($x:expr, |$a:ident| $e:expr) => {{
        struct Apply<'a>(&'a [f32]);
        impl Kernel for Apply<'_> {
            type Out = Vec<f32>;
            #[inline(always)]
            fn run<V: Vector, const FMA: bool>(self) -> Vec<f32> {
                let x = self.0;
                let mut results = vec![0.0; x.len()];
                let y = &mut results[..];
                each!(V, y, |$a in x| $e);
                results
            }
        }
        each_isa(|| Apply($x))
    }};
}

/// Checks results against `exact`.
fn check(
    name: &str,
    bound: f64,
    x: &[f32],
    results: Vec<(Isa, Vec<f32>)>,
    exact: impl Fn(f32) -> f64,
) {
    for (isa, y) in results {
        // Without fused multiply-add.
        let bound = if isa == Isa::Baseline && bound > 0.5 { 1.5 * bound } else { bound };
        let errors = x.iter().zip(&y).map(|(&x, &y)| (ulps(y, exact(x)), x));
        let (error, at) = errors.fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
        println!("{name} {isa:?}: {error:.3} ulp at {at:e}");
        assert!(error <= bound, "{name}({at:e}) is off by {error} ulp with {isa:?}");
    }
}

#[test]
fn errors_are_within_the_stated_ulps() {
    let x = arguments();
    for op in unary_ops() {
        let mut results = Vec::new();
        on_each_isa(|isa| {
            let mut y = vec![0.0; x.len()];
            chain::run(Feed::Run(&x), &[Link::Unary(op)], Target::Run(&mut y), false);
            results.push((isa, y));
        });
        check(&format!("{op:?}"), alone(op, 1.0).1, &x, results, |x| alone(op, x).0);
    }
    let below: Vec<f32> = x.iter().copied().filter(|x| *x <= 0.0 || x.is_nan()).collect();
    let results = results!(&below, |a| math::exp_down(a));
    check("exp_down", Op::Exp.row().ulps, &below, results, |x| (x as f64).exp());
}

#[test]
fn bounded_functions_stay_within_their_bounds() {
    let x: Vec<f32> = (0..4_000_000).map(|i| f32::from_bits(1.0f32.to_bits() + 8 * i)).collect();
    let tanh = results!(&x, |a| math::tanh(a));
    let erf = results!(&x, |a| math::erf(a));
    for (isa, y) in tanh.into_iter().chain(erf) {
        assert!(y.iter().all(|y| y.abs() <= 1.0), "{isa:?}");
        assert_eq!(y.last(), Some(&1.0), "{isa:?}");
    }
}

/// Same bits, or both NaN.
pub fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[test]
fn exact_functions_are_exact() {
    let x = arguments();
    let check = |name, results: Vec<(Isa, Vec<f32>)>, exact: fn(f32) -> f32| {
        for (isa, y) in results {
            let wrong = x.iter().zip(&y).find(|&(&x, &y)| !same(exact(x), y));
            assert!(wrong.is_none(), "{name} {isa:?}: {wrong:?}");
        }
    };
    check("floor", results!(&x, |a| a.floor()), f32::floor);
    check("ceil", results!(&x, |a| a.ceil()), f32::ceil);
    check("trunc", results!(&x, |a| a.trunc()), f32::trunc);
    check("round", results!(&x, |a| a.round()), f32::round_ties_even);
    check("neg", results!(&x, |a| -a), |x| -x);
    check("abs", results!(&x, |a| a.abs()), f32::abs);
    let one = |x: f32| if x.is_nan() || x == 0.0 { 0.0 } else { x.signum() };
    check("sign", results!(&x, |a| math::sign(a)), one);
    let middle = |a: f32| if a.is_nan() { a } else { a.clamp(-2.0, 3.0) };
    let clamped =
        results!(&x, |a| { math::larger(V::splat(-2.0), math::smaller(a, V::splat(3.0))) });
    check("larger and smaller", clamped, middle);
    let nan = results!(&x, |a| math::larger(V::splat(f32::NAN), math::smaller(a, a)));
    check("larger of NaN", nan, |_| f32::NAN);
}

#[test]
fn sines_are_within_two_ulps() {
    let mut x = arguments();
    x.retain(|x| x.is_nan() || x.abs() <= math::TRIG_LIMIT);
    let fused = |results: Vec<(Isa, Vec<f32>)>| -> Vec<(Isa, Vec<f32>)> {
        results.into_iter().filter(|(isa, _)| *isa != Isa::Baseline).collect()
    };
    let sines = fused(results!(&x, |a| math::sin_from(a, 0.0)));
    let cosines = fused(results!(&x, |a| math::sin_from(a, 1.0)));
    check("sin", Op::Sin.row().ulps, &x, sines, |x| (x as f64).sin());
    check("cos", Op::Cos.row().ulps, &x, cosines, |x| (x as f64).cos());
}

#[test]
fn powers_are_within_an_ulp() {
    let mut numbers: Vec<f32> = SPECIAL.to_vec();
    numbers.extend([0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e30, -7.0, 16777217.0, 33554431.0, 0.1, 2.5]);
    numbers.extend((0..400).map(|i| f32::from_bits(0x3f00_0000 + i * 41_001)));
    numbers.extend((0..300).map(|i| f32::from_bits(i * 14_000_001)));
    for &a in &numbers {
        for &b in &numbers {
            let exact = (a as f64).powf(b as f64);
            for y in [math::pow::<true>(a, b), math::pow::<false>(a, b)] {
                assert!(
                    ulps(y, exact) <= if b == 3.0 { 1.5 } else { 1.0 },
                    "{a:e} to the power of {b:e} is {exact:e}, not {y:e}"
                );
                assert!(
                    y.is_nan() || y.is_sign_negative() == exact.is_sign_negative(),
                    "{a:e} {b:e}"
                );
            }
        }
    }
}

#[test]
fn remainders_are_exact_where_quotients_are_not_large() {
    let mut numbers: Vec<f32> = SPECIAL.to_vec();
    numbers.extend([
        2.0,
        -2.0,
        3.0,
        0.1,
        0.7,
        -0.3,
        2.5,
        8_388_607.0,
        16_777_215.0,
        -1e7,
        6.2831855,
    ]);
    numbers.extend((0..600).map(|i| f32::from_bits(0x3d00_0000 + i * 141_001)));
    numbers.extend((0..300).map(|i| f32::from_bits(i * 14_000_001)));
    // Quotients that are a little less than whole numbers.
    numbers.extend((1..200).map(|i| (0.7 * i as f32).next_down()));
    let mut near = 0;
    for &a in &numbers {
        for &b in &numbers {
            let (left, is_far) = math::rem_near(a, b);
            near += !is_far as usize;
            assert!(is_far || same(left, a % b), "{a:e} {b:e}: {left:e}, not {:e}", a % b);
        }
    }
    assert!(near > numbers.len() * numbers.len() / 3);
}

#[test]
fn functions_of_f64_are_near_the_c_librarys() {
    let mut x: Vec<f64> = SPECIAL.iter().map(|&x| x as f64).collect();
    x.extend([
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        709.78,
        709.79,
        -745.1,
        -745.2,
        1e-300,
    ]);
    let swept = (0..200_000).map(|i| f64::from_bits(i * 92_233_720_368_547));
    let dense = (-100_000..100_000).map(|i| i as f64 * 3.37e-4);
    let small = (-50_000..50_000).map(|i| i as f64 * 3.1e-5);
    x.extend(swept.clone().chain(swept.map(|x| -x)).chain(dense).chain(small));
    let functions = [
        (Op::Exp, 1.0),
        (Op::Expm1, 2.0),
        (Op::Log, 1.0),
        (Op::Log1p, 2.0),
        (Op::Tanh, 3.0),
        (Op::Sigmoid, 3.0),
        (Op::Sin, 2.0),
        (Op::Cos, 2.0),
    ];
    on_each_isa(|isa| {
        for (op, bound) in functions {
            let Eval::Pointwise { float: Some(function), .. } = op.row().eval else { panic!() };
            let bound = if isa == Isa::Baseline { 2.0 * bound } else { bound };
            let mut y = vec![0.0; x.len()];
            unary_f64(op, &x, &mut y);
            let (mut most, mut at) = (0.0, 0.0);
            for (&x, &y) in x.iter().zip(&y) {
                let exact = match op {
                    // 1 / (1 + exp(-x)) is 0 too early.
                    Op::Sigmoid if x < -700.0 => x.exp(),
                    _ => function(&[x]),
                };
                let equal = y == exact || y.is_nan() && exact.is_nan();
                assert!(
                    y != 0.0 || y.is_sign_negative() == exact.is_sign_negative(),
                    "{op:?} {x:e}"
                );
                let unit = (exact.abs().next_up() - exact.abs()).max(5e-324);
                let off = if equal { 0.0 } else { (y - exact).abs() / unit };
                assert!(!off.is_nan(), "{op:?}({x:e}) is {exact:e}, not {y:e}");
                if off > most {
                    (most, at) = (off, x);
                }
            }
            println!("{op:?} {isa:?}: {most} units at {at:e}");
            assert!(most <= bound, "{op:?}({at:e}) is off by {most} units with {isa:?}");
        }
    });
}

#[test]
fn half_types_convert_as_the_half_crate_does() {
    use math::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
    for bits in 0..=u16::MAX {
        let (h, b) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
        assert!(
            same(f16_to_f32(bits), h.to_f32()) && same(bf16_to_f32(bits), b.to_f32()),
            "{bits:#x}"
        );
    }
    for i in 0..=u32::MAX / 1201 {
        let x = f32::from_bits(i * 1201);
        assert_eq!(f32_to_bf16(x), half::bf16::from_f32(x).to_bits(), "{x:e}");
        let (got, expected) = (f32_to_f16(x), half::f16::from_f32(x));
        assert!(
            got == expected.to_bits() || x.is_nan() && half::f16::from_bits(got).is_nan(),
            "{x:e}"
        );
    }
}
