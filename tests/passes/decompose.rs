//! `decompose`.

use super::{check, program};
use expect_test::expect;
use torchacc::passes::decompose;

#[test]
fn decompose_what_is_not_kept() {
    let softmax = program(&["bf16[2,3]"], "%1: bf16[2,3] = softmax(%0)\nreturn %1");
    check(
        |g| decompose(g, &|_| false),
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
        |g| decompose(g, &|_| true),
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
        |g| decompose(g, &|_| false),
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
