//! Formulas, as PyTorch's operators are lowered to primitives.

use torchacc::dtype::DType;
use torchacc::graph::{Builder, ValueId};
use torchacc::op::Op;

/// The graph in the making. Nothing here can fail.
pub struct Math<'b>(pub &'b mut Builder);

impl Math<'_> {
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

    pub fn gelu(&mut self, x: ValueId) -> ValueId {
        let scaled = self.with(Op::Mul, x, 0.5f64.sqrt());
        let s = self.unary(Op::Erf, scaled);
        self.gate(x, s)
    }

    pub fn gelu_tanh(&mut self, x: ValueId) -> ValueId {
        let cube = self.with(Op::Mul, x, 0.044715);
        let cube = self.binary(Op::Mul, cube, x);
        let cube = self.binary(Op::Mul, cube, x);
        let sum = self.binary(Op::Add, x, cube);
        let scaled = self.with(Op::Mul, sum, (2.0 / std::f64::consts::PI).sqrt());
        let s = self.unary(Op::Tanh, scaled);
        self.gate(x, s)
    }

    /// `0.5 x (1 + s)`
    fn gate(&mut self, x: ValueId, s: ValueId) -> ValueId {
        let half = self.with(Op::Mul, x, 0.5);
        let one = self.with(Op::Add, s, 1.0);
        self.binary(Op::Mul, half, one)
    }

    pub fn silu(&mut self, x: ValueId) -> ValueId {
        let s = self.unary(Op::Sigmoid, x);
        self.binary(Op::Mul, x, s)
    }

    /// New parameter, mean and mean square.
    pub fn adamw(&mut self, [p, g, mean, square]: [ValueId; 4]) -> Vec<ValueId> {
        let p = self.with(Op::Mul, p, 1.0 - 1e-5);
        let (old, new) = (self.with(Op::Mul, mean, 0.9), self.with(Op::Mul, g, 0.1));
        let mean = self.binary(Op::Add, old, new);
        let gg = self.binary(Op::Mul, g, g);
        let (old, new) = (self.with(Op::Mul, square, 0.95), self.with(Op::Mul, gg, 0.05));
        let square = self.binary(Op::Add, old, new);
        let root = self.unary(Op::Sqrt, square);
        let root = self.with(Op::Div, root, 0.7);
        let root = self.with(Op::Add, root, 1e-8);
        let step = self.binary(Op::Div, mean, root);
        let step = self.with(Op::Mul, step, 1e-3);
        vec![self.binary(Op::Sub, p, step), mean, square]
    }

    pub fn cast(&mut self, x: ValueId, dtype: DType) -> ValueId {
        self.0.cast(x, dtype).unwrap()
    }
}
