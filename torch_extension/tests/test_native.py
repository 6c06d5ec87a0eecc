"""What crosses between acc and PyTorch's own device with the same memory; CPU fallbacks there.

Each test holds on the CPU backend, and once more on the CUDA backend of debug builds, whose device
is made of the host: what is "cuda" to a GPU is "cpu" to it. There it goes the way of a GPU.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
import torchacc
from support import DEVICE, ON_DEVICE, check, emulated, run_python


def pointer(tensor):
    """Where a tensor of acc lies."""
    return torch.from_dlpack(tensor).data_ptr()


def counted(work):
    """What CPU fallbacks and copies for them `work` cost."""
    torchacc.sync()
    torchacc.reset_metrics()
    result = work()
    torchacc.sync()
    metrics = torchacc.metrics()
    return result, metrics["host_calls"], metrics["host_copies"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(3, 4),
        lambda: torch.randn(3, 4).t(),
        lambda: torch.randn(8, 6)[1::2, ::3],
        lambda: torch.randn(5).expand(4, 5),
        lambda: torch.arange(7, dtype=torch.int16),
        lambda: torch.randn(3, 3, dtype=torch.complex64).conj(),
        lambda: torch.randn(3, 3, dtype=torch.complex64).conj().imag,
        lambda: torch.tensor(2.5),
        lambda: torch.empty(0, 3),
    ],
)
def test_values_come_and_go(make):
    source = make()
    moved = source.to(DEVICE)
    assert moved.device.type == DEVICE
    torch.testing.assert_close(moved.cpu(), source)
    back = torch.empty_like(source, memory_format=torch.contiguous_format)
    torch.testing.assert_close(back.copy_(moved), source.clone())
    wide = torch.zeros(2, *source.shape, dtype=source.dtype)
    wide[1].copy_(moved * 1)
    torch.testing.assert_close(wide[1], source.clone())


def test_parts_and_other_dtypes_are_written():
    target = torch.zeros(4, 6, device=DEVICE)
    target[:, 1:3] = torch.arange(8, dtype=torch.int64).view(4, 2)
    target[0].copy_(torch.ones(6, dtype=torch.float64))
    expected = torch.zeros(4, 6)
    expected[:, 1:3] = torch.arange(8.0).view(4, 2)
    expected[0] = 1
    torch.testing.assert_close(target.cpu(), expected)
    assert torch.zeros(3).copy_(torch.zeros(3, device=DEVICE)).sum() == 0


def test_the_source_may_change_at_once():
    source = torch.ones(100)
    moved = source.to(DEVICE)
    doubled = moved * 2
    source.fill_(5)
    assert doubled.cpu().tolist() == [2.0] * 100


def test_host_calls_run_on_the_devices_own_memory():
    torch.manual_seed(0)
    x, index = torch.rand(6, 5), torch.tensor([0, 3, 1])

    def work(x, index):
        y = torch.special.erfcx(x) + torch.special.bessel_j0(x.t()).t()
        parts = torch.special.erfcx((x * 2)[1:, ::2])
        x.polygamma_(1)
        out = torch.empty_like(x)
        torch.special.i1e(y, out=out)
        return y, parts, out, torch.special.zeta(x.abs() + 2, 3.0), x[index]

    _, calls, copies = counted(lambda: check(work, x, index))
    assert (calls, copies) == (6, 0)


def test_lengths_that_depend_on_values_are_found_on_the_device():
    torch.manual_seed(1)
    x = torch.randn(6, 5)
    x[2] = x[4]

    def work(x):
        mask = x > 0
        y = x.t() * 2
        rows, which, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
        runs = torch.unique_consecutive(mask.flatten())
        out = torch.empty(0, dtype=torch.int64, device=x.device)
        torch.nonzero(mask.t(), out=out)
        return (
            mask.nonzero(),
            y[mask.t()],
            x[mask[:, 0]],
            torch.masked_select(y, y < 1),
            torch.unique(y),
            *(rows, which, counts, runs, out),
            x[mask[:, 0], :][:, 1:],
        )

    torchacc.reset_metrics()
    check(work, x)
    metrics = torchacc.metrics()
    assert metrics["immediate_runs"] == 9
    assert (metrics["immediate_copies"] == 0) == ON_DEVICE
    # What the device has no kernel for is asked of the CPU.
    with pytest.raises(NotImplementedError, match="unique"):
        torch.unique(torch.zeros(3, dtype=torch.complex64, device=DEVICE))
    assert torchacc.metrics()["immediate_copies"] > metrics["immediate_copies"]
    # A bad index beside a mask is found as any is: on a GPU, too, where PyTorch's own kernel would
    # end the process's use of it.
    mask, far = (
        torch.tensor([True, False, True], device=DEVICE),
        torch.tensor([0, 9], device=DEVICE),
    )
    with pytest.raises(IndexError, match="out of bounds for dimension 1"):
        torch.zeros(3, 4, device=DEVICE)[mask, far].cpu()


def test_a_host_call_that_fails_leaves_its_target():
    target = torch.full((3, 3), 3.0, device=DEVICE)
    fine = torch.zeros(3, device=DEVICE)
    torchacc.sync()
    torch.embedding_renorm_(target, torch.tensor([0, 70], device=DEVICE), 1.0, 1.0)
    fine += 1
    with pytest.raises(IndexError, match="embedding_renorm_.*70"):
        torchacc.sync()
    assert target.cpu().tolist() == [[3.0] * 3] * 3
    assert fine.cpu().tolist() == [1.0] * 3
    torch.embedding_renorm_(target, torch.tensor([0, 2], device=DEVICE), 9.0, 1.0)
    torch.embedding_renorm_(target, torch.tensor([0, 2], device=DEVICE), 4.5, 1.0)
    torch.testing.assert_close(target.cpu(), torch.tensor([[1.5] * 3, [3.0] * 3, [1.5] * 3]))


def test_indices_are_judged_by_the_cpu():
    index = torch.tensor([[[[[1, 2, 0]]]]], device=DEVICE)
    ones = torch.ones(1, 1, 1, 1, 3, device=DEVICE)
    unpool = torch.nn.functional.max_unpool3d
    y, calls, copies = counted(lambda: unpool(ones, index, (1, 1, 2)))
    assert (calls, copies) == (1, ON_DEVICE)
    assert y.cpu().tolist() == [[[[[1.0] * 3 + [0.0] * 3]]]]
    with pytest.raises((IndexError, RuntimeError), match="invalid max index"):
        unpool(ones, index + 10, (1, 1, 2)).cpu()


def test_random_numbers_are_those_of_the_cpus_kernels():
    weights = torch.full((4, 50), 0.02, device=DEVICE)
    drawn, calls, copies = counted(lambda: torch.poisson(weights))
    assert (calls, copies) == (1, ON_DEVICE)
    assert 0.9 < (drawn.cpu() == 0).float().mean() < 1


def test_other_libraries_read_where_it_lies():
    x = torch.arange(12.0, device=DEVICE).view(3, 4)
    y = x * 2
    array = numpy.from_dlpack(y.t())
    assert array.tolist() == (torch.arange(12.0).view(3, 4).t() * 2).tolist()
    assert not array.flags.writeable
    assert array.__array_interface__["data"][0] == pointer(y) == pointer(y.detach())
    # In place, with full cuts: what was given out stays as it was.
    for _ in range(3):
        y += 1
        torchacc.sync()
    assert array[0, 1] == 8
    assert y.cpu()[1, 0] == 11
    assert torch.from_dlpack(torch.zeros(2, 2, device=DEVICE)).tolist() == [[0, 0], [0, 0]]
    assert torch.from_dlpack(y[1:, 2]).tolist() == y.cpu()[1:, 2].tolist()


def test_copies_where_sharing_cannot_be_said():
    x = torch.arange(4.0, device=DEVICE)
    for copied in [
        torch.from_dlpack(x.__dlpack__()),
        torch.from_dlpack(x, copy=True),
        torch.from_dlpack(x, device="cpu", copy=True),
    ]:
        copied.fill_(7)
    assert x.cpu().tolist() == [0, 1, 2, 3]
    with pytest.raises(BufferError, match="DLPack 1"):
        x.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="gradient"):
        x.requires_grad_().__dlpack__(max_version=(1, 0))
    del copied
    # Never taken: it goes with what it holds.
    capsule = x.detach().__dlpack__(max_version=(1, 0))
    del capsule


def test_arrays_of_others_are_read_where_they_lie():
    array = numpy.arange(64.0, dtype=numpy.float32).reshape(8, 8)[2:, 4:]
    x = torchacc.from_dlpack(array)
    assert x.device.type == DEVICE
    assert x.stride() == (8, 1)
    lies_there = pointer(x) == array.__array_interface__["data"][0]
    assert lies_there
    torch.testing.assert_close((x + 1).cpu(), torch.from_numpy(array) + 1)
    before = array.copy()
    x += 1
    torchacc.sync()
    assert (array == before).all()
    assert x.cpu()[0, 0] == before[0, 0] + 1
    tensor = torch.randn(5)
    torch.testing.assert_close(torchacc.from_dlpack(tensor).cpu(), tensor)
    y = torchacc.from_dlpack(x)
    assert pointer(y) == pointer(x)


@pytest.mark.skipif(ON_DEVICE, reason="it is what runs these on a device")
def test_the_same_on_a_device():
    files = [__file__, str(Path(__file__).with_name("test_user_operators.py"))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        env=os.environ | emulated(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.skipif(ON_DEVICE, reason="as above")
def test_memory_comes_from_pytorchs_allocator():
    code = """
import torch
from torch.profiler import ProfilerActivity, profile
source = torch.randn(1 << 20)
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
    kept = source.to("acc")
assert sum(event.cpu_memory_usage for event in seen.events()) >= source.nbytes
torch.acc.synchronize()
try:
    (torch.zeros(1 << 42, dtype=torch.uint8, device="acc") + 1)[:2].cpu()
except torch.OutOfMemoryError as error:
    print(error)
print((kept.cpu() == source).all().item())
"""
    done = run_python(code, **emulated())
    assert done.returncode == 0, done.stderr
    assert "the program's allocator has no more" in done.stdout
    assert done.stdout.endswith("True\n")
