//! Linear algebra beyond the goldens: examples of the specification, each way to say a triangular system, what is refused.

use super::texts::{floats, refused, run};
use torchacc::dtype::DType;
use torchacc::graph::interpret::interpret;
use torchacc::op::array::Array;
use torchacc::stablehlo::parse;

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

/// A number in [-1, 1) for each place, the same everywhere.
fn number(i: usize, j: usize) -> f64 {
    ((i * i * 31 + j * 17 + i * j * 7 + 5) % 101) as f64 / 50.5 - 1.0
}

/// Results of a call of matrices `[m, n]` in f64.
fn call(target: &str, config: &str, types: &str, [m, n]: [usize; 2], a: &[f64]) -> Vec<Vec<f64>> {
    let count = types.matches("tensor").count();
    let text = format!(
        "func.func @main(%a: tensor<{m}x{n}xf64>) -> ({types}) {{
        %0:{count} = stablehlo.custom_call @{target}(%a) {{{config}}} : (tensor<{m}x{n}xf64>) -> ({types})
        return {} : {types} }}",
        (0..count).map(|k| format!("%0#{k}")).collect::<Vec<_>>().join(", ")
    );
    let program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let a = Array::from_f64(DType::F64, &[m as i64, n as i64], a);
    let inputs = [vec![a], program.constants].concat();
    let results = interpret(&program.graph, &inputs, &[]).unwrap();
    results.iter().map(|array| array.to_f64s()).collect()
}

/// Blocks of 32 rows, and what is beside them.
#[test]
fn factors_of_all_sizes_are_factors() {
    let near = |x: f64, y: f64| (x - y).abs() < 1e-11;
    for n in [1, 2, 31, 32, 33, 65] {
        let of = |i: usize, j: usize| {
            (0..n).map(|k| number(i, k) * number(j, k)).sum::<f64>() / n as f64
                + (i == j) as u8 as f64
        };
        let a: Vec<f64> = (0..n * n).map(|at| of(at / n, at % n)).collect();
        let square = format!("tensor<{n}x{n}xf64>");
        // The other triangle is not read.
        for (uplo, lower) in [(76, true), (85, false)] {
            let hidden = |at: usize| (at / n >= at % n) != lower && at / n != at % n;
            let half: Vec<f64> =
                (0..n * n).map(|at| if hidden(at) { f64::NAN } else { a[at] }).collect();
            let config = format!("mhlo.backend_config = {{uplo = {uplo} : ui8}}");
            let types = format!("{square}, tensor<i32>");
            let found = call("lapack_dpotrf_ffi", &config, &types, [n, n], &half);
            let l =
                |i: usize, k: usize| if lower { found[0][i * n + k] } else { found[0][k * n + i] };
            for (i, j) in (0..n * n).map(|at| (at / n, at % n)) {
                assert!(near((0..n).map(|k| l(i, k) * l(j, k)).sum(), of(i, j)), "{n} {i} {j}");
            }
            assert_eq!(found[1], [0.0]);
            let config = format!("backend_config = \"{},1,100,1e-6\"", lower as u8);
            let types = format!("{square}, tensor<{n}xf64>");
            let found = call("Eigh", &config, &types, [n, n], &half);
            let (v, w) = (&found[0], &found[1]);
            assert!(w.windows(2).all(|two| two[0] <= two[1]));
            for (i, k) in (0..n * n).map(|at| (at / n, at % n)) {
                let product = (0..n).map(|j| of(i, j) * v[j * n + k]).sum();
                assert!(near(product, w[k] * v[i * n + k]), "{n} {i} {k}");
            }
        }
        // What is negative in one place is no square from there on.
        let mut negative = a.clone();
        negative[n * n - 1] = -1.0;
        let config = "mhlo.backend_config = {uplo = 76 : ui8}";
        let types = format!("{square}, tensor<i32>");
        assert_eq!(call("lapack_dpotrf_ffi", config, &types, [n, n], &negative)[1], [n as f64]);
    }
    for [m, n] in [[70, 40], [40, 70], [3, 1], [33, 33]] {
        let a: Vec<f64> = (0..m * n).map(|at| number(at / n, at % n)).collect();
        let count = m.min(n);
        let matrix = format!("tensor<{m}x{n}xf64>");
        let types = format!("{matrix}, tensor<{count}xi32>, tensor<{m}xi32>");
        let found = call("LuDecomposition", "", &types, [m, n], &a);
        let lu = &found[0];
        let product = |lower: &dyn Fn(usize, usize) -> f64, i: usize, j: usize| -> f64 {
            (0..count.min(j + 1)).map(|k| lower(i, k) * lu[k * n + j]).sum()
        };
        let lower = |i: usize, k: usize| match i.cmp(&k) {
            std::cmp::Ordering::Greater => lu[i * n + k],
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Less => 0.0,
        };
        let mut order: Vec<usize> = (0..m).collect();
        found[1].iter().enumerate().for_each(|(k, &with)| order.swap(k, with as usize));
        assert!(order.iter().zip(&found[2]).all(|(&a, &b)| a as f64 == b));
        for (i, j) in (0..m * n).map(|at| (at / n, at % n)) {
            assert!(near(product(&lower, i, j), a[order[i] * n + j]), "{m} {n} {i} {j}");
        }
        let types = format!("{matrix}, tensor<{count}xi32>, tensor<i32>");
        let zeros = call("lapack_dgetrf_ffi", "", &types, [m, n], &vec![0.0; m * n]);
        assert_eq!(zeros[2], [1.0]);
    }
    let config = "mhlo.backend_config = {uplo = 76 : ui8}";
    let none = call("lapack_dpotrf_ffi", config, "tensor<0x0xf64>, tensor<i32>", [0, 0], &[]);
    assert_eq!(none, [vec![], vec![0.0]]);
}

/// All branches are computed; a loop that only ends where its branch is taken does not run elsewhere.
#[test]
fn loops_of_branches_that_are_not_taken_have_no_rounds() {
    let of = |choice: &str, ty: &str, take: &str| {
        let branch = "%one = stablehlo.constant dense<1.0> : tensor<f32>
            %r = stablehlo.while(%i = %x) : tensor<f32>
                cond { %c = stablehlo.compare GT, %i, %one : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %c : tensor<i1> }
                do { %n = stablehlo.multiply %i, %h : tensor<f32> stablehlo.return %n : tensor<f32> }
            stablehlo.return %r : tensor<f32>";
        format!(
            "func.func @main(%x: tensor<f32>, %h: tensor<f32>) -> tensor<f32> {{
            %half = stablehlo.constant dense<0.5> : tensor<f32>
            %p = stablehlo.compare LE, %h, %half : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %k = stablehlo.convert %p : (tensor<i1>) -> {ty}
            %0 = \"stablehlo.{choice}\"(%k) ({take}) : ({ty}) -> tensor<f32>
            return %0 : tensor<f32> }}"
        )
        .replace("BRANCH", branch)
    };
    let same = "{ stablehlo.return %x : tensor<f32> }";
    let texts = [
        of("if", "tensor<i1>", &format!("{{ BRANCH }}, {same}")),
        of("case", "tensor<i32>", &format!("{same}, {{ BRANCH }}")),
    ];
    for text in texts {
        assert_eq!(run(&text, &[floats(&[], &[5.0]), floats(&[], &[0.5])]), [0.625]);
        assert_eq!(run(&text, &[floats(&[], &[5.0]), floats(&[], &[2.0])]), [5.0]);
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
            "func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>, %n: tensor<3x3xi32>, %t: tensor<3xf32>) -> tensor<2x3xf32> {{ {line} return %x : tensor<2x3xf32> }}"
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
            "%0 = \"stablehlo.triangular_solve\"(%y, %x) <{{left_side = true, lower = true, unit_diagonal = false{choices}}}> : (tensor<3x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>"
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
        "%0 = stablehlo.custom_call @lapack_sormqr_ffi(%y, %t, %y) {mhlo.backend_config = {left = true}} : (tensor<3x3xf32>, tensor<3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>",
        "`transpose` is true or false",
    );
    refuses(
        "%0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%y) : (tensor<3x3xf32>) -> tensor<3x3xf32>",
        "calls a function of the Python program that wrote this module",
    );
    let sizes = |sizes: &str, call: &str| {
        refused(
            &format!(
                "func.func @main(%x: tensor<{sizes}>) -> tensor<{sizes}> {{ {call} return %x : tensor<{sizes}> }}"
            )
            .replace("SIZES", sizes),
            "",
        );
    };
    sizes("99999x99999xf32", "%0 = stablehlo.cholesky %x : tensor<SIZES>");
    let factor = "%0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {mhlo.backend_config = {uplo = 76 : ui8}} : (tensor<SIZES>) -> (tensor<SIZES>, tensor<i32>)";
    sizes("576460752303423488x2x2xf16", factor);
    let eigh = "%0:2 = stablehlo.custom_call @Eigh(%x) {backend_config = \"1,1,100,1e-6\"} : (tensor<SIZES>) -> (tensor<SIZES>, tensor<i32>)";
    sizes("576460752303423488x2x2xf16", eigh);
    sizes("1000000000000000000x1x1xf32", eigh);
    refuses(
        &eigh.replace("SIZES", "3x3xf32").replace("%x", "%y").replace("1,1,", "2,1,"),
        "begins with 0 or 1",
    );
    refuses(
        &factor.replace("SIZES", "3x3xf32").replace("%x", "%y").replace("76", "77"),
        "`uplo` is L or U",
    );
}
