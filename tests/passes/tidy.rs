//! `marks`, `dce`, `cse` and `fold`; `settle`, `draws` and `declare`, for programs that others call.

use super::{check, program};
use expect_test::expect;
use std::borrow::Cow;
use torchacc::dtype::DType;
use torchacc::graph::text::parse;
use torchacc::op::Ty;
use torchacc::op::arg::ScalarKind;
use torchacc::op::host::{HostOp, register};
use torchacc::passes::{Draws, cse, dce, declare, draws, fold, marks, settle};

#[test]
fn marks_go_and_what_they_held_apart_becomes_one() {
    let lines = "\
%1: f32[2] = mark(%0) {number=0}
%2: f32[2] = mark(%0) {number=1}
%3: f32[2] = exp(%1)
%4: f32[2] = exp(%2)
%5: f32[2] = detach(%4)
%6: f32[2] = add(%3, %5)
return %6, %1";
    check(
        marks,
        &program(&["f32[2]"], lines),
        expect![[r#"
            %0: f32[2] = input() {index=0, type=(f32[2])}
            %1: f32[2] = exp(%0)
            %2: f32[2] = add(%1, %1)
            return %2, %0
        "#]],
    );
}

#[test]
fn dce_drops_what_nobody_uses() {
    check(
        |g| Ok(Cow::Borrowed(g)),
        &program(
            &["f32[2]", "f32[2]"],
            "%2: f32[2] = exp(%0)\n%3: f32[2] = neg(%1)\nreturn %3, %3",
        ),
        expect![[r#"
            %0: f32[2] = input() {index=1, type=(f32[2])}
            %1: f32[2] = neg(%0)
            return %1, %1
        "#]],
    );
}

#[test]
fn dce_keeps_calls_of_the_host() {
    register(HostOp {
        name: "effect".into(),
        key: "tidy".into(),
        function: Box::new(|_, _| Ok(())),
        shape: None,
        cuda: None,
        device_function: None,
    });
    check(
        |g| Ok(Cow::Borrowed(g)),
        &program(
            &["f32[2]", "f32[2]"],
            "%2: f32[2] = exp(%0)\n%3: f32[2] = neg(%1)\n= host(%2) {op=\"tidy\", types=(), args=<tensor>}\nreturn",
        ),
        expect![[r#"
            %0: f32[2] = input() {index=0, type=(f32[2])}
            %1: f32[2] = exp(%0)
            = host(%1) {op="tidy", types=(), args=<tensor>}
            return
        "#]],
    );
}

#[test]
fn cse_sorts_operands_that_commute() {
    let lines = "\
%2: f32[2] = add(%0, %1)
%3: f32[2] = add(%1, %0)
%4: f32[2] = max(%0, %1)
%5: f32[2] = max(%1, %0)
%6: f32[2] = mul(%2, %3)
%7: f32[2] = mul(%4, %5)
return %6, %7";
    check(
        cse,
        &program(&["f32[2]", "f32[2]"], lines),
        expect![[r#"
        %0: f32[2] = input() {index=0, type=(f32[2])}
        %1: f32[2] = input() {index=1, type=(f32[2])}
        %2: f32[2] = add(%0, %1)
        %3: f32[2] = max(%0, %1)
        %4: f32[2] = max(%1, %0)
        %5: f32[2] = mul(%2, %2)
        %6: f32[2] = mul(%3, %4)
        return %5, %6
    "#]],
    );
}

#[test]
fn fold_computes_splats() {
    let lines = "\
%0: f32[] = const() {value=2.0, dtype=f32}
%1: f32[8] = broadcast(%0) {sizes=[8]}
%2: f32[8] = sqrt(%1)
%3: bf16[8] = cast(%2) {dtype=bf16}
%4: f32[] = reduce_sum(%1) {axes=[0]}
%5: f32[8] = cumsum(%1) {axis=0}
return %3, %4, %5";
    check(
        fold,
        lines,
        expect![[r#"
        %0: f32[] = const() {value=2.0, dtype=f32}
        %1: f32[8] = broadcast(%0) {sizes=[8]}
        %2: bf16[] = const() {value=1.4140625, dtype=bf16}
        %3: bf16[8] = broadcast(%2) {sizes=[8]}
        %4: f32[] = const() {value=16.0, dtype=f32}
        %5: f32[8] = cumsum(%1) {axis=0}
        return %3, %4, %5
    "#]],
    );
}

#[test]
fn fold_leaves_what_fails_and_what_is_large() {
    let lines = "\
%0: i64[] = const_int() {value=0, dtype=i64}
%1: i64[] = div(%0, %0)
%2: i64[100000] = broadcast(%0) {sizes=[100000]}
%3: i64[] = reduce_sum(%2) {axes=[0]}
%4: i64[100000] = not(%2)
return %1, %3, %4";
    check(
        fold,
        lines,
        expect![[r#"
        %0: i64[] = const_int() {value=0, dtype=i64}
        %1: i64[] = div(%0, %0)
        %2: i64[100000] = broadcast(%0) {sizes=[100000]}
        %3: i64[] = reduce_sum(%2) {axes=[0]}
        %4: i64[] = const_int() {value=-1, dtype=i64}
        %5: i64[100000] = broadcast(%4) {sizes=[100000]}
        return %1, %3, %5
    "#]],
    );
}

#[test]
fn numbers_of_the_argument_block_become_constants() {
    let text = "\
%0: f64[] = scalar() {slot=1, dtype=f64}
%1: i64[] = scalar() {slot=0, dtype=i64}
%2: f64[] = cast(%1) {dtype=f64}
%3: f64[] = add(%0, %2)
return %3
";
    let numbers = [(ScalarKind::Int, -3i64 as u64), (ScalarKind::Float, 0.5f64.to_bits())];
    check(
        |g| settle(g, &numbers),
        text,
        expect![[r#"
        %0: f64[] = const() {value=0.5, dtype=f64}
        %1: i64[] = const_int() {value=-3, dtype=i64}
        %2: f64[] = cast(%1) {dtype=f64}
        %3: f64[] = add(%0, %2)
        return %3
    "#]],
    );
    let graph = parse(text).unwrap();
    assert!(settle(&graph, &numbers[..1]).is_err());
    assert!(settle(&graph, &[numbers[0], numbers[0]]).is_err());
}

#[test]
fn states_of_generators_are_inputs_and_results() {
    let lines = "\
%1: i64[] = scalar() {slot=0, dtype=i64}
%2: i64[] = scalar() {slot=1, dtype=i64}
%3: f32[3] = random(%1, %2) {sizes=[3]}
%4: i64[] = scalar() {slot=2, dtype=i64}
%5: f32[3] = random(%1, %4) {sizes=[3]}
%6: f32[3] = random(%4, %1) {sizes=[3]}
%7: i64[] = add(%1, %2)
return %0, %3, %5, %6, %7
";
    let graph = parse(&program(&["f32[3]"], lines)).unwrap();
    let numbers = [9, 40, 44].map(|n| (ScalarKind::Int, n));
    let generators = [Draws { seed: 8, begin: 0, end: 0 }, Draws { seed: 9, begin: 40, end: 48 }];
    let drawn = draws(&graph, &numbers, &generators, 0).unwrap();
    expect![[r#"
        %0: i64[2] = input() {index=0, type=(i64[2])}
        %1: i64[1] = slice(%0) {starts=[0], sizes=[1], steps=[1]}
        %2: i64[] = reshape(%1) {sizes=[]}
        %3: i64[1] = slice(%0) {starts=[1], sizes=[1], steps=[1]}
        %4: i64[] = reshape(%3) {sizes=[]}
        %5: i64[1] = reshape(%2) {sizes=[1]}
        %6: i64[1] = reshape(%4) {sizes=[1]}
        %7: i64[2] = concat(%5, %6) {dim=0}
        %8: i64[2] = input() {index=1, type=(i64[2])}
        %9: i64[1] = slice(%8) {starts=[0], sizes=[1], steps=[1]}
        %10: i64[] = reshape(%9) {sizes=[]}
        %11: i64[1] = slice(%8) {starts=[1], sizes=[1], steps=[1]}
        %12: i64[] = reshape(%11) {sizes=[]}
        %13: i64[] = const_int() {value=8, dtype=i64}
        %14: i64[] = add(%12, %13)
        %15: i64[1] = reshape(%10) {sizes=[1]}
        %16: i64[1] = reshape(%14) {sizes=[1]}
        %17: i64[2] = concat(%15, %16) {dim=0}
        %18: f32[3] = input() {index=2, type=(f32[3])}
        %19: i64[] = scalar() {slot=0, dtype=i64}
        %20: i64[] = scalar() {slot=1, dtype=i64}
        %21: f32[3] = random(%10, %12) {sizes=[3]}
        %22: i64[] = scalar() {slot=2, dtype=i64}
        %23: i64[] = const_int() {value=4, dtype=i64}
        %24: i64[] = add(%12, %23)
        %25: f32[3] = random(%10, %24) {sizes=[3]}
        %26: f32[3] = random(%22, %19) {sizes=[3]}
        %27: i64[] = add(%19, %20)
        return %18, %21, %25, %26, %27, %7, %17
    "#]]
    .assert_eq(&dce(&drawn).unwrap().to_string());
    let nothing = draws(&parse("return\n").unwrap(), &[], &generators[..1], 0).unwrap();
    assert_eq!(nothing.outputs.len(), 1);
}

#[test]
fn what_nobody_uses_is_an_input_still() {
    let graph = parse(&program(&["f32[3]", "i64[]", "f32[2]"], "return %2\n")).unwrap();
    let types = [(DType::F32, &[3][..]), (DType::I64, &[]), (DType::F32, &[2])];
    let types = types.map(|(dtype, sizes)| Ty::new(dtype, sizes));
    let declared = declare(&dce(&graph).unwrap(), &types).unwrap().to_string();
    expect![[r#"
        %0: f32[3] = input() {index=0, type=(f32[3])}
        %1: i64[] = input() {index=1, type=(i64[])}
        %2: f32[2] = input() {index=2, type=(f32[2])}
        return %2
    "#]]
    .assert_eq(&declared);
}
