//! Recurrent layers.

use super::*;
use crate::op::nn::Cell;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (cell, reverse) in Cell::ALL.into_iter().flat_map(|c| [false, true].map(|r| (c, r))) {
        for sizes in [[3, 1, 1], [3, 2, 4]] {
            let layer = layer(DType::F64, cell, reverse, sizes);
            cases.push(layer.on(MEANING, Bound::Epsilons(16.0), Bound::Equal));
        }
        cases.push(differentiable(cell, reverse));
        for sizes in [[1, 1, 1], [3, 7, 5], [2, 13, 16], [4, 200, 3], [2, 3, 70], [5, 2, 130]] {
            let forward = Rc::new(layer(DType::F32, cell, reverse, sizes));
            let [time, batch, units] = sizes;
            let mut operands = vec![
                divided(DType::F32, &[time, batch, units], 8.0),
                operand_of(&forward, 1),
                operand_of(&forward, 2),
                result_of(&forward, 0),
                result_of(&forward, 2),
            ];
            if cell == Cell::Lstm {
                let dcell = divided(DType::F32, &[batch, units], 8.0);
                operands.extend([operand_of(&forward, 3), dcell]);
            }
            let attrs = [cell.attr(), Attr::Bool(reverse)];
            let backward = case(Op::RecurrentGrad, attrs, operands);
            cases.push(backward.on(CPU, Bound::Bits, Bound::Steps(1024.0)));
            let forward = layer(DType::F32, cell, reverse, sizes);
            cases.push(forward.on(CPU, Bound::Bits, Bound::Steps(256.0)));
        }
    }
    cases
}

fn layer(dtype: DType, cell: Cell, reverse: bool, [time, batch, units]: [i64; 3]) -> Case {
    let of_gates = cell.gates() as i64 * units;
    let small = |sizes: &[i64]| divided(dtype, sizes, 8.0);
    let mut operands =
        vec![small(&[time, batch, of_gates]), small(&[of_gates, units]), small(&[batch, units])];
    match cell {
        Cell::Lstm => operands.push(small(&[batch, units])),
        Cell::Gru => operands.push(small(&[units])),
        Cell::Tanh | Cell::Relu => {}
    }
    case(Op::Recurrent, [cell.attr(), Attr::Bool(reverse)], operands)
}

pub fn oracle(op: Op) -> Option<Oracle> {
    (op == Op::Recurrent).then_some(recurrent)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The textbook formulas, one unit at a time: the hidden states, and the last cell of an LSTM.
fn recurrent(x: &[Array], attrs: &[Attr], to: &[Ty]) -> Vec<Array> {
    let (cell, reverse) = (Cell::ALL[attrs[0].int() as usize], attrs[1].bool());
    let [time, batch, units] = to[0].sizes[..] else { unreachable!() };
    let (time, batch, units) = (time as usize, batch as usize, units as usize);
    let (gates, w) = (x[0].to_f64s(), x[1].to_f64s());
    let (mut hidden, more) = (x[2].to_f64s(), x.get(3).map_or(Vec::new(), Array::to_f64s));
    let mut state = if cell == Cell::Lstm { more.clone() } else { Vec::new() };
    let mut y = vec![0.0; time * batch * units];
    for step in 0..time {
        let t = if reverse { time - 1 - step } else { step };
        let before = hidden.clone();
        for (b, u) in (0..batch).flat_map(|b| (0..units).map(move |u| (b, u))) {
            let own = |k: usize| gates[((t * batch + b) * cell.gates() + k) * units + u];
            let of_hidden = |k: usize| -> f64 {
                (0..units).map(|j| w[(k * units + u) * units + j] * before[b * units + j]).sum()
            };
            let both = |k: usize| own(k) + of_hidden(k);
            hidden[b * units + u] = match cell {
                Cell::Tanh => both(0).tanh(),
                Cell::Relu => both(0).max(0.0),
                Cell::Lstm => {
                    let c = &mut state[b * units + u];
                    *c = sigmoid(both(1)) * *c + sigmoid(both(0)) * both(2).tanh();
                    sigmoid(both(3)) * c.tanh()
                }
                Cell::Gru => {
                    let inner = of_hidden(2) + more[u];
                    let new = (own(2) + sigmoid(both(0)) * inner).tanh();
                    (1.0 - sigmoid(both(1))) * new + sigmoid(both(1)) * before[b * units + u]
                }
            };
        }
        y[t * batch * units..][..batch * units].copy_from_slice(&hidden);
    }
    let y = Array::from_f64(to[0].dtype, &to[0].sizes, &y);
    vec![y, Array::from_f64(to[1].dtype, &to[1].sizes, &state)]
}

fn differentiable(cell: Cell, reverse: bool) -> Case {
    let layer = layer(DType::F64, cell, reverse, [3, 2, 2]);
    let operands = layer.operands.iter().map(|operand| smooth(&operand.ty.sizes)).collect();
    Case { operands, ..layer }.differentiated(Gradient::Once)
}
