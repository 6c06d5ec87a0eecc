"""Checkpoints from one format to another, bit for bit: against files that other libraries make and
read, and against parts that are cut by hand."""

import json
import re

import converted
import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from converted import same
from torchacc.checkpoint import Checkpointer, verify
from torchacc.convert import convert

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
FORMATS = ["safetensors", "dcp", "checkpoint", "megatron"]


@pytest.fixture
def at(tmp_path):
    """A name in a folder of the test."""
    return lambda name: tmp_path / name


# ---- round trips


@pytest.mark.parametrize("pp", [1, 2])
@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("family", converted.FAMILIES)
def test_megatrons_ranks_have_what_is_cut_by_hand(family, tp, pp, at):
    tensors = converted.state(family)
    converted.save(at("hf"), tensors, family, files=3)
    convert(at("hf"), at("megatron"), "megatron", tp=tp, pp=pp, vocab_multiple=8)
    assert (at("megatron") / "latest_checkpointed_iteration.txt").read_text() == "release"
    folders = sorted((at("megatron") / "release").iterdir())
    assert len(folders) == tp * pp
    for folder in folders:
        r, stage = re.fullmatch(r"mp_rank_(\d\d)(?:_(\d{3}))?", folder.name).groups()
        assert (stage is None) == (pp == 1)
        saved = torch.load(folder / "model_optim_rng.pt", weights_only=False)
        same(saved["model"], converted.rank(tensors, family, tp, pp, int(r), int(stage or 0)))
        assert saved["checkpoint_version"] == 3.0
        assert saved["args"].tensor_model_parallel_size == tp
        assert saved["args"].num_query_groups == converted.HEADS[family][1]
        assert saved["args"].padded_vocab_size == converted.PADDED[tp]
    convert(at("megatron"), at("again"), "safetensors")
    same(converted.load(at("again")), tensors)


@pytest.mark.parametrize("second", FORMATS)
@pytest.mark.parametrize("first", FORMATS)
@pytest.mark.parametrize("family", converted.FAMILIES)
def test_every_format_becomes_every_other(family, first, second, at):
    tensors = converted.state(family, torch.bfloat16)
    source = converted.save(at("hf"), tensors, family)
    named = {"safetensors": {"shard_size": 2000}, "megatron": {"tp": 2, "pp": 2}}
    convert(source, at("first"), first, **named.get(first, {"files": 3}))
    convert(at("first"), at("second"), second, **named.get(second, {"files": 2}))
    convert(at("second"), at("again"), "safetensors")
    same(converted.load(at("again")), tensors)
    assert json.loads((at("again") / "config.json").read_text()) == converted.config(family)


# ---- what reads the result


def test_a_converted_checkpoint_is_restored_and_loaded(at):
    tensors = converted.state("llama")
    converted.save(at("hf"), tensors, "llama")
    convert(at("hf"), at("runs"), "checkpoint", files=3, step=70)
    assert verify(at("runs")) == []
    model = converted.module(converted.state("llama", seed=1)).to("acc")
    with Checkpointer(at("runs")) as checkpointer:
        assert checkpointer.restore({"model": model}) == 70
    same({name: one.cpu() for name, one in model.state_dict().items()}, tensors)
    into = {"model": {name: torch.zeros_like(one) for name, one in tensors.items()}}
    dcp.load(into, checkpoint_id=at("runs") / "latest", no_dist=True)
    same(into["model"], tensors)


def test_tied_weights_are_kept_once_and_known_by_both_names(at):
    tensors = converted.state("gpt2")
    converted.save(at("hf"), tensors, "gpt2")
    convert(at("hf"), at("dcp"), "dcp", files=2)
    size = sum(path.stat().st_size for path in at("dcp").glob("*.distcp"))
    both = tensors | {"lm_head.weight": tensors["transformer.wte.weight"]}
    into = {name: torch.zeros_like(one) for name, one in both.items()}
    dcp.load(into, checkpoint_id=at("dcp"), no_dist=True)
    same(into, both)
    # A model that has the two as one saves both, the same.
    dcp.save(both, checkpoint_id=at("saved"), no_dist=True)
    convert(at("saved"), at("again"), "dcp", files=2)
    assert sum(path.stat().st_size for path in at("again").glob("*.distcp")) == size
    for source in ("saved", "again"):
        convert(at(source), at(f"{source}-hf"), "safetensors")
        same(converted.load(at(f"{source}-hf")), tensors)


def test_weights_that_are_the_same_but_not_tied_are_both_kept(at):
    tensors = converted.state("llama")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    converted.save(at("hf"), tensors, "llama")  # whose configuration says so
    convert(at("hf"), at("megatron"), "megatron", pp=2)
    convert(at("megatron"), at("again"), "safetensors")
    same(converted.load(at("again")), tensors)


def training(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3)).to("acc")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01 * (seed + 1))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler, "best": seed}


def steps(state, count):
    losses = []
    for _ in range(count):
        loss = state["model"](torch.ones(4, 6, device="acc")).square().mean()
        loss.backward()
        state["optimizer"].step()
        state["optimizer"].zero_grad()
        state["scheduler"].step()
        losses.append(loss.item())
    return losses


def test_a_training_goes_on_from_another_layout(at):
    state = training(0)
    steps(state, 3)
    with Checkpointer(at("runs")) as checkpointer:
        checkpointer.save(state, 3)
    convert(at("runs"), at("three"), "checkpoint", files=3)
    convert(at("three"), at("dcp"), "dcp", files=2)
    convert(at("dcp"), at("one"), "checkpoint", step=3)
    expected = steps(state, 4)
    for folder in ("three", "one"):
        other = training(5)
        with Checkpointer(at(folder)) as checkpointer:
            assert checkpointer.restore(other) == 3
        assert other["best"] == 0
        assert steps(other, 4) == expected


def test_types_are_those_of_the_models_floats(at):
    state = {"net": {"w": torch.randn(5, 3), "n": torch.arange(4)}, "opt": {"m": torch.randn(3)}}
    dcp.save(state, checkpoint_id=at("saved"), no_dist=True)
    convert(at("saved"), at("half"), "dcp", key="net", dtype=torch.bfloat16, files=2)
    into = {"net": {"w": torch.zeros(5, 3, dtype=torch.bfloat16), "n": torch.zeros(4).long()}}
    into["opt"] = {"m": torch.zeros(3)}
    dcp.load(into, checkpoint_id=at("half"), no_dist=True)
    same(into["net"], {"w": state["net"]["w"].bfloat16(), "n": state["net"]["n"]})
    same(into["opt"], state["opt"])
    convert(at("saved"), at("hf"), "safetensors", key="net")
    same(converted.load(at("hf")), state["net"])
    assert json.loads((at("hf") / "manifest.json").read_text())["left_out"] == ["opt.m"]


def test_transposed_tensors_of_dcp(at):
    """Which PyTorch saves with their strides."""
    square = torch.arange(9.0).view(3, 3)
    tensors = {"rows": square, "columns": square.t(), "wide": torch.arange(6).view(3, 2).t()}
    dcp.save(tensors, checkpoint_id=at("dcp"), no_dist=True)
    convert(at("dcp"), at("again"), "safetensors")
    same(converted.load(at("again")), {name: one.contiguous() for name, one in tensors.items()})


KINDS = [torch.float64, torch.float8_e4m3fn, torch.int16, torch.uint16, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_any_type_and_any_size(dtype, at):
    numbers = torch.tensor([0, 1, 2, 3, 0, 5])
    tensors = {
        "flat": numbers,
        "scalar": numbers[1],
        "none": numbers[:0],
        "wide": numbers.view(2, 3),
    }
    tensors = {name: one.to(dtype).clone() for name, one in tensors.items()}
    safetensors.torch.save_file(tensors, at("one.safetensors"))
    convert(at("one.safetensors"), at("dcp"), "dcp", files=2)
    convert(at("dcp"), at("again"), "safetensors")
    same(converted.load(at("again")), tensors)


def test_numbers_that_are_none(at):
    bits = torch.tensor([0x7FC00001, 0xFF800000 - (1 << 32), 0x80000000 - (1 << 32)])
    tensors = {"odd": bits.int().view(torch.float32), "x": torch.full((3,), -0.0)}
    safetensors.torch.save_file(tensors, at("one.safetensors"))
    convert(at("one.safetensors"), at("dcp"), "dcp")
    convert(at("dcp"), at("again"), "safetensors")
    same(converted.load(at("again")), tensors)


def test_other_names_of_megatron_are_understood(at):
    """Of its own layers, of grouped experts, of GPT-2's on the Hub, of a tensor that is a view."""
    tensors = converted.state("mixtral")
    converted.save(at("hf"), tensors, "mixtral")
    convert(at("hf"), at("megatron"), "megatron", tp=2)
    for file in at("megatron").rglob("*.pt"):
        saved = torch.load(file, weights_only=False)
        renamed = {}
        for name, one in saved["model"].items():
            name = name.replace("self_attention.linear_qkv.layer_norm_", "input_layernorm.")
            name = re.sub(r"local_experts\.(\d)\.(linear_fc\d)\.weight", r"\2.weight\1", name)
            renamed[name] = nn.Parameter(one.t().contiguous().t() if one.dim() == 2 else one)
        renamed["decoder.layers.0.self_attention.linear_qkv._extra_state"] = None
        saved["args"].odd = Checkpointer  # a class that is not looked for
        torch.save({**saved, "model": renamed, "optimizer": {"x": torch.ones(2)}}, file)
    (at("megatron") / "manifest.json").unlink()
    convert(at("megatron"), at("again"), "safetensors")
    same(converted.load(at("again")), tensors)
    assert json.loads((at("again") / "manifest.json").read_text())["left_out"] == ["optimizer"]
    short = {name.removeprefix("transformer."): o for name, o in converted.state("gpt2").items()}
    short["h.0.attn.bias"] = torch.ones(1, 1, 4, 4)
    converted.save(at("hub"), short, "gpt2")
    convert(at("hub"), at("gpt2"), "megatron", tp=2, pp=2)
    convert(at("gpt2"), at("long"), "safetensors")
    same(converted.load(at("long")), converted.state("gpt2"))
