"""Timelines, dumps, percentiles, and where the time goes."""

import inspect
import json

import pytest
import torch
import torchacc
from support import DEVICE, run_python

PARTS = ("python", "record", "key", "compile", "launch", "device", "idle")


def run_steps(steps):
    weight = torch.ones(32, 32, device=DEVICE)
    for _ in range(steps):
        weight = (weight @ weight).softmax(1)
        torchacc.mark_step()
    return weight.sum().item()


def test_the_parts_of_the_time_are_the_whole():
    torchacc.sync()
    torchacc.reset_metrics()
    for _ in range(3):
        run_steps(20)
        metrics = torchacc.metrics()
        parts = {name: metrics[f"wall_{name}_ns"] for name in PARTS}
        assert sum(parts.values()) == metrics["wall_ns"], parts
        assert parts["python"] + parts["record"] > 0
        assert parts["device"] > 0
    # The device's part is that of programs that ran.
    assert metrics["wall_device_ns"] <= metrics["execute_ns"]


def test_percentiles():
    torchacc.sync()
    torchacc.reset_metrics()
    for size in (3, 4, 5, 6, 7):
        (torch.ones(size, 77, device=DEVICE) @ torch.ones(77, size, device=DEVICE)).cpu()
    run_steps(20)
    metrics = torchacc.metrics()
    assert metrics["compiles"] + metrics["carried_over"] == metrics["plans"] > 0
    assert metrics["recompiles"] <= metrics["compiles"]
    for name in ("compile", "step"):
        low, middle, high = (metrics[f"{name}_p{percent}_ns"] for percent in (50, 90, 99))
        assert 0 < low <= middle <= high
    assert metrics["compile_p50_ns"] <= metrics["compile_ns"]


def events_of(path):
    data = json.loads(path.read_text())
    assert data["otherData"] == {"lost_events": 0}
    return data["traceEvents"]


def test_the_profile_names_kernels_and_lines(tmp_path):
    path = tmp_path / "trace.json"
    with torchacc.profile(path):
        # No other test has this program: at its second size it is planned for others, too.
        for size in (31, 37, 41):
            torch.ones(size, device=DEVICE).log2().exp2().sign().log2().exp2().sum().item()
        x = torch.ones(8, 123, device=DEVICE)
        y = x @ torch.ones(123, 5, device=DEVICE)
        line = f"{__file__}:{inspect.currentframe().f_lineno - 1}"
        assert torch.linalg.det(torch.eye(5, device=DEVICE)).item() == 1
        assert y.sum().item() == 8 * 123 * 5
    events = events_of(path)
    spans = [event for event in events if event["ph"] == "X"]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
    assert {event["ph"] for event in events} == {"X", "C", "M"}
    threads = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert "torchacc-launch" in threads.values()
    assert {event["tid"] for event in spans} <= threads.keys()
    names = {
        category: {e["name"] for e in spans if e["cat"] == category} for category in CATEGORIES
    }
    assert {"key", "compile", "launch", "device"} <= names["phase"]
    assert names["compile"] == {"graph", "plan", "other sizes", "code"}
    assert names["trace"] == {"record"}
    assert names["CPU fallback"]
    products = [event for event in spans if event["args"].get("kernel") == "matmul"]
    assert [event["args"]["site"] for event in products] == [line]
    assert products[0]["args"]["bytes_read"] == 4 * (8 * 123 + 123 * 5)
    device = [event for event in spans if event["name"] == "device"]
    inside = [d for d in device if d["ts"] <= products[0]["ts"] <= d["ts"] + d["dur"]]
    assert len(inside) == 1
    memory = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert memory
    assert min(memory) > 0


CATEGORIES = ("trace", "phase", "compile", "kernel", "CPU fallback")


def test_a_profile_that_fails_is_written(tmp_path):
    path = tmp_path / "trace.json"

    def fails():
        with torchacc.profile(path):
            torch.ones(3, device=DEVICE).sum().item()
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fails()
    assert any(event.get("cat") == "kernel" for event in events_of(path))


def test_a_path_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    ran = []
    with pytest.raises(FileNotFoundError), torchacc.profile(tmp_path / "nowhere" / "timeline.json"):
        ran.append(1)
    assert ran == []


def test_only_what_happens_inside_is_kept(tmp_path):
    run_steps(2)
    x = torch.ones(1500, 1500, device=DEVICE)
    for _ in range(4):
        x = (x @ x).softmax(1)
    torchacc.mark_step()  # Runs on when the profile begins.
    with torchacc.profile(tmp_path / "trace.json"):
        pass
    assert [e for e in events_of(tmp_path / "trace.json") if e["ph"] == "X"] == []


PROGRAM = 'import torch; torch.ones(2, 3).to("acc").sinh().sum().item()'


def test_programs_are_dumped(tmp_path):
    folder = tmp_path / "programs"
    result = run_python(PROGRAM, TORCHACC_DUMP=str(folder))
    assert result.returncode == 0, result.stderr
    (file,) = folder.iterdir()
    assert file.name.endswith("-0001.txt")
    text = file.read_text()
    assert "# graph" in text
    assert "# plan" in text
    assert "reduce_sum" in text


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    result = run_python(PROGRAM, TORCHACC_DUMP=str(tmp_path / "file" / "programs"))
    assert "programs cannot be written to" in result.stderr
