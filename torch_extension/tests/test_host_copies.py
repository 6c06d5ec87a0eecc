"""Copies that are made while the next step runs: of the values that there were, and the step is the
one that it is without them."""

import gc
import types

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE
from torchacc.checkpoint import Checkpointer
from torchacc.checkpoint.memory import Slot

HostCopies = torch.classes.acc.HostCopies


def training(width=256):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(4)]
    model = nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randn(8, width).to(DEVICE)

    def step():
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return {"model": model, "optimizer": optimizer}, step


def weights(state):
    return [one.detach() for one in state["model"].state_dict().values()]


def test_a_step_after_a_save_is_the_usual_one(tmp_path, monkeypatch):
    """It compiles nothing, and overwrites in place what is being copied."""
    monkeypatch.setenv("TORCHACC_SNAPSHOTS", str(tmp_path / "snapshots"))
    state, step = training()
    losses, undisturbed, usual = [], training()[1], []
    with Checkpointer(tmp_path / "folder") as checkpointer:
        for number in range(12):
            if number in (3, 6):
                torchacc.sync()
                usual.append((torchacc.metrics()["compiles"], torch.acc.max_memory_allocated()))
                torch.acc.reset_peak_memory_stats()
            losses.append(step().item())
            if number >= 6:
                checkpointer.save(state, number, persist=number % 3 == 0)
        torchacc.sync()
        after = torchacc.metrics()["compiles"], torch.acc.max_memory_allocated()
        assert after[0] == usual[1][0]
        # The largest of what is saved would be more.
        assert after[1] - usual[1][1] < 64 * 1024
        assert losses == [undisturbed().item() for _ in range(12)]
        checkpointer.wait()
        for number in (6, 9):
            checkpointer.restore(state, step=number)
            again, redo = training()
            for _ in range(number + 1):
                redo()
            for got, wanted in zip(weights(state), weights(again), strict=True):
                assert torch.equal(got.cpu(), wanted.cpu()), number


def test_values_are_those_of_the_call_whatever_comes_next():
    state, step = training(64)
    made = []
    for number in range(30):
        step()
        if number % 3:
            torchacc.cut()  # else the values are not computed yet
        sources = weights(state)
        targets = [torch.empty(one.shape) for one in sources]
        made.append((HostCopies(sources, targets), targets))
    again, redo = training(64)
    for copies, targets in made:
        redo()
        copies.wait()
        for got, wanted in zip(targets, weights(again), strict=True):
            assert torch.equal(got, wanted.cpu())


def test_any_view_and_dtype():
    base = torch.arange(24.0).view(4, 6).to(DEVICE)
    numbers = torch.tensor([1 + 2j, 3 - 4j]).to(DEVICE)
    sources = [
        base.t(),
        base[1:3, ::2],
        base[0, 0].expand(3, 2),
        base.bfloat16(),
        base > 3,
        base[:0],
        torch.zeros(5, device=DEVICE),
        numbers.conj(),
        numbers.conj().imag,
    ]
    targets = [torch.full(one.shape, 7).to(one.dtype) for one in sources]
    copies = HostCopies(sources, targets)
    base += 1
    numbers *= 2
    copies.wait()
    base -= 1
    numbers /= 2
    for source, target in zip(sources, targets, strict=True):
        assert torch.equal(source.cpu(), target)


def test_what_cannot_be_copied_is_said_before_anything_is():
    source, target = torch.ones(2, 3, device=DEVICE), torch.zeros(2, 3)
    for sources, targets, words in [
        ([source, source.cpu()], [target, target], "source 1 is on cpu"),
        ([source, source], [target, target.t()], "target 1 is no dense tensor"),
        ([source, source], [target, target.double()], "target 1 is no dense tensor"),
        ([source], [], "1 sources and 0 targets"),
    ]:
        with pytest.raises(RuntimeError, match=words):
            HostCopies(sources, targets)
    assert target.eq(0).all()


def test_an_operation_that_fails_is_told_by_the_wait():
    index = torch.tensor([7], device=DEVICE)
    value = torch.ones(3, device=DEVICE)[index]
    copies = HostCopies([value], [torch.zeros(1)])
    with pytest.raises(RuntimeError, match="out of"):
        copies.wait()
    with pytest.raises(IndexError, match="out of"):
        torchacc.sync()


class Runtime:
    """As much of CUDA's runtime as pins memory; `registered` are bytes by their addresses."""

    cudaError = types.SimpleNamespace(success=0)  # noqa: N815

    def __init__(self):
        self.registered = {}

    def cudaHostRegister(self, start, size, flags):  # noqa: N802
        others = self.registered.items()
        if any(start < other + its and other < start + size for other, its in others):
            return 712
        self.registered[start] = size
        return 0

    def cudaHostUnregister(self, start):  # noqa: N802
        del self.registered[start]


def test_memory_that_was_pinned_is_let_go(tmp_path, monkeypatch):
    """What is mapped to the same addresses later could not be pinned, and that failure would be
    told to whoever uses the GPU next."""
    runtime = Runtime()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    slot = Slot(tmp_path / "0.0", 0)
    for size in (4096, 4096, 8192, 100):
        slot.open(size)
        assert list(runtime.registered.values()) == [size]
    slot.close()
    assert not runtime.registered
    slot = Slot(None, 0)
    slot.open(4096)
    assert runtime.registered
    del slot
    gc.collect()
    assert not runtime.registered


def test_memory_that_cannot_be_pinned_is_used_as_it_is(tmp_path, monkeypatch):
    runtime = Runtime()
    runtime.registered[0] = 1 << 63
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    slot = Slot(tmp_path / "0.0", 0)
    assert slot.open(100).fill_(7).sum() == 700
    slot.close()
    assert runtime.registered == {0: 1 << 63}
