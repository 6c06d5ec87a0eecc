//! Plugins of OpenXLA: what is said of those that are none or fail (`fake.c`), and what a real one computes.
#![expect(unsafe_code, reason = "asks the plugin of the tests what it has seen")]

mod found;
mod plans;

use std::path::{Path, PathBuf};
use std::process::Command;
use torchacc::dtype::DType;
use torchacc::error::{Code, Error};
use torchacc::graph::Graph;
use torchacc::graph::text::parse;
use torchacc::op::array::Array;
use torchacc::openxla::{Executable, client, facts};

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openxla");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn cc() -> Command {
    Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
}

/// The plugin of the tests, as `defines` say.
struct Fake(PathBuf);

impl Fake {
    fn new(name: &str, defines: &[&str]) -> Fake {
        let file = scratch(&format!("{name}.so"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openxla/fake.c");
        let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"];
        let status = cc().args(flags).arg(&file).args(defines).arg(source).status();
        assert!(status.unwrap().success());
        Fake(file)
    }

    fn executable(&self) -> Result<Executable, Error> {
        client(&self.0)?.compile(&negation().into())
    }

    fn negated(&self) -> Result<Vec<f64>, Error> {
        let results = self.executable()?.run(&[numbers()], &[])?;
        Ok(results[0].to_f64s())
    }

    /// What `-x` is told, and that nothing is left of it.
    fn failure(name: &str, defines: &[&str]) -> Error {
        let fake = Fake::new(name, defines);
        let error = fake.negated().unwrap_err();
        let file = fake.0.canonicalize().unwrap().display().to_string();
        assert!(error.message.contains(&file), "{error}");
        assert_eq!(fake.ask("live"), 0, "{error}");
        assert_eq!(fake.ask("misused"), 0, "{error}");
        error
    }

    fn ask(&self, what: &str) -> i32 {
        // SAFETY: it is loaded already, and this is the type of both functions in `fake.c`.
        unsafe {
            let library = libloading::Library::new(&self.0).unwrap();
            library.get::<unsafe extern "C" fn() -> i32>(what).unwrap()()
        }
    }
}

fn negation() -> Graph {
    parse("%0: f32[2,3] = input() {index=0, type=(f32[2,3])}\n%1: f32[2,3] = neg(%0)\nreturn %1")
        .unwrap()
}

fn numbers() -> Array {
    Array::from_f64(DType::F32, &[2, 3], &[1.0, -2.0, 3.0, 0.5, 0.0, 6.0])
}

#[test]
fn a_plugin_runs_and_nothing_is_left() {
    for (name, defines) in [("good", &[][..]), ("oldest", &["-DMINOR=57"])] {
        let fake = Fake::new(name, defines);
        let executable = fake.executable().unwrap();
        for _ in 0..3 {
            let results = executable.run(&[numbers()], &[]).unwrap();
            assert_eq!(results[0].to_f64s(), [-1.0, 2.0, -3.0, -0.5, 0.0, -6.0]);
        }
        // Of a client and an executable.
        assert_eq!(fake.ask("live"), 2);
        let first = client(&fake.0).unwrap();
        assert_eq!(first.platform(), "fake");
        assert!(std::ptr::eq(&*first, &*client(&fake.0).unwrap()), "one client for everybody");
        drop((executable, first));
        assert_eq!((fake.ask("live"), fake.ask("misused")), (0, 0));
        fake.negated().unwrap();
    }
}

#[test]
fn threads_share_an_executable() {
    let fake = Fake::new("threads", &[]);
    let executable = fake.executable().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| executable.run(&[numbers()], &[]).unwrap());
        }
    });
}

#[test]
fn what_is_no_plugin_is_said() {
    let error = |file: &Path| client(file).err().unwrap();
    let missing = error(Path::new("/nowhere/plugin.so"));
    assert_eq!(missing.code, Code::NotFound);
    assert!(missing.message.contains("/nowhere/plugin.so") && missing.message.contains("no such"));
    assert!(missing.message.contains("TORCHACC_OPENXLA"), "{missing}");
    assert_eq!(error(Path::new("/")).code, Code::NotFound);
    let text = scratch("text.so");
    std::fs::write(&text, "no library").unwrap();
    let unreadable = error(&text);
    assert_eq!(unreadable.code, Code::InvalidArgument);
    assert!(unreadable.message.contains("text.so"), "{unreadable}");
    let other = scratch("other.so");
    let source = scratch("other.c");
    std::fs::write(&source, "int nothing(void) { return 0; }\n").unwrap();
    let status = cc().args(["-shared", "-fPIC", "-o"]).args([&other, &source]).status();
    assert!(status.unwrap().success());
    let other = error(&other);
    assert_eq!(other.code, Code::InvalidArgument);
    assert!(other.message.contains("GetPjrtApi"), "{other}");
}

#[test]
fn another_api_is_said() {
    for (name, defines, words) in [
        ("old", &["-DMINOR=56"][..], "version 0.56 of the PJRT API; use one of 0.57 or newer"),
        ("next", &["-DMAJOR=1"], "version 1.81 of the PJRT API"),
        ("none", &["-DNO_TABLE"], "returned no table"),
        ("empty", &["-DTABLE=-1"], "has 32 bytes"),
        ("short", &["-DTABLE=70"], "ends before the function PJRT_Buffer_ToHostBuffer"),
        ("no_compile", &["-DMISSING=20"], "has no function PJRT_Client_Compile"),
        ("no_errors", &["-DMISSING=1"], "has no function PJRT_Error_Message"),
    ] {
        let error = Fake::failure(name, defines);
        assert_eq!(error.code, Code::AbiMismatch, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn failures_are_errors_and_leave_nothing() {
    for (function, doing) in [
        ("initialize", "initializing it"),
        ("client_create", "creating a client"),
        ("platform", "the platform's name"),
        ("devices", "its devices"),
        ("compile", "compiling a module"),
        ("get_executable", "looking at what it compiled"),
        ("outputs", "looking at what it compiled"),
        ("from_host", "handing it an input"),
        ("execute", "running a program"),
        ("element", "asking for a result's type"),
        ("dimensions", "asking for a result's type"),
        ("to_host", "reading a result"),
    ] {
        let error = Fake::failure(function, &[&format!("-DFAILS=\"{function}\"")]);
        assert_eq!(error.code, Code::OperatorError);
        assert!(error.message.ends_with(&format!("{doing}: made to fail")), "{error}");
    }
    for (code, ours) in [
        (3, Code::InvalidArgument),
        (5, Code::NotFound),
        (8, Code::OutOfMemory),
        (12, Code::Unsupported),
        (14, Code::OperatorError),
    ] {
        let defines = ["-DFAILS=\"execute\"".to_string(), format!("-DCODE={code}")];
        let error = Fake::failure(&format!("code{code}"), &defines.each_ref().map(|d| &d[..]));
        assert_eq!(error.code, ours, "{error}");
        let defines = ["-DLATE".to_string(), format!("-DCODE={code}")];
        let error = Fake::failure(&format!("late{code}"), &defines.each_ref().map(|d| &d[..]));
        assert_eq!(error.code, ours, "{error}");
        assert!(error.message.ends_with("running a program: it went wrong later"), "{error}");
    }
}

#[test]
fn what_a_plugin_says_wrongly_is_said() {
    for (name, define, words) in [
        ("two_results", "-DOUTPUTS=2", "its executable has 2 results, not 1"),
        ("doubles", "-DELEMENT=12", "a result is not f32[2,3], as the module says"),
        ("no_devices", "-DDEVICES=0", "no device that this process can use"),
    ] {
        let error = Fake::failure(name, &[define]);
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn wrong_inputs_are_refused() {
    let fake = Fake::new("inputs", &[]);
    let executable = fake.executable().unwrap();
    let error = executable.run(&[], &[]).unwrap_err();
    assert!(error.message.contains("input 0 of 0 is missing"), "{error}");
    let doubles = Array::from_f64(DType::F64, &[2, 3], &[0.0; 6]);
    let error = executable.run(&[doubles], &[]).unwrap_err();
    assert!(error.message.contains("input 0 is declared as f32[2,3], but is f64[2,3]"), "{error}");
}

/// Every place, size and number that is assumed of the header is what the compiler makes of it.
#[test]
fn the_table_is_that_of_the_header() {
    let include = found::folder().join("include");
    if !include.join("pjrt_c_api.h").is_file() {
        eprintln!("SKIPPED: no pjrt_c_api.h in {}: `make openxla-plugin`", include.display());
        return;
    }
    let asserted = |(expression, value): &(String, usize)| {
        format!("_Static_assert({expression} == {value}, \"\");\n")
    };
    let asserts: String = facts().iter().map(asserted).collect();
    assert!(asserts.len() > 5000, "{asserts}");
    let source = scratch("facts.c");
    let text = format!("#include <stddef.h>\n#include \"pjrt_c_api.h\"\n{asserts}");
    std::fs::write(&source, text).unwrap();
    let output = cc().args(["-std=c11", "-fsyntax-only", "-I"]).args([&include, &source]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn run(text: &str, inputs: &[Array], scalars: &[u64]) -> Option<Result<Vec<Array>, Error>> {
    let plugin = found::plugin()?;
    let executable = client(&plugin).unwrap().compile(&parse(text).unwrap().into());
    Some(executable.and_then(|executable| executable.run(inputs, scalars)))
}

#[test]
fn scalars_and_inputs_out_of_order_reach_a_real_plugin() {
    let text = "%0: f32[2,3] = input() {index=2, type=(f32[2,3])}\n\
        %1: f64[] = scalar() {slot=1, dtype=f64}\n%2: f32[] = cast(%1) {dtype=f32}\n\
        %3: f32[2,3] = broadcast(%2) {sizes=[2,3]}\n%4: f32[2,3] = mul(%0, %3)\nreturn %4, %0";
    let unused = Array::from_f64(DType::I64, &[0], &[]);
    let inputs = [unused.clone(), unused, numbers()];
    let Some(results) = run(text, &inputs, &[0, 2f64.to_bits()]) else { return };
    let results = results.unwrap();
    assert_eq!(results[0].to_f64s(), [2.0, -4.0, 6.0, 1.0, 0.0, 12.0]);
    assert_eq!(results[1], numbers());
}

#[test]
fn the_greatest_number_beside_nan_is_nan() {
    let text = "%0: f32[2,3] = input() {index=0, type=(f32[2,3])}\n\
        %1: f32[2] = reduce_max(%0) {axes=[1]}\nreturn %1";
    let nan = f64::NAN;
    let x = Array::from_f64(DType::F32, &[2, 3], &[nan, 1.0, 2.0, 1.0, nan, 0.0]);
    let Some(results) = run(text, &[x], &[]) else { return };
    assert!(results.unwrap()[0].to_f64s().iter().all(|x| x.is_nan()));
}

#[test]
fn what_primitives_refuse_is_refused_on_a_real_plugin() {
    let take = "%0: f32[2,3] = input() {index=0, type=(f32[2,3])}\n\
        %1: i64[2] = input() {index=1, type=(i64[2])}\n%2: f32[2,2] = take(%0, %1) {axis=1}\nreturn %2";
    let index = |last: f64| Array::from_f64(DType::I64, &[2], &[0.0, last]);
    let Some(taken) = run(take, &[numbers(), index(2.0)], &[]) else { return };
    assert_eq!(taken.unwrap()[0].to_f64s(), [1.0, 3.0, 0.5, 6.0]);
    for wrong in [3.0, -1.0] {
        let error = run(take, &[numbers(), index(wrong)], &[]).unwrap().unwrap_err();
        assert_eq!(error.code, Code::IndexError);
        let words = format!("index {wrong} is out of bounds for dimension 1 with size 3");
        assert!(error.message.contains(&words), "{error}");
    }
    let divide = "%0: i32[2] = input() {index=0, type=(i32[2])}\n\
        %1: i32[2] = input() {index=1, type=(i32[2])}\n%2: i32[2] = div(%0, %1)\nreturn %2";
    let pair = |a: f64, b: f64| Array::from_f64(DType::I32, &[2], &[a, b]);
    let divided = run(divide, &[pair(7.0, -7.0), pair(2.0, 2.0)], &[]).unwrap().unwrap();
    assert_eq!(divided[0].to_f64s(), [3.0, -3.0]);
    let error = run(divide, &[pair(7.0, 7.0), pair(1.0, 0.0)], &[]).unwrap().unwrap_err();
    assert!(error.message.contains("div: ZeroDivisionError"), "{error}");
}

/// Elements of an array from one on, as long as a number is less than another, are added up.
#[test]
fn what_rounds_of_a_loop_refuse_is_refused_on_a_real_plugin() {
    let text = "%0: i64[] = input() {index=0, type=(i64[])}\n\
        %1: i64[] = input() {index=1, type=(i64[])}\n%2: f32[3] = input() {index=2, type=(f32[3])}\n\
        %3: f32[] = const() {value=0.0, dtype=f32}\n\
        %4: i64[], %5: f32[] = while(%0, %3, %1, %2) {condition=(i64[], f32[], i64[], f32[3]) {\n\
            %4: bool[] = lt(%0, %2)\nreturn %4}, round=(i64[], f32[], i64[], f32[3]) {\n\
            %4: f32[] = take(%3, %0) {axis=0}\n%5: f32[] = add(%1, %4)\n\
            %6: i64[] = const_int() {value=1, dtype=i64}\n%7: i64[] = add(%0, %6)\n\
            return %7, %5}}\nreturn %4, %5";
    let int = |n: f64| Array::from_f64(DType::I64, &[], &[n]);
    let inputs =
        |first, last| [int(first), int(last), Array::from_f64(DType::F32, &[3], &[1.0, 2.0, 4.0])];
    let Some(added) = run(text, &inputs(1.0, 3.0), &[]) else { return };
    let added = added.unwrap();
    assert_eq!((added[0].i64(0), added[1].f64(0)), (3, 6.0));
    assert_eq!(run(text, &inputs(5.0, 5.0), &[]).unwrap().unwrap()[1].f64(0), 0.0);
    // The loop ends with the first of them.
    for (first, last, wrong) in [(2.0, 1e18, 3), (-2.0, 3.0, -2)] {
        let error = run(text, &inputs(first, last), &[]).unwrap().unwrap_err();
        assert_eq!(error.code, Code::IndexError);
        let words = format!("index {wrong} is out of bounds for dimension 0 with size 3");
        assert!(error.message.contains(&words), "{error}");
    }
}

#[test]
fn what_has_no_words_is_refused_by_name() {
    // A window of more elements than are written out one by one.
    let text = "%0: f32[1,1,300,1] = input() {index=0, type=(f32[1,1,300,1])}\n\
        %1: f32[1,1,1,1], %2: i64[1,1,1,1] = max_pool(%0) {kernel=[300,1], stride=[1,1], padding=[0,0], dilation=[1,1], ceil=false}\n\
        return %1";
    let Some(refused) = run(text, &[], &[]) else { return };
    let error = refused.unwrap_err();
    assert_eq!(error.code, Code::Unsupported);
    assert!(error.message.contains("no words for max_pool"), "{error}");
}
