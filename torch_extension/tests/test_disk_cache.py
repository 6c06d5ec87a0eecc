"""Programs kept on disk: what one process compiled the next loads, whatever is in the folder."""

import json
import os

import pytest
from support import run_python, start_python

# Three training steps; prints the losses bit by bit, and the counters.
TRAIN = f"""
import json, sys, torch, torchacc
sys.path.insert(0, {os.path.dirname(__file__)!r})
from support import GPT, token_batch
torch.manual_seed(0)
model = GPT(dropout=0.1).to("acc")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []
for step in range(3):
    tokens, targets = (t.to("acc") for t in token_batch(step))
    loss = model(tokens, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
torchacc.sync()
print(json.dumps([losses, torchacc.metrics()]))
"""


def train(folder, **environment):
    """The losses, the counters, and what was said on the way."""
    result = run_python(TRAIN, TORCHACC_CACHE_DIR=str(folder), **environment)
    assert result.returncode == 0, result.stderr
    return *json.loads(result.stdout), result.stderr


def counts(metrics):
    names = ("compiles", "disk_hits", "disk_removed", "disk_errors")
    return tuple(metrics[name] for name in names)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """(folder, losses, number of programs) after a first process."""
    folder = tmp_path_factory.mktemp("programs") / "made" / "when needed"
    losses, metrics, _ = train(folder)
    programs = metrics["compiles"]
    assert programs > 0
    assert counts(metrics) == (programs, 0, 0, 0)
    assert len(files(folder)) == programs
    return folder, losses, programs


def files(folder):
    return sorted(folder.glob("*.program"))


def test_a_second_process_compiles_nothing(filled):
    folder, expected, programs = filled
    losses, metrics, _ = train(folder)
    assert counts(metrics) == (0, programs, 0, 0)
    assert losses == expected


def test_processes_started_together_compile_each_program_once(filled, tmp_path):
    _, expected, programs = filled
    running = [start_python(TRAIN, TORCHACC_CACHE_DIR=str(tmp_path)) for _ in range(8)]
    results = [json.loads(process.communicate()[0]) for process in running]
    assert all(losses == expected for losses, _ in results)
    assert sum(metrics["compiles"] for _, metrics in results) == programs
    assert sum(metrics["disk_hits"] for _, metrics in results) == 7 * programs


# A function of some lengths, one after the other; prints the counters after each.
LENGTHS = """
import json, os, torch, torchacc
weight = torch.ones(8, 8, device="acc")
torchacc.sync()
counts = []
for length in json.loads(os.environ["LENGTHS"]):
    x = torch.full((length, 8), 0.5).to("acc")
    mean = torch.softmax(x @ weight, 0).mul(length).mean()
    torchacc.sync()
    assert abs(mean.item() - 1) < 1e-6
    metrics = torchacc.metrics()
    counts.append([metrics[name] for name in ("compiles", "disk_hits", "carried_over")])
print(json.dumps(counts))
"""


def test_lengths_from_disk_help_to_plan_for_others(tmp_path):
    def counts(*lengths):
        folder = str(tmp_path)
        result = run_python(LENGTHS, TORCHACC_CACHE_DIR=folder, LENGTHS=json.dumps(lengths))
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    # One program is that of the weight.
    assert counts(24, 41, 30) == [[2, 0, 0], [3, 0, 0], [3, 0, 1]]
    assert counts(24, 50, 30, 35) == [[0, 2, 0], [1, 2, 0], [1, 2, 1], [1, 2, 2]]


def truncate(content):
    return content[: len(content) // 2]


def flip(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :]


def foreign(_):
    return b"#!/bin/sh\necho hello\n"


def other_version(content):
    return content[:8] + bytes([content[8] + 1]) + content[9:]


@pytest.mark.parametrize("damage", [truncate, flip, foreign, other_version])
def test_files_that_are_no_programs_are_replaced(filled, tmp_path, damage):
    folder, expected, programs = filled
    for file in files(folder):
        (tmp_path / file.name).write_bytes(damage(file.read_bytes()))
    losses, metrics, _ = train(tmp_path)
    assert counts(metrics) == (programs, 0, programs, 0)
    assert losses == expected
    again = {file.name: file.read_bytes() for file in files(tmp_path)}
    assert again == {file.name: file.read_bytes() for file in files(folder)}


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(filled, tmp_path):
    _, expected, programs = filled
    (tmp_path / "file").write_text("not a folder")
    losses, metrics, _ = train(tmp_path / "file")
    assert counts(metrics) == (programs, 0, 0, programs)
    assert losses == expected


def test_bounded_in_bytes(filled, tmp_path):
    folder, _, _ = filled
    sizes = [file.stat().st_size for file in files(folder)]
    limit = sum(sizes) - 1
    train(tmp_path, TORCHACC_CACHE_LIMIT=str(limit))
    kept = [file.stat().st_size for file in files(tmp_path)]
    assert 0 < sum(kept) <= limit


def test_default_folder_and_none(tmp_path):
    code = "import torch; print((torch.ones(3, device='acc') + 1).sum().item())"
    for environment in ({"XDG_CACHE_HOME": str(tmp_path)}, {"HOME": str(tmp_path)}):
        empty = {"TORCHACC_CACHE_DIR": "", "XDG_CACHE_HOME": ""}
        assert run_python(code, **empty | environment).stdout.strip() == "6.0"
    assert files(tmp_path / "torchacc")
    assert files(tmp_path / ".cache" / "torchacc")
    off = run_python(code, HOME=str(tmp_path / "other"), TORCHACC_CACHE_DIR="off")
    assert off.stdout.strip() == "6.0"
    assert not (tmp_path / "other").exists()


PLACES = """
import torch, torchacc
x = torch.eye(3, device="acc")
torch.linalg.det(x).item()
print(torchacc.host_calls()[0]["site"])
try:
    torch.arange(4, device="acc")[torch.tensor([9], device="acc")].cpu()
except Exception as error:
    print(type(error).__name__, "line 7" in str(error) or ":7" in str(error))
print(torchacc.metrics()["compiles"], torchacc.metrics()["disk_hits"] > 0)
"""


def test_a_loaded_program_knows_the_places_of_this_process(tmp_path):
    environment = {"TORCHACC_CACHE_DIR": str(tmp_path)}
    first = run_python(PLACES, **environment).stdout.splitlines()
    # Another place, and host operators in another order.
    moved = "import torch\ntorch.linalg.inv(torch.eye(2, device='acc')).cpu()\n" + PLACES
    moved = moved.replace("line 7", "line 9").replace(":7", ":9")
    second = run_python(moved, TORCHACC_CACHE_DIR=str(tmp_path)).stdout.splitlines()
    assert (first[0].split(":")[-1], second[0].split(":")[-1]) == ("4", "6")
    assert first[1] == second[1] == "IndexError True"
    assert second[2] == "1 True"
