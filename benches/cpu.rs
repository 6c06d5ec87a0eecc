//! How fast the CPU backend runs the kernels that a training step is made of: `cargo bench --bench cpu [-- filter]`.
//! Prints the best time of a kernel and what it amounts to. No numbers are checked here: machines differ.

use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::time::{Duration, Instant};
use torchacc::backend::cpu::Cpu;
use torchacc::backend::{Backend, Call};
use torchacc::buffer::Bytes;
use torchacc::dtype::DType::{self, *};
use torchacc::graph::{Builder, ValueId};
use torchacc::op::{Attr, Op, Ty};
use torchacc::plan::plan;
use torchacc::runtime::config::{Asked, Options};

/// What the time is divided into.
enum Work {
    /// Memory that has to be moved at least.
    Bytes(f64),
    Flops(f64),
}

struct Bench {
    backend: Cpu,
    filter: String,
}

impl Bench {
    /// Times the graph that `build` makes of its inputs.
    fn run(
        &self,
        name: &str,
        inputs: &[(DType, &[i64])],
        work: Work,
        build: impl Fn(&mut Builder, &[ValueId]) -> Vec<ValueId>,
    ) {
        if !name.contains(&self.filter) {
            return;
        }
        let types: Vec<Ty> = inputs.iter().map(|(dtype, sizes)| Ty::new(*dtype, sizes)).collect();
        let mut b = Builder::new();
        let values: Vec<ValueId> = types
            .iter()
            .enumerate()
            .map(|(i, ty)| b.input(i as u32, ty.clone()).unwrap())
            .collect();
        let outputs = build(&mut b, &values);
        let graph = b.finish(outputs);
        let donors = vec![None; graph.outputs.len()];
        let plan = Arc::new(plan(&graph, &types, &[], &donors, &self.backend).unwrap());
        let executable = self.backend.compile(plan.clone()).unwrap();
        let memory = |ty: &Ty| {
            let mut m = self.backend.allocate(ty.nbytes()).unwrap();
            m.write(0, &pattern(ty));
            m
        };
        let (ins, outs): (Vec<_>, Vec<_>) =
            (types.iter().map(memory).collect(), plan.outputs.iter().map(memory).collect());
        let arena = self.backend.allocate(plan.arena_bytes as usize).unwrap();
        let call = Call {
            inputs: &ins.iter().map(|m| m.addr()).collect::<Vec<_>>(),
            poisoned: &[],
            outputs: &outs.iter().map(|m| m.addr()).collect::<Vec<_>>(),
            arena: arena.addr(),
            scalars: &[],
        };
        let (mut best, mut runs) = (Duration::MAX, 0);
        let (begin, busy) = (Instant::now(), cpu_seconds());
        while begin.elapsed() < Duration::from_millis(700) {
            let start = Instant::now();
            assert!(executable.run(&call).failed.is_empty());
            best = best.min(start.elapsed());
            runs += 1;
        }
        let busy = (cpu_seconds() - busy) / runs as f64;
        let (amount, unit) = match work {
            Work::Bytes(n) => (n, "GB/s"),
            Work::Flops(n) => (n, "GFLOP/s"),
        };
        let (best, steps) = (best.as_secs_f64(), plan.steps.len());
        let (rate, busy_rate) = (amount / best / 1e9, amount / busy / 1e9);
        println!(
            "{name:<34} {:>8.3} ms {rate:>7.1} {unit:<8} {:>8.3} cpu ms {busy_rate:>6.1} {unit} a core, {steps} steps",
            best * 1e3,
            busy * 1e3
        );
    }
}

/// Processor time of this process: what remains comparable on a machine that others use too.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks = |n: usize| after_name.split_whitespace().nth(n).and_then(|t| t.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

/// Small numbers of both signs; indices below 100; true and false.
fn pattern(ty: &Ty) -> Vec<u8> {
    let value = |i: i64| ((i * 7919 + 13) % 1999 - 999) as f32 / 500.0;
    (0..ty.numel())
        .flat_map(|i| -> SmallVec<[u8; 8]> {
            match ty.dtype {
                BF16 => SmallVec::from_slice(&half::bf16::from_f32(value(i)).to_le_bytes()),
                F32 => SmallVec::from_slice(&value(i).to_le_bytes()),
                I64 => SmallVec::from_slice(&(i * 37 % 100).to_le_bytes()),
                _ => SmallVec::from_elem(i as u8 & 1, ty.dtype.size()),
            }
        })
        .collect()
}

fn gelu(b: &mut Builder, x: ValueId) -> ValueId {
    let sizes = b.ty(x).sizes.clone();
    let dtype = b.ty(x).dtype;
    let constant = |b: &mut Builder, v: f64| {
        let c = b.constant(v, dtype).unwrap();
        b.broadcast(c, &sizes).unwrap()
    };
    let (half, one, root) = (constant(b, 0.5), constant(b, 1.0), constant(b, 0.5f64.sqrt()));
    let scaled = b.binary(Op::Mul, x, root).unwrap();
    let erf = b.unary(Op::Erf, scaled).unwrap();
    let gate = b.binary(Op::Add, erf, one).unwrap();
    let left = b.binary(Op::Mul, x, half).unwrap();
    b.binary(Op::Mul, left, gate).unwrap()
}

fn pointwise(bench: &Bench) {
    let n = 1 << 20;
    let bytes = |streams: f64| Work::Bytes(4.0 * n as f64 * streams);
    let x = (F32, &[n][..]);
    bench.run("add 4 MB", &[x, x], bytes(3.0), |b, v| vec![b.binary(Op::Add, v[0], v[1]).unwrap()]);
    for (name, op) in [
        ("exp 4 MB", Op::Exp),
        ("tanh 4 MB", Op::Tanh),
        ("log 4 MB", Op::Log),
        ("sqrt 4 MB", Op::Sqrt),
    ] {
        bench.run(name, &[x], bytes(2.0), |b, v| vec![b.unary(op, v[0]).unwrap()]);
    }
    bench.run("gelu 4 MB", &[x], bytes(2.0), |b, v| vec![gelu(b, v[0])]);
    bench.run("gelu bf16 2 MB", &[(BF16, &[n])], bytes(1.0), |b, v| vec![gelu(b, v[0])]);
    bench.run("cast f32 to bf16 4 MB", &[x], bytes(1.5), |b, v| vec![b.cast(v[0], BF16).unwrap()]);
    bench.run("transpose 1024x1024", &[(F32, &[1024, 1024])], bytes(2.0), |b, v| {
        vec![b.transpose(v[0], &[1, 0]).unwrap()]
    });
    bench.run("bias add 2048x1536", &[(F32, &[2048, 1536]), (F32, &[1536])], bytes(6.0), |b, v| {
        let bias = b.broadcast(v[1], &[2048, 1536]).unwrap();
        vec![b.binary(Op::Add, v[0], bias).unwrap()]
    });
    for (name, axis) in [("sum of rows 2048x1536", 1), ("sum of columns 2048x1536", 0)] {
        bench.run(name, &[(F32, &[2048, 1536])], bytes(3.0), |b, v| {
            vec![b.reduce(Op::Sum, v[0], &[axis], false).unwrap()]
        });
    }
}

fn products(bench: &Bench) {
    for (m, k, n) in [(1024, 1024, 1024), (2048, 384, 1536), (2048, 384, 8192), (384, 2048, 1536)] {
        let flops = 2.0 * (m * k * n) as f64;
        for dtype in [F32, BF16] {
            let name = format!("matmul {dtype} {m}x{k}x{n}");
            bench.run(&name, &[(dtype, &[m, k]), (dtype, &[k, n])], Work::Flops(flops), |b, v| {
                vec![b.matmul(v[0], v[1]).unwrap()]
            });
        }
    }
    bench.run(
        "matmul f32 transposed 2048x1536x384",
        &[(F32, &[2048, 1536]), (F32, &[384, 1536])],
        Work::Flops(2.0 * 2048.0 * 1536.0 * 384.0),
        |b, v| {
            let t = b.transpose(v[1], &[1, 0]).unwrap();
            vec![b.matmul(v[0], t).unwrap()]
        },
    );
}

fn networks(bench: &Bench) {
    for dtype in [F32, BF16] {
        let qkv = (dtype, &[8, 6, 256, 64][..]);
        let attrs = smallvec![Attr::Float(0.125), Attr::Bool(true), Attr::Float(0.0)];
        // Half of the products are skipped by a causal mask.
        let flops = 8.0 * 6.0 * 256.0 * 256.0 * 64.0;
        bench.run(
            &format!("attention {dtype} forward"),
            &[qkv; 3],
            Work::Flops(2.0 * flops),
            |b, v| {
                let zero = b.constant_int(0, I64).unwrap();
                vec![b.op(Op::Attention, &[v[0], v[1], v[2], zero, zero], attrs.clone()).unwrap()]
            },
        );
        bench.run(
            &format!("attention {dtype} both ways"),
            &[qkv; 4],
            Work::Flops(7.0 * flops),
            |b, v| {
                let zero = b.constant_int(0, I64).unwrap();
                let f =
                    b.ops(Op::Attention, &[v[0], v[1], v[2], zero, zero], attrs.clone()).unwrap();
                let operands = [v[3], v[0], v[1], v[2], f[0], f[1], zero, zero];
                b.ops(Op::AttentionGrad, &operands, attrs.clone()).unwrap().to_vec()
            },
        );
    }
    let rows = (F32, &[2048, 8192][..]);
    let bytes = |streams: f64| Work::Bytes(4.0 * 2048.0 * 8192.0 * streams);
    for (name, op) in
        [("softmax 2048x8192", Op::Softmax), ("log_softmax 2048x8192", Op::LogSoftmax)]
    {
        bench.run(name, &[rows], bytes(2.0), |b, v| vec![b.unary(op, v[0]).unwrap()]);
    }
    bench.run("log_softmax_grad 2048x8192", &[rows; 2], bytes(3.0), |b, v| {
        vec![b.binary(Op::LogSoftmaxGrad, v[0], v[1]).unwrap()]
    });
    let (x, w, s) = ((F32, &[2048, 384][..]), (F32, &[384][..]), (F32, &[2048][..]));
    let bytes = |streams: f64| Work::Bytes(4.0 * 2048.0 * 384.0 * streams);
    bench.run("layer_norm 2048x384", &[x, w, w], bytes(2.0), |b, v| {
        let attrs = smallvec![Attr::Float(1e-5), Attr::Bool(true), Attr::Bool(true)];
        vec![b.op(Op::LayerNorm, v, attrs).unwrap()]
    });
    bench.run("layer_norm_grad 2048x384", &[x, x, s, s, w], bytes(3.0), |b, v| {
        b.ops(Op::LayerNormGrad, v, smallvec![]).unwrap().to_vec()
    });
    let (table, index) = ((F32, &[8192, 384][..]), (I64, &[2048][..]));
    bench.run("embedding 2048 of 8192x384", &[table, index], bytes(2.0), |b, v| {
        vec![b.op(Op::Take, v, smallvec![Attr::Int(0)]).unwrap()]
    });
    bench.run("index_add 2048 to 8192x384", &[table, index, x], bytes(10.0), |b, v| {
        vec![b.op(Op::IndexAdd, v, smallvec![Attr::Int(0)]).unwrap()]
    });
}

fn main() {
    let filter = std::env::args().nth(1).filter(|a| a != "--bench").unwrap_or_default();
    let options = Options::resolve(Asked::default()).expect("the environment's options");
    let bench = Bench { backend: Cpu::new(0, options.onednn), filter };
    println!("{}", bench.backend.fingerprint());
    pointwise(&bench);
    products(&bench);
    networks(&bench);
}
