//! The text form: what is printed is read back, and errors say where.

use torchacc::error::{Code, Error};
use torchacc::graph::text::parse;
use torchacc::op::host::{self, HostOp};

/// `text` is read and printed as it is.
fn check(text: &str) {
    let graph = parse(text).unwrap();
    assert_eq!(graph.to_string(), text);
    assert_eq!(parse(&graph.to_string()).unwrap(), graph);
}

fn check_error(text: &str, expected: &str) {
    let error = parse(text).expect_err("nonsense was read");
    assert_eq!(error.message, expected);
}

#[test]
fn graphs_come_back() {
    check("return\n");
    check(
        "\
%0: f32[2,3] = input() {index=0, type=(f32[2,3])}
%1: f32[3,2] = transpose(%0) {perm=[1,0]}
%2: f64[] = scalar() {slot=0, dtype=f64}
%3: f32[2,3], %4: f32[2], %5: f32[2] = layer_norm(%0) {eps=1e-5, weight=false, bias=false}
return %3, %1, %3
",
    );
}

#[test]
fn floats_come_back_bit_by_bit() {
    for value in
        ["-0.0", "0.0", "1e300", "0.1", "5e-324", "inf", "-inf", "nan", "nan(fff8000000000001)"]
    {
        check(&format!("%0: f64[] = const() {{value={value}, dtype=f64}}\nreturn %0\n"));
    }
    check("%0: i64[] = const_int() {value=-9223372036854775808, dtype=i64}\nreturn %0\n");
}

#[test]
fn cpu_fallbacks_come_back() {
    let function = Box::new(|_: &[_], _: &[_]| Err(Error::new(Code::Internal, "not called")));
    host::register(HostOp {
        name: "test".into(),
        key: "test \"text\"\\1".into(),
        function,
        shape: None,
        cuda: None,
        device_function: None,
    });
    check(
        r#"%0: f32[2] = input() {index=0, type=(f32[2])}
%1: f64[] = scalar() {slot=3, dtype=f64}
%2: f32[2], %3: i64[0] = host(%0, %1, %0) {op="test \"text\"\\1", types=(f32[2], i64[0]), args=<tensor, scalar(float), tensors(tensor, none), none, -7, 0.5, true, [1,2], [], floats(-0.0, nan), bools(true, false), bf16, "a \"b\", c">}
= host() {op="test \"text\"\\1", types=(), args=<>}
return %2
"#,
    );
}

#[test]
fn errors_say_where() {
    check_error("%0: f32[2] = inptu()", "line 1, column 14: no primitive is called `inptu`");
    check_error("\n  %1: f32[2] = neg(%0)", "line 2, column 20: %0 is not defined yet");
    check_error(
        "%0: f32[2] = input() {index=0, type=(f32[3])}",
        "line 1, column 1: %0 is declared f32[2], but is f32[3]",
    );
    check_error(
        "%1: f32[2] = input() {index=0, type=(f32[2])}",
        "line 1, column 1: %1 where %0 is next",
    );
    check_error(
        "%0: i64[] = const_int() {valu=1, dtype=i64}",
        "line 1, column 26: expected `value`",
    );
    check_error("%0: f16x[] = const()", "line 1, column 5: expected a dtype, not `f16x`");
    check_error(
        "%0: f32[] = const() {value=1.0, dtype=f32}",
        "line 1, column 43: expected a node or `return`",
    );
    check_error("return\nreturn", "line 2, column 1: expected `%`");
    check_error(
        "= host() {op=\"unheard of\", types=(), args=<>}",
        "line 1, column 14: no host operator has the key \"unheard of\"",
    );
}
