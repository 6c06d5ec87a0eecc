"""Strategies: what is predicted against closed forms, real models and published runs, and what the
search finds against all that there is."""

import dataclasses
import itertools
import re

import published
import pytest
import ranks
import torch
import torch.nn as nn
import torch.nn.functional as F
from documented import DOCS, scripts
from torchacc.auto import (
    Amount,
    Block,
    Cluster,
    Link,
    Model,
    Plan,
    measure,
    plan,
    predict,
    transformer,
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
from torchacc.auto.search import Space, order
from torchacc.auto.strategy import Strategy
from torchacc.config import Config

GPT2_PLAN = {
    "layers.*.query": "colwise",
    "layers.*.key": "colwise",
    "layers.*.value": "colwise",
    "layers.*.out": "rowwise",
    "layers.*.up": "colwise",
    "layers.*.down": "rowwise",
}


class Layer(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn, gated, bias):
        super().__init__()
        self.heads, size = heads, hidden // heads * kv_heads
        norm = nn.LayerNorm if bias else nn.RMSNorm
        self.before, self.between = norm(hidden), norm(hidden)
        self.query, self.out = (nn.Linear(hidden, hidden, bias) for _ in range(2))
        self.key, self.value = (nn.Linear(hidden, size, bias) for _ in range(2))
        self.up, self.down = nn.Linear(hidden, ffn, bias), nn.Linear(ffn, hidden, bias)
        self.gate = nn.Linear(hidden, ffn, bias) if gated else None

    def attend(self, x):
        batch, rows, hidden = x.shape
        parts = [
            one(x).view(batch, rows, -1, hidden // self.heads).transpose(1, 2)
            for one in (self.query, self.key, self.value)
        ]
        attended = F.scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
        return self.out(attended.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attend(self.before(x))
        y = self.between(x)
        wide = F.gelu(self.up(y)) if self.gate is None else F.silu(self.gate(y)) * self.up(y)
        return x + self.down(wide)


class GPT(nn.Module):
    """As `transformer` has it."""

    def __init__(self, layers, hidden, heads, vocab, sequence, **options):
        super().__init__()
        bias, positions = options.get("bias", True), options.get("positions", 0)
        ffn, kv_heads = options.get("ffn", 4 * hidden), options.get("kv_heads", heads)
        self.tokens = nn.Embedding(vocab, hidden)
        self.places = nn.Embedding(positions, hidden) if positions else None
        self.layers = nn.ModuleList(
            Layer(hidden, heads, kv_heads, ffn, options.get("gated", False), bias)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(hidden) if bias else nn.RMSNorm(hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)
        if options.get("tied", True):
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        if self.places is not None:
            x = x + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


LLAMA = {"gated": True, "bias": False, "tied": False}
SHAPES = {
    "GPT-2": ((12, 768, 12, 50257, 1024), {"positions": 1024}, 124_439_808),
    "GPT-2 XL": ((48, 1600, 25, 50257, 1024), {"positions": 1024}, 1_557_611_200),
    "MPT-7B": ((32, 4096, 32, 50368, 2048), {"positions": 2048}, 6_658_859_008),
    "Llama-2 7B": ((32, 4096, 32, 32000, 4096), LLAMA | {"ffn": 11008}, 6_738_415_616),
    "Llama-3.1 8B": (
        (32, 4096, 32, 128256, 8192),
        LLAMA | {"ffn": 14336, "kv_heads": 8},
        8_030_261_248,
    ),
    "BLOOM": ((70, 14336, 112, 250880, 2048), {}, 176_247_271_424 - 2 * 14336),
}


@pytest.fixture(scope="module")
def opt():
    return transformer(96, 12288, 96, 50272, 2048, positions=2050, name="OPT-175B")


@pytest.fixture
def small():
    return transformer(8, 512, 8, 1024, 256, positions=256)


def machines(nodes=1, devices_per_node=4, **changes):
    return Cluster.load("a100", nodes=nodes, devices_per_node=devices_per_node, **changes)


def configured(mode="auto", **sections):
    return Config.from_dict({"compute": {"bf16": True}, "strategy": {"mode": mode}} | sections)


# ---- models


@pytest.mark.parametrize("name", SHAPES)
def test_parameters_are_those_of_real_models(name):
    sizes, options, parameters = SHAPES[name]
    # BLOOM has a norm behind its embedding, too.
    assert transformer(*sizes, **options).parameters == parameters


@pytest.mark.parametrize("options", [{"positions": 64}, LLAMA | {"ffn": 96, "kv_heads": 2}])
def test_a_dry_run_gives_the_closed_form(options):
    sizes = (3, 64, 4, 500, 64)
    with torch.device("meta"):
        module = GPT(*sizes, **options)
    plan_of = GPT2_PLAN | ({"layers.*.gate": "colwise"} if "gated" in options else {})
    seen = measure(module, [torch.zeros(2, 64, dtype=torch.long)], heads=4, plan=plan_of)
    shape = transformer(*sizes, **options)
    assert seen.parameters == shape.parameters == sum(p.numel() for p in module.parameters())
    assert seen.flops == shape.flops
    assert seen.sequence == 64
    assert [block.name for block in seen.blocks] == [block.name for block in shape.blocks]
    for one, other in zip(seen.blocks, shape.blocks, strict=True):
        assert one.parameters == other.parameters
        assert one.matmul == other.matmul
        assert one.attention_computed == other.attention_computed == one.attention / 2
        assert one.output == other.output
        # Each linear layer by columns reduces its input's gradient; the shape has them together.
        assert one.reduces == len(plan_of)
        assert other.reduces == 4
        assert one.operations > 0
        # Kernels of this model keep something besides: the result in another order, statistics.
        assert one.saved.split == pytest.approx(other.saved.split, rel=0.12)
        # On the device meta RMSNorm is several operations.
        norms = 0.12 if options.get("bias", True) else 0.6
        assert one.saved.whole == pytest.approx(other.saved.whole, rel=norms)
    assert seen.tied == (0 if "tied" in options else 500 * 64)


def test_a_dry_run_leaves_the_module_as_it_is():
    module = GPT(2, 32, 4, 50, 16)
    before = {name: (one, one.clone()) for name, one in module.state_dict().items()}
    ids = torch.zeros(1, 16, dtype=torch.long)
    attention = F.scaled_dot_product_attention
    seen = measure(module, {"ids": ids})
    assert F.scaled_dot_product_attention is attention
    for name, one in module.state_dict().items():
        same, value = before[name]
        assert one.data_ptr() == same.data_ptr()
        assert torch.equal(one, value)
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in module.modules())
    # Without a plan nothing is split.
    assert not any(part.parameters.split or part.saved.split for part in seen.parts)


def test_scores_of_a_models_own_attention_are_kept(small):
    with_scores = transformer(8, 512, 8, 1024, 256, flash=False)
    more = with_scores.blocks[0].saved.total - small.blocks[0].saved.total
    assert more == 8 * 256**2 - 2 * 8 * 256
    # Korthikanti et al. (2022), table 2: s b h (34 + 5 a s / h) bytes.
    dropped = transformer(8, 512, 8, 1024, 256, flash=False, dropout=True)
    saved = 2 * dropped.blocks[0].saved.total
    assert saved == 256 * 512 * (34 + 5 * 8 * 256 / 512)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: transformer(2, 65, 4, 9, 8), "heads is 4: it must divide hidden, 65"),
        (lambda: transformer(2, 64, 4, 9, 8, kv_heads=3), "kv_heads is 3: it must divide heads, 4"),
        (lambda: transformer(0, 64, 4, 9, 8), "layers is 0: it must be at least 1"),
        (lambda: measure(nn.Linear(2, 2), [torch.ones(1, 2)]), "no list of layers"),
        (lambda: measure(GPT(2, 8, 2, 9, 4), [3]), "inputs has no tensor"),
        (
            lambda: measure(GPT(2, 8, 2, 9, 4), [torch.zeros(1, 4).long()], plan={"x": "colwise"}),
            "the model has no x",
        ),
    ],
)
def test_what_is_no_model_is_said(call, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        call()


# ---- clusters


def test_profiles_have_published_figures():
    peaks = {"v100": 125e12, "a100": 312e12, "h100": 989e12}
    for name, peak in peaks.items():
        cluster = Cluster.load(name, nodes=4)
        assert cluster.devices == 32
        assert cluster.peak("fp16") == peak
        assert Cluster.from_dict(cluster.to_dict()) == cluster
    assert Cluster.load("h100").peak("fp8") == 1979e12


def test_files_of_clusters_are_read(tmp_path):
    cluster = machines(nodes=3)
    path = tmp_path / "mine.yaml"
    path.write_text(cluster.to_yaml())
    assert Cluster.load(path) == cluster
    assert Cluster.load(str(path), nodes=5).nodes == 5


def test_this_machine_is_measured():
    cluster = Cluster.local_cpu(2, latency=1e-3, bandwidth=2e9)
    assert cluster.devices == 2
    assert cluster.intra_node == Link(1e-3, 2e9)
    assert 1e8 < cluster.peak("fp32") < 1e14
    assert 0 < cluster.attention_efficiency <= 1
    assert cluster.operation_seconds > 0
    # What computes is what communicates.
    assert cluster.overlap == 0
    assert Cluster.load("local_cpu", devices_per_node=3).devices == 3


def test_measuring_draws_no_random_numbers():
    before = torch.get_rng_state()
    Cluster.local_cpu()
    assert torch.equal(before, torch.get_rng_state())


def test_processes_measure_together():
    for made in ranks.run("tried.measured", 2, backend="acc"):
        assert made["devices_per_node"] == 2
        assert made["devices_at_once"] >= 1
        assert set(made["collectives"]) == {"all_reduce", "reduce_scatter", "all_to_all", "send"}
        assert min(made["collectives"].values()) > 0
        assert made["latency"] > 0
        assert made["bandwidth"] > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": 0}, "cluster.nodes is 0: it must be at least 1"),
        ({"memory": "80 GB"}, "cluster.memory is '80 GB': it must be int"),
        ({"matmul_efficiency": 1.5}, "cluster.matmul_efficiency is 1.5: it must be more than 0"),
        ({"flops": {}}, "cluster.flops is {}: it must have numbers"),
        ({"inter_node": {"latency": -1.0, "bandwidth": 1e9}}, "cluster.inter_node.latency is -1.0"),
        ({"node": 1}, "there is no cluster.node: did you mean nodes?"),
        ({"overlap": 1.5}, "cluster.overlap is 1.5: it must be at least 0 and at most 1"),
        ({"devices_at_once": 0}, "cluster.devices_at_once is 0: it must be at least 1"),
        ({"operation_seconds": -1.0}, "cluster.operation_seconds is -1.0: it must be at least 0"),
        ({"collectives": {"all_reduce": 0.0}}, "cluster.collectives is {'all_reduce': 0.0}"),
        (
            {"collectives": {"gather": 1.0}},
            "there are all_reduce, reduce_scatter, all_to_all, send",
        ),
    ],
)
def test_an_error_of_a_cluster_names_the_field(changes, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Cluster.load("a100", **changes)


def test_what_a_cluster_has_not_is_said():
    with pytest.raises(ValueError, match="no profile of that name: there are a100, h100, v100"):
        Cluster.load("b300")
    with pytest.raises(
        ValueError, match="cluster: v100 has no flops of bf16: there are fp16, fp32"
    ):
        predict(transformer(2, 64, 4, 9, 8), Cluster.load("v100"), configured("manual"), 8)
    with pytest.raises(
        ValueError, match="cluster: there is no attention_efficiency, bandwidth_eff"
    ):
        Cluster.from_dict({"name": "x", "nodes": 1})


# ---- costs


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


# ---- published runs


@pytest.mark.parametrize("run", published.RUNS, ids=lambda run: f"{run.name}-{run.cluster}")
def test_published_runs_are_predicted_within_a_fifth(run):
    off = run.predicted().mfu / run.mfu() - 1
    assert (abs(off) > 0.2) == run.is_outside, f"{off:+.1%}"


def test_the_page_has_this_table():
    assert published.table() in (DOCS / "strategies.md").read_text()


# ---- the search


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
