"""What TorchAcc is known to do wrong, done right: docs/torchacc.md has the list."""

import ast
import copy
import dataclasses
import inspect

import pytest
import ranks
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE, output
from torchacc.config import (
    Config,
    DataLoaderConfig,
    DistConfig,
    MemoryConfig,
    SPConfig,
)


def batches(*lengths):
    return [{"input_ids": torch.ones(2, length, dtype=torch.long)} for length in lengths]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4)) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def lengths_of(wanted, *lengths):
    config = Config(dataloader=wanted)
    _, loader = torchacc.accelerate(Model(), batches(*lengths), config)
    return [batch["input_ids"].size(1) for batch in loader]


def test_buckets_need_no_max_length():
    assert lengths_of(DataLoaderConfig(buckets=[4, 16]), 3, 5) == [4, 16]


def test_max_length_needs_no_number_of_buckets():
    assert lengths_of(DataLoaderConfig(max_length=64), 3, 60) == [8, 64]


def test_a_long_batch_makes_no_bucket():
    with pytest.warns(UserWarning, match="input_ids is 20 long, and the longest bucket 16"):
        assert lengths_of(DataLoaderConfig(buckets=[16]), 20, 18, 3) == [20, 18, 16]


def test_no_configuration_is_shared_or_changed():
    assert inspect.signature(torchacc.accelerate).parameters["config"].default is None
    config = Config()
    unchanged = copy.deepcopy(config)
    torchacc.accelerate(Model(), config=config)
    assert config == unchanged
    # Nor is the size of data parallelism that of the first world.
    assert [config.mesh(size)["dp"] for size in (2, 8)] == [2, 8]


def test_layers_compute_again_without_a_class():
    model = Model()
    runs = []
    for layer in model.layers:
        layer[0].register_forward_pre_hook(lambda *_: runs.append(1))
    model = torchacc.accelerate(model, config=Config(memory=MemoryConfig(gc=True)))
    model(torch.ones(2, 4, device=DEVICE, requires_grad=True)).sum().backward()
    assert len(runs) == 6


def test_layers_that_are_sharded_compute_again():
    assert ranks.run("migrated.layers_again", 2, backend="acc") == [[2, 2], [2, 2]]


def test_optimizers_of_several_groups_have_a_state():
    for made in ranks.run("migrated.optimizer_states", 2, backend="acc"):
        assert made["rates"] == [1e-3, 1e-2]
        for here, there in made["losses"]:
            assert here == there


def test_every_ranks_part_of_a_checkpoint_is_missed():
    for said in ranks.run("migrated.incomplete_checkpoint", 2, backend="acc"):
        assert "__1_0.distcp" in said


def test_sequence_parallelism_is_a_part_of_the_world():
    assert dataclasses.is_dataclass(SPConfig)
    config = Config(dist=DistConfig(sp=SPConfig(2)))
    assert config.mesh(8) == {"dp": 4, "fsdp": 1, "pp": 1, "sp": 2, "tp": 1}
    with pytest.raises(ValueError, match="sp 2 x tp 1 = 2 processes, and there are 3"):
        config.mesh(3)


def test_attention_keeps_its_mask_and_scale():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 8, 16).unbind()
    masks = torch.rand(2, 1, 8, 8) < 0.7, torch.randn(8, 8)
    model = nn.Linear(2, 2)
    torchacc.accelerate(model, config=Config())
    for mask in masks:
        expected = F.scaled_dot_product_attention(query, key, value, mask, scale=0.7)
        moved = (one.to(DEVICE) for one in (query, key, value, mask))
        made = F.scaled_dot_product_attention(*moved, scale=0.7)
        torch.testing.assert_close(made.cpu(), expected)


def test_import_replaces_nothing():
    names = """
import os
environment = dict(os.environ)
import torch, torch.distributed as dist, torch._decomp
def seen():
    return [id(torch.nn.functional.scaled_dot_product_attention), id(torch.autocast),
            id(torch.autocast.__init__), id(dist.new_group), id(dist.all_reduce)]
before, tables = seen(), len(torch._decomp.decomposition_table)
"""
    after = """
import torchacc
torchacc.accelerate(torch.nn.Linear(2, 2))
print([seen() == before, len(torch._decomp.decomposition_table) == tables,
       dict(os.environ) == environment])
"""
    made = output(names + after, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert ast.literal_eval(made) == [True, True, True]
