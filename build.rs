//! Gives the shared library what Cargo has no setting for: its SONAME (the number is `TORCHACC_ABI` in `src/capi`), and that it
//! stays when a program unloads it, since its threads may run. Gives the sources a number of their own: programs kept on disk are those of the sources that made them.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtorchacc.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=cuda");
    let mut hasher = DefaultHasher::new();
    for path in ["src", "cuda"].iter().flat_map(|folder| files(Path::new(folder))) {
        let text = std::fs::read(&path).expect("a source file is readable");
        hasher.write(path.to_string_lossy().as_bytes());
        hasher.write_usize(text.len());
        hasher.write(&text);
    }
    println!("cargo:rustc-env=TORCHACC_SOURCES={:016x}", hasher.finish());
}

/// All files under `folder`, in an order that depends on their names alone.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the source folder is readable");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the source folder is readable").path()).collect();
    paths.sort();
    let under = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    paths.into_iter().flat_map(under).collect()
}
