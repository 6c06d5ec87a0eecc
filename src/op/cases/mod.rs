//! What every primitive is tried on, as one table: operator, attributes, operands, and how far off each engine may be. An engine
//! has an adapter that goes over it:
//! * the row's own meaning against an independent formula, the [`oracle`]: [`meaning`];
//! * the CPU's kernels against the meaning: `backend/cpu/tests/cases.rs`;
//! * those for GPUs, on a device made of the host: `backend/cuda/tests/cases.rs`;
//! * gradients against differences: `grad/tests/table.rs`.

pub mod attention;
pub mod contraction;
pub mod convolution;
pub mod data;
pub mod index;
mod meaning;
pub mod movement;
pub mod nn;
pub mod pooling;
pub mod recurrent;
pub mod reduce;

use super::array::Array;
use super::evaluate::evaluate;
use super::{Attr, Attrs, Op, Ty, Tys};
use crate::dtype::DType;
use crate::error::{Code, Result};
use crate::shape::Layout;
use data::{Lay, Random, compute_epsilon, epsilon, largest, layout, numbers, tiny};
use std::fmt;
use std::rc::Rc;

/// Which engines compute a case.
pub const MEANING: u8 = 1;
pub const CPU: u8 = 2;
pub const CUDA: u8 = 4;
/// Also for the types whose kernels differ from those of another in the type alone: few of their texts are compiled.
pub const CUDA_ALL: u8 = 8;
pub const HOST: u8 = MEANING | CPU;
pub const ALL: u8 = HOST | CUDA;

/// The families of the table: `families!(tests check)` is a test for each, which calls `check` with its cases, and
/// `families!(functions of)` a list of their functions `of`.
macro_rules! families {
    (tests $check:ident) => { $crate::op::cases::families! { @listed @tests $check } };
    (functions $of:ident) => { $crate::op::cases::families! { @listed @functions $of } };
    (@listed $($then:tt)*) => {
        $crate::op::cases::families! {
            $($then)* attention contraction convolution index movement nn pooling recurrent reduce
        }
    };
    (@tests $check:ident $($family:ident)*) => {
        $(
            #[test]
            fn $family() {
                $check($crate::op::cases::$family::cases());
            }
        )*
    };
    (@functions $of:ident $($family:ident)*) => { vec![$($family::$of),*] };
}
pub(crate) use families;

/// One computation.
pub struct Case {
    pub op: Op,
    pub attrs: Attrs,
    pub operands: Vec<Operand>,
    /// The memory of the first operand is donated to the first result.
    pub in_place: bool,
    /// Of a reduction: of x + x, in the same kernel.
    pub prologue: bool,
    /// How far off each engine may be; none: it does not compute this one.
    pub meaning: Option<Bound>,
    pub cpu: Option<Bound>,
    pub cuda: Option<Bound>,
    pub gradient: Gradient,
}

pub struct Operand {
    pub ty: Ty,
    pub fill: Fill,
    pub lay: Lay,
}

pub enum Fill {
    /// Floats in [-4, 4), integers in -100..100, and with `special` now and then what is none or extreme.
    Numbers {
        special: bool,
    },
    /// Such floats, divided.
    Divided(f64),
    /// Integers in -4..=4 (0..=4 without a sign), so that sums and products are exact.
    Small,
    Bytes,
    /// Indices.
    Below(i64),
    Exactly(Vec<f64>),
    /// Of another case the operand.
    Operand(Rc<Case>, usize),
    /// Of another case the result.
    Result(Rc<Case>, usize),
}

/// A largest difference.
#[derive(Clone, Debug)]
pub enum Bound {
    /// The same bits, or NaN for NaN.
    Bits,
    /// Equal numbers, or NaN for NaN.
    Equal,
    /// So many times the distance of neighbouring numbers at the size of the number, or of 1.
    Epsilons(f64),
    /// So many roundings of the arithmetic at the size of the largest number of a result, and one of the number.
    Steps(f64),
    /// So many roundings of the arithmetic at the size of the result of absolute values, and one of the number.
    Terms(f64),
    /// Of what is infinite or no number none, of other numbers any.
    Infinities,
    /// For each result one.
    Each(Vec<Bound>),
    /// The error, in which case nothing was written.
    Fails(Code, String),
}

/// How often a case is differentiated.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Gradient {
    Never,
    Once,
    Twice,
}

pub fn case(
    op: Op,
    attrs: impl IntoIterator<Item = Attr>,
    operands: impl IntoIterator<Item = Operand>,
) -> Case {
    Case {
        op,
        attrs: attrs.into_iter().collect(),
        operands: operands.into_iter().collect(),
        in_place: false,
        prologue: false,
        meaning: None,
        cpu: None,
        cuda: None,
        gradient: Gradient::Never,
    }
}

impl Case {
    /// For these engines, with one bound for the meaning and one for kernels.
    fn on(self, engines: u8, meaning: Bound, kernels: Bound) -> Case {
        let is_like_others = matches!(self.operands[0].ty.dtype, DType::F16 | DType::F64);
        let cuda = if is_like_others { CUDA_ALL } else { CUDA | CUDA_ALL };
        Case {
            meaning: (engines & MEANING != 0).then_some(meaning),
            cpu: (engines & CPU != 0).then(|| kernels.clone()),
            cuda: (engines & cuda != 0).then_some(kernels),
            ..self
        }
    }

    /// For these engines, all of which give the same bits.
    fn exactly_on(self, engines: u8) -> Case {
        self.on(engines, Bound::Bits, Bound::Equal)
    }

    /// Of f64, by way of differences.
    fn differentiated(self, gradient: Gradient) -> Case {
        Case { gradient, ..self }
    }

    /// The types of the results.
    pub fn results(&self) -> Tys {
        let types: Vec<&Ty> = self.operands.iter().map(|o| &o.ty).collect();
        self.op.infer(&types, &self.attrs).unwrap_or_else(|e| panic!("{self}: {e}"))
    }

    /// The memory of every operand, and how it lies there: the same in every run.
    pub fn sample(&self) -> Vec<(Array, Layout)> {
        let operand = |(n, operand): (usize, &Operand)| {
            let array = operand.memory(self.op, n);
            (array, layout(operand.lay, &operand.ty.sizes).0)
        };
        self.operands.iter().enumerate().map(operand).collect()
    }

    /// The operands of a sample as dense arrays.
    pub fn dense(&self, sample: &[(Array, Layout)]) -> Vec<Array> {
        let dense = |(operand, (memory, layout)): (&Operand, &(Array, Layout))| {
            let mut array = Array::zeros(&operand.ty);
            for (i, at) in layout.indices().enumerate() {
                array.set_raw(i, memory.raw(at as usize));
            }
            array
        };
        self.operands.iter().zip(sample).map(dense).collect()
    }

    /// What the row makes of dense operands.
    pub fn evaluate(&self, operands: &[Array]) -> Result<Vec<Array>> {
        let operands: Vec<&Array> = operands.iter().collect();
        evaluate(self.op, &operands, &self.attrs, &self.results())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} of", self.op.name(), self.attrs)?;
        for operand in &self.operands {
            write!(f, " {} ({:?})", operand.ty, operand.lay)?;
        }
        Ok(())
    }
}

impl Operand {
    fn new(dtype: DType, sizes: &[i64], fill: Fill) -> Operand {
        Operand { ty: Ty::new(dtype, sizes), fill, lay: Lay::Dense }
    }

    fn lay(self, lay: Lay) -> Operand {
        Operand { lay, ..self }
    }

    /// The memory of the `n`-th operand of `op`.
    fn memory(&self, op: Op, n: usize) -> Array {
        let (dtype, len) = (self.ty.dtype, layout(self.lay, &self.ty.sizes).1);
        let mut random = Random::new((op as u64 * 31 + n as u64) << 20 | len as u64);
        let mut each = |number: &mut dyn FnMut(&mut Random) -> f64| {
            let list: Vec<f64> = (0..len).map(|_| number(&mut random)).collect();
            Array::from_f64(dtype, &[len as i64], &list)
        };
        let least = if matches!(dtype, DType::U8 | DType::Bool) { 0 } else { -4 };
        let memory = match &self.fill {
            Fill::Numbers { special } => {
                let mut array = numbers(&mut random, dtype, len, *special);
                // At least one, of however few.
                if *special && dtype.is_float() && len > 0 {
                    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
                    array.set_f64(random.below(len), *random.pick(&odd));
                }
                array
            }
            Fill::Divided(by) => each(&mut |random| random.unit() * 4.0 / by),
            Fill::Small => {
                each(&mut |random| (least + random.below((5 - least) as usize) as i64) as f64)
            }
            Fill::Below(bound) => each(&mut |random| random.below(*bound as usize) as f64),
            Fill::Bytes => {
                let mut array = Array::zeros(&Ty::new(dtype, &[len as i64]));
                array.bytes.iter_mut().for_each(|byte| *byte = random.bits() as u8);
                array
            }
            Fill::Exactly(list) => Array::from_f64(dtype, &[len as i64], list),
            Fill::Operand(case, n) => case.dense(&case.sample()).remove(*n),
            Fill::Result(case, n) => {
                let results = case.evaluate(&case.dense(&case.sample()));
                results.unwrap_or_else(|e| panic!("{case}: {e}")).remove(*n)
            }
        };
        if self.lay == Lay::Dense { Array { ty: self.ty.clone(), ..memory } } else { memory }
    }
}

/// Small numbers.
pub fn values(dtype: DType, sizes: &[i64]) -> Operand {
    Operand::new(dtype, sizes, Fill::Numbers { special: false })
}

/// With what is no number, or an extreme one, among them.
fn special(dtype: DType, sizes: &[i64]) -> Operand {
    Operand::new(dtype, sizes, Fill::Numbers { special: true })
}

/// Of f64 in [-2, 2): what differences are taken of.
fn smooth(sizes: &[i64]) -> Operand {
    divided(DType::F64, sizes, 2.0)
}

/// In [-4 / by, 4 / by).
fn divided(dtype: DType, sizes: &[i64], by: f64) -> Operand {
    Operand::new(dtype, sizes, Fill::Divided(by))
}

fn small(dtype: DType, sizes: &[i64]) -> Operand {
    Operand::new(dtype, sizes, Fill::Small)
}

fn exactly(dtype: DType, sizes: &[i64], list: impl Into<Vec<f64>>) -> Operand {
    Operand::new(dtype, sizes, Fill::Exactly(list.into()))
}

/// One integer.
fn number(n: i64) -> Operand {
    exactly(DType::I64, &[], [n as f64])
}

/// Operand `n` of another case.
fn operand_of(case: &Rc<Case>, n: usize) -> Operand {
    let Ty { dtype, sizes } = &case.operands[n].ty;
    Operand::new(*dtype, sizes, Fill::Operand(case.clone(), n))
}

/// Result `n` of another case.
fn result_of(case: &Rc<Case>, n: usize) -> Operand {
    let Ty { dtype, sizes } = &case.results()[n];
    Operand::new(*dtype, sizes, Fill::Result(case.clone(), n))
}

fn ints(list: &[i64]) -> Attr {
    Attr::Ints(list.into())
}

/// The cases of all families.
pub fn all() -> impl Iterator<Item = Case> {
    let families: Vec<fn() -> Vec<Case>> = families!(functions cases);
    families.into_iter().flat_map(|family| family())
}

/// An independent formula: results of the given types, or the first of them.
pub type Oracle = fn(&[Array], &[Attr], &[Ty]) -> Vec<Array>;

pub fn oracle(op: Op) -> Option<Oracle> {
    let families: Vec<fn(Op) -> Option<Oracle>> = families!(functions oracle);
    families.into_iter().find_map(|of| of(op))
}

impl Bound {
    /// How far an element of a result may be off from `want`; less than 0: it has the same bits.
    /// `of_absolute` computes the results of absolute values.
    pub fn allowed<'a>(
        &'a self,
        want: &'a [Array],
        of_absolute: impl FnOnce() -> Vec<Array>,
    ) -> impl Fn(usize, usize) -> f64 + 'a {
        let of = |a: &Array| if a.ty.dtype.is_float() { largest(a) } else { 0.0 };
        let sizes: Vec<f64> = want.iter().map(of).collect();
        let terms = if let Bound::Terms(_) = self { of_absolute() } else { Vec::new() };
        move |k, i| {
            let size = terms.get(k).map_or(sizes[k], |terms| terms.f64(i));
            self.at(&want[k], size, k, i)
        }
    }

    /// Of element `i` of result `k`, whose arithmetic is of numbers of this size.
    fn at(&self, want: &Array, size: f64, k: usize, i: usize) -> f64 {
        let dtype = want.ty.dtype;
        match self {
            Bound::Bits => -1.0,
            Bound::Equal => 0.0,
            Bound::Each(bounds) => bounds[k].at(want, size, k, i),
            Bound::Fails(code, _) => unreachable!("it fails: {code:?}"),
            _ if !dtype.is_float() => 0.0,
            Bound::Epsilons(n) => n * 2.0 * epsilon(dtype) * want.f64(i).abs().max(1.0),
            Bound::Infinities if want.f64(i).is_finite() => f64::INFINITY,
            Bound::Infinities => 0.0,
            Bound::Steps(n) | Bound::Terms(n) => {
                n * compute_epsilon(dtype) * size
                    + 2.0 * epsilon(dtype) * want.f64(i).abs()
                    + tiny(dtype)
            }
        }
    }
}

/// Panics where an element differs by more than `allowed(result, element)`, or if that is less than 0, in a bit; any NaN is NaN.
pub fn compare(
    what: impl fmt::Display,
    got: &[Array],
    want: &[Array],
    allowed: impl Fn(usize, usize) -> f64,
) {
    for (k, (got, want)) in got.iter().zip(want).enumerate() {
        assert_eq!(got.ty, want.ty, "{what}");
        for i in (0..want.len()).filter(|&i| got.raw(i) != want.raw(i)) {
            let is_float = want.ty.dtype.is_float();
            let (x, y) = if is_float { (got.f64(i), want.f64(i)) } else { (f64::NAN, 0.0) };
            let close = x.is_nan() && y.is_nan() || (x - y).abs() <= allowed(k, i);
            assert!(
                close,
                "{what}\nresult {k}[{i}] of {}: {:?} instead of {:?} (f64 {x:e}, {y:e}; allowed {:e})",
                want.ty.dtype,
                got.raw(i),
                want.raw(i),
                allowed(k, i)
            );
        }
    }
}
