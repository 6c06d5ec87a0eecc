//! Rules of the composites. Most are primitives of their own.

use super::{Flow, Step, reduce};
use crate::error::{Code, Error};
use crate::graph::math::{V, wide};
use crate::op::Op;
use crate::op::nn::Cell;
use smallvec::smallvec;

/// The sum along the last axis, which stays.
fn along_row(v: V) -> V {
    v.reduce(Op::Sum, &[v.rank() as i64 - 1], true)
}

/// Rule of x → its maximum t and log(sum(exp(x - t))), of which only the sum is smooth.
pub fn log_sum_exp<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let dtype = s.y[0].dtype();
    let x = s.x[0].cast(dtype);
    let (top, log) = (s.y[0], s.y[1]);
    let (d_top, d_log) = (s.cotangent(0), s.cotangent(1));
    let mut dx = (x - top - log).exp() * d_log;
    if d_top.id != d_log.id {
        let axis = x.rank() as i64 - 1;
        dx = dx + reduce::shares(x, top.broadcast(&x.sizes()), &[axis]) * (d_top - d_log);
    }
    Ok(vec![Some(dx.cast(s.x[0].dtype()))])
}

/// Rule of `(g, y)` → (g - sum(g y)) y.
pub fn softmax_grad<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let dtype = s.x[0].dtype();
    let along_g = s.of(0, || s.dy().binary(Op::SoftmaxGrad, s.x[1]));
    let along_y = s.of(1, || {
        let [g, y, c] = [s.x[0], s.x[1], s.dy()].map(|v| v.cast(wide(dtype)));
        (c * (g - along_row(g * y)) - g * along_row(c * y)).cast(dtype)
    });
    Ok(vec![along_g, along_y])
}

/// Rule of `(g, y)` → g - exp(y) sum(g).
pub fn log_softmax_grad<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let dtype = s.x[0].dtype();
    let [g, y, c] = [s.x[0], s.x[1], s.dy()].map(|v| v.cast(wide(dtype)));
    let share = c * y.exp();
    let along_g = s.of(0, || (c - along_row(share)).cast(dtype));
    let along_y = s.of(1, || (-share * along_row(g)).cast(dtype));
    Ok(vec![along_g, along_y])
}

/// The part of a normalised row's cotangent that comes through its mean and reciprocal deviation.
fn through_statistics<'m>(s: &Step<'m, '_>, mean: Option<usize>, rstd: usize) -> Option<V<'m>> {
    let x = s.x[0].cast(s.y[rstd].dtype());
    let columns = (x.sizes()[1] as f64).max(1.0);
    let column = |v: V<'m>| v.unsqueeze(1);
    let of_mean = mean.and_then(|n| s.cotangents[n]).map(|d| column(d) / columns);
    let of_rstd = s.cotangents[rstd].map(|d| {
        let away = mean.map_or(x, |n| x - column(s.y[n]));
        let r = s.y[rstd];
        -(column(d * r * r * r) * away / columns)
    });
    let parts = [of_mean, of_rstd].into_iter().flatten();
    parts.map(|part| part.broadcast(&x.sizes())).reduce(|a, b| a + b)
}

/// The cotangent of x and a second part of it, if any, rounded together.
fn together<'m>(dx: V<'m>, more: Option<V<'m>>) -> V<'m> {
    more.map_or(dx, |more| (dx.cast(more.dtype()) + more).cast(dx.dtype()))
}

pub fn layer_norm<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let (has_weight, has_bias) = (s.attrs[1].bool(), s.attrs[2].bool());
    let mut operands = vec![s.dy(), s.x[0], s.y[1], s.y[2]];
    operands.extend(has_weight.then(|| s.x[1]));
    let found = s.math.ops(Op::LayerNormGrad, &operands, smallvec![])?;
    let mut flow = vec![Some(together(found[0], through_statistics(s, Some(1), 2)))];
    if has_weight {
        flow.push(Some(found[1]));
    }
    if has_bias {
        flow.push(Some(found[2].cast(s.x[s.x.len() - 1].dtype())));
    }
    Ok(flow)
}

pub fn rms_norm<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    let weight = s.x.get(1).copied();
    let operands: Vec<V> = [s.dy(), s.x[0], s.y[1]].into_iter().chain(weight).collect();
    let found = s.math.ops(Op::RmsNormGrad, &operands, smallvec![])?;
    let mut flow = vec![Some(together(found[0], through_statistics(s, None, 1)))];
    flow.extend(weight.map(|_| Some(found[1])));
    Ok(flow)
}

/// Rule of `(q, k, v, seed, offset, bias?)` → out, lse.
pub fn attention<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    if s.cotangents[1].is_some() || s.wanted.get(5).is_some_and(|&wanted| wanted) {
        let message = "attention has no gradient with respect to its mask, nor of its logsumexp; \
                       say it by matmul and softmax";
        return Err(Error::new(Code::Unsupported, message));
    }
    let operands: Vec<V> = [s.dy()].into_iter().chain(s.x[..3].iter().copied()).collect();
    let operands = [&operands[..], &[s.y[0], s.y[1]], &s.x[3..]].concat();
    let found = s.math.ops(Op::AttentionGrad, &operands, s.attrs.clone())?;
    Ok((0..s.x.len()).map(|n| found.get(n).copied()).collect())
}

/// The gradient of a recurrent layer's weights is one product over all steps.
pub fn recurrent<'m>(s: &Step<'m, '_>) -> Flow<'m> {
    if s.cotangents[2].is_some() {
        return Err(Error::new(Code::Unsupported, "what a recurrent layer saves has no gradient"));
    }
    let (w, hidden, y, cell) = (s.x[1], s.x[2], s.y[0], Cell::of(&s.attrs));
    let mut operands = vec![s.dy(), w, hidden, y, s.y[2]];
    if cell == Cell::Lstm {
        operands.extend([s.x[3], s.cotangent(1)]);
    }
    let found = s.math.ops(Op::RecurrentGrad, &operands, s.attrs.clone())?;
    let (sizes, units) = (y.sizes(), w.sizes()[1]);
    let rows = sizes[0] * sizes[1];
    let of_weights = s.of(1, || {
        let first = hidden.unsqueeze(0);
        let before = match (sizes[0], s.attrs[1].bool()) {
            (0, _) => y,
            (n, false) => s.math.concat(&[first, y.narrow(0, 0, n - 1)], 0),
            (n, true) => s.math.concat(&[y.narrow(0, 1, n - 1), first], 0),
        };
        let of_products = match cell {
            Cell::Gru => s.math.concat(&[found[0].narrow(2, 0, 2 * units), found[2]], 2),
            _ => found[0],
        };
        let flat = of_products.reshape(&[rows, w.sizes()[0]]);
        flat.swap(0, 1).matmul(before.reshape(&[rows, units]))
    });
    let mut flow = vec![Some(found[0]), of_weights, Some(found[1])];
    match cell {
        Cell::Lstm => flow.push(Some(found[2])),
        Cell::Gru => flow.push(Some(found[2].reduce(Op::Sum, &[0, 1], false))),
        Cell::Tanh | Cell::Relu => {}
    }
    Ok(flow)
}
