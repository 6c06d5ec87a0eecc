//! What names stand for while a module is read.

use super::types::is_carried;
use crate::dtype::DType;
use crate::graph::math::V;
use crate::op::array::integer_range;
use crate::op::{Op, Ty};

/// A value: computed as a [`carrier`](super::types::carrier), and what it is.
#[derive(Clone, Copy)]
pub struct Value<'m> {
    pub v: V<'m>,
    pub dtype: DType,
}

impl<'m> Value<'m> {
    pub fn new(v: V<'m>, dtype: DType) -> Value<'m> {
        Value { v, dtype }
    }

    /// Of a dtype that carries itself.
    pub fn of(v: V<'m>) -> Value<'m> {
        Value { v, dtype: v.dtype() }
    }

    pub fn ty(self) -> Ty {
        Ty { dtype: self.dtype, sizes: self.v.sizes() }
    }

    /// With its own dtype in the graph, too.
    pub fn stored(self) -> V<'m> {
        if is_carried(self.dtype) { self.v.bitcast(self.dtype) } else { self.v }
    }

    pub fn map(self, f: impl FnOnce(V<'m>) -> V<'m>) -> Value<'m> {
        Value { v: f(self.v), dtype: self.dtype }
    }

    /// A signed integer for each number, in the order of the numbers.
    pub fn ordered(self) -> V<'m> {
        if is_carried(self.dtype) { flipped(self.v) } else { self.v }
    }

    /// Numbers of this one's type, from what [`Value::ordered`] says of them.
    pub fn with_ordered(self, v: V<'m>) -> Value<'m> {
        self.map(|_| if is_carried(self.dtype) { flipped(v) } else { v })
    }

    /// The larger of two numbers (`Max`), or the smaller (`Min`).
    pub fn extreme(self, op: Op, other: Value<'m>) -> Value<'m> {
        self.with_ordered(self.ordered().binary(op, other.ordered()))
    }
}

pub type Values<'m> = Vec<Value<'m>>;

/// Unsigned numbers in the order of signed ones, and back.
pub fn flipped(v: V) -> V {
    v.binary(Op::Xor, v.math().constant_int(integer_range(v.dtype()).0, v.dtype()))
}
