"""`choose`: what `accelerate` makes of a configuration that leaves its strategy open."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn

from torchacc.auto.cluster import Cluster
from torchacc.auto.cost import precision_of
from torchacc.auto.report import Plan
from torchacc.auto.search import plan
from torchacc.config import Config

# Names of cards, and the profiles that describe them.
_CARDS = {"V100": "v100", "A100": "a100", "H100": "h100"}


def choose(model: nn.Module, batch: Any, config: Config, device: torch.device, world: int) -> Plan:
    """The best plan for these processes. `batch` is one of all of them together: arguments of the
    model by name, or the first of them. The first process looks for it, and the others follow.

    Raises ValueError for a batch that says nothing of the model, and where nothing fits.
    """
    found: list[str | None] = [None, None]
    failure = None
    if not (dist.is_initialized() and dist.get_rank()):
        try:
            found[0] = _found(model, batch, config, device, world).to_json()
        except Exception as error:
            failure = error
            found[1] = f"{type(error).__name__}: {error}"  # the others wait for it
    if world > 1:
        dist.broadcast_object_list(found, device=device)
    if failure is not None:
        raise failure
    if found[1] is not None:
        raise ValueError(f"accelerate: the first process found no strategy: {found[1]}")
    return Plan.from_json(found[0])


def _found(model: nn.Module, batch: Any, config: Config, device: torch.device, world: int) -> Plan:
    inputs = _inputs(model, batch)
    size = next(
        one.shape[0] for one in _values(inputs) if isinstance(one, torch.Tensor) and one.ndim
    )
    given = config.strategy.cluster
    cluster = _cluster(config, device, world) if given is None else Cluster.load(given)
    if cluster.devices != world:
        raise ValueError(
            f"config: strategy.cluster: {cluster.name} has {cluster.devices} devices, and there "
            f"are {world} processes"
        )
    return plan(model, cluster, batch=size, inputs=inputs, config=config, accumulates=False)


def _values(inputs) -> list:
    return list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)


def _inputs(model: nn.Module, batch: Any):
    if isinstance(batch, Mapping):
        names = inspect.signature(model.forward).parameters
        inputs: Any = {name: value for name, value in batch.items() if name in names}
    else:
        inputs = [batch if isinstance(batch, torch.Tensor) else next(iter(batch))]
    if not any(isinstance(one, torch.Tensor) and one.ndim for one in _values(inputs)):
        raise ValueError(
            "accelerate: strategy.mode wants batches that are arguments of the model, by their "
            f"names or the first one, of which this has none: {type(batch).__name__}"
        )
    return inputs


def _cluster(config: Config, device: torch.device, world: int) -> Cluster:
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        for card, profile in _CARDS.items():
            if card in name:
                here = min(torch.cuda.device_count(), world)
                return Cluster.load(profile, nodes=world // here, devices_per_node=here)
        raise ValueError(f"config: strategy.cluster is None, and nothing is known of {name}")
    return Cluster.local_cpu(world, [precision_of(config)])
