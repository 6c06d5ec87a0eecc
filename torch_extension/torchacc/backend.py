"""What acc computes on."""

import torch

from torchacc.step import emit_warnings


def set_backend(name: str) -> None:
    """Makes acc compute on `name` in this process, and starts it there.

    "cpu", "cuda" (an NVIDIA GPU), "cuda:1" (the second one that the driver shows), "reference" or
    "null". To be called before anything else of acc; it goes before the variable
    `TORCHACC_BACKEND`. Without either, acc computes on the CPU, with a warning if there is a GPU
    that could be used. All processes choose alike: one of several that train
    together says `set_backend(f"cuda:{local_rank}")`.

    Raises ValueError for no name, and RuntimeError for a GPU that cannot be used, when there is no
    such backend, and when acc is in use on what was chosen otherwise.
    """
    emit_warnings(torch.ops.acc.set_backend(name))
