"""`choose`: what `accelerate` makes of a configuration that leaves its strategy open."""

import inspect
import time
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn

from torchacc.auto import trials
from torchacc.auto.cluster import Cluster
from torchacc.auto.cost import precision_of
from torchacc.auto.report import Plan
from torchacc.auto.search import plans
from torchacc.config import Config

# Names of cards, and the profiles that describe them.
_CARDS = {"V100": "v100", "A100": "a100", "H100": "h100"}


def choose(model: nn.Module, batch: Any, config: Config, device: torch.device, world: int) -> Plan:
    """The best plan for these processes. `batch` is one of all of them together: arguments of the
    model by name, or the first of them. The first process looks for it, and the others follow; with
    `strategy.trials` all of them run the best few.

    Raises ValueError for a batch that says nothing of the model, and where nothing fits, and
    RuntimeError where all trials fail.
    """
    until = time.monotonic() + config.strategy.time_limit
    cluster = _cluster(config, device, world)
    found: list[Any] = [None, None]
    failure = None
    if not (dist.is_initialized() and dist.get_rank()):
        try:
            found[0] = [one.to_json() for one in _found(model, batch, config, cluster, world)]
        except Exception as error:
            failure = error
            found[1] = f"{type(error).__name__}: {error}"  # the others wait for it
    if world > 1:
        dist.broadcast_object_list(found, device=device)
    if failure is not None:
        raise failure
    if found[1] is not None:
        raise ValueError(f"accelerate: the first process found no strategy: {found[1]}")
    best = [Plan.from_json(one) for one in found[0]]
    if not config.strategy.trials:
        return best[0]
    return trials.fastest(best, model, batch, _inputs, device, until)


def _found(
    model: nn.Module, batch: Any, config: Config, cluster: Cluster, world: int
) -> list[Plan]:
    inputs = _inputs(model, batch)
    size = next(
        one.shape[0] for one in _values(inputs) if isinstance(one, torch.Tensor) and one.ndim
    )
    if cluster.devices != world:
        raise ValueError(
            f"config: strategy.cluster: {cluster.name} has {cluster.devices} devices, and there "
            f"are {world} processes"
        )
    # Trials may take half of the time.
    limit = config.strategy.time_limit / (2 if config.strategy.trials else 1)
    count = max(config.strategy.trials, 1)
    return plans(model, cluster, size, inputs, config, limit, False, count)


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
    given = config.strategy.cluster
    if given is not None and given != "local_cpu":
        return Cluster.load(given)
    if given is None and device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        for card, profile in _CARDS.items():
            if card in name:
                here = min(torch.cuda.device_count(), world)
                return Cluster.load(profile, nodes=world // here, devices_per_node=here)
        raise ValueError(f"config: strategy.cluster is None, and nothing is known of {name}")
    # All processes measure at the same time, as in training.
    precisions = [precision_of(config)]
    return Cluster.local_cpu(world, precisions, device=device.type, together=world > 1)
