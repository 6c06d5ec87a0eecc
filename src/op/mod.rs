//! The primitives of the IR: one row each in [`table`], with a meaning of its own.
//!
//! **Invariant:** touches shapes, dtypes and structure only. Nothing outside this module asks "which op is this?"
//! to learn a shape, a type or a meaning: it reads the row. (Backends match on ops to choose kernels.)

pub mod arg;
pub mod array;
mod check;
pub mod evaluate;
pub mod expect;
pub mod collective;
pub mod host;
pub mod fallback;
mod fft;
pub mod grouped;
pub mod index;
pub mod lane;
mod leaf;
pub mod module;
pub mod while_loop;
pub mod movement;
pub mod nn;
pub mod philox;
mod pointwise;
mod reduce;
pub mod table;

use crate::dtype::DType;
use crate::error::Result;
use crate::number::{Number, Numbers};
use crate::shape::{Dims, Layout, numel};
use arg::NodeArg;
use array::Array;
use module::Body;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;
pub use table::Op;

#[cfg(test)]
pub mod cases;
#[cfg(test)]
mod tests;

/// Type of a value: element type and sizes. In the IR every value is a dense row-major array.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ty {
    pub dtype: DType,
    pub sizes: Dims,
}

impl Ty {
    pub fn new(dtype: DType, sizes: &[i64]) -> Ty {
        Ty { dtype, sizes: sizes.into() }
    }

    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    pub fn numel(&self) -> i64 {
        numel(&self.sizes)
    }

    pub fn nbytes(&self) -> usize {
        self.numel() as usize * self.dtype.size()
    }
}

/// `f32[2,3]`
impl std::fmt::Display for Ty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(i64::to_string).collect();
        write!(f, "{}[{}]", self.dtype, sizes.join(","))
    }
}

/// Types of a node's outputs.
pub type Tys = SmallVec<[Ty; 1]>;

/// One attribute. Equal means bitwise equal: `NaN == NaN`, `-0.0 != 0.0`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Attr {
    Int(i64),
    Float(f64),
    Bool(bool),
    Ints(Dims),
    DType(DType),
    /// Result types of a CPU fallback.
    Types(Vec<Ty>),
    /// Arguments of a CPU fallback.
    Args(Vec<NodeArg>),
    /// The program of a module, or of a part of a loop.
    Body(Arc<Body>),
}

/// The names that an attribute of this name chooses from; its value is the place in the list. Callers pass the name: a number
/// would be taken for one that may vary.
pub fn choices(attr: &str) -> Option<&'static [&'static str]> {
    match attr {
        "cell" => Some(&nn::CELLS),
        "reduction" => Some(&index::REDUCTIONS),
        _ => None,
    }
}

/// Attributes of a node, in the order of the row's `attrs` names.
pub type Attrs = SmallVec<[Attr; 1]>;

/// Family of a primitive; passes and planners decide by class, not by op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// No inputs: program inputs, scalars, constants.
    Leaf,
    /// Element `i` of the result depends on element `i` of each input (and on `i`). All inputs and the output
    /// have equal sizes: broadcasting is explicit.
    Pointwise,
    /// Every element of the result is an element of an input: a change of layout.
    Movement,
    Reduction,
    Contraction,
    Indexing,
    /// Could be expressed in other primitives (see `passes::decompose`), kept whole because backends do it better.
    Composite,
    /// Computes programs of its own, which are its attributes: a module of a second engine, a loop.
    Nested,
    /// Has effects: it runs, in the order of its kind, whether or not its results are used.
    Host,
}

/// Number of arithmetic operations that take as long as moving a byte.
pub const FLOPS_PER_BYTE: u64 = 16;

/// The same for products of halves on a GPU with units for them: somewhat less than the data sheets have, which is 156 (A100) and
/// 295 (H100).
pub const GPU_HALF_FLOPS_PER_BYTE: u64 = 128;
/// How many times as long a byte takes on the way between a GPU and its host as within the GPU's memory: 80 for an A100 (2 TB/s and
/// 25 GB/s by PCI Express 4), 60 for an H100 (3.35 TB/s and 55 GB/s by PCI Express 5), by their data sheets.
pub const GPU_HOST_LINK_SLOWDOWN: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    Exactly(usize),
    Between(usize, usize),
    AtLeast(usize),
}

impl Arity {
    pub fn accepts(self, n: usize) -> bool {
        match self {
            Arity::Exactly(k) => n == k,
            Arity::Between(low, high) => (low..=high).contains(&n),
            Arity::AtLeast(k) => n >= k,
        }
    }
}

/// Maps one element of each operand to the element of the result.
pub type FloatFn = fn(&[f64]) -> f64;
/// As [`FloatFn`]; `None` is a division by zero.
pub type IntFn = fn(&[i64]) -> Option<i64>;
/// Maps operands, attributes and output types to outputs.
pub type WholeFn = fn(&[&Array], &[Attr], &[Ty]) -> Result<Vec<Array>>;

/// How the reference computes a primitive: slowly and obviously.
pub enum Eval {
    /// One element at a time. Floats of every width are computed in f64 and rounded once; integers and bools in
    /// i64 and wrapped. `None` from the integer function is a division by zero. A missing function means the
    /// domain is not supported (`infer` refuses it).
    Pointwise { float: Option<FloatFn>, int: Option<IntFn> },
    /// The whole node: inputs, attributes and the inferred output types in, outputs out.
    Whole(WholeFn),
    /// The interpreter supplies the value (program inputs and scalars).
    External,
}

/// All facts about a primitive.
pub struct Row {
    pub op: Op,
    /// Name in the text form.
    pub name: &'static str,
    pub class: Class,
    pub arity: Arity,
    /// Names of the attributes, in order.
    pub attrs: &'static [&'static str],
    /// Checks operands and attributes and gives the output types. Source of all shape and dtype errors of the IR.
    pub infer: fn(&[&Ty], &[Attr]) -> Result<Tys>,
    pub eval: Eval,
    /// Arithmetic operations of the whole node, given the types of its inputs and outputs.
    pub flops: fn(&[&Ty], &[Ty]) -> u64,
    pub doc: &'static str,
    /// Number of results; a host operator's depends on its attributes.
    pub results: usize,
    /// Neutral element of a reduction, as f64.
    pub neutral: Option<f64>,
    /// Whether a reduction folds numbers in any order, and so may end a fused region.
    pub folds: bool,
    /// Cost of computing an element, 1 for a simple instruction.
    pub work: u32,
    /// Maximum error of a backend's function in units in the last place of f32, for all arguments.
    pub ulps: f64,
    /// Whether results are operands' numbers or rounded in one defined way: every backend computes the same bits.
    pub exact: bool,
    /// Whether a small change of an operand may make a float result jump.
    pub jumps: bool,
    /// Whether it refuses some values if its result has this dtype: an index out of range, an integer divided by zero.
    pub refuses: fn(DType) -> bool,
    /// Layouts that kernels read, by operand; the last one holds for all that follow.
    pub layouts: &'static [LayoutRequirement],
    /// Number of operands, from the first, that kernels over dense rows read from half types even if the others are f32; 0 if it
    /// has no such kernel.
    pub by_rows: usize,
    /// Whether its arithmetic is products of matrices, for which GPUs have units of their own.
    pub multiplies: bool,
    /// Whether computing it again is cheaper than keeping its results.
    pub repeatable: bool,
    /// Whether its decomposition has a number of nodes that depends on a size: such programs are no templates for each other.
    pub unrolls: bool,
    /// Its function of CUDA's math library on f64; with an `f` appended to the name, on f32.
    pub cuda: &'static str,
}

/// The facts that a row does not state.
const DEFAULT: Row = Row {
    op: Op::Input,
    name: "",
    class: Class::Leaf,
    arity: Arity::Exactly(0),
    attrs: &[],
    infer: leaf::declared,
    eval: Eval::External,
    flops: pointwise::no_flops,
    doc: "",
    results: 1,
    neutral: None,
    folds: true,
    work: 1,
    ulps: 0.0,
    exact: false,
    jumps: false,
    refuses: |_| false,
    layouts: &[LayoutRequirement::Dense],
    by_rows: 0,
    multiplies: false,
    repeatable: false,
    unrolls: false,
    cuda: "",
};

/// The layouts of an operand that a kernel reads without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutRequirement {
    /// Any strides, 0 included.
    Strided,
    /// Any strides except in the last dimension, which has stride 1.
    Rows,
    /// Dense and row-major, at any offset.
    Dense,
    /// Dense memory, or a slot of the argument block.
    Number,
}

impl LayoutRequirement {
    pub fn accepts(self, layout: &Layout) -> bool {
        match self {
            LayoutRequirement::Strided => true,
            LayoutRequirement::Rows => {
                layout.is_contiguous()
                    || layout.sizes.last() == Some(&1)
                    || layout.strides.last() == Some(&1)
            }
            LayoutRequirement::Dense | LayoutRequirement::Number => layout.is_contiguous(),
        }
    }
}

impl Op {
    pub fn row(self) -> &'static Row {
        &table::TABLE[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Output types of a node: the row's `infer`, with the operator's name in front of its errors.
    pub fn infer(self, inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
        let row = self.row();
        if !row.arity.accepts(inputs.len()) {
            return crate::invalid!(
                "{}: takes {:?} operands, got {}",
                row.name,
                row.arity,
                inputs.len()
            );
        }
        (row.infer)(inputs, attrs).map_err(|e| e.within(row.name))
    }

    pub fn class(self) -> Class {
        self.row().class
    }

    /// Whether it draws random numbers: a leaf whose elements are each computed, from a generator's state and their place.
    pub fn draws(self) -> bool {
        matches!(self, Op::Random | Op::RandomBits)
    }

    /// Whether it refuses some values if its result has `dtype`.
    pub fn refuses(self, dtype: DType) -> bool {
        (self.row().refuses)(dtype)
    }

    pub fn from_name(name: &str) -> Option<Op> {
        table::TABLE.iter().find(|row| row.name == name).map(|row| row.op)
    }
}

impl Attr {
    /// # Panics
    /// When the attribute has another type: a row was used with attributes not its own, which the verifier rejects.
    pub fn int(&self) -> i64 {
        match self {
            Attr::Int(i) => *i,
            other => panic!("attribute is not an int: {other:?}"),
        }
    }

    /// # Panics
    /// As [`Attr::int`].
    pub fn float(&self) -> f64 {
        match self {
            Attr::Float(f) => *f,
            other => panic!("attribute is not a float: {other:?}"),
        }
    }

    /// # Panics
    /// As [`Attr::int`].
    pub fn bool(&self) -> bool {
        match self {
            Attr::Bool(b) => *b,
            other => panic!("attribute is not a bool: {other:?}"),
        }
    }

    /// # Panics
    /// As [`Attr::int`].
    pub fn ints(&self) -> &[i64] {
        match self {
            Attr::Ints(v) => v,
            other => panic!("attribute is not a list of ints: {other:?}"),
        }
    }

    /// # Panics
    /// As [`Attr::int`].
    pub fn dtype(&self) -> DType {
        match self {
            Attr::DType(d) => *d,
            other => panic!("attribute is not a dtype: {other:?}"),
        }
    }
}

impl PartialEq for Attr {
    fn eq(&self, other: &Attr) -> bool {
        match (self, other) {
            (Attr::Int(a), Attr::Int(b)) => a == b,
            (Attr::Float(a), Attr::Float(b)) => a.to_bits() == b.to_bits(),
            (Attr::Bool(a), Attr::Bool(b)) => a == b,
            (Attr::Ints(a), Attr::Ints(b)) => a == b,
            (Attr::DType(a), Attr::DType(b)) => a == b,
            (Attr::Types(a), Attr::Types(b)) => a == b,
            // Debug text distinguishes -0.0 from 0.0 and is the same for every NaN.
            (Attr::Args(a), Attr::Args(b)) => format!("{a:?}") == format!("{b:?}"),
            (Attr::Body(a), Attr::Body(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Attr {}

impl std::hash::Hash for Attr {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Attr::Int(i) => i.hash(state),
            Attr::Float(f) => f.to_bits().hash(state),
            Attr::Bool(b) => b.hash(state),
            Attr::Ints(v) => v.hash(state),
            Attr::DType(d) => d.hash(state),
            Attr::Types(t) => t.hash(state),
            Attr::Args(a) => a.len().hash(state),
            Attr::Body(body) => body.hash(state),
        }
    }
}

impl Numbers for Ty {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        self.sizes.numbers(f);
    }
}

impl Numbers for Attrs {
    fn numbers(&mut self, f: &mut dyn FnMut(Number)) {
        for attr in self {
            match attr {
                Attr::Int(n) => f(Number::Int(n)),
                Attr::Float(x) => f(Number::Float(x)),
                Attr::Ints(list) => list.iter_mut().for_each(|n| f(Number::Int(n))),
                Attr::Types(types) => types.iter_mut().for_each(|ty| ty.numbers(f)),
                Attr::Args(args) => args.iter_mut().for_each(|arg| arg.numbers(f)),
                // A program of other sizes is another one.
                Attr::Bool(_) | Attr::DType(_) | Attr::Body(_) => {}
            }
        }
    }
}
