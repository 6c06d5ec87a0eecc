//! Primitives that read or write at the places in an array of indices. An index out of range (negative ones too) is an
//! `IndexError`.

use super::array::Array;
use super::{Attr, Eval, Op, Ty, Tys, check, pointwise};
use crate::error::{Code, Error, Result};
use crate::invalid;
use crate::shape::{Dims, Layout, contiguous_strides, numel};

pub const TAKE: Eval = Eval::Whole(take);
pub const INDEX_ADD: Eval = Eval::Whole(index_add);
pub const GATHER: Eval = Eval::Whole(gather);
pub const SCATTER: Eval = Eval::Whole(scatter);

/// The reduction of elements that are scattered to one place: the last of them, or all with the element there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    Last,
    Sum,
    Product,
    Max,
    Min,
}

/// Names of the reductions, in order.
pub const REDUCTIONS: [&str; 5] = ["last", "sum", "product", "max", "min"];

impl Reduction {
    pub const ALL: [Reduction; 5] =
        [Reduction::Last, Reduction::Sum, Reduction::Product, Reduction::Max, Reduction::Min];

    pub fn attr(self) -> Attr {
        Attr::Int(self as i64)
    }

    /// The reduction in a scatter's attributes.
    pub fn of(attrs: &[Attr]) -> Reduction {
        Reduction::ALL[attrs[1].int() as usize]
    }
}

// ---- types

fn one_axis(attrs: &[Attr], rank: usize) -> Result<usize> {
    let [Attr::Int(axis)] = attrs else {
        return check::wrong_attrs("axis: int", attrs);
    };
    check::axis(*axis, rank)
}

pub fn take_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x, index] = inputs else {
        return check::wrong_operands("x, index", inputs);
    };
    let axis = one_axis(attrs, x.rank())?;
    check::index(index.dtype)?;
    let mut sizes: Dims = x.sizes[..axis].into();
    sizes.extend_from_slice(&index.sizes);
    sizes.extend_from_slice(&x.sizes[axis + 1..]);
    check::one(x.dtype, &sizes)
}

pub fn index_add_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [base, index, x] = inputs else {
        return check::wrong_operands("base, index, x", inputs);
    };
    let axis = one_axis(attrs, base.rank())?;
    check::index(index.dtype)?;
    check::rank(index, 1, "index")?;
    check::same_dtype(base, x)?;
    check::number(base.dtype)?;
    let mut wanted = base.sizes.clone();
    wanted[axis] = index.sizes[0];
    check::sizes(x, &wanted, "the source")?;
    check::one(base.dtype, &base.sizes)
}

/// Torch's rule for gather and scatter: equal ranks, and apart from `axis` the index is nowhere larger.
fn fits(index: &Ty, x: &Ty, axis: usize, what: &str) -> Result<()> {
    check::index(index.dtype)?;
    if index.rank() != x.rank() {
        return invalid!("Index tensor must have the same number of dimensions as {what} tensor");
    }
    match (0..x.rank()).find(|&d| d != axis && index.sizes[d] > x.sizes[d]) {
        None => Ok(()),
        Some(d) => invalid!(
            "Size does not match at dimension {d} expected index {:?} to be no larger than {what} {:?} apart from \
             dimension {axis}",
            index.sizes,
            x.sizes
        ),
    }
}

pub fn gather_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x, index] = inputs else {
        return check::wrong_operands("x, index", inputs);
    };
    let axis = one_axis(attrs, x.rank())?;
    fits(index, x, axis, "self")?;
    check::one(x.dtype, &index.sizes)
}

pub fn scatter_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [base, index, x] = inputs else {
        return check::wrong_operands("base, index, x", inputs);
    };
    let [axis, Attr::Int(reduction @ 0..5)] = attrs else {
        return check::wrong_attrs("axis: int, reduction: int below 5", attrs);
    };
    let axis = one_axis(std::slice::from_ref(axis), base.rank())?;
    fits(index, base, axis, "self")?;
    check::same_dtype(base, x)?;
    check::sizes(x, &index.sizes, "the source")?;
    if *reduction != Reduction::Last as i64 {
        check::number(base.dtype)?;
    }
    check::one(base.dtype, &base.sizes)
}

// ---- meanings

/// `NO_ROW + dimension` stands for several indices, of which that for the dimension is out of range.
pub const NO_ROW: i64 = i64::MIN;

/// The error of a primitive that meets an index out of range, in PyTorch's words.
pub fn out_of_range(op: Op, index: i64, axis: usize, size: i64) -> Error {
    let text = match (op, index.wrapping_sub(NO_ROW)) {
        (_, dimension @ 0..64) => format!("an index is out of bounds for dimension {dimension}"),
        _ => format!("index {index} is out of bounds for dimension {axis} with size {size}"),
    };
    Error::new(
        Code::IndexError,
        match op {
            Op::Take | Op::IndexAdd => format!("index out of range in self: {text}"),
            _ => text,
        },
    )
}

/// Checks indices along a dimension.
pub fn in_range(op: Op, axis: usize, size: i64) -> impl Fn(i64) -> Result<usize> {
    move |i| match (0..size).contains(&i) {
        true => Ok(i as usize),
        false => Err(out_of_range(op, i, axis, size)),
    }
}

/// Reductions in f64 or wrapping i64 to the elements of an array, rounded once at the end.
struct Reduced {
    ty: Ty,
    floats: Vec<f64>,
    ints: Vec<i64>,
}

impl Reduced {
    fn of(base: &Array) -> Reduced {
        let all = 0..base.len();
        let (mut floats, mut ints) = (Vec::new(), Vec::new());
        if base.ty.dtype.is_float() {
            floats = all.map(|i| base.f64(i)).collect();
        } else {
            ints = all.map(|i| base.i64(i)).collect();
        }
        Reduced { ty: base.ty.clone(), floats, ints }
    }

    /// Reduces element `from` of `x` into element `to`.
    fn take(&mut self, how: Reduction, to: usize, x: &Array, from: usize) {
        if self.ty.dtype.is_float() {
            let (a, b) = (self.floats[to], x.f64(from));
            self.floats[to] = match how {
                Reduction::Last => b,
                Reduction::Sum => a + b,
                Reduction::Product => a * b,
                Reduction::Max => pointwise::max(&[a, b]),
                Reduction::Min => pointwise::min(&[a, b]),
            };
        } else {
            let (a, b) = (self.ints[to], x.i64(from));
            self.ints[to] = match how {
                Reduction::Last => b,
                Reduction::Sum => a.wrapping_add(b),
                Reduction::Product => a.wrapping_mul(b),
                Reduction::Max => a.max(b),
                Reduction::Min => a.min(b),
            };
        }
    }

    fn round(self) -> Array {
        let mut y = Array::zeros(&self.ty);
        self.floats.iter().enumerate().for_each(|(i, &v)| y.set_f64(i, v));
        self.ints.iter().enumerate().for_each(|(i, &v)| y.set_i64(i, v));
        y
    }
}

/// Elements before, along and after `axis`: a dense array as `[outer, size, inner]`.
fn around(ty: &Ty, axis: usize) -> (usize, usize, usize) {
    let (outer, inner) = (numel(&ty.sizes[..axis]), numel(&ty.sizes[axis + 1..]));
    (outer as usize, ty.sizes[axis] as usize, inner as usize)
}

fn take(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let (x, index) = (x[0], x[1]);
    let axis = attrs[0].int() as usize;
    let (_, size, inner) = around(&x.ty, axis);
    let row = in_range(Op::Take, axis, size as i64);
    let rows: Vec<usize> = (0..index.len()).map(|i| row(index.i64(i))).collect::<Result<_>>()?;
    let mut y = Array::zeros(&outs[0]);
    for i in 0..y.len() {
        let (outer, row, rest) = (i / inner / rows.len(), i / inner % rows.len(), i % inner);
        y.set_raw(i, x.raw((outer * size + rows[row]) * inner + rest));
    }
    Ok(vec![y])
}

fn index_add(x: &[&Array], attrs: &[Attr], _: &[Ty]) -> Result<Vec<Array>> {
    let (base, index, x) = (x[0], x[1], x[2]);
    let axis = attrs[0].int() as usize;
    let (outer, size, inner) = around(&base.ty, axis);
    let in_base = in_range(Op::IndexAdd, axis, size as i64);
    let mut sums = Reduced::of(base);
    let count = index.len();
    for n in 0..count {
        let row = in_base(index.i64(n))?;
        for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
            sums.take(Reduction::Sum, (o * size + row) * inner + i, x, (o * count + n) * inner + i);
        }
    }
    Ok(vec![sums.round()])
}

/// For every element of `index`, in order: the flat index it names in an array of type `x`.
fn targets(x: &Ty, index: &Array, axis: usize) -> Result<Vec<usize>> {
    let mut strides = contiguous_strides(&x.sizes);
    let along = std::mem::replace(&mut strides[axis], 0);
    let places = Layout { sizes: index.ty.sizes.clone(), strides, offset: 0 };
    let in_x = in_range(Op::Gather, axis, x.sizes[axis]);
    let target = |(n, place)| Ok(place as usize + in_x(index.i64(n))? * along as usize);
    places.indices().enumerate().map(target).collect()
}

fn gather(x: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let mut y = Array::zeros(&outs[0]);
    for (to, from) in targets(&x[0].ty, x[1], attrs[0].int() as usize)?.into_iter().enumerate() {
        y.set_raw(to, x[0].raw(from));
    }
    Ok(vec![y])
}

fn scatter(x: &[&Array], attrs: &[Attr], _: &[Ty]) -> Result<Vec<Array>> {
    let (base, index, x) = (x[0], x[1], x[2]);
    let targets = targets(&base.ty, index, attrs[0].int() as usize)?;
    let how = Reduction::of(attrs);
    if how != Reduction::Last {
        let mut reduced = Reduced::of(base);
        targets.into_iter().enumerate().for_each(|(from, to)| reduced.take(how, to, x, from));
        return Ok(vec![reduced.round()]);
    }
    let mut y = base.clone();
    targets.into_iter().enumerate().for_each(|(from, to)| y.set_raw(to, x.raw(from)));
    Ok(vec![y])
}
