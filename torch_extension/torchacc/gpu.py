"""What the GPU's driver tells of it, for `torch.acc`: as `torch.cuda` has it.

Each raises RuntimeError where acc computes on the host, and ModuleNotFoundError without pynvml.
"""

import torch

from torchacc._index import Device
from torchacc.memory import gpu_of


def clock_rate(device: Device = None) -> int:
    """The clock of the GPU's multiprocessors, in MHz."""
    return torch.cuda.clock_rate(gpu_of("a GPU's clock", device))


def memory_usage(device: Device = None) -> int:
    """Percent of the last moments in which the GPU's memory was read or written."""
    return torch.cuda.memory_usage(gpu_of("the use of a GPU's memory", device))


def power_draw(device: Device = None) -> int:
    """What the GPU takes, in mW."""
    return torch.cuda.power_draw(gpu_of("a GPU's power", device))


def temperature(device: Device = None) -> int:
    """Of the GPU, in degrees Celsius."""
    return torch.cuda.temperature(gpu_of("a GPU's temperature", device))


def utilization(device: Device = None) -> int:
    """Percent of the last moments in which the GPU computed. `torchacc.metrics` has the times in
    which acc's programs ran, on the host, too."""
    return torch.cuda.utilization(gpu_of("a GPU's utilization", device))


__all__ = ["clock_rate", "memory_usage", "power_draw", "temperature", "utilization"]
