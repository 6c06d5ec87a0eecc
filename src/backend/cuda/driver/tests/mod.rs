//! What can be tested without a GPU: compiling, descriptions of products, and the errors of a machine without one.

pub mod fake;

use super::super::device::{Matrix, Product};
use super::super::emit::Source;
use super::blas::{Blas, Blocks, Columns, Described};
use super::nvrtc::{Nvrtc, Usage};
use super::{Options, open};
use crate::backend::library::open as open_library;
use crate::dtype::DType;
use crate::error::Code;
use std::path::{Path, PathBuf};

/// Where `make test` says that CUDA's libraries are.
pub fn folders() -> Vec<PathBuf> {
    std::env::var_os("TORCHACC_CUDA")
        .map(|paths| std::env::split_paths(&paths).collect())
        .unwrap_or_default()
}

/// The NVRTC that serves an architecture. Loud where there is none.
pub fn nvrtc_for(capability: u32) -> Option<Nvrtc> {
    let suits = |n: &Nvrtc| match n.target(capability) {
        Some(_) => Ok(()),
        None => Err(format!("not for sm_{capability}")),
    };
    let found = Nvrtc::find(&folders(), suits);
    found.inspect_err(|e| eprintln!("SKIPPED: nothing is compiled for sm_{capability}: {e}")).ok()
}

fn source(name: &str, body: &str) -> Source {
    let text = format!(
        "extern \"C\" __global__ void {name}(const __grid_constant__ Words<2> a) {{\n{body}\n}}\n"
    );
    Source { name: name.into(), text, kernel_args: 2 }
}

#[test]
fn sources_become_machine_code() {
    for capability in [70, 80, 90] {
        let Some(nvrtc) = nvrtc_for(capability) else { continue };
        let target = nvrtc.target(capability).unwrap();
        assert_eq!(target, ["sm_70", "sm_80", "sm_90a"][capability as usize / 10 - 7]);
        let body = "__shared__ float s[256]; float* x = (float*)a.at[0]; s[threadIdx.x] = x[threadIdx.x]; \
                    __syncthreads(); x[threadIdx.x] = s[255 - threadIdx.x];";
        let (cubin, usage) = nvrtc.compile(&source("turn", body), &target).unwrap();
        assert!(cubin.starts_with(b"\x7fELF"));
        assert!((4..64).contains(&usage.registers), "{usage:?}");
        assert_eq!(usage, Usage { registers: usage.registers, spills: 0, shared: 1024 });
        // More numbers than there are registers.
        let body = "float r[400]; float* x = (float*)a.at[0];\n#pragma unroll\nfor (int i = 0; i < 400; ++i) r[i] = x[i];\n\
                    __syncthreads();\n#pragma unroll\nfor (int i = 0; i < 400; ++i) x[i] = r[399 - i] * r[(i * 7) % 400];";
        let (_, usage) = nvrtc.compile(&source("spill", body), &target).unwrap();
        assert!(usage.registers > 100 && usage.spills > 0, "{usage:?}");
    }
}

#[test]
fn what_the_compiler_says_comes_with_its_lines() {
    let Some(nvrtc) = nvrtc_for(80) else { return };
    let error =
        nvrtc.compile(&source("broken", "int x = 1;\nx = undeclared;"), "sm_80").unwrap_err();
    assert_eq!(error.code, Code::Internal);
    for part in ["broken for sm_80", "broken(3): error", "\"undeclared\"", "x = undeclared;"] {
        assert!(error.message.contains(part), "{part} in {error}");
    }
    let error = nvrtc.compile(&source("fine", ""), "sm_1").unwrap_err();
    assert_eq!(error.code, Code::Unsupported, "{error}");
}

#[test]
fn many_sources_compile_at_once() {
    let Some(nvrtc) = nvrtc_for(80) else { return };
    let body = |i: usize| format!("((float*)a.at[0])[threadIdx.x] = {i}.f;");
    let sources: Vec<Source> = (0..16).map(|i| source(&format!("k{i}"), &body(i))).collect();
    let alone: Vec<_> = sources.iter().map(|s| nvrtc.compile(s, "sm_80").unwrap()).collect();
    let together = super::modules::in_parallel(&sources, |s| nvrtc.compile(s, "sm_80")).unwrap();
    assert_eq!(alone, together);
}

#[test]
fn an_nvrtc_that_does_not_suit_is_refused_with_its_reason() {
    let error = Nvrtc::find(&folders(), |_| Err("too new".into())).err().unwrap();
    assert_eq!(error.code, Code::Unsupported);
    assert!(error.message.contains("pip install nvidia-cuda-nvrtc"), "{error}");
    assert!(error.message.contains("Tried "), "{error}");
}

#[test]
fn without_a_driver_the_error_says_what_to_do() {
    let options = Options { folders: folders(), ordinal: 4096, ..Options::default() };
    // Where there is a driver, it has fewer GPUs.
    let error = open(&options).err().unwrap();
    assert_eq!(error.code, Code::Unsupported, "{error}");
    assert!(error.message.starts_with("CUDA cannot be used: "), "{error}");
    let is_there = open_library(Path::new("libcuda.so.1")).is_ok();
    assert!(is_there || error.message.contains("no NVIDIA driver: libcuda.so.1: "), "{error}");
    assert!(error.message.ends_with("or use the backend cpu (TORCHACC_BACKEND=cpu)"), "{error}");
}

const LAYOUTS: [bool; 2] = [false, true];

/// The product of matrices of these sizes in which rows (columns) are longer than they need to be.
fn product(dtypes: [DType; 3], [m, n, k]: [u64; 3], transposed: [bool; 3]) -> Product {
    let matrix = |rows: u64, columns: u64, transposed: bool| {
        let (lines, length) = if transposed { (columns, rows) } else { (rows, columns) };
        let leading = length + 3;
        Matrix { transposed, leading, batch: lines * leading + 5 }
    };
    let [a, b, c] = transposed;
    Product {
        dtypes,
        batch: 2,
        m,
        n,
        k,
        a: matrix(m, k, a),
        b: matrix(k, n, b),
        c: matrix(m, n, c),
    }
}

/// The element at a row and a column of a matrix as [`Matrix`] says.
fn by_rows(x: &Matrix, row: u64, column: u64) -> u64 {
    if x.transposed { column * x.leading + row } else { row * x.leading + column }
}

/// The same as BLAS does, of the matrix that is multiplied.
fn by_columns(x: &Columns, row: u64, column: u64) -> u64 {
    let (row, column) = if x.transposed { (column, row) } else { (row, column) };
    assert!(row < x.rows && column < x.columns && x.rows <= x.leading);
    column * x.leading + row
}

/// Every element of the result is made of the same elements of the operands.
#[test]
fn products_mean_the_same_by_rows_and_by_columns() {
    for (a, b, c) in itertools(LAYOUTS) {
        let product = product([DType::F32; 3], [3, 4, 5], [a, b, c]);
        let blocks = Blocks::of(&product);
        let (of_a, of_b) = if blocks.a_first {
            (blocks.first, blocks.second)
        } else {
            (blocks.second, blocks.first)
        };
        assert_eq!(
            (of_a.batch, of_b.batch, blocks.c.batch),
            (product.a.batch, product.b.batch, product.c.batch)
        );
        for (i, j, l) in (0..60).map(|x| (x / 20, x / 5 % 4, x % 5)) {
            let (at_a, at_b, at_c) = match blocks.a_first {
                true => {
                    (by_columns(&of_a, i, l), by_columns(&of_b, l, j), by_columns(&blocks.c, i, j))
                }
                false => {
                    (by_columns(&of_a, l, i), by_columns(&of_b, j, l), by_columns(&blocks.c, j, i))
                }
            };
            assert_eq!(at_a, by_rows(&product.a, i, l));
            assert_eq!(at_b, by_rows(&product.b, l, j));
            assert_eq!(at_c, by_rows(&product.c, i, j));
        }
    }
}

fn itertools(values: [bool; 2]) -> Vec<(bool, bool, bool)> {
    let all = |n: usize| (values[n & 1], values[n >> 1 & 1], values[n >> 2 & 1]);
    (0..8).map(all).collect()
}

/// The library itself takes the descriptions; it multiplies only where there is a GPU.
#[test]
fn cublaslt_takes_the_descriptions() {
    let blas = match Blas::find(&folders(), |_| Ok(())) {
        Ok(blas) => blas,
        Err(why) => return eprintln!("SKIPPED: no product is described: {why}"),
    };
    assert!(blas.major() >= 12, "{}", blas.version);
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for (a, b, c) in itertools(LAYOUTS) {
            for allow_tf32 in [false, true] {
                let product = product([dtype; 3], [3, 4, 5], [a, b, c]);
                Described::new(&blas, &product, None, allow_tf32).unwrap();
            }
        }
    }
    // Of 8 bits: one product for every result, of columns and rows that lie together.
    let (e4m3, e5m2) = (DType::F8E4M3FN, DType::F8E5M2);
    for (a, b) in [(e4m3, e4m3), (e4m3, e5m2), (e5m2, e4m3)] {
        for c in [DType::F16, DType::BF16, DType::F32] {
            let product = product([a, b, c], [48, 32, 16], [false, true, false]);
            Described::new(&blas, &product, Some([256, 512]), false).unwrap();
        }
    }
    let wide = product([DType::BF16, DType::BF16, DType::F32], [3, 4, 5], [false; 3]);
    Described::new(&blas, &wide, None, false).unwrap();
    let integers = product([DType::I64; 3], [1, 1, 1], [false; 3]);
    assert!(Described::new(&blas, &integers, None, false).is_err());
    let error = blas.check(15, "a test").unwrap_err();
    assert!(
        error.message.contains("NOT_SUPPORTED") || error.message.contains("support"),
        "{error}"
    );
}
