"""Activations of some layers are not kept, but computed again in the backward pass."""

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.checkpoint import checkpoint

from torchacc.config import MemoryConfig
from torchacc.memory import host_memory, native_device
from torchacc.parallel.modules import of_classes, repeated, unchanged, wrap
from torchacc.step import sync

# Tensors kept per parameter: itself, its gradient, and two moments of an optimizer.
COPIES = 4
# The part of the available memory that a step may take without a budget: the rest is for other
# programs, and for the backends' caches.
SHARE = 0.9


def layers(model: nn.Module, config: MemoryConfig) -> list[nn.Module]:
    """Those that are, or with a limit, that may be. Raises ValueError where there are none."""
    if not (config.gc or config.is_limited):
        return []
    wanted = of_classes(model, config.gc_cls, "memory.gc_cls") if config.gc else repeated(model)
    made = list(wanted)
    if not made:
        field = "gc" if config.gc else "auto" if config.auto else "budget"
        advice = "name some in gc_cls" if config.gc else "set gc and name some in gc_cls"
        raise ValueError(f"config: memory.{field}: the model has no list of layers: {advice}")
    return made[: config.gc_cnt]


def put_on(
    blocks: list[nn.Module],
    config: MemoryConfig,
    device: torch.device,
    mesh: DeviceMesh,
    parts: int,
) -> "Budget | None":
    """`parts`: of a batch, which are kept at the same time."""
    if config.is_limited:
        return Budget(blocks, config.budget, device, mesh, parts)
    for block in blocks:
        wrap(block, functools.partial(_again, block.forward))
    return None


def _again(forward, /, *args, **kwargs) -> Any:
    # PyTorch looks for the device whose random state it saves among the positional arguments.
    def call(*values):
        return forward(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

    return checkpoint(call, *args, *kwargs.values(), use_reentrant=False)


class Budget:
    """As few of `blocks` as keep a step within `limit` bytes (None: what the device has when the
    first step begins), chosen in its first pass forward.

    Counted are parameters with their gradients and two moments each, and all that operations keep
    for the way back, as PyTorch has them keep it: the device keeps less. `mesh`: ranks that run the
    same blocks choose the same number.
    """

    def __init__(
        self,
        blocks: list[nn.Module],
        limit: int | None,
        device: torch.device,
        mesh: DeviceMesh,
        parts: int,
    ):
        self.limit, self.device, self.mesh, self.parts = limit, device, mesh, parts
        self.count: int | None = None
        # The block in which the first forward pass is, and the bytes kept in each, by memory.
        self._current: int | None = None
        self._kept: list[dict[int, int]] = [{} for _ in (None, *blocks)]
        for at, block in enumerate(blocks):
            wrap(block, functools.partial(_within, self, at, block.forward))

    def measure(self, root: nn.Module) -> None:
        """In the first call of `root` that is differentiated."""
        wrap(root, functools.partial(_measured, self, root, root.forward))

    def choose(self, root: nn.Module, forward: Callable) -> None:
        parameters = [p.to_local() if hasattr(p, "to_local") else p for p in root.parameters()]
        left_out = {_memory_of(one) for one in (*parameters, *root.parameters())}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            memory = _memory_of(tensor)
            if memory not in left_out:
                at = 0 if self._current is None else self._current + 1
                size = tensor.untyped_storage().nbytes()
                self._kept[at][memory] = max(size, self._kept[at].get(memory, 0))
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        limit = self.limit or _memory_there_is(self.device, parameters)
        with unchanged(root, self.device), hooks:
            forward()
        static = COPIES * _nbytes(parameters)
        rest, *of_blocks = (sum(kept.values()) for kept in self._kept)
        # While a block is recomputed, its activations are in memory.
        needs = [
            static + self.parts * (rest + sum(of_blocks[count:])) + max([0, *of_blocks[:count]])
            for count in range(len(of_blocks) + 1)
        ]
        count = next((at for at, need in enumerate(needs) if need <= limit), None)
        self.count = self._agreed(len(of_blocks) + 1 if count is None else count)
        if self.count > len(of_blocks) and count is not None:
            raise ValueError(
                f"config: {self._origin} {limit} here, where {needs[count]} are enough; but "
                "another process that runs the same blocks has too little, as its own error says"
            )
        if self.count > len(of_blocks):
            raise ValueError(
                f"config: {self._origin} {limit}: a step needs {min(needs)} bytes if all of "
                f"{len(of_blocks)} layers are computed again, {static} of them for parameters, "
                "their gradients and an optimizer: use more processes (fsdp, tp, pp), or smaller "
                "batches"
            )

    @property
    def _origin(self) -> str:
        of_device = "memory.auto: what a step may take of the device's memory is"
        return of_device if self.limit is None else "memory.budget is"

    def _agreed(self, count: int) -> int:
        if self.mesh is None:
            return count
        most = torch.tensor(count, device=self.device)
        for axis in ("dp", "fsdp", "sp", "tp"):
            if self.mesh[axis].size() > 1:
                dist.all_reduce(most, dist.ReduceOp.MAX, self.mesh[axis].get_group())
        return int(most.item())


def _memory_there_is(device: torch.device, parameters: list[torch.Tensor]) -> int:
    """Bytes that a step of this process may take, with these parameters, which are there."""
    if device.type == "acc":
        sync()
    if device.type != "cpu":
        # Memory cached for the next step is available to this one.
        torch.get_device_module(device).empty_cache()
    if device.type == "cuda" or device.type == "acc" and native_device() is not None:
        free = torch.get_device_module(device).mem_get_info(device)[0]
    else:
        free = host_memory()[0] / _processes_here()
    return int(SHARE * (_nbytes(parameters) + free))


def _processes_here() -> int:
    """How many processes share the host: all there are, where no launcher says it."""
    if "LOCAL_WORLD_SIZE" in os.environ:
        return int(os.environ["LOCAL_WORLD_SIZE"])
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _nbytes(tensors: list[torch.Tensor]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)


def _memory_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _within(budget: Budget, at: int, forward, /, *args, **kwargs) -> Any:
    if budget.count is not None:
        again = at < budget.count
        return _again(forward, *args, **kwargs) if again else forward(*args, **kwargs)
    budget._current = at
    try:
        return forward(*args, **kwargs)
    finally:
        budget._current = None


def _measured(budget: Budget, root: nn.Module, forward, /, *args, **kwargs) -> Any:
    if budget.count is None and torch.is_grad_enabled():
        budget.choose(root, functools.partial(forward, *args, **kwargs))
    return forward(*args, **kwargs)
