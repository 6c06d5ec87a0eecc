"""`torch.acc` streams and events.

Order on the device is program order whatever the stream: a recorded program already overlaps what
may overlap. Streams and events exist so that code written for other devices runs unchanged.
"""

import contextlib

import torch

from torchacc._index import device_index

Stream = torch.Stream
Event = torch.Event


def current_stream(device=None) -> torch.Stream:
    """The stream operations on `device` go to."""
    return torch.accelerator.current_stream(device_index(device))


def default_stream(device=None) -> torch.Stream:
    """Same as `current_stream`."""
    return current_stream(device)


def set_stream(stream: torch.Stream) -> None:
    """Makes `stream` the current one of its device."""
    torch.accelerator.set_stream(stream)


@contextlib.contextmanager
def stream(stream: torch.Stream | None):
    """Context manager: `stream` is the current one inside; None changes nothing."""
    with contextlib.nullcontext() if stream is None else stream:
        yield


def synchronize(device=None) -> None:
    """Cuts, waits for everything recorded so far, and raises what was not reported yet."""
    torch.accelerator.synchronize(device_index(device))


__all__ = [
    "Event",
    "Stream",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
    "synchronize",
]
