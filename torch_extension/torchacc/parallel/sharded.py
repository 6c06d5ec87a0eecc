"""Data parallel with every parameter in parts, by PyTorch's `fully_shard`."""

import functools
from typing import Any

import torch
import torch.nn as nn
from torch.distributed.device_mesh import DeviceMesh

from torchacc.config import Config
from torchacc.parallel.modules import same


def shard(
    model: nn.Module,
    blocks: list[nn.Module],
    mesh: DeviceMesh,
    config: Config,
    dtype: torch.dtype | None,
) -> None:
    """Every parameter among the ranks of fsdp and sp, with copies among those of dp."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    fsdp = config.dist.fsdp
    if fsdp.sync_module_states and not any(p.is_meta for p in model.parameters()):
        for axis in ("fsdp", "sp"):
            same(model, mesh[axis], axis)
    options: dict[str, Any] = {
        "mesh": _among(mesh),
        "reshard_after_forward": fsdp.reshard_after_forward,
    }
    if fsdp.cpu_offload:
        options["offload_policy"] = CPUOffloadPolicy()
    reduced = None if dtype is None else torch.float32
    policy = functools.partial(MixedPrecisionPolicy, param_dtype=dtype, reduce_dtype=reduced)
    for block in blocks:
        fully_shard(block, mp_policy=policy(), **options)
    fully_shard(model, mp_policy=policy(output_dtype=reduced), **options)


def to_host(model: nn.Module) -> None:
    """Parts of parameters that were made on the device, as they lie with `cpu_offload`."""
    with torch.no_grad():
        model._apply(lambda tensor: tensor.cpu() if hasattr(tensor, "to_local") else tensor)


def copies(mesh: DeviceMesh) -> DeviceMesh:
    """The ranks that have the same parameters, where these are whole."""
    return mesh["dp"] if mesh["sp"].size() == 1 else mesh["dp", "sp"]._flatten("dp_sp")


def _among(mesh):
    has_copies = mesh["dp"].size() > 1
    if mesh["sp"].size() == 1:
        return mesh["dp", "fsdp"] if has_copies else mesh["fsdp"]
    parts = mesh["fsdp", "sp"]._flatten("fsdp_sp")
    return mesh["dp", "fsdp_sp"] if has_copies else parts
