//! Every kernel against its row's meaning, on a device made of the host ([`super::emulated`]).

mod attention;
mod cases;
mod collectives;
mod failure;
mod horizontal_fusion;
mod graphs;
mod library;
mod map;
mod custom_op;
mod product;
mod transpose;
mod usage;

use super::actions::Action;
use super::emit::Source;
use super::lower;
use super::{Cuda, driver, emulated, memory};
use crate::backend::cpu::tests::{Case, compute_epsilon, epsilon, largest, tiny};
use crate::backend::plan_tests;
use crate::backend::reference::Reference;
use crate::error::Error;
use crate::op::array::Array;
use crate::plan::random::random_program;
use crate::plan::training::training_step;
use std::sync::LazyLock;

/// A value that lies as memory of the device does.
#[repr(align(256))]
struct Aligned<T>(T);

impl<T> Aligned<T> {
    fn address(&mut self) -> usize {
        (&raw mut self.0).expose_provenance()
    }
}

/// The backend on the host; on a GPU if `TORCHACC_TEST_GPU` is set.
pub fn cuda() -> &'static Cuda {
    static BACKEND: LazyLock<Cuda> = LazyLock::new(|| gpu(true).unwrap_or_else(emulated::backend));
    &BACKEND
}

/// Whether `TORCHACC_TEST_GPU` is set.
fn on_a_gpu() -> bool {
    std::env::var_os("TORCHACC_TEST_GPU").is_some()
}

/// The backend on a GPU, if tests are to run on one.
fn gpu(deterministic: bool) -> Option<Cuda> {
    if !on_a_gpu() {
        return None;
    }
    let folders = driver::tests::folders();
    let options = driver::Options { folders, deterministic, ..Default::default() };
    let device = driver::open(&options).expect("a GPU");
    Some(Cuda::new(device.clone(), memory::pool(device), true))
}

/// Compiles the kernels of all cases at once: a compiler that starts once for each takes minutes.
pub fn prepare<'a>(cases: impl Iterator<Item = &'a Case>) {
    let mut sources: Vec<Source> = Vec::new();
    for plan in cases.map(Case::plan) {
        for index in 0..plan.steps.len() {
            let actions =
                lower::step(&plan, index, &*cuda().device).expect("it can be lowered").actions;
            sources.extend(actions.into_iter().filter_map(|action| match action {
                Action::Launch(task) => Some(task.source),
                _ => None,
            }));
        }
    }
    cuda().device.load(&sources).expect("the kernels compile");
}

/// Results on this backend, twice the same bits, and those of the reference.
pub fn both(case: &Case) -> (Vec<Array>, Vec<Array>) {
    let got = case.run(cuda()).expect("the backend computes it");
    assert!(case.run(cuda()).unwrap() == got, "two runs give other bits: {:?}", case.kernel);
    (got, case.run(&Reference::default()).expect("the reference computes it"))
}

/// Differences of up to so many roundings at the size of the largest number of a result; none at all: 0.
pub fn check_close(cases: &[(Case, f64)]) {
    prepare(cases.iter().map(|(case, _)| case));
    for (case, steps) in cases {
        let (got, expected) = both(case);
        let sizes: Vec<f64> =
            expected.iter().map(|a| if a.ty.dtype.is_float() { largest(a) } else { 0.0 }).collect();
        case.compare(&got, &expected, |k, i| {
            let dtype = expected[k].ty.dtype;
            if *steps == 0.0 {
                return 0.0;
            }
            steps * compute_epsilon(dtype) * sizes[k]
                + 2.0 * epsilon(dtype) * expected[k].f64(i).abs()
                + tiny(dtype)
        });
    }
}

/// That kernels compute a case, and not the host.
pub fn is_on_the_device(case: &Case) {
    let actions = lower::step(&case.plan(), 0, &*cuda().device).expect("it can be lowered").actions;
    let on_host = actions.iter().any(|a| matches!(a, Action::Host(_)));
    assert!(!on_host, "{:?} on the host", case.kernel);
}

/// As [`check_close`], of cases that kernels compute and not the host.
pub fn check_kernels(cases: &[(Case, f64)]) {
    cases.iter().for_each(|(case, _)| is_on_the_device(case));
    check_close(cases);
}

/// The error of a case that fails. Where a result takes the place of an operand, nothing was overwritten.
pub fn failure(case: &Case) -> Error {
    let (results, is_untouched) = case.attempt(cuda()).expect("it compiles");
    assert!(is_untouched || !case.in_place, "a failed step overwrote the only copy");
    results.expect_err("it fails")
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
fn halves_are_rounded_for_their_readers() {
    plan_tests::halves_are_rounded_for_their_readers(cuda());
}

#[test]
fn rows_between_maps() {
    plan_tests::rows_between_maps(cuda());
}

#[test]
fn a_training_step() {
    let (graph, donors) = training_step(1, 2, 8, 16, 32);
    assert!(plan_tests::check(cuda(), &graph, &donors, 0, 0.03).is_some());
}

#[test]
fn no_kernel_is_made_twice() {
    let (graph, donors) = training_step(3, 2, 8, 16, 32);
    let (inputs, scalars) = crate::plan::tests::leaves(&graph);
    let plan = crate::plan::plan(&graph, &inputs, &scalars, &donors, cuda()).unwrap();
    let mut texts: Vec<String> = Vec::new();
    for index in 0..plan.steps.len() {
        for action in lower::step(&plan, index, &*cuda().device).unwrap().actions {
            if let Action::Launch(task) = action {
                texts.push(task.source.text);
            }
        }
    }
    let launches = texts.len();
    texts.sort();
    texts.dedup();
    assert!(texts.len() * 2 < launches, "{} kernels for {launches} launches", texts.len());
}
