//! The ABI as others see it: the committed header is what the sources say, the library exports just that, and C and
//! C++ programs build against it and run.

mod abi;
#[path = "../tests/openxla/found.rs"]
mod found;
mod header;
mod install;
mod modules;
mod watched;

use header::generated as generated_header;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The shared library that Cargo built along with these tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let deps = test.parent().expect("a test lies in a folder");
    let places = [deps.join("libtorchacc.so"), deps.join("../libtorchacc.so")];
    let newest = places
        .into_iter()
        .filter(|p| p.exists())
        .max_by_key(|p| p.metadata().and_then(|m| m.modified()).expect("files have a time"));
    newest.expect("cargo builds the cdylib with the tests")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?} failed, {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Says even where tests pass what was not looked at.
fn skipped(why: &str) {
    writeln!(std::io::stderr(), "\nSKIPPED: {why}").ok();
}

/// A fresh folder for one test's files.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("the target folder is writable");
    dir
}

#[test]
fn the_committed_header_is_fresh() {
    let path = root().join("include/torchacc.h");
    let generated = generated_header();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &generated).expect("include/ is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "include/torchacc.h is stale: run `UPDATE=1 cargo test --test ffi`"
    );
}

/// Functions that a header declares: `torchacc_…(` at a place where no type is used.
fn functions(header: &str) -> BTreeSet<String> {
    let words = header.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '('));
    let declared = words.filter_map(|word| word.split_once('('));
    let names = declared.map(|(name, _)| name.to_string());
    names.filter(|name| name.starts_with("torchacc_") && !name.ends_with("_fn")).collect()
}

#[test]
fn the_library_exports_what_the_header_declares() {
    let listing = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let exported: BTreeSet<String> =
        listing.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_string).collect();
    assert_eq!(exported, functions(&generated_header()));
}

#[test]
fn the_soname_carries_the_abi_number() {
    let dynamic = run(Command::new("readelf").arg("-d").arg(library()));
    let soname = format!("[libtorchacc.so.{}]", torchacc::capi::TORCHACC_ABI);
    assert!(
        dynamic.lines().any(|line| line.contains("SONAME") && line.contains(&soname)),
        "{dynamic}"
    );
}

/// Whether a program is installed.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// For what clang says of them see `torch_extension/tests/test_headers.py`.
#[test]
fn the_headers_compile_alone() {
    let dir = scratch("header");
    for (compiler, extension, header, standard) in [
        ("cc", "c", "torchacc.h", "c11"),
        ("cc", "c", "torchacc.h", "c17"),
        ("c++", "cc", "torchacc.h", "c++17"),
        ("c++", "cc", "torchacc.h", "c++20"),
        ("c++", "cc", "torchacc.hpp", "c++17"),
        ("c++", "cc", "torchacc.hpp", "c++20"),
    ] {
        let include = format!("#include \"{header}\"\n");
        let twice = format!("{include}{include}int main(void) {{ return 0; }}\n");
        let source = dir.join(format!("{header}.{extension}"));
        std::fs::write(&source, twice).expect("the scratch folder is writable");
        run(Command::new(compiler)
            .arg(format!("-std={standard}"))
            .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"])
            .arg("-I")
            .arg(root().join("include"))
            .arg(source));
    }
}

#[test]
fn the_cpp_header_calls_every_function() {
    let path = root().join("include/torchacc.hpp");
    let text = std::fs::read_to_string(path).expect("the header is there");
    let code = text.lines().filter_map(|line| line.split("//").next());
    let words: BTreeSet<&str> =
        code.flat_map(|line| line.split(|c: char| !(c.is_alphanumeric() || c == '_'))).collect();
    let missing: Vec<String> =
        functions(&generated_header()).into_iter().filter(|f| !words.contains(&**f)).collect();
    assert!(missing.is_empty(), "include/torchacc.hpp lacks {missing:?}");
}

/// Builds a C or C++ program against a header and the library under its SONAME, in a folder of its own.
fn build(source: &str, folder: &str, include: &Path) -> PathBuf {
    let dir = scratch(folder);
    let soname = format!("libtorchacc.so.{}", torchacc::capi::TORCHACC_ABI);
    std::fs::copy(library(), dir.join(&soname)).expect("the scratch folder is writable");
    compile(source, &dir, include, &dir.join(&soname), &[])
}

/// Builds a program into the folder that the library lies in.
fn compile(source: &str, dir: &Path, include: &Path, library: &Path, flags: &[&str]) -> PathBuf {
    let name = Path::new(source).file_name().expect("a source has a name");
    let program = dir.join(name);
    let (compiler, standard, file) = match source {
        "cpp" | "ranks" => ("c++", "-std=c++17", format!("{source}.cpp")),
        _ => ("cc", "-std=c11", format!("{source}.c")),
    };
    run(Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-o"])
        .arg(&program)
        .arg(root().join("ffi_tests").join(file))
        .arg("-I")
        .arg(include)
        .args(flags)
        .arg(library)
        .args(["-Wl,-rpath,$ORIGIN", "-lm", "-ldl", "-pthread"]));
    program
}

/// What a program prints that is built against the header and run.
fn run_c_program(name: &str) -> String {
    run(&mut Command::new(build(name, name, &root().join("include"))))
}

#[test]
fn a_c_program_adds_and_multiplies() {
    assert_eq!(run_c_program("arithmetic").trim(), "ok");
}

#[test]
fn bad_calls_from_c_are_errors_and_leave_outputs_alone() {
    assert_eq!(run_c_program("bad_calls").trim(), "ok");
}

#[test]
fn handles_that_were_released_are_refused() {
    assert_eq!(run_c_program("stale").trim(), "ok");
}

#[test]
fn a_host_operator_from_c() {
    assert_eq!(run_c_program("host_operator").trim(), "ok");
}

#[test]
fn an_operator_as_cuda_source_from_c() {
    let program = build("own_kernel", "own_kernel", &root().join("include"));
    let folder = scratch("own_kernel").join("programs");
    std::fs::remove_dir_all(&folder).ok();
    // Compiled, then from disk.
    for _ in 0..2 {
        assert_eq!(run(Command::new(&program).arg(&folder)).trim(), "ok");
    }
}

#[test]
fn a_c_program_trains() {
    assert_eq!(run_c_program("gradients").trim(), "ok");
}

#[test]
fn the_c_language_model_learns() {
    let (source, include) = ("../examples/c/language_model", root().join("include"));
    let program = build(source, "language_model", &include);
    let text = root().join("ARCHITECTURE.md");
    let command = &mut Command::new(program);
    let printed = run(command.arg(text).args(["100", "32"]).env("TORCHACC_CACHE_DIR", "off"));
    let number = |line: &str| line.rsplit(' ').next().and_then(|word| word.parse::<f64>().ok());
    let losses: Vec<f64> =
        printed.lines().filter(|line| line.contains("loss")).filter_map(number).collect();
    let first = losses.first().expect("it prints losses");
    let last = losses.iter().rev().take(3).sum::<f64>() / 3.0;
    assert!(losses.len() > 3 && last < 0.65 * first, "{printed}");
}

/// Trains in processes of its own, connected by sockets.
fn train_ranks(folder: &str, arguments: &[&str]) -> Command {
    let program = build("../examples/c/train_ranks", folder, &root().join("include"));
    let mut command = Command::new(program);
    command.args(arguments).env("TORCHACC_CACHE_DIR", "off");
    command
}

/// The program itself compares the losses with those of one process, and the parameters of all ranks.
#[test]
fn the_c_ranks_train_as_one_process_does() {
    let printed = run(&mut train_ranks("train_ranks", &["3", "100"]));
    let counters = "95 steps: 0 compiles, 95 cache hits, 0 misses, 475 collectives";
    assert!(printed.contains(counters), "{printed}");
}

#[test]
fn the_c_ranks_say_that_one_was_killed() {
    let output = train_ranks("killed_rank", &["3", "100", "1"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("rank 1: signal 9"), "{said}");
    // Not that they have waited for it in vain.
    for survivor in ["rank 0", "rank 2"] {
        let is_told =
            |line: &str| line.starts_with(survivor) && line.ends_with("has closed its connection");
        assert!(said.lines().any(is_told), "{said}");
    }
}

#[test]
fn reports_warnings_and_strict_mode_from_c() {
    assert_eq!(run_c_program("report").trim(), "ok");
}

#[test]
fn a_timeline_and_the_time_of_programs_from_c() {
    assert_eq!(run_c_program("timeline").trim(), "ok");
}

#[test]
fn views_writes_and_random_numbers_from_c() {
    assert_eq!(run_c_program("views").trim(), "ok");
}

#[test]
fn memory_crosses_without_a_copy_and_values_by_callback() {
    assert_eq!(run_c_program("lent").trim(), "ok");
}

#[test]
fn memory_is_counted_and_given_back_from_c() {
    assert_eq!(run_c_program("memory").trim(), "ok");
}

/// The device of debug builds as well.
#[test]
fn memory_of_the_program_and_functions_on_a_device_from_c() {
    let program = build("device", "device", &root().join("include"));
    let device = cfg!(debug_assertions).then_some("emulated");
    assert_eq!(run(Command::new(program).args(["cpu", "reference"]).args(device)).trim(), "ok");
}

#[test]
fn cache_statistics_from_c() {
    let program = build("cache", "cache", &root().join("include"));
    let folder = scratch("cache").join("programs");
    std::fs::remove_dir_all(&folder).ok();
    assert_eq!(run(Command::new(program).arg(folder)).trim(), "ok");
}

#[test]
fn ranks_reduce_and_exchange_by_callbacks() {
    assert_eq!(run_c_program("collectives").trim(), "ok");
}

#[test]
fn ranks_send_and_receive_by_callbacks() {
    assert_eq!(run_c_program("transfers").trim(), "ok");
}

#[test]
fn gradients_by_way_of_ranks_are_those_of_one_process() {
    assert_eq!(run_c_program("ranks").trim(), "ok");
}

#[test]
fn files_and_programs_as_text_from_c() {
    assert_eq!(run_c_program("stored").trim(), "ok");
}

#[test]
fn programs_of_other_systems_from_c() {
    assert_eq!(run_c_program("stablehlo").trim(), "ok");
}

/// By the plugin of the tests, and by a real one where there is one.
#[test]
fn programs_on_openxla_from_c() {
    let fake = scratch("openxla").join("fake.so");
    let source = root().join("tests/openxla/fake.c");
    run(Command::new("cc").args(["-std=c11", "-shared", "-fPIC", "-o"]).arg(&fake).arg(source));
    let program = build("openxla", "openxla", &root().join("include"));
    for plugin in [fake].into_iter().chain(found::plugin()) {
        let command = &mut Command::new(&program);
        assert_eq!(run(command.arg(&plugin).env("TORCHACC_OPENXLA", &plugin)).trim(), "ok");
    }
}

#[test]
fn a_cpp_program_computes() {
    assert_eq!(run_c_program("cpp").trim(), "ok");
}

/// A minute of it; `TORCHACC_FUZZ_SECONDS=3600` for the long run, from `TORCHACC_FUZZ_SEED` on.
#[test]
fn random_calls_are_right_or_refused() {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or(default.into());
    let program = build("fuzz", "fuzz", &root().join("include"));
    let mut fuzz = Command::new(program);
    fuzz.arg(setting("TORCHACC_FUZZ_SECONDS", "60")).arg(setting("TORCHACC_FUZZ_SEED", "0"));
    let output = fuzz.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, seeds) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(said.trim(), "ok", "{seeds}");
    // The library prints nothing, not even when something is caught in it.
    assert!(seeds.lines().all(|line| line.parse::<u64>().is_ok()), "{seeds}");
}

/// As long, and with the same settings: every operator with wrong arguments.
#[test]
fn operators_refuse_what_they_cannot_take() {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or(default.into());
    let program = build("operators", "operators", &root().join("include"));
    let mut fuzz = Command::new(program);
    fuzz.arg(setting("TORCHACC_FUZZ_SECONDS", "60")).arg(setting("TORCHACC_FUZZ_SEED", "0"));
    assert_eq!(run(&mut fuzz).trim(), "ok");
}

#[test]
fn forked_processes_and_unloading_are_defined() {
    assert_eq!(run_c_program("processes").trim(), "ok");
}
