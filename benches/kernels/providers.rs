//! What each provider of matrix products reaches on one thread, beside what the multipliers of the processor can do:
//! `cargo bench --bench kernels -- products`, or those whose name has a part: `-- products 1024x1024x1024`. With `--avx2`, set
//! `ONEDNN_MAX_CPU_ISA=AVX2` for oneDNN, too.
#![expect(
    unsafe_code,
    reason = "a clock, and vector instructions that the processor was found to have"
)]

use crate::blas::Blas;
use crate::harness::Bench;
use torchacc::backend::cpu::{
    Block, Isa, Matrix, Multiplier, instructions, multiply_by, multiply_packed,
};
use torchacc::backend::memory::Pool;

/// Rounds of which the best counts, interleaved, because machines are shared; and operations of each at least.
const ROUNDS: usize = 30;
const LEAST: f64 = 2e7;
/// Of the blocks, as large as programs cut.
const SIDE: usize = 512;

/// Rows, terms, columns.
const SHAPES: [[usize; 3]; 18] = [
    [128, 128, 128],
    [256, 256, 256],
    [512, 512, 512],
    [1024, 1024, 1024],
    [2048, 2048, 2048],
    [4096, 4096, 4096],
    [2048, 384, 1536],
    [2048, 384, 8192],
    [512, 768, 3072],
    // BERT's and ViT's layers, an LSTM's step, few rows.
    [512, 768, 768],
    [197, 768, 768],
    [197, 768, 3072],
    [64, 512, 2048],
    [100, 300, 70],
    [32, 1024, 1024],
    [8, 1024, 1024],
    [4, 1024, 1024],
    [1, 1024, 1024],
];

const PROVIDERS: [Multiplier; 3] = [Multiplier::Panels, Multiplier::OneDnn, Multiplier::Portable];

pub fn run(bench: &Bench, part: &str) {
    let libraries = Blas::found();
    let names = ["packed once", "panels", "oneDNN", "matrixmultiply"].into_iter();
    let pool = Pool::new();
    let names: Vec<&str> = names.chain(libraries.iter().map(|library| library.name)).collect();
    let title = "rows x terms x columns";
    println!("\n{title:<24} {:>9}  of the peak: {}", "peak", names.join(", "));
    for ([m, k, n], layouts) in SHAPES
        .into_iter()
        .flat_map(|shape| ["nn", "nt", "tn", "tt"].map(|layouts| (shape, layouts)))
    {
        let name = format!("{m}x{k}x{n} {layouts}");
        if !name.contains(part) {
            continue;
        }
        let numbers = |count| (0..count).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
        let (a, b): (Vec<f32>, Vec<f32>) = (numbers(m * k), numbers(k * n));
        let lie = |data, rows, columns, turned| match turned {
            true => Matrix::rows(data, rows).transposed(),
            false => Matrix::rows(data, columns),
        };
        let turned: Vec<bool> = layouts.chars().map(|letter| letter == 't').collect();
        let (a, b) = (lie(&a[..], m, k, turned[0]), lie(&b[..], k, n, turned[1]));
        let flops = 2.0 * (m * k * n) as f64;
        let times = (LEAST / flops).ceil() as usize;
        let (mut peak, mut packed, mut best) = (0f64, 0f64, [0f64; PROVIDERS.len()]);
        let mut of_libraries = vec![0f64; libraries.len()];
        let rounds = if flops > 1e11 { 3 } else { ROUNDS };
        let mut c = vec![0.0; m * n];
        let all = || {
            for _ in 0..rounds {
                let (seconds, done) = timed(multiply_adds);
                peak = peak.max(done / seconds);
                let product =
                    |_| multiply_packed(k, [a, b], Block::new(&mut c, n), (SIDE, SIDE), &pool);
                if let (seconds, true) = timed(|| (0..times).all(product)) {
                    packed = packed.max(flops * times as f64 / seconds);
                }
                for (best, by) in best.iter_mut().zip(PROVIDERS) {
                    let block = |(row, column, mut c): (usize, usize, Block<f32>)| {
                        multiply_by(by, k, a.from(row, 0), b.from(0, column), false, &mut c)
                    };
                    let product = |_| Block::new(&mut c, n).cut(SIDE, SIDE).all(block);
                    let run = || (0..times).all(product);
                    if let (seconds, true) = timed(run) {
                        *best = best.max(flops * times as f64 / seconds);
                    }
                }
                for (best, library) in of_libraries.iter_mut().zip(&libraries) {
                    // They cut into blocks themselves.
                    let product = |_| library.multiply(k, a, b, &mut Block::new(&mut c, n));
                    let (seconds, ()) = timed(|| (0..times).for_each(product));
                    *best = best.max(flops * times as f64 / seconds);
                }
            }
        };
        bench.narrow.inside(all).expect("threads");
        let share = |best: &f64| format!("{:>7.1} {:>4.0} %", best / 1e9, 100.0 * best / peak);
        let shares: Vec<String> =
            [packed].iter().chain(&best).chain(&of_libraries).map(share).collect();
        println!("{:<24} {:>9.1}  {}", name, peak / 1e9, shares.join("  "));
    }
}

/// Seconds of this thread's processor time, so that other programs count for little.
fn timed<R>(run: impl FnOnce() -> R) -> (f64, R) {
    let start = processor_seconds();
    let result = run();
    (processor_seconds() - start, result)
}

fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills in what it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Multiply-adds of vectors in registers alone: how many operations were done.
fn multiply_adds() -> f64 {
    const TIMES: usize = 30_000;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        macro_rules! chains {
            ($name:ident, $features:literal, $count:literal, $vector:ty, $set:ident, $fma:ident) => {
                #[target_feature(enable = $features)]
                fn $name(factor: f32) -> [$vector; $count] {
                    let (x, y) = ($set(factor), $set(1e-3));
                    let mut chains = [$set(0.0); $count];
                    for _ in 0..TIMES {
                        chains.iter_mut().for_each(|chain| *chain = $fma(*chain, x, y));
                    }
                    chains
                }
            };
        }
        chains!(avx512, "avx512f", 24, __m512, _mm512_set1_ps, _mm512_fmadd_ps);
        chains!(avx2, "avx2,fma", 12, __m256, _mm256_set1_ps, _mm256_fmadd_ps);
        let factor = std::hint::black_box(0.999);
        match instructions() {
            // SAFETY: the processor was found to have these features.
            Isa::Avx512 => {
                std::hint::black_box(unsafe { avx512(factor) });
                return (TIMES * 24 * 16 * 2) as f64;
            }
            // SAFETY: as above.
            Isa::Avx2 => {
                std::hint::black_box(unsafe { avx2(factor) });
                return (TIMES * 12 * 8 * 2) as f64;
            }
            _ => {}
        }
    }
    0.0
}
