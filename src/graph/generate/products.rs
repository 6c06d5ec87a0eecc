//! Products of matrices.

use super::{Generator, any};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Attr, Op, Ty};
use crate::shape::Dims;
use smallvec::smallvec;

pub fn matmul(g: &mut Generator) -> Result<()> {
    let a = any(g, 2, |d| d.is_float())?;
    let mut ty = g.builder.ty(a).clone();
    let rank = ty.rank();
    ty.sizes[rank - 2] = ty.sizes[rank - 1];
    ty.sizes[rank - 1] = g.size();
    // Often a transpose of something, as in real programs.
    let b = if g.rng.chance(0.5) {
        ty.sizes.swap(rank - 2, rank - 1);
        let b = g.of_type(&ty)?;
        let mut perm: Dims = (0..rank as i64).collect();
        perm.swap(rank - 2, rank - 1);
        g.node(Op::Transpose, &[b], smallvec![Attr::Ints(perm)])?.map(|v| v[0])
    } else {
        Some(g.of_type(&ty)?)
    };
    if let Some(b) = b {
        g.node(Op::Matmul, &[a, b], smallvec![])?;
    }
    Ok(())
}

/// A product of groups of rows or of terms, in order or not.
pub fn grouped(g: &mut Generator) -> Result<()> {
    let a = any(g, 2, |d| d.is_float())?;
    let ty = g.builder.ty(a).clone();
    let [m, k] = ty.sizes[..] else { return Ok(()) };
    let (groups, n, by_row) = (g.size(), g.size(), g.rng.chance(0.5));
    let sizes = if by_row { vec![groups, k, n] } else { vec![k, n] };
    let b = g.of_type(&Ty::new(ty.dtype, &sizes))?;
    let dtype = *g.rng.pick(&[DType::I32, DType::I64]);
    let ends = g.fresh_indices(dtype, &[groups], if by_row { m } else { k } + 1, None)?;
    g.node(Op::GroupedMatmul, &[a, b, ends], smallvec![])?;
    Ok(())
}

/// A transform of lines of pairs.
pub fn fft(g: &mut Generator) -> Result<()> {
    let dtype = *g.rng.pick(&[DType::F32, DType::F64]);
    let (lines, n) = (g.size(), g.size());
    let x = g.of_type(&Ty::new(dtype, &[lines, n, 2]))?;
    let inverse = g.rng.chance(0.5);
    g.node(Op::Fft, &[x], smallvec![Attr::Bool(inverse)])?;
    Ok(())
}

/// Numbers rounded to 8 bits, alone or in a product.
pub fn float8(g: &mut Generator) -> Result<()> {
    let a = any(g, 2, |d| d == DType::F32)?;
    let sizes = g.builder.ty(a).sizes.clone();
    let Some(a) = rounded(g, a)? else { return Ok(()) };
    if sizes.len() != 2 || g.rng.chance(0.3) {
        g.node(Op::Cast, &[a], smallvec![Attr::DType(DType::F32)])?;
        return Ok(());
    }
    let n = g.size();
    let b = g.of_type(&Ty::new(DType::F32, &[sizes[1], n]))?;
    let Some(b) = rounded(g, b)? else { return Ok(()) };
    let by_row = g.rng.chance(0.5);
    let (rows, columns) = if by_row { (sizes[0], n) } else { (1, 1) };
    let scale_a = g.of_type(&Ty::new(DType::F32, &[rows, 1]))?;
    let scale_b = g.of_type(&Ty::new(DType::F32, &[1, columns]))?;
    let dtype = *g.rng.pick(&[DType::F32, DType::BF16]);
    g.node(Op::ScaledMatmul, &[a, b, scale_a, scale_b], smallvec![Attr::DType(dtype)])?;
    Ok(())
}

fn rounded(g: &mut Generator, x: ValueId) -> Result<Option<ValueId>> {
    let formats = [DType::F8E4M3FN, DType::F8E5M2, DType::F8E4M3FNUZ, DType::F8E5M2FNUZ];
    let attrs = smallvec![Attr::DType(*g.rng.pick(&formats))];
    Ok(g.node(Op::Cast, &[x], attrs)?.map(|v| v[0]))
}
