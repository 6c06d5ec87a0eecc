//! The C tests again, watched: by valgrind, by the sanitizers of the C compiler, with many threads, and without memory.
//!
//! The library itself is instrumented by `make sanitize` only, which builds it once more, with an unstable flag of the
//! compiler. But its allocations and copies go through the C library's functions, which the address sanitizer watches here.
//! The thread sanitizer is of use only with an instrumented standard library, which `make sanitize` builds where its source is
//! installed: without it, as valgrind's tools for threads, it sees no lock and calls everything a race (helgrind's sister drd: 1155
//! places in two rounds of `threads.c`). So elsewhere many threads are held to their values, and to valgrind's memory checks.

use super::{compile, library, root, run, scratch, skipped};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs with an argument: rounds of all threads, seconds of the fuzzes, which make hundreds of calls at least, a folder for
/// compiled programs.
///
/// What lives behind a handle that nobody releases is not lost for these tools, because the library knows all cells: the fuzz
/// counts buffers and ended contexts.
const PROGRAMS: [(&str, Option<&str>); 17] = [
    ("arithmetic", None),
    ("bad_calls", None),
    ("stale", None),
    ("host_operator", None),
    ("views", None),
    ("lent", None),
    ("collectives", None),
    ("stablehlo", None),
    ("stored", None),
    ("report", None),
    ("timeline", None),
    ("gradients", None),
    ("cpp", None),
    ("cache", Some("programs_of_cache")),
    ("threads", Some("20")),
    ("fuzz", Some("0")),
    ("operators", Some("0")),
];

/// Not for valgrind: hundreds of steps, and a dynamic linker that leaks where many libraries are loaded.
const MORE: [(&str, Option<&str>); 2] =
    [("ranks", None), ("own_kernel", Some("programs_of_own_kernel"))];

/// A fresh folder with the library under its SONAME, without the debug information that tools would read again and again.
fn stage(name: &str, library: &Path) -> (PathBuf, PathBuf) {
    std::fs::remove_dir_all(scratch(name)).expect("the scratch folder is writable");
    let dir = scratch(name);
    let copy = dir.join(format!("libtorchacc.so.{}", torchacc::capi::TORCHACC_ABI));
    run(Command::new("objcopy").arg("--strip-debug").arg(library).arg(&copy));
    (dir, copy)
}

/// Runs a program that must say nothing but "ok", or the fuzz's seeds.
fn run_silently(command: &mut Command, dir: &Path) {
    let command = command.current_dir(dir).env("TORCHACC_CACHE_DIR", "off");
    assert_eq!(run(command).trim(), "ok", "{command:?}");
}

#[test]
fn valgrind_finds_nothing() {
    if !super::has("valgrind") {
        return skipped("valgrind is not installed: no test runs under it");
    }
    let (dir, library) = stage("valgrind", &library());
    PROGRAMS.into_par_iter().with_max_len(1).for_each(|(name, argument)| {
        let program = compile(name, &dir, &root().join("include"), &library, &["-g"]);
        // Hash tables are found by pointers into their middle: "possibly lost" is said of all of them.
        run_silently(
            Command::new("valgrind")
                // It takes fifty times as long.
                .env("TORCHACC_WATCHDOG", "600,abort")
                .args(["-q", "--error-exitcode=9", "--leak-check=full"])
                .args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"])
                .arg(program)
                .args(argument),
            &dir,
        );
    });
}

/// Whether the C compiler links programs with these flags.
fn links(dir: &Path, flags: &[&str]) -> bool {
    let source = dir.join("nothing.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("the folder is writable");
    let made =
        Command::new("cc").args(flags).arg(source).arg("-o").arg(dir.join("nothing")).output();
    made.is_ok_and(|output| output.status.success())
}

#[test]
fn the_address_sanitizer_finds_nothing() {
    // `make sanitize` names its own.
    let instrumented = std::env::var_os("TORCHACC_INSTRUMENTED").map(PathBuf::from);
    let (dir, library) = stage("asan", &instrumented.unwrap_or_else(library));
    let flags = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    if !links(&dir, &flags) {
        return skipped("the C compiler has no address sanitizer: no test runs with it");
    }
    PROGRAMS.into_par_iter().chain(MORE).with_max_len(1).for_each(|(name, argument)| {
        let program = compile(name, &dir, &root().join("include"), &library, &flags);
        run_silently(Command::new(program).args(argument), &dir);
    });
}

/// `TORCHACC_RACES` names the instrumented library and the sanitizer's runtime, which the C compiler's own is too old for; the C
/// programs are not instrumented themselves.
#[test]
#[ignore = "needs an instrumented library: make sanitize"]
fn the_thread_sanitizer_finds_nothing() {
    let given = std::env::var("TORCHACC_RACES").expect("make sanitize sets it");
    let (instrumented, runtime) = given.split_once(':').expect("a library and a runtime");
    let (dir, library) = stage("tsan", Path::new(instrumented));
    let archive = format!("-Wl,--whole-archive,{runtime},--no-whole-archive,--export-dynamic");
    let flags = ["-g", &archive, "-lstdc++", "-lrt"];
    let program = |name: &str| compile(name, &dir, &root().join("include"), &library, &flags);
    let programs =
        [("threads", Some("300")), ("collectives", None), ("ranks", None), ("lent", None)];
    for (name, argument) in programs {
        run_silently(Command::new(program(name)).args(argument), &dir);
    }
    let found = Command::new(program("race")).current_dir(&dir).output().expect("it starts");
    let said = String::from_utf8_lossy(&found.stderr);
    assert!(!found.status.success() && said.contains("data race"), "{said}");
}

#[test]
fn many_threads_share_a_context() {
    let (dir, library) = stage("threads", &library());
    let program = compile("threads", &dir, &root().join("include"), &library, &[]);
    run_silently(Command::new(program).arg("1000"), &dir);
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn memory_that_is_refused_is_an_error_and_loses_nothing() {
    let (dir, library) = stage("out_of_memory", &library());
    let program = compile("out_of_memory", &dir, &root().join("include"), &library, &[]);
    run_silently(Command::new(program).arg(dir.join("x.safetensors")), &dir);
}
