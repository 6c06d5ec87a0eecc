"""What the search finds, against all that there is."""

import dataclasses
import itertools

import pytest
import torch
from documented import scripts
from planned import GPT, GPT2_PLAN, configured, machines, small_gpt
from torchacc.auto import (
    Cluster,
    Plan,
    plan,
    predict,
    transformer,
)
from torchacc.auto.cost import Costs
from torchacc.auto.search import Space, order


@pytest.fixture(scope="module")
def opt():
    return transformer(96, 12288, 96, 50272, 2048, positions=2050, name="OPT-175B")


@pytest.fixture
def small():
    return small_gpt()


def every(space, costs, limit):
    """All strategies of a space that fit, by brute force."""
    for base in space.sizes():
        for variant in space.variants(base):
            for count in space.again(variant):
                strategy = dataclasses.replace(variant, gc_cnt=count)
                if next(strategy.problems(space.model, space.batch), None):
                    continue
                if max(one.total for one in costs.memory(strategy)) <= limit:
                    yield strategy


@pytest.mark.parametrize(
    ("nodes", "each", "memory", "bandwidth", "batch"),
    [
        (1, 4, 10**9, 3e11, 16),
        (2, 4, 4 * 10**8, 1e10, 16),
        (2, 4, 15 * 10**7, 1e9, 16),
        (4, 4, 10**8, 1e10, 16),
        (1, 1, 54 * 10**7, 3e11, 1),  # three of eight blocks are computed again
        (1, 8, 10**9, 1e9, 16),  # which take turns
    ],
)
def test_the_search_finds_what_brute_force_finds(small, nodes, each, memory, bandwidth, batch):
    link = {"latency": 1e-5, "bandwidth": bandwidth}
    cluster = machines(nodes, each, memory=memory, intra_node=link)
    if each == 8:
        cluster = dataclasses.replace(cluster, devices_at_once=2, overlap=0.0)
    config, limit = configured(), memory * cluster.usable_memory
    found = plan(small, cluster, batch=batch, config=config)
    costs = Costs(small, cluster, config, batch)
    space = Space.of(config, small, cluster.devices, batch)
    best = min(every(space, costs, limit), key=lambda one: order(one, costs.predict(one)))
    assert found.strategy == str(best)
    assert found.prediction == costs.predict(best)
    assert found.is_complete
    # What is bounded is never better than its bound.
    for strategy in itertools.islice(every(space, costs, limit), 0, None, 17):
        bound = costs.least_seconds(dataclasses.replace(strategy, gc_cnt=0))
        assert bound <= costs.predict(strategy).seconds * (1 + 1e-9)
    # The configuration says the same, to a program that chooses nothing.
    again = predict(small, cluster, found.config, batch)
    assert again == found.prediction
    assert found.config.strategy.mode == "manual"


def test_a_plan_of_175_billion_parameters_fits_1024_devices(opt):
    cluster = Cluster.load("a100", nodes=128)
    found = plan(opt, cluster, batch=1024, config=configured())
    assert opt.parameters == 174_604_468_224
    assert found.is_complete
    assert sum(found.counts.values()) > 30_000
    for memory in found.prediction.memory:
        assert memory.total <= cluster.memory * cluster.usable_memory
    assert found.config.mesh(1024)
    assert 0.35 < found.prediction.mfu < 0.6
    # Every other combination is told of, with why it lost.
    assert len(found.considered) > 20
    assert any("GB too much" in one.why for one in found.considered)
    assert any("does not divide heads, 96" in one.why for one in found.considered)


def test_fixed_fields_stay(small):
    cluster = machines(2, 4)
    dist = {"tp": {"size": 2}, "pp": {"size": 2, "schedule": "gpipe"}, "sp": {"mode": "ring"}}
    found = plan(small, cluster, batch=16, config=configured("semi", dist=dist))
    assert found.config.dist.tp.size == 2
    assert found.config.dist.pp.size == 2
    assert found.config.dist.pp.schedule == "gpipe"
    assert found.config.dist.sp.mode == "ring"
    assert found.config.compute.bf16
    points = {"pp": {"size": 2, "split_points": ["layers.1", "layers.2", "layers.4"]}}
    points["pp"]["schedule"] = "interleaved"
    found = plan(small, cluster, batch=16, config=configured("semi", dist=points))
    assert found.config.dist.pp.split_points == ["layers.1", "layers.2", "layers.4"]
    found = plan(small, cluster, batch=16, config=configured("semi", memory={"gc": True}))
    assert found.config.memory.gc
    assert found.config.memory.gc_cnt is None
    manual = configured("manual", dist={"fsdp": {"size": 8}})
    found = plan(small, cluster, batch=16, config=manual)
    assert found.strategy == "fsdp 8"
    assert sum(found.counts.values()) == 1


def test_a_budget_is_kept(small):
    auto = {"auto": True, "budget": 2 * 10**8}
    found = plan(small, machines(), batch=16, config=configured(memory=auto))
    assert found.prediction.peak_memory <= 2 * 10**8
    assert not found.config.memory.auto
    free = plan(small, machines(), batch=16, config=configured())
    assert free.prediction.seconds < found.prediction.seconds


def test_what_fits_nowhere_is_said(small):
    with pytest.raises(ValueError, match=r"nothing fits on 4 devices of a100: .* comes nearest"):
        plan(small, machines(memory=10**7), batch=16, config=configured())
    copies = configured("manual", dist={"dp": {"size": 4}})
    with pytest.raises(ValueError, match="dist.dp.size: 4 copies do not divide batch, 3"):
        plan(small, machines(), batch=3, config=copies)
    with pytest.raises(ValueError, match="plan: batch is 0: it must be at least 1"):
        plan(small, machines(), batch=0)
    with pytest.raises(ValueError, match="cluster is None, and so is config.strategy.cluster"):
        plan(small, batch=1)
    with pytest.raises(ValueError, match="inputs is None: a module is run with examples"):
        plan(GPT(2, 8, 2, 9, 4), machines(), batch=4)
    with pytest.raises(ValueError, match="model is a str: it must be a Model or a Module"):
        plan("gpt2", machines(), batch=4)


def test_plans_are_the_same_each_time_and_can_be_kept(small):
    found = plan(small, "a100", batch=16)
    again = plan(small, Cluster.load("a100"), batch=16, time_limit=30)
    assert dataclasses.replace(again, seconds=found.seconds) == found
    assert Plan.from_json(found.to_json()) == found
    table = found.table()
    assert table.splitlines()[1].startswith(found.strategy)
    assert "chosen" in table
    assert "% slower" in table
    assert "A step takes" in found.explain()
    assert "computation" in found.explain()
    with pytest.raises(ValueError, match="plan: the text must have batch"):
        Plan.from_json("{}")


def test_a_search_ends_in_time(small):
    found = plan(small, machines(8, 8), batch=64, config=configured(), time_limit=1e-9)
    assert not found.is_complete
    assert "not all: the time was up" in found.explain()


def test_a_module_is_planned():
    with torch.device("meta"):
        module = GPT(4, 64, 4, 100, 32)
    ids = torch.zeros(1, 32, dtype=torch.long)
    # Without a plan of what is split, and without heads.
    found = plan(module, machines(), batch=8, inputs=[ids], config=configured())
    assert found.config.dist.tp.size == found.config.dist.sp.size == 1
    assert any("the model has no plan of what is split" in one.why for one in found.considered)
    split = configured("semi", dist={"tp": {"size": 2, "plan": GPT2_PLAN}})
    assert plan(module, machines(), batch=8, inputs=[ids], config=split).config.dist.tp.size == 2


def test_the_page_of_docs(capsys):
    for script in scripts("strategies.md"):
        exec(compile(script, "strategies.md", "exec"), {"__name__": "__main__"})
    assert "chosen" in capsys.readouterr().out
