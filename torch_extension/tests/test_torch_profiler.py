"""torch.profiler shows what the device does: kernels with their times, shapes and lines."""

import inspect
import json
import math

import pytest
import torch
import torchacc
from support import DEVICE, run_python
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, schedule

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def line_of_caller(back=0):
    frame = inspect.currentframe().f_back
    return f"test_torch_profiler.py:{frame.f_lineno - back}"


def device_events(profiler):
    return [e for e in profiler.events() if e.device_type == DeviceType.PrivateUse1]


def exported(profiler, tmp_path):
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    return json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_kernels_have_times_shapes_and_lines(tmp_path):
    x = torch.ones(301, 203, device=DEVICE)
    torch.acc.synchronize()
    with profile(activities=BOTH) as profiler:
        y = x @ torch.ones(203, 17, device=DEVICE)
        line = line_of_caller(1)
        assert torch.linalg.det(torch.eye(5, device=DEVICE)).item() == 1
        fallback_line = line_of_caller(1)
        assert y[0, 0].item() == 203
    names = {event.name: event for event in device_events(profiler)}
    product = names[f"aten::mm (matmul, {line})"]
    assert any(name.endswith(f"(CPU fallback, {fallback_line})") for name in names)
    assert product.device_time_total > 0
    assert product.device_index == 0
    # Beside what the host recorded, in one table.
    table = profiler.key_averages().table(max_name_column_width=80)
    assert "aten::matmul" in table
    assert f"aten::mm (matmul, {line})" in table
    assert "Self ACC" in table
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows[f"aten::mm (matmul, {line})"].self_device_time_total > 0

    events = exported(profiler, tmp_path)
    (event,) = [e for e in events if e.get("name") == f"aten::mm (matmul, {line})"]
    assert event["cat"] == "kernel"
    assert event["dur"] > 0
    assert event["args"]["site"] == f"{__file__}:{line.rpartition(':')[2]}"
    details = event["args"]["details"]
    assert details["kernel"] == "matmul"
    assert details["reads"] == ["f32[301,203]", "f32[203,17]"]
    assert details["writes"] == ["f32[301,17]"]
    compiles = [e for e in events if e.get("name") == "torchacc::compile"]
    assert compiles


def test_the_devices_clock_is_the_hosts(tmp_path):
    with profile(activities=BOTH) as profiler:
        with torch.profiler.record_function("before"):
            pass
        with torch.profiler.record_function("inside"):
            torch.ones(64, 64, device=DEVICE).sin().sum().item()
        with torch.profiler.record_function("after"):
            pass
    events = {
        e["name"]: e for e in exported(profiler, tmp_path) if e.get("cat") == "user_annotation"
    }
    kernels = [e for e in exported_kernels(profiler, tmp_path)]
    assert kernels
    for kernel in kernels:
        assert events["before"]["ts"] <= kernel["ts"]
        assert kernel["ts"] + kernel["dur"] <= events["after"]["ts"] + 1


def exported_kernels(profiler, tmp_path):
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    return [event for event in events if event.get("cat") == "kernel"]


def test_a_schedule_profiles_its_steps_only():
    profiles = []
    weight = torch.ones(32, 32, device=DEVICE)
    with profile(
        activities=BOTH,
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda p: profiles.append(device_events(p)),
    ) as profiler:
        for _ in range(8):
            weight = (weight @ weight).softmax(1)
            torch.acc.synchronize()
            profiler.step()
    assert len(profiles) == 2
    for events in profiles:
        assert sum("(matmul" in event.name for event in events) == 2


def test_nothing_is_timed_for_others():
    x = torch.ones(8, 8, device=DEVICE)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        (x @ x).sum().item()
    assert not device_events(profiler)
    with profile(activities=BOTH) as profiler:
        pass
    assert not device_events(profiler)


def test_the_devices_first_use_may_be_inside():
    code = """
import torch
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
    torch.ones(2, 3, device="acc").sinh().sum().item()
print(any("reduce_sum" in event.name for event in profiler.events()))
"""
    result = run_python(code)
    assert result.stdout.split() == ["True"], result.stderr


def test_a_profile_does_not_start_the_device():
    code = """
import os
import torch
import torchacc
from torch.profiler import profile
with profile() as profiler:
    (torch.ones(2) + 1).tolist()
print(len(profiler.events()) > 0, torch._C._accelerator_isAllocatorInitialized())
"""
    result = run_python(code)
    assert result.stdout.split() == ["True", "False"], result.stderr


def test_errors_come_from_the_read_not_from_the_profiler():
    table = torch.ones(3, 4, device=DEVICE)
    with profile(activities=BOTH), pytest.raises(IndexError, match="out of range"):
        torch.nn.functional.embedding(torch.tensor([7], device=DEVICE), table).sum().item()
    assert table.sum().item() == 12


def test_the_older_profiler_times_each_operator():
    x = torch.ones(256, 256, device=DEVICE)
    torch.acc.synchronize()
    with torch.autograd.profiler.profile(use_device=DEVICE) as profiler:
        x @ x
    product = next(event for event in profiler.function_events if event.name == "aten::mm")
    assert math.isfinite(product.device_time_total)
    assert product.device_time_total > 0
    assert "aten::mm" in profiler.key_averages().table()


def test_a_timeline_says_shapes_too(tmp_path):
    path = tmp_path / "trace.json"
    with torchacc.profile(path):
        torch.ones(3, 5, device=DEVICE).exp().sum().item()
    events = json.loads(path.read_text())["traceEvents"]
    writes = [event["args"]["writes"] for event in events if event.get("cat") == "kernel"]
    assert ["f32[]"] in writes
