//! Random well-formed graphs for fuzzing, with inputs to run them on.
//!
//! Every node is inferred and evaluated before it is added: nodes that a row refuses, that fail (an index out of range, a
//! division by zero) or whose values explode never enter. So the graph is well-formed, and its values stay in a range in
//! which rounding errors can be distinguished from wrong numbers.
//!
//! **Invariant:** comparisons, truncations and other discontinuous operations are applied to *exact* values only
//! ([`exact_values`]): to numbers that every correct backend computes with the same bits. Otherwise two correct backends
//! could differ by much.

mod indexing;
mod loops;
mod nodes;
mod products;
mod rng;
mod windows;

use super::{Builder, Graph, Node, ValueId};
use crate::dtype::{DType, Float8};
use crate::error::Result;
use crate::op::array::Array;
use crate::op::evaluate::evaluate;
use crate::op::index::Reduction;
use crate::op::{Attr, Attrs, Class, Op, Ty};
use crate::shape::Dims;
pub use rng::Rng;
use smallvec::smallvec;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Case {
    pub graph: Graph,
    pub inputs: Vec<Array>,
    pub scalars: Vec<u64>,
}

/// Limits on the size of a case.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub nodes: usize,
    /// Largest size of a dimension.
    pub size: i64,
}

/// The dtypes to draw from.
const DTYPES: [DType; 6] =
    [DType::F32, DType::F64, DType::BF16, DType::I32, DType::I64, DType::Bool];

const MAX_ELEMENTS: i64 = 600;
const MAX_MAGNITUDE: f64 = 1e4;
const MIN_MAGNITUDE: f64 = 1e-6;
const MAX_OUTPUTS: usize = 6;

/// The case of number `seed`: equal numbers and limits give equal cases. One in four has NaN, infinities and -0.0
/// among its numbers.
pub fn case(seed: u64, limits: Limits) -> Result<Case> {
    let mut rng = Rng::new(seed);
    let special = rng.chance(0.25);
    let mut g = Generator {
        rng,
        limits,
        special,
        builder: Builder::new(),
        values: Vec::new(),
        exact: Vec::new(),
        inputs: Vec::new(),
        scalars: Vec::new(),
    };
    // Most proposals are accepted, some are refused for good reasons.
    for _ in 0..4 * limits.nodes {
        if g.builder.graph().nodes.len() >= limits.nodes {
            break;
        }
        nodes::propose(&mut g)?;
    }
    g.finish()
}

/// For every value of a graph, whether every correct backend computes the same bits (except for the sign of a zero and the
/// bits of a NaN). Integers and bools of generated graphs always are exact: they depend on exact floats only.
pub fn exact_values(graph: &Graph) -> Vec<bool> {
    let mut exact = Vec::with_capacity(graph.values.len());
    graph.nodes.iter().for_each(|node| push_exact(graph, node, &mut exact));
    exact
}

/// Appends the entries of the next node's values.
fn push_exact(graph: &Graph, node: &Node, exact: &mut Vec<bool>) {
    let operands_exact = node.inputs.iter().all(|v| exact[v.0 as usize]);
    let is_exact =
        |dtype: DType| operands_exact && (!dtype.is_float() || keeps_bits(graph, node, dtype));
    exact.extend(node.outputs().map(|v| is_exact(graph.ty(v).dtype)));
}

/// Whether a node moves or chooses numbers, or rounds in one defined way. Additions and products do too, in f32 and
/// f64, but half types are held in f32 where regions are fused.
fn keeps_bits(graph: &Graph, node: &Node, result: DType) -> bool {
    match node.op {
        op if matches!(op.class(), Class::Leaf | Class::Movement) => true,
        Op::Scatter => Reduction::of(&node.attrs) == Reduction::Last,
        // An i64 cast to f32 directly or through f64 may be rounded differently.
        Op::Cast => graph.ty(node.inputs[0]).dtype != DType::I64 || result == DType::F64,
        op => op.row().exact,
    }
}

/// Whether a small change of an operand may make the result jump.
fn jumps(op: Op, operands: &[&Ty], result: DType) -> bool {
    let from_floats = operands.iter().any(|ty| ty.dtype.is_float());
    from_floats && !result.is_float() || op.row().jumps
}

struct Generator {
    rng: Rng,
    limits: Limits,
    /// Whether NaN, infinities and -0.0 are among the numbers.
    special: bool,
    builder: Builder,
    /// The content of every value of the graph when the program runs.
    values: Vec<Array>,
    exact: Vec<bool>,
    inputs: Vec<Array>,
    scalars: Vec<u64>,
}

impl Generator {
    /// The results of a node; `None` if it is refused.
    fn node(&mut self, op: Op, inputs: &[ValueId], attrs: Attrs) -> Result<Option<Vec<ValueId>>> {
        let types: Vec<&Ty> = inputs.iter().map(|&v| self.builder.ty(v)).collect();
        let Ok(outs) = op.infer(&types, &attrs) else {
            return Ok(None);
        };
        let exact = inputs.iter().all(|v| self.exact[v.0 as usize]);
        let too_large = outs.iter().any(|ty| ty.numel() > MAX_ELEMENTS);
        let jumps = outs.iter().any(|ty| jumps(op, &types, ty.dtype));
        if too_large || jumps && !exact || self.is_undefined(op, inputs, &outs[0]) {
            return Ok(None);
        }
        let operands: Vec<&Array> = inputs.iter().map(|v| &self.values[v.0 as usize]).collect();
        let results = match evaluate(op, &operands, &attrs, &outs) {
            Ok(results) if results.iter().all(|array| self.is_sane(op, array)) => results,
            _ => return Ok(None),
        };
        let values = self.builder.ops(op, inputs, attrs)?;
        if values[0].0 as usize == self.values.len() {
            self.values.extend(results);
            let graph = self.builder.graph();
            push_exact(graph, graph.maker(values[0]), &mut self.exact);
        }
        Ok(Some(values.to_vec()))
    }

    /// Whether no number is so large, nor (out of a bitcast) so small, that rounding leaves the range of a dtype.
    fn is_sane(&self, op: Op, array: &Array) -> bool {
        let least = if op == Op::Bitcast { MIN_MAGNITUDE } else { 0.0 };
        let is_sane = |x: f64| match x.abs() {
            size if size.is_finite() => size <= MAX_MAGNITUDE && (size >= least || size == 0.0),
            _ => self.special,
        };
        !array.ty.dtype.is_float() || array.to_f64s().into_iter().all(is_sane)
    }

    /// Whether results may differ between backends: NaN and infinity as integers, the bits of computed floats.
    fn is_undefined(&self, op: Op, inputs: &[ValueId], out: &Ty) -> bool {
        let from_float = inputs.iter().any(|&v| self.builder.ty(v).dtype.is_float());
        match op {
            Op::Cast => self.special && from_float && out.dtype.is_int(),
            Op::Bitcast => out.dtype == DType::Bool || from_float && !self.is_stored(inputs[0]),
            // Whether 0·NaN is added is unspecified.
            Op::Attention | Op::AttentionGrad => self.special,
            Op::Conv | Op::ConvGradInput | Op::ConvGradWeight => self.special,
            _ => false,
        }
    }

    /// Whether a value is moved, not computed.
    fn is_stored(&self, v: ValueId) -> bool {
        let maker = self.builder.graph().maker(v);
        match maker.op.class() {
            Class::Leaf => true,
            Class::Movement => maker.inputs.iter().all(|&v| self.is_stored(v)),
            _ => false,
        }
    }

    fn leaf(&mut self, op: Op, attrs: Attrs, value: Array) -> Result<ValueId> {
        let v = self.builder.op(op, &[], attrs)?;
        if v.0 as usize == self.values.len() {
            self.values.push(value);
            self.exact.push(true);
        }
        Ok(v)
    }

    /// A new input of the program.
    fn input(&mut self, value: Array) -> Result<ValueId> {
        let attrs =
            smallvec![Attr::Int(self.inputs.len() as i64), Attr::Types(vec![value.ty.clone()])];
        self.inputs.push(value.clone());
        self.leaf(Op::Input, attrs, value)
    }

    fn fresh(&mut self, ty: &Ty) -> Result<ValueId> {
        let values: Vec<f64> = (0..ty.numel()).map(|_| self.number(ty.dtype)).collect();
        self.input(Array::from_f64(ty.dtype, &ty.sizes, &values))
    }

    /// A new input of indices below `size`, distinct along `axis` if asked for.
    fn fresh_indices(
        &mut self,
        dtype: DType,
        sizes: &[i64],
        size: i64,
        axis: Option<usize>,
    ) -> Result<ValueId> {
        let mut array = Array::zeros(&Ty::new(dtype, sizes));
        let inner: i64 = axis.map_or(1, |a| sizes[a + 1..].iter().product());
        let count = axis.map_or(1, |a| sizes[a]);
        let start = self.rng.below(size.max(1) as usize) as i64;
        for i in 0..array.len() {
            let value = match axis {
                // Along the axis the numbers are consecutive, cyclically.
                Some(_) => start + i as i64 / inner.max(1) % count.max(1),
                None => self.rng.below(size.max(1) as usize) as i64,
            };
            array.set_i64(i, value % size.max(1));
        }
        self.input(array)
    }

    /// A new slot of the argument block.
    fn scalar(&mut self, dtype: DType) -> Result<ValueId> {
        let number = self.number(dtype);
        let bits = if dtype.is_float() { number.to_bits() } else { number as i64 as u64 };
        let attrs = smallvec![Attr::Int(self.scalars.len() as i64), Attr::DType(dtype)];
        self.scalars.push(bits);
        let mut value = Array::zeros(&Ty::new(dtype, &[]));
        value.set_scalar(0, bits);
        self.leaf(Op::Scalar, attrs, value)
    }

    fn number(&mut self, dtype: DType) -> f64 {
        let small = self.rng.below(9) as f64 - 4.0;
        match dtype {
            DType::Bool => self.rng.below(2) as f64,
            _ if dtype.is_int() => small,
            _ if self.special && self.rng.chance(0.3) => {
                *self.rng.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0])
            }
            _ if self.rng.chance(0.3) => small,
            _ => self.rng.unit() * 4.0 - 2.0,
        }
    }

    /// Up to four sizes; 0 is rare, 1 is not.
    fn sizes(&mut self, min_rank: usize) -> Dims {
        let rank = min_rank.max(self.rng.below(5));
        let mut sizes: Dims = (0..rank).map(|_| self.size()).collect();
        while crate::shape::numel(&sizes) > MAX_ELEMENTS / 4 {
            let d = self.rng.below(rank);
            sizes[d] = 1;
        }
        sizes
    }

    fn size(&mut self) -> i64 {
        match self.rng.below(12) {
            0 => self.rng.below(2) as i64,
            1 | 2 => 1,
            _ => 1 + self.rng.below(self.limits.size.max(1) as usize) as i64,
        }
    }

    /// A value for which `accepts` holds, preferably a late one.
    fn pick(&mut self, accepts: impl Fn(&Ty) -> bool) -> Option<ValueId> {
        // Only casts and products take 8-bit floats.
        let is_wide = |ty: &Ty| Float8::of(ty.dtype).is_none();
        let fits = |v: &ValueId| is_wide(self.builder.ty(*v)) && accepts(self.builder.ty(*v));
        let all: Vec<ValueId> = (0..self.values.len() as u32).map(ValueId).filter(fits).collect();
        if all.is_empty() {
            return None;
        }
        let late = self.rng.below(all.len()).max(self.rng.below(all.len()));
        Some(all[late])
    }

    /// A value of a type, sometimes a new input.
    fn of_type(&mut self, ty: &Ty) -> Result<ValueId> {
        match self.pick(|t| t == ty) {
            Some(v) if !self.rng.chance(0.2) => Ok(v),
            _ => self.fresh(ty),
        }
    }

    /// The program returns unused values, up to a limit, and one of all values.
    fn finish(mut self) -> Result<Case> {
        let counts = self.builder.graph().use_counts();
        let unused = |v: &ValueId| counts[v.0 as usize] == 0;
        let mut outputs: Vec<ValueId> =
            (0..self.values.len() as u32).map(ValueId).filter(unused).collect();
        while outputs.len() > MAX_OUTPUTS {
            let gone = self.rng.below(outputs.len());
            outputs.remove(gone);
        }
        outputs.extend(self.pick(|_| true));
        let graph = self.builder.finish(outputs);
        Ok(Case { graph, inputs: self.inputs, scalars: self.scalars })
    }
}

/// A value of at least `min_rank` dimensions.
fn any(g: &mut Generator, min_rank: usize, accepts: fn(DType) -> bool) -> Result<ValueId> {
    match g.pick(|ty| accepts(ty.dtype) && ty.rank() >= min_rank) {
        Some(v) if !g.rng.chance(0.1) => Ok(v),
        _ => {
            let dtypes: Vec<DType> = DTYPES.into_iter().filter(|&d| accepts(d)).collect();
            let ty = Ty { dtype: *g.rng.pick(&dtypes), sizes: g.sizes(min_rank) };
            g.fresh(&ty)
        }
    }
}

fn is_any(_: DType) -> bool {
    true
}
