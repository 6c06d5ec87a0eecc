//! Matrix products.

use crate::harness::{Bench, Work, input};
use criterion::Criterion;
use torchacc::dtype::DType::{BF16, F32};

pub fn run(bench: &Bench, c: &mut Criterion) {
    let mut group = c.benchmark_group("matmul");
    for (m, k, n) in [(1024, 1024, 1024), (2048, 384, 1536), (2048, 384, 8192), (384, 2048, 1536)] {
        let flops = 2.0 * (m * k * n) as f64;
        for dtype in [F32, BF16] {
            let name = format!("{dtype}_{m}x{k}x{n}");
            let operands = [input(dtype, &[m, k]), input(dtype, &[k, n])];
            bench.run(&mut group, &name, &operands, &[], Work::Flops(flops), |b, v| {
                vec![b.matmul(v[0], v[1]).unwrap()]
            });
        }
    }
    // Few rows, and weights that stay as they are.
    for (m, k, n) in [(32, 4096, 1024), (64, 1024, 4096), (256, 4096, 1024)] {
        let work = || Work::Flops(2.0 * (m * k * n) as f64);
        for dtype in [F32, BF16] {
            let name = format!("{dtype}_kept_{m}x{k}x{n}");
            let operands = [input(dtype, &[m, k]), input(dtype, &[n, k])];
            bench.run(&mut group, &name, &operands, &[], work(), |b, v| {
                let t = b.transpose(v[1], &[1, 0]).unwrap();
                vec![b.matmul(v[0], t).unwrap()]
            });
        }
    }
    let operands = [input(F32, &[2048, 1536]), input(F32, &[384, 1536])];
    let work = Work::Flops(2.0 * 2048.0 * 1536.0 * 384.0);
    bench.run(&mut group, "f32_transposed_2048x1536x384", &operands, &[], work, |b, v| {
        let t = b.transpose(v[1], &[1, 0]).unwrap();
        vec![b.matmul(v[0], t).unwrap()]
    });
    group.finish();
}
