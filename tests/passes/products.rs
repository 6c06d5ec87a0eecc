//! `products`.

use super::{check, program};
use expect_test::expect;
use torchacc::passes::products;

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
            %10: f32[8,9] = matmul(%4, %5)
            %11: f32[8,9] = add(%9, %10)
            return %8, %7, %11
        "#]],
    );
}

#[test]
fn transposes_are_joined_as_what_they_are_transposes_of() {
    let types = ["f32[1,8]", "f32[1,9]", "f32[1,8]", "f32[1,9]"];
    let lines = "\
%4: f32[8,1] = transpose(%0) {perm=[1,0]}
%5: f32[8,9] = matmul(%4, %1)
%6: f32[8,1] = transpose(%2) {perm=[1,0]}
%7: f32[8,9] = matmul(%6, %3)
%8: f32[8,9] = add(%5, %7)
return %8";
    check(
        products,
        &program(&types, lines),
        expect![[r#"
        %0: f32[1,8] = input() {index=0, type=(f32[1,8])}
        %1: f32[1,9] = input() {index=1, type=(f32[1,9])}
        %2: f32[1,8] = input() {index=2, type=(f32[1,8])}
        %3: f32[1,9] = input() {index=3, type=(f32[1,9])}
        %4: f32[2,8] = concat(%0, %2) {dim=0}
        %5: f32[8,2] = transpose(%4) {perm=[1,0]}
        %6: f32[2,9] = concat(%1, %3) {dim=0}
        %7: f32[8,9] = matmul(%5, %6)
        return %7
    "#]],
    );
}
