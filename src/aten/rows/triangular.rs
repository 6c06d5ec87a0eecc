//! Systems of equations with a triangular matrix: blocks on the diagonal are inverted, each from its halves, and then it goes from
//! block to block, as in MAGMA's and cuBLAS's `trsm`.

use super::PLAIN;
use crate::aten::call::Call;
use crate::aten::{Outs, Row, row};
use crate::dtype::DType;
use crate::graph::math::V;
use crate::invalid;
use crate::op::{Attr, Attrs, Op};
use crate::shape::{Dims, broadcast_shapes, numel};
use smallvec::smallvec;

pub const ROWS: &[Row] =
    &[row("linalg_solve_triangular", PLAIN, solve_triangular).fixed(&[2, 3, 4]).wide_floats()];

/// Rows of a block that is inverted.
const BLOCK: i64 = 32;
/// Rows of the largest matrix: the program grows with it.
const MOST_ROWS: i64 = 1 << 14;

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
    let x = if is_empty { b } else { solved(a, b, [batch, rows, k], (upper, unit)) };
    let x = x.reshape(&with_lead([rows, k]));
    Ok(vec![if left { x } else { turned(x, lead.len() + 2) }])
}

/// X of A X = B for a batch of `a` `[batch, n, n]` and `b` `[batch, n, k]`.
fn solved<'a>(a: V<'a>, b: V<'a>, [batch, n, k]: [i64; 3], (upper, unit): (bool, bool)) -> V<'a> {
    let math = b.math();
    let block = (n.max(1) as u64).next_power_of_two().min(BLOCK as u64) as i64;
    let all = (n as u64).next_multiple_of(block as u64) as i64;
    let lower = if upper { a.swap(1, 2) } else { a };
    let lower = longer(longer(lower, 1, all - n), 2, all - n);
    let inverses = inverted(lower, [batch, all, block], (n, unit)).reshape(&[
        batch,
        all / block,
        block,
        block,
    ]);
    let b = longer(b, 1, all - n);
    let mut parts: Vec<V> = Vec::new();
    for step in 0..all / block {
        let i = if upper { all / block - 1 - step } else { step };
        let at = i * block;
        let mut rest = b.narrow(1, at, block);
        if !parts.is_empty() {
            // What is known: above, or below.
            let factors = match upper {
                false => lower.narrow(1, at, block).narrow(2, 0, at),
                true => {
                    lower.narrow(2, at, block).narrow(1, at + block, all - at - block).swap(1, 2)
                }
            };
            rest = rest - factors.matmul(math.concat(&parts, 1));
        }
        let inverse = inverses.narrow(1, i, 1).reshape(&[batch, block, block]);
        let x = if upper { inverse.swap(1, 2) } else { inverse }.matmul(rest);
        parts.insert(if upper { 0 } else { parts.len() }, x);
    }
    math.concat(&parts, 1).slice(&[0; 3], &[batch, n, k], &[1; 3])
}

/// `v` with so many zeros after it along `dim`.
fn longer<'a>(v: V<'a>, dim: usize, more: i64) -> V<'a> {
    let mut sizes = v.sizes();
    match sizes.get_mut(dim) {
        Some(size) if more > 0 => *size = more,
        _ => return v,
    }
    v.math().concat(&[v, v.math().zeros(v.dtype(), &sizes)], dim)
}

/// The inverses of the blocks on the diagonal of `lower` `[batch, all, all]`, one after the other; beyond `n` the diagonal is 1,
/// and everywhere if it is so by agreement.
fn inverted<'a>(lower: V<'a>, [batch, all, block]: [i64; 3], (n, unit): (i64, bool)) -> V<'a> {
    let (math, dtype) = (lower.math(), lower.dtype());
    let strided = |sizes: [i64; 4], strides: [i64; 4], offset: i64| {
        let attrs: Attrs = smallvec![
            Attr::Ints(sizes[..].into()),
            Attr::Ints(strides[..].into()),
            Attr::Int(offset)
        ];
        math.op(Op::AsStrided, &[lower], attrs)
    };
    let ones = math.full(1.0, dtype, &[batch, all, 1, 1]);
    let mut inverse = ones;
    if !unit {
        let diagonal = strided([batch, all, 1, 1], [all * all, all + 1, 1, 1], 0);
        let is_real = math.iota(&[batch, all, 1, 1], 1, DType::I64).lt(n as f64);
        inverse = 1.0 / is_real.select(diagonal, ones);
    }
    let mut half = 1;
    while half < block {
        // Of two blocks on the diagonal and the one below the first, the inverse of all three.
        let (pairs, size) = (all / (2 * half), 2 * half);
        let below =
            strided([batch, pairs, half, half], [all * all, size * (all + 1), all, 1], half * all);
        let one_of = |which: i64| {
            let apart = inverse.reshape(&[batch * pairs, 2, half, half]);
            apart.narrow(1, which, 1).reshape(&[batch * pairs, half, half])
        };
        let (first, second) = (one_of(0), one_of(1));
        let below = below.reshape(&[batch * pairs, half, half]);
        let corner = -second.matmul(below).matmul(first);
        let nothing = math.zeros(dtype, &first.sizes());
        let rows = [[first, nothing], [corner, second]].map(|row| math.concat(&row, 2));
        inverse = math.concat(&rows, 1).reshape(&[batch, pairs, size, size]);
        half = size;
    }
    inverse
}
