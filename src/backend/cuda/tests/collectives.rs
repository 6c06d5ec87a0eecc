//! Collectives that overlap the steps of a program, done as early and as late as can be.

use super::super::Cuda;
use super::super::device::Device;
use super::super::emulated::{Emulated, slice};
use crate::backend::memory::Pool;
use crate::backend::{Backend, Call, Outcome};
use crate::dtype::DType::{F32, I64};
use crate::error::{Code, Error};
use crate::graph::{Graph, ValueId};
use crate::op::array::Array;
use crate::op::collective::{Communicator, DeviceFunction, Function, Kind, TOKEN, register};
use crate::op::host::HostTensor;
use crate::op::{Attr, Op};
use crate::plan::plan;
use crate::plan::tests::leaves;
use crate::plan::training::Make;
use smallvec::smallvec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Elements, of which sums are sums of parts.
const N: usize = 20_000;
/// More than it takes for a run without collectives to be captured.
const RUNS: u64 = 4;
/// Of sums: so many ranks have what this one has.
const RANKS: f32 = 3.0;

/// How a rank does its collectives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    OnHost,
    Early,
    Late,
    /// The second one of a run fails.
    Failing,
}

fn sum(x: usize, y: usize, nbytes: usize) {
    for at in (0..nbytes).step_by(4) {
        let number = f32::from_le_bytes([0, 1, 2, 3].map(|i| slice(x + at + i, 1)[0]));
        slice(y + at, 4).copy_from_slice(&(number * RANKS).to_le_bytes());
    }
}

/// What a communicator has seen.
#[derive(Default)]
struct Seen {
    /// How often it was asked, of the device's memory.
    asked: AtomicU64,
    /// Launches that came between what it was asked for and what it did.
    between: AtomicU64,
}

fn communicator(way: Way, device: &Arc<Emulated>) -> (Arc<Communicator>, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let (device, counted) = (device.clone(), seen.clone());
    let on_host: Function = Box::new(|_, x, y| {
        sum(x.data, y.data, 4 * N);
        Ok(())
    });
    let on_device: DeviceFunction = Box::new(move |_, _, x: &HostTensor, y: &HostTensor| {
        let (x, y, counted) = (x.data, y.data, counted.clone());
        let launches = device.launches.clone();
        let before = launches.load(Ordering::Relaxed);
        let asked = counted.asked.fetch_add(1, Ordering::Relaxed);
        match way {
            Way::Failing if asked % 2 == 1 => {
                return Err(Error::new(Code::OperatorError, "a rank is gone"));
            }
            Way::Late => device.later(Box::new(move || {
                let between = launches.load(Ordering::Relaxed) - before;
                counted.between.fetch_add(between, Ordering::Relaxed);
                sum(x, y, 4 * N);
            })),
            _ => sum(x, y, 4 * N),
        }
        Ok(())
    });
    let communicator = Communicator {
        name: format!("{way:?}"),
        rank: 0,
        size: RANKS as i64,
        functions: [Some(on_host), None, None, None, None, None, None, None, None],
        device_functions: [
            Some(on_device).filter(|_| way != Way::OnHost),
            None,
            None,
            None,
            None,
            None,
            None,
        ],
        together: None,
        lane: None,
    };
    (Arc::new(communicator), seen)
}

/// Sums over the ranks of what is made of input 0, with work between them and their users, which takes their operands' memory.
fn graph() -> Graph {
    let mut m = Make::default();
    let x = m.input(0, F32, &[N as i64]);
    let token = m.input(1, TOKEN.0, &TOKEN.1);
    let [number, rank] = [0, 1].map(|slot| m.0.scalar(slot, I64).unwrap());
    let reduce = |m: &mut Make, x: ValueId, token: ValueId| {
        m.collective((Kind::AllReduce, 0), x, RANKS as i64, [number, token, rank])
    };
    // Kernels of their own: sums of rows are not fused with what comes after them.
    let total = |m: &mut Make, x: ValueId| m.0.reduce(Op::Sum, x, &[0], false).unwrap();
    let attrs = smallvec![Attr::Ints(smallvec![N as i64 / 2]), Attr::Int(0), Attr::DType(I64)];
    let places = m.0.op(Op::Iota, &[], attrs).unwrap();
    let [all_places, token] = reduce(&mut m, places, token);
    let y = m.with(Op::Mul, x, 0.5);
    let [all_y, token] = reduce(&mut m, y, token);
    let squares = m.0.binary(Op::Mul, x, x).unwrap();
    let scale = total(&mut m, squares);
    let z = m.binary(Op::Div, x, scale);
    let [all_z, token] = reduce(&mut m, z, token);
    let more = total(&mut m, z);
    let w = m.binary(Op::Add, all_y, more);
    let u = m.0.binary(Op::Mul, all_z, w).unwrap();
    let [all, token] = reduce(&mut m, u, token);
    m.0.finish(vec![w, all, all_places, token])
}

struct Ran {
    outputs: Vec<Vec<f32>>,
    outcome: Outcome,
    asked: u64,
    between: u64,
    launches: u64,
}

fn run(way: Way, poisoned: &[(u32, Error)]) -> Ran {
    let device = Arc::new(Emulated::default());
    let (communicator, seen) = communicator(way, &device);
    let number = register(&communicator);
    let backend = Cuda::new(device.clone(), Pool::new(), true);
    let graph = graph();
    let (inputs, scalars) = leaves(&graph);
    let plan = Arc::new(plan(&graph, &inputs, &scalars, &[None; 4], &backend).unwrap());
    let program = backend.compile(plan.clone()).unwrap();
    let memory = |nbytes: usize| {
        let address = device.allocate(nbytes.max(1)).unwrap();
        slice(address, nbytes).fill(0xEE);
        address
    };
    let numbers: Vec<f64> = (0..N).map(|i| (i % 17) as f64 * 0.25 - 1.0).collect();
    let x = memory(4 * N);
    device.write(&Array::from_f64(F32, &[N as i64], &numbers).bytes, x).unwrap();
    let outputs: Vec<usize> = plan.outputs.iter().map(|ty| memory(ty.nbytes())).collect();
    let call = Call {
        inputs: &[x, memory(4)],
        poisoned,
        derived: &[],
        outputs: &outputs,
        arena: memory(plan.arena_bytes as usize),
        host: 0,
        results: 0,
        scalars: &[number, 0],
        watch: None,
    };
    let mut outcome = Outcome::default();
    for _ in 0..RUNS {
        outcome = program.run(&call);
    }
    let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let floats = |at: usize, n: usize| slice(at, 4 * n).chunks(4).map(number).collect::<Vec<f32>>();
    Ran {
        outputs: outputs[..3].iter().map(|&at| floats(at, N)).collect(),
        outcome,
        asked: seen.asked.load(Ordering::Relaxed),
        between: seen.between.load(Ordering::Relaxed),
        launches: device.launches.load(Ordering::Relaxed),
    }
}

#[test]
fn when_a_collective_is_done_does_not_matter() {
    let [on_host, early, late] = [Way::OnHost, Way::Early, Way::Late].map(|way| run(way, &[]));
    for ran in [&on_host, &early, &late] {
        assert!(ran.outcome.failed.is_empty(), "{:?}", ran.outcome);
        assert!(ran.outputs == on_host.outputs);
    }
    let (first, x) = (on_host.outputs[0][1], -0.75);
    let squares: f32 = (0..N).map(|i| ((i % 17) as f32 * 0.25 - 1.0).powi(2)).sum();
    let total: f32 = (0..N).map(|i| (i % 17) as f32 * 0.25 - 1.0).sum::<f32>() / squares;
    assert!((first - (RANKS * 0.5 * x + total)).abs() < 1e-4, "{first}");
    assert_eq!([on_host.asked, early.asked, late.asked], [0, 4 * RUNS, 4 * RUNS]);
    // Kernels overlapped them.
    assert!(late.between > 0 && early.launches == late.launches);
}

#[test]
fn what_comes_after_a_collective_that_fails_has_its_error() {
    let ran = run(Way::Failing, &[]);
    let failed: Vec<u32> = ran.outcome.failed.iter().map(|failure| failure.output).collect();
    assert!(failed.contains(&1) && failed.contains(&3), "{failed:?}");
    let said = &ran.outcome.failed[0].error;
    assert!(said.code == Code::OperatorError && said.message.contains("a rank is gone"), "{said}");
}

#[test]
fn a_collective_is_not_asked_for_what_has_no_value() {
    let nothing = Error::new(Code::NotFound, "never made");
    let (ran, on_host) = (run(Way::Late, &[(0, nothing)]), run(Way::OnHost, &[]));
    let failed: Vec<u32> = ran.outcome.failed.iter().map(|failure| failure.output).collect();
    assert_eq!(failed, [0, 1, 3]);
    // The places have nothing to do with it.
    assert!(ran.outputs[2] == on_host.outputs[2]);
    assert_eq!(ran.asked, RUNS);
}
