//! Linear algebra as formulas. Triangular systems, Cholesky and LU factors go block by block: a block on the diagonal is
//! inverted, or factored in a loop, and the rest is products, as in LAPACK. QR factors and eigenvalues are loops over the
//! whole matrix.

use super::Guard;
use super::math::{Math, V};
use super::module::body_among;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Attr, Attrs, Op, Ty};
use smallvec::smallvec;
use std::sync::Arc;

/// Rows or columns of a block.
const BLOCK: i64 = 32;
/// Maximum number of rows: the program grows with it.
pub const MOST_ROWS: i64 = 1 << 14;

// ---- triangular systems

/// X of A X = B for `a` `[batch, n, n]` and `b` `[batch, n, k]`, neither of them empty. Diagonal blocks are inverted, each from
/// its halves, then X is solved for block by block, as in MAGMA's and cuBLAS's `trsm`. Only one triangle of `a` is read; its
/// diagonal counts as 1 if `unit` is set. Since blocks are inverted, NaN and infinity in B reach a whole block of X.
pub fn solve_triangular<'a>(a: V<'a>, b: V<'a>, upper: bool, unit: bool) -> V<'a> {
    let &[batch, n, k] = &b.sizes()[..] else { return b };
    let math = b.math();
    let block = (n.max(1) as u64).next_power_of_two().min(BLOCK as u64) as i64;
    let all = (n as u64).next_multiple_of(block as u64) as i64;
    let least = if block < BLOCK { block / 2 + 1 } else { all - block + 1 };
    math.guard(Guard::between(least, n, all));
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
            // The blocks solved so far: above, or below.
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

/// `v` with `more` zeros after it along `dim`.
fn longer<'a>(v: V<'a>, dim: usize, more: i64) -> V<'a> {
    let mut sizes = v.sizes();
    match sizes.get_mut(dim) {
        Some(size) if more > 0 => *size = more,
        _ => return v,
    }
    v.math().concat(&[v, v.math().zeros(v.dtype(), &sizes)], dim)
}

/// The inverses of the blocks on the diagonal of `lower` `[batch, all, all]`, one after the other; the diagonal counts as 1
/// beyond `n`, and everywhere if `unit` is set.
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
        // From the inverses of two diagonal blocks and the block below the first, the inverse of all three.
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

// ---- factors

/// L of A = L L' for `a` `[batch, n, n]`, whose lower triangle is read. Where A is not positive definite, the diagonal is NaN or
/// 0 at the first column that fails; numbers after it, and below its block, are meaningless.
pub fn cholesky(a: V<'_>) -> Result<V<'_>> {
    let &[batch, n, _] = &a.sizes()[..] else { return Ok(a) };
    let math = a.math();
    let (mut rest, mut columns) = (a, Vec::new());
    guard_blocks(math, n);
    for at in (0..n).step_by(BLOCK as usize) {
        let size = BLOCK.min(n - at);
        let mut column = vec![math.zeros(a.dtype(), &[batch, at, size])];
        let block = cholesky_of_block(rest.narrow(1, 0, size).narrow(2, 0, size), size)?;
        column.push(block);
        let others = n - at - size;
        if others > 0 {
            let inverse = inverted(block, [batch, size, size], (size, false));
            let inverse = inverse.reshape(&[batch, size, size]).swap(1, 2);
            let below = rest.narrow(1, size, others).narrow(2, 0, size).matmul(inverse);
            column.push(below);
            rest = rest.narrow(1, size, others).narrow(2, size, others)
                - below.matmul(below.swap(1, 2));
        }
        columns.push(math.concat(&column, 1));
    }
    Ok(math.concat(&columns, 2))
}

/// Guards the number of blocks in `n` rows.
fn guard_blocks(math: &Math, n: i64) {
    let all = (n as u64).next_multiple_of(BLOCK as u64) as i64;
    math.guard(Guard::between(all - BLOCK + 1, n, all));
}

fn cholesky_of_block(a: V<'_>, n: i64) -> Result<V<'_>> {
    let factor = rounds(n, &[a], |j, state| {
        let at = Places::new(state[0], j);
        let column = at.column(state[0]);
        let pivot = at.row(column).sqrt();
        let column = at.below.select(column / pivot, at.this_row.select(pivot, 0.0));
        let product = column.matmul(column.swap(1, 2));
        let zero = at.math.zeros(column.dtype(), &product.sizes());
        let after = at.after.and(at.below).select(product, zero);
        vec![at.this_column.select(column, state[0] - after)]
    })?[0];
    let index = |dim| a.math().iota(&[1, n, n], dim, DType::I64);
    Ok(index(1).ge(index(2)).select(factor, 0.0))
}

/// Factors of `[batch, m, n]` as `getrf` gives them: L below the diagonal and U from it on, in one matrix; the row (from 0) that
/// each of the first min(m, n) rows was exchanged with, i64 `[batch, min(m, n)]`; the row of A that each row was, i64
/// `[batch, m]`.
pub fn lu(a: V<'_>) -> Result<[V<'_>; 3]> {
    let &[batch, m, n] = &a.sizes()[..] else { return Ok([a, a, a]) };
    let math = a.math();
    guard_blocks(math, m.min(n));
    math.guard(Guard::order(m, n));
    // The unfinished rows: their numbers, their part of L, and the rest.
    let mut numbers = math.iota(&[batch, m, 1], 1, DType::I64);
    let (mut left, mut rest) = (None::<V>, a);
    let (mut rows, mut pivots, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for at in (0..m.min(n)).step_by(BLOCK as usize) {
        let (height, size) = (m - at, BLOCK.min(m.min(n) - at));
        let [panel, exchanged, order] = lu_of_panel(rest.narrow(2, 0, size), size)?;
        pivots.push(exchanged + at as f64);
        numbers = ordered(numbers, order);
        places.push(numbers.narrow(1, 0, size));
        numbers = numbers.narrow(1, size, height - size);
        let mut done: Vec<V> = left.into_iter().map(|v| ordered(v, order)).collect();
        done.push(panel);
        let done = math.concat(&done, 2);
        let width = n - at - size;
        let mut top = vec![done.narrow(1, 0, size)];
        if width > 0 {
            let others = ordered(rest.narrow(2, size, width), order);
            let first = panel.narrow(1, 0, size);
            let solved = solve_triangular(first, others.narrow(1, 0, size), false, true);
            top.push(solved);
            rest = others.narrow(1, size, height - size)
                - panel.narrow(1, size, height - size).matmul(solved);
        }
        rows.push(math.concat(&top, 2));
        left = (height > size).then(|| done.narrow(1, size, height - size));
    }
    // More rows than columns.
    rows.extend(left);
    places.push(numbers);
    let places = math.concat(&places, 1).reshape(&[batch, m]);
    Ok([math.concat(&rows, 1), math.concat(&pivots, 1), places])
}

/// The rows of matrices in another order.
fn ordered<'a>(v: V<'a>, order: V<'a>) -> V<'a> {
    let index = order.unsqueeze(2).broadcast(&v.sizes());
    v.math().op(Op::Gather, &[v, index], smallvec![Attr::Int(1)])
}

/// A panel of few columns: its factors, the rows exchanged, and the new order of rows.
fn lu_of_panel(a: V<'_>, columns: i64) -> Result<[V<'_>; 3]> {
    let &[batch, m, _] = &a.sizes()[..] else { return Ok([a, a, a]) };
    let math = a.math();
    let pivots = math.zeros(DType::I64, &[batch, columns]);
    let order = math.iota(&[batch, m], 1, DType::I64);
    let done = rounds(columns, &[a, pivots, order], |j, state| {
        let (a, pivots, order) = (state[0], state[1], state[2]);
        let at = Places::new(a, j);
        let sizes = at.rows.ge(j).select(at.column(a).abs(), -1.0);
        let chosen = at.math.op(Op::ArgMax, &[sizes], smallvec![Attr::Int(1)]);
        let chosen = chosen.reshape(&[batch, 1, 1]);
        let is_chosen = at.rows.eq(chosen);
        let (a, top) = at.exchanged(a, is_chosen);
        let (column, pivot) = (at.column(a), at.column(top));
        let factor = pivot.eq(0.0).select(column, column / pivot);
        let rest = at.after.select(a - factor * top, at.this_column.select(factor, a));
        let order = at.exchanged(order.unsqueeze(2), is_chosen).0.reshape(&[batch, m]);
        let this = at.math.iota(&[1, columns], 1, DType::I64).eq(j);
        let pivots = this.select(chosen.reshape(&[batch, 1]), pivots);
        vec![at.below.select(rest, a), pivots, order]
    })?;
    Ok([done[0], done[1], done[2]])
}

/// Factors of `[batch, m, n]` as `geqrf` gives them: R from the diagonal on, below it the reflectors; factors of these,
/// `[batch, min(m, n)]`.
pub fn qr(a: V<'_>) -> Result<[V<'_>; 2]> {
    let &[batch, m, n] = &a.sizes()[..] else { return Ok([a, a]) };
    let count = m.min(n);
    let factors = a.math().zeros(a.dtype(), &[batch, count]);
    let done = rounds(count, &[a, factors], |j, state| {
        let at = Places::new(state[0], j);
        let column = at.column(state[0]);
        let first = at.row(column);
        let below = at.below.select(column, 0.0);
        // Scaled by the largest, so that no square is infinite or 0.
        let largest = below.abs().max(first.abs()).reduce(Op::ReduceMax, &[1], true);
        let safe = largest.ne(0.0).select(largest, 1.0);
        let (scaled, head) = (below / safe, first / safe);
        let square = (scaled * scaled).reduce(Op::Sum, &[1], true);
        let is_left = square.ne(0.0);
        let size = safe * (head * head + square).sqrt();
        let end = is_left.select(first.ge(0.0).select(-size, size), first);
        let factor = is_left.select((end - first) / end, 0.0);
        let reflector = at.reflector(below / is_left.select(first - end, 1.0));
        let along = reflector.swap(1, 2).matmul(state[0]);
        let others = state[0] - factor * (reflector * along);
        let kept = at.this_row.select(end, at.below.select(reflector, column));
        let rest = at.this_column.select(kept, at.after.select(others, state[0]));
        let this = at.math.iota(&[1, count], 1, DType::I64).eq(j);
        vec![rest, this.select(factor.reshape(&[batch, 1]), state[1])]
    })?;
    Ok([done[0], done[1]])
}

/// The first columns of Q, `[batch, m, n]`, from the results of [`qr`]: `orgqr`.
pub fn q_of<'a>(reflectors: V<'a>, factors: V<'a>) -> Result<V<'a>> {
    let sizes = reflectors.sizes();
    let index = |dim| reflectors.math().iota(&sizes, dim, DType::I64);
    let unit = index(1).eq(index(2)).cast(reflectors.dtype());
    q_times(reflectors, factors, unit, false)
}

/// Q, or Q' if `transposed` is set, times `onto`, `[batch, m, n]`: `ormqr`.
pub fn q_times<'a>(
    reflectors: V<'a>,
    factors: V<'a>,
    onto: V<'a>,
    transposed: bool,
) -> Result<V<'a>> {
    let &[batch, count] = &factors.sizes()[..] else { return Ok(onto) };
    let done = rounds(count, &[onto, reflectors, factors], |round, state| {
        // Each reflection is symmetric, so Q' is their product in the opposite order.
        let j = if transposed { round } else { (count - 1) as f64 - round };
        let at = Places::new(state[1], j);
        let reflector = at.reflector(at.column(state[1]));
        let this = at.math.iota(&[1, count], 1, DType::I64).eq(j);
        let factor = this.select(state[2], 0.0).reduce(Op::Sum, &[1], true).reshape(&[batch, 1, 1]);
        let along = reflector.swap(1, 2).matmul(state[0]);
        vec![state[0] - factor * (reflector * along), state[1], state[2]]
    })?;
    Ok(done[0])
}

// ---- eigenvalues

/// Eigenvalues `[batch, n]` in ascending order and eigenvectors `[batch, n, n]`, one a column, of symmetric matrices. Jacobi's
/// method: a round makes n / 2 elements 0 by rotations of disjoint pairs of rows and columns, then pairs change as in a
/// round-robin tournament (Brent and Luk, 1985).
pub fn eigh(a: V<'_>) -> Result<[V<'_>; 2]> {
    let &[batch, n, _] = &a.sizes()[..] else { return Ok([a, a]) };
    let (math, dtype) = (a.math(), a.dtype());
    let even = n + n % 2;
    // An added row of zeros is never rotated.
    let whole = longer(longer(a, 1, even - n), 2, even - n);
    let index = |dim| math.iota(&[batch, even, even], dim, DType::I64);
    let unit = index(1).eq(index(2)).cast(dtype);
    let most = SWEEPS * (even - 1);
    let done = rounds_while(most, &[whole, unit], |s| is_coupled(s[0]), |_, s| jacobi(s))?;
    // The added row of zeros comes last.
    let diagonal = Places::diagonal(done[0]).select(done[0], 0.0).reduce(Op::Sum, &[2], false);
    let is_added = match even > n {
        true => done[1].narrow(1, n, 1).reshape(&[batch, even]).abs().gt(0.5),
        false => math.zeros(DType::Bool, &[batch, even]),
    };
    let infinite = math.full(f64::INFINITY, dtype, &[batch, even]);
    let keys = is_added.select(infinite, diagonal);
    let attrs = smallvec![Attr::Int(1), Attr::Int(even), Attr::Bool(false)];
    let sorted = math.ops(Op::TopK, &[keys], attrs)?;
    let order = sorted[1].unsqueeze(1).broadcast(&[batch, even, even]);
    let vectors = math.op(Op::Gather, &[done[1], order], smallvec![Attr::Int(2)]);
    let vectors = vectors.narrow(1, 0, n).narrow(2, 0, n);
    Ok([sorted[0].narrow(1, 0, n), vectors])
}

/// Maximum number of sweeps, in each of which every pair of rows meets once. Far fewer suffice.
const SWEEPS: i64 = 30;

/// Whether any of the matrices is not diagonal yet, up to rounding.
fn is_coupled(a: V<'_>) -> V<'_> {
    let (dtype, sizes) = (a.dtype(), a.sizes());
    let epsilon = if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    let n = sizes.last().map_or(0.0, |&n| n as f64);
    // Only one element of each symmetric pair is read: the differences that rounding makes between them remain.
    let bound = 2.0 * epsilon * n.sqrt();
    // Scaled by the largest, so that no square is infinite or 0.
    let largest = a.abs().reduce(Op::ReduceMax, &[1, 2], true);
    let scaled = a / largest.ne(0.0).select(largest, 1.0);
    let square = scaled * scaled;
    let all = square.reduce(Op::Sum, &[1, 2], false);
    let zeros = a.math().zeros(dtype, &sizes);
    let outside = Places::diagonal(a).select(zeros, square).reduce(Op::Sum, &[1, 2], false);
    // NaN counts as not diagonal: it reaches all that depends on it.
    outside.le(all * (bound * bound)).not().reduce(Op::Any, &[0], false)
}

/// One round, on the matrices and on the vectors.
fn jacobi<'a>(state: &[V<'a>]) -> Vec<V<'a>> {
    let rotation = rotations(state[0]);
    let rows = rotated(state[0], 1, rotation.map(|v| v.unsqueeze(2)));
    let columns = |v| rotated(v, 2, rotation.map(|v| v.unsqueeze(1)));
    vec![columns(rows), columns(state[1])]
}

/// The sines `[batch, n / 2]` of the angles that make element (k, n / 2 + k) of a symmetric matrix 0, for each k, and the
/// tangents of half the angles.
fn rotations(a: V<'_>) -> [V<'_>; 2] {
    let half = a.sizes().get(1).map_or(0, |n| n / 2);
    let part = |row: i64, column: i64| {
        let block = a.narrow(1, row, half).narrow(2, column, half);
        Places::diagonal(block).select(block, 0.0).reduce(Op::Sum, &[2], false)
    };
    let (first, second, between) = (part(0, 0), part(half, half), part(0, half));
    let slope = (second - first) / (between * 2.0);
    let size = 1.0 / (slope.abs() + (slope * slope + 1.0).sqrt());
    let tangent = between.ne(0.0).select(slope.ge(0.0).select(size, -size), 0.0);
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    [sine, sine / (cosine + 1.0)]
}

/// `v` with the pairs of its two halves along `dim` rotated, and then rearranged to other pairs.
fn rotated<'a>(v: V<'a>, dim: usize, [sine, half_tangent]: [V<'a>; 2]) -> V<'a> {
    let half = v.sizes().get(dim).map_or(0, |n| n / 2);
    let (a, b) = (v.narrow(dim, 0, half), v.narrow(dim, half, half));
    // In this form small angles lose no digits, as they would with cosines (Rutishauser, 1966).
    let (a, b) = (a - sine * (b + half_tangent * a), b + sine * (a - half_tangent * b));
    if half < 2 {
        return v.math().concat(&[a, b], dim);
    }
    let parts = [
        a.narrow(dim, 0, 1),
        b.narrow(dim, 0, 1),
        a.narrow(dim, 1, half - 2),
        b.narrow(dim, 1, half - 1),
        a.narrow(dim, half - 1, 1),
    ];
    v.math().concat(&parts, dim)
}

/// Masks of row and column `j` of matrices, and of those after them.
struct Places<'a> {
    math: &'a Math,
    /// The number of each row.
    rows: V<'a>,
    this_row: V<'a>,
    below: V<'a>,
    this_column: V<'a>,
    after: V<'a>,
}

impl<'a> Places<'a> {
    fn new(matrices: V<'a>, j: V<'a>) -> Places<'a> {
        let math = j.math();
        let [m, n] = match &matrices.sizes()[..] {
            &[_, m, n] => [m, n],
            _ => [0, 0],
        };
        let rows = math.iota(&[1, m, 1], 1, DType::I64);
        let columns = math.iota(&[1, 1, n], 2, DType::I64);
        Places {
            math,
            rows,
            this_row: rows.eq(j),
            below: rows.gt(j),
            this_column: columns.eq(j),
            after: columns.gt(j),
        }
    }

    /// Whether an element is on the diagonal.
    fn diagonal(matrices: V<'a>) -> V<'a> {
        let sizes = matrices.sizes();
        let index = |dim| matrices.math().iota(&sizes, dim, DType::I64);
        index(1).eq(index(2))
    }

    fn column(&self, v: V<'a>) -> V<'a> {
        self.this_column.select(v, 0.0).reduce(Op::Sum, &[2], true)
    }

    fn row(&self, v: V<'a>) -> V<'a> {
        self.this_row.select(v, 0.0).reduce(Op::Sum, &[1], true)
    }

    /// `v` with this row and the chosen one exchanged; and the chosen row.
    fn exchanged(&self, v: V<'a>, is_chosen: V<'a>) -> (V<'a>, V<'a>) {
        let chosen = is_chosen.select(v, 0.0).reduce(Op::Sum, &[1], true);
        (self.this_row.select(chosen, is_chosen.select(self.row(v), v)), chosen)
    }

    /// 1 in this row, `v` below it.
    fn reflector(&self, v: V<'a>) -> V<'a> {
        let one = self.math.constant(1.0, v.dtype());
        self.this_row.select(one, self.below.select(v, 0.0))
    }
}

/// The state after `count` rounds, each of which gets its number, from 0.
fn rounds<'m>(
    count: i64,
    state: &[V<'m>],
    round: impl for<'a> Fn(V<'a>, &[V<'a>]) -> Vec<V<'a>>,
) -> Result<Vec<V<'m>>> {
    rounds_while(count, state, |state| state[0].math().constant_int(1, DType::I64).eq(1.0), round)
}

/// At most `count` rounds, as long as `goes_on` returns true (a bool of rank 0).
fn rounds_while<'m>(
    count: i64,
    state: &[V<'m>],
    goes_on: impl for<'a> Fn(&[V<'a>]) -> V<'a>,
    round: impl for<'a> Fn(V<'a>, &[V<'a>]) -> Vec<V<'a>>,
) -> Result<Vec<V<'m>>> {
    let math = state[0].math();
    math.check()?;
    let operands: Vec<V> =
        [math.constant_int(0, DType::I64)].into_iter().chain(state.iter().copied()).collect();
    let types: Vec<Ty> = operands.iter().map(|v| v.ty()).collect();
    let part = |build: &dyn for<'a> Fn(V<'a>, &[V<'a>]) -> Vec<V<'a>>| {
        let inner = Math::default();
        let input = |(i, ty): (usize, &Ty)| inner.build(|b| b.input(i as u32, ty.clone()));
        let inputs: Vec<V> = types.iter().enumerate().map(input).collect();
        let results = build(inputs[0], &inputs[1..]).iter().map(|v| v.id).collect();
        inner.check()?;
        let graph = inner.into_builder().finish(results);
        Ok(Attr::Body(Arc::new(body_among(&graph, &types, |i| i))))
    };
    let condition = part(&|j, state| vec![j.lt(count as f64).and(goes_on(state))])?;
    let round = part(&|j, state| {
        let mut next = vec![j + 1.0];
        next.extend(round(j, state));
        next
    })?;
    Ok(math.ops(Op::While, &operands, smallvec![condition, round])?.split_off(1))
}
