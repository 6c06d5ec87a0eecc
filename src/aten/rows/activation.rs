//! Activation functions and their gradients.

use super::{BACKWARD, PLAIN, moving};
use crate::aten::call::{Call, Rule::FloatFormula, Rule::Number, wide};
use crate::aten::{Outs, Row, complex, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::{V, together};
use crate::invalid;
use crate::op::Op;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

pub const ROWS: &[Row] = &[
    row("sigmoid_backward", BACKWARD, |c| {
        c.elementwise([0, 1], FloatFormula, |[dy, y]| dy * (1.0 - y) * y)
    })
    .complex_by(|c| complex_slope(c, |y, one| complex::mul(complex::sub(one, y), y))),
    row("tanh_backward", BACKWARD, |c| {
        c.elementwise([0, 1], FloatFormula, |[dy, y]| dy * (1.0 - y * y))
    })
    .complex_by(|c| complex_slope(c, |y, one| complex::sub(one, complex::mul(y, y)))),
    row("relu", PLAIN, |c| c.elementwise([0], Number, |[x]| moving(c, x, |x| x.ne(0.0)).max(0.0))),
    row("threshold", PLAIN, |c| {
        c.parametric([0], [(1, 0.0), (2, 0.0)], Number, |[x], [limit, value]| {
            x.le(limit).select(value, x)
        })
    }),
    row("threshold_backward", BACKWARD, |c| {
        c.parametric([0, 1], [(2, 0.0)], Number, |[dy, x], [limit]| kept(x.le(limit).not(), dy))
    }),
    row("leaky_relu", PLAIN, |c| {
        c.parametric([0], [(1, 0.01)], FloatFormula, |[x], [slope]| x.gt(0.0).select(x, x * slope))
    }),
    row("leaky_relu_backward", BACKWARD, |c| {
        c.parametric([0, 1], [(2, 0.01)], FloatFormula, |[dy, x], [slope]| {
            x.gt(0.0).select(dy, dy * slope)
        })
    }),
    row("rrelu_with_noise", PLAIN, rrelu),
    row("hardtanh", PLAIN, |c| {
        c.parametric([0], [(1, -1.0), (2, 1.0)], Number, |[x], [low, high]| {
            moving(c, x, |x| x.ne(low).and(x.ne(high))).max(low).min(high)
        })
    }),
    row("hardtanh_backward", BACKWARD, |c| {
        c.parametric([0, 1], [(2, -1.0), (3, 1.0)], Number, |[dy, x], [low, high]| {
            kept(x.le(low).or(x.ge(high)).not(), dy)
        })
    }),
    row("softshrink", PLAIN, |c| {
        if let Ok(limit) = c.float(1, 0.5)
            && is_no_limit(1, limit)
        {
            return invalid!("lambda must be in range [0, inf), got {limit}");
        }
        c.parametric([0], [(1, 0.5)], FloatFormula, |[x], [limit]| {
            let below = x.lt(-limit).select(x + limit, x * 0.0);
            x.gt(limit).select(x - limit, below)
        })
    })
    .special(is_no_limit)
    .essential(is_no_limit),
    row("hardshrink", PLAIN, |c| {
        let (result, compute) = c.plan(&[0], FloatFormula)?;
        let x = c.number(0, 0.0, compute)?;
        Ok(vec![kept(is_beyond(c, x, 1, result)?, x).cast(result)])
    }),
    row("softshrink_backward", BACKWARD, shrunk_slope),
    row("hardshrink_backward", BACKWARD, shrunk_slope),
    row("hardsigmoid", PLAIN, |c| c.elementwise([0], FloatFormula, |[x]| hard_sigmoid(c, x))),
    row("hardsigmoid_backward", BACKWARD, |c| {
        c.elementwise([0, 1], FloatFormula, |[dy, x]| {
            kept(x.gt(-3.0).and(x.lt(3.0)), dy * (1.0 / 6.0))
        })
    }),
    row("hardswish", PLAIN, |c| c.elementwise([0], FloatFormula, |[x]| x * hard_sigmoid(c, x))),
    row("hardswish_backward", PLAIN, |c| {
        c.elementwise([0, 1], FloatFormula, |[dy, x]| {
            let inside = dy * (x * (1.0 / 3.0) + 0.5);
            x.le(-3.0).select(dy * 0.0, x.lt(3.0).select(inside, dy))
        })
    }),
    row("silu", PLAIN, |c| c.elementwise([0], FloatFormula, |[x]| x * x.sigmoid())),
    row("silu_backward", BACKWARD, |c| {
        c.elementwise([0, 1], FloatFormula, |[dy, x]| {
            let s = x.sigmoid();
            dy * s * (1.0 + x * (1.0 - s))
        })
    }),
    row("mish", PLAIN, |c| c.elementwise([0], FloatFormula, |[x]| x * softplus(x).tanh())),
    row("softplus", PLAIN, |c| {
        c.parametric([0], [(1, 1.0), (2, 20.0)], FloatFormula, |[x], [beta, limit]| {
            let z = x * beta;
            z.gt(limit).select(x, softplus(z) / beta)
        })
    }),
    row("softplus_backward", BACKWARD, |c| {
        c.parametric([0, 1], [(2, 1.0), (3, 20.0)], FloatFormula, |[dy, x], [beta, limit]| {
            let z = x * beta;
            z.gt(limit).select(dy, dy * z.sigmoid())
        })
    }),
    row("elu", PLAIN, |c| {
        c.parametric(
            [0],
            [(1, 1.0), (2, 1.0), (3, 1.0)],
            FloatFormula,
            |[x], [alpha, scale, inner]| {
                // `expm1` of a large number is infinite.
                let low = moving(c, x, |x| x.le(0.0)) * inner;
                let low = low.unary(Op::Expm1) * alpha;
                x.le(0.0).select(low, x) * scale
            },
        )
    }),
    row("elu_backward", BACKWARD, elu_backward),
    row("mish_backward", &[""], |c| {
        c.elementwise([0, 1], FloatFormula, |[dy, x]| {
            let t = softplus(x).tanh();
            dy * (t + x * x.sigmoid() * (1.0 - t * t))
        })
    }),
    row("log_sigmoid_forward", &["", "output"], log_sigmoid),
    row("log_sigmoid_backward", BACKWARD, |c| {
        c.elementwise([0, 1], FloatFormula, |[dy, x]| dy * (-x).sigmoid())
    }),
    row("glu", PLAIN, |c| {
        let (_, [a, b]) = halves(c, 0, 1)?;
        Ok(vec![(a * b.sigmoid()).cast(c.ty(0)?.dtype)])
    }),
    row("glu_backward", BACKWARD, glu_backward),
    row("_prelu_kernel", &[""], |c| {
        c.elementwise([0, 1], FloatFormula, |[x, weight]| x.gt(0.0).select(x, weight * x))
    }),
    row("_prelu_kernel_backward", &[""], |c| {
        let (dtype, compute) = c.plan(&[0, 1, 2], FloatFormula)?;
        let [dy, x, weight] = c.numbers([0, 1, 2], compute)?;
        let positive = x.gt(0.0);
        let (dx, dweight) = (positive.select(dy, weight * dy), kept(positive.not(), x * dy));
        Ok(vec![dx.cast(dtype), dweight.cast(dtype)])
    }),
    row("gelu", PLAIN, |c| {
        let curve = curve(c, 1)?;
        c.elementwise([0], FloatFormula, |[x]| gelu(x, curve))
    }),
    row("gelu_backward", BACKWARD, |c| {
        let curve = curve(c, 2)?;
        c.elementwise([0, 1], FloatFormula, |[dy, x]| dy * gelu_slope(x, curve))
    }),
];

/// `(grad_output, output)`, complex: times the conjugate of the slope, a function of the output and 1.
fn complex_slope<'a>(c: &Call<'a>, slope: fn(V<'a>, V<'a>) -> V<'a>) -> Outs<'a> {
    let [dy, y] = together(c.numbers([0, 1], c.common(&[0, 1])?)?);
    let one = c.math.full(1.0, y.dtype(), &y.sizes());
    Ok(vec![complex::mul(dy, complex::conj(slope(y, one)))])
}

/// `(grad_output, self, lambda)`: 0 where small values were set to 0.
fn shrunk_slope<'a>(c: &Call<'a>) -> Outs<'a> {
    let (result, compute) = c.plan(&[0, 1], FloatFormula)?;
    let [dy, x] = c.numbers([0, 1], compute)?;
    Ok(vec![kept(is_beyond(c, x, 2, result)?, dy).cast(result)])
}

/// Whether `x` is farther from 0 than argument `i`, rounded as the result is.
fn is_beyond<'a>(c: &Call<'a>, x: V<'a>, i: usize, result: DType) -> Result<V<'a>> {
    let limit = c.number(i, 0.5, result)?.cast(x.dtype());
    Ok(x.ge(-limit).and(x.le(limit)).not())
}

fn is_no_limit(arg: usize, value: f64) -> bool {
    arg == 1 && (value < 0.0 || value.is_nan())
}

/// `(grad_output, alpha, scale, input_scale, is_result, self_or_result)`
fn elu_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let is_result = c.bool(4, false)?;
    let numbers = [(1, 1.0), (2, 1.0), (3, 1.0)];
    c.parametric([0, 5], numbers, FloatFormula, |[dy, x], [alpha, scale, inner]| {
        let low = alpha * scale;
        let slope = if is_result { x + low } else { (x * inner).exp() * low };
        // NaN stays NaN.
        x.gt(0.0).select(dy * scale, dy * inner * slope)
    })
}

/// `(self)` → log(sigmoid(self)), and a buffer of the same sizes that only PyTorch's own kernels look at.
fn log_sigmoid<'a>(c: &Call<'a>) -> Outs<'a> {
    // As a difference, so that a zero is +0.
    let mut results =
        c.elementwise([0], FloatFormula, |[x]| x.min(0.0) - (-x.abs()).exp().unary(Op::Log1p))?;
    results.push(c.math.zeros(results[0].dtype(), &results[0].sizes()));
    Ok(results)
}

/// Argument `i`, in the dtype of computation, cut in two along the dimension in argument `dim`; and that dimension.
fn halves<'a>(c: &Call<'a>, i: usize, dim: usize) -> Result<(usize, [V<'a>; 2])> {
    let x = c.tensor(i)?;
    let dim = c.dim(dim, -1, x.rank())?;
    match x.sizes().get(dim) {
        Some(&size) if size % 2 == 0 => {
            let x = x.cast(wide(x.dtype()));
            Ok((dim, [x.narrow(dim, 0, size / 2), x.narrow(dim, size / 2, size / 2)]))
        }
        _ => invalid!("Halving dimension must be even, but got sizes {:?}", x.sizes()),
    }
}

/// `(grad_output, self, dim)`
fn glu_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (dim, [a, b]) = halves(c, 1, 2)?;
    let dy = c.tensor(0)?.cast(a.dtype());
    let s = b.sigmoid();
    let dx = c.math.concat(&[dy * s, dy * a * s * (1.0 - s)], dim);
    Ok(vec![dx.cast(c.ty(1)?.dtype)])
}

/// `x` where the condition holds, else 0.
fn kept<'a>(condition: V<'a>, x: V<'a>) -> V<'a> {
    condition.select(x, 0.0)
}

fn hard_sigmoid<'a>(c: &Call<'a>, x: V<'a>) -> V<'a> {
    moving(c, x + 3.0, |x| x.ne(0.0).and(x.ne(6.0))).max(0.0).min(6.0) * (1.0 / 6.0)
}

/// log(1 + exp(x)) without overflow.
fn softplus(x: V) -> V {
    x.max(0.0) + (-x.abs()).exp().unary(Op::Log1p)
}

/// `(self, noise, lower, upper, training)` → values, those that are not positive times a slope, which in training is drawn
/// between the bounds; and the factors of all.
fn rrelu<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, noise) = (c.tensor(0)?, c.tensor(1)?);
    let compute = wide(x.dtype());
    let [lower, upper] = c.parameters([(2, 0.125), (3, 1.0 / 3.0)], compute)?;
    let is_training = c.bool(4, false)?;
    let slope = match is_training {
        true => c.random(&x.sizes())?.cast(compute) * (upper - lower) + lower,
        false => (lower + upper) * 0.5,
    };
    let wide_x = x.cast(compute);
    let factor = wide_x.le(0.0).select(slope.broadcast(&x.sizes()), 1.0);
    let y = (wide_x * factor).cast(x.dtype());
    Ok(vec![y, if is_training { factor.cast(noise.dtype()) } else { noise }])
}

#[derive(Clone, Copy)]
enum Curve {
    Erf,
    Tanh,
}

fn curve(c: &Call, i: usize) -> Result<Curve> {
    match c.text(i)? {
        "none" | "" => Ok(Curve::Erf),
        "tanh" => Ok(Curve::Tanh),
        other => invalid!("approximate argument must be either none or tanh, got {other}"),
    }
}

/// sqrt(2/pi) and the cubic coefficient of the tanh approximation.
const BETA: f64 = SQRT_2 * FRAC_2_SQRT_PI * 0.5;
const CUBIC: f64 = 0.044715;

/// The distribution function of the normal distribution, or its approximation. Nothing cancels where it is small.
fn gelu_cdf<'a>(x: V<'a>, curve: Curve) -> V<'a> {
    match curve {
        Curve::Erf => 0.5 * (x * -FRAC_1_SQRT_2).unary(Op::Erfc),
        // (1 + tanh u) / 2
        Curve::Tanh => (2.0 * BETA * (x + CUBIC * x * x * x)).unary(Op::Sigmoid),
    }
}

fn gelu<'a>(x: V<'a>, curve: Curve) -> V<'a> {
    x * gelu_cdf(x, curve)
}

fn gelu_slope<'a>(x: V<'a>, curve: Curve) -> V<'a> {
    let cdf = gelu_cdf(x, curve);
    let density = match curve {
        Curve::Erf => (x * x * -0.5).exp() * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5),
        Curve::Tanh => 2.0 * BETA * (1.0 + 3.0 * CUBIC * x * x) * cdf * (1.0 - cdf),
    };
    cdf + x * density
}
