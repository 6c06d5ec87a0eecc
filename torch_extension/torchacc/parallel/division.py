"""Which stage of a pipeline has what of a model.

Which stage wants the parameters outside the layers cannot be known before the model runs. Those of
embeddings are on the first stage, those of other modules that are registered after the layers on
the last one; the rest, and those that are tied, are on both, which sum their gradients.
"""

from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
import torch.nn as nn

from torchacc.config import PPConfig
from torchacc.parallel.modules import repeated


@dataclass(frozen=True)
class Division:
    """Which stage has what, of `count` stages; stage `i` is on rank `i % ranks`."""

    layers: list[list[str]]
    # By the names of parameters.
    stages: dict[str, set[int]]
    # By the names of buffers outside the layers.
    buffers: dict[str, int]

    @property
    def count(self) -> int:
        return len(self.layers)

    def parts_at_once(self, config: PPConfig) -> int:
        """How many parts of a batch a stage has at most gone through forwards and not backwards."""
        parts = config.num_micro_batches
        return parts if config.schedule == "gpipe" else min(parts, self.count)


def division(model: nn.Module, config: PPConfig) -> Division:
    """Raises ValueError for a model whose layers cannot be divided as `config` says."""
    names = {id(module): name for name, module in model.named_modules()}
    layers = [names[id(layer)] for layer in repeated(model)]
    lists = {name.rpartition(".")[0] for name in layers}
    if len(lists) != 1:
        raise ValueError(
            f"config: dist.pp.size is {config.size}: the model has "
            f"{'no list of layers' if not lists else ', '.join(sorted(lists))}: a pipeline is made "
            "of the layers of one list, which follow each other"
        )
    if config.split_points:
        if missing := set(config.split_points) - {*layers[1:]}:
            raise ValueError(
                f"config: dist.pp.split_points: {', '.join(sorted(missing))} is no layer that a "
                f"stage can begin with: there are {', '.join(layers[1:])}"
            )
        starts = [0, *sorted(layers.index(name) for name in config.split_points)]
    else:
        count = config.size * (2 if config.schedule == "interleaved" else 1)
        if len(layers) < count:
            raise ValueError(
                f"config: dist.pp.size is {config.size}: {count} stages want as many layers, and "
                f"the model has {len(layers)}"
            )
        starts = [stage * len(layers) // count for stage in range(count)]
    parts = [layers[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    return Division(parts, _stages(model, layers, parts), _buffers(model, layers, len(parts) - 1))


def _stages(model: nn.Module, layers: list[str], parts: list[list[str]]) -> dict[str, set[int]]:
    last = len(parts) - 1
    of_layer = {name: stage for stage, part in enumerate(parts) for name in part}
    order = [name for name, _ in model.named_modules(remove_duplicate=False)]
    begin = order.index(layers[0])
    stages: dict[int, set[int]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = name.rpartition(".")[0]
        inside = [layer for layer in of_layer if f"{owner}.".startswith(f"{layer}.")]
        if inside:
            places = {of_layer[inside[0]]}
        elif isinstance(model.get_submodule(owner), nn.Embedding | nn.EmbeddingBag):
            places = {0}
        else:
            places = {last} if order.index(owner) > begin else {0, last}
        stages.setdefault(id(parameter), set()).update(places)
    return {
        name: stages[id(parameter)]
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }


def _buffers(model: nn.Module, layers: list[str], last: int) -> dict[str, int]:
    order = [name for name, _ in model.named_modules(remove_duplicate=False)]
    begin = order.index(layers[0])
    made = {}
    for name, _ in model.named_buffers(remove_duplicate=False):
        owner = name.rpartition(".")[0]
        if not any(f"{owner}.".startswith(f"{layer}.") for layer in layers):
            made[name] = 0 if order.index(owner) < begin else last
    return made


def shared_groups(divided: Division, mesh, names: list[str]) -> list[tuple[str, Any]]:
    """Those of this rank's parameters that others of the pipeline have, too, with the group of the
    ranks that do."""
    ranks = mesh.size()
    own = dist.get_process_group_ranks(mesh.get_group())
    groups: dict[tuple[int, ...], Any] = {tuple(range(ranks)): mesh.get_group()}
    made = []
    for name in names:
        place = tuple(sorted({stage % ranks for stage in divided.stages[name]}))
        if len(place) > 1:
            if place not in groups:
                some = [own[at] for at in place]
                groups[place] = dist.new_group(some, use_local_synchronization=True)
            made.append((name, groups[place]))
    return made
