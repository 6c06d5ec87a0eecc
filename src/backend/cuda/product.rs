//! Matrix products as the library takes them: matrices with one stride each, batches evenly spaced.

use super::device::{Matrix, Product};
use super::emit::{self, SCRATCH, Word};
use super::lower::{Action, Actions};
use crate::error::Result;
use crate::internal;
use crate::plan::Operand;
use crate::shape::{Layout, collapse};

/// `write = reads[0] · reads[1]`, of floats. Operands may have any strides; those that the library cannot read as they lie
/// are copied first. The library does not ask whether the run was stopped: with `keeps`, a result that is the only copy of what
/// it overwrites is copied there by a kernel that does.
pub fn multiply(reads: &[Operand], write: &Operand, keeps: bool) -> Result<Actions> {
    let [a, b] = reads else { return internal!("a product of {} operands", reads.len()) };
    let rank = write.layout.rank();
    let (m, n, k) =
        (write.layout.sizes[rank - 2], write.layout.sizes[rank - 1], a.layout.sizes[rank - 1]);
    let mut actions = Actions::default();
    if write.layout.numel() == 0 {
        return Ok(actions);
    }
    if k == 0 {
        actions.extend(emit::zeros(write)?);
        return Ok(actions);
    }
    let (a, a_word) = side(a, &mut actions)?;
    let (b, b_word) = side(b, &mut actions)?;
    let c = Matrix { transposed: false, leading: n as u64, batch: (m * n) as u64 };
    let batch = (write.layout.numel() / (m * n)) as u64;
    let [m, n, k] = [m, n, k].map(|n| n as u64);
    let product = Product { dtype: write.dtype, batch, m, n, k, a, b, c };
    if !keeps {
        let c = Word::of(write);
        actions.actions.push(Action::Multiply { product, a: a_word, b: b_word, c });
        return Ok(actions);
    }
    let (base, made) = actions.scratch_for(write);
    let c = Word::Scratch(base);
    actions.actions.push(Action::Multiply { product, a: a_word, b: b_word, c });
    actions.copy(&made, write)?;
    Ok(actions)
}

/// An operand as the library sees it, and its address.
fn side(operand: &Operand, actions: &mut Actions) -> Result<(Matrix, Word)> {
    if let Some(matrix) = matrix(&operand.layout) {
        return Ok((matrix, Word::of(operand)));
    }
    let (base, dense) = actions.scratch_for(operand);
    let Some(matrix) = matrix(&dense.layout) else { return internal!("a dense matrix is none") };
    actions.copy(operand, &dense)?;
    Ok((matrix, Word::Scratch(base)))
}

impl Actions {
    /// Scratch memory for a dense copy of an operand: where it begins, and the copy.
    pub fn scratch_for(&mut self, operand: &Operand) -> (u64, Operand) {
        let size = operand.dtype.size() as u64;
        let base = self.scratch.next_multiple_of(256);
        let mut layout = Layout::contiguous(&operand.layout.sizes);
        self.scratch = base + layout.numel() as u64 * size;
        layout.offset = (base / size) as i64;
        (base, Operand { place: SCRATCH, layout, ..operand.clone() })
    }
}

/// `None` where rows and columns are both apart, or overlap, or matrices are not evenly spaced.
fn matrix(layout: &Layout) -> Option<Matrix> {
    let rank = layout.rank();
    let batches = Layout {
        sizes: layout.sizes[..rank - 2].into(),
        strides: layout.strides[..rank - 2].into(),
        offset: 0,
    };
    let order: Vec<usize> = (0..rank - 2).collect();
    let (_, strides, _) = collapse(&[&batches], &order, &[]);
    let batch = match strides[0].as_slice() {
        [] => 0,
        [stride] => *stride as u64,
        _ => return None,
    };
    let [rows, columns] = [layout.sizes[rank - 2], layout.sizes[rank - 1]];
    let [down, across] = [layout.strides[rank - 2], layout.strides[rank - 1]];
    // A single row or column has no stride to speak of.
    if (across == 1 || columns == 1) && (down >= columns || rows == 1) {
        let leading = if rows == 1 { columns } else { down } as u64;
        return Some(Matrix { transposed: false, leading, batch });
    }
    if (down == 1 || rows == 1) && (across >= rows || columns == 1) {
        let leading = if columns == 1 { rows } else { across } as u64;
        return Some(Matrix { transposed: true, leading, batch });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_matrix() {
        let of = |sizes: &[i64], strides: &[i64]| {
            let layout = Layout { sizes: sizes.into(), strides: strides.into(), offset: 3 };
            matrix(&layout).map(|m| (m.transposed, m.leading, m.batch))
        };
        assert_eq!(of(&[4, 5], &[5, 1]), Some((false, 5, 0)));
        assert_eq!(of(&[4, 5], &[1, 9]), Some((true, 9, 0)));
        assert_eq!(of(&[2, 3, 4, 5], &[60, 20, 5, 1]), Some((false, 5, 20)));
        assert_eq!(of(&[2, 3, 4, 5], &[0, 0, 5, 1]), Some((false, 5, 0)));
        // Heads side by side: two strides for one batch.
        assert_eq!(of(&[2, 3, 4, 5], &[60, 5, 15, 1]), None);
        assert_eq!(of(&[1, 3, 4, 5], &[60, 5, 15, 1]), Some((false, 15, 5)));
        assert_eq!(of(&[4, 5], &[0, 1]), None);
        assert_eq!(of(&[4, 5], &[10, 2]), None);
        assert_eq!(of(&[1, 5], &[77, 1]), Some((false, 5, 0)));
        assert_eq!(of(&[1, 5], &[77, 3]), Some((true, 3, 0)));
        assert_eq!(of(&[4, 1], &[3, 77]), Some((false, 3, 0)));
        assert_eq!(of(&[1, 1], &[0, 0]), Some((false, 1, 0)));
    }
}
