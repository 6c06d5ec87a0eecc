//! Kernels of typical programs as machine code, and what they use of it.

use super::super::actions::{Action, Actions};
use super::super::driver::tests::nvrtc_for;
use super::super::emit::Source;
use super::super::horizontal_fusion::fuse_horizontally;
use super::super::lower;
use super::cuda;
use crate::backend::Backend;
use crate::graph::Graph;
use crate::graph::text::parse;
use crate::passes::optimize;
use crate::plan::tests::leaves;
use crate::plan::training::training_step;
use expect_test::expect_file;
use std::fmt::Write;

/// The programs whose kernels are in the table: what a training step and odd ends are made of.
fn programs() -> Vec<(&'static str, Graph)> {
    let text = |text: &str| parse(text).expect("a graph");
    vec![
        ("gpt", training_step(1, 8, 64, 768, 50_257).0),
        ("softmax, argmax, cumsum, gather", text("\
%0: bf16[512,1000] = input() {index=0, type=(bf16[512,1000])}
%1: i64[512,4] = input() {index=1, type=(i64[512,4])}
%2: bf16[512,1000] = softmax(%0)
%3: i64[512] = argmax(%0) {axis=1}
%4: bf16[512,1000] = cumsum(%0) {axis=1}
%5: bf16[512,4] = gather(%2, %1) {axis=1}
return %2, %3, %4, %5")),
        ("operands across", text("\
%0: f32[8,300,500] = input() {index=0, type=(f32[8,300,500])}
%1: bf16[8,500,300] = input() {index=1, type=(bf16[8,500,300])}
%2: i8[500,300] = input() {index=2, type=(i8[500,300])}
%3: f64[500,300] = input() {index=3, type=(f64[500,300])}
%4: bf16[8,300,500] = transpose(%1) {perm=[0,2,1]}
%5: f32[8,300,500] = cast(%4) {dtype=f32}
%6: f32[8,300,500] = mul(%0, %5)
%7: i8[300,500] = transpose(%2) {perm=[1,0]}
%8: f64[300,500] = transpose(%3) {perm=[1,0]}
return %6, %7, %8")),
        ("convolution and pooling", text("\
%0: f32[8,16,32,32] = input() {index=0, type=(f32[8,16,32,32])}
%1: f32[32,16,3,3] = input() {index=1, type=(f32[32,16,3,3])}
%2: f32[8,32,32,32] = conv(%0, %1) {stride=[1,1], padding=[1,1], dilation=[1,1], groups=1}
%3: f32[8,32,16,16], %4: i64[8,32,16,16] = max_pool(%2) {kernel=[2,2], stride=[2,2], padding=[0,0], dilation=[1,1], ceil=false}
%5: f32[8,16,32,32] = conv_grad_input(%2, %1) {sizes=[32,32], stride=[1,1], padding=[1,1], dilation=[1,1], groups=1}
%6: f32[32,16,3,3] = conv_grad_weight(%2, %0) {kernel=[3,3], stride=[1,1], padding=[1,1], dilation=[1,1], groups=1}
return %3, %4, %5, %6")),
    ]
}

/// The kernels of a program by name, each once.
fn kernels(graph: Graph) -> Vec<Source> {
    let graph = optimize(graph, &|op| cuda().supports(op)).expect("it can be rewritten");
    let (inputs, scalars) = leaves(&graph);
    let donors = vec![None; graph.outputs.len()];
    let plan = crate::plan::plan(&graph, &inputs, &scalars, &donors, cuda()).expect("a plan");
    let lowered = |index| lower::step(&plan, index, &*cuda().device).expect("it can be lowered");
    let mut steps: Vec<Actions> = (0..plan.steps.len()).map(lowered).collect();
    fuse_horizontally(&plan, &mut steps);
    let mut sources: Vec<Source> = Vec::new();
    for (step, actions) in plan.steps.iter().zip(steps) {
        let on_host = actions.actions.iter().any(|action| matches!(action, Action::Host(_)));
        assert!(!on_host, "{:?} has no kernel", step.kernel);
        sources.extend(actions.sources().cloned());
    }
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    sources.dedup_by(|a, b| a.name == b.name);
    sources
}

/// The table says how many registers and bytes of shared memory each kernel has, and what it spills: more of it is to be
/// noticed. A new version of NVRTC may change it: `UPDATE_EXPECT=1`.
#[test]
fn what_kernels_use() {
    let compilers: Vec<_> =
        [80, 90].into_iter().filter_map(|sm| Some((sm, nvrtc_for(sm)?))).collect();
    let Some((_, first)) = compilers.first() else { return };
    let mut table = format!("NVRTC {}.{}\n", first.version.0, first.version.1);
    for (program, graph) in programs() {
        let _ = writeln!(table, "\n{program}");
        for source in kernels(graph) {
            let _ = write!(table, "{:42}", source.name);
            for (capability, nvrtc) in &compilers {
                let target = nvrtc.target(*capability).expect("it was chosen for that");
                let (_, usage) = nvrtc.compile(&source, &target).expect("it compiles");
                let spilled = match usage.spills {
                    0 => String::new(),
                    bytes => format!(" {bytes} spilled"),
                };
                let _ = write!(
                    table,
                    "  {target:6} {:3} registers {:5} bytes{spilled}",
                    usage.registers, usage.shared
                );
            }
            table.push('\n');
        }
    }
    expect_file!["usage.txt"].assert_eq(&table);
}
