use crate::buffer::size_class::block_bytes;
use crate::graph::Graph;
use crate::graph::text::parse;
use crate::op::host::{HostOp, register};
use crate::plan::random::{Dice, random_program};
use crate::plan::tests::{NoWorkspace, WithLanes, leaves};
use crate::plan::training::training_step;
use crate::plan::{Cost, Limit, Plan, PlanMode, Target, check, plan_unplaced};

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
