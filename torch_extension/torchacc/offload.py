"""Activations that wait for the backward pass in the host's memory."""

from typing import Any

import torch
import torch.nn as nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, transform_subclass

# Smaller tensors stay: a copy each way would cost more than their memory is worth.
_LEAST_BYTES = 1024


class save_on_host(torch.autograd.graph.saved_tensors_hooks):
    """A context manager: what operations keep for the backward pass waits in the host's memory.

    As `torch.autograd.graph.save_on_cpu`, without waiting for a copy: on "acc" values go and come
    back as steps of the recorded program, which is planned with the memory that they leave free.
    Parameters, integers and tensors of less than 1 KiB stay where they are. Nothing changes but
    where values wait: losses and gradients have the same bits. On the CPU nothing is copied.
    `metrics()["offloaded_bytes"]` counts what was taken of the host's memory.
    """

    def __init__(self):
        super().__init__(_pack, _unpack)


class _Offloaded:
    """A tensor that was on `device`, on the host."""

    def __init__(self, tensor: torch.Tensor):
        self.device = tensor.device
        self.tensor = _each(tensor.detach(), _to_host)


def _pack(tensor: torch.Tensor) -> Any:
    is_there = tensor.device.type == "cpu" or not tensor.is_floating_point()
    size = tensor.numel() * tensor.element_size()
    if is_there or size < _LEAST_BYTES or _is_weight(tensor):
        return tensor
    return _Offloaded(tensor)


def _unpack(packed: Any) -> torch.Tensor:
    if not isinstance(packed, _Offloaded):
        return packed
    return _each(packed.tensor, lambda tensor: _from_host(tensor, packed.device))


def _each(tensor: torch.Tensor, move) -> torch.Tensor:
    """A tensor made of others (a DTensor) is moved by its parts; a mesh is one, too, in 2.15."""
    if is_traceable_wrapper_subclass(tensor):
        return transform_subclass(tensor, lambda _, part: _each(part, move))
    return move(tensor) if isinstance(tensor, torch.Tensor) else tensor


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "acc":
        return torch.ops.acc.offload(tensor)
    host = torch.empty_like(tensor, device="cpu", pin_memory=True)
    return host.copy_(tensor)


def _from_host(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.device.type == "acc":
        return torch.ops.acc.reload(tensor)
    return tensor.to(device, non_blocking=True)


def _is_weight(tensor: torch.Tensor) -> bool:
    """Whether it is a parameter, a view of one, or one in halves (of autocast)."""
    base = tensor if tensor._base is None else tensor._base
    if isinstance(base, nn.Parameter):
        return True
    made_by = base.grad_fn
    is_cast = made_by is not None and made_by.name() == "ToCopyBackward0"
    return is_cast and made_by.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"


__all__ = ["save_on_host"]
