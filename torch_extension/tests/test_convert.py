"""Checkpoints from one format to another, bit for bit: against files that other libraries make and
read, and against parts that are cut by hand."""

import json
import re

import converted
import pytest
import torch
from torchacc.convert import convert

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
FORMATS = ["safetensors", "dcp", "checkpoint", "megatron"]


@pytest.fixture
def at(tmp_path):
    """A name in a folder of the test."""
    return lambda name: tmp_path / name


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        assert found[name].dtype == one.dtype, name
        assert found[name].shape == one.shape, name
        # Bits: NaN and -0.0 are what they are.
        assert (
            found[name].contiguous().view(torch.uint8).equal(one.contiguous().view(torch.uint8))
        ), name


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
