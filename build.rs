//! Gives the shared library its SONAME, which Cargo has no setting for. The number is `TORCHACC_ABI` in `src/capi`.
fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtorchacc.so.1");
    println!("cargo:rerun-if-changed=build.rs");
}
