//! Programs as other systems print them (`goldens*.py`) give the numbers that those computed.

#[path = "../openxla/found.rs"]
mod found;
mod matrices;
mod mutations;
mod texts;

use std::fs;
use std::path::{Path, PathBuf};
use torchacc::dtype::DType;
use torchacc::graph::interpret::interpret;
use torchacc::op::Ty;
use torchacc::op::array::Array;
use torchacc::openxla;
use torchacc::passes::decompose;
use torchacc::stablehlo::{Module, parse, print};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stablehlo/goldens")
}

/// `in f32 2x3 00000000…`
fn array(line: &str) -> (&str, Array) {
    let [kind, element, sizes, rest @ ..] = &line.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{line}");
    };
    let hex = rest.first().copied().unwrap_or("");
    let dtype = match *element {
        "i1" => DType::Bool,
        "ui16" => DType::U16,
        "ui32" => DType::U32,
        "ui64" => DType::U64,
        "ui8" => DType::U8,
        name => DType::from_name(name).unwrap_or_else(|| panic!("{name}")),
    };
    let sizes: Vec<i64> = match *sizes {
        "-" => Vec::new(),
        sizes => sizes.split('x').map(|size| size.parse().unwrap()).collect(),
    };
    let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
    let bytes = (0..hex.len() / 2).map(byte).collect();
    (*kind, Array { ty: Ty::new(dtype, &sizes), bytes })
}

/// Element `i` is near enough; of integers and bools, equal.
fn is_near(got: &Array, wanted: &Array, i: usize) -> bool {
    if got.raw(i) == wanted.raw(i) {
        return true;
    }
    if got.ty.dtype == DType::C64 {
        let parts = |array: &Array| -> Vec<f32> {
            array
                .raw(i)
                .chunks(4)
                .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
                .collect()
        };
        let near = |(x, y): (&f32, &f32)| (x - y).abs() <= 1e-5 * y.abs().max(1.0);
        return parts(got).iter().zip(&parts(wanted)).all(near);
    }
    let tolerance = match got.ty.dtype {
        DType::BF16 => 1e-2,
        DType::F32 => 1e-5,
        _ => return false,
    };
    let (x, y) = (got.f64(i), wanted.f64(i));
    x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= tolerance * y.abs().max(1.0)
}

/// The results of a program for all its inputs.
type Run<'r> = &'r dyn Fn(&Module, &[Array]) -> torchacc::error::Result<Vec<Array>>;

fn interpreted(program: &Module, inputs: &[Array]) -> torchacc::error::Result<Vec<Array>> {
    interpret(&program.graph, &[inputs, &program.constants[..]].concat(), &[])
}

/// With `again`, once more as this library prints it.
fn check(name: &str, again: bool, run: Run) -> Result<(), String> {
    let read =
        |ending: &str| fs::read_to_string(folder().join(format!("{name}.{ending}"))).unwrap();
    let program = parse(&read("mlir")).map_err(|e| e.message)?;
    let text = read("txt");
    let arrays: Vec<(&str, Array)> = text.lines().map(array).collect();
    let of =
        |wanted: &'static str| arrays.iter().filter(move |a| a.0 == wanted).map(|a| a.1.clone());
    let outputs: Vec<Array> = of("out").collect();
    assert!(!outputs.is_empty());
    let printed = match again {
        true => Some(parse(&print(&program).map_err(|e| e.message)?).map_err(|e| e.message)?),
        false => None,
    };
    for program in [&program].into_iter().chain(&printed) {
        let got = run(program, &of("in").collect::<Vec<_>>()).map_err(|e| e.message)?;
        if got.len() != outputs.len() {
            return Err(format!("{} results, not {}", got.len(), outputs.len()));
        }
        for (n, (got, wanted)) in got.iter().zip(&outputs).enumerate() {
            if got.ty != wanted.ty {
                return Err(format!("result {n} is {}, not {}", got.ty, wanted.ty));
            }
            let wrong: Vec<usize> = (0..got.len()).filter(|&i| !is_near(got, wanted, i)).collect();
            if let Some(&i) = wrong.first() {
                let numbers = match got.ty.dtype {
                    DType::U32 => format!("{:?}, not {:?}", got.raw(i), wanted.raw(i)),
                    _ => format!("{}, not {}", got.f64(i), wanted.f64(i)),
                };
                return Err(format!(
                    "result {n}, element {i} is {numbers} ({} of {} differ)",
                    wrong.len(),
                    got.len()
                ));
            }
        }
    }
    Ok(())
}

/// What is wrong with the programs, by their names.
fn check_all(again: bool, run: Run) -> Vec<(String, String)> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let modules = files.filter(|path| path.extension().is_some_and(|e| e == "mlir"));
    let mut names: Vec<String> =
        modules.map(|path| path.file_stem().unwrap().to_str().unwrap().to_string()).collect();
    names.sort();
    assert!(names.len() >= 20, "{names:?}");
    let wrong = |name: String| check(&name, again, run).err().map(|message| (name, message));
    names.into_iter().filter_map(wrong).collect()
}

#[test]
fn programs_of_others_give_their_numbers() {
    assert_eq!(check_all(true, &interpreted), []);
}

/// As this library prints them: read, and written for OpenXLA.
#[test]
fn programs_of_others_give_their_numbers_on_openxla() {
    let Some(plugin) = found::plugin() else { return };
    let client = openxla::client(&plugin).unwrap();
    let wrong = check_all(false, &|program, inputs| {
        let graph = decompose(&program.graph, &|_| false)?.into_owned();
        client.compile(&Module { graph, ..program.clone() })?.run(inputs, &[])
    });
    assert_eq!(wrong, []);
}
