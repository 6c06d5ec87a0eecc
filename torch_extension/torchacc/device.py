"""The module `torch.acc`: devices, and the names PyTorch looks up on a device's module.

It has what `torch.cuda` has, by the same names and with the same arguments; `__all__` is the table.
What makes no sense here is missing, and the AttributeError says why. A *device* argument is an
index, a string ("acc", "acc:1"), a `torch.device`, or None for the current device, which belongs to
the calling thread.
"""

from types import SimpleNamespace

import torch
from torch import AcceleratorError, OutOfMemoryError

from torchacc import amp, event_log, memory, random, step, streams
from torchacc._absent import missing
from torchacc._explain import explain_at_exit
from torchacc._index import Device, device_index
from torchacc._progress import begin_if_asked
from torchacc.gpu import clock_rate, memory_usage, power_draw, temperature, utilization
from torchacc.memory import (
    device_memory_used,
    empty_cache,
    get_per_process_memory_fraction,
    ipc_collect,
    list_gpu_processes,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    native_device,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
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
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)

# Activation checkpointing saves and restores the device's generator only if this is true.
_initialized = True

# The device has half types.
has_half = True

# One for each device, created on first use.
default_generators: tuple[torch.Generator, ...]


class device:
    """Context manager: makes `device` the current one of this thread, and the old one again."""

    def __init__(self, device: Device):
        self.index = device_index(device)

    def __enter__(self) -> "device":
        self.previous = current_device()
        set_device(self.index)
        return self

    def __exit__(self, *exception: object) -> None:
        set_device(self.previous)


class device_of(device):
    """Context manager: makes the device of `obj`, a tensor or storage, the current one of this
    thread, and the old one again. What is not on acc changes nothing."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage):
        super().__init__(obj.device if obj.device.type == "acc" else None)


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
    # Makes PyTorch's own statistics include the memory that this device takes.
    if native_device() and torch.cuda.is_available():
        torch.cuda.init()
    # Recording is serial, and handing the backward pass to a thread of the device and waiting for
    # it takes longer than recording a small one. Applies to this thread, until the program changes
    # it.
    torch.autograd.set_multithreading_enabled(False)
    step.install_optimizer_hook()
    explain_at_exit()
    event_log.device_starts()
    begin_if_asked()
    while step.at_first_use:
        step.at_first_use.pop()()


def _is_in_bad_fork() -> bool:
    return torch.ops.acc.bad_fork()


def device_count() -> int:
    """Number of devices. Starts nothing."""
    return torch.ops.acc.device_count()


def current_device() -> int:
    """Index of this thread's current device."""
    return torch.ops.acc.get_device()


def set_device(device: Device) -> None:
    """Makes `device` the current one of this thread. Raises RuntimeError when there is none."""
    torch.ops.acc.set_device(device_index(device))


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """True: all devices of one process share one memory, the GPU's or the host's."""
    return True


def get_device_name(device: Device = None) -> str:
    """A name for people: the GPU's as PyTorch knows it, else "torchacc cpu", "torchacc cuda:0"."""
    native = native_device()
    if native and torch.cuda.is_available():
        return torch.cuda.get_device_name(native)
    return f"torchacc {native or 'cpu'}"


def get_device_properties(device: Device = None) -> SimpleNamespace:
    """What the device is: `name`, `total_memory` in bytes, `major` and `minor` of its compute
    capability, and `multi_processor_count`: the GPU's, or without one that PyTorch can use the
    number of threads that compute. Raises what `mem_get_info` does."""
    total = mem_get_info(device)[1]
    major, minor = get_device_capability(device)
    native, count = native_device(), torch.get_num_threads()
    if native and torch.cuda.is_available():
        count = torch.cuda.get_device_properties(native).multi_processor_count
    return SimpleNamespace(
        name=get_device_name(device),
        total_memory=total,
        major=major,
        minor=minor,
        multi_processor_count=count,
    )


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """The GPU's compute capability; (0, 0) where there is none that PyTorch can use.

    `torch.accelerator.get_device_capability` is another thing: the dtypes that tensors may have.
    """
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


def is_tf32_supported() -> bool:
    """Whether the GPU's matrix units take TF32; False on the host."""
    native = native_device()
    if native is None:
        return False
    with torch.cuda.device(native):
        return torch.cuda.is_tf32_supported()


def is_current_stream_capturing() -> bool:
    """False: there is nothing to capture, every step is a compiled program."""
    return False


def __getattr__(name: str) -> tuple[torch.Generator, ...]:
    if name == "default_generators":
        indices = range(torch.ops.acc.device_count())
        return tuple(torch.ops.acc.default_generator(index) for index in indices)
    raise missing("torch.acc", name)


__all__ = [
    "AcceleratorError",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "clock_rate",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "has_half",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "power_draw",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
    "temperature",
    "utilization",
]
