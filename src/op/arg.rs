//! An argument of an operator: one type, whatever represents its tensors.

use crate::dtype::DType;
use crate::number::{Number, Numbers};
use crate::shape::Dims;
use serde::{Deserialize, Serialize};

/// Kind of a scalar argument. Type promotion depends on it, but not on the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScalarKind {
    Bool,
    Int,
    Float,
}

/// One argument, in the order of the operator's schema without its `out=` arguments. A `T` represents a tensor, and an `S`
/// a number that may differ at every call:
///
/// | of | tensor | number |
/// |---|---|---|
/// | a record (`record::Arg`) | a view of a value | a slot of the argument block |
/// | a node of `Op::Host` ([`NodeArg`]) | the next operand | the next operand |
/// | a host function ([`super::host::HostArg`]) | memory | its bits |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Arg<T, S> {
    None,
    Tensor(T),
    Tensors(Vec<Option<T>>),
    Scalar { kind: ScalarKind, number: S },
    Int(i64),
    Float(f64),
    Bool(bool),
    Ints(Dims),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
    DType(DType),
    Str(String),
}

/// Tensors and scalars stand for the node's operands, in order.
pub type NodeArg = Arg<(), ()>;

impl<T, S> Arg<T, S> {
    /// The tensors in it.
    pub fn tensors(&self) -> impl Iterator<Item = &T> {
        let (one, many): (_, &[Option<T>]) = match self {
            Arg::Tensor(tensor) => (Some(tensor), &[]),
            Arg::Tensors(list) => (None, list),
            _ => (None, &[]),
        };
        one.into_iter().chain(many.iter().flatten())
    }

    /// The argument as a node has it, whose operands are its tensors and its number.
    pub fn of_node(&self) -> NodeArg {
        self.map(|_| (), |_, _| ())
    }

    /// The same argument with `tensor` and `number` applied to its tensors and its number, in order.
    pub fn map<U, V>(
        &self,
        mut tensor: impl FnMut(&T) -> U,
        number: impl FnOnce(ScalarKind, &S) -> V,
    ) -> Arg<U, V> {
        match self {
            Arg::None => Arg::None,
            Arg::Tensor(one) => Arg::Tensor(tensor(one)),
            Arg::Tensors(list) => {
                Arg::Tensors(list.iter().map(|one| one.as_ref().map(&mut tensor)).collect())
            }
            Arg::Scalar { kind, number: n } => {
                Arg::Scalar { kind: *kind, number: number(*kind, n) }
            }
            Arg::Int(n) => Arg::Int(*n),
            Arg::Float(x) => Arg::Float(*x),
            Arg::Bool(b) => Arg::Bool(*b),
            Arg::Ints(list) => Arg::Ints(list.clone()),
            Arg::Floats(list) => Arg::Floats(list.clone()),
            Arg::Bools(list) => Arg::Bools(list.clone()),
            Arg::DType(dtype) => Arg::DType(*dtype),
            Arg::Str(text) => Arg::Str(text.clone()),
        }
    }
}

impl ScalarKind {
    /// The dtype of the operand that represents such a number.
    pub fn dtype(self) -> DType {
        match self {
            ScalarKind::Bool => DType::Bool,
            ScalarKind::Int => DType::I64,
            ScalarKind::Float => DType::F64,
        }
    }

    /// The attribute for a number that must be known: `bits` is an i64, an f64 or a bool (0, 1).
    pub fn attribute<T, S>(self, bits: u64) -> Arg<T, S> {
        match self {
            ScalarKind::Bool => Arg::Bool(bits != 0),
            ScalarKind::Int => Arg::Int(bits as i64),
            ScalarKind::Float => Arg::Float(f64::from_bits(bits)),
        }
    }
}

/// Float attributes are not visited: no size is among them.
impl<T: Numbers, S> Numbers for Arg<T, S> {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        match self {
            Arg::Tensor(one) => one.numbers(f),
            Arg::Tensors(list) => list.iter_mut().flatten().for_each(|one| one.numbers(f)),
            Arg::Int(n) => f(Number::Int(n)),
            Arg::Ints(list) => list.iter_mut().for_each(|n| f(Number::Int(n))),
            Arg::None
            | Arg::Scalar { .. }
            | Arg::Float(_)
            | Arg::Bool(_)
            | Arg::Floats(_)
            | Arg::Bools(_)
            | Arg::DType(_)
            | Arg::Str(_) => {}
        }
    }
}

/// An operand has numbers of its own.
impl Numbers for () {
    fn numbers(&mut self, _: &mut dyn FnMut(Number)) {}
}
