//! Gradients of convolution against differences: it is linear in both operands.

use super::nn::{DIFFERENCES, differences, forward};
use super::*;
use crate::op::cases::convolution::{EXACT, conv_attrs};

#[test]
fn convolution_gradients() {
    for (x, w, lists, groups) in EXACT {
        let mut numbers = Numbers(41);
        let operands = [numbers.floats(F64, x), numbers.floats(F64, w)];
        let plain = conv_attrs(None, lists, groups);
        let y = one(Op::Conv, &[&operands[0], &operands[1]], &plain);
        let dy = numbers.floats(F64, &y.ty.sizes);
        let want = differences(forward(Op::Conv, &operands, &plain), &operands, &dy);
        let of_input = conv_attrs(Some(&x[2..]), lists, groups);
        let dx = one(Op::ConvGradInput, &[&dy, &operands[1]], &of_input);
        assert_close("conv_grad_input", &dx, &want[0], DIFFERENCES);
        let of_weight = conv_attrs(Some(&w[2..]), lists, groups);
        let dw = one(Op::ConvGradWeight, &[&dy, &operands[0]], &of_weight);
        assert_close("conv_grad_weight", &dw, &want[1], DIFFERENCES);
    }
}

/// Windows that a gradient stops short of count as if their gradient were 0.
#[test]
fn a_shorter_gradient_is_one_with_zeros() {
    let mut numbers = Numbers(42);
    let (x, w) = (numbers.small(F64, &[1, 2, 6]), numbers.small(F64, &[3, 2, 2]));
    let short = numbers.small(F64, &[1, 3, 4]);
    let mut long = Array::zeros(&Ty::new(F64, &[1, 3, 5]));
    (0..12).for_each(|i| long.set_f64(i / 4 * 5 + i % 4, short.f64(i)));
    let lists: [&[i64]; 3] = [&[1], &[0], &[1]];
    for (op, other, of) in [(Op::ConvGradInput, &w, [6]), (Op::ConvGradWeight, &x, [2])] {
        let attrs = conv_attrs(Some(&of), lists, 1);
        check(op, &[&short, other], &attrs, &one(op, &[&long, other], &attrs));
    }
}
