//! Recurrent layers in f32. The rows of a batch are independent: a task takes some of them through all steps. Weights are packed
//! once, into panels for products of few rows.

use super::access::Bound;
use super::isa::{self, Kernel};
use super::matrix::{Block, Matrix};
use super::pool::{parallel_chunks, parallel_each, with_scratch};
use super::small_gemm::{Only, SmallGemm, SmallGemmElement};
use super::vector::Vector;
use super::vector::math;
use crate::error::Result;
use crate::op::Attr;
use crate::op::nn::{Cell, Layer};

/// Rows that a product computes at once, and tasks that are enough for any number of threads.
const ROWS: usize = 6;
const TASKS: usize = 32;
/// Columns of a panel: all gates of some units.
const PANEL: usize = 64;

fn rows_of_task(batch: usize) -> usize {
    ROWS * batch.div_ceil(ROWS * TASKS).max(1)
}

/// Units whose gates are in a panel.
fn units_of_panel(gates: usize) -> usize {
    if gates == 1 { PANEL } else { PANEL / 4 }
}

/// Cost of a task, as memory traffic.
fn cost(layer: &Layer) -> usize {
    let products = layer.cell.gates() * layer.units * layer.units;
    layer.time * rows_of_task(layer.batch).min(layer.batch) * (products / 4 + 8 * layer.units)
}

/// `packed`[k, c] of a panel = `w`[row of column c, k]; columns without a row are 0.
fn pack(
    w: &[f32],
    width: usize,
    panel: &mut [f32],
    columns: usize,
    row_of: impl Fn(usize) -> Option<usize>,
) {
    for c in 0..columns {
        let Some(row) = row_of(c) else {
            panel.iter_mut().skip(c).step_by(columns).for_each(|v| *v = 0.0);
            continue;
        };
        let row = &w[row * width..][..width];
        panel.iter_mut().skip(c).step_by(columns).zip(row).for_each(|(to, v)| *to = *v);
    }
}

/// The rows of `x` [batch, width] that a task has.
fn rows_at(x: &[f32], first: usize, rows: usize, width: usize) -> &[f32] {
    &x[first * width..][..rows * width]
}

/// The part of a result [time, batch, width] that each task writes: its rows at every time; nothing of one without elements.
fn pieces<'a>(layer: &Layer, out: &'a Bound, width: usize) -> Vec<Block<'a, f32>> {
    if width == 0 {
        return Vec::new();
    }
    let all = Block::new(out.result::<f32>(), layer.batch * width);
    let of_tasks = all.cut(layer.time, rows_of_task(layer.batch) * width);
    of_tasks.map(|(_, _, block)| block).collect()
}

/// A task of the forward pass: some rows of a batch.
struct Forward<'a> {
    first: usize,
    y: Block<'a, f32>,
    saved: Option<Block<'a, f32>>,
    cell: Option<&'a mut [f32]>,
}

/// `(gates, w, hidden, cell or bias?)` → `y, cell, saved`: see `Op::Recurrent`.
pub fn recurrent(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    let layer = Layer::new(attrs, writes[0].sizes());
    let (u, g, s) = (layer.units, layer.cell.gates(), layer.cell.saved());
    let (gates, w, hidden) =
        (reads[0].dense::<f32>(), reads[1].dense::<f32>(), reads[2].dense::<f32>());
    let more = reads.get(3).map_or(&[][..], |b| b.dense::<f32>());
    let (wide, at_once) = (units_of_panel(g), rows_of_task(layer.batch));
    let columns = g * wide;
    with_scratch(u.div_ceil(wide) * u * columns, |packed| {
        parallel_chunks(packed, u * columns, u * columns * 8, |n, panel| {
            pack(w, u, panel, columns, |c| {
                let (gate, unit) = (c / wide, n * wide + c % wide);
                (unit < u).then_some(gate * u + unit)
            });
        });
        let packed = &*packed;
        let mut saved = pieces(&layer, &writes[2], s * u).into_iter();
        let mut cells = writes[1].result::<f32>().chunks_mut(at_once * u);
        let tasks = pieces(&layer, &writes[0], u).into_iter().enumerate().map(|(n, y)| Forward {
            first: n * at_once,
            y,
            saved: saved.next(),
            cell: cells.next(),
        });
        let tasks: Vec<Forward> = tasks.collect();
        parallel_each(tasks.into_iter(), cost(&layer), |task| {
            forward(&layer, (gates, hidden, more), packed, task);
        });
    });
    Ok(())
}

fn forward(
    layer: &Layer,
    (gates, hidden, more): (&[f32], &[f32], &[f32]),
    packed: &[f32],
    task: Forward,
) {
    let Forward { first, mut y, mut saved, mut cell } = task;
    let (u, g) = (layer.units, layer.cell.gates());
    let (rows, wide) = (y.columns / u, units_of_panel(g));
    let columns = g * wide;
    if let Some(cell) = &mut cell {
        cell.copy_from_slice(rows_at(more, first, rows, u));
    }
    with_scratch(rows * (u + columns), |scratch| {
        let (state, sums) = scratch.split_at_mut(rows * u);
        state.copy_from_slice(rows_at(hidden, first, rows, u));
        for t in layer.times() {
            let given = rows_at(gates, t * layer.batch + first, rows, g * u);
            for (n, panel) in packed.chunks_exact(u * columns).enumerate() {
                let a = Matrix::rows(state, u);
                multiply([rows, columns, u], a, (panel, columns), false, sums, columns);
                isa::run(Step {
                    cell: layer.cell,
                    units: u,
                    first: n * wide,
                    wide,
                    sums,
                    gates: given,
                    bias: more,
                    before: state,
                    state: cell.as_deref_mut().unwrap_or_default(),
                    y: y.row(t),
                    saved: saved.as_mut().map(|saved| saved.row(t)).unwrap_or_default(),
                });
            }
            state.copy_from_slice(y.row(t));
        }
    });
}

/// `c = a b`, or `c + a b`, of rows, columns, terms.
fn multiply(
    [rows, columns, depth]: [usize; 3],
    a: Matrix<f32>,
    (b, pitch): (&[f32], usize),
    add: bool,
    c: &mut [f32],
    c_pitch: usize,
) {
    let only = Only::All;
    let task = SmallGemm { a, b, pitch, rows, columns, depth, alpha: 1.0, add, only };
    f32::small_gemm(task, c, c_pitch);
}

#[inline(always)]
fn get<V: Vector>(from: &[f32], at: usize, n: usize) -> V {
    if n == V::LANES { V::load(&from[at..]) } else { V::load_part(&from[at..at + n]) }
}

#[inline(always)]
fn put<V: Vector>(v: V, to: &mut [f32], at: usize, n: usize) {
    if n == V::LANES { v.store(&mut to[at..]) } else { v.store_part(&mut to[at..at + n]) }
}

/// The computation of a step from the products of one panel, for all rows of a task.
struct Step<'a> {
    cell: Cell,
    units: usize,
    /// The panel's first unit, and the number that it has room for.
    first: usize,
    wide: usize,
    sums: &'a [f32],
    gates: &'a [f32],
    bias: &'a [f32],
    before: &'a [f32],
    state: &'a mut [f32],
    y: &'a mut [f32],
    saved: &'a mut [f32],
}

impl Kernel for Step<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        let (u, g, s) = (self.units, self.cell.gates(), self.cell.saved());
        let end = self.wide.min(u - self.first);
        for row in 0..self.y.len() / u {
            for j in (0..end).step_by(V::LANES) {
                let (n, unit) = (V::LANES.min(end - j), self.first + j);
                let at = row * u + unit;
                // Macros: a called function would not be compiled for the processor.
                macro_rules! hidden {
                    ($gate:expr) => {
                        V::load(&self.sums[(row * g + $gate) * self.wide + j..])
                    };
                }
                macro_rules! given {
                    ($gate:expr) => {
                        get::<V>(self.gates, (row * g + $gate) * u + unit, n)
                    };
                }
                macro_rules! save {
                    ($($k:literal: $v:expr),*) => {
                        $(put($v, self.saved, (row * s + $k) * u + unit, n);)*
                    };
                }
                let y = match self.cell {
                    Cell::Tanh => math::tanh(given!(0) + hidden!(0)),
                    Cell::Relu => (given!(0) + hidden!(0)).max(V::splat(0.0)),
                    Cell::Lstm => {
                        let i = math::sigmoid(given!(0) + hidden!(0));
                        let f = math::sigmoid(given!(1) + hidden!(1));
                        let c = math::tanh(given!(2) + hidden!(2));
                        let o = math::sigmoid(given!(3) + hidden!(3));
                        let state = f * get(self.state, at, n) + i * c;
                        put(state, self.state, at, n);
                        save!(0: i, 1: f, 2: c, 3: o, 4: state);
                        o * math::tanh(state)
                    }
                    Cell::Gru => {
                        let r = math::sigmoid(given!(0) + hidden!(0));
                        let z = math::sigmoid(given!(1) + hidden!(1));
                        let inner = hidden!(2) + get(self.bias, unit, n);
                        let c = math::tanh(given!(2) + r * inner);
                        save!(0: r, 1: z, 2: c, 3: inner);
                        (V::splat(1.0) - z) * c + z * get(self.before, at, n)
                    }
                };
                put(y, self.y, at, n);
            }
        }
    }
}

/// A task of the backward pass: some rows of a batch.
struct Backward<'a> {
    first: usize,
    dgates: Block<'a, f32>,
    dhidden: &'a mut [f32],
    dcell: Option<&'a mut [f32]>,
    inner: Option<Block<'a, f32>>,
}

/// Operands of the backward pass.
struct Saved<'a> {
    dy: &'a [f32],
    hidden: &'a [f32],
    y: &'a [f32],
    saved: &'a [f32],
    cell: &'a [f32],
    dcell: &'a [f32],
}

/// `(dy, w, hidden, y, saved, cell?, dcell?)` → `dgates, dhidden, dcell or inner`: see `Op::RecurrentGrad`.
pub fn recurrent_grad(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    let layer = Layer::new(attrs, reads[3].sizes());
    let (u, g) = (layer.units, layer.cell.gates());
    let of = |n: usize| reads.get(n).map_or(&[][..], |b| b.dense::<f32>());
    let from =
        Saved { dy: of(0), hidden: of(2), y: of(3), saved: of(4), cell: of(5), dcell: of(6) };
    let (w, at_once) = (of(1), rows_of_task(layer.batch));
    let (panels, depth) = (u.div_ceil(PANEL), g * u);
    with_scratch(panels * depth * PANEL, |packed| {
        parallel_chunks(packed, depth * PANEL, depth * PANEL * 8, |n, panel| {
            let width = PANEL.min(u - n * PANEL);
            for (k, row) in panel.chunks_exact_mut(PANEL).enumerate() {
                let (some, none) = row.split_at_mut(width);
                some.copy_from_slice(&w[k * u + n * PANEL..][..width]);
                none.fill(0.0);
            }
        });
        let packed = &*packed;
        let is_gru = layer.cell == Cell::Gru;
        let mut inner = if is_gru { pieces(&layer, &writes[2], u) } else { Vec::new() }.into_iter();
        let mut hidden = writes[1].result::<f32>().chunks_mut(at_once * u);
        let cells = if is_gru { &mut [][..] } else { writes[2].result::<f32>() };
        let mut cells = cells.chunks_mut(at_once * u);
        let tasks =
            pieces(&layer, &writes[0], g * u).into_iter().enumerate().map(|(n, dgates)| Backward {
                first: n * at_once,
                dgates,
                dhidden: hidden.next().unwrap_or_default(),
                dcell: cells.next(),
                inner: inner.next(),
            });
        let tasks: Vec<Backward> = tasks.collect();
        parallel_each(tasks.into_iter(), cost(&layer), |task| {
            backward(&layer, &from, packed, task);
        });
    });
    Ok(())
}

fn backward(layer: &Layer, from: &Saved, packed: &[f32], task: Backward) {
    let Backward { first, mut dgates, dhidden, mut dcell, mut inner } = task;
    let (u, g, s) = (layer.units, layer.cell.gates(), layer.cell.saved());
    let rows = dhidden.len() / u;
    let (depth, pitch) = (g * u, u.next_multiple_of(PANEL));
    let is_gru = layer.cell == Cell::Gru;
    if let Some(dcell) = &mut dcell {
        dcell.copy_from_slice(rows_at(from.dcell, first, rows, u));
    }
    let of_products = if is_gru { rows * depth } else { 0 };
    with_scratch(rows * pitch + of_products, |scratch| {
        let (dstate, products) = scratch.split_at_mut(rows * pitch);
        dstate.fill(0.0);
        for t in layer.times().rev() {
            let row = t * layer.batch + first;
            isa::run(StepBack {
                cell: layer.cell,
                units: u,
                pitch,
                dy: rows_at(from.dy, row, rows, u),
                y: rows_at(from.y, row, rows, u),
                saved: rows_at(from.saved, row, rows, s * u),
                earlier: Earlier::new(layer, from, t, (first, rows)),
                dstate,
                dcell: dcell.as_deref_mut().unwrap_or_default(),
                dgates: dgates.row(t),
                inner: inner.as_mut().map(|inner| inner.row(t)).unwrap_or_default(),
                products,
            });
            let a = Matrix::rows(if is_gru { &*products } else { &*dgates.row(t) }, depth);
            for (n, panel) in packed.chunks_exact(depth * PANEL).enumerate() {
                let c = &mut dstate[n * PANEL..];
                multiply([rows, PANEL, depth], a, (panel, PANEL), is_gru, c, pitch);
            }
        }
        for (to, from) in dhidden.chunks_exact_mut(u).zip(dstate.chunks_exact(pitch)) {
            to.copy_from_slice(&from[..u]);
        }
    });
}

/// The value that the previous step left for some rows: the cell of an LSTM, the state of a GRU.
struct Earlier<'a> {
    from: &'a [f32],
    /// Elements from row to row.
    stride: usize,
}

impl<'a> Earlier<'a> {
    fn new(
        layer: &Layer,
        from: &Saved<'a>,
        t: usize,
        (first, rows): (usize, usize),
    ) -> Earlier<'a> {
        let (u, s) = (layer.units, layer.cell.saved());
        let row = |t: usize| t * layer.batch + first;
        match (layer.cell, layer.before(t)) {
            (Cell::Lstm, Some(t)) => {
                let all = rows_at(from.saved, row(t), rows, s * u);
                Earlier { from: &all[(s - 1) * u..], stride: s * u }
            }
            (Cell::Lstm, None) => Earlier { from: rows_at(from.cell, first, rows, u), stride: u },
            (_, Some(t)) => Earlier { from: rows_at(from.y, row(t), rows, u), stride: u },
            (_, None) => Earlier { from: rows_at(from.hidden, first, rows, u), stride: u },
        }
    }
}

/// The gradients of a step, for all rows of a task.
struct StepBack<'a> {
    cell: Cell,
    units: usize,
    /// Elements from row to row of `dstate`.
    pitch: usize,
    dy: &'a [f32],
    y: &'a [f32],
    saved: &'a [f32],
    earlier: Earlier<'a>,
    /// The gradient of the state from later steps; afterwards, for a GRU, the part of the previous state's gradient that does
    /// not come from the products.
    dstate: &'a mut [f32],
    dcell: &'a mut [f32],
    dgates: &'a mut [f32],
    inner: &'a mut [f32],
    /// Left operand of a GRU's products.
    products: &'a mut [f32],
}

impl Kernel for StepBack<'_> {
    type Out = ();

    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        let (u, g, s) = (self.units, self.cell.gates(), self.cell.saved());
        let one = V::splat(1.0);
        for row in 0..self.dy.len() / u {
            for unit in (0..u).step_by(V::LANES) {
                let (n, at, state) =
                    (V::LANES.min(u - unit), row * u + unit, row * self.pitch + unit);
                let d = get::<V>(self.dy, at, n) + get(self.dstate, state, n);
                macro_rules! saved {
                    ($k:expr) => {
                        get::<V>(self.saved, (row * s + $k) * u + unit, n)
                    };
                }
                macro_rules! give {
                    ($to:ident: $($k:literal: $v:expr),*) => {
                        $(put($v, self.$to, (row * g + $k) * u + unit, n);)*
                    };
                }
                match self.cell {
                    Cell::Tanh => {
                        let y = get::<V>(self.y, at, n);
                        give!(dgates: 0: d * (one - y * y));
                    }
                    Cell::Relu => {
                        let zero = V::splat(0.0);
                        let is_positive = zero.lt(get(self.y, at, n));
                        give!(dgates: 0: V::select(is_positive, d, zero));
                    }
                    Cell::Lstm => {
                        let (i, f, c, o) = (saved!(0), saved!(1), saved!(2), saved!(3));
                        let earlier =
                            get::<V>(self.earlier.from, row * self.earlier.stride + unit, n);
                        let tanh = math::tanh(saved!(4));
                        let dc = get::<V>(self.dcell, at, n) + d * o * (one - tanh * tanh);
                        give!(dgates: 0: dc * c * i * (one - i), 1: dc * earlier * f * (one - f),
                            2: dc * i * (one - c * c), 3: d * tanh * o * (one - o));
                        put(dc * f, self.dcell, at, n);
                    }
                    Cell::Gru => {
                        let (r, z, c) = (saved!(0), saved!(1), saved!(2));
                        let earlier =
                            get::<V>(self.earlier.from, row * self.earlier.stride + unit, n);
                        let dc = d * (one - z) * (one - c * c);
                        let dr = dc * saved!(3) * r * (one - r);
                        let dz = d * (earlier - c) * z * (one - z);
                        let inner = dc * r;
                        give!(dgates: 0: dr, 1: dz, 2: dc);
                        give!(products: 0: dr, 1: dz, 2: inner);
                        put(inner, self.inner, at, n);
                        put(d * z, self.dstate, state, n);
                    }
                }
            }
        }
    }
}
