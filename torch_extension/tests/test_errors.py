"""Shape errors raise where the operation is written; value errors at the next read or sync."""

import inspect
import pathlib

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, assert_same, check, twins

IMMEDIATE = {
    "mm": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "add": lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
    "dtype": lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, dtype=torch.int64, device=d),
    "cat": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 2, device=d)]),
    "view": lambda d: torch.ones(2, 3, device=d).view(5),
    "linear": lambda d: nn.functional.linear(
        torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)
    ),
    "in-place result type": lambda d: torch.ones(2, dtype=torch.int64, device=d).add_(1.5),
    "in-place product of integers and a float": lambda d: (
        torch.ones(2, 3, device=d).long().mul_(2.5)
    ),
    "in-place quotient of integers": lambda d: torch.ones(2, 3, device=d).int().div_(2),
    "in-place product of bools and integers": lambda d: torch.ones(2, device=d).bool().mul_(2),
    "in-place product of bools and floats": lambda d: (
        torch.ones(2, 3, device=d).bool().mul_(torch.ones(3, device=d))
    ),
    "in-place product of floats and a complex number": lambda d: torch.ones(2, device=d).mul_(1j),
    "in-place sum with a float step": lambda d: (
        torch.ones(2, 3, device=d).long().add_(1, alpha=1.5)
    ),
    "index_add_ of floats": lambda d: (
        torch.ones(2, device=d)
        .long()
        .index_add_(0, torch.zeros(1, dtype=torch.int64, device=d), torch.ones(1, device=d))
    ),
    "index": lambda d: torch.ones(2, device=d)[3],
    "layer_norm": lambda d: nn.functional.layer_norm(torch.ones(2, 3, device=d), (4,)),
    "cross_entropy": lambda d: nn.functional.cross_entropy(
        torch.ones(2, 3, device=d), torch.zeros(4, dtype=torch.int64, device=d)
    ),
}


@pytest.mark.parametrize("name", IMMEDIATE)
def test_mismatch_raises_at_once_in_pytorchs_words(name):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        IMMEDIATE[name]("cpu")
    with pytest.raises(expected.type) as actual:
        IMMEDIATE[name](DEVICE)
    assert message(actual) == message(expected)
    assert (torch.ones(2, device=DEVICE) + 1).tolist() == [2, 2]


def message(error):
    return str(error.value).splitlines()[0]


def test_devices_do_not_mix():
    acc, cpu = torch.ones(2, 2, device=DEVICE), torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        acc + cpu
    with pytest.raises(RuntimeError, match="same device"):
        cpu @ acc
    assert (acc + torch.tensor(1.0)).sum().item() == 8  # a number in a tensor may come from the CPU


def lookup_out_of_range():
    """A lookup whose index only the run can see is wrong, and the line it was written at."""
    table = torch.ones(4, 2, device=DEVICE)
    index = torch.tensor([7], device=DEVICE)
    line = inspect.currentframe().f_lineno + 1
    rows = nn.functional.embedding(index, table)
    return rows, f"{__file__.rsplit('/', 1)[-1]}:{line}"


def test_late_error_at_read_names_operator_and_line():
    kept = torch.ones(2, device=DEVICE) * 3
    rows, place = lookup_out_of_range()
    with pytest.raises((IndexError, RuntimeError)) as error:
        rows.cpu()
    assert "embedding" in str(error.value)
    assert place in str(error.value)
    assert kept.tolist() == [3, 3]
    assert (torch.ones(2, device=DEVICE) + 1).tolist() == [2, 2]


def test_late_error_at_sync_names_operator_and_line():
    rows, place = lookup_out_of_range()
    with pytest.raises((IndexError, RuntimeError)) as error:
        torchacc.sync()
    assert "embedding" in str(error.value)
    assert place in str(error.value)
    del rows
    torchacc.sync()  # reported once


def test_late_error_reaches_what_depends_on_it():
    rows, place = lookup_out_of_range()
    total = (rows * 2).sum()
    torchacc.cut()
    with pytest.raises((IndexError, RuntimeError), match=place):
        total.item()
    with pytest.raises((IndexError, RuntimeError), match=place):
        (total + 1).item()


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD], ids=lambda k: k.__name__)
def test_failed_step_leaves_the_parameters(kind):
    cpu, acc = twins(lambda: nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3)))
    optimizers = [kind(m.parameters(), lr=0.1, weight_decay=0.1) for m in (cpu, acc)]

    def step(model, optimizer, index):
        optimizer.zero_grad()
        model(index).square().sum().backward()
        optimizer.step()

    good = torch.tensor([0, 3, 4])
    step(cpu, optimizers[0], good)
    step(acc, optimizers[1], good.to(DEVICE))
    torchacc.sync()

    step(acc, optimizers[1], torch.tensor([0, 3, 5], device=DEVICE))
    with pytest.raises((IndexError, RuntimeError), match="embedding"):
        torchacc.sync()
    assert_same(list(acc.parameters()), list(cpu.parameters()), 1e-4, 1e-5)
    if kind is torch.optim.AdamW:
        return  # its step count does not depend on the loss, so it has counted the failed step

    step(cpu, optimizers[0], good)
    step(acc, optimizers[1], good.to(DEVICE))
    assert_same(list(acc.parameters()), list(cpu.parameters()), 1e-4, 1e-5)


def test_target_out_of_range():
    logits = torch.zeros(2, 3, device=DEVICE)
    loss = nn.functional.cross_entropy(logits, torch.tensor([0, 9], device=DEVICE))
    with pytest.raises((IndexError, RuntimeError)) as error:
        loss.item()
    assert "test_errors.py:" in str(error.value)


def test_a_part_of_a_number_has_no_gradient():
    for device in ("cpu", DEVICE):
        grad = torch.ones((), device=device)
        with pytest.raises(IndexError, match="0-dim"):
            torch.ops.aten.select_backward(grad, [], 0, 0)
        with pytest.raises(IndexError, match="0-dim"):
            torch.ops.aten.slice_backward(grad, [], 0, 0, 1, 1)


@pytest.mark.parametrize("values", [[-1], [-3, -2], [0, 2, -1]], ids=str)
def test_negative_classes_have_no_place(values):
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match="Class values must be non-negative"):
            nn.functional.one_hot(torch.tensor(values, device=device))


@pytest.mark.parametrize("values", [[-1], [2, 3]], ids=str)
def test_classes_beyond_their_number_are_refused_where_they_are_read(values):
    """As on CUDA: the host does not ask."""
    cuts = torchacc.metrics()["cuts"]
    classes = nn.functional.one_hot(torch.tensor(values, device=DEVICE), 3)
    assert torchacc.metrics()["cuts"] == cuts
    with pytest.raises(IndexError, match="out of bounds for dimension 1 with size 3"):
        classes.cpu()


def test_one_hot_says_what_else_is_wrong():
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match="LongTensor"):
            nn.functional.one_hot(torch.ones(2, device=device))
        with pytest.raises(RuntimeError, match="from empty tensor"):
            nn.functional.one_hot(torch.ones(0, device=device).long())
        with pytest.raises(RuntimeError):
            nn.functional.one_hot(torch.zeros(2, device=device).long(), 0)
    for x, count in (([2, 0], -1), ([[1], [3]], -1), ([2, 0], 4)):
        check(nn.functional.one_hot, torch.tensor(x), count)


@pytest.mark.parametrize("wrong", ["input", "target"])
@pytest.mark.parametrize("number", [1.5, -0.25, float("nan")])
def test_what_is_no_probability_has_no_cross_entropy(wrong, number):
    for device in ("cpu", DEVICE):
        x, y = torch.tensor([[0.5, number], [1.0, 0.0]], device=device)
        x, y = (y, x) if wrong == "target" else (x, y)
        if wrong == "input":
            x.requires_grad_()
        with pytest.raises(RuntimeError, match=f"all elements of {wrong} should be between 0 and"):
            nn.functional.binary_cross_entropy(x, y).item()


def test_allocation_failure_is_late_and_alone():
    kept = torch.ones(3, device=DEVICE)
    line = inspect.currentframe().f_lineno + 1
    huge = torch.empty(1 << 40, device=DEVICE) + 1  # 4 TiB
    doubled = kept * 2
    with pytest.raises(RuntimeError, match="allocate 4398046511104 bytes") as error:
        huge[:2].cpu()
    assert f"test_errors.py:{line}" in str(error.value)
    assert (kept.tolist(), doubled.tolist()) == ([1, 1, 1], [2, 2, 2])
    torchacc.sync()


def test_late_error_of_a_cpu_fallback():
    singular = torch.zeros(2, 2, device=DEVICE)
    with pytest.raises(RuntimeError, match="singular"):
        torch.linalg.inv(singular).cpu()


def test_a_program_without_memory_says_what_takes_it():
    """What is wanted, by which lines; what does not depend on it goes on."""
    if pathlib.Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "1":
        pytest.skip("this system promises memory that it does not have")
    x, y = torch.ones(1 << 19, 1, device=DEVICE), torch.ones(1, 1 << 19, device=DEVICE)
    small = x[:3] + 1
    line = inspect.currentframe().f_lineno + 1
    product = x @ y
    total = torch.tanh(product).t() @ x
    with pytest.raises(torch.OutOfMemoryError) as error:
        total[0].item()
    said = str(error.value)
    assert "TiB  f32[524288,524288]: aten::mm, " in said
    assert f"{pathlib.Path(__file__).name}:{line}" in said
    assert "<site" not in said
    assert "To want less" in said
    assert small.flatten().tolist() == [2, 2, 2]
