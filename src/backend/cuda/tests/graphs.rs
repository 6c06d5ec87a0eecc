//! Runs that are captured.

use super::super::{Cuda, emulated::Emulated};
use super::Aligned;
use crate::backend::memory::Pool;
use crate::backend::{Backend, Call};
use crate::dtype::DType;
use crate::graph::text::parse;
use crate::op::Ty;
use crate::plan::plan;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// y = x[i] + s, of three numbers.
const GRAPH: &str = "\
%0: f32[3] = input() {index=0, type=(f32[3])}
%1: i64[3] = input() {index=1, type=(i64[3])}
%2: f64[] = scalar() {slot=0, dtype=f64}
%3: f32[] = cast(%2) {dtype=f32}
%4: f32[3] = broadcast(%3) {sizes=[3]}
%5: f32[3] = take(%0, %1) {axis=0}
%6: f32[3] = add(%5, %4)
return %6";

#[test]
fn the_third_run_at_the_same_addresses_is_queued_as_a_whole() {
    let device = Emulated::default();
    let launches = device.launches.clone();
    let backend = Cuda::new(Arc::new(device), Pool::new(), true);
    let graph = parse(GRAPH).unwrap();
    let inputs = [Ty::new(DType::F32, &[3]), Ty::new(DType::I64, &[3])];
    let plan = Arc::new(plan(&graph, &inputs, &[DType::F64], &[None], &backend).unwrap());
    let program = backend.compile(plan.clone()).unwrap();
    let (mut x, mut places) = (Aligned([10f32, 20.0, 30.0]), Aligned([2i64, 0, 1]));
    let mut arena = vec![0u64; plan.arena_bytes as usize / 8 + 8];
    let arena = arena.as_mut_ptr().expose_provenance().next_multiple_of(64);
    let mut run = |y: &mut Aligned<[f32; 3]>, first: i64, scalar: f64| {
        places.0[0] = first;
        let call = Call {
            inputs: &[x.address(), places.address()],
            poisoned: &[],
            derived: &[],
            outputs: &[y.address()],
            arena,
            host: 0,
            results: 0,
            scalars: &[scalar.to_bits()],
            watch: None,
        };
        let before = launches.load(Ordering::Relaxed);
        let outcome = program.run(&call);
        let asked = launches.load(Ordering::Relaxed) - before;
        (asked, outcome.failed.first().map(|failure| failure.error.message.clone()))
    };
    let (mut y, mut other) = (Aligned([0f32; 3]), Aligned([0f32; 3]));
    let kernels = run(&mut y, 2, 1.0).0;
    assert!(kernels > 0);
    // Once more one by one, then captured, then as a whole.
    let as_a_whole = [0; 10];
    for (n, asked) in [kernels, kernels].into_iter().chain(as_a_whole).enumerate() {
        let scalar = n as f64 + 0.5;
        assert_eq!(run(&mut y, 2, scalar), (asked, None), "{n}");
        assert_eq!(y.0.map(f64::from), [30.0 + scalar, 10.0 + scalar, 20.0 + scalar]);
    }
    // Other addresses begin anew; the old ones are remembered.
    assert_eq!(run(&mut other, 1, 0.0), (kernels, None));
    assert_eq!((run(&mut y, 1, 0.0), other.0[0]), ((0, None), 20.0));
    // A whole run that fails says which step it was, and the next one is sound again.
    let (asked, error) = run(&mut y, 3, 0.0);
    let said =
        "take: index out of range in self: index 3 is out of bounds for dimension 0 with size 3";
    assert_eq!((asked, error.as_deref()), (0, Some(said)));
    assert_eq!((run(&mut y, 0, 0.0), y.0), ((0, None), [10.0, 10.0, 20.0]));
}
