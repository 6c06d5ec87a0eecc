"""The rank's side of its saver process."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from torchacc._progress import Progress, begin_if_asked, estimated, speak_of
from torchacc.checkpoint import files
from torchacc.event_log import event

LIMIT = 3  # starts of a saver without any answer


class SaverClient:
    """Asks the saver to write snapshots, and starts another one where it dies."""

    def __init__(self, folder: Path, keep_last: int | None, keep_every: int | None):
        script = Path(__file__).with_name("saver.py")
        options = (str(one or "") for one in (keep_last, keep_every))
        self._command = [sys.executable, "-E", "-s", str(script), str(folder), *options]
        self._changed = threading.Condition()
        self._unwritten: dict[tuple[str, int], dict] = {}  # by identifier and part
        self._uncommitted: dict[tuple[str, int], dict] = {}  # those of part 0
        self._failed: dict[str, str] = {}  # reasons, by identifier
        self._starts, self._is_closed = 0, False
        self._process: subprocess.Popen | None = None
        self._folder, self._began = folder, 0.0
        speak_of(self)

    def save(self, request: dict) -> None:
        """`request`: what `files.write_part` and `files.commit` need."""
        begin_if_asked()
        with self._changed:
            if not self._unwritten:
                self._began = time.monotonic()
            self._unwritten[_key(request)] = request
            if request["part"] == 0:
                self._uncommitted[_key(request)] = request
            self._send("save", request)

    def tell(self, request: dict) -> None:
        """Of a snapshot, which the saver writes if this process goes without another word."""
        with self._changed:
            self._send("snapshot", request)

    def wait_written(self, identifier: str | None) -> None:
        """Until the part is on disk, or cannot be: its memory may then be used again."""
        with self._changed:
            self._changed.wait_for(lambda: all(one != identifier for one, _ in self._unwritten))

    def wait_parts(self) -> None:
        """Until all parts are on disk, or cannot be."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unwritten)

    def wait_whole(self) -> None:
        """Until the checkpoints of all parts 0 are whole, or cannot be."""
        with self._changed:
            self._changed.wait_for(lambda: not self._uncommitted)

    def give_up(self, identifiers: set[str]) -> None:
        """Checkpoints whose other parts will not come."""
        with self._changed:
            for key in [key for key in self._uncommitted if key[0] in identifiers]:
                del self._uncommitted[key]
                self._send("give up", {"id": key[0]})

    def failures(self) -> dict[str, str]:
        """Those since the last call: why, by identifier."""
        with self._changed:
            made, self._failed = self._failed, {}
            return made

    def progress(self) -> Progress | None:
        """Of what is being written."""
        with self._changed:
            requests, began = list(self._unwritten.values()), self._began
        if not requests:
            return None
        done = sum(files.written(self._folder, one) for one in requests)
        total = sum(one["size"] for one in requests)
        stage = f"checkpoint of step {requests[0]['step']} to {self._folder}"
        return estimated("save", stage, done, total, "bytes", time.monotonic() - began)

    def close(self, is_well: bool = True) -> None:
        """The saver ends when it has done what it was asked for. Unless all `is_well`, it writes
        the last snapshot, too, and is not waited for."""
        with self._changed:
            process, self._is_closed = self._process, True
            if process is None:
                return
            if is_well:
                self._send("close", {})
            process.stdin.close()
        if is_well:
            process.wait()

    def _send(self, kind: str, request: dict) -> None:
        if self._process is None:
            self._start()
        try:
            line = json.dumps({"kind": kind, **request}) + "\n"
            self._process.stdin.write(line.encode())
        except BrokenPipeError:
            pass  # `_listen` starts another one, and asks again

    def _start(self) -> None:
        self._starts += 1
        # In a session of its own, so that a signal to this process's group spares it; and a reader
        # of this process's output does not wait for the saver.
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: subprocess.Popen) -> None:
        rest = b""
        while read := process.stdout.read(1 << 16):
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
        process.wait()
        with self._changed:
            if self._process is process and not self._is_closed:
                self._process = None
                self._ask_again(process.returncode)

    def _ask_again(self, code: int) -> None:
        unwritten, uncommitted = self._unwritten, self._uncommitted
        if self._starts >= LIMIT:
            reason = f"the saver ended {LIMIT} times, the last time with {code}"
            self._failed |= {one: reason for one, _ in [*unwritten, *uncommitted]}
            self._unwritten, self._uncommitted, self._starts = {}, {}, 0
            self._changed.notify_all()
            return
        for key, request in {**uncommitted, **unwritten}.items():
            self._send("save" if key in unwritten else "commit", request)

    def _take(self, answer: dict) -> None:
        key, is_over = _key(answer), answer["kind"] != "written"
        with self._changed:
            request = self._uncommitted.get(key) or self._unwritten.get(key)
        # Logged before waiters go on: these may end the events, or the process.
        if is_over and request is not None:
            event("torchacc.saved", step=request["step"], error=answer.get("error"))
        with self._changed:
            self._starts = 1
            self._unwritten.pop(key, None)
            if is_over:
                self._uncommitted.pop(key, None)
            if answer["kind"] == "failed":
                self._failed[answer["id"]] = answer["error"]
            self._changed.notify_all()


def _key(message: dict) -> tuple[str, int]:
    return message["id"], message["part"]
