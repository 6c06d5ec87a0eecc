//! Softmax, its logarithm and their gradients: rows in parallel.

use super::access::Bound;
use super::element::{Bf16, F16};
use super::pool::{GRAIN, Scratch, parallel_each, with_parts, with_scratch};
use super::rows::{RowMath, RowOf, Rows};
use super::sink::Sink;
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::Op;
use std::ops::Range;

/// Elements of one or more rows that one task computes.
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
    let room_b = if reads.len() > 1 { second.room(width) } else { 0 };
    let lengths = [first.room(width), room_b, S::room(width)];
    let pieces = y.pieces::<S>(total, together * width).into_iter().enumerate();
    parallel_each(pieces, cost_of(width) * together, |(n, piece)| {
        let row = n * together;
        let rows = together.min(total / width - row);
        y.fill(piece, (row, rows, width), |out| {
            with_parts(lengths, |room: [&mut [L]; 3]| {
                let [room_a, room_b, room_out] = room;
                for (i, out) in out.chunks_exact_mut(width).enumerate() {
                    let at = (row + i) * width..(row + i + 1) * width;
                    let room = [&mut *room_a, &mut *room_b, &mut *room_out];
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
    [room_a, room_b, room_out]: [&mut [L]; 3],
) {
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

/// Cost of a row: exponentials take about as long as streaming four times as much.
fn cost_of(width: usize) -> usize {
    16 * width
}

/// Rows that are worth a task. A list of all rows would take more memory than short rows.
fn rows_of_task(width: usize) -> usize {
    GRAIN.div_ceil(cost_of(width).max(1))
}

fn log_sums<S: RowOf<L>, L: RowMath>(x: &Bound, writes: &[Bound]) {
    let width = *x.sizes().last().unwrap_or(&1) as usize;
    let (rows, tops, logs) = (x.dense::<S>(), writes[0].result::<L>(), writes[1].result::<L>());
    let together = rows_of_task(width);
    let results = tops.chunks_mut(together).zip(logs.chunks_mut(together)).enumerate();
    parallel_each(results, cost_of(width) * together, |(n, (tops, logs))| {
        with_scratch(S::room(width), |room: &mut [L]| {
            for (i, (top, log)) in tops.iter_mut().zip(logs).enumerate() {
                let row = n * together + i;
                let x = S::read(&rows[row * width..(row + 1) * width], room);
                *top = L::max(x);
                *log = L::from_f64(L::sum_exp(x, *top).ln());
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::access::{Plain, Source};
    use crate::backend::cpu::pool::kept;
    use crate::shape::Layout;

    fn bound<T: Plain>(dtype: DType, sizes: &[i64], memory: &mut [T]) -> Bound {
        let address = memory.as_mut_ptr().expose_provenance();
        Bound::at(Source::Memory(address), dtype, Layout::contiguous(sizes)).unwrap()
    }

    /// Bytes of scratch memory that this thread keeps after softmax and its gradient of two rows.
    fn worked_in<S: RowOf<L> + Scratch, L: RowMath>(dtype: DType, width: usize) -> usize {
        let sizes = [2, width as i64];
        let [mut a, mut b, mut y] = [0; 3].map(|_| vec![S::default(); 2 * width]);
        let reads = [bound(dtype, &sizes, &mut a), bound(dtype, &sizes, &mut b)];
        let y = bound(dtype, &sizes, &mut y);
        run(Op::Softmax, &reads[..1], &Sink::Memory(&y)).unwrap();
        run(Op::SoftmaxGrad, &reads, &Sink::Memory(&y)).unwrap();
        kept::<L>()
    }

    #[test]
    fn rows_that_are_used_as_they_are_need_no_room() {
        std::thread::spawn(|| {
            assert_eq!(worked_in::<f32, f32>(DType::F32, 10_000), 0);
            assert_eq!(worked_in::<f64, f64>(DType::F64, 10_000), 0);
            assert_eq!(worked_in::<Bf16, f32>(DType::BF16, 10_000), 4 << 15);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn tasks_are_not_of_single_short_rows() {
        for width in (1..10_000).chain([1 << 20]) {
            let rows = rows_of_task(width);
            assert!(rows > 0 && cost_of(width) * rows >= GRAIN, "{width}");
            assert!(cost_of(width) * (rows - 1) < GRAIN, "{width}");
        }
    }

    #[test]
    fn sums_of_many_short_rows() {
        let (rows, width) = (20_001, 3);
        let mut x: Vec<f32> = (0..rows * width).map(|i| (i % 101) as f32 / 10.0).collect();
        let [mut tops, mut logs] = [vec![0f32; rows], vec![0f32; rows]];
        let size = [rows as i64];
        let writes = [bound(DType::F32, &size, &mut tops), bound(DType::F32, &size, &mut logs)];
        log_sum_exp(&bound(DType::F32, &[size[0], width as i64], &mut x), &writes).unwrap();
        for (row, x) in x.chunks_exact(width).enumerate() {
            let top = x.iter().fold(f32::MIN, |top, &x| top.max(x));
            let log = x.iter().map(|&x| ((x - top) as f64).exp()).sum::<f64>().ln();
            assert_eq!(tops[row], top);
            assert!((logs[row] as f64 - log).abs() < 1e-6, "{row}");
        }
    }
}
