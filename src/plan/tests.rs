//! Golden plans of typical programs, and a training step large enough to measure planning on.

use super::training::training_step;
use super::*;
use crate::graph::text::parse;
use crate::op::GPU_HOST_LINK_SLOWDOWN;
use crate::op::collective::KIND_COUNT;
use crate::op::host::{HostOp, register};
use expect_test::{Expect, expect};

pub struct NoWorkspace;

impl Target for NoWorkspace {
    fn workspace(&self, _: Op, _: &Attrs, _: &[Ty], _: &[Ty]) -> u64 {
        0
    }
}

pub struct WithLanes;

impl Target for WithLanes {
    fn workspace(&self, _: Op, _: &Attrs, _: &[Ty], _: &[Ty]) -> u64 {
        0
    }

    fn kinds_on_lanes(&self) -> usize {
        KIND_COUNT
    }

    fn host_link_slowdown(&self) -> Option<u64> {
        Some(GPU_HOST_LINK_SLOWDOWN)
    }
}

/// The leaves of a graph by index.
pub fn leaves(graph: &Graph) -> (Vec<Ty>, Vec<DType>) {
    let (mut inputs, mut scalars) = (Vec::new(), Vec::new());
    for node in &graph.nodes {
        let ty = || graph.ty(node.first).clone();
        let index = || node.attrs[0].int() as usize;
        match node.op {
            Op::Input => {
                inputs.resize(inputs.len().max(index() + 1), Ty::new(DType::U8, &[0]));
                inputs[index()] = ty();
            }
            Op::Scalar => {
                scalars.resize(scalars.len().max(index() + 1), DType::F64);
                scalars[index()] = ty().dtype;
            }
            _ => {}
        }
    }
    (inputs, scalars)
}

pub fn plan_of(graph: &Graph, donors: &[Option<u32>]) -> Plan {
    plan_for(&NoWorkspace, graph, donors)
}

pub fn plan_for(target: &dyn Target, graph: &Graph, donors: &[Option<u32>]) -> Plan {
    let (inputs, scalars) = leaves(graph);
    let plan = plan(graph, &inputs, &scalars, donors, target).unwrap();
    check::check(graph, &plan).unwrap();
    plan
}

/// Likewise, with results in one block, however small they are.
pub fn plan_sharing(target: &dyn Target, graph: &Graph, donors: &[Option<u32>]) -> Plan {
    let (inputs, scalars) = leaves(graph);
    let mode = PlanMode::Search;
    let unplaced = plan_unplaced(graph, &inputs, &scalars, donors, target, mode).unwrap().0;
    let plan = unplaced.placed_sharing(1);
    check::check(graph, &plan).unwrap();
    plan
}

/// Plans a graph, given as text, and compares the plan's text.
fn check(graph: &str, donors: &[Option<u32>], expected: Expect) {
    let lines: Vec<&str> = graph.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let graph = parse(&lines.join("\n")).unwrap();
    expected.assert_eq(&plan_of(&graph, donors).to_string());
}

#[test]
fn bias_and_gelu_are_one_map() {
    check(
        "
        %0: f32[6,4] = input() {index=0, type=(f32[6,4])}
        %1: f32[4] = input() {index=1, type=(f32[4])}
        %2: f32[6,4] = broadcast(%1) {sizes=[6,4]}
        %3: f32[6,4] = add(%0, %2)
        %4: f32[2,3,4] = reshape(%3) {sizes=[2,3,4]}
        %5: f32[] = const() {value=0.7, dtype=f32}
        %6: f32[2,3,4] = broadcast(%5) {sizes=[2,3,4]}
        %7: f32[2,3,4] = mul(%4, %6)
        %8: f32[2,3,4] = tanh(%7)
        %9: f32[] = const() {value=1.0, dtype=f32}
        %10: f32[2,3,4] = broadcast(%9) {sizes=[2,3,4]}
        %11: f32[2,3,4] = add(%8, %10)
        %12: f32[2,3,4] = mul(%4, %11)
        return %12
        ",
        &[None],
        expect![[r#"
            arena 0 (bound 0)
            out0: f32[2,3,4]
            0: out0:f32[2,3,4] = map(in0:f32[2,3,4], in1:f32[2,3,4]{0,0,1}) { r2 = const<1.0, f32>; r3 = const<0.7, f32>; r4 = add r0 r1; r5 = mul r4 r3; r6 = tanh r5; r7 = add r6 r2; r8 = mul r4 r7; r8 }
        "#]],
    );
}

#[test]
fn what_waits_on_the_host_takes_no_place_in_the_arena() {
    check(
        "
        %0: f32[64,64] = input() {index=0, type=(f32[64,64])}
        %1: f32[64,64] = softmax(%0)
        %2: f32[64,64] = offload(%1)
        %3: f32[64,64] = matmul(%1, %0)
        %4: f32[64,64] = softmax(%3)
        %5: f32[64,64] = offload(%4)
        %6: f32[64,64] = matmul(%4, %0)
        %7: f32[64,64] = softmax(%6)
        %8: f32[64,64] = reload(%5)
        %9: f32[64,64] = matmul(%8, %7)
        %10: f32[64,64] = reload(%2)
        %11: f32[64,64] = matmul(%10, %9)
        %12: f32[64,64] = transpose(%2) {perm=[1,0]}
        return %11, %12
        ",
        &[None, None],
        expect![[r#"
            arena 49152 (bound 49152), host 32768
            out0: f32[64,64]
            out1: f32[64,64] on host
            0: @0:f32[64,64] = softmax(in0:f32[64,64])
            1: host@0:f32[64,64] = map(@0:f32[64,64]) { r0 }
            2: @16384:f32[64,64] = matmul(@0:f32[64,64], in0:f32[64,64])
            3: @0:f32[64,64] = softmax(@16384:f32[64,64])
            4: host@16384:f32[64,64] = map(@0:f32[64,64]) { r0 }
            5: @16384:f32[64,64] = matmul(@0:f32[64,64], in0:f32[64,64])
            6: @0:f32[64,64] = softmax(@16384:f32[64,64])
            7: @16384:f32[64,64] = map(host@16384:f32[64,64]) { r0 }
            8: @32768:f32[64,64] = matmul(@16384:f32[64,64], @0:f32[64,64])
            9: @0:f32[64,64] = map(host@0:f32[64,64]) { r0 }
            10: out0:f32[64,64] = matmul(@0:f32[64,64], @32768:f32[64,64])
            11: out1:f32[64,64] = map(host@0:f32[64,64]{1,64}) { r0 }
        "#]],
    );
}

#[test]
fn softmax_in_primitives() {
    check(
        "
        %0: f32[8,16] = input() {index=0, type=(f32[8,16])}
        %1: f32[8] = reduce_max(%0) {axes=[1]}
        %2: f32[8,1] = reshape(%1) {sizes=[8,1]}
        %3: f32[8,16] = broadcast(%2) {sizes=[8,16]}
        %4: f32[8,16] = sub(%0, %3)
        %5: f32[8,16] = exp(%4)
        %6: f32[8] = reduce_sum(%5) {axes=[1]}
        %7: f32[8,1] = reshape(%6) {sizes=[8,1]}
        %8: f32[8,16] = broadcast(%7) {sizes=[8,16]}
        %9: f32[8,16] = div(%5, %8)
        return %9
        ",
        &[None],
        expect![[r#"
            arena 128 (bound 128)
            out0: f32[8,16]
            0: @0:f32[8] = reduce_max[1](in0:f32[8,16]) { r0 }
            1: @64:f32[8] = reduce_sum[1](in0:f32[8,16], @0:f32[8,16]{1,0}) { r2 = sub r0 r1; r3 = exp r2; r3 }
            2: out0:f32[8,16] = map(in0:f32[8,16], @0:f32[8,16]{1,0}, @64:f32[8,16]{1,0}) { r3 = sub r0 r1; r4 = exp r3; r5 = div r4 r2; r5 }
        "#]],
    );
}

#[test]
fn layer_norm_in_primitives() {
    check(
        "
        %0: bf16[8,16] = input() {index=0, type=(bf16[8,16])}
        %1: f32[16] = input() {index=1, type=(f32[16])}
        %2: f32[8,16] = cast(%0) {dtype=f32}
        %3: f32[8] = reduce_sum(%2) {axes=[1]}
        %4: f32[8,1] = reshape(%3) {sizes=[8,1]}
        %5: f32[] = const() {value=16.0, dtype=f32}
        %6: f32[8,1] = broadcast(%5) {sizes=[8,1]}
        %7: f32[8,1] = div(%4, %6)
        %8: f32[8,16] = broadcast(%7) {sizes=[8,16]}
        %9: f32[8,16] = sub(%2, %8)
        %10: f32[8,16] = mul(%9, %9)
        %11: f32[8] = reduce_sum(%10) {axes=[1]}
        %12: f32[8,1] = reshape(%11) {sizes=[8,1]}
        %13: f32[8,1] = div(%12, %6)
        %14: f32[] = const() {value=1e-5, dtype=f32}
        %15: f32[8,1] = broadcast(%14) {sizes=[8,1]}
        %16: f32[8,1] = add(%13, %15)
        %17: f32[8,1] = rsqrt(%16)
        %18: f32[8,16] = broadcast(%17) {sizes=[8,16]}
        %19: f32[8,16] = mul(%9, %18)
        %20: f32[8,16] = broadcast(%1) {sizes=[8,16]}
        %21: f32[8,16] = mul(%19, %20)
        %22: bf16[8,16] = cast(%21) {dtype=bf16}
        return %22
        ",
        &[None],
        expect![[r#"
            arena 128 (bound 128)
            out0: bf16[8,16]
            0: @0:f32[8] = reduce_sum[1](in0:bf16[8,16]) { r1 = cast<f32> r0; r1 }
            1: @0:f32[8,1] = map(@0:f32[8,1]) { r1 = const<16.0, f32>; r2 = div r0 r1; r2 }
            2: @64:f32[8] = reduce_sum[1](in0:bf16[8,16], @0:f32[8,16]{1,0}) { r2 = cast<f32> r0; r3 = sub r2 r1; r4 = mul r3 r3; r4 }
            3: @64:f32[8,1] = map(@64:f32[8,1]) { r1 = const<1e-5, f32>; r2 = const<16.0, f32>; r3 = div r0 r2; r4 = add r3 r1; r5 = rsqrt r4; r5 }
            4: out0:bf16[8,16] = map(in0:bf16[8,16], @0:f32[8,16]{1,0}, @64:f32[8,16]{1,0}, in1:f32[8,16]{0,1}) { r4 = cast<f32> r0; r5 = sub r4 r1; r6 = mul r5 r2; r7 = mul r6 r3; r8 = cast<bf16> r7; r8 }
        "#]],
    );
}

#[test]
fn adamw_is_one_map_over_its_inputs() {
    check(
        "
        %0: f32[64] = input() {index=0, type=(f32[64])}
        %1: f32[64] = input() {index=1, type=(f32[64])}
        %2: f32[64] = input() {index=2, type=(f32[64])}
        %3: f32[64] = input() {index=3, type=(f32[64])}
        %4: f64[] = scalar() {slot=0, dtype=f64}
        %5: f64[] = scalar() {slot=1, dtype=f64}
        %6: f64[] = scalar() {slot=2, dtype=f64}
        %7: f32[] = cast(%4) {dtype=f32}
        %8: f32[] = cast(%5) {dtype=f32}
        %9: f32[] = cast(%6) {dtype=f32}
        %10: f32[] = const() {value=0.01, dtype=f32}
        %11: f32[] = mul(%7, %10)
        %12: f32[64] = broadcast(%11) {sizes=[64]}
        %13: f32[64] = mul(%0, %12)
        %14: f32[64] = sub(%0, %13)
        %15: f32[] = const() {value=0.9, dtype=f32}
        %16: f32[64] = broadcast(%15) {sizes=[64]}
        %17: f32[64] = mul(%2, %16)
        %18: f32[] = const() {value=0.1, dtype=f32}
        %19: f32[64] = broadcast(%18) {sizes=[64]}
        %20: f32[64] = mul(%1, %19)
        %21: f32[64] = add(%17, %20)
        %22: f32[] = const() {value=0.95, dtype=f32}
        %23: f32[64] = broadcast(%22) {sizes=[64]}
        %24: f32[64] = mul(%3, %23)
        %25: f32[64] = mul(%1, %1)
        %26: f32[] = const() {value=0.05, dtype=f32}
        %27: f32[64] = broadcast(%26) {sizes=[64]}
        %28: f32[64] = mul(%25, %27)
        %29: f32[64] = add(%24, %28)
        %30: f32[64] = broadcast(%9) {sizes=[64]}
        %31: f32[64] = div(%29, %30)
        %32: f32[64] = sqrt(%31)
        %33: f32[] = const() {value=1e-8, dtype=f32}
        %34: f32[64] = broadcast(%33) {sizes=[64]}
        %35: f32[64] = add(%32, %34)
        %36: f32[64] = broadcast(%8) {sizes=[64]}
        %37: f32[64] = div(%21, %36)
        %38: f32[64] = div(%37, %35)
        %39: f32[64] = broadcast(%7) {sizes=[64]}
        %40: f32[64] = mul(%38, %39)
        %41: f32[64] = sub(%14, %40)
        return %41, %21, %29
        ",
        &[Some(0), Some(2), Some(3)],
        expect![[r#"
            arena 0 (bound 0)
            out0: f32[64] over in0
            out1: f32[64] over in2
            out2: f32[64] over in3
            0: out0:f32[64], out2:f32[64], out1:f32[64] = map(s0:f64[64]{0}, s1:f64[64]{0}, s2:f64[64]{0}, in0:f32[64], in2:f32[64], in1:f32[64], in3:f32[64]) { r7 = const<1e-8, f32>; r8 = const<0.05, f32>; r9 = const<0.95, f32>; r10 = const<0.1, f32>; r11 = const<0.9, f32>; r12 = const<0.01, f32>; r13 = cast<f32> r0; r14 = cast<f32> r1; r15 = cast<f32> r2; r16 = mul r13 r12; r17 = mul r3 r16; r18 = sub r3 r17; r19 = mul r4 r11; r20 = mul r5 r10; r21 = add r19 r20; r22 = mul r6 r9; r23 = mul r5 r5; r24 = mul r23 r8; r25 = add r22 r24; r26 = div r25 r15; r27 = sqrt r26; r28 = add r27 r7; r29 = div r21 r14; r30 = div r29 r28; r31 = mul r30 r13; r32 = sub r18 r31; r32, r25, r21 }
        "#]],
    );
}

#[test]
fn matmul_reads_transposed_operands_where_they_are() {
    check(
        "
        %0: f32[2,3,4] = input() {index=0, type=(f32[2,3,4])}
        %1: f32[5,4] = input() {index=1, type=(f32[5,4])}
        %2: f32[4,5] = transpose(%1) {perm=[1,0]}
        %3: f32[2,4,5] = broadcast(%2) {sizes=[2,4,5]}
        %4: f32[2,3,5] = matmul(%0, %3)
        %5: f32[2,5,3] = transpose(%4) {perm=[0,2,1]}
        %6: f32[6,5] = reshape(%4) {sizes=[6,5]}
        return %5, %6
        ",
        &[None, None],
        expect![[r#"
            arena 0 (bound 0)
            out0: f32[2,5,3]
            out1: f32[6,5]
            0: out1:f32[2,3,5] = matmul(in0:f32[2,3,4], in1:f32[2,4,5]{0,1,4})
            1: out0:f32[2,5,3] = map(out1:f32[2,5,3]{15,1,5}) { r0 }
        "#]],
    );
}

#[test]
fn outputs_have_memory_of_their_own() {
    check(
        "
        %0: f32[4,4] = input() {index=0, type=(f32[4,4])}
        %1: f32[4,4] = neg(%0)
        %2: f32[1,4] = slice(%0) {starts=[1,0], sizes=[1,4], steps=[1,1]}
        %3: f32[4,4] = transpose(%0) {perm=[1,0]}
        return %0, %1, %1, %2, %3
        ",
        &[None, Some(0), None, None, None],
        expect![[r#"
            arena 0 (bound 0)
            out0: f32[4,4]
            out1: f32[4,4] over in0
            out2: f32[4,4]
            out3: f32[1,4]
            out4: f32[4,4]
            0: out3:f32[1,4] = map(in0:f32[1,4]+4) { r0 }
            1: out4:f32[4,4] = map(in0:f32[4,4]{1,4}) { r0 }
            2: out0:f32[4,4], out2:f32[4,4], out1:f32[4,4] = map(in0:f32[4,4]) { r1 = neg r0; r0, r1, r1 }
        "#]],
    );
}

#[test]
fn what_takes_over_its_own_memory_is_not_written() {
    check(
        "
        %0: f32[4] = input() {index=0, type=(f32[4])}
        %1: f32[4] = input() {index=1, type=(f32[4])}
        %2: f32[4] = neg(%0)
        return %0, %1, %2
        ",
        // Only the first is where it is wanted.
        &[Some(0), Some(0), Some(1)],
        expect![[r#"
            arena 0 (bound 0)
            out0: f32[4] over in0
            out1: f32[4]
            out2: f32[4]
            0: out2:f32[4] = map(in0:f32[4]) { r1 = neg r0; r1 }
            1: out1:f32[4] = map(in1:f32[4]) { r0 }
        "#]],
    );
}

#[test]
fn dropout_stores_its_mask_with_the_result() {
    check(
        "
        %0: f32[4,8] = input() {index=0, type=(f32[4,8])}
        %1: i64[] = scalar() {slot=0, dtype=i64}
        %2: i64[] = scalar() {slot=1, dtype=i64}
        %3: f32[4,8] = random(%1, %2) {sizes=[4,8]}
        %4: f32[] = const() {value=0.25, dtype=f32}
        %5: f32[4,8] = broadcast(%4) {sizes=[4,8]}
        %6: bool[4,8] = ge(%3, %5)
        %7: f32[] = const() {value=0.0, dtype=f32}
        %8: f32[4,8] = broadcast(%7) {sizes=[4,8]}
        %9: f32[4,8] = select(%6, %0, %8)
        %10: f32[] = const() {value=1.3333333333333333, dtype=f32}
        %11: f32[4,8] = broadcast(%10) {sizes=[4,8]}
        %12: f32[4,8] = mul(%9, %11)
        %13: f32[4,8] = softmax(%12)
        %14: f32[4,8] = select(%6, %13, %8)
        return %14
        ",
        &[None],
        expect![[r#"
            arena 320 (bound 320)
            out0: f32[4,8]
            0: @0:f32[4,8], @256:bool[4,8] = map(s0:i64[4,8]{0,0}, s1:i64[4,8]{0,0}, #:i64[4,8], in0:f32[4,8]) { r4 = const<1.3333333333333333, f32>; r5 = const<0.0, f32>; r6 = const<0.25, f32>; r7 = random<[4,8]> r0 r1 r2; r8 = ge r7 r6; r9 = select r8 r3 r5; r10 = mul r9 r4; r10, r8 }
            1: @128:f32[4,8] = softmax(@0:f32[4,8])
            2: out0:f32[4,8] = map(@256:bool[4,8], @128:f32[4,8]) { r2 = const<0.0, f32>; r3 = select r0 r1 r2; r3 }
        "#]],
    );
}

#[test]
fn updates_of_a_donated_base_are_in_place() {
    check(
        "
        %0: f32[16,4] = input() {index=0, type=(f32[16,4])}
        %1: f32[4] = input() {index=1, type=(f32[4])}
        %2: f32[16,4] = as_strided_scatter(%0, %1) {sizes=[4], strides=[1], offset=8}
        %3: f32[16,4] = as_strided_scatter(%2, %1) {sizes=[4], strides=[1], offset=16}
        %4: f32[4] = reduce_sum(%0) {axes=[0]}
        return %3, %4
        ",
        &[Some(0), None],
        expect![[r#"
            arena 256 (bound 256)
            out0: f32[16,4] over in0
            out1: f32[4]
            0: @0:f32[16,4] = as_strided_scatter<[4], [1], 8>(in0:f32[16,4], in1:f32[4])
            1: out1:f32[4] = reduce_sum[0](in0:f32[16,4]) { r0 }
            2: out0:f32[16,4] = as_strided_scatter<[4], [1], 16>(@0:f32[16,4], in1:f32[4])
        "#]],
    );
}

#[test]
fn strided_operands_are_copied_where_kernels_need_rows() {
    check(
        "
        %0: f32[4,8] = input() {index=0, type=(f32[4,8])}
        %1: f32[8,4] = transpose(%0) {perm=[1,0]}
        %2: f32[8,4] = exp(%1)
        %3: f32[8,4] = softmax(%1)
        %4: f32[32] = reshape(%1) {sizes=[32]}
        %5: f32[32] = neg(%4)
        %6: f32[4,8] = transpose(%2) {perm=[1,0]}
        return %3, %5, %6
        ",
        &[None, None, None],
        expect![[r#"
            arena 128 (bound 128)
            out0: f32[8,4]
            out1: f32[32]
            out2: f32[4,8]
            0: @0:f32[8,4] = map(in0:f32[8,4]{1,8}) { r0 }
            1: out0:f32[8,4] = softmax(@0:f32[8,4])
            2: out1:f32[32] = map(@0:f32[32]) { r1 = neg r0; r1 }
            3: out2:f32[4,8] = map(in0:f32[4,8]) { r1 = exp r0; r1 }
        "#]],
    );
}

#[test]
fn siblings_over_the_same_memory_are_one_map() {
    check(
        "
        %0: bf16[8,4] = input() {index=0, type=(bf16[8,4])}
        %1: bf16[8,4] = input() {index=1, type=(bf16[8,4])}
        %2: bf16[8,4] = sigmoid(%0)
        %3: bf16[8,4] = mul(%1, %2)
        %4: bf16[8,4] = add(%0, %1)
        %5: bf16[4,8] = transpose(%3) {perm=[1,0]}
        %6: bf16[8,8] = matmul(%4, %5)
        return %6
        ",
        &[None],
        expect![[r#"
            arena 128 (bound 128)
            out0: bf16[8,8]
            0: @0:bf16[8,4], @64:bf16[8,4] = map(in0:bf16[8,4], in1:bf16[8,4]) { r2 = add r0 r1; r3 = sigmoid r0; r4 = mul r1 r3; r2, r4 }
            1: out0:bf16[8,8] = matmul(@0:bf16[8,4], @64:bf16[4,8]{1,4})
        "#]],
    );
}

#[test]
fn numbers_that_need_only_inputs_are_one_map() {
    // Not the quotient, which may fail, nor what waits for a sum.
    check(
        "
        %0: f32[] = input() {index=0, type=(f32[])}
        %1: f32[] = input() {index=1, type=(f32[])}
        %2: f32[8] = input() {index=2, type=(f32[8])}
        %3: i64[] = input() {index=3, type=(i64[])}
        %4: f32[] = exp(%0)
        %5: f32[] = sqrt(%1)
        %6: i64[] = div(%3, %3)
        %7: f32[] = reduce_sum(%2) {axes=[0]}
        %8: f32[] = exp(%7)
        return %4, %5, %6, %8
        ",
        &[None; 4],
        expect![[r#"
            arena 64 (bound 64)
            out0: f32[]
            out1: f32[]
            out2: i64[]
            out3: f32[]
            0: out1:f32[], out0:f32[] = map(in1:f32[], in0:f32[]) { r2 = sqrt r0; r3 = exp r1; r2, r3 }
            1: out2:i64[] = map(in3:i64[]) { r1 = div r0 r0; r1 }
            2: @0:f32[] = reduce_sum[0](in2:f32[8]) { r0 }
            3: out3:f32[] = map(@0:f32[]) { r1 = exp r0; r1 }
        "#]],
    );
}

#[test]
fn cpu_fallbacks_run_once_in_their_order_on_dense_memory() {
    register(HostOp {
        name: "test::observe".into(),
        key: "plan test observe".into(),
        function: Box::new(|_, _| Ok(())),
        shape: None,
        cuda: None,
        device_function: None,
    });
    check(
        r#"
        %0: f32[4,2] = input() {index=0, type=(f32[4,2])}
        %1: f32[2,4] = transpose(%0) {perm=[1,0]}
        %2: f32[2,4] = exp(%1)
        %3: f32[4] = host(%2) {op="plan test observe", types=(f32[4]), args=<tensor>}
        = host(%0) {op="plan test observe", types=(), args=<tensor>}
        %4: f32[] = const() {value=2.0, dtype=f32}
        = host(%4) {op="plan test observe", types=(), args=<tensor>}
        %5: f32[4] = host() {op="plan test observe", types=(f32[4]), args=<>}
        %6: i64[] = scalar() {slot=0, dtype=i64}
        = host(%6, %6) {op="plan test observe", types=(), args=<tensor, scalar(int)>}
        %7: f32[4] = add(%5, %3)
        return %7
        "#,
        &[None],
        expect![[r#"
            arena 128 (bound 128)
            out0: f32[4]
            0: @0:f32[2,4] = map(in0:f32[2,4]{1,2}) { r1 = exp r0; r1 }
            1: @64:f32[4] = host<"plan test observe", (f32[4]), <tensor>>(@0:f32[2,4])
            2: host<"plan test observe", (), <tensor>>(in0:f32[4,2])
            3: @0:f32[] = map() { r0 = const<2.0, f32>; r0 }
            4: host<"plan test observe", (), <tensor>>(@0:f32[])
            5: @0:f32[4] = host<"plan test observe", (f32[4]), <>>()
            6: out0:f32[4] = map(@0:f32[4], @64:f32[4]) { r2 = add r0 r1; r2 }
            7: @0:i64[] = map(s0:i64[]) { r0 }
            8: host<"plan test observe", (), <tensor, scalar(int)>>(@0:i64[], s0:i64[])
        "#]],
    );
}

#[test]
fn a_training_step_is_planned_tightly() {
    let (graph, donors) = training_step(4, 2, 16, 32, 64);
    let plan = plan_of(&graph, &donors);
    let granted = plan.donors.iter().flatten().count();
    assert_eq!(granted, donors.iter().flatten().count(), "all state is updated in place");
    let height = plan.arena_bytes as f64 / plan.lower_bound as f64;
    assert!(height <= 1.05, "{height}");
    let maps = plan.steps.iter().filter(|s| matches!(s.kernel, Kernel::Map(_))).count();
    expect!["196 steps, 92 maps"].assert_eq(&format!("{} steps, {maps} maps", plan.steps.len()));
}
