//! How PyTorch's operators are lowered to primitives: one row per operator, in [`rows`].
//!
//! **Invariant:** touches builder calls and attributes only, never tensor data or the state of a trace. A row serves
//! every legal call of the overloads it lists: functional, in-place and `out=` forms alike, all dtypes with arithmetic.
//!
//! For each record, [`lower`] resolves the arguments ([`read`]: strided view → movement primitives), the row expresses
//! the results in terms of [`math`], and [`write`] puts them into the buffers that the operator writes.

mod call;
mod checks;
mod complex;
pub mod facts;
mod lower;
mod primitive;
mod promote;
mod real;
mod read;
mod rows;
mod signature;
#[cfg(test)]
mod tests;
mod values;
mod write;

use crate::dtype::{DType, Float8};
use crate::error::Result;
use crate::graph::math::V;
use crate::op::Op;
use crate::op::arg::ScalarKind;
use crate::op::table::TABLE;
use call::Call;
pub use checks::may_be_refused;
pub use lower::{infer, lower, lower_function};
pub use signature::signature;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Results of a row: the operator's fresh returns in order, then the arguments it mutates in schema order.
type Outs<'a> = Result<Vec<V<'a>>>;

/// One operator: its names, its properties and its lowering.
struct Row {
    /// Without `aten::`, overload and the underscore of the in-place form; another namespace is spelled out.
    name: &'static str,
    /// Overload names, those of `out=` forms included; the empty string is the overload without a name.
    overloads: &'static [&'static str],
    /// Scalar arguments whose every value affects shapes or the algorithm, besides those that [`signature::is_known`].
    fixed: &'static [usize],
    /// Whether this value of another scalar argument selects another algorithm.
    special: fn(usize, f64) -> bool,
    /// Whether such a value means something else than the same number would as an input.
    essential: fn(usize, f64) -> bool,
    /// Whether nothing is computed, so that any dtype will do as long as all of them are the same.
    moves: bool,
    /// Whether operands and results may be 8-bit floats.
    float8: bool,
    /// The lowering for calls with a complex operand, or that ask for a complex dtype.
    complex: Option<for<'a> fn(&Call<'a>) -> Outs<'a>>,
    /// Which of the dtypes with arithmetic it takes: for the others PyTorch has no kernel, or rounds in its own way.
    takes: fn(DType) -> bool,
    /// Whether the tensors of a list may have these dtypes.
    lists: fn(&[DType]) -> bool,
    /// Whether the results are new training state: no gradient flows through an optimizer step.
    updates: bool,
    /// Whether it computes the gradients of its first argument with respect to the list that is its second.
    differentiates: bool,
    /// Whether it refuses some values (indices out of range, a division by zero) if its first result has this dtype.
    refuses: fn(DType) -> bool,
    /// Number of leading arguments that gradients may flow through; the others are tokens.
    flows_by: usize,
    /// Flags of [`facts`].
    facts: u32,
    lower: for<'a> fn(&Call<'a>) -> Outs<'a>,
}

const fn row(
    name: &'static str,
    overloads: &'static [&'static str],
    lower: for<'a> fn(&Call<'a>) -> Outs<'a>,
) -> Row {
    Row {
        name,
        overloads,
        fixed: &[],
        special: |_, _| false,
        essential: |_, _| false,
        moves: false,
        float8: false,
        complex: None,
        takes: |_| true,
        lists: |_| true,
        updates: false,
        differentiates: false,
        refuses: |_| false,
        flows_by: usize::MAX,
        facts: 0,
        lower,
    }
}

impl Row {
    const fn fixed(self, fixed: &'static [usize]) -> Row {
        Row { fixed, ..self }
    }

    const fn special(self, special: fn(usize, f64) -> bool) -> Row {
        Row { special, ..self }
    }

    const fn essential(self, essential: fn(usize, f64) -> bool) -> Row {
        Row { essential, ..self }
    }

    const fn moves(self) -> Row {
        Row { moves: true, ..self }
    }

    const fn float8(self) -> Row {
        Row { float8: true, ..self }
    }

    /// Takes complex numbers, too, by the same formula.
    const fn complex(self) -> Row {
        let lower = self.lower;
        self.complex_by(lower)
    }

    /// Takes complex numbers, too, by a formula of their own.
    const fn complex_by(self, lower: for<'a> fn(&Call<'a>) -> Outs<'a>) -> Row {
        Row { complex: Some(lower), ..self }
    }

    const fn lists(self, lists: fn(&[DType]) -> bool) -> Row {
        Row { lists, ..self }
    }

    const fn floats(self) -> Row {
        Row { takes: DType::is_float, ..self }
    }

    const fn integers(self) -> Row {
        Row { takes: DType::is_int, ..self }
    }

    /// Only floats with a complex counterpart here: of halves PyTorch makes `complex32`.
    const fn wide_floats(self) -> Row {
        Row { takes: |dtype| matches!(dtype, DType::F32 | DType::F64), ..self }
    }

    /// All dtypes but bool.
    const fn numbers(self) -> Row {
        Row { takes: |dtype| dtype != DType::Bool, ..self }
    }

    const fn updates(self) -> Row {
        Row { updates: true, ..self }
    }

    const fn differentiates(self) -> Row {
        Row { differentiates: true, ..self }
    }

    const fn refuses(self, refuses: fn(DType) -> bool) -> Row {
        Row { refuses, ..self }
    }

    const fn flows_by(self, flows_by: usize) -> Row {
        Row { flows_by, ..self }
    }

    const fn facts(self, facts: u32) -> Row {
        Row { facts, ..self }
    }

    /// Whether its results are its only effect: rows with tokens communicate.
    fn has_only_results(&self) -> bool {
        self.flows_by == usize::MAX
    }

    fn full_name(&self) -> String {
        if self.name.contains("::") { self.name.into() } else { format!("aten::{}", self.name) }
    }
}

/// The operator behind a number that [`find`] returns.
#[derive(Clone, Copy)]
enum Entry {
    Aten(&'static Row),
    Primitive(Op),
}

struct Index {
    entries: Vec<(Entry, String)>,
    by_name: HashMap<String, u32>,
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut index = Index { entries: Vec::new(), by_name: HashMap::new() };
        for row in rows::FAMILIES.iter().copied().flatten() {
            let number = index.entries.len() as u32;
            let base = row.full_name();
            for overload in row.overloads {
                let dot = if overload.is_empty() { "" } else { "." };
                for in_place in ["", "_"] {
                    index.by_name.insert(format!("{base}{in_place}{dot}{overload}"), number);
                }
            }
            index.entries.push((Entry::Aten(row), base));
        }
        for primitive in TABLE.iter().filter(|row| primitive::callable(row.op)) {
            index.by_name.insert(primitive.name.into(), index.entries.len() as u32);
            index.entries.push((Entry::Primitive(primitive.op), primitive.name.into()));
        }
        // Names without a namespace, unless a primitive has that name.
        for number in 0..index.entries.len() as u32 {
            let (_, name) = &index.entries[number as usize];
            if let Some((_, plain)) = name.split_once("::") {
                index.by_name.entry(plain.into()).or_insert(number);
            }
        }
        index
    })
}

/// The row that serves an operator: `aten::NAME`, `aten::NAME.OVERLOAD` (in-place and `out=` forms find the same row
/// as the functional one), `torchacc::NAME`, or a plain name: of a primitive, else of a row without its namespace.
pub fn find(name: &str) -> Option<u32> {
    index().by_name.get(name).copied()
}

/// Number of rows; they are numbered from 0.
pub fn count() -> usize {
    index().entries.len()
}

/// # Panics
/// When there is no such row.
pub fn name(row: u32) -> &'static str {
    &index().entries[row as usize].1
}

/// Whether a row computes gradients: its arguments are a loss and a list of tensors.
pub fn takes_gradients(row: u32) -> bool {
    matches!(entry(row), Entry::Aten(row) if row.differentiates)
}

/// Whether no gradient flows through a row.
pub fn stops_gradients(row: u32) -> bool {
    match entry(row) {
        Entry::Aten(row) => row.updates,
        Entry::Primitive(op) => op == Op::Detach,
    }
}

/// Whether a record of this row, with a first result of `dtype`, may fail because of the values of its arguments. As in
/// PyTorch, that is an error even if the results are unused.
fn refuses(row: u32, dtype: DType) -> bool {
    match entry(row) {
        Entry::Aten(row) => (row.refuses)(dtype),
        Entry::Primitive(op) => op.refuses(dtype),
    }
}

/// Whether a row's results are its only effect: others communicate with other processes.
pub fn has_only_results(row: u32) -> bool {
    match entry(row) {
        Entry::Aten(row) => row.has_only_results(),
        Entry::Primitive(_) => true,
    }
}

/// Number of leading arguments of a row that gradients may flow through.
pub fn flows_by(row: u32) -> usize {
    match entry(row) {
        Entry::Aten(row) => row.flows_by,
        Entry::Primitive(_) => usize::MAX,
    }
}

/// The primitive, if the row is one that is called by name.
pub fn primitive_of(row: u32) -> Option<Op> {
    match entry(row) {
        Entry::Aten(_) => None,
        Entry::Primitive(op) => Some(op),
    }
}

/// Whether a number given as scalar argument `arg` must become an attribute of the record, because shapes or the
/// algorithm depend on it. `bits` is an i64, an f64 or a bool (0, 1), as `kind` says.
pub fn is_static(row: u32, arg: usize, kind: ScalarKind, bits: u64) -> bool {
    match entry(row) {
        Entry::Aten(found) => {
            is_fixed(row, found, arg, kind) || (found.special)(arg, scalar_value(kind, bits))
        }
        Entry::Primitive(op) => primitive::is_attribute(op, arg),
    }
}

/// Whether a scalar argument changes shapes or the algorithm whatever its value.
fn is_fixed(row: u32, found: &Row, arg: usize, kind: ScalarKind) -> bool {
    found.fixed.contains(&arg) || kind != ScalarKind::Float && signature::is_known(row, arg)
}

fn scalar_value(kind: ScalarKind, bits: u64) -> f64 {
    match kind {
        ScalarKind::Float => f64::from_bits(bits),
        ScalarKind::Int => bits as i64 as f64,
        ScalarKind::Bool => f64::NAN,
    }
}

/// Whether a scalar that is static by [`is_static`] could as well be an input of the program, computed with like any
/// other number.
pub fn may_vary(row: u32, arg: usize, kind: ScalarKind, bits: u64) -> bool {
    match entry(row) {
        Entry::Aten(found) => {
            let fixed = is_fixed(row, found, arg, kind);
            !fixed && !(found.essential)(arg, scalar_value(kind, bits))
        }
        Entry::Primitive(_) => false,
    }
}

/// Whether the row can serve a call whose tensor arguments and results have these dtypes; else the caller needs a
/// host operator.
pub fn accepts(row: u32, dtypes: &[DType]) -> bool {
    let alike = dtypes.windows(2).all(|pair| pair[0] == pair[1]);
    let (moves, float8, complex, takes): (bool, bool, bool, fn(DType) -> bool) = match entry(row) {
        Entry::Aten(row) => (row.moves, row.float8, row.complex.is_some(), row.takes),
        // Between any types of one size.
        Entry::Primitive(Op::Bitcast) => return true,
        // An index moves elements of any type.
        Entry::Primitive(Op::Take | Op::Gather)
            if let [from, index, to @ ..] = dtypes
                && index.is_int() =>
        {
            return to.iter().all(|to| to == from);
        }
        Entry::Primitive(op) => {
            let float8 = matches!(op, Op::Cast | Op::ScaledMatmul);
            (op.class() == crate::op::Class::Movement, float8, false, |_| true)
        }
    };
    let real = |d: &DType| takes(*d) && d.has_arithmetic();
    let all = |others: fn(DType) -> bool| dtypes.iter().all(|d| real(d) || others(*d));
    (moves && alike)
        || all(|_| false)
        || float8 && all(|d| Float8::of(d).is_some())
        || complex && all(DType::is_complex)
}

/// Whether the row can serve a call with a list of tensors of these dtypes.
pub fn accepts_list(row: u32, dtypes: &[DType]) -> bool {
    match entry(row) {
        Entry::Aten(row) => (row.lists)(dtypes),
        Entry::Primitive(_) => true,
    }
}

fn entry(row: u32) -> Entry {
    index().entries[row as usize].0
}
