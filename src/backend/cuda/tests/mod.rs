//! Every kernel against its row's meaning, on a device made of the host ([`super::emulated`]).

use super::Cuda;
use super::emulated::Emulated;
use crate::backend::memory::Pool;
use crate::backend::plan_tests;
use crate::plan::random::random_program;
use crate::plan::training::training_step;
use std::sync::{Arc, LazyLock};

/// The backend on the host.
pub fn cuda() -> &'static Cuda {
    static BACKEND: LazyLock<Cuda> =
        LazyLock::new(|| Cuda::new(Arc::new(Emulated::default()), Pool::new()));
    &BACKEND
}

#[test]
fn plans_of_random_programs() {
    let ran = (0..20).filter_map(|seed| {
        let (graph, donors) = random_program(seed);
        plan_tests::check(cuda(), &graph, &donors, seed, 1e-4)
    });
    assert!(ran.count() > 15);
}

#[test]
fn a_training_step() {
    let (graph, donors) = training_step(1, 2, 8, 16, 32);
    assert!(plan_tests::check(cuda(), &graph, &donors, 0, 0.03).is_some());
}
