"""What takes long says so, to who asked, and nothing to others."""

import contextlib
import re
import time

import pytest
import torch
import torchacc
from support import run_python
from torchacc import _progress, weights
from torchacc._progress import Progress, estimated
from torchacc.checkpoint import Checkpointer, files
from torchacc.checkpoint.client import SaverClient


@pytest.fixture
def told(monkeypatch):
    """Everything that is said, in order; looked for often, and however short it takes."""
    monkeypatch.setattr(_progress, "_PERIOD", 0.005)
    said = []
    torchacc.set_progress(said.append)
    yield said
    torchacc.set_progress(False)


def wait_for(is_there):
    until = time.monotonic() + 60
    while not is_there():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_what_is_left_follows_from_what_was_done():
    assert estimated("save", "x", 25, 100, "bytes", 3.0).remaining == pytest.approx(9.0)
    assert estimated("save", "x", 0, 100, "bytes", 3.0).remaining is None
    assert estimated("save", "x", 100, 100, "bytes", 3.0).remaining is None


def test_words():
    one = Progress("save", "step 3 to runs", 1 << 20, 4 << 20, "bytes", 2.4, 7.2)
    assert str(one) == "save step 3 to runs, 1 of 4 MiB, 2 s so far, about 7 s more"
    assert str(one._replace(remaining=None, total=0)) == "save step 3 to runs, 2 s so far"
    assert str(one._replace(remaining=0)) == "save step 3 to runs: done after 2 s"


def test_a_task_is_told_until_it_ends(told):
    with _progress.task("convert", "x.bin", 10, "tensors") as task:
        for done in (1, 5):
            task.done = done
            wait_for(lambda: any(one.done == done for one in told))
    wait_for(lambda: told[-1].remaining == 0)
    whats = {(one.what, one.stage, one.total, one.unit) for one in told}
    assert whats == {("convert", "x.bin", 10, "tensors")}
    elapsed = [one.elapsed for one in told]
    assert elapsed == sorted(elapsed)
    assert all(one.remaining is None or one.remaining >= 0 for one in told)
    assert (told[-1].done, told[-1].elapsed > 0) == (10, True)


def test_a_long_compile_says_its_stages(told):
    x = torch.ones(3).to("acc")
    for at in range(3000):
        x = x.sinh() if (at * at) % 7 % 2 else x.neg()
    x.cpu()
    wait_for(lambda: told and told[-1].remaining == 0)
    stages = [re.fullmatch(r"(\d+) operations, (\w[\w ]*)", one.stage).groups() for one in told]
    assert {operations for operations, _ in stages} == {"3000"}
    assert {stage for _, stage in stages} <= {"graph", "plan", "code", "search", "other sizes"}
    assert {one.what for one in told} == {"compile"}


def test_a_save_says_what_is_on_disk(told, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    take = SaverClient._take

    def taken(client, answer):
        """The saver's answer, which is long in coming: until somebody has spoken of the save."""
        until = time.monotonic() + 60
        while time.monotonic() < until and all(one.what != "save" for one in told):
            time.sleep(0.005)
        take(client, answer)

    monkeypatch.setattr(SaverClient, "_take", taken)
    with Checkpointer(folder, in_memory=False) as checkpointer:
        checkpointer.save({"x": torch.ones(1 << 20)}, 3)
        checkpointer.wait()
    wait_for(lambda: any(one.what == "save" and one.remaining == 0 for one in told))
    saves = [one for one in told if one.what == "save"]
    assert {one.stage for one in saves} == {f"checkpoint of step 3 to {folder}"}
    assert all(one.total >= 4 << 20 and 0 <= one.done <= one.total for one in saves)


def test_loading_weights_counts_their_bytes(told, tmp_path, monkeypatch):
    save_file = pytest.importorskip("safetensors.torch").save_file
    model = torch.nn.Sequential(*(torch.nn.Linear(500, 500) for _ in range(6)))
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    nbytes = sum(one.nbytes for one in model.state_dict().values())
    model.to("acc")

    def loads():
        return [one for one in told if one.what == "load"]

    @contextlib.contextmanager
    def task(*fields):
        """A load that ends when somebody has spoken of all that it read."""
        with _progress.task(*fields) as one:
            yield one
            wait_for(lambda: loads() and loads()[-1].done == one.done)

    monkeypatch.setattr(weights, "task", task)
    torchacc.load_safetensors(model, tmp_path)
    wait_for(lambda: loads()[-1].remaining == 0)
    assert {(one.total, one.unit) for one in loads()} == {(nbytes, "bytes")}
    assert all(one.done <= nbytes for one in loads())
    assert loads()[-2].done == loads()[-1].done == nbytes


def test_what_was_written_is_counted(tmp_path):
    request = {"id": "1-a", "part": 0}
    assert files.written(tmp_path, request) == 0
    temporary = files.temporary_folder(tmp_path, request)
    temporary.mkdir()
    (temporary / f".{files.part_name(0)}.abcd").write_bytes(b"123")
    assert files.written(tmp_path, request) == 3
    (temporary / files.part_name(0)).write_bytes(b"12345")
    assert files.written(tmp_path, request) == 5


# What takes long ends when it was spoken of, where somebody looks at all.
LONG = """
import threading, torch, torchacc
from torchacc import _progress, weights
_progress._PERIOD = 0.01
said, tell = threading.Event(), _progress._print
def told(progress):
    tell(progress)
    if (progress.what, progress.done) == ("load", 2):
        said.set()
_progress._print = told
torch.ones(2, device="acc").sum().item()
with torchacc._progress.task("load", "weights from x", 8, "tensors") as task:
    task.done = 2
    looks = _progress._thread is not None
    assert not looks or said.wait(60)
print("looks" if looks else "nobody looks")
"""


def test_only_who_asks_is_told():
    silent = run_python(LONG)
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "nobody looks\n", "")
    loud = run_python(LONG, TORCHACC_PROGRESS="1")
    assert (loud.returncode, loud.stdout) == (0, "looks\n"), loud.stderr
    assert re.search(
        r"^torchacc: load weights from x, 2 of 8 tensors, \d+ s so far", loud.stderr, re.MULTILINE
    )
    overruled = run_python(
        f"import torchacc; torchacc.set_progress(False)\n{LONG}", TORCHACC_PROGRESS="1"
    )
    assert (overruled.stdout, overruled.stderr) == ("nobody looks\n", "")
