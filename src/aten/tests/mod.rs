//! Tests of the rows: a trial is one recorded operation, lowered, interpreted and compared.

mod complex;
mod convolution;
mod factory;
mod index;
mod matmul;
mod nn;
mod norm;
mod optim;
mod order;
mod pointwise;
mod random;
mod reduce;
mod resample;
mod table;
mod views;

use super::{accepts, accepts_list, find, infer, is_static, lower};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::interpret::interpret;
use crate::op::Ty;
use crate::op::arg::ScalarKind;
use crate::op::array::Array;
use crate::record::{
    Arg, Format, Operator, Origin, Output, Read, Record, Records, Value, View, Write,
    written_format,
};
use crate::shape::{Dims, Layout, numel};

/// An argument as a caller of the library gives it.
#[derive(Clone)]
pub enum TrialArg {
    Tensor(Array),
    /// A view of a buffer that holds the array.
    View(Array, Layout),
    List(Vec<Array>),
    /// A list with gaps.
    Gaps(Vec<Option<Array>>),
    /// Numbers that may change from call to call; the row may ask to have them as attributes.
    Float(f64),
    Int(i64),
    Plain(Arg),
}

use TrialArg::{Float, Int, Plain};

pub const NONE: TrialArg = Plain(Arg::None);

impl From<&Array> for TrialArg {
    fn from(array: &Array) -> TrialArg {
        TrialArg::Tensor(array.clone())
    }
}

pub fn ints(list: &[i64]) -> TrialArg {
    Plain(Arg::Ints(list.into()))
}

pub fn flag(b: bool) -> TrialArg {
    Plain(Arg::Bool(b))
}

/// An attribute.
pub fn at(n: i64) -> TrialArg {
    Plain(Arg::Int(n))
}

pub fn text(s: &str) -> TrialArg {
    Plain(Arg::Str(s.into()))
}

pub fn dtype(d: DType) -> TrialArg {
    Plain(Arg::DType(d))
}

/// One operation under construction, and the memory it works on.
#[derive(Default)]
pub struct Trial {
    pub records: Records,
    pub leaves: Vec<Array>,
    pub scalars: Vec<u64>,
}

impl Trial {
    /// Adds a leaf; its value.
    pub fn leaf(&mut self, array: &Array) -> u32 {
        let format = Format { dtype: array.ty.dtype, sizes: array.ty.sizes.clone() };
        let origin = Origin::Leaf(self.leaves.len() as u32);
        self.leaves.push(array.clone());
        self.records.n_leaves += 1;
        self.records.values.push(Value { origin, format, nbytes: array.bytes.len() });
        self.records.values.len() as u32 - 1
    }

    pub fn read(&mut self, array: &Array, layout: Layout) -> Read {
        let value = self.leaf(array);
        Read { value, view: View { dtype: array.ty.dtype, layout } }
    }

    fn dense(&mut self, array: &Array) -> Read {
        self.read(array, Layout::contiguous(&array.ty.sizes))
    }

    fn scalar(&mut self, row: u32, position: usize, kind: ScalarKind, bits: u64) -> Arg {
        match (is_static(row, position, kind, bits), kind) {
            (true, ScalarKind::Float) => Arg::Float(f64::from_bits(bits)),
            (true, _) => Arg::Int(bits as i64),
            (false, _) => {
                self.scalars.push(bits);
                self.records.scalars.push(kind);
                Arg::Scalar { kind, number: self.scalars.len() as u32 - 1 }
            }
        }
    }

    fn argument(&mut self, row: u32, position: usize, trial_arg: &TrialArg) -> Arg {
        match trial_arg {
            TrialArg::Tensor(array) => Arg::Tensor(self.dense(array)),
            TrialArg::View(array, layout) => Arg::Tensor(self.read(array, layout.clone())),
            TrialArg::List(list) => {
                Arg::Tensors(list.iter().map(|a| Some(self.dense(a))).collect())
            }
            TrialArg::Gaps(list) => {
                let reads = list.iter().map(|a| a.as_ref().map(|a| self.dense(a)));
                Arg::Tensors(reads.collect())
            }
            Float(x) => self.scalar(row, position, ScalarKind::Float, x.to_bits()),
            Int(n) => self.scalar(row, position, ScalarKind::Int, *n as u64),
            Plain(arg) => arg.clone(),
        }
    }

    /// Records `name` with no outs.
    pub fn new(name: &str, args: &[TrialArg]) -> Trial {
        let mut trial = Trial::default();
        let row = find(name).unwrap_or_else(|| panic!("no row serves {name}"));
        let args = args.iter().enumerate().map(|(i, a)| trial.argument(row, i, a)).collect();
        let op = Operator::Native(row);
        trial.records.records.push(Record { op, args, outs: Vec::new(), site: 7 });
        trial
    }

    /// Adds an out that writes `view` of a buffer holding `old`.
    pub fn write(&mut self, old: Option<u32>, view: View, nbytes: usize) {
        let before = old.map(|old| &self.records.values[old as usize].format);
        let format = written_format(before, &view, nbytes);
        let record = &mut self.records.records[0];
        let origin = Origin::Written { record: 0, out: record.outs.len() as u32 };
        let value = self.records.values.len() as u32;
        record.outs.push(Write { old, view, value });
        self.records.values.push(Value { origin, format, nbytes });
        self.records.outputs.push(Output { value, donor: None });
    }

    /// Adds outs for fresh results of the given types.
    pub fn fresh(mut self, types: &[Ty]) -> Trial {
        for ty in types {
            let view = View { dtype: ty.dtype, layout: Layout::contiguous(&ty.sizes) };
            self.write(None, view, ty.nbytes());
        }
        self
    }

    /// Lowers and interprets: what the written buffers hold.
    pub fn run(&self) -> Result<Vec<Array>> {
        interpret(&lower(&self.records)?, &self.leaves, &self.scalars)
    }
}

/// The results of `name` as a C caller gets them: types inferred.
pub fn apply(name: &str, args: &[TrialArg]) -> Result<Vec<Array>> {
    let trial = Trial::new(name, args);
    let types = infer(&trial.records)?;
    let dtypes: Vec<DType> = types.iter().map(|t| t.dtype).collect();
    assert!(accepts(find(name).unwrap(), &dtypes));
    trial.fresh(&types).run()
}

/// The only result of `name`.
pub fn only(name: &str, args: &[TrialArg]) -> Array {
    let mut results = apply(name, args).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(results.len(), 1, "{name}");
    results.pop().unwrap()
}

/// The buffer of argument 0, a view, after `name` wrote its only result into it.
pub fn in_place(name: &str, args: &[TrialArg]) -> Result<Array> {
    let TrialArg::View(array, layout) = &args[0] else { panic!("{name}: argument 0 is no view") };
    let mut trial = Trial::new(name, args);
    let view = View { dtype: array.ty.dtype, layout: layout.clone() };
    trial.write(Some(0), view, array.bytes.len());
    Ok(trial.run()?.remove(0))
}

/// Compares type and elements. The tolerance is some units in the last place of the dtype.
pub fn check(what: &str, got: &Array, expected: DType, sizes: &[i64], values: &[f64]) {
    assert_eq!((got.ty.dtype, &got.ty.sizes[..]), (expected, sizes), "{what}: type");
    let ulp = match expected {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F32 => 2f64.powi(-20),
        DType::F64 => 2f64.powi(-40),
        _ => 0.0,
    };
    assert_eq!(got.len(), values.len(), "{what}: length");
    for (i, (&want, got)) in values.iter().zip(got.to_f64s()).enumerate() {
        let close = (got - want).abs() <= ulp * (1.0 + want.abs());
        let same = got == want || (got.is_nan() && want.is_nan()) || close;
        assert!(same, "{what}: element {i} is {got}, not {want}");
    }
}

/// Numbers between -2.75 and 2.75 that all float dtypes hold exactly; integers for integers.
pub fn wave(dtype: DType, sizes: &[i64], seed: i64) -> Array {
    let step = if dtype.is_float() { 0.25 } else { 1.0 };
    let value = |i: i64| ((i * 37 + seed * 11) % 23 - 11) as f64 * step;
    let value = |i: i64| if dtype == DType::U8 { value(i).abs() } else { value(i) };
    let values: Vec<f64> = (0..numel(sizes)).map(value).collect();
    Array::from_f64(dtype, sizes, &values)
}

/// `x` as if broadcast to `sizes`.
pub fn spread(x: &Array, sizes: &[i64]) -> Vec<f64> {
    let layout = Layout::contiguous(&x.ty.sizes).broadcast(sizes);
    layout.indices().map(|i| x.f64(i as usize)).collect()
}

/// Numbers from a seed, for generated tests.
pub struct Dice(pub u64);

impl Dice {
    /// In `0..n`.
    pub fn roll(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n.max(1) as u64) as i64
    }

    pub fn sizes(&mut self, most: i64) -> Dims {
        (0..self.roll(most + 1)).map(|_| 1 + self.roll(5)).collect()
    }
}
