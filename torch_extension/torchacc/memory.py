"""`torch.acc.memory`: bytes in use, in the names of `torch.cuda.memory`. All sizes are bytes.

The runtime reserves nothing ahead: what is allocated is what is reserved.
"""

import json
import os

import torch

from torchacc._index import device_index


def memory_stats(device=None) -> dict[str, int]:
    """The runtime's memory counters, flat, with PyTorch's names for the two it shares."""
    stats = json.loads(torch.ops.acc.memory_stats(device_index(device)))
    stats["allocated_bytes.all.current"] = stats.get("live_bytes", 0)
    stats["allocated_bytes.all.peak"] = stats.get("peak_bytes", 0)
    return stats


def memory_allocated(device=None) -> int:
    """Bytes that live tensors and running programs hold now."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device=None) -> int:
    """The most bytes held at once since the start or `reset_peak_memory_stats`."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device=None) -> int:
    """Same as `memory_allocated`."""
    return memory_allocated(device)


def max_memory_reserved(device=None) -> int:
    """Same as `max_memory_allocated`."""
    return max_memory_allocated(device)


def reset_peak_memory_stats(device=None) -> None:
    """Sets the peak to what is in use now."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


def empty_cache() -> None:
    """Gives unused memory back to the system."""
    torch.accelerator.empty_cache()


def native_device() -> torch.device | None:
    """The device of PyTorch's own that acc computes on: "cuda:0" and so on, also where this PyTorch
    cannot use it; None for the host."""
    kind, number = torch.ops.acc.dlpack_device()
    return torch.device("cuda", number) if kind == torch.utils.dlpack.DLDeviceType.kDLCUDA else None


def mem_get_info(device=None) -> tuple[int, int]:
    """(free, total) bytes of the memory that the device uses: the GPU's or the host's. Raises what
    `torch.cuda.mem_get_info` does where PyTorch cannot use the GPU."""
    device_index(device)
    if native := native_device():
        return torch.cuda.mem_get_info(native)
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


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
