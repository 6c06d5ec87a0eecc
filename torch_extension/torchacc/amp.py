"""`torch.acc.amp`: mixed precision, in the manner of `torch.cuda.amp`.

`torch.amp` has the same for every device, by its name.
"""

import functools
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from torchacc.parallel.clip import local, split

custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="acc")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="acc")


def autocast(
    enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True
) -> torch.amp.autocast:
    """`torch.autocast("acc", ...)`, in float16 unless another `dtype` is given.

    A function, since `torch.compile` does not see through classes derived from PyTorch's.
    """
    return torch.autocast("acc", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler("acc", ...)`, which has the arguments and methods.

    Gradients may be distributed tensors, beside others. Where one of the ranks that have parts of
    them finds an overflow, all of these skip the step and take the next scale, as do those of
    `group`, each of which has other gradients: stages of a pipeline, which sets it in
    `forward_backward(..., scaler=scaler)`. All of them call `unscale_` or `step` alike.
    """

    def __init__(self, *arguments: Any, device: str = "acc", **named: Any):
        super().__init__(device, *arguments, **named)
        self.group: dist.ProcessGroup | None = None

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        parameters = [one for one in parameters if one.grad is not None]
        parts = SimpleNamespace(param_groups=[{"params": [_part(one) for one in parameters]}])
        found = super()._unscale_grads_(parts, inv_scale, found_inf, allow_fp16)
        found = found or {found_inf.device: found_inf}  # for a rank without gradients
        groups = [
            mesh.get_group(dim)
            for mesh, *places in dict.fromkeys(split(one.grad) for one in parameters)
            for dim, place in enumerate(places)
            if not place.is_replicate()
        ]
        if self.group is not None:
            groups.append(self.group)  # last, of ranks that agree with those of their stage
        for one in found.values():
            for group in dict.fromkeys(groups):
                dist.all_reduce(one, dist.ReduceOp.MAX, group)
        return found


def _part(parameter: torch.Tensor) -> torch.Tensor:
    """What this rank has of it, with the gradient."""
    if not hasattr(parameter.grad, "to_local"):
        return parameter
    part = local(parameter.detach())
    part.grad = local(parameter.grad)
    return part


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
