//! Primitives that read or write at indexed places. Indices are checked before anything is written. Sums are taken in
//! the order of the index, in f64 or i64, and rounded once.

use super::access::{Bound, Plain};
use super::dense::copy;
use super::element::{Bf16, F16, Stored};
use super::isa::{self, Kernel};
use super::pool::{GRAIN, parallel_chunks, parallel_each};
use super::vector::Vector;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::array::{collected, filled, reserved};
use crate::op::index::{Reduction, in_range};
use crate::op::{Attr, Op};
use crate::shape::{contiguous_strides, numel};

/// Elements before, along and after `axis`.
pub fn around(sizes: &[i64], axis: usize) -> (usize, usize, usize) {
    (numel(&sizes[..axis]) as usize, sizes[axis] as usize, numel(&sizes[axis + 1..]) as usize)
}

/// The elements of an index as numbers, each checked by `check`.
fn indices(index: &Bound, check: impl Fn(i64) -> Result<usize>) -> Result<Vec<usize>> {
    let mut all = reserved(index.numel());
    let mut push = |i: i64| check(i).map(|i| all.push(i));
    match index.dtype {
        DType::I32 => index.dense::<i32>().iter().try_for_each(|&i| push(i as i64))?,
        DType::I64 => index.dense::<i64>().iter().try_for_each(|&i| push(i))?,
        other => return internal!("index of {other}"),
    }
    Ok(all)
}

/// Calls a function that is generic over a type of the element's size, which only moves elements.
macro_rules! by_size {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype.size() {
            1 => $f::<u8>($($arg),*),
            2 => $f::<u16>($($arg),*),
            4 => $f::<u32>($($arg),*),
            8 => $f::<u64>($($arg),*),
            _ => $f::<u128>($($arg),*),
        }
    };
}

pub fn take(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    let axis = attrs[0].int() as usize;
    let (_, size, inner) = around(reads[0].sizes(), axis);
    let rows = indices(&reads[1], in_range(Op::Take, axis, size as i64))?;
    by_size!(writes[0].dtype, take_as(&reads[0], &rows, size, inner, &writes[0]));
    Ok(())
}

fn take_as<T: Plain>(x: &Bound, rows: &[usize], size: usize, inner: usize, write: &Bound) {
    let (x, out) = (x.dense::<T>(), write.result::<T>());
    // Single elements are taken in larger pieces.
    let batch = (GRAIN / 4 / (inner * size_of::<T>()).max(1)).max(1);
    parallel_chunks(out, batch * inner, batch * inner * size_of::<T>() * 2, |n, mut out| {
        let mut at = n * batch;
        while !out.is_empty() {
            let (outer, first) = (at / rows.len(), at % rows.len());
            let rows = &rows[first..rows.len().min(first + out.len() / inner)];
            let (now, later) = out.split_at_mut(rows.len() * inner);
            let x = &x[outer * size * inner..][..size * inner];
            match inner {
                1 => now.iter_mut().zip(rows).for_each(|(to, &row)| *to = x[row]),
                _ => (now.chunks_exact_mut(inner).zip(rows))
                    .for_each(|(to, &row)| to.copy_from_slice(&x[row * inner..][..inner])),
            }
            at += rows.len();
            out = later;
        }
    });
}

/// An index along an axis of an array, in pieces of as many elements as are worth a task. No two pieces name an element of the
/// same piece of the array.
struct Pieces<'a> {
    index: &'a Bound,
    /// Sizes of the array and of the index from the first dimension on in which they differ, or which is the axis.
    sizes: &'a [i64],
    index_sizes: &'a [i64],
    axis: usize,
    /// Number of parts of these sizes in a piece.
    batch: usize,
}

impl<'a> Pieces<'a> {
    /// Pieces of an index, which is checked as a whole. `cost`: bytes that a task works on, by the numbers of elements
    /// of the array and of the index in one of the parts that may be a piece.
    fn new(
        sizes: &'a [i64],
        index: &'a Bound,
        axis: usize,
        cost: impl Fn(usize, usize) -> usize,
    ) -> Result<Pieces<'a>> {
        check_all(index, in_range(Op::Gather, axis, sizes[axis]))?;
        let differs = (0..axis).find(|&d| sizes[d] != index.sizes()[d]);
        let first = differs.unwrap_or(axis);
        let (sizes, index_sizes) = (&sizes[first..], &index.sizes()[first..]);
        let pieces = Pieces { index, sizes, index_sizes, axis: axis - first, batch: 1 };
        let (part, of_index) = (numel(sizes) as usize, numel(index_sizes) as usize);
        Ok(Pieces { batch: (GRAIN / cost(part, of_index).max(1)).max(1), ..pieces })
    }

    /// Number of elements of the array in a piece; the last one may have fewer.
    fn array(&self) -> usize {
        self.batch * numel(self.sizes) as usize
    }

    /// Number of elements of the index in a piece, likewise.
    fn index(&self) -> usize {
        self.batch * numel(self.index_sizes) as usize
    }

    /// For the first `count` elements of the `n`-th piece of the index, in order: the element of that piece of the
    /// array that each names.
    fn targets(&self, n: usize, count: usize) -> Vec<usize> {
        let from = n * self.index();
        let mut all: Vec<usize> = match self.index.dtype {
            DType::I32 => {
                collected(self.index.dense::<i32>()[from..][..count].iter().map(|&i| i as usize))
            }
            _ => collected(self.index.dense::<i64>()[from..][..count].iter().map(|&i| i as usize)),
        };
        let Pieces { sizes: array, index_sizes: sizes, axis, .. } = *self;
        let strides = contiguous_strides(array);
        // Rows along the last dimension that has more than one element, and their place in the others.
        let is_long = |&d: &usize| d == axis || sizes[d] > 1;
        let last = (0..sizes.len()).rev().find(is_long).unwrap_or(axis);
        let along = strides[axis] as usize;
        let across = if last == axis { 0 } else { strides[last] as usize };
        let (mut at, mut place) = (vec![0i64; last], 0i64);
        let (rows, part) = (sizes[..last].iter().product::<i64>(), numel(array));
        for (row_number, row) in all.chunks_exact_mut(sizes[last] as usize).enumerate() {
            let start = (place + row_number as i64 / rows * part) as usize;
            row.iter_mut().enumerate().for_each(|(n, i)| *i = start + *i * along + n * across);
            for d in (0..last).rev() {
                let stride = if d == axis { 0 } else { strides[d] };
                at[d] += 1;
                place += stride;
                if at[d] < sizes[d] {
                    break;
                }
                place -= at[d] * stride;
                at[d] = 0;
            }
        }
        all
    }
}

/// The first error of an index.
fn check_all(index: &Bound, check: impl Fn(i64) -> Result<usize>) -> Result<()> {
    match index.dtype {
        DType::I32 => index.dense::<i32>().iter().try_for_each(|&i| check(i as i64).map(|_| ())),
        DType::I64 => index.dense::<i64>().iter().try_for_each(|&i| check(i).map(|_| ())),
        other => internal!("index of {other}"),
    }
}

pub fn gather(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    let cost = |_, index| index * 16;
    let pieces = Pieces::new(reads[0].sizes(), &reads[1], attrs[0].int() as usize, cost)?;
    by_size!(writes[0].dtype, gather_as(&reads[0], &pieces, &writes[0]));
    Ok(())
}

fn gather_as<T: Plain>(x: &Bound, pieces: &Pieces, write: &Bound) {
    let (x, out) = (x.dense::<T>(), write.result::<T>());
    let size = pieces.index();
    if out.len() <= size {
        // A single piece: its elements are nevertheless read by several tasks.
        let targets = pieces.targets(0, out.len());
        return parallel_chunks(out, 1024, 1024 * 16, |n, out| {
            let targets = &targets[n * 1024..];
            out.iter_mut().zip(targets).for_each(|(out, &from)| *out = x[from]);
        });
    }
    parallel_chunks(out, size, size * 16, |n, out| {
        let x = &x[n * pieces.array()..];
        let targets = pieces.targets(n, out.len());
        out.iter_mut().zip(targets).for_each(|(out, from)| *out = x[from]);
    });
}

/// Whether the result is to be written over the base.
fn in_place(base: &Bound, write: &Bound) -> bool {
    base.source == write.source
}

/// A number type in which elements of a dtype are reduced.
trait Wide: Copy + Default + Send + Sync {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// NaN if either is NaN.
    fn larger(self, other: Self) -> Self;
    /// NaN if either is NaN.
    fn smaller(self, other: Self) -> Self;
}

impl Wide for f64 {
    #[inline(always)]
    fn plus(self, other: f64) -> f64 {
        self + other
    }
    #[inline(always)]
    fn times(self, other: f64) -> f64 {
        self * other
    }
    #[inline(always)]
    fn larger(self, other: f64) -> f64 {
        if self >= other || self.is_nan() { self } else { other }
    }
    #[inline(always)]
    fn smaller(self, other: f64) -> f64 {
        if self <= other || self.is_nan() { self } else { other }
    }
}

impl Wide for i64 {
    #[inline(always)]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn larger(self, other: i64) -> i64 {
        self.max(other)
    }
    #[inline(always)]
    fn smaller(self, other: i64) -> i64 {
        self.min(other)
    }
}

/// An element that is reduced in `A`.
trait Term<A>: Plain {
    fn widen(self) -> A;
    fn narrow(wide: A) -> Self;
}

macro_rules! term {
    ($($t:ty => $a:ty, |$w:ident| $widen:expr, |$n:ident| $narrow:expr;)*) => {$(
        impl Term<$a> for $t {
            #[inline(always)]
            fn widen(self) -> $a { let $w = self; $widen }
            #[inline(always)]
            fn narrow($n: $a) -> Self { $narrow }
        }
    )*};
}

term! {
    f32 => f64, |w| w as f64, |n| n as f32;
    f64 => f64, |w| w, |n| n;
    F16 => f64, |w| Stored::<f32>::load(w) as f64, |n| <F16 as Stored<f32>>::store(n as f32);
    Bf16 => f64, |w| Stored::<f32>::load(w) as f64, |n| <Bf16 as Stored<f32>>::store(n as f32);
    u8 => i64, |w| w as i64, |n| n as u8;
    i8 => i64, |w| w as i64, |n| n as i8;
    i16 => i64, |w| w as i64, |n| n as i16;
    i32 => i64, |w| w as i64, |n| n as i32;
    i64 => i64, |w| w, |n| n;
}

/// Calls a function that is generic over an element type and the type that it is reduced in.
macro_rules! by_term {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $f::<f32, f64>($($arg),*),
            DType::F64 => $f::<f64, f64>($($arg),*),
            DType::F16 => $f::<F16, f64>($($arg),*),
            DType::BF16 => $f::<Bf16, f64>($($arg),*),
            DType::U8 => $f::<u8, i64>($($arg),*),
            DType::I8 => $f::<i8, i64>($($arg),*),
            DType::I16 => $f::<i16, i64>($($arg),*),
            DType::I32 => $f::<i32, i64>($($arg),*),
            DType::I64 => $f::<i64, i64>($($arg),*),
            other => return internal!("reductions of {other}"),
        }
    };
}

pub fn index_add(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    let axis = attrs[0].int() as usize;
    let (base, x, out) = (&reads[0], &reads[2], &writes[0]);
    let shape = around(base.sizes(), axis);
    let rows = indices(&reads[1], in_range(Op::IndexAdd, axis, shape.1 as i64))?;
    if !in_place(base, out) {
        copy(base, out)?;
    }
    if shape.2 < NARROW && rows.len() * FEW >= shape.1 {
        by_term!(base.dtype, add_to_all(x, &rows, shape, out));
        return Ok(());
    }
    by_term!(base.dtype, add_rows(x, &rows, &by_target(&rows, shape.1), shape, out));
    Ok(())
}

/// The positions of the elements, ordered by target; those with the same of the `size` targets stay in order.
fn by_target(targets: &[usize], size: usize) -> Vec<usize> {
    let mut order: Vec<usize> = collected(0..targets.len());
    if size > MOST_COUNTED * targets.len() {
        // Sorts in place, without a table of counts.
        order.sort_unstable_by_key(|&n| (targets[n], n));
        return order;
    }
    let mut next = filled(0, size + 1);
    targets.iter().for_each(|&to| next[to + 1] += 1);
    (1..=size).for_each(|to| next[to] += next[to - 1]);
    for (n, &to) in targets.iter().enumerate() {
        order[next[to]] = n;
        next[to] += 1;
    }
    order
}

/// Targets per element up to which elements are counted instead of compared.
const MOST_COUNTED: usize = 8;

/// Rows of fewer elements are not worth a task of their own.
const NARROW: usize = 16;
/// All sums are kept at once unless there are more than this many times as many of them as addends.
const FEW: usize = 8;

/// [`add_rows`] of narrow rows: the sums of many lie side by side.
fn add_to_all<T: Term<A>, A: Wide>(
    x: &Bound,
    rows: &[usize],
    (_, size, inner): (usize, usize, usize),
    write: &Bound,
) {
    let (x, out) = (x.dense::<T>(), write.result::<T>());
    let (sums, addends) = (size * inner, rows.len() * inner);
    let batch = (GRAIN / ((sums + addends) * 8).max(1)).max(1);
    parallel_chunks(out, batch * sums, batch * (sums + addends) * 8, |n, out| {
        let mut wide: Vec<A> = collected(out.iter().map(|v| v.widen()));
        let x = &x[n * batch * addends..];
        for (wide, x) in wide.chunks_exact_mut(sums).zip(x.chunks_exact(addends)) {
            match inner {
                1 => rows.iter().zip(x).for_each(|(&to, v)| wide[to] = wide[to].plus(v.widen())),
                _ => rows.iter().zip(x.chunks_exact(inner)).for_each(|(&to, x)| {
                    let wide = &mut wide[to * inner..][..inner];
                    wide.iter_mut().zip(x).for_each(|(s, v)| *s = s.plus(v.widen()));
                }),
            }
        }
        out.iter_mut().zip(wide).for_each(|(to, sum)| *to = T::narrow(sum));
    });
}

fn add_rows<T: Term<A>, A: Wide>(
    x: &Bound,
    rows: &[usize],
    order: &[usize],
    (_, size, inner): (usize, usize, usize),
    write: &Bound,
) {
    let (x, out) = (x.dense::<T>(), write.result::<T>());
    if inner == 0 || size == 0 || order.is_empty() {
        return;
    }
    let mut groups: Vec<&[usize]> = reserved(order.len().min(size));
    groups.extend(order.chunk_by(|&a, &b| rows[a] == rows[b]));
    let mut pieces = reserved(out.len() / (size * inner) * groups.len());
    for (outer, out) in out.chunks_exact_mut(size * inner).enumerate() {
        let (mut rest, mut at) = (out, 0);
        for group in &groups {
            let row = rows[group[0]];
            let (_, tail) = rest.split_at_mut((row - at) * inner);
            let (target, tail) = tail.split_at_mut(inner);
            (rest, at) = (tail, row + 1);
            pieces.push((outer, *group, target));
        }
    }
    parallel_each(pieces.into_iter(), 16 * inner, |(outer, group, target)| {
        let mut sums: Vec<A> = collected(target.iter().map(|v| v.widen()));
        for &n in group {
            let from = (outer * rows.len() + n) * inner;
            isa::run(Plus { sums: &mut sums, x: &x[from..from + inner] });
        }
        target.iter_mut().zip(sums).for_each(|(to, s)| *to = T::narrow(s));
    });
}

/// Adds a row to sums.
struct Plus<'a, T, A> {
    sums: &'a mut [A],
    x: &'a [T],
}

impl<T: Term<A>, A: Wide> Kernel for Plus<'_, T, A> {
    type Out = ();

    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        self.sums.iter_mut().zip(self.x).for_each(|(s, v)| *s = s.plus(v.widen()));
    }
}

pub fn scatter(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    let (base, x, out) = (&reads[0], &reads[2], &writes[0]);
    let cost = |array, index| if are_many(array, index) { (array + index) * 8 } else { index * 32 };
    let pieces = Pieces::new(base.sizes(), &reads[1], attrs[0].int() as usize, cost)?;
    if !in_place(base, out) {
        copy(base, out)?;
    }
    match Reduction::of(attrs) {
        Reduction::Last => by_size!(base.dtype, scatter_as(&pieces, x, out)),
        Reduction::Sum => by_term!(base.dtype, reduce_as(Wide::plus, &pieces, x, out)),
        Reduction::Product => by_term!(base.dtype, reduce_as(Wide::times, &pieces, x, out)),
        Reduction::Max => by_term!(base.dtype, reduce_as(Wide::larger, &pieces, x, out)),
        Reduction::Min => by_term!(base.dtype, reduce_as(Wide::smaller, &pieces, x, out)),
    }
    Ok(())
}

/// Whether the index names so many elements of the array that all of it is processed.
fn are_many(array: usize, index: usize) -> bool {
    index * FEW >= array
}

/// Calls `task(targets, x, out)` for each piece of the index, of `x`, which is as large, and of the result.
fn for_pieces<T: Plain>(
    pieces: &Pieces,
    x: &Bound,
    write: &Bound,
    task: impl Fn(&[usize], &[T], &mut [T]) + Sync,
) {
    let (x, out) = (x.dense::<T>(), write.result::<T>());
    let (array, index) = (pieces.array(), pieces.index());
    if index > 0 {
        parallel_chunks(out, array, GRAIN, |n, out| {
            let x = &x[n * index..x.len().min((n + 1) * index)];
            task(&pieces.targets(n, x.len()), x, out);
        });
    }
}

/// In the order of the index: the last of several writes to one element stays.
fn scatter_as<T: Plain>(pieces: &Pieces, x: &Bound, write: &Bound) {
    for_pieces::<T>(pieces, x, write, |targets, x, out| {
        targets.iter().zip(x).for_each(|(&to, &v)| out[to] = v);
    });
}

fn reduce_as<T: Term<A>, A: Wide>(
    join: impl Fn(A, A) -> A + Sync,
    pieces: &Pieces,
    x: &Bound,
    write: &Bound,
) {
    for_pieces::<T>(pieces, x, write, |targets, x, out| {
        if are_many(out.len(), targets.len()) {
            let mut wide: Vec<A> = collected(out.iter().map(|v| v.widen()));
            targets.iter().zip(x).for_each(|(&to, v)| wide[to] = join(wide[to], v.widen()));
            return out.iter_mut().zip(wide).for_each(|(to, all)| *to = T::narrow(all));
        }
        let order = by_target(targets, out.len());
        for group in order.chunk_by(|&a, &b| targets[a] == targets[b]) {
            let to = targets[group[0]];
            let all = group.iter().fold(out[to].widen(), |all, &n| join(all, x[n].widen()));
            out[to] = T::narrow(all);
        }
    });
}
