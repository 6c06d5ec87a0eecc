//! Gather and scatter. Both address *rows* of an array: dimensions that no index addresses are left whole, the others
//! become one, whose positions are computed.

use super::integers;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::math::V;
use crate::invalid;
use crate::op::index::Reduction;
use crate::op::{Attr, Op};
use crate::shape::{Dims, contiguous_strides, numel};
use crate::stablehlo::attribute::Attribute;
use crate::stablehlo::body::{Body, logic};
use crate::stablehlo::lower::Call;
use crate::stablehlo::options::{dim, dims};
use crate::stablehlo::types::is_carried;
use crate::stablehlo::value::{Value, Values};
use smallvec::smallvec;

/// The dimension numbers of a gather, or those of a scatter by the same names.
struct Numbers {
    /// Dimensions of the windows in the result (of a scatter, in the updates), in the order of the operand's.
    offset: Vec<usize>,
    /// Dimensions of the operand with size 1 in a window, which lacks them.
    collapsed: Vec<usize>,
    /// Dimensions of the operand and of the indices that are iterated over together.
    batch: Vec<usize>,
    index_batch: Vec<usize>,
    /// The operand's dimension that each number of an index addresses.
    map: Vec<usize>,
    vector: usize,
}

impl Numbers {
    /// `names` are those of the fields in order. `rank` is the operand's, `out` that of the array with the windows.
    fn of(
        c: &Call<'_, '_, '_>,
        attr: &str,
        names: [&str; 6],
        rank: usize,
        out: usize,
    ) -> Result<Numbers> {
        let record = c.attr(&[attr])?;
        let list = |name: &str, rank: usize| -> Result<Vec<usize>> {
            match record.entry(name) {
                Some(value) => dims(&value.ints()?, rank).map_err(|e| e.within(name)),
                None => Ok(Vec::new()),
            }
        };
        let indices = c.x[1].v.rank();
        let vector = match record.entry(names[5]) {
            Some(Attribute::Int(n)) => *n,
            None => 0,
            Some(_) => return invalid!("`{}` is a number", names[5]),
        };
        if vector != indices as i64 {
            dim(vector, indices)?;
        }
        Ok(Numbers {
            offset: list(names[0], out)?,
            collapsed: list(names[1], rank)?,
            batch: list(names[2], rank)?,
            index_batch: list(names[3], indices)?,
            map: list(names[4], rank)?,
            vector: vector as usize,
        })
    }

    /// Dimensions of the operand that windows have.
    fn in_window(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|d| !self.collapsed.contains(d) && !self.batch.contains(d)).collect()
    }
}

/// How the dimensions of an operand form rows.
struct Rows {
    /// Dimensions of the operand that are addressed, and those that are left whole.
    addressed: Vec<usize>,
    whole: Vec<usize>,
    /// Sizes of `addressed`.
    sizes: Dims,
}

impl Rows {
    fn new(operand: &[i64], window: &[i64], numbers: &Numbers) -> Rows {
        let left_whole = |d: &usize| {
            window[*d] == operand[*d]
                && !numbers.map.contains(d)
                && !numbers.batch.contains(d)
                && !numbers.collapsed.contains(d)
        };
        let (whole, addressed): (Vec<usize>, Vec<usize>) = (0..operand.len()).partition(left_whole);
        let sizes = addressed.iter().map(|&d| operand[d]).collect();
        Rows { addressed, whole, sizes }
    }

    /// `[rows, whole…]`
    fn of<'m>(&self, v: V<'m>) -> V<'m> {
        let sizes = v.sizes();
        let order = self.addressed.iter().chain(&self.whole);
        let rows = [numel(&self.sizes)];
        let whole = self.whole.iter().map(|&d| sizes[d]);
        let flat: Dims = rows.into_iter().chain(whole).collect();
        v.transpose(&order.map(|&d| d as i64).collect::<Dims>()).reshape(&flat)
    }

    /// Back from [`Rows::of`] to an array of these sizes.
    fn back<'m>(&self, v: V<'m>, sizes: &[i64]) -> V<'m> {
        let order: Vec<usize> = self.addressed.iter().chain(&self.whole).copied().collect();
        let grouped: Dims = order.iter().map(|&d| sizes[d]).collect();
        let mut perm = Dims::from_elem(0, order.len());
        order.iter().enumerate().for_each(|(i, &d)| perm[d] = i as i64);
        v.reshape(&grouped).transpose(&perm)
    }

    /// The dimensions that windows have, in their order after a row's number.
    fn grouped(&self, in_window: &[usize]) -> Vec<usize> {
        let all = self.addressed.iter().chain(&self.whole).copied();
        all.filter(|d| in_window.contains(d)).collect()
    }
}

/// The row of each index and each position in a window, as i64 of sizes `[indices…, window…]`, where `window` has the
/// addressed dimensions that windows have; and whether it is in the operand. With `clamped`, windows are moved inside.
fn places<'m>(
    c: &Call<'_, '_, 'm>,
    numbers: &Numbers,
    rows: &Rows,
    operand: &[i64],
    window: &[i64],
    clamped: bool,
) -> Result<(V<'m>, Option<V<'m>>)> {
    let math = c.math();
    if !c.x[1].v.dtype().is_int() {
        return invalid!("indices are integers, not {}", c.x[1].dtype);
    }
    let index = integers::index(c.x[1]);
    let mut index_sizes = index.sizes();
    let index =
        if numbers.vector == index_sizes.len() { index.unsqueeze(numbers.vector) } else { index };
    index_sizes = index.sizes();
    if index_sizes[numbers.vector] != numbers.map.len() as i64 {
        return invalid!(
            "an index has {} numbers for {} dimensions",
            index_sizes[numbers.vector],
            numbers.map.len()
        );
    }
    let mut batch = index_sizes.clone();
    batch.remove(numbers.vector);
    let in_window: Vec<usize> = rows
        .addressed
        .iter()
        .copied()
        .filter(|d| numbers.in_window(operand.len()).contains(d))
        .collect();
    let all: Dims = batch.iter().copied().chain(in_window.iter().map(|&d| window[d])).collect();
    let spread = |v: V<'m>| {
        let padded: Dims = v.sizes().iter().copied().chain(in_window.iter().map(|_| 1)).collect();
        v.reshape(&padded)
    };
    let strides = contiguous_strides(&rows.sizes);
    let number = |n: i64| math.constant_int(n, DType::I64);
    let mut row = number(0);
    let mut inside: Option<V<'m>> = None;
    for (&d, &stride) in rows.addressed.iter().zip(&strides) {
        let mut at: Option<V<'m>> = None;
        let mut plus = |v: V<'m>| at = Some(at.map_or(v, |sum| sum + v));
        if let Some(n) = numbers.map.iter().position(|&m| m == d) {
            let start = spread(index.narrow(numbers.vector, n as i64, 1).reshape(&batch));
            plus(match clamped {
                true => start.max(number(0)).min(number((operand[d] - window[d]).max(0))),
                false => start,
            });
        }
        if let Some(n) = numbers.batch.iter().position(|&b| b == d) {
            let of_index = numbers.index_batch[n];
            // The dimension of an index's numbers is not one of the batch.
            let along = of_index - (of_index > numbers.vector) as usize;
            plus(spread(math.iota(&batch, along, DType::I64)));
        }
        if let Some(n) = in_window.iter().position(|&w| w == d) {
            plus(math.iota(&all, batch.len() + n, DType::I64));
        }
        math.check()?;
        if let Some(at) = at {
            if !clamped && numbers.map.contains(&d) {
                let fits = at.ge(number(0)).and(at.lt(number(operand[d])));
                inside = Some(inside.map_or(fits, |both| both.and(fits)));
            }
            row = row + at * number(stride);
        }
    }
    let wide = |v: V<'m>| v.broadcast(&all);
    Ok((wide(row), inside.map(wide)))
}

fn check_batches(numbers: &Numbers, operand: &[i64], indices: &[i64]) -> Result<()> {
    let alike = numbers.batch.len() == numbers.index_batch.len()
        && numbers
            .batch
            .iter()
            .zip(&numbers.index_batch)
            .all(|(&d, &i)| i != numbers.vector && operand[d] == indices[i]);
    match alike {
        true => Ok(()),
        false => invalid!("batching dimensions of operand and indices differ"),
    }
}

pub fn gather<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    let (x, ty) = (c.x[0], c.said()?);
    let operand = x.v.sizes();
    let names = [
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
        "index_vector_dim",
    ];
    let numbers = Numbers::of(c, "dimension_numbers", names, operand.len(), ty.rank())?;
    check_batches(&numbers, &operand, &c.x[1].v.sizes())?;
    let window = c.ints_or(&["slice_sizes"], 1, operand.len())?;
    for d in 0..operand.len() {
        let single = numbers.collapsed.contains(&d) || numbers.batch.contains(&d);
        if !(0..=operand[d]).contains(&window[d]) || single && window[d] != 1 {
            return invalid!("a window of {} in dimension {d} of {operand:?}", window[d]);
        }
    }
    let rows = Rows::new(&operand, &window, &numbers);
    let (row, _) = places(c, &numbers, &rows, &operand, &window, true)?;
    let taken = c.math().op(Op::Take, &[rows.of(x.v), row], smallvec![Attr::Int(0)]);
    c.math().check()?;
    // `taken` has the batch, the addressed dimensions of the window, and the whole ones.
    let in_window = numbers.in_window(operand.len());
    if numbers.offset.len() != in_window.len() {
        return invalid!(
            "{} offset dimensions for a window of {}",
            numbers.offset.len(),
            in_window.len()
        );
    }
    let n_batch = taken.rank() - in_window.len();
    let grouped = rows.grouped(&in_window);
    let perm = arranged(&numbers.offset, &in_window, &grouped, n_batch, ty.rank())?;
    Ok(vec![x.map(|_| taken.transpose(&perm))])
}

/// For each dimension of a result with windows at `offset`, its position in `[batch…, grouped…]`.
fn arranged(
    offset: &[usize],
    in_window: &[usize],
    grouped: &[usize],
    n_batch: usize,
    rank: usize,
) -> Result<Dims> {
    if n_batch + in_window.len() != rank {
        return invalid!("{rank} dimensions where {} are expected", n_batch + in_window.len());
    }
    let mut sorted = offset.to_vec();
    sorted.sort_unstable();
    let mut batch = 0..n_batch as i64;
    let place = |d: usize| match sorted.iter().position(|&o| o == d) {
        Some(n) => {
            let at = grouped.iter().position(|&g| g == in_window[n]);
            Some((n_batch + at?) as i64)
        }
        None => batch.next(),
    };
    let perm: Option<Dims> = (0..rank).map(place).collect();
    perm.ok_or_else(|| {
        crate::error::Error::new(crate::error::Code::InvalidArgument, "offset dimensions")
    })
}

pub fn scatter<'m>(c: &Call<'_, '_, 'm>) -> Result<Values<'m>> {
    if c.x.len() != 3 {
        return invalid!("one operand is supported, not {}", c.x.len() / 2);
    }
    let [x, update] = [c.x[0], c.x[2]];
    if x.dtype != update.dtype {
        return invalid!("updates of {} for an array of {}", update.dtype, x.dtype);
    }
    let operand = x.v.sizes();
    let names = [
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
        "index_vector_dim",
    ];
    let update_sizes = update.v.sizes();
    let numbers =
        Numbers::of(c, "scatter_dimension_numbers", names, operand.len(), update_sizes.len())?;
    check_batches(&numbers, &operand, &c.x[1].v.sizes())?;
    let in_window = numbers.in_window(operand.len());
    if numbers.offset.len() != in_window.len() {
        return invalid!("{} window dimensions for {}", numbers.offset.len(), in_window.len());
    }
    let mut offset = numbers.offset.clone();
    offset.sort_unstable();
    let mut window = Dims::from_elem(1, operand.len());
    in_window.iter().zip(&offset).for_each(|(&d, &o)| window[d] = update_sizes[o]);
    if let Some(d) = in_window.iter().find(|&&d| window[d] > operand[d]) {
        return invalid!("a window of {} in dimension {d} of {operand:?}", window[*d]);
    }
    let rows = Rows::new(&operand, &window, &numbers);
    let (row, inside) = places(c, &numbers, &rows, &operand, &window, false)?;
    let grouped = rows.grouped(&in_window);
    let perm = arranged(
        &offset,
        &in_window,
        &grouped,
        update_sizes.len() - offset.len(),
        update_sizes.len(),
    )?;
    // The inverse: from the updates to `[batch…, grouped…]`.
    let mut back = Dims::from_elem(0, perm.len());
    perm.iter().enumerate().for_each(|(d, &p)| back[p as usize] = d as i64);
    let base = rows.of(x.v);
    let count = row.numel();
    let row_sizes: Dims = base.sizes()[1..].into();
    let flat: Dims = [count].into_iter().chain(row_sizes.iter().copied()).collect();
    let grouped_sizes: Dims = back.iter().map(|&d| update_sizes[d as usize]).collect();
    if grouped_sizes.get(..row.rank()) != Some(&row.sizes()[..]) {
        return invalid!("the updates' sizes are not those of the indices");
    }
    let updates = update.v.transpose(&back).reshape(&flat);
    // Updates outside the operand are written to a row that is dropped.
    let n_rows = base.sizes()[0];
    let row = match inside {
        Some(inside) => inside.select(row, c.math().constant_int(n_rows, DType::I64)),
        None => row,
    };
    let spare: Dims = [1].into_iter().chain(row_sizes.iter().copied()).collect();
    let base = match inside {
        Some(_) => c.math().concat(&[base, c.math().zeros(base.dtype(), &spare)], 0),
        None => base,
    };
    let written = write(c, x, base, row.reshape(&[count]), updates)?;
    let kept = if inside.is_some() { written.narrow(0, 0, n_rows) } else { written };
    Ok(vec![x.map(|_| rows.back(kept, &operand))])
}

/// Merges the rows of `updates` into those of `base`.
fn write<'m>(
    c: &Call<'_, '_, 'm>,
    x: Value<'m>,
    base: V<'m>,
    row: V<'m>,
    updates: V<'m>,
) -> Result<V<'m>> {
    let how = match c.body(0)? {
        Body::Second => Reduction::Last,
        Body::One(op) => {
            let op = if x.dtype == DType::Bool { logic(op) } else { op };
            match op {
                Op::Add if !x.dtype.is_complex() => {
                    return Ok(c.math().op(
                        Op::IndexAdd,
                        &[base, row, updates],
                        smallvec![Attr::Int(0)],
                    ));
                }
                Op::Mul => Reduction::Product,
                Op::Max if !is_carried(x.dtype) => Reduction::Max,
                Op::Min if !is_carried(x.dtype) => Reduction::Min,
                Op::Or if x.dtype == DType::Bool => Reduction::Max,
                Op::And if x.dtype == DType::Bool => Reduction::Min,
                _ => return invalid!("not supported of {}", x.dtype),
            }
        }
        Body::Region(_) => {
            return invalid!("what this region does to two elements is not supported");
        }
    };
    // Logic of bools as extremes of bytes.
    let byte = |v: V<'m>| if x.dtype == DType::Bool { v.cast(DType::U8) } else { v };
    let mut wide = Dims::from_elem(1, updates.rank());
    wide[0] = row.numel();
    let index = row.reshape(&wide).broadcast(&updates.sizes());
    let attrs = smallvec![Attr::Int(0), how.attr()];
    let written = c.math().op(Op::Scatter, &[byte(base), index, byte(updates)], attrs);
    Ok(written.cast(base.dtype()))
}
