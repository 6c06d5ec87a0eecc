"""Activations of layers wait in the host's memory for the backward pass."""

import functools
from typing import Any

import torch.nn as nn

from torchacc.config import MemoryConfig
from torchacc.offload import save_on_host
from torchacc.parallel.modules import repeated, wrap


def layers(model: nn.Module, config: MemoryConfig) -> list[nn.Module]:
    """Those whose activations do: all but the last, which are wanted at once. Of a model without a
    list of layers all that it keeps."""
    if not config.offload:
        return []
    blocks = list(repeated(model))
    return blocks[:-1] if blocks else [model]


def put_on(blocks: list[nn.Module]) -> None:
    """What is computed again (`recompute`) is not kept, and so not offloaded."""
    for block in blocks:
        wrap(block, functools.partial(_offloaded, block.forward))


def _offloaded(forward, /, *args, **kwargs) -> Any:
    with save_on_host():
        return forward(*args, **kwargs)
