//! Rows: softmax, normalisation, cross entropy; gathers and scatters; attention.

use crate::build::Math;
use crate::harness::{Bench, Work, input, positive};
use criterion::Criterion;
use smallvec::smallvec;
use torchacc::dtype::DType::{BF16, F32, I64};
use torchacc::graph::{Builder, ValueId};
use torchacc::op::{Attr, Op};

pub fn run(bench: &Bench, c: &mut Criterion) {
    rows(bench, c);
    indices(bench, c);
    attention(bench, c);
}

fn rows(bench: &Bench, c: &mut Criterion) {
    let mut group = c.benchmark_group("rows");
    let (r, w) = (8192, 2048);
    let mb = 4 * r * w;
    let x = || input(F32, &[r, w]);
    for (name, op) in [("softmax", Op::Softmax), ("log_softmax", Op::LogSoftmax)] {
        bench.run(&mut group, name, &[x()], &[], Work::Bytes(2 * mb), |b, v| {
            vec![b.unary(op, v[0]).unwrap()]
        });
    }
    for (name, op) in [("softmax_grad", Op::SoftmaxGrad), ("log_softmax_grad", Op::LogSoftmaxGrad)]
    {
        bench.run(&mut group, name, &[x(), x()], &[], Work::Bytes(3 * mb), |b, v| {
            vec![b.binary(op, v[0], v[1]).unwrap()]
        });
    }
    let column = || input(F32, &[w]);
    let attrs = || smallvec![Attr::Float(1e-5), Attr::Bool(true), Attr::Bool(true)];
    let operands = [x(), column(), column()];
    bench.run(&mut group, "layer_norm", &operands, &[], Work::Bytes(2 * mb), |b, v| {
        vec![b.op(Op::LayerNorm, v, attrs()).unwrap()]
    });
    let operands = [input(BF16, &[r, 2 * w]), input(BF16, &[2 * w]), input(BF16, &[2 * w])];
    bench.run(&mut group, "layer_norm_bf16", &operands, &[], Work::Bytes(2 * mb), |b, v| {
        vec![b.op(Op::LayerNorm, v, attrs()).unwrap()]
    });
    let operands = [x(), x(), input(F32, &[r]), positive(F32, &[r]), column()];
    bench.run(&mut group, "layer_norm_grad", &operands, &[], Work::Bytes(3 * mb), |b, v| {
        b.ops(Op::LayerNormGrad, v, smallvec![]).unwrap().to_vec()
    });
    let (rows, vocabulary) = (512, 32_768);
    let mb = 4 * rows * vocabulary;
    let operands = || [input(F32, &[rows, vocabulary]), input(I64, &[rows, 1])];
    bench.run(&mut group, "cross_entropy", &operands(), &[], Work::Bytes(mb), |b, v| {
        vec![loss(b, v).1]
    });
    let operands = operands();
    bench.run(&mut group, "cross_entropy_both", &operands, &[], Work::Bytes(3 * mb), |b, v| {
        let (logs, loss) = loss(b, v);
        vec![loss, loss_grad(b, v, logs)]
    });
    group.finish();
}

/// `[rows, classes]`, `[rows, 1]` → logarithms of probabilities, mean loss.
fn loss(b: &mut Builder, v: &[ValueId]) -> (ValueId, ValueId) {
    let logs = b.unary(Op::LogSoftmax, v[0]).unwrap();
    let picked = b.op(Op::Gather, &[logs, v[1]], smallvec![Attr::Int(1)]).unwrap();
    let sum = b.reduce(Op::Sum, picked, &[0, 1], false).unwrap();
    let rows = b.ty(v[0]).sizes[0];
    (logs, Math(b).with(Op::Mul, sum, -1.0 / rows as f64))
}

/// As `nll_loss` and `log_softmax` say it.
fn loss_grad(b: &mut Builder, v: &[ValueId], logs: ValueId) -> ValueId {
    let sizes = b.ty(logs).sizes.clone();
    let attrs = smallvec![Attr::Ints(sizes.clone()), Attr::Int(1), Attr::DType(I64)];
    let class = b.op(Op::Iota, &[], attrs).unwrap();
    let hit = Math(b).binary(Op::Eq, class, v[1]);
    let each = b.constant(-1.0 / sizes[0] as f64, F32).unwrap();
    let each = b.broadcast(each, &sizes).unwrap();
    let zero = b.constant(0.0, F32).unwrap();
    let zero = b.broadcast(zero, &sizes).unwrap();
    let dy = b.select(hit, each, zero).unwrap();
    b.binary(Op::LogSoftmaxGrad, dy, logs).unwrap()
}

fn indices(bench: &Bench, c: &mut Criterion) {
    let mut group = c.benchmark_group("index");
    let (table, index) = (|| input(F32, &[8192, 384]), || input(I64, &[2048]));
    let bytes = |streams: i64| Work::Bytes(4 * 2048 * 384 * streams);
    bench.run(&mut group, "embedding", &[table(), index()], &[], bytes(2), |b, v| {
        vec![b.op(Op::Take, v, smallvec![Attr::Int(0)]).unwrap()]
    });
    let operands = [table(), index(), input(F32, &[2048, 384])];
    bench.run(&mut group, "index_add", &operands, &[], bytes(10), |b, v| {
        vec![b.op(Op::IndexAdd, v, smallvec![Attr::Int(0)]).unwrap()]
    });
    group.finish();
}

fn attention(bench: &Bench, c: &mut Criterion) {
    let mut group = c.benchmark_group("attention");
    for dtype in [F32, BF16] {
        let qkv = || input(dtype, &[8, 6, 256, 64]);
        let attrs = smallvec![Attr::Float(0.125), Attr::Bool(true), Attr::Float(0.0)];
        // Half of the products are skipped by a causal mask.
        let flops = 8.0 * 6.0 * 256.0 * 256.0 * 64.0;
        let name = format!("{dtype}_forward");
        let operands = [qkv(), qkv(), qkv()];
        bench.run(&mut group, &name, &operands, &[], Work::Flops(2.0 * flops), |b, v| {
            let zero = b.constant_int(0, I64).unwrap();
            vec![b.op(Op::Attention, &[v[0], v[1], v[2], zero, zero], attrs.clone()).unwrap()]
        });
        let name = format!("{dtype}_both");
        let operands = [qkv(), qkv(), qkv(), qkv()];
        bench.run(&mut group, &name, &operands, &[], Work::Flops(7.0 * flops), |b, v| {
            let zero = b.constant_int(0, I64).unwrap();
            let f = b.ops(Op::Attention, &[v[0], v[1], v[2], zero, zero], attrs.clone()).unwrap();
            let operands = [v[3], v[0], v[1], v[2], f[0], f[1], zero, zero];
            b.ops(Op::AttentionGrad, &operands, attrs.clone()).unwrap().to_vec()
        });
    }
    group.finish();
}
