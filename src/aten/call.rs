//! One recorded operation as its row sees it: arguments by position, with PyTorch's defaults and promotion.

use super::promote::{Operand, result_type};
use super::values::Values;
use crate::dtype::DType;
use crate::error::Result;
pub use crate::graph::math::wide;
use crate::graph::math::{Math, V, complex};
use crate::invalid;
use crate::op::arg::ScalarKind;
use crate::op::{Attr, Op, Ty};
use crate::record::{Arg, Read, Record};
use crate::shape::Dims;
use smallvec::smallvec;

pub struct Call<'a> {
    pub math: &'a Math,
    pub values: &'a Values<'a>,
    pub record: &'a Record,
}

/// How an elementwise operator promotes and computes.
#[derive(Clone, Copy, PartialEq)]
pub enum Rule {
    /// In the common dtype; bool is computed as an integer and is true where that is not zero.
    Number,
    /// As `Number`, but integers and bool become the default float.
    Float,
    /// As `Number`, in f32 when the common dtype is half: for formulas of several operations.
    Formula,
    /// As `Float`, in f32 when the common dtype is half.
    FloatFormula,
    /// As `Formula`, with numbers rounded to the common dtype, too: PyTorch's kernels hold a number as an element there.
    Rounded,
    /// In the common dtype, bool included.
    Exact,
}

impl<'a> Call<'a> {
    pub fn arg(&self, i: usize) -> &'a Arg {
        self.record.args.get(i).unwrap_or(&Arg::None)
    }

    /// Whether argument `i` was given.
    pub fn has(&self, i: usize) -> bool {
        !matches!(self.arg(i), Arg::None)
    }

    fn wrong<T>(&self, i: usize, wanted: &str) -> Result<T> {
        invalid!("argument {i} must be {wanted}, got {}", described(self.arg(i)))
    }

    /// Whether the trace takes gradients: then a row spells out a slope at a kink that PyTorch defines in its own way.
    pub fn is_differentiated(&self) -> bool {
        self.values.are_differentiated()
    }

    // ---- tensors

    pub fn read(&self, read: &Read) -> Result<V<'a>> {
        self.values.read(self.math, read)
    }

    /// Argument `i`, a tensor or a number (then of rank 0 and its own dtype: f64, i64 or bool).
    pub fn tensor(&self, i: usize) -> Result<V<'a>> {
        match self.arg(i) {
            Arg::Tensor(read) => self.read(read),
            arg => self.number_of(arg).map_or_else(|| self.wrong(i, "a tensor"), Ok),
        }
    }

    pub fn optional(&self, i: usize) -> Result<Option<V<'a>>> {
        if self.has(i) { self.tensor(i).map(Some) } else { Ok(None) }
    }

    /// The present tensors of a list argument; an absent list is empty.
    pub fn list(&self, i: usize) -> Result<Vec<V<'a>>> {
        match self.arg(i) {
            Arg::None => Ok(Vec::new()),
            Arg::Tensors(reads) => reads.iter().flatten().map(|r| self.read(r)).collect(),
            _ => self.wrong(i, "a list of tensors"),
        }
    }

    /// Type of tensor argument `i`, without reading it.
    pub fn ty(&self, i: usize) -> Result<Ty> {
        match self.arg(i) {
            Arg::Tensor(read) => Ok(Ty::new(read.view.dtype, &read.view.layout.sizes)),
            _ => Ok(self.tensor(i)?.ty()),
        }
    }

    /// The type that result `i` will be written as, if known.
    pub fn out(&self, i: usize) -> Option<Ty> {
        let view = &self.record.outs.get(i)?.view;
        Some(Ty::new(view.dtype, &view.layout.sizes))
    }

    // ---- numbers

    fn number_of(&self, arg: &Arg) -> Option<V<'a>> {
        Some(match *arg {
            Arg::Scalar { kind, number: slot } => self.math.build(|b| b.scalar(slot, kind.dtype())),
            Arg::Int(n) => self.math.constant_int(n, DType::I64),
            Arg::Float(x) => self.math.constant(x, DType::F64),
            Arg::Bool(t) => self.math.constant_int(t as i64, DType::Bool),
            _ => return None,
        })
    }

    /// A number (or a tensor) as `dtype`; `default` when it was not given. A complex number is given as its two parts.
    pub fn number(&self, i: usize, default: f64, dtype: DType) -> Result<V<'a>> {
        match self.arg(i) {
            Arg::Floats(parts) => match (&parts[..], dtype.part()) {
                (&[re, im], Some(part)) => {
                    let [re, im] = [re, im].map(|x| self.math.constant(x, part));
                    Ok(complex(re, im))
                }
                _ => self.wrong(i, "a number"),
            },
            Arg::None => Ok(self.math.constant(default, dtype)),
            Arg::Int(n) => Ok(self.math.constant_int(*n, dtype)),
            Arg::Float(x) => Ok(self.math.constant(*x, dtype)),
            _ => Ok(self.tensor(i)?.cast(dtype)),
        }
    }

    /// Whether argument `i` is a number known to be `value` while lowering, or is absent and defaults to `value`.
    pub fn is(&self, i: usize, value: f64, default: f64) -> bool {
        match *self.arg(i) {
            Arg::None => default == value,
            Arg::Int(n) => n as f64 == value,
            Arg::Float(x) => x == value,
            _ => false,
        }
    }

    // ---- attributes

    pub fn int(&self, i: usize, default: i64) -> Result<i64> {
        match *self.arg(i) {
            Arg::None => Ok(default),
            Arg::Int(n) => Ok(n),
            Arg::Bool(b) => Ok(b as i64),
            _ => self.wrong(i, "an integer known while recording"),
        }
    }

    pub fn float(&self, i: usize, default: f64) -> Result<f64> {
        match *self.arg(i) {
            Arg::None => Ok(default),
            Arg::Int(n) => Ok(n as f64),
            Arg::Float(x) => Ok(x),
            Arg::Bool(b) => Ok(b as u8 as f64),
            _ => self.wrong(i, "a number known while recording"),
        }
    }

    pub fn bool(&self, i: usize, default: bool) -> Result<bool> {
        Ok(self.int(i, default as i64)? != 0)
    }

    pub fn dtype(&self, i: usize) -> Result<Option<DType>> {
        match self.arg(i) {
            Arg::None => Ok(None),
            Arg::DType(d) => Ok(Some(*d)),
            _ => self.wrong(i, "a dtype"),
        }
    }

    pub fn text(&self, i: usize) -> Result<&'a str> {
        match self.arg(i) {
            Arg::None => Ok(""),
            Arg::Str(s) => Ok(s),
            _ => self.wrong(i, "a string"),
        }
    }

    /// A list of integers; a single one counts as a list of one.
    pub fn ints(&self, i: usize) -> Result<Option<Dims>> {
        match self.arg(i) {
            Arg::None => Ok(None),
            Arg::Int(n) => Ok(Some(Dims::from_slice(&[*n]))),
            Arg::Ints(v) => Ok(Some(v.clone())),
            _ => self.wrong(i, "a list of integers"),
        }
    }

    pub fn bools(&self, i: usize) -> Result<Vec<bool>> {
        match self.arg(i) {
            Arg::Bools(v) => Ok(v.clone()),
            Arg::Ints(v) => Ok(v.iter().map(|&n| n != 0).collect()),
            _ => self.wrong(i, "a list of bools"),
        }
    }

    /// A dimension of a tensor of `rank`, counted from the end when negative. Rank 0 counts as one dimension.
    pub fn dim(&self, i: usize, default: i64, rank: usize) -> Result<usize> {
        wrap_dim(self.int(i, default)?, rank)
    }

    /// Seed and offset of the generator, which the recorder appends to the schema's arguments.
    pub fn seed(&self) -> Result<[V<'a>; 2]> {
        let n = self.record.args.len();
        if n < 2 {
            return invalid!("a random operator takes a seed and an offset after its arguments");
        }
        Ok([self.number(n - 2, 0.0, DType::I64)?, self.number(n - 1, 0.0, DType::I64)?])
    }

    /// Uniform in [0, 1), f32.
    pub fn random(&self, sizes: &[i64]) -> Result<V<'a>> {
        self.drawn(Op::Random, sizes)
    }

    /// The result of a random primitive for this seed and offset.
    pub fn drawn(&self, op: Op, sizes: &[i64]) -> Result<V<'a>> {
        Ok(self.math.op(op, &self.seed()?, smallvec![Attr::Ints(sizes.into())]))
    }

    // ---- promotion

    fn operand(&self, i: usize) -> Result<Option<Operand>> {
        Ok(Some(match self.arg(i) {
            Arg::None => return Ok(None),
            Arg::Scalar { kind, .. } => Operand::Number(*kind),
            Arg::Int(_) => Operand::Number(ScalarKind::Int),
            Arg::Float(_) => Operand::Number(ScalarKind::Float),
            Arg::Bool(_) => Operand::Number(ScalarKind::Bool),
            Arg::Floats(_) => Operand::ComplexNumber,
            _ => {
                let ty = self.ty(i)?;
                Operand::Tensor { dtype: ty.dtype, rank: ty.rank() }
            }
        }))
    }

    /// `torch.get_default_dtype()`, as far as the first result shows it: f64 if PyTorch made that f64 or its complex type.
    pub fn default_float(&self) -> DType {
        match self.out(0) {
            Some(Ty { dtype: DType::F64 | DType::C128, .. }) => DType::F64,
            _ => DType::F32,
        }
    }

    /// Common dtype of the arguments `at`, ignoring absent ones.
    pub fn common(&self, at: &[usize]) -> Result<DType> {
        let operands: Vec<Operand> =
            at.iter().filter_map(|&i| self.operand(i).transpose()).collect::<Result<_>>()?;
        Ok(result_type(&operands, self.default_float()))
    }

    /// `dtype`, or the default float if that is an integer or bool.
    pub fn floating(&self, dtype: DType) -> DType {
        if dtype.is_float() || dtype.is_complex() { dtype } else { self.default_float() }
    }

    /// The arguments `at` under `rule`: the dtype of the result and the dtype to compute in.
    pub fn plan(&self, at: &[usize], rule: Rule) -> Result<(DType, DType)> {
        let common = self.common(at)?;
        let result = match rule {
            Rule::Float | Rule::FloatFormula => self.floating(common),
            _ => common,
        };
        // A number keeps its precision next to a half tensor: PyTorch computes such a pair in f32.
        let numbers = at.iter().any(|&i| matches!(self.operand(i), Ok(Some(Operand::Number(_)))));
        let compute = match rule {
            Rule::Exact => result,
            _ if result == DType::Bool => DType::I32,
            Rule::Number | Rule::Float if !numbers => result,
            _ => wide(result),
        };
        Ok((result, compute))
    }

    /// `formula` of the arguments `at`, promoted under `rule`.
    pub fn elementwise<const N: usize>(
        &self,
        at: [usize; N],
        rule: Rule,
        formula: impl FnOnce([V<'a>; N]) -> V<'a>,
    ) -> Result<Vec<V<'a>>> {
        self.parametric(at, [], rule, |x, []| formula(x))
    }

    /// As [`Call::elementwise`], with numbers (position, default) that take no part in promotion.
    pub fn parametric<const N: usize, const M: usize>(
        &self,
        at: [usize; N],
        numbers: [(usize, f64); M],
        rule: Rule,
        formula: impl FnOnce([V<'a>; N], [V<'a>; M]) -> V<'a>,
    ) -> Result<Vec<V<'a>>> {
        let (result, compute) = self.plan(&at, rule)?;
        // Bools are computed as integers, but their parameters are bools.
        let parameter = if result == DType::Bool { result } else { compute };
        let parameters = self.parameters(numbers, parameter)?.map(|number| number.cast(compute));
        let mut operands = self.numbers(at, compute)?;
        if compute != result && result.is_float() {
            // Kernels read elements in the common dtype, and most of them a single number, too.
            for (x, i) in operands.iter_mut().zip(at) {
                let is_list = match self.operand(i)? {
                    Some(Operand::Tensor { .. }) => self.ty(i)?.numel() != 1,
                    _ => false,
                };
                if is_list || i == 0 || matches!(rule, Rule::Rounded | Rule::FloatFormula) {
                    *x = self.number(i, 0.0, result)?.cast(compute);
                }
            }
        }
        Ok(vec![formula(operands, parameters).cast(result)])
    }

    /// Numbers (position, default) as `dtype`.
    pub fn parameters<const M: usize>(
        &self,
        numbers: [(usize, f64); M],
        dtype: DType,
    ) -> Result<[V<'a>; M]> {
        let mut parameters = [self.math.constant(0.0, dtype); M];
        for (value, (i, default)) in parameters.iter_mut().zip(numbers) {
            *value = self.number(i, default, dtype)?;
        }
        Ok(parameters)
    }

    /// The arguments `at` as `dtype`.
    pub fn numbers<const N: usize>(&self, at: [usize; N], dtype: DType) -> Result<[V<'a>; N]> {
        let mut values = [self.math.constant(0.0, dtype); N];
        for (value, i) in values.iter_mut().zip(at) {
            if !self.has(i) {
                return self.wrong(i, "given");
            }
            *value = self.number(i, 0.0, dtype)?;
        }
        Ok(values)
    }
}

/// Describes an argument in an error message.
pub fn described(arg: &Arg) -> String {
    match arg {
        Arg::None => "nothing".to_string(),
        Arg::Tensor(Read { view, .. }) => {
            format!("a tensor of {} {:?}", view.dtype, view.layout.sizes)
        }
        Arg::Tensors(list) => format!("a list of {} tensors", list.len()),
        Arg::Scalar { kind, .. } => format!("a number of {} that may vary", kind.dtype()),
        Arg::Int(n) => format!("the integer {n}"),
        Arg::Float(x) => format!("the number {x:?}"),
        Arg::Bool(b) => format!("{b}"),
        Arg::Ints(list) => format!("the integers {list:?}"),
        Arg::Floats(list) => format!("the numbers {list:?}"),
        Arg::Bools(list) => format!("the flags {list:?}"),
        Arg::DType(dtype) => format!("the dtype {dtype}"),
        Arg::Str(text) => format!("the text {text:?}"),
    }
}

/// Counts `dim` from the end when negative. A tensor of rank 0 counts as having one dimension.
pub fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    let n = rank.max(1) as i64;
    if !(-n..n).contains(&dim) {
        return invalid!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
            -n,
            n - 1
        );
    }
    Ok(dim.rem_euclid(n) as usize)
}
