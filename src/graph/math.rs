//! Formulas: values of the graph under construction that are used like numbers, with operators. Operands of different
//! sizes are broadcast; their dtypes must agree (promotion is `aten`'s). The first error is kept and
//! reported once by [`Math::check`], so that a formula reads like one.

use super::{Builder, Graph, Guard, ValueId};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::expect::Expectation;
use crate::op::{Attr, Attrs, Op, Ty};
use crate::shape::{Dims, broadcast_shapes};
use smallvec::{SmallVec, smallvec};
use std::cell::RefCell;

/// The dtype that PyTorch computes a half dtype in.
pub fn wide(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

/// Lanczos' coefficients for Γ with g = 7 and nine terms, after Godfrey (2001).
pub const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// A builder that can be shared, and the first error it met.
#[derive(Default)]
pub struct Math {
    builder: RefCell<Builder>,
    error: RefCell<Option<Error>>,
}

/// A value of the graph.
#[derive(Clone, Copy)]
pub struct V<'m> {
    math: &'m Math,
    pub id: ValueId,
}

/// An operand beside a value in a formula: another value, or a constant of its dtype.
pub trait Term<'m> {
    fn beside(self, v: V<'m>) -> V<'m>;
}

impl<'m> Term<'m> for V<'m> {
    fn beside(self, _: V<'m>) -> V<'m> {
        self
    }
}

impl<'m> Term<'m> for f64 {
    fn beside(self, v: V<'m>) -> V<'m> {
        v.math.constant(self, v.dtype())
    }
}

impl Math {
    /// Returns the first error since the last check.
    pub fn check(&self) -> Result<()> {
        self.error.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Records conditions that the program relies on beyond its structure.
    pub fn guard(&self, guards: impl IntoIterator<Item = Guard>) {
        self.builder.borrow_mut().guard(guards);
    }

    pub fn wrap(&self, id: ValueId) -> V<'_> {
        V { math: self, id }
    }

    /// Continues the graph of a builder.
    pub fn from_builder(builder: Builder) -> Math {
        Math { builder: builder.into(), error: RefCell::default() }
    }

    pub fn into_builder(self) -> Builder {
        self.builder.into_inner()
    }

    /// Runs a builder call. After an error every call returns a placeholder, which is never used.
    pub fn build(&self, call: impl FnOnce(&mut Builder) -> Result<ValueId>) -> V<'_> {
        if self.error.borrow().is_none() {
            match call(&mut self.builder.borrow_mut()) {
                Ok(id) => return self.wrap(id),
                Err(e) => *self.error.borrow_mut() = Some(e),
            }
        }
        self.placeholder()
    }

    /// A value for the rest of a formula that failed.
    fn placeholder(&self) -> V<'_> {
        let zero = self.builder.borrow_mut().constant(0.0, DType::F32);
        self.wrap(zero.expect("the builder takes a constant"))
    }

    /// Applies `look` to the graph so far.
    pub fn graph<R>(&self, look: impl FnOnce(&Graph) -> R) -> R {
        look(self.builder.borrow().graph())
    }

    /// Sets the operation of the user's program that the next nodes belong to.
    pub fn set_origin(&self, site: crate::error::Site, record: u32) {
        let mut b = self.builder.borrow_mut();
        (b.site, b.record) = (site, record);
    }

    /// A rank-0 constant.
    pub fn constant(&self, value: f64, dtype: DType) -> V<'_> {
        match dtype.part() {
            Some(part) => self.constant(value, part).cast(dtype),
            None => self.build(|b| b.constant(value, dtype)),
        }
    }

    pub fn constant_int(&self, value: i64, dtype: DType) -> V<'_> {
        match dtype.part() {
            Some(part) => self.constant_int(value, part).cast(dtype),
            None => self.build(|b| b.constant_int(value, dtype)),
        }
    }

    /// All elements equal to `value`.
    pub fn full(&self, value: f64, dtype: DType, sizes: &[i64]) -> V<'_> {
        self.constant(value, dtype).broadcast(sizes)
    }

    /// All bits zero, of any dtype.
    pub fn zeros(&self, dtype: DType, sizes: &[i64]) -> V<'_> {
        if dtype.has_arithmetic() {
            return self.full(0.0, dtype, sizes);
        }
        let bytes = crate::shape::numel(sizes).saturating_mul(dtype.size() as i64);
        self.full(0.0, DType::U8, &[bytes]).bitcast(dtype).reshape(sizes)
    }

    /// The index along `dim`.
    pub fn iota(&self, sizes: &[i64], dim: usize, dtype: DType) -> V<'_> {
        let attrs = smallvec![Attr::Ints(sizes.into()), Attr::Int(dim as i64), Attr::DType(dtype)];
        self.build(|b| b.op(Op::Iota, &[], attrs))
    }

    pub fn concat(&self, parts: &[V], dim: usize) -> V<'_> {
        match parts {
            [one] => self.wrap(one.id),
            _ => self.op(Op::Concat, parts, smallvec![Attr::Int(dim as i64)]),
        }
    }

    /// Any primitive with one output.
    pub fn op(&self, op: Op, inputs: &[V], attrs: Attrs) -> V<'_> {
        self.build(|b| b.op(op, &ids(inputs), attrs))
    }

    /// Any primitive, all outputs.
    pub fn ops(&self, op: Op, inputs: &[V], attrs: Attrs) -> Result<Vec<V<'_>>> {
        self.check()?;
        let outputs = self.builder.borrow_mut().ops(op, &ids(inputs), attrs)?;
        Ok(outputs.into_iter().map(|id| self.wrap(id)).collect())
    }
}

fn ids(values: &[V]) -> SmallVec<[ValueId; 4]> {
    values.iter().map(|v| v.id).collect()
}

impl<'m> V<'m> {
    pub fn math(self) -> &'m Math {
        self.math
    }

    pub fn ty(self) -> Ty {
        self.math.builder.borrow().ty(self.id).clone()
    }

    pub fn dtype(self) -> DType {
        self.math.builder.borrow().ty(self.id).dtype
    }

    pub fn sizes(self) -> Dims {
        self.ty().sizes
    }

    pub fn rank(self) -> usize {
        self.math.builder.borrow().ty(self.id).rank()
    }

    pub fn numel(self) -> i64 {
        self.math.builder.borrow().ty(self.id).numel()
    }

    pub fn unary(self, op: Op) -> V<'m> {
        self.math.build(|b| b.unary(op, self.id))
    }

    /// A pointwise primitive of two operands, broadcast to common sizes.
    pub fn binary(self, op: Op, other: impl Term<'m>) -> V<'m> {
        let [a, b] = together([self, other.beside(self)]);
        self.math.op(op, &[a, b], smallvec![])
    }

    /// `yes` where this bool value holds, else `no`.
    pub fn select(self, yes: V<'m>, no: impl Term<'m>) -> V<'m> {
        let no = no.beside(yes);
        if yes.dtype().is_complex() {
            let holds = self.unsqueeze(self.rank());
            return holds.select(yes.pairs(), no.pairs()).paired();
        }
        let operands = together([self, yes, no]);
        self.math.op(Op::Select, &operands, smallvec![])
    }

    /// `self`, with a slope only where `holds`: the slope of the other branch of a formula, even an infinite one, is dropped.
    /// Without gradients it is `self`.
    pub fn moving_where(self, holds: V<'m>) -> V<'m> {
        holds.select(self, self.detached())
    }

    /// `self`, without a slope.
    pub fn detached(self) -> V<'m> {
        self.unary(Op::Detach)
    }

    /// `self`, to whose slope that of `other`, which is finite, is added. No bit of `self` changes: minus 0.0, even -0.0
    /// stays.
    pub fn adding_slope_of(self, other: V<'m>) -> V<'m> {
        self - (other.detached() - other)
    }

    /// Casts to another dtype: a complex number to its real part, or to bool as whether it is not 0.
    pub fn cast(self, dtype: DType) -> V<'m> {
        let from = self.dtype();
        match (from.part(), dtype.part()) {
            _ if from == dtype => self,
            (None, None) => self.math.build(|b| b.cast(self.id, dtype)),
            (Some(_), Some(part)) => self.pairs().cast(part).paired(),
            (Some(_), None) if dtype == DType::Bool => {
                self.pairs().cast(dtype).reduce(Op::Any, &[self.rank() as i64], false)
            }
            (Some(_), None) => self.parts()[0].cast(dtype),
            (None, Some(part)) => {
                let re = self.cast(part);
                complex(re, self.math.zeros(part, &re.sizes()))
            }
        }
    }

    /// The parts of complex numbers side by side, in a new last dimension of 2. See [`V::paired`].
    pub fn pairs(self) -> V<'m> {
        let dtype = self.dtype();
        let Some(part) = dtype.part() else {
            return self.math.build(|_| crate::invalid!("complex numbers are wanted, not {dtype}"));
        };
        self.unsqueeze(self.rank()).bitcast(part)
    }

    /// Complex numbers from their [`V::pairs`].
    pub fn paired(self) -> V<'m> {
        let sizes = self.sizes();
        self.bitcast(self.dtype().to_complex()).reshape(&sizes[..sizes.len().saturating_sub(1)])
    }

    /// The real and the imaginary part of complex numbers.
    pub fn parts(self) -> [V<'m>; 2] {
        let (pairs, sizes) = (self.pairs(), self.sizes());
        [0, 1].map(|part| pairs.narrow(sizes.len(), part, 1).reshape(&sizes))
    }

    /// The same bytes as `dtype`; the last dimension scales.
    pub fn bitcast(self, dtype: DType) -> V<'m> {
        if self.dtype() == dtype {
            return self;
        }
        self.math.op(Op::Bitcast, &[self], smallvec![Attr::DType(dtype)])
    }

    pub fn reshape(self, sizes: &[i64]) -> V<'m> {
        self.math.build(|b| b.reshape(self.id, sizes))
    }

    pub fn transpose(self, perm: &[i64]) -> V<'m> {
        self.math.build(|b| b.transpose(self.id, perm))
    }

    pub fn broadcast(self, sizes: &[i64]) -> V<'m> {
        self.math.build(|b| b.broadcast(self.id, sizes))
    }

    pub fn slice(self, starts: &[i64], sizes: &[i64], steps: &[i64]) -> V<'m> {
        self.math.build(|b| b.slice(self.id, starts, sizes, steps))
    }

    /// `size` elements of `dim` from `start`.
    pub fn narrow(self, dim: usize, start: i64, size: i64) -> V<'m> {
        let mut sizes = self.sizes();
        if dim >= sizes.len() {
            return self.no_dimension(dim);
        }
        let mut starts = Dims::from_elem(0, sizes.len());
        (starts[dim], sizes[dim]) = (start, size);
        self.slice(&starts, &sizes, &Dims::from_elem(1, sizes.len()))
    }

    /// Inserts a dimension of size 1.
    pub fn unsqueeze(self, dim: usize) -> V<'m> {
        let mut sizes = self.sizes();
        if dim > sizes.len() {
            return self.no_dimension(dim);
        }
        sizes.insert(dim, 1);
        self.reshape(&sizes)
    }

    /// Exchanges two dimensions.
    pub fn swap(self, a: usize, b: usize) -> V<'m> {
        if a.max(b) >= self.rank() {
            return self.no_dimension(a.max(b));
        }
        let mut perm: Dims = (0..self.rank() as i64).collect();
        perm.swap(a, b);
        self.transpose(&perm)
    }

    fn no_dimension(self, dim: usize) -> V<'m> {
        let rank = self.rank();
        self.math.build(|_| crate::invalid!("no dimension {dim} in a tensor of {rank} dimensions"))
    }

    pub fn reduce(self, op: Op, axes: &[i64], keep: bool) -> V<'m> {
        self.math.build(|b| b.reduce(op, self.id, axes, keep))
    }

    pub fn matmul(self, other: V<'m>) -> V<'m> {
        self.math.build(|b| b.matmul(self.id, other.id))
    }

    pub fn exp(self) -> V<'m> {
        self.unary(Op::Exp)
    }

    pub fn log(self) -> V<'m> {
        self.unary(Op::Log)
    }

    pub fn sqrt(self) -> V<'m> {
        self.unary(Op::Sqrt)
    }

    pub fn abs(self) -> V<'m> {
        self.unary(Op::Abs)
    }

    pub fn tanh(self) -> V<'m> {
        self.unary(Op::Tanh)
    }

    pub fn sigmoid(self) -> V<'m> {
        self.unary(Op::Sigmoid)
    }

    pub fn not(self) -> V<'m> {
        self.unary(Op::Not)
    }

    pub fn pow(self, exponent: impl Term<'m>) -> V<'m> {
        self.binary(Op::Pow, exponent)
    }

    pub fn rem(self, other: impl Term<'m>) -> V<'m> {
        self.binary(Op::Rem, other)
    }

    pub fn max(self, other: impl Term<'m>) -> V<'m> {
        self.binary(Op::Max, other)
    }

    pub fn min(self, other: impl Term<'m>) -> V<'m> {
        self.binary(Op::Min, other)
    }

    pub fn eq(self, other: impl Term<'m>) -> V<'m> {
        self.binary(Op::Eq, other)
    }

    pub fn ne(self, other: impl Term<'m>) -> V<'m> {
        self.binary(Op::Ne, other)
    }

    pub fn lt(self, other: impl Term<'m>) -> V<'m> {
        self.binary(Op::Lt, other)
    }

    pub fn le(self, other: impl Term<'m>) -> V<'m> {
        self.binary(Op::Le, other)
    }

    pub fn gt(self, other: impl Term<'m>) -> V<'m> {
        self.binary(Op::Gt, other)
    }

    pub fn ge(self, other: impl Term<'m>) -> V<'m> {
        self.binary(Op::Ge, other)
    }

    /// 0 (i64, rank 0), or an error where this bool of rank 0 does not hold.
    pub fn expected(self, what: Expectation) -> V<'m> {
        self.math.op(Op::Expect, &[self], smallvec![what.attr()])
    }

    pub fn and(self, other: V<'m>) -> V<'m> {
        self.binary(Op::And, other)
    }

    pub fn or(self, other: V<'m>) -> V<'m> {
        self.binary(Op::Or, other)
    }
}

/// Complex numbers from their parts, two floats of one dtype.
pub fn complex<'m>(re: V<'m>, im: V<'m>) -> V<'m> {
    let parts = together([re, im]).map(|part| part.unsqueeze(part.rank()));
    // After an error there are no dimensions.
    re.math().concat(&parts, parts[0].rank().saturating_sub(1)).paired()
}

/// Broadcasts values to their common sizes.
pub fn together<'m, const N: usize>(values: [V<'m>; N]) -> [V<'m>; N] {
    let mut sizes = values[0].sizes();
    for v in &values[1..] {
        let with = v.sizes();
        match broadcast_shapes(&sizes, &with) {
            Some(both) => sizes = both,
            None => {
                let refuse = || crate::invalid!("sizes {sizes:?} and {with:?} do not broadcast");
                values[0].math.build(|_| refuse());
                return values;
            }
        }
    }
    values.map(|v| v.broadcast(&sizes))
}

/// `V ∘ V`, `V ∘ f64` and `f64 ∘ V`.
macro_rules! operator {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'m, T: Term<'m>> std::ops::$trait<T> for V<'m> {
            type Output = V<'m>;
            fn $method(self, other: T) -> V<'m> {
                self.binary(Op::$op, other)
            }
        }

        impl<'m> std::ops::$trait<V<'m>> for f64 {
            type Output = V<'m>;
            fn $method(self, other: V<'m>) -> V<'m> {
                self.beside(other).binary(Op::$op, other)
            }
        }
    )*};
}

operator! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
}

impl<'m> std::ops::Neg for V<'m> {
    type Output = V<'m>;
    fn neg(self) -> V<'m> {
        self.unary(Op::Neg)
    }
}
