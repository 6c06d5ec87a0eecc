//! Recurrent layers over whole sequences: torch.nn.RNN, LSTM and GRU, one direction of one layer, after the product of the
//! input with its weights.

use crate::dtype::DType;
use crate::error::Result;
use crate::invalid;
use crate::op::array::Array;
use crate::op::{Attr, Eval, Ty, Tys, check};
use smallvec::smallvec;

pub const RECURRENT: Eval = Eval::Whole(recurrent);
pub const RECURRENT_GRAD: Eval = Eval::Whole(recurrent_grad);

/// The kind of a recurrent cell, with its gates in PyTorch's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    Tanh,
    Relu,
    /// Input, forget, candidate, output.
    Lstm,
    /// Reset, update, candidate.
    Gru,
}

/// Names of the cells, in order.
pub const CELLS: [&str; 4] = ["tanh", "relu", "lstm", "gru"];

impl Cell {
    pub const ALL: [Cell; 4] = [Cell::Tanh, Cell::Relu, Cell::Lstm, Cell::Gru];

    /// The cell in a recurrent layer's attributes.
    pub fn of(attrs: &[Attr]) -> Cell {
        Cell::ALL[attrs[0].int() as usize]
    }

    pub fn attr(self) -> Attr {
        Attr::Int(self as i64)
    }

    pub fn gates(self) -> usize {
        match self {
            Cell::Tanh | Cell::Relu => 1,
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }

    /// Number of values of a unit and step that the gradient needs: the gates after their functions, and then the state of the
    /// cell, or the factor of the reset gate.
    pub fn saved(self) -> usize {
        match self {
            Cell::Tanh | Cell::Relu => 0,
            Cell::Lstm => 5,
            Cell::Gru => 4,
        }
    }
}

/// Sizes of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    pub cell: Cell,
    /// From the last step to the first.
    pub reverse: bool,
    pub time: usize,
    pub batch: usize,
    pub units: usize,
}

impl Layer {
    /// The sizes of a layer whose results are `y` [time, batch, units].
    pub fn new(attrs: &[Attr], y: &[i64]) -> Layer {
        let [time, batch, units] = [0, 1, 2].map(|d| y[d] as usize);
        Layer { cell: Cell::of(attrs), reverse: attrs[1].bool(), time, batch, units }
    }

    /// The times of the steps, in their order.
    pub fn times(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let (time, reverse) = (self.time, self.reverse);
        (0..time).map(move |step| if reverse { time - 1 - step } else { step })
    }

    /// The time of the step before.
    pub fn before(&self, time: usize) -> Option<usize> {
        match self.reverse {
            true => Some(time + 1).filter(|&t| t < self.time),
            false => time.checked_sub(1),
        }
    }
}

// ---- types

fn kind(attrs: &[Attr]) -> Result<Cell> {
    match attrs {
        [Attr::Int(cell @ 0..4), Attr::Bool(_)] => Ok(Cell::ALL[*cell as usize]),
        _ => check::wrong_attrs("cell: int below 4, reverse: bool", attrs),
    }
}

/// Checks the operands that both directions have: weights and first hidden state, and one dtype for all. Returns the units.
fn layer(cell: Cell, inputs: &[&Ty], w: &Ty, hidden: &Ty, batch: i64) -> Result<i64> {
    for ty in inputs {
        check::same_dtype(w, ty)?;
    }
    if !matches!(w.dtype, DType::F32 | DType::F64) {
        return invalid!("expected a recurrent layer of f32 or f64, but got {}", w.dtype);
    }
    check::rank(w, 2, "the weights")?;
    let units = w.sizes[1];
    check::sizes(w, &[cell.gates() as i64 * units, units], "the weights")?;
    check::sizes(hidden, &[batch, units], "the hidden state")?;
    Ok(units)
}

pub fn recurrent_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let cell = kind(attrs)?;
    let (gates, w, hidden, more) = match (inputs, cell) {
        ([gates, w, hidden], Cell::Tanh | Cell::Relu) => (gates, w, hidden, None),
        ([gates, w, hidden, more], Cell::Lstm | Cell::Gru) => (gates, w, hidden, Some(more)),
        _ => return check::wrong_operands("gates, weights, hidden, cell or bias", inputs),
    };
    check::rank(gates, 3, "the gates")?;
    let (time, batch) = (gates.sizes[0], gates.sizes[1]);
    let units = layer(cell, inputs, w, hidden, batch)?;
    check::sizes(gates, &[time, batch, cell.gates() as i64 * units], "the gates")?;
    match (cell, more) {
        (Cell::Lstm, Some(state)) => check::sizes(state, &[batch, units], "the cell")?,
        (_, Some(bias)) => check::sizes(bias, &[units], "the bias")?,
        _ => {}
    }
    let of_cell = if cell == Cell::Lstm { units } else { 0 };
    Ok(smallvec![
        check::ty(w.dtype, &[time, batch, units])?,
        check::ty(w.dtype, &[batch, of_cell])?,
        check::ty(w.dtype, &[time, batch, cell.saved() as i64 * units])?,
    ])
}

pub fn recurrent_grad_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let cell = kind(attrs)?;
    let (y, w, hidden, dy, saved, more) = match (inputs, cell) {
        ([dy, w, hidden, y, saved, more @ ..], _)
            if more.len() == if cell == Cell::Lstm { 2 } else { 0 } =>
        {
            (y, w, hidden, dy, saved, more)
        }
        _ => {
            return check::wrong_operands(
                "dy, weights, hidden, y, saved, and of an LSTM cell, dcell",
                inputs,
            );
        }
    };
    check::rank(y, 3, "y")?;
    let (time, batch) = (y.sizes[0], y.sizes[1]);
    let units = layer(cell, inputs, w, hidden, batch)?;
    check::sizes(y, &[time, batch, units], "y")?;
    check::sizes(dy, &y.sizes, "dy")?;
    check::sizes(saved, &[time, batch, cell.saved() as i64 * units], "what was saved")?;
    for state in more {
        check::sizes(state, &[batch, units], "the cell")?;
    }
    let third = match cell {
        Cell::Tanh | Cell::Relu => check::ty(w.dtype, &[batch, 0])?,
        Cell::Lstm => check::ty(w.dtype, &[batch, units])?,
        Cell::Gru => check::ty(w.dtype, &[time, batch, units])?,
    };
    let of_gates = [time, batch, cell.gates() as i64 * units];
    Ok(smallvec![check::ty(w.dtype, &of_gates)?, check::ty(w.dtype, &[batch, units])?, third,])
}

/// The products with the weights, and 10 operations for each number of the gates.
pub fn recurrent_flops(inputs: &[&Ty], _: &[Ty]) -> u64 {
    let (first, w) = (inputs[0], inputs[1]);
    let steps = first.sizes[..2].iter().product::<i64>().max(0) as u64;
    steps * (2 * w.numel().max(0) as u64 + 10 * w.sizes[0].max(0) as u64)
}

// ---- meanings

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn recurrent(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let layer = Layer::new(attrs, &outs[0].sizes);
    let (gates, w) = (x[0].to_f64s(), x[1].to_f64s());
    let (b, h, g, s) = (layer.batch, layer.units, layer.cell.gates(), layer.cell.saved());
    let mut state = x[2].to_f64s();
    let more = x.get(3).map(|x| x.to_f64s()).unwrap_or_default();
    let mut cell = if layer.cell == Cell::Lstm { more.clone() } else { Vec::new() };
    let mut y = vec![0.0; layer.time * b * h];
    let mut saved = vec![0.0; layer.time * b * s * h];
    for t in layer.times() {
        let before = state.clone();
        for (n, u) in (0..b).flat_map(|n| (0..h).map(move |u| (n, u))) {
            let hidden = |gate: usize| -> f64 {
                let row = &w[(gate * h + u) * h..][..h];
                row.iter().zip(&before[n * h..]).map(|(w, x)| w * x).sum()
            };
            let given = |gate: usize| gates[((t * b + n) * g + gate) * h + u];
            let kept = &mut saved[(t * b + n) * s * h..][..s * h];
            let at = n * h + u;
            state[at] = match layer.cell {
                Cell::Tanh => (given(0) + hidden(0)).tanh(),
                Cell::Relu => {
                    let v = given(0) + hidden(0);
                    if v < 0.0 { 0.0 } else { v }
                }
                Cell::Lstm => {
                    let [i, f, c, o] = [0, 1, 2, 3].map(|gate| given(gate) + hidden(gate));
                    let (i, f, c, o) = (sigmoid(i), sigmoid(f), c.tanh(), sigmoid(o));
                    cell[at] = f * cell[at] + i * c;
                    for (k, v) in [i, f, c, o, cell[at]].into_iter().enumerate() {
                        kept[k * h + u] = v;
                    }
                    o * cell[at].tanh()
                }
                Cell::Gru => {
                    let [r, z] = [0, 1].map(|gate| sigmoid(given(gate) + hidden(gate)));
                    let inner = hidden(2) + more[u];
                    let c = (given(2) + r * inner).tanh();
                    for (k, v) in [r, z, c, inner].into_iter().enumerate() {
                        kept[k * h + u] = v;
                    }
                    c + z * (before[at] - c)
                }
            };
            y[t * b * h + at] = state[at];
        }
    }
    let arrays = [y, cell, saved];
    Ok(outs.iter().zip(&arrays).map(|(ty, v)| Array::from_f64(ty.dtype, &ty.sizes, v)).collect())
}

fn recurrent_grad(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let layer = Layer::new(attrs, &x[3].ty.sizes);
    let [dy, w, first, y, saved] = [0, 1, 2, 3, 4].map(|n| x[n].to_f64s());
    let (b, h, g, s) = (layer.batch, layer.units, layer.cell.gates(), layer.cell.saved());
    let of_cell = x.get(5).map(|x| x.to_f64s()).unwrap_or_default();
    let mut dcell = x.get(6).map(|x| x.to_f64s()).unwrap_or_default();
    let mut dstate = vec![0.0; b * h];
    let mut dgates = vec![0.0; layer.time * b * g * h];
    let mut inner = vec![0.0; if layer.cell == Cell::Gru { layer.time * b * h } else { 0 }];
    for t in layer.times().rev() {
        // The gradients of this step's hidden products, and the direct part of that of the state before it.
        let mut products = vec![0.0; b * g * h];
        let mut direct = vec![0.0; b * h];
        for (n, u) in (0..b).flat_map(|n| (0..h).map(move |u| (n, u))) {
            let (at, here) = (n * h + u, (t * b + n) * h + u);
            let kept = |k: usize| saved[((t * b + n) * s + k) * h + u];
            let d = dy[here] + dstate[at];
            let mut of_gates = [0.0; 4];
            match layer.cell {
                Cell::Tanh => of_gates[0] = d * (1.0 - y[here] * y[here]),
                Cell::Relu => of_gates[0] = if y[here] > 0.0 { d } else { 0.0 },
                Cell::Lstm => {
                    let [i, f, c, o, now] = [0, 1, 2, 3, 4].map(kept);
                    let earlier = match layer.before(t) {
                        Some(t) => saved[((t * b + n) * s + 4) * h + u],
                        None => of_cell[at],
                    };
                    let tanh = now.tanh();
                    let dc = dcell[at] + d * o * (1.0 - tanh * tanh);
                    of_gates = [
                        dc * c * i * (1.0 - i),
                        dc * earlier * f * (1.0 - f),
                        dc * i * (1.0 - c * c),
                        d * tanh * o * (1.0 - o),
                    ];
                    dcell[at] = dc * f;
                }
                Cell::Gru => {
                    let [r, z, c, product] = [0, 1, 2, 3].map(kept);
                    let earlier = match layer.before(t) {
                        Some(t) => y[(t * b + n) * h + u],
                        None => first[at],
                    };
                    let dc = d * (1.0 - z) * (1.0 - c * c);
                    of_gates[0] = dc * product * r * (1.0 - r);
                    of_gates[1] = d * (earlier - c) * z * (1.0 - z);
                    of_gates[2] = dc;
                    inner[here] = dc * r;
                    direct[at] = d * z;
                }
            }
            for gate in 0..g {
                dgates[((t * b + n) * g + gate) * h + u] = of_gates[gate];
                let is_inner = layer.cell == Cell::Gru && gate == 2;
                products[(n * g + gate) * h + u] =
                    if is_inner { inner[here] } else { of_gates[gate] };
            }
        }
        for (n, u) in (0..b).flat_map(|n| (0..h).map(move |u| (n, u))) {
            let sum: f64 = (0..g * h).map(|k| products[n * g * h + k] * w[k * h + u]).sum();
            dstate[n * h + u] = direct[n * h + u] + sum;
        }
    }
    let third = if layer.cell == Cell::Gru { inner } else { dcell };
    let arrays = [dgates, dstate, third];
    Ok(outs.iter().zip(&arrays).map(|(ty, v)| Array::from_f64(ty.dtype, &ty.sizes, v)).collect())
}
