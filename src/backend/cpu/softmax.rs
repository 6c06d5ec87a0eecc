//! Softmax, its logarithm and their gradients: rows in parallel.

use super::access::Bound;
use super::element::{Bf16, F16};
use super::pool::{Scratch, parallel_each, with_scratch};
use super::rows::{RowMath, RowOf, Rows};
use super::sink::Sink;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Op;
use std::ops::Range;

/// Elements of a row or some rows that are computed together.
const BLOCK: usize = 8192;

/// `op` is one of the four; `reads` are its dense operands, `y` its result.
pub fn run(op: Op, reads: &[Bound], y: &Sink) -> Result<()> {
    match y.dtype() {
        DType::F32 => run_as::<f32, f32>(op, reads, y),
        DType::F16 => run_as::<F16, f32>(op, reads, y),
        DType::BF16 => run_as::<Bf16, f32>(op, reads, y),
        DType::F64 => run_as::<f64, f64>(op, reads, y),
        other => internal!("{} of {other}", op.name()),
    }
}

fn run_as<S: RowOf<L> + Scratch, L: RowMath>(op: Op, reads: &[Bound], y: &Sink) -> Result<()> {
    let width = *reads[0].sizes().last().unwrap_or(&1) as usize;
    if width == 0 {
        return Ok(());
    }
    let first = L::rows(&reads[0])?;
    let second = L::rows(reads.last().unwrap_or(&reads[0]))?;
    let together = (BLOCK / width).max(1);
    let total = reads[0].numel();
    let pieces = y.pieces::<S>(total, together * width).into_iter().enumerate();
    // Exponentials take about as long as streaming four times as much.
    parallel_each(pieces, 16 * width * together, |(n, piece)| {
        let row = n * together;
        let rows = together.min(total / width - row);
        y.fill(piece, (row, rows, width), |out| {
            with_scratch(3 * width, |room: &mut [L]| {
                for (i, out) in out.chunks_exact_mut(width).enumerate() {
                    let at = (row + i) * width..(row + i + 1) * width;
                    one_row(op, [&*first, &*second], at, out, room);
                }
            });
        });
    });
    Ok(())
}

fn one_row<S: RowOf<L>, L: RowMath>(
    op: Op,
    [a, b]: [&dyn Rows<L>; 2],
    at: Range<usize>,
    out: &mut [S],
    room: &mut [L],
) {
    let (room_a, rest) = room.split_at_mut(out.len());
    let (room_b, room_out) = rest.split_at_mut(out.len());
    let a = a.read(at.clone(), room_a);
    match op {
        Op::Softmax => S::write(out, room_out, |y| softmax(a, y)),
        Op::LogSoftmax => S::write(out, room_out, |y| log_softmax(a, y)),
        Op::SoftmaxGrad => {
            let y = b.read(at, room_b);
            S::write(out, room_out, |dx| L::softmax_grad(a, y, L::from_f64(L::dot(a, y)), dx));
        }
        _ => {
            let y = b.read(at, room_b);
            S::write(out, room_out, |dx| L::log_softmax_grad(a, y, L::from_f64(L::sum(a)), dx));
        }
    }
}

/// `x`'s rows are dense; `writes` are their maxima and the logarithms of their sums.
pub fn log_sum_exp(x: &Bound, writes: &[Bound]) -> Result<()> {
    match x.dtype {
        DType::F32 => log_sums::<f32, f32>(x, writes),
        DType::F16 => log_sums::<F16, f32>(x, writes),
        DType::BF16 => log_sums::<Bf16, f32>(x, writes),
        DType::F64 => log_sums::<f64, f64>(x, writes),
        other => return internal!("log_sum_exp of {other}"),
    }
    Ok(())
}

fn log_sums<S: RowOf<L>, L: RowMath>(x: &Bound, writes: &[Bound]) {
    let width = *x.sizes().last().unwrap_or(&1) as usize;
    let (rows, tops, logs) = (x.dense::<S>(), writes[0].result::<L>(), writes[1].result::<L>());
    let results = tops.iter_mut().zip(logs).enumerate();
    parallel_each(results, 16 * width, |(row, (top, log))| {
        with_scratch(width, |room: &mut [L]| {
            let x = S::read(&rows[row * width..(row + 1) * width], room);
            *top = L::max(x);
            *log = L::from_f64(L::sum_exp(x, *top).ln());
        });
    });
}

fn softmax<L: RowMath>(x: &[L], y: &mut [L]) {
    let sum = L::exp_sum(x, L::max(x), y);
    L::scale(y, L::from_f64(1.0 / sum));
}

fn log_softmax<L: RowMath>(x: &[L], y: &mut [L]) {
    let top = L::max(x);
    let sum = L::sum_exp(x, top);
    L::subtract(x, top, L::from_f64(sum.ln()), y);
}
