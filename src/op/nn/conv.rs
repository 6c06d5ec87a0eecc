//! Convolution (as neural networks mean it: the kernel is not flipped) and its gradients. All three go over the same triples
//! of elements in `y += x w`, and sum up products for one element of a triple.

use super::window::{Spacing, Windows, lists};
use crate::error::Result;
use crate::invalid;
use crate::op::array::{Array, filled};
use crate::op::{Attr, Eval, Ty, Tys, check};
use crate::shape::{Dims, numel};
use smallvec::smallvec;

pub const CONV: Eval = Eval::Whole(conv);
pub const CONV_GRAD_INPUT: Eval = Eval::Whole(conv_grad_input);
pub const CONV_GRAD_WEIGHT: Eval = Eval::Whole(conv_grad_weight);

const ATTRS: &str = "stride: ints, padding: ints, dilation: ints, groups: int";
const GRAD_ATTRS: &str = "sizes: ints, stride: ints, padding: ints, dilation: ints, groups: int";

fn groups(attrs: &[Attr], at: usize) -> Result<i64> {
    match attrs.get(at) {
        Some(Attr::Int(groups)) if attrs.len() == at + 1 => match *groups {
            1.. => Ok(*groups),
            _ => invalid!("non-positive groups is not supported, but got {groups}"),
        },
        _ => check::wrong_attrs(if at == 3 { ATTRS } else { GRAD_ATTRS }, attrs),
    }
}

/// Type of the result of a convolution of `x[n,c,s…]` with `w[o,c/groups,k…]`.
fn output(x: &Ty, w: &Ty, [stride, padding, dilation]: [&[i64]; 3], groups: i64) -> Result<Ty> {
    check::number(x.dtype)?;
    check::same_dtype(x, w)?;
    if x.rank() < 3 || x.rank() != w.rank() {
        return invalid!(
            "expected input and weight of 3 to 5 dimensions, but got sizes {:?} and {:?}",
            x.sizes,
            w.sizes
        );
    }
    if groups.checked_mul(w.sizes[1]) != Some(x.sizes[1]) || w.sizes[0] % groups != 0 {
        return invalid!(
            "Given groups={groups}, weight of size {:?}, expected input{:?} to have {} channels, but got {} channels instead",
            w.sizes,
            x.sizes,
            groups.saturating_mul(w.sizes[1]),
            x.sizes[1]
        );
    }
    let spacing = Spacing { kernel: &w.sizes[2..], stride, padding, dilation };
    let spatial = spacing.check(&x.sizes[2..])?.outputs(&x.sizes[2..], false)?;
    let sizes: Dims = [&[x.sizes[0], w.sizes[0]], &spatial[..]].concat().into();
    check::ty(x.dtype, &sizes)
}

/// Checks that a gradient fits an output. It may stop short of the last windows: then these do not count.
fn check_gradient(dy: &Ty, output: &Ty) -> Result<()> {
    check::same_dtype(output, dy)?;
    let fits = dy.rank() == output.rank()
        && dy.sizes[..2] == output.sizes[..2]
        && dy.sizes.iter().zip(&output.sizes).all(|(d, o)| d <= o);
    if fits {
        return Ok(());
    }
    invalid!(
        "expected grad_output to have sizes {:?} (or end before that), but got {:?}",
        output.sizes,
        dy.sizes
    )
}

pub fn conv_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [x, w] = inputs else {
        return check::wrong_operands("x, w", inputs);
    };
    let ty = output(x, w, lists(attrs, ATTRS)?, groups(attrs, 3)?)?;
    Ok(smallvec![ty])
}

pub fn conv_grad_input_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [dy, w] = inputs else {
        return check::wrong_operands("dy, w", inputs);
    };
    let [spatial, stride, padding, dilation] = lists(attrs, GRAD_ATTRS)?;
    let groups = groups(attrs, 4)?;
    if dy.rank() < 3 || w.rank() < 3 {
        return invalid!(
            "expected 3 to 5 dimensions, but got sizes {:?} and {:?}",
            dy.sizes,
            w.sizes
        );
    }
    let channels = w.sizes[1].saturating_mul(groups);
    let x = check::ty(w.dtype, &[&[dy.sizes[0], channels], spatial].concat())?;
    check_gradient(dy, &output(&x, w, [stride, padding, dilation], groups)?)?;
    Ok(smallvec![x])
}

pub fn conv_grad_weight_type(inputs: &[&Ty], attrs: &[Attr]) -> Result<Tys> {
    let [dy, x] = inputs else {
        return check::wrong_operands("dy, x", inputs);
    };
    let [kernel, stride, padding, dilation] = lists(attrs, GRAD_ATTRS)?;
    let groups = groups(attrs, 4)?;
    if dy.rank() < 3 || x.rank() < 3 {
        return invalid!(
            "expected 3 to 5 dimensions, but got sizes {:?} and {:?}",
            dy.sizes,
            x.sizes
        );
    }
    let w = check::ty(x.dtype, &[&[dy.sizes[1], x.sizes[1] / groups], kernel].concat())?;
    check_gradient(dy, &output(x, &w, [stride, padding, dilation], groups)?)?;
    Ok(smallvec![w])
}

/// A multiplication and an addition for every element of y, for every element of a filter.
fn products(y: &Ty, w: &Ty) -> u64 {
    let filter = numel(&w.sizes[1..]) as u64;
    (y.numel() as u64).saturating_mul(filter).saturating_mul(2)
}

pub fn conv_flops(inputs: &[&Ty], outs: &[Ty]) -> u64 {
    products(&outs[0], inputs[1])
}

pub fn conv_grad_input_flops(inputs: &[&Ty], _: &[Ty]) -> u64 {
    products(inputs[0], inputs[1])
}

pub fn conv_grad_weight_flops(inputs: &[&Ty], outs: &[Ty]) -> u64 {
    products(inputs[0], &outs[0])
}

/// The iteration space of a convolution, or of one of its gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    pub windows: Windows,
    pub images: usize,
    pub groups: usize,
    /// Channels of the input in one group.
    pub channels: usize,
    /// Channels of the output in one group.
    pub filters: usize,
}

impl Conv {
    /// From checked sizes and attributes: the last four attributes of each of the primitives.
    pub fn new(y: &[i64], x: &[i64], w: &[i64], attrs: &[Attr]) -> Conv {
        let [stride, padding, dilation, groups] = &attrs[attrs.len() - 4..] else {
            panic!("attributes of a convolution: {attrs:?}");
        };
        let spacing = Spacing {
            kernel: &w[2..],
            stride: stride.ints(),
            padding: padding.ints(),
            dilation: dilation.ints(),
        };
        let groups = groups.int() as usize;
        Conv {
            windows: Windows::new(&x[2..], &y[2..], spacing),
            images: x[0] as usize,
            groups,
            channels: w[1] as usize,
            filters: w[0] as usize / groups,
        }
    }

    /// Calls `f` for every product: the elements of y, x and w.
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let w = &self.windows;
        let (inputs, outputs) = (self.groups * self.channels, self.groups * self.filters);
        for filter in 0..self.images * outputs {
            let (image, filter) = (filter / outputs, filter % outputs);
            for channel in 0..self.channels {
                let of_x = image * inputs + filter / self.filters * self.channels + channel;
                let (y, x) = ((image * outputs + filter) * w.pixels(), of_x * w.plane());
                let taps = (filter * self.channels + channel) * w.taps();
                w.each(|pixel, tap, element| f(y + pixel, x + element, taps + tap));
            }
        }
    }

    /// Sums of products: `pick` selects from (y, x, w) the element of the sum, and those of `a` and `b`.
    fn sums(
        &self,
        ty: &Ty,
        [a, b]: [&Array; 2],
        pick: fn(usize, usize, usize) -> [usize; 3],
    ) -> Vec<Array> {
        let mut out = Array::zeros(ty);
        if ty.dtype.is_float() {
            let mut sums = filled(0.0, out.len());
            self.each(|y, x, w| {
                let [to, i, j] = pick(y, x, w);
                sums[to] += a.f64(i) * b.f64(j);
            });
            sums.iter().enumerate().for_each(|(i, &v)| out.set_f64(i, v));
        } else {
            let mut sums = filled(0i64, out.len());
            self.each(|y, x, w| {
                let [to, i, j] = pick(y, x, w);
                sums[to] = sums[to].wrapping_add(a.i64(i).wrapping_mul(b.i64(j)));
            });
            sums.iter().enumerate().for_each(|(i, &v)| out.set_i64(i, v));
        }
        vec![out]
    }
}

fn conv(operands: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let [x, w] = [operands[0], operands[1]];
    let all = Conv::new(&outs[0].sizes, &x.ty.sizes, &w.ty.sizes, attrs);
    Ok(all.sums(&outs[0], [x, w], |y, x, w| [y, x, w]))
}

fn conv_grad_input(operands: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let [dy, w] = [operands[0], operands[1]];
    let all = Conv::new(&dy.ty.sizes, &outs[0].sizes, &w.ty.sizes, attrs);
    Ok(all.sums(&outs[0], [dy, w], |y, x, w| [x, y, w]))
}

fn conv_grad_weight(operands: &[&Array], attrs: &[Attr], outs: &[Ty]) -> Result<Vec<Array>> {
    let [dy, x] = [operands[0], operands[1]];
    let all = Conv::new(&dy.ty.sizes, &x.ty.sizes, &outs[0].sizes, attrs);
    Ok(all.sums(&outs[0], [dy, x], |y, x, w| [w, y, x]))
}
