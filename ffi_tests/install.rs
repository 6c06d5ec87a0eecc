//! The installed tree: programs outside of the repository find it by pkg-config and by CMake, wherever it is moved.

use super::{library, root, run, scratch, skipped};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the tree is said to go; it is put elsewhere.
const PREFIX: &str = "/opt/torchacc";

/// Installs into a fresh folder in the place of `/`, and moves the whole: that folder. `libdir` as given to `make install`.
fn staged(name: &str, libdir: &str) -> PathBuf {
    let dir = scratch(name);
    let (first, moved) = (dir.join("first"), dir.join("moved"));
    for old in [&first, &moved] {
        if old.exists() {
            std::fs::remove_dir_all(old).expect("the scratch folder is writable");
        }
    }
    run(Command::new(root().join("packaging/install.sh"))
        .args([Path::new(PREFIX), &library()])
        .env("DESTDIR", &first)
        .env("LIBDIR", libdir));
    std::fs::rename(first, &moved).expect("the scratch folder is writable");
    moved
}

/// What is installed without further settings.
fn installed(name: &str) -> PathBuf {
    staged(name, "").join(&PREFIX[1..])
}

#[test]
fn the_installed_tree_is_whole_and_names_no_place() {
    let prefix = installed("install_tree");
    let abi = torchacc::capi::TORCHACC_ABI;
    let files = [
        "include/torchacc.h",
        "include/torchacc.hpp",
        "lib/libtorchacc.so",
        &format!("lib/libtorchacc.so.{abi}"),
        "lib/pkgconfig/torchacc.pc",
        "lib/cmake/torchacc/torchacc-config.cmake",
        "lib/cmake/torchacc/torchacc-config-version.cmake",
    ];
    for file in files {
        let path = prefix.join(file);
        assert!(path.exists(), "{file} is missing");
        if path.extension().is_some_and(|e| e != "so") && !file.contains(".so.") {
            let text = std::fs::read_to_string(&path).expect("a text file");
            assert!(!text.contains('@'), "{file} was not filled in");
            let place = root().to_str().expect("the repository's path is UTF-8");
            assert!(!text.contains(place), "{file} names the place it was built in");
            assert!(!text.contains(PREFIX), "{file} names the place it was to go to");
        }
    }
    let dynamic = run(Command::new("readelf").arg("-d").arg(prefix.join("lib/libtorchacc.so")));
    assert!(!dynamic.contains("RPATH") && !dynamic.contains("RUNPATH"), "{dynamic}");
}

/// Builds a program by what pkg-config says of the library in `lib`, and what it prints when it is run without further settings.
fn run_by_pkg_config(lib: &Path, source: &Path) -> String {
    let flags = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "torchacc"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
    let program = lib.join("program");
    run(Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags.split_whitespace())
        .arg("-lm"));
    run(Command::new(program).env_remove("LD_LIBRARY_PATH"))
}

fn build_by_pkg_config(lib: &Path) {
    let output = run_by_pkg_config(lib, &root().join("ffi_tests/arithmetic.c"));
    assert_eq!(output.trim(), "ok");
}

/// Whether there is pkg-config, which not every machine with a compiler has.
fn pkg_config() -> bool {
    let there = super::has("pkg-config");
    if !there {
        skipped("pkg-config is not installed: torchacc.pc is not tried");
    }
    there
}

#[test]
fn pkg_config_finds_the_installed_library() {
    if pkg_config() {
        build_by_pkg_config(&installed("install_pkg_config").join("lib"));
    }
}

#[test]
fn the_program_in_the_docs_runs() {
    if !pkg_config() {
        return;
    }
    let page = std::fs::read_to_string(root().join("docs/embedding.md"))
        .expect("docs/embedding.md is there");
    let (_, rest) = page.split_once("```c\n").expect("a program in C");
    let (code, _) = rest.split_once("```").expect("its end");
    let lib = installed("install_docs").join("lib");
    let source = lib.join("sample.c");
    std::fs::write(&source, code).expect("the scratch folder is writable");
    assert_eq!(run_by_pkg_config(&lib, &source).trim(), "2 4 6");
}

/// CMake of the system or of the virtual environment: `make test` installs it; a bare `cargo test` may do without.
fn cmake() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([root().join(".venv/bin")]);
    let found = places.map(|place| place.join("cmake")).find(|file| file.exists());
    if found.is_none() {
        skipped("CMake is not installed: find_package(torchacc) is not tried");
    }
    found
}

/// Builds and runs a program that finds the library by CMake, which gets `setting` and makes it in `folder`.
fn build_by_cmake(cmake: &Path, folder: &Path, setting: &str, program: &str) {
    run(Command::new(cmake)
        .arg("-S")
        .arg(root().join("ffi_tests/install"))
        .arg("-B")
        .arg(folder)
        .args(["-DCMAKE_BUILD_TYPE=Release", setting]));
    run(Command::new(cmake).arg("--build").arg(folder).args(["--target", program]));
    assert_eq!(run(&mut Command::new(folder.join(program))).trim(), "ok");
}

#[test]
fn find_package_finds_the_installed_library() {
    let Some(cmake) = cmake() else { return };
    let prefix = installed("install_cmake");
    let setting = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    for program in ["program_c", "program_cpp"] {
        build_by_cmake(&cmake, &prefix.join("build"), &setting, program);
    }
}

/// Debian's folder for an architecture, one written carelessly, and one that is not under the prefix.
#[test]
fn the_library_may_go_to_any_folder() {
    for (n, libdir) in ["lib/x86_64-linux-gnu", "./lib64//", "/srv/lib"].into_iter().enumerate() {
        let top = staged(&format!("install_libdir_{n}"), libdir);
        let lib = match libdir.strip_prefix('/') {
            Some(elsewhere) => top.join(elsewhere),
            None => top.join(&PREFIX[1..]).join(libdir),
        };
        assert!(top.join(&PREFIX[1..]).join("include/torchacc.h").exists(), "{libdir}");
        if pkg_config() {
            build_by_pkg_config(&lib);
        }
        if let Some(cmake) = cmake() {
            let setting = format!("-Dtorchacc_DIR={}", lib.join("cmake/torchacc").display());
            build_by_cmake(&cmake, &top.join("build"), &setting, "program_c");
        }
    }
}
