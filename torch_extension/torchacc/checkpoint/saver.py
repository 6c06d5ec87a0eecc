"""The process that writes a rank's snapshots to disk: `saver.py FOLDER KEEP_LAST KEEP_EVERY`.

It outlives the rank that started it, whatever kills that one: when its input ends, it finishes what
it was asked for, and writes the last snapshot it was told of. Standard library alone, so that it
takes a few MB and starts at once.

Lines of JSON: it is asked to "save" a part or told that a "snapshot" is whole in memory, and
answers each save with "written" or "failed", then part 0's with "committed" or "failed" ("commit":
a part that another saver wrote; "give up": others' parts will not come; "close": all is well).
"""

import contextlib
import errno
import json
import os
import select
import sys
import time

import files

POLL, PATIENCE = 0.02, 600.0  # seconds between looks for other parts, and in all without its rank


class Saver:
    def __init__(self, folder: str, keep_last: int | None, keep_every: int | None):
        self.folder, self.keep_last, self.keep_every = folder, keep_last, keep_every
        self.uncommitted: list[dict] = []
        self.snapshot: dict | None = None  # not asked to be written yet
        self.rest = b""

    def run(self) -> None:
        while (requests := self.requests()) is not None:
            for request in requests:
                self.take(request)
            self.commit()
        if self.snapshot is not None:
            self.save(self.snapshot)
        until = time.monotonic() + PATIENCE
        while self.uncommitted and time.monotonic() < until:
            self.commit()
            time.sleep(POLL)

    def requests(self) -> list[dict] | None:
        """Those that have come; None after the last."""
        wait = POLL if self.uncommitted else None
        if not select.select([0], [], [], wait)[0]:
            return []
        read = os.read(0, 1 << 16)
        *lines, self.rest = (self.rest + read).split(b"\n")
        return [json.loads(line) for line in lines] if read else None

    def take(self, request: dict) -> None:
        if request["kind"] == "snapshot":
            self.snapshot = request
        elif request["kind"] == "save":
            self.snapshot = None
            self.save(request)
        elif request["kind"] == "commit":
            self.uncommitted.append(request)
        elif request["kind"] == "give up":
            self.uncommitted = [one for one in self.uncommitted if one["id"] != request["id"]]
        else:  # "close": all is well
            self.snapshot = None

    def save(self, request: dict) -> None:
        try:
            files.write_part(self.folder, request)
        except Exception as error:
            self.fail(request, error)
        else:
            answer("written", request)
            if request["part"] == 0:
                self.uncommitted.append(request)

    def commit(self) -> None:
        """In order: what is older than a whole checkpoint is never completed."""
        for request in list(self.uncommitted):
            try:
                if not files.commit(self.folder, request):
                    continue
                files.prune(self.folder, self.keep_last, self.keep_every)
            except Exception as error:
                self.uncommitted.remove(request)
                self.fail(request, error)
            else:
                self.uncommitted.remove(request)
                answer("committed", request)

    def fail(self, request: dict, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            text += ": make room, or keep fewer checkpoints (keep_last)"
        answer("failed", request, error=text)


def answer(kind: str, request: dict, **more: str) -> None:
    line = json.dumps({"kind": kind, "id": request["id"], "part": request["part"], **more}) + "\n"
    with contextlib.suppress(BrokenPipeError):  # the rank is gone
        os.write(1, line.encode())


if __name__ == "__main__":
    Saver(sys.argv[1], *(int(one) if one else None for one in sys.argv[2:4])).run()
