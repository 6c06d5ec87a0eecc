"""`torch.acc.streams`: streams and events.

Order on the device is program order whatever the stream: a recorded program already overlaps what
may overlap. Streams and events exist so that code written for other devices runs unchanged, and
events to measure time.
"""

from typing import Any

import torch

from torchacc._index import Device, device_index


class _StandsFor(type):
    """Of a class whose instances are those of one of PyTorch's, which cannot be derived from: it
    takes no instances of derived classes for arguments."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls.stands_for)


class Stream(metaclass=_StandsFor):
    """`torch.Stream` with the arguments of `torch.cuda.Stream`; all priorities are alike."""

    stands_for = torch.Stream

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> torch.Stream:
        if kwargs:
            return torch.Stream(**kwargs)
        return torch.Stream(torch.device("acc", device_index(device)))


class Event(metaclass=_StandsFor):
    """`torch.Event` with the arguments of `torch.cuda.Event`.

    With `enable_timing`, `start.elapsed_time(end)` is for how many milliseconds the device worked
    on what was recorded between the two and is still wanted: on programs and on operators that run
    at once. Recording, compiling and waiting take none of it, and copies from and to the host take
    the host's time. `record` then cuts and waits for what was recorded before, and raises its
    errors; without timing it costs nothing.
    """

    stands_for = torch.Event

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> torch.Event:
        if interprocess or external:
            raise NotImplementedError("events of acc stay in their process and their program")
        return torch.Event("acc", enable_timing=enable_timing, blocking=blocking)


def current_stream(device: Device = None) -> torch.Stream:
    """The stream operations on `device` go to."""
    return torch.accelerator.current_stream(device_index(device))


def default_stream(device: Device = None) -> torch.Stream:
    """The stream that is current until another one is set."""
    index = device_index(device)
    kind = current_stream(index).device_type
    return torch.Stream(stream_id=0, device_index=index, device_type=kind)


def set_stream(stream: torch.Stream) -> None:
    """Makes `stream` the current one of its device, and that the current device. None changes
    nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager: `stream` is the current one inside; None changes nothing."""

    def __init__(self, stream: torch.Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            self.stream.__exit__(*exception)


def stream(stream: torch.Stream | None) -> StreamContext:
    """`StreamContext(stream)`."""
    return StreamContext(stream)


def synchronize(device: Device = None) -> None:
    """Cuts, waits for everything recorded so far, and raises what was not reported yet."""
    torch.accelerator.synchronize(device_index(device))


__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
    "synchronize",
]
