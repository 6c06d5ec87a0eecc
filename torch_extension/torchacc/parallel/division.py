"""Which stage of a pipeline has what of a model.

Which stage wants the parameters outside the layers cannot be known before the model runs. Those of
embeddings are on the first stage, those of other modules that are registered after the layers on
the last one; the rest, and those that are tied, are on both, which sum their gradients.

The layers of several lists, as an encoder's and a decoder's, are one sequence, in the order in
which they are registered. What the model computes between two lists it computes on the stage that
has the last layer of the first one: what may be used there is on that stage, too, but for modules
within an encoder or a decoder, which are where that begins and ends.
"""

from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import DeviceMesh

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
    if not layers:
        raise ValueError(
            f"config: dist.pp.size is {config.size}: the model has no list of layers: a pipeline "
            "is made of the layers of a list, or of several ones that follow each other"
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
    outside = _Outside(model, parts)
    return Division(parts, _stages(model, outside), _buffers(model, outside))


class _Outside:
    """On which stages that is which is outside the layers."""

    def __init__(self, model: nn.Module, parts: list[list[str]]):
        self.of_layer = {name: stage for stage, part in enumerate(parts) for name in part}
        self._order = [name for name, _ in model.named_modules(remove_duplicate=False)]
        lists: dict[str, list[str]] = {}
        for layer in self.of_layer:
            lists.setdefault(layer.rpartition(".")[0], []).append(layer)
        self._begins = [self._order.index(of_list[0]) for of_list in lists.values()]
        # Before, between and after the lists: modules between lists are computed where a list ends.
        self._turns = [0, *(self.of_layer[of_list[-1]] for of_list in lists.values())]
        # Modules that contain one of several lists, such as an encoder.
        self._owners = [_owner(path, lists.keys() - {path}) for path in lists]

    def layer(self, owner: str) -> str | None:
        """That a module belongs to."""
        return next((one for one in self.of_layer if f"{owner}.".startswith(f"{one}.")), None)

    def wanted(self, owner: str, is_embedding: bool) -> set[int]:
        """The stages that may use a module's parameters."""
        for at, root in enumerate(self._owners):
            if root is not None and f"{owner}.".startswith(f"{root}."):
                return {*self._turns[at : at + 1 if is_embedding else at + 2]}
        return {*(self._turns[:-1] if is_embedding else self._turns[self._begun(owner) :])}

    def written(self, owner: str) -> int:
        """The stage that writes a module's buffers."""
        return self._turns[self._begun(owner)]

    def _begun(self, owner: str) -> int:
        """How many lists are registered before a module."""
        return sum(begin <= self._order.index(owner) for begin in self._begins)


def _owner(path: str, others: set[str]) -> str | None:
    """Of the modules on the path to a list the outermost that has no other one."""
    names = path.split(".")
    for depth in range(1, len(names) + 1):
        root = ".".join(names[:depth])
        if others and not any(f"{other}.".startswith(f"{root}.") for other in others):
            return root
    return None


def _stages(model: nn.Module, outside: _Outside) -> dict[str, set[int]]:
    stages: dict[int, set[int]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = name.rpartition(".")[0]
        if (layer := outside.layer(owner)) is not None:
            places = {outside.of_layer[layer]}
        else:
            is_embedding = isinstance(model.get_submodule(owner), nn.Embedding | nn.EmbeddingBag)
            places = outside.wanted(owner, is_embedding)
        stages.setdefault(id(parameter), set()).update(places)
    return {
        name: stages[id(parameter)]
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }


def _buffers(model: nn.Module, outside: _Outside) -> dict[str, int]:
    owners = {
        name: name.rpartition(".")[0] for name, _ in model.named_buffers(remove_duplicate=False)
    }
    return {
        name: outside.written(owner)
        for name, owner in owners.items()
        if outside.layer(owner) is None
    }


def shared_groups(divided: Division, mesh: DeviceMesh, names: set[str]) -> list[tuple[str, Any]]:
    """Those of this rank's parameters that others of the pipeline have, too, with the group of the
    ranks that do, in the same order on all of them."""
    rank, ranks = mesh.get_local_rank(), mesh.size()
    own = dist.get_process_group_ranks(mesh.get_group())
    places = {
        name: tuple(sorted({stage % ranks for stage in stages}))
        for name, stages in divided.stages.items()
    }
    groups: dict[tuple[int, ...], Any] = {tuple(range(ranks)): mesh.get_group()}
    for place in sorted({*places.values()}):
        if len(place) > 1 and place not in groups:
            # PyTorch names a group by the number of groups a rank is in: other ranks make one
            # alone.
            some = [own[at] for at in place] if rank in place else [own[rank]]
            groups[place] = dist.new_group(some, use_local_synchronization=True)
    return [
        (name, groups[place]) for name, place in places.items() if name in names and len(place) > 1
    ]
