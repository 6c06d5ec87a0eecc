"""Optimizers of sharded parameters: their state, saved and loaded as another layout."""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torchacc.optim import AdamW8bit

STEPS = 6


def made():
    torch.manual_seed(0)
    # Rows that two ranks do not share evenly, columns that are no whole blocks.
    return nn.Sequential(nn.Linear(70, 75), nn.Tanh(), nn.Linear(75, 64))


def steps(model, optimizer, numbers, rank=None):
    """Losses of batches, of which a rank has its half."""
    losses = []
    for number in numbers:
        generator = torch.Generator().manual_seed(number)
        x = torch.randn(8, 70, generator=generator).to("acc")
        x = x if rank is None else x.chunk(2)[rank]
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def eight_bit():
    """Means over ranks of the losses of sharded training, of one that goes on from its checkpoint
    without shards, and of one process; the types and local sizes of a state."""
    rank = dist.get_rank()
    folder = os.environ["STATE_FOLDER"]
    options = {"lr": 1e-2, "block_size": 32}

    def mean(losses):
        total = torch.tensor(losses)
        dist.all_reduce(total)
        return (total / 2).tolist()

    model = made().to("acc")
    whole = AdamW8bit(model.parameters(), **options)
    expected = steps(model, whole, range(2 * STEPS))

    model = made().to("acc")
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
    optimizer = AdamW8bit(model.parameters(), **options)
    losses = mean(steps(model, optimizer, range(STEPS), rank))
    state = optimizer.state[model[0].weight]
    kinds = {name: str(one.dtype) for name, one in state.items() if name != "step"}
    sizes = {name: [*one.to_local().shape] for name, one in state.items() if name != "step"}
    names = ("model", "optimizer")
    dcp.save(dict(zip(names, get_state_dict(model, optimizer), strict=True)), checkpoint_id=folder)
    more = mean(steps(model, optimizer, range(STEPS, 2 * STEPS), rank))

    model = made().to("acc")
    optimizer = AdamW8bit(model.parameters(), **options)
    loaded = dict(zip(names, get_state_dict(model, optimizer), strict=True))
    dcp.load(loaded, checkpoint_id=folder)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=loaded["model"],
        optim_state_dict=loaded["optimizer"],
    )
    again = steps(model, optimizer, range(STEPS, 2 * STEPS))
    return {
        "expected": expected,
        "sharded": losses + more,
        "again": losses + again,
        "kinds": kinds,
        "sizes": sizes,
    }
