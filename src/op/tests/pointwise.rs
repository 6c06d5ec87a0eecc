//! Floats against `libm` (the rows use the standard library), integers against Rust's own types of each width.

use super::*;

type Unary = (Op, fn(f64) -> f64);
type Binary = (Op, fn(f64, f64) -> f64);

const UNARY: &[Unary] = &[
    (Op::Neg, |x| 0.0f64.copysign(-1.0) - x),
    (Op::Abs, libm::fabs),
    (Op::Sign, |x| {
        if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            0.0
        }
    }),
    (Op::Exp, libm::exp),
    (Op::Expm1, libm::expm1),
    (Op::Log, libm::log),
    (Op::Log1p, libm::log1p),
    (Op::Sqrt, libm::sqrt),
    (Op::Rsqrt, |x| 1.0 / libm::sqrt(x)),
    (Op::Sin, libm::sin),
    (Op::Cos, libm::cos),
    (Op::Tanh, libm::tanh),
    (Op::Sigmoid, |x| 0.5 + 0.5 * libm::tanh(0.5 * x)),
    (Op::Floor, libm::floor),
    (Op::Ceil, libm::ceil),
    (Op::Round, libm::rint),
    (Op::Trunc, libm::trunc),
];

const BINARY: &[Binary] = &[
    (Op::Add, |x, y| x + y),
    (Op::Sub, |x, y| x - y),
    (Op::Mul, |x, y| x * y),
    (Op::Div, |x, y| x / y),
    (Op::Rem, libm::fmod),
    (Op::Pow, libm::pow),
    (Op::Atan2, libm::atan2),
    (Op::Max, |x, y| {
        if x.is_nan() || y.is_nan() {
            f64::NAN
        } else if y > x {
            y
        } else {
            x
        }
    }),
    (Op::Min, |x, y| {
        if x.is_nan() || y.is_nan() {
            f64::NAN
        } else if y < x {
            y
        } else {
            x
        }
    }),
];

type OfOrdering = fn(std::cmp::Ordering) -> bool;

const COMPARISONS: &[(Op, OfOrdering)] = &[
    (Op::Eq, |o| o.is_eq()),
    (Op::Ne, |o| o.is_ne()),
    (Op::Lt, |o| o.is_lt()),
    (Op::Le, |o| o.is_le()),
    (Op::Gt, |o| o.is_gt()),
    (Op::Ge, |o| o.is_ge()),
];

/// The edges of floating point and some ordinary numbers.
fn float_values() -> Vec<f64> {
    let mut values = vec![0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 1e-3, 6e-8, 1e-40, 100.0, 65504.0, 3e38];
    values.push(f64::INFINITY);
    values.extend(values.clone().iter().map(|v| -v));
    values.push(f64::NAN);
    let mut numbers = Numbers(1);
    values.extend((0..50).map(|_| numbers.float()));
    values
}

fn int_values(dtype: DType) -> Vec<i64> {
    let bits = dtype.size() as u32 * 8;
    let (low, high) = match dtype {
        U8 => (0, 255),
        _ => (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
    };
    let mut values = vec![low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 10, 64];
    if low < 0 {
        values.extend([-1, -2, -3, -7]);
    }
    values
}

fn array_i64(dtype: DType, values: &[i64]) -> Array {
    let mut a = Array::zeros(&Ty::new(dtype, &[values.len() as i64]));
    values.iter().enumerate().for_each(|(i, &v)| a.set_i64(i, v));
    a
}

fn array_f64(dtype: DType, values: &[f64]) -> Array {
    Array::from_f64(dtype, &[values.len() as i64], values)
}

/// All pairs of elements, as two arrays.
fn pairs<T: Copy>(values: &[T]) -> (Vec<T>, Vec<T>) {
    values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).unzip()
}

#[test]
fn floats_of_every_width() {
    for dtype in FLOATS {
        let x = array_f64(dtype, &float_values());
        for (op, f) in UNARY {
            let want: Vec<f64> = x.to_f64s().into_iter().map(f).collect();
            assert_close(&format!("{op:?}"), &one(*op, &[&x], &[]), &array_f64(dtype, &want), 4.0);
        }
        let (a, b) = pairs(&x.to_f64s());
        let (a, b) = (array_f64(dtype, &a), array_f64(dtype, &b));
        for (op, f) in BINARY {
            let values = a.to_f64s().into_iter().zip(b.to_f64s());
            let want: Vec<f64> = values.map(|(x, y)| f(x, y)).collect();
            let got = one(*op, &[&a, &b], &[]);
            assert_close(&format!("{op:?}"), &got, &array_f64(dtype, &want), 4.0);
        }
        for (op, holds) in COMPARISONS {
            let values = a.to_f64s().into_iter().zip(b.to_f64s());
            let unordered = *op == Op::Ne;
            let want: Vec<f64> = values
                .map(|(x, y)| x.partial_cmp(&y).map_or(unordered, holds) as u8 as f64)
                .collect();
            check(*op, &[&a, &b], &[], &array_f64(Bool, &want));
        }
    }
}

#[test]
fn basic_arithmetic_is_rounded_once() {
    let mut numbers = Numbers(2);
    let (a, b) = (numbers.floats(F32, &[200]), numbers.floats(F32, &[200]));
    type Binary = fn(f32, f32) -> f32;
    let native: [(Op, Binary); 4] = [
        (Op::Add, |x, y| x + y),
        (Op::Sub, |x, y| x - y),
        (Op::Mul, |x, y| x * y),
        (Op::Div, |x, y| x / y),
    ];
    for (op, f) in native {
        let values = a.to_f64s().into_iter().zip(b.to_f64s());
        let want: Vec<f64> = values.map(|(x, y)| f(x as f32, y as f32) as f64).collect();
        check(op, &[&a, &b], &[], &array_f64(F32, &want));
    }
}

/// Published values (Abramowitz and Stegun, table 7.1, and mpmath).
#[test]
fn erf_at_known_points() {
    let x = [0.0, 0.5, 1.0, 2.0, -3.0, f64::INFINITY, f64::NAN];
    let y = [
        0.0,
        0.520_499_877_813_046_5,
        0.842_700_792_949_714_9,
        0.995_322_265_018_952_7,
        -0.999_977_909_503_001_4,
        1.0,
        f64::NAN,
    ];
    assert_close("erf", &one(Op::Erf, &[&array_f64(F64, &x)], &[]), &array_f64(F64, &y), 1.0);
}

/// Published values (Abramowitz and Stegun, table 7.1, and mpmath).
#[test]
fn erfc_and_erfinv_at_known_points() {
    let x = [0.0, 1.0, 4.0, -3.0, 10.0, f64::INFINITY, f64::NAN];
    let y = [
        1.0,
        0.157_299_207_050_285_13,
        1.541_725_790_028_002e-8,
        1.999_977_909_503_001_4,
        2.088_487_583_762_545e-45,
        0.0,
        f64::NAN,
    ];
    assert_close("erfc", &one(Op::Erfc, &[&array_f64(F64, &x)], &[]), &array_f64(F64, &y), 4.0);
    let x = [0.0, 0.5, -0.875, 1.0 - 2f64.powi(-20), 2f64.powi(-40), 1.0, -1.0, 1.5];
    let y = [
        0.0,
        0.476_936_276_204_469_9,
        -1.084_787_040_069_283_1,
        3.465_505_025_803_331,
        8.060_186_932_677_953e-13,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let got = one(Op::Erfinv, &[&array_f64(F64, &x)], &[]);
    assert_close("erfinv", &got, &array_f64(F64, &y), 8.0);
}

#[test]
fn signs_of_zero() {
    let x = array_f64(F32, &[0.0, -0.0, -0.4, 0.4]);
    check(Op::Neg, &[&x], &[], &array_f64(F32, &[-0.0, 0.0, 0.4, -0.4]));
    check(Op::Abs, &[&x], &[], &array_f64(F32, &[0.0, 0.0, 0.4, 0.4]));
    check(Op::Ceil, &[&x], &[], &array_f64(F32, &[0.0, -0.0, -0.0, 1.0]));
    check(Op::Round, &[&x], &[], &array_f64(F32, &[0.0, -0.0, -0.0, 0.0]));
    check(Op::Trunc, &[&x], &[], &array_f64(F32, &[0.0, -0.0, -0.0, 0.0]));
    check(Op::Floor, &[&x], &[], &array_f64(F32, &[0.0, -0.0, -1.0, 0.0]));
    let halves = array_f64(F32, &[0.5, 1.5, 2.5, -2.5]);
    check(Op::Round, &[&halves], &[], &array_f64(F32, &[0.0, 2.0, 2.0, -2.0]));
}

/// What each operation gives in a type of the right width; `None` where it is an error.
macro_rules! native_integers {
    ($name:ident, $t:ty) => {
        fn $name(op: Op, a: i64, b: i64) -> Option<i64> {
            let (x, y) = (a as $t, b as $t);
            Some(match op {
                Op::Neg => (0 as $t).wrapping_sub(x),
                Op::Abs => {
                    if x < 0 as $t {
                        (0 as $t).wrapping_sub(x)
                    } else {
                        x
                    }
                }
                Op::Sign => ((a > 0) as i64 - (a < 0) as i64) as $t,
                Op::Not => !x,
                Op::Add => x.wrapping_add(y),
                Op::Sub => x.wrapping_sub(y),
                Op::Mul => x.wrapping_mul(y),
                Op::Div => {
                    if b == 0 {
                        return None;
                    } else {
                        x.wrapping_div(y)
                    }
                }
                Op::Rem => {
                    if b == 0 {
                        return None;
                    } else {
                        x.wrapping_rem(y)
                    }
                }
                // 1/x truncated.
                Op::Pow if b < 0 => match a {
                    1 => 1,
                    -1 => {
                        if b % 2 == 0 {
                            1
                        } else {
                            x
                        }
                    }
                    _ => 0,
                },
                Op::Pow => x.wrapping_pow(b as u32),
                Op::Max => x.max(y),
                Op::Min => x.min(y),
                Op::And => x & y,
                Op::Or => x | y,
                Op::Xor => x ^ y,
                _ => unreachable!(),
            } as i64)
        }
    };
}

native_integers!(native_u8, u8);
native_integers!(native_i8, i8);
native_integers!(native_i16, i16);
native_integers!(native_i32, i32);
native_integers!(native_i64, i64);

fn native(dtype: DType) -> fn(Op, i64, i64) -> Option<i64> {
    match dtype {
        U8 => native_u8,
        I8 => native_i8,
        I16 => native_i16,
        I32 => native_i32,
        _ => native_i64,
    }
}

#[test]
fn integers_wrap_at_their_width() {
    let two = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem, Op::Pow, Op::Max, Op::Min];
    for dtype in INTS {
        let values = int_values(dtype);
        for op in [Op::Neg, Op::Abs, Op::Sign, Op::Not] {
            let want: Vec<i64> = values.iter().map(|&v| native(dtype)(op, v, 0).unwrap()).collect();
            check(op, &[&array_i64(dtype, &values)], &[], &array_i64(dtype, &want));
        }
        for op in two.into_iter().chain([Op::And, Op::Or, Op::Xor]) {
            for (a, b) in values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))) {
                // Rust's powers take exponents of 32 bits.
                if op == Op::Pow && b > u32::MAX as i64 {
                    continue;
                }
                let operands = [array_i64(dtype, &[a]), array_i64(dtype, &[b])];
                let got = run(op, &[&operands[0], &operands[1]], &[]);
                match native(dtype)(op, a, b) {
                    Some(want) => {
                        let want = array_i64(dtype, &[want]);
                        assert_eq!(got.unwrap()[0], want, "{op:?} {a} {b} in {dtype}");
                    }
                    None => assert!(got.unwrap_err().message.contains("ZeroDivisionError")),
                }
            }
        }
        let (a, b) = pairs(&values);
        for (op, holds) in COMPARISONS {
            let want: Vec<i64> = a.iter().zip(&b).map(|(x, y)| holds(x.cmp(y)) as i64).collect();
            check(
                *op,
                &[&array_i64(dtype, &a), &array_i64(dtype, &b)],
                &[],
                &array_i64(Bool, &want),
            );
        }
    }
}

#[test]
fn logic_on_bool() {
    let (a, b) = (array_i64(Bool, &[0, 0, 1, 1]), array_i64(Bool, &[0, 1, 0, 1]));
    check(Op::Not, &[&a], &[], &array_i64(Bool, &[1, 1, 0, 0]));
    let cases = [
        (Op::And, [0, 0, 0, 1]),
        (Op::Or, [0, 1, 1, 1]),
        (Op::Xor, [0, 1, 1, 0]),
        (Op::Max, [0, 1, 1, 1]),
        (Op::Min, [0, 0, 0, 1]),
        (Op::Eq, [1, 0, 0, 1]),
        (Op::Lt, [0, 1, 0, 0]),
    ];
    for (op, want) in cases {
        check(op, &[&a, &b], &[], &array_i64(Bool, &want));
    }
    // Any non-zero byte is true.
    let strange = Array { ty: Ty::new(Bool, &[2]), bytes: vec![2, 0] };
    check(Op::Not, &[&strange], &[], &array_i64(Bool, &[0, 1]));
}

#[test]
fn casts() {
    let to = |dtype| [Attr::DType(dtype)];
    let floats = array_f64(F32, &[0.0, -0.0, 1.9, -1.9, 300.0, 0.1]);
    check(Op::Cast, &[&floats], &to(I32), &array_i64(I32, &[0, 0, 1, -1, 300, 0]));
    check(Op::Cast, &[&floats], &to(U8), &array_i64(U8, &[0, 0, 1, 255, 44, 0]));
    check(Op::Cast, &[&floats], &to(Bool), &array_i64(Bool, &[0, 0, 1, 1, 1, 1]));
    let nan = array_f64(F64, &[f64::NAN, f64::INFINITY]);
    check(Op::Cast, &[&nan], &to(Bool), &array_i64(Bool, &[1, 1]));
    check(Op::Cast, &[&nan], &to(F16), &array_f64(F16, &[f64::NAN, f64::INFINITY]));
    let ints = array_i64(I64, &[i64::MAX, -1, 65536, 2048 + 1]);
    check(Op::Cast, &[&ints], &to(I16), &array_i64(I16, &[-1, -1, 0, 2049]));
    check(Op::Cast, &[&ints], &to(F64), &array_f64(F64, &[i64::MAX as f64, -1.0, 65536.0, 2049.0]));
    check(
        Op::Cast,
        &[&ints],
        &to(F16),
        &array_f64(F16, &[f64::INFINITY, -1.0, f64::INFINITY, 2048.0]),
    );
    for (from, into) in numbers().flat_map(|a| numbers().map(move |b| (a, b))) {
        let x = Numbers(3).indices(from, &[2, 3], 100);
        check(Op::Cast, &[&x], &to(into), &Array::from_f64(into, &[2, 3], &x.to_f64s()));
        let truth = array_i64(Bool, &[1, 0]);
        check(Op::Cast, &[&truth], &to(into), &array_i64(into, &[1, 0]));
    }
}

#[test]
fn select_moves_any_dtype() {
    let condition = array_i64(Bool, &[1, 0, 1]);
    for dtype in DType::all() {
        let mut numbers = Numbers(4);
        let (a, b) = (numbers.bytes(dtype, &[3]), numbers.bytes(dtype, &[3]));
        let got = one(Op::Select, &[&condition, &a, &b], &[]);
        assert_eq!([got.raw(0), got.raw(1), got.raw(2)], [a.raw(0), b.raw(1), a.raw(2)]);
    }
}

#[test]
fn constants_and_iota() {
    for dtype in numbers() {
        let float = [Attr::Float(3.0), Attr::DType(dtype)];
        check(Op::Const, &[], &float, &Array::from_f64(dtype, &[], &[3.0]));
        for dim in 0..3 {
            let sizes = [2, 1, 3];
            let want: Vec<f64> = coordinates(&sizes).iter().map(|c| c[dim] as f64).collect();
            let attrs = [ints(&sizes), Attr::Int(dim as i64), Attr::DType(dtype)];
            check(Op::Iota, &[], &attrs, &Array::from_f64(dtype, &sizes, &want));
        }
        let empty = [ints(&[0, 2]), Attr::Int(1), Attr::DType(dtype)];
        check(Op::Iota, &[], &empty, &Array::from_f64(dtype, &[0, 2], &[]));
    }
    let large = [Attr::Int((1 << 53) + 1), Attr::DType(I64)];
    assert_eq!(one(Op::ConstInt, &[], &large).i64(0), (1 << 53) + 1);
    assert_eq!(one(Op::ConstInt, &[], &[Attr::Int(5), Attr::DType(Bool)]).bytes, [1]);
    assert_eq!(one(Op::Const, &[], &[Attr::Float(0.1), Attr::DType(F16)]).f64(0), 0.0999755859375);
}

#[test]
fn random_numbers_continue_where_the_offset_says() {
    let seed = array_i64(I64, &[0x1234_5678_9abc]);
    let scalar = |v: i64| {
        let mut a = Array::zeros(&Ty::new(I64, &[]));
        a.set_i64(0, v);
        a
    };
    let seed = scalar(seed.i64(0));
    let all = one(Op::Random, &[&seed, &scalar(5)], &[ints(&[4, 1000])]).to_f64s();
    let later = one(Op::Random, &[&seed, &scalar(7)], &[ints(&[100])]).to_f64s();
    assert_eq!(all[8..108], later);
    assert!(all.iter().all(|v| (0.0..1.0).contains(v)));
    let mean = all.iter().sum::<f64>() / 4000.0;
    let variance = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4000.0;
    assert!((mean - 0.5).abs() < 0.02 && (variance - 1.0 / 12.0).abs() < 0.01);
    assert!(one(Op::Random, &[&seed, &scalar(0)], &[ints(&[0])]).is_empty());
    // The lower words are those of the numbers, the upper ones others, and every bit is as often 0 as 1.
    let bits = one(Op::RandomBits, &[&seed, &scalar(5)], &[ints(&[4, 1000])]);
    let bits: Vec<u64> = (0..bits.len()).map(|i| bits.i64(i) as u64).collect();
    assert!(bits.iter().zip(&all).all(|(bits, v)| (*bits as u32 >> 8) as f64 / 16777216.0 == *v));
    for bit in 0..64 {
        let ones = bits.iter().filter(|bits| **bits >> bit & 1 == 1).count();
        assert!(ones.abs_diff(2000) < 150, "bit {bit}: {ones}");
    }
}

#[test]
fn empty_arrays_give_empty_arrays() {
    for row in crate::op::table::TABLE.iter().filter(|row| row.attrs.is_empty()) {
        let crate::op::Arity::Exactly(n) = row.arity else { continue };
        if row.class != crate::op::Class::Pointwise || row.op == Op::Select {
            continue;
        }
        for dtype in DType::all() {
            let x = Array::zeros(&Ty::new(dtype, &[2, 0, 3]));
            if let Ok(results) = run(row.op, &vec![&x; n], &[]) {
                assert_eq!(results[0].ty.sizes.as_slice(), [2, 0, 3]);
            }
        }
    }
}
