//! Products of groups of rows as matrix products: pieces of all groups run side by side.

use super::access::Bound;
use super::matmul::matmul;
use super::packed_weights::PackTarget;
use super::pool::parallel;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::grouped::groups;
use parking_lot::Mutex;
use std::ops::Range;

/// Rows of a result per task: enough that reading `b` for each task hardly matters.
const ROWS: usize = 128;

/// A product of some rows: their group, and the terms of its sums.
struct Piece {
    group: usize,
    rows: Range<usize>,
    terms: Range<usize>,
}

/// `reads` are a, b and ends, which is dense; `write` is dense.
pub fn grouped_matmul(reads: &[Bound], write: &Bound, pack_target: PackTarget) -> Result<()> {
    let (a, b) = (&reads[0], &reads[1]);
    let (m, k) = (a.sizes()[0] as usize, a.sizes()[1] as usize);
    let n = write.sizes()[write.layout.rank() - 1] as usize;
    let sums = b.layout.rank() == 2;
    let mut pieces = Vec::new();
    for (group, range) in groups(&places(&reads[2]), if sums { k } else { m }).enumerate() {
        let (rows, terms) = if sums { (0..m, range) } else { (range, 0..k) };
        pieces.extend(rows.clone().step_by(ROWS).map(|start| Piece {
            group,
            rows: start..rows.end.min(start + ROWS),
            terms: terms.clone(),
        }));
    }
    if !sums {
        // The rows that are in no group.
        let used = pieces.last().map_or(0, |piece| piece.rows.end);
        let width = n * write.dtype.size();
        write.result_bytes()[used * width..].fill(0);
    }
    let most = pieces.iter().map(|piece| piece.rows.len() * piece.terms.len()).max().unwrap_or(0);
    let failed = Mutex::new(Ok(()));
    parallel(pieces.len(), most.saturating_mul(n), |i| {
        let Piece { group, rows, terms } = &pieces[i];
        let multiplied = matrix(a, *group, rows, terms).and_then(|a| {
            let b = matrix(b, *group, terms, &(0..n))?;
            matmul(&[a, b], &[matrix(write, *group, rows, &(0..n))?], pack_target)
        });
        if let Err(error) = multiplied {
            *failed.lock() = Err(error);
        }
    });
    failed.into_inner()
}

/// Rows and columns of a matrix, or of the matrix of a group.
fn matrix(of: &Bound, group: usize, rows: &Range<usize>, columns: &Range<usize>) -> Result<Bound> {
    let mut layout = of.layout.clone();
    if layout.rank() == 3 {
        layout.offset += group as i64 * layout.strides.remove(0);
        layout.sizes.remove(0);
    }
    let [starts, sizes] =
        [[rows.start as i64, columns.start as i64], [rows.len() as i64, columns.len() as i64]];
    Bound::at(of.source, of.dtype, layout.slice(&starts, &sizes, &[1, 1]))
}

fn places(ends: &Bound) -> Vec<i64> {
    match ends.dtype {
        DType::I32 => ends.dense::<i32>().iter().map(|&end| end.into()).collect(),
        _ => ends.dense::<i64>().to_vec(),
    }
}
