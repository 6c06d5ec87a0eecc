//! All passes together.

use super::{check, program};
use expect_test::expect;
use std::borrow::Cow;
use torchacc::passes::optimize;

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
        |g| optimize(g.clone(), &|_| true).map(Cow::Owned),
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
