//! Tensors of more than 2^31 elements, of which only the shapes are computed with.

use super::*;
use crate::graph::text::parse;
use crate::passes::optimize;
use crate::plan::tests::plan_of;

#[test]
fn programs_of_large_tensors_compile() {
    let text = "\
%0: f32[70000,65537] = input() {index=0, type=(f32[70000,65537])}
%1: f32[65537,70000] = input() {index=1, type=(f32[65537,70000])}
%2: f32[70000,65537] = transpose(%1) {perm=[1,0]}
%3: f32[70000,65537] = add(%0, %2)
%4: f32[70000,65537] = softmax(%3)
%5: f32[65537] = reduce_sum(%4) {axes=[0]}
%6: f32[70000] = reduce_max(%4) {axes=[1]}
%7: f32[70000,70000] = matmul(%4, %1)
%8: f32[70000,131074] = concat(%0, %3) {dim=1}
%9: bf16[70000,131074] = cast(%8) {dtype=bf16}
return %5, %6, %7, %9";
    let graph = parse(text).expect("a graph");
    let graph = optimize(graph, &|op| cpu(1).supports(op)).expect("it is optimized");
    let plan = plan_of(&graph, &[None; 4]);
    assert!(plan.arena_bytes > 1 << 34);
    cpu(1).compile(Arc::new(plan)).expect("it compiles");
}
