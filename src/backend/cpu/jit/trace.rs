//! Recording: vectors whose operations are recorded instead of executed, so that functions of [`Vector`] become machine
//! code without being written a second time. An operation that is recorded twice is computed once.

use super::super::isa::Isa;
use super::super::vector::math;
use super::super::vector::{Bits, Estimates, Vector};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A value: the number of the node that makes it.
pub type Id = u32;

/// How the elements of a stream lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    F32,
    F16,
    BF16,
    /// Bytes 0 and 1; a mask in registers.
    Bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The second operand, if the pair is unordered or both are zeros.
    Max,
    Min,
    And,
    Or,
    Xor,
    /// `!a & b`.
    AndNot,
    /// Integer addition and subtraction of the bits.
    AddBits,
    SubBits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    Sqrt,
    /// 1 / sqrt with 14 bits.
    Rsqrt14,
    Floor,
    Ceil,
    Trunc,
    Round,
    /// m and e of [`Vector::split`]: the exponent as `getexp` gives it.
    Mantissa,
    Exponent,
    /// The high half of the bits, as the low half.
    HighHalf,
    /// Rounding to f16.
    ToF16,
    /// 2^(j/16), where j is the low four bits.
    Power16,
    /// The methods of [`Bits`].
    ToInt,
    IntValue,
    ToExponent,
    ExponentInt,
    HalfInt,
}

/// Comparisons; false for an unordered pair, except for `Ne`, `Unordered` and those with `Not`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Unordered,
    NotLess,
    NotAtLeast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Logic {
    And,
    Or,
    Xor,
}

/// One operation on a vector of numbers, or on a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// The bits of an f32.
    Constant(u32),
    /// A number that the loop is called with.
    Number(u32),
    /// The next elements of a stream; a mask if they are bools.
    Load(u32, Element),
    Store(u32, Element, Id),
    Unary(Unary, Id),
    Binary(Binary, Id, Id),
    /// `a * b + c`.
    MulAdd(Id, Id, Id),
    /// `a 2^n`.
    Scale(Id, Id),
    /// The same where the mask (the first operand) is set, else 0.
    ScaleWhere(Id, Id, Id),
    /// Mask, yes, no.
    Select(Id, Id, Id),
    Compare(Compare, Id, Id),
    Logic(Logic, Id, Id),
    Not(Id),
}

impl Node {
    /// The values that it needs.
    pub fn operands(&self) -> impl Iterator<Item = Id> {
        let (list, n) = match *self {
            Node::Constant(_) | Node::Number(_) | Node::Load(..) => ([0; 3], 0),
            Node::Store(.., a) | Node::Unary(_, a) | Node::Not(a) => ([a, 0, 0], 1),
            Node::Binary(_, a, b)
            | Node::Scale(a, b)
            | Node::Compare(_, a, b)
            | Node::Logic(_, a, b) => ([a, b, 0], 2),
            Node::MulAdd(a, b, c) | Node::ScaleWhere(a, b, c) | Node::Select(a, b, c) => {
                ([a, b, c], 3)
            }
        };
        list.into_iter().take(n)
    }
}

#[derive(Default)]
struct Trace {
    nodes: Vec<Node>,
    known: HashMap<Node, Id>,
}

thread_local! {
    static TRACE: RefCell<Trace> = RefCell::default();
}

/// Calls `body` and returns the nodes that it records, in order.
pub fn record<R>(body: impl FnOnce() -> R) -> (R, Vec<Node>) {
    let outer = TRACE.take();
    let result = body();
    (result, TRACE.replace(outer).nodes)
}

/// Records a node, unless it is recorded already.
fn push(node: Node) -> Id {
    TRACE.with_borrow_mut(|trace| {
        if let Some(&id) = trace.known.get(&node) {
            return id;
        }
        let id = trace.nodes.len() as Id;
        trace.nodes.push(node);
        trace.known.insert(node, id);
        id
    })
}

fn node(id: Id) -> Node {
    TRACE.with_borrow(|trace| trace.nodes[id as usize])
}

/// A vector of the loop that is being recorded.
#[derive(Clone, Copy, Debug)]
pub struct JitValue(Id);

/// A mask of the loop that is being recorded.
#[derive(Clone, Copy, Debug)]
pub struct JitMask(Id);

impl JitValue {
    /// A number that the loop is called with.
    pub fn number(n: usize) -> JitValue {
        JitValue(push(Node::Number(n as u32)))
    }

    /// The next elements of a stream.
    pub fn of_stream(stream: usize, element: Element) -> JitValue {
        JitValue(push(Node::Load(stream as u32, element)))
    }

    pub fn store_to(self, stream: usize, element: Element) {
        let value = if element == Element::BF16 { self.rounded_up().0 } else { self.0 };
        push(Node::Store(stream as u32, element, value));
    }

    fn unary(self, op: Unary) -> JitValue {
        JitValue(push(Node::Unary(op, self.0)))
    }

    fn binary(self, op: Binary, other: JitValue) -> JitValue {
        JitValue(push(Node::Binary(op, self.0, other.0)))
    }

    pub fn compare(self, op: Compare, other: JitValue) -> JitMask {
        JitMask(push(Node::Compare(op, self.0, other.0)))
    }

    /// Rounds to bf16.
    pub fn to_bf16(self) -> JitValue {
        self.rounded_up().binary(Binary::And, JitValue::of_bits(0xffff_0000))
    }

    /// Rounds to f16.
    pub fn to_f16(self) -> JitValue {
        self.unary(Unary::ToF16)
    }

    /// Bits whose high half is the nearest bf16: see [`math::f32_to_bf16`].
    fn rounded_up(self) -> JitValue {
        let odd = self.unary(Unary::HighHalf).binary(Binary::And, JitValue::of_bits(1));
        let up =
            odd.binary(Binary::AddBits, self).binary(Binary::AddBits, JitValue::of_bits(0x7fff));
        let quiet = self.binary(Binary::Or, JitValue::of_bits(0x0040_0000));
        JitValue::select(self.is_nan(), quiet, up)
    }
}

impl JitMask {
    /// The next elements of a stream of bools.
    pub fn of_stream(stream: usize) -> JitMask {
        JitMask(push(Node::Load(stream as u32, Element::Bool)))
    }

    pub fn store_to(self, stream: usize) {
        push(Node::Store(stream as u32, Element::Bool, self.0));
    }

    pub fn logic(self, op: Logic, other: JitMask) -> JitMask {
        JitMask(push(Node::Logic(op, self.0, other.0)))
    }

    pub fn inverted(self) -> JitMask {
        JitMask(push(Node::Not(self.0)))
    }

    /// As a number, 0 or 1.
    pub fn as_number(self) -> JitValue {
        JitValue::select(self, JitValue::splat(1.0), JitValue::splat(0.0))
    }
}

macro_rules! operators {
    ($($trait:ident $name:ident),*) => {
        $(impl $trait for JitValue {
            type Output = JitValue;
            fn $name(self, other: JitValue) -> JitValue {
                self.binary(Binary::$trait, other)
            }
        })*
    };
}
operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for JitValue {
    type Output = JitValue;
    fn neg(self) -> JitValue {
        match node(self.0) {
            Node::Constant(bits) => JitValue::of_bits(bits ^ (1 << 31)),
            _ => self.binary(Binary::Xor, JitValue::splat(-0.0)),
        }
    }
}

/// Whether the recording will be assembled for AVX-512: functions are computed as by this processor's vectors.
fn has_estimates() -> bool {
    super::target() == Some(Isa::Avx512)
}

impl Vector for JitValue {
    type Mask = JitMask;
    const LANES: usize = 16;

    fn splat(v: f32) -> JitValue {
        JitValue(push(Node::Constant(v.to_bits())))
    }
    fn load(_: &[f32]) -> JitValue {
        panic!("what is recorded reads streams")
    }
    fn load_part(_: &[f32]) -> JitValue {
        panic!("what is recorded reads streams")
    }
    fn store(self, _: &mut [f32]) {
        panic!("what is recorded writes streams")
    }
    fn store_part(self, _: &mut [f32]) {
        panic!("what is recorded writes streams")
    }
    fn mul_add(self, b: JitValue, c: JitValue) -> JitValue {
        JitValue(push(Node::MulAdd(self.0, b.0, c.0)))
    }
    fn sqrt(self) -> JitValue {
        self.unary(Unary::Sqrt)
    }
    fn rsqrt(self) -> JitValue {
        if has_estimates() { math::rsqrt_refined(self) } else { JitValue::splat(1.0) / self.sqrt() }
    }
    fn abs(self) -> JitValue {
        JitValue::splat(-0.0).binary(Binary::AndNot, self)
    }
    fn max(self, bound: JitValue) -> JitValue {
        bound.binary(Binary::Max, self)
    }
    fn min(self, bound: JitValue) -> JitValue {
        bound.binary(Binary::Min, self)
    }
    fn lt(self, other: JitValue) -> JitMask {
        self.compare(Compare::Lt, other)
    }
    fn eq(self, other: JitValue) -> JitMask {
        self.compare(Compare::Eq, other)
    }
    fn is_nan(self) -> JitMask {
        self.compare(Compare::Unordered, self)
    }
    fn select(mask: JitMask, yes: JitValue, no: JitValue) -> JitValue {
        JitValue(push(Node::Select(mask.0, yes.0, no.0)))
    }
    fn floor(self) -> JitValue {
        self.unary(Unary::Floor)
    }
    fn ceil(self) -> JitValue {
        self.unary(Unary::Ceil)
    }
    fn trunc(self) -> JitValue {
        self.unary(Unary::Trunc)
    }
    fn round(self) -> JitValue {
        self.unary(Unary::Round)
    }
    fn scale(self, n: JitValue) -> JitValue {
        if !has_estimates() {
            return math::scale_in_halves(self, n);
        }
        JitValue(push(Node::Scale(self.0, n.0)))
    }
    fn exp_within(self) -> JitValue {
        if has_estimates() { math::exp_in_sixteenths(self) } else { math::exp_or_zero(self) }
    }
    fn split(self) -> (JitValue, JitValue) {
        if !has_estimates() {
            return math::split_bits(self);
        }
        let m = self.unary(Unary::Mantissa);
        (m, self.unary(Unary::Exponent) - m.unary(Unary::Exponent))
    }
}

impl Estimates for JitValue {
    fn rsqrt_14(self) -> JitValue {
        self.unary(Unary::Rsqrt14)
    }
    fn power_16(self) -> JitValue {
        self.unary(Unary::Power16)
    }
    fn scale_at_least(self, n: JitValue, of: JitValue, bound: f32) -> JitValue {
        let counts = of.compare(Compare::NotLess, JitValue::splat(bound));
        JitValue(push(Node::ScaleWhere(counts.0, self.0, n.0)))
    }
}

impl Bits for JitValue {
    fn to_int(self) -> JitValue {
        self.unary(Unary::ToInt)
    }
    fn int_value(self) -> JitValue {
        self.unary(Unary::IntValue)
    }
    fn add_bits(self, other: JitValue) -> JitValue {
        self.binary(Binary::AddBits, other)
    }
    fn sub_bits(self, other: JitValue) -> JitValue {
        self.binary(Binary::SubBits, other)
    }
    fn to_exponent(self) -> JitValue {
        self.unary(Unary::ToExponent)
    }
    fn exponent_int(self) -> JitValue {
        self.unary(Unary::ExponentInt)
    }
    fn half_int(self) -> JitValue {
        self.unary(Unary::HalfInt)
    }
    fn and_bits(self, other: JitValue) -> JitValue {
        self.binary(Binary::And, other)
    }
    fn not_at_least(self, other: JitValue) -> JitMask {
        self.compare(Compare::NotAtLeast, other)
    }
}
