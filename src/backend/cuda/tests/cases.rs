//! The table of cases on the device.

use super::{both, failure, is_on_the_device, prepare};
use crate::backend::cpu::tests::Case;
use crate::backend::cpu::tests::cases::{kernel_of, of_absolute};
use crate::backend::reference::Reference;
use crate::op::cases::{self, Bound, families};
use crate::op::{Class, Op};
use crate::plan::Kernel;
use crate::shape::numel;

/// Products, convolutions and pools of integers, and of nothing.
fn may_be_on_the_host(case: &Case) -> bool {
    let Kernel::Node { op, .. } = case.kernel else { return false };
    let (dtype, sizes) = &case.writes[0];
    let is_window = matches!(op, Op::MaxPool | Op::MaxPoolGrad);
    (op.class() == Class::Contraction || is_window) && (!dtype.is_float() || numel(sizes) == 0)
}

fn check(family: Vec<cases::Case>) {
    let on_device = |case: &cases::Case| Some((kernel_of(case), case.cuda.clone()?));
    let cases: Vec<(Case, Bound)> = family.iter().filter_map(on_device).collect();
    prepare(cases.iter().map(|(case, _)| case));
    for (case, bound) in &cases {
        if !may_be_on_the_host(case) {
            is_on_the_device(case);
        }
        if let Bound::Fails(code, message) = bound {
            let (error, expected) = (failure(case), case.run(&Reference::default()).unwrap_err());
            assert_eq!((error.code, &error.message), (expected.code, &expected.message));
            assert!(error.code == *code && error.message.ends_with(message), "{}", error.message);
            continue;
        }
        let (got, expected) = both(case);
        case.compare(&got, &expected, bound.allowed(&expected, || of_absolute(case)));
    }
}

families!(tests check);
