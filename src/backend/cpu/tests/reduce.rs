//! Reductions with a fused prologue.

use super::cases::kernel_of;
use super::*;
use crate::op::Attr;
use crate::op::cases::{case, values};
use crate::plan::Instr;
use smallvec::smallvec;

#[test]
fn sums_of_columns_after_a_cast_of_a_part_of_the_rows() {
    for sizes in [[1, 5000], [17, 1025], [3000, 130], [75, 4100]] {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let axes = Attr::Ints([0][..].into());
            let mut case = kernel_of(&case(Op::Sum, [axes], [values(dtype, &sizes)]));
            let Kernel::Reduce { body, .. } = &mut case.kernel else { unreachable!() };
            let attrs = smallvec![Attr::DType(DType::F32)];
            let args = smallvec![0];
            body.instrs.push(Instr { op: Op::Cast, attrs, dtype: DType::F32, args });
            body.results = vec![1];
            body.sizes[1] -= 3;
            let layout = case.reads[0].0.layout.slice(&[0, 2], &body.sizes, &[1, 1]);
            case.reads[0].0.layout = layout;
            case.writes = vec![(DType::F32, body.sizes[1..].into())];
            let (got, expected) = case.both();
            let bound = 40.0 * 4.0 * sizes[0] as f64 * compute_epsilon(DType::F32);
            case.compare(&got, &expected, |_, _| bound);
        }
    }
}
