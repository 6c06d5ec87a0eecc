"""What acc computes on."""

import os

import torch

from torchacc.step import emit_warnings

_named = ""


def named() -> str:
    """The backend that the program or the environment names, "" for none. Starts nothing."""
    return _named or os.environ.get("TORCHACC_BACKEND", "")


def set_backend(name: str) -> None:
    """Makes acc compute on `name` in this process, and starts it there.

    "cpu", "cuda" (an NVIDIA GPU), "cuda:1" (the second one that the driver shows), "openxla" (the
    CPU, and a plugin of OpenXLA for all that it can compute), "auto" (the CPU, and for programs
    that run often whichever of both is faster), "reference" or "null". To be called before anything
    else of acc; it goes before the variable `TORCHACC_BACKEND`. Without either, acc computes on the
    GPU where PyTorch has one that acc can use, else on the CPU. Processes that torchrun starts
    share out a machine's GPUs: to each "cuda" is the one of its `LOCAL_RANK`.

    Raises ValueError for no name, and RuntimeError for a GPU or a plugin that cannot be used, when
    there is no such backend, and when acc is in use on what was chosen otherwise.
    """
    global _named
    emit_warnings(torch.ops.acc.set_backend(name))
    _named = name
