//! The arguments of a call, borrowed: nothing is copied before it is known to be kept.

use super::BufferId;
use crate::dtype::DType;
use crate::op::arg::{self, ScalarKind};
use crate::record::{Arg, Operator, View};
use crate::shape::Layout;

/// A strided view of a buffer.
#[derive(Clone, Copy)]
pub struct TensorRef<'a> {
    pub buffer: BufferId,
    pub dtype: DType,
    pub sizes: &'a [i64],
    pub strides: &'a [i64],
    pub offset: i64,
}

/// One argument: tensors by buffer, scalars by value.
pub enum ArgRef<'a> {
    None,
    Tensor(TensorRef<'a>),
    Tensors(Vec<Option<TensorRef<'a>>>),
    /// `bits` is an i64, an f64 or a bool, as `kind` says.
    Scalar {
        kind: ScalarKind,
        bits: u64,
    },
    Int(i64),
    Float(f64),
    Bool(bool),
    Ints(&'a [i64]),
    Floats(&'a [f64]),
    /// 0 is false, anything else true.
    Bools(&'a [u8]),
    DType(DType),
    Str(&'a str),
}

/// One operation.
pub struct Call<'a> {
    pub op: Operator,
    pub args: &'a [ArgRef<'a>],
    /// The views that its results are written to, in order.
    pub outs: &'a [TensorRef<'a>],
}

impl<'a> TensorRef<'a> {
    pub fn new(buffer: BufferId, view: &'a View) -> TensorRef<'a> {
        let Layout { sizes, strides, offset } = &view.layout;
        TensorRef { buffer, dtype: view.dtype, sizes, strides, offset: *offset }
    }

    pub fn view(&self) -> View {
        let (sizes, strides) = (self.sizes.into(), self.strides.into());
        View { dtype: self.dtype, layout: Layout { sizes, strides, offset: self.offset } }
    }

    /// Whether it is `view` of its buffer.
    pub fn is(&self, view: &View) -> bool {
        let layout = &view.layout;
        self.dtype == view.dtype
            && self.offset == layout.offset
            && self.sizes == layout.sizes.as_slice()
            && self.strides == layout.strides.as_slice()
    }
}

impl ArgRef<'_> {
    /// The argument if it needs no resolution: neither a tensor nor a scalar.
    pub fn attribute<T, S>(&self) -> Option<arg::Arg<T, S>> {
        Some(match self {
            ArgRef::Tensor(_) | ArgRef::Tensors(_) | ArgRef::Scalar { .. } => return None,
            ArgRef::None => arg::Arg::None,
            ArgRef::Int(i) => arg::Arg::Int(*i),
            ArgRef::Float(f) => arg::Arg::Float(*f),
            ArgRef::Bool(b) => arg::Arg::Bool(*b),
            ArgRef::Ints(list) => arg::Arg::Ints((*list).into()),
            ArgRef::Floats(list) => arg::Arg::Floats(list.to_vec()),
            ArgRef::Bools(list) => arg::Arg::Bools(list.iter().map(|&b| b != 0).collect()),
            ArgRef::DType(d) => arg::Arg::DType(*d),
            ArgRef::Str(s) => arg::Arg::Str(s.to_string()),
        })
    }

    /// Whether it is the attribute `arg`, bit by bit: a NaN is itself, and 0.0 is not -0.0.
    pub fn is_attribute(&self, arg: &Arg) -> bool {
        match (self, arg) {
            (ArgRef::None, Arg::None) => true,
            (ArgRef::Int(a), Arg::Int(b)) => a == b,
            (ArgRef::Float(a), Arg::Float(b)) => a.to_bits() == b.to_bits(),
            (ArgRef::Bool(a), Arg::Bool(b)) => a == b,
            (ArgRef::Ints(a), Arg::Ints(b)) => *a == b.as_slice(),
            (ArgRef::Floats(a), Arg::Floats(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
            }
            (ArgRef::Bools(a), Arg::Bools(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| (a != 0) == b)
            }
            (ArgRef::DType(a), Arg::DType(b)) => a == b,
            (ArgRef::Str(a), Arg::Str(b)) => a == b,
            _ => false,
        }
    }

    /// The tensors in it.
    pub fn tensors(&self) -> impl Iterator<Item = &TensorRef<'_>> {
        let (one, many): (_, &[Option<TensorRef>]) = match self {
            ArgRef::Tensor(tensor) => (Some(tensor), &[]),
            ArgRef::Tensors(list) => (None, list),
            _ => (None, &[]),
        };
        one.into_iter().chain(many.iter().flatten())
    }
}
