//! Gradients of pooling against differences.

use super::nn::{DIFFERENCES, differences, forward};
use super::*;
use crate::op::cases::pooling::{EXACT_POOLS, pool_attrs};

#[test]
fn pooling_gradients() {
    for ((sizes, lists, ceil), _) in EXACT_POOLS {
        let mut numbers = Numbers(51);
        let x = [numbers.floats(F64, sizes)];
        let attrs = pool_attrs(lists, ceil);
        let pooled = run(Op::MaxPool, &[&x[0]], &attrs).unwrap();
        let dy = numbers.floats(F64, &pooled[0].ty.sizes);
        let of_x = [ints(&sizes[2..])];
        let want = differences(forward(Op::MaxPool, &x, &attrs), &x, &dy);
        let dx = one(Op::MaxPoolGrad, &[&dy, &pooled[1]], &of_x);
        assert_close("max_pool_grad", &dx, &want[0], DIFFERENCES);
        let want = differences(forward(Op::SumPool, &x, &attrs), &x, &dy);
        let dx = one(Op::SumPoolGrad, &[&dy], &[&of_x[..], &attrs].concat());
        assert_close("sum_pool_grad", &dx, &want[0], DIFFERENCES);
    }
}
