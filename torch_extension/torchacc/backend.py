"""What acc computes on."""

import torch


def set_backend(name: str) -> None:
    """Makes acc compute on `name` in this process, and starts it there.

    "cpu", "cuda" (an NVIDIA GPU), "cuda:1" (the second one that the driver shows), "reference" or
    "null". To be called before the first tensor on acc; it goes before the variable
    `TORCHACC_BACKEND`. Without either, acc computes on the first GPU if it can be used, and on the
    CPU, with a warning that says why, if not.

    Raises RuntimeError for a GPU that cannot be used, when there is no such backend, and when acc
    is in use on what was chosen otherwise.
    """
    torch.ops.acc.set_backend(name)
