//! Convolution of one to three spatial dimensions, transposed or not, and its gradients. A transposed convolution is
//! the gradient of a convolution with regard to its input, and the other way round.

use super::PLAIN;
use super::channel::{asked, channel_sum, per_channel};
use crate::aten::call::{Call, wide};
use crate::aten::{Outs, Row, row};
use crate::error::Result;
use crate::graph::math::V;
use crate::op::{Attr, Attrs, Op};
use crate::shape::Dims;

pub const ROWS: &[Row] = &[
    row("convolution", PLAIN, convolution),
    row("convolution_backward", PLAIN, convolution_backward),
];

/// `stride, padding, dilation, transposed, output_padding, groups`
struct Spec {
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    transposed: bool,
    output_padding: Dims,
    groups: i64,
}

impl Spec {
    /// Arguments from number `first` on, for `n` spatial dimensions; a single number stands for all.
    fn new(c: &Call, first: usize, n: usize) -> Result<Spec> {
        let list = |i: usize, default: i64| -> Result<Dims> {
            let given = c.ints(i)?.unwrap_or_else(|| Dims::from_elem(default, 1));
            Ok(if given.len() == 1 { Dims::from_elem(given[0], n) } else { given })
        };
        Ok(Spec {
            stride: list(first, 1)?,
            padding: list(first + 1, 0)?,
            dilation: list(first + 2, 1)?,
            transposed: c.bool(first + 3, false)?,
            output_padding: list(first + 4, 0)?,
            groups: c.int(first + 5, 1)?,
        })
    }

    fn attrs(&self) -> Attrs {
        let lists = [&self.stride, &self.padding, &self.dilation];
        let lists = lists.into_iter().map(|list| Attr::Ints(list.clone()));
        lists.chain([Attr::Int(self.groups)]).collect()
    }

    /// As [`Spec::attrs`], preceded by the sizes of a gradient.
    fn attrs_of_gradient(&self, sizes: &[i64]) -> Attrs {
        [Attr::Ints(sizes.into())].into_iter().chain(self.attrs()).collect()
    }

    fn conv<'a>(&self, x: V<'a>, w: V<'a>) -> V<'a> {
        x.math().op(Op::Conv, &[x, w], self.attrs())
    }

    fn grad_input<'a>(&self, dy: V<'a>, w: V<'a>, sizes: &[i64]) -> V<'a> {
        dy.math().op(Op::ConvGradInput, &[dy, w], self.attrs_of_gradient(sizes))
    }

    fn grad_weight<'a>(&self, dy: V<'a>, x: V<'a>, kernel: &[i64]) -> V<'a> {
        dy.math().op(Op::ConvGradWeight, &[dy, x], self.attrs_of_gradient(kernel))
    }

    /// Spatial sizes of the transposed convolution. Error: one does not fit into an i64.
    fn transposed_sizes(&self, x: &[i64], kernel: &[i64]) -> Result<Dims> {
        let along = |d: usize| {
            let [x, stride, padding, dilation, kernel, more] = [
                x[d],
                self.stride[d],
                self.padding[d],
                self.dilation[d],
                kernel[d],
                self.output_padding[d],
            ]
            .map(i128::from);
            let size = (x - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1;
            match i64::try_from(size) {
                Ok(size) => Ok(size),
                Err(_) => crate::invalid!("the result of a convolution would be {size} long"),
            }
        };
        (0..x.len()).map(along).collect()
    }
}

/// Number of spatial dimensions of a weight and an input, which must agree.
fn spatial(x: V, w: V) -> Result<usize> {
    let (x, w) = (x.sizes(), w.sizes());
    if x.len() == w.len() && x.len() > 2 {
        return Ok(x.len() - 2);
    }
    crate::invalid!("expected input and weight of 3 to 5 dimensions, but got sizes {x:?} and {w:?}")
}

/// `(input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups)`
fn convolution<'a>(c: &Call<'a>) -> Outs<'a> {
    let (x, w) = (c.tensor(0)?, c.tensor(1)?);
    let n = spatial(x, w)?;
    let spec = Spec::new(c, 3, n)?;
    if [&spec.stride, &spec.padding, &spec.dilation, &spec.output_padding]
        .iter()
        .any(|l| l.len() != n)
    {
        return crate::invalid!("expected {n} numbers of stride, padding and dilation");
    }
    let mut y = if spec.transposed {
        let is_too_much = |d: usize| {
            spec.output_padding[d] >= spec.stride[d] && spec.output_padding[d] >= spec.dilation[d]
        };
        if x.numel() > 0 && (0..n).any(is_too_much) {
            return crate::invalid!(
                "output padding must be smaller than either stride or dilation, but got output_padding={:?}, stride={:?} and dilation={:?}",
                spec.output_padding,
                spec.stride,
                spec.dilation
            );
        }
        spec.grad_input(x, w, &spec.transposed_sizes(&x.sizes()[2..], &w.sizes()[2..])?)
    } else {
        spec.conv(x, w)
    };
    c.math.check()?;
    if let Some(bias) = c.optional(2)? {
        let compute = wide(y.dtype());
        let sum = y.cast(compute) + per_channel(bias.cast(compute), y.rank());
        y = sum.cast(y.dtype());
    }
    Ok(vec![y])
}

/// `(grad_output, input, weight, bias_sizes?, stride, padding, dilation, transposed, output_padding, groups, output_mask)`
/// → those of dx, dw, dbias that the mask asks for.
fn convolution_backward<'a>(c: &Call<'a>) -> Outs<'a> {
    let (dy, x, w) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    let spec = Spec::new(c, 4, spatial(x, w)?)?;
    let (sizes, kernel) = (x.sizes(), w.sizes());
    let grads = if spec.transposed {
        // An output padding beyond the stride makes room for windows that no element of the input belongs to.
        let mut dx = spec.conv(dy, w);
        c.math.check()?;
        for d in 2..sizes.len() {
            dx = dx.narrow(d, 0, sizes[d]);
        }
        [dx, spec.grad_weight(x, dy, &kernel[2..])]
    } else {
        [spec.grad_input(dy, w, &sizes[2..]), spec.grad_weight(dy, x, &kernel[2..])]
    };
    c.math.check()?;
    asked(c, 10, [grads[0], grads[1], channel_sum(dy)])
}
