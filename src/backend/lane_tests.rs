//! Collectives on lanes: the same bits whatever runs beside them and however long they take, and failures that go no further
//! than they must.

use super::cpu::{Cpu, onednn::Search};
use super::cuda::Cuda;
use super::cuda::emulated::{Emulated, slice};
use super::memory::Pool;
use super::plan_tests::{run, run_by, some_inputs};
use super::{Backend, Call, Outcome, Watch};
use crate::error::{Code, Error, Result};
use crate::graph::interpret::interpret;
use crate::graph::{Graph, ValueId};
use crate::op::array::Array;
use crate::op::collective::{
    self, Communicator, DeviceFunction, Function, Kind, Pending, Together, register,
};
use crate::op::host::HostTensor;
use crate::op::lane::Ended;
use crate::plan::random::{
    COMMUNICATORS, FIRST_COMMUNICATOR, RANKS, random_lanes_program, random_ranks_program,
};
use crate::plan::tests::{leaves, plan_for, plan_sharing};
use crate::plan::{self, Kernel, Limit, Plan, PlanMode, Step, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

fn bytes(tensor: &HostTensor) -> &mut [u8] {
    slice(tensor.data, tensor.sizes.iter().product::<i64>() as usize * tensor.dtype.size())
}

/// The result if all ranks had the data of this one: rows again and again, or the first of them, times a number.
fn filled(x: &HostTensor, y: &HostTensor, times: f32) {
    let (from, to) = (bytes(x), bytes(y));
    for (at, four) in to.chunks_exact_mut(4).enumerate() {
        let at = 4 * at % from.len();
        let number = f32::from_le_bytes([0, 1, 2, 3].map(|i| from[at + i]));
        four.copy_from_slice(&(number * times).to_le_bytes());
    }
}

/// Behaviour of a communicator.
#[derive(Clone, Copy)]
struct Way {
    has_lane: bool,
    /// The collective that fails, of all that it is asked for.
    fails_at: u64,
    /// Collectives waiting on the lane are done together where possible, the last one first.
    is_merged: bool,
}

const SERIAL: Way = Way { has_lane: false, fails_at: u64::MAX, is_merged: false };
const ON_LANE: Way = Way { has_lane: true, ..SERIAL };
const MERGED: Way = Way { is_merged: true, ..ON_LANE };

static MERGES: AtomicU64 = AtomicU64::new(0);

fn together(waiting: &[(&Pending, usize)]) -> (usize, Result<()>) {
    // Time for others to come.
    std::thread::sleep(Duration::from_micros(200));
    let count = waiting.iter().take_while(|(_, after)| *after == 0).count();
    for (one, _) in waiting[..count].iter().rev() {
        let times = if one.kind == Kind::AllGather { 1.0 } else { RANKS as f32 };
        filled(&one.input, &one.output, times);
    }
    MERGES.fetch_add(count as u64 - 1, SeqCst);
    (count, Ok(()))
}

fn communicator(name: &str, way: Way) -> Communicator {
    let asked = Arc::new(AtomicU64::new(0));
    let function = |times: f32| -> Option<Function> {
        let asked = asked.clone();
        Some(Box::new(move |_, x, y| {
            let number = asked.fetch_add(1, SeqCst);
            std::thread::sleep(Duration::from_micros(number * 7919 % 300));
            if number == way.fails_at {
                return Err(Error::new(Code::OperatorError, "a rank is gone"));
            }
            filled(x, y, times);
            Ok(())
        }))
    };
    let sum = RANKS as f32;
    let (reduce, gather, scatter) = (function(sum), function(1.0), function(sum));
    Communicator {
        name: name.into(),
        rank: 0,
        size: RANKS,
        functions: [reduce, gather, scatter, None, None, None, None, None, None],
        device_functions: [const { None }; _],
        together: way.is_merged.then(|| Box::new(together) as Together),
        lane: way.has_lane.then(collective::lane),
    }
}

/// One that works on the memory of a device, as late as can be.
fn on_device(name: &str, device: &Arc<Emulated>) -> Communicator {
    let function = |times: f32| -> Option<DeviceFunction> {
        let device = device.clone();
        Some(Box::new(move |_, _, x, y| {
            let (x, y) = (x.clone(), y.clone());
            device.later(Box::new(move || filled(&x, &y, times)));
            Ok(())
        }))
    };
    let sum = RANKS as f32;
    let (reduce, gather, scatter) = (function(sum), function(1.0), function(sum));
    let device_functions = [reduce, gather, scatter, None, None, None, None];
    Communicator { device_functions, ..communicator(name, ON_LANE) }
}

/// Communicators for a random program; writes their numbers into its scalars.
fn communicators(scalars: &mut [u64], way: Way) -> Vec<Arc<Communicator>> {
    registered(scalars, |name| communicator(name, way))
}

fn registered(
    scalars: &mut [u64],
    communicator: impl Fn(&str) -> Communicator,
) -> Vec<Arc<Communicator>> {
    let made: Vec<_> =
        (0..COMMUNICATORS).map(|n| Arc::new(communicator(&format!("{n}")))).collect();
    for (slot, communicator) in made.iter().enumerate() {
        if let Some(scalar) = scalars.get_mut(FIRST_COMMUNICATOR as usize + slot) {
            *scalar = register(communicator);
        }
    }
    made
}

fn cpu() -> Cpu {
    Cpu::new(2, Search::Off)
}

#[test]
fn random_programs_have_the_same_bits_on_lanes() {
    let (mut in_flight, mut in_flight_within, mut saved, mut of_other) = (0, 0, 0, 0);
    let (backend, serial) = (cpu(), cpu().with_lanes(false));
    for seed in 0..150 {
        let (graph, donors) = random_ranks_program(seed);
        let plan = plan_sharing(&backend, &graph, &donors);
        let on_lanes = |plan: &Plan| plan.steps.iter().filter(|step| step.done.is_some()).count();
        in_flight += on_lanes(&plan);
        let (arrays, mut scalars) = some_inputs(&plan, seed);
        let _kept = communicators(&mut scalars, ON_LANE);
        let found = run(&backend, &plan, &arrays, &scalars);
        let _others = communicators(&mut scalars, MERGED);
        let merged = run(&backend, &plan, &arrays, &scalars);
        let _others = communicators(&mut scalars, SERIAL);
        let plain = plan_for(&serial, &graph, &donors);
        assert!(plain.steps.iter().all(|step| step.done.is_none()));
        let values = COMMUNICATORS..found.len();
        let one_by_one = run(&serial, &plain, &arrays, &scalars);
        for found in [&found, &merged] {
            let found = bits(&found[values.clone()]);
            assert_eq!(found, bits(&one_by_one[values.clone()]), "seed {seed}");
        }
        // Within three quarters of the memory, or as near to that as can be.
        let limited = plan_within(&backend, &graph, &donors, plan.memory() / 4 * 3);
        in_flight_within += on_lanes(&limited);
        let _again = communicators(&mut scalars, ON_LANE);
        let computed_again = run(&backend, &limited, &arrays, &scalars);
        assert_eq!(bits(&found[values.clone()]), bits(&computed_again[values.clone()]), "{seed}");
        saved += u64::from(limited.memory() < plan.memory());
        of_other += reads_of_other_gathers(&graph, &limited);
        let wanted = interpret(&graph, &arrays, &scalars).unwrap();
        for (a, b) in found[values.clone()].iter().zip(&wanted[values]) {
            let near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()) || a.is_nan();
            let mut pairs = a.to_f64s().into_iter().zip(b.to_f64s());
            assert!(pairs.all(near), "seed {seed}\n{plan}");
        }
    }
    assert!(MERGES.load(SeqCst) > 20, "{MERGES:?} collectives went with others");
    assert!(in_flight > 200, "{in_flight} collectives were on lanes");
    assert!(in_flight_within > in_flight / 2, "{in_flight_within} of {in_flight} within limits");
    assert!(saved > 20, "{saved} programs could do with less");
    assert!(of_other > 2, "{of_other} times another gather of the same was read");
}

/// Number of operands of one-to-one steps that are what another gather gave than the graph names.
fn reads_of_other_gathers(graph: &Graph, plan: &Plan) -> usize {
    let is_gathered = |value: &&ValueId| {
        collective::of(&graph.maker(**value).attrs).is_some_and(|(kind, _)| kind == Kind::AllGather)
    };
    let others = |step: &Step| {
        let named = &graph.maker(step.results_of[0]).inputs;
        let gathered = step.reads_of.iter().filter(is_gathered);
        gathered.filter(|value| !named.contains(value)).count()
    };
    let nodes = plan.steps.iter().filter(|step| matches!(step.kernel, Kernel::Node { .. }));
    nodes.map(others).sum()
}

/// Counts what is in flight.
#[derive(Default)]
struct Landed(AtomicU64);

impl Watch for Landed {
    fn begin(&self, _: usize) {}
    fn was_copied(&self) {}
    fn end(&self, _: usize, _: bool) {}

    fn landed(&self, _: usize, ended: &Ended) {
        assert!(ended.result.is_ok() && ended.began_at <= ended.ended_at);
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn random_programs_have_the_same_bits_on_side_streams() {
    let device = Arc::new(Emulated::default());
    let cuda = |lanes| Cuda::new(device.clone(), Pool::new(), true).with_lanes(lanes);
    let (backend, serial, landed) = (cuda(true), cuda(false), Landed::default());
    let (mut in_flight, mut copies, mut differ, mut chosen) = (0, 0, 0, 0);
    for seed in 0..16 {
        let (graph, donors) = random_lanes_program(seed);
        let plan = plan_sharing(&backend, &graph, &donors);
        let plain = plan_for(&serial, &graph, &donors);
        let on_lanes = || plan.steps.iter().filter(|step| step.done.is_some());
        in_flight += on_lanes().count();
        copies += on_lanes().filter(|step| step.kernel.is_copy()).count();
        differ += u64::from(plan.to_string() != plain.to_string());
        let (arrays, mut scalars) = some_inputs(&plan, seed);
        let _kept = registered(&mut scalars, |name| on_device(name, &device));
        let found = run(&backend, &plan, &arrays, &scalars);
        let watched = run_by(&backend, &plan, (&arrays, &scalars), |executable, call| {
            executable.run(&Call { watch: Some(&landed), ..*call })
        });
        let on_one_stream = run(&serial, &plain, &arrays, &scalars);
        let in_less = [3, 2].map(|quarters| {
            let limited = plan_within(&backend, &graph, &donors, plan.memory() / 4 * quarters);
            chosen += limited.steps.iter().filter(|step| step.is_chosen_offload()).count();
            run(&backend, &limited, &arrays, &scalars)
        });
        let _others = communicators(&mut scalars, SERIAL);
        let on_host = run(&serial, &plain, &arrays, &scalars);
        let values = COMMUNICATORS..found.len();
        for one in [&found, &watched, &on_one_stream].into_iter().chain(&in_less) {
            assert_eq!(bits(&one[values.clone()]), bits(&on_host[values.clone()]), "seed {seed}");
        }
    }
    assert!(in_flight > copies + 8 && differ > 2, "{in_flight} were on lanes, {differ} differ");
    assert!(copies > 3 && chosen > 3, "{copies} copies were on lanes, {chosen} were chosen");
    assert_eq!(landed.0.load(SeqCst), in_flight as u64);
}

/// Checked, as all plans are.
fn plan_within(target: &dyn Target, graph: &Graph, donors: &[Option<u32>], limit: u64) -> Plan {
    let (inputs, scalars) = leaves(graph);
    let mode = PlanMode::Within(Limit::of(limit));
    let made = plan::plan_unplaced(graph, &inputs, &scalars, donors, target, mode);
    let plan = made.unwrap().0.placed();
    plan::check::check(graph, &plan).unwrap();
    plan
}

fn bits(arrays: &[Array]) -> Vec<&[u8]> {
    arrays.iter().map(|array| &array.bytes[..]).collect()
}

/// Outputs that fail when collective `fails_at` of each communicator does, and errors that no output shows.
fn failed(way: Way, graph: &Graph, donors: &[Option<u32>], seed: u64) -> Result<Vec<u32>> {
    let backend = cpu();
    let plan = plan_for(&backend, graph, donors);
    let (arrays, mut scalars) = some_inputs(&plan, seed);
    let _kept = communicators(&mut scalars, way);
    let inputs: Vec<Vec<u8>> = arrays.iter().map(|array| array.bytes.clone()).collect();
    let outputs: Vec<Vec<u8>> = plan.outputs.iter().map(|ty| vec![0; ty.nbytes()]).collect();
    let arena = backend.allocate(plan.arena_bytes as usize)?;
    let host = backend.allocate_on_host(plan.host_bytes as usize)?;
    let results = backend.allocate(plan.results_bytes as usize)?;
    let address = |bytes: &Vec<u8>| bytes.as_ptr() as usize;
    let of_output = |k: usize| plan.donors[k].map_or(&outputs[k], |i| &inputs[i as usize]);
    let call = Call {
        inputs: &inputs.iter().map(address).collect::<Vec<_>>(),
        poisoned: &[],
        derived: &[],
        outputs: &(0..outputs.len()).map(|k| address(of_output(k))).collect::<Vec<_>>(),
        arena: arena.address(),
        host: host.address(),
        results: results.address(),
        scalars: &scalars,
        watch: None,
    };
    let Outcome { failed, unseen } = backend.compile(Arc::new(plan))?.run(&call);
    let errors = failed.iter().map(|f| &f.error).chain(unseen.iter().map(|(_, error)| error));
    for error in errors {
        assert!(error.message.contains("a rank is gone"), "seed {seed}: {error}");
    }
    Ok(failed.iter().map(|failure| failure.output).collect())
}

#[test]
fn a_failure_on_a_lane_goes_as_far_as_without() {
    let mut some = 0;
    for seed in 0..100 {
        let (graph, donors) = random_ranks_program(seed);
        for fails_at in 0..3 {
            let [alone, on_lane] = [SERIAL, ON_LANE]
                .map(|way| Way { fails_at, ..way })
                .map(|way| failed(way, &graph, &donors, seed).unwrap());
            assert_eq!(alone, on_lane, "seed {seed}, collective {fails_at} fails");
            some += alone.len();
        }
    }
    assert!(some > 50, "{some} outputs failed");
}
