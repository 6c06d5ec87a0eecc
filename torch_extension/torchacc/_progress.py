"""What takes long just now, and how long still, for who asked: `set_progress`."""

import atexit
import contextlib
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

_PERIOD = 1.0  # seconds between looks; anything done before the first is not reported


class Progress(NamedTuple):
    """Something that takes long: "compile", "save", "load" or "convert", the `stage` it is at,
    `done` of `total` (0 if it is not known) in `unit`s, seconds `elapsed` and, as far as can be
    told, `remaining` (None if not; 0 when it has ended)."""

    what: str
    stage: str
    done: int
    total: int
    unit: str
    elapsed: float
    remaining: float | None

    def __str__(self) -> str:
        if self.remaining == 0:
            return f"{self.what} {self.stage}: done after {self.elapsed:.0f} s"
        part = f", {_amount(self.done, self.total, self.unit)}" if self.total else ""
        still = "" if self.remaining is None else f", about {self.remaining:.0f} s more"
        return f"{self.what} {self.stage}{part}, {self.elapsed:.0f} s so far{still}"


class Task:
    """Something that says itself how far it is: set `done`."""

    def __init__(self, what: str, stage: str, total: int, unit: str):
        self._fields, self.done, self._began = (what, stage, total, unit), 0, time.monotonic()

    def progress(self) -> Progress:
        what, stage, total, unit = self._fields
        return estimated(what, stage, self.done, total, unit, time.monotonic() - self._began)


def estimated(what: str, stage: str, done: int, total: int, unit: str, elapsed: float) -> Progress:
    """`remaining` from what was done so far, which padding may make more than was thought."""
    done = min(done, total)
    left = elapsed / done * (total - done) if 0 < done < total else None
    return Progress(what, stage, done, total, unit, elapsed, left)


def set_progress(to: Callable[[Progress], None] | bool) -> None:
    """Says about once a second what a compile, a checkpoint's save, the loading of weights or a
    conversion is at and how long it takes still: True on stderr, or to a function, which is called
    in a thread of its own with a `Progress`; False, which is the default, says nothing.
    `TORCHACC_PROGRESS=1` is True from the start. What takes less than a second is not spoken of."""
    global _tell, _is_settled
    with _lock:
        _tell, _is_settled = (_print if to is True else to or None), True
        if _tell is not None:
            _start()


@contextlib.contextmanager
def task(what: str, stage: str, total: int, unit: str) -> Iterator[Task]:
    """Context manager: what is done inside is spoken of to who asked."""
    begin_if_asked()
    one = Task(what, stage, total, unit)
    speak_of(one)
    try:
        yield one
    finally:
        with _lock:
            _sources.discard(one)


def speak_of(source: object) -> None:
    """`source.progress()` gives a Progress, or None while nothing is to be said; for as long as
    somebody has `source`."""
    with _lock:
        _sources.add(source)


def begin_if_asked() -> None:
    """Does as `TORCHACC_PROGRESS` says, unless the program has said something else."""
    if not _is_settled:
        set_progress(os.environ.get("TORCHACC_PROGRESS", "0") not in ("", "0"))


class _Compile:
    def progress(self) -> Progress | None:
        it = json.loads(torch.ops.acc.progress())
        if not it:
            return None
        stage = f"{it['operations']} operations, {it['stage']}"
        elapsed, expected = it["elapsed_ns"] / 1e9, it["expected_ns"] / 1e9
        remaining = expected - elapsed if expected > elapsed else None
        done, total = it["kernels_done"], it["kernels"]
        return Progress("compile", stage, done, total, "kernels", elapsed, remaining)


_compile = _Compile()
_sources: weakref.WeakSet = weakref.WeakSet([_compile])
_lock = threading.Lock()
# The receiver of reports, and whether the program has chosen it.
_tell: Callable[[Progress], None] | None = None
_is_settled = False
_ended = threading.Event()
_thread: threading.Thread | None = None


def _start() -> None:
    """Under the lock. A child of `fork` has its parent's thread by name only."""
    global _thread
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_watch, name="torchacc-progress", daemon=True)
        _thread.start()


@atexit.register
def _stop() -> None:
    """A thread that comes back from C++ while the interpreter ends would end it badly."""
    thread = _thread
    _ended.set()
    if thread is not None:
        thread.join()


def _watch() -> None:
    global _thread
    said: dict[object, Progress] = {}
    while not _ended.wait(_PERIOD):
        with _lock:
            # A request after this starts another thread.
            if (tell := _tell) is None:
                _thread = None
                return
            sources = list(_sources)
        all_now = {source: source.progress() for source in sources}
        now = {source: one for source, one in all_now.items() if one and one.elapsed >= _PERIOD}
        for source, before in said.items():
            if source not in now or now[source].elapsed < before.elapsed:
                tell(before._replace(done=before.total, remaining=0.0))
        for progress in now.values():
            tell(progress)
        said = now


def _print(progress: Progress) -> None:
    print(f"torchacc: {progress}", file=sys.stderr, flush=True)


def _amount(done: int, total: int, unit: str) -> str:
    if unit == "bytes":
        return f"{done / 2**20:.0f} of {total / 2**20:.0f} MiB"
    return f"{done} of {total} {unit}"
