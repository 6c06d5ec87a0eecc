//! `collective_matmul`.

use super::check;
use expect_test::expect;
use torchacc::op::collective::{Kind, attrs};
use torchacc::passes::collective_matmul;

/// Inputs of these types, after a token, a communicator and a rank of two; then `lines`, in which `@gather` and `@scatter` begin a
/// collective, with its operand behind a semicolon, as in `%4: f32[2,8], %5: i32[1] = @gather %3; %0`, the token being last.
fn program(types: &[&str], lines: &str) -> String {
    // Programs name the operators of collectives by their keys, which the first one registers.
    attrs(Kind::AllReduce, None, Vec::new());
    let mut text = String::from(
        "%0: i32[1] = input() {index=0, type=(i32[1])}\n\
         %1: i64[] = scalar() {slot=0, dtype=i64}\n\
         %2: i64[] = scalar() {slot=1, dtype=i64}\n",
    );
    for (n, ty) in types.iter().enumerate() {
        text += &format!("%{}: {ty} = input() {{index={}, type=({ty})}}\n", n + 3, n + 1);
    }
    for line in lines.lines() {
        let Some((results, call)) = line.split_once(" = @") else {
            text += &format!("{line}\n");
            continue;
        };
        let (name, operands) = call.split_once(' ').unwrap();
        let (x, token) = operands.split_once("; ").unwrap();
        let types: Vec<&str> =
            results.split(", %").map(|result| result.split_once(": ").unwrap().1).collect();
        text += &format!(
            "{results} = host({x}, %1, {token}, %2) {{op=\"torchacc::{name}\", types=({}), \
             args=<tensor, 0, scalar(int), tensor, scalar(int)>}}\n",
            types.join(", ")
        );
    }
    text
}

#[test]
fn rows_that_are_gathered_in_parts_are_multiplied_in_parts() {
    // Two sequences of one row on each of two ranks, as `DTensor` gathers them along their second dimension.
    let gathered = program(
        &["f32[2,1,256]", "f32[256,64]"],
        "%5: f32[2,256] = reshape(%3) {sizes=[2,256]}\n\
         %6: f32[1,256] = slice(%5) {starts=[0,0], sizes=[1,256], steps=[1,1]}\n\
         %7: f32[1,256] = slice(%5) {starts=[1,0], sizes=[1,256], steps=[1,1]}\n\
         %8: f32[2,256], %9: i32[1] = @all_gather %6; %0\n\
         %10: f32[2,256], %11: i32[1] = @all_gather %7; %9\n\
         %12: f32[2,512] = concat(%8, %10) {dim=1}\n\
         %13: f32[4,1,256] = reshape(%12) {sizes=[4,1,256]}\n\
         %14: f32[2,1,256] = slice(%13) {starts=[0,0,0], sizes=[2,1,256], steps=[1,1,1]}\n\
         %15: f32[2,1,256] = slice(%13) {starts=[2,0,0], sizes=[2,1,256], steps=[1,1,1]}\n\
         %16: f32[2,2,256] = concat(%14, %15) {dim=1}\n\
         %17: f32[4,256] = reshape(%16) {sizes=[4,256]}\n\
         %18: f32[4,64] = matmul(%17, %4)\n\
         return %18, %17",
    );
    check(
        collective_matmul,
        &gathered,
        expect![[r#"
        %0: i32[1] = input() {index=0, type=(i32[1])}
        %1: i64[] = scalar() {slot=0, dtype=i64}
        %2: i64[] = scalar() {slot=1, dtype=i64}
        %3: f32[2,1,256] = input() {index=1, type=(f32[2,1,256])}
        %4: f32[256,64] = input() {index=2, type=(f32[256,64])}
        %5: f32[2,256] = reshape(%3) {sizes=[2,256]}
        %6: f32[1,256] = slice(%5) {starts=[0,0], sizes=[1,256], steps=[1,1]}
        %7: f32[1,256] = slice(%5) {starts=[1,0], sizes=[1,256], steps=[1,1]}
        %8: f32[2,256], %9: i32[1] = host(%6, %1, %0, %2) {op="torchacc::all_gather", types=(f32[2,256], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
        %10: f32[2,256], %11: i32[1] = host(%7, %1, %9, %2) {op="torchacc::all_gather", types=(f32[2,256], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
        %12: f32[2,1,1,256] = reshape(%8) {sizes=[2,1,1,256]}
        %13: f32[1,2,1,256] = transpose(%12) {perm=[1,0,2,3]}
        %14: f32[2,256] = reshape(%13) {sizes=[2,256]}
        %15: f32[2,1,1,256] = reshape(%10) {sizes=[2,1,1,256]}
        %16: f32[1,2,1,256] = transpose(%15) {perm=[1,0,2,3]}
        %17: f32[2,256] = reshape(%16) {sizes=[2,256]}
        %18: f32[4,256] = concat(%14, %17) {dim=0}
        %19: f32[2,64] = matmul(%14, %4)
        %20: f32[2,64] = matmul(%17, %4)
        %21: f32[4,64] = concat(%19, %20) {dim=0}
        return %21, %18
    "#]],
    );
}

#[test]
fn rows_of_one_sequence_are_multiplied_in_parts_too() {
    let gathered = program(
        &["f32[1,256]", "f32[1,256]", "f32[256,64]"],
        "%6: f32[2,256], %7: i32[1] = @all_gather %3; %0\n\
         %8: f32[2,256], %9: i32[1] = @all_gather %4; %7\n\
         %10: f32[2,512] = concat(%6, %8) {dim=1}\n\
         %11: f32[4,256] = reshape(%10) {sizes=[4,256]}\n\
         %12: f32[4,64] = matmul(%11, %5)\n\
         return %12",
    );
    check(
        collective_matmul,
        &gathered,
        expect![[r#"
            %0: i32[1] = input() {index=0, type=(i32[1])}
            %1: i64[] = scalar() {slot=0, dtype=i64}
            %2: i64[] = scalar() {slot=1, dtype=i64}
            %3: f32[1,256] = input() {index=1, type=(f32[1,256])}
            %4: f32[1,256] = input() {index=2, type=(f32[1,256])}
            %5: f32[256,64] = input() {index=3, type=(f32[256,64])}
            %6: f32[2,256], %7: i32[1] = host(%3, %1, %0, %2) {op="torchacc::all_gather", types=(f32[2,256], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
            %8: f32[2,256], %9: i32[1] = host(%4, %1, %7, %2) {op="torchacc::all_gather", types=(f32[2,256], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
            %10: f32[2,1,256] = reshape(%6) {sizes=[2,1,256]}
            %11: f32[2,1,256] = reshape(%8) {sizes=[2,1,256]}
            %12: f32[2,256] = reshape(%10) {sizes=[2,256]}
            %13: f32[2,64] = matmul(%12, %5)
            %14: f32[2,1,64] = reshape(%13) {sizes=[2,1,64]}
            %15: f32[2,256] = reshape(%11) {sizes=[2,256]}
            %16: f32[2,64] = matmul(%15, %5)
            %17: f32[2,1,64] = reshape(%16) {sizes=[2,1,64]}
            %18: f32[2,2,64] = concat(%14, %17) {dim=1}
            %19: f32[4,64] = reshape(%18) {sizes=[4,64]}
            return %19
        "#]],
    );
}

#[test]
fn products_are_computed_in_the_parts_in_which_they_are_reduced() {
    // Two products of two sequences of two rows, whose sum goes to two ranks along the second dimension.
    let reduced = program(
        &["f32[4,32]", "f32[32,8]", "f32[4,16]", "f32[16,8]"],
        "%7: f32[4,8] = matmul(%3, %4)\n\
         %8: f32[4,8] = matmul(%5, %6)\n\
         %9: f32[4,8] = add(%7, %8)\n\
         %10: f32[2,2,8] = reshape(%9) {sizes=[2,2,8]}\n\
         %11: f32[2,1,8] = slice(%10) {starts=[0,0,0], sizes=[2,1,8], steps=[1,1,1]}\n\
         %12: f32[2,1,8] = slice(%10) {starts=[0,1,0], sizes=[2,1,8], steps=[1,1,1]}\n\
         %13: f32[4,1,8] = concat(%11, %12) {dim=0}\n\
         %14: f32[4,8] = reshape(%13) {sizes=[4,8]}\n\
         %15: f32[2,8] = slice(%14) {starts=[0,0], sizes=[2,8], steps=[2,1]}\n\
         %16: f32[1,8], %17: i32[1] = @reduce_scatter %15; %0\n\
         %18: f32[2,8] = slice(%14) {starts=[1,0], sizes=[2,8], steps=[2,1]}\n\
         %19: f32[1,8], %20: i32[1] = @reduce_scatter %18; %17\n\
         return %16, %19, %20",
    );
    check(
        collective_matmul,
        &reduced,
        expect![[r#"
        %0: i32[1] = input() {index=0, type=(i32[1])}
        %1: i64[] = scalar() {slot=0, dtype=i64}
        %2: i64[] = scalar() {slot=1, dtype=i64}
        %3: f32[4,32] = input() {index=1, type=(f32[4,32])}
        %4: f32[32,8] = input() {index=2, type=(f32[32,8])}
        %5: f32[4,16] = input() {index=3, type=(f32[4,16])}
        %6: f32[16,8] = input() {index=4, type=(f32[16,8])}
        %7: f32[2,32] = slice(%3) {starts=[0,0], sizes=[2,32], steps=[1,1]}
        %8: f32[2,8] = matmul(%7, %4)
        %9: f32[2,16] = slice(%5) {starts=[0,0], sizes=[2,16], steps=[1,1]}
        %10: f32[2,8] = matmul(%9, %6)
        %11: f32[2,8] = add(%8, %10)
        %12: f32[1,2,1,8] = reshape(%11) {sizes=[1,2,1,8]}
        %13: f32[2,1,1,8] = transpose(%12) {perm=[1,0,2,3]}
        %14: f32[2,1,8] = reshape(%13) {sizes=[2,1,8]}
        %15: f32[2,8] = reshape(%14) {sizes=[2,8]}
        %16: f32[1,8], %17: i32[1] = host(%15, %1, %0, %2) {op="torchacc::reduce_scatter", types=(f32[1,8], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
        %18: f32[2,32] = slice(%3) {starts=[2,0], sizes=[2,32], steps=[1,1]}
        %19: f32[2,8] = matmul(%18, %4)
        %20: f32[2,16] = slice(%5) {starts=[2,0], sizes=[2,16], steps=[1,1]}
        %21: f32[2,8] = matmul(%20, %6)
        %22: f32[2,8] = add(%19, %21)
        %23: f32[1,2,1,8] = reshape(%22) {sizes=[1,2,1,8]}
        %24: f32[2,1,1,8] = transpose(%23) {perm=[1,0,2,3]}
        %25: f32[2,1,8] = reshape(%24) {sizes=[2,1,8]}
        %26: f32[2,8] = reshape(%25) {sizes=[2,8]}
        %27: f32[1,8], %28: i32[1] = host(%26, %1, %17, %2) {op="torchacc::reduce_scatter", types=(f32[1,8], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
        return %16, %27, %28
    "#]],
    );
}

#[test]
fn a_product_that_others_read_stays_whole() {
    let lines = "%5: f32[4,8] = matmul(%3, %4)\n\
         %6: f32[32] = reshape(%5) {sizes=[32]}\n\
         %7: f32[16] = slice(%6) {starts=[0], sizes=[16], steps=[1]}\n\
         %8: f32[16], %9: i32[1] = @all_reduce %7; %0\n\
         %10: f32[16] = slice(%6) {starts=[16], sizes=[16], steps=[1]}\n\
         %11: f32[16], %12: i32[1] = @all_reduce %10; %9\n";
    let types = ["f32[4,32]", "f32[32,8]"];
    let alone = program(&types, &format!("{lines}return %8, %11, %12"));
    check(
        collective_matmul,
        &alone,
        expect![[r#"
        %0: i32[1] = input() {index=0, type=(i32[1])}
        %1: i64[] = scalar() {slot=0, dtype=i64}
        %2: i64[] = scalar() {slot=1, dtype=i64}
        %3: f32[4,32] = input() {index=1, type=(f32[4,32])}
        %4: f32[32,8] = input() {index=2, type=(f32[32,8])}
        %5: f32[2,32] = slice(%3) {starts=[0,0], sizes=[2,32], steps=[1,1]}
        %6: f32[2,8] = matmul(%5, %4)
        %7: f32[16] = reshape(%6) {sizes=[16]}
        %8: f32[16], %9: i32[1] = host(%7, %1, %0, %2) {op="torchacc::all_reduce", types=(f32[16], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
        %10: f32[2,32] = slice(%3) {starts=[2,0], sizes=[2,32], steps=[1,1]}
        %11: f32[2,8] = matmul(%10, %4)
        %12: f32[16] = reshape(%11) {sizes=[16]}
        %13: f32[16], %14: i32[1] = host(%12, %1, %9, %2) {op="torchacc::all_reduce", types=(f32[16], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
        return %8, %13, %14
    "#]],
    );
    let read = program(&types, &format!("{lines}return %8, %11, %12, %5"));
    check(
        collective_matmul,
        &read,
        expect![[r#"
        %0: i32[1] = input() {index=0, type=(i32[1])}
        %1: i64[] = scalar() {slot=0, dtype=i64}
        %2: i64[] = scalar() {slot=1, dtype=i64}
        %3: f32[4,32] = input() {index=1, type=(f32[4,32])}
        %4: f32[32,8] = input() {index=2, type=(f32[32,8])}
        %5: f32[4,8] = matmul(%3, %4)
        %6: f32[32] = reshape(%5) {sizes=[32]}
        %7: f32[16] = slice(%6) {starts=[0], sizes=[16], steps=[1]}
        %8: f32[16], %9: i32[1] = host(%7, %1, %0, %2) {op="torchacc::all_reduce", types=(f32[16], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
        %10: f32[16] = slice(%6) {starts=[16], sizes=[16], steps=[1]}
        %11: f32[16], %12: i32[1] = host(%10, %1, %9, %2) {op="torchacc::all_reduce", types=(f32[16], i32[1]), args=<tensor, 0, scalar(int), tensor, scalar(int)>}
        return %8, %11, %12, %5
    "#]],
    );
}
