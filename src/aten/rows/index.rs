//! Joining, picking and scattering.

use super::pointwise::finite;
use super::{PLAIN, always};
use crate::aten::call::Call;
use crate::aten::call::{wide, wrap_dim};
use crate::aten::facts::{CHECKS_INTEGERS, ONE_FLOAT, REFUSES_OF_NOTHING};
use crate::aten::promote::{Operand, result_type};
use crate::aten::{Outs, Row, complex, row};
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::graph::Guard;
use crate::graph::math::{V, together};
use crate::invalid;
use crate::op::expect::Expectation;
use crate::op::index::Reduction;
use crate::op::{Attr, Op};
use crate::record::Arg;
use crate::shape::Dims;
use smallvec::smallvec;

pub const ROWS: &[Row] = &[
    row("cat", PLAIN, cat).moves().complex(),
    row("stack", PLAIN, stack).moves().complex(),
    row("repeat", PLAIN, repeat).moves(),
    row("flip", PLAIN, flip).complex(),
    row("roll", PLAIN, roll).moves(),
    row("tril", PLAIN, |c| triangle(c, Op::Le)).complex(),
    row("triu", PLAIN, |c| triangle(c, Op::Ge)).complex(),
    row("index_select", PLAIN, index_select).refuses(always).complex(),
    row("embedding", PLAIN, embedding).refuses(always).complex(),
    row("embedding_dense_backward", PLAIN, embedding_backward).refuses(always),
    row("gather", PLAIN, gather).refuses(always).complex(),
    row("scatter", &["src", "value", "src_out", "value_out"], |c| scatter(c, Reduction::Last))
        .refuses(always)
        .complex(),
    row("scatter_add", PLAIN, |c| scatter(c, Reduction::Sum)).refuses(always).complex(),
    row("index_add", PLAIN, index_add).refuses(always).complex(),
    row("index_copy", PLAIN, index_copy)
        .refuses(always)
        .facts(CHECKS_INTEGERS | ONE_FLOAT)
        .complex(),
    row(
        "index_fill",
        &["int_Scalar", "int_Tensor", "int_Scalar_out", "int_Tensor_out"],
        index_fill,
    )
    .refuses(always)
    .facts(CHECKS_INTEGERS)
    .complex(),
    row("take", PLAIN, |c| {
        let (x, index) = (c.tensor(0)?, c.tensor(1)?);
        let n = x.numel();
        Ok(vec![take(x.reshape(&[n]), from_the_end(index, n), 0)])
    })
    .refuses(always)
    .facts(CHECKS_INTEGERS)
    .complex(),
    row("put", PLAIN, put).refuses(always).facts(CHECKS_INTEGERS | REFUSES_OF_NOTHING).complex(),
    row("linalg_cross", PLAIN, cross).complex(),
    row("masked_scatter", PLAIN, |c| {
        let (x, mask, source) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
        Ok(vec![masked_scatter(x, mask.cast(DType::Bool), source)])
    })
    .refuses(always)
    .complex(),
    row("masked_scatter_backward", PLAIN, masked_scatter_backward).refuses(always),
];

/// `x` with at least one dimension.
pub fn at_least_1d(x: V) -> V {
    if x.rank() == 0 { x.reshape(&[1]) } else { x }
}

/// The dtype in which elements are summed: bools are counted.
pub fn sum_dtype(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::I32 } else { wide(dtype) }
}

/// `base` with the rows of `x` along `dim` added to the rows that `index`, of one dimension, names.
pub fn rows_added<'a>(base: V<'a>, index: V<'a>, x: V<'a>, dim: usize) -> V<'a> {
    if base.dtype().is_complex() {
        return complex::by_part([base, x], |[base, x]| rows_added(base, index, x, dim));
    }
    base.math().op(Op::IndexAdd, &[base, index, x], smallvec![Attr::Int(dim as i64)])
}

/// `base` with the elements of `x` along `dim` at the places in `index`, of its sizes, or reduced with the elements there.
pub fn scattered<'a>(base: V<'a>, index: V<'a>, x: V<'a>, dim: usize, how: Reduction) -> V<'a> {
    if how == Reduction::Sum && base.dtype().is_complex() {
        return complex::by_part([base, x], |[base, x]| {
            let both = index.unsqueeze(index.rank()).broadcast(&x.sizes());
            scattered(base, both, x, dim, how)
        });
    }
    if how == Reduction::Sum
        && let Some(rows) = as_rows(base, index, dim)
    {
        return rows_added(base, rows, x, dim);
    }
    let attrs = smallvec![Attr::Int(dim as i64), how.attr()];
    base.math().op(Op::Scatter, &[base, index, x], attrs)
}

/// The row numbers, of one dimension, if `index` is the same for all elements of a row of `base` along `dim`. Whole rows are
/// read and added much faster than elements.
fn as_rows<'a>(base: V<'a>, index: V<'a>, dim: usize) -> Option<V<'a>> {
    let math = base.math();
    let column = math.graph(|graph| {
        let maker = graph.maker(index.id);
        (maker.op == Op::Broadcast).then(|| math.wrap(maker.inputs[0]))
    })?;
    let (sizes, of_base) = (index.sizes(), base.sizes());
    let &n = sizes.get(dim)?;
    let differs = |d: usize| d != dim && sizes[d] != of_base[d];
    let is_as_deep = column.rank() == sizes.len() && sizes.len() == of_base.len();
    if !is_as_deep || (0..sizes.len()).any(differs) || index.numel() <= n {
        return None;
    }
    let is_column = column.numel() == n && column.sizes().get(dim) == Some(&n);
    is_column.then(|| column.reshape(&[n]))
}

/// The first elements of `x` along all dimensions, of these sizes.
pub fn beginning<'a>(x: V<'a>, sizes: &[i64]) -> V<'a> {
    let rank = x.rank();
    x.slice(&Dims::from_elem(0, rank), sizes, &Dims::from_elem(1, rank))
}

/// The tensors of a list, promoted to one dtype.
fn promoted<'a>(c: &Call<'a>) -> Result<Vec<V<'a>>> {
    let parts = c.list(0)?;
    let operand = |v: &V| Operand::Tensor { dtype: v.dtype(), rank: v.rank() };
    let Some(first) = parts.first().map(|v| v.dtype()) else {
        return invalid!("expected a non-empty list of Tensors");
    };
    if parts.iter().all(|v| v.dtype() == first) {
        return Ok(parts);
    }
    let operands: Vec<Operand> = parts.iter().map(operand).collect();
    let dtype = result_type(&operands, c.default_float());
    Ok(parts.into_iter().map(|v| v.cast(dtype)).collect())
}

/// `(tensors, dim)`. Tensors of sizes [0] are ignored whatever the rank of the others, as always in PyTorch.
fn cat<'a>(c: &Call<'a>) -> Outs<'a> {
    let all = promoted(c)?;
    let parts: Vec<V> = all.iter().copied().filter(|v| v.sizes()[..] != [0]).collect();
    let Some(first) = parts.first() else {
        return Ok(vec![all[0]]);
    };
    let dim = c.dim(1, 0, first.rank())?;
    Ok(vec![c.math.concat(&parts, dim)])
}

fn stack<'a>(c: &Call<'a>) -> Outs<'a> {
    let parts = promoted(c)?;
    let dim = wrap_dim(c.int(1, 0)?, parts[0].rank() + 1)?;
    let parts: Vec<V> = parts.into_iter().map(|v| v.unsqueeze(dim)).collect();
    Ok(vec![c.math.concat(&parts, dim)])
}

/// Every dimension becomes two, the first of them the repetition.
fn repeat<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let times = c.ints(1)?.unwrap_or_default();
    let Some(lead) = times.len().checked_sub(x.rank()) else {
        return invalid!(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        );
    };
    let sizes = x.sizes();
    let size = |d: usize| if d < lead { 1 } else { sizes[d - lead] };
    let apart: Dims = (0..times.len()).flat_map(|d| [1, size(d)]).collect();
    let spread: Dims = (0..times.len()).flat_map(|d| [times[d], size(d)]).collect();
    let joined: Dims = (0..times.len()).map(|d| times[d].saturating_mul(size(d))).collect();
    Ok(vec![x.reshape(&apart).broadcast(&spread).reshape(&joined)])
}

fn flip<'a>(c: &Call<'a>) -> Outs<'a> {
    let mut x = c.tensor(0)?;
    if x.rank() == 0 {
        return Ok(vec![x]);
    }
    for dim in c.ints(1)?.unwrap_or_default() {
        let dim = wrap_dim(dim, x.rank())?;
        let size = x.sizes()[dim];
        let backwards = (size - 1) as f64 - c.math.iota(&[size], 0, DType::I64);
        x = take(x, backwards, dim);
    }
    Ok(vec![x])
}

/// `(self, shifts, dims)`; without dims the flat elements are rolled.
fn roll<'a>(c: &Call<'a>) -> Outs<'a> {
    let x = c.tensor(0)?;
    let (shifts, dims) = (c.ints(1)?.unwrap_or_default(), c.ints(2)?.unwrap_or_default());
    if x.numel() == 0 {
        return Ok(vec![x]);
    }
    if dims.is_empty() {
        let shift = shifts.first().copied().unwrap_or(0);
        return Ok(vec![rolled(x.reshape(&[x.numel()]), shift, 0).reshape(&x.sizes())]);
    }
    let mut y = x;
    for (&shift, &dim) in shifts.iter().zip(&dims) {
        y = rolled(y, shift, wrap_dim(dim, x.rank())?);
    }
    Ok(vec![y])
}

/// Moves the last `shift` elements of `dim` to the front.
fn rolled(x: V, shift: i64, dim: usize) -> V {
    let size = x.sizes().get(dim).copied().unwrap_or(1);
    let shift = shift.rem_euclid(size);
    let (least, most) = if shift == 0 { (0, 0) } else { (1, size - 1) };
    x.math().guard(Guard::between(least, shift, most));
    match shift {
        0 => x,
        shift => {
            let parts = [x.narrow(dim, size - shift, shift), x.narrow(dim, 0, size - shift)];
            x.math().concat(&parts, dim)
        }
    }
}

/// Keeps the elements for which `side` holds between column and row + diagonal.
fn triangle<'a>(c: &Call<'a>, side: Op) -> Outs<'a> {
    let x = c.tensor(0)?;
    let sizes = x.sizes();
    let &[.., rows, columns] = &sizes[..] else {
        return invalid!("input tensor must have at least 2 dimensions");
    };
    let row = c.math.iota(&[rows, columns], 0, DType::I64);
    let column = c.math.iota(&[rows, columns], 1, DType::I64);
    let limit = row + c.math.constant_int(c.int(1, 0)?, DType::I64);
    Ok(vec![column.binary(side, limit).select(x, 0.0)])
}

/// The rows of `x` along `dim` that `index`, of any sizes, names.
pub fn take<'a>(x: V<'a>, index: V<'a>, dim: usize) -> V<'a> {
    x.math().op(Op::Take, &[x, index], smallvec![Attr::Int(dim as i64)])
}

/// `(self, dim, index)`
fn index_select<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, index) = (c.tensor(0)?, c.tensor(2)?);
    let y = take(at_least_1d(x), index.reshape(&[index.numel()]), c.dim(1, 0, x.rank())?);
    Ok(vec![if x.rank() == 0 { y.reshape(&[]) } else { y }])
}

/// `(weight, indices, padding_idx, scale_grad_by_freq, sparse)`: the last three are about the
/// gradient.
fn embedding<'a>(c: &Call<'a>) -> Outs<'a> {
    let (table, index) = (c.tensor(0)?, c.tensor(1)?);
    let y = take(table, index, 0);
    if !c.is_differentiated() {
        return Ok(vec![y]);
    }
    let column = |v: V<'a>| v.unsqueeze(v.rank());
    let padding = c.int(2, -1)?;
    let y = match padding >= 0 {
        true => y.moving_where(column(index.ne(c.math.constant_int(padding, index.dtype())))),
        false => y,
    };
    Ok(vec![if c.bool(3, false)? { by_frequency(y, index, table)? } else { y }])
}

/// Rows that `index` took of a table, with slopes divided by the number of times that it took each. Errors:
/// `Unsupported` for complex numbers.
pub fn by_frequency<'a>(rows: V<'a>, index: V<'a>, table: V<'a>) -> Result<V<'a>> {
    if rows.dtype().is_complex() {
        let message = "embedding: a gradient of complex numbers by frequency";
        return Err(Error::new(Code::Unsupported, message));
    }
    if !rows.dtype().is_float() {
        return Ok(rows);
    }
    let (dtype, compute) = (rows.dtype(), wide(rows.dtype()));
    let times = times_of(index.reshape(&[index.numel()]), table.sizes()[0], compute);
    let times = times.reshape(&index.sizes()).unsqueeze(index.rank());
    let shares = finite(rows).select(rows, 0.0).cast(compute) / times;
    Ok(rows.detached().adding_slope_of(shares.cast(dtype)))
}

/// The number of times that each index of a list, of `rows` rows, is in it.
fn times_of<'a>(index: V<'a>, rows: i64, dtype: DType) -> V<'a> {
    let math = index.math();
    let ones = math.full(1.0, dtype, &index.sizes());
    take(rows_added(math.zeros(dtype, &[rows]), index, ones, 0), index, 0)
}

/// `(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)`: repeated rows are summed in f32 at least.
fn embedding_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (dy, index) = (c.tensor(0)?, c.tensor(1)?);
    let (dtype, compute) = (dy.dtype(), wide(dy.dtype()));
    let (rows, n) = (c.int(2, 0)?, index.numel());
    let Some(&width) = dy.sizes().last() else {
        return invalid!("the gradient of an embedding has at least one dimension");
    };
    let index = index.reshape(&[n]);
    let mut dy = dy.reshape(&[n, width]).cast(compute);
    let column = |v: V<'a>| v.reshape(&[n, 1]);
    let padding = c.int(3, -1)?;
    if padding >= 0 {
        let real = index.ne(c.math.constant_int(padding, index.dtype()));
        dy = column(real).select(dy, 0.0);
    }
    if c.bool(4, false)? {
        dy = dy / column(times_of(index, rows, compute));
    }
    let zeros = c.math.full(0.0, compute, &[rows, width]);
    Ok(vec![c.math.op(Op::IndexAdd, &[zeros, index, dy], smallvec![Attr::Int(0)]).cast(dtype)])
}

/// `(self, dim, index)`. An index without elements may have any dtype and rank, as in PyTorch.
fn gather<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, index) = (c.tensor(0)?, c.tensor(2)?);
    let dim = c.dim(1, 0, x.rank())?;
    let sizes = index.sizes();
    if index.numel() == 0 {
        return Ok(vec![c.math.zeros(x.dtype(), &sizes)]);
    }
    if let Some(rows) = as_rows(x, index, dim) {
        return Ok(vec![take(x, rows, dim)]);
    }
    let operands = [at_least_1d(x), at_least_1d(index)];
    let y = c.math.op(Op::Gather, &operands, smallvec![Attr::Int(dim as i64)]);
    Ok(vec![y.reshape(&sizes)])
}

/// `(self, dim, index, src or value)`; src may be larger than index.
fn scatter<'a>(c: &Call<'a>, how: Reduction) -> Outs<'a> {
    let (x, index) = (c.tensor(0)?, at_least_1d(c.tensor(2)?));
    let dim = c.dim(1, 0, x.rank())?;
    if index.numel() == 0 {
        return Ok(vec![x]);
    }
    let compute = if how == Reduction::Last { x.dtype() } else { sum_dtype(x.dtype()) };
    let sizes = index.sizes();
    let src = match c.arg(3) {
        Arg::Tensor(_) => beginning(at_least_1d(c.tensor(3)?), &sizes).cast(compute),
        _ => c.number(3, 0.0, compute)?.broadcast(&sizes),
    };
    let y = scattered(at_least_1d(x).cast(compute), index, src, dim, how);
    Ok(vec![y.cast(x.dtype()).reshape(&x.sizes())])
}

/// `(self, dim, index, source, alpha)`
fn index_add<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, index, source) = (c.tensor(0)?, c.tensor(2)?, c.tensor(3)?);
    let dim = c.dim(1, 0, x.rank())?;
    let (dtype, compute) = (x.dtype(), sum_dtype(x.dtype()));
    let alpha = c.number(4, 1.0, compute)?;
    let source = at_least_1d(source).cast(compute);
    let source = match compute.is_complex() {
        true => complex::mul(source, alpha),
        false => source * alpha,
    };
    let base = at_least_1d(x).cast(compute);
    let y = rows_added(base, index.reshape(&[index.numel()]), source, dim);
    Ok(vec![y.cast(dtype).reshape(&x.sizes())])
}

/// Errors: `source` differs from the sizes of `x` in a dimension other than `dim`.
pub fn are_rows_of(x: V, dim: usize, source: &[i64]) -> Result<()> {
    let mut wanted = x.sizes();
    if let (Some(size), Some(&rows)) = (wanted.get_mut(dim), source.get(dim)) {
        *size = rows;
    }
    match wanted[..] == *source {
        true => Ok(()),
        false => invalid!(
            "source and self must have the same sizes but in dimension {dim}, got {source:?} for {:?}",
            x.sizes()
        ),
    }
}

/// `(self, dim, index, source)`: the last of several rows with the same index wins.
fn index_copy<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, index, source) = (c.tensor(0)?, c.tensor(2)?, at_least_1d(c.tensor(3)?));
    let (dim, n) = (c.dim(1, 0, x.rank())?, index.numel());
    let sizes = source.sizes();
    if sizes.get(dim) != Some(&n) {
        return invalid!(
            "index_copy_(): Number of indices ({n}) should be equal to source.size(dim), but source has sizes {sizes:?}"
        );
    }
    are_rows_of(at_least_1d(x), dim, &sizes)?;
    let mut column = Dims::from_elem(1, sizes.len());
    column[dim] = n;
    let index = index.reshape(&column).broadcast(&sizes);
    let y = scattered(at_least_1d(x), index, source, dim, Reduction::Last);
    Ok(vec![y.reshape(&x.sizes())])
}

/// `(self, dim, index, value)`
fn index_fill<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, index, value) = (c.tensor(0)?, c.tensor(2)?, c.number(3, 0.0, c.ty(0)?.dtype)?);
    let (rows, dim) = (at_least_1d(x), c.dim(1, 0, x.rank())?);
    let (n, count) = (rows.sizes()[dim], index.numel());
    let index = from_the_end(index.reshape(&[count]), n);
    let none = c.math.full(0.0, DType::U8, &[n]);
    let all = c.math.full(1.0, DType::U8, &[count]);
    let is_filled = scattered(none, index, all, 0, Reduction::Last).cast(DType::Bool);
    let mut column = Dims::from_elem(1, rows.rank());
    column[dim] = n;
    let filled = is_filled.reshape(&column).select(value.reshape(&[]), rows);
    Ok(vec![filled.reshape(&x.sizes())])
}

/// `(self, index, source, accumulate)`, all flat: the last of several elements with the same index wins, or all are added.
fn put<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, index, source) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let (n, count) = (x.numel(), index.numel());
    if source.numel() != count {
        return invalid!(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {count}",
            source.numel()
        );
    }
    if n == 0 && count > 0 {
        return invalid!("put_(): Tried to put elements into an empty tensor");
    }
    let index = from_the_end(index.reshape(&[count]), n);
    let (flat, source) = (x.reshape(&[n]), source.reshape(&[count]));
    let y = if c.bool(3, false)? {
        let compute = sum_dtype(x.dtype());
        let base = flat.cast(compute);
        scattered(base, index, source.cast(compute), 0, Reduction::Sum).cast(x.dtype())
    } else {
        scattered(flat, index, source, 0, Reduction::Last)
    };
    Ok(vec![y.reshape(&x.sizes())])
}

/// An index into `n` elements in which negative numbers count from the end.
fn from_the_end(index: V, n: i64) -> V {
    index.lt(0.0).select(index + n as f64, index)
}

/// `(self, other, dim)`: cross products of the vectors along `dim`.
fn cross<'a>(c: &Call<'a>) -> Outs<'a> {
    let dtype = c.common(&[0, 1])?;
    let [a, b] = together(c.numbers([0, 1], dtype)?);
    let dim = c.dim(2, -1, a.rank())?;
    if a.sizes().get(dim) != Some(&3) {
        return invalid!(
            "linalg.cross: inputs dimension {dim} must have length 3. Got {:?} and {:?}",
            c.ty(0)?.sizes,
            c.ty(1)?.sizes
        );
    }
    let times: fn(V<'a>, V<'a>) -> V<'a> =
        if dtype.is_complex() { complex::mul } else { |a, b| a * b };
    let less: fn(V<'a>, V<'a>) -> V<'a> =
        if dtype.is_complex() { complex::sub } else { |a, b| a - b };
    let part = |x: V<'a>, at: i64| x.narrow(dim, at % 3, 1);
    let along = |at: i64| {
        less(times(part(a, at + 1), part(b, at + 2)), times(part(a, at + 2), part(b, at + 1)))
    };
    Ok(vec![c.math.concat(&[along(0), along(1), along(2)], dim)])
}

/// The position of each true element of `mask`, flat, among the true ones; 0 for the others.
pub fn turns(mask: V) -> V {
    let chosen = mask.cast(DType::I64).reshape(&[mask.numel()]);
    let count = chosen.math().op(Op::CumSum, &[chosen], smallvec![Attr::Int(0)]);
    chosen * (count - 1.0)
}

/// `x` with the elements of `source`, one after the other, where `mask` is true.
fn masked_scatter<'a>(x: V<'a>, mask: V<'a>, source: V<'a>) -> V<'a> {
    let (sizes, n) = (x.sizes(), source.numel());
    if x.numel() == 0 {
        return x;
    }
    let mask = mask.broadcast(&sizes);
    let mut from = source.reshape(&[n]);
    let mut turn = turns(mask);
    if n == 0 {
        // A stand-in for elements that take nothing.
        from = x.math().zeros(source.dtype(), &[1]);
        turn = mask.cast(DType::I64).reshape(&[x.numel()]);
    }
    let count = mask.cast(DType::I64).reshape(&[x.numel()]).reduce(Op::Sum, &[0], false);
    let enough = count.le(n as f64).expected(Expectation::EnoughElements);
    mask.select(take(from, turn + enough, 0).reshape(&sizes), x)
}

/// `(grad_output, mask, sizes)` → the gradient of the source, in these sizes: 0 for elements that were not taken.
fn masked_scatter_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (dy, mask) = (c.tensor(0)?, c.tensor(1)?);
    let sizes = c.ints(2)?.unwrap_or_default();
    let compute = wide(dy.dtype());
    let zeros = c.math.zeros(compute, &sizes);
    c.math.check()?;
    let zeros = zeros.reshape(&[zeros.numel()]);
    if zeros.numel() == 0 || dy.numel() == 0 {
        return Ok(vec![zeros.cast(dy.dtype()).reshape(&sizes)]);
    }
    let mask = mask.cast(DType::Bool).broadcast(&dy.sizes());
    let taken = mask.select(dy.cast(compute), 0.0).reshape(&[dy.numel()]);
    let dx = c.math.op(Op::IndexAdd, &[zeros, turns(mask), taken], smallvec![Attr::Int(0)]);
    Ok(vec![dx.cast(dy.dtype()).reshape(&sizes)])
}
