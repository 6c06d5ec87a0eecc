"""What is predicted of strategies, against closed forms and published runs."""

import dataclasses
import itertools
import re

import published
import pytest
from documented import DOCS
from planned import configured, machines, small_gpt
from torchacc.auto import (
    Amount,
    Block,
    Link,
    Model,
    predict,
)
from torchacc.auto.collectives import (
    Group,
    all_gather,
    all_reduce,
    all_to_all,
    groups,
    reduce_scatter,
    send,
)
from torchacc.auto.cost import Costs, in_flight
from torchacc.auto.strategy import Strategy


@pytest.fixture
def small():
    return small_gpt()


def test_collectives_are_rings():
    link = {"latency": 0.0, "bandwidth": 1e9}
    cluster = machines(intra_node=link, inter_node=link | {"bandwidth": 1e8}, link_efficiency=1.0)
    for size in (1, 2, 8):
        group = Group(local=size)
        assert all_reduce(1e9, group, cluster) == pytest.approx(2 * (size - 1) / size)
        assert all_gather(1e9, group, cluster) == pytest.approx((size - 1) / size)
        assert all_to_all(1e9, group, cluster) == pytest.approx((size - 1) / size)
    # Four devices of each of two nodes: each exchanges a quarter with its counterpart.
    assert all_gather(1e9, Group(4, 2), cluster) == pytest.approx(3 / 4 + 10 * 1 / 2 / 4)
    slow = dataclasses.replace(cluster, intra_node=Link(1.0, 1e9))
    assert all_gather(0, Group(4), slow) == 3


def test_kinds_of_collectives_have_their_own_speed():
    link = {"latency": 0.0, "bandwidth": 1e9}
    fast = {"all_reduce": 2.0, "reduce_scatter": 0.5, "all_to_all": 4.0, "send": 0.25}
    cluster = machines(intra_node=link, link_efficiency=1.0, collectives=fast)
    group = Group(4)
    assert all_gather(1e9, group, cluster) == pytest.approx(3 / 4)
    assert all_reduce(1e9, group, cluster) == pytest.approx(2 * 3 / 4 / 2)
    assert reduce_scatter(1e9, group, cluster) == pytest.approx(3 / 4 / 0.5)
    assert all_to_all(1e9, group, cluster) == pytest.approx(3 / 4 / 4)
    assert send(1e9, group, cluster) == pytest.approx(4)


def test_groups_follow_the_topology():
    mesh = {"dp": 4, "fsdp": 2, "pp": 1, "sp": 2, "tp": 4}
    assert groups(mesh, 8) == {
        "dp": Group(1, 4),
        "fsdp": Group(1, 2),
        "pp": Group(1, 1),
        "sp": Group(2, 1),
        "tp": Group(4, 1),
    }
    near = groups(dict(reversed(mesh.items())), 8)
    assert near["dp"] == Group(4, 1)
    assert near["tp"] == Group(1, 4)
    assert groups({"fsdp": 16}, 8) == {"fsdp": Group(8, 2)}


def pipeline(schedule, micro, ranks=4, stages=1):
    return Strategy(pp=ranks, num_micro_batches=micro, schedule=schedule, stages=stages)


def test_bubbles_are_those_of_the_papers():
    blocks = tuple(Block(f"layers.{n}", matmul=Amount(0, 1e12)) for n in range(8))
    model = Model("products", Block("first"), blocks, Block("last"), sequence=1)
    link = {"latency": 0.0, "bandwidth": 1e9}
    costs = Costs(model, machines(intra_node=link), configured(), 16)

    def bubble(*args, **kwargs):
        cost = costs.predict(pipeline(*args, **kwargs))
        return cost.bubble / cost.compute

    assert bubble("1f1b", 8) == pytest.approx(3 / 8)
    assert bubble("gpipe", 16) == pytest.approx(3 / 16)
    assert bubble("interleaved", 8, stages=2) == pytest.approx(3 / 8 / 2)
    # Forward, backward and weights take as long as each other.
    assert bubble("zero-bubble", 8) == pytest.approx(3 / 8 / 3)


def test_schedules_keep_as_much_as_they_say():
    assert [in_flight(pipeline("gpipe", 8), rank) for rank in range(4)] == [8] * 4
    assert [in_flight(pipeline("1f1b", 8), rank) for rank in range(4)] == [4, 3, 2, 1]
    assert [in_flight(pipeline("1f1b", 2), rank) for rank in range(4)] == [2, 2, 2, 1]
    assert in_flight(pipeline("zero-bubble", 8), 3) == 4
    # Korthikanti et al. (2022), section 4.2.3: the first rank keeps 1 + (p - 1) / (p v) times p.
    kept = in_flight(pipeline("interleaved", 8, stages=2), 0)
    assert kept == pytest.approx(4 * (1 + 3 / (4 * 2)), rel=0.03)


def test_devices_that_take_turns_compute_longer_and_wait_less(small):
    def cost(dist, **changes):
        return predict(
            small, machines(devices_per_node=4, **changes), configured("manual", dist=dist), 8
        )

    copies, stages = {"dp": {"size": 4}}, {"pp": {"size": 4, "num_micro_batches": 4}}
    for dist in (copies, stages):
        alone, turns = cost(dist), cost(dist, devices_at_once=2)
        assert turns.compute == pytest.approx(2 * alone.compute)
        assert turns.optimizer == pytest.approx(2 * alone.optimizer)
        assert turns.exposed == alone.exposed
        parts = turns.compute + sum(turns.exposed.values()) + turns.bubble + turns.optimizer
        assert turns.seconds == pytest.approx(parts)
    # While three of four stages wait, two of four have the processor: nobody waits for them.
    assert cost(stages).bubble > 0
    assert cost(stages, devices_at_once=2).bubble == 0
    assert cost(stages, devices_at_once=4) == cost(stages)


def test_what_hides_nothing_exposes_all(small):
    def exposed(**changes):
        return cost(**changes).exposed["dp"]

    def cost(**changes):
        return predict(
            small, machines(**changes), configured("manual", dist={"dp": {"size": 4}}), 8
        )

    cluster = machines()
    reduced = all_reduce(4 * small.parameters, Group(4), cluster)
    assert exposed(overlap=0.0) == pytest.approx(reduced)
    assert exposed() < exposed(overlap=0.1) < reduced
    # Recording adds to what a device computes.
    module = small.blocks[0]
    slow = dataclasses.replace(
        small, blocks=tuple(dataclasses.replace(module, operations=10) for _ in small.blocks)
    )
    config = configured("manual", dist={"dp": {"size": 4}})
    without = predict(slow, machines(overlap=0.0), config, 8)
    recorded = predict(slow, machines(overlap=0.0, operation_seconds=1e-3), config, 8)
    assert recorded.seconds - without.seconds == pytest.approx(10 * 8 * 1e-3)


def test_ends_of_a_model_see_whole_sequences():
    head = Block("head", matmul=Amount(1e12))
    blocks = tuple(Block(f"layers.{n}", matmul=Amount(1e12)) for n in range(4))
    model = Model("m", Block("first"), blocks, head, sequence=64, heads=8, kv_heads=8)

    def compute(size):
        sequences = {"sp": {"size": size}} if size > 1 else {}
        config = configured("manual", dist=sequences | {"dp": {"size": 1}})
        return predict(model, machines(devices_per_node=size), config, 4).compute

    # Of five equal parts four are divided by four ranks.
    assert compute(4) == pytest.approx(compute(1) * 2 / 5)


def test_memory_is_shared_as_the_fields_say(small):
    cluster = machines(devices_per_node=4)

    def memory(**dist):
        return predict(small, cluster, configured("manual", dist=dist), 8).memory

    numbers = small.parameters
    (alone,) = predict(small, machines(devices_per_node=1), configured("manual"), 8).memory
    assert alone.parameters == numbers * (4 + 2)
    assert alone.gradients == numbers * 4
    assert alone.optimizer == numbers * 8
    (copies,) = memory()
    assert copies.gradients == numbers * 8  # and buckets
    (sharded,) = memory(fsdp={"size": 4})
    assert sharded.optimizer == numbers * 8 / 4
    assert sharded.parameters < 0.5 * copies.parameters
    stages = memory(pp={"size": 4, "num_micro_batches": 8})
    assert len(stages) == 4
    assert stages[1].activations == pytest.approx(3 * stages[2].activations / 2)
    # Both ends of the model are on one rank, or on two.
    ends = sum(stage.optimizer for stage in stages) / 8
    assert ends == numbers + small.tied


def test_computing_again_takes_time_and_frees_memory(small):
    cluster = machines(devices_per_node=1)
    costs = [
        predict(small, cluster, configured("manual", memory=memory), 64)
        for memory in ({}, {"gc": True, "gc_cnt": 2}, {"gc": True, "gc_cnt": 5}, {"gc": True})
    ]
    for one, other in itertools.pairwise(costs):
        assert other.seconds > one.seconds
        assert other.hfu / other.mfu > one.hfu / one.mfu
    # All forward passes twice, but for the head.
    assert 1.25 < costs[-1].hfu / costs[-1].mfu < 4 / 3
    assert costs[-1].peak_memory < costs[0].peak_memory


def test_what_is_not_predicted_is_refused(small):
    for values, said in (
        ({"memory": {"offload": True}}, "memory.offload is True: what it costs is not predicted"),
        ({"dist": {"tp": {"size": 16}}}, "dist.tp.size: 16 does not divide heads, 8"),
        ({"dist": {"dp": {"size": 16}}}, "dist.dp.size: 16 copies do not divide batch, 8"),
        ({"dist": {"pp": {"size": 16}}}, "dist.pp.size: 16 stages are more than 8 blocks"),
        ({"dist": {"sp": {"size": 16}}}, "dist.sp.size: 16 does not divide heads, 8"),
        ({"dist": {"dp": {"size": 4}}}, "= 4 processes, and there are 16"),
        (
            {"dist": {"dp": {"size": 8}, "pp": {"size": 2, "split_points": ["h.4"]}}},
            "dist.pp.split_points is ['h.4']: h.4 is none of the blocks layers.0 to layers.7",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            predict(small, machines(4), configured("manual", **values), 8)


@pytest.mark.parametrize("run", published.RUNS, ids=lambda run: f"{run.name}-{run.cluster}")
def test_published_runs_are_predicted_within_a_fifth(run):
    off = run.predicted().mfu / run.mfu() - 1
    assert (abs(off) > 0.2) == run.is_outside, f"{off:+.1%}"


def test_the_page_has_this_table():
    assert published.table() in (DOCS / "strategies.md").read_text()
