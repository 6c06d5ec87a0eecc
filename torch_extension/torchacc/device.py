"""The module `torch.acc`: devices, and the names PyTorch looks up on a device's module.

A *device* argument is an index, a string ("acc", "acc:1"), a `torch.device`, or None for the
current device, which belongs to the calling thread.
"""

from types import SimpleNamespace

import torch

from torchacc import amp, memory, random, step, streams
from torchacc._index import device_index
from torchacc.explain import explain_at_exit
from torchacc.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    native_device,
    reset_peak_memory_stats,
)
from torchacc.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torchacc.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)

# Activation checkpointing saves and restores the device's generator only where it finds this true.
_initialized = True


class device:
    """Context manager: makes `device` the current one of this thread, and the old one again."""

    def __init__(self, device):
        self.index = device_index(device)

    def __enter__(self):
        self.previous = current_device()
        set_device(self.index)
        return self

    def __exit__(self, *exception):
        set_device(self.previous)
        return False


def is_available() -> bool:
    """True: the CPU computes where there is no GPU. Starts nothing."""
    return device_count() > 0


def is_initialized() -> bool:
    """True from the start: there is nothing a program has to initialise."""
    return _initialized


def init() -> None:
    """Does what the first use of the device does. Raises RuntimeError in a forked child."""
    _lazy_init()


def _lazy_init() -> None:
    """Called by PyTorch before a program's first tensor on the device, and again after a fork."""
    if _is_in_bad_fork():
        raise RuntimeError(
            "the device acc cannot be used in a forked child process once its parent has used it. "
            "Start the child with the 'spawn' or 'forkserver' method, or keep device tensors out "
            "of it (DataLoader workers should return CPU tensors)"
        )
    # So that PyTorch's own numbers show what the device takes of its memory.
    if native_device() and torch.cuda.is_available():
        torch.cuda.init()
    step.install_optimizer_hook()
    explain_at_exit()


def _is_in_bad_fork() -> bool:
    return torch.ops.acc.bad_fork()


def device_count() -> int:
    """Number of devices. Starts nothing."""
    return torch.ops.acc.device_count()


def current_device() -> int:
    """Index of this thread's current device."""
    return torch.ops.acc.get_device()


def set_device(device) -> None:
    """Makes `device` the current one of this thread. Raises RuntimeError when there is none."""
    torch.ops.acc.set_device(device_index(device))


def can_device_access_peer(device, peer_device) -> bool:
    """True: all devices of one process share one memory, the GPU's or the host's."""
    return True


def get_device_name(device=None) -> str:
    """A name for people: the GPU's as PyTorch knows it, else "torchacc cpu", "torchacc cuda:0"."""
    native = native_device()
    if native and torch.cuda.is_available():
        return torch.cuda.get_device_name(native)
    return f"torchacc {native or 'cpu'}"


def get_device_properties(device=None) -> SimpleNamespace:
    """`name` and `total_memory` in bytes. Raises what `mem_get_info` does."""
    return SimpleNamespace(name=get_device_name(device), total_memory=mem_get_info(device)[1])


def get_device_capability(device=None) -> tuple[int, int]:
    """The GPU's compute capability; (0, 0) where there is none that PyTorch can use."""
    native = native_device()
    if native and torch.cuda.is_available():
        return torch.cuda.get_device_capability(native)
    return (0, 0)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Dtypes `torch.autocast("acc", dtype=...)` accepts."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True."""
    return True


def is_current_stream_capturing() -> bool:
    """False: there is nothing to capture, every step is a compiled program."""
    return False


__all__ = [
    "Event",
    "Stream",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "random",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]
