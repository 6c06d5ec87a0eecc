//! Recurrent layers and their gradients, one step after the other.

use crate::error::Result;
use crate::graph::math::{Math, V};
use crate::graph::{Builder, ValueId};
use crate::op::Attr;
use crate::op::nn::{Cell, Layer};
use crate::passes::rebuild::Values;

/// The results of a formula over the operands.
fn formula(
    b: &mut Builder,
    inputs: &[ValueId],
    make: impl for<'m> FnOnce(&'m Math, Vec<V<'m>>) -> Vec<V<'m>>,
) -> Result<Values> {
    let math = Math::from_builder(std::mem::take(b));
    let made = make(&math, inputs.iter().map(|&id| math.wrap(id)).collect());
    let made = made.into_iter().map(|v| v.id).collect();
    math.check()?;
    *b = math.into_builder();
    Ok(made)
}

/// Part `k` of `n` along the last dimension.
fn part<'m>(v: V<'m>, k: usize, n: usize) -> V<'m> {
    let last = v.rank() - 1;
    let size = v.sizes()[last] / n as i64;
    v.narrow(last, k as i64 * size, size)
}

/// `v` [time, …] at one time.
fn at<'m>(v: V<'m>, time: usize) -> V<'m> {
    let sizes = v.sizes();
    v.narrow(0, time as i64, 1).reshape(&sizes[1..])
}

/// The values of all times in one; zeros of `sizes` if there are none.
fn stacked<'m>(math: &'m Math, of_time: Vec<Option<V<'m>>>, sizes: &[i64], like: V<'m>) -> V<'m> {
    let parts: Vec<V> = of_time.into_iter().flatten().map(|v| v.unsqueeze(0)).collect();
    if parts.is_empty() { math.zeros(like.dtype(), sizes) } else { math.concat(&parts, 0) }
}

pub fn recurrent(b: &mut Builder, inputs: &[ValueId], attrs: &[Attr]) -> Result<Values> {
    let (gates, w) = (b.ty(inputs[0]).sizes.clone(), b.ty(inputs[1]).sizes.clone());
    let sizes = [gates[0], gates[1], w[1]];
    let layer = Layer::new(attrs, &sizes);
    formula(b, inputs, |math, x| {
        let (gates, transposed, mut state) = (x[0], x[1].swap(0, 1), x[2]);
        let mut cell = math.zeros(state.dtype(), &[sizes[1], 0]);
        if layer.cell == Cell::Lstm {
            cell = x[3];
        }
        let mut y = vec![None; layer.time];
        let mut saved = vec![None; layer.time];
        for t in layer.times() {
            let (given, hidden) = (at(gates, t), state.matmul(transposed));
            let both = |k: usize, n: usize| part(given, k, n) + part(hidden, k, n);
            let mut kept = Vec::new();
            state = match layer.cell {
                Cell::Tanh => both(0, 1).tanh(),
                Cell::Relu => both(0, 1).max(0.0),
                Cell::Lstm => {
                    let [i, f, o] = [0, 1, 3].map(|k| both(k, 4).sigmoid());
                    let c = both(2, 4).tanh();
                    cell = f * cell + i * c;
                    kept = vec![i, f, c, o, cell];
                    o * cell.tanh()
                }
                Cell::Gru => {
                    let [r, z] = [0, 1].map(|k| both(k, 3).sigmoid());
                    let inner = part(hidden, 2, 3) + x[3].broadcast(&state.sizes());
                    let c = (part(given, 2, 3) + r * inner).tanh();
                    kept = vec![r, z, c, inner];
                    c + z * (state - c)
                }
            };
            y[t] = Some(state);
            saved[t] = (!kept.is_empty()).then(|| math.concat(&kept, 1));
        }
        let of_saved = [sizes[0], sizes[1], layer.cell.saved() as i64 * sizes[2]];
        vec![stacked(math, y, &sizes, state), cell, stacked(math, saved, &of_saved, state)]
    })
}

pub fn recurrent_grad(b: &mut Builder, inputs: &[ValueId], attrs: &[Attr]) -> Result<Values> {
    let sizes = b.ty(inputs[3]).sizes.clone();
    let layer = Layer::new(attrs, &sizes);
    let n = layer.cell.gates();
    formula(b, inputs, |math, x| {
        let (dy, w, first, y, saved) = (x[0], x[1], x[2], x[3], x[4]);
        let dtype = y.dtype();
        let mut dstate = math.zeros(dtype, &sizes[1..]);
        let mut dcell = x.get(6).copied().unwrap_or(math.zeros(dtype, &[sizes[1], 0]));
        let mut dgates = vec![None; layer.time];
        let mut inner = vec![None; layer.time];
        for t in layer.times().rev() {
            let d = at(dy, t) + dstate;
            let kept = |k: usize| part(at(saved, t), k, layer.cell.saved());
            let (of_gates, direct) = match layer.cell {
                Cell::Tanh => {
                    let y = at(y, t);
                    (vec![d * (1.0 - y * y)], None)
                }
                Cell::Relu => (vec![at(y, t).gt(0.0).select(d, 0.0)], None),
                Cell::Lstm => {
                    let [i, f, c, o, now] = [0, 1, 2, 3, 4].map(kept);
                    let earlier = layer.before(t).map_or(x[5], |t| part(at(saved, t), 4, 5));
                    let tanh = now.tanh();
                    let dc = dcell + d * o * (1.0 - tanh * tanh);
                    dcell = dc * f;
                    let of_gates = vec![
                        dc * c * i * (1.0 - i),
                        dc * earlier * f * (1.0 - f),
                        dc * i * (1.0 - c * c),
                        d * tanh * o * (1.0 - o),
                    ];
                    (of_gates, None)
                }
                Cell::Gru => {
                    let [r, z, c, product] = [0, 1, 2, 3].map(kept);
                    let earlier = layer.before(t).map_or(first, |t| at(y, t));
                    let dc = d * (1.0 - z) * (1.0 - c * c);
                    inner[t] = Some(dc * r);
                    let of_gates =
                        vec![dc * product * r * (1.0 - r), d * (earlier - c) * z * (1.0 - z), dc];
                    (of_gates, Some(d * z))
                }
            };
            let mut of_products = of_gates.clone();
            if let Some(inner) = inner[t] {
                of_products[2] = inner;
            }
            let sum = math.concat(&of_products, 1).matmul(w);
            dstate = direct.map_or(sum, |direct| direct + sum);
            dgates[t] = Some(math.concat(&of_gates, 1));
        }
        let of_gates = [sizes[0], sizes[1], n as i64 * sizes[2]];
        let third = if layer.cell == Cell::Gru { stacked(math, inner, &sizes, y) } else { dcell };
        vec![stacked(math, dgates, &of_gates, y), dstate, third]
    })
}
