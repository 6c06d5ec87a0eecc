"""One training that is killed again and again, loses its disk, its machine and bits of its files:
each life goes on where the last one had saved, and its losses are those of one that nothing
disturbs."""

import contextlib
import os
import random
import resource
import shutil
import signal
import time
from pathlib import Path

import ranks
from torchacc.checkpoint import files

RANKS = 2
# `make test-chaos` runs the whole.
WHOLE = os.environ.get("TORCHACC_CHAOS") == "whole"
KINDS = ["rank", "all", "machine", "saver", "full disk", "truncated", "flipped"]
SHORT = ["saver", "rank", "all", "flipped"]
SECONDS = 1200 if WHOLE else 600  # for what a life is to do


class Life:
    """The ranks from one start to the next."""

    def __init__(self, folder, logs, steps):
        self.logs = [Path(logs, str(rank)) for rank in range(RANKS)]
        self.begins = [log.stat().st_size if log.exists() else 0 for log in self.logs]
        arguments = folder, logs, steps
        self.store, self.processes = ranks.start(
            "disturbed.train", RANKS, *arguments, backend="acc"
        )

    def lines(self, kind):
        """What each rank has said of this kind in this life, without what it is saying now."""
        made = []
        for log, begin in zip(self.logs, self.begins, strict=True):
            text = log.read_bytes()[begin:].decode() if log.exists() else ""
            lines = [line.split() for line in text.splitlines(keepends=True) if line[-1] == "\n"]
            made.append([line[1:] for line in lines if line[0] == kind])
        return made

    def wait(self, is_so):
        until = time.monotonic() + SECONDS
        while not is_so():
            codes = [process.poll() for process in self.processes]
            assert not any(codes), self.ended()
            assert time.monotonic() < until, self.ended()
            time.sleep(0.005)

    def wait_steps(self, count):
        last = min(map(len, self.lines("step"))) + count
        self.wait(lambda: min(map(len, self.lines("step"))) >= last or self.is_done())

    def is_done(self):
        return all(process.poll() == 0 for process in self.processes)

    def begin(self):
        self.wait(lambda: all(self.lines("begin")))
        begins = {int(lines[0][0]) for lines in self.lines("begin")}
        assert len(begins) == 1
        return begins.pop()

    def saved(self):
        """The last step that every rank has saved, in this life."""
        return min(int(lines[-1][0]) if lines else -1 for lines in self.lines("saved"))

    def savers(self):
        made = []
        for process in self.processes:
            for task in Path(f"/proc/{process.pid}/task").glob("*/children"):
                try:
                    pids = task.read_text().split()
                    made += [int(pid) for pid in pids if b"saver.py" in _command(pid)]
                except OSError:
                    continue
        return made

    def kill(self, *pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self):
        """As torchrun does when a rank is gone."""
        self.kill(*(process.pid for process in self.processes if process.poll() is None))
        for process in self.processes:
            process.communicate()

    def ended(self):
        for process in self.processes:
            process.kill()
        return "\n".join(process.communicate()[0] for process in self.processes)


def _command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def disturb(life, kind, draw, folder, snapshots):
    """Whether the ranks were killed, and where the next life has to begin at least, and at most."""
    if kind == "saver":
        # There is none before the first save.
        life.kill(*draw.sample(life.savers(), min(1, len(life.savers()))))
        return None
    if kind == "full disk":
        for limit in (4096, resource.RLIM_INFINITY):
            for pid in life.savers():
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            life.wait_steps(6)
        return None
    if kind == "rank":
        life.kill(draw.choice(life.processes).pid)
        time.sleep(draw.random() / 10)
        life.end()
        return life.saved(), None
    savers = life.savers()
    life.kill(*savers, *(process.pid for process in life.processes))
    life.end()
    if kind == "all":
        return life.saved(), None
    # Another machine takes its place: what is on disk is all that there is.
    shutil.rmtree(snapshots)
    snapshots.mkdir()
    # Without those that were damaged before.
    whole = [saved for saved in files.whole(folder) if not files.problems(saved)]
    if kind == "machine" or not whole:
        step = whole[-1].step if whole else 0
        return step, step
    path = whole[-1].path / files.part_name(draw.randrange(RANKS))
    if kind == "truncated":
        os.truncate(path, draw.randrange(path.stat().st_size))
    else:
        data = bytearray(path.read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
    step = whole[-2].step if len(whole) > 1 else 0
    return step, step


def test_every_life_goes_on_where_the_last_one_had_saved(tmp_path, monkeypatch):
    folder, snapshots = tmp_path / "folder", tmp_path / "snapshots"
    monkeypatch.setenv("TORCHACC_SNAPSHOTS", str(snapshots))
    draw = random.Random(0)
    kinds = [draw.choice(KINDS) for _ in range(200)] if WHOLE else SHORT
    # Where it is not over before all of them have happened.
    steps = 10 * len(kinds) if WHOLE else 80
    logs = {name: tmp_path / name for name in ("calm", "disturbed")}
    for path in (*logs.values(), snapshots):
        path.mkdir()
    calm = Life(tmp_path / "calm folder", logs["calm"], steps)
    calm.wait(calm.is_done)
    expected = [dict(lines) for lines in calm.lines("step")]
    calm.end()

    least, most = 0, None
    life = Life(folder, logs["disturbed"], steps)
    for kind in [*kinds, None]:
        if life is None:
            life = Life(folder, logs["disturbed"], steps)
        begin = life.begin()
        print(f"{kind}: begins with {begin}, at {time.monotonic():.1f} s")
        assert least <= begin <= (steps if most is None else most)
        if kind is None:
            break
        life.wait_steps(draw.randrange(1, 14))
        time.sleep(draw.random() / 20)
        assert not life.is_done()
        ended = disturb(life, kind, draw, folder, snapshots)
        if ended is not None:
            # One that ends before it has saved leaves what the one before had.
            bound = max(ended[0], 0) if ended[1] is not None else max(ended[0], begin)
            least, most = bound, ended[1]
            life = None
    life.wait(life.is_done)
    life.end()
    for rank, log in enumerate(logs["disturbed"].iterdir()):
        said = [line.split() for line in log.read_text().splitlines()]
        made = [line[1:] for line in said if line[0] == "step"]
        assert {step for step, _ in made} == expected[int(log.name)].keys()
        for step, loss in made:
            assert loss == expected[int(log.name)][step], (rank, step)
    assert not any(snapshots.iterdir())
    assert [saved.step for saved in files.whole(folder)][-1] == steps // 4 * 4
