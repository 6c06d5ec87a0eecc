//! Programs for buckets, from the record to the read. (In debug builds padding is NaN, and out of range.)

use crate::aten;
use crate::dtype::DType;
use crate::record::{Operator, View};
use crate::runtime::Context;
use crate::runtime::options::{Asked, Options};
use crate::shape::{Dims, Layout};
use crate::trace::{ArgRef, BufferId, Call, TensorRef};
use std::sync::Arc;

fn context(bucket_policy: &str, backend: &str, cache_folder: &str) -> Arc<Context> {
    let asked = Asked { backend, num_threads: 1, cache_folder, bucket_policy, ..Asked::default() };
    Context::new(Options::resolve(asked).unwrap()).unwrap()
}

fn count(context: &Context, name: &str) -> u64 {
    let metrics = context.metrics();
    let after = metrics.split(&format!("\"{name}\": ")).nth(1).unwrap();
    after.split([',', '}']).next().unwrap().parse().unwrap()
}

fn view(sizes: &[i64]) -> View {
    View { dtype: DType::F32, layout: Layout::contiguous(sizes) }
}

/// A tensor: a buffer and its sizes.
#[derive(Clone)]
struct Tensor(BufferId, Dims);

impl Tensor {
    fn new(context: &Context, sizes: &[i64], number: impl Fn(usize) -> f32) -> Tensor {
        let view = view(sizes);
        let bytes: Vec<u8> =
            (0..view.layout.numel() as usize).flat_map(|i| number(i).to_le_bytes()).collect();
        let id = context.new_buffer(bytes.len());
        context.write(id, &bytes).unwrap();
        Tensor(id, sizes.into())
    }

    fn read(&self, context: &Context) -> Vec<f32> {
        let mut bytes = vec![0; 4 * view(&self.1).layout.numel() as usize];
        context.read(self.0, 0, &mut bytes).unwrap();
        bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

fn apply(context: &Context, name: &str, x: &[&Tensor], more: Vec<ArgRef>, sizes: &[i64]) -> Tensor {
    let out = Tensor(context.new_buffer(4 * view(sizes).layout.numel() as usize), sizes.into());
    write(context, name, x, more, &out);
    out
}

/// The operation, into a tensor that is there.
fn write(context: &Context, name: &str, x: &[&Tensor], more: Vec<ArgRef>, out: &Tensor) {
    let op = Operator::Native(aten::find(name).unwrap());
    let views: Vec<View> = x.iter().map(|t| view(&t.1)).collect();
    let tensors = x.iter().zip(&views).map(|(t, view)| ArgRef::Tensor(TensorRef::new(t.0, view)));
    let args: Vec<ArgRef> = tensors.chain(more).collect();
    let target = view(&out.1);
    context.record(&Call { op, args: &args, outs: &[TensorRef::new(out.0, &target)] }).unwrap();
}

/// One step at a length: `h = tanh(x w)`, the mean of its rows added to what was there. What it leaves behind.
fn step(context: &Context, w: &Tensor, total: &Tensor, t: i64) -> Vec<Vec<f32>> {
    let x = Tensor::new(context, &[t, 3], |i| (i % 7) as f32 * 0.25 - 0.5);
    let y = apply(context, "aten::mm", &[&x, w], vec![], &[t, 3]);
    let h = apply(context, "aten::tanh", &[&y], vec![], &[t, 3]);
    let rows = [0i64];
    let mean = vec![ArgRef::Ints(&rows), ArgRef::Bool(false), ArgRef::None];
    let mean = apply(context, "aten::mean.dim", &[&h], mean, &[3]);
    let one = ArgRef::Scalar { kind: crate::op::arg::ScalarKind::Int, bits: 1 };
    write(context, "aten::add.Tensor", &[total, &mean], vec![one], total);
    context.cut().unwrap();
    let results = vec![h.read(context), mean.read(context), total.read(context)];
    for tensor in [x, y, h, mean] {
        context.drop_buffer(tensor.0);
    }
    results
}

/// All steps in one context: what they leave behind, and the context.
fn run(context: &Context, lengths: &[i64]) -> Vec<Vec<Vec<f32>>> {
    let w = Tensor::new(context, &[3, 3], |i| (i as f32 - 4.0) * 0.2);
    let total = Tensor::new(context, &[3], |_| 0.0);
    let results = lengths.iter().map(|&t| step(context, &w, &total, t)).collect();
    context.sync().unwrap();
    results
}

fn assert_near(a: &[Vec<Vec<f32>>], b: &[Vec<Vec<f32>>]) {
    for (x, y) in a.iter().flatten().flatten().zip(b.iter().flatten().flatten()) {
        assert!((x - y).abs() <= 2e-5 * (1.0 + y.abs()), "{x} is not {y}");
    }
}

fn lengths(count: usize) -> Vec<i64> {
    let mut rng = crate::graph::generate::Rng::new(3);
    (0..count).map(|_| 2 + rng.below(600) as i64).collect()
}

#[test]
fn a_bounded_number_of_programs_runs_every_length() {
    let lengths = lengths(300);
    let exact = context("exact", "cpu", "off");
    let want = run(&exact, &lengths);
    for (policy, buckets) in [("geometric:1.25:64", 8), ("multiple:128", 5), ("learned:4", 12)] {
        let padded = context(policy, "cpu", "off");
        let got = run(&padded, &lengths);
        assert_near(&got, &want);
        assert!(count(&padded, "padded_programs") <= buckets, "{}", padded.metrics());
        assert!(count(&padded, "compiles") <= buckets + 1);
        assert_eq!(count(&padded, "padded_runs"), 299);
        assert_eq!(count(&padded, "padding_refused"), 0);
    }
    assert_eq!((count(&exact, "padded_runs"), count(&exact, "padding_refused")), (0, 0));
}

#[test]
fn the_same_by_the_reference() {
    let lengths = lengths(20);
    let want = run(&context("exact", "reference", "off"), &lengths);
    let padded = context("multiple:100", "reference", "off");
    assert_near(&run(&padded, &lengths), &want);
    assert_eq!(count(&padded, "padded_runs"), 19);
}

/// What is padded does not go by way of the host.
#[cfg(debug_assertions)]
#[test]
fn a_device_copies_into_padding_and_out_of_it() {
    let run = |context: &Context| -> Vec<Vec<Vec<f32>>> {
        let tanh = |t: i64| {
            let x = Tensor::new(context, &[2, t, 3], |i| (i % 7) as f32 * 0.25 - 0.5);
            let y = apply(context, "aten::tanh", &[&x], vec![], &[2, t, 3]);
            context.cut().unwrap();
            vec![y.read(context)]
        };
        [10, 30, 50].map(tanh).into()
    };
    let padded = context("multiple:64", "emulated", "off");
    assert_near(&run(&padded), &run(&context("exact", "cpu", "off")));
    assert_eq!(count(&padded, "padded_runs"), 2);
}

#[test]
fn what_is_beyond_the_list_is_exact_and_counted() {
    let padded = context("list:64,128", "cpu", "off");
    let lengths = [10, 64, 65, 129, 1, 128];
    assert_near(&run(&padded, &lengths), &run(&context("exact", "cpu", "off"), &lengths));
    let counts = ["padded_programs", "padded_runs", "padding_refused"].map(|n| count(&padded, n));
    // The first length is compiled for itself, 129 has no bucket and 1 broadcasts.
    assert_eq!(counts, [2, 3, 2]);
}

/// A folder for programs. What a process of this number has left, which was killed, goes.
fn scratch(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("torchacc-{name}-{}", std::process::id()));
    std::fs::remove_dir_all(&folder).ok();
    folder
}

#[test]
fn another_process_finds_the_programs() {
    let folder = scratch("fitting");
    let lengths = [10, 30, 100, 70];
    let mut runs = Vec::new();
    for _ in 0..2 {
        let context = context("multiple:64", "cpu", folder.to_str().unwrap());
        runs.push(run(&context, &lengths));
        let names = ["compiles", "disk_hits", "padded_programs"];
        let counts = names.map(|name| count(&context, name));
        assert_eq!(counts, if runs.len() == 1 { [3, 0, 2] } else { [0, 3, 2] });
    }
    assert_eq!(runs[0], runs[1]);
    std::fs::remove_dir_all(folder).unwrap();
}

/// The key has the padded graph beside the records at the bucket's sizes: a program of exactly these sizes is another one,
/// that of the same bucket by another policy the same.
#[test]
fn a_program_is_that_of_its_bucket_and_of_nothing_else() {
    let folder = scratch("buckets");
    let compiles = |policy: &str, lengths: &[i64]| {
        let context = context(policy, "cpu", folder.to_str().unwrap());
        run(&context, lengths);
        count(&context, "compiles")
    };
    assert_eq!(compiles("exact", &[10, 64]), 2);
    assert_eq!(compiles("multiple:64", &[10, 30]), 1, "64 exactly is no bucket of 64");
    assert_eq!(compiles("list:64", &[10, 50]), 0, "the bucket is the same");
    assert_eq!(compiles("list:65", &[10, 50]), 1, "this one is not");
    std::fs::remove_dir_all(folder).unwrap();
}
