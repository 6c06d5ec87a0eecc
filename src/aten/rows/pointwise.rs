//! Arithmetic, comparisons and logic, element by element.

use super::{PLAIN, moving};
use crate::aten::call::{Call, Rule};
use crate::aten::facts::{LEAVES_BOOLS, LEAVES_INTEGERS};
use crate::aten::{Outs, Row, complex, row};
use crate::dtype::DType;
use crate::graph::math::{V, together};
use crate::op::Op;
use crate::op::array::integer_range;
use crate::record::Arg;
use std::f64::consts::PI;

const BINARY: &[&str] = &["Tensor", "Scalar", "out", "Scalar_out"];
const EITHER: &[&str] =
    &["Tensor", "Scalar", "Scalar_Tensor", "Tensor_out", "Scalar_out", "Scalar_Tensor_out"];
const SHIFTS: &[&str] = &[
    "Tensor",
    "Tensor_Scalar",
    "Scalar_Tensor",
    "Tensor_out",
    "Tensor_Scalar_out",
    "Scalar_Tensor_out",
];
const COMPARE: &[&str] = &["Tensor", "Scalar", "Tensor_out", "Scalar_out"];

pub const ROWS: &[Row] = &[
    // ---- one operand
    row("neg", PLAIN, |c| c.elementwise([0], Rule::Number, |[x]| -x))
        .complex_by(|c| map(c, complex::neg)),
    row("abs", PLAIN, |c| c.elementwise([0], Rule::Number, |[x]| x.abs()))
        .complex_by(|c| Ok(vec![complex::abs(c.tensor(0)?)])),
    row("sign", PLAIN, |c| c.elementwise([0], Rule::Number, |[x]| x.unary(Op::Sign))),
    row("sgn", PLAIN, |c| c.elementwise([0], Rule::Number, |[x]| x.unary(Op::Sign)))
        .complex_by(|c| map(c, complex::sgn)),
    row("reciprocal", PLAIN, |c| c.elementwise([0], Rule::Float, |[x]| 1.0 / x))
        .complex_by(|c| map(c, complex::reciprocal)),
    row("sqrt", PLAIN, |c| c.elementwise([0], Rule::Float, |[x]| x.sqrt()))
        .complex_by(|c| map(c, complex::sqrt)),
    row("rsqrt", PLAIN, |c| c.elementwise([0], Rule::Float, |[x]| x.unary(Op::Rsqrt)))
        .complex_by(|c| map(c, |z| complex::reciprocal(complex::sqrt(z)))),
    row("erf", PLAIN, |c| c.elementwise([0], Rule::Float, |[x]| x.unary(Op::Erf))),
    row("erfinv", PLAIN, |c| c.elementwise([0], Rule::Float, |[x]| x.unary(Op::Erfinv))),
    row("erfc", PLAIN, |c| c.elementwise([0], Rule::Float, |[x]| x.unary(Op::Erfc))),
    row("floor", PLAIN, |c| rounded(c, Op::Floor)),
    row("ceil", PLAIN, |c| rounded(c, Op::Ceil)),
    row("round", PLAIN, |c| rounded(c, Op::Round)),
    row("round", &["decimals", "decimals_out"], |c| {
        let places = c.int(1, 0)?;
        let (step, is_left) = (10f64.powf(places.unsigned_abs() as f64), places < 0);
        c.elementwise([0], Rule::Formula, |[x]| match is_left {
            true => (x / step).unary(Op::Round) * step,
            false => (x * step).unary(Op::Round) / step,
        })
    })
    .floats(),
    row("trunc", PLAIN, |c| rounded(c, Op::Trunc)),
    row("frac", PLAIN, |c| c.elementwise([0], Rule::Formula, |[x]| x - x.unary(Op::Trunc))),
    row("bitwise_not", PLAIN, |c| c.elementwise([0], Rule::Exact, |[x]| x.not())),
    row("logical_not", PLAIN, |c| Ok(vec![truth(c, 0)?.not()])).complex(),
    row("isnan", PLAIN, |c| test(c, |x| x.ne(x))).complex_by(|c| test_parts(c, |x| x.ne(x))),
    row("isinf", PLAIN, |c| test(c, |x| x.abs().eq(f64::INFINITY)))
        .complex_by(|c| test_parts(c, |x| x.abs().eq(f64::INFINITY))),
    row("signbit", PLAIN, |c| Ok(vec![signbit(c.tensor(0)?)])),
    row("isposinf", PLAIN, |c| test(c, |x| x.eq(f64::INFINITY))),
    row("isneginf", PLAIN, |c| test(c, |x| x.eq(f64::NEG_INFINITY))),
    row("isfinite", &[""], |c| Ok(vec![finite(c.tensor(0)?)])),
    row("nan_to_num", PLAIN, nan_to_num),
    row("angle", PLAIN, |c| {
        c.elementwise([0], Rule::Float, |[x]| {
            let angle = x.lt(0.0).select(x.math().constant(PI, x.dtype()), 0.0);
            x.ne(x).select(x, angle)
        })
    })
    .complex_by(|c| Ok(vec![complex::angle(c.tensor(0)?)])),
    row("conj_physical", PLAIN, |c| Ok(vec![c.tensor(0)?])).complex_by(|c| map(c, complex::conj)),
    row("_conj_physical", PLAIN, |c| Ok(vec![c.tensor(0)?])).complex_by(|c| map(c, complex::conj)),
    // ---- two operands
    row("complex", PLAIN, |c| Ok(vec![complex::complex(c.tensor(0)?, c.tensor(1)?)]))
        .wide_floats()
        .complex(),
    row("polar", PLAIN, |c| Ok(vec![complex::polar(c.tensor(0)?, c.tensor(1)?)]))
        .wide_floats()
        .complex(),
    row("add", BINARY, |c| scaled(c, [0, 1], |a, b| a + b))
        .special(alpha_is_one)
        .complex_by(|c| scaled_complex(c, [0, 1], complex::add)),
    row("sub", BINARY, |c| scaled(c, [0, 1], |a, b| a - b))
        .special(alpha_is_one)
        .complex_by(|c| scaled_complex(c, [0, 1], complex::sub)),
    row("rsub", COMPARE, |c| scaled(c, [1, 0], |a, b| a - b))
        .special(alpha_is_one)
        .complex_by(|c| scaled_complex(c, [1, 0], complex::sub)),
    row("mul", BINARY, |c| c.elementwise([0, 1], Rule::Number, |[a, b]| a * b))
        .facts(LEAVES_BOOLS)
        .complex_by(|c| c.elementwise([0, 1], Rule::Number, |[a, b]| complex::mul(a, b))),
    row("div", BINARY, |c| c.elementwise([0, 1], Rule::Float, |[a, b]| a / b))
        .facts(LEAVES_INTEGERS)
        .complex_by(|c| c.elementwise([0, 1], Rule::Number, |[a, b]| complex::div(a, b))),
    row("div", &["Tensor_mode", "Scalar_mode", "out_mode", "Scalar_mode_out"], divide)
        .refuses(integers),
    row("floor_divide", &["", "Tensor", "Scalar", "out", "Scalar_out"], |c| {
        c.elementwise([0, 1], Rule::Formula, |[a, b]| floor_divide(a, b))
    })
    .refuses(integers),
    row("remainder", EITHER, |c| c.elementwise([0, 1], Rule::Rounded, |[a, b]| remainder(a, b)))
        .refuses(integers),
    row("fmod", COMPARE, |c| c.elementwise([0, 1], Rule::Rounded, |[a, b]| a.rem(b)))
        .refuses(integers),
    // Integers to negative powers are refused if the exponent is a number, not a tensor.
    row("pow", &["Tensor_Scalar", "Scalar", "Tensor_Scalar_out", "Scalar_out"], |c| {
        if !c.common(&[0, 1])?.is_float() && c.float(1, 0.0).is_ok_and(|exponent| exponent < 0.0) {
            return crate::invalid!("Integers to negative integer powers are not allowed.");
        }
        if is_number(c.arg(1)) || !c.common(&[0, 1])?.is_float() {
            return power(c);
        }
        // A varying exponent may be a half: then a root is taken, which of negative infinity is NaN, unlike a power.
        c.elementwise([0, 1], Rule::Rounded, |[a, b]| root_or_power(c, a, b))
    })
    .special(|arg, value| arg == 1 && EXPONENTS.contains(&value))
    .essential(|_, value| value < 0.0)
    .complex_by(complex_power),
    row("pow", &["Tensor_Tensor", "Tensor", "Tensor_Tensor_out"], power)
        .special(|arg, value| arg == 1 && EXPONENTS.contains(&value))
        .complex_by(complex_power),
    row("maximum", PLAIN, |c| c.elementwise([0, 1], Rule::Exact, |[a, b]| a.max(b))),
    row("minimum", PLAIN, |c| c.elementwise([0, 1], Rule::Exact, |[a, b]| a.min(b))),
    row("fmax", PLAIN, |c| c.elementwise([0, 1], Rule::Exact, |[a, b]| of_numbers(a, b, a.max(b)))),
    row("fmin", PLAIN, |c| c.elementwise([0, 1], Rule::Exact, |[a, b]| of_numbers(a, b, a.min(b)))),
    row("copysign", BINARY, |c| {
        c.elementwise([0, 1], Rule::Float, |[a, b]| {
            let size = a.abs();
            signbit(b).select(-size, size)
        })
    }),
    row("nextafter", PLAIN, |c| c.elementwise([0, 1], Rule::Exact, |[a, b]| next_after(a, b)))
        .floats(),
    row("hypot", PLAIN, |c| {
        c.elementwise([0, 1], Rule::Formula, |[a, b]| complex::abs_of_parts([a, b]))
    })
    .floats(),
    row("heaviside", PLAIN, |c| {
        c.elementwise([0, 1], Rule::Exact, |[x, at_zero]| {
            x.eq(0.0).select(at_zero, x.gt(0.0).cast(x.dtype()))
        })
    })
    .numbers(),
    row("atan2", PLAIN, |c| c.elementwise([0, 1], Rule::Float, |[a, b]| a.binary(Op::Atan2, b))),
    row("ldexp", &["Tensor", "out", ""], ldexp),
    row("eq", COMPARE, |c| compare(c, Op::Eq)).complex_by(|c| Ok(vec![differ(c)?.not()])),
    row("ne", COMPARE, |c| compare(c, Op::Ne)).complex_by(|c| Ok(vec![differ(c)?])),
    row("lt", COMPARE, |c| compare(c, Op::Lt)),
    row("le", COMPARE, |c| compare(c, Op::Le)),
    row("gt", COMPARE, |c| compare(c, Op::Gt)),
    row("ge", COMPARE, |c| compare(c, Op::Ge)),
    row("logical_and", PLAIN, |c| Ok(vec![truth(c, 0)?.and(truth(c, 1)?)])).complex(),
    row("logical_or", PLAIN, |c| Ok(vec![truth(c, 0)?.or(truth(c, 1)?)])).complex(),
    row("logical_xor", PLAIN, |c| Ok(vec![truth(c, 0)?.ne(truth(c, 1)?)])).complex(),
    row("bitwise_and", EITHER, |c| c.elementwise([0, 1], Rule::Exact, |[a, b]| a.and(b))),
    row("bitwise_or", EITHER, |c| c.elementwise([0, 1], Rule::Exact, |[a, b]| a.or(b))),
    row("bitwise_xor", EITHER, |c| {
        c.elementwise([0, 1], Rule::Exact, |[a, b]| a.binary(Op::Xor, b))
    }),
    row("bitwise_left_shift", SHIFTS, |c| {
        c.elementwise([0, 1], Rule::Number, |[a, by]| left(a, by))
    })
    .integers(),
    row("bitwise_right_shift", SHIFTS, |c| {
        c.elementwise([0, 1], Rule::Number, |[a, by]| right(a, by))
    })
    .integers(),
    row("__ilshift__", EITHER, |c| c.elementwise([0, 1], Rule::Number, |[a, by]| left(a, by)))
        .integers(),
    row("__irshift__", EITHER, |c| c.elementwise([0, 1], Rule::Number, |[a, by]| right(a, by)))
        .integers(),
    row("__lshift__", EITHER, |c| c.elementwise([0, 1], Rule::Number, |[a, by]| left(a, by)))
        .integers(),
    row("__rshift__", EITHER, |c| c.elementwise([0, 1], Rule::Number, |[a, by]| right(a, by)))
        .integers(),
    // ---- more operands
    row("where", &["self", "ScalarSelf", "ScalarOther", "Scalar", "self_out"], |c| {
        let condition = truth(c, 0)?;
        c.elementwise([1, 2], Rule::Exact, |[a, b]| condition.select(a, b))
    })
    .complex(),
    row("masked_fill", &["Scalar", "Tensor", "Scalar_out", "Tensor_out"], |c| {
        let x = c.tensor(0)?;
        Ok(vec![truth(c, 1)?.select(c.number(2, 0.0, x.dtype())?, x)])
    })
    .complex(),
    row("clamp", PLAIN, clamp_by_numbers).special(is_nan).essential(is_nan),
    row("clamp", &["Tensor", "Tensor_out"], |c| clamp(c, Some(1), Some(2))),
    row("clamp_min", CLAMP, |c| clamp(c, Some(1), None)),
    row("clamp_max", CLAMP, |c| clamp(c, None, Some(1))),
    row("addcmul", PLAIN, |c| {
        c.parametric([0, 1, 2], [(3, 1.0)], Rule::Formula, |[x, a, b], [value]| x + value * a * b)
    })
    .complex_by(|c| {
        c.parametric([0, 1, 2], [(3, 1.0)], Rule::Formula, |[x, a, b], [value]| {
            complex::add(x, complex::mul(complex::mul(value, a), b))
        })
    }),
    row("addcdiv", PLAIN, |c| {
        c.parametric([0, 1, 2], [(3, 1.0)], Rule::Formula, |[x, a, b], [value]| x + value * a / b)
    })
    .complex_by(|c| {
        c.parametric([0, 1, 2], [(3, 1.0)], Rule::Formula, |[x, a, b], [value]| {
            complex::add(x, complex::div(complex::mul(value, a), b))
        })
    }),
    row("lerp", &["Scalar", "Scalar_out"], |c| {
        c.parametric([0, 1], [(2, 0.0)], Rule::Formula, |[a, b], [weight]| lerp(a, b, weight))
    }),
    row("lerp", &["Tensor", "Tensor_out"], |c| {
        c.elementwise([0, 1, 2], Rule::Formula, |[a, b, weight]| lerp(a, b, weight))
    }),
];

/// 2 to the power `by`, as i64, and whether `by` is at least 0 and below the bits of `a`; if not, the exponent is `beyond`.
fn power_of_two<'a>(a: V<'a>, by: V<'a>, beyond: f64) -> (V<'a>, V<'a>) {
    let is_within = by.ge(0.0).and(by.lt(8.0 * a.dtype().size() as f64));
    let by = is_within.select(by.cast(DType::I64), beyond);
    (a.math().constant_int(2, DType::I64).pow(by), is_within)
}

/// `a << by`; 0 if `by` is negative or at least the number of bits.
fn left<'a>(a: V<'a>, by: V<'a>) -> V<'a> {
    let (power, is_within) = power_of_two(a, by, 0.0);
    is_within.select(a.cast(DType::I64) * power, 0.0).cast(a.dtype())
}

/// `a >> by`, filled with the sign: everywhere if `by` is negative or at least the number of bits.
fn right<'a>(a: V<'a>, by: V<'a>) -> V<'a> {
    // 2^63 is negative, and larger in size than every dividend.
    let (power, _) = power_of_two(a, by, 63.0);
    let x = a.cast(DType::I64);
    let is_negative = x.lt(0.0);
    let part = is_negative.select(x.not(), x) / power;
    is_negative.select(part.not(), part).cast(a.dtype())
}

const CLAMP: &[&str] = &["", "Tensor", "out", "Tensor_out"];
/// Exponents that are computed without `pow`.
const EXPONENTS: [f64; 8] = [0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0];

fn alpha_is_one(arg: usize, value: f64) -> bool {
    arg == 2 && value == 1.0
}

fn is_nan(_: usize, value: f64) -> bool {
    value.is_nan()
}

/// Argument `i` as bool: not zero.
fn truth<'a>(c: &Call<'a>, i: usize) -> crate::error::Result<V<'a>> {
    Ok(c.tensor(i)?.cast(DType::Bool))
}

/// Rounds floats; integers stay as they are.
fn rounded<'a>(c: &Call<'a>, op: Op) -> Outs<'a> {
    c.elementwise([0], Rule::Exact, |[x]| if x.dtype().is_float() { x.unary(op) } else { x })
}

/// A test that is false for integers.
fn test<'a>(c: &Call<'a>, question: fn(V<'a>) -> V<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    Ok(vec![if x.dtype().is_float() {
        question(x)
    } else {
        c.math.full(0.0, DType::Bool, &x.sizes())
    }])
}

/// Neither infinite nor NaN.
pub fn finite(x: V) -> V {
    if x.dtype().is_float() {
        return x.abs().lt(f64::INFINITY);
    }
    x.math().full(1.0, DType::Bool, &x.sizes())
}

fn nan_to_num<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let largest = match x.dtype() {
        DType::F16 => 65504.0,
        DType::BF16 => 3.3895313892515355e38,
        DType::F32 => f32::MAX as f64,
        DType::F64 => f64::MAX,
        _ => return Ok(vec![x]),
    };
    let nan = c.number(1, 0.0, x.dtype())?;
    let positive = c.number(2, largest, x.dtype())?;
    let negative = c.number(3, -largest, x.dtype())?;
    let y = x.ne(x).select(nan, x);
    let y = x.eq(f64::INFINITY).select(positive, y);
    Ok(vec![x.eq(f64::NEG_INFINITY).select(negative, y)])
}

/// `a ∘ alpha * b` of the arguments `[a, b]`; alpha is argument 2.
fn scaled<'a>(c: &Call<'a>, at: [usize; 2], join: fn(V<'a>, V<'a>) -> V<'a>) -> Outs<'a> {
    if c.is(2, 1.0, 1.0) {
        return c.elementwise(at, Rule::Number, |[a, b]| join(a, b));
    }
    c.parametric(at, [(2, 1.0)], Rule::Formula, |[a, b], [alpha]| join(a, b * alpha))
}

/// [`scaled`], of complex numbers.
fn scaled_complex<'a>(c: &Call<'a>, at: [usize; 2], join: fn(V<'a>, V<'a>) -> V<'a>) -> Outs<'a> {
    if c.is(2, 1.0, 1.0) {
        return c.elementwise(at, Rule::Number, |[a, b]| join(a, b));
    }
    c.parametric(at, [(2, 1.0)], Rule::Number, |[a, b], [alpha]| join(a, complex::mul(alpha, b)))
}

/// A function of a complex number.
pub fn map<'a>(c: &Call<'a>, f: fn(V<'a>) -> V<'a>) -> Outs<'a> {
    Ok(vec![f(c.tensor(0)?)])
}

/// A test that is true for a complex number if it is for one of its parts.
fn test_parts<'a>(c: &Call<'a>, question: fn(V<'a>) -> V<'a>) -> Outs<'a> {
    Ok(vec![complex::any_part(c.tensor(0)?, question)])
}

/// `both`, or the other operand if one is NaN.
fn of_numbers<'a>(a: V<'a>, b: V<'a>, both: V<'a>) -> V<'a> {
    a.ne(a).select(b, b.ne(b).select(a, both))
}

/// Whether the sign of a number is negative, even that of a zero or NaN.
fn signbit(x: V) -> V {
    x.bitcast(match x.dtype() {
        DType::F64 => DType::I64,
        DType::F32 => DType::I32,
        DType::F16 | DType::BF16 => DType::I16,
        whole => whole,
    })
    .lt(0.0)
}

/// Whether two complex numbers differ.
fn differ<'a>(c: &Call<'a>) -> crate::error::Result<V<'a>> {
    let [a, b] = together(c.numbers([0, 1], c.common(&[0, 1])?)?);
    Ok(a.pairs().ne(b.pairs()).reduce(Op::Any, &[a.rank() as i64], false))
}

/// Whether a division by zero is an error in this dtype.
fn integers(dtype: DType) -> bool {
    !dtype.is_float()
}

fn divide<'a>(c: &Call<'a>) -> Outs<'a> {
    match c.text(2)? {
        "floor" => c.elementwise([0, 1], Rule::Formula, |[a, b]| floor_divide(a, b)),
        "trunc" => c.elementwise([0, 1], Rule::Formula, |[a, b]| {
            let q = a / b;
            if q.dtype().is_float() { q.unary(Op::Trunc) } else { q }
        }),
        "" => c.elementwise([0, 1], Rule::Float, |[a, b]| a / b),
        mode => crate::invalid!(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'"
        ),
    }
}

/// Whether a remainder with the dividend's sign must move by one divisor to get the divisor's.
fn lags<'a>(remainder: V<'a>, b: V<'a>) -> V<'a> {
    remainder.ne(0.0).and(remainder.lt(0.0).ne(b.lt(0.0)))
}

/// With the sign of the divisor, as Python's `%`.
fn remainder<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    let r = a.rem(b);
    lags(r, b).select(r + b, r)
}

/// Rounds towards minus infinity. Floats as in Python: from the remainder, because `floor(a / b)` may be off by one.
fn floor_divide<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    let r = a.rem(b);
    if !a.dtype().is_float() {
        let q = a / b;
        return lags(r, b).select(q - 1.0, q);
    }
    let q = (a - r) / b;
    let q = lags(r, b).select(q - 1.0, q);
    let down = q.unary(Op::Floor);
    let nearest = (q - down).gt(0.5).select(down + 1.0, down);
    let signed_zero = (a / b) * 0.0;
    b.eq(0.0).select(a / b, q.ne(0.0).select(nearest, signed_zero))
}

/// Whether an argument is known while lowering.
fn is_number(arg: &Arg) -> bool {
    matches!(arg, Arg::Int(_) | Arg::Float(_) | Arg::Bool(_))
}

/// A root where the exponent is a half, else a power.
fn root_or_power<'a>(c: &Call<'a>, a: V<'a>, b: V<'a>) -> V<'a> {
    let is_half = b.eq(0.5);
    let root = moving(c, a, |_| is_half).sqrt();
    if !c.is_differentiated() || !matches!(c.arg(1), Arg::Tensor(_)) {
        return is_half.select(root, moving(c, a, |_| is_half.not()).pow(b));
    }
    // The base is a number: only the exponent has a slope, in the root as in the power.
    let power = a.pow(b);
    let slope = finite(power).select(power, 0.0);
    is_half.select(root.detached().adding_slope_of(slope), power)
}

fn power<'a>(c: &Call<'a>) -> Outs<'a> {
    let is_whole = !c.common(&[0, 1])?.is_float();
    let Some(&known) = EXPONENTS.iter().find(|&&e| c.is(1, e, f64::NAN) && !(is_whole && e < 0.0))
    else {
        return c.elementwise([0, 1], Rule::Rounded, |[a, b]| a.pow(b));
    };
    let (result, compute) = c.plan(&[0, 1], Rule::Number)?;
    let x = c.number(0, 0.0, compute)?;
    let y = match known {
        0.0 => c.math.full(1.0, compute, &x.sizes()),
        1.0 => x,
        2.0 => x * x,
        3.0 => x * x * x,
        0.5 => x.sqrt(),
        -0.5 => x.unary(Op::Rsqrt),
        -1.0 => 1.0 / x,
        _ => {
            // The slope at 0 is infinite, and has a sign.
            let some = moving(c, x, |x| x.ne(0.0));
            let y = 1.0 / (some * some);
            if c.is_differentiated() { x.eq(0.0).select((1.0 / x).abs(), y) } else { y }
        }
    };
    Ok(vec![y.cast(result)])
}

fn complex_power<'a>(c: &Call<'a>) -> Outs<'a> {
    let [a, b] = c.numbers([0, 1], c.common(&[0, 1])?)?;
    let square = || complex::mul(a, a);
    Ok(vec![match EXPONENTS.iter().find(|&&e| c.is(1, e, f64::NAN)) {
        Some(0.0) => c.math.full(1.0, a.dtype(), &a.sizes()),
        Some(1.0) => a,
        Some(2.0) => square(),
        Some(3.0) => complex::mul(square(), a),
        Some(0.5) => complex::sqrt(a),
        Some(-0.5) => complex::reciprocal(complex::sqrt(a)),
        Some(-1.0) => complex::reciprocal(a),
        Some(_) => complex::reciprocal(square()),
        None => complex::pow(a, b),
    }])
}

fn compare<'a>(c: &Call<'a>, op: Op) -> Outs<'a> {
    let (_, compute) = c.plan(&[0, 1], Rule::Exact)?;
    let [a, b] = c.numbers([0, 1], compute)?;
    Ok(vec![a.binary(op, b)])
}

/// `x * 2 ** n`, as long as the result is representable: integers are applied in steps whose powers are.
fn ldexp<'a>(c: &Call<'a>) -> Outs<'a> {
    let whole = !c.ty(1)?.dtype.is_float();
    c.elementwise([0, 1], Rule::FloatFormula, |[x, n]| {
        let two = x.math().constant(2.0, x.dtype());
        if !whole {
            return x * two.pow(n);
        }
        let longest = if x.dtype() == DType::F64 { 1022.0 } else { 126.0 };
        let (mut y, mut rest) = (x, n);
        for _ in 0..3 {
            let step = rest.max(-longest).min(longest);
            (y, rest) = (y * two.pow(step), rest - step);
        }
        y
    })
}

/// A NaN that is the only bound has no effect: PyTorch compares with it, and nothing is beyond NaN.
fn clamp_by_numbers<'a>(c: &Call<'a>) -> Outs<'a> {
    let alone = if c.has(1) { 1 } else { 2 };
    let both = c.has(1) && c.has(2);
    if !both && matches!(c.arg(alone), Arg::Float(x) if x.is_nan()) {
        let (result, _) = c.plan(&[0, alone], Rule::Exact)?;
        return Ok(vec![c.number(0, 0.0, result)?]);
    }
    clamp(c, Some(1), Some(2))
}

/// NaN passes through; where the bounds cross, the upper one wins.
fn clamp<'a>(c: &Call<'a>, low: Option<usize>, high: Option<usize>) -> Outs<'a> {
    let given = |i: Option<usize>| i.filter(|&i| c.has(i));
    let (low, high) = (given(low), given(high));
    let at: Vec<usize> = [Some(0), low, high].into_iter().flatten().collect();
    let (_, dtype) = c.plan(&at, Rule::Exact)?;
    let mut x = c.number(0, 0.0, dtype)?;
    for (bound, op, beyond) in [(low, Op::Max, Op::Gt), (high, Op::Min, Op::Lt)] {
        let Some(i) = bound else { continue };
        let bound = c.number(i, 0.0, dtype)?;
        // An element at a bound keeps its whole gradient, of which `max` would leave it half.
        x = match c.is_differentiated() {
            true => bound.binary(beyond, x).or(bound.ne(bound)).select(bound, x),
            false => x.binary(op, bound),
        };
    }
    Ok(vec![x])
}

/// Interpolates from the nearer end, so that the weights 0 and 1 are exact.
fn lerp<'a>(a: V<'a>, b: V<'a>, weight: V<'a>) -> V<'a> {
    let way = b - a;
    weight.abs().lt(0.5).select(a + weight * way, b - way * (1.0 - weight))
}

/// The float next to `a` on the way to `b`. The bits of floats of one sign, as integers, are ordered by their sizes.
fn next_after<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    let of_bits = match a.dtype() {
        DType::F64 => DType::I64,
        DType::F32 => DType::I32,
        _ => DType::I16,
    };
    let one = a.math().constant_int(1, of_bits);
    let least = a.math().constant_int(integer_range(of_bits).0, of_bits);
    let bits = a.bitcast(of_bits);
    let grows = a.lt(b).binary(Op::Eq, a.gt(0.0));
    let away = grows.select(bits + one, bits - one);
    // From 0 to the smallest number with the sign of `b`.
    let from_zero = b.lt(0.0).select(least + one, one);
    let next = a.eq(0.0).select(from_zero, away).bitcast(a.dtype());
    let next = a.eq(b).select(b, next);
    a.ne(a).or(b.ne(b)).select(a + b, next)
}
