"""`torch.acc.memory`: bytes in use, in the names of `torch.cuda.memory`. All sizes are bytes.

Allocated is what values have, what programs need between their inputs and outputs, and weights that
were packed. Reserved is that with what is free and kept for the next step, until `empty_cache`.
All indices of acc share one memory, so each reports the same bytes, but for its own storages.
"""

from pathlib import Path
from typing import Any, NoReturn

import torch
from typing_extensions import deprecated

from torchacc._absent import missing
from torchacc._index import Device, device_index


def memory_stats(device: Device = None) -> dict[str, int]:
    """The memory counters, flat, by the names of `torch.cuda.memory_stats`; empty before the first
    use of the device.

    `allocated_bytes`, `active_bytes` and `reserved_bytes` have `current` and `peak`.
    `requested_bytes` is what storages would take, of which many are never in memory, and
    `allocation` counts the storages: these have `allocated` and `freed`, too. What else CUDA's
    allocator counts is 0.
    """
    return torch.accelerator.memory_stats(device_index(device))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """`memory_stats` as a dict of dicts."""
    if not torch._C._accelerator_isAllocatorInitialized():
        return {}
    return torch._C._accelerator_getDeviceStats(device_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets what `memory_stats` adds up (`allocated` and `freed`) to 0."""
    torch.accelerator.reset_accumulated_memory_stats(device_index(device))


def memory_allocated(device: Device = None) -> int:
    """Bytes that tensors and programs have now. What was recorded has none until it is computed."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes held at once since the start or `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the system or the GPU: allocated ones, and those kept for the next step."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes reserved at once since the start or `reset_peak_memory_stats`."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Sets the peaks to what is in use now."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


@deprecated("use torch.acc.memory_reserved", category=FutureWarning)
def memory_cached(device: Device = None) -> int:
    """The old name of `memory_reserved`."""
    return memory_reserved(device)


@deprecated("use torch.acc.max_memory_reserved", category=FutureWarning)
def max_memory_cached(device: Device = None) -> int:
    """The old name of `max_memory_reserved`."""
    return max_memory_reserved(device)


@deprecated("use torch.acc.reset_peak_memory_stats", category=FutureWarning)
def reset_max_memory_allocated(device: Device = None) -> None:
    """The old name of `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


@deprecated("use torch.acc.reset_peak_memory_stats", category=FutureWarning)
def reset_max_memory_cached(device: Device = None) -> None:
    """The old name of `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def empty_cache() -> None:
    """Gives the memory that is kept for the next step back to the system or GPU: free memory, what
    programs have for intermediates, and packed weights. Waits for what was cut."""
    torch.accelerator.empty_cache()


def ipc_collect() -> None:
    """Does nothing: tensors of acc are not shared between processes, so none is left over."""


def memory_snapshot(
    mempool_id: tuple[int, int] | None = None, include_traces: bool = True
) -> list[dict[str, Any]]:
    """The reserved memory as one segment in the form of `torch.cuda.memory_snapshot`, a block of it
    in use, the other free. Its sizes are those of `memory_reserved` and `memory_allocated`; blocks
    have no addresses outside the runtime, and no traces."""
    reserved, allocated = memory_reserved(), memory_allocated()
    blocks = [(allocated, "active_allocated"), (reserved - allocated, "inactive")]
    return [
        {
            "device": device_index(),
            "address": 0,
            "total_size": reserved,
            "allocated_size": allocated,
            "active_size": allocated,
            "requested_size": allocated,
            "stream": 0,
            "segment_type": "large",
            "blocks": [{"size": size, "state": state} for size, state in blocks if size],
        }
    ][: 1 if reserved else 0]


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of the memory for people: what is in use, kept and asked for, now and at most.
    `abbreviated` leaves out what storages ask for and how many they are."""
    stats = memory_stats(device)
    rows = [("Allocated memory", "allocated_bytes"), ("Reserved memory", "reserved_bytes")]
    if not abbreviated:
        rows += [("Requested by storages", "requested_bytes"), ("Storages", "allocation")]
    lines = [f"{f'acc:{device_index(device)}':24}{'Now':>14}{'Most':>14}"]
    for title, name in rows:
        show = str if name == "allocation" else _size_text
        now, most = (stats.get(f"{name}.all.{kind}", 0) for kind in ("current", "peak"))
        lines.append(f"{title:24}{show(now):>14}{show(most):>14}")
    return "\n".join(lines)


def _size_text(nbytes: int) -> str:
    size, units = float(nbytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        del units[0]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.2f} {units[0]}"


def native_device() -> torch.device | None:
    """The device of PyTorch's own that acc computes on: "cuda:0" and so on, also where this PyTorch
    cannot use it; None for the host."""
    kind, number = torch.ops.acc.dlpack_device()
    return torch.device("cuda", number) if kind == torch.utils.dlpack.DLDeviceType.kDLCUDA else None


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) bytes of the memory that the device uses: the GPU's, or `host_memory`. Raises
    what `torch.cuda.mem_get_info` does where PyTorch cannot use the GPU."""
    device_index(device)
    native = native_device()
    return torch.cuda.mem_get_info(native) if native else host_memory()


def host_memory() -> tuple[int, int]:
    """(free, total) bytes of the host, or of the control group (version 2, as containers have) that
    limits this process to less. The system's cache of files counts as free."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    kilobytes = {name: int(number) for name, number, *_ in lines}
    free, total = kilobytes["MemAvailable:"] << 10, kilobytes["MemTotal:"] << 10
    for group in _control_groups():
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            cache = int(stat.get("inactive_file", 0))
            used = int((group / "memory.current").read_text()) - cache
            total = min(total, int(limit))
            free = min(free, max(int(limit) - used, 0))
    return free, total


def _control_groups() -> list[Path]:
    """Those that this process is in and that may have a limit on memory."""
    root = Path("/sys/fs/cgroup")
    try:
        entries = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    own = [root / entry[3:].lstrip("/") for entry in entries if entry.startswith("0::")]
    groups = [
        group for path in own for group in (path, *path.parents) if root in (group, *group.parents)
    ]
    files = ("memory.max", "memory.current", "memory.stat")
    return [group for group in groups if all((group / name).is_file() for name in files)]


def device_memory_used(device: Device = None) -> int:
    """Bytes of the GPU's or the host's memory that any program uses."""
    free, total = mem_get_info(device)
    return total - free


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limits what this process takes of the GPU's memory to `fraction` of it, from 0 to 1: beyond
    it is torch.OutOfMemoryError, of PyTorch's other tensors on that GPU, too.

    Raises RuntimeError where acc computes on the host, whose memory the system limits (`ulimit -v`,
    a container's memory).
    """
    torch.cuda.set_per_process_memory_fraction(fraction, gpu_of("a memory fraction", device))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """What `set_per_process_memory_fraction` set; 1.0 on the host."""
    device_index(device)
    native = native_device()
    return torch.cuda.get_per_process_memory_fraction(native) if native else 1.0


def list_gpu_processes(device: Device = None) -> str:
    """The GPU's processes and their memory, as text: `torch.cuda.list_gpu_processes`. Raises
    RuntimeError where acc computes on the host."""
    return torch.cuda.list_gpu_processes(gpu_of("a list of the GPU's processes", device))


def gpu_of(what: str, device: Device) -> torch.device:
    """The GPU that acc computes on. Raises RuntimeError if there is none to have `what`."""
    device_index(device)
    if native := native_device():
        return native
    raise RuntimeError(f"acc computes on the host here, where there is no such thing as {what}")


def __getattr__(name: str) -> NoReturn:
    raise missing("torch.acc.memory", name)


__all__ = [
    "device_memory_used",
    "empty_cache",
    "get_per_process_memory_fraction",
    "ipc_collect",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "native_device",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]
