"""A timeline for chrome://tracing and ui.perfetto.dev."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import torch

from torchacc.step import sync


@contextlib.contextmanager
def profile(path: str | os.PathLike) -> Iterator[None]:
    """Context manager: writes what happens inside to `path`, in Chrome's trace format.

    There are spans for recording (one for each trace), the launch thread's phases, the stages of
    compiles, and every kernel and fallback with its operator, Python line, shapes and bytes; and a
    counter of the memory in use. `torch.profiler` shows the kernels too, among what PyTorch does.
    Waits first for what was recorded before, and at the end for what was recorded inside. Every
    kernel is timed meanwhile; at other times the profiler costs nothing. One profile at a time,
    those of torch.profiler included: a new one drops the other.

    Raises OSError, before anything inside runs, where `path` cannot be written.
    """
    with Path(path).open("w") as file:
        sync()
        torch.ops.acc.profile_start()
        try:
            yield
            sync()
        finally:
            file.write(torch.ops.acc.profile_stop())
