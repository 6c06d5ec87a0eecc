"""`report`: one HTML page that shows a run."""

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import torch

from torchacc._metrics import reset_metrics
from torchacc.step import at_first_use, sync


class Report:
    """What `report` returns: a context manager."""

    def __init__(self, path: Path):
        self._path = path

    def __enter__(self) -> None:
        sync()
        reset_metrics()
        torch.ops.acc.profile_start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failed = _settled()
        timeline = torch.ops.acc.profile_stop()
        _write(self._path, _title(sys.argv), timeline, error or failed)
        if failed and error is None:
            raise failed


def report(path: str | os.PathLike) -> Report:
    """Writes one HTML page about this process to `path`: where the time went, memory with the
    largest tensors, compiles, CPU fallbacks and cuts with their reasons and lines, and what to
    change. It needs no network and no other file.

        torchacc.report("report.html")              # of all since the start, or reset_metrics

        with torchacc.report("report.html"):        # of what runs inside, with a timeline
            for batch in batches:
                step(batch)

    As a context manager it also shows steps and kernels with their lines, and writes the page
    again at the end, that of a block that raises, too. It resets the counters (`reset_metrics`) and
    keeps the last 262144 events; every kernel is timed meanwhile. One timeline at a time, those of
    `profile` included. Waits for what was recorded before it writes.

    Raises OSError, before anything inside runs, where `path` cannot be written, and what `sync`
    raises, after the page is written.
    """
    failed = _settled()
    _write(Path(path), _title(sys.argv), None, failed)
    if failed:
        raise failed
    return Report(Path(path))


@contextlib.contextmanager
def whole_run(path: Path, command: list[str]) -> Iterator[None]:
    """Context manager: reports what runs inside, which is all that `command` does. The timeline
    begins when the device is first used, so that the program may choose a backend before. Of
    several processes each has a page of its own, with its rank in the name.

    Raises OSError, before anything inside runs, where the page cannot be written; else what is
    raised inside.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        path = path.with_stem(f"{path.stem}-{os.environ['RANK']}")
    path.touch()
    used: list[bool] = []

    def start() -> None:
        used.append(True)
        reset_metrics()
        torch.ops.acc.profile_start()

    at_first_use.append(start)
    ended: BaseException | None = None
    try:
        yield
    except BaseException as error:
        ended = error
        raise
    finally:
        failed = _settled() if used else None
        timeline = torch.ops.acc.profile_stop() if used else None
        _write(path, _title(command), timeline, ended or failed)
        print(f"torchacc: {path} shows the run", file=sys.stderr)


def _title(command: list[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:]]) if command and command[0] else "Python"


def _write(path: Path, title: str, timeline: str | None, ended: BaseException | None) -> None:
    # Imported here, since most programs do not need them.
    from torchacc._report.page import document
    from torchacc._report.run import collect
    from torchacc._report.timeline import parse

    kept = None if timeline is None else parse(timeline)
    is_well = ended is None or isinstance(ended, SystemExit) and ended.code in (None, 0)
    said = "" if is_well else "".join(traceback.format_exception_only(ended)).strip()
    path.write_text(document(collect(title, kept, said)), encoding="utf-8")


def _settled() -> Exception | None:
    """Waits for everything. What failed belongs into the page before it is raised."""
    try:
        sync()
    except Exception as error:
        return error
    return None
