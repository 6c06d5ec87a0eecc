//! Every pass on small graphs, as text. `UPDATE_EXPECT=1 cargo test --test passes` rewrites what is expected.

use expect_test::{Expect, expect};
use torchacc::error::Result;
use torchacc::graph::Graph;
use torchacc::graph::text::parse;
use torchacc::graph::verify::verify;
use torchacc::passes::{
    cross_entropy, cse, dce, decompose, fold, movement, optimize, products, simplify,
};

/// What `pass`, and then `dce` so that only the point is left, makes of the graph in `text`.
fn check(pass: impl Fn(&Graph) -> Result<Graph>, text: &str, expected: Expect) {
    let graph = parse(text).unwrap();
    let result = dce(&pass(&graph).unwrap()).unwrap();
    verify(&result).unwrap();
    expected.assert_eq(&result.to_string());
}

/// The text of a program: its inputs `%0`, `%1`, … are of `types`, then come `lines`.
fn program(types: &[&str], lines: &str) -> String {
    let input =
        |(i, ty): (usize, &&str)| format!("%{i}: {ty} = input() {{index={i}, type=({ty})}}\n");
    types.iter().enumerate().map(input).collect::<String>() + lines
}

#[test]
fn dce_drops_what_nobody_uses() {
    check(
        |g| Ok(g.clone()),
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
fn simplify_keeps_the_bits_of_floats() {
    let lines = "\
%1: f32[] = const() {value=1.0, dtype=f32}
%2: f32[2] = broadcast(%1) {sizes=[2]}
%3: f32[] = const() {value=0.0, dtype=f32}
%4: f32[2] = broadcast(%3) {sizes=[2]}
%5: f32[] = const() {value=-0.0, dtype=f32}
%6: f32[2] = broadcast(%5) {sizes=[2]}
%7: f32[2] = mul(%2, %0)
%8: f32[2] = div(%0, %2)
%9: f32[2] = sub(%0, %4)
%10: f32[2] = sub(%0, %6)
%11: f32[2] = add(%0, %4)
%12: f32[2] = add(%0, %6)
%13: f32[2] = mul(%0, %4)
%14: f32[2] = sub(%0, %0)
return %7, %8, %9, %10, %11, %12, %13, %14";
    check(
        simplify,
        &program(&["f32[2]"], lines),
        expect![[r#"
        %0: f32[2] = input() {index=0, type=(f32[2])}
        %1: f32[] = const() {value=0.0, dtype=f32}
        %2: f32[2] = broadcast(%1) {sizes=[2]}
        %3: f32[] = const() {value=-0.0, dtype=f32}
        %4: f32[2] = broadcast(%3) {sizes=[2]}
        %5: f32[2] = sub(%0, %4)
        %6: f32[2] = add(%0, %2)
        %7: f32[2] = mul(%0, %2)
        %8: f32[2] = sub(%0, %0)
        return %0, %0, %0, %5, %6, %0, %7, %8
    "#]],
    );
}

#[test]
fn simplify_integers_and_logic() {
    let lines = "\
%2: i32[] = const_int() {value=0, dtype=i32}
%3: i32[] = const_int() {value=-1, dtype=i32}
%4: bool[] = const_int() {value=1, dtype=bool}
%5: i32[] = add(%2, %0)
%6: i32[] = mul(%0, %2)
%7: i32[] = sub(%0, %0)
%8: i32[] = and(%0, %3)
%9: i32[] = xor(%0, %0)
%10: bool[] = and(%1, %4)
%11: bool[] = or(%4, %1)
%12: bool[] = eq(%0, %2)
%13: bool[] = not(%12)
%14: i32[] = select(%13, %0, %2)
%15: bool[] = not(%1)
%16: i32[] = select(%15, %0, %2)
%17: i32[] = reduce_sum(%0) {axes=[]}
return %5, %6, %7, %8, %9, %10, %11, %14, %16, %17";
    check(
        simplify,
        &program(&["i32[]", "bool[]"], lines),
        expect![[r#"
        %0: i32[] = input() {index=0, type=(i32[])}
        %1: bool[] = input() {index=1, type=(bool[])}
        %2: i32[] = const_int() {value=0, dtype=i32}
        %3: bool[] = const_int() {value=1, dtype=bool}
        %4: bool[] = ne(%0, %2)
        %5: i32[] = select(%4, %0, %2)
        %6: i32[] = select(%1, %2, %0)
        return %0, %2, %2, %0, %2, %1, %3, %5, %6, %0
    "#]],
    );
}

#[test]
fn simplify_divisions_powers_and_casts() {
    let lines = "\
%1: f32[] = const() {value=8.0, dtype=f32}
%2: f32[] = const() {value=3.0, dtype=f32}
%3: bf16[] = cast(%0) {dtype=bf16}
%4: f32[] = cast(%3) {dtype=f32}
%5: f32[] = div(%4, %1)
%6: f32[] = div(%4, %2)
%7: f32[] = pow(%4, %2)
%8: bf16[] = cast(%4) {dtype=bf16}
%9: f64[] = cast(%0) {dtype=f64}
%10: i32[] = cast(%9) {dtype=i32}
return %5, %6, %7, %8, %10";
    check(
        simplify,
        &program(&["f32[]"], lines),
        expect![[r#"
        %0: f32[] = input() {index=0, type=(f32[])}
        %1: f32[] = const() {value=3.0, dtype=f32}
        %2: bf16[] = cast(%0) {dtype=bf16}
        %3: f32[] = cast(%2) {dtype=f32}
        %4: f32[] = const() {value=0.125, dtype=f32}
        %5: f32[] = mul(%3, %4)
        %6: f32[] = div(%3, %1)
        %7: f32[] = mul(%3, %3)
        %8: f32[] = mul(%7, %3)
        %9: i32[] = cast(%0) {dtype=i32}
        return %5, %6, %8, %2, %9
    "#]],
    );
}

#[test]
fn movement_joins_and_drops() {
    let lines = "\
%1: f32[4,2,3] = transpose(%0) {perm=[2,0,1]}
%2: f32[2,3,4] = transpose(%1) {perm=[1,2,0]}
%3: f32[6,4] = reshape(%2) {sizes=[6,4]}
%4: f32[24] = reshape(%3) {sizes=[24]}
%5: f32[2,3,2] = slice(%0) {starts=[0,0,0], sizes=[2,3,2], steps=[1,1,2]}
%6: f32[1,3,1] = slice(%5) {starts=[1,0,1], sizes=[1,3,1], steps=[1,1,1]}
%7: f32[3,1,1] = transpose(%6) {perm=[1,0,2]}
%8: f32[1,2,3,4] = reshape(%0) {sizes=[1,2,3,4]}
%9: f32[5,2,3,4] = broadcast(%8) {sizes=[5,2,3,4]}
%10: f32[6,5,2,3,4] = broadcast(%9) {sizes=[6,5,2,3,4]}
return %4, %7, %10";
    check(
        movement,
        &program(&["f32[2,3,4]"], lines),
        expect![[r#"
        %0: f32[2,3,4] = input() {index=0, type=(f32[2,3,4])}
        %1: f32[24] = reshape(%0) {sizes=[24]}
        %2: f32[1,3,1] = slice(%0) {starts=[1,0,2], sizes=[1,3,1], steps=[1,1,1]}
        %3: f32[3,1,1] = reshape(%2) {sizes=[3,1,1]}
        %4: f32[6,5,2,3,4] = broadcast(%0) {sizes=[6,5,2,3,4]}
        return %1, %3, %4
    "#]],
    );
}

#[test]
fn movement_knows_dense_views() {
    let lines = "\
%2: f32[4,2] = as_strided(%0) {sizes=[4,2], strides=[1,4], offset=0}
%3: f32[4] = as_strided(%0) {sizes=[4], strides=[2], offset=0}
%4: f32[2,4] = as_strided_scatter(%0, %1) {sizes=[4,2], strides=[1,4], offset=0}
%5: i32[2,4] = bitcast(%0) {dtype=i32}
%6: f32[2,4] = bitcast(%5) {dtype=f32}
%7: f32[2,4] = concat(%6) {dim=1}
return %2, %3, %4, %7";
    check(
        movement,
        &program(&["f32[2,4]", "f32[4,2]"], lines),
        expect![[r#"
        %0: f32[2,4] = input() {index=0, type=(f32[2,4])}
        %1: f32[4,2] = input() {index=1, type=(f32[4,2])}
        %2: f32[4,2] = transpose(%0) {perm=[1,0]}
        %3: f32[4] = as_strided(%0) {sizes=[4], strides=[2], offset=0}
        %4: f32[2,4] = transpose(%1) {perm=[1,0]}
        return %2, %3, %4, %0
    "#]],
    );
}

#[test]
fn movement_of_a_splat_is_a_splat() {
    let lines = "\
%0: f32[] = const() {value=2.0, dtype=f32}
%1: f32[1,1] = reshape(%0) {sizes=[1,1]}
%2: f32[3,4] = broadcast(%1) {sizes=[3,4]}
%3: f32[4,3] = transpose(%2) {perm=[1,0]}
%4: f32[8,3] = concat(%3, %3) {dim=0}
return %4";
    check(
        movement,
        lines,
        expect![[r#"
        %0: f32[] = const() {value=2.0, dtype=f32}
        %1: f32[8,3] = broadcast(%0) {sizes=[8,3]}
        return %1
    "#]],
    );
}

#[test]
fn decompose_what_is_not_kept() {
    let none = |g: &Graph| decompose(g, &|_| false);
    let all = |g: &Graph| decompose(g, &|_| true);
    let softmax = program(&["bf16[2,3]"], "%1: bf16[2,3] = softmax(%0)\nreturn %1");
    check(
        none,
        &softmax,
        expect![[r#"
        %0: bf16[2,3] = input() {index=0, type=(bf16[2,3])}
        %1: f32[2,3] = cast(%0) {dtype=f32}
        %2: f32[2] = reduce_max(%1) {axes=[1]}
        %3: f32[2,1] = reshape(%2) {sizes=[2,1]}
        %4: f32[2,3] = broadcast(%3) {sizes=[2,3]}
        %5: f32[2,3] = sub(%1, %4)
        %6: f32[2,3] = exp(%5)
        %7: f32[2] = reduce_sum(%6) {axes=[1]}
        %8: f32[2,1] = reshape(%7) {sizes=[2,1]}
        %9: f32[2,3] = broadcast(%8) {sizes=[2,3]}
        %10: f32[2,3] = div(%6, %9)
        %11: bf16[2,3] = cast(%10) {dtype=bf16}
        return %11
    "#]],
    );
    check(
        all,
        &softmax,
        expect![[r#"
        %0: bf16[2,3] = input() {index=0, type=(bf16[2,3])}
        %1: bf16[2,3] = softmax(%0)
        return %1
    "#]],
    );
    let lines = "\
%5: f32[1,4,2,8], %6: f32[1,4,2] = attention(%0, %1, %2, %3, %4) {scale=0.5, causal=true, dropout=0.25}
return %5, %6";
    let types = ["f32[1,4,2,8]", "f32[1,2,3,8]", "f32[1,2,3,8]", "i64[]", "i64[]"];
    check(
        none,
        &program(&types, lines),
        expect![[r#"
        %0: f32[1,4,2,8] = input() {index=0, type=(f32[1,4,2,8])}
        %1: f32[1,2,3,8] = input() {index=1, type=(f32[1,2,3,8])}
        %2: f32[1,2,3,8] = input() {index=2, type=(f32[1,2,3,8])}
        %3: i64[] = input() {index=3, type=(i64[])}
        %4: i64[] = input() {index=4, type=(i64[])}
        %5: f32[1,4,2,3] = random(%3, %4) {sizes=[1,4,2,3]}
        %6: f32[] = const() {value=0.25, dtype=f32}
        %7: f32[1,4,2,3] = broadcast(%6) {sizes=[1,4,2,3]}
        %8: bool[1,4,2,3] = ge(%5, %7)
        %9: f32[] = const() {value=1.3333333333333333, dtype=f32}
        %10: f32[] = const() {value=0.0, dtype=f32}
        %11: f32[1,4,2,3] = broadcast(%9) {sizes=[1,4,2,3]}
        %12: f32[1,4,2,3] = broadcast(%10) {sizes=[1,4,2,3]}
        %13: f32[1,4,2,3] = select(%8, %11, %12)
        %14: f32[1,2,1,3,8] = reshape(%1) {sizes=[1,2,1,3,8]}
        %15: f32[1,2,2,3,8] = broadcast(%14) {sizes=[1,2,2,3,8]}
        %16: f32[1,4,3,8] = reshape(%15) {sizes=[1,4,3,8]}
        %17: f32[1,2,1,3,8] = reshape(%2) {sizes=[1,2,1,3,8]}
        %18: f32[1,2,2,3,8] = broadcast(%17) {sizes=[1,2,2,3,8]}
        %19: f32[1,4,3,8] = reshape(%18) {sizes=[1,4,3,8]}
        %20: f32[1,4,8,3] = transpose(%16) {perm=[0,1,3,2]}
        %21: f32[1,4,2,3] = matmul(%0, %20)
        %22: f32[] = const() {value=0.5, dtype=f32}
        %23: f32[1,4,2,3] = broadcast(%22) {sizes=[1,4,2,3]}
        %24: f32[1,4,2,3] = mul(%21, %23)
        %25: f32[] = const() {value=-inf, dtype=f32}
        %26: f32[1,4,2,3] = broadcast(%25) {sizes=[1,4,2,3]}
        %27: i32[1,4,2,3] = iota() {sizes=[1,4,2,3], dim=2, dtype=i32}
        %28: i32[1,4,2,3] = iota() {sizes=[1,4,2,3], dim=3, dtype=i32}
        %29: bool[1,4,2,3] = le(%28, %27)
        %30: f32[1,4,2,3] = select(%29, %24, %26)
        %31: f32[1,4,2] = reduce_max(%30) {axes=[3]}
        %32: f32[1,4,2,1] = reshape(%31) {sizes=[1,4,2,1]}
        %33: f32[1,4,2,1] = broadcast(%25) {sizes=[1,4,2,1]}
        %34: f32[1,4,2,1] = broadcast(%10) {sizes=[1,4,2,1]}
        %35: bool[1,4,2,1] = eq(%32, %33)
        %36: f32[1,4,2,1] = select(%35, %34, %32)
        %37: f32[1,4,2,3] = broadcast(%36) {sizes=[1,4,2,3]}
        %38: f32[1,4,2,3] = sub(%30, %37)
        %39: f32[1,4,2,3] = exp(%38)
        %40: f32[1,4,2] = reduce_sum(%39) {axes=[3]}
        %41: f32[1,4,2,1] = reshape(%40) {sizes=[1,4,2,1]}
        %42: f32[1,4,2,1] = log(%41)
        %43: f32[1,4,2,1] = add(%36, %42)
        %44: f32[] = const() {value=1.0, dtype=f32}
        %45: f32[1,4,2,1] = broadcast(%44) {sizes=[1,4,2,1]}
        %46: bool[1,4,2,1] = eq(%41, %34)
        %47: f32[1,4,2,1] = select(%46, %45, %41)
        %48: f32[1,4,2,3] = broadcast(%47) {sizes=[1,4,2,3]}
        %49: f32[1,4,2,3] = div(%39, %48)
        %50: f32[1,4,2,3] = mul(%49, %13)
        %51: f32[1,4,2,8] = matmul(%50, %19)
        %52: f32[1,4,2] = reshape(%43) {sizes=[1,4,2]}
        return %51, %52
    "#]],
    );
}

#[test]
fn optimize_runs_to_the_end() {
    let lines = "\
%1: f32[] = const() {value=4.0, dtype=f32}
%2: f32[] = const() {value=0.5, dtype=f32}
%3: f32[] = pow(%1, %2)
%4: f32[2,1] = broadcast(%3) {sizes=[2,1]}
%5: f32[1,2] = transpose(%4) {perm=[1,0]}
%6: f32[1,2] = pow(%0, %5)
%7: f32[1,2] = add(%6, %0)
%8: f32[1,2] = add(%0, %6)
%9: f32[1,2] = sub(%7, %8)
return %9";
    check(
        |g| optimize(g.clone(), &|_| true),
        &program(&["f32[1,2]"], lines),
        expect![[r#"
        %0: f32[1,2] = input() {index=0, type=(f32[1,2])}
        %1: f32[1,2] = mul(%0, %0)
        %2: f32[1,2] = add(%0, %1)
        %3: f32[1,2] = sub(%2, %2)
        return %3
    "#]],
    );
}

#[test]
fn bytes_never_written_are_zero_in_any_dtype() {
    let lines = "\
%0: u8[] = const_int() {value=0, dtype=u8}
%1: u8[24] = broadcast(%0) {sizes=[24]}
%2: f32[6] = bitcast(%1) {dtype=f32}
%3: f32[2,3] = reshape(%2) {sizes=[2,3]}
return %3";
    check(
        movement,
        lines,
        expect![[r#"
        %0: f32[] = const() {value=0.0, dtype=f32}
        %1: f32[2,3] = broadcast(%0) {sizes=[2,3]}
        return %1
    "#]],
    );
}

const PICKED: &str = "\
%2: f32[2,4] = log_softmax(%0)
%3: i64[2,1] = reshape(%1) {sizes=[2,1]}
%4: f32[2,1] = gather(%2, %3) {axis=1}
%5: i64[2,4] = iota() {sizes=[2,4], dim=1, dtype=i64}
%6: i64[2,4] = broadcast(%3) {sizes=[2,4]}
%7: bool[2,4] = eq(%5, %6)
%8: f32[] = const() {value=0.0, dtype=f32}
%9: f32[2,4] = broadcast(%8) {sizes=[2,4]}
%10: f32[] = const() {value=0.5, dtype=f32}
%11: f32[2,4] = broadcast(%10) {sizes=[2,4]}
%12: f32[2,4] = select(%7, %11, %9)
%13: f32[2,4] = log_softmax_grad(%12, %2)
";

#[test]
fn cross_entropy_stores_no_probabilities() {
    check(
        cross_entropy,
        &program(&["f32[2,4]", "i64[2]"], &format!("{PICKED}return %4, %13")),
        expect![[r#"
            %0: f32[2,4] = input() {index=0, type=(f32[2,4])}
            %1: i64[2] = input() {index=1, type=(i64[2])}
            %2: f32[2,1], %3: f32[2,1] = log_sum_exp(%0)
            %4: f32[2,4] = broadcast(%2) {sizes=[2,4]}
            %5: f32[2,4] = sub(%0, %4)
            %6: f32[2,4] = broadcast(%3) {sizes=[2,4]}
            %7: f32[2,4] = sub(%5, %6)
            %8: i64[2,1] = reshape(%1) {sizes=[2,1]}
            %9: f32[2,1] = gather(%0, %8) {axis=1}
            %10: f32[2,1] = sub(%9, %2)
            %11: f32[2,1] = sub(%10, %3)
            %12: i64[2,4] = iota() {sizes=[2,4], dim=1, dtype=i64}
            %13: i64[2,4] = broadcast(%8) {sizes=[2,4]}
            %14: bool[2,4] = eq(%12, %13)
            %15: f32[] = const() {value=0.0, dtype=f32}
            %16: f32[2,4] = broadcast(%15) {sizes=[2,4]}
            %17: f32[] = const() {value=0.5, dtype=f32}
            %18: f32[2,4] = broadcast(%17) {sizes=[2,4]}
            %19: f32[2,4] = select(%14, %18, %16)
            %20: i64[] = const_int() {value=0, dtype=i64}
            %21: i64[2,1] = broadcast(%20) {sizes=[2,1]}
            %22: i64[] = const_int() {value=4, dtype=i64}
            %23: i64[2,1] = broadcast(%22) {sizes=[2,1]}
            %24: f32[2,1] = broadcast(%17) {sizes=[2,1]}
            %25: bool[2,1] = ge(%8, %21)
            %26: bool[2,1] = lt(%8, %23)
            %27: bool[2,1] = and(%25, %26)
            %28: f32[2,1] = broadcast(%15) {sizes=[2,1]}
            %29: f32[2,1] = select(%27, %24, %28)
            %30: f32[2,4] = broadcast(%29) {sizes=[2,4]}
            %31: f32[2,4] = exp(%7)
            %32: f32[2,4] = mul(%31, %30)
            %33: f32[2,4] = sub(%19, %32)
            return %11, %33
        "#]],
    );
}

#[test]
fn cross_entropy_leaves_probabilities_that_are_asked_for() {
    check(
        cross_entropy,
        &program(&["f32[2,4]", "i64[2]"], &format!("{PICKED}return %2, %4")),
        expect![[r#"
            %0: f32[2,4] = input() {index=0, type=(f32[2,4])}
            %1: i64[2] = input() {index=1, type=(i64[2])}
            %2: f32[2,4] = log_softmax(%0)
            %3: i64[2,1] = reshape(%1) {sizes=[2,1]}
            %4: f32[2,1] = gather(%2, %3) {axis=1}
            return %2, %4
        "#]],
    );
}

#[test]
fn movement_puts_together_before_it_reshapes() {
    let lines = "\
%2: f32[2,3,4] = transpose(%0) {perm=[1,0,2]}
%3: f32[2,12] = reshape(%2) {sizes=[2,12]}
%4: f32[2,2,4] = transpose(%1) {perm=[1,0,2]}
%5: f32[2,8] = reshape(%4) {sizes=[2,8]}
%6: f32[2,20] = concat(%3, %5) {dim=1}
return %6";
    check(
        movement,
        &program(&["f32[3,2,4]", "f32[2,2,4]"], lines),
        expect![[r#"
            %0: f32[3,2,4] = input() {index=0, type=(f32[3,2,4])}
            %1: f32[2,2,4] = input() {index=1, type=(f32[2,2,4])}
            %2: f32[2,3,4] = transpose(%0) {perm=[1,0,2]}
            %3: f32[2,2,4] = transpose(%1) {perm=[1,0,2]}
            %4: f32[2,5,4] = concat(%2, %3) {dim=1}
            %5: f32[2,20] = reshape(%4) {sizes=[2,20]}
            return %5
        "#]],
    );
}

#[test]
fn products_with_one_sum_become_one() {
    let types = ["f32[8,1]", "f32[1,9]", "f32[8,1]", "f32[1,9]", "f32[8,1]", "f32[1,9]"];
    let lines = "\
%6: f32[8,9] = matmul(%0, %1)
%7: f32[8,9] = matmul(%2, %3)
%8: f32[8,9] = add(%6, %7)
%9: f32[8,9] = matmul(%4, %5)
%10: f32[8,9] = add(%8, %9)
return %10";
    check(
        products,
        &program(&types, lines),
        expect![[r#"
        %0: f32[8,1] = input() {index=0, type=(f32[8,1])}
        %1: f32[1,9] = input() {index=1, type=(f32[1,9])}
        %2: f32[8,1] = input() {index=2, type=(f32[8,1])}
        %3: f32[1,9] = input() {index=3, type=(f32[1,9])}
        %4: f32[8,1] = input() {index=4, type=(f32[8,1])}
        %5: f32[1,9] = input() {index=5, type=(f32[1,9])}
        %6: f32[8,3] = concat(%0, %2, %4) {dim=1}
        %7: f32[3,9] = concat(%1, %3, %5) {dim=0}
        %8: f32[8,9] = matmul(%6, %7)
        return %8
    "#]],
    );
}

#[test]
fn products_stay_where_one_is_used_elsewhere_or_copies_cost_more() {
    let types = ["f32[8,1]", "f32[1,9]", "f32[8,1]", "f32[1,9]", "f32[8,5]", "f32[5,9]"];
    let lines = "\
%6: f32[8,9] = matmul(%0, %1)
%7: f32[8,9] = matmul(%2, %3)
%8: f32[8,9] = add(%6, %7)
%9: f32[8,9] = matmul(%4, %5)
%10: f32[8,9] = matmul(%4, %5)
%11: f32[8,9] = add(%9, %10)
return %8, %7, %11";
    check(
        products,
        &program(&types, lines),
        expect![[r#"
        %0: f32[8,1] = input() {index=0, type=(f32[8,1])}
        %1: f32[1,9] = input() {index=1, type=(f32[1,9])}
        %2: f32[8,1] = input() {index=2, type=(f32[8,1])}
        %3: f32[1,9] = input() {index=3, type=(f32[1,9])}
        %4: f32[8,5] = input() {index=4, type=(f32[8,5])}
        %5: f32[5,9] = input() {index=5, type=(f32[5,9])}
        %6: f32[8,9] = matmul(%0, %1)
        %7: f32[8,9] = matmul(%2, %3)
        %8: f32[8,9] = add(%6, %7)
        %9: f32[8,9] = matmul(%4, %5)
        %10: f32[8,9] = add(%9, %9)
        return %8, %7, %10
    "#]],
    );
}
