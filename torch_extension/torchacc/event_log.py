"""What a training does and when: `torch.monitor` carries the events, which are made here, and
written to files of JSON lines.

It imports nothing of the package at first, so that every module may tell something.
"""

import atexit
import contextlib
import datetime
import functools
import itertools
import json
import math
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
import torch.monitor

# torch.monitor holds a lock of its own while handlers run, and the interpreter's while it waits for
# it: two threads that log, or one that logs and one that ends a stream, would deadlock.
_monitor = threading.RLock()
_spans = itertools.count()
_open: list["EventStream"] = []


class EventStream:
    """Events on their way to a file or a function, until `close` or the end of a `with`."""

    def __init__(self, to: str | os.PathLike | Callable[[dict], None]):
        if callable(to):
            self._write, self._file = to, None
        else:
            path = os.fspath(to).replace("{rank}", str(_rank()))
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            # One system call per line, which appends: ranks may share the file.
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._write = self._append
        self._has_warned = False
        if not _open:
            _new_compiles()  # skips earlier ones
        with _monitor:
            self._handle = torch.monitor.register_event_handler(self._take)
        _open.append(self)

    def close(self) -> None:
        """Ends it. Calling it again does nothing."""
        if self not in _open:
            return
        _compiles()
        _open.remove(self)
        with _monitor:
            torch.monitor.unregister_event_handler(self._handle)
        if self._file is not None:
            os.close(self._file)

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _append(self, event: dict) -> None:
        # JSON has no NaN.
        plain = {
            key: str(one) if isinstance(one, float) and not math.isfinite(one) else one
            for key, one in event.items()
        }
        os.write(self._file, (json.dumps(plain) + "\n").encode())

    def _take(self, event: torch.monitor.Event) -> None:
        about = {"time": event.timestamp.timestamp(), "name": event.name, "rank": _rank()}
        about |= {"host": socket.gethostname(), "pid": os.getpid(), "restart": _restarts()}
        try:
            self._write(about | event.data)
        except Exception as error:
            # A full disk must not end a training.
            if not self._has_warned:
                self._has_warned = True
                text = f"an event was not written: {type(error).__name__}: {error}"
                warnings.warn(text, stacklevel=2)


def events(to: str | os.PathLike | Callable[[dict], None]) -> EventStream:
    """Sends what happens from now on to a file, a JSON object a line, or to a function.

    In a path `{rank}` becomes the process's rank; without it ranks on one machine may share the
    file, to which lines are added. An event has `time` (Unix, seconds), `name`, `kind` ("begin",
    "end", "instant"), `rank`, `host`, `pid`, `restart` (how often torchrun has started the ranks
    again), and what is its own: an end has `seconds`, the `span` of its begin, and the `error` that
    ended it. `docs/operations.md` lists them. TORCHACC_EVENTS does the same for a whole process.

    They go through `torch.monitor`, whose other handlers get them too; what others log there is
    written with them. What cannot be written is dropped, with one warning.

    Raises OSError where the file cannot be opened.
    """
    return EventStream(to)


def event(name: str, **fields: str | float | int) -> None:
    """Tells that something happened now: an event of the kind "instant" with these fields."""
    _log(name, "instant", fields)


@contextlib.contextmanager
def span(name: str, **fields: str | float | int) -> Iterator[dict]:
    """Context manager: an event when it begins and one when it ends. What is put into the dict that
    it gives is told with the end."""
    number, start = next(_spans), time.monotonic()
    more: dict = {}
    _log(name, "begin", {"span": number, **fields})
    try:
        yield more
    except BaseException as error:
        more["error"] = f"{type(error).__name__}: {error}"
        raise
    finally:
        seconds = time.monotonic() - start
        _log(name, "end", {"span": number, **fields, **more, "seconds": seconds})


def _log(name: str, kind: str, fields: dict) -> None:
    data = {key: one for key, one in fields.items() if one is not None}
    # The event's own time has no time zone.
    with _monitor:
        # Under the lock, so that events come in the order of their times.
        data |= {"time": time.time(), "kind": kind}
        torch.monitor.log_event(torch.monitor.Event(name, datetime.datetime.now(), data))


def _rank() -> int:
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK", "0"))  # set by torchrun, before there is a group


def _restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


@functools.cache
def device_starts() -> None:
    """The device is used for the first time in this process."""
    if path := os.environ.get("TORCHACC_EVENTS"):
        atexit.register(events(path).close)
    if os.environ.get("TORCHACC_METRICS"):
        from torchacc.health.prometheus import serve_as_asked

        serve_as_asked()
    if restarts := _restarts():
        event("torchacc.restart", count=restarts, limit=_number("TORCHELASTIC_MAX_RESTARTS"))
    event("torchacc.init", what="device", world=_number("WORLD_SIZE"))


def _number(name: str) -> int | None:
    return int(os.environ[name]) if name in os.environ else None


class _Steps:
    """Steps of one optimizer: of several in a training one is its clock, the first, until another
    steps twice without it, as one does that takes its place."""

    def __init__(self):
        self.count, self.ended = 0, None
        self.clock: int | None = None
        self._others: set[int] = set()  # those that have stepped since the clock did
        self._is_unseen = False

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """Steps inside are none of the training: PyTorch makes one to have an optimizer's state."""
        before, self._is_unseen = self._is_unseen, True
        try:
            yield
        finally:
            self._is_unseen = before

    def end(self, optimizer: int) -> None:
        """A step of the optimizer with this `id`."""
        if self._is_unseen:
            return
        if optimizer != self.clock and self.clock is not None and optimizer not in self._others:
            self._others.add(optimizer)
            return
        self.clock = optimizer
        self._others.clear()
        now, before = time.monotonic(), self.ended
        self.count, self.ended = self.count + 1, now
        seconds = None if before is None else now - before
        event("torchacc.step", step=self.count, seconds=seconds)
        if _open:
            _compiles()


steps = _Steps()
_compiled = 0, 0  # the counter, which a program may reset, and the number of the last compile


def _new_compiles() -> list[dict]:
    """What was compiled since the last call."""
    global _compiled
    count, last = json.loads(torch.ops.acc.metrics()).get("compiles", 0), _compiled[1]
    if count == _compiled[0]:
        return []
    new = [one for one in json.loads(torch.ops.acc.explain())["compiles"] if one["number"] > last]
    _compiled = count, max((one["number"] for one in new), default=last)
    return new


def _compiles() -> None:
    """Tells of what was compiled since the last call."""
    for one in _new_compiles():
        event(
            "torchacc.compile",
            number=one["number"],
            seconds=one["took_ns"] / 1e9,
            operations=one["operations"],
            why=one["why"],
            site=one.get("site") or one.get("change", {}).get("site"),
        )
