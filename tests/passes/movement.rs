//! `movement`.

use super::{check, program};
use expect_test::expect;
use torchacc::graph::Relation;
use torchacc::graph::text::parse;
use torchacc::passes::movement;

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

#[test]
fn movement_looks_through_pairs() {
    let lines = "\
%2: f32[3,2] = concat(%0, %1) {dim=1}
%3: c64[3,1] = bitcast(%2) {dtype=c64}
%4: c64[3] = reshape(%3) {sizes=[3]}
%5: c64[1,3,1] = reshape(%4) {sizes=[1,3,1]}
%6: f32[1,3,2] = bitcast(%5) {dtype=f32}
%7: f32[3,1] = slice(%2) {starts=[0,1], sizes=[3,1], steps=[1,1]}
%8: f32[3,2] = slice(%2) {starts=[0,0], sizes=[3,2], steps=[1,1]}
%9: f32[2,1] = slice(%2) {starts=[1,0], sizes=[2,1], steps=[1,1]}
return %6, %7, %8, %9";
    check(
        movement,
        &program(&["f32[3,1]", "f32[3,1]"], lines),
        expect![[r#"
        %0: f32[3,1] = input() {index=0, type=(f32[3,1])}
        %1: f32[3,1] = input() {index=1, type=(f32[3,1])}
        %2: f32[3,2] = concat(%0, %1) {dim=1}
        %3: f32[1,3,2] = reshape(%2) {sizes=[1,3,2]}
        %4: f32[2,1] = slice(%0) {starts=[1,0], sizes=[2,1], steps=[1,1]}
        return %3, %1, %2, %4
    "#]],
    );
}

/// As FSDP gathers: parts are put into a small buffer, and from there into a slice of a large one, which is gathered.
#[test]
fn a_slice_of_a_buffer_needs_no_more_than_what_was_written_there() {
    let lines = "\
%2: f32[] = const() {value=0.0, dtype=f32}
%3: f32[6] = broadcast(%2) {sizes=[6]}
%4: f32[6] = as_strided_scatter(%3, %0) {sizes=[4], strides=[1], offset=0}
%5: f32[6] = as_strided_scatter(%4, %1) {sizes=[2], strides=[1], offset=4}
%6: f32[12] = broadcast(%2) {sizes=[12]}
%7: f32[4] = slice(%5) {starts=[0], sizes=[4], steps=[1]}
%8: f32[12] = as_strided_scatter(%6, %7) {sizes=[4], strides=[1], offset=6}
%9: f32[2] = slice(%5) {starts=[4], sizes=[2], steps=[1]}
%10: f32[12] = as_strided_scatter(%8, %9) {sizes=[2], strides=[1], offset=10}
%11: f32[6] = slice(%10) {starts=[6], sizes=[6], steps=[1]}
%12: f32[2] = slice(%10) {starts=[7], sizes=[2], steps=[1]}
%13: f32[3] = slice(%10) {starts=[5], sizes=[3], steps=[1]}
%14: f32[2] = slice(%10) {starts=[0], sizes=[2], steps=[1]}
%15: f32[8] = slice(%10) {starts=[3], sizes=[8], steps=[1]}
%16: f32[4] = slice(%11) {starts=[0], sizes=[4], steps=[1]}
%17: f32[6] = as_strided_scatter(%3, %16) {sizes=[4], strides=[1], offset=0}
%18: f32[2] = slice(%11) {starts=[4], sizes=[2], steps=[1]}
%19: f32[6] = as_strided_scatter(%17, %18) {sizes=[2], strides=[1], offset=4}
return %11, %12, %13, %14, %15, %19";
    check(
        movement,
        &program(&["f32[4]", "f32[2]"], lines),
        expect![[r#"
            %0: f32[4] = input() {index=0, type=(f32[4])}
            %1: f32[2] = input() {index=1, type=(f32[2])}
            %2: f32[] = const() {value=0.0, dtype=f32}
            %3: f32[6] = broadcast(%2) {sizes=[6]}
            %4: f32[1,4] = reshape(%0) {sizes=[1,4]}
            %5: f32[1,2] = reshape(%1) {sizes=[1,2]}
            %6: f32[1,6] = concat(%4, %5) {dim=1}
            %7: f32[6] = reshape(%6) {sizes=[6]}
            %8: f32[12] = broadcast(%2) {sizes=[12]}
            %9: f32[4] = slice(%7) {starts=[0], sizes=[4], steps=[1]}
            %10: f32[12] = as_strided_scatter(%8, %9) {sizes=[4], strides=[1], offset=6}
            %11: f32[2] = slice(%7) {starts=[4], sizes=[2], steps=[1]}
            %12: f32[12] = as_strided_scatter(%10, %11) {sizes=[2], strides=[1], offset=10}
            %13: f32[6] = as_strided_scatter(%3, %9) {sizes=[4], strides=[1], offset=0}
            %14: f32[6] = as_strided_scatter(%13, %11) {sizes=[2], strides=[1], offset=4}
            %15: f32[2] = slice(%9) {starts=[1], sizes=[2], steps=[1]}
            %16: f32[3] = slice(%12) {starts=[5], sizes=[3], steps=[1]}
            %17: f32[2] = broadcast(%2) {sizes=[2]}
            %18: f32[8] = slice(%12) {starts=[3], sizes=[8], steps=[1]}
            return %14, %15, %16, %17, %18, %7
        "#]],
    );
}

/// A read beside what was written, one of a part of it, and one that is in neither.
#[test]
fn what_a_read_finds_depends_on_where_it_is() {
    let lines = "\
%2: f32[12] = as_strided_scatter(%0, %1) {sizes=[4], strides=[1], offset=4}
%3: f32[3] = slice(%2) {starts=[1], sizes=[3], steps=[1]}
%4: f32[3] = slice(%2) {starts=[9], sizes=[3], steps=[1]}
%5: f32[2] = slice(%2) {starts=[5], sizes=[2], steps=[1]}
%6: f32[2] = slice(%2) {starts=[3], sizes=[2], steps=[1]}
return %3, %4, %5, %6";
    let graph = parse(&program(&["f32[12]", "f32[4]"], lines)).unwrap();
    let graph = movement(&graph).unwrap().into_owned();
    let guards: Vec<(Relation, i64)> = graph.guards.iter().map(|g| (g.says, g.margin)).collect();
    let expected = [
        (Relation::Before, 0),
        (Relation::After, 1),
        (Relation::BeginsWithin, 1),
        (Relation::EndsWithin, 1),
    ];
    assert_eq!(guards, expected);
}

#[test]
fn movement_reads_what_was_written_box_by_box() {
    let lines = "\
%3: f32[3,4,5] = as_strided_scatter(%0, %1) {sizes=[4,5], strides=[5,1], offset=0}
%4: f32[3,4,5] = as_strided_scatter(%3, %2) {sizes=[1,4,5], strides=[20,5,1], offset=20}
%5: f32[1,4,5] = slice(%4) {starts=[0,0,0], sizes=[1,4,5], steps=[1,1,1]}
%6: f32[4,5] = reshape(%5) {sizes=[4,5]}
%7: f32[1,2,3] = slice(%4) {starts=[1,1,2], sizes=[1,2,3], steps=[1,1,1]}
%8: f32[1,4,5] = slice(%4) {starts=[2,0,0], sizes=[1,4,5], steps=[1,1,1]}
%9: f32[2,4,5] = slice(%4) {starts=[0,0,0], sizes=[2,4,5], steps=[1,1,1]}
%10: f32[] = const() {value=0.0, dtype=f32}
%11: f32[3,4,5] = broadcast(%10) {sizes=[3,4,5]}
%12: f32[3,4,5] = as_strided_scatter(%11, %1) {sizes=[4,5], strides=[5,1], offset=0}
%13: f32[2,4,5] = slice(%12) {starts=[1,0,0], sizes=[2,4,5], steps=[1,1,1]}
return %6, %7, %8, %9, %13";
    check(
        movement,
        &program(&["f32[3,4,5]", "f32[4,5]", "f32[1,4,5]"], lines),
        expect![[r#"
        %0: f32[3,4,5] = input() {index=0, type=(f32[3,4,5])}
        %1: f32[4,5] = input() {index=1, type=(f32[4,5])}
        %2: f32[1,4,5] = input() {index=2, type=(f32[1,4,5])}
        %3: f32[3,4,5] = as_strided_scatter(%0, %1) {sizes=[4,5], strides=[5,1], offset=0}
        %4: f32[3,4,5] = as_strided_scatter(%3, %2) {sizes=[1,4,5], strides=[20,5,1], offset=20}
        %5: f32[1,2,3] = slice(%2) {starts=[0,1,2], sizes=[1,2,3], steps=[1,1,1]}
        %6: f32[1,4,5] = slice(%4) {starts=[2,0,0], sizes=[1,4,5], steps=[1,1,1]}
        %7: f32[2,4,5] = slice(%4) {starts=[0,0,0], sizes=[2,4,5], steps=[1,1,1]}
        %8: f32[] = const() {value=0.0, dtype=f32}
        %9: f32[2,4,5] = broadcast(%8) {sizes=[2,4,5]}
        return %1, %5, %6, %7, %9
    "#]],
    );
}

#[test]
fn attention_repeats_its_bias_itself() {
    let lines = "\
%5: f32[2,3,4,5] = broadcast(%3) {sizes=[2,3,4,5]}
%6: i64[] = const_int() {value=0, dtype=i64}
%7: f32[2,3,4,6], %8: f32[2,3,4] = attention(%0, %1, %2, %6, %6, %5) {scale=1.0, causal=false, dropout=0.0}
%9: f32[2,3,4,6], %10: f32[2,3,5,6], %11: f32[2,3,5,6] = attention_grad(%0, %0, %1, %2, %7, %8, %6, %6, %5) {scale=1.0, causal=false, dropout=0.0}
%12: bool[] = const_int() {value=1, dtype=bool}
%13: bool[2,3,4,5] = broadcast(%12) {sizes=[2,3,4,5]}
%14: f32[2,3,4,6], %15: f32[2,3,4] = attention(%0, %1, %2, %6, %6, %13) {scale=1.0, causal=false, dropout=0.0}
return %7, %9, %10, %11, %14";
    let leaves = ["f32[2,3,4,6]", "f32[2,3,5,6]", "f32[2,3,5,6]", "f32[4,5]", "f32[1]"];
    let graph = program(&leaves, lines);
    check(
        movement,
        &graph,
        expect![[r#"
        %0: f32[2,3,4,6] = input() {index=0, type=(f32[2,3,4,6])}
        %1: f32[2,3,5,6] = input() {index=1, type=(f32[2,3,5,6])}
        %2: f32[2,3,5,6] = input() {index=2, type=(f32[2,3,5,6])}
        %3: f32[4,5] = input() {index=3, type=(f32[4,5])}
        %4: i64[] = const_int() {value=0, dtype=i64}
        %5: f32[1,1,4,5] = reshape(%3) {sizes=[1,1,4,5]}
        %6: f32[2,3,4,6], %7: f32[2,3,4] = attention(%0, %1, %2, %4, %4, %5) {scale=1.0, causal=false, dropout=0.0}
        %8: f32[2,3,4,6], %9: f32[2,3,5,6], %10: f32[2,3,5,6] = attention_grad(%0, %0, %1, %2, %6, %7, %4, %4, %5) {scale=1.0, causal=false, dropout=0.0}
        %11: bool[] = const_int() {value=1, dtype=bool}
        %12: bool[1,1,1,1] = reshape(%11) {sizes=[1,1,1,1]}
        %13: f32[2,3,4,6], %14: f32[2,3,4] = attention(%0, %1, %2, %4, %4, %12) {scale=1.0, causal=false, dropout=0.0}
        return %6, %8, %9, %10, %13
    "#]],
    );
    // A mask of one number, which is a broadcast in any case, is left alone in the end.
    let once = movement(&parse(&graph).unwrap()).unwrap().into_owned();
    let twice = movement(&once).unwrap().into_owned();
    assert!(matches!(movement(&twice).unwrap(), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn a_buffer_that_is_filled_side_by_side_is_one_array() {
    let lines = "\
%3: f32[8] = as_strided_scatter(%2, %0) {sizes=[2,3], strides=[4,1], offset=0}
%4: f32[8] = as_strided_scatter(%3, %1) {sizes=[2,1], strides=[4,1], offset=3}
%5: f32[8] = as_strided_scatter(%3, %1) {sizes=[2,1], strides=[4,1], offset=2}
return %4, %5";
    let types = ["f32[2,3]", "f32[2,1]", "f32[8]"];
    check(
        movement,
        &program(&types, lines),
        expect![[r#"
        %0: f32[2,3] = input() {index=0, type=(f32[2,3])}
        %1: f32[2,1] = input() {index=1, type=(f32[2,1])}
        %2: f32[8] = input() {index=2, type=(f32[8])}
        %3: f32[8] = as_strided_scatter(%2, %0) {sizes=[2,3], strides=[4,1], offset=0}
        %4: f32[2,4] = concat(%0, %1) {dim=1}
        %5: f32[8] = reshape(%4) {sizes=[8]}
        %6: f32[8] = as_strided_scatter(%3, %1) {sizes=[2,1], strides=[4,1], offset=2}
        return %5, %6
    "#]],
    );
}

#[test]
fn slices_side_by_side_are_one_slice() {
    let lines = "\
%1: f32[2,1] = slice(%0) {starts=[1,0], sizes=[2,1], steps=[1,1]}
%2: f32[2,3] = slice(%0) {starts=[1,1], sizes=[2,3], steps=[1,1]}
%3: f32[2,4] = concat(%1, %2) {dim=1}
%4: f32[2,4] = concat(%2, %1) {dim=1}
%5: f32[1,4] = slice(%0) {starts=[0,0], sizes=[1,4], steps=[1,1]}
%6: f32[3,4] = concat(%5, %3) {dim=0}
return %3, %4, %6";
    check(
        movement,
        &program(&["f32[3,4]"], lines),
        expect![[r#"
        %0: f32[3,4] = input() {index=0, type=(f32[3,4])}
        %1: f32[2,1] = slice(%0) {starts=[1,0], sizes=[2,1], steps=[1,1]}
        %2: f32[2,3] = slice(%0) {starts=[1,1], sizes=[2,3], steps=[1,1]}
        %3: f32[2,4] = slice(%0) {starts=[1,0], sizes=[2,4], steps=[1,1]}
        %4: f32[2,4] = concat(%2, %1) {dim=1}
        return %3, %4, %0
    "#]],
    );
}
