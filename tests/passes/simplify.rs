//! `simplify`.

use super::{check, program};
use expect_test::expect;
use torchacc::passes::simplify;

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
%1: f32[] = const() {value=1.0, dtype=f32}
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
        %4: f32[] = div(%3, %1)
        %5: f32[] = mul(%3, %3)
        %6: f32[] = mul(%5, %3)
        %7: i32[] = cast(%0) {dtype=i32}
        return %3, %4, %6, %2, %7
    "#]],
    );
}
