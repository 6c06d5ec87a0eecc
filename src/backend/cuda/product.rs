//! Matrix products in the form that the library accepts: matrices with one stride each, batches evenly spaced.

use super::actions::{Action, Actions};
use super::device::{Device, Matrix, Product};
use super::emit::{self, KernelArg, Tasks};
use crate::dtype::DType;
use crate::error::Result;
use crate::internal;
use crate::op::{Attr, Op};
use crate::plan::{Instr, LoopBody, Operand};
use crate::shape::{Layout, collapse};
use smallvec::smallvec;

/// `write = reads[0] · reads[1]`, of floats. Operands may have any strides; those that the library cannot read in place are
/// copied first. The library does not check whether the run was stopped: with `overwrites_donor`, its result goes to scratch
/// memory, and a kernel that does check copies it over the donor's value.
pub fn multiply(reads: &[Operand], write: &Operand, overwrites_donor: bool) -> Result<Actions> {
    let [a, b] = reads else { return internal!("a product of {} operands", reads.len()) };
    let mut actions = Actions::default();
    if is_product(a, write, &mut actions)? {
        let sides = [side(a, &mut actions)?, side(b, &mut actions)?];
        actions.multiply([a, b], sides, None, write, overwrites_donor)?;
    }
    Ok(actions)
}

/// `write = reads[0] · reads[1] · reads[2] · reads[3]`: matrices of 8-bit floats in any strides, and their scales. The library
/// has this product for some formats and sizes, where rows of a and columns of b are contiguous and there is one scale for
/// each. Otherwise it multiplies the numbers as bf16, which represents them exactly, and a kernel scales the result.
pub fn multiply_scaled(
    reads: &[Operand],
    write: &Operand,
    overwrites_donor: bool,
    device: &dyn Device,
) -> Result<Actions> {
    let [a, b, scale_a, scale_b] = reads else {
        return internal!("a scaled product of {} operands", reads.len());
    };
    let mut actions = Actions::default();
    if !is_product(a, write, &mut actions)? {
        return Ok(actions);
    }
    let whole = [scale_a, scale_b].iter().all(|scale| scale.layout.numel() == 1);
    if whole && device.multiplies_float8() && is_for_float8([a, b], write) {
        let sides = [float8_side(a, false, &mut actions)?, float8_side(b, true, &mut actions)?];
        let scales = Some([scale_a, scale_b].map(KernelArg::of));
        actions.multiply([a, b], sides, scales, write, overwrites_donor)?;
        return Ok(actions);
    }
    let [a, b] = [a, b].map(|side| Operand { dtype: DType::BF16, ..side.clone() });
    let mut sides = Vec::new();
    for (wide, read) in [&a, &b].into_iter().zip(reads) {
        let (base, dense) = actions.scratch_for(wide);
        actions.extend(emit::cast(read, &dense)?);
        let Some(matrix) = matrix(&dense.layout) else {
            return internal!("a dense matrix is none");
        };
        sides.push((matrix, KernelArg::Scratch(base)));
    }
    let product = Operand { dtype: DType::F32, ..write.clone() };
    let (_, product) = actions.scratch_for(&product);
    actions.multiply([&a, &b], [sides[0], sides[1]], None, &product, false)?;
    actions.extend(scaled(&product, [scale_a, scale_b], write)?);
    Ok(actions)
}

/// Whether there is something to multiply; if not, fills the result with zeros.
fn is_product(a: &Operand, write: &Operand, actions: &mut Actions) -> Result<bool> {
    let nothing = a.layout.sizes.last() == Some(&0);
    if nothing && write.layout.numel() > 0 {
        actions.extend(emit::zeros(write)?);
    }
    Ok(!nothing && write.layout.numel() > 0)
}

/// Whether cuBLASLt has this product ("FP8 data types" of `cublasLtMatmul`): of matrices whose rows and columns are
/// multiples of 16 bytes, except the rows of a.
fn is_for_float8([a, b]: [&Operand; 2], write: &Operand) -> bool {
    let has = |dtype| matches!(dtype, DType::F8E4M3FN | DType::F8E5M2);
    let formats = has(a.dtype) && has(b.dtype) && [a.dtype, b.dtype] != [DType::F8E5M2; 2];
    let results = matches!(write.dtype, DType::F16 | DType::BF16 | DType::F32);
    formats && results && b.layout.sizes.iter().all(|size| size % 16 == 0)
}

/// A matrix as the library accepts it for 8-bit floats: contiguous rows (columns, if `transposed`), aligned to 16 bytes.
fn float8_side(
    operand: &Operand,
    transposed: bool,
    actions: &mut Actions,
) -> Result<(Matrix, KernelArg)> {
    let aligned = |side: &Matrix| {
        side.transposed == transposed
            && side.leading.is_multiple_of(16)
            && operand.layout.offset % 16 == 0
    };
    if let Some(matrix) = matrix(&operand.layout).filter(aligned) {
        return Ok((matrix, KernelArg::of(operand)));
    }
    let lines = match transposed {
        true => Operand { layout: operand.layout.transpose(&[1, 0]), ..operand.clone() },
        false => operand.clone(),
    };
    let (base, dense) = actions.scratch_for(&lines);
    actions.copy(&lines, &dense)?;
    let leading = lines.layout.sizes[1] as u64;
    Ok((Matrix { transposed, leading, batch: 0 }, KernelArg::Scratch(base)))
}

/// `write = product · (scales[0] · scales[1])`, in f32, cast to `write`'s dtype.
fn scaled(product: &Operand, scales: [&Operand; 2], write: &Operand) -> Result<Tasks> {
    let sizes = &product.layout.sizes;
    let spread =
        |scale: &Operand| Operand { layout: scale.layout.broadcast(sizes), ..scale.clone() };
    let reads = [product.clone(), spread(scales[0]), spread(scales[1])];
    let mul = |args| Instr { op: Op::Mul, attrs: smallvec![], dtype: DType::F32, args };
    let mut instrs = vec![mul(smallvec![1, 2]), mul(smallvec![0, 3])];
    if write.dtype != DType::F32 {
        let (attrs, args) = (smallvec![Attr::DType(write.dtype)], smallvec![4]);
        instrs.push(Instr { op: Op::Cast, attrs, dtype: write.dtype, args });
    }
    let results = vec![2 + instrs.len() as u32];
    let body = LoopBody { sizes: sizes.clone(), reads: vec![DType::F32; 3], instrs, results };
    emit::map(&body, &reads, std::slice::from_ref(write), 0, false)
}

/// An operand in the library's form, and its address.
fn side(operand: &Operand, actions: &mut Actions) -> Result<(Matrix, KernelArg)> {
    if let Some(matrix) = matrix(&operand.layout) {
        return Ok((matrix, KernelArg::of(operand)));
    }
    let (base, dense) = actions.scratch_for(operand);
    let Some(matrix) = matrix(&dense.layout) else { return internal!("a dense matrix is none") };
    actions.copy(operand, &dense)?;
    Ok((matrix, KernelArg::Scratch(base)))
}

impl Actions {
    /// `write = a · b`, times `scales`; `sides` are the operands in the library's form.
    fn multiply(
        &mut self,
        [a, b]: [&Operand; 2],
        sides: [(Matrix, KernelArg); 2],
        scales: Option<[KernelArg; 2]>,
        write: &Operand,
        overwrites_donor: bool,
    ) -> Result<()> {
        let rank = write.layout.rank();
        let [m, n] = [write.layout.sizes[rank - 2], write.layout.sizes[rank - 1]];
        let batch = (write.layout.numel() / (m * n)) as u64;
        let [m, n, k] = [m, n, a.layout.sizes[rank - 1]].map(|size| size as u64);
        let [(left, a_at), (right, b_at)] = sides;
        let c = Matrix { transposed: false, leading: n, batch: m * n };
        let dtypes = [a.dtype, b.dtype, write.dtype];
        let product = Product { dtypes, batch, m, n, k, a: left, b: right, c };
        if !overwrites_donor {
            let at = [a_at, b_at, KernelArg::of(write)];
            self.actions.push(Action::Multiply { product, at, scales });
            return Ok(());
        }
        let (base, made) = self.scratch_for(write);
        let at = [a_at, b_at, KernelArg::Scratch(base)];
        self.actions.push(Action::Multiply { product, at, scales });
        self.copy(&made, write)
    }
}

/// `None` where neither rows nor columns are contiguous, or they overlap, or matrices are not evenly spaced.
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
    // The stride of a single row or column does not matter.
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
