"""How much memory a program may take."""

import torch


def set_memory_limit(nbytes: int | None) -> None:
    """Limits the bytes that each program (what is between two cuts) takes besides its inputs: what
    lies between inputs and results, and results that do not take an input's memory, as updated
    parameters do. None is no limit.

    Values that do not fit are dropped and computed again where they are read, or wait in the memory
    of a GPU's host (`TORCHACC_HOST_MEMORY_LIMIT`), whichever takes less time. That changes no bit;
    `explain` says what it cost. A program for which that is not enough raises
    torch.OutOfMemoryError, which names what it wants when; nothing of it has run, and training goes
    on after a higher limit. Holds for what is cut from now on; waits for what was cut. The variable
    `TORCHACC_MEMORY_LIMIT` sets it at the start (`1500M`, `2G`).

    Raises ValueError unless `nbytes` is positive or None.
    """
    if nbytes is not None and nbytes <= 0:
        raise ValueError(f"a memory limit is a positive number of bytes or None, not {nbytes}")
    torch.ops.acc.set_memory_limit(nbytes or 0)


__all__ = ["set_memory_limit"]
