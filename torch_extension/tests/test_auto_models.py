"""What strategies are made of: what is known of models and clusters, against closed forms and real
ones."""

import re

import pytest
import ranks
import torch
import torch.nn as nn
import torch.nn.functional as F
from planned import GPT, GPT2_PLAN, LLAMA, SHAPES, configured, machines, small_gpt
from torchacc.auto import (
    Cluster,
    Link,
    measure,
    predict,
    transformer,
)


@pytest.fixture
def small():
    return small_gpt()


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
