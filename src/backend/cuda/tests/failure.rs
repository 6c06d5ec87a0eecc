//! What is left of a run that is stopped.

use super::super::emulated;
use super::Aligned;
use crate::backend::{Backend, Call};
use crate::dtype::DType;
use crate::error::Code;
use crate::graph::text::parse;
use crate::op::Ty;
use crate::plan::plan;
use std::sync::Arc;

/// The second output takes the place of the first input; nothing it is made of is bad, but it comes after the bad index.
const GRAPH: &str = "\
%0: f32[2,2] = input() {index=0, type=(f32[2,2])}
%1: f32[2,2] = input() {index=1, type=(f32[2,2])}
%2: i64[2] = input() {index=2, type=(i64[2])}
%3: f32[2,2] = take(%1, %2) {axis=0}
%4: f32[2,2] = matmul(%3, %1)
return %3, %4";

#[test]
fn products_after_a_failure_overwrite_nothing() {
    let backend = emulated::backend();
    let graph = parse(GRAPH).unwrap();
    let matrix = Ty::new(DType::F32, &[2, 2]);
    let inputs = [matrix.clone(), matrix, Ty::new(DType::I64, &[2])];
    let plan = Arc::new(plan(&graph, &inputs, &[], &[None, Some(0)], &backend).unwrap());
    let program = backend.compile(plan.clone()).unwrap();
    for (index, wanted, failed) in [(0, [7.0, 10.0, 15.0, 22.0], 0), (5, [9.0; 4], 2)] {
        let mut x = Aligned([1f32, 2.0, 3.0, 4.0]);
        let (mut places, mut taken) = (Aligned([index, 1i64]), Aligned([0f32; 4]));
        let mut old = Aligned([9f32; 4]);
        let mut arena = vec![0u64; plan.arena_bytes as usize / 8 + 8];
        let call = Call {
            inputs: &[old.address(), x.address(), places.address()],
            poisoned: &[],
            derived: &[],
            outputs: &[taken.address(), old.address()],
            arena: arena.as_mut_ptr().expose_provenance().next_multiple_of(64),
            host: 0,
            results: 0,
            scalars: &[],
            watch: None,
        };
        let outcome = program.run(&call);
        assert_eq!((outcome.failed.len(), old.0), (failed, wanted));
        assert!(outcome.failed.iter().all(|failure| !failure.torn));
    }
}

const CHECKED: &str = "\
%0: f32[2,2] = input() {index=0, type=(f32[2,2])}
%1: i64[2] = input() {index=1, type=(i64[2])}
%2: f32[2,2] = take(%0, %1) {axis=0}
%3: f32[2,2] = exp(%0)
= check(%2)
return %3";

#[test]
fn what_is_only_checked_is_refused_as_well() {
    let backend = emulated::backend();
    let graph = parse(CHECKED).unwrap();
    let inputs = [Ty::new(DType::F32, &[2, 2]), Ty::new(DType::I64, &[2])];
    let plan = Arc::new(plan(&graph, &inputs, &[], &[None], &backend).unwrap());
    let program = backend.compile(plan.clone()).unwrap();
    for (index, wanted) in [(0, 0), (5, 1)] {
        let (mut x, mut places) = (Aligned([0f32; 4]), Aligned([index, 1i64]));
        let mut result = Aligned([0f32; 4]);
        let mut arena = vec![0u64; plan.arena_bytes as usize / 8 + 8];
        let outcome = program.run(&Call {
            inputs: &[x.address(), places.address()],
            poisoned: &[],
            derived: &[],
            outputs: &[result.address()],
            arena: arena.as_mut_ptr().expose_provenance().next_multiple_of(64),
            host: 0,
            results: 0,
            scalars: &[],
            watch: None,
        });
        let of_outputs = outcome.failed.into_iter().map(|failure| failure.error);
        let errors: Vec<_> = of_outputs.chain(outcome.unseen.into_iter().map(|e| e.1)).collect();
        assert!(errors.len() == wanted && errors.iter().all(|e| e.code == Code::IndexError));
        assert!(wanted > 0 || result.0 == [1.0; 4]);
    }
}
