//! Common to normalizations and convolutions: channels are dimension 1, gradients are masked.

use crate::aten::Outs;
use crate::aten::call::Call;
use crate::graph::math::V;
use crate::op::Op;
use crate::shape::Dims;

/// The gradients that the output mask, argument `i`, asks for.
pub fn asked<'a, const N: usize>(c: &Call<'a>, i: usize, grads: [V<'a>; N]) -> Outs<'a> {
    let mask = if c.has(i) { c.bools(i)? } else { vec![true; N] };
    Ok(grads.into_iter().zip(mask).filter_map(|(v, wanted)| wanted.then_some(v)).collect())
}

/// A vector with one number per channel, in sizes that broadcast over a tensor of `rank` with channels in dimension 1.
pub fn per_channel<'a>(v: V<'a>, rank: usize) -> V<'a> {
    let mut sizes = Dims::from_elem(1, rank.max(2) - 1);
    sizes[0] = v.numel();
    v.reshape(&sizes)
}

/// The sum for every channel (dimension 1).
pub fn channel_sum(x: V) -> V {
    let axes: Dims = (0..x.rank() as i64).filter(|&d| d != 1).collect();
    x.reduce(Op::Sum, &axes, false)
}
