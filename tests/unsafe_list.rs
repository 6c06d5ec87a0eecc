//! The files that may contain unsafe code. `unsafe_code` is denied for the crate; each of these says why it needs it.

use std::fs;
use std::path::{Path, PathBuf};

/// Relative to `src/`, sorted.
const FILES: &[&str] = &[
    "backend/borrowed.rs",
    "backend/bytes.rs",
    "backend/cpu/access.rs",
    "backend/cpu/gemm.rs",
    "backend/cpu/isa.rs",
    "backend/cpu/jit/jit_loop.rs",
    "backend/cpu/jit/memory.rs",
    "backend/cpu/jit/micro_kernel.rs",
    "backend/cpu/matrix.rs",
    "backend/cpu/multiplier.rs",
    "backend/cpu/onednn/api.rs",
    "backend/cpu/onednn/convolution.rs",
    "backend/cpu/onednn/mod.rs",
    "backend/cpu/onednn/primitive.rs",
    "backend/cpu/onednn/product.rs",
    "backend/cpu/tests/jit.rs",
    "backend/cpu/thread_pool.rs",
    "backend/cpu/tile/run.rs",
    "backend/cpu/vector/neon.rs",
    "backend/cpu/vector/x86.rs",
    "backend/cuda/driver/api.rs",
    "backend/cuda/driver/blas.rs",
    "backend/cuda/driver/context.rs",
    "backend/cuda/driver/dnn/api.rs",
    "backend/cuda/driver/dnn/descriptor.rs",
    "backend/cuda/driver/graph.rs",
    "backend/cuda/driver/modules.rs",
    "backend/cuda/driver/multiply.rs",
    "backend/cuda/driver/nvrtc.rs",
    "backend/cuda/driver/staging.rs",
    "backend/cuda/driver/tests/fake.rs",
    "backend/cuda/emulated/mod.rs",
    "backend/host_memory.rs",
    "backend/library.rs",
    "backend/memory.rs",
    "capi/mod.rs",
    "openxla/api.rs",
    "openxla/client.rs",
    "openxla/plugin.rs",
    "runtime/context/tests/foreign.rs",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

#[test]
fn unsafe_code_is_where_it_is_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lifts = |path: &PathBuf| {
        // The formatter breaks long attributes into lines.
        let text: String = fs::read_to_string(path).unwrap().split_whitespace().collect();
        assert!(!text.contains("allow(unsafe_code"), "{}: expect, do not allow", path.display());
        text.contains("expect(unsafe_code")
    };
    let relative = |path: PathBuf| path.strip_prefix(&root).unwrap().to_str().unwrap().to_string();
    let mut found: Vec<String> = sources(&root).into_iter().filter(lifts).map(relative).collect();
    found.sort();
    assert_eq!(
        found, FILES,
        "files with unsafe code (left) and the list in this test (right) differ"
    );
}
