//! `marks`, `dce`, `cse` and `fold`; `settle` and `declare`, for programs that others call.

use super::{check, program};
use expect_test::expect;
use std::borrow::Cow;
use torchacc::dtype::DType;
use torchacc::graph::text::parse;
use torchacc::op::Ty;
use torchacc::op::arg::ScalarKind;
use torchacc::op::host::{HostOp, register};
use torchacc::passes::{cse, dce, declare, fold, marks, settle};

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
