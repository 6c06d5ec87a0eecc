//! Products of groups of rows, each with a matrix of its own: the layers of a mixture of experts. As PyTorch's
//! `torch.nn.functional.grouped_mm`.

use super::array::Array;
use super::{Attr, Eval, Ty, Tys, check};
use crate::error::Result;
use crate::invalid;
use std::ops::Range;

pub const GROUPED_MATMUL: Eval = Eval::Whole(grouped_matmul);

/// Two forms, told apart by the rank of `b`, [g, k, n] or [k, n]: `a` is [m, k], `ends` [g].
pub fn grouped_matmul_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [a, b, ends] = inputs else {
        return check::wrong_operands("a, b, ends", inputs);
    };
    check::no_attrs(attrs)?;
    check::same_dtype(a, b)?;
    check::float(a.dtype)?;
    check::index(ends.dtype)?;
    check::rank(a, 2, "a")?;
    check::rank(ends, 1, "ends")?;
    let (m, k, groups) = (a.sizes[0], a.sizes[1], ends.sizes[0]);
    let (k_b, sizes) = match b.sizes[..] {
        [groups_b, k_b, n] if groups_b == groups => (k_b, [m, n].to_vec()),
        [k_b, n] => (k_b, [groups, m, n].to_vec()),
        [groups_b, ..] if b.rank() == 3 => {
            return invalid!("matrix batch sizes have to match: {groups} and {groups_b}");
        }
        _ => return invalid!("mat_b has to be 2 or 3d, but it has sizes {:?}", b.sizes),
    };
    match k == k_b {
        true => check::one(a.dtype, &sizes),
        false => invalid!("contraction dimension of mat_a and mat_b must match: {k} and {k_b}"),
    }
}

/// As if every row were in a group, or every term.
pub fn flops(inputs: &[&Ty], _: &[Ty]) -> u64 {
    let n = *inputs[1].sizes.last().expect("the type is checked") as u64;
    (inputs[0].numel() as u64).saturating_mul(n).saturating_mul(2)
}

/// The range of each group along a dimension of `extent`: from the furthest end before it to its own.
pub fn groups(ends: &[i64], extent: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    ends.iter().map(move |&end| {
        let end = end.clamp(0, extent as i64).max(start as i64) as usize;
        std::mem::replace(&mut start, end)..end
    })
}

fn grouped_matmul(x: &[&Array], _: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let [a, b, ends] = x else { return check::wrong_operands("a, b, ends", &[]) };
    let (m, k) = (a.ty.sizes[0] as usize, a.ty.sizes[1] as usize);
    let n = *outs[0].sizes.last().expect("the type is checked") as usize;
    let ends: Vec<i64> = (0..ends.len()).map(|i| ends.i64(i)).collect();
    let sums = b.ty.rank() == 2;
    let mut y = Array::zeros(&outs[0]);
    for (g, group) in groups(&ends, if sums { k } else { m }).enumerate() {
        // The group's parts of b and of the result.
        let (from, to) = if sums { (0, g * m) } else { (g * k, 0) };
        let (rows, terms) = if sums { (0..m, group) } else { (group, 0..k) };
        for row in rows {
            for column in 0..n {
                let pair = |j: usize| a.f64(row * k + j) * b.f64((from + j) * n + column);
                y.set_f64((to + row) * n + column, terms.clone().map(pair).sum());
            }
        }
    }
    Ok(vec![y])
}
