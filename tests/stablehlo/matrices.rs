//! Linear algebra beyond the goldens: examples of the specification, each way to say a triangular system, what is refused.

use super::texts::{floats, refused, run};
use torchacc::dtype::DType;
use torchacc::op::array::Array;

const LOWER: [f64; 9] = [1.0, 0.0, 0.0, 2.0, 4.0, 0.0, 3.0, 5.0, 6.0];

fn transposed(m: &[f64]) -> Vec<f64> {
    (0..9).map(|i| m[i % 3 * 3 + i / 3]).collect()
}

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..9).map(|i| (0..3).map(|k| a[i / 3 * 3 + k] * b[k * 3 + i % 3]).sum()).collect()
}

fn assert_near(got: &[f64], wanted: &[f64]) {
    let is_near = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-5 * y.abs().max(1.0);
    assert!(got.len() == wanted.len() && got.iter().zip(wanted).all(is_near), "{got:?} {wanted:?}");
}

#[test]
fn factors_are_those_of_the_specification() {
    let of = |choice: &str| {
        format!(
            "func.func @main(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {{
            %0 = stablehlo.cholesky %a{choice} : tensor<3x3xf32>
            return %0 : tensor<3x3xf32> }}"
        )
    };
    let nan = f64::NAN;
    let a = floats(&[3, 3], &[1.0, nan, nan, 2.0, 20.0, nan, 3.0, 26.0, 70.0]);
    assert_near(&run(&of(", lower = true"), &[a]), &LOWER);
    let a = floats(&[3, 3], &[1.0, 2.0, 3.0, nan, 20.0, 26.0, nan, nan, 70.0]);
    assert_near(&run(&of(""), &[a]), &transposed(&LOWER));
    let generic = "func.func @main(%a: tensor<0x2x2xf16>) -> tensor<0x2x2xf16> {
        %0 = \"stablehlo.cholesky\"(%a) <{lower = true}> : (tensor<0x2x2xf16>) -> tensor<0x2x2xf16>
        return %0 : tensor<0x2x2xf16> }";
    assert!(run(generic, &[Array::from_f64(DType::F16, &[0, 2, 2], &[])]).is_empty());
}

/// `X` of `op(A) X = B` or `X op(A) = B`; the triangle that is not meant is NaN, as is the diagonal where it is 1.
#[test]
fn triangular_systems_are_solved_in_each_way() {
    let x = [1.0, -2.0, 3.0, 0.5, 1.0, 2.0, -1.0, 0.25, 4.0];
    for choice in 0..16 {
        let [left, lower, unit, turned] = [0, 1, 2, 3].map(|bit| choice >> bit & 1 == 1);
        let way = if turned { "TRANSPOSE" } else { "NO_TRANSPOSE" };
        let text = format!(
            "func.func @main(%a: tensor<3x3xf32>, %b: tensor<3x3xf32>) -> tensor<3x3xf32> {{
            %0 = \"stablehlo.triangular_solve\"(%a, %b) <{{left_side = {left}, lower = {lower},
                unit_diagonal = {unit}, transpose_a = #stablehlo<transpose {way}>}}>
                : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
            return %0 : tensor<3x3xf32> }}"
        );
        let stored = if lower { LOWER.to_vec() } else { transposed(&LOWER) };
        let is_diagonal = |i: usize| i.is_multiple_of(4);
        let with = |other: f64, diagonal: Option<f64>| -> Vec<f64> {
            let number = |i: usize| match diagonal {
                Some(one) if is_diagonal(i) => one,
                _ if (i / 3 >= i % 3) == lower || is_diagonal(i) => stored[i],
                _ => other,
            };
            (0..9).map(number).collect()
        };
        let meant = with(0.0, unit.then_some(1.0));
        let op = if turned { transposed(&meant) } else { meant };
        let b = if left { product(&op, &x) } else { product(&x, &op) };
        let a = floats(&[3, 3], &with(f64::NAN, unit.then_some(f64::NAN)));
        assert_near(&run(&text, &[a, floats(&[3, 3], &b)]), &x);
    }
}

/// What StableHLO has no operation for, as XLA writes it.
#[test]
fn calls_of_xla_are_operations() {
    let places = |largest: bool| {
        let text = format!(
            "func.func @main(%x: tensor<4xf32>) -> tensor<2xi32> {{
            %0:2 = stablehlo.custom_call @mhlo.topk(%x)
                {{mhlo.attributes = {{k = 2 : i64, largest = {largest}}}, mhlo.version = 1 : i64}}
                : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
            return %0#1 : tensor<2xi32> }}"
        );
        run(&text, &[floats(&[4], &[1.0, 7.0, -1.0, 3.0])])
    };
    assert_eq!(places(true), [1.0, 3.0]);
    assert_eq!(places(false), [2.0, 0.0]);
}

#[test]
fn refusals_say_why() {
    let of = |line: &str| {
        format!(
            "func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>, %n: tensor<3x3xi32>) -> tensor<2x3xf32> {{ {line} return %x : tensor<2x3xf32> }}"
        )
    };
    let refuses = |line: &str, message: &str| refused(&of(line), message);
    refuses(
        "%0 = stablehlo.cholesky %x : tensor<2x3xf32>",
        "stablehlo.cholesky: a matrix of 2 by 3 is not square",
    );
    refuses("%0 = stablehlo.cholesky %n : tensor<3x3xi32>", "matrices of i32 are not supported");
    let solve = |choices: &str| {
        format!(
            "%0 = \"stablehlo.triangular_solve\"(%y, %x) <{{left_side = true, lower = true{choices}}}> : (tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>"
        )
    };
    refuses(&solve(""), "`transpose_a` is missing");
    let choice = ", transpose_a = #stablehlo<transpose TRANSPOSE_INVALID>";
    refuses(&solve(choice), "`transpose_a` is NO_TRANSPOSE, TRANSPOSE or ADJOINT");
    let choice = ", transpose_a = #stablehlo<transpose NO_TRANSPOSE>";
    refuses(&solve(choice), "are no system of equations");
    refuses(
        "%0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%y) : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)",
        "`mhlo.backend_config` is missing",
    );
    refuses(
        "%0 = stablehlo.custom_call @lapack_sgesdd_ffi(%y) : (tensor<3x3xf32>) -> tensor<3x3xf32>",
        "`jax.export.export(f, platforms=[\"tpu\"])` writes the same without LAPACK",
    );
    refuses(
        "%0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%y) : (tensor<3x3xf32>) -> tensor<3x3xf32>",
        "calls a function of the Python program that wrote this module",
    );
    let huge = "func.func @main(%x: tensor<99999x99999xf32>) -> tensor<99999x99999xf32> {
        %0 = stablehlo.cholesky %x : tensor<99999x99999xf32> return %0 : tensor<99999x99999xf32> }";
    refused(huge, "16384 rows or columns are the most");
}
