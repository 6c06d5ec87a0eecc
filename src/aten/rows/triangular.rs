//! Systems of equations with a triangular matrix.

use super::PLAIN;
use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::graph::linalg::{self, MOST_ROWS};
use crate::graph::math::V;
use crate::invalid;
use crate::shape::{Dims, broadcast_shapes, numel};

pub const ROWS: &[Row] =
    &[row("linalg_solve_triangular", PLAIN, solve_triangular).fixed(&[2, 3, 4]).wide_floats()];

/// `(A, B, upper, left, unitriangular)`: X of A X = B, or of X A = B.
fn solve_triangular<'a>(c: &Call<'a>) -> Outs<'a> {
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    let (upper, left, unit) = (c.bool(2, false)?, c.bool(3, true)?, c.bool(4, false)?);
    let (rank_a, rank_b) = (a.rank(), b.rank());
    if rank_a < 2 || rank_b < 2 {
        return invalid!("linalg.solve_triangular: matrices have two dimensions at least");
    }
    let [rows, columns] = [0, 1].map(|d| a.sizes()[rank_a - 2 + d]);
    if rows != columns {
        return invalid!(
            "linalg.solve_triangular: A must be batches of square matrices, but they are {rows} by {columns} matrices"
        );
    }
    if rows > MOST_ROWS {
        return invalid!(
            "linalg.solve_triangular: {rows} equations, but there may be {MOST_ROWS} on this device: solve them on the CPU"
        );
    }
    if b.sizes()[if left { rank_b - 2 } else { rank_b - 1 }] != rows {
        return invalid!(
            "linalg.solve_triangular: Incompatible shapes of A {:?} and B {:?} for the equation {}",
            a.sizes(),
            b.sizes(),
            if left { "AX = B" } else { "XA = B" }
        );
    }
    // X A = B is A' X' = B'.
    let turned = |v: V<'a>, rank: usize| v.swap(rank - 2, rank - 1);
    let k = b.sizes()[if left { rank_b - 1 } else { rank_b - 2 }];
    let Some(lead) = broadcast_shapes(&a.sizes()[..rank_a - 2], &b.sizes()[..rank_b - 2]) else {
        return invalid!("linalg.solve_triangular: batches of {:?} and {:?}", a.sizes(), b.sizes());
    };
    let (a, b, upper) = match left {
        true => (a, b, upper),
        false => (turned(a, rank_a), turned(b, rank_b), !upper),
    };
    let with_lead = |matrix: [i64; 2]| lead.iter().copied().chain(matrix).collect::<Dims>();
    let batch = numel(&lead);
    let flat = |v: V<'a>, matrix: [i64; 2]| {
        v.broadcast(&with_lead(matrix)).reshape(&[batch, matrix[0], matrix[1]])
    };
    let (a, b) = (flat(a, [rows, rows]), flat(b, [rows, k]));
    let is_empty = batch == 0 || rows == 0 || k == 0;
    let x = if is_empty { b } else { linalg::solve_triangular(a, b, upper, unit) };
    let x = x.reshape(&with_lead([rows, k]));
    Ok(vec![if left { x } else { turned(x, lead.len() + 2) }])
}
