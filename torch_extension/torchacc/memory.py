"""`torch.acc.memory`: bytes in use, in the names of `torch.cuda.memory`. All sizes are bytes.

Allocated is what values have, what programs need between their inputs and outputs, and weights that
were packed. Reserved is that with what is free and kept for the next step, until `empty_cache`.
"""

import json
from pathlib import Path

import torch

from torchacc._index import device_index


def memory_stats(device=None) -> dict[str, int]:
    """The memory counters, flat, by PyTorch's names. `requested_bytes` is what storages would take,
    of which many are never in memory; `allocation` counts them."""
    return json.loads(torch.ops.acc.memory_stats(device_index(device)))


def memory_allocated(device=None) -> int:
    """Bytes that tensors and programs have now. What was recorded has none until it is computed."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device=None) -> int:
    """The most bytes held at once since the start or `reset_peak_memory_stats`."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device=None) -> int:
    """Bytes taken from the system or the GPU: allocated ones, and those kept for the next step."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device=None) -> int:
    """The most bytes reserved at once since the start or `reset_peak_memory_stats`."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device=None) -> None:
    """Sets the peak to what is in use now."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


def empty_cache() -> None:
    """Gives the memory that is kept for the next step back to the system or GPU: free memory, what
    programs have for intermediates, and packed weights. Waits for what was cut."""
    torch.accelerator.empty_cache()


def native_device() -> torch.device | None:
    """The device of PyTorch's own that acc computes on: "cuda:0" and so on, also where this PyTorch
    cannot use it; None for the host."""
    kind, number = torch.ops.acc.dlpack_device()
    return torch.device("cuda", number) if kind == torch.utils.dlpack.DLDeviceType.kDLCUDA else None


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) bytes of the memory that the device uses: the GPU's or the host's, where the
    system's cache of files counts as free. Raises what `torch.cuda.mem_get_info` does where PyTorch
    cannot use the GPU."""
    device_index(device)
    if native := native_device():
        return torch.cuda.mem_get_info(native)
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    kilobytes = {name: int(number) for name, number, *_ in lines}
    return kilobytes["MemAvailable:"] << 10, kilobytes["MemTotal:"] << 10


__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "native_device",
    "reset_peak_memory_stats",
]
