//! Sums of columns of floats as they lie in memory, such as gradients of biases: groups of rows are summed in f32, and
//! the groups in f64. Values that are computed before they are summed come from tiles instead ([`super::reduce`]).

use super::access::Plain;
use super::element::{Bf16, F16, Stored};
use super::isa::{self, Kernel};
use super::tile::run::Stream;
use super::tile::space::Walk;
use super::vector::Vector;
use crate::dtype::DType;
use crate::op::Op;
use crate::plan::{LoopBody, MemRef, Operand};

/// Rows whose sum is taken in f32.
const GROUP: usize = 16;
/// Columns whose sums stay in the first-level cache.
const WIDTH: usize = 1024;
/// Columns that one task adds up: longer runs are prefetched better.
pub const WIDEST: usize = 4 * WIDTH;

/// Whether `op` over the first of two dimensions only adds up rows in memory.
pub fn suits(op: Op, body: &LoopBody, reads: &[Operand], walks: &[Walk]) -> bool {
    let [read] = reads else { return false };
    let is_memory = !matches!(read.mem, MemRef::Scalar(_) | MemRef::Index);
    let in_f32 = matches!(read.dtype, DType::F32 | DType::F16 | DType::BF16);
    // Such a cast changes nothing: values are held in f32 anyway.
    let as_it_is = body.instrs.is_empty()
        || matches!(&body.instrs[..], [cast] if cast.op == Op::Cast && cast.dtype == DType::F32);
    let along_rows = walks[0].strides[1] == 1 && walks[0].strides[0] >= 0;
    op == Op::Sum && is_memory && in_f32 && as_it_is && along_rows
}

/// Adds elements (row, column) for `rows` rows and `sums.len()` columns, from `start` on, to `sums`.
pub fn sum(from: &Stream, start: (usize, usize), rows: usize, sums: &mut [f64]) {
    match from.bound.dtype {
        DType::F16 => sum_as::<F16>(from, start, rows, sums),
        DType::BF16 => sum_as::<Bf16>(from, start, rows, sums),
        _ => sum_as::<f32>(from, start, rows, sums),
    }
}

fn sum_as<S: Stored<f32> + Plain>(
    from: &Stream,
    (row, column): (usize, usize),
    rows: usize,
    sums: &mut [f64],
) {
    let stride = from.walk.strides[0] as usize;
    let first = from.walk.offset + (row * stride + column) as i64;
    let from = from.bound.slice::<S>(first, rows.saturating_sub(1) * stride + sums.len());
    isa::run(Sum { from, stride, rows, sums });
}

struct Sum<'a, S> {
    from: &'a [S],
    stride: usize,
    rows: usize,
    sums: &'a mut [f64],
}

impl<S: Stored<f32>> Kernel for Sum<'_, S> {
    type Out = ();
    #[inline(always)]
    fn run<V: Vector, const FMA: bool>(self) {
        let mut some = [0f32; WIDTH];
        for group in (0..self.rows).step_by(GROUP) {
            for (n, sums) in self.sums.chunks_mut(WIDTH).enumerate() {
                let some = &mut some[..sums.len()];
                some.fill(0.0);
                for r in group..self.rows.min(group + GROUP) {
                    let row = &self.from[r * self.stride + n * WIDTH..][..sums.len()];
                    some.iter_mut().zip(row).for_each(|(sum, v)| *sum += v.load());
                }
                sums.iter_mut().zip(&*some).for_each(|(sum, &some)| *sum += some as f64);
            }
        }
    }
}
