//! Convolution and its gradients in the form that cuDNN accepts.

use super::{Node, Part, Request, Window};
use crate::dtype::DType;
use crate::op::nn::window::Spacing;
use crate::op::{Attr, Op};
use crate::plan::Operand;

/// `Op::Conv`, `Op::ConvGradInput` or `Op::ConvGradWeight`. `None`: a kernel of our own computes it.
pub fn conv(op: Op, attrs: &[Attr], reads: &[Operand], write: &Operand) -> Option<Request> {
    let (made, [x, w, y]) = match op {
        Op::Conv => (Part::Y, [&reads[0], &reads[1], write]),
        Op::ConvGradInput => (Part::X, [write, &reads[1], &reads[0]]),
        _ => (Part::W, [&reads[1], write, &reads[0]]),
    };
    let [stride, padding, dilation, _] = &attrs[attrs.len() - 4..] else { return None };
    let [stride, padding, dilation] = [stride, padding, dilation].map(|list| list.ints());
    let kernel = &w.layout.sizes[2..];
    let spacing = Spacing { kernel, stride, padding, dilation };
    // A gradient may stop short of the last windows.
    let spatial = spacing.outputs(&x.layout.sizes[2..], false).ok()?;
    let is_whole = y.layout.sizes[2..] == spatial[..];
    // No documentation promises that every engine counts beyond 31 bits.
    let lies_well = |o: &Operand| {
        (1..1 << 31).contains(&o.layout.numel())
            && o.layout.offset * o.dtype.size() as i64 % 16 == 0
    };
    let is_taken = matches!(write.dtype, DType::F16 | DType::BF16 | DType::F32);
    (is_taken && is_whole && [x, w, y].into_iter().all(lies_well)).then_some(())?;
    let mut r = Request::default();
    let [x, w, y] = [x, w, y].map(|operand| r.operand(operand));
    let window =
        Window { stride: stride.into(), padding: padding.into(), dilation: dilation.into() };
    r.add(Node::Conv { made, x, w, y, window });
    Some(r)
}
