//! Pointwise kernels, reductions and movements.

use crate::build::Math;
use crate::harness::{Bench, Work, input, positive};
use criterion::Criterion;
use torchacc::dtype::DType::{BF16, F32};
use torchacc::graph::ValueId;
use torchacc::op::Op;

/// One thread, data in the second-level cache.
pub fn resident(bench: &Bench, c: &mut Criterion) {
    let mut group = c.benchmark_group("resident");
    let n = 1 << 17;
    for (name, op) in [
        ("exp", Op::Exp),
        ("tanh", Op::Tanh),
        ("erf", Op::Erf),
        ("erfc", Op::Erfc),
        ("erfinv", Op::Erfinv),
        ("sigmoid", Op::Sigmoid),
        ("log", Op::Log),
        ("rsqrt", Op::Rsqrt),
        ("sqrt", Op::Sqrt),
        ("expm1", Op::Expm1),
        ("log1p", Op::Log1p),
        ("sin", Op::Sin),
        ("cos", Op::Cos),
        ("floor", Op::Floor),
    ] {
        let defined = matches!(op, Op::Log | Op::Rsqrt | Op::Sqrt | Op::Log1p);
        let x = if defined { positive(F32, &[n]) } else { input(F32, &[n]) };
        bench.run(&mut group, name, &[x], &[], Work::Elements(n), |b, v| {
            vec![b.unary(op, v[0]).unwrap()]
        });
    }
    for (name, op) in [
        ("add", Op::Add),
        ("mul", Op::Mul),
        ("div", Op::Div),
        ("maximum", Op::Max),
        ("pow", Op::Pow),
    ] {
        let operands = [positive(F32, &[n]), input(F32, &[n])];
        bench.run(&mut group, name, &operands, &[], Work::Elements(n), |b, v| {
            vec![b.binary(op, v[0], v[1]).unwrap()]
        });
    }
    type Formula = fn(&mut Math, ValueId) -> ValueId;
    let formulas: [(&str, Formula); 3] = [
        ("gelu", |m, x| m.gelu(x)),
        ("gelu_tanh", |m, x| m.gelu_tanh(x)),
        ("silu", |m, x| m.silu(x)),
    ];
    for (name, formula) in formulas {
        bench.run(&mut group, name, &[input(F32, &[n])], &[], Work::Elements(n), |b, v| {
            vec![formula(&mut Math(b), v[0])]
        });
    }
    group.finish();
}

/// All threads, 64 MB an operand.
pub fn streams(bench: &Bench, c: &mut Criterion) {
    let mut group = c.benchmark_group("stream");
    let (r, w) = (8192, 2048);
    let mb = 4 * r * w;
    let x = || input(F32, &[r, w]);
    bench.run(&mut group, "add", &[x(), x()], &[], Work::Bytes(3 * mb), |b, v| {
        vec![b.binary(Op::Add, v[0], v[1]).unwrap()]
    });
    bench.run(&mut group, "add_in_place", &[x(), x()], &[0], Work::Bytes(3 * mb), |b, v| {
        vec![b.binary(Op::Add, v[0], v[1]).unwrap()]
    });
    bench
        .run(&mut group, "gelu", &[x()], &[], Work::Bytes(2 * mb), |b, v| vec![Math(b).gelu(v[0])]);
    bench.run(
        &mut group,
        "bias_gelu",
        &[x(), input(F32, &[w])],
        &[],
        Work::Bytes(2 * mb),
        |b, v| {
            let mut m = Math(b);
            let sum = m.binary(Op::Add, v[0], v[1]);
            vec![m.gelu(sum)]
        },
    );
    let state = || [x(), x(), x(), positive(F32, &[r, w])];
    bench.run(&mut group, "adamw", &state(), &[0, 2, 3], Work::Bytes(7 * mb), |b, v| {
        Math(b).adamw([v[0], v[1], v[2], v[3]])
    });
    bench.run(&mut group, "cast_f32_to_bf16", &[x()], &[], Work::Bytes(mb + mb / 2), |b, v| {
        vec![Math(b).cast(v[0], BF16)]
    });
    let half = input(BF16, &[r, w]);
    bench.run(&mut group, "cast_bf16_to_f32", &[half], &[], Work::Bytes(mb + mb / 2), |b, v| {
        vec![Math(b).cast(v[0], F32)]
    });
    let half = input(BF16, &[2 * r, w]);
    bench.run(&mut group, "gelu_bf16", &[half], &[], Work::Bytes(2 * mb), |b, v| {
        let mut m = Math(b);
        let wide = m.cast(v[0], F32);
        let y = m.gelu(wide);
        vec![m.cast(y, BF16)]
    });
    bench.run(&mut group, "transpose", &[x()], &[], Work::Bytes(2 * mb), |b, v| {
        vec![b.transpose(v[0], &[1, 0]).unwrap()]
    });
    for (name, axis) in [("sum_of_rows", 1), ("sum_of_columns", 0)] {
        bench.run(&mut group, name, &[x()], &[], Work::Bytes(mb), |b, v| {
            vec![b.reduce(Op::Sum, v[0], &[axis], false).unwrap()]
        });
    }
    bench.run(&mut group, "max_of_rows", &[x()], &[], Work::Bytes(mb), |b, v| {
        vec![b.reduce(Op::ReduceMax, v[0], &[1], false).unwrap()]
    });
    group.finish();
}
