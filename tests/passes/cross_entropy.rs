//! `cross_entropy`.

use super::{check, program};
use expect_test::expect;
use torchacc::passes::cross_entropy;

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
            %20: f32[2,4] = exp(%7)
            %21: i64[] = const_int() {value=0, dtype=i64}
            %22: i64[2,1] = broadcast(%21) {sizes=[2,1]}
            %23: i64[] = const_int() {value=4, dtype=i64}
            %24: i64[2,1] = broadcast(%23) {sizes=[2,1]}
            %25: f32[2,1] = broadcast(%17) {sizes=[2,1]}
            %26: bool[2,1] = ge(%8, %22)
            %27: bool[2,1] = lt(%8, %24)
            %28: bool[2,1] = and(%26, %27)
            %29: f32[2,1] = broadcast(%15) {sizes=[2,1]}
            %30: f32[2,1] = select(%28, %25, %29)
            %31: f32[2,4] = broadcast(%30) {sizes=[2,4]}
            %32: f32[2,4] = mul(%20, %31)
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
fn cross_entropy_rounds_to_half_types() {
    check(
        cross_entropy,
        &program(
            &["bf16[2,4]", "i64[2,1]"],
            "%2: bf16[2,4] = log_softmax(%0)\n\
             %3: bf16[2,1] = gather(%2, %1) {axis=1}\n\
             %4: i64[2,4] = iota() {sizes=[2,4], dim=1, dtype=i64}\n\
             %5: i64[2,4] = broadcast(%1) {sizes=[2,4]}\n\
             %6: bool[2,4] = eq(%4, %5)\n\
             %7: f32[] = const() {value=0.0, dtype=f32}\n\
             %8: f32[2,4] = broadcast(%7) {sizes=[2,4]}\n\
             %9: f32[] = const() {value=0.3, dtype=f32}\n\
             %10: f32[2,4] = broadcast(%9) {sizes=[2,4]}\n\
             %11: f32[2,4] = select(%6, %10, %8)\n\
             %12: bf16[2,4] = cast(%11) {dtype=bf16}\n\
             %13: bf16[2,4] = log_softmax_grad(%12, %2)\n\
             return %3, %13",
        ),
        expect![[r#"
            %0: bf16[2,4] = input() {index=0, type=(bf16[2,4])}
            %1: i64[2,1] = input() {index=1, type=(i64[2,1])}
            %2: f32[2,1], %3: f32[2,1] = log_sum_exp(%0)
            %4: f32[2,4] = cast(%0) {dtype=f32}
            %5: f32[2,4] = broadcast(%2) {sizes=[2,4]}
            %6: f32[2,4] = sub(%4, %5)
            %7: f32[2,4] = broadcast(%3) {sizes=[2,4]}
            %8: f32[2,4] = sub(%6, %7)
            %9: bf16[2,4] = cast(%8) {dtype=bf16}
            %10: bf16[2,1] = gather(%0, %1) {axis=1}
            %11: f32[2,1] = cast(%10) {dtype=f32}
            %12: f32[2,1] = sub(%11, %2)
            %13: f32[2,1] = sub(%12, %3)
            %14: bf16[2,1] = cast(%13) {dtype=bf16}
            %15: i64[2,4] = iota() {sizes=[2,4], dim=1, dtype=i64}
            %16: i64[2,4] = broadcast(%1) {sizes=[2,4]}
            %17: bool[2,4] = eq(%15, %16)
            %18: f32[] = const() {value=0.0, dtype=f32}
            %19: f32[2,4] = broadcast(%18) {sizes=[2,4]}
            %20: f32[] = const() {value=0.3, dtype=f32}
            %21: f32[2,4] = broadcast(%20) {sizes=[2,4]}
            %22: f32[2,4] = select(%17, %21, %19)
            %23: bf16[2,4] = cast(%22) {dtype=bf16}
            %24: bf16[] = cast(%20) {dtype=bf16}
            %25: f32[2,4] = cast(%23) {dtype=f32}
            %26: f32[2,4] = cast(%9) {dtype=f32}
            %27: f32[] = cast(%24) {dtype=f32}
            %28: f32[2,4] = exp(%26)
            %29: i64[] = const_int() {value=0, dtype=i64}
            %30: i64[2,1] = broadcast(%29) {sizes=[2,1]}
            %31: i64[] = const_int() {value=4, dtype=i64}
            %32: i64[2,1] = broadcast(%31) {sizes=[2,1]}
            %33: f32[2,1] = broadcast(%27) {sizes=[2,1]}
            %34: bool[2,1] = ge(%1, %30)
            %35: bool[2,1] = lt(%1, %32)
            %36: bool[2,1] = and(%34, %35)
            %37: f32[2,1] = broadcast(%18) {sizes=[2,1]}
            %38: f32[2,1] = select(%36, %33, %37)
            %39: f32[2,4] = broadcast(%38) {sizes=[2,4]}
            %40: f32[2,4] = mul(%28, %39)
            %41: f32[2,4] = sub(%25, %40)
            %42: bf16[2,4] = cast(%41) {dtype=bf16}
            return %14, %42
        "#]],
    );
}

#[test]
fn cross_entropy_reads_half_logits_as_they_are() {
    check(
        cross_entropy,
        &program(
            &["bf16[2,4]", "i64[2,1]"],
            "%2: f32[2,4] = cast(%0) {dtype=f32}\n\
             %3: f32[2,4] = log_softmax(%2)\n\
             %4: f32[2,1] = gather(%3, %1) {axis=1}\n\
             return %4",
        ),
        expect![[r#"
            %0: bf16[2,4] = input() {index=0, type=(bf16[2,4])}
            %1: i64[2,1] = input() {index=1, type=(i64[2,1])}
            %2: f32[2,1], %3: f32[2,1] = log_sum_exp(%0)
            %4: bf16[2,1] = gather(%0, %1) {axis=1}
            %5: f32[2,1] = cast(%4) {dtype=f32}
            %6: f32[2,1] = sub(%5, %2)
            %7: f32[2,1] = sub(%6, %3)
            return %7
        "#]],
    );
}
