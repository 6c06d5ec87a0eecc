//! `scatters`.

use super::{check, program};
use expect_test::expect;
use torchacc::passes::scatters;

const TYPES: [&str; 3] = ["f32[8,9]", "f32[8]", "f32[8]"];

#[test]
fn what_is_zero_but_for_a_part_is_added_to_that_part() {
    let lines = "\
%3: f32[] = const() {value=0.0, dtype=f32}
%4: f32[8,9] = broadcast(%3) {sizes=[8,9]}
%5: f32[8,9] = as_strided_scatter(%4, %1) {sizes=[8], strides=[9], offset=3}
%6: f32[72] = broadcast(%3) {sizes=[72]}
%7: f32[72] = as_strided_scatter(%6, %2) {sizes=[8], strides=[9], offset=4}
%8: f32[8,9] = reshape(%7) {sizes=[8,9]}
%9: f32[8,9] = add(%0, %5)
%10: f32[8,9] = add(%8, %9)
return %10";
    check(
        scatters,
        &program(&TYPES, lines),
        expect![[r#"
        %0: f32[8,9] = input() {index=0, type=(f32[8,9])}
        %1: f32[8] = input() {index=1, type=(f32[8])}
        %2: f32[8] = input() {index=2, type=(f32[8])}
        %3: f32[8] = as_strided(%0) {sizes=[8], strides=[9], offset=3}
        %4: f32[8] = add(%3, %1)
        %5: f32[8,9] = as_strided_scatter(%0, %4) {sizes=[8], strides=[9], offset=3}
        %6: f32[8] = as_strided(%5) {sizes=[8], strides=[9], offset=4}
        %7: f32[8] = add(%6, %2)
        %8: f32[8,9] = as_strided_scatter(%5, %7) {sizes=[8], strides=[9], offset=4}
        return %8
    "#]],
    );
}

#[test]
fn parts_that_are_large_or_used_elsewhere_stay() {
    let lines = "\
%3: f32[] = const() {value=0.0, dtype=f32}
%4: f32[8,9] = broadcast(%3) {sizes=[8,9]}
%5: f32[8,9] = as_strided_scatter(%4, %1) {sizes=[8], strides=[9], offset=3}
%6: f32[8,9] = add(%0, %5)
%7: f32[8] = broadcast(%3) {sizes=[8]}
%8: f32[8] = as_strided_scatter(%7, %1) {sizes=[8], strides=[1], offset=0}
%9: f32[8] = add(%8, %2)
return %5, %6, %9";
    check(
        scatters,
        &program(&TYPES, lines),
        expect![[r#"
        %0: f32[8,9] = input() {index=0, type=(f32[8,9])}
        %1: f32[8] = input() {index=1, type=(f32[8])}
        %2: f32[8] = input() {index=2, type=(f32[8])}
        %3: f32[] = const() {value=0.0, dtype=f32}
        %4: f32[8,9] = broadcast(%3) {sizes=[8,9]}
        %5: f32[8,9] = as_strided_scatter(%4, %1) {sizes=[8], strides=[9], offset=3}
        %6: f32[8,9] = add(%0, %5)
        %7: f32[8] = broadcast(%3) {sizes=[8]}
        %8: f32[8] = as_strided_scatter(%7, %1) {sizes=[8], strides=[1], offset=0}
        %9: f32[8] = add(%8, %2)
        return %5, %6, %9
    "#]],
    );
}
