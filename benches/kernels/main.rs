//! How fast the CPU backend's kernels are: `cargo bench --bench kernels [-- filter]`; with `--avx2` or `--baseline` as
//! on a processor without AVX-512 or without both; `products [part of a name]`: the providers of matrix products alone, some of
//! them. After Criterion's statistics comes a table of the best times and what they amount to: elements a second for data that
//! stay in the second-level cache (one thread), memory traffic against the measured speed of copying, arithmetic. No numbers are
//! checked: machines differ.

mod blas;
mod build;
mod harness;
mod networks;
mod pointwise;
mod products;
mod providers;

use criterion::Criterion;
use harness::Bench;
use torchacc::backend::cpu::{Isa, limit_instructions};

fn main() {
    let mut args: Vec<String> = std::env::args().collect();
    for (flag, isa) in [("--avx2", Isa::Avx2), ("--baseline", Isa::Baseline)] {
        if let Some(at) = args.iter().position(|a| a == flag) {
            args.remove(at);
            assert!(limit_instructions(isa), "instructions are chosen once");
        }
    }
    let mut words = args.into_iter().skip(1).filter(|a| !a.starts_with("--"));
    let (filter, product) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let bench = Bench::new();
    if "products".starts_with(&filter) {
        providers::run(&bench, &product);
    }
    let mut criterion: Criterion = harness::criterion().with_filter(filter);
    pointwise::resident(&bench, &mut criterion);
    pointwise::streams(&bench, &mut criterion);
    networks::run(&bench, &mut criterion);
    products::run(&bench, &mut criterion);
    bench.report();
}
