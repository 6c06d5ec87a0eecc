//! What a context keeps is bounded, whatever the program does.

use super::*;
use crate::dtype::DType;
use crate::op::arg::ScalarKind;
use crate::op::host::{HostOp, register};
use crate::record::View;
use crate::runtime::options::Asked;
use crate::runtime::shared::PROGRAMS;
use crate::shape::Layout;
use crate::trace::{ArgRef, TensorRef};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

mod foreign;
mod lists;
mod padding;
mod program_store;
mod promises;
mod watchdog;

pub fn context(backend: &str, trace_limit: usize, trace_bytes: usize) -> Arc<Context> {
    let asked = Asked {
        backend,
        num_threads: 1,
        trace_limit,
        trace_bytes,
        cache_folder: "off",
        ..Asked::default()
    };
    Context::new(Options::resolve(asked).unwrap()).unwrap()
}

pub fn view(n: i64) -> View {
    View { dtype: DType::F32, layout: Layout::contiguous(&[n]) }
}

/// `out = x * factor`, of `n` elements each.
pub fn scale(context: &Context, x: BufferId, factor: f64, out: BufferId, n: i64) {
    let op = Operator::Native(crate::aten::find("aten::mul.Scalar").unwrap());
    let view = view(n);
    let scalar = ArgRef::Scalar { kind: ScalarKind::Float, bits: factor.to_bits() };
    let args = [ArgRef::Tensor(TensorRef::new(x, &view)), scalar];
    context
        .record(&crate::trace::Call { op, args: &args, outs: &[TensorRef::new(out, &view)] })
        .unwrap();
}

fn add(context: &Context, x: BufferId, y: BufferId, n: i64) {
    let op = Operator::Native(crate::aten::find("aten::add.Tensor").unwrap());
    let view = view(n);
    let one = ArgRef::Scalar { kind: ScalarKind::Int, bits: 1 };
    let args =
        [ArgRef::Tensor(TensorRef::new(x, &view)), ArgRef::Tensor(TensorRef::new(y, &view)), one];
    context
        .record(&crate::trace::Call { op, args: &args, outs: &[TensorRef::new(x, &view)] })
        .unwrap();
}

pub fn floats(context: &Context, id: BufferId, n: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * n];
    context.read(id, 0, &mut bytes).unwrap();
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

pub fn stored(context: &Context, n: usize, number: f32) -> BufferId {
    let id = context.new_buffer(4 * n);
    context.write(id, &number.to_le_bytes().repeat(n)).unwrap();
    id
}

#[test]
fn many_different_programs_leave_a_bounded_number_behind() {
    let context = context("null", 0, 0);
    for n in 1..=20_000 {
        let x = stored(&context, n, 1.0);
        let y = context.new_buffer(4 * n);
        scale(&context, x, 2.0, y, n as i64);
        context.cut().unwrap();
        context.drop_buffer(x);
        context.drop_buffer(y);
    }
    context.sync().unwrap();
    let shared = &context.shared;
    assert_eq!(
        shared.observed.stats.compiles.get() + shared.observed.stats.carried_over.get(),
        20_000
    );
    assert!(shared.cache.len() <= PROGRAMS.entries && shared.cache.bytes() <= PROGRAMS.bytes);
    let trace = context.trace.lock().unwrap();
    assert!(trace.known_traces() <= 256);
    assert_eq!(trace.live_buffers(), 0);
    let memory = shared.backend.pool().stats();
    assert!(memory.live_bytes < 1 << 20, "{memory:?}");
}

#[test]
fn a_step_that_comes_again_leaves_nothing_behind() {
    let context = context("cpu", 0, 0);
    let x = stored(&context, 100, 1.0);
    let mut seen = Vec::new();
    for step in 0..10_000 {
        let y = context.new_buffer(400);
        scale(&context, x, 0.5 + step as f64, y, 100);
        add(&context, x, y, 100);
        scale(&context, x, 1.0 / (1.5 + step as f64), x, 100);
        context.drop_buffer(y);
        context.cut().unwrap();
        if step % 1000 == 10 {
            context.sync().unwrap();
            let trace = context.trace.lock().unwrap();
            let memory = context.shared.backend.pool().stats();
            let cache = &context.shared.cache;
            let held = [trace.live_buffers(), trace.known_traces(), cache.len(), cache.bytes()];
            seen.push((held, memory.live_bytes, memory.pool_bytes, memory.fresh_blocks));
        }
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
    assert_eq!(context.shared.observed.stats.compiles.get(), 1);
    assert!(floats(&context, x, 100).iter().all(|y| (y - 1.0).abs() < 1e-2));
}

/// How many operations were recorded in full, of how many steps of sizes `n`, each of which reads its result.
fn recorded_in_full(context: &Context, sizes: impl Iterator<Item = usize>) -> u64 {
    let stats = &context.shared.observed.stats;
    let in_full = || stats.recorded_ops.get() - stats.replayed_ops.get();
    let before = in_full();
    for n in sizes {
        let x = stored(context, n, n as f32);
        let y = context.new_buffer(4 * n);
        scale(context, x, 2.0, y, n as i64);
        add(context, y, x, n as i64);
        assert_eq!(floats(context, y, n), vec![3.0 * n as f32; n]);
        context.sync().unwrap();
        context.drop_buffer(x);
        context.drop_buffer(y);
    }
    in_full() - before
}

#[test]
fn sizes_that_grow_evenly_are_prefetched() {
    let context = context("cpu", 0, 0);
    let stats = &context.shared.observed.stats;
    // Two are compiled, three show the stride, and it takes one more until what was prefetched comes.
    assert_eq!(recorded_in_full(&context, (100..160).step_by(3)), 2 * 6);
    assert_eq!((stats.compiles.get(), stats.carried_over.get()), (2, 18));
    assert_eq!((stats.cache_misses.get(), stats.prefetched.get()), (6, 14));
    // In any direction, and what was prefetched and did not come is wrong for nobody.
    assert_eq!(recorded_in_full(&context, (60..90).rev()), 2 * 4);
    let irregular = [250, 270, 251, 271, 252, 290, 253];
    assert_eq!(recorded_in_full(&context, irregular.into_iter()), 2 * 7);
    assert_eq!(stats.compiles.get(), 2);
}

#[test]
fn a_loop_without_a_cut_is_cut_at_whole_iterations() {
    let context = context("cpu", 100, 0);
    let x = stored(&context, 4, 1.0);
    let before = stored(&context, 4, 1.0);
    // Something else first, so that the first cut comes in the middle of an iteration.
    (0..5).for_each(|_| add(&context, before, before, 4));
    let mut expected = 1.0;
    for turn in 0..1000 {
        let y = context.new_buffer(16);
        scale(&context, x, 0.25, y, 4);
        scale(&context, y, 1.0 + turn as f64, y, 4);
        add(&context, y, y, 4);
        scale(&context, y, 2.0 / (1.0 + turn as f64), y, 4);
        add(&context, x, y, 4);
        scale(&context, x, 0.5, x, 4);
        scale(&context, x, 1.01, x, 4);
        context.drop_buffer(y);
        expected *= 1.01;
    }
    let stats = &context.shared.observed.stats;
    assert!(stats.limit_cuts.get() >= 69 && stats.limit_cuts.get() < 80);
    let full = stats.recorded_ops.get() - stats.replayed_ops.get();
    assert!(full <= 200 && stats.compiles.get() <= 3, "{full} {}", stats.compiles.get());
    let result = floats(&context, x, 4);
    assert!(
        result.iter().all(|&y| (y / expected as f32 - 1.0).abs() < 1e-3),
        "{result:?} {expected}"
    );
}

#[test]
fn a_loop_that_uses_up_inputs_is_cut_by_their_bytes() {
    let n = 1 << 14;
    let context = context("cpu", 0, 1 << 20);
    let sum = stored(&context, n, 0.0);
    for _ in 0..1000 {
        let batch = stored(&context, n, 1.0);
        add(&context, sum, batch, n as i64);
        context.drop_buffer(batch);
    }
    let stats = &context.shared.observed.stats;
    // 16 batches that were dropped are 1 MiB.
    assert!((55..64).contains(&stats.limit_cuts.get()), "{}", stats.limit_cuts.get());
    assert!(floats(&context, sum, n).iter().all(|&x| x == 1000.0));
    assert!(stats.compiles.get() <= 3);
    let peak = context.shared.backend.pool().stats().peak_bytes;
    // One trace that grows, and those that wait for their turn.
    assert!(peak < 14 << 20, "{peak}");
}

#[test]
fn what_is_replaced_or_overwritten_counts_once() {
    let n = 1 << 18;
    let context = context("cpu", 0, 8 << 20);
    let (x, batch) = (stored(&context, n, 0.0), stored(&context, n, 1.0));
    // In place: the program may donate it, so nothing is kept.
    (0..50).for_each(|_| add(&context, x, batch, n as i64));
    assert_eq!(context.shared.observed.stats.limit_cuts.get(), 0);
    for _ in 0..20 {
        context.write(batch, &1f32.to_le_bytes().repeat(n)).unwrap();
        add(&context, x, batch, n as i64);
    }
    assert_eq!(context.shared.observed.stats.limit_cuts.get(), 2, "20 batches of 1 MiB");
    assert!(floats(&context, x, n).iter().all(|&x| x == 70.0));
}

#[test]
fn who_cuts_faster_than_programs_run_waits() {
    let context = context("cpu", 0, 0);
    let cuts = Arc::new(AtomicUsize::new(0));
    let (runs, lead) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (seen, most) = (cuts.clone(), lead.clone());
    let function =
        Box::new(move |_: &[crate::op::host::HostArg], _: &[crate::op::host::HostTensor]| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            most.fetch_max(seen.load(SeqCst) - runs.fetch_add(1, SeqCst), SeqCst);
            Ok(())
        });
    let name = "runtime tests, slow";
    let op = Operator::Host(register(HostOp {
        name: name.into(),
        key: name.into(),
        function,
        shape: None,
        cuda: None,
        device_function: None,
    }));
    let (x, view) = (stored(&context, 4, 1.0), view(4));
    for _ in 0..200 {
        let args = [ArgRef::Tensor(TensorRef::new(x, &view))];
        let out = [TensorRef::new(x, &view)];
        context.record(&crate::trace::Call { op, args: &args, outs: &out }).unwrap();
        cuts.fetch_add(1, SeqCst);
        context.cut().unwrap();
    }
    context.sync().unwrap();
    assert!(lead.load(SeqCst) <= 10, "{} programs ahead", lead.load(SeqCst));
}

#[test]
fn a_value_is_waited_for_without_a_cut() {
    let context = context("cpu", 0, 0);
    let x = stored(&context, 4, 3.0);
    let y = context.new_buffer(16);
    scale(&context, x, 2.0, y, 4);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut bytes = [0; 4];
            context.read_after_cut(y, 4, &mut bytes).unwrap();
            f32::from_le_bytes(bytes)
        });
        scale(&context, x, 0.5, x, 4);
        assert_eq!(context.shared.observed.stats.cuts.get(), 0);
        context.request(y).unwrap();
        assert_eq!(reader.join().unwrap(), 6.0);
    });
    context.request(y).unwrap();
    let counters = &context.shared.observed.stats;
    assert_eq!((counters.cuts.get(), counters.read_cuts.get()), (1, 1));
    assert!(context.read_after_cut(y, 15, &mut [0; 2]).is_err());
    assert_eq!(floats(&context, x, 4), [1.5; 4]);
}

/// Who first asks what to tell may come after the first cut.
#[test]
fn a_warning_waits_until_there_is_somebody_to_tell() {
    let context = context("reference", 0, 0);
    context.shared.observed.warn("something is missing".into());
    context.sync().unwrap();
    let notified = Arc::new(Mutex::new(Vec::new()));
    let ours = notified.clone();
    context.set_log(Box::new(move |_, message, _| ours.lock().push(message.to_string())));
    for _ in 0..2 {
        context.sync().unwrap();
        assert_eq!(*notified.lock(), ["something is missing"]);
    }
}
