//! A call as the caller gives it, borrowed: nothing is copied before it is known that it must be kept.

use super::BufferId;
use crate::dtype::DType;
use crate::record::{Arg, Operator, ScalarKind, View};
use crate::shape::Layout;

/// A strided view of a buffer.
#[derive(Clone, Copy)]
pub struct Located<'a> {
    pub buffer: BufferId,
    pub dtype: DType,
    pub sizes: &'a [i64],
    pub strides: &'a [i64],
    pub offset: i64,
}

/// One argument: tensors by buffer, scalars by value.
pub enum Given<'a> {
    None,
    Tensor(Located<'a>),
    Tensors(Vec<Option<Located<'a>>>),
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
    /// 0 and others.
    Bools(&'a [u8]),
    DType(DType),
    Str(&'a str),
}

/// One operation.
pub struct Call<'a> {
    pub op: Operator,
    pub args: &'a [Given<'a>],
    /// The views that its results are written to, in order.
    pub outs: &'a [Located<'a>],
}

impl<'a> Located<'a> {
    pub fn new(buffer: BufferId, view: &'a View) -> Located<'a> {
        let Layout { sizes, strides, offset } = &view.layout;
        Located { buffer, dtype: view.dtype, sizes, strides, offset: *offset }
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

impl Given<'_> {
    /// The argument if it needs no resolution: neither a tensor nor a scalar.
    pub fn attribute(&self) -> Option<Arg> {
        Some(match self {
            Given::Tensor(_) | Given::Tensors(_) | Given::Scalar { .. } => return None,
            Given::None => Arg::None,
            Given::Int(i) => Arg::Int(*i),
            Given::Float(f) => Arg::Float(*f),
            Given::Bool(b) => Arg::Bool(*b),
            Given::Ints(list) => Arg::Ints((*list).into()),
            Given::Floats(list) => Arg::Floats(list.to_vec()),
            Given::Bools(list) => Arg::Bools(list.iter().map(|&b| b != 0).collect()),
            Given::DType(d) => Arg::DType(*d),
            Given::Str(s) => Arg::Str(s.to_string()),
        })
    }

    /// Whether it is the attribute `arg`, bit by bit: a NaN is itself, and 0.0 is not -0.0.
    pub fn is_attribute(&self, arg: &Arg) -> bool {
        match (self, arg) {
            (Given::None, Arg::None) => true,
            (Given::Int(a), Arg::Int(b)) => a == b,
            (Given::Float(a), Arg::Float(b)) => a.to_bits() == b.to_bits(),
            (Given::Bool(a), Arg::Bool(b)) => a == b,
            (Given::Ints(a), Arg::Ints(b)) => *a == b.as_slice(),
            (Given::Floats(a), Arg::Floats(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
            }
            (Given::Bools(a), Arg::Bools(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| (a != 0) == b)
            }
            (Given::DType(a), Arg::DType(b)) => a == b,
            (Given::Str(a), Arg::Str(b)) => a == b,
            _ => false,
        }
    }

    /// The tensors in it.
    pub fn tensors(&self) -> impl Iterator<Item = &Located<'_>> {
        let (one, many): (_, &[Option<Located>]) = match self {
            Given::Tensor(tensor) => (Some(tensor), &[]),
            Given::Tensors(list) => (None, list),
            _ => (None, &[]),
        };
        one.into_iter().chain(many.iter().flatten())
    }
}
