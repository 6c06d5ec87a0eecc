"""A thread of each rank that tells the others that it lives, and notices who does not, who lags,
and where all of them are when one hangs.

Ranks talk by the store of their process group, over a connection of their own: what a rank waits
for elsewhere holds up nothing here.
"""

import collections
import contextlib
import faulthandler
import json
import os
import secrets
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from torchacc._explain import described_collectives, explanation
from torchacc._metrics import metrics
from torchacc.event_log import steps
from torchacc.health import exits

STEPS = 5  # steps over which the time of a step is averaged
SAID_AFTER = 3  # beats in a row that a rank must lag to be reported
LOST = 0.2  # part of a step that the others must lose for a rank to lag
ANSWERS = 2  # beats in which the ranks write down their positions
TELLING = 20  # most beats in which the rank that asked reports the answers


class Heart:
    """Beats every `interval` seconds until `stop`.

    `alarm(kind, rank, text)` is called from its thread. When nothing has happened on a rank for
    `timeout` seconds, all write down their stacks; the process then ends if it is to `exit`.
    """

    def __init__(
        self,
        alarm: Callable[[str, int, str], None],
        *,
        timeout: float,
        lag: float,
        interval: float,
        folder: Path | None,
        exit: bool,
    ):
        self._alarm, self._timeout, self._lag, self._exit = alarm, timeout, lag, exit
        self._interval, self._folder = interval, folder
        self.rank, self.size, self._store = 0, 1, None
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            self.rank, self.size = dist.get_rank(), dist.get_world_size()
            self._store = _own_store()
        self._file = _opened(folder, self.rank)
        self._progress: tuple | None = None
        self._since = time.monotonic()
        self._pace = _Pace()
        self._seen: dict[int, tuple[bytes, float]] = {}  # last beat of each rank, and its time
        self._lags: dict[int, tuple[int, int]] = {}  # lags in a row, and last step
        self._has_dumped = self._read("stacks")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="torchacc-heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        with contextlib.suppress(dist.DistError):  # the store may be gone
            self._write(str(self.rank), json.dumps({"done": True}))
        if self._folder is not None:
            self._file.close()

    def _run(self) -> None:
        try:
            self._beat_on()
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _beat_on(self) -> None:
        while not self._stopped.is_set():
            # If this thread cannot run because the interpreter is held, a timer of the system
            # writes the stacks.
            faulthandler.dump_traceback_later(self._timeout + self._interval, file=self._file)
            try:
                self._beat()
            except dist.DistError as error:
                # The store was lost with the rank, or the agent, that had it.
                self._store = None
                self._alarm("store", self.rank, f"the ranks' store is gone: {error}")
            self._stopped.wait(self._interval)

    def _beat(self) -> None:
        now = time.monotonic()
        counters = metrics()
        progress = (steps.count, *(counters[one] for one in ("recorded_ops", "kernels")))
        progress += (counters["collectives"], counters["compile_ns"])
        if progress != self._progress:
            self._progress, self._since = progress, now
        self._pace.add(now, steps.count, counters["collective_exposed_ns"] / 1e9)
        beat = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "step": steps.count,
            "pace": self._pace.average(),
            "collectives": _last_collectives(),
            "beat": now,
        }
        self._write(str(self.rank), json.dumps(beat))
        if now - self._since >= self._timeout:
            self._ask(f"nothing has happened on rank {self.rank} for {now - self._since:.0f} s")
        if self._store is not None:
            self._look_at((self.rank + 1) % self.size, now)
            if self.rank == 0:
                self._find_lagging(now, beat)
        asked = self._read("stacks")
        if asked is not None and asked != self._has_dumped:
            self._has_dumped = asked
            self._dump(asked.decode())

    def _look_at(self, rank: int, now: float) -> dict | None:
        """What a rank said last; that it has said nothing is told, by its neighbour."""
        said = self._read(str(rank)) or b"{}"
        before, since = self._seen.get(rank, (None, now))
        if said != before:
            since = now
        self._seen[rank] = said, since
        beat = json.loads(said)
        late = max(self._timeout, 3 * self._interval)
        if now - since >= late and "done" not in beat and rank == (self.rank + 1) % self.size:
            self._seen[rank] = said, now  # reported again after the same time
            self._ask(
                f"rank {rank} has not been heard of for {now - since:.0f} s: its process is gone, "
                "stopped, or holds the interpreter"
            )
        return beat

    def _find_lagging(self, now: float, mine: dict) -> None:
        """A rank that the others wait for: it is busy for longer than they, and that is no small
        part of a step."""
        beats = {0: mine, **{rank: self._look_at(rank, now) for rank in range(1, self.size)}}
        paces = {rank: beat["pace"] for rank, beat in beats.items() if beat.get("pace")}
        for rank, pace in paces.items():
            others = [one["busy"] for other, one in paces.items() if other != rank]
            count, step = self._lags.get(rank, (0, -1))
            if not others or beats[rank]["step"] == step:
                continue
            usual = statistics.median_low(others)
            lost = pace["busy"] - usual
            lags = pace["busy"] > self._lag * usual and lost > LOST * pace["seconds"]
            count = count + 1 if lags else 0
            self._lags[rank] = count, beats[rank]["step"]
            if count == SAID_AFTER:
                text = f"rank {rank} on {beats[rank]['host']} is busy for {pace['busy']:.3g} s of "
                text += f"{pace['seconds']:.3g} s a step, the others for {usual:.3g} s"
                self._alarm("straggler", rank, text)

    def _ask(self, why: str) -> None:
        """All ranks to write down where they are. Of several that ask at once one does."""
        if self._store is None:
            self._dump(json.dumps({"why": why, "by": self.rank}))
        elif self._has_dumped == self._read("stacks"):
            asked = json.dumps({"why": why, "by": self.rank, "id": secrets.token_hex(4)})
            self._store.compare_set("stacks", (self._has_dumped or b"").decode(), asked)

    def _dump(self, asked: str) -> None:
        about = json.loads(asked)
        print(f"torchacc: {about['why']}; the stacks of rank {self.rank}:", file=self._file)
        self._file.flush()
        faulthandler.dump_traceback(self._file, all_threads=True)
        print(f"step {steps.count}; {_flight_recorder()}", file=self._file, flush=True)
        if about["by"] == self.rank:
            where = f"; stacks: {self._folder}" if self._folder else ""
            self._alarm("hang", self.rank, f"{about['why']}{where}\n{self._summary()}")
            self._write("told", about.get("id", ""))
        elif self._exit:
            self._await_told(about["id"])
        if self._exit and not self._stopped.is_set():
            sys.stderr.flush()
            os._exit(exits.AGAIN)
        self._since = time.monotonic()  # reported again after the same time

    def _await_told(self, number: str) -> None:
        """A rank that ends takes its connections with it, and may end so who has not told yet what
        hangs."""
        with contextlib.suppress(dist.DistError):  # that rank had the store, and has reported
            for _ in range(TELLING):
                if self._read("told") == number.encode() or self._stopped.wait(self._interval):
                    return

    def _summary(self) -> str:
        """Who is missed where; then each rank's step and collectives, who is behind first."""
        if self._store is None:
            return ""
        before = [self._read(str(rank)) for rank in range(self.size)]
        self._stopped.wait(ANSWERS * self._interval)
        after = [self._read(str(rank)) for rank in range(self.size)]
        said = {rank: json.loads(one or b"{}") for rank, one in enumerate(after)}
        for rank, beat in said.items():
            beat["is_silent"] = before[rank] == after[rank] and rank != self.rank
        order = sorted(said, key=lambda rank: said[rank].get("step", -1))
        return "\n".join(_missed(said) + [_described(rank, said[rank]) for rank in order])

    def _read(self, key: str) -> bytes | None:
        if self._store is None or not self._store.check([key]):
            return None
        return self._store.get(key)

    def _write(self, key: str, text: str) -> None:
        if self._store is not None:
            self._store.set(key, text)


class _Pace:
    """How long a step takes, and how much of it a rank does not wait for others."""

    def __init__(self):
        self._samples: collections.deque = collections.deque()

    def add(self, now: float, steps: int, waited: float) -> None:
        """Of a moment: the steps and the seconds of waiting until then."""
        samples = self._samples
        if samples and waited < samples[-1][2]:
            samples.clear()  # the counters were reset
        # Not within a step: the present wait is not counted yet.
        if not samples or steps != samples[-1][1]:
            samples.append((now, steps, waited))
        while len(samples) > 2 and samples[-1][1] - samples[1][1] >= STEPS:
            samples.popleft()

    def average(self) -> dict[str, float] | None:
        (begin, first, waited), (end, last, waits) = self._samples[0], self._samples[-1]
        if last - first < STEPS:
            return None
        seconds = (end - begin) / (last - first)
        return {"seconds": seconds, "busy": max(0.0, seconds - (waits - waited) / (last - first))}


def _own_store() -> dist.Store:
    """The job's, by a connection of its own, with keys that no earlier start of the ranks had."""
    store = dist.distributed_c10d._get_default_store().clone()
    life = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"torchacc/heart/{life}", store)


def _opened(folder: Path | None, rank: int):
    if folder is None:
        return sys.__stderr__
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / f"rank_{rank}.txt").open("a")


def _last_collectives() -> dict[str, dict]:
    """Of each process group the first that runs, or else the last one."""
    made: dict[str, dict] = {}
    for row in explanation()["collectives"]:
        group = str(row["communicator"])
        if made.get(group, {}).get("state") != "running":
            made[group] = {key: row[key] for key in ("number", "name", "state", "site")}
            made[group]["name"] = row["name"].removeprefix("torchacc::")
    return made


def _missed(said: dict[int, dict]) -> list[str]:
    """Ranks that have not come to what others of their group wait in."""
    groups: dict[str, dict[int, dict]] = collections.defaultdict(dict)
    for rank, beat in said.items():
        for group, last in beat.get("collectives", {}).items():
            groups[group][rank] = last
    lines = []
    for group, ranks in groups.items():
        running = [last for last in ranks.values() if last["state"] == "running"]
        first = min(running, key=lambda last: last["number"], default=None)
        absent = [rank for rank in ranks if first and ranks[rank]["number"] < first["number"]]
        if absent:
            where = f"{first['name']} {first['number']} of group {group} ({first['site']})"
            lines.append(f"  {where}: others wait there for rank {', '.join(map(str, absent))}")
    return lines


def _described(rank: int, beat: dict) -> str:
    if "done" in beat:
        return f"  rank {rank}: has ended its watch"
    if "step" not in beat:
        return f"  rank {rank}: was never heard of"
    lasts = [
        f"group {group}: {last['name']} {last['number']} {last['state']} {last['site']}"
        for group, last in beat["collectives"].items()
    ]
    where = "; ".join(lasts) or "no collective yet"
    silent = ", is heard of no more" if beat["is_silent"] else ""
    return f"  rank {rank} on {beat['host']}{silent}: step {beat['step']}, {where}"


def _flight_recorder() -> str:
    return "\n".join(described_collectives(explanation()["collectives"])) or "no collectives"
