"""Checkpoints of one process: what is saved comes back bit by bit, from memory and from disk, and
what was whole stays so whatever goes wrong."""

import json
import os
import random
import resource
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, output
from torchacc.checkpoint import Checkpointer, CheckpointError, files, latest, verify
from torchacc.checkpoint import checkpointer as checkpointer_module


@pytest.fixture(autouse=True)
def snapshots(tmp_path, monkeypatch):
    """A folder of its own for what would be in /dev/shm."""
    monkeypatch.setenv("TORCHACC_SNAPSHOTS", str(tmp_path / "snapshots"))
    return tmp_path / "snapshots"


class Training:
    """Dropout, a schedule, an epoch of data that is shuffled."""

    def __init__(self):
        torch.manual_seed(0)
        layers = nn.Linear(6, 10), nn.Dropout(0.2), nn.Linear(10, 1)
        self.model = nn.Sequential(*layers).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        data = torch.arange(120.0).view(20, 6) / 120
        self.loader = torchacc.AsyncLoader(
            torch.utils.data.DataLoader(data, batch_size=2, shuffle=True), DEVICE
        )
        self.batches = None
        self.state = {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "loader": self.loader,
            "epoch": 0,
        }

    def steps(self, count):
        """Losses, each with a draw of every generator."""
        made = []
        for _ in range(count):
            if self.batches is None:
                self.batches = iter(self.loader)
            loss = self.model(next(self.batches)).square().mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.scheduler.step()
            draws = random.random(), np.random.rand(), torch.rand(1).item()
            made.append((loss.item(), *draws, torch.rand(1, device=DEVICE).item()))
        return made


def left(checkpointer):
    """As a process that is killed leaves it, but that its saver has done all it was asked."""
    checkpointer.wait()
    checkpointer._leave()


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_training_goes_on_as_if_nothing_had_been(tmp_path, snapshots, place):
    training, folder = Training(), tmp_path / "folder"
    checkpointer = Checkpointer(folder, in_memory=place == "memory")
    training.steps(3)
    training.state["epoch"] = 7
    checkpointer.save(training.state, 3)
    expected = training.steps(4)
    left(checkpointer)

    random.seed(1)
    np.random.seed(1)
    other = Training()
    other.steps(1)
    other.batches = None
    if place == "memory":
        # What is on disk is not read.
        files.remove(folder / "step_3")
    with Checkpointer(folder) as checkpointer:
        assert checkpointer.restore(other.state) == 3
        assert other.state["epoch"] == 7
        assert other.steps(4) == expected
    assert not [*snapshots.glob("*")]


def test_nothing_saved_is_nothing_restored(tmp_path, snapshots):
    training = Training()
    weights = {name: one.cpu() for name, one in training.model.state_dict().items()}
    with Checkpointer(tmp_path / "folder") as checkpointer:
        assert checkpointer.restore(training.state) is None
        with pytest.raises(LookupError, match="no whole checkpoint of step 5"):
            checkpointer.restore(training.state, step=5)
        # Also if the process is killed now.
        assert not snapshots.exists()
    for name, one in training.model.state_dict().items():
        assert torch.equal(one.cpu(), weights[name])
    assert latest(tmp_path / "folder") is None


DTYPES = [
    torch.float64,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.int8,
    torch.bool,
    torch.complex64,
]


def test_tensors_and_values_of_all_kinds(tmp_path):
    torch.manual_seed(0)
    made = {str(one): (torch.randn(3, 5) * 4).to(one) for one in DTYPES}
    state = {
        "on device": {name: one.to(DEVICE) for name, one in made.items()},
        "on host": made,
        "view": torch.arange(12.0, device=DEVICE).view(3, 4).t()[1:, ::2],
        "empty": torch.empty(0, 3, device=DEVICE),
        "number": torch.tensor(2.5, device=DEVICE),
        "list": [1, (2, torch.ones(2)), {"a": None, 3: "b"}],
        "grown": {"since": [4]},
    }
    with Checkpointer(tmp_path / "folder", in_memory=False) as checkpointer:
        checkpointer.save(state, 1)
        empty = {
            "on device": {name: torch.zeros_like(one) for name, one in state["on device"].items()},
            "on host": {},
            "view": torch.zeros(3, 2, device=DEVICE),
            "empty": torch.empty(0, 3),
            "number": torch.zeros((), device=DEVICE),
            "list": None,
            "grown": {},
        }
        kept = empty["on device"][str(torch.float64)]
        checkpointer.wait()
        assert checkpointer.restore(empty) == 1
    assert empty["on device"][str(torch.float64)] is kept
    for place in ("on device", "on host"):
        for name, one in made.items():
            got = empty[place][name]
            assert got.dtype == one.dtype
            assert torch.equal(got.cpu().view(torch.uint8), one.view(torch.uint8)), name
    assert torch.equal(empty["view"].cpu(), torch.tensor([[1.0, 9], [2, 10], [3, 11]]))
    assert empty["number"].item() == 2.5
    assert empty["empty"].shape == (0, 3)
    assert torch.equal(empty["list"][1][1], torch.ones(2))
    assert empty["list"][::2] == [1, {"a": None, 3: "b"}]
    assert empty["grown"] == {"since": [4]}


@pytest.mark.parametrize("is_lent", [False, True])
def test_a_snapshot_is_of_its_moment(tmp_path, monkeypatch, is_lent):
    """Also where it is copied while the program goes on, as from a GPU."""
    monkeypatch.setattr(checkpointer_module, "_has_room_to_lend", lambda tensors: is_lent)
    with Checkpointer(tmp_path / "folder") as checkpointer:
        value = torch.zeros(1000, device=DEVICE)
        plain = torch.zeros(1000)
        for step in range(1, 6):
            value += 1
            plain += 1
            checkpointer.save({"value": value, "plain": plain}, step)
            value += 100
            plain += 100
            value -= 100
            plain -= 100
        checkpointer.wait()
        for step in (2, 5):
            state = {"value": torch.zeros(1000), "plain": torch.zeros(1000)}
            assert checkpointer.restore(state, step=step) == step
            assert state["value"].eq(step).all()
            assert state["plain"].eq(step).all()


def test_pytorch_reads_it_without_this_package(tmp_path):
    training = Training()
    training.steps(2)
    with Checkpointer(tmp_path / "folder") as checkpointer:
        checkpointer.save(training.state, 2)
    code = f"""
import sys, torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
state = {{"model": {{"2.weight": torch.zeros(1, 10)}}}}
dcp.load(state, checkpoint_id={str(tmp_path / "folder" / "latest")!r}, no_dist=True)
dcp_to_torch_save({str(tmp_path / "folder" / "latest")!r}, {str(tmp_path / "all.pt")!r})
whole = torch.load({str(tmp_path / "all.pt")!r}, weights_only=False)
assert torch.equal(whole["model"]["2.weight"], state["model"]["2.weight"])
assert "torchacc" not in sys.modules
print(state["model"]["2.weight"].tolist(), whole["optimizer"]["state.2.bias.exp_avg"].tolist())
"""
    made = output(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    average = training.optimizer.state[training.model[2].bias]["exp_avg"]
    assert made == f"{training.model[2].weight.tolist()} {average.tolist()}"


def kept(folder):
    return [saved.step for saved in files.whole(folder)]


def test_what_is_kept(tmp_path):
    folder = tmp_path / "folder"
    with Checkpointer(folder, keep_last=2, keep_every=4) as checkpointer:
        for step in range(1, 8):
            checkpointer.save({"step": step}, step)
            checkpointer.wait()
            assert kept(folder)[-1] == step
            assert latest(folder) == folder / f"step_{step}"
        assert kept(folder) == [4, 6, 7]
        # One goes back, and saves other things: what was saved last counts, not the largest step.
        state = {"step": 0}
        assert checkpointer.restore(state, step=4) == 4
        assert state == {"step": 4}
        checkpointer.save({"step": -6}, 6)
    assert kept(folder) == [4, 7, 6]
    assert (folder / "latest").resolve() == latest(folder) == (folder / "step_6").resolve()
    with Checkpointer(folder) as checkpointer:
        assert checkpointer.restore(state) == 6
        assert state == {"step": -6}
    names = {path.name for path in folder.iterdir()}
    assert names == {"step_4", "step_6", "step_7", "latest", ".job", ".lock"}


@pytest.mark.parametrize("harm", ["truncated", "flipped", "missing", "manifest"])
def test_the_one_before_a_damaged_checkpoint_is_taken(tmp_path, harm):
    folder, state = tmp_path / "folder", {"value": torch.zeros(10_000)}
    with Checkpointer(folder) as checkpointer:
        for step in (1, 2):
            state["value"] += 1
            checkpointer.save(state, step)
        checkpointer.wait()
        assert verify(folder) == []
        assert verify(folder / "step_2") == []
    path = folder / "step_2" / "__0_0.distcp"
    data = bytearray(path.read_bytes())
    if harm == "truncated":
        path.write_bytes(data[:-1])
    elif harm == "flipped":
        data[5000] ^= 16
        path.write_bytes(data)
    elif harm == "missing":
        path.unlink()
    else:
        (folder / "step_2" / "manifest.json").write_text('{"id": ')
    with Checkpointer(folder) as checkpointer:
        if harm == "manifest":
            assert checkpointer.restore(state) == 1
        else:
            assert str(path) in verify(folder)[0]
            with pytest.warns(UserWarning, match="step 2 is left out"):
                assert checkpointer.restore(state) == 1
        assert state["value"].eq(1).all()
        # Its place is taken.
        checkpointer.save({"value": torch.full((10_000,), 5.0)}, 2)
    assert verify(folder) == []
    assert kept(folder) == [1, 2]


def test_names_that_do_not_match_change_nothing(tmp_path):
    training = Training()
    training.steps(1)
    with Checkpointer(tmp_path / "folder") as checkpointer:
        checkpointer.save(training.state, 1)
        checkpointer.wait()
        before = training.model[2].weight.tolist()
        more = nn.Sequential(*training.model, nn.Linear(1, 1).to(DEVICE))
        fewer = training.model[:2]
        other = nn.Sequential(nn.Linear(6, 11), nn.Dropout(), nn.Linear(11, 1)).to(DEVICE)
        for model, text in [
            (more, "the checkpoint has no model.3.weight, model.3.bias"),
            (fewer, "the state has no model.2.bias, model.2.weight"),
            (other, r"model.0.weight is \[11, 6\], in the checkpoint \[10, 6\]"),
        ]:
            with pytest.raises(ValueError, match=text):
                checkpointer.restore({"model": model})
        with pytest.raises(ValueError, match="the checkpoint has no counter"):
            checkpointer.restore({"counter": 1})
        # A part of it may be asked for.
        training.steps(1)
        assert training.model[2].weight.tolist() != before
        assert checkpointer.restore({"model": training.model}) == 1
        assert training.model[2].weight.tolist() == before


def test_bad_input_is_refused(tmp_path):
    for options in ({"keep_last": 0}, {"keep_every": -1}, {"replicas": 1, "in_memory": False}):
        with pytest.raises(ValueError, match="Checkpointer: "):
            Checkpointer(tmp_path / "folder", **options)
    with pytest.raises(ValueError, match="0 other machines"):
        Checkpointer(tmp_path / "folder", replicas=1)
    training = Training()
    with Checkpointer(tmp_path / "folder") as checkpointer:
        with pytest.raises(ValueError, match="optimizer has parameters of no module in the state"):
            checkpointer.save({"optimizer": training.optimizer}, 1)
        with pytest.raises(ValueError, match="two tensors called a.b"):
            checkpointer.save({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}, 1)
        with pytest.raises(FileNotFoundError, match="has no checkpoint"):
            verify(tmp_path / "folder")
        # Nothing is left half done.
        checkpointer.save({"value": 3}, 1)
    assert kept(tmp_path / "folder") == [1]


def test_memory_without_the_disk(tmp_path):
    folder = tmp_path / "folder"
    checkpointer = Checkpointer(folder)
    checkpointer.save({"value": torch.ones(3)}, 1)
    checkpointer.wait()
    checkpointer.save({"value": torch.ones(3) * 2}, 2, persist=False)
    assert kept(folder) == [1]
    process = checkpointer._saver._process
    checkpointer._leave()
    # Nobody is there to ask for it: the saver writes what was in memory alone.
    process.wait()
    assert kept(folder) == [1, 2]
    files.remove(folder / "step_2")
    state = {"value": torch.zeros(3)}
    with Checkpointer(folder) as checkpointer:
        assert checkpointer.restore(state) == 2
        assert state["value"].eq(2).all()
        # And it is written again.
        checkpointer.wait()
        assert kept(folder) == [1, 2]


def test_snapshots_of_a_folder_that_is_gone_are_nobodys(tmp_path, snapshots):
    folder = tmp_path / "folder"
    checkpointer = Checkpointer(folder)
    checkpointer.save({"value": 1}, 1)
    left(checkpointer)
    assert len([*snapshots.iterdir()]) == 1
    subprocess.run(["rm", "-r", folder], check=True)
    with Checkpointer(folder) as checkpointer:
        assert checkpointer.restore({"value": 0}) is None
        assert not any(snapshots.iterdir())


def test_a_snapshot_that_was_cut_short_is_none(tmp_path, snapshots):
    folder = tmp_path / "folder"
    checkpointer = Checkpointer(folder)
    for step in (1, 2):
        checkpointer.save({"value": torch.full((5,), float(step))}, step, persist=False)
    # A copy that began and did not end: of the older one, whose turn it was.
    checkpointer._slots[0].open(len(checkpointer._slots[0].bytes))
    checkpointer._slots[0].bytes.fill_(0)
    checkpointer._slots[0].close = lambda: None
    checkpointer._saver.close()
    state = {"value": torch.zeros(5)}
    other = Checkpointer(folder)
    assert other.restore(state) == 2
    assert state["value"].eq(2).all()
    other.wait()
    other._leave()
    (path,) = snapshots.glob("*/0.1/__0_0.distcp")
    os.truncate(path, 100)
    files.remove(folder / "step_2")
    with Checkpointer(folder) as other:
        assert other.restore(state) is None


def test_no_room_for_snapshots(tmp_path, monkeypatch, snapshots):
    def full(handle, offset, size):
        if "memfd" not in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with Checkpointer(tmp_path / "folder") as checkpointer:
        with pytest.warns(UserWarning, match="no room for two snapshots of .* bytes"):
            checkpointer.save({"value": torch.ones(3)}, 1)
        checkpointer.save({"value": torch.ones(3) * 2}, 2)
        checkpointer.wait()
        assert kept(tmp_path / "folder") == [1, 2]
        assert not [*snapshots.glob("*/*")]


def test_a_saver_that_is_killed_is_replaced(tmp_path):
    with Checkpointer(tmp_path / "folder") as checkpointer:
        for step in range(1, 5):
            checkpointer.save({"value": torch.ones(1 << 20)}, step)
            # While nobody starts another one in its place.
            with checkpointer._saver._changed:
                checkpointer._saver._process.kill()
            checkpointer.wait()
            assert kept(tmp_path / "folder")[-1] == step
    assert verify(tmp_path / "folder") == []


def test_a_disk_that_is_full(tmp_path):
    folder, value = tmp_path / "folder", torch.ones(1 << 20)
    with Checkpointer(folder) as checkpointer:
        checkpointer.save({"value": value}, 1)
        checkpointer.wait()
        limits = resource.RLIMIT_FSIZE, resource.RLIM_INFINITY
        saver = checkpointer._saver._process.pid
        resource.prlimit(saver, limits[0], (1 << 20, limits[1]))
        checkpointer.save({"value": value * 2}, 2)
        with pytest.raises(CheckpointError, match="File too large"):
            checkpointer.wait()
        checkpointer.save({"value": value * 3}, 3)
        checkpointer._saver.wait_parts()
        assert kept(folder) == [1]
        assert verify(folder) == []
        # The part of a file that was written does not take the room that there is.
        assert sum(path.stat().st_size for path in folder.rglob(".tmp-*/*")) == 0
        resource.prlimit(saver, *limits[:1], (limits[1], limits[1]))
        with pytest.warns(UserWarning, match="was not written: .*File too large"):
            checkpointer.save({"value": value * 4}, 4)
        checkpointer.wait()
        assert kept(folder) == [1, 4]
        assert not [*folder.glob(".tmp-*")]


# What changes a folder; a process may be killed before each call.
CALLS = ["replace", "rename", "unlink", "fsync", "mkdir", "symlink", "rmdir"]


class Killed(BaseException):
    pass


@pytest.mark.parametrize("replaces", [False, True])
def test_killed_at_any_moment_of_a_save(tmp_path, monkeypatch, replaces):
    """In one process, so that each call comes in turn."""
    source = tmp_path / "source"
    source.write_bytes(b"x" * 1000 + b"metadata")
    real = {name: getattr(os, name) for name in CALLS}

    def request(order, step):
        fields = {"id": f"{order:010d}-a", "order": order, "step": step, "world": 1, "part": 0}
        place = {"source": str(source), "header": "", "size": 1000, "metadata_size": 8}
        return {**fields, **place}

    def save(folder, one):
        files.write_part(folder, one)
        assert files.commit(folder, one)
        files.prune(folder, 2, None)

    kills = 0
    while True:
        folder = tmp_path / f"folder{kills}"
        folder.mkdir()
        for order in (1, 2, 3):
            save(folder, request(order, order))
        calls = 0

        def killing(name):
            def call(*arguments, **options):
                nonlocal calls
                calls += 1
                if calls > kills:
                    raise Killed
                return real[name](*arguments, **options)

            return call

        for name in CALLS:
            monkeypatch.setattr(os, name, killing(name))
        last = request(4, 3 if replaces else 4)
        try:
            save(folder, last)
            is_over = True
        except Killed:
            is_over = False
        # Those that would clean up are not called in a process that is killed, either.
        monkeypatch.undo()
        found = files.whole(folder)
        assert found[-1].order in (3, 4), (kills, found)
        assert all(not files.problems(saved) for saved in found)
        # The next life goes on in the folder.
        files.settle(folder)
        save(folder, request(5, 5))
        found = files.whole(folder)
        assert [saved.order for saved in found] in ([3, 5], [4, 5])
        assert all(saved.path == folder / f"step_{saved.step}" for saved in found)
        names = {path.name for path in folder.iterdir()}
        assert names == {"latest", ".lock", *(saved.path.name for saved in found)}, kills
        if is_over:
            break
        kills += 1
    assert kills > 20


def test_the_manifest_says_what_there_is(tmp_path):
    with Checkpointer(tmp_path / "folder") as checkpointer:
        checkpointer.save({"value": torch.ones(100)}, 12)
    said = json.loads((tmp_path / "folder" / "step_12" / "manifest.json").read_text())
    assert (said["step"], said["world"]) == (12, 1)
    for name, expected in said["files"].items():
        path = tmp_path / "folder" / "step_12" / name
        made = subprocess.run(
            [
                sys.executable,
                "-c",
                f"import zlib; print(zlib.crc32(open({str(path)!r}, 'rb').read()))",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        assert (path.stat().st_size, int(made.stdout)) == (expected["size"], expected["crc32"])
