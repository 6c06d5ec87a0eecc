//! Attention to operands that lie side by side.

use super::check_kernels;
use crate::backend::cpu::tests::node::heads_side_by_side;
use crate::dtype::DType;
use crate::op::cases::attention::rounded;

#[test]
fn heads_that_lie_side_by_side() {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::BF16] {
        cases.push((heads_side_by_side(dtype), rounded(dtype, 300.0)));
    }
    check_kernels(&cases);
}
