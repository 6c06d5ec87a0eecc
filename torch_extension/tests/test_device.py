"""The module torch.acc and PyTorch's device-neutral interfaces over it."""

import os
import re
import threading
import warnings
from types import SimpleNamespace

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, host_calls


def test_device_of_factories_and_moves():
    assert torch.ones(2, device=DEVICE).device == torch.device("acc:0")
    assert torch.ones(2).acc().is_acc
    assert nn.Linear(2, 2).acc().weight.is_acc
    assert torch.ones(2).to("acc:0").cpu().device.type == "cpu"


def test_default_device_context():
    with torch.device(DEVICE):
        assert torch.ones(2).is_acc
        assert nn.Linear(2, 2).weight.is_acc


def test_factories_agree_with_the_cpu():
    def made(device):
        ones = torch.ones(2, 3, device=device)
        return [
            torch.tensor([[1, 2], [3, 4]], device=device),
            torch.as_tensor([1.5, 2], device=device),
            torch.full((2,), 3.0, device=device),
            torch.eye(3, device=device),
            torch.linspace(0, 1, 5, device=device),
            torch.arange(1, 9, 2, device=device),
            torch.triu_indices(3, 3, device=device),
            torch.zeros_like(ones),
            ones.new_tensor([1.0]),
            ones.new_full((2,), 7),
            torch.tril(ones),
        ]

    for actual, expected in zip(made(DEVICE), made("cpu"), strict=True):
        assert actual.is_acc
        torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("shape", [(3, 4), (5, 2), (4, 4), (1, 1), (0, 3), (3, 0)], ids=str)
def test_places_on_a_side_of_a_diagonal(shape, dtype):
    before = host_calls()
    for offset in (*range(-7, 8), -(2**60), 2**60):
        for side in (torch.tril_indices, torch.triu_indices):
            expected = side(*shape, offset, dtype=dtype)
            actual = side(*shape, offset, dtype=dtype, device=DEVICE)
            assert actual.dtype == dtype
            assert torch.equal(actual.cpu(), expected), (side, offset)
    assert host_calls() == before


def test_no_places_of_these():
    for device in ("cpu", DEVICE):
        for side in (torch.tril_indices, torch.triu_indices):
            with pytest.raises(RuntimeError, match="row must be non-negative, got-1"):
                side(-1, 3, device=device)
            with pytest.raises(RuntimeError, match="col must be non-negative, got-2"):
                side(3, -2, device=device)
            with pytest.raises(RuntimeError, match="not implemented for 'Float'"):
                side(3, 3, dtype=torch.float32, device=device)


SIZES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SIZES += (torch.int64, torch.int32, torch.int16, torch.uint8)


@pytest.mark.parametrize("dtype", SIZES, ids=str)
def test_ranges_and_powers_in_order(dtype):
    before = host_calls()
    for ends in ((0, 5), (0, 5, 2), (5, 0, -2), (0.5, 5.5), (0, 6, 1.5), (3, 3), (1, 2, 5)):
        expected = torch.range(*ends, dtype=dtype)
        actual = torch.range(*ends, dtype=dtype, device=DEVICE)
        torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)
    close = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5) * dtype.is_floating_point
    cases = [(0, 2, 3), (0, 1, 4), (2, 0, 5), (1, 2, 1), (0, 1, 0), (0, 7, 8, 2), (0.5, 3.5, 4, 2)]
    for case in [*cases, (0, 3, 4, 2.5), (0, 3, 4, -2)][: -1 if dtype == torch.uint8 else None]:
        expected = torch.logspace(*case[:3], *case[3:], dtype=dtype)
        actual = torch.logspace(*case[:3], *case[3:], dtype=dtype, device=DEVICE)
        torch.testing.assert_close(actual.cpu(), expected, rtol=close, atol=0)
    assert host_calls() == before


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ((0, 5, 0), "step must be nonzero"),
        ((0, -5), "inconsistent with step sign"),
        ((0, float("inf")), "unsupported range: 0 -> inf"),
    ],
)
def test_no_range_of_these(ends, message):
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match=message):
            torch.range(*ends, device=device)


def test_other_bases_compile_nothing():
    def step(base, end):
        return torch.logspace(0, end, 6, base, device=DEVICE).cpu()

    for n in range(3):
        step(n + 2.5, n + 0.5)
    before = torchacc.metrics()["compiles"]
    for base, end in ((3.25, 2.5), (0.5, 4.5)):
        torch.testing.assert_close(step(base, end), torch.logspace(0, end, 6, base))
    assert torchacc.metrics()["compiles"] == before


def test_module_has_what_pytorch_looks_up():
    acc = torch.acc
    assert torch.get_device_module(DEVICE) is acc
    assert acc.is_available()
    assert acc.is_initialized()
    assert acc._initialized is True
    assert not acc._is_in_bad_fork()
    assert acc.device_count() >= 1
    assert acc.current_device() == 0
    assert torch.bfloat16 in acc.get_amp_supported_dtype()
    assert acc.is_bf16_supported()
    assert acc.get_device_name()
    assert acc.get_device_properties().total_memory > 0
    acc.init()
    acc.synchronize()
    acc.empty_cache()
    missing = [name for name in acc.__all__ if not hasattr(acc, name)]
    assert not missing


def test_device_context_restores_the_current_device():
    with torch.acc.device(DEVICE):
        assert torch.acc.current_device() == 0
    with pytest.raises(ValueError, match="expected an acc device"):
        torch.acc.device("cpu")


def test_accelerator_interface():
    accelerator = torch.accelerator
    assert accelerator.current_accelerator() == torch.device(DEVICE)
    assert accelerator.is_available()
    assert accelerator.device_count() == torch.acc.device_count()
    assert accelerator.current_device_index() == 0
    accelerator.set_device_index(0)
    accelerator.synchronize()
    accelerator.empty_cache()


def test_streams_and_events():
    stream = torch.Stream(DEVICE)
    with torch.acc.stream(stream):
        x = torch.ones(2, device=DEVICE) + 1
    with torch.acc.stream(None):
        pass
    start, end = (torch.Event(DEVICE, enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    end.synchronize()
    stream.wait_event(end)
    x.record_stream(stream)
    assert start.elapsed_time(end) >= 0
    assert torch.acc.current_stream().device_type == torch.acc.default_stream().device_type
    assert x.tolist() == [2, 2]


def test_memory_counters_follow_tensors():
    before = torch.acc.memory_allocated()
    x = torch.ones(1 << 20, device=DEVICE)
    torch.acc.synchronize()
    assert torch.acc.memory_allocated() - before >= 4 << 20
    assert torch.acc.max_memory_allocated() >= torch.acc.memory_allocated()
    del x
    torch.acc.synchronize()
    assert torch.acc.memory_allocated() - before < 4 << 20
    free, total = torch.acc.mem_get_info()
    assert 0 < free <= total


def test_a_control_group_has_less_memory_than_the_host(monkeypatch, tmp_path):
    def group(limit, current, cache):
        files = {"max": limit, "current": current, "stat": f"anon 5\ninactive_file {cache}"}
        for name, text in files.items():
            (tmp_path / f"memory.{name}").write_text(f"{text}\n")

    total = torchacc.memory.host_memory()[1]
    monkeypatch.setattr(torchacc.memory, "_control_groups", lambda: [tmp_path])
    group("max", 100, 0)
    assert torchacc.memory.host_memory()[1] == total
    # The cache of files can be had.
    group(1000, 700, 300)
    assert torchacc.memory.host_memory() == (600, 1000)
    group(1000, 1200, 100)
    assert torchacc.memory.host_memory() == (0, 1000)


def test_on_a_gpu_its_memory_and_name_are_told(monkeypatch):
    asked = []

    def said(what):
        return lambda device: asked.append(str(device)) or what

    on_a_gpu = os.environ.get("TORCHACC_BACKEND", "").startswith("cuda")
    assert (torchacc.memory.native_device() is not None) == on_a_gpu
    for module in (torchacc.memory, torchacc.device):
        monkeypatch.setattr(module, "native_device", lambda: torch.device("cuda", 1))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", said((3, 5)))
    monkeypatch.setattr(torch.cuda, "get_device_name", said("a GPU"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", said((9, 0)))
    gpu = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", said(gpu))
    properties = torch.acc.get_device_properties()
    assert (properties.name, properties.total_memory) == ("a GPU", 5)
    assert (properties.major, properties.minor, properties.multi_processor_count) == (9, 0, 132)
    assert torch.acc.mem_get_info() == (3, 5)
    assert torch.acc.get_device_capability() == (9, 0)
    assert asked == ["cuda:1"] * 6


def test_printing_shows_values():
    x = torch.arange(6, device=DEVICE).view(2, 3).float()
    assert repr(x) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='acc:0')"
    assert "Parameter" in repr(nn.Parameter(x))
    assert f"{x[0, 1]:.1f}" == "1.0"


def test_printing_compiles_nothing():
    shown = [
        torch.arange(900.0, device=DEVICE),
        torch.arange(9000.0, device=DEVICE).view(90, 100),
        torch.randn(30, 3, dtype=torch.complex64, device=DEVICE, requires_grad=True),
        torch.arange(40, device=DEVICE).view(5, 8).t() > 7,
    ]
    torchacc.sync()
    before = torchacc.metrics()["compiles"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for tensor in shown:
            on_host = repr(tensor.detach().cpu())
            assert re.sub(r",\s+device='acc:0'", "", repr(tensor.detach())) == on_host
            str(tensor)
    # Reading the view that is not stored as it is.
    assert torchacc.metrics()["compiles"] - before <= 1


def test_host_reads():
    x = torch.tensor([[1.5, 2.5]], device=DEVICE)
    assert x.tolist() == [[1.5, 2.5]]
    assert x.sum().item() == 4
    assert float(x[0, 0]) == 1.5
    assert bool((x > 0).all())
    assert torch.equal(x, x.clone())
    assert torch.allclose(x, x + 1e-9)
    assert [row.tolist() for row in x] == [[1.5, 2.5]]
    with pytest.raises(TypeError, match="can't convert acc:0 device type tensor to numpy"):
        x.numpy()


def test_copies_snapshot_the_host_tensor():
    source = torch.ones(4)
    x = source.to(DEVICE, non_blocking=True)
    source.fill_(7)
    assert x.tolist() == [1, 1, 1, 1]
    assert x.to("cpu", non_blocking=True).tolist() == [1, 1, 1, 1]


def test_pinned_memory():
    pinned = torch.arange(3.0).pin_memory()
    assert pinned.is_pinned()
    assert not torch.arange(3.0).is_pinned()
    assert pinned.to(DEVICE, non_blocking=True).tolist() == [0, 1, 2]


def test_threads_record_into_one_device():
    weight = torch.eye(8, device=DEVICE)
    results = [None] * 4

    def work(i):
        x = torch.eye(8).to(DEVICE)
        for _ in range(50):
            x = torch.relu(x @ weight) + i
        results[i] = x.diagonal().tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[1 + 50.0 * i] * 8 for i in range(4)]


def test_long_chains_do_not_recurse():
    x = torch.zeros(2, device=DEVICE)
    for _ in range(20000):
        x = x + 1
    dropped = torch.zeros(2, device=DEVICE)
    for _ in range(20000):
        dropped = dropped + 1
    del dropped
    assert x.tolist() == [20000, 20000]
