"""`torch.acc.amp`: mixed precision, in the manner of `torch.cuda.amp`.

`torch.amp` has the same for every device, by its name.
"""

import functools

import torch

custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="acc")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="acc")


def autocast(enabled=True, dtype=torch.float16, cache_enabled=True) -> torch.amp.autocast:
    """`torch.autocast("acc", ...)`, in float16 unless another `dtype` is given.

    A function, since `torch.compile` does not see through classes derived from PyTorch's.
    """
    return torch.autocast("acc", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler("acc", ...)`, which has the arguments and methods."""

    def __init__(self, *arguments, **named):
        super().__init__("acc", *arguments, **named)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
