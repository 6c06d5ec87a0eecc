//! The plugin that tests run on, if there is one.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Where `make openxla-plugin` unpacks the package.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/openxla/xla_plugins/xla_cpu_pjrt")
}

/// That of `TORCHACC_OPENXLA`, else the one that was unpacked. `None`, loudly.
pub fn plugin() -> Option<PathBuf> {
    let named = std::env::var_os("TORCHACC_OPENXLA").filter(|file| !file.is_empty());
    let file = named.map_or_else(|| folder().join("xla_cpu_pjrt.so"), PathBuf::from);
    if file.is_file() {
        return Some(file);
    }
    // Past the harness, which keeps what a test that passes prints to itself.
    let mut out = std::io::stderr();
    writeln!(out, "\nSKIPPED: no plugin of OpenXLA at {}: `make openxla-plugin`", file.display())
        .ok();
    None
}
