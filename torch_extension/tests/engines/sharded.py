"""Every rank has parts of the parameters, and a batch of its own."""

import torch
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.tensor import distribute_tensor

from engines.models import grid, line, model_of, trained


def sharded(model, mesh, **options):
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def fsdp2(device, build, **options):
    return trained(sharded(model_of(build, device), line(device), **options), device)


def fsdp2_keep(device, build):
    return fsdp2(device, build, reshard_after_forward=False)


def fsdp2_clip(device, build):
    return trained(sharded(model_of(build, device), line(device)), device, clip=0.5)


def fsdp2_bf16(device, build):
    return fsdp2(device, build, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))


def fsdp2_meta(device, build):
    with torch.device("meta"):
        model = build()
    model = sharded(model, line(device))
    model.to_empty(device=device)
    # From the same numbers everywhere, whatever shards there are.
    whole = model_of(build, "cpu").state_dict()
    for name, parameter in model.state_dict().items():
        value = whole[name].to(device)
        parameter.copy_(distribute_tensor(value, parameter.device_mesh, parameter.placements))
    return trained(model, device)


def fsdp2_offload(device, build):
    """Of the CPU's own nothing can be offloaded."""
    policy = {} if device == "cpu" else {"offload_policy": CPUOffloadPolicy()}
    return trained(sharded(model_of(build, "cpu"), line(device), **policy), device)


def hsdp(device, build):
    return trained(sharded(model_of(build, device), grid(device, "dp", "fsdp")), device)


def fsdp1(device, build):
    model = FullyShardedDataParallel(
        model_of(build, device), device_id=torch.device(device), use_orig_params=True
    )
    return trained(model, device)


ENGINES = [
    "fsdp2",
    "fsdp2_keep",
    "fsdp2_clip",
    "fsdp2_bf16",
    "fsdp2_meta",
    "fsdp2_offload",
    "hsdp",
    "fsdp1",
]
