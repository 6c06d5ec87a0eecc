//! Primitives that read or write where indices say. Indices are checked before anything is written. What is added up
//! is added in the order of the index, in f64 or i64, and rounded once.

use super::access::{Bound, Plain};
use super::dense::copy;
use super::pool::{GRAIN, parallel_chunks, parallel_each};
use super::tile::element::{Bf16, F16, Stored};
use crate::dtype::DType;
use crate::error::{Code, Error, Result};
use crate::internal;
use crate::op::Attr;
use crate::shape::{contiguous_strides, numel};

/// Elements before, along and after `axis`.
fn around(sizes: &[i64], axis: usize) -> (usize, usize, usize) {
    (numel(&sizes[..axis]) as usize, sizes[axis] as usize, numel(&sizes[axis + 1..]) as usize)
}

/// The elements of an index as numbers, each checked by `check`.
fn indices(index: &Bound, check: impl Fn(i64) -> Result<usize>) -> Result<Vec<usize>> {
    match index.dtype {
        DType::I32 => index.dense::<i32>().iter().map(|&i| check(i as i64)).collect(),
        DType::I64 => index.dense::<i64>().iter().map(|&i| check(i)).collect(),
        other => internal!("index of {other}"),
    }
}

fn in_self(size: usize) -> impl Fn(i64) -> Result<usize> {
    move |i| match i {
        i if (0..size as i64).contains(&i) => Ok(i as usize),
        _ => Err(Error::new(Code::IndexError, "index out of range in self")),
    }
}

fn in_dimension(axis: usize, size: usize) -> impl Fn(i64) -> Result<usize> {
    move |i| match i {
        i if (0..size as i64).contains(&i) => Ok(i as usize),
        _ => {
            let text = format!("index {i} is out of bounds for dimension {axis} with size {size}");
            Err(Error::new(Code::IndexError, text))
        }
    }
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
    let rows = indices(&reads[1], in_self(size))?;
    by_size!(writes[0].dtype, take_as(&reads[0], &rows, size, inner, &writes[0]));
    Ok(())
}

fn take_as<T: Plain>(x: &Bound, rows: &[usize], size: usize, inner: usize, write: &Bound) {
    let (x, out) = (x.dense::<T>(), write.result::<T>());
    // Single elements in larger pieces.
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

/// For every element of an index of these sizes, in order: the flat element of an array of sizes `x` that it names.
fn targets(x: &[i64], index: &Bound, axis: usize) -> Result<Vec<usize>> {
    let size = x[axis] as usize;
    let along = indices(index, in_dimension(axis, size))?;
    let strides = contiguous_strides(x);
    let sizes = index.sizes();
    let rank = sizes.len();
    let mut at = vec![0i64; rank];
    let mut place = 0i64;
    let mut all = Vec::with_capacity(along.len());
    for i in along {
        all.push(place as usize + i * strides[axis] as usize);
        for d in (0..rank).rev() {
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
    Ok(all)
}

pub fn gather(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    let targets = targets(reads[0].sizes(), &reads[1], attrs[0].int() as usize)?;
    by_size!(writes[0].dtype, gather_as(&reads[0], &targets, &writes[0]));
    Ok(())
}

fn gather_as<T: Plain>(x: &Bound, targets: &[usize], write: &Bound) {
    let x = x.dense::<T>();
    parallel_chunks(write.result::<T>(), 1024, 1024 * 16, |n, out| {
        for (out, &from) in out.iter_mut().zip(&targets[n * 1024..]) {
            *out = x[from];
        }
    });
}

/// Whether the result is to be written over the base.
fn in_place(base: &Bound, write: &Bound) -> bool {
    base.source == write.source
}

/// A number type in which elements of a dtype are added.
trait Sum: Copy + Default + Send + Sync {
    fn plus(self, other: Self) -> Self;
}

impl Sum for f64 {
    fn plus(self, other: f64) -> f64 {
        self + other
    }
}

impl Sum for i64 {
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
}

/// An element that is added in `A`.
trait Addend<A>: Plain {
    fn widen(self) -> A;
    fn narrow(sum: A) -> Self;
}

macro_rules! addend {
    ($($t:ty => $a:ty, |$w:ident| $widen:expr, |$n:ident| $narrow:expr;)*) => {$(
        impl Addend<$a> for $t {
            fn widen(self) -> $a { let $w = self; $widen }
            fn narrow($n: $a) -> Self { $narrow }
        }
    )*};
}

addend! {
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

/// Calls a function that is generic over an element and what it is added in.
macro_rules! by_addend {
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
            other => return internal!("sums of {other}"),
        }
    };
}

pub fn index_add(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    let axis = attrs[0].int() as usize;
    let (base, x, out) = (&reads[0], &reads[2], &writes[0]);
    let shape = around(base.sizes(), axis);
    let rows = indices(&reads[1], in_self(shape.1))?;
    if !in_place(base, out) {
        copy(base, out)?;
    }
    if shape.2 < NARROW && rows.len() * FEW >= shape.1 {
        by_addend!(base.dtype, add_to_all(x, &rows, shape, out));
        return Ok(());
    }
    // Additions by the row they go to, those to one row in the order of the index.
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&n| rows[n]);
    by_addend!(base.dtype, add_rows(x, &rows, &order, shape, out));
    Ok(())
}

/// Rows of fewer elements are not worth a task of their own.
const NARROW: usize = 16;
/// All sums are kept at once unless there are so many times more of them than addends.
const FEW: usize = 8;

/// [`add_rows`] of narrow rows: the sums of many lie side by side.
fn add_to_all<T: Addend<A>, A: Sum>(
    x: &Bound,
    rows: &[usize],
    (_, size, inner): (usize, usize, usize),
    write: &Bound,
) {
    let (x, out) = (x.dense::<T>(), write.result::<T>());
    let (sums, addends) = (size * inner, rows.len() * inner);
    let batch = (GRAIN / ((sums + addends) * 8).max(1)).max(1);
    parallel_chunks(out, batch * sums, batch * (sums + addends) * 8, |n, out| {
        let mut wide: Vec<A> = out.iter().map(|v| v.widen()).collect();
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

fn add_rows<T: Addend<A>, A: Sum>(
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
    let groups: Vec<&[usize]> = order.chunk_by(|&a, &b| rows[a] == rows[b]).collect();
    let mut pieces = Vec::with_capacity(groups.len());
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
        let mut sums: Vec<A> = target.iter().map(|v| v.widen()).collect();
        for &n in group {
            let from = (outer * rows.len() + n) * inner;
            sums.iter_mut().zip(&x[from..from + inner]).for_each(|(s, v)| *s = s.plus(v.widen()));
        }
        target.iter_mut().zip(sums).for_each(|(to, s)| *to = T::narrow(s));
    });
}

pub fn scatter(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    let (axis, add) = (attrs[0].int() as usize, attrs[1].bool());
    let (base, x, out) = (&reads[0], &reads[2], &writes[0]);
    let targets = targets(base.sizes(), &reads[1], axis)?;
    if !in_place(base, out) {
        copy(base, out)?;
    }
    if add {
        by_addend!(base.dtype, scatter_add_as(&targets, x, out));
    } else {
        by_size!(base.dtype, scatter_as(&targets, x, out));
    }
    Ok(())
}

/// In the order of the index: the last of several writes to one element stays.
fn scatter_as<T: Plain>(targets: &[usize], x: &Bound, write: &Bound) {
    let (x, out) = (x.dense::<T>(), write.result::<T>());
    targets.iter().zip(x).for_each(|(&to, &v)| out[to] = v);
}

fn scatter_add_as<T: Addend<A>, A: Sum>(targets: &[usize], x: &Bound, write: &Bound) {
    let (x, out) = (x.dense::<T>(), write.result::<T>());
    if targets.len() * FEW >= out.len() {
        let mut wide: Vec<A> = out.iter().map(|v| v.widen()).collect();
        targets.iter().zip(x).for_each(|(&to, v)| wide[to] = wide[to].plus(v.widen()));
        return out.iter_mut().zip(wide).for_each(|(to, sum)| *to = T::narrow(sum));
    }
    let mut order: Vec<usize> = (0..targets.len()).collect();
    order.sort_by_key(|&n| targets[n]);
    for group in order.chunk_by(|&a, &b| targets[a] == targets[b]) {
        let to = targets[group[0]];
        let sum = group.iter().fold(out[to].widen(), |sum, &n| sum.plus(x[n].widen()));
        out[to] = T::narrow(sum);
    }
}
