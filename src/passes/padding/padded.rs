//! Values with padding, and the graph in which they are built: dimensions, numbers that depend on sizes, masks.

use super::Stop;
use super::axes::{Axis, Origin, Part, Size, flattened};
use super::points::Points;
use crate::dtype::DType;
use crate::graph::{Builder, Node, ValueId};
use crate::op::array::{Array, integer_range};
use crate::op::{Attr, Attrs, Op, Ty};
use crate::shape::Dims;
use smallvec::smallvec;
use std::collections::{BTreeMap, HashMap};

/// For a dimension of a node, the sizes of the parts that it is to be made of.
pub type Splits = HashMap<(u32, u32), Vec<Size>>;

/// The content of a value's padding. There is no "finite": one product with a parameter would end it.
#[derive(Clone, Debug, PartialEq)]
pub enum Pad {
    /// Every element of the value, padding or not, is this number (rank 0).
    Uniform(Array),
    /// This number.
    Const(Array),
    /// Anything.
    Any,
}

/// A value of the padded graph: the parts of its dimensions say where element `i` of the original value is.
#[derive(Clone, Debug)]
pub struct PaddedValue {
    pub id: ValueId,
    pub axes: Vec<Axis>,
    pub pad: Pad,
}

impl PaddedValue {
    pub fn varies(&self) -> bool {
        self.axes.iter().any(Axis::varies)
    }
}

/// The number that padding is filled with.
#[derive(Clone, Copy, Debug)]
pub enum Fill {
    Zero,
    One,
    /// The least of the dtype: -infinity, or the least integer.
    Lowest,
    Highest,
}

impl Fill {
    fn number(self, dtype: DType) -> Array {
        let mut number = Array::zeros(&Ty::new(dtype, &[]));
        match (self, dtype) {
            (Fill::Zero, _) => {}
            (Fill::One, _) => number.set_i64(0, 1),
            (Fill::Lowest, d) if d.is_float() => number.set_f64(0, f64::NEG_INFINITY),
            (Fill::Highest, d) if d.is_float() => number.set_f64(0, f64::INFINITY),
            (Fill::Lowest, _) => number.set_i64(0, integer_range(dtype).0),
            (Fill::Highest, _) => number.set_i64(0, integer_range(dtype).1),
        }
        number
    }
}

/// A size argument: a number that every run passes to the padded graph, in an i64 or f64 slot of the argument block.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeArg {
    pub dtype: DType,
    /// Its value in the trace in hand.
    pub bits: u64,
    /// Its value at every point but the bucket: equal numbers share a slot.
    values: Vec<u64>,
}

pub struct Pass<'a> {
    pub points: &'a Points<'a>,
    pub b: Builder,
    pub(super) values: Vec<PaddedValue>,
    splits: &'a Splits,
    first_slot: u32,
    pub(super) size_args: Vec<SizeArg>,
    pub(super) inputs: BTreeMap<u32, Vec<Axis>>,
}

impl<'a> Pass<'a> {
    /// Numbers that masks need are passed in slots from `first_slot` on.
    pub fn new(points: &'a Points<'a>, splits: &'a Splits, first_slot: u32) -> Pass<'a> {
        let graph = points.here();
        Pass {
            points,
            b: Builder::rewriting(graph),
            values: Vec::with_capacity(graph.values.len()),
            splits,
            first_slot,
            size_args: Vec::new(),
            inputs: BTreeMap::new(),
        }
    }

    pub fn value(&self, v: ValueId) -> &PaddedValue {
        &self.values[v.0 as usize]
    }

    pub fn operands(&self, node: &Node) -> Vec<PaddedValue> {
        node.inputs.iter().map(|v| self.value(*v).clone()).collect()
    }

    // ---- dimensions

    /// A dimension that node `n` introduces: it may be cut as others need it.
    pub fn source(&self, n: usize, dim: usize, size: &Size) -> Axis {
        let mut axis = Axis::default();
        let cut = self.splits.get(&(n as u32, dim as u32));
        let sizes = cut.map_or(std::slice::from_ref(size), Vec::as_slice);
        for (part, size) in sizes.iter().enumerate() {
            let origin = Origin { node: n as u32, dim: dim as u32, part: part as u32 };
            axis.push(Part { size: size.clone(), origin: Some(origin) });
        }
        axis
    }

    pub fn sources(&self, n: usize, sizes: &[Size]) -> Vec<Axis> {
        sizes.iter().enumerate().map(|(dim, size)| self.source(n, dim, size)).collect()
    }

    pub fn note_input(&mut self, leaf: u32, axes: &[Axis]) {
        self.inputs.insert(leaf, axes.to_vec());
    }

    // ---- building

    pub fn op(&mut self, op: Op, inputs: &[ValueId], attrs: Attrs) -> Result<ValueId, Stop> {
        Ok(self.b.op(op, inputs, attrs)?)
    }

    /// A rank-0 constant.
    pub fn number(&mut self, number: &Array) -> Result<ValueId, Stop> {
        let dtype = number.ty.dtype;
        Ok(match dtype.is_float() {
            true => self.b.constant(number.f64(0), dtype)?,
            false => self.b.constant_int(number.i64(0), dtype)?,
        })
    }

    /// A size of the trace that runs, as `dtype`, rank 0.
    pub fn size(&mut self, size: &Size, dtype: DType) -> Result<ValueId, Stop> {
        if let Some(n) = size.fixed() {
            return Ok(self.b.constant_int(n, dtype)?);
        }
        let known = &size.values()[..size.values().len() - 1];
        let size_arg = self.size_arg(DType::I64, known.iter().map(|&n| n as u64).collect())?;
        Ok(self.b.cast(size_arg, dtype)?)
    }

    /// A number that is passed with every run, given by its bits at every point but the bucket.
    pub fn size_arg(&mut self, dtype: DType, values: Vec<u64>) -> Result<ValueId, Stop> {
        let size_arg = SizeArg { dtype, bits: values[values.len() - 1], values };
        let slot =
            self.size_args.iter().position(|known| *known == size_arg).unwrap_or_else(|| {
                self.size_args.push(size_arg);
                self.size_args.len() - 1
            });
        Ok(self.b.scalar(self.first_slot + slot as u32, dtype)?)
    }

    /// Element `[…, i, …]` is `i`, along one of `dims`; i64.
    pub fn along(&mut self, dims: &[i64], dim: usize) -> Result<ValueId, Stop> {
        let count: Dims = smallvec![dims[dim]];
        let attrs = smallvec![Attr::Ints(count), Attr::Int(0), Attr::DType(DType::I64)];
        let line = self.op(Op::Iota, &[], attrs)?;
        self.spread(line, dims, dim)
    }

    /// A line of numbers along one of `dims`, repeated along the others.
    pub fn spread(&mut self, line: ValueId, dims: &[i64], dim: usize) -> Result<ValueId, Stop> {
        let mut column = Dims::from_elem(1, dims.len());
        column[dim] = dims[dim];
        let column = self.b.reshape(line, &column)?;
        Ok(self.b.broadcast(column, dims)?)
    }

    // ---- masks

    /// Mask of the elements of an array with these parts that are not padding; one dimension for each part. `None` if all are.
    pub fn valid(&mut self, parts: &Axis) -> Result<Option<ValueId>, Stop> {
        let dims = part_dims(parts);
        let mut all = None;
        for (dim, part) in parts.0.iter().enumerate().filter(|(_, part)| part.varies()) {
            let line = self.along(&[dims[dim]], 0)?;
            let end = self.size(&part.size, DType::I64)?;
            let end = self.b.broadcast(end, &[dims[dim]])?;
            let inside = self.b.binary(Op::Lt, line, end)?;
            let inside = self.spread(inside, &dims, dim)?;
            all = Some(match all {
                Some(others) => self.b.binary(Op::And, others, inside)?,
                None => inside,
            });
        }
        Ok(all)
    }

    /// The value with its padding filled.
    pub fn clean(&mut self, padded_value: &PaddedValue, fill: Fill) -> Result<PaddedValue, Stop> {
        let all: Vec<usize> = (0..padded_value.axes.len()).collect();
        self.clean_along(padded_value, &all, fill)
    }

    /// [`Pass::clean`], but only beyond the end of these dimensions.
    pub fn clean_along(
        &mut self,
        padded_value: &PaddedValue,
        along: &[usize],
        fill: Fill,
    ) -> Result<PaddedValue, Stop> {
        let number = fill.number(self.b.ty(padded_value.id).dtype);
        let is_clean = |pad: &Pad| matches!(pad, Pad::Const(n) | Pad::Uniform(n) if *n == number);
        if !along.iter().any(|&d| padded_value.axes[d].varies()) || is_clean(&padded_value.pad) {
            return Ok(padded_value.clone());
        }
        let filling = self.number(&number)?;
        let id =
            self.choose(padded_value, along, |pass, dims| Ok(pass.b.broadcast(filling, dims)?))?;
        let all = (0..padded_value.axes.len())
            .all(|d| along.contains(&d) || !padded_value.axes[d].varies());
        let pad = if all { Pad::Const(number) } else { Pad::Any };
        Ok(PaddedValue { id, pad, ..padded_value.clone() })
    }

    /// The value where it is not padding along some dimensions, elsewhere the result of `other`, of the sizes given to it.
    pub fn choose(
        &mut self,
        padded_value: &PaddedValue,
        along: &[usize],
        other: impl FnOnce(&mut Pass, &[i64]) -> Result<ValueId, Stop>,
    ) -> Result<ValueId, Stop> {
        let (mut parts, mut masked) = (Axis::default(), Axis::default());
        for (d, axis) in padded_value.axes.iter().enumerate() {
            for part in &axis.0 {
                let size = match along.contains(&d) {
                    true => part.size.clone(),
                    false => Size::constant(part.size.bucket(), &part.size),
                };
                // Not joined: one dimension for each part.
                parts.0.push(part.clone());
                masked.0.push(Part { size, origin: None });
            }
        }
        let sizes = part_dims(&parts);
        let Some(valid) = self.valid(&masked)? else { return Ok(padded_value.id) };
        let cut = self.b.reshape(padded_value.id, &sizes)?;
        let other = other(self, &sizes)?;
        let chosen = self.b.select(valid, cut, other)?;
        Ok(self.b.reshape(chosen, &dims(&padded_value.axes))?)
    }

    /// The index of every element among those of the original value; i64, one dimension for each part.
    /// Indices of padding are below the number of elements with padding.
    pub fn places(&mut self, axes: &[Axis]) -> Result<ValueId, Stop> {
        let parts = flattened(axes);
        let sizes = part_dims(&parts);
        let zero = self.b.constant_int(0, DType::I64)?;
        let mut sum = self.b.broadcast(zero, &sizes)?;
        let mut stride = self.points.one();
        for (dim, part) in parts.0.iter().enumerate().rev() {
            let index = self.along(&sizes, dim)?;
            let step = self.size(&stride, DType::I64)?;
            let step = self.b.broadcast(step, &sizes)?;
            let way = self.b.binary(Op::Mul, index, step)?;
            sum = self.b.binary(Op::Add, sum, way)?;
            stride = stride.times(&part.size);
        }
        Ok(sum)
    }
}

/// A dimension of a size that is never cut.
pub fn whole(size: Size) -> Axis {
    Axis::of(Part { size, origin: None })
}

/// The padded sizes.
pub fn dims(axes: &[Axis]) -> Dims {
    axes.iter().map(Axis::bucket).collect()
}

fn part_dims(parts: &Axis) -> Dims {
    parts.0.iter().map(|part| part.size.bucket()).collect()
}
