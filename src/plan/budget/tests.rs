use crate::buffer::size_class::block_bytes;
use crate::dtype::DType::{F32, I64};
use crate::graph::text::parse;
use crate::graph::{Graph, Node, ValueId};
use crate::op::collective::{self, Kind, TOKEN, gathered};
use crate::op::host::{HostOp, register};
use crate::op::{Attr, Op};
use crate::plan::random::{Dice, random_program};
use crate::plan::tests::{NoWorkspace, WithLanes, leaves};
use crate::plan::training::{Make, training_step};
use crate::plan::{Cost, Limit, Plan, PlanMode, Step, Target, check, plan_unplaced};
use smallvec::smallvec;

fn planned(graph: &Graph, donors: &[Option<u32>], mode: PlanMode) -> (Plan, Option<Cost>) {
    planned_for(&NoWorkspace, graph, donors, mode)
}

/// The plan, which its own decisions give again, and what the limit cost.
fn planned_for(
    target: &dyn Target,
    graph: &Graph,
    donors: &[Option<u32>],
    mode: PlanMode,
) -> (Plan, Option<Cost>) {
    let (inputs, scalars) = leaves(graph);
    let planned = |mode| plan_unplaced(graph, &inputs, &scalars, donors, target, mode).unwrap();
    let (unplaced, decisions) = planned(mode);
    assert!(planned(PlanMode::Guided(&decisions)).0 == unplaced);
    let plan = unplaced.placed();
    check::check(graph, &plan).unwrap();
    (plan, decisions.cost())
}

#[test]
fn a_training_step_fits_into_a_part_of_its_memory_for_a_little_time() {
    for layers in [6, 12] {
        let (graph, donors) = training_step(layers, 8, 64, 64, 256);
        let all = planned(&graph, &donors, PlanMode::Search).0;
        for (percent, most) in [(100, 1.0), (80, 1.06), (60, 1.13), (40, 1.2), (30, 1.3)] {
            let limit = all.memory_of_results() + block_bytes(all.arena_bytes * percent / 100);
            let (plan, cost) = planned(&graph, &donors, PlanMode::Within(Limit::of(limit)));
            assert!(plan.memory() <= limit, "{layers} layers, {percent} %: {}", plan.memory());
            assert_eq!(cost.is_some(), percent < 100);
            let time = cost.map_or(1.0, |cost| cost.time);
            assert!(time <= most, "{layers} layers, {percent} %: {time}");
            // No larger a block than 1.03 of the bound takes.
            let most = block_bytes(plan.lower_bound * 103 / 100);
            let arena = block_bytes(plan.arena_bytes);
            assert!(percent < 40 || arena <= most, "{layers} layers, {percent} %: {arena}");
        }
    }
}

#[test]
fn values_wait_on_the_host_where_a_device_has_other_memory() {
    let (graph, donors) = training_step(4, 8, 256, 1024, 1024);
    let within =
        |target: &dyn Target, limit| planned_for(target, &graph, &donors, PlanMode::Within(limit));
    let offloads = |plan: &Plan| plan.steps.iter().filter(|step| step.is_chosen_offload()).count();
    let all = planned_for(&WithLanes, &graph, &donors, PlanMode::Search).0;
    for (percent, most) in [(80, 1.0), (60, 1.03), (40, 1.15)] {
        let bytes = all.memory_of_results() + block_bytes(all.arena_bytes * percent / 100);
        let (plan, cost) = within(&WithLanes, Limit::of(bytes));
        let (without, alone) = within(&WithLanes, Limit { bytes, on_host: 0 });
        let time = cost.unwrap().time;
        assert!(plan.memory() <= bytes && time <= most, "{percent} %: {time}");
        assert!(without.memory() > bytes || time <= alone.unwrap().time, "{percent} %: {time}");
        assert!(offloads(&without) == 0 && without.host_bytes == 0);
        if percent < 80 {
            assert!(offloads(&plan) > 0 && plan.copies_on_lanes() > 0, "{percent} %\n{plan}");
        }
        // No more than there is room for.
        let on_host = plan.host_bytes / 2;
        let (less, _) = within(&WithLanes, Limit { bytes, on_host });
        assert!(less.host_bytes <= on_host, "{percent} %: {} of {on_host}", less.host_bytes);
    }
}

#[test]
fn what_does_not_fit_is_the_least_that_is_found() {
    let (graph, donors) = training_step(6, 8, 64, 64, 256);
    let all = planned(&graph, &donors, PlanMode::Search).0.memory();
    let least = planned(&graph, &donors, PlanMode::Within(Limit::of(1))).0.memory();
    assert!(least < all / 5, "{least} of {all}");
    assert!(planned(&graph, &donors, PlanMode::Within(Limit::of(least))).0.memory() <= least);
}

#[test]
fn random_programs_stay_within_random_limits_or_take_less_than_before() {
    let (mut fitted, mut refused) = (0, 0);
    for seed in 0..600 {
        let (graph, donors) = random_program(seed);
        let all = planned(&graph, &donors, PlanMode::Search).0;
        let less = Dice(seed).below(all.arena_bytes as usize / 2 + 1) as u64;
        let (all, limit) = (all.memory(), all.memory().saturating_sub(less + 1));
        let (plan, cost) = planned(&graph, &donors, PlanMode::Within(Limit::of(limit)));
        assert!(plan.memory() <= all, "seed {seed}: {} of {all}", plan.memory());
        match plan.memory() <= limit {
            true => fitted += cost.is_some() as usize,
            false => refused += 1,
        }
    }
    assert!(fitted > 5 && refused > 5, "{fitted} fitted, {refused} did not");
}

#[test]
fn a_cpu_fallback_runs_once() {
    register(HostOp {
        name: "test::once".into(),
        key: "plan budget once".into(),
        function: Box::new(|_, _| Ok(())),
        shape: None,
        cuda: None,
        device_function: None,
    });
    // %1 and %2 wait for the last lines, over %5: only %2 can be made again.
    let graph = "
        %0: f32[256] = input() {index=0, type=(f32[256])}
        %1: f32[256] = host(%0) {op=\"plan budget once\", types=(f32[256]), args=<tensor>}
        %2: f32[256] = cumsum(%1) {axis=0}
        %3: f32[256] = cumsum(%2) {axis=0}
        %4: f32[256] = cumsum(%3) {axis=0}
        %5: f32[256] = cumsum(%4) {axis=0}
        %6: f32[256] = add(%5, %2)
        %7: f32[256] = add(%6, %1)
        return %7
        ";
    let lines: Vec<&str> = graph.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let graph = parse(&lines.join("\n")).unwrap();
    let (all, _) = planned(&graph, &[None], PlanMode::Search);
    let (plan, cost) = planned(&graph, &[None], PlanMode::Within(Limit::of(all.memory() - 1)));
    assert!(plan.memory() < all.memory() && cost.is_some());
    assert_eq!(plan.steps.len(), all.steps.len() + 1);
}

/// Number of layers of [`sharded`], and rows of what goes through them.
const LAYERS: usize = 6;
const ROWS: i64 = 4096;
const WIDTH: i64 = 256;

/// A step whose weights, two a layer, are gathered before the forward pass and again before the backward pass, by the communicators
/// of the given scalars, `what` the second time; its gradients are scattered.
fn sharded(before: u32, again: u32, what: i64) -> (Graph, Vec<Option<u32>>) {
    const RANKS: i64 = 2;
    let mut m = Make::default();
    let rank = m.0.scalar(2, I64).unwrap();
    let mut communicators = [0, 1].map(|n| {
        let communicator = m.0.scalar(n, I64).unwrap();
        [communicator, m.input(n, TOKEN.0, &TOKEN.1), rank]
    });
    let mut collective = |m: &mut Make, kind: Kind, how: i64, x, n: u32| {
        let of = &mut communicators[n as usize];
        let [y, token] = m.collective((kind, how), x, RANKS, *of);
        of[1] = token;
        y
    };
    let weights = |m: &mut Make, both| [0, WIDTH].map(|row| m.slice(both, &[row, 0], &[WIDTH; 2]));
    let mut h = m.input(2, F32, &[ROWS, WIDTH]);
    let shards: Vec<_> =
        (0..LAYERS as u32).map(|n| m.input(3 + n, F32, &[2 * WIDTH / RANKS, WIDTH])).collect();
    let mut kept = Vec::new();
    for &shard in &shards {
        let both = collective(&mut m, Kind::AllGather, gathered::PARAMETERS, shard, before);
        let [first, second] = weights(&mut m, both);
        let inside = m.matmul(h, first);
        let inside = m.unary(Op::Tanh, inside);
        kept.push([h, inside]);
        h = m.matmul(inside, second);
    }
    let mut gradient = h;
    let mut outputs = Vec::new();
    for layer in (0..LAYERS).rev() {
        let both = collective(&mut m, Kind::AllGather, what, shards[layer], again);
        let [first, second] = weights(&mut m, both).map(|weight| m.transpose(weight, &[1, 0]));
        let [h, inside] = kept[layer];
        let [to_h, to_inside] = [h, inside].map(|x| m.transpose(x, &[1, 0]));
        let of_second = m.matmul(to_inside, gradient);
        let square = m.binary(Op::Mul, inside, inside);
        let slope = m.with(Op::Sub, square, 1.0);
        gradient = m.matmul(gradient, second);
        gradient = m.binary(Op::Mul, gradient, slope);
        let of_first = m.matmul(to_h, gradient);
        let both = m.ops(Op::Concat, &[of_first, of_second], smallvec![Attr::Int(0)])[0];
        outputs.push(collective(&mut m, Kind::ReduceScatter, 0, both, 0));
        gradient = m.matmul(gradient, first);
    }
    outputs.extend(communicators.map(|of| of[1]));
    let n = outputs.len();
    (m.0.finish(outputs), vec![None; n])
}

/// Results of gathers that the later ones of two equal steps read, by the number of the step.
fn read_by_repeated(graph: &Graph, plan: &Plan) -> Vec<ValueId> {
    let is_gathered = |&value: &ValueId| {
        let kind = |maker: &Node| collective::of(&maker.attrs).map(|(kind, _)| kind);
        kind(graph.maker(value)) == Some(Kind::AllGather)
    };
    let mut found = Vec::new();
    for (at, step) in plan.steps.iter().enumerate() {
        let is_same = |other: &Step| other.results_of == step.results_of;
        if plan.steps[..at].iter().any(is_same) {
            found.extend(step.reads_of.iter().copied().filter(is_gathered));
        }
    }
    found
}

#[test]
fn what_is_computed_again_reads_what_is_gathered_again() {
    let activation = (ROWS * WIDTH * 4) as u64;
    let (graph, donors) = sharded(0, 0, gathered::PARAMETERS_AGAIN);
    let all = planned_for(&WithLanes, &graph, &donors, PlanMode::Search).0;
    let within = |graph: &Graph, donors: &[Option<u32>]| {
        let bytes = all.memory_of_results() + block_bytes(all.arena_bytes - 3 * activation);
        let limit = Limit { bytes, on_host: 0 };
        let (plan, cost) = planned_for(&WithLanes, graph, donors, PlanMode::Within(limit));
        (plan.memory() <= bytes, plan, cost)
    };
    let (fits, plan, cost) = within(&graph, &donors);
    let time = cost.unwrap().time;
    assert!(fits && time < 1.3, "{time}\n{plan}");
    let read = read_by_repeated(&graph, &plan);
    assert!(
        read.len() > 1 && read.iter().all(|value| is_second(&graph, value)),
        "{read:?}\n{plan}"
    );
    // Another communicator may gather something else, and so may this one.
    for (again, what) in [(1, gathered::PARAMETERS_AGAIN), (0, gathered::PARAMETERS)] {
        let (graph, donors) = sharded(0, again, what);
        let (_, plan, _) = within(&graph, &donors);
        let is_first = |value: &ValueId| {
            let [Attr::Int(communicator), ..] =
                &graph.maker(graph.maker(*value).inputs[1]).attrs[..]
            else {
                return false;
            };
            *communicator == 0 && !is_second(&graph, value)
        };
        let read = read_by_repeated(&graph, &plan);
        assert!(read.iter().all(is_first), "{read:?}\n{plan}");
    }
}

/// Whether a gather is the last one of its tensor.
fn is_second(graph: &Graph, value: &ValueId) -> bool {
    let given = graph.maker(*value).inputs[0];
    let equal = graph.nodes.iter().filter(|node| node.op == Op::Host && node.inputs[0] == given);
    equal.map(|node| node.first).max() == Some(graph.maker(*value).first)
}
