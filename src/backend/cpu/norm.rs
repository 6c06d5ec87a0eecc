//! Layer normalisation and its gradient: rows in parallel; the sums over rows in two stages, in an order that depends
//! on the shape only.

use super::access::Bound;
use super::pool::with_scratch;
use super::rows::{NormGrad, RowMath, RowOf};
use super::tile::element::{Brain, Half};
use super::tile::run::LaneType;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Attr;
use rayon::prelude::*;

/// Rows of one task.
const ROWS: usize = 16;

/// A weight or bias as numbers of type `L`; `value` everywhere when there is none.
fn column<L: RowMath>(operand: Option<&Bound>, n: usize, value: f32) -> Vec<L> {
    let Some(b) = operand else { return vec![L::from(value); n] };
    match b.dtype {
        DType::F16 => {
            b.dense::<Half>().iter().map(|&h| L::from(super::math::f16_to_f32(h.0))).collect()
        }
        DType::BF16 => {
            b.dense::<Brain>().iter().map(|&h| L::from(super::math::bf16_to_f32(h.0))).collect()
        }
        DType::F32 => b.dense::<f32>().iter().map(|&v| L::from(v)).collect(),
        _ => b.dense::<f64>().iter().map(|&v| L::from_f64(v)).collect(),
    }
}

/// Writes sums as the dtype of a result.
fn write_column<L: RowMath>(sums: &[f64], to: &Bound) {
    match to.dtype {
        DType::F16 => put(to.result::<Half>(), sums, |v| Half(super::math::f32_to_f16(v as f32))),
        DType::BF16 => {
            put(to.result::<Brain>(), sums, |v| Brain(super::math::f32_to_bf16(v as f32)))
        }
        DType::F32 => put(to.result::<f32>(), sums, |v| v as f32),
        _ => put(to.result::<f64>(), sums, |v| v),
    }
}

fn put<S>(to: &mut [S], sums: &[f64], round: impl Fn(f64) -> S) {
    to.iter_mut().zip(sums).for_each(|(to, &v)| *to = round(v));
}

pub fn layer_norm(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) -> Result<()> {
    match writes[0].dtype {
        DType::F32 => forward::<f32, f32>(attrs, reads, writes),
        DType::F16 => forward::<Half, f32>(attrs, reads, writes),
        DType::BF16 => forward::<Brain, f32>(attrs, reads, writes),
        DType::F64 => forward::<f64, f64>(attrs, reads, writes),
        other => return internal!("layer_norm of {other}"),
    }
    Ok(())
}

fn forward<S: RowOf<L>, L: RowMath + LaneType>(attrs: &[Attr], reads: &[Bound], writes: &[Bound]) {
    let (eps, has_weight, has_bias) = (attrs[0].float(), attrs[1].bool(), attrs[2].bool());
    let c = reads[0].sizes()[1] as usize;
    let (mean, rstd) = (writes[1].result::<L>(), writes[2].result::<L>());
    if c == 0 {
        mean.fill(L::from(f32::NAN));
        rstd.fill(L::from(f32::NAN));
        return;
    }
    let weight = column::<L>(reads.get(1).filter(|_| has_weight), c, 1.0);
    let bias = column::<L>(reads.last().filter(|_| has_bias), c, 0.0);
    let x = reads[0].dense::<S>();
    let y = writes[0].result::<S>();
    let tasks = x.par_chunks(ROWS * c).zip(y.par_chunks_mut(ROWS * c));
    let tasks = tasks.zip(mean.par_chunks_mut(ROWS)).zip(rstd.par_chunks_mut(ROWS));
    tasks.for_each(|(((x, y), mean), rstd)| {
        with_scratch(2 * c, |room: &mut [L]| {
            let (room_x, room_y) = room.split_at_mut(c);
            for (i, (x, y)) in x.chunks_exact(c).zip(y.chunks_exact_mut(c)).enumerate() {
                let x = S::read(x, room_x);
                mean[i] = L::from_f64(L::sum(x) / c as f64);
                let variance = L::squares(x, mean[i]) / c as f64;
                rstd[i] = L::from_f64(1.0 / (variance + eps).sqrt());
                S::write(y, room_y, |y| L::normalise(x, mean[i], rstd[i], &weight, &bias, y));
            }
        });
    });
}

pub fn layer_norm_grad(reads: &[Bound], writes: &[Bound]) -> Result<()> {
    match writes[0].dtype {
        DType::F32 => backward::<f32, f32>(reads, writes),
        DType::F16 => backward::<Half, f32>(reads, writes),
        DType::BF16 => backward::<Brain, f32>(reads, writes),
        DType::F64 => backward::<f64, f64>(reads, writes),
        other => return internal!("layer_norm_grad of {other}"),
    }
    Ok(())
}

fn backward<S: RowOf<L>, L: RowMath + LaneType>(reads: &[Bound], writes: &[Bound]) {
    let (r, c) = (reads[0].sizes()[0] as usize, reads[0].sizes()[1] as usize);
    if c == 0 {
        return;
    }
    let weight = column::<L>(reads.get(4), c, 1.0);
    // At most 64 blocks of rows; each leaves its sums of dweight and dbias.
    let block = r.div_ceil(64).max(ROWS);
    let mut sums = vec![0.0f64; 2 * c * r.div_ceil(block)];
    let (dy, x) = (reads[0].dense::<S>(), reads[1].dense::<S>());
    let (mean, rstd) = (reads[2].dense::<L>(), reads[3].dense::<L>());
    let dx = writes[0].result::<S>();
    let tasks = sums.par_chunks_mut(2 * c).zip(dx.par_chunks_mut(block * c)).enumerate();
    tasks.for_each(|(n, (sums, dx))| {
        let rows = n * block..r.min((n + 1) * block);
        backward_block(
            [&dy[rows.start * c..rows.end * c], &x[rows.start * c..rows.end * c]],
            [&mean[rows.clone()], &rstd[rows]],
            &weight,
            dx,
            sums,
        );
    });
    let mut total = vec![0.0; 2 * c];
    for sums in sums.chunks_exact(2 * c) {
        total.iter_mut().zip(sums).for_each(|(t, s)| *t += s);
    }
    write_column::<L>(&total[..c], &writes[1]);
    write_column::<L>(&total[c..], &writes[2]);
}

fn backward_block<S: RowOf<L>, L: RowMath>(
    [dy, x]: [&[S]; 2],
    [mean, rstd]: [&[L]; 2],
    weight: &[L],
    dx: &mut [S],
    sums: &mut [f64],
) {
    let c = weight.len();
    with_scratch(5 * c, |room: &mut [L]| {
        let (room_dy, rest) = room.split_at_mut(c);
        let (room_x, rest) = rest.split_at_mut(c);
        let (room_dx, short) = rest.split_at_mut(c);
        for (group, dx) in dx.chunks_mut(ROWS * c).enumerate() {
            // Few rows are summed in L, then all of them in f64.
            short.fill(L::from(0.0));
            let (dweight, dbias) = short.split_at_mut(c);
            for (i, dx) in dx.chunks_exact_mut(c).enumerate() {
                let row = group * ROWS + i;
                let at = row * c..(row + 1) * c;
                let (dy, x) = (S::read(&dy[at.clone()], room_dy), S::read(&x[at], room_x));
                let (mean, rstd) = (mean[row], rstd[row]);
                let (average, along) = L::norm_sums(dy, x, mean, rstd, weight);
                let average = L::from_f64(average / c as f64);
                let along = L::from_f64(along / c as f64);
                let terms = NormGrad { dy, x, weight, mean, rstd, average, along };
                S::write(dx, room_dx, |dx| L::norm_grad(terms, dx, dweight, dbias));
            }
            sums.iter_mut().zip(short.iter()).for_each(|(sum, s)| *sum += s.to_f64());
        }
    });
}
