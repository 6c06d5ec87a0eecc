//! What is printed is read as the same program; what is written elsewhere means what StableHLO says.

use torchacc::dtype::DType;
use torchacc::graph::generate::{Case, Limits, case};
use torchacc::graph::interpret::interpret;
use torchacc::op::Ty;
use torchacc::op::array::Array;
use torchacc::stablehlo::{parse, print};

const LIMITS: [Limits; 3] =
    [Limits { nodes: 6, size: 4 }, Limits { nodes: 20, size: 6 }, Limits { nodes: 60, size: 9 }];

fn same_bits(case: &Case) -> Result<(), String> {
    let Ok(expected) = interpret(&case.graph, &case.inputs, &case.scalars) else { return Ok(()) };
    let text = print(&case.graph.clone().into()).map_err(|e| e.message)?;
    let program = parse(&text).map_err(|e| format!("{e}\n{text}"))?;
    let inputs = [&case.inputs[..], &program.constants].concat();
    let got = interpret(&program.graph, &inputs, &case.scalars)
        .map_err(|e| format!("{e}\n{text}\n{}", program.graph))?;
    match got == expected {
        true => Ok(()),
        false => Err(format!("other bits\n{}\n{text}\n{}", case.graph, program.graph)),
    }
}

#[test]
fn random_graphs_come_back_bit_by_bit() {
    for seed in 0..600 {
        let case = case(seed, LIMITS[seed as usize % LIMITS.len()]).unwrap();
        if let Err(message) = same_bits(&case) {
            panic!("seed {seed}: {message}");
        }
    }
}

/// Whether other systems, which do not know our primitives, compute the same from what is said of them: with other names
/// their functions are inlined. How many there were.
fn functions_agree(case: &Case) -> Result<usize, String> {
    let Ok(expected) = interpret(&case.graph, &case.inputs, &case.scalars) else { return Ok(0) };
    let plain =
        |array: &Array| !array.ty.dtype.is_float() || array.to_f64s().iter().all(|x| x.is_finite());
    if !case.inputs.iter().chain(&expected).all(plain) {
        return Ok(0);
    }
    let text = print(&case.graph.clone().into()).map_err(|e| e.message)?;
    let foreign = text.replace("composite \"torchacc.", "composite \"foreign.");
    let program = parse(&foreign).map_err(|e| format!("{e}\n{foreign}"))?;
    let got = interpret(&program.graph, &case.inputs, &case.scalars)
        .map_err(|e| format!("{e}\n{foreign}"))?;
    for (n, (got, expected)) in got.iter().zip(&expected).enumerate() {
        let tolerance = match expected.ty.dtype {
            DType::F64 => 1e-9,
            DType::F32 => 1e-4,
            DType::BF16 => 5e-2,
            _ => 0.0,
        };
        let (x, y) = (got.to_f64s(), expected.to_f64s());
        let largest = y.iter().fold(1.0, |a: f64, y| a.max(y.abs()));
        let wrong = x.iter().zip(&y).position(|(x, y)| (x - y).abs() > tolerance * largest);
        if got.ty != expected.ty || wrong.is_some() {
            let i = wrong.unwrap_or(0);
            let numbers = format!("result {n}, element {i}: {:?}, not {:?}", x.get(i), y.get(i));
            return Err(format!("{numbers}\n{}\n{foreign}", case.graph));
        }
    }
    Ok(text.matches("stablehlo.composite").count())
}

#[test]
fn what_other_systems_do_not_know_is_said_in_functions() {
    let mut count = 0;
    for seed in 0..600 {
        let case = case(seed, LIMITS[seed as usize % 2]).unwrap();
        count += functions_agree(&case).unwrap_or_else(|message| panic!("seed {seed}: {message}"));
    }
    assert!(count > 300, "{count} composites");
}

/// The only result of `main(inputs)`.
pub fn run(text: &str, inputs: &[Array]) -> Vec<f64> {
    let program = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let inputs = [inputs, &program.constants[..]].concat();
    interpret(&program.graph, &inputs, &[]).unwrap()[0].to_f64s()
}

pub fn floats(sizes: &[i64], values: &[f64]) -> Array {
    Array::from_f64(DType::F32, sizes, values)
}

pub fn refused(text: &str, message: &str) {
    let error = parse(text).expect_err("nonsense was read");
    assert!(error.message.contains(message), "{:?} does not say {message:?}", error.message);
}

#[test]
fn both_forms_are_read() {
    let pretty = "func.func @main(%arg0: tensor<2x2xf32>) -> tensor<2x2xf32> {
        %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
        return %0 : tensor<2x2xf32> }";
    let generic = r#""builtin.module"() <{sym_name = "m"}> ({
        "func.func"() <{function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>, sym_name = "main"}> ({
        ^bb0(%arg0: tensor<2x2xf32> loc("x")):
          %0 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 1, 0>}> : (tensor<2x2xf32>) -> tensor<2x2xf32> loc(#loc1)
          "func.return"(%0) : (tensor<2x2xf32>) -> ()
        }) : () -> ()
      }) {mhlo.num_partitions = 1 : i32} : () -> ()
      #loc1 = loc("file.py":3:4)"#;
    let x = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    for text in [pretty, generic] {
        assert_eq!(run(text, std::slice::from_ref(&x)), [1.0, 3.0, 2.0, 4.0]);
    }
}

/// As PyTorch/XLA returns several results.
#[test]
fn tuples_are_their_elements() {
    let text = "module @IrToHlo.9 attributes {mhlo.is_dynamic = false} {
      func.func @main(%x: tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>, tensor<f32>> {
        %0 = call @two(%x) : (tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<f32>>
        %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<2xf32>, tensor<f32>>) -> tensor<f32>
        %2 = \"stablehlo.get_tuple_element\"(%0) {index = 0 : i32} : (tuple<tensor<2xf32>, tensor<f32>>) -> tensor<2xf32>
        %3 = stablehlo.add %2, %x : tensor<2xf32>
        %4 = stablehlo.tuple %3, %x, %1 {xla_shape = \"(f32[2]{0}, f32[2]{0}, f32[])\"} : tuple<tensor<2xf32>, tensor<2xf32>, tensor<f32>>
        return %4 : tuple<tensor<2xf32>, tensor<2xf32>, tensor<f32>>
      }
      func.func private @two(%x: tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<f32>> {
        %0 = stablehlo.constant dense<5.0> : tensor<f32>
        %1 = stablehlo.negate %x : tensor<2xf32>
        %2 = stablehlo.multiply %1, %x : tensor<2xf32>
        %3 = stablehlo.tuple %2, %0 : tuple<tensor<2xf32>, tensor<f32>>
        return %3 : tuple<tensor<2xf32>, tensor<f32>>
      }
    }";
    let program = parse(text).unwrap();
    let results = interpret(&program.graph, &[floats(&[2], &[2.0, 3.0])], &[]).unwrap();
    let numbers: Vec<Vec<f64>> = results.iter().map(Array::to_f64s).collect();
    assert_eq!(numbers, [vec![-2.0, -6.0], vec![2.0, 3.0], vec![5.0]]);

    let of = |lines: &str| {
        format!(
            "func.func @main(%x: tensor<f32>) -> tensor<f32> {{\n{lines}\nreturn %x : tensor<f32>\n}}"
        )
    };
    let two = "tuple<tensor<f32>, tensor<f32>>";
    refused(
        &of(&format!("%0 = stablehlo.tuple %x : {two}")),
        "line 2, column 6: a tuple of other elements",
    );
    let beyond = format!(
        "%0 = stablehlo.tuple %x, %x : {two}\n%1 = stablehlo.get_tuple_element %0[2] : ({two}) -> tensor<f32>"
    );
    refused(&of(&beyond), "line 3, column 6: there is no such element");
    refused(
        &of(&format!("%1 = stablehlo.get_tuple_element %x[0] : ({two}) -> tensor<f32>")),
        "no such element",
    );
    refused(
        &of("%0 = stablehlo.tuple %x : tuple<tuple<tensor<f32>>>"),
        "expected the type of an array",
    );
    let many = vec!["%x"; 4096].join(", ");
    let types = vec!["tensor<f32>"; 4096].join(", ");
    let takes = "call @main(%0) : () -> ()\n".repeat(300);
    refused(
        &of(&format!("%0 = stablehlo.tuple {many} : tuple<{types}>\n{takes}")),
        "elements of tuples are taken",
    );
}

/// Numbers of 64 bits, as XLA's CPU gives them for the state of `jax.random.key_data`-like words 1, 2, 3, 4.
#[test]
fn random_bits_are_those_of_openxla() {
    let bits = |algorithm: &str, ty: &str| {
        let text = format!(
            "func.func @main() -> tensor<3x{ty}> {{
            %s = stablehlo.constant dense<[8589934593, 17179869187]> : tensor<2xui64>
            %t, %b = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x{ty}>)
            return %b : tensor<3x{ty}> }}"
        );
        let program = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let results = interpret(&program.graph, &program.constants, &[]).unwrap();
        results[0]
            .bytes
            .chunks(8)
            .map(|eight| u64::from_le_bytes(eight.try_into().unwrap()))
            .collect::<Vec<u64>>()
    };
    let philox = [5574906407289874532, 3272025663544478142, 7043725020835825787];
    let threefry = [9662219624799024108, 10418227120389269672, 6433701140276733507];
    assert_eq!(bits("DEFAULT", "ui64"), philox);
    assert_eq!(bits("PHILOX", "i64"), philox);
    assert_eq!(bits("THREE_FRY", "ui64"), threefry);
    let of = |algorithm: &str, n: i64, ty: &str| {
        format!(
            "func.func @main(%s: tensor<{n}xui64>) -> tensor<3x{ty}> {{
            %t, %b = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : (tensor<{n}xui64>) -> (tensor<{n}xui64>, tensor<3x{ty}>)
            return %b : tensor<3x{ty}> }}"
        )
    };
    refused(
        &of("THREE_FRY", 3, "ui32"),
        "there are DEFAULT, PHILOX, and for a state of two THREE_FRY",
    );
    refused(&of("DEFAULT", 4, "ui32"), "the state is two or three numbers of ui64");
    refused(&of("DEFAULT", 2, "f32"), "random bits are integers, not f32");
    let huge = of("DEFAULT", 2, "ui8").replace("<3x", "<9223372036854775807x");
    refused(&huge, "random numbers are more than a memory holds");
}

#[test]
fn refusals_say_where_what_and_why() {
    let of = |line: &str| {
        format!(
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{\n  {line}\n  return %0 : tensor<2xf32>\n}}"
        )
    };
    let refuses = |line: &str, message: &str| refused(&of(line), message);
    refuses(
        "%0 = stablehlo.custom_call @cu_softmax(%x) : (tensor<2xf32>) -> tensor<2xf32>",
        "line 2, column 8: stablehlo.custom_call: the function `cu_softmax`",
    );
    refuses("%0 = stablehlo.add %x, %y : tensor<2xf32>", "line 2, column 26: %y is not defined");
    refuses("%0 = stablehlo.frobnicate %x : tensor<2xf32>", "column 8: stablehlo.frobnicate: this");
    refuses(
        "%0 = stablehlo.tanh %x : tensor<3xf32>",
        "column 8: stablehlo.tanh: the result is said to be tensor<3xf32>, but is tensor<2xf32>",
    );
    refuses("%0 = stablehlo.tanh %x : tensor<?xf32>", "sizes that are not known");
    refuses("%0 = stablehlo.constant dense<[1.0]> : tensor<2xf32>", "not as long as its type says");
    refuses("%0 = stablehlo.constant dense<\"0x00\"> : tensor<2xf32>", "1 bytes where 8");
    refuses(
        "%0 = stablehlo.while(%i = %x) : tensor<2xf32> cond { %c = stablehlo.constant dense<true> : tensor<i1> stablehlo.return %c : tensor<i1> } do { stablehlo.return %i : tensor<2xf32> }",
        "column 8: stablehlo.while: a loop that never ends",
    );
    refuses(
        "%i = stablehlo.constant dense<0> : tensor<1x1x1xi32> %u = stablehlo.constant dense<1.0> : tensor<1xf32>
        %0 = \"stablehlo.scatter\"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 3>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>): stablehlo.return %b : tensor<f32>
        }) : (tensor<2xf32>, tensor<1x1x1xi32>, tensor<1xf32>) -> tensor<2xf32>",
        "stablehlo.scatter: the updates' sizes are not those of the indices",
    );
    refused("func.func @main() { call @main() : () -> () return }", "calls within each other");
    refused(&"module {".repeat(10_000), "levels within each other");
    // Regions within each other in functions that call each other: the stack holds what is allowed.
    let function = |k: usize| {
        let call = match k {
            46 => "%r = stablehlo.add %x, %x : tensor<f32>".to_string(),
            _ => format!("%r = func.call @f{}(%x) : (tensor<f32>) -> tensor<f32>", k + 1),
        };
        let body = (0..40).fold(call, |body, _| {
            format!(
                "%r = \"stablehlo.if\"(%p) ({{ {body} stablehlo.return %r : tensor<f32> }}, {{ stablehlo.return %x : tensor<f32> }}) : (tensor<i1>) -> tensor<f32>"
            )
        });
        let kind = if k == 0 { "public" } else { "private" };
        format!(
            "func.func {kind} @f{k}(%x: tensor<f32>) -> tensor<f32> {{ %p = stablehlo.compare GT, %x, %x : (tensor<f32>, tensor<f32>) -> tensor<i1> {body} return %r : tensor<f32> }}"
        )
    };
    let functions: Vec<String> = (0..47).map(function).collect();
    let small = std::thread::Builder::new().stack_size(1 << 20);
    small
        .spawn(move || refused(&functions.join("\n"), "calls within each other, regions included"))
        .unwrap()
        .join()
        .unwrap();
    refused(&format!("func.func @main() {{ a.b x = {} }}", "[".repeat(10_000)), "levels within");
    refused("", "expected a function `@main`");
}

#[test]
fn unsigned_numbers_are_unsigned() {
    let check = |line: &str, ty: &str, a: i64, b: i64, expected: f64| {
        let text = format!(
            "func.func @main(%p: tensor<{ty}>, %q: tensor<{ty}>) -> tensor<f64> {{
            %0 = {line} : tensor<{ty}>
            %1 = stablehlo.convert %0 : (tensor<{ty}>) -> tensor<f64>
            return %1 : tensor<f64> }}"
        );
        let of = |n: i64| {
            let (signed, unsigned) = match ty {
                "ui64" => (DType::I64, DType::U64),
                _ => (DType::I32, DType::U32),
            };
            let mut array = Array::zeros(&Ty::new(signed, &[]));
            array.set_i64(0, n);
            array.ty.dtype = unsigned;
            array
        };
        assert_eq!(run(&text, &[of(a), of(b)]), [expected], "{line} of {ty}: {a}, {b}");
    };
    let (all32, all64) = (u32::MAX as f64, u64::MAX as f64);
    for (ty, all) in [("ui32", all32), ("ui64", all64)] {
        check("stablehlo.add %p, %q", ty, -1, 0, all);
        check("stablehlo.maximum %p, %q", ty, -1, 1, all);
        check("stablehlo.minimum %p, %q", ty, -1, 1, 1.0);
        check("stablehlo.divide %p, %q", ty, -1, -1, 1.0);
        check("stablehlo.divide %p, %q", ty, 7, -1, 0.0);
        check("stablehlo.divide %p, %q", ty, -1, 0, all);
        check("stablehlo.remainder %p, %q", ty, -1, 0, all);
        check("stablehlo.shift_right_logical %p, %q", ty, -1, 200, 0.0);
        check("stablehlo.shift_left %p, %q", ty, -1, 200, 0.0);
        check("stablehlo.popcnt %p", ty, 0x0f0f, 0, 8.0);
    }
    check("stablehlo.divide %p, %q", "ui64", -1, 10, (u64::MAX / 10) as f64);
    check("stablehlo.remainder %p, %q", "ui64", -1, 10, (u64::MAX % 10) as f64);
    check("stablehlo.divide %p, %q", "ui32", -1, 10, (u32::MAX / 10) as f64);
    check("stablehlo.shift_right_logical %p, %q", "ui64", -1, 63, 1.0);
    check("stablehlo.shift_right_logical %p, %q", "ui64", -1, 0, all64);
    check("stablehlo.shift_right_logical %p, %q", "ui32", -1, 4, (u32::MAX >> 4) as f64);
    check("stablehlo.shift_right_arithmetic %p, %q", "ui32", -16, 2, (u32::MAX - 3) as f64);
    check("stablehlo.shift_right_arithmetic %p, %q", "ui64", i64::MIN, 63, all64);
    check("stablehlo.shift_left %p, %q", "ui64", 1, 63, 2f64.powi(63));
    check("stablehlo.shift_left %p, %q", "ui32", 3, 31, 2f64.powi(31));
    check("stablehlo.count_leading_zeros %p", "ui32", 1, 0, 31.0);
    check("stablehlo.count_leading_zeros %p", "ui64", 0, 0, 64.0);
}
