//! Convolutions and poolings, forward and backward.

use super::Generator;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::nn::may_meet_nothing;
use crate::op::{Attr, Attrs, Op, Ty};
use crate::shape::Dims;
use smallvec::smallvec;

/// Attributes of windows over spatial dimensions: kernel, stride, padding, dilation.
fn windows(g: &mut Generator, n: usize) -> [Dims; 4] {
    let mut draw = |least: i64, n_values: usize| -> Dims {
        (0..n).map(|_| least + g.rng.below(n_values) as i64).collect()
    };
    [draw(1, 3), draw(1, 2), draw(0, 2), draw(1, 2)]
}

pub fn convolution(g: &mut Generator) -> Result<()> {
    let n = 1 + g.rng.below(3);
    let mut small = |n: usize| 1 + g.rng.below(n) as i64;
    let (images, groups, channels, filters) = (small(3), small(2), small(3), small(3));
    let spatial: Dims = (0..n).map(|_| small(if n == 3 { 3 } else { 6 })).collect();
    let dtype = *g.rng.pick(&[DType::F32, DType::F64, DType::BF16, DType::I32]);
    let [kernel, stride, padding, dilation] = windows(g, n);
    let x_sizes = [&[images, groups * channels], &spatial[..]].concat();
    let w_sizes = [&[groups * filters, channels], &kernel[..]].concat();
    let x = g.of_type(&Ty::new(dtype, &x_sizes))?;
    let w = g.of_type(&Ty::new(dtype, &w_sizes))?;
    let lists = [stride, padding, dilation].map(Attr::Ints);
    let attrs: Attrs = lists.into_iter().chain([Attr::Int(groups)]).collect();
    let Some(y) = g.node(Op::Conv, &[x, w], attrs.clone())? else { return Ok(()) };
    let dy = g.builder.ty(y[0]).clone();
    let dy = g.of_type(&dy)?;
    let with = |sizes: Dims| [Attr::Ints(sizes)].into_iter().chain(attrs.clone()).collect();
    if g.rng.chance(0.5) {
        g.node(Op::ConvGradInput, &[dy, w], with(spatial))?;
    }
    if g.rng.chance(0.5) {
        g.node(Op::ConvGradWeight, &[dy, x], with(kernel))?;
    }
    Ok(())
}

pub fn pooling(g: &mut Generator) -> Result<()> {
    let n = 1 + g.rng.below(3);
    let sizes: Dims =
        (0..n + 2).map(|_| 1 + g.rng.below(if n == 3 { 3 } else { 5 }) as i64).collect();
    let dtype = *g.rng.pick(&[DType::F32, DType::F64, DType::BF16, DType::I64]);
    let spatial = || Attr::Ints(sizes[2..].into());
    let lists = windows(g, n);
    // The index of a window of padding only is not valid for a gradient.
    let may_differ = !may_meet_nothing(&lists[2], &lists[3]);
    let lists = lists.map(Attr::Ints).into_iter();
    let attrs: Attrs = lists.chain([Attr::Bool(g.rng.chance(0.3))]).collect();
    let x = g.of_type(&Ty::new(dtype, &sizes))?;
    let maxima = g.rng.chance(0.5);
    let forward = if maxima { Op::MaxPool } else { Op::SumPool };
    let Some(y) = g.node(forward, &[x], attrs.clone())? else { return Ok(()) };
    let dy = g.builder.ty(y[0]).clone();
    let dy = g.of_type(&dy)?;
    if maxima {
        if may_differ {
            g.node(Op::MaxPoolGrad, &[dy, y[1]], smallvec![spatial()])?;
        }
    } else {
        let attrs = [spatial()].into_iter().chain(attrs).collect();
        g.node(Op::SumPoolGrad, &[dy], attrs)?;
    }
    Ok(())
}
