//! A training step of a small GPT in mixed precision with AdamW, forwards, backwards and update, as a front end would
//! lower it: the example for tests of orders, memory and planning time.

use crate::dtype::DType::{self, BF16, F32, F64, I64};
use crate::graph::{Builder, Graph, ValueId};
use crate::op::arg::{Arg, ScalarKind};
use crate::op::collective::{self, Kind};
use crate::op::{Attr, Attrs, Op, Ty};
use smallvec::{SmallVec, smallvec};

/// Builds programs in tests, where nothing can fail.
#[derive(Default)]
pub struct Make(pub Builder);

impl Make {
    pub fn input(&mut self, index: u32, dtype: DType, sizes: &[i64]) -> ValueId {
        self.0.input(index, Ty::new(dtype, sizes)).unwrap()
    }

    pub fn unary(&mut self, op: Op, x: ValueId) -> ValueId {
        self.0.unary(op, x).unwrap()
    }

    /// Broadcasts `b` to `a`.
    pub fn binary(&mut self, op: Op, a: ValueId, b: ValueId) -> ValueId {
        let sizes = self.0.ty(a).sizes.clone();
        let b = self.0.broadcast(b, &sizes).unwrap();
        self.0.binary(op, a, b).unwrap()
    }

    pub fn with(&mut self, op: Op, a: ValueId, number: f64) -> ValueId {
        let c = self.0.constant(number, self.0.ty(a).dtype).unwrap();
        self.binary(op, a, c)
    }

    pub fn cast(&mut self, x: ValueId, dtype: DType) -> ValueId {
        self.0.cast(x, dtype).unwrap()
    }

    pub fn reshape(&mut self, x: ValueId, sizes: &[i64]) -> ValueId {
        self.0.reshape(x, sizes).unwrap()
    }

    pub fn transpose(&mut self, x: ValueId, perm: &[i64]) -> ValueId {
        self.0.transpose(x, perm).unwrap()
    }

    pub fn slice(&mut self, x: ValueId, starts: &[i64], sizes: &[i64]) -> ValueId {
        self.0.slice(x, starts, sizes, &vec![1; sizes.len()]).unwrap()
    }

    pub fn sum(&mut self, x: ValueId, axes: &[i64]) -> ValueId {
        self.0.reduce(Op::Sum, x, axes, false).unwrap()
    }

    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.0.matmul(a, b).unwrap()
    }

    pub fn ops(&mut self, op: Op, inputs: &[ValueId], attrs: Attrs) -> SmallVec<[ValueId; 4]> {
        self.0.ops(op, inputs, attrs).unwrap()
    }

    /// The collective of `x` over all ranks, and the next token. `of`: the communicator, its token and the rank; `how`: its
    /// number, 0 for a sum.
    pub fn collective(
        &mut self,
        (kind, how): (Kind, i64),
        x: ValueId,
        size: i64,
        of: [ValueId; 3],
    ) -> [ValueId; 2] {
        let (tensor, scalar) =
            (|| Arg::Tensor(()), || Arg::Scalar { kind: ScalarKind::Int, number: () });
        let args = vec![tensor(), Arg::Int(how), scalar(), tensor(), scalar()];
        let result = collective::result(kind, self.0.ty(x), size).unwrap();
        let attrs = collective::attrs(kind, Some(result), args);
        let made = self.ops(Op::Host, &[x, of[0], of[1], of[2]], attrs);
        [made[0], made[1]]
    }
}

const HEADS: i64 = 4;

/// A linear layer: weight `[out, in]` and bias, and the input that its backward needs.
struct Linear {
    weight: usize,
    bias: usize,
    x: ValueId,
}

struct Norm {
    weight: usize,
    bias: usize,
    x: ValueId,
    mean: ValueId,
    rstd: ValueId,
}

struct Block {
    norms: [Norm; 2],
    linears: [Linear; 4],
    /// q, k, v, out, lse
    attention: [ValueId; 5],
    before_gelu: ValueId,
}

struct Gpt {
    make: Make,
    batch: i64,
    time: i64,
    width: i64,
    params: Vec<ValueId>,
    grads: Vec<Option<ValueId>>,
    seed: ValueId,
    offset: ValueId,
}

/// The program, and the donors offered to its outputs: the loss, then parameters and both moments.
pub fn training_step(
    layers: i64,
    batch: i64,
    time: i64,
    width: i64,
    vocabulary: i64,
) -> (Graph, Vec<Option<u32>>) {
    let mut make = Make::default();
    let tokens = make.input(0, I64, &[batch, time]);
    let targets = make.input(1, I64, &[batch * time, 1]);
    let seed = make.0.scalar(0, I64).unwrap();
    let offset = make.0.scalar(1, I64).unwrap();
    let (params, grads) = (Vec::new(), Vec::new());
    let mut gpt = Gpt { make, batch, time, width, params, grads, seed, offset };
    let (table, table_value) = gpt.param(&[vocabulary, width]);
    let (rows, rows_value) = gpt.param(&[time, width]);

    let taken = gpt.make.ops(Op::Take, &[table_value, tokens], smallvec![Attr::Int(0)])[0];
    let x = gpt.make.binary(Op::Add, taken, rows_value);
    let mut x = gpt.make.reshape(x, &[batch * time, width]);
    let mut blocks = Vec::new();
    for _ in 0..layers {
        let (block, y) = gpt.block(x);
        blocks.push(block);
        x = y;
    }
    let (norm, h) = gpt.norm(x);
    let h = gpt.make.cast(h, BF16);
    let head = gpt.make.cast(table_value, BF16);
    let turned = gpt.make.transpose(head, &[1, 0]);
    let logits = gpt.make.matmul(h, turned);
    let (loss, dlogits) = gpt.loss(logits, targets);

    let dh = gpt.make.matmul(dlogits, head);
    let dlogits = gpt.make.transpose(dlogits, &[1, 0]);
    let dhead = gpt.make.matmul(dlogits, h);
    let dh = gpt.make.cast(dh, F32);
    let mut dx = gpt.norm_grad(&norm, dh);
    for block in blocks.iter().rev() {
        dx = gpt.block_grad(block, dx);
    }
    let dx3 = gpt.make.reshape(dx, &[batch, time, width]);
    let drows = gpt.make.sum(dx3, &[0]);
    gpt.grads[rows] = Some(drows);
    let flat = gpt.make.reshape(tokens, &[batch * time]);
    let dhead = gpt.make.cast(dhead, F32);
    let dtable = gpt.make.ops(Op::IndexAdd, &[dhead, flat, dx], smallvec![Attr::Int(0)])[0];
    gpt.grads[table] = Some(dtable);
    gpt.update(loss)
}

impl Gpt {
    fn param(&mut self, sizes: &[i64]) -> (usize, ValueId) {
        let n = self.params.len();
        let value = self.make.input(2 + n as u32, F32, sizes);
        self.params.push(value);
        self.grads.push(None);
        (n, value)
    }

    fn norm(&mut self, x: ValueId) -> (Norm, ValueId) {
        let (weight, w) = self.param(&[self.width]);
        let (bias, b) = self.param(&[self.width]);
        let attrs = smallvec![Attr::Float(1e-5), Attr::Bool(true), Attr::Bool(true)];
        let y = self.make.ops(Op::LayerNorm, &[x, w, b], attrs);
        (Norm { weight, bias, x, mean: y[1], rstd: y[2] }, y[0])
    }

    fn norm_grad(&mut self, norm: &Norm, dy: ValueId) -> ValueId {
        let inputs = [dy, norm.x, norm.mean, norm.rstd, self.params[norm.weight]];
        let d = self.make.ops(Op::LayerNormGrad, &inputs, smallvec![]);
        self.grads[norm.weight] = Some(d[1]);
        self.grads[norm.bias] = Some(d[2]);
        d[0]
    }

    fn linear(&mut self, x: ValueId, out: i64) -> (Linear, ValueId) {
        let sizes = [out, self.make.0.ty(x).sizes[1]];
        let (weight, w) = self.param(&sizes);
        let (bias, b) = self.param(&[out]);
        let w = self.make.cast(w, BF16);
        let w = self.make.transpose(w, &[1, 0]);
        let y = self.make.matmul(x, w);
        let b = self.make.cast(b, BF16);
        (Linear { weight, bias, x }, self.make.binary(Op::Add, y, b))
    }

    fn linear_grad(&mut self, linear: &Linear, dy: ValueId) -> ValueId {
        let w = self.make.cast(self.params[linear.weight], BF16);
        let turned = self.make.transpose(dy, &[1, 0]);
        let dw = self.make.matmul(turned, linear.x);
        let db = self.make.sum(dy, &[0]);
        self.grads[linear.weight] = Some(self.make.cast(dw, F32));
        self.grads[linear.bias] = Some(self.make.cast(db, F32));
        self.make.matmul(dy, w)
    }

    /// `[b*t, h*d]` → `[b, h, t, d]`
    fn heads(&mut self, x: ValueId) -> ValueId {
        let sizes = [self.batch, self.time, HEADS, self.width / HEADS];
        let x = self.make.reshape(x, &sizes);
        self.make.transpose(x, &[0, 2, 1, 3])
    }

    fn unheads(&mut self, x: ValueId) -> ValueId {
        let x = self.make.transpose(x, &[0, 2, 1, 3]);
        self.make.reshape(x, &[self.batch * self.time, self.width])
    }

    fn add_cast(&mut self, x: ValueId, y: ValueId) -> ValueId {
        let y = self.make.cast(y, F32);
        self.make.binary(Op::Add, x, y)
    }

    fn block(&mut self, x: ValueId) -> (Block, ValueId) {
        let (rows, width) = (self.batch * self.time, self.width);
        let (norm1, h) = self.norm(x);
        let h = self.make.cast(h, BF16);
        let (qkv, y) = self.linear(h, 3 * width);
        let part: Vec<ValueId> = (0..3)
            .map(|i| {
                let part = self.make.slice(y, &[0, i * width], &[rows, width]);
                self.heads(part)
            })
            .collect();
        let inputs = [part[0], part[1], part[2], self.seed, self.offset];
        let out = self.make.ops(Op::Attention, &inputs, attention());
        let joined = self.unheads(out[0]);
        let (project, y) = self.linear(joined, width);
        let x = self.add_cast(x, y);
        let (norm2, h) = self.norm(x);
        let h = self.make.cast(h, BF16);
        let (up, before_gelu) = self.linear(h, 4 * width);
        let g = self.gelu(before_gelu);
        let (down, y) = self.linear(g, width);
        let x = self.add_cast(x, y);
        let attention = [part[0], part[1], part[2], out[0], out[1]];
        let norms = [norm1, norm2];
        (Block { norms, linears: [qkv, project, up, down], attention, before_gelu }, x)
    }

    fn block_grad(&mut self, block: &Block, dx: ValueId) -> ValueId {
        let dy = self.make.cast(dx, BF16);
        let dg = self.linear_grad(&block.linears[3], dy);
        let df = self.gelu_grad(block.before_gelu, dg);
        let dh = self.linear_grad(&block.linears[2], df);
        let dh = self.make.cast(dh, F32);
        let dn = self.norm_grad(&block.norms[1], dh);
        let dx = self.make.binary(Op::Add, dx, dn);
        let dy = self.make.cast(dx, BF16);
        let dout = self.linear_grad(&block.linears[1], dy);
        let dout = self.heads(dout);
        let [q, k, v, out, lse] = block.attention;
        let inputs = [dout, q, k, v, out, lse, self.seed, self.offset];
        let d = self.make.ops(Op::AttentionGrad, &inputs, attention());
        let parts: Vec<ValueId> = d.iter().map(|&d| self.unheads(d)).collect();
        let dqkv = self.make.ops(Op::Concat, &parts, smallvec![Attr::Int(1)])[0];
        let dh = self.linear_grad(&block.linears[0], dqkv);
        let dh = self.make.cast(dh, F32);
        let dn = self.norm_grad(&block.norms[0], dh);
        self.make.binary(Op::Add, dx, dn)
    }

    /// x/2 * (1 + erf(x/√2))
    fn gelu(&mut self, x: ValueId) -> ValueId {
        let m = &mut self.make;
        let x = m.cast(x, F32);
        let e = m.with(Op::Mul, x, 0.5f64.sqrt());
        let e = m.unary(Op::Erf, e);
        let e = m.with(Op::Add, e, 1.0);
        let half = m.with(Op::Mul, x, 0.5);
        let y = m.binary(Op::Mul, half, e);
        m.cast(y, BF16)
    }

    fn gelu_grad(&mut self, x: ValueId, dy: ValueId) -> ValueId {
        let m = &mut self.make;
        let (x, dy) = (m.cast(x, F32), m.cast(dy, F32));
        let e = m.with(Op::Mul, x, 0.5f64.sqrt());
        let e = m.unary(Op::Erf, e);
        let e = m.with(Op::Add, e, 1.0);
        let cdf = m.with(Op::Mul, e, 0.5);
        let square = m.binary(Op::Mul, x, x);
        let p = m.with(Op::Mul, square, -0.5);
        let p = m.unary(Op::Exp, p);
        let p = m.with(Op::Mul, p, 0.3989422804014327);
        let slope = m.binary(Op::Mul, x, p);
        let slope = m.binary(Op::Add, cdf, slope);
        let dx = m.binary(Op::Mul, dy, slope);
        m.cast(dx, BF16)
    }

    /// Mean cross entropy of `[rows, vocabulary]` and its gradient.
    fn loss(&mut self, logits: ValueId, targets: ValueId) -> (ValueId, ValueId) {
        let m = &mut self.make;
        let sizes = m.0.ty(logits).sizes.clone();
        let wide = m.cast(logits, F32);
        let logs = m.ops(Op::LogSoftmax, &[wide], smallvec![])[0];
        let picked = m.ops(Op::Gather, &[logs, targets], smallvec![Attr::Int(1)])[0];
        let loss = m.sum(picked, &[0, 1]);
        let loss = m.with(Op::Mul, loss, -1.0 / sizes[0] as f64);
        let p = m.unary(Op::Exp, logs);
        let attrs = smallvec![Attr::Ints(sizes.clone()), Attr::Int(1), Attr::DType(I64)];
        let column = m.ops(Op::Iota, &[], attrs)[0];
        let hit = m.binary(Op::Eq, column, targets);
        let hit = m.cast(hit, F32);
        let d = m.binary(Op::Sub, p, hit);
        let d = m.with(Op::Mul, d, 1.0 / sizes[0] as f64);
        (loss, m.cast(d, BF16))
    }

    /// AdamW for every parameter. Scalars: 2 is the learning rate, 3 and 4 the bias corrections.
    fn update(mut self, loss: ValueId) -> (Graph, Vec<Option<u32>>) {
        let n = self.params.len() as u32;
        let m = &mut self.make;
        let rate = m.0.scalar(2, F64).unwrap();
        let corrections = [m.0.scalar(3, F64).unwrap(), m.0.scalar(4, F64).unwrap()];
        let [rate, c1, c2] = [rate, corrections[0], corrections[1]].map(|s| m.cast(s, F32));
        let (mut outputs, mut donors) = (vec![loss], vec![None]);
        for (i, &p) in self.params.iter().enumerate() {
            let g = self.grads[i].expect("every parameter has a gradient");
            let sizes = m.0.ty(p).sizes.clone();
            let [mean, square] = [n, 2 * n].map(|at| m.input(2 + at + i as u32, F32, &sizes));
            let state = adamw(m, p, g, mean, square, [rate, c1, c2]);
            outputs.extend(state);
            donors.extend([0, n, 2 * n].map(|at| Some(2 + at + i as u32)));
        }
        (std::mem::take(&mut self.make.0).finish(outputs), donors)
    }
}

fn attention() -> Attrs {
    smallvec![Attr::Float(0.125), Attr::Bool(true), Attr::Float(0.0)]
}

/// New parameter, mean and mean square. `scalars`: learning rate and both bias corrections, rank 0.
pub fn adamw(
    m: &mut Make,
    p: ValueId,
    g: ValueId,
    mean: ValueId,
    square: ValueId,
    [rate, c1, c2]: [ValueId; 3],
) -> [ValueId; 3] {
    let decay = m.with(Op::Mul, rate, 0.01);
    let shrunk = m.binary(Op::Mul, p, decay);
    let p = m.binary(Op::Sub, p, shrunk);
    let old = m.with(Op::Mul, mean, 0.9);
    let new = m.with(Op::Mul, g, 0.1);
    let mean = m.binary(Op::Add, old, new);
    let old = m.with(Op::Mul, square, 0.95);
    let gg = m.binary(Op::Mul, g, g);
    let new = m.with(Op::Mul, gg, 0.05);
    let square = m.binary(Op::Add, old, new);
    let root = m.binary(Op::Div, square, c2);
    let root = m.unary(Op::Sqrt, root);
    let root = m.with(Op::Add, root, 1e-8);
    let step = m.binary(Op::Div, mean, c1);
    let step = m.binary(Op::Div, step, root);
    let step = m.binary(Op::Mul, step, rate);
    [m.binary(Op::Sub, p, step), mean, square]
}
