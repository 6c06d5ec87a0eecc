//! The installed tree: programs outside of the repository find it by pkg-config and by CMake, wherever it is moved.

use super::{library, root, run, scratch};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs into a fresh folder, and moves the tree elsewhere.
fn installed(name: &str) -> PathBuf {
    let dir = scratch(name);
    let (first, moved) = (dir.join("first"), dir.join("moved"));
    for old in [&first, &moved] {
        if old.exists() {
            std::fs::remove_dir_all(old).expect("the scratch folder is writable");
        }
    }
    run(Command::new(root().join("packaging/install.sh")).arg(&first).arg(library()));
    std::fs::rename(first, &moved).expect("the scratch folder is writable");
    moved
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
        }
    }
    let dynamic = run(Command::new("readelf").arg("-d").arg(prefix.join("lib/libtorchacc.so")));
    assert!(!dynamic.contains("RPATH") && !dynamic.contains("RUNPATH"), "{dynamic}");
}

#[test]
fn pkg_config_finds_the_installed_library() {
    // Not every machine with a compiler has it.
    if Command::new("pkg-config").arg("--version").output().is_err() {
        return;
    }
    let prefix = installed("install_pkg_config");
    let lib = prefix.join("lib");
    let flags = run(Command::new("pkg-config")
        .args(["--cflags", "--libs", "torchacc"])
        .env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
    let program = prefix.join("program");
    run(Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(root().join("ffi_tests/arithmetic.c"))
        .args(flags.split_whitespace())
        .arg("-lm"));
    let output = run(Command::new(program).env("LD_LIBRARY_PATH", lib));
    assert_eq!(output.trim(), "ok");
}

/// CMake of the system or of the virtual environment.
fn cmake() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([root().join(".venv/bin")]);
    places.map(|place| place.join("cmake")).find(|file| file.exists())
}

#[test]
fn find_package_finds_the_installed_library() {
    // `make test` installs it; a bare `cargo test` may do without.
    let Some(cmake) = cmake() else { return };
    let prefix = installed("install_cmake");
    let build = prefix.join("build");
    run(Command::new(&cmake)
        .arg("-S")
        .arg(root().join("ffi_tests/install"))
        .arg("-B")
        .arg(&build)
        .arg("-DCMAKE_BUILD_TYPE=Release")
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    run(Command::new(&cmake).arg("--build").arg(&build));
    for name in ["program_c", "program_cpp"] {
        assert_eq!(run(&mut Command::new(Path::new(&build).join(name))).trim(), "ok");
    }
}
