//! The values of names while a module is read.

use super::types::is_carried;
use crate::dtype::DType;
use crate::graph::math::V;
use crate::op::array::integer_range;
use crate::op::{Op, Ty};

/// A value, computed in its [`carrier`](super::types::carrier), and its own dtype.
#[derive(Clone, Copy)]
pub struct Value<'m> {
    pub v: V<'m>,
    pub dtype: DType,
}

impl<'m> Value<'m> {
    pub fn new(v: V<'m>, dtype: DType) -> Value<'m> {
        Value { v, dtype }
    }

    /// A value whose dtype is its own carrier.
    pub fn of(v: V<'m>) -> Value<'m> {
        Value { v, dtype: v.dtype() }
    }

    pub fn ty(self) -> Ty {
        Ty { dtype: self.dtype, sizes: self.v.sizes() }
    }

    /// The value with its own dtype in the graph, too.
    pub fn stored(self) -> V<'m> {
        if is_carried(self.dtype) { self.v.bitcast(self.dtype) } else { self.v }
    }

    pub fn map(self, f: impl FnOnce(V<'m>) -> V<'m>) -> Value<'m> {
        Value { v: f(self.v), dtype: self.dtype }
    }

    /// Numbers whose signed order is the order of this value's numbers.
    pub fn ordered(self) -> V<'m> {
        if is_carried(self.dtype) { flipped(self.v) } else { self.v }
    }

    /// The inverse of [`Value::ordered`], for numbers of this one's type.
    pub fn with_ordered(self, v: V<'m>) -> Value<'m> {
        self.map(|_| if is_carried(self.dtype) { flipped(v) } else { v })
    }

    /// The larger of two numbers (`Max`), or the smaller (`Min`).
    pub fn extreme(self, op: Op, other: Value<'m>) -> Value<'m> {
        self.with_ordered(self.ordered().binary(op, other.ordered()))
    }
}

pub type Values<'m> = Vec<Value<'m>>;

/// Flips the sign bit: unsigned numbers in the order of signed ones, and back.
pub fn flipped(v: V) -> V {
    v.binary(Op::Xor, v.math().constant_int(integer_range(v.dtype()).0, v.dtype()))
}
