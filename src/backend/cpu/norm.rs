//! Layer and RMS normalisation and their gradients: rows in parallel; the sums over rows in two stages, in an order that depends
//! on the shape only.

use super::access::{Bound, zeroed};
use super::element::{Bf16, F16};
use super::pool::{GRAIN, Scratch, parallel_each, with_parts};
use super::rows::{NormGrad, RowMath, RowOf, Rows};
use super::sink::Sink;
use super::tile::run::TileElement;
use super::vector::math;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Attr;
use crate::op::array::{collected, filled};
use std::ops::Range;

/// Rows of one task.
const ROWS: usize = 16;

/// A weight or bias as numbers of type `L`; `value` everywhere when there is none.
fn column<L: RowMath>(operand: Option<&Bound>, n: usize, value: f32) -> Vec<L> {
    let Some(b) = operand else { return filled(L::from(value), n) };
    match b.dtype {
        DType::F16 => collected(b.dense::<F16>().iter().map(|&h| L::from(math::f16_to_f32(h.0)))),
        DType::BF16 => {
            collected(b.dense::<Bf16>().iter().map(|&h| L::from(math::bf16_to_f32(h.0))))
        }
        DType::F32 => collected(b.dense::<f32>().iter().map(|&v| L::from(v))),
        _ => collected(b.dense::<f64>().iter().map(|&v| L::from_f64(v))),
    }
}

/// Writes sums as the dtype of a result.
fn write_column<L: RowMath>(sums: &[f64], to: &Bound) {
    match to.dtype {
        DType::F16 => put(to.result::<F16>(), sums, |v| F16(math::f32_to_f16(v as f32))),
        DType::BF16 => put(to.result::<Bf16>(), sums, |v| Bf16(math::f32_to_bf16(v as f32))),
        DType::F32 => put(to.result::<f32>(), sums, |v| v as f32),
        _ => put(to.result::<f64>(), sums, |v| v),
    }
}

fn put<S>(to: &mut [S], sums: &[f64], round: impl Fn(f64) -> S) {
    to.iter_mut().zip(sums).for_each(|(to, &v)| *to = round(v));
}

/// Operands and statistics of a normalisation. Without a mean it is RMS normalisation: that of layers with a mean of 0.
struct Norm<'a> {
    weight: Option<&'a Bound>,
    bias: Option<&'a Bound>,
    mean: Option<&'a Bound>,
    rstd: &'a Bound,
}

/// Calls `$f::<S, L>` for elements stored as S and computed as L.
macro_rules! by_dtype {
    ($dtype:expr, $f:ident($($argument:expr),*)) => {
        match $dtype {
            DType::F32 => $f::<f32, f32>($($argument),*),
            DType::F16 => $f::<F16, f32>($($argument),*),
            DType::BF16 => $f::<Bf16, f32>($($argument),*),
            DType::F64 => $f::<f64, f64>($($argument),*),
            other => internal!("normalisation of {other}"),
        }
    };
}

/// `others`: mean and rstd.
pub fn layer_norm(attrs: &[Attr], reads: &[Bound], y: &Sink, others: &[Bound]) -> Result<()> {
    let (eps, has_weight, has_bias) = (attrs[0].float(), attrs[1].bool(), attrs[2].bool());
    let norm = Norm {
        weight: reads.get(1).filter(|_| has_weight),
        bias: reads.last().filter(|_| has_bias),
        mean: Some(&others[0]),
        rstd: &others[1],
    };
    by_dtype!(y.dtype(), forward(norm, eps, &reads[0], y))
}

/// `others`: rstd.
pub fn rms_norm(attrs: &[Attr], reads: &[Bound], y: &Sink, others: &[Bound]) -> Result<()> {
    let norm = Norm { weight: reads.get(1), bias: None, mean: None, rstd: &others[0] };
    by_dtype!(y.dtype(), forward(norm, attrs[0].float(), &reads[0], y))
}

fn forward<S: RowOf<L> + Scratch, L: RowMath + TileElement>(
    norm: Norm,
    eps: f64,
    x: &Bound,
    to: &Sink,
) -> Result<()> {
    let (r, c) = (x.sizes()[0] as usize, x.sizes()[1] as usize);
    let mut zeros = zeroed::<L>(if norm.mean.is_some() { 0 } else { r });
    let mean = norm.mean.map_or(&mut zeros[..], |mean| mean.result::<L>());
    let rstd = norm.rstd.result::<L>();
    if c == 0 {
        mean.fill(L::from(f32::NAN));
        rstd.fill(L::from(f32::NAN));
        return Ok(());
    }
    let weight = column::<L>(norm.weight, c, 1.0);
    let bias = column::<L>(norm.bias, c, 0.0);
    let x = L::rows(x)?;
    let tasks = to.pieces::<S>(r * c, ROWS * c).into_iter();
    let tasks = tasks.zip(mean.chunks_mut(ROWS)).zip(rstd.chunks_mut(ROWS)).enumerate();
    parallel_each(tasks, GRAIN, |(n, ((piece, mean), rstd))| {
        let first = n * ROWS;
        to.fill(piece, (first, rstd.len(), c), |y| {
            with_parts([x.room(c), S::room(c)], |[room_x, room_y]: [&mut [L]; 2]| {
                for (i, y) in y.chunks_exact_mut(c).enumerate() {
                    let x = x.read((first + i) * c..(first + i + 1) * c, room_x);
                    if norm.mean.is_some() {
                        mean[i] = L::from_f64(L::sum(x) / c as f64);
                    }
                    let variance = L::squares(x, mean[i]) / c as f64;
                    rstd[i] = L::from_f64(1.0 / (variance + eps).sqrt());
                    S::write(y, room_y, |y| L::normalise(x, mean[i], rstd[i], &weight, &bias, y));
                }
            });
        });
    });
    Ok(())
}

/// `others`: dweight and dbias.
pub fn layer_norm_grad(reads: &[Bound], dx: &Sink, others: &[Bound]) -> Result<()> {
    let norm = Norm { weight: reads.get(4), bias: None, mean: Some(&reads[2]), rstd: &reads[3] };
    by_dtype!(dx.dtype(), backward(norm, [&reads[0], &reads[1]], dx, others))
}

/// `others`: dweight.
pub fn rms_norm_grad(reads: &[Bound], dx: &Sink, others: &[Bound]) -> Result<()> {
    let norm = Norm { weight: reads.get(3), bias: None, mean: None, rstd: &reads[2] };
    by_dtype!(dx.dtype(), backward(norm, [&reads[0], &reads[1]], dx, others))
}

/// `others`: dweight and, with a mean, dbias.
fn backward<S: RowOf<L> + Scratch, L: RowMath + TileElement>(
    norm: Norm,
    [dy, x]: [&Bound; 2],
    to: &Sink,
    others: &[Bound],
) -> Result<()> {
    let (r, c) = (x.sizes()[0] as usize, x.sizes()[1] as usize);
    if c == 0 {
        return Ok(());
    }
    let weight = column::<L>(norm.weight, c, 1.0);
    // Each block has its own sums of dweight and dbias.
    let block = rows_of_block(r);
    let mut sums = zeroed::<f64>(2 * c * r.div_ceil(block));
    let (dy, x) = (L::rows(dy)?, L::rows(x)?);
    let (mean, rstd) = (norm.mean.map(|mean| mean.dense::<L>()), norm.rstd.dense::<L>());
    let tasks = sums.chunks_mut(2 * c).zip(to.pieces::<S>(r * c, block * c)).enumerate();
    parallel_each(tasks, GRAIN, |(n, (sums, piece))| {
        let rows = n * block..r.min((n + 1) * block);
        let mut pieces = piece.map(|piece| piece.chunks_mut(ROWS * c));
        for first in rows.clone().step_by(ROWS) {
            let rows = first..rows.end.min(first + ROWS);
            let piece = pieces.as_mut().and_then(Iterator::next);
            to.fill(piece, (first, rows.len(), c), |dx| {
                backward_rows([&*dy, &*x], (mean, rstd), rows, &weight, (dx, sums));
            });
        }
    });
    let mut total = filled(0.0, 2 * c);
    for sums in sums.chunks_exact(2 * c) {
        total.iter_mut().zip(sums).for_each(|(t, s)| *t += s);
    }
    for (write, total) in others.iter().zip(total.chunks_exact(c)) {
        write_column::<L>(total, write);
    }
    Ok(())
}

/// At most 64 blocks of rows, whatever the number of threads.
fn rows_of_block(rows: usize) -> usize {
    rows.div_ceil(64).max(ROWS)
}

/// The gradients of at most [`ROWS`] rows, whose sums are taken in `L` and added to the sums of their block in f64.
fn backward_rows<S: RowOf<L>, L: RowMath>(
    [dy, x]: [&dyn Rows<L>; 2],
    (mean, rstd): (Option<&[L]>, &[L]),
    rows: Range<usize>,
    weight: &[L],
    (dx, sums): (&mut [S], &mut [f64]),
) {
    let c = weight.len();
    let lengths = [dy.room(c), x.room(c), S::room(c), 2 * c];
    with_parts(lengths, |[room_dy, room_x, room_dx, short]: [&mut [L]; 4]| {
        short.fill(L::from(0.0));
        let (dweight, dbias) = short.split_at_mut(c);
        for (row, dx) in rows.zip(dx.chunks_exact_mut(c)) {
            let at = row * c..(row + 1) * c;
            let (dy, x) = (dy.read(at.clone(), room_dy), x.read(at, room_x));
            let (at_mean, rstd) = (mean.map_or(L::from(0.0), |mean| mean[row]), rstd[row]);
            let (average, along) = L::norm_sums(dy, x, at_mean, rstd, weight);
            // Without a mean, no gradient of it is subtracted.
            let average = L::from_f64(mean.map_or(0.0, |_| average / c as f64));
            let along = L::from_f64(along / c as f64);
            let terms = NormGrad { dy, x, weight, mean: at_mean, rstd, average, along };
            S::write(dx, room_dx, |dx| L::norm_grad(terms, dx, dweight, dbias));
        }
        L::add_to_wide(short, sums);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_few_blocks_however_many_there_are() {
        for rows in (0..20_000).chain([1 << 31, (1 << 40) + 1]) {
            let block = rows_of_block(rows);
            assert!(block >= ROWS && rows.div_ceil(block) <= 64, "{rows}");
        }
    }
}
