//! Loss functions and their gradients. `reduction` is 0 for none, 1 for mean, 2 for sum.

use super::random::are_probabilities;
use super::{BACKWARD, PLAIN, always, moving};
use crate::aten::call::{Call, Rule, wide};
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::expect::Expectation;
use crate::op::{Attr, Op};
use crate::shape::Dims;
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("nll_loss_forward", &["", "output"], nll_forward).refuses(always),
    row("nll_loss_backward", BACKWARD, nll_backward),
    row("nll_loss2d_forward", &["", "output"], nll_forward).refuses(always),
    row("nll_loss2d_backward", BACKWARD, nll_backward),
    row("mse_loss", PLAIN, |c| loss(c, 2, &[], |away, _| away * away)),
    row("mse_loss_backward", BACKWARD, |c| slope(c, 3, &[], |away, _| away * 2.0)),
    row("smooth_l1_loss", PLAIN, |c| loss(c, 2, &[3], smooth_l1)),
    // Without the `out=` form, like Huber's: for halves PyTorch infers one result more than there is.
    row("smooth_l1_loss_backward", &[""], |c| {
        slope(c, 3, &[4], |away, beta| {
            // NaN stays NaN.
            away.abs().ge(beta).select(away.unary(Op::Sign), away / beta)
        })
    }),
    row("huber_loss", PLAIN, |c| {
        loss(c, 2, &[3], |away, delta| {
            let d = away.abs();
            d.le(delta).select(0.5 * d * d, delta * (d - 0.5 * delta))
        })
    }),
    row("huber_loss_backward", &[""], |c| {
        slope(c, 3, &[4], |away, delta| away.max(-delta).min(delta))
    }),
    row("binary_cross_entropy", PLAIN, |c| {
        let (dtype, compute) = c.plan(&[0, 1], Rule::Formula)?;
        let [x, target] = c.numbers([0, 1], compute)?;
        // Logarithms are bounded, so that a confident wrong prediction has a finite loss.
        // Near an edge its slope is bounded, too.
        let is_inside = ((1.0 - x) * x).gt(EDGE);
        let inside = moving(c, x, |_| is_inside);
        let (yes, no) = (inside.log().max(-100.0), (-inside).unary(Op::Log1p).max(-100.0));
        let mut each = (target - 1.0) * no - target * yes;
        if c.is_differentiated() {
            let away = x - target.detached();
            each = each.adding_slope_of(is_inside.not().select(away * away * (0.5 / EDGE), 0.0));
        }
        let each = weighted(c, 2, each)?;
        let zero = are_probabilities(x).expected(Expectation::InputProbabilities)
            + are_probabilities(target).expected(Expectation::TargetProbabilities);
        Ok(vec![(reduced(each, c.int(3, 1)?) + zero.cast(compute)).cast(dtype)])
    })
    .refuses(always),
    row("binary_cross_entropy_backward", BACKWARD, |c| {
        let (dtype, compute) = c.plan(&[0, 1, 2], Rule::Formula)?;
        let [dy, x, target] = c.numbers([0, 1, 2], compute)?;
        let each = weighted(c, 3, dy * (x - target) / ((1.0 - x) * x).max(EDGE))?;
        let scale = if c.int(4, 1)? == 1 { 1.0 / x.numel() as f64 } else { 1.0 };
        Ok(vec![(each * scale).cast(dtype)])
    }),
];

/// PyTorch's lower bound of the divisor of a slope, which is 0 where a probability is 0 or 1.
const EDGE: f64 = 1e-12;

fn reduced(x: V, reduction: i64) -> V {
    let axes: Dims = (0..x.rank() as i64).collect();
    match reduction {
        0 => x,
        1 => x.reduce(Op::Sum, &axes, false) / x.numel() as f64,
        _ => x.reduce(Op::Sum, &axes, false),
    }
}

/// `each` times the optional weight in argument `i`.
fn weighted<'a>(c: &Call<'a>, i: usize, each: V<'a>) -> Result<V<'a>> {
    Ok(c.optional(i)?.map_or(each, |weight| each * weight.cast(each.dtype())))
}

/// The parameter of a loss: the argument `at`, or 1 if there is none.
fn parameter<'a>(c: &Call<'a>, at: &[usize], compute: DType) -> Result<V<'a>> {
    at.first().map_or(Ok(c.math.constant(1.0, compute)), |&i| c.number(i, 1.0, compute))
}

/// `(self, target, …, reduction, …)`: `each` applied to the difference and the parameter, reduced.
fn loss<'a>(
    c: &Call<'a>,
    reduction: usize,
    at: &[usize],
    each: fn(V<'a>, V<'a>) -> V<'a>,
) -> Outs<'a> {
    let (dtype, compute) = c.plan(&[0, 1], Rule::Formula)?;
    let [x, target] = c.numbers([0, 1], compute)?;
    let each = each(x - target, parameter(c, at, compute)?);
    Ok(vec![reduced(each, c.int(reduction, 1)?).cast(dtype)])
}

/// `(grad_output, self, target, …, reduction, …)`: the gradient of [`loss`], of which `each` is the derivative.
fn slope<'a>(
    c: &Call<'a>,
    reduction: usize,
    at: &[usize],
    each: fn(V<'a>, V<'a>) -> V<'a>,
) -> Outs<'a> {
    let (dtype, compute) = c.plan(&[0, 1, 2], Rule::Formula)?;
    let [dy, x, target] = c.numbers([0, 1, 2], compute)?;
    let away = x - target;
    let scale = if c.int(reduction, 1)? == 1 { 1.0 / away.numel() as f64 } else { 1.0 };
    Ok(vec![(each(away, parameter(c, at, compute)?) * scale * dy).cast(dtype)])
}

fn smooth_l1<'a>(away: V<'a>, beta: V<'a>) -> V<'a> {
    let d = away.abs();
    let is_near = d.lt(beta);
    // Nothing is near where `beta` is 0.
    let near = d.moving_where(is_near);
    is_near.select(0.5 * near * near / beta, d - 0.5 * beta)
}

/// The targets of a negative log likelihood loss.
struct Targets<'a> {
    /// The dimension of the classes in the input: 1, or 0 without a batch.
    dim: usize,
    /// The class of every sample, 0 where it is ignored.
    class: V<'a>,
    valid: V<'a>,
    /// Weight of every sample, 0 where it is ignored.
    weight: V<'a>,
}

impl<'a> Targets<'a> {
    /// For scores of `sizes`; weights are given in `compute`.
    fn of(
        target: V<'a>,
        weight: Option<V<'a>>,
        ignored: V<'a>,
        sizes: &[i64],
        compute: DType,
    ) -> Result<Targets<'a>> {
        let dim = (sizes.len() > 1) as usize;
        let mut target = target.cast(DType::I64);
        let mut expected: Dims = sizes.into();
        // Without a batch there is one target, possibly as a list of one.
        if sizes.len() == 1 && target.sizes()[..] == [1] {
            target = target.reshape(&[]);
        }
        if sizes.is_empty() || (expected.remove(dim), target.sizes() != expected).1 {
            return invalid!(
                "scores of sizes {sizes:?} do not go with targets of sizes {:?}",
                target.sizes()
            );
        }
        // For images, PyTorch only checks the number of weights.
        let weight = weight.map(|w| match w.numel() == sizes[dim] && sizes.len() == 4 {
            true => w.reshape(&[sizes[dim]]),
            false => w,
        });
        if let Some(w) = weight.filter(|w| w.sizes()[..] != [sizes[dim]]) {
            return invalid!(
                "weight tensor should be defined either for all {} classes or no classes but got weight tensor of shape: {:?}",
                sizes[dim],
                w.sizes()
            );
        }
        let valid = target.ne(ignored);
        let class = valid.select(target, 0.0);
        let weight = match weight {
            Some(w) => {
                let of_class =
                    w.math().op(Op::Take, &[w.cast(compute), class], smallvec![Attr::Int(0)]);
                valid.select(of_class, 0.0)
            }
            None => valid.cast(compute),
        };
        Ok(Targets { dim, class, valid, weight })
    }
}

/// `(self, target, weight?, reduction, ignore_index)` → loss, total_weight
fn nll_forward<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let (dtype, compute) = (x.dtype(), wide(x.dtype()));
    let ignored = c.number(4, -100.0, DType::I64)?;
    let t = Targets::of(c.tensor(1)?, c.optional(2)?, ignored, &x.sizes(), compute)?;
    let at = t.class.unsqueeze(t.dim);
    let picked = c.math.op(Op::Gather, &[x, at], smallvec![Attr::Int(t.dim as i64)]);
    let score = picked.reshape(&t.class.sizes()).cast(compute);
    // An ignored sample does not count, even if its score is infinite.
    let loss = t.valid.select(-(score * t.weight), 0.0);
    let axes: Dims = (0..loss.rank() as i64).collect();
    let total = t.weight.reduce(Op::Sum, &axes, false);
    let (loss, total) = match c.int(3, 1)? {
        0 if t.dim == 1 => (loss, c.math.constant(0.0, compute)),
        0 => (loss, total),
        1 => (loss.reduce(Op::Sum, &axes, false) / total, total),
        _ => (loss.reduce(Op::Sum, &axes, false), total),
    };
    Ok(vec![loss.cast(dtype), total.cast(dtype)])
}

/// `(grad_output, self, target, weight?, reduction, ignore_index, total_weight)` → grad_input
fn nll_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let ty = c.ty(1)?;
    let compute = wide(ty.dtype);
    let ignored = c.number(5, -100.0, DType::I64)?;
    let t = Targets::of(c.tensor(2)?, c.optional(3)?, ignored, &ty.sizes, compute)?;
    let mut dy = c.tensor(0)?.cast(compute);
    if c.int(4, 1)? == 1 {
        dy = dy / c.tensor(6)?.cast(compute);
    }
    let each = t.valid.select(-(t.weight * dy), 0.0).unsqueeze(t.dim);
    // One-hot by comparison: pointwise, so that it fuses with its users.
    let class = c.math.iota(&ty.sizes, t.dim, DType::I64);
    let dx = class.eq(t.class.unsqueeze(t.dim)).select(each, 0.0);
    Ok(vec![dx.cast(ty.dtype)])
}
