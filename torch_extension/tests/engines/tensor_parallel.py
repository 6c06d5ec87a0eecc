"""Ranks split the work on one batch: heads and hidden units, sequences, the vocabulary."""

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

from engines.models import CONTEXT, adamw, batch_of, grid, line, loss_of, model_of, trained
from engines.sharded import sharded


def plan_of(module, column, row, norm=None):
    """For those of a layer's parts that it has."""
    styles = {
        **dict.fromkeys(["query", "key", "value", "gate", "up"], column),
        **dict.fromkeys(["out", "down"], row),
        **(dict.fromkeys(["norm1", "norm2"], norm) if norm else {}),
    }
    return {name: style for name, style in styles.items() if hasattr(module, name)}


def split(model, mesh, *styles):
    for layer in model.layers:
        parallelize_module(layer, mesh, plan_of(layer, *styles))
    return model


def one_by_one(model):
    """PyTorch's steps for lists of parameters take no others beside distributed ones."""
    return adamw(model.parameters(), foreach=False)


def tp(device, build):
    model = split(model_of(build, device), line(device), ColwiseParallel(), RowwiseParallel())
    return trained(model, device, one_by_one(model), same=True)


def sequence_parallel(device, build):
    """Between attention and the hidden layers ranks have parts of the sequences."""
    model, mesh = model_of(build, device), line(device)
    column = ColwiseParallel(input_layouts=Shard(1))
    split(model, mesh, column, RowwiseParallel(output_layouts=Shard(1)), SequenceParallel())
    rows = {"input_layouts": Replicate()}
    plan = {
        "token": RowwiseParallel(output_layouts=Shard(1), **rows),
        "position": RowwiseParallel(output_layouts=Shard(0), **rows),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    plan = {name: style for name, style in plan.items() if hasattr(model, name)}
    parallelize_module(model, mesh, plan)
    return trained(model, device, one_by_one(model), same=True)


def tp_loss_parallel(device, build):
    """Not even the logits come together."""
    mesh = line(device)
    model = split(model_of(build, device), mesh, ColwiseParallel(), RowwiseParallel())
    parallelize_module(model, mesh, {"head": ColwiseParallel(use_local_output=False)})
    optimizer = one_by_one(model)

    def step(number):
        tokens, targets = batch_of(number, device, same=True)
        with loss_parallel():
            loss = loss_of(model(tokens), targets)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach().full_tensor()

    return step


def fsdp2_tp(device, build):
    mesh = grid(device, "dp", "tp")
    model = split(model_of(build, device), mesh["tp"], ColwiseParallel(), RowwiseParallel())
    model = sharded(model, mesh["dp"])
    return trained(model, device, one_by_one(model), same=True)


def ring_attention(device, build):
    """Ranks have parts of the sequences everywhere; keys and values go round. PyTorch has no such
    attention on the CPU: there one process has all of the batch."""
    if device == "cpu":
        return trained(model_of(build, device), device, same=True)
    mesh = line(device)
    model = sharded(model_of(build, device), mesh)
    optimizer = adamw(model.parameters())

    def step(number):
        tokens, targets = batch_of(number, device, same=True)
        positions = torch.arange(CONTEXT, device=device)[None].expand_as(tokens).contiguous()
        parts = [tokens, targets, positions]
        with context_parallel(
            mesh, buffers=parts, buffer_seq_dims=[1, 1, 1], no_restore_buffers=set(parts)
        ):
            loss = loss_of(model(tokens, positions), targets)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss = loss.detach()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        return loss

    return step


ENGINES = [
    "tp",
    "sequence_parallel",
    "tp_loss_parallel",
    "fsdp2_tp",
    "ring_attention",
]
